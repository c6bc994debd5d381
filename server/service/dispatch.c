/* Carries records to partitions and replies back. A message's records are verified one by one and
 * handled at once, while their bytes are in the cache. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame/frame_trace.h"
#include "server/partition/record_table.h"
#include "server/service/server_internal.h"

struct task;

/* One record being answered. Lives on the loop of its reply stream. */
struct request {
	struct reply_stream *reply_stream;
	struct request *next;    /* in the list of deferred requests */
	struct message *message; /* retained */
	struct record record;
	struct cursor body;
	int64_t begun_ns;
	uint32_t outstanding; /* tasks that have not returned */
	weir_status status;   /* of a request to all partitions: the first that is not OK */
	uint64_t applied;
	uint32_t tasks_count;
	struct task { /* one partition's share; passed between loops, with one owner at a time */
		struct request *request;
		struct partition *partition;
		struct executor *executor;
		struct message *frame; /* reply, if from another executor */
		weir_status status;
		uint64_t applied;
	} tasks[];
};

static struct server *server_of(const struct reply_stream *k)
{
	return k->home->server;
}

/* The kind of the reply to a record. If the record is no request, the stream's purpose determines
 * it. */
static uint8_t reply_kind(const struct reply_stream *k, uint8_t kind)
{
	const uint8_t reply = record_row(kind)->reply;
	if (reply)
		return reply;
	return k->method == RPC_PULL_STREAM || k->method == RPC_PULL ? RECORD_PULL_REPLY : RECORD_PUSH_REPLY;
}

/* Fills in where the partition of an E_MOVED reply is. */
static void put_hint(struct record *reply, const struct server *s)
{
	uint64_t revision;
	const struct partition_place place = partition_map_find(s->map, reply->partition, &revision);
	/* A map that names this server does not know the new primary yet. */
	reply->moved.server = place.server == s->options.index ? WEIR_SERVER_NONE : place.server;
	reply->moved.epoch = place.epoch;
	reply->moved.revision = (uint32_t)revision;
}

static void write_refusal(const struct server *s, struct record_writer *w, const struct record *r, uint8_t kind,
                          weir_status status, const char *text)
{
	struct record reply = partition_reply_to(r, kind, status);
	if (status == WEIR_E_MOVED)
		put_hint(&reply, s);
	partition_write_refusal(w, &reply, text);
}

/* Answers a record that reaches no partition. */
static void refuse(struct reply_stream *k, const struct record *r, weir_status status, const char *text)
{
	const enum log_level level = status == WEIR_E_MOVED ? LOG_DEBUG : LOG_WARN;
	LOG_AT(server_of(k)->options.logger, level, "request refused", "status=%s reason=\"%s\"", weir_status_name(status), text);
	write_refusal(server_of(k), k->writer, r, reply_kind(k, r->kind), status, text);
	reply_stream_wrote(k);
}

/* --- Replies */

/* Close and retire records to all partitions get one answer. Every other reply is for one
 * partition. */
static bool is_answered_once(const struct request *q)
{
	return q->record.partition == FRAME_PARTITION_ALL && q->record.kind != RECORD_SEAL;
}

/* A partition that has moved takes no part in a request to all. */
static bool is_left_out(const struct request *q, weir_status status)
{
	return q->record.partition == FRAME_PARTITION_ALL && status == WEIR_E_MOVED;
}

static struct record reply_to(const struct request *q, uint16_t partition, weir_status status, uint64_t applied)
{
	struct record r = partition_reply_to(&q->record, record_row(q->record.kind)->reply, status);
	r.partition = partition;
	r.reply.applied = applied;
	return r;
}

static struct record_writer *task_writer(const struct task *t)
{
	const struct reply_stream *k = t->request->reply_stream;
	return t->executor == k->home ? k->writer : t->executor->writer;
}

static void write_text(struct record_writer *w, const char *text)
{
	struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = (uint32_t)strlen(text)};
	(void)record_writer_add(w, &s, NULL, text, false); /* record_writer_end reports the error */
}

static void write_reply(const struct task *t, const struct partition_reply *reply)
{
	const struct request *q = t->request;
	struct record_writer *w = task_writer(t);
	uint32_t id = partition_id(t->partition);
	struct record r = reply_to(q, (uint16_t)id, reply->status, reply->applied);
	r.reply.stable = reply->stable;
	r.reply.epoch = (uint32_t)reply->epoch;
	if (q->record.kind == RECORD_PUSH)
		r.attempt = reply->staleness;
	if (q->record.kind == RECORD_SEAL) {
		r.batch = (uint32_t)reply->epoch;
		r.seal_reply.bits = reply->bitmap_bits;
	}
	if (reply->status == WEIR_E_MOVED)
		put_hint(&r, t->executor->server);
	if (q->record.kind == RECORD_RESUME)
		record_set_process(&r, server_volatile_process_id(t->executor->server));
	record_writer_begin(w, &r);
	if (reply->text) {
		write_text(w, reply->text);
	} else if (q->record.kind == RECORD_SEAL && reply->status == WEIR_OK) {
		/* Also with zero bits: nothing was pushed here. */
		struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = reply->bitmap_bits / 8};
		(void)record_writer_add(w, &s, NULL, reply->bitmap, false);
	}
	if (record_writer_end(w))
		write_refusal(t->executor->server, w, &q->record, r.kind, WEIR_E_MEMORY, NULL);
}

static void request_destroy(struct request *q)
{
	struct reply_stream *k = q->reply_stream;
	k->requests--;
	k->request_bytes -= q->record.bytes;
	message_release(q->message);
	free(q);
	reply_stream_settle(k);
}

/* Removes one task; the last one ends the request. On the loop of the reply stream. */
static void request_step(struct request *q)
{
	if (--q->outstanding)
		return;
	if (is_answered_once(q)) {
		struct record r = reply_to(q, FRAME_PARTITION_ALL, q->status, q->applied);
		record_writer_begin(q->reply_stream->writer, &r);
		if (record_writer_end(q->reply_stream->writer))
			reply_stream_fail(q->reply_stream, WEIR_E_MEMORY, "the reply does not fit in memory");
	}
	const struct server_options *o = &server_of(q->reply_stream)->options;
	rpc_note(o->rpc, q->reply_stream->method, true, clock_ns(o->clock) - q->begun_ns);
	reply_stream_wrote(q->reply_stream);
	request_destroy(q);
}

static void task_back(struct task *t)
{
	struct request *q = t->request;
	if (q->status == WEIR_OK && !is_left_out(q, t->status))
		q->status = t->status;
	if (t->applied > q->applied)
		q->applied = t->applied;
	request_step(q);
}

static void task_returned(void *arg)
{
	struct task *t = arg;
	if (!is_answered_once(t->request))
		reply_stream_take_frame(t->request->reply_stream, t->frame);
	task_back(t);
}

/* The partition has answered. On its executor's loop. */
static void task_done(struct task *t)
{
	struct executor *home = t->request->reply_stream->home;
	if (t->executor == home) {
		task_back(t);
		return;
	}
	const struct server_options *o = &home->server->options;
	if (!is_answered_once(t->request))
		t->frame = record_writer_finish(t->executor->writer, o->uuid, o->generation, NULL, NULL);
	rpc_loop_post(home->loop, task_returned, t);
}

static void on_partition_reply(void *arg, const struct partition_reply *reply)
{
	struct task *t = arg;
	t->status = reply->status;
	t->applied = reply->applied;
	if (!is_answered_once(t->request) && !is_left_out(t->request, reply->status))
		write_reply(t, reply);
	task_done(t);
}

/* --- Pulls */

static void answer_pull(struct task *t)
{
	struct record_writer *w = task_writer(t);
	struct trace *trace = t->executor->server->trace;
	const struct trace_what what = frame_trace(TRACE_ANSWER, &t->request->record);
	const int64_t begun_ns = trace_begin(trace);
	size_t before = record_writer_bytes(w);
	partition_pull(t->partition, &t->request->record, &t->request->body, w);
	atomic_fetch_add_explicit(&t->executor->server->bytes_pulled, record_writer_bytes(w) - before, memory_order_relaxed);
	trace_end(trace, begun_ns, &what);
	task_done(t);
}

static void on_pull_ready(void *arg, weir_status status)
{
	struct task *t = arg;
	if (!status) {
		answer_pull(t);
		return;
	}
	const struct record *r = &t->request->record;
	weir_error err = {0};
	const uint32_t id = partition_id(t->partition);
	if (status == WEIR_E_NOT_CURRENT && r->pull.age_ms_max)
		weir_fail(&err, status, "pull: this replica of partition %u may be older than %u ms, or than what the client knows", id,
		          r->pull.age_ms_max);
	else if (status == WEIR_E_NOT_CURRENT)
		weir_fail(&err, status, "pull: step %llu and log entry %llu were not applied in partition %u within %u ms",
		          (unsigned long long)r->pull.step_least, (unsigned long long)r->pull.applied_least, id, WEIR_PARK_TIMEOUT_MS);
	else if (status == WEIR_E_MOVED)
		weir_fail(&err, status, "partition %u: another server is its primary", id);
	else
		weir_fail(&err, status, "pull: the rows of partition %u could not be brought into memory", id);
	write_refusal(t->executor->server, task_writer(t), r, RECORD_PULL_REPLY, status, err.text);
	task_done(t);
}

static void run_pull(struct task *t)
{
	const struct record *r = &t->request->record;
	const int64_t now_ms = clock_ms(t->executor->server->options.clock);
	if (partition_pull_ready(t->partition, r, &t->request->body,
	                         now_ms + (r->pull.age_ms_max ? WEIR_READ_PARK_MS : WEIR_PARK_TIMEOUT_MS), on_pull_ready, t))
		answer_pull(t);
}

/* --- Tasks */

static void task_run(void *arg)
{
	struct task *t = arg;
	const struct request *q = t->request;
	if (q->record.kind == RECORD_PULL) {
		run_pull(t);
		return;
	}
	struct trace *trace = t->executor->server->trace;
	const struct trace_what what = frame_trace(TRACE_SERVE, &q->record);
	const int64_t begun_ns = q->record.kind == RECORD_PUSH ? trace_begin(trace) : 0;
	partition_submit(t->partition, &q->record, &q->body, q->message, on_partition_reply, t); /* may end the request */
	trace_end(trace, begun_ns, &what);
}

static void request_run(struct request *q)
{
	struct executor *home = q->reply_stream->home;
	q->outstanding = q->tasks_count + 1; /* one extra while tasks are started */
	for (uint32_t i = 0; i < q->tasks_count; i++) {
		struct task *t = &q->tasks[i];
		if (t->executor == home)
			task_run(t);
		else
			rpc_loop_post(t->executor->loop, task_run, t);
	}
	request_step(q);
}

static struct request *request_create(struct reply_stream *k, struct message *m, const struct record *r,
                                      const struct cursor *body, uint32_t tasks)
{
	struct request *q = calloc(1, sizeof *q + tasks * sizeof *q->tasks);
	if (!q)
		return NULL;
	q->reply_stream = k;
	q->message = message_retain(m);
	q->begun_ns = clock_ns(server_of(k)->options.clock);
	q->record = *r;
	q->body = *body;
	k->requests++;
	k->request_bytes += r->bytes;
	return q;
}

static void request_add(struct request *q, struct partition *p)
{
	struct server *s = server_of(q->reply_stream);
	q->tasks[q->tasks_count++] = (struct task){.request = q, .partition = p, .executor = server_executor(s, partition_id(p))};
}

/* E_NOT_FOUND, E_INVALID, E_DENIED, E_MOVED, E_LIMIT, E_LOST: no partition here can take the
 * record. */
static weir_status check_record(const struct reply_stream *k, const struct record *r, weir_error *err)
{
	const struct server *s = server_of(k);
	const struct record_row *row = record_row(r->kind);
	const bool to_all = r->partition == FRAME_PARTITION_ALL;
	if (!row->reply)
		return weir_fail(err, WEIR_E_INVALID, "record kind %u is not a request", r->kind);
	if (to_all && !row->to_all)
		return weir_fail(err, WEIR_E_INVALID, "record kind %u (%s) names no partition", r->kind, row->name);
	if (k->reads_only && !row->reads)
		return weir_fail(err, WEIR_E_DENIED, "record kind %u (%s) changes rows; an evaluator's certificate reads them", r->kind,
		                 row->name);
	if (!to_all && r->partition >= s->options.partitions)
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no partition %u (partitions: %u)", r->partition, s->options.partitions);
	if (!to_all && !s->partitions[r->partition])
		return weir_fail(err, WEIR_E_MOVED, "partition %u is not on server %u of %u", r->partition, s->options.index,
		                 s->options.servers);
	if (r->kind == RECORD_PULL && k->call && record_writer_bytes(k->writer) > WEIR_MESSAGE_BYTES_TARGET)
		return weir_fail(err, WEIR_E_LIMIT, "pull: the answers of one call do not fit one message; ask for less at once");
	if (r->kind == RECORD_RESUME)
		return server_check_process_id(s, record_get_process(r), err);
	return WEIR_OK;
}

static void dispatch_record(struct reply_stream *k, struct message *m, const struct record *r, const struct cursor *body)
{
	struct server *s = server_of(k);
	weir_error err = {0};
	weir_status status = check_record(k, r, &err);
	if (status) {
		refuse(k, r, status, err.text);
		return;
	}
	bool to_all = r->partition == FRAME_PARTITION_ALL;
	struct request *q = request_create(k, m, r, body, to_all ? s->options.partitions : 1);
	if (!q) {
		refuse(k, r, WEIR_E_MEMORY, "out of memory");
		return;
	}
	if (r->kind == RECORD_PUSH)
		atomic_fetch_add_explicit(&s->bytes_pushed, r->bytes, memory_order_relaxed);
	if (!to_all)
		request_add(q, s->partitions[r->partition]);
	for (uint32_t p = 0; to_all && p < s->options.partitions; p++)
		if (s->partitions[p])
			request_add(q, s->partitions[p]);
	if (r->kind != RECORD_PULL || (!k->deferred && !reply_stream_is_full(k))) {
		request_run(q);
		return;
	}
	if (k->deferred)
		k->deferred_last->next = q;
	else
		k->deferred = q;
	k->deferred_last = q;
}

void dispatch_deferred(struct reply_stream *k)
{
	while (k->deferred && !reply_stream_is_full(k)) {
		struct request *q = k->deferred;
		k->deferred = q->next;
		bool outer = k->in_message;
		k->in_message = true; /* replies collect until the caller settles */
		request_run(q);
		k->in_message = outer;
	}
}

void dispatch_drop_deferred(struct reply_stream *k)
{
	bool outer = k->in_message;
	k->in_message = true; /* keeps the reply stream alive */
	while (k->deferred) {
		struct request *q = k->deferred;
		k->deferred = q->next;
		request_destroy(q);
	}
	k->in_message = outer;
}

/* --- Messages */

static weir_status open_frame(const struct reply_stream *k, const struct message *m, struct cursor *c, struct frame_header *h,
                              weir_error *err)
{
	struct server *s = server_of(k);
	weir_status status = wire_unwrap_frame(m, c, err);
	if (!status)
		status = frame_open(c, h, err);
	if (!status)
		status = server_check_job(s, h->uuid, sizeof h->uuid, h->generation, err);
	if (!status && k->stream &&
	    (k->requests + h->records > WEIR_STREAM_CREDIT_REQUESTS || k->request_bytes + h->body_bytes > WEIR_STREAM_CREDIT_BYTES))
		status =
		    weir_fail(err, WEIR_E_LIMIT,
		              "stream credit exceeded: %u requests with %llu bytes unanswered, %u with %llu more came; at most %u and %u",
		              k->requests, (unsigned long long)k->request_bytes, h->records, (unsigned long long)h->body_bytes,
		              WEIR_STREAM_CREDIT_REQUESTS, WEIR_STREAM_CREDIT_BYTES);
	return status;
}

static void message_failed(struct reply_stream *k, weir_status status, const char *text)
{
	struct server *s = server_of(k);
	if (status == WEIR_E_CORRUPT || status == WEIR_E_VERSION)
		atomic_fetch_add_explicit(&s->corrupt_refused, 1, memory_order_relaxed);
	LOG_AT(s->options.logger, LOG_WARN, "message refused", "status=%s reason=\"%s\"", weir_status_name(status), text);
	reply_stream_fail(k, status, text);
}

/* Handles all records of a frame. False: the rest of the frame cannot be parsed. */
static bool dispatch_records(struct reply_stream *k, struct message *m, struct cursor *c, uint32_t records, weir_error *err)
{
	for (uint32_t i = 0; i < records; i++) {
		struct record r;
		struct cursor body;
		weir_status status = frame_next_record(c, true, &r, &body, err);
		if (!status) {
			dispatch_record(k, m, &r, &body);
			continue;
		}
		if (r.bytes == 0) /* not even its header is valid */
			return false;
		if (status == WEIR_E_CORRUPT)
			atomic_fetch_add_explicit(&server_of(k)->corrupt_refused, 1, memory_order_relaxed);
		refuse(k, &r, status, err->text);
	}
	return true;
}

void dispatch_message(struct reply_stream *k, struct message *m)
{
	struct cursor c;
	struct frame_header h;
	weir_error err = {0};
	k->in_message = true;
	weir_status status = open_frame(k, m, &c, &h, &err);
	if (status || !dispatch_records(k, m, &c, h.records, &err))
		message_failed(k, err.status, err.text);
	k->in_message = false;
	reply_stream_settle(k);
}
