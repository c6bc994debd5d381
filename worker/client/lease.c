/* Leasing: asks for a unit, and seals it if an older attempt of it existed. */
#include <stdlib.h>
#include <string.h>

#include "worker/client/client.h"
#include "worker/client/client_trace.h"

static weir_status on_seal_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body,
                                 weir_error *err)
{
	weir_client *c = op->client;
	struct held_unit *u = op->payload;
	struct section s;
	char text[256];
	if (r->status != WEIR_OK)
		return weir_fail(err, (weir_status)r->status, "server %s: partition %u refused to seal unit %u of pass %u: %s",
		                 c->links[q->server]->address, q->partition, u->unit, u->pass, reply_text(r, *body, text, sizeof text));
	weir_status status = frame_next_section(body, &s, err);
	if (status != WEIR_OK)
		return status;
	if (s.data_bytes * 8ull < r->seal_reply.bits)
		return weir_fail(err, WEIR_E_CORRUPT, "seal of unit %u: %u bytes for a bitmap of %u bits", u->unit, s.data_bytes,
		                 r->seal_reply.bits);
	uint8_t *bitmap = malloc(s.data_bytes + 1u);
	if (!bitmap)
		return weir_fail(err, WEIR_E_MEMORY, "seal: out of memory");
	status = cursor_read(&s.data, bitmap, s.data_bytes);
	u->present[q->partition] = bitmap;
	u->present_bits[q->partition] = r->seal_reply.bits;
	u->sealed[q->partition] = r->seal_reply.applied;
	acknowledge(c, q->partition, r, r->batch);
	return status;
}

/* Tells every partition that older attempts of the unit are over, and learns which of their parts
 * are applied. */
static weir_status seal(weir_client *c, struct held_unit *u, weir_error *err)
{
	u->present = calloc(c->partitions, sizeof *u->present);
	u->present_bits = calloc(c->partitions, sizeof *u->present_bits);
	u->sealed = calloc(c->partitions, sizeof *u->sealed);
	struct operation *op = u->present && u->present_bits && u->sealed ? operation_create(c, "sealing", c->partitions, err) : NULL;
	if (!op)
		return err->status ? err->status : weir_fail(err, WEIR_E_MEMORY, "seal: out of memory");
	op->payload = u;
	op->on_reply = on_seal_reply;
	const struct record r = {.kind = RECORD_SEAL, .pass = u->pass, .unit = u->unit, .attempt = u->attempt};
	pthread_mutex_lock(&c->lock);
	ask_partitions(op, &r, NULL, NULL);
	pthread_mutex_unlock(&c->lock);
	operation_unhold(op);
	return operation_wait(op, -1, err);
}

/* Ends a unit that was given up: only reports its applied parts to the ledger. Takes u over. */
static weir_status skip_unit(weir_client *c, struct held_unit *u, weir_error *err)
{
	const weir_unit unit = {.pass = u->pass, .unit = u->unit, .attempt = u->attempt};
	uint64_t *sums = calloc(2 * (size_t)c->partitions, sizeof *sums);
	if (sums)
		unit_totals(c, u, sums, sums + c->partitions);
	unit_destroy(c, u);
	weir_status status = sums ? commit_totals(c, &unit, 0, sums, sums + c->partitions, err)
	                          : weir_fail(err, WEIR_E_MEMORY, "lease: out of memory");
	free(sums);
	return status;
}

/* A partition has closed the unit that the ledger leases. Either the lease is over, or the ledger's
 * disk has gone back in time. The ledger knows: asked again, it refuses this worker, or fails the
 * job once a server's mark has reached it. */
static weir_status ask_about_closed(weir_client *c, uint32_t *again_ms, weir_error *err)
{
	if (!c->closed_since_ms)
		c->closed_since_ms = client_now(c);
	if (client_now(c) - c->closed_since_ms > (int64_t)WEIR_CLOSED_UNIT_WAIT_MS) {
		const weir_error why = *err;
		return weir_fail(err, WEIR_E_STATE,
		                 "%.400s; yet the ledger leases it, so its state is older than the partition's. Go back to a checkpoint: "
		                 "`weir restore --from latest`, then `weir train --resume`",
		                 why.text);
	}
	err->status = WEIR_OK;
	*again_ms = WEIR_CLOSED_UNIT_RETRY_MS;
	return WEIR_OK;
}

/* *again_ms: when to ask again; 0: this is a unit to execute. */
static weir_status take_unit(weir_client *c, const Weir__V1__WorkUnit *in, uint64_t incarnation, weir_unit *out,
                             uint32_t *again_ms, weir_error *err)
{
	struct held_unit *u = unit_create(c, in);
	if (!u)
		return weir_fail(err, WEIR_E_MEMORY, "lease: out of memory");
	weir_status status = in->sealed ? seal(c, u, err) : WEIR_OK;
	if (status == WEIR_E_DUPLICATE) {
		unit_destroy(c, u);
		return ask_about_closed(c, again_ms, err);
	}
	if (in->sealed && status == WEIR_OK)
		c->closed_since_ms = 0;
	if (status == WEIR_OK && in->skip) {
		*again_ms = 1;
		return skip_unit(c, u, err);
	}
	pthread_mutex_lock(&c->lock);
	if (status == WEIR_OK)
		status = client_usable(c, err);
	if (status == WEIR_OK && incarnation != c->incarnation)
		status = weir_fail(err, WEIR_E_STALE, "the unit was leased by an incarnation of worker %s that is dead", c->name);
	if (status == WEIR_OK) {
		u->round = unit_round(c, in->local_steps);
		u->next = c->units;
		c->units = u;
	} else {
		unit_destroy(c, u);
	}
	pthread_mutex_unlock(&c->lock);
	*out = (weir_unit){.state = WEIR_UNIT_LEASED,
	                   .pass = in->pass,
	                   .unit = in->unit,
	                   .attempt = in->attempt,
	                   .data_unit = in->data_unit,
	                   .watermark = in->watermark,
	                   .local_steps = in->local_steps,
	                   .place = in->place,
	                   .end = in->end,
	                   .content = in->content};
	return status;
}

/* One LeaseRequest. *again_ms: when to ask again; 0: there is an answer. */
static weir_status ask_for_unit(weir_client *c, uint64_t incarnation, uint64_t sequence, weir_unit *out, uint32_t *again_ms,
                                weir_error *err)
{
	Weir__V1__LeaseRequest q = WEIR__V1__LEASE_REQUEST__INIT;
	Weir__V1__JobId job;
	ProtobufCMessage *reply = NULL;
	client_fill_job(c, &job);
	q.job = &job;
	q.worker = c->worker;
	q.incarnation = incarnation;
	q.sequence = sequence;
	const int64_t begun_ns = trace_begin(c->trace);
	weir_status status = ledger_call_again(c, RPC_LEASE, &q.base, &weir__v1__lease_reply__descriptor, &reply, err);
	if (status != WEIR_OK)
		return status;
	const Weir__V1__LeaseReply *r = (const Weir__V1__LeaseReply *)reply;
	*again_ms = 0;
	*out = (weir_unit){.state = WEIR_UNIT_FINISHED, .pass = r->pass, .last_pass = r->last};
	if (r->state == WEIR__V1__LEASE_STATE__UNIT && r->unit)
		status = take_unit(c, r->unit, incarnation, out, again_ms, err);
	else if (r->state == WEIR__V1__LEASE_STATE__EVALUATE)
		out->state = WEIR_UNIT_EVALUATE;
	else if (r->state != WEIR__V1__LEASE_STATE__FINISHED)
		*again_ms = r->retry_ms ? r->retry_ms : 1;
	if (status == WEIR_OK && *again_ms == 0 && out->state == WEIR_UNIT_LEASED) {
		const struct trace_what what = {
		    .kind = TRACE_LEASE, .pass = out->pass, .unit = out->unit, .batch = TRACE_NO_BATCH, .attempt = out->attempt};
		trace_end(c->trace, begun_ns, &what);
	}
	wire_destroy(reply);
	return status;
}

/* Under the lock. One thread asks at a time, and a unit uses up the sequence number that brought
 * it. A lost answer is asked for again before another unit is. Otherwise the ledger would wait for
 * ever for a unit that nobody executes. */
static weir_status ask_in_turn(weir_client *c, int64_t deadline_ms, weir_unit *out, uint32_t *again_ms, weir_error *err)
{
	while (c->leasing)
		if (!client_wait(c, deadline_ms))
			return weir_fail(err, WEIR_E_TIMEOUT, "no work unit in time: another thread is asking");
	weir_status status = client_usable(c, err);
	if (status != WEIR_OK)
		return status;
	uint64_t incarnation = c->incarnation, sequence = c->lease_sequence + 1;
	c->leasing = true;
	pthread_mutex_unlock(&c->lock);
	status = ask_for_unit(c, incarnation, sequence, out, again_ms, err);
	pthread_mutex_lock(&c->lock);
	c->leasing = false;
	/* There is nothing to evaluate. */
	if (c->options.role == WEIR_EVALUATOR && status == WEIR_OK && *again_ms)
		activity_move(c);
	pthread_cond_broadcast(&c->changed);
	if (status == WEIR_OK && !*again_ms && incarnation == c->incarnation)
		c->lease_sequence = sequence;
	return status;
}

weir_status weir_unit_lease(weir_client *c, weir_unit *unit, int64_t timeout_ms, weir_error *err)
{
	weir_error own = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	int64_t deadline = timeout_ms < 0 ? -1 : client_now(c) + timeout_ms;
	weir_status status = WEIR_OK;
	pthread_mutex_lock(&c->lock);
	while (status == WEIR_OK) {
		uint32_t again_ms = 0;
		status = ask_in_turn(c, deadline, unit, &again_ms, err);
		if (status != WEIR_OK || !again_ms)
			break;
		status = links_reachable(c, err);
		int64_t next = client_now(c) + again_ms;
		if (status == WEIR_OK && deadline >= 0 && next > deadline)
			status = weir_fail(err, WEIR_E_TIMEOUT, "no work unit within %lld ms", (long long)timeout_ms);
		while (status == WEIR_OK && (status = client_usable(c, err)) == WEIR_OK && client_wait(c, next))
			;
	}
	pthread_mutex_unlock(&c->lock);
	return status;
}

weir_status weir_unit_content(weir_client *c, const weir_unit *unit, uint64_t content, weir_error *err)
{
	if (unit->content && unit->content != content)
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "unit %u of the dataset has other examples (%016llx) than when it was first read (%016llx): the data have "
		    "changed",
		    unit->data_unit, (unsigned long long)content, (unsigned long long)unit->content);
	pthread_mutex_lock(&c->lock);
	weir_status status = client_usable(c, err);
	struct held_unit *u = unit_find(c, unit->pass, unit->unit, unit->attempt);
	if (status == WEIR_OK && !u)
		status = weir_fail(err, WEIR_E_STATE, "unit %u of pass %u, attempt %u, is not held by this worker", unit->unit,
		                   unit->pass, unit->attempt);
	if (status == WEIR_OK)
		u->content = content;
	pthread_mutex_unlock(&c->lock);
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
