/* The gRPC transport: loops over completion queues, messages as slices, statuses, and the common
 * parts of both ends of a stream. rpc_grpc.h describes the files.
 *
 * Each loop has one queue and one thread: more threads per queue, or several queues under the
 * default poller, are slower. */
#include "proto/rpc/rpc_grpc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>

#include "common/base/address.h"
#include "common/base/deadline.h"

/* Outgoing messages up to this size are copied into one slice, which is cheaper than a slice with
 * an owner. */
#define COPY_BYTES_MAX  4096u
#define SLICES_ON_STACK 72u /* a 4 MiB message in 64 KiB slices, with a margin */

/* --- Loops */

static void woken(struct rpc_tag *tag, bool ok)
{
	(void)tag;
	(void)ok;
}

static struct rpc_loop *loop_create(struct rpc *rpc)
{
	(void)rpc;
	struct grpc_loop *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	deadline_cond_init(&l->woken);
	pthread_mutex_init(&l->lock, NULL);
	l->cq = grpc_completion_queue_create_for_next(NULL);
	l->wake.fn = woken;
	l->wake_channel = grpc_lame_client_channel_create("wake", GRPC_STATUS_UNAVAILABLE, "wakes a loop");
	l->wake_call =
	    grpc_channel_create_call(l->wake_channel, NULL, GRPC_PROPAGATE_DEFAULTS, l->cq, grpc_slice_from_static_string("/wake"),
	                             NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	return &l->base;
}

static gpr_timespec deadline_after(int64_t timeout_ns)
{
	if (timeout_ns < 0)
		return gpr_inf_future(GPR_CLOCK_MONOTONIC);
	if (timeout_ns == 0)
		return gpr_inf_past(GPR_CLOCK_MONOTONIC);
	return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout_ns, GPR_TIMESPAN));
}

grpc_completion_queue *grpc_loop_cq(struct rpc_loop *loop)
{
	struct grpc_loop *l = (struct grpc_loop *)loop;
	if (!atomic_load_explicit(&l->connected, memory_order_acquire)) {
		pthread_mutex_lock(&l->lock);
		atomic_store_explicit(&l->connected, true, memory_order_release);
		pthread_cond_signal(&l->woken);
		pthread_mutex_unlock(&l->lock);
	}
	return l->cq;
}

/* Sleeps until woken, connected, or timeout_ns have passed. */
static void sleep_alone(struct grpc_loop *l, int64_t timeout_ns)
{
	const int64_t deadline_ns = deadline_after_ns(timeout_ns);
	pthread_mutex_lock(&l->lock);
	while (!l->awake && !atomic_load_explicit(&l->connected, memory_order_relaxed) && timeout_ns != 0 &&
	       deadline_wait(&l->woken, &l->lock, deadline_ns))
		;
	l->awake = false;
	pthread_mutex_unlock(&l->lock);
}

/* Handles the next event. False: no event in that time, or the queue is shut down. */
static bool take_event(struct grpc_loop *l, int64_t timeout_ns)
{
	grpc_event e = grpc_completion_queue_next(l->cq, deadline_after(timeout_ns), NULL);
	if (e.type != GRPC_OP_COMPLETE)
		return false;
	struct rpc_tag *tag = e.tag;
	TAKEN_OVER(tag);
	tag->fn(tag, e.success != 0);
	return true;
}

/* --- The pump */

static void tag_done(void *tag)
{
	((struct rpc_tag *)tag)->fn(tag, true);
}

static void tag_failed(void *tag)
{
	((struct rpc_tag *)tag)->fn(tag, false);
}

static void *pump(void *arg)
{
	struct grpc_loop *l = arg;
	pthread_setname_np(pthread_self(), "grpc-pump");
	for (;;) {
		const grpc_event e = grpc_completion_queue_next(l->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
		if (e.type != GRPC_OP_COMPLETE)
			return NULL;
		TAKEN_OVER(e.tag);
		rpc_loop_post(&l->base, e.success ? tag_done : tag_failed, e.tag);
	}
}

struct lane_poll *grpc_loop_poll(struct rpc_loop *loop, weir_error *err)
{
	struct grpc_loop *l = (struct grpc_loop *)loop;
	if (l->poll)
		return l->poll;
	struct lane_poll *poll = lane_poll_create(err);
	if (!poll)
		return NULL;
	/* Whoever posts wakes this thread, under the lock, even if it is not waiting any more. */
	pthread_mutex_lock(&loop->lock);
	const int code = pthread_create(&l->pump, NULL, pump, l);
	l->poll = code ? NULL : poll;
	pthread_mutex_unlock(&loop->lock);
	if (!code)
		return poll;
	weir_fail(err, WEIR_E_LIMIT, "cannot start a thread: %s", strerror(code));
	lane_poll_destroy(poll);
	return NULL;
}

static void loop_wait(struct rpc_loop *loop, int64_t timeout_ns)
{
	struct grpc_loop *l = (struct grpc_loop *)loop;
	if (l->poll) {
		lane_poll_wait(l->poll, timeout_ns);
		return;
	}
	if (!atomic_load_explicit(&l->connected, memory_order_acquire)) {
		sleep_alone(l, timeout_ns);
		return;
	}
	(void)take_event(l, timeout_ns);
}

/* Wakes the loop if it has no connection. False: it has one. */
static bool wake_alone(struct grpc_loop *l)
{
	if (atomic_load_explicit(&l->connected, memory_order_acquire))
		return false;
	pthread_mutex_lock(&l->lock);
	bool alone = !atomic_load_explicit(&l->connected, memory_order_relaxed);
	l->awake = alone;
	pthread_cond_signal(&l->woken);
	pthread_mutex_unlock(&l->lock);
	return alone;
}

static void loop_wake(struct rpc_loop *loop)
{
	struct grpc_loop *l = (struct grpc_loop *)loop;
	if (l->poll) {
		lane_poll_wake(l->poll);
		return;
	}
	if (wake_alone(l))
		return;
	grpc_call_error e = grpc_call_start_batch(l->wake_call, NULL, 0, &l->wake, NULL);
	assert(e == GRPC_CALL_OK);
	(void)e;
}

static void loop_finish(struct rpc_loop *loop)
{
	struct grpc_loop *l = (struct grpc_loop *)loop;
	grpc_call_unref(l->wake_call);
	grpc_channel_destroy(l->wake_channel);
	grpc_completion_queue_shutdown(l->cq);
	if (l->poll) {
		pthread_join(l->pump, NULL);
		rpc_loop_drain(loop);
	}
	while (!l->poll && take_event(l, -1))
		; /* the last events of ended streams */
	lane_poll_destroy(l->poll);
	l->poll = NULL;
}

static void loop_destroy(struct rpc_loop *loop)
{
	struct grpc_loop *l = (struct grpc_loop *)loop;
	grpc_completion_queue_destroy(l->cq);
	pthread_cond_destroy(&l->woken);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* --- Messages */

static void slice_done(void *m)
{
	TAKEN_OVER(m);
	message_release(m);
}

static grpc_slice copied_slice(const struct message *m)
{
	grpc_slice slice = grpc_slice_malloc(m->bytes);
	uint8_t *p = GRPC_SLICE_START_PTR(slice);
	for (uint32_t i = 0; i < m->count; i++) {
		memcpy(p, m->spans[i].data, m->spans[i].size);
		p += m->spans[i].size;
	}
	return slice;
}

grpc_byte_buffer *grpc_buffer_from(struct message *m)
{
	grpc_slice on_stack[SLICES_ON_STACK], *slices = on_stack;
	uint32_t n = m->count;
	if (m->bytes <= COPY_BYTES_MAX) {
		slices[0] = copied_slice(m);
		n = 1;
	} else {
		if (n > SLICES_ON_STACK)
			slices = gpr_malloc(n * sizeof *slices);
		HANDED_OVER(m);
		for (uint32_t i = 0; i < n; i++)
			slices[i] = grpc_slice_new_with_user_data((void *)(uintptr_t)m->spans[i].data, m->spans[i].size, slice_done,
			                                          message_retain(m));
	}
	grpc_byte_buffer *b = grpc_raw_byte_buffer_create(slices, n);
	for (uint32_t i = 0; i < n; i++)
		grpc_slice_unref(slices[i]); /* the buffer has its own references */
	if (slices != on_stack)
		gpr_free(slices);
	message_release(m);
	return b;
}

static void buffer_release(struct message *m)
{
	TAKEN_OVER(m->owner);
	grpc_byte_buffer_destroy(m->owner);
}

/* The spans point into the buffer's slices (also into inline ones), which do not move while the
 * buffer lives. */
struct message *grpc_buffer_message(grpc_byte_buffer *b)
{
	const grpc_slice_buffer *slices = &b->data.raw.slice_buffer;
	struct span on_stack[SLICES_ON_STACK], *spans = on_stack;
	uint32_t n = 0;
	spans[0] = (struct span){NULL, 0};
	if (slices->count > SLICES_ON_STACK)
		spans = gpr_malloc(slices->count * sizeof *spans);
	for (size_t i = 0; i < slices->count; i++)
		if (GRPC_SLICE_LENGTH(slices->slices[i]))
			spans[n++] = (struct span){GRPC_SLICE_START_PTR(slices->slices[i]), GRPC_SLICE_LENGTH(slices->slices[i])};
	struct message *m = message_create(spans, n, buffer_release, b);
	if (spans != on_stack)
		gpr_free(spans);
	if (!m)
		grpc_byte_buffer_destroy(b);
	return m;
}

/* --- Statuses */

static const struct {
	weir_status status;
	grpc_status_code code;
} codes[] = {
    {WEIR_OK, GRPC_STATUS_OK},
    {WEIR_E_INVALID, GRPC_STATUS_INVALID_ARGUMENT},
    {WEIR_E_MEMORY, GRPC_STATUS_RESOURCE_EXHAUSTED},
    {WEIR_E_LIMIT, GRPC_STATUS_RESOURCE_EXHAUSTED},
    {WEIR_E_CORRUPT, GRPC_STATUS_DATA_LOSS},
    {WEIR_E_VERSION, GRPC_STATUS_UNIMPLEMENTED},
    {WEIR_E_NOT_FOUND, GRPC_STATUS_NOT_FOUND},
    {WEIR_E_EXISTS, GRPC_STATUS_ALREADY_EXISTS},
    {WEIR_E_TIMEOUT, GRPC_STATUS_DEADLINE_EXCEEDED},
    {WEIR_E_UNAVAILABLE, GRPC_STATUS_UNAVAILABLE},
    {WEIR_E_CANCELLED, GRPC_STATUS_CANCELLED},
    {WEIR_E_BUSY, GRPC_STATUS_RESOURCE_EXHAUSTED},
    {WEIR_E_STALE, GRPC_STATUS_ABORTED},
    {WEIR_E_DUPLICATE, GRPC_STATUS_ALREADY_EXISTS},
    {WEIR_E_GENERATION, GRPC_STATUS_FAILED_PRECONDITION},
    {WEIR_E_STATE, GRPC_STATUS_FAILED_PRECONDITION},
    {WEIR_E_UNSUPPORTED, GRPC_STATUS_UNIMPLEMENTED},
    {WEIR_E_DENIED, GRPC_STATUS_PERMISSION_DENIED},
    {WEIR_E_INTERNAL, GRPC_STATUS_INTERNAL},
};

grpc_status_code grpc_code_of(weir_status status)
{
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (codes[i].status == status)
			return codes[i].code;
	return GRPC_STATUS_UNKNOWN;
}

grpc_slice grpc_details_of(weir_status status, const char *text)
{
	char details[WEIR_ERROR_TEXT_BYTES];
	snprintf(details, sizeof details, "%s: %s", weir_status_name(status), text);
	return grpc_slice_from_copied_string(status == WEIR_OK ? "" : details);
}

/* Recovers a status that a Weir server sent by name; sets *text to the text after the name.
 * WEIR_OK: no such status. */
static weir_status named_status(const char *details, const char **text)
{
#define NAMED_STATUS(name, number, sentence)                             \
	if (number && strncmp(details, #name ": ", sizeof #name + 1) == 0) { \
		*text = details + sizeof #name + 1;                              \
		return WEIR_##name;                                              \
	}
	WEIR_STATUS_MAP(NAMED_STATUS)
#undef NAMED_STATUS
	return WEIR_OK;
}

static weir_status status_of(grpc_status_code code)
{
	switch (code) {
	case GRPC_STATUS_OK:
		return WEIR_OK;
	case GRPC_STATUS_CANCELLED:
		return WEIR_E_CANCELLED;
	case GRPC_STATUS_INVALID_ARGUMENT:
		return WEIR_E_INVALID;
	case GRPC_STATUS_DEADLINE_EXCEEDED:
		return WEIR_E_TIMEOUT;
	case GRPC_STATUS_NOT_FOUND:
		return WEIR_E_NOT_FOUND;
	case GRPC_STATUS_RESOURCE_EXHAUSTED:
		return WEIR_E_LIMIT;
	case GRPC_STATUS_FAILED_PRECONDITION:
		return WEIR_E_STATE;
	case GRPC_STATUS_UNIMPLEMENTED:
		return WEIR_E_UNSUPPORTED;
	case GRPC_STATUS_PERMISSION_DENIED:
		return WEIR_E_DENIED;
	case GRPC_STATUS_UNAVAILABLE:
	case GRPC_STATUS_UNKNOWN: /* "stream removed": the connection was lost during the call */
		return WEIR_E_UNAVAILABLE;
	default:
		return WEIR_E_INTERNAL;
	}
}

weir_status grpc_status_read(grpc_status_code code, grpc_slice details, const struct rpc_channel *channel, enum rpc_method method,
                             char *text, size_t text_bytes, bool *silent)
{
	char *said = grpc_slice_to_c_string(details);
	const char *more = said;
	weir_status named = code == GRPC_STATUS_OK ? WEIR_OK : named_status(said, &more);
	weir_status status = named ? named : status_of(code);
	*silent = strstr(said, "keepalive watchdog") != NULL;
	if (status == WEIR_OK || (named && named != WEIR_E_UNAVAILABLE))
		snprintf(text, text_bytes, "%s", status ? more : "");
	else
		snprintf(text, text_bytes, "%s %s: %s", channel->address, rpc_method_path(method),
		         *silent ? "the peer is silent (keepalive timeout)" : more);
	if (status == WEIR_E_UNAVAILABLE && !named)
		grpc_tls_explain(channel, text, text_bytes);
	gpr_free(said);
	return status;
}

grpc_arg grpc_arg_number(const char *key, int value)
{
	return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

/* Keepalive detects a peer that disappears silently. BDP probing stays on: without it a 64 KiB
 * stream runs at a third of its speed. */
size_t grpc_args_common(grpc_arg *args, int keepalive_ms)
{
	size_t n = 0;
	args[n++] = grpc_arg_number(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
	args[n++] = grpc_arg_number(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, WEIR_DEAD_PEER_MS - WEIR_KEEPALIVE_MS - 1000);
	args[n++] = grpc_arg_number(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
	args[n++] = grpc_arg_number(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
	args[n++] = grpc_arg_number(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, WEIR_MESSAGE_BYTES_MAX);
	args[n++] = grpc_arg_number(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, WEIR_MESSAGE_BYTES_MAX);
	args[n++] = grpc_arg_number(GRPC_ARG_MAX_METADATA_SIZE, WEIR_METADATA_BYTES_MAX);
	args[n++] = grpc_arg_number(GRPC_ARG_ENABLE_CHANNELZ, 0);
	args[n++] = grpc_arg_number(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0);
	args[n++] = grpc_arg_number(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
	args[n++] = grpc_arg_number(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
	args[n++] = grpc_arg_number(GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM, GRPC_COMPRESS_NONE);
	assert(n == GRPC_ARGS_COMMON);
	return n;
}

/* --- Streams, either end */

void grpc_stream_batch(struct grpc_stream *s, const grpc_op *ops, size_t n, struct rpc_tag *tag)
{
	s->batches++;
	HANDED_OVER(tag);
	grpc_call_error e = grpc_call_start_batch(s->call, ops, n, tag, NULL);
	assert(e == GRPC_CALL_OK);
	(void)e;
}

void grpc_stream_transmit(struct rpc_stream *stream, struct message *m)
{
	struct grpc_stream *s = (struct grpc_stream *)stream;
	if (s->lane) {
		lane_end_send(s->lane, m);
		return;
	}
	grpc_byte_buffer *b = grpc_buffer_from(m);
	grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = b};
	grpc_stream_batch(s, &op, 1, &s->sent);
	grpc_byte_buffer_destroy(b); /* the batch holds the slices */
}

void grpc_stream_read(struct rpc_stream *stream)
{
	struct grpc_stream *s = (struct grpc_stream *)stream;
	if (s->lane) {
		lane_end_read(s->lane);
		return;
	}
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->incoming};
	s->reading = true;
	grpc_stream_batch(s, &op, 1, &s->received);
}

static void stream_opened(struct rpc_tag *tag, bool ok)
{
	struct grpc_stream *s = (struct grpc_stream *)(void *)((char *)tag - offsetof(struct grpc_stream, opened));
	if (ok && !s->told)
		rpc_stream_on_sent(&s->base);
	grpc_stream_batch_done(s);
}

static void stream_sent(struct rpc_tag *tag, bool ok)
{
	struct grpc_stream *s = (struct grpc_stream *)(void *)((char *)tag - offsetof(struct grpc_stream, sent));
	if (ok && !s->told)
		rpc_stream_on_sent(&s->base);
	grpc_stream_batch_done(s);
}

static void stream_received(struct rpc_tag *tag, bool ok)
{
	struct grpc_stream *s = (struct grpc_stream *)(void *)((char *)tag - offsetof(struct grpc_stream, received));
	grpc_byte_buffer *b = s->incoming;
	s->incoming = NULL;
	s->reading = false;
	if (ok && b) {
		struct message *m = grpc_buffer_message(b);
		if (!m)
			rpc_stream_cancel(&s->base, WEIR_E_MEMORY, "out of memory for a message");
		else if (m->bytes > WEIR_MESSAGE_BYTES_MAX) /* a minimal stack does not check this */
			rpc_stream_cancel(&s->base, WEIR_E_LIMIT, "the peer sent a message larger than one may be");
		else
			rpc_stream_on_message(&s->base, m);
		message_release(m);
	} else if (s->base.slot && ok && !s->over) {
		rpc_stream_on_half_close(&s->base);
	}
	grpc_stream_batch_done(s);
}

static void stream_half_closed(struct rpc_tag *tag, bool ok)
{
	(void)ok;
	grpc_stream_batch_done((struct grpc_stream *)(void *)((char *)tag - offsetof(struct grpc_stream, half_closed)));
}

struct grpc_stream *grpc_stream_new(void (*ended)(struct rpc_tag *tag, bool ok))
{
	struct grpc_stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->opened.fn = stream_opened;
	s->sent.fn = stream_sent;
	s->received.fn = stream_received;
	s->half_closed.fn = stream_half_closed;
	s->ended.fn = ended;
	s->details = grpc_empty_slice();
	grpc_metadata_array_init(&s->initial);
	grpc_metadata_array_init(&s->trailing);
	return s;
}

static void stream_tell(struct grpc_stream *s)
{
	weir_status status = s->why;
	bool silent;
	s->told = true;
	if (!status && s->base.slot)
		status = s->cancelled ? WEIR_E_CANCELLED : WEIR_OK;
	else if (!status)
		status = grpc_status_read(s->status, s->details, s->base.channel, s->base.method, s->text, sizeof s->text, &silent);
	rpc_stream_on_closed(&s->base, status, s->text);
}

static void stream_destroy(struct grpc_stream *s)
{
	struct rpc_server *server = s->base.slot ? s->base.slot->server : NULL;
	enum rpc_method method = s->base.method;
	if (s->call)
		grpc_call_unref(s->call);
	grpc_metadata_array_destroy(&s->initial);
	grpc_metadata_array_destroy(&s->trailing);
	grpc_slice_unref(s->details);
	gpr_free(s->peer);
	free(s);
	if (server)
		rpc_server_leave(server, method);
}

static void stream_never_started(void *arg)
{
	stream_tell(arg);
	stream_destroy(arg);
}

/* A client's stream may end long before its last batch. gRPC keeps messages to a peer that has
 * stopped reading until the connection ends; over a unix socket, that is when the peer's process
 * resumes or is killed. */
void grpc_stream_batch_done(struct grpc_stream *s)
{
	assert(s->batches > 0);
	s->batches--;
	if (s->over && !s->told && (s->batches == 0 || (!s->base.slot && !s->reading)))
		stream_tell(s);
	if (s->over && s->batches == 0)
		stream_destroy(s);
}

static void stream_half_close(struct rpc_stream *stream)
{
	struct grpc_stream *s = (struct grpc_stream *)stream;
	if (s->lane && stream->slot)
		lane_end_finish(s->lane, WEIR_OK, "");
	else if (s->lane)
		lane_end_half_close(s->lane);
	else if (stream->slot)
		grpc_server_stream_finish(s, WEIR_OK, "");
	else
		grpc_client_stream_half_close(s);
}

static void stream_cancel(struct rpc_stream *stream, weir_status status, const char *text)
{
	struct grpc_stream *s = (struct grpc_stream *)stream;
	s->why = status;
	snprintf(s->text, sizeof s->text, "%s", text);
	if (s->lane) {
		lane_end_finish(s->lane, status, text);
		return;
	}
	if (grpc_lane_ask_cancel(s))
		return;
	if (!s->call) { /* cancelled before it started */
		rpc_loop_post(stream->loop, stream_never_started, s);
		return;
	}
	if (stream->slot)
		grpc_server_stream_finish(s, status, text);
	else
		grpc_client_stream_cancel(s);
}

/* --- The transport */

static void destroy(struct rpc *rpc)
{
	grpc_tls_destroy(((struct grpc_rpc *)rpc)->tls);
	free(rpc);
	grpc_shutdown_blocking();
}

struct rpc *rpc_grpc_create(struct logger *logger)
{
	static const struct rpc_ops ops = {
	    .loop_create = loop_create,
	    .loop_wait = loop_wait,
	    .loop_wake = loop_wake,
	    .loop_finish = loop_finish,
	    .loop_destroy = loop_destroy,
	    .server_create = grpc_server_new,
	    .server_start = grpc_server_begin,
	    .server_close = grpc_server_close,
	    .server_cut = grpc_server_cut,
	    .server_destroy = grpc_listener_destroy,
	    .call_reply = grpc_server_reply,
	    .call_peer = grpc_server_peer,
	    .channel_create = grpc_client_new,
	    .channel_open = grpc_client_open,
	    .channel_destroy = grpc_client_destroy,
	    .attempt_start = grpc_client_attempt,
	    .attempt_cancel = grpc_client_attempt_cancel,
	    .stream_create = grpc_client_stream_new,
	    .stream_start = grpc_client_stream_start,
	    .stream_transmit = grpc_stream_transmit,
	    .stream_read = grpc_stream_read,
	    .stream_half_close = stream_half_close,
	    .stream_cancel = stream_cancel,
	    .destroy = destroy,
	};
	struct rpc *rpc = calloc(1, sizeof(struct grpc_rpc));
	if (!rpc)
		return NULL;
	rpc->ops = &ops;
	rpc->logger = logger;
	/* A library prints nothing: failures are returned as statuses. */
	gpr_set_log_verbosity((gpr_log_severity)(GPR_LOG_SEVERITY_ERROR + 1));
	grpc_init();
	return rpc;
}

weir_status grpc_check_plain(const struct rpc *rpc, const char *address, weir_error *err)
{
	if (((const struct grpc_rpc *)rpc)->insecure || address_is_local(address))
		return WEIR_OK;
	return weir_fail(
	    err, WEIR_E_INVALID,
	    "%s: would be spoken to in plain text, on a network; give certificates (security.certificate, key and ca), or, "
	    "where nobody else can reach it, security.insecure: true",
	    address);
}

weir_status rpc_grpc_secure(struct rpc *rpc, const weir_security *s, weir_error *err)
{
	struct grpc_rpc *g = (struct grpc_rpc *)rpc;
	const bool certificate = s->certificate && *s->certificate, key = s->key && *s->key, ca = s->ca && *s->ca;
	assert(!g->tls);
	g->insecure = s->insecure;
	if (!certificate && !key && !ca)
		return WEIR_OK;
	if (!certificate || !key || !ca)
		return weir_fail(err, WEIR_E_INVALID, "a certificate, its key and a ca belong together: there is no %s",
		                 !certificate ? "certificate"
		                 : !key       ? "key"
		                              : "ca");
	return grpc_tls_create(&g->tls, s, rpc->logger, err);
}
