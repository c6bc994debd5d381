/* Outgoing replies. While the transport is busy with earlier replies, later ones collect into one
 * frame. The frame is sent as soon as the transport is free, or when it has the size of a message.
 * While a client does not read, no more rows are gathered for it. */
#include <assert.h>
#include <stdlib.h>

#include "server/service/server_internal.h"

/* A frame up to this size is copied into the next one rather than sent alone. */
#define MERGE_BYTES_MAX 4096u

static _Atomic uint64_t *open_streams(const struct sink *k)
{
	struct server *s = k->home->server;
	return k->method == RPC_PUSH_STREAM ? &s->push_streams : &s->pull_streams;
}

struct sink *sink_create(struct executor *home, struct rpc_stream *stream, struct rpc_call *call, enum rpc_method method)
{
	struct sink *k = malloc(sizeof *k);
	if (!k)
		return NULL;
	*k = (struct sink){.home = home, .stream = stream, .call = call, .method = method, .writer = record_writer_create()};
	if (!k->writer) {
		free(k);
		return NULL;
	}
	if (stream) {
		atomic_fetch_add_explicit(open_streams(k), 1, memory_order_relaxed);
		k->next = home->streams;
		if (k->next)
			k->next->prev = k;
		home->streams = k;
	}
	server_enter(home->server);
	return k;
}

static void sink_free(struct sink *k)
{
	struct server *s = k->home->server;
	record_writer_destroy(k->writer);
	free(k);
	server_leave(s);
}

static void end_call(struct sink *k, weir_status status, const char *text, struct message *reply)
{
	struct rpc_call *call = k->call;
	k->call = NULL;
	rpc_call_reply(call, status, text, reply);
}

static void send_message(struct sink *k, struct message *frame)
{
	struct message *m = frame ? wire_wrap_frame(frame) : NULL;
	if (!m) {
		sink_fail(k, WEIR_E_MEMORY, "the reply does not fit in memory");
	} else if (k->call) {
		end_call(k, WEIR_OK, "", m);
	} else if (k->stream) {
		k->sending += m->bytes;
		(void)rpc_stream_send(k->stream, m); /* E_CLOSED: sink_closed follows */
	} else {
		message_release(m);
	}
}

static void flush(struct sink *k)
{
	const struct server_options *o = &k->home->server->options;
	send_message(k, record_writer_finish(k->writer, o->uuid, o->generation, NULL, NULL));
}

void sink_fail(struct sink *k, weir_status status, const char *text)
{
	if (k->call)
		end_call(k, status, text, NULL);
	else if (k->stream)
		rpc_stream_cancel(k->stream, status, text);
}

void sink_closed(struct sink *k)
{
	k->stream = NULL;
	atomic_fetch_sub_explicit(open_streams(k), 1, memory_order_relaxed);
	if (k->prev)
		k->prev->next = k->next;
	else
		k->home->streams = k->next;
	if (k->next)
		k->next->prev = k->prev;
	dispatch_drop_deferred(k);
	sink_settle(k);
}

bool sink_is_full(const struct sink *k)
{
	return k->stream && k->sending + record_writer_bytes(k->writer) > WEIR_STREAM_CREDIT_BYTES;
}

void sink_wrote(struct sink *k)
{
	if (k->stream && record_writer_bytes(k->writer) >= WEIR_MESSAGE_BYTES_TARGET)
		flush(k);
}

void sink_writable(struct sink *k)
{
	k->sending = 0;
	dispatch_deferred(k);
	sink_settle(k);
}

void sink_finish(struct sink *k)
{
	k->finishing = true;
	sink_settle(k);
}

/* Copies the records of a frame of this server into the frame under construction. */
static weir_status merge(struct sink *k, const struct message *frame)
{
	struct cursor c = cursor_at(frame);
	struct frame_header h;
	weir_status status = frame_open(&c, &h, NULL);
	for (uint32_t i = 0; i < h.records && !status; i++) {
		struct record r;
		struct cursor body;
		status = frame_next_record(&c, false, &r, &body, NULL);
		if (status)
			break;
		record_writer_begin(k->writer, &r);
		for (uint32_t j = 0; j < r.sections && !status; j++) {
			struct section s;
			uint8_t *index, *data;
			status = frame_next_section(&body, &s, NULL);
			if (!status)
				status = record_writer_reserve(k->writer, &s, &index, &data);
			if (!status)
				status = cursor_read(&s.index, index, s.index_bytes);
			if (!status)
				status = cursor_read(&s.data, data, s.data_bytes);
		}
		weir_status ended = record_writer_end(k->writer);
		status = status ? status : ended;
	}
	return status;
}

void sink_take_frame(struct sink *k, struct message *frame)
{
	if (!frame) {
		sink_fail(k, WEIR_E_MEMORY, "the reply does not fit in memory");
		return;
	}
	if (k->stream && frame->bytes > MERGE_BYTES_MAX) {
		send_message(k, frame);
		return;
	}
	if (record_writer_bytes(k->writer) + frame->bytes > WEIR_MESSAGE_BYTES_MAX - WEIR_MESSAGE_BYTES_TARGET / 2)
		sink_fail(k, WEIR_E_LIMIT, "the replies of one call do not fit one message: ask for less at once");
	else if (k->call || k->stream) {
		weir_status status = merge(k, frame);
		if (status)
			sink_fail(k, status, "the reply could not be copied");
	}
	message_release(frame);
}

void sink_settle(struct sink *k)
{
	if (k->in_message)
		return;
	if (k->stream) {
		if (record_writer_records(k->writer) && k->sending == 0)
			flush(k);
		if (k->finishing && k->requests == 0 && record_writer_records(k->writer) == 0)
			rpc_stream_finish(k->stream);
		return;
	}
	if (k->requests)
		return;
	if (k->call)
		flush(k);
	sink_free(k);
}
