/* The end of a unit: it is committed with the totals of each partition, or given back. And the end
 * of a pass: its evaluation. */
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire_figures.h"
#include "worker/client/api_struct.h"
#include "worker/client/client.h"

static weir_status wait_settled(weir_client *c, const weir_unit *unit, struct held_unit **out, weir_error *err)
{
	for (bool asked = false;;) {
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
		/* all acknowledged but not stable: servers report no more unless asked */
		if (!u->outstanding && !asked) {
			if (resume_ask_all(c) != WEIR_OK)
				return weir_fail(err, WEIR_E_MEMORY, "commit of unit %u: out of memory", unit->unit);
			asked = true;
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

/* Tells all partitions the closed units: everything below the low-water mark, and this unit if
 * attempt > 0. An evaluator pushes nothing, and its certificate changes nothing. */
static void retire(weir_client *c, uint32_t pass, uint32_t unit, uint32_t attempt)
{
	struct record r = {.kind = RECORD_RETIRE,
	                   .pass = c->closed_low.pass,
	                   .unit = c->closed_low.unit,
	                   .attempt = attempt,
	                   .retire.unit_key = (uint64_t)pass << 32 | unit};
	if (c->options.role == WEIR_TRAINER && !c->stale && !c->closing &&
	    broadcast(c, "retiring units", &r, NULL, NULL, NULL) != WEIR_OK)
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
	weir_status status = ledger_call_again(c, RPC_COMMIT, &q->base, &weir__v1__commit_reply__descriptor, &reply, err);
	if (status != WEIR_OK)
		return status;
	pthread_mutex_lock(&c->lock);
	struct held_unit *u = unit_find(c, unit->pass, unit->unit, unit->attempt);
	if (u)
		unit_forget(c, u);
	activity_move(c);
	clocks_poll(c);
	(void)closed_low_moves(c, ((const Weir__V1__CommitReply *)reply)->closed_low);
	if (!q->failed)
		retire(c, unit->pass, unit->unit, unit->attempt);
	pthread_mutex_unlock(&c->lock);
	wire_destroy(reply);
	return WEIR_OK;
}

weir_status commit_totals(weir_client *c, const weir_unit *unit, uint32_t batches, uint64_t *count, uint64_t *fingerprint,
                          weir_error *err)
{
	Weir__V1__CommitRequest q;
	Weir__V1__PartTotals totals = WEIR__V1__PART_TOTALS__INIT;
	Weir__V1__JobId job;
	fill_commit(c, &q, &job, unit);
	totals.n_count = totals.n_fingerprint = c->partitions;
	totals.count = count;
	totals.fingerprint = fingerprint;
	q.batches = batches;
	q.totals = &totals;
	pthread_mutex_lock(&c->lock);
	const struct held_unit *u = unit_find(c, unit->pass, unit->unit, unit->attempt);
	q.content = u ? u->content : 0;
	pthread_mutex_unlock(&c->lock);
	return send_commit(c, unit, &q, err);
}

weir_status weir_unit_commit(weir_client *c, const weir_unit *unit, weir_error *err)
{
	weir_error own = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	struct held_unit *u = NULL;
	uint32_t batches = 0;
	uint64_t *sums = calloc(2 * (size_t)c->partitions, sizeof *sums);
	if (!sums)
		return weir_fail(err, WEIR_E_MEMORY, "commit of unit %u: out of memory", unit->unit);
	pthread_mutex_lock(&c->lock);
	weir_status status = wait_settled(c, unit, &u, err);
	if (status == WEIR_OK)
		status = steps_leave(c, u, err);
	if (status == WEIR_OK) {
		/* Into this commit's own numbers: progress goes on reporting the unit's records, and a
		 * commit may be repeated. */
		unit_totals(c, u, sums, sums + c->partitions);
		batches = u->batches;
		clocks_leave_unit(c, u);
	}
	pthread_mutex_unlock(&c->lock);
	if (status == WEIR_OK)
		status = commit_totals(c, unit, batches, sums, sums + c->partitions, err);
	free(sums);
	return status;
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
	pthread_mutex_lock(&c->lock);
	steps_forget_unit(c, unit->pass, unit->unit);
	clocks_forget_unit(c, unit->pass, unit->unit);
	struct held_unit *u = unit_find(c, unit->pass, unit->unit, unit->attempt);
	if (u)
		clocks_leave_unit(c, u);
	pthread_mutex_unlock(&c->lock);
	return send_commit(c, unit, &q, err);
}

/* Checks the caller's figures. *out: (WEIR_FIGURES_MAX) messages that borrow them. */
static weir_status take_figures(const weir_evaluation *e, struct figures *figures, struct wire_figures *out, weir_error *err)
{
	if (e->figures_count > WEIR_FIGURES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "an evaluation has %u figures; at most %u", e->figures_count, WEIR_FIGURES_MAX);
	Weir__V1__Figure given[WEIR_FIGURES_MAX], *list[WEIR_FIGURES_MAX];
	for (uint32_t i = 0; i < e->figures_count; i++) {
		weir__v1__figure__init(&given[i]);
		given[i].name = e->figures[i].name ? (char *)e->figures[i].name : "";
		given[i].value = e->figures[i].value;
		list[i] = &given[i];
	}
	const weir_status status = wire_figures_read(figures, list, e->figures_count, err);
	if (status == WEIR_OK)
		wire_figures_fill(out, figures);
	return status;
}

weir_status weir_pass_evaluated(weir_client *c, const weir_evaluation *evaluation, weir_error *err)
{
	weir_error own = {0};
	weir_evaluation known;
	const weir_evaluation *e = &known;
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	weir_status status = api_struct_read(API_weir_evaluation, &known, evaluation, err);
	if (status != WEIR_OK)
		return status;
	struct figures figures;
	struct wire_figures messages;
	status = take_figures(e, &figures, &messages, err);
	if (status != WEIR_OK)
		return status;
	Weir__V1__GateRequest q = WEIR__V1__GATE_REQUEST__INIT;
	Weir__V1__JobId job;
	ProtobufCMessage *reply = NULL;
	client_fill_job(c, &job);
	q.job = &job;
	q.worker = c->worker;
	q.incarnation = c->incarnation;
	q.pass = e->pass;
	q.auc = e->auc;
	q.logloss = e->logloss;
	q.not_numbers = e->not_numbers;
	q.language = e->language != 0;
	q.stop = e->stop != 0;
	q.n_figures = figures.count;
	q.figures = messages.list;
	status = ledger_call_again(c, RPC_GATE, &q.base, &weir__v1__gate_reply__descriptor, &reply, err);
	wire_destroy(reply);
	pthread_mutex_lock(&c->lock);
	activity_move(c);
	pthread_mutex_unlock(&c->lock);
	return status;
}
