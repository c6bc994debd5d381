/* The ledger's units against a model, with any requests and deaths: each unit is committed once,
 * attempts only grow, a unit has at most one live holder, and every pass ends. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "tests/unit/worker/client/ledger_fixture.h"

#define TRAINER      WEIR__V1__ROLE__TRAINER
#define EVALUATOR    WEIR__V1__ROLE__EVALUATOR
#define GRANTED      WEIR__V1__LEASE_STATE__UNIT
#define MUST_WAIT    WEIR__V1__LEASE_STATE__WAIT
#define JOB_FINISHED WEIR__V1__LEASE_STATE__FINISHED
#define JOB_FAILED   WEIR__V1__LEASE_STATE__FAILED

enum { NAMES = 6, UNITS = 300, PASSES = 3, BATCHES = 5, HELD = 4 };

/* The beliefs of an incarnation, which may be dead without knowing. */
struct actor {
	struct joined joined;
	struct leased held[HELD];
	uint32_t held_count;
	uint64_t sequence;
	int64_t heard_ms;
	bool joined_once;
};

struct model {
	uint32_t attempt[PASSES][UNITS], commits[PASSES][UNITS], watermark[PASSES][UNITS];
	uint64_t holder[PASSES][UNITS]; /* as incarnations */
	uint64_t sum[FIXTURE_PARTITIONS];
	uint32_t granted;
};

struct world {
	struct fixture f;
	struct model model;
	struct actor now[NAMES], zombie[NAMES];
	uint32_t lease_ms;
};

static bool believes_alive(const struct world *w, uint64_t incarnation)
{
	for (int i = 0; i < NAMES; i++)
		if (w->now[i].joined.incarnation == incarnation)
			return w->f.now_ms - w->now[i].heard_ms <= w->lease_ms;
	return false;
}

static void actor_join(struct world *w, int i)
{
	char name[16];
	snprintf(name, sizeof name, "worker-%d", i);
	if (w->now[i].joined_once)
		w->zombie[i] = w->now[i];
	w->now[i] =
	    (struct actor){.joined = fixture_join(&w->f, name, TRAINER, 7, UNITS), .heard_ms = w->f.now_ms, .joined_once = true};
	assert_int_equal(w->now[i].joined.status, WEIR_OK);
}

static void actor_lease(struct world *w, struct actor *a)
{
	bool repeat = a->held_count && prng_below(&w->f.random, 8) == 0;
	struct leased u = fixture_lease(&w->f, &a->joined, repeat ? a->sequence : a->sequence + 1);
	if (u.status == WEIR_E_STALE)
		return;
	assert_int_equal(u.status, WEIR_OK);
	a->heard_ms = w->f.now_ms;
	a->sequence += !repeat;
	if (u.state != GRANTED)
		return;
	for (uint32_t h = 0; h < a->held_count; h++)
		if (a->held[h].pass == u.pass && a->held[h].unit == u.unit) {
			assert_true(repeat);
			assert_int_equal(a->held[h].attempt, u.attempt);
			return;
		}
	assert_in_range(u.pass, 0, PASSES - 1);
	assert_in_range(u.unit, 0, UNITS - 1);
	struct model *m = &w->model;
	assert_int_equal(u.attempt, m->attempt[u.pass][u.unit] + 1);
	assert_int_equal(u.sealed, u.attempt > 1);
	assert_int_equal(m->commits[u.pass][u.unit], 0);
	assert_int_equal(u.watermark, m->watermark[u.pass][u.unit]);
	assert_int_equal(u.total, u.watermark * FIXTURE_PARTITIONS);
	if (m->holder[u.pass][u.unit])
		assert_false(believes_alive(w, m->holder[u.pass][u.unit]));
	m->attempt[u.pass][u.unit] = u.attempt;
	m->holder[u.pass][u.unit] = a->joined.incarnation;
	m->granted++;
	assert_in_range(a->held_count, 0, HELD - 1);
	a->held[a->held_count++] = u;
}

static void actor_progress(struct world *w, struct actor *a)
{
	struct leased *u = a->held_count ? &a->held[prng_below(&w->f.random, a->held_count)] : NULL;
	uint32_t watermark = u ? (uint32_t)prng_below(&w->f.random, BATCHES) : 0;
	weir_status status = fixture_progress(&w->f, &a->joined, u, watermark);
	if (status == WEIR_E_STALE)
		return;
	assert_int_equal(status, WEIR_OK);
	a->heard_ms = w->f.now_ms;
	if (u && watermark > w->model.watermark[u->pass][u->unit])
		w->model.watermark[u->pass][u->unit] = watermark;
}

static void actor_commit(struct world *w, struct actor *a)
{
	if (!a->held_count)
		return;
	uint32_t h = (uint32_t)prng_below(&w->f.random, a->held_count);
	struct leased u = a->held[h];
	weir_status status = fixture_commit(&w->f, &a->joined, &u, BATCHES);
	if (status == WEIR_E_STALE)
		return;
	assert_int_equal(status, WEIR_OK);
	/* a repetition changes nothing */
	assert_int_equal(fixture_commit(&w->f, &a->joined, &u, BATCHES), WEIR_OK);
	assert_int_equal(u.attempt, w->model.attempt[u.pass][u.unit]);
	assert_int_equal(++w->model.commits[u.pass][u.unit], 1);
	for (uint32_t p = 0; p < FIXTURE_PARTITIONS; p++)
		w->model.sum[p] += BATCHES * prng_mix(u.pass, u.unit, p);
	a->heard_ms = w->f.now_ms;
	a->held[h] = a->held[--a->held_count];
}

static void actor_leave(struct world *w, int i)
{
	if (fixture_leave(&w->f, &w->now[i].joined, NULL) == WEIR_OK) {
		assert_int_equal(fixture_leave(&w->f, &w->now[i].joined, NULL), WEIR_OK); /* a repetition */
		w->now[i].heard_ms = INT64_MIN / 2;
		w->now[i].held_count = 0;
	}
}

static void random_event(struct world *w)
{
	int i = (int)prng_below(&w->f.random, NAMES);
	struct actor *a = &w->now[i];
	uint64_t what = prng_below(&w->f.random, 1000);
	if (!a->joined_once || what < 3)
		actor_join(w, i);
	else if (what < 5)
		actor_leave(w, i);
	else if (what < 8) { /* a stale incarnation wakes up */
		struct actor *z = &w->zombie[i];
		if (z->joined_once && z->held_count)
			assert_int_equal(fixture_commit(&w->f, &z->joined, &z->held[0], BATCHES), WEIR_E_STALE);
	} else if (what < 12)
		w->f.now_ms += w->lease_ms + 1; /* every worker pauses */
	else if (what < 300)
		actor_lease(w, a);
	else if (what < 600)
		actor_progress(w, a);
	else if (what < 750)
		actor_commit(w, a);
	else
		w->f.now_ms += (int64_t)prng_below(&w->f.random, 60);
	if (prng_below(&w->f.random, 4) == 0)
		ledger_tick(w->f.ledger);
}

/* All workers live from here on: the job must end. */
static void finish(struct world *w)
{
	for (int round = 0; round < 10000 && fixture_status(&w->f).state != JOB_FINISHED; round++) {
		for (int i = 0; i < NAMES; i++) {
			if (!w->now[i].joined_once || fixture_progress(&w->f, &w->now[i].joined, NULL, 0) == WEIR_E_STALE)
				actor_join(w, i);
			w->now[i].heard_ms = w->f.now_ms;
			actor_commit(w, &w->now[i]);
			actor_lease(w, &w->now[i]);
		}
		w->f.now_ms += 10;
		ledger_tick(w->f.ledger);
	}
}

static void run_seed(uint64_t seed)
{
	struct world *w = calloc(1, sizeof *w);
	w->lease_ms = 400;
	fixture_open(&w->f, &(struct ledger_options){.lease_ms = w->lease_ms, .passes = PASSES, .shuffle = true, .seed = seed}, seed);
	for (int e = 0; e < 10000; e++)
		random_event(w);
	finish(w);
	struct replica_identity s = fixture_status(&w->f);
	assert_int_equal(s.state, s.quarantined ? JOB_FAILED : JOB_FINISHED);
	assert_int_equal(s.quarantined, 0);
	for (int p = 0; p < PASSES; p++)
		for (int u = 0; u < UNITS; u++)
			assert_int_equal(w->model.commits[p][u], 1);
	for (uint32_t p = 0; p < FIXTURE_PARTITIONS; p++) {
		assert_int_equal(s.expected[p], PASSES * UNITS * BATCHES);
		assert_int_equal(s.fingerprint[p], w->model.sum[p]);
	}
	fixture_close(&w->f);
	free(w);
}

static void random_schedules_commit_every_unit_once(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++)
		run_seed(seed);
}

static void a_pass_visits_every_data_unit_once_in_another_order(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t order[2][UNITS], differ = 0;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 2, .shuffle = true, .seed = 9}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, UNITS);
	for (uint32_t pass = 0; pass < 2; pass++) {
		bool seen[UNITS] = {0};
		for (uint32_t u = 0; u < UNITS; u++) {
			struct leased x = fixture_lease(&f, &w, 0);
			assert_int_equal(x.pass, pass);
			assert_int_equal(x.unit, u);
			assert_false(seen[x.data_unit]);
			seen[x.data_unit] = true;
			order[pass][u] = x.data_unit;
			assert_int_equal(fixture_commit(&f, &w, &x, 1), WEIR_OK);
		}
	}
	for (uint32_t u = 0; u < UNITS; u++)
		differ += order[0][u] != order[1][u];
	assert_in_range(differ, UNITS / 2, UNITS);
	assert_int_equal(fixture_lease(&f, &w, 0).state, JOB_FINISHED);
	fixture_close(&f);
}

static void a_worker_holds_at_most_four_units(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, UNITS);
	for (uint32_t i = 0; i < WEIR_UNITS_HELD_MAX; i++)
		assert_int_equal(fixture_lease(&f, &w, 0).state, GRANTED);
	assert_int_equal(fixture_lease(&f, &w, 0).state, MUST_WAIT);
	fixture_close(&f);
}

static void a_unit_that_keeps_failing_fails_the_job_and_says_which(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, 3);
	for (uint32_t i = 0; i < WEIR_UNIT_FAILURES_MAX; i++) {
		struct leased u = fixture_lease(&f, &w, 0);
		assert_int_equal(u.unit, 0);
		assert_int_equal(fixture_fail(&f, &w, &u, "day_0.gz: bad\x1b[2J\xff magic"), WEIR_OK);
	}
	struct leased u = fixture_lease(&f, &w, 0);
	assert_int_equal(u.state, JOB_FAILED);
	assert_int_equal(u.status, WEIR_E_STATE);
	assert_non_null(strstr(u.text, "unit 0 of pass 0"));
	/* the sentence is shown to users */
	assert_non_null(strstr(u.text, "day_0.gz: bad?[2J? magic"));
	fixture_close(&f);
}

static void allow_skip_tolerates_that_many_quarantined_units(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1, .allow_skip = 1}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, 2);
	for (uint32_t i = 0; i < WEIR_UNIT_FAILURES_MAX; i++) {
		struct leased u = fixture_lease(&f, &w, 0);
		assert_int_equal(fixture_fail(&f, &w, &u, "broken"), WEIR_OK);
	}
	/* leased once more, to be sealed and counted */
	struct leased skipped = fixture_lease(&f, &w, 0);
	assert_int_equal(skipped.unit, 0);
	assert_true(skipped.skip && skipped.sealed);
	struct leased u = fixture_lease(&f, &w, 0);
	assert_int_equal(u.unit, 1);
	assert_false(u.skip);
	assert_int_equal(fixture_commit(&f, &w, &u, 1), WEIR_OK);
	assert_int_equal(fixture_lease(&f, &w, 0).state, MUST_WAIT);
	w = fixture_join(&f, "w", TRAINER, 1, 2); /* the worker that was to count it is dead */
	skipped = fixture_lease(&f, &w, 0);
	assert_true(skipped.skip);
	assert_int_equal(fixture_commit(&f, &w, &skipped, 2), WEIR_OK);
	assert_int_equal(fixture_commit(&f, &w, &skipped, 2), WEIR_OK);
	assert_int_equal(fixture_lease(&f, &w, 0).state, JOB_FINISHED);
	struct replica_identity s = fixture_status(&f);
	assert_int_equal(s.quarantined, 1);
	assert_int_equal(s.expected[0], 1);
	assert_int_equal(s.skipped[0], 2);
	fixture_close(&f);
}

static void a_failure_reported_twice_counts_once(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, 1), v = fixture_join(&f, "v", TRAINER, 1, 1);
	struct leased u = fixture_lease(&f, &w, 0);
	assert_int_equal(fixture_fail(&f, &w, &u, "broken"), WEIR_OK);
	assert_int_equal(fixture_fail(&f, &w, &u, "broken"), WEIR_OK);
	struct leased again = fixture_lease(&f, &v, 0);
	assert_int_equal(again.attempt, 2);
	assert_int_equal(fixture_fail(&f, &w, &u, "broken"), WEIR_OK);
	assert_int_equal(fixture_commit(&f, &v, &again, 1), WEIR_OK);
	fixture_close(&f);
}

static void observers_leave_no_trace(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	for (uint32_t i = 0; i <= WEIR_WORKERS_MAX; i++) {
		char name[32];
		snprintf(name, sizeof name, "status-%u", i);
		struct joined o = fixture_join(&f, name, WEIR__V1__ROLE__OBSERVER, 0, 0);
		assert_int_equal(o.status, WEIR_OK);
		assert_int_equal(fixture_status(&f).workers, 1);
		assert_int_equal(fixture_leave(&f, &o, NULL), WEIR_OK);
		assert_int_equal(fixture_status(&f).workers, 0);
	}
	fixture_close(&f);
}

static void the_gate_holds_the_next_pass_until_the_evaluation(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 2, .gate = true}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, 1), e = fixture_join(&f, "e", EVALUATOR, 0, 0);
	assert_int_equal(fixture_lease(&f, &e, 0).state, MUST_WAIT);
	struct leased u = fixture_lease(&f, &w, 0);
	assert_int_equal(fixture_gate(&f, &e, 0, false), WEIR_E_STATE);
	assert_int_equal(fixture_commit(&f, &w, &u, 1), WEIR_OK);
	assert_int_equal(fixture_lease(&f, &w, 0).state, MUST_WAIT);
	struct leased v = fixture_lease(&f, &e, 0);
	assert_int_equal(v.state, WEIR__V1__LEASE_STATE__EVALUATE);
	assert_int_equal(v.pass, 0);
	assert_false(v.last);
	assert_int_equal(fixture_gate(&f, &e, 0, false), WEIR_OK);
	u = fixture_lease(&f, &w, 0);
	assert_int_equal(u.state, GRANTED);
	assert_int_equal(u.pass, 1);
	assert_int_equal(fixture_commit(&f, &w, &u, 1), WEIR_OK);
	assert_true(fixture_lease(&f, &e, 0).last);
	assert_int_equal(fixture_lease(&f, &w, 0).state, MUST_WAIT);
	assert_int_equal(fixture_gate(&f, &e, 1, true), WEIR_OK);
	assert_int_equal(fixture_lease(&f, &w, 0).state, JOB_FINISHED);
	assert_int_equal(fixture_lease(&f, &e, 0).state, JOB_FINISHED);
	fixture_close(&f);
}

/* A verdict is recorded at its pass's end, whatever the trainers have reported since. */
static void an_evaluation_stands_at_the_end_of_its_pass(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 3}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, 2), e = fixture_join(&f, "e", EVALUATOR, 0, 0);
	for (uint32_t pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < 2; i++) {
			struct leased u = fixture_lease(&f, &w, 0);
			assert_int_equal(u.pass, pass);
			assert_int_equal(fixture_commit(&f, &w, &u, i == 0 ? 8 : 5), WEIR_OK);
		}
	struct leased u = fixture_lease(&f, &w, 0);
	assert_int_equal(fixture_commit(&f, &w, &u, 8), WEIR_OK);
	assert_int_equal(fixture_evaluated_batches(&f), 0);
	assert_int_equal(fixture_verdict(&f, &e, 0, NAN, 0.4, false), WEIR_OK);
	assert_int_equal(fixture_evaluated_batches(&f), 13);
	assert_int_equal(fixture_verdict(&f, &e, 1, NAN, 0.4, false), WEIR_OK);
	assert_int_equal(fixture_evaluated_batches(&f), 26);
	fixture_close(&f);
}

/* Further figures of the last evaluation are kept as they came, or the verdict is refused. */
static void further_figures_stand_beside_auc_and_loss(void **state)
{
	(void)state;
	struct fixture f;
	struct figures sent = {.count = 2, .items = {{"gauc", 0.625}, {"ndcg@10", 0.25}}}, wrong = sent, read;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 2}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, 1), e = fixture_join(&f, "e", EVALUATOR, 0, 0);
	struct leased u = fixture_lease(&f, &w, 0);
	assert_int_equal(fixture_commit(&f, &w, &u, 8), WEIR_OK);
	fixture_read_figures(&f, &read);
	assert_int_equal(read.count, 0);
	strcpy(wrong.items[1].name, "gauc");
	assert_int_equal(fixture_figures(&f, &e, 0, &wrong), WEIR_E_INVALID);
	strcpy(wrong.items[1].name, "a b");
	assert_int_equal(fixture_figures(&f, &e, 0, &wrong), WEIR_E_INVALID);
	wrong = sent;
	wrong.items[0].value = NAN;
	assert_int_equal(fixture_figures(&f, &e, 0, &wrong), WEIR_E_INVALID);
	assert_int_equal(fixture_evaluated_batches(&f), 0);
	assert_int_equal(fixture_figures(&f, &e, 0, &sent), WEIR_OK);
	fixture_read_figures(&f, &read);
	assert_int_equal(read.count, 2);
	assert_string_equal(read.items[1].name, "ndcg@10");
	assert_true(read.items[0].value == 0.625 && read.items[1].value == 0.25);
	fixture_close(&f);
}

static void the_gate_opens_without_an_evaluator_after_a_while(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 60000, .passes = 2, .gate = true}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, 1);
	struct leased u = fixture_lease(&f, &w, 0);
	assert_int_equal(fixture_commit(&f, &w, &u, 1), WEIR_OK);
	f.now_ms += WEIR_GATE_PATIENCE_MS - 1;
	ledger_tick(f.ledger);
	assert_int_equal(fixture_lease(&f, &w, 0).state, MUST_WAIT);
	f.now_ms += 1;
	ledger_tick(f.ledger);
	assert_int_equal(fixture_lease(&f, &w, 0).state, GRANTED);
	fixture_close(&f);
}

static void another_dataset_is_refused_with_both_named(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	assert_int_equal(fixture_join(&f, "a", TRAINER, 0xabc, 3).status, WEIR_OK);
	struct joined b = fixture_join(&f, "b", TRAINER, 0xdef, 3);
	assert_int_equal(b.status, WEIR_E_INVALID);
	assert_non_null(strstr(b.text, "abc"));
	assert_non_null(strstr(b.text, "def"));
	fixture_close(&f);
}

/* Names appear in messages, on pages and in metric labels. */
static void a_name_is_of_plain_letters(void **state)
{
	(void)state;
	static const char *const names[] = {
	    "", ".a", "a b", "a\n", "\x1b[2J", "\xff", "a\"", "0123456789012345678901234567890123456789012345678901234567890123"};
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const struct joined w = fixture_join(&f, names[i], TRAINER, 1, 1);
		assert_int_equal(w.status, WEIR_E_INVALID);
		assert_non_null(strstr(w.text, "1 to 63 letters"));
	}
	assert_int_equal(fixture_join(&f, "a-B_9.c", TRAINER, 1, 1).status, WEIR_OK);
	fixture_close(&f);
}

static void another_version_of_the_protocol_is_refused(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	f.wire_version = 2;
	const struct joined w = fixture_join(&f, "new", TRAINER, 1, 1);
	assert_int_equal(w.status, WEIR_E_VERSION);
	assert_non_null(strstr(w.text, "worker new speaks version 2 of the protocol, this server version 1"));
	fixture_close(&f);
}

static void a_second_join_of_a_live_name_takes_over_at_once(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	struct joined a = fixture_join(&f, "w", TRAINER, 1, 1);
	struct leased u = fixture_lease(&f, &a, 0);
	struct joined b = fixture_join(&f, "w", TRAINER, 1, 1);
	assert_int_equal(fixture_commit(&f, &a, &u, 1), WEIR_E_STALE);
	u = fixture_lease(&f, &b, 0);
	assert_int_equal(u.attempt, 2);
	assert_true(u.sealed);
	assert_int_equal(fixture_status(&f).lost, 1);
	fixture_close(&f);
}

static void on_status(void *arg, const ProtobufCMessage *m)
{
	*(weir_status *)arg = (weir_status)((const Weir__V1__ProgressReply *)m)->status->code;
}

static void on_totals(void *arg, const ProtobufCMessage *m)
{
	const Weir__V1__LedgerStatus *r = (const Weir__V1__LedgerStatus *)m;
	double *norms = arg;
	norms[0] = r->totals->residual_norm;
	norms[1] = r->totals->residual_lost;
}

static void report(struct fixture *f, const struct joined *w, Weir__V1__WorkerReport report)
{
	Weir__V1__ProgressRequest q = WEIR__V1__PROGRESS_REQUEST__INIT;
	weir_status status = WEIR_E_INTERNAL;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.report = &report;
	ledger_progress(f->ledger, &q, on_status, &status);
	assert_int_equal(status, WEIR_OK);
}

static void report_residual(struct fixture *f, const struct joined *w, double norm)
{
	Weir__V1__WorkerReport r = WEIR__V1__WORKER_REPORT__INIT;
	r.residual_norm = norm;
	report(f, w, r);
}

static void assert_norms(struct fixture *f, double now, double lost)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	double norms[2] = {-1, -1};
	ledger_status(f->ledger, &q, on_totals, norms);
	assert_true(norms[0] == now && norms[1] == lost);
}

static void on_loss(void *arg, const ProtobufCMessage *m)
{
	*(double *)arg = ((const Weir__V1__LedgerStatus *)m)->totals->loss_sum;
}

/* A batch with a NaN is left out of the sums; later batches count. */
static void undefined_losses_are_in_no_sum(void **state)
{
	(void)state;
	struct fixture f;
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	Weir__V1__WorkerReport none = WEIR__V1__WORKER_REPORT__INIT, some = WEIR__V1__WORKER_REPORT__INIT;
	double loss = 0;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, 3);
	none.loss_sum = none.energy_sent = none.residual_norm = NAN;
	some.loss_sum = 1.5;
	some.residual_norm = 2;
	report(&f, &w, none);
	assert_norms(&f, 0, 0);
	report(&f, &w, some);
	assert_norms(&f, 2, 0);
	ledger_status(f.ledger, &q, on_loss, &loss);
	assert_true(loss == 1.5);
	fixture_close(&f);
}

static void residuals_lost_with_a_worker_are_reported(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, 1);
	struct joined a = fixture_join(&f, "a", WEIR__V1__ROLE__TRAINER, 1, 4);
	struct joined b = fixture_join(&f, "b", WEIR__V1__ROLE__TRAINER, 1, 4);
	report_residual(&f, &a, 3);
	report_residual(&f, &b, 4);
	assert_norms(&f, 5, 0);
	f.now_ms += 900;
	report_residual(&f, &b, 4);
	f.now_ms += 200;
	ledger_tick(f.ledger); /* a is declared dead */
	assert_norms(&f, 4, 3);
	report_residual(&f, &b, 0);
	assert_int_equal(fixture_leave(&f, &b, NULL), WEIR_OK);
	assert_norms(&f, 0, 3);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_schedules_commit_every_unit_once),
	    cmocka_unit_test(a_pass_visits_every_data_unit_once_in_another_order),
	    cmocka_unit_test(a_worker_holds_at_most_four_units),
	    cmocka_unit_test(a_unit_that_keeps_failing_fails_the_job_and_says_which),
	    cmocka_unit_test(allow_skip_tolerates_that_many_quarantined_units),
	    cmocka_unit_test(a_failure_reported_twice_counts_once),
	    cmocka_unit_test(a_name_is_of_plain_letters),
	    cmocka_unit_test(another_version_of_the_protocol_is_refused),
	    cmocka_unit_test(observers_leave_no_trace),
	    cmocka_unit_test(the_gate_holds_the_next_pass_until_the_evaluation),
	    cmocka_unit_test(an_evaluation_stands_at_the_end_of_its_pass),
	    cmocka_unit_test(further_figures_stand_beside_auc_and_loss),
	    cmocka_unit_test(the_gate_opens_without_an_evaluator_after_a_while),
	    cmocka_unit_test(another_dataset_is_refused_with_both_named),
	    cmocka_unit_test(a_second_join_of_a_live_name_takes_over_at_once),
	    cmocka_unit_test(undefined_losses_are_in_no_sum),
	    cmocka_unit_test(residuals_lost_with_a_worker_are_reported),
	};
	return cmocka_run_group_tests_name("ledger_units", tests, NULL, NULL);
}
