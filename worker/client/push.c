/* Push: the parts of a batch are noted in its unit's records, sent (push_send.c) and
 * acknowledged. */
#include <stdlib.h>
#include <string.h>

#include "worker/client/api_struct.h"
#include "worker/client/client_trace.h"
#include "worker/client/push_plan.h"

static void destroy(struct operation *op)
{
	push_destroy(op->payload);
}

static void fill_request(struct request *q, const struct part *part, uint32_t index)
{
	q->partition = part->partition;
	q->part = part->part;
	q->first = index;
}

/* Gives the builder's hold back; everything that could not be sent is answered. */
static void seal_operation(struct operation *op, weir_status status)
{
	if (status == WEIR_OK) {
		operation_unhold(op);
		return;
	}
	pthread_mutex_lock(&op->client->lock);
	operation_end_unsent(op, status, weir_status_text(status));
	pthread_mutex_unlock(&op->client->lock);
}

/* --- weir_push */

static weir_status on_push_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body,
                                 weir_error *err)
{
	weir_client *c = op->client;
	char text[256];
	if (r->status == WEIR_E_DUPLICATE)
		atomic_fetch_add_explicit(&c->duplicates, 1, memory_order_relaxed);
	else if (r->status == WEIR_E_NOT_FINITE) /* an outcome: the part is done, without effect */
		operation_fail(op, WEIR_E_NOT_FINITE, reply_text(r, *body, text, sizeof text));
	else if (r->status != WEIR_OK && r->status != WEIR_E_DROPPED)
		return weir_fail(err, (weir_status)r->status, "server %s refused batch %u of unit %u of pass %u in partition %u: %s",
		                 c->links[q->server]->address, op->batch.batch, op->batch.unit, op->batch.pass, q->partition,
		                 reply_text(r, *body, text, sizeof text));
	if (r->status == WEIR_OK)
		c->staleness[histogram_bucket_of(r->attempt)]++;
	if (r->reply.applied > c->applied_seen[q->partition])
		c->applied_seen[q->partition] = r->reply.applied;
	acknowledge(c, q->partition, r, r->reply.epoch);
	struct held_batch *b = batch_find(c, &op->batch, NULL, NULL);
	if (b) {
		b->parts[q->first].applied = r->reply.applied;
		b->unacknowledged--;
	}
	return WEIR_OK;
}

static void on_push_finish(struct operation *op)
{
	weir_client *c = op->client;
	struct held_unit *u = NULL;
	struct held_batch *b = batch_find(c, &op->batch, &u, NULL);
	atomic_fetch_sub_explicit(&c->pushes_in_flight, 1, memory_order_relaxed);
	if (b) {
		u->outstanding--;
		if (b->unacknowledged == 0) {
			b->complete = true;
			unit_advance(c, u);
		} else if (u->failure == WEIR_OK) {
			u->failure = op->status;
			strncpy(u->failure_text, op->text ? op->text : "", sizeof u->failure_text - 1);
		}
	}
	steps_poll(c);
	clocks_poll(c);
}

/* Notes in the unit's records the parts of the batch. wanted (parts_count): the parts that must be
 * sent; returns their number. */
static weir_status note_batch(weir_client *c, const weir_batch *batch, const struct push *p, bool *wanted, uint32_t *wanted_count,
                              weir_error *err)
{
	struct held_unit *u;
	struct held_batch *b = batch_find(c, batch, &u, err);
	if (!b)
		return err->status;
	if (b->pushed)
		return weir_fail(err, WEIR_E_STATE, "batch %u of unit %u of pass %u was pushed already: all tables go in one push",
		                 batch->batch, batch->unit, batch->pass);
	bool synchronous = false;
	for (uint32_t i = 0; i < p->parts_count; i++)
		synchronous |= p->parts[i].synchronous;
	if (synchronous && !b->step)
		return weir_fail(err, WEIR_E_STATE,
		                 "batch %u of unit %u of pass %u has no step: pull its synchronous tables before pushing them",
		                 batch->batch, batch->unit, batch->pass);
	b->parts = calloc(p->parts_count + 1u, sizeof *b->parts);
	if (!b->parts)
		return weir_fail(err, WEIR_E_MEMORY, "push: out of memory");
	b->parts_count = p->parts_count;
	for (uint32_t i = 0; i < p->parts_count; i++) {
		const struct part *part = &p->parts[i];
		wanted[i] = !unit_has_part(u, batch->batch, part->partition, part->part);
		b->parts[i] = (struct part_sent){
		    .partition = part->partition, .part = part->part, .applied = wanted[i] ? 0 : u->sealed[part->partition]};
		*wanted_count += wanted[i];
	}
	activity_batch_ends(c);
	b->unacknowledged = *wanted_count;
	b->pushed = true;
	b->refused = false;
	b->weight = p->weight;
	c->steps.weight = p->weight;
	u->outstanding++;
	return WEIR_OK;
}

/* Removes the batch's record: the push could not start. */
static void forget_batch(weir_client *c, const weir_batch *batch)
{
	pthread_mutex_lock(&c->lock);
	struct held_unit *u = NULL;
	struct held_batch *b = batch_find(c, batch, &u, NULL);
	if (b) {
		free(b->parts);
		b->parts = NULL;
		b->parts_count = b->unacknowledged = 0;
		b->pushed = false;
		u->outstanding--;
	}
	pthread_mutex_unlock(&c->lock);
}

static void refuse_batch(weir_client *c, const weir_batch *batch)
{
	pthread_mutex_lock(&c->lock);
	struct held_batch *b = batch_find(c, batch, NULL, NULL);
	if (b && !b->refused)
		activity_batch_ends(c);
	if (b)
		b->refused = true;
	steps_poll(c);
	clocks_poll(c);
	pthread_mutex_unlock(&c->lock);
}

/* applied (partitions): the applied index of each partition when this batch was pulled, else the
 * last one seen. Fills `all` with the fields common to the batch's records. Returns its step. */
static uint64_t read_batch(weir_client *c, const weir_batch *batch, const struct push *push, uint64_t *applied,
                           struct record *all)
{
	struct held_unit *u = NULL;
	const struct held_batch *b = batch_find(c, batch, &u, NULL);
	const uint64_t place = push->place || !b ? push->place : unit_batch_place(c, u, batch->batch);
	all->push.rate_scale = b ? rate_bits(u->rate_scale) : 0;
	all->push.place = place < UINT32_MAX ? (uint32_t)place : UINT32_MAX;
	if (all->push.place > atomic_load_explicit(&c->pushed_place, memory_order_relaxed))
		atomic_store_explicit(&c->pushed_place, all->push.place, memory_order_relaxed);
	for (uint32_t p = 0; p < c->partitions; p++)
		applied[p] = b && b->applied && b->applied[p] ? b->applied[p] : c->applied_seen[p];
	return b ? b->step : 0;
}

/* If a push completes when it is on its way, there are two operations: *told is the one that the
 * caller waits for. */
static struct operation *push_operation(weir_client *c, const weir_batch *batch, struct push *p, const bool *wanted,
                                        uint32_t count, struct operation **told, weir_error *err)
{
	struct operation *op = operation_create(c, "pushing", count, err);
	if (!op)
		return NULL;
	*told = c->ack_sent ? operation_create(c, "pushing", 0, err) : op;
	if (!*told) {
		pthread_mutex_lock(&c->lock);
		operation_destroy(op);
		pthread_mutex_unlock(&c->lock);
		return NULL;
	}
	op->forgotten = *told != op;
	op->has_batch = true;
	op->batch = *batch;
	op->payload = p;
	op->destroy = destroy;
	op->on_reply = on_push_reply;
	op->on_finish = on_push_finish;
	struct request *q = op->requests;
	for (uint32_t i = 0; i < p->parts_count; i++)
		if (wanted[i])
			fill_request(q++, &p->parts[i], i);
	return op;
}

/* The push is on its way, or could not be sent. Its unit reports later errors. */
static void tell_sent(struct operation *told, const struct operation *push, weir_status status)
{
	if (told == push)
		return;
	pthread_mutex_lock(&told->client->lock);
	status = status ? status : push->status;
	if (status)
		operation_fail(told, status, push->text ? push->text : weir_status_text(status));
	pthread_mutex_unlock(&told->client->lock);
	operation_unhold(told);
}

weir_status push_begin(struct push_run *run, weir_client *c, const weir_batch *batch, struct push *p, weir_error *err)
{
	uint32_t count = 0;
	*run = (struct push_run){.send.template = {.kind = RECORD_PUSH,
	                                           .pass = batch->pass,
	                                           .unit = batch->unit,
	                                           .attempt = batch->attempt,
	                                           .batch = batch->batch},
	                         .send.applied = calloc(c->partitions, sizeof *run->send.applied),
	                         .wanted = calloc(p->parts_count + 1u, sizeof *run->wanted)};
	pthread_mutex_lock(&c->lock);
	weir_status status =
	    !run->send.applied || !run->wanted ? weir_fail(err, WEIR_E_MEMORY, "push: out of memory") : client_usable(c, err);
	if (status == WEIR_OK)
		status = note_batch(c, batch, p, run->wanted, &count, err);
	if (status == WEIR_OK)
		run->send.step = read_batch(c, batch, p, run->send.applied, &run->send.template);
	pthread_mutex_unlock(&c->lock);
	if (status == WEIR_OK && !(run->op = push_operation(c, batch, p, run->wanted, count, &run->told, err))) {
		status = err->status;
		forget_batch(c, batch);
	}
	if (!run->op) {
		free(run->wanted);
		free(run->send.applied);
		push_destroy(p);
		return status;
	}
	atomic_fetch_add_explicit(&c->pushes_in_flight, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->parts_pushed, count, memory_order_relaxed);
	return WEIR_OK;
}

void push_end(struct push_run *run, weir_status status)
{
	tell_sent(run->told, run->op, status);
	seal_operation(run->op, status);
	free(run->wanted);
	free(run->send.applied);
}

weir_status push_start(weir_client *c, const weir_batch *batch, struct push *p, weir_done_fn done, void *arg, weir_ticket *ticket,
                       weir_error *err)
{
	struct push_run run;
	weir_status status = push_begin(&run, c, batch, p, err);
	if (status != WEIR_OK)
		return status;
	run.told->done = done;
	run.told->arg = arg;
	if (ticket)
		*ticket = run.told->ticket;
	status = coding_begin(c, p, run.wanted, err);
	if (status == WEIR_OK)
		status = push_send(run.op, &run.send, NULL);
	coding_end(c, p);
	push_end(&run, status);
	return WEIR_OK;
}

void push_withdraw(struct push_run *run, const bool *sent, const char *why)
{
	struct operation *op = run->op;
	weir_client *c = op->client;
	pthread_mutex_lock(&c->lock);
	struct held_batch *b = batch_find(c, &op->batch, NULL, NULL);
	operation_fail(op, WEIR_E_NOT_FINITE, why);
	for (uint32_t i = 0; i < op->requests_count; i++) {
		struct request *q = &op->requests[i];
		if (sent[q->first])
			continue;
		if (b) {
			b->parts[q->first].withdrawn = true;
			b->unacknowledged--;
		}
		request_answer(q);
	}
	if (b)
		b->withdrawn = true;
	pthread_mutex_unlock(&c->lock);
}

weir_status weir_push(weir_client *c, const weir_batch *batch, const weir_push_item *items, size_t count,
                      const weir_push_options *given, weir_done_fn done, void *arg, weir_ticket *ticket, weir_error *err)
{
	weir_error own = {0};
	weir_push_options options;
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	if (api_struct_read(API_weir_push_options, &options, given, err) != WEIR_OK)
		return err->status;
	if (!batch || c->options.role != WEIR_TRAINER)
		return weir_fail(err, WEIR_E_STATE, "only a trainer pushes, and only batches of units it has leased");
	if (!(options.weight >= 0 && options.weight <= WEIR_BATCH_WEIGHT_MAX))
		return weir_fail(err, WEIR_E_INVALID, "push: a batch that weighs %g in its step; expected 0 to %g", options.weight,
		                 WEIR_BATCH_WEIGHT_MAX);
	const bool copy = c->ack_sent || options.copy;
	const int64_t begun_ns = trace_begin(c->trace);
	struct push *p = push_open(c, items, count, &(struct push_reading){.copy = copy}, err);
	if (!p) {
		if (err->status == WEIR_E_NOT_FINITE)
			refuse_batch(c, batch);
		return err->status;
	}
	p->place = options.place;
	p->weight = options.weight;
	const weir_status status = push_start(c, batch, p, done, arg, ticket, err);
	const struct trace_what what = batch_trace(TRACE_SEND, batch);
	trace_end(c->trace, begun_ns, &what);
	return status;
}

weir_status weir_leave_out(weir_client *c, const weir_batch *batch, weir_error *err)
{
	if (!batch || c->options.role != WEIR_TRAINER)
		return weir_fail(err, WEIR_E_STATE, "only a trainer leaves batches out, and only those of units it has leased");
	refuse_batch(c, batch);
	return WEIR_OK;
}

/* --- weir_assign */

weir_status weir_assign(weir_client *c, uint32_t table, const uint64_t *keys, size_t rows, const float *values, weir_error *err)
{
	weir_error own = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	weir_push_item item = {.table = table, .keys = keys, .rows = rows, .values = values};
	struct push *p = push_open(c, &item, 1, &(struct push_reading){.assign = true}, err);
	if (!p)
		return err->status;
	struct operation *op = operation_create(c, "assigning rows", p->parts_count, err);
	if (!op) {
		push_destroy(p);
		return err->status;
	}
	op->payload = p;
	op->destroy = destroy;
	op->on_reply = plain_reply;
	for (uint32_t i = 0; i < p->parts_count; i++)
		fill_request(&op->requests[i], &p->parts[i], i);
	const struct push_send send = {.template = {.kind = RECORD_ASSIGN}};
	seal_operation(op, push_send(op, &send, NULL));
	return operation_wait(op, -1, err);
}
