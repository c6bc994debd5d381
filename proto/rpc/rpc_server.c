/* The parts of a server common to all transports: counting live objects, unary requests and
 * replies, and an orderly stop.
 *
 * Stop: no new calls; a grace period for those in progress; then each loop ends its remaining ones
 * with E_UNAVAILABLE; the transport is freed when nothing is live. A unary call whose handler has
 * not answered by then is detached from the server: its struct waits for the reply, which is
 * dropped. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "proto/rpc/rpc_transport.h"

#define STOP_FLUSH_MS 200u /* for the last statuses to reach clients before connections are cut */

static void server_destroy(struct rpc_server *s)
{
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->live_changed);
	free(s->slots);
	s->rpc->ops->server_destroy(s);
}

weir_status rpc_server_start(struct rpc_server **out, struct rpc *rpc, const char *address, struct rpc_loop *const *loops,
                             uint32_t loops_count, const struct rpc_service *service, void *ctx, weir_error *err)
{
	assert(loops_count > 0);
	*out = NULL;
	if (strlen(address) >= WEIR_ADDRESS_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "address '%.40s...': longer than %u bytes", address, WEIR_ADDRESS_BYTES_MAX - 1);
	struct rpc_server *s = rpc->ops->server_create(rpc);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", address);
	s->rpc = rpc;
	s->service = *service;
	s->ctx = ctx;
	memcpy(s->address, address, strlen(address) + 1);
	pthread_mutex_init(&s->lock, NULL);
	deadline_cond_init(&s->live_changed);
	s->slots = calloc(loops_count, sizeof *s->slots);
	if (!s->slots) {
		server_destroy(s);
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", address);
	}
	s->slots_count = loops_count;
	for (uint32_t i = 0; i < loops_count; i++) {
		s->slots[i].server = s;
		s->slots[i].loop = loops[i];
		rpc_link_init(&s->slots[i].calls);
		rpc_link_init(&s->slots[i].streams);
	}
	weir_status status = rpc->ops->server_start(s, address, err);
	if (status)
		server_destroy(s);
	else
		*out = s;
	return status;
}

const char *rpc_server_address(const struct rpc_server *server)
{
	return server->address;
}

uint64_t rpc_server_connections(const struct rpc_server *server)
{
	/* The lock is exempt from the const. */
	struct rpc_server *s = (struct rpc_server *)(uintptr_t)server;
	uint64_t most = 0;
	pthread_mutex_lock(&s->lock);
	for (int m = 0; m < RPC_METHODS; m++)
		if (s->streams[m] > most)
			most = s->streams[m];
	pthread_mutex_unlock(&s->lock);
	return most;
}

bool rpc_server_enter(struct rpc_server *s, enum rpc_method method)
{
	bool stream = rpc_method_is_stream(method);
	pthread_mutex_lock(&s->lock);
	bool enter = !s->stopping && !(stream && s->streams[method] >= WEIR_CONNECTIONS_MAX);
	s->live += enter;
	s->streams[method] += enter && stream;
	pthread_mutex_unlock(&s->lock);
	return enter;
}

void rpc_server_leave(struct rpc_server *s, enum rpc_method method)
{
	pthread_mutex_lock(&s->lock);
	assert(s->live > 0);
	s->live--;
	s->streams[method] -= rpc_method_is_stream(method);
	if (!s->live)
		pthread_cond_signal(&s->live_changed);
	pthread_mutex_unlock(&s->lock);
}

static void end_slot(void *arg)
{
	struct rpc_server_slot *slot = arg;
	for (struct rpc_link *l = slot->streams.next; l != &slot->streams; l = l->next)
		rpc_stream_cancel((struct rpc_stream *)l, WEIR_E_UNAVAILABLE, "the server is stopping");
	for (struct rpc_link *l = slot->calls.next, *next; l != &slot->calls; l = next) {
		next = l->next;
		rpc_call_abort((struct rpc_call *)l);
	}
	rpc_server_leave(slot->server, RPC_STATUS);
}

static void wait_idle(struct rpc_server *s, uint32_t grace_ms)
{
	const int64_t deadline_ns = deadline_after_ms(grace_ms);
	while (s->live && deadline_wait(&s->live_changed, &s->lock, deadline_ns))
		;
}

void rpc_server_stop(struct rpc_server *server, uint32_t grace_ms)
{
	if (!server)
		return;
	for (uint32_t i = 0; i < server->slots_count; i++)
		assert(!rpc_loop_is_current(server->slots[i].loop));
	pthread_mutex_lock(&server->lock);
	server->stopping = true;
	pthread_mutex_unlock(&server->lock);
	server->rpc->ops->server_close(server);
	pthread_mutex_lock(&server->lock);
	wait_idle(server, grace_ms);
	server->live += server->slots_count; /* each loop must end its calls and streams */
	pthread_mutex_unlock(&server->lock);
	for (uint32_t i = 0; i < server->slots_count; i++)
		rpc_loop_post(server->slots[i].loop, end_slot, &server->slots[i]);
	pthread_mutex_lock(&server->lock);
	wait_idle(server, STOP_FLUSH_MS);
	pthread_mutex_unlock(&server->lock);
	server->rpc->ops->server_cut(server);
	pthread_mutex_lock(&server->lock);
	while (server->live)
		pthread_cond_wait(&server->live_changed, &server->lock);
	pthread_mutex_unlock(&server->lock);
	server_destroy(server);
}

/* --- Unary requests */

enum rpc_method rpc_call_method(const struct rpc_call *call)
{
	return call->method;
}
struct rpc_loop *rpc_call_loop(const struct rpc_call *call)
{
	return call->loop;
}

static void request_arrived(void *arg)
{
	struct rpc_call *call = arg;
	struct rpc_server *server = call->slot->server;
	struct message *request = call->request;
	call->request = NULL;
	server->service.unary(server->ctx, call, call->method, request);
	message_release(request);
}

weir_status rpc_call_on_request(struct rpc_server_slot *slot, enum rpc_method method, void *part, struct message *request)
{
	struct rpc_call *call = malloc(sizeof *call);
	if (!call)
		return WEIR_E_MEMORY;
	*call = (struct rpc_call){.slot = slot, .loop = slot->loop, .method = method, .part = part, .start_ns = rpc_now_ns()};
	atomic_init(&call->state, RPC_CALL_LIVE);
	rpc_link_add(&slot->calls, &call->link);
	if (slot->loop->shape && !rpc_flow_in(&call->flow, slot->loop, request->bytes, request_arrived, call))
		call->request = message_retain(request);
	else
		slot->server->service.unary(slot->server->ctx, call, method, request);
	return WEIR_OK;
}

static void reply_now(void *arg)
{
	struct rpc_call *call = arg;
	rpc_note(call->slot->server->rpc, call->method, true, rpc_now_ns() - call->start_ns);
	call->slot->server->rpc->ops->call_reply(call->part, call->status, call->text ? call->text : "", call->reply);
	free(call->text);
	free(call);
}

/* Statuses of malformed requests. Such a client waits for nothing, and must not retry at once. */
static bool is_malformed(weir_status status)
{
	return status == WEIR_E_CORRUPT || status == WEIR_E_VERSION || status == WEIR_E_LIMIT;
}

static void reply_on_loop(void *arg)
{
	struct rpc_call *call = arg;
	rpc_link_remove(&call->link);
	const size_t bytes = call->reply ? call->reply->bytes : 0;
	if (is_malformed(call->status))
		rpc_timer_set(call->loop, &call->late, rpc_now_ns() + WEIR_REFUSAL_MS * 1000000ll, reply_now, call);
	else if (!call->loop->shape || rpc_flow_out(&call->flow, call->loop, bytes, reply_now, call))
		reply_now(call);
}

void rpc_call_peer(struct rpc_call *call, struct rpc_peer *out)
{
	*out = (struct rpc_peer){0};
	if (call->slot->server->rpc->ops->call_peer)
		call->slot->server->rpc->ops->call_peer(call->part, out);
}

void rpc_call_reply(struct rpc_call *call, weir_status status, const char *text, struct message *reply)
{
	assert(status != WEIR_OK || reply);
	if (status == WEIR_OK && reply->bytes > WEIR_MESSAGE_BYTES_MAX) {
		status = WEIR_E_LIMIT;
		text = "the reply is larger than a message may be";
	}
	if (status != WEIR_OK) {
		message_release(reply);
		reply = NULL;
	}
	int live = RPC_CALL_LIVE;
	if (!atomic_compare_exchange_strong(&call->state, &live, RPC_CALL_REPLIED)) {
		message_release(reply);
		free(call);
		return;
	}
	call->status = status;
	call->text = status && text ? strdup(text) : NULL;
	call->reply = reply;
	if (rpc_loop_is_current(call->loop))
		reply_on_loop(call);
	else
		rpc_loop_post(call->loop, reply_on_loop, call);
}

void rpc_call_abort(struct rpc_call *call)
{
	int live = RPC_CALL_LIVE;
	void *part = call->part;
	const struct rpc_ops *ops = call->slot->server->rpc->ops;
	rpc_link_remove(&call->link);
	if (call->request) { /* its handler has not been called */
		rpc_flow_stop(&call->flow);
		message_release(call->request);
		free(call);
		ops->call_reply(part, WEIR_E_UNAVAILABLE, "the server is stopping", NULL);
	} else if (atomic_compare_exchange_strong(&call->state, &live, RPC_CALL_ABORTED))
		ops->call_reply(part, WEIR_E_UNAVAILABLE, "the server is stopping", NULL);
}
