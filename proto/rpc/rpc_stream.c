/* Either end of a stream: the send queue (the transport has one message at a time), pausing of
 * receipt, and ending exactly once. */
#include <assert.h>
#include <stdlib.h>

#include "proto/rpc/rpc_transport.h"

struct rpc_loop *rpc_stream_loop(const struct rpc_stream *stream)
{
	return stream->loop;
}

unsigned rpc_stream_role(const struct rpc_stream *stream)
{
	return stream->role;
}
size_t rpc_stream_queued(const struct rpc_stream *stream)
{
	return stream->queue_count;
}

static bool queue_push(struct rpc_stream *s, struct message *m)
{
	if (s->queue_count == s->queue_capacity) {
		uint32_t capacity = s->queue_capacity ? s->queue_capacity * 2 : 16;
		struct message **ring = malloc(capacity * sizeof *ring);
		if (!ring)
			return false;
		for (uint32_t i = 0; i < s->queue_count; i++)
			ring[i] = s->queue[(s->queue_head + i) & (s->queue_capacity - 1)];
		free(s->queue);
		s->queue = ring;
		s->queue_head = 0;
		s->queue_capacity = capacity;
	}
	s->queue[(s->queue_head + s->queue_count++) & (s->queue_capacity - 1)] = m;
	return true;
}

static struct message *queue_pop(struct rpc_stream *s)
{
	struct message *m = s->queue[s->queue_head];
	s->queue_head = (s->queue_head + 1) & (s->queue_capacity - 1);
	s->queue_count--;
	return m;
}

static void queue_drop(struct rpc_stream *s)
{
	while (s->queue_count)
		message_release(queue_pop(s));
}

/* --- Opening */

static void start_on_loop(void *arg)
{
	struct rpc_stream *s = arg;
	atomic_fetch_sub(&s->channel->starting, 1);
	rpc_link_add(&s->channel->streams, &s->link);
	if (s->channel->closing)
		rpc_stream_cancel(s, WEIR_E_CANCELLED, "the channel was closed");
	else if (!s->ended) /* otherwise cancelled before it began */
		s->rpc->ops->stream_start(s);
}

weir_status rpc_stream_open(struct rpc_stream **out, struct rpc_channel *channel, enum rpc_method method,
                            const struct rpc_stream_handler *handler, void *arg, weir_error *err)
{
	assert(rpc_method_is_stream(method));
	struct rpc_stream *s = channel->rpc->ops->stream_create(channel);
	*out = s;
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "%s %s: out of memory", channel->address, rpc_method_path(method));
	s->rpc = channel->rpc;
	s->loop = channel->loop;
	s->method = method;
	s->channel = channel;
	s->handler = *handler;
	s->arg = arg;
	s->sending = true;
	rpc_shaped_open(s);
	atomic_fetch_add(&channel->starting, 1);
	rpc_loop_post(channel->loop, start_on_loop, s);
	return WEIR_OK;
}

void rpc_stream_on_open(struct rpc_stream *s, struct rpc_server_slot *slot, enum rpc_method method)
{
	struct rpc_server *server = slot->server;
	s->rpc = server->rpc;
	s->loop = slot->loop;
	s->method = method;
	s->slot = slot;
	rpc_shaped_open(s);
	rpc_link_add(&slot->streams, &s->link);
	const struct rpc_stream_handler *handler = server->service.stream_open(server->ctx, s, method, &s->arg);
	if (handler)
		s->handler = *handler;
	else
		rpc_stream_cancel(s, WEIR_E_UNSUPPORTED, "this server does not offer that method");
}

/* --- Sending */

static void transmit(struct rpc_stream *s, struct message *m, bool waited)
{
	s->sending = true;
	if (s->is_shaped)
		rpc_shaped_send(s, m, waited);
	else
		s->rpc->ops->stream_transmit(s, m);
}

weir_status rpc_stream_send(struct rpc_stream *s, struct message *m)
{
	assert(rpc_loop_is_current(s->loop));
	weir_status status = WEIR_OK;
	if (s->ended || s->finishing)
		status = WEIR_E_CLOSED;
	else if (m->bytes > WEIR_MESSAGE_BYTES_MAX)
		status = WEIR_E_LIMIT;
	else if (s->sending && !queue_push(s, m))
		status = WEIR_E_MEMORY;
	if (status) {
		message_release(m);
		return status;
	}
	if (!s->sending)
		transmit(s, m, false);
	return WEIR_OK;
}

static void finish_when_sent(struct rpc_stream *s)
{
	if (s->finishing && !s->finished && !s->sending && (!s->is_shaped || rpc_shaped_is_idle(s))) {
		s->finished = true;
		s->rpc->ops->stream_half_close(s);
	}
}

void rpc_stream_idle(struct rpc_stream *s)
{
	finish_when_sent(s);
}

void rpc_stream_on_sent(struct rpc_stream *s)
{
	if (s->is_shaped)
		rpc_shaped_on_sent(s);
	else
		rpc_stream_sent(s);
}

void rpc_stream_sent(struct rpc_stream *s)
{
	s->sending = false;
	if (s->ended)
		return;
	if (s->queue_count) {
		transmit(s, queue_pop(s), true);
	} else if (s->finishing) {
		finish_when_sent(s);
	} else if (s->handler.writable) {
		s->handler.writable(s->arg, s);
	}
}

void rpc_stream_finish(struct rpc_stream *s)
{
	assert(rpc_loop_is_current(s->loop));
	if (s->ended)
		return;
	s->finishing = true;
	finish_when_sent(s);
}

/* --- Receiving */

void rpc_stream_on_message(struct rpc_stream *s, struct message *m)
{
	if (s->ended)
		return;
	if (s->is_shaped)
		rpc_shaped_on_message(s, m);
	else
		rpc_stream_deliver(s, m);
}

void rpc_stream_deliver(struct rpc_stream *s, struct message *m)
{
	s->handler.message(s->arg, s, m);
	if (s->ended)
		return;
	s->read_owed = s->paused;
	if (!s->paused)
		s->rpc->ops->stream_read(s);
}

void rpc_stream_on_half_close(struct rpc_stream *s)
{
	if (s->ended)
		return;
	if (s->shaped.arriving)
		s->shaped.half_closed = true;
	else
		rpc_stream_half_closed(s);
}

void rpc_stream_half_closed(struct rpc_stream *s)
{
	if (s->ended)
		return;
	if (s->handler.finished)
		s->handler.finished(s->arg, s);
	else
		rpc_stream_finish(s);
}

void rpc_stream_pause(struct rpc_stream *s)
{
	assert(rpc_loop_is_current(s->loop));
	s->paused = true;
}

void rpc_stream_resume(struct rpc_stream *s)
{
	assert(rpc_loop_is_current(s->loop));
	s->paused = false;
	if (s->read_owed && !s->ended) {
		s->read_owed = false;
		s->rpc->ops->stream_read(s);
	}
}

/* --- Ending */

void rpc_stream_cancel(struct rpc_stream *s, weir_status status, const char *text)
{
	assert(rpc_loop_is_current(s->loop) && status != WEIR_OK);
	if (s->ended)
		return;
	s->ended = true;
	queue_drop(s);
	message_release(rpc_shaped_drop(s));
	s->rpc->ops->stream_cancel(s, status, text);
}

void rpc_stream_on_closed(struct rpc_stream *s, weir_status status, const char *text)
{
	const bool ended = s->ended;
	struct message *arriving = rpc_shaped_drop(s); /* a message that has been received */
	s->ended = true;
	if (arriving && !ended)
		s->handler.message(s->arg, s, arriving);
	message_release(arriving);
	queue_drop(s);
	free(s->queue);
	s->queue = NULL;
	rpc_link_remove(&s->link);
	if (s->handler.closed) /* NULL if it was refused */
		s->handler.closed(s->arg, s, status, text);
	if (s->channel)
		rpc_channel_check_closed(s->channel);
}
