#include "server/service/trace_session.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/system/process.h"
#include "server/service/server_internal.h"

#define SOURCES_MAX (1 + WEIR_TRACE_WORKERS_MAX)

struct source { /* [0]: this server */
	char name[WEIR_NAME_BYTES_MAX];
	uint8_t *data; /* (bytes) NULL: nothing yet */
	uint64_t bytes, have;
};

struct trace_session {
	struct trace *trace;
	struct trace_process self;
	pthread_mutex_t lock; /* guards all that follows */
	uint64_t number;      /* 0: no session */
	struct source sources[SOURCES_MAX];
	uint32_t sources_count;
	uint64_t bytes; /* of the workers' data */
};

struct trace_session *trace_session_create(struct trace *trace, const char *name)
{
	struct trace_session *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->trace = trace;
	snprintf(s->self.name, sizeof s->self.name, "%s", name);
	s->self.pid = (uint32_t)getpid();
	(void)process_machine_boot(s->self.machine);
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

static void forget(struct trace_session *s)
{
	for (uint32_t i = 0; i < s->sources_count; i++)
		free(s->sources[i].data);
	memset(s->sources, 0, s->sources_count * sizeof *s->sources);
	s->sources_count = 0;
	s->bytes = 0;
	s->number = 0;
}

void trace_session_destroy(struct trace_session *s)
{
	if (!s)
		return;
	forget(s);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int64_t left_ms(const struct trace_session *s)
{
	const int64_t left_ns = atomic_load(&s->trace->ends_ns) - trace_now(s->trace);
	return trace_has_ended(s->trace) ? 0 : left_ns / 1000000 + 1;
}

bool trace_session_order(struct trace_session *s, Weir__V1__TraceOrder *out)
{
	if (!trace_is_on(s->trace))
		return false;
	weir__v1__trace_order__init(out);
	pthread_mutex_lock(&s->lock);
	out->session = s->number;
	out->left_ms = (uint32_t)left_ms(s);
	pthread_mutex_unlock(&s->lock);
	return out->session != 0 && out->left_ms > 0;
}

/* --- Requests of `weir profile` */

static weir_status begin(struct trace_session *s, const Weir__V1__TraceRequest *q, weir_error *err)
{
	if (q->session == 0 || q->duration_ms == 0 || q->duration_ms > WEIR_TRACE_MS_MAX)
		return weir_fail(err, WEIR_E_INVALID,
		                 "a trace of %u ms, session %016" PRIx64 ": at least 1 ms, at most %u, and a session", q->duration_ms,
		                 q->session, WEIR_TRACE_MS_MAX);
	if (s->number == q->session)
		return WEIR_OK;
	if (s->number && left_ms(s) > 0)
		return weir_fail(err, WEIR_E_BUSY, "another `weir profile` traces this job, for %lld ms more: try again then",
		                 (long long)left_ms(s));
	forget(s);
	s->number = q->session;
	s->sources_count = 1;
	trace_start(s->trace, q->duration_ms);
	return WEIR_OK;
}

static weir_status check_session(const struct trace_session *s, uint64_t session, weir_error *err)
{
	if (session && s->number == session)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_NOT_FOUND,
	                 "%s runs no trace of session %016" PRIx64 ": it has restarted, or the trace has ended", s->self.name,
	                 session);
}

static bool is_complete(const struct source *x)
{
	return x->bytes > 0 && x->have == x->bytes;
}

static weir_status read_piece(struct trace_session *s, const Weir__V1__TraceRequest *q, Weir__V1__TraceReply *out,
                              struct message **piece, weir_error *err)
{
	if (left_ms(s) > 0)
		return weir_fail(err, WEIR_E_NOT_CURRENT, "the trace goes on for %lld ms", (long long)left_ms(s));
	if (q->source >= s->sources_count)
		return weir_fail(err, WEIR_E_INVALID, "source %u of %u", q->source, s->sources_count);
	struct source *x = &s->sources[q->source];
	if (q->source == 0 && !x->data) {
		size_t bytes;
		const weir_status status = trace_dump(s->trace, &s->self, &x->data, &bytes, err);
		if (status)
			return status;
		x->bytes = x->have = bytes;
	}
	if (!is_complete(x))
		return weir_fail(err, WEIR_E_NOT_CURRENT, "%s has not handed in its spans yet", x->name);
	if (q->offset > x->bytes)
		return weir_fail(err, WEIR_E_INVALID, "offset %" PRIu64 " of %" PRIu64, q->offset, x->bytes);
	const uint64_t left = x->bytes - q->offset, n = left < WEIR_TRACE_PIECE_BYTES ? left : WEIR_TRACE_PIECE_BYTES;
	out->bytes_total = x->bytes;
	*piece = message_copy(x->data + q->offset, n);
	if (!*piece)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a piece of a trace");
	out->data = (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)(*piece)->spans[0].data};
	return WEIR_OK;
}

static weir_status act(struct trace_session *s, const Weir__V1__TraceRequest *q, Weir__V1__TraceReply *out,
                       struct message **piece, weir_error *err)
{
	if (q->action == WEIR__V1__TRACE_ACTION__TRACE_CLOCK)
		return WEIR_OK;
	if (q->action == WEIR__V1__TRACE_ACTION__TRACE_BEGIN)
		return begin(s, q, err);
	const weir_status status = check_session(s, q->session, err);
	if (status)
		return status;
	if (q->action == WEIR__V1__TRACE_ACTION__TRACE_READ)
		return read_piece(s, q, out, piece, err);
	if (q->action != WEIR__V1__TRACE_ACTION__TRACE_END)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "%s knows no trace action %d", s->self.name, (int)q->action);
	trace_stop(s->trace);
	forget(s);
	return WEIR_OK;
}

static ProtobufCBinaryData machine_of(const struct trace_session *s)
{
	return (ProtobufCBinaryData){.len = sizeof s->self.machine, .data = (uint8_t *)(uintptr_t)s->self.machine};
}

weir_status trace_session_ask(struct trace_session *s, const Weir__V1__TraceRequest *q, Weir__V1__TraceReply *out,
                              struct message **piece, weir_error *err)
{
	weir__v1__trace_reply__init(out);
	out->clock_ns = trace_now(s->trace);
	out->machine = machine_of(s);
	pthread_mutex_lock(&s->lock);
	const weir_status status = act(s, q, out, piece, err);
	out->sources = s->sources_count;
	for (uint32_t i = 0; i < s->sources_count; i++)
		out->complete += i == 0 || is_complete(&s->sources[i]);
	pthread_mutex_unlock(&s->lock);
	return status;
}

/* --- What workers hand in */

/* The worker's source, made when needed. NULL: there are too many. */
static struct source *find_source(struct trace_session *s, const char *name)
{
	for (uint32_t i = 1; i < s->sources_count; i++)
		if (strcmp(s->sources[i].name, name) == 0)
			return &s->sources[i];
	if (s->sources_count == SOURCES_MAX)
		return NULL;
	struct source *x = &s->sources[s->sources_count++];
	snprintf(x->name, sizeof x->name, "%s", name);
	return x;
}

/* Room for bytes_total. Drops what an earlier process of that name has handed in. */
static weir_status make_room(struct trace_session *s, struct source *x, uint64_t bytes, weir_error *err)
{
	s->bytes -= x->bytes;
	free(x->data);
	x->data = NULL;
	x->bytes = x->have = 0;
	if (bytes > WEIR_TRACE_BYTES_MAX - s->bytes)
		return weir_fail(err, WEIR_E_LIMIT, "spans of %s: %" PRIu64 " bytes, with those of other workers at most %" PRIu64,
		                 x->name, bytes, (uint64_t)WEIR_TRACE_BYTES_MAX);
	if (!(x->data = malloc(bytes)))
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a trace of %" PRIu64 " bytes", bytes);
	x->bytes = bytes;
	s->bytes += bytes;
	return WEIR_OK;
}

static weir_status take_piece(struct trace_session *s, struct source *x, const Weir__V1__TraceUploadRequest *q, weir_error *err)
{
	const weir_status status = q->offset == 0 ? make_room(s, x, q->bytes_total, err) : WEIR_OK;
	if (status)
		return status;
	if (q->bytes_total != x->bytes || q->offset != x->have || q->data.len > x->bytes - x->have)
		return weir_fail(err, WEIR_E_INVALID, "spans of %s: %zu bytes at %" PRIu64 " of %" PRIu64 "; there are %" PRIu64, x->name,
		                 q->data.len, q->offset, q->bytes_total, x->have);
	if (q->data.len)
		memcpy(x->data + x->have, q->data.data, q->data.len);
	x->have += q->data.len;
	return WEIR_OK;
}

weir_status trace_session_take(struct trace_session *s, const Weir__V1__TraceUploadRequest *q, Weir__V1__TraceUploadReply *out,
                               weir_error *err)
{
	weir__v1__trace_upload_reply__init(out);
	out->clock_ns = trace_now(s->trace);
	out->machine = machine_of(s);
	pthread_mutex_lock(&s->lock);
	weir_status status = check_session(s, q->session, err);
	struct source *x = status ? NULL : find_source(s, q->name);
	if (!status && !x)
		status =
		    weir_fail(err, WEIR_E_LIMIT, "%s takes in the spans of at most %u workers", s->self.name, WEIR_TRACE_WORKERS_MAX);
	if (!status && q->bytes_total)
		status = take_piece(s, x, q, err);
	pthread_mutex_unlock(&s->lock);
	return status;
}

/* --- The calls */

static weir_status check_request(const struct server *s, const Weir__V1__JobId *job, weir_error *err)
{
	return job && job->uuid.len ? server_check_job(s, job->uuid.data, job->uuid.len, job->generation, err) : WEIR_OK;
}

static void tell(struct rpc_call *call, const ProtobufCMessage *reply)
{
	struct message *m = wire_pack(reply);
	rpc_call_reply(call, m ? WEIR_OK : WEIR_E_MEMORY, m ? "" : "the reply does not fit in memory", m);
}

static Weir__V1__Status status_of(weir_status code, const weir_error *err)
{
	Weir__V1__Status out = WEIR__V1__STATUS__INIT;
	out.code = code;
	out.text = (char *)(uintptr_t)err->text;
	return out;
}

void control_trace(struct server *s, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	struct message *piece = NULL;
	Weir__V1__TraceReply reply = WEIR__V1__TRACE_REPLY__INIT;
	weir_status status = wire_unpack(&weir__v1__trace_request__descriptor, request, &m, &err);
	const Weir__V1__TraceRequest *q = (const Weir__V1__TraceRequest *)m;
	if (!status)
		status = check_request(s, q->job, &err);
	if (!status)
		status = trace_session_ask(s->trace_session, q, &reply, &piece, &err);
	Weir__V1__Status outcome = status_of(status, &err);
	reply.status = &outcome;
	tell(call, &reply.base);
	message_release(piece);
	wire_destroy(m);
}

void control_trace_upload(struct server *s, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	Weir__V1__TraceUploadReply reply = WEIR__V1__TRACE_UPLOAD_REPLY__INIT;
	weir_status status = wire_unpack(&weir__v1__trace_upload_request__descriptor, request, &m, &err);
	const Weir__V1__TraceUploadRequest *q = (const Weir__V1__TraceUploadRequest *)m;
	if (!status)
		status = check_request(s, q->job, &err);
	if (!status)
		status = trace_session_take(s->trace_session, q, &reply, &err);
	Weir__V1__Status outcome = status_of(status, &err);
	reply.status = &outcome;
	tell(call, &reply.base);
	wire_destroy(m);
}
