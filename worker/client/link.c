/* One server: its push stream and its pull stream. A lane keeps every frame until all its requests
 * are answered, and sends them again after a lost stream; identities make that harmless. A lane
 * that cannot get through for as long as a server may be gone fails its waiting requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/client.h"
#include "worker/client/client_trace.h"

void lane_is_asked(struct lane *lane)
{
	if (!lane->first && !lane->queue_first)
		lane->progress_ms = client_now(lane->link->client);
}

struct link *link_create(weir_client *c, uint32_t index)
{
	struct link *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->client = c;
	l->index = index;
	l->push = (struct lane){.link = l, .method = RPC_PUSH_STREAM};
	l->pull = (struct lane){.link = l, .method = RPC_PULL_STREAM};
	return l;
}

static void open_lanes(void *arg)
{
	struct link *l = arg;
	lane_open(&l->push);
	lane_open(&l->pull);
}

weir_status link_use(struct link *l, weir_error *err)
{
	weir_client *c = l->client;
	if (l->channel)
		return WEIR_OK;
	if (!l->address[0])
		return weir_fail(err, WEIR_E_NOT_FOUND, "the address of server %u is not known", l->index);
	weir_status status = rpc_channel_open(&l->channel, c->rpc, c->loop, l->address, err);
	if (!status)
		rpc_loop_post(c->loop, open_lanes, l);
	return status;
}

weir_status client_channel(weir_client *c, uint32_t server, struct rpc_channel **out, weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	weir_status status = link_use(c->links[server], err);
	*out = c->links[server]->channel;
	pthread_mutex_unlock(&c->lock);
	return status;
}

/* Describes the oldest waiting request, for the error text. */
static void describe_waiting(const struct lane *lane, char *out, size_t bytes)
{
	const struct operation *op = NULL;
	if (lane->first) {
		for (uint32_t i = 0; i < lane->first->count && !op; i++) {
			struct request *q = operation_find(lane->link->client, lane->first->ids[i]);
			op = q ? q->op : NULL;
		}
	} else if (lane->queue_first) {
		op = lane->queue_first->op;
	}
	if (op && op->has_batch)
		snprintf(out, bytes, "%s batch %u of unit %u of pass %u", op->what, op->batch.batch, op->batch.unit, op->batch.pass);
	else
		snprintf(out, bytes, "%s", op ? op->what : "waiting");
}

static void lane_give_up(struct lane *lane)
{
	char doing[160], text[2 * WEIR_ERROR_TEXT_BYTES];
	describe_waiting(lane, doing, sizeof doing);
	snprintf(text, sizeof text,
	         "server %s cannot be reached (%s) while %s: see its log for why it ended, then start it and this job again%s%s",
	         lane->link->address, lane->why[0] ? "connection lost" : "no answer", doing, lane->why[0] ? "; " : "", lane->why);
	lane->dead = true;
	client_log(lane->link->client, WEIR_LOG_ERROR, "%s", text);
	(void)lane_drop(lane, FRAME_PARTITION_ALL, WEIR_E_UNAVAILABLE, text);
	/* Drops its RESUME, too, which pulls wait for: only a new stream asks again. */
	if (lane->method == RPC_PUSH_STREAM && lane->stream)
		rpc_stream_cancel(lane->stream, WEIR_E_UNAVAILABLE, "no answer");
}

void links_forgive_pause(weir_client *c)
{
	int64_t now = client_now(c), gap = now - c->ticked_ms;
	c->ticked_ms = now;
	if (gap < WEIR_PAUSE_MS)
		return;
	for (uint32_t i = 0; i < c->links_count; i++) {
		c->links[i]->push.progress_ms += gap;
		c->links[i]->pull.progress_ms += gap;
	}
	map_forgive_pause(c, gap);
}

static bool is_lost(const struct lane *lane, int64_t now)
{
	return lane->lost_last_ms - lane->lost_first_ms >= lane->link->client->patience_ms &&
	       now - lane->lost_last_ms < WEIR_DEAD_PEER_MS;
}

weir_status links_reachable(const weir_client *c, weir_error *err)
{
	int64_t now = client_now(c);
	for (uint32_t i = 0; i < c->links_count; i++) {
		const struct link *l = c->links[i];
		if (map_uses(c, i) && (is_lost(&l->push, now) || is_lost(&l->pull, now)))
			return weir_fail(err, WEIR_E_UNAVAILABLE,
			                 "server %s cannot be reached: see its log for why it ended, then start it and this job again",
			                 l->address);
	}
	return WEIR_OK;
}

/* Reports a server that keeps its connection but has a stuck thread. */
static void tell_silent(struct lane *lane)
{
	char doing[160];
	describe_waiting(lane, doing, sizeof doing);
	if (!lane->told_silent)
		client_log(lane->link->client, WEIR_LOG_WARN, "server %s has answered nothing for %u ms while %s", lane->link->address,
		           WEIR_DEAD_PEER_MS, doing);
	lane->told_silent = true;
}

/* Waiting is limited while a stream is down, or has brought nothing since it was opened. The
 * transport watches a proven stream. */
void lane_tick(struct lane *lane)
{
	const int64_t waited_ms = client_now(lane->link->client) - lane->progress_ms;
	if ((lane->first || lane->queue_first) && lane->method == RPC_PULL_STREAM && waited_ms >= WEIR_READ_SILENT_MS)
		read_gave_up(lane->link);
	const bool waits = lane->first || lane->queue_first;
	if (waits && lane->proven && waited_ms >= WEIR_DEAD_PEER_MS)
		tell_silent(lane);
	if (!waits || (lane->stream && lane->proven))
		return;
	int64_t patience = lane->dead ? 0 : lane->link->client->patience_ms;
	if (waited_ms >= patience && !(lane->dead && lane->stream))
		lane_give_up(lane);
}

static void send_frame(struct lane *lane, struct in_flight_frame *p)
{
	_Atomic uint64_t *bytes = lane->method == RPC_PUSH_STREAM ? &lane->link->client->bytes_pushed : NULL;
	if (bytes)
		atomic_fetch_add_explicit(bytes, p->bytes, memory_order_relaxed);
	struct message *m = wire_wrap_frame(message_retain(p->message));
	/* If not, it is tried again, on the next stream at the latest. */
	p->sent = m && rpc_stream_send(lane->stream, m) == WEIR_OK;
	if (p->sent) {
		lane->sent_bytes += p->bytes;
		lane->sent_requests += p->count;
	}
}

/* Whether the server has credit for the frame. Callers that fill a lane look ahead, but requests
 * that move to it come on top. */
static bool has_credit(const struct lane *lane, const struct in_flight_frame *p)
{
	return !lane->sent_requests || (lane->sent_requests + p->count <= WEIR_STREAM_CREDIT_REQUESTS &&
	                                lane->sent_bytes + p->bytes <= WEIR_STREAM_CREDIT_BYTES);
}

/* Packs queued pulls into frames while the server's answers have room. */
static void pack_pulls(struct lane *lane)
{
	weir_client *c = lane->link->client;
	uint64_t ids[WEIR_FRAME_RECORDS_MAX];
	while (lane->queue_first && rpc_stream_queued(lane->stream) == 0) {
		uint32_t count = 0;
		size_t reply_bytes = lane->reply_bytes;
		for (struct request *q; (q = lane->queue_first) && count < WEIR_FRAME_RECORDS_MAX;) {
			bool room = lane->requests + count < WEIR_STREAM_CREDIT_REQUESTS &&
			            lane->bytes + record_writer_bytes(c->writer) + WEIR_MESSAGE_BYTES_MAX < WEIR_STREAM_CREDIT_BYTES &&
			            (reply_bytes == 0 || reply_bytes + q->reply_bytes <= WEIR_PULL_AHEAD_BYTES);
			if (!room || record_writer_bytes(c->writer) >= WEIR_MESSAGE_BYTES_TARGET)
				break;
			lane->queue_first = q->next;
			if (!lane->queue_first)
				lane->queue_last = NULL;
			if (pull_pack(c->writer, q) != WEIR_OK) {
				operation_fail(q->op, WEIR_E_MEMORY, "pulling: out of memory");
				request_answer(q);
				continue;
			}
			reply_bytes += q->reply_bytes;
			ids[count++] = operation_request_id(q->op, q);
		}
		if (!count)
			return;
		struct message *frame = record_writer_finish(c->writer, c->uuid, c->generation, NULL, NULL);
		struct in_flight_frame *p = frame ? in_flight_frame_add(lane, frame, ids, count, false) : NULL;
		if (!p) {
			for (uint32_t i = 0; i < count; i++) {
				struct request *q = operation_find(c, ids[i]);
				operation_fail(q->op, WEIR_E_MEMORY, "pulling: out of memory");
				request_answer(q);
			}
			return;
		}
		send_frame(lane, p);
	}
}

void lane_pump(struct lane *lane)
{
	const bool pulls = lane->method == RPC_PULL_STREAM;
	if (!lane->stream || (pulls && !lane->link->recognised))
		return;
	bool sent = true;
	for (struct in_flight_frame *p = lane->first; p && sent; p = p->next) {
		if (!p->sent && has_credit(lane, p))
			send_frame(lane, p);
		sent = p->sent; /* in order, or not yet */
	}
	if (pulls)
		pack_pulls(lane);
}

weir_status link_send_frame(struct link *l, struct message *message, const uint64_t *ids, uint32_t count, bool first)
{
	if (!in_flight_frame_add(&l->push, message, ids, count, first))
		return WEIR_E_MEMORY;
	links_wake(l->client);
	return WEIR_OK;
}

void link_queue_pull(struct link *l, struct request *q)
{
	struct lane *lane = &l->pull;
	lane_is_asked(lane);
	q->server = l->index;
	q->next = NULL;
	*(lane->queue_last ? &lane->queue_last->next : &lane->queue_first) = q;
	lane->queue_last = q;
}

/* --- The stream's events, on the loop */

const char *reply_text(const struct record *r, struct cursor body, char *text, size_t bytes)
{
	struct section s;
	size_t n = 0;
	if (r->sections && frame_next_section(&body, &s, NULL) == WEIR_OK) {
		n = s.data_bytes < bytes - 1 ? s.data_bytes : bytes - 1;
		if (cursor_read(&s.data, text, n) != WEIR_OK)
			n = 0;
	}
	if (!n)
		n = (size_t)snprintf(text, bytes, "%s", weir_status_text((weir_status)r->status));
	text[n < bytes ? n : bytes - 1] = 0;
	return text;
}

static void take_record(struct lane *lane, const struct record *r, struct cursor *body)
{
	weir_client *c = lane->link->client;
	weir_error err = {0};
	pthread_mutex_lock(&c->lock);
	struct request *q = operation_find(c, r->request_id);
	/* It was sent twice, was given up, or is asked elsewhere. */
	if (!q || q->answered || !q->frame || q->server != lane->link->index) {
		pthread_mutex_unlock(&c->lock);
		return;
	}
	if (q->elsewhere && r->status != WEIR_OK) {
		read_refused(lane, q);
		pthread_mutex_unlock(&c->lock);
		return;
	}
	if (r->status == WEIR_E_MOVED) {
		map_refused(lane, q, r);
		pthread_mutex_unlock(&c->lock);
		return;
	}
	if (resume_is_outdated(c, q, r)) { /* asked again with a newer map, at the map's pace */
		map_refused(lane, q, &(struct record){.moved.server = WEIR_SERVER_NONE});
		pthread_mutex_unlock(&c->lock);
		return;
	}
	if (!q->elsewhere)
		map_answered(c, q->partition);
	struct operation *op = q->op;
	weir_status status;
	const int64_t begun_ns = op->has_batch ? trace_begin(c->trace) : 0;
	struct trace_what what = batch_trace(r->kind == RECORD_PULL_REPLY ? TRACE_DECODE : TRACE_ACKNOWLEDGED, &op->batch);
	what.partition = q->partition;
	what.part = q->part;
	request_done(lane, q);
	/* Decoded without the lock: the request holds its operation. */
	if (r->kind == RECORD_PULL_REPLY) {
		pthread_mutex_unlock(&c->lock);
		status = op->on_reply(op, q, r, body, &err);
		pthread_mutex_lock(&c->lock);
	} else {
		status = op->on_reply(op, q, r, body, &err);
	}
	trace_end(c->trace, begun_ns, &what);
	if (q->asked_again) {
		q->asked_again = false;
		lane_pump(lane);
		pthread_mutex_unlock(&c->lock);
		return;
	}
	if (status == WEIR_E_STALE)
		client_become_stale(c, err.text[0] ? err.text : "a server says that a newer attempt has taken over");
	if (client_is_over(status))
		client_fail(c, status, err.text);
	if (status != WEIR_OK)
		operation_fail(op, status, err.text[0] ? err.text : weir_status_text(status));
	request_answer(q);
	pthread_mutex_unlock(&c->lock);
}

static weir_status take_frame(struct lane *lane, struct message *m, weir_error *err)
{
	struct cursor frame, body;
	struct frame_header header;
	struct record r;
	weir_status status = wire_unwrap_frame(m, &frame, err);
	if (status == WEIR_OK)
		status = frame_open(&frame, &header, err);
	for (uint32_t i = 0; status == WEIR_OK && i < header.records; i++) {
		status = frame_next_record(&frame, true, &r, &body, err);
		if (status == WEIR_OK)
			take_record(lane, &r, &body);
	}
	return status;
}

static void on_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct lane *lane = arg;
	weir_client *c = lane->link->client;
	weir_error err = {0};
	if (lane->method == RPC_PULL_STREAM)
		atomic_fetch_add_explicit(&c->bytes_pulled, m->bytes, memory_order_relaxed);
	weir_status status = take_frame(lane, m, &err);
	if (status != WEIR_OK) {
		client_log(c, WEIR_LOG_WARN, "server %s sent what cannot be read (%s): connecting again", lane->link->address, err.text);
		rpc_stream_cancel(stream, status, err.text);
		return;
	}
	pthread_mutex_lock(&c->lock);
	if (lane->told_lost || lane->told_silent)
		client_log(c, WEIR_LOG_INFO, "server %s answers again", lane->link->address);
	lane->told_lost = lane->told_silent = false;
	lane->proven = true;
	lane->dead = false;
	lane->backoff_ms = 0;
	lane->progress_ms = client_now(c);
	lane_pump(lane);
	steps_poll(c);
	pthread_mutex_unlock(&c->lock);
}

static void on_writable(void *arg, struct rpc_stream *stream)
{
	struct lane *lane = arg;
	(void)stream;
	pthread_mutex_lock(&lane->link->client->lock);
	lane_pump(lane);
	pthread_mutex_unlock(&lane->link->client->lock);
}

static void open_later(void *arg)
{
	lane_open(arg);
}

/* One of its two lanes reports for a server. */
static bool tells(const struct lane *lane)
{
	return lane->method == RPC_PUSH_STREAM && !lane->link->client->closing;
}

static void lane_lost(struct lane *lane, const char *text)
{
	weir_client *c = lane->link->client;
	int64_t now = client_now(c);
	pthread_mutex_lock(&c->lock);
	links_forgive_pause(c);
	if (now - lane->lost_last_ms >= WEIR_DEAD_PEER_MS)
		lane->lost_first_ms = now;
	lane->lost_last_ms = now;
	if (lane->proven && tells(lane)) {
		client_log(c, WEIR_LOG_WARN, "the connection to server %s is lost: %s", lane->link->address, text);
		lane->told_lost = true;
	}
	lane->stream = NULL;
	lane->proven = false;
	lane->link->recognised &= lane->method != RPC_PUSH_STREAM;
	snprintf(lane->why, sizeof lane->why, "%s", text);
	for (struct in_flight_frame *p = lane->first; p; p = p->next)
		p->sent = false;
	lane->sent_bytes = lane->sent_requests = 0;
	read_gave_up(lane->link);
	if (!c->closing) {
		lane_tick(lane);
		lane->opening = true;
		lane->backoff_ms = lane->backoff_ms ? 2 * lane->backoff_ms : WEIR_RETRY_FIRST_MS;
		if (lane->backoff_ms > WEIR_RETRY_CAP_MS)
			lane->backoff_ms = WEIR_RETRY_CAP_MS;
		rpc_loop_after(c->loop, lane->backoff_ms, open_later, lane);
	}
	pthread_mutex_unlock(&c->lock);
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct lane *lane = arg;
	weir_client *c = lane->link->client;
	(void)stream;
	if (client_is_over(status)) {
		pthread_mutex_lock(&c->lock);
		client_fail(c, status, text);
		pthread_mutex_unlock(&c->lock);
	}
	lane_lost(lane, text && text[0] ? text : status == WEIR_OK ? "the server has ended it" : weir_status_text(status));
}

void lane_open(struct lane *lane)
{
	static const struct rpc_stream_handler handler = {.message = on_message, .writable = on_writable, .closed = on_closed};
	weir_client *c = lane->link->client;
	weir_error err = {0};
	pthread_mutex_lock(&c->lock);
	lane->opening = false;
	bool closing = c->closing;
	pthread_mutex_unlock(&c->lock);
	if (closing)
		return;
	struct rpc_stream *stream = NULL;
	if (rpc_stream_open(&stream, lane->link->channel, lane->method, &handler, lane, &err) != WEIR_OK) {
		lane_lost(lane, err.text);
		return;
	}
	pthread_mutex_lock(&c->lock);
	lane->stream = stream;
	if (lane->method == RPC_PUSH_STREAM && client_usable(c, NULL) == WEIR_OK && resume_ask(lane->link, false, true) != WEIR_OK)
		/* It is opened again, and asked. */
		rpc_stream_cancel(stream, WEIR_E_MEMORY, "out of memory");
	else
		lane_pump(lane);
	pthread_mutex_unlock(&c->lock);
}
