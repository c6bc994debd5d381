/* Remote calls inside one process, with the same guarantees as the gRPC transport (order, one
 * message in flight per stream, deadlines, closing). Stream messages are copied between loops;
 * requests are passed by reference. For tests and sanitizers.
 *
 * Both ends of a stream are one allocation, a pair. A delivery carries an event between loops: a
 * posted task that keeps the pair alive. An end sends its next message when the other has taken the
 * last one, so a paused receiver stops its sender. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "proto/rpc/rpc_transport.h"

struct memory_rpc {
	struct rpc base;
	pthread_mutex_t lock; /* guards servers */
	struct rpc_link servers;
};

/* --- Loops: a condition variable under the loop's lock */

struct memory_loop {
	struct rpc_loop base;
	pthread_cond_t wake;
};

static struct rpc_loop *memory_loop_create(struct rpc *rpc)
{
	(void)rpc;
	struct memory_loop *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	deadline_cond_init(&l->wake);
	return &l->base;
}

static void memory_loop_wait(struct rpc_loop *loop, int64_t timeout_ns)
{
	struct memory_loop *l = (struct memory_loop *)loop;
	if (timeout_ns == 0)
		return;
	const int64_t deadline_ns = deadline_after_ns(timeout_ns);
	pthread_mutex_lock(&loop->lock);
	while (loop->waiting && deadline_wait(&l->wake, &loop->lock, deadline_ns))
		;
	pthread_mutex_unlock(&loop->lock);
}

static void memory_loop_wake(struct rpc_loop *loop)
{
	pthread_cond_signal(&((struct memory_loop *)loop)->wake);
}
static void memory_loop_finish(struct rpc_loop *loop)
{
	(void)loop;
}

static void memory_loop_destroy(struct rpc_loop *loop)
{
	struct memory_loop *l = (struct memory_loop *)loop;
	pthread_cond_destroy(&l->wake);
	free(l);
}

/* --- Servers: found by address */

struct memory_server {
	struct rpc_server base;
	struct rpc_link link; /* in memory_rpc.servers */
	atomic_uint next_slot;
};

static struct memory_server *server_of(struct rpc_link *l)
{
	return (struct memory_server *)(void *)((char *)l - offsetof(struct memory_server, link));
}

static struct memory_server *find_server(struct memory_rpc *rpc, const char *address)
{
	for (struct rpc_link *l = rpc->servers.next; l != &rpc->servers; l = l->next)
		if (strcmp(server_of(l)->base.address, address) == 0)
			return server_of(l);
	return NULL;
}

/* Enters a slot of the server at this address; NULL: no server. */
static struct rpc_server_slot *enter_server(struct rpc *rpc, const char *address, enum rpc_method method)
{
	struct memory_rpc *r = (struct memory_rpc *)rpc;
	struct rpc_server_slot *slot = NULL;
	pthread_mutex_lock(&r->lock);
	struct memory_server *s = find_server(r, address);
	if (s && rpc_server_enter(&s->base, method))
		slot = &s->base.slots[atomic_fetch_add(&s->next_slot, 1) % s->base.slots_count];
	pthread_mutex_unlock(&r->lock);
	return slot;
}

static struct rpc_server *memory_server_create(struct rpc *rpc)
{
	(void)rpc;
	struct memory_server *s = calloc(1, sizeof *s);
	if (s)
		rpc_link_init(&s->link);
	return s ? &s->base : NULL;
}

static weir_status memory_server_start(struct rpc_server *server, const char *address, weir_error *err)
{
	struct memory_rpc *r = (struct memory_rpc *)server->rpc;
	if (strncmp(address, "memory:", 7) != 0)
		return weir_fail(err, WEIR_E_INVALID, "address '%s': expected memory:NAME", address);
	pthread_mutex_lock(&r->lock);
	bool taken = find_server(r, address) != NULL;
	if (!taken)
		rpc_link_add(&r->servers, &((struct memory_server *)server)->link);
	pthread_mutex_unlock(&r->lock);
	return taken ? weir_fail(err, WEIR_E_EXISTS, "%s: in use by another server; stop it or choose another address", address)
	             : WEIR_OK;
}

static void memory_server_close(struct rpc_server *server)
{
	struct memory_rpc *r = (struct memory_rpc *)server->rpc;
	pthread_mutex_lock(&r->lock);
	rpc_link_remove(&((struct memory_server *)server)->link);
	pthread_mutex_unlock(&r->lock);
}

/* Nothing to cut: each end of a stream has been told to close. */
static void memory_server_cut(struct rpc_server *server)
{
	(void)server;
}

static void memory_server_destroy(struct rpc_server *server)
{
	free((struct memory_server *)server);
}

/* --- Channels */

static struct rpc_channel *memory_channel_create(struct rpc *rpc)
{
	(void)rpc;
	return calloc(1, sizeof(struct rpc_channel));
}

static weir_status memory_channel_open(struct rpc_channel *channel, weir_error *err)
{
	if (strncmp(channel->address, "memory:", 7) != 0)
		return weir_fail(err, WEIR_E_INVALID, "address '%s': expected memory:NAME", channel->address);
	return WEIR_OK;
}

static void memory_channel_destroy(struct rpc_channel *channel)
{
	free(channel);
}

/* Writes "ADDRESS METHOD: detail", the text of every transport failure. */
static void failure_text(char *out, size_t size, const char *address, enum rpc_method method, const char *detail)
{
	snprintf(out, size, "%s %s: %s", address, rpc_method_path(method), detail);
}

/* --- Unary calls. The client's attempt and the server's part share an exchange; the last to drop
 * it frees it. */

struct exchange {
	atomic_uint refs;
	struct rpc_client_call *call; /* client's loop only; NULL once the attempt is over */
	/* Read by the server under lock; NULL once the attempt is over, as the loop may be gone. */
	struct rpc_loop *client_loop;
	pthread_mutex_t lock;
	struct rpc_timer deadline;
	struct rpc_server_slot *slot;
	enum rpc_method method;
	struct message *request, *reply;
	weir_status status;
	char address[WEIR_ADDRESS_BYTES_MAX];
	char text[WEIR_ERROR_TEXT_BYTES];
};

static void exchange_drop(struct exchange *x)
{
	if (atomic_fetch_sub(&x->refs, 1) != 1)
		return;
	message_release(x->request);
	message_release(x->reply);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

/* Ends the attempt unless it has ended. */
static void attempt_end(struct exchange *x, weir_status status, const char *text)
{
	struct rpc_client_call *call = x->call;
	if (!call)
		return;
	x->call = NULL;
	rpc_timer_clear(x->client_loop, &x->deadline);
	pthread_mutex_lock(&x->lock);
	x->client_loop = NULL;
	pthread_mutex_unlock(&x->lock);
	rpc_call_on_finish(call, status, text, false, status ? NULL : x->reply);
	exchange_drop(x);
}

static void attempt_deadline(void *arg)
{
	struct exchange *x = arg;
	char text[WEIR_ERROR_TEXT_BYTES];
	failure_text(text, sizeof text, x->address, x->method, "the deadline passed");
	attempt_end(x, WEIR_E_TIMEOUT, text);
}

static void client_gets_reply(void *arg)
{
	struct exchange *x = arg;
	attempt_end(x, x->status, x->text);
	exchange_drop(x);
}

static void memory_call_reply(void *part, weir_status status, const char *text, struct message *reply)
{
	struct exchange *x = part;
	x->status = status;
	x->reply = reply;
	if (status == WEIR_E_UNAVAILABLE)
		failure_text(x->text, sizeof x->text, x->address, x->method, text);
	else
		snprintf(x->text, sizeof x->text, "%s", text);
	struct rpc_server *server = x->slot->server;
	enum rpc_method method = x->method;
	pthread_mutex_lock(&x->lock);
	bool waited_for = x->client_loop != NULL;
	if (waited_for)
		rpc_loop_post(x->client_loop, client_gets_reply, x);
	pthread_mutex_unlock(&x->lock);
	if (!waited_for)
		exchange_drop(x);
	rpc_server_leave(server, method);
}

static void server_gets_request(void *arg)
{
	struct exchange *x = arg;
	if (rpc_call_on_request(x->slot, x->method, x, x->request))
		memory_call_reply(x, WEIR_E_MEMORY, "the server is out of memory", NULL);
}

static void memory_attempt_start(struct rpc_client_call *call, int64_t timeout_ns)
{
	struct exchange *x = calloc(1, sizeof *x);
	if (!x) {
		rpc_call_on_finish(call, WEIR_E_MEMORY, "out of memory for a call", false, NULL);
		return;
	}
	atomic_init(&x->refs, 1);
	pthread_mutex_init(&x->lock, NULL);
	x->call = call;
	x->client_loop = call->channel->loop;
	x->method = call->method;
	x->request = message_retain(call->request);
	memcpy(x->address, call->channel->address, sizeof x->address);
	call->attempt = x;
	rpc_timer_set(x->client_loop, &x->deadline, rpc_now_ns() + timeout_ns, attempt_deadline, x);
	x->slot = enter_server(call->channel->rpc, x->address, x->method);
	if (x->slot) {
		atomic_fetch_add(&x->refs, 1);
		rpc_loop_post(x->slot->loop, server_gets_request, x);
		return;
	}
	x->status = WEIR_E_UNAVAILABLE;
	failure_text(x->text, sizeof x->text, x->address, x->method, "no server at this address");
	atomic_fetch_add(&x->refs, 1);
	rpc_loop_post(x->client_loop, client_gets_reply, x);
}

static void memory_attempt_cancel(struct rpc_client_call *call)
{
	attempt_end(call->attempt, WEIR_E_CANCELLED, "cancelled");
}

/* --- Streams */

struct memory_stream {
	struct rpc_stream base;
	struct memory_pair *pair;
	bool open;              /* on_closed has not run */
	struct rpc_loop *inbox; /* destination of deliveries; NULL once closed, as the loop may be gone */
	bool reading;           /* may deliver the next message */
	struct message *held;   /* arrived while not reading */
};
struct memory_pair {
	struct memory_stream client, server;
	pthread_mutex_t lock; /* guards `inbox` of both ends */
	atomic_uint refs;     /* one per open end and per delivery */
	char address[WEIR_ADDRESS_BYTES_MAX];
};
struct delivery {
	struct memory_stream *to;
	void (*deliver)(struct delivery *p);
	struct message *message;
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
};

static struct memory_stream *other_end(struct memory_stream *s)
{
	return s == &s->pair->client ? &s->pair->server : &s->pair->client;
}

static void pair_drop(struct memory_pair *p)
{
	if (atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static void delivery_run(void *arg)
{
	struct delivery *p = arg;
	struct memory_pair *pair = p->to->pair;
	if (p->to->open)
		p->deliver(p);
	message_release(p->message);
	free(p);
	pair_drop(pair);
}

static void delivery_post(struct memory_stream *to, void (*deliver)(struct delivery *p), struct message *m, weir_status status,
                          const char *text)
{
	struct delivery *p = malloc(sizeof *p);
	assert(p && "out of memory"); /* the end of a stream must not get lost; only tests reach this */
	*p = (struct delivery){.to = to, .deliver = deliver, .message = m, .status = status};
	snprintf(p->text, sizeof p->text, "%s", text);
	struct memory_pair *pair = to->pair;
	pthread_mutex_lock(&pair->lock);
	bool open = to->inbox != NULL;
	if (open) {
		atomic_fetch_add(&pair->refs, 1);
		rpc_loop_post(to->inbox, delivery_run, p);
	}
	pthread_mutex_unlock(&pair->lock);
	if (!open) {
		message_release(m);
		free(p);
	}
}

static void inbox_set(struct memory_stream *s, struct rpc_loop *loop)
{
	pthread_mutex_lock(&s->pair->lock);
	s->inbox = loop;
	pthread_mutex_unlock(&s->pair->lock);
}

static void deliver_sent(struct delivery *p)
{
	rpc_stream_on_sent(&p->to->base);
}
static void deliver_half_close(struct delivery *p)
{
	rpc_stream_on_half_close(&p->to->base);
}

static void deliver_closed(struct delivery *p)
{
	struct memory_stream *s = p->to;
	struct rpc_server *server = s->base.slot ? s->base.slot->server : NULL;
	s->open = false;
	inbox_set(s, NULL);
	message_release(s->held);
	s->held = NULL;
	rpc_stream_on_closed(&s->base, p->status, p->text);
	if (server)
		rpc_server_leave(server, s->base.method);
	pair_drop(s->pair); /* the delivery still holds a reference */
}

/* Delivers the held message to the stream and lets the other end send its next one. */
static void deliver_held(struct memory_stream *s)
{
	struct message *m = s->held;
	s->held = NULL;
	s->reading = false;
	delivery_post(other_end(s), deliver_sent, NULL, WEIR_OK, "");
	rpc_stream_on_message(&s->base, m);
	message_release(m);
}

static void deliver_message(struct delivery *p)
{
	struct memory_stream *s = p->to;
	s->held = p->message;
	p->message = NULL;
	if (s->reading)
		deliver_held(s);
}

static void deliver_read(struct delivery *p)
{
	struct memory_stream *s = p->to;
	s->reading = true;
	if (s->held)
		deliver_held(s);
}

static void deliver_open(struct delivery *p)
{
	struct memory_stream *s = p->to;
	s->reading = true;
	rpc_stream_on_open(&s->base, s->base.slot, s->base.method);
	delivery_post(other_end(s), deliver_sent, NULL, WEIR_OK, "");
}

static struct rpc_stream *memory_stream_create(struct rpc_channel *channel)
{
	struct memory_pair *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	memcpy(p->address, channel->address, sizeof p->address);
	p->client.pair = p->server.pair = p;
	p->client.open = p->client.reading = true;
	p->client.inbox = channel->loop;
	pthread_mutex_init(&p->lock, NULL);
	atomic_init(&p->refs, 1);
	return &p->client.base;
}

static void memory_stream_start(struct rpc_stream *stream)
{
	struct memory_stream *client = (struct memory_stream *)stream, *server = other_end(client);
	char text[WEIR_ERROR_TEXT_BYTES];
	struct rpc_server_slot *slot = enter_server(stream->rpc, client->pair->address, stream->method);
	if (!slot) {
		failure_text(text, sizeof text, client->pair->address, stream->method, "no server at this address");
		delivery_post(client, deliver_closed, NULL, WEIR_E_UNAVAILABLE, text);
		return;
	}
	server->base.slot = slot;
	server->base.loop = slot->loop;
	server->base.method = stream->method;
	server->open = true;
	atomic_fetch_add(&client->pair->refs, 1);
	inbox_set(server, slot->loop);
	delivery_post(server, deliver_open, NULL, WEIR_OK, "");
}

/* The receiver gets a copy, as over a network: the sender can reuse its memory once the message is
 * sent, however long the receiver keeps the copy. */
static struct message *copy_of(const struct message *m)
{
	uint8_t *to;
	struct message *copy = message_alloc(m->bytes, &to);
	for (uint32_t i = 0; copy && i < m->count; to += m->spans[i++].size)
		memcpy(to, m->spans[i].data, m->spans[i].size);
	return copy;
}

static void memory_stream_transmit(struct rpc_stream *stream, struct message *m)
{
	struct message *copy = copy_of(m);
	message_release(m);
	if (copy)
		delivery_post(other_end((struct memory_stream *)stream), deliver_message, copy, WEIR_OK, "");
	else
		rpc_stream_cancel(stream, WEIR_E_MEMORY, "out of memory for a message");
}

static void memory_stream_read(struct rpc_stream *stream)
{
	struct memory_stream *s = (struct memory_stream *)stream;
	if (s->held)
		delivery_post(s, deliver_read, NULL, WEIR_OK, "");
	else
		s->reading = true;
}

static void memory_stream_half_close(struct rpc_stream *stream)
{
	struct memory_stream *s = (struct memory_stream *)stream, *peer = other_end(s);
	if (s == &s->pair->client) {
		delivery_post(peer, deliver_half_close, NULL, WEIR_OK, "");
		return;
	}
	delivery_post(peer, deliver_closed, NULL, WEIR_OK, "");
	delivery_post(s, deliver_closed, NULL, WEIR_OK, "");
}

static void memory_stream_cancel(struct rpc_stream *stream, weir_status status, const char *text)
{
	struct memory_stream *s = (struct memory_stream *)stream, *peer = other_end(s);
	bool client = s == &s->pair->client;
	delivery_post(s, deliver_closed, NULL, status, text);
	char full[WEIR_ERROR_TEXT_BYTES];
	failure_text(full, sizeof full, s->pair->address, stream->method, text);
	delivery_post(peer, deliver_closed, NULL, client ? WEIR_E_CANCELLED : status,
	              client || status != WEIR_E_UNAVAILABLE ? text : full);
}

/* --- The transport */

static void memory_destroy(struct rpc *rpc)
{
	struct memory_rpc *r = (struct memory_rpc *)rpc;
	assert(rpc_link_empty(&r->servers));
	pthread_mutex_destroy(&r->lock);
	free(r);
}

struct rpc *rpc_memory_create(struct logger *logger)
{
	static const struct rpc_ops ops = {
	    .loop_create = memory_loop_create,
	    .loop_wait = memory_loop_wait,
	    .loop_wake = memory_loop_wake,
	    .loop_finish = memory_loop_finish,
	    .loop_destroy = memory_loop_destroy,
	    .server_create = memory_server_create,
	    .server_start = memory_server_start,
	    .server_close = memory_server_close,
	    .server_cut = memory_server_cut,
	    .server_destroy = memory_server_destroy,
	    .call_reply = memory_call_reply,
	    .channel_create = memory_channel_create,
	    .channel_open = memory_channel_open,
	    .channel_destroy = memory_channel_destroy,
	    .attempt_start = memory_attempt_start,
	    .attempt_cancel = memory_attempt_cancel,
	    .stream_create = memory_stream_create,
	    .stream_start = memory_stream_start,
	    .stream_transmit = memory_stream_transmit,
	    .stream_read = memory_stream_read,
	    .stream_half_close = memory_stream_half_close,
	    .stream_cancel = memory_stream_cancel,
	    .destroy = memory_destroy,
	};
	struct memory_rpc *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->base.ops = &ops;
	r->base.logger = logger;
	pthread_mutex_init(&r->lock, NULL);
	rpc_link_init(&r->servers);
	return &r->base;
}
