/* Outgoing replies. While the transport is busy with earlier replies, later ones collect into one
 * frame. The frame is sent as soon as the transport is free, or when it has the size of a message.
 * While a client does not read, no more rows are gathered for it. */
#include <assert.h>
#include <stdlib.h>

#include "server/service/server_internal.h"

/* A frame up to this size is copied into the next one rather than sent alone. */
#define MERGE_BYTES_MAX 4096u

static _Atomic uint64_t *open_streams(const struct reply_stream *k)
{
	struct server *s = k->home->server;
	return k->method == RPC_PUSH_STREAM ? &s->push_streams : &s->pull_streams;
}

struct reply_stream *reply_stream_create(struct executor *home, struct rpc_stream *stream, struct rpc_call *call,
                                         enum rpc_method method)
{
	struct reply_stream *k = malloc(sizeof *k);
	if (!k)
		return NULL;
	*k = (struct reply_stream){.home = home, .stream = stream, .call = call, .method = method, .writer = record_writer_create()};
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

static void reply_stream_destroy(struct reply_stream *k)
{
	struct server *s = k->home->server;
	record_writer_destroy(k->writer);
	free(k);
	server_leave(s);
}

static void end_call(struct reply_stream *k, weir_status status, const char *text, struct message *reply)
{
	struct rpc_call *call = k->call;
	k->call = NULL;
	rpc_call_reply(call, status, text, reply);
}

static void send_message(struct reply_stream *k, struct message *frame)
{
	struct message *m = frame ? wire_wrap_frame(frame) : NULL;
	if (!m) {
		reply_stream_fail(k, WEIR_E_MEMORY, "the reply does not fit in memory");
	} else if (k->call) {
		end_call(k, WEIR_OK, "", m);
	} else if (k->stream) {
		k->sending += m->bytes;
		(void)rpc_stream_send(k->stream, m); /* E_CLOSED: reply_stream_closed follows */
	} else {
		message_release(m);
	}
}

static void flush(struct reply_stream *k)
{
	const struct server_options *o = &k->home->server->options;
	send_message(k, record_writer_finish(k->writer, o->uuid, o->generation, NULL, NULL));
}

void reply_stream_fail(struct reply_stream *k, weir_status status, const char *text)
{
	if (k->call)
		end_call(k, status, text, NULL);
	else if (k->stream)
		rpc_stream_cancel(k->stream, status, text);
}

void reply_stream_closed(struct reply_stream *k)
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
	reply_stream_settle(k);
}

bool reply_stream_is_full(const struct reply_stream *k)
{
	return k->stream && k->sending + record_writer_bytes(k->writer) > WEIR_STREAM_CREDIT_BYTES;
}

void reply_stream_wrote(struct reply_stream *k)
{
	if (k->stream && record_writer_bytes(k->writer) >= WEIR_MESSAGE_BYTES_TARGET)
		flush(k);
}

void reply_stream_writable(struct reply_stream *k)
{
	k->sending = 0;
	dispatch_deferred(k);
	reply_stream_settle(k);
}

void reply_stream_finish(struct reply_stream *k)
{
	k->finishing = true;
	reply_stream_settle(k);
}

/* Copies the records of a frame of this server into the frame under construction. */
static weir_status merge(struct reply_stream *k, const struct message *frame)
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

void reply_stream_take_frame(struct reply_stream *k, struct message *frame)
{
	if (!frame) {
		reply_stream_fail(k, WEIR_E_MEMORY, "the reply does not fit in memory");
		return;
	}
	if (k->stream && frame->bytes > MERGE_BYTES_MAX) {
		send_message(k, frame);
		return;
	}
	if (record_writer_bytes(k->writer) + frame->bytes > WEIR_MESSAGE_BYTES_MAX - WEIR_MESSAGE_BYTES_TARGET / 2)
		reply_stream_fail(k, WEIR_E_LIMIT, "the replies of one call do not fit one message: ask for less at once");
	else if (k->call || k->stream) {
		weir_status status = merge(k, frame);
		if (status)
			reply_stream_fail(k, status, "the reply could not be copied");
	}
	message_release(frame);
}

void reply_stream_settle(struct reply_stream *k)
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
	reply_stream_destroy(k);
}
