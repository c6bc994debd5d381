/* Work units of the ledger. Passes open; units are granted lowest first, move their watermark,
 * commit or go back; a pass completes. A unit's place on the wire is its position in the pass's
 * order. The order is a permutation of the dataset's units by (seed, pass). */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/unit_order.h"
#include "common/base/utf8_sanitize.h"
#include "proto/wire/wire_figures.h"
#include "server/ledger/ledger_state.h"

void ledger_pass_destroy(struct ledger *l)
{
	for (uint32_t u = 0; l->units && u < l->units_count; u++) {
		ledger_totals_destroy(&l->units[u].totals);
		free(l->units[u].stepped);
		free(l->units[u].error);
	}
	free(l->units);
	l->units = NULL;
}

weir_status ledger_pass_reset(struct ledger *l, uint32_t dataset_units, uint32_t pass)
{
	struct ledger_unit *units = calloc(dataset_units, sizeof *units);
	if (!units)
		return WEIR_E_MEMORY;
	for (uint32_t u = 0; u < dataset_units; u++)
		units[u].place = u;
	ledger_pass_destroy(l);
	l->units = units;
	l->dataset_units = l->units_count = l->units_capacity = dataset_units;
	l->pass = pass;
	l->free_from = l->low = l->committed = l->quarantined = l->parts_committed = 0;
	l->changes.globals = true;
	ledger_unmark_units(l);
	return WEIR_OK;
}

weir_status ledger_pass_open(struct ledger *l, uint32_t pass)
{
	weir_status status = ledger_pass_reset(l, l->dataset_units, pass);
	if (status)
		return status;
	LOG_AT(l->options.logger, LOG_INFO, "pass opened", "pass=%u of=%u units=%u", pass, l->passes, l->dataset_units);
	return WEIR_OK;
}

void ledger_fail(struct ledger *l, const char *text)
{
	l->changes.globals = true;
	l->failed = true;
	utf8_sanitize(l->failure, sizeof l->failure, text); /* it contains a worker's text */
	LOG_AT(l->options.logger, LOG_ERROR, "job failed", "why=\"%s\"", text);
}

static bool gate_holds(struct ledger *l)
{
	if (!l->options.gate || l->evaluated >= l->completed)
		return false;
	int64_t since = l->evaluator_ms > l->completed_ms ? l->evaluator_ms : l->completed_ms;
	if (ledger_now(l) - since < WEIR_GATE_PATIENCE_MS)
		return true;
	LOG_AT(l->options.logger, LOG_WARN, "pass not evaluated", "pass=%u no evaluator has been alive for %u ms: going on", l->pass,
	       WEIR_GATE_PATIENCE_MS);
	l->changes.globals = true;
	l->evaluated = l->completed;
	return false;
}

/* Completes the open pass when all its units are closed, and opens the next one when the gate
 * allows. */
void ledger_pass_advance(struct ledger *l)
{
	if (!l->has_dataset || l->finished || l->failed || l->committed + l->quarantined < l->units_count)
		return;
	if (l->completed == l->pass) {
		l->changes.globals = true;
		l->completed = l->pass + 1;
		l->completed_batches = l->batches;
		l->completed_ms = ledger_now(l);
		LOG_AT(l->options.logger, LOG_INFO, "pass complete", "pass=%u committed=%u quarantined=%u", l->pass, l->committed,
		       l->quarantined);
	}
	if (gate_holds(l))
		return;
	if (l->completed >= l->passes) {
		l->finished = l->changes.globals = true;
		l->passes_done = l->completed;
	} else if (ledger_pass_open(l, l->pass + 1) != WEIR_OK) {
		ledger_fail(l, "the ledger has no memory for the next pass");
	}
}

static uint32_t data_unit(const struct ledger *l, uint32_t unit)
{
	return unit_order(l->options.shuffle, l->options.seed, l->pass, l->dataset_units, l->units[unit].place);
}

static void unit_hold(struct ledger *l, struct ledger_worker *w, uint32_t unit)
{
	struct ledger_unit *u = &l->units[unit];
	u->state = UNIT_LEASED;
	u->holder = w->id;
	if (!u->attempt++)
		u->local_steps = ledger_speed_round(l, w);
	ledger_mark_unit(l, unit);
	ledger_mark_worker(l, w);
	assert(w->held_count < WEIR_UNITS_HELD_MAX);
	if (!w->held_count) {
		ledger_clocks_enter(w);
		ledger_speed_begin(l, w);
		ledger_idle_moved(l, w);
	}
	w->held[w->held_count++] = unit;
}

static void unit_unhold(struct ledger *l, uint32_t unit)
{
	struct ledger_worker *w = l->workers[l->units[unit].holder];
	ledger_mark_unit(l, unit);
	ledger_mark_worker(l, w);
	for (uint32_t i = 0; i < w->held_count; i++)
		if (w->held[i] == unit) {
			w->held[i] = w->held[--w->held_count];
			return;
		}
	assert(!"a leased unit is in its holder's list");
}

static void low_advance(struct ledger *l)
{
	while (l->low < l->units_count && (l->units[l->low].state == UNIT_COMMITTED || l->units[l->low].state == UNIT_QUARANTINED))
		l->low++;
}

/* Gives a unit up: it does not count. Its applied parts must still be counted, so it is leased once
 * more, to be sealed and summed up, not executed. */
static void unit_give_up(struct ledger *l, uint32_t unit)
{
	struct ledger_unit *u = &l->units[unit];
	char text[WEIR_ERROR_TEXT_BYTES];
	snprintf(text, sizeof text, "unit %u of pass %u (unit %u of the dataset) was given up after %u attempts; last error: %s",
	         unit, l->pass, data_unit(l, unit), u->attempt, u->error ? u->error : "its worker was lost");
	u->skip = true;
	l->units_quarantined++;
	l->changes.globals = true;
	if (l->units_quarantined > l->options.allow_skip)
		ledger_fail(l, text);
	else
		LOG_AT(l->options.logger, LOG_WARN, "unit quarantined", "%s", text);
}

/* Returns a leased unit. why: its holder's reason; NULL: the holder is gone. */
void ledger_unit_return(struct ledger *l, uint32_t unit, const char *why)
{
	struct ledger_unit *u = &l->units[unit];
	assert(u->state == UNIT_LEASED);
	unit_unhold(l, unit);
	u->state = UNIT_FREE;
	if (unit < l->free_from)
		l->free_from = unit;
	if (why) {
		u->failures++;
		free(u->error);
		u->error = strdup(why);
	}
	if (!u->skip && (u->attempt - u->excused >= WEIR_UNIT_ATTEMPTS_MAX || u->failures >= WEIR_UNIT_FAILURES_MAX))
		unit_give_up(l, unit);
}

static void note_watermark(struct ledger *l, struct ledger_worker *w, struct ledger_unit *u, const Weir__V1__UnitProgress *p)
{
	if (p->batches && p->batches != u->batches) {
		u->batches = p->batches;
		ledger_mark_unit(l, p->unit);
	}
	if (p->watermark <= u->watermark || p->watermark > WEIR_UNIT_BATCHES_MAX)
		return;
	if (!u->totals.count && ledger_totals_init(&u->totals, l->options.partitions) != WEIR_OK)
		return; /* a later report repeats it */
	u->watermark = p->watermark;
	ledger_idle_finished(l, w);
	ledger_mark_unit(l, p->unit);
	ledger_totals_set(&u->totals, p->totals, l->options.partitions);
}

weir_status ledger_unit_watermark(struct ledger *l, struct ledger_worker *w, const Weir__V1__UnitProgress *p, weir_error *err)
{
	if (p->pass != l->pass || p->unit >= l->units_count || !ledger_totals_valid(p->totals, l->options.partitions))
		return WEIR_OK;
	struct ledger_unit *u = &l->units[p->unit];
	if (u->state != UNIT_LEASED || u->holder != w->id || u->attempt != p->attempt)
		return WEIR_OK; /* it crossed its own commit */
	const weir_status status = ledger_content_note(l, w, data_unit(l, p->unit), p->content, err);
	if (!status)
		note_watermark(l, w, u, p);
	return status;
}

/* --- Batches of synchronous tables that have had their step */

/* The unit of a batch while it may still be executed, or NULL. */
static struct ledger_unit *unit_of(const struct ledger *l, const struct ledger_batch *b)
{
	if (b->pass != l->pass || b->unit >= l->units_count || b->batch >= WEIR_UNIT_BATCHES_MAX)
		return NULL;
	struct ledger_unit *u = &l->units[b->unit];
	return u->state == UNIT_FREE || u->state == UNIT_LEASED ? u : NULL;
}

bool ledger_unit_can_step(struct ledger *l, const struct ledger_batch *b)
{
	struct ledger_unit *u = unit_of(l, b);
	if (u && !u->stepped)
		u->stepped = calloc(WEIR_UNIT_BATCHES_MAX / 64, sizeof *u->stepped);
	return !u || u->stepped;
}

void ledger_unit_step(struct ledger *l, const struct ledger_batch *b)
{
	struct ledger_unit *u = unit_of(l, b);
	if (!u)
		return;
	u->stepped[b->batch / 64] |= 1ull << b->batch % 64;
	ledger_mark_unit(l, b->unit);
}

bool ledger_unit_has_stepped(const struct ledger *l, const struct ledger_batch *b)
{
	const struct ledger_unit *u = unit_of(l, b);
	return u && u->stepped && (u->stepped[b->batch / 64] >> b->batch % 64 & 1);
}

bool ledger_unit_is_held(const struct ledger *l, const struct ledger_worker *w, const struct ledger_batch *b)
{
	const struct ledger_unit *u = unit_of(l, b);
	return u && u->state == UNIT_LEASED && u->holder == w->id;
}

/* --- Lease */

/* The free unit that w gets next; units_count: none. */
static uint32_t unit_next(struct ledger *l, struct ledger_worker *w)
{
	while (l->free_from < l->units_count && l->units[l->free_from].state != UNIT_FREE)
		l->free_from++;
	return ledger_lockstep_lease(l, w);
}

struct lease_answer {
	Weir__V1__LeaseReply reply;
	Weir__V1__Status status;
	Weir__V1__WorkUnit unit;
	Weir__V1__PartTotals totals;
	Weir__V1__UnitMark low;
};

static void answer_unit(struct ledger *l, struct lease_answer *a, uint32_t unit)
{
	const struct ledger_unit *u = &l->units[unit];
	a->reply.state = WEIR__V1__LEASE_STATE__UNIT;
	weir__v1__work_unit__init(&a->unit);
	a->unit.pass = l->pass;
	a->unit.unit = unit;
	a->unit.attempt = u->attempt;
	a->unit.data_unit = data_unit(l, unit);
	a->unit.watermark = u->watermark;
	a->unit.sealed = u->attempt > 1;
	a->unit.skip = u->skip;
	a->unit.local_steps = u->local_steps;
	a->unit.place = u->place;
	a->unit.end = u->end;
	a->unit.rate_scale = ledger_rate_scale(l);
	a->unit.content = ledger_content(l, a->unit.data_unit);
	ledger_totals_fill(&a->totals, &u->totals, l->options.partitions);
	a->unit.totals = &a->totals;
	a->reply.unit = &a->unit;
}

static void answer_trainer(struct ledger *l, struct ledger_worker *w, uint64_t sequence, struct lease_answer *a)
{
	if (sequence && sequence == w->lease_sequence)
		for (uint32_t i = 0; i < w->held_count; i++)
			if (w->held[i] == w->granted) {
				answer_unit(l, a, w->granted);
				return;
			}
	if (l->finished) {
		a->reply.state = WEIR__V1__LEASE_STATE__FINISHED;
		return;
	}
	if (w->held_count == WEIR_UNITS_HELD_MAX || !ledger_idle_trusts(w))
		return; /* wait */
	const uint32_t unit = unit_next(l, w);
	if (unit == l->units_count)
		return;
	ledger_unit_cut(l, w, unit);
	unit_hold(l, w, unit);
	w->lease_sequence = sequence;
	w->granted = unit;
	answer_unit(l, a, unit);
}

static void answer_evaluator(struct ledger *l, struct lease_answer *a)
{
	if (l->completed > l->evaluated) {
		a->reply.state = WEIR__V1__LEASE_STATE__EVALUATE;
		a->reply.pass = l->completed - 1;
		a->reply.last = l->completed >= l->passes;
	} else if (l->finished) {
		a->reply.state = WEIR__V1__LEASE_STATE__FINISHED;
	}
}

void ledger_lease(struct ledger *l, const Weir__V1__LeaseRequest *q, ledger_reply_fn reply, void *arg)
{
	struct lease_answer a;
	weir_error err = {0};
	weir__v1__lease_reply__init(&a.reply);
	struct ledger_worker *w = ledger_worker_find(l, q->job, q->worker, q->incarnation, &err);
	a.reply.state = WEIR__V1__LEASE_STATE__WAIT;
	a.reply.retry_ms = LEDGER_RETRY_MS;
	if (w && l->failed) {
		a.reply.state = WEIR__V1__LEASE_STATE__FAILED;
		(void)weir_fail(&err, WEIR_E_STATE, "the job has failed: %s", l->failure);
	} else if (w && w->role == WEIR__V1__ROLE__TRAINER) {
		answer_trainer(l, w, q->sequence, &a);
	} else if (w && w->role == WEIR__V1__ROLE__EVALUATOR) {
		answer_evaluator(l, &a);
		if (a.reply.state != WEIR__V1__LEASE_STATE__EVALUATE)
			ledger_idle_moved(l, w);
	} else if (w) {
		(void)weir_fail(&err, WEIR_E_STATE, "worker %s is an observer: it may not lease", w->name);
	}
	ledger_fill_status(&a.status, err.status, err.text);
	a.low = ledger_closed_low(l);
	a.reply.status = &a.status;
	a.reply.closed_low = &a.low;
	reply(arg, &a.reply.base);
}

/* --- Commit */

/* Batches trained in this part: without the extra batch for what lossy codecs kept back, and
 * without the batches of earlier parts. */
static uint32_t batches_trained(const struct ledger *l, const struct ledger_unit *u, uint32_t batches)
{
	const uint32_t not_own = u->first + ledger_tables_keep_back(l);
	return batches > not_own ? batches - not_own : 0;
}

static void unit_commit(struct ledger *l, uint32_t unit, const Weir__V1__PartTotals *totals, uint32_t batches)
{
	struct ledger_unit *u = &l->units[unit];
	unit_unhold(l, unit);
	u->state = u->skip ? UNIT_QUARANTINED : UNIT_COMMITTED;
	ledger_totals_destroy(&u->totals);
	free(u->stepped);
	u->stepped = NULL;
	l->changes.totals = l->changes.globals = true;
	ledger_totals_add(u->skip ? &l->skipped : &l->expected, totals, l->options.partitions);
	if (u->skip)
		l->quarantined++;
	else
		l->committed++;
	l->batches += batches_trained(l, u, batches);
	l->parts_committed += !u->skip && unit >= l->dataset_units;
	low_advance(l);
}

static weir_status commit(struct ledger *l, struct ledger_worker *w, const Weir__V1__CommitRequest *q, weir_error *err)
{
	if (!ledger_totals_valid(q->totals, l->options.partitions) || q->batches > WEIR_UNIT_BATCHES_MAX)
		return weir_fail(err, WEIR_E_INVALID,
		                 "commit of unit %u of pass %u: totals must have %u partitions and at most %u batches", q->unit, q->pass,
		                 l->options.partitions, WEIR_UNIT_BATCHES_MAX);
	if (q->pass < l->pass && l->has_dataset)
		/* A repeat of its own commit: a live incarnation loses a unit only by failing it. */
		return WEIR_OK;
	if (!l->has_dataset || q->pass > l->pass || q->unit >= l->units_count)
		return weir_fail(err, WEIR_E_NOT_FOUND, "commit of unit %u of pass %u: there is no such unit", q->unit, q->pass);
	struct ledger_unit *u = &l->units[q->unit];
	if (u->state == UNIT_LEASED && u->holder == w->id && u->attempt == q->attempt) {
		const weir_status status = ledger_content_note(l, w, data_unit(l, q->unit), q->content, err);
		if (status)
			return status;
		if (q->failed) {
			ledger_steps_forget_unit(l, w, q->pass, q->unit);
			ledger_unit_return(l, q->unit, q->text);
		} else {
			unit_commit(l, q->unit, q->totals, q->batches);
		}
		ledger_idle_finished(l, w);
		ledger_pass_advance(l);
		ledger_steps_advance(l);
		ledger_clocks_advance(l);
		return WEIR_OK;
	}
	bool closed = u->state == UNIT_COMMITTED || u->state == UNIT_QUARANTINED;
	if (q->failed ? q->attempt <= u->attempt : closed && q->attempt == u->attempt)
		/* A repeat: an attempt belongs to one incarnation. A worker that failed it may see the next
		 * attempt under way. */
		return WEIR_OK;
	return weir_fail(err, WEIR_E_STALE,
	                 "commit of unit %u of pass %u, attempt %u: worker %s does not hold it (its last attempt is %u)", q->unit,
	                 q->pass, q->attempt, w->name, u->attempt);
}

void ledger_commit(struct ledger *l, const Weir__V1__CommitRequest *q, ledger_reply_fn reply, void *arg)
{
	Weir__V1__CommitReply r = WEIR__V1__COMMIT_REPLY__INIT;
	Weir__V1__Status status;
	weir_error err = {0};
	struct ledger_worker *w = ledger_worker_find(l, q->job, q->worker, q->incarnation, &err);
	ledger_fill_status(&status, w ? commit(l, w, q, &err) : err.status, err.text);
	Weir__V1__UnitMark low = ledger_closed_low(l);
	r.status = &status;
	r.closed_low = &low;
	reply(arg, &r.base);
}

/* The pass must be complete and without a verdict, as announced to evaluators. */
static weir_status check_verdict(const struct ledger *l, const struct ledger_worker *w, const Weir__V1__GateRequest *q,
                                 struct figures *figures, weir_error *err)
{
	if (w->role != WEIR__V1__ROLE__EVALUATOR)
		return weir_fail(err, WEIR_E_DENIED, "worker %s reports an evaluation: it joined as another role than evaluator",
		                 w->name);
	if (q->pass >= l->completed)
		return weir_fail(err, WEIR_E_STATE, "worker %s reports an evaluation of pass %u: only %u passes are complete", w->name,
		                 q->pass, l->completed);
	const bool auc_fits = isnan(q->auc) || (q->auc >= 0 && q->auc <= 1);
	const bool loss_fits = isnan(q->logloss) || (q->logloss >= 0 && isfinite(q->logloss));
	if (!auc_fits || !loss_fits)
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "worker %s reports AUC %g and loss %g of pass %u: expected an AUC from 0 to 1 and a finite loss from 0, or "
		    "NaN where they are undefined",
		    w->name, q->auc, q->logloss, q->pass);
	return wire_figures_read(figures, q->figures, q->n_figures, err);
}

/* Without validation rows a pass has no verdict: it ends without figures. */
static void note_verdict(struct ledger *l, const Weir__V1__GateRequest *q, const struct figures *figures)
{
	l->evaluated = q->pass + 1;
	if (isnan(q->logloss) && !q->not_numbers)
		return;
	l->auc = q->auc;
	l->logloss = q->logloss;
	l->language = q->language;
	l->not_numbers = q->not_numbers;
	l->figures = *figures;
	/* Passes are of equal length. */
	l->evaluated_batches = l->completed_batches / l->completed * l->evaluated;
}

void ledger_gate(struct ledger *l, const Weir__V1__GateRequest *q, ledger_reply_fn reply, void *arg)
{
	Weir__V1__GateReply r = WEIR__V1__GATE_REPLY__INIT;
	Weir__V1__Status status;
	weir_error err = {0};
	struct figures figures;
	struct ledger_worker *w = ledger_worker_find(l, q->job, q->worker, q->incarnation, &err);
	/* Else a repeat, or late. */
	if (w && check_verdict(l, w, q, &figures, &err) == WEIR_OK && q->pass >= l->evaluated) {
		l->changes.globals = true;
		note_verdict(l, q, &figures);
		LOG_AT(l->options.logger, LOG_INFO, "pass evaluated", "pass=%u by=%s auc=%.6f logloss=%.6f not_numbers=%llu stop=%d",
		       q->pass, w->name, q->auc, q->logloss, (unsigned long long)q->not_numbers, q->stop);
		if (q->stop)
			l->finished = true;
		ledger_pass_advance(l);
	}
	ledger_fill_status(&status, err.status, err.text);
	r.status = &status;
	reply(arg, &r.base);
}
