#include "server/snapshot/snapshot_stream.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "proto/wire/wire.h"

#define REPEAT_MS 1000 /* between two reports of the learner */

/* --- The primary's end. A stream belongs to its loop; the sender's thread posts frames there. */

struct upstream {
	const struct snapshot_service *service;
	struct rpc_loop *loop;
	struct rpc_stream *stream; /* NULL: closed */
	uint64_t session;          /* 0: nothing requested yet */
	_Atomic uint32_t posted;   /* to the loop, not yet run */
};

struct delivery {
	struct upstream *to;
	struct message *frame; /* NULL: the session is over */
	weir_error err;
};

static void upstream_settle(struct upstream *u)
{
	const struct snapshot_service *service = u->service;
	if (u->stream || atomic_load(&u->posted))
		return;
	free(u);
	service->leave(service->arg);
}

static void send_frame(struct upstream *u, struct message *frame)
{
	struct message *m = wire_wrap_frame(message_retain(frame));
	if (m)
		(void)rpc_stream_send(u->stream, m); /* if the stream has ended, `closed` follows */
	else
		rpc_stream_cancel(u->stream, WEIR_E_MEMORY, "out of memory for a frame of a snapshot");
}

static void deliver(void *arg)
{
	struct delivery *d = arg;
	struct upstream *u = d->to;
	if (u->stream && d->frame)
		send_frame(u, d->frame);
	else if (u->stream && d->err.status)
		rpc_stream_cancel(u->stream, d->err.status, d->err.text);
	else if (u->stream)
		rpc_stream_finish(u->stream);
	message_release(d->frame);
	free(d);
	atomic_fetch_sub(&u->posted, 1);
	upstream_settle(u);
}

static void post(struct upstream *u, struct message *frame, weir_status status, const char *text)
{
	struct delivery *d = calloc(1, sizeof *d);
	if (!d)
		abort(); /* like rpc_loop_post */
	d->to = u;
	d->frame = frame;
	if (status)
		weir_fail(&d->err, status, "%s", text);
	atomic_fetch_add(&u->posted, 1);
	rpc_loop_post(u->loop, deliver, d);
}

static void on_frame(void *arg, struct message *frame)
{
	post(arg, message_retain(frame), WEIR_OK, "");
}

static void on_session_ended(void *arg, weir_status status, const char *text)
{
	post(arg, NULL, status, text);
}

static weir_status attach(struct upstream *u, const struct snapshot_frame *f, weir_error *err)
{
	const struct snapshot_service *service = u->service;
	const struct snapshot_sink sink = {.frame = on_frame, .ended = on_session_ended, .arg = u};
	weir_status status = snapshot_check_ask(f, service->uuid, service->generation, err);
	if (!status && u->session)
		status = weir_fail(err, WEIR_E_INVALID, "a stream of one snapshot asks for another");
	if (!status)
		status = snapshot_send_attach(service->sender, f->session, f->number, &sink, err);
	if (!status)
		u->session = f->session;
	else if (status == WEIR_E_INVALID && !u->session)
		snapshot_send_give_up(service->sender, f->session, "its learner has begun anew");
	return status;
}

static weir_status take(struct upstream *u, const struct message *m, weir_error *err)
{
	struct snapshot_frame f;
	struct cursor c;
	weir_status status = wire_unwrap_frame(m, &c, err);
	if (!status)
		status = snapshot_read(c, &f, err);
	if (!status && f.kind == SNAPSHOT_ASK)
		return attach(u, &f, err);
	if (!status && f.kind == SNAPSHOT_RECEIVED && f.session == u->session)
		snapshot_send_received(u->service->sender, f.session, f.number);
	else if (!status)
		status = weir_fail(err, WEIR_E_INVALID, "a learner sent a frame of kind %u", f.kind);
	return status;
}

static void on_asked(void *arg, struct rpc_stream *stream, struct message *m)
{
	weir_error err = {0};
	const weir_status status = take(arg, m, &err);
	if (status)
		rpc_stream_cancel(stream, status, err.text);
}

static void on_upstream_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct upstream *u = arg;
	(void)stream, (void)status, (void)text;
	u->stream = NULL;
	if (u->session)
		snapshot_send_detach(u->service->sender, u->session, u);
	upstream_settle(u);
}

const struct rpc_stream_handler *snapshot_stream_open(const struct snapshot_service *service, struct rpc_stream *stream,
                                                      void **arg)
{
	static const struct rpc_stream_handler handler = {.message = on_asked, .closed = on_upstream_closed};
	struct upstream *u = calloc(1, sizeof *u);
	if (!u) {
		rpc_stream_cancel(stream, WEIR_E_MEMORY, "out of memory for a stream");
		return NULL;
	}
	u->service = service;
	u->loop = rpc_stream_loop(stream);
	u->stream = stream;
	service->enter(service->arg);
	*arg = u;
	return &handler;
}

/* --- The learner's end */

struct snapshot_fetch {
	struct snapshot_fetch_options options;
	struct rpc_stream *stream; /* NULL: none is open */
	uint64_t told;             /* as last reported to the primary */
	int64_t told_ms, reached_ms;
	bool heard;   /* a frame has come over this stream */
	bool stopped; /* or has failed */
};

static int64_t now_ms(const struct snapshot_fetch *f)
{
	return clock_ms(f->options.clock);
}

static void fail(struct snapshot_fetch *f, weir_status status, const char *text)
{
	if (f->stopped)
		return;
	f->stopped = true;
	f->options.failed(f->options.arg, status, text);
}

static void settle(struct snapshot_fetch *f)
{
	if (f->stopped && !f->stream)
		free(f);
}

static void send_own(struct snapshot_fetch *f, struct message *frame)
{
	struct message *m = frame ? wire_wrap_frame(frame) : NULL;
	if (m)
		(void)rpc_stream_send(f->stream, m);
	else
		rpc_stream_cancel(f->stream, WEIR_E_UNAVAILABLE, "out of memory for a message");
}

static void on_frame_come(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct snapshot_fetch *f = arg;
	struct cursor c;
	weir_error err = {0};
	if (f->stopped)
		return;
	f->heard = true;
	if (wire_unwrap_frame(m, &c, &err))
		rpc_stream_cancel(stream, err.status, err.text);
	else
		snapshot_receiver_take(f->options.receiver, c);
}

static bool may_come_back(weir_status status)
{
	return status == WEIR_E_UNAVAILABLE || status == WEIR_E_TIMEOUT;
}

static void on_fetch_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct snapshot_fetch *f = arg;
	(void)stream;
	f->stream = NULL;
	if (f->heard)
		f->reached_ms = now_ms(f);
	if (status && !may_come_back(status))
		fail(f, status, text);
	settle(f);
}

static void open_stream(struct snapshot_fetch *f)
{
	static const struct rpc_stream_handler handler = {.message = on_frame_come, .closed = on_fetch_closed};
	const struct snapshot_fetch_options *o = &f->options;
	weir_error err = {0};
	if (rpc_stream_open(&f->stream, o->channel, RPC_SNAPSHOT, &handler, f, &err))
		return; /* the next tick retries */
	f->heard = false;
	f->told_ms = now_ms(f);
	send_own(f, snapshot_make_ask(o->session, snapshot_receiver_next(o->receiver), o->uuid, o->generation));
}

struct snapshot_fetch *snapshot_fetch_start(const struct snapshot_fetch_options *options)
{
	struct snapshot_fetch *f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->options = *options;
	f->reached_ms = now_ms(f);
	open_stream(f);
	return f;
}

static void tell(struct snapshot_fetch *f)
{
	const uint64_t received = snapshot_receiver_received(f->options.receiver);
	if (received == f->told && now_ms(f) - f->told_ms < REPEAT_MS)
		return;
	f->told = received;
	f->told_ms = now_ms(f);
	send_own(f, snapshot_make_received(f->options.session, received));
}

void snapshot_fetch_tick(struct snapshot_fetch *f)
{
	if (f->stopped)
		return;
	if (f->stream)
		tell(f);
	else if (now_ms(f) - f->reached_ms <= (int64_t)WEIR_SNAPSHOT_PATIENCE_MS)
		open_stream(f);
	else
		fail(f, WEIR_E_UNAVAILABLE, "the primary was not reached");
	settle(f);
}

void snapshot_fetch_stop(struct snapshot_fetch *f)
{
	if (!f)
		return;
	f->stopped = true;
	if (f->stream)
		rpc_stream_finish(f->stream);
	settle(f);
}
