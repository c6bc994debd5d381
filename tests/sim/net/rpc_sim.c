/* The transport: loops, servers, channels and unary calls over the network; streams are in
 * stream.c. It corresponds to rpc_memory.c, except that the two ends are in different processes,
 * and messages are copied between them. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "tests/sim/net/internal.h"

/* --- Loops: a condition under the loop's lock */

struct sim_loop {
	struct rpc_loop base;
	pthread_cond_t wake;
};

static struct rpc_loop *sim_loop_create(struct rpc *rpc)
{
	(void)rpc;
	struct sim_loop *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	deadline_cond_init(&l->wake);
	return &l->base;
}

static void sim_loop_wait(struct rpc_loop *loop, int64_t timeout_ns)
{
	struct sim_loop *l = (struct sim_loop *)loop;
	if (timeout_ns == 0)
		return;
	const int64_t deadline_ns = deadline_after_ns(timeout_ns);
	pthread_mutex_lock(&loop->lock);
	while (loop->waiting && deadline_wait(&l->wake, &loop->lock, deadline_ns))
		;
	pthread_mutex_unlock(&loop->lock);
}

static void sim_loop_wake(struct rpc_loop *loop)
{
	pthread_cond_signal(&((struct sim_loop *)loop)->wake);
}
static void sim_loop_finish(struct rpc_loop *loop)
{
	(void)loop;
}

static void sim_loop_free(struct rpc_loop *loop)
{
	struct sim_loop *l = (struct sim_loop *)loop;
	pthread_cond_destroy(&l->wake);
	free(l);
}

/* --- Servers */

struct sim_server {
	struct rpc_server base;
	uint32_t next_slot;
};

static weir_status check_address(const char *address, weir_error *err)
{
	if (strncmp(address, "sim:", 4) != 0)
		return weir_fail(err, WEIR_E_INVALID, "address '%s': expected sim:NAME", address);
	return WEIR_OK;
}

static struct rpc_server *sim_server_create(struct rpc *rpc)
{
	(void)rpc;
	struct sim_server *s = calloc(1, sizeof *s);
	return s ? &s->base : NULL;
}

static weir_status sim_server_start(struct rpc_server *server, const char *address, weir_error *err)
{
	weir_status status = check_address(address, err);
	return status ? status : listener_add(address, server, err);
}

static void sim_server_close(struct rpc_server *server)
{
	listener_remove(server);
}

/* Nothing to cut: each stream end was told to close. */
static void sim_server_cut(struct rpc_server *server)
{
	(void)server;
}

static void sim_server_free(struct rpc_server *server)
{
	free((struct sim_server *)server);
}

/* --- Channels */

struct sim_channel {
	struct rpc_channel base;
	struct connection *connection; /* the latest; NULL before the first */
};

static struct rpc_channel *sim_channel_create(struct rpc *rpc)
{
	(void)rpc;
	struct sim_channel *c = calloc(1, sizeof *c);
	return c ? &c->base : NULL;
}

static weir_status sim_channel_open(struct rpc_channel *channel, weir_error *err)
{
	return check_address(channel->address, err);
}

static void sim_channel_free(struct rpc_channel *channel)
{
	struct sim_channel *c = (struct sim_channel *)channel;
	connection_leave(c->connection);
	free(c);
}

struct connection *channel_connection(struct rpc_channel *channel)
{
	struct sim_channel *c = (struct sim_channel *)channel;
	return c->connection = connection_to(c->connection, channel->address);
}

void failure_text(char *out, size_t size, const struct flow *f, const char *detail)
{
	snprintf(out, size, "%s %s: %s", f->connection ? f->connection->address : "-", rpc_method_path(f->method), detail);
}

/* --- Unary calls: the client's end */

struct attempt {
	struct flow *flow;
	struct rpc_client_call *call;
	struct rpc_loop *loop;
	struct rpc_timer deadline;
};

/* Ends the attempt and frees it. */
static void attempt_end(struct attempt *a, weir_status status, const char *text, bool silent, struct message *reply)
{
	struct rpc_client_call *call = a->call;
	rpc_timer_clear(a->loop, &a->deadline);
	flow_end(a->flow, CLIENT);
	free(a);
	rpc_call_on_finish(call, status, text, silent, reply);
}

static void attempt_deadline(void *arg)
{
	struct attempt *a = arg;
	char text[WEIR_ERROR_TEXT_BYTES];
	failure_text(text, sizeof text, a->flow, "the deadline passed");
	attempt_end(a, WEIR_E_TIMEOUT, text, false, NULL);
}

static void attempt_broken(struct attempt *a, bool silent)
{
	char text[WEIR_ERROR_TEXT_BYTES];
	failure_text(text, sizeof text, a->flow, silent ? "the peer is silent (keepalive timeout)" : "the connection is broken");
	attempt_end(a, WEIR_E_UNAVAILABLE, text, silent, NULL);
}

static void attempt_answered(struct attempt *a, const struct packet *p)
{
	struct message *reply = p->status ? NULL : packet_message(p);
	if (!p->status && !reply)
		attempt_end(a, WEIR_E_MEMORY, "out of memory for a reply", false, NULL);
	else
		attempt_end(a, p->status, packet_text(p), false, reply);
	message_release(reply);
}

static void attempt_deliver(void *object, struct packet *p)
{
	if (p->kind == PACKET_BROKEN)
		attempt_broken(object, p->status == WEIR_E_TIMEOUT);
	else
		attempt_answered(object, p);
	packet_free(p);
}

static void sim_attempt_start(struct rpc_client_call *call, int64_t timeout_ns)
{
	struct attempt *a = calloc(1, sizeof *a);
	if (!a) {
		rpc_call_on_finish(call, WEIR_E_MEMORY, "out of memory for a call", false, NULL);
		return;
	}
	a->call = call;
	a->loop = call->channel->loop;
	a->flow = flow_create(call->method, a->loop, a, attempt_deliver);
	call->attempt = a;
	rpc_timer_set(a->loop, &a->deadline, rpc_now_ns() + timeout_ns, attempt_deadline, a);
	flow_start(a->flow, channel_connection(call->channel));
	packet_send(a->flow, CLIENT, PACKET_REQUEST, WEIR_OK, NULL, call->request);
}

static void sim_attempt_cancel(struct rpc_client_call *call)
{
	attempt_end(call->attempt, WEIR_E_CANCELLED, "cancelled", false, NULL);
}

/* --- The server's end */

struct served {
	struct flow *flow;
	struct rpc_server_slot *slot;
};

static void refuse(struct packet *p)
{
	packet_send(p->flow, SERVER, PACKET_REPLY, WEIR_E_MEMORY, "the server is out of memory", NULL);
	rpc_server_leave(p->slot->server, p->flow->method);
}

static void take_request(void *arg)
{
	struct packet *p = arg;
	struct served *served = malloc(sizeof *served);
	struct message *request = served ? packet_message(p) : NULL;
	if (request)
		*served = (struct served){p->flow, p->slot};
	if (!request || rpc_call_on_request(p->slot, p->flow->method, served, request)) {
		refuse(p);
		free(served);
	}
	message_release(request);
	packet_free(p);
}

static void sim_call_reply(void *part, weir_status status, const char *text, struct message *reply)
{
	struct served *served = part;
	char full[WEIR_ERROR_TEXT_BYTES];
	struct rpc_server *server = served->slot->server;
	const enum rpc_method method = served->flow->method;
	failure_text(full, sizeof full, served->flow, text);
	packet_send(served->flow, SERVER, PACKET_REPLY, status, status == WEIR_E_UNAVAILABLE ? full : text, reply);
	message_release(reply);
	free(served);
	rpc_server_leave(server, method);
}

bool server_admit(struct rpc_server *server, struct packet *p)
{
	struct sim_server *s = (struct sim_server *)server;
	struct flow *f = p->flow;
	if (!rpc_server_enter(server, f->method)) {
		packet_free(p);
		return false;
	}
	p->slot = &server->slots[s->next_slot++ % server->slots_count];
	if (p->kind == PACKET_OPEN)
		f->end[SERVER].loop = p->slot->loop; /* a call's end gets no more packets */
	machine_for(f->connection->node[SERVER]);
	rpc_loop_post(p->slot->loop, p->kind == PACKET_OPEN ? stream_begin : take_request, p);
	machine_for(NULL);
	return true;
}

/* --- The transport */

static void sim_destroy(struct rpc *rpc)
{
	free(rpc);
}

struct rpc *rpc_sim_create(struct logger *logger)
{
	static const struct rpc_ops ops = {
	    .loop_create = sim_loop_create,
	    .loop_wait = sim_loop_wait,
	    .loop_wake = sim_loop_wake,
	    .loop_finish = sim_loop_finish,
	    .loop_destroy = sim_loop_free,
	    .server_create = sim_server_create,
	    .server_start = sim_server_start,
	    .server_close = sim_server_close,
	    .server_cut = sim_server_cut,
	    .server_destroy = sim_server_free,
	    .call_reply = sim_call_reply,
	    .channel_create = sim_channel_create,
	    .channel_open = sim_channel_open,
	    .channel_destroy = sim_channel_free,
	    .attempt_start = sim_attempt_start,
	    .attempt_cancel = sim_attempt_cancel,
	    .stream_create = sim_stream_create,
	    .stream_start = sim_stream_start,
	    .stream_transmit = sim_stream_transmit,
	    .stream_read = sim_stream_read,
	    .stream_half_close = sim_stream_half_close,
	    .stream_cancel = sim_stream_cancel,
	    .destroy = sim_destroy,
	};
	struct rpc *rpc = calloc(1, sizeof *rpc);
	if (!rpc)
		return NULL;
	rpc->ops = &ops;
	rpc->logger = logger;
	return rpc;
}
