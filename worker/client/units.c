/* Work units as their holder keeps them: which batches were pushed, which are stable everywhere, what each partition took. The watermark is the first
 * batch that is not stable; totals below it travel with progress, so that whoever continues the unit can account for all of it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static void batch_free(struct held_batch *b)
{
	if (!b)
		return;
	free(b->applied);
	free(b->parts);
	free(b);
}

static void unit_free(weir_client *c, struct held_unit *u)
{
	for (uint32_t b = 0; u->batch && b < u->batches; b++)
		batch_free(u->batch[b]);
	for (uint32_t p = 0; u->present && p < c->partitions; p++)
		free(u->present[p]);
	free(u->batch);
	free(u->present);
	free(u->present_bits);
	free(u->count);
	free(u->fingerprint);
	free(u);
}

void units_free(weir_client *c)
{
	for (struct held_unit *u; (u = c->units);) {
		c->units = u->next;
		unit_free(c, u);
	}
}

static void unit_forget(weir_client *c, struct held_unit *u)
{
	struct held_unit **at = &c->units;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	unit_free(c, u);
}

struct held_unit *unit_find(weir_client *c, uint32_t pass, uint32_t unit, uint32_t attempt)
{
	struct held_unit *u = c->units;
	while (u && !(u->pass == pass && u->unit == unit && u->attempt == attempt))
		u = u->next;
	return u;
}

struct held_batch *batch_find(weir_client *c, const weir_batch *b, struct held_unit **unit, weir_error *err)
{
	struct held_unit *u = unit_find(c, b->pass, b->unit, b->attempt);
	if (!u) {
		(void)weir_fail(err, WEIR_E_STATE, "unit %u of pass %u, attempt %u, is not held by this worker", b->unit, b->pass,
		                b->attempt);
		return NULL;
	}
	if (b->batch >= u->batches || b->batch < u->watermark) {
		(void)weir_fail(err, WEIR_E_STATE,
		                "batch %u of unit %u of pass %u: open are %u to %u (weir_unit_begin says how many there are)", b->batch,
		                b->unit, b->pass, u->watermark, u->batches);
		return NULL;
	}
	if (!u->batch[b->batch] && !(u->batch[b->batch] = calloc(1, sizeof(struct held_batch)))) {
		(void)weir_fail(err, WEIR_E_MEMORY, "batch %u: out of memory", b->batch);
		return NULL;
	}
	if (unit)
		*unit = u;
	return u->batch[b->batch];
}

bool unit_has_part(const struct held_unit *u, uint32_t batch, uint32_t partition, uint32_t part)
{
	uint32_t bit = frame_part_bit(batch, part);
	return u->present && bit < u->present_bits[partition] && (u->present[partition][bit / 8] >> (bit % 8) & 1);
}

/* Adds a batch's parts to totals (partitions). */
static void count_parts(const struct held_unit *u, uint32_t batch, uint32_t *count, uint64_t *fingerprint)
{
	const struct held_batch *b = u->batch[batch];
	for (uint32_t i = 0; b && i < b->parts_count; i++) {
		count[b->parts[i].partition]++;
		fingerprint[b->parts[i].partition] += frame_identity_hash(u->pass, u->unit, batch, b->parts[i].part);
	}
}

static bool batch_is_stable(const weir_client *c, const struct held_batch *b)
{
	if (!b || !b->complete)
		return false;
	for (uint32_t i = 0; i < b->parts_count; i++)
		if (b->parts[i].applied > c->stable_seen[b->parts[i].partition])
			return false;
	return true;
}

void unit_advance(weir_client *c, struct held_unit *u)
{
	while (u->watermark < u->batches && batch_is_stable(c, u->batch[u->watermark])) {
		count_parts(u, u->watermark, u->count, u->fingerprint);
		batch_free(u->batch[u->watermark]);
		u->batch[u->watermark++] = NULL;
	}
	pthread_cond_broadcast(&c->changed);
}

/* --- Lease */

static struct held_unit *unit_create(weir_client *c, const Weir__V1__WorkUnit *in)
{
	struct held_unit *u = calloc(1, sizeof *u);
	if (!u)
		return NULL;
	u->pass = in->pass;
	u->unit = in->unit;
	u->attempt = in->attempt;
	u->data_unit = in->data_unit;
	u->watermark = in->watermark;
	u->count = calloc(c->partitions, sizeof *u->count);
	u->fingerprint = calloc(c->partitions, sizeof *u->fingerprint);
	if (!u->count || !u->fingerprint) {
		unit_free(c, u);
		return NULL;
	}
	const Weir__V1__PartTotals *t = in->totals;
	for (uint32_t p = 0; t && t->n_count == c->partitions && t->n_fingerprint == c->partitions && p < c->partitions; p++) {
		u->count[p] = t->count[p];
		u->fingerprint[p] = t->fingerprint[p];
	}
	return u;
}

static weir_status on_seal_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body,
                                 weir_error *err)
{
	weir_client *c = op->client;
	struct held_unit *u = op->payload;
	struct section s;
	char text[256];
	if (r->status != WEIR_OK)
		return weir_fail(err, (weir_status)r->status, "server %s: partition %u refused to seal unit %u of pass %u: %s",
		                 c->links[q->server].address, q->partition, u->unit, u->pass, reply_text(r, *body, text, sizeof text));
	weir_status status = frame_next_section(body, &s, err);
	if (status != WEIR_OK)
		return status;
	if (s.data_bytes * 8ull < r->c)
		return weir_fail(err, WEIR_E_CORRUPT, "seal of unit %u: %u bytes for a bitmap of %u bits", u->unit, s.data_bytes, r->c);
	uint8_t *bitmap = malloc(s.data_bytes + 1u);
	if (!bitmap)
		return weir_fail(err, WEIR_E_MEMORY, "seal: out of memory");
	status = cursor_read(&s.data, bitmap, s.data_bytes);
	u->present[q->partition] = bitmap;
	u->present_bits[q->partition] = r->c;
	return status;
}

/* Tells every partition that older attempts of the unit are over, and learns which of their parts are applied. */
static weir_status seal(weir_client *c, struct held_unit *u, weir_error *err)
{
	u->present = calloc(c->partitions, sizeof *u->present);
	u->present_bits = calloc(c->partitions, sizeof *u->present_bits);
	struct operation *op = u->present && u->present_bits ? operation_create(c, "sealing", c->partitions, err) : NULL;
	if (!op)
		return err->status ? err->status : weir_fail(err, WEIR_E_MEMORY, "seal: out of memory");
	struct record_writer *w = record_writer_create();
	op->payload = u;
	op->on_reply = on_seal_reply;
	pthread_mutex_lock(&c->lock);
	for (uint32_t p = 0; p < c->partitions; p++) {
		struct request *q = &op->requests[p];
		q->partition = (uint16_t)p;
		q->server = c->partition_server[p];
		struct record r = {.kind = RECORD_SEAL,
		                   .partition = (uint16_t)p,
		                   .request_id = operation_request_id(op, q),
		                   .pass = u->pass,
		                   .unit = u->unit,
		                   .attempt = u->attempt};
		struct message *m = NULL;
		if (w) {
			record_writer_begin(w, &r);
			m = record_writer_end(w) == WEIR_OK ? record_writer_finish(w, c->uuid, c->generation, NULL, NULL) : NULL;
		}
		if (!m || link_send_frame(&c->links[q->server], m, &r.request_id, 1) != WEIR_OK) {
			operation_fail(op, WEIR_E_MEMORY, "sealing: out of memory");
			request_answer(q);
		}
	}
	pthread_mutex_unlock(&c->lock);
	record_writer_destroy(w);
	operation_unhold(op);
	return operation_wait(op, -1, err);
}

static weir_status take_unit(weir_client *c, const Weir__V1__WorkUnit *in, weir_unit *out, weir_error *err)
{
	struct held_unit *u = unit_create(c, in);
	if (!u)
		return weir_fail(err, WEIR_E_MEMORY, "lease: out of memory");
	weir_status status = in->sealed ? seal(c, u, err) : WEIR_OK;
	pthread_mutex_lock(&c->lock);
	if (status == WEIR_OK)
		status = client_usable(c, err);
	if (status == WEIR_OK) {
		u->next = c->units;
		c->units = u;
	} else {
		unit_free(c, u);
	}
	pthread_mutex_unlock(&c->lock);
	*out = (weir_unit){.state = WEIR_UNIT_LEASED,
	                   .pass = in->pass,
	                   .unit = in->unit,
	                   .attempt = in->attempt,
	                   .data_unit = in->data_unit,
	                   .watermark = in->watermark};
	return status;
}

/* One LeaseRequest. *again_ms: when to ask again, 0 when there is an answer. */
static weir_status ask_for_unit(weir_client *c, uint64_t sequence, weir_unit *out, uint32_t *again_ms, weir_error *err)
{
	Weir__V1__LeaseRequest q = WEIR__V1__LEASE_REQUEST__INIT;
	Weir__V1__JobId job;
	ProtobufCMessage *reply = NULL;
	client_fill_job(c, &job);
	q.job = &job;
	q.worker = c->worker;
	q.incarnation = c->incarnation;
	q.sequence = sequence;
	weir_status status =
	    client_call(c, c->ledger, RPC_LEASE, &q.base, WEIR_CONTROL_TIMEOUT_MS, &weir__v1__lease_reply__descriptor, &reply, err);
	if (status != WEIR_OK)
		return status;
	const Weir__V1__LeaseReply *r = (const Weir__V1__LeaseReply *)reply;
	*again_ms = 0;
	*out = (weir_unit){.state = WEIR_UNIT_FINISHED, .pass = r->pass, .last_pass = r->last};
	if (r->state == WEIR__V1__LEASE_STATE__UNIT && r->unit)
		status = take_unit(c, r->unit, out, err);
	else if (r->state == WEIR__V1__LEASE_STATE__EVALUATE)
		out->state = WEIR_UNIT_EVALUATE;
	else if (r->state != WEIR__V1__LEASE_STATE__FINISHED)
		*again_ms = r->retry_ms ? r->retry_ms : 1;
	wire_free(reply);
	return status;
}

weir_status weir_unit_lease(weir_client *c, weir_unit *unit, int64_t timeout_ms, weir_error *err)
{
	weir_error own = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	int64_t deadline = timeout_ms < 0 ? INT64_MAX : client_now(c) + timeout_ms;
	pthread_mutex_lock(&c->lock);
	uint64_t sequence = ++c->lease_sequence;
	weir_status status = client_usable(c, err);
	pthread_mutex_unlock(&c->lock);
	while (status == WEIR_OK) {
		uint32_t again_ms = 0;
		status = ask_for_unit(c, sequence, unit, &again_ms, err);
		if (status != WEIR_OK || !again_ms)
			return status;
		int64_t next = client_now(c) + again_ms;
		if (next > deadline)
			return weir_fail(err, WEIR_E_TIMEOUT, "no work unit within %lld ms", (long long)timeout_ms);
		pthread_mutex_lock(&c->lock);
		while ((status = client_usable(c, err)) == WEIR_OK && client_wait(c, next))
			;
		pthread_mutex_unlock(&c->lock);
	}
	return status;
}

weir_status weir_unit_begin(weir_client *c, const weir_unit *unit, uint32_t batches, weir_error *err)
{
	if (batches > WEIR_UNIT_BATCHES_MAX || batches < unit->watermark)
		return weir_fail(err, WEIR_E_LIMIT, "unit %u of pass %u: %u batches; at least its watermark %u and at most %u",
		                 unit->unit, unit->pass, batches, unit->watermark, WEIR_UNIT_BATCHES_MAX);
	pthread_mutex_lock(&c->lock);
	weir_status status = client_usable(c, err);
	struct held_unit *u = unit_find(c, unit->pass, unit->unit, unit->attempt);
	if (status == WEIR_OK && !u)
		status = weir_fail(err, WEIR_E_STATE, "unit %u of pass %u, attempt %u, is not held by this worker", unit->unit,
		                   unit->pass, unit->attempt);
	if (status == WEIR_OK && u->batch)
		status = weir_fail(err, WEIR_E_STATE, "unit %u of pass %u was begun already", unit->unit, unit->pass);
	if (status == WEIR_OK && !(u->batch = calloc(batches + 1u, sizeof(struct held_batch *))))
		status = weir_fail(err, WEIR_E_MEMORY, "unit %u: out of memory", unit->unit);
	if (status == WEIR_OK)
		u->batches = batches;
	pthread_mutex_unlock(&c->lock);
	return status;
}

/* --- Commit */

/* All pushes acknowledged and stable, under the lock. */
static bool unit_is_settled(const weir_client *c, const struct held_unit *u)
{
	if (u->outstanding)
		return false;
	for (uint32_t b = u->watermark; b < u->batches; b++)
		if (u->batch[b] && u->batch[b]->pushed && !batch_is_stable(c, u->batch[b]))
			return false;
	return true;
}

static weir_status wait_settled(weir_client *c, const weir_unit *unit, struct held_unit **out, weir_error *err)
{
	for (;;) {
		weir_status status = client_usable(c, err);
		if (status != WEIR_OK)
			return status;
		struct held_unit *u = unit_find(c, unit->pass, unit->unit, unit->attempt);
		if (!u)
			return weir_fail(err, WEIR_E_STATE, "unit %u of pass %u, attempt %u, is not held by this worker", unit->unit,
			                 unit->pass, unit->attempt);
		if (u->failure != WEIR_OK)
			return weir_fail(err, u->failure, "%s", u->failure_text);
		if (unit_is_settled(c, u)) {
			*out = u;
			return WEIR_OK;
		}
		(void)client_wait(c, -1);
	}
}

static void fill_commit(weir_client *c, Weir__V1__CommitRequest *q, Weir__V1__JobId *job, const weir_unit *unit)
{
	weir__v1__commit_request__init(q);
	client_fill_job(c, job);
	q->job = job;
	q->worker = c->worker;
	q->incarnation = c->incarnation;
	q->pass = unit->pass;
	q->unit = unit->unit;
	q->attempt = unit->attempt;
}

/* Tells all partitions what is closed: everything below the low-water mark, and this unit when attempt > 0. */
static void retire(weir_client *c, uint32_t pass, uint32_t unit, uint32_t attempt)
{
	struct record r = {.kind = RECORD_RETIRE,
	                   .pass = c->closed_low.pass,
	                   .unit = c->closed_low.unit,
	                   .attempt = attempt,
	                   .a = (uint64_t)pass << 32 | unit};
	if (!c->stale && !c->closing && broadcast(c, "retiring units", &r, NULL, NULL, NULL) != WEIR_OK)
		client_log(c, WEIR_LOG_WARN, "closed units could not be retired now; the next commit does it");
}

static bool closed_low_moves(weir_client *c, const Weir__V1__UnitMark *low)
{
	if (!low || low->pass < c->closed_low.pass || (low->pass == c->closed_low.pass && low->unit <= c->closed_low.unit))
		return false;
	c->closed_low.pass = low->pass;
	c->closed_low.unit = low->unit;
	return true;
}

void closed_low_learn(weir_client *c, const Weir__V1__UnitMark *low)
{
	if (closed_low_moves(c, low))
		retire(c, 0, 0, 0);
}

static weir_status send_commit(weir_client *c, const weir_unit *unit, Weir__V1__CommitRequest *q, weir_error *err)
{
	ProtobufCMessage *reply = NULL;
	weir_status status = client_call(c, c->ledger, RPC_COMMIT, &q->base, WEIR_CONTROL_TIMEOUT_MS,
	                                 &weir__v1__commit_reply__descriptor, &reply, err);
	if (status != WEIR_OK)
		return status;
	pthread_mutex_lock(&c->lock);
	struct held_unit *u = unit_find(c, unit->pass, unit->unit, unit->attempt);
	if (u)
		unit_forget(c, u);
	(void)closed_low_moves(c, ((const Weir__V1__CommitReply *)reply)->closed_low);
	if (!q->failed)
		retire(c, unit->pass, unit->unit, unit->attempt);
	pthread_mutex_unlock(&c->lock);
	wire_free(reply);
	return WEIR_OK;
}

weir_status weir_unit_commit(weir_client *c, const weir_unit *unit, weir_error *err)
{
	weir_error own = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	Weir__V1__CommitRequest q;
	Weir__V1__PartTotals totals = WEIR__V1__PART_TOTALS__INIT;
	Weir__V1__JobId job;
	struct held_unit *u = NULL;
	fill_commit(c, &q, &job, unit);
	pthread_mutex_lock(&c->lock);
	weir_status status = wait_settled(c, unit, &u, err);
	if (status == WEIR_OK) {
		status = steps_leave(c, u, err);
		for (uint32_t b = u->watermark; status == WEIR_OK && b < u->batches; b++)
			count_parts(u, b, u->count, u->fingerprint);
	}
	pthread_mutex_unlock(&c->lock);
	if (status != WEIR_OK)
		return status;
	/* From here on nobody else touches the unit: its books are closed, its pushes are through. */
	totals.n_count = totals.n_fingerprint = c->partitions;
	totals.count = u->count;
	totals.fingerprint = u->fingerprint;
	q.batches = u->batches;
	q.totals = &totals;
	return send_commit(c, unit, &q, err);
}

weir_status weir_unit_fail(weir_client *c, const weir_unit *unit, const char *why, weir_error *err)
{
	weir_error own = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	Weir__V1__CommitRequest q;
	Weir__V1__JobId job;
	fill_commit(c, &q, &job, unit);
	q.failed = true;
	q.text = (char *)why;
	return send_commit(c, unit, &q, err);
}

weir_status weir_pass_evaluated(weir_client *c, uint32_t pass, double auc, double logloss, int stop, weir_error *err)
{
	weir_error own = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	Weir__V1__GateRequest q = WEIR__V1__GATE_REQUEST__INIT;
	Weir__V1__JobId job;
	ProtobufCMessage *reply = NULL;
	client_fill_job(c, &job);
	q.job = &job;
	q.worker = c->worker;
	q.incarnation = c->incarnation;
	q.pass = pass;
	q.auc = auc;
	q.logloss = logloss;
	q.stop = stop != 0;
	weir_status status =
	    client_call(c, c->ledger, RPC_GATE, &q.base, WEIR_CONTROL_TIMEOUT_MS, &weir__v1__gate_reply__descriptor, &reply, err);
	wire_free(reply);
	return status;
}
