/* A stream that carries heartbeats to another server. A heartbeat that the stream does not take at
 * once is dropped: the next one says the same, and more. */
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "server/cluster/heartbeat_loop_internal.h"

static void on_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	(void)arg, (void)m;
	rpc_stream_cancel(stream, WEIR_E_INVALID, "a stream of heartbeats carries nothing back");
}

static void on_writable(void *arg, struct rpc_stream *stream)
{
	struct heartbeat_link *k = arg;
	(void)stream;
	k->pause = 0;
}

/* Doubles from 1 while no server answers. A refusal by the server gets the longest pause at
 * once. */
static uint32_t pause_after(uint32_t pause, weir_status status)
{
	const uint32_t doubled = pause ? 2 * pause : 1;
	return status == WEIR_E_UNAVAILABLE && doubled < WEIR_HEARTBEAT_PAUSE_TICKS ? doubled : WEIR_HEARTBEAT_PAUSE_TICKS;
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct heartbeat_link *k = arg;
	(void)stream;
	k->stream = NULL;
	if (k->to == k->h->options.self)
		failure_detector_lost_itself(k->h->detector);
	k->wait = k->pause = pause_after(k->pause, status);
	/* Otherwise the silence is enough. */
	if (status != WEIR_E_UNAVAILABLE && status != WEIR_E_CANCELLED)
		LOG_AT(k->h->options.logger, LOG_ERROR, "heartbeats refused", "by=%u status=%s reason=\"%s\"", k->to,
		       weir_status_name(status), text);
}

/* Keeps the channel for the end: only a thread that is no loop may close it. */
static weir_status retire_channel(struct heartbeat_link *k, weir_error *err)
{
	struct heartbeat_loop *h = k->h;
	struct rpc_channel **retired = realloc(h->retired, (h->retired_count + 1) * sizeof(struct rpc_channel *));
	if (!retired)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	h->retired = retired;
	h->retired[h->retired_count++] = k->channel;
	k->channel = NULL;
	return WEIR_OK;
}

/* Finds the channel to the server's present address. */
static weir_status find_channel(struct heartbeat_link *k, const char *address, weir_error *err)
{
	const struct heartbeat_loop_options *o = &k->h->options;
	weir_status status = WEIR_OK;
	if (k->channel && strcmp(rpc_channel_address(k->channel), address) == 0)
		return WEIR_OK;
	if (k->channel)
		status = retire_channel(k, err);
	return status ? status : rpc_channel_open(&k->channel, o->rpc, k->h->loop, address, err);
}

void heartbeat_link_tick(struct heartbeat_link *k)
{
	static const struct rpc_stream_handler handler = {.message = on_message, .writable = on_writable, .closed = on_closed};
	const struct heartbeat_loop_options *o = &k->h->options;
	char address[WEIR_ADDRESS_BYTES_MAX];
	weir_error err = {0};
	k->wait -= k->wait > 0;
	if (k->stream || k->wait || !o->address(o->arg, k->to, address)) /* it may not exist yet */
		return;
	weir_status status = find_channel(k, address, &err);
	if (!status)
		status = rpc_stream_open(&k->stream, k->channel, RPC_HEARTBEAT, &handler, k, &err);
	if (!status)
		return;
	k->wait = WEIR_HEARTBEAT_PAUSE_TICKS;
	LOG_AT(k->h->options.logger, LOG_WARN, "no heartbeats", "to=%u reason=\"%s\"", k->to, err.text);
}

void heartbeat_link_stop(struct heartbeat_link *k)
{
	if (k->stream)
		rpc_stream_cancel(k->stream, WEIR_E_CANCELLED, "the server is stopping");
}

void heartbeat_link_send(struct heartbeat_link *k, struct message *m)
{
	if (!k->stream || rpc_stream_queued(k->stream)) {
		message_release(m);
		return;
	}
	struct message *data = wire_wrap_frame(m);
	if (data)
		(void)rpc_stream_send(k->stream, data); /* E_CLOSED: on_closed follows */
}
