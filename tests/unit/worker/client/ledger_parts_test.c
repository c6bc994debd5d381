/* Units cut towards the end of a pass: each batch is in one part, whichever workers take and lose
 * it, and slow workers get smaller parts. Also the learning rate scale while more trainers live
 * than the job is meant for. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "common/base/message.h"
#include "tests/unit/worker/client/ledger_fixture.h"

#define TRAINER WEIR__V1__ROLE__TRAINER
#define GRANTED WEIR__V1__LEASE_STATE__UNIT

enum { UNITS = 12, BATCHES = 16, WORKERS = 3 };

static const struct ledger_options options = {.lease_ms = 1000, .passes = 2, .shuffle = true, .seed = 5};

struct pass {
	struct fixture f, follower; /* the follower applies each request's changes */
	struct joined worker[WORKERS];
	uint64_t sequence[WORKERS];
	uint32_t done[UNITS][BATCHES]; /* by place in the pass */
	uint32_t data_unit[UNITS];
	uint32_t parts;
};

static void open_pass(struct pass *p, const struct ledger_options *o)
{
	memset(p, 0, sizeof *p);
	fixture_open(&p->f, o, 1);
	fixture_open(&p->follower, o, 2);
	ledger_record_changes(p->f.ledger);
	p->f.unit_batches = BATCHES;
	for (uint32_t i = 0; i < WORKERS; i++) {
		char name[16];
		snprintf(name, sizeof name, "worker-%u", i);
		p->worker[i] = fixture_join(&p->f, name, TRAINER, 7, UNITS);
		assert_int_equal(p->worker[i].status, WEIR_OK);
	}
	memset(p->data_unit, 0xff, sizeof p->data_unit);
}

static void close_pass(struct pass *p)
{
	fixture_close(&p->f);
	fixture_close(&p->follower);
}

static void follow(struct pass *p)
{
	struct message *changes;
	assert_int_equal(ledger_export_changes(p->f.ledger, &changes, NULL), WEIR_OK);
	if (changes)
		assert_int_equal(ledger_merge(p->follower.ledger, changes->spans[0].data, changes->bytes, NULL, NULL), WEIR_OK);
	message_release(changes);
	struct message *x = fixture_export(p->f.ledger, 1), *y = fixture_export(p->follower.ledger, 1);
	assert_int_equal(x->bytes, y->bytes);
	assert_memory_equal(x->spans[0].data, y->spans[0].data, x->bytes);
	message_release(x);
	message_release(y);
}

static struct leased lease(struct pass *p, uint32_t i)
{
	const struct leased u = fixture_lease(&p->f, &p->worker[i], ++p->sequence[i]);
	follow(p);
	return u;
}

/* Executes and commits the unit. */
static void finish(struct pass *p, uint32_t i, const struct leased *u)
{
	const uint32_t end = u->end ? u->end : BATCHES;
	assert_in_range(u->place, 0, UNITS - 1);
	assert_in_range(end, u->watermark + 1, BATCHES);
	assert_true(p->data_unit[u->place] == UINT32_MAX ||
	            p->data_unit[u->place] == u->data_unit); /* a part's rows are its unit's */
	p->data_unit[u->place] = u->data_unit;
	p->parts += u->unit >= UNITS;
	for (uint32_t b = u->watermark; b < end; b++)
		p->done[u->place][b]++;
	assert_int_equal(fixture_commit(&p->f, &p->worker[i], u, end), WEIR_OK);
	follow(p);
}

static void assert_each_batch_once(const struct pass *p)
{
	for (uint32_t u = 0; u < UNITS; u++)
		for (uint32_t b = 0; b < BATCHES; b++)
			assert_int_equal(p->done[u][b], 1);
}

/* The worker reports this many batches in two seconds. */
static void report_speed(struct pass *p, uint32_t i, uint64_t batches)
{
	Weir__V1__ProgressRequest q = WEIR__V1__PROGRESS_REQUEST__INIT;
	Weir__V1__WorkerReport report = WEIR__V1__WORKER_REPORT__INIT;
	report.batches = batches;
	q.job = fixture_job();
	q.worker = p->worker[i].worker;
	q.incarnation = p->worker[i].incarnation;
	q.report = &report;
	ledger_progress(p->f.ledger, &q, fixture_ignore_reply, NULL);
}

static void a_pass_ends_in_parts_and_has_each_batch_once(void **state)
{
	(void)state;
	struct pass p;
	uint32_t last = BATCHES, granted = 0;
	open_pass(&p, &options);
	for (uint32_t i = 0;; i = (i + 1) % WORKERS, granted++) {
		struct leased u = lease(&p, i);
		if (u.state != GRANTED || u.pass > 0)
			break;
		const uint32_t size = (u.end ? u.end : BATCHES) - u.watermark;
		last = size;
		if (granted < UNITS - 2 * WORKERS)
			assert_int_equal(size, BATCHES); /* units at the start of the pass are whole */
		finish(&p, i, &u);
		struct replica_identity s = fixture_status(&p.f);
		assert_int_equal(s.units, UNITS);
		assert_true(s.committed <= UNITS);
	}
	assert_each_batch_once(&p);
	assert_true(p.parts > 0);
	assert_int_equal(last, BATCHES / WEIR_UNIT_PARTS);
	assert_int_equal(fixture_status(&p.f).pass, 1);
	close_pass(&p);
}

/* A worker with a quarter of the speed gets a quarter of the batches at once. */
static void a_slow_worker_gets_smaller_parts(void **state)
{
	(void)state;
	struct pass p;
	struct leased held[WORKERS];
	open_pass(&p, &options);
	for (uint32_t i = 0; i < WORKERS; i++)
		held[i] = lease(&p, i);
	p.f.now_ms += 500; /* a speed window is longer than the lease: several reports */
	for (uint32_t turn = 0; turn < 5; turn++, p.f.now_ms += 500)
		for (uint32_t i = 0; i < WORKERS; i++)
			report_speed(&p, i, i == 0 ? 10 : 40);
	/* eight units are free and three workers have a share of eight thirds each: whole units */
	for (uint32_t n = 0; n < 4; n++) {
		struct leased u = lease(&p, 1);
		finish(&p, 1, &u);
	}
	struct leased slow = lease(&p, 0), fast = lease(&p, 2);
	const uint32_t slow_size = (slow.end ? slow.end : BATCHES) - slow.watermark;
	const uint32_t fast_size = (fast.end ? fast.end : BATCHES) - fast.watermark;
	assert_true(slow_size * 4 <= BATCHES);
	assert_true(fast_size >= 2 * slow_size);
	finish(&p, 0, &slow);
	finish(&p, 2, &fast);
	for (uint32_t i = 0; i < WORKERS; i++)
		finish(&p, i, &held[i]);
	for (struct leased u; (u = lease(&p, 1)).state == GRANTED && u.pass == 0;)
		finish(&p, 1, &u);
	assert_each_batch_once(&p);
	close_pass(&p);
}

/* A dead worker's part goes to another one unchanged. A ledger restored from the first one's state
 * continues with the same parts. */
static void parts_outlive_workers_and_ledgers(void **state)
{
	(void)state;
	struct pass p;
	struct leased lost = {0};
	open_pass(&p, &options);
	for (uint32_t i = 0; i < UNITS; i++) {
		struct leased u = lease(&p, 0);
		finish(&p, 0, &u);
	}
	while (lost.unit < UNITS) { /* parts have numbers beyond the dataset's units */
		if (lost.attempt)
			finish(&p, 1, &lost);
		lost = lease(&p, 1);
		assert_int_equal(lost.state, GRANTED);
	}
	assert_int_equal(fixture_progress(&p.f, &p.worker[1], &lost, lost.watermark + 1), WEIR_OK);
	p.done[lost.place][lost.watermark]++;
	p.worker[1] = fixture_join(&p.f, "worker-1", TRAINER, 7, UNITS);

	follow(&p);
	struct ledger *first = p.f.ledger; /* the follower becomes the ledger */
	p.f.ledger = p.follower.ledger;
	p.follower.ledger = first;
	ledger_record_changes(p.f.ledger);
	struct leased again = lease(&p, 2);
	for (; again.unit != lost.unit; again = lease(&p, 2)) {
		assert_int_equal(again.state, GRANTED);
		finish(&p, 2, &again);
	}
	assert_int_equal(again.attempt, 2);
	assert_true(again.sealed);
	assert_int_equal(again.watermark, lost.watermark + 1);
	assert_int_equal(again.end, lost.end);
	assert_int_equal(again.place, lost.place);
	if (again.watermark < (again.end ? again.end : BATCHES))
		finish(&p, 2, &again);
	else
		assert_int_equal(fixture_commit(&p.f, &p.worker[2], &again, again.watermark), WEIR_OK);
	for (struct leased u; (u = lease(&p, 2)).state == GRANTED && u.pass == 0;)
		finish(&p, 2, &u);
	assert_each_batch_once(&p);
	close_pass(&p);
}

static void assert_whole(struct pass *p)
{
	uint32_t units = 0;
	for (uint32_t i = 0;; i = p->worker[(i + 1) % WORKERS].incarnation ? (i + 1) % WORKERS : 0, units++) {
		struct leased u = lease(p, i);
		if (u.state != GRANTED || u.pass > 0)
			break;
		assert_int_equal(u.end, 0);
		finish(p, i, &u);
	}
	assert_int_equal(units, UNITS);
	close_pass(p);
}

static void units_stay_whole_where_parts_would_do_no_good(void **state)
{
	(void)state;
	struct pass p;
	/* steps combine batches: parts by speed would make them depend on timing */
	open_pass(&p, &options);
	assert_int_equal(fixture_table(&p.f, "dense", (weir_mode){.kind = WEIR_SYNC}), WEIR_OK);
	assert_whole(&p);
	open_pass(&p, &options);
	assert_int_equal(fixture_table(&p.f, "dense", (weir_mode){.kind = WEIR_ASYNC, .local_steps = 4, .fragments = 1}), WEIR_OK);
	assert_whole(&p);
	open_pass(&p, &options); /* for a single worker */
	for (uint32_t i = 1; i < WORKERS; i++) {
		assert_int_equal(fixture_leave(&p.f, &p.worker[i], NULL), WEIR_OK);
		p.worker[i] = (struct joined){0};
	}
	assert_whole(&p);
}

/* --- Rates */

static float rate_with(uint32_t rule, uint32_t meant_for, uint32_t trainers)
{
	struct ledger_options o = options;
	struct fixture f;
	o.rate_rule = rule;
	o.workers = meant_for;
	fixture_open(&f, &o, 1);
	struct joined last = {0};
	for (uint32_t i = 0; i < trainers; i++) {
		char name[16];
		snprintf(name, sizeof name, "worker-%u", i);
		last = fixture_join(&f, name, TRAINER, 7, UNITS);
	}
	/* the evaluator does not count */
	(void)fixture_join(&f, "evaluator", WEIR__V1__ROLE__EVALUATOR, 0, 0);
	const struct leased u = fixture_lease(&f, &last, 1);
	assert_int_equal(u.state, GRANTED);
	fixture_close(&f);
	return u.rate_scale;
}

static void rates_go_with_the_trainers_that_live(void **state)
{
	(void)state;
	assert_true(rate_with(LEDGER_RATE_AS_IT_IS, 2, 6) == 0); /* unscaled */
	assert_true(rate_with(LEDGER_RATE_LINEAR, 2, 2) == 0);
	assert_true(rate_with(LEDGER_RATE_LINEAR, 2, 6) == 3);
	assert_true(rate_with(LEDGER_RATE_LINEAR, 8, 2) == 0.25f);
	assert_true(rate_with(LEDGER_RATE_SQRT, 2, 6) == sqrtf(3));
}

static void trainers_that_leave_or_die_count_no_more(void **state)
{
	(void)state;
	struct ledger_options o = options;
	struct pass p;
	o.rate_rule = LEDGER_RATE_LINEAR;
	o.workers = 1;
	open_pass(&p, &o);
	assert_true(lease(&p, 0).rate_scale == 3);
	assert_int_equal(fixture_leave(&p.f, &p.worker[1], NULL), WEIR_OK);
	assert_true(lease(&p, 0).rate_scale == 2);
	p.f.now_ms += 900;
	assert_int_equal(fixture_progress(&p.f, &p.worker[0], NULL, 0), WEIR_OK);
	p.f.now_ms += 200; /* worker-2 is silent for longer than a lease */
	ledger_tick(p.f.ledger);
	assert_true(lease(&p, 0).rate_scale == 0);
	close_pass(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pass_ends_in_parts_and_has_each_batch_once),
	    cmocka_unit_test(a_slow_worker_gets_smaller_parts),
	    cmocka_unit_test(parts_outlive_workers_and_ledgers),
	    cmocka_unit_test(units_stay_whole_where_parts_would_do_no_good),
	    cmocka_unit_test(rates_go_with_the_trainers_that_live),
	    cmocka_unit_test(trainers_that_leave_or_die_count_no_more),
	};
	return cmocka_run_group_tests_name("ledger_parts", tests, NULL, NULL);
}
