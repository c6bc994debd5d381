/* Sends a push: parts become records, records become frames of about a message, and frames go to
 * their servers as credit allows. Dense fp32 values are sent from the caller's memory; the
 * operation holds on until the transport has released that memory. */
#include <stdlib.h>

#include "worker/client/client_trace.h"
#include "worker/client/push_plan.h"

/* Nothing points into the caller's memory any more. Any thread. */
static void on_release(struct message *m)
{
	struct operation *op = m->owner;
	atomic_fetch_sub_explicit(&op->client->lent, 1, memory_order_relaxed);
	operation_unhold(op);
}

/* A frame on its way to one server. */
struct frame_builder {
	struct operation *op;
	struct link *link;
	struct record_writer *writer;
	uint64_t changes; /* of the map, when the link was chosen */
	bool borrowed;
	uint32_t count;
	uint64_t ids[WEIR_STREAM_CREDIT_REQUESTS];
};

/* The rest of the operation need not be sent. A part refused as not finite is settled; the others
 * are still sent. */
static bool is_given_up(const struct operation *op)
{
	return op->status != WEIR_OK && op->status != WEIR_E_NOT_FINITE;
}

static bool lacks_credit(const struct frame_builder *b, size_t bytes)
{
	const struct lane *lane = &b->link->push;
	/* The rest of the credit is for seals, closes and retirements, which do not wait. */
	const uint32_t requests_max = WEIR_STREAM_CREDIT_REQUESTS - WEIR_STREAM_CREDIT_REQUESTS / 8;
	return lane->requests && (lane->bytes + bytes > WEIR_PUSH_AHEAD_BYTES || lane->requests + b->count > requests_max);
}

static weir_status wait_for_credit(struct frame_builder *b, size_t bytes)
{
	weir_client *c = b->op->client;
	weir_error why = {0};
	const int64_t begun_ns = lacks_credit(b, bytes) ? trace_begin(c->trace) : 0;
	while (!is_given_up(b->op) && client_usable(c, NULL) == WEIR_OK && lacks_credit(b, bytes)) {
		if (rpc_loop_is_current(c->loop)) {
			operation_fail(b->op, WEIR_E_BUSY, "the send credit is used up: a callback cannot wait for it");
			break;
		}
		(void)client_wait(c, -1);
	}
	const struct trace_what what = batch_trace(TRACE_CREDIT, &b->op->batch);
	trace_end(c->trace, begun_ns, &what);
	if (client_usable(c, &why) != WEIR_OK) {
		operation_fail(b->op, why.status, why.text);
		return why.status;
	}
	return is_given_up(b->op) ? b->op->status : WEIR_OK;
}

/* Sends the records built so far. A request that cannot be sent is answered with a failure of its
 * operation. */
static void flush(struct frame_builder *b)
{
	weir_client *c = b->op->client;
	if (!b->count)
		return;
	if (b->borrowed)
		atomic_fetch_add_explicit(&b->op->holds, 1, memory_order_relaxed);
	struct message *m = record_writer_finish(b->writer, c->uuid, c->generation, b->borrowed ? on_release : NULL, b->op);
	const bool lent = b->borrowed && m;
	pthread_mutex_lock(&c->lock);
	if (!m) {
		if (b->borrowed)
			operation_unhold(b->op);
		operation_fail(b->op, WEIR_E_MEMORY, "push: out of memory");
	} else if (wait_for_credit(b, m->bytes) != WEIR_OK) {
		message_release(m);
		m = NULL;
	}
	if (!m || link_send_frame(b->link, m, b->ids, b->count, false) != WEIR_OK) {
		operation_fail(b->op, WEIR_E_MEMORY, "push: out of memory");
		for (uint32_t i = 0; i < b->count; i++)
			request_answer(operation_find(c, b->ids[i]));
	} else if (b->changes != c->map.changes) {
		lane_move_last(&b->link->push);
	}
	if (lent) /* the transport may have released it already */
		atomic_fetch_add_explicit(&c->lent, 1, memory_order_relaxed);
	pthread_mutex_unlock(&c->lock);
	b->count = 0;
	b->borrowed = false;
}

static bool write_section(struct frame_builder *b, const struct push *p, const struct section_plan *section)
{
	struct trace *trace = b->op->client->trace;
	const int64_t begun_ns = trace_begin(trace);
	const bool borrowed = section_plan_write(b->writer, p, section);
	struct trace_what what = batch_trace(TRACE_ENCODE, &b->op->batch);
	what.op = (uint16_t)p->items[section->item].codec;
	trace_end(trace, begun_ns, &what);
	return borrowed;
}

static void write_part(struct frame_builder *b, const struct push *p, const struct part *part, struct request *q,
                       const struct record *r)
{
	if (b->count == WEIR_STREAM_CREDIT_REQUESTS ||
	    (b->count && record_writer_bytes(b->writer) + part->bytes > WEIR_MESSAGE_BYTES_TARGET))
		flush(b);
	record_writer_begin(b->writer, r);
	bool borrowed = false;
	for (uint32_t i = part->first; i < part->first + part->count; i++)
		borrowed |= write_section(b, p, &p->sections[i]);
	if (record_writer_end(b->writer) != WEIR_OK) {
		pthread_mutex_lock(&b->op->client->lock);
		operation_fail(b->op, WEIR_E_MEMORY, "push: out of memory");
		request_answer(q);
		pthread_mutex_unlock(&b->op->client->lock);
		return;
	}
	b->borrowed |= borrowed;
	b->ids[b->count++] = r->request_id;
}

/* server (partitions): the present server of each. Returns the number of servers. */
static uint32_t read_map(struct frame_builder *b, uint32_t *server)
{
	weir_client *c = b->op->client;
	pthread_mutex_lock(&c->lock);
	for (uint32_t p = 0; p < c->partitions; p++)
		server[p] = c->map.places[p].server;
	const uint32_t servers = c->links_count;
	b->changes = c->map.changes;
	pthread_mutex_unlock(&c->lock);
	return servers;
}

/* Writes the record of one request. */
static void send_part(struct frame_builder *b, const struct push_send *how, struct request *q)
{
	const struct push *p = b->op->payload;
	const struct part *part = &p->parts[q->first];
	struct record r = how->template;
	r.partition = q->partition;
	r.part = q->part;
	r.request_id = operation_request_id(b->op, q);
	r.push.applied = how->applied ? how->applied[q->partition] : 0;
	r.push.step = part->synchronous ? how->step : 0;
	write_part(b, p, part, q, &r);
}

weir_status push_send(struct operation *op, const struct push_send *how, const bool *chosen)
{
	weir_client *c = op->client;
	uint32_t server_of[WEIR_PARTITIONS_MAX];
	struct frame_builder *b = calloc(1, sizeof *b);
	struct record_writer *writer = record_writer_create();
	if (!b || !writer) {
		free(b);
		record_writer_destroy(writer);
		return WEIR_E_MEMORY;
	}
	b->op = op;
	b->writer = writer;
	const uint32_t servers = read_map(b, server_of);
	for (uint32_t server = 0; server < servers; server++) {
		b->link = c->links[server];
		for (uint32_t i = 0; i < op->requests_count; i++) {
			struct request *q = &op->requests[i];
			if (server_of[q->partition] != server || (chosen && !chosen[q->first]))
				continue;
			send_part(b, how, q);
		}
		flush(b);
	}
	free(b);
	record_writer_destroy(writer);
	return WEIR_OK;
}
