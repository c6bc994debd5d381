/* The ledger's state as its log keeps it: after any requests, a ledger that replays the changes and
 * one that starts from a snapshot plus later changes equal the original. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "tests/rounds.h"
#include "tests/unit/worker/client/ledger_fixture.h"

enum { WORKERS = 6, UNITS = 40, REQUESTS = 12000, SNAPSHOT_EVERY = 97 };

struct world {
	struct fixture f, follower, restored;
	bool has_restored;
	struct joined worker[WORKERS];
	struct leased unit[WORKERS];
	bool has_unit[WORKERS];
	uint32_t batch[WORKERS];
	uint32_t answers; /* to polls */
	uint64_t changes; /* requests that changed the state */
	struct prng random;
};

#define OPTIONS .lease_ms = 1000, .passes = 4, .shuffle = true, .gate = true, .allow_skip = 1000
static const struct ledger_options options = {OPTIONS}, stalling = {OPTIONS, .progress_timeout_ms = 500};

static void create_table(struct world *w, uint32_t number)
{
	weir_init_segment zero = {.elements = 8};
	weir_table_spec spec = {.kind = WEIR_DENSE,
	                        .elements = 8,
	                        .optimizer = {.lr = 1},
	                        .mode = {WEIR_SYNC, number % 2},
	                        .segments_count = 1,
	                        .segments = &zero};
	snprintf(spec.name, sizeof spec.name, "table-%u", number);
	struct wire_table table;
	assert_int_equal(wire_table_make(&table, &spec, 0), WEIR_OK);
	Weir__V1__CreateTableRequest q = WEIR__V1__CREATE_TABLE_REQUEST__INIT;
	uint32_t answered = 0;
	q.job = fixture_job();
	q.table = &table.table;
	ledger_create_table(w->f.ledger, &q, fixture_count_reply, &answered);
	assert_int_equal(answered, 1);
	wire_table_destroy(&table);
}

static void step(struct world *w, uint32_t i, bool has_done, bool has_ready)
{
	Weir__V1__StepRequest q = WEIR__V1__STEP_REQUEST__INIT;
	Weir__V1__BatchId done = WEIR__V1__BATCH_ID__INIT, ready = WEIR__V1__BATCH_ID__INIT;
	ready.pass = done.pass = w->unit[i].pass;
	ready.unit = done.unit = w->unit[i].unit;
	done.batch = w->batch[i];
	ready.batch = has_done ? ++w->batch[i] : w->batch[i];
	Weir__V1__BatchWeight weight = WEIR__V1__BATCH_WEIGHT__INIT; /* weights a step's mean */
	weight.value = (double)(1 + prng_below(&w->random, 99));
	q.job = fixture_job();
	q.worker = w->worker[i].worker;
	q.incarnation = w->worker[i].incarnation;
	q.has_done = has_done;
	q.done = &done;
	q.done_weight = &weight;
	q.has_ready = has_ready;
	q.ready = &ready;
	ledger_step(w->f.ledger, &q, fixture_count_reply, &w->answers);
}

static void join(struct world *w, uint32_t i)
{
	char name[16];
	snprintf(name, sizeof name, i == 0 ? "evaluator" : "worker-%u", i);
	w->has_unit[i] = false;
	w->worker[i] = fixture_join(&w->f, name, i == 0 ? WEIR__V1__ROLE__EVALUATOR : WEIR__V1__ROLE__TRAINER, 7, UNITS);
}

static void request_random(struct world *w)
{
	struct fixture *f = &w->f;
	uint32_t i = (uint32_t)prng_below(&w->random, WORKERS);
	struct joined *j = &w->worker[i];
	struct leased *u = &w->unit[i];
	switch (prng_below(&w->random, 20)) {
	case 0:
		if (prng_below(&w->random, 8) == 0)
			join(w, i);
		break;
	case 1:
	case 2:
	case 3: {
		if (w->has_unit[i] && prng_below(&w->random, 16))
			break;
		struct leased got = fixture_lease(f, j, prng_below(&w->random, 3));
		if (got.status == WEIR_E_STALE)
			join(w, i);
		if (got.state == WEIR__V1__LEASE_STATE__UNIT && got.attempt) {
			*u = got;
			w->batch[i] = got.watermark;
			w->has_unit[i] = true;
		}
		break;
	}
	case 4:
		(void)fixture_tell(f, j, prng_below(&w->random, 600), 0, 1);
		break;
	case 5:
		(void)fixture_progress(f, j, u, u->watermark + (uint32_t)prng_below(&w->random, 9));
		break;
	case 6:
	case 12:
	case 13:
		if (fixture_commit(f, j, u, 8) == WEIR_E_STALE && prng_below(&w->random, 2))
			join(w, i);
		w->has_unit[i] = false;
		break;
	case 7:
		if (prng_below(&w->random, 8) == 0)
			(void)fixture_fail(f, j, u, "it does not work");
		break;
	case 8:
		if (prng_below(&w->random, 20) == 0)
			(void)fixture_leave(f, j, NULL);
		break;
	case 9:
		(void)fixture_gate(f, &w->worker[0], fixture_status(f).pass, false);
		break;
	case 10:
	case 11:
		f->now_ms += (int64_t)prng_below(&w->random, 600);
		ledger_tick(f->ledger);
		break;
	default:
		step(w, i, prng_below(&w->random, 2), prng_below(&w->random, 4) > 0);
	}
}

static void assert_equal_ledgers(struct ledger *a, struct ledger *b)
{
	struct message *x = fixture_export(a, 5), *y = fixture_export(b, 5);
	assert_int_equal(x->bytes, y->bytes);
	assert_memory_equal(x->spans[0].data, y->spans[0].data, x->bytes);
	message_release(x);
	message_release(y);
}

static void merge(struct ledger *l, const struct message *m)
{
	weir_error err = {0};
	if (ledger_merge(l, m->spans[0].data, m->bytes, NULL, &err))
		fail_msg("%s", err.text);
}

/* Applies the last request's changes to the other ledgers. */
static void follow(struct world *w)
{
	struct message *m;
	assert_int_equal(ledger_export_changes(w->f.ledger, &m, NULL), WEIR_OK);
	if (m) {
		w->changes++;
		merge(w->follower.ledger, m);
		if (w->has_restored)
			merge(w->restored.ledger, m);
		message_release(m);
	}
	assert_equal_ledgers(w->f.ledger, w->follower.ledger);
	if (w->has_restored)
		assert_equal_ledgers(w->f.ledger, w->restored.ledger);
}

static void restore_from_snapshot(struct world *w)
{
	if (w->has_restored)
		fixture_close(&w->restored);
	fixture_open(&w->restored, &stalling, 3);
	w->has_restored = true;
	struct message *m = fixture_export(w->f.ledger, 5);
	uint64_t index = 0;
	assert_int_equal(ledger_merge(w->restored.ledger, m->spans[0].data, m->bytes, &index, NULL), WEIR_OK);
	assert_int_equal(index, 5);
	message_release(m);
}

static void a_ledger_fed_with_the_changes_is_equal(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= rounds(6); seed++) {
		struct world w = {0};
		prng_seed(&w.random, seed);
		fixture_open(&w.f, &stalling, seed);
		w.f.tells_activity = true;
		fixture_open(&w.follower, &stalling, 2);
		ledger_record_changes(w.f.ledger);
		for (uint32_t i = 0; i < WORKERS; i++) {
			join(&w, i);
			create_table(&w, i);
			follow(&w);
		}
		for (uint32_t i = 0; i < REQUESTS; i++) {
			request_random(&w);
			follow(&w);
			if (i % SNAPSHOT_EVERY == 0)
				restore_from_snapshot(&w);
		}
		struct replica_identity s = fixture_status(&w.f);
		assert_true(s.pass > 0 && s.steps > 20 && s.expired > 0 && s.stalled > 0 && w.changes > REQUESTS / 8);
		fixture_close(&w.f);
		fixture_close(&w.follower);
		fixture_close(&w.restored);
	}
}

/* Partitions may have reduced a step by a close's weights, so another reader must get the same
 * floats. A second scaling would change some of them. */
static void a_close_that_is_read_has_the_weights_that_were_told(void **state)
{
	(void)state;
	struct world w = {0};
	prng_seed(&w.random, 1);
	fixture_open(&w.f, &options, 1);
	create_table(&w, 0);
	for (uint32_t i = 1; i <= 3; i++) {
		join(&w, i);
		w.unit[i] = fixture_lease(&w.f, &w.worker[i], 1);
		step(&w, i, false, true);
	}
	for (uint32_t n = 0; n < 300; n++) {
		for (uint32_t i = 1; i <= 3; i++)
			step(&w, i, true, true);
		restore_from_snapshot(&w);
		assert_equal_ledgers(w.f.ledger, w.restored.ledger);
	}
	assert_true(fixture_status(&w.f).steps >= 300);
	fixture_close(&w.f);
	fixture_close(&w.restored);
}

static void renewals_are_not_logged(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	ledger_record_changes(f.ledger);
	struct joined w = fixture_join(&f, "worker", WEIR__V1__ROLE__TRAINER, 7, UNITS);
	struct leased u = fixture_lease(&f, &w, 1);
	assert_int_equal(fixture_progress(&f, &w, &u, 3), WEIR_OK);
	struct message *m;
	assert_int_equal(ledger_export_changes(f.ledger, &m, NULL), WEIR_OK);
	assert_non_null(m);
	message_release(m);
	f.now_ms += 500;
	assert_int_equal(fixture_progress(&f, &w, &u, 3), WEIR_OK);
	ledger_tick(f.ledger);
	assert_int_equal(ledger_export_changes(f.ledger, &m, NULL), WEIR_OK);
	assert_null(m);
	fixture_close(&f);
}

static void after_recovery_everybody_has_a_whole_term(void **state)
{
	(void)state;
	struct fixture f, restored;
	fixture_open(&f, &options, 1);
	struct joined w = fixture_join(&f, "worker", WEIR__V1__ROLE__TRAINER, 7, UNITS);
	struct leased u = fixture_lease(&f, &w, 1);
	struct message *m = fixture_export(f.ledger, 5);
	fixture_open(&restored, &options, 2);
	restored.now_ms = 100000;
	merge(restored.ledger, m);
	ledger_renew_all(restored.ledger);
	restored.now_ms += options.lease_ms;
	ledger_tick(restored.ledger);
	assert_int_equal(fixture_commit(&restored, &w, &u, 8), WEIR_OK);
	restored.now_ms += options.lease_ms + 1;
	ledger_tick(restored.ledger);
	assert_int_equal(fixture_progress(&restored, &w, NULL, 0), WEIR_E_STALE);
	message_release(m);
	fixture_close(&f);
	fixture_close(&restored);
}

static void a_state_that_cannot_be_is_refused(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	fixture_open(&f, &options, 1);
	struct joined w = fixture_join(&f, "worker", WEIR__V1__ROLE__TRAINER, 7, UNITS);
	(void)fixture_lease(&f, &w, 1);
	struct message *m = fixture_export(f.ledger, 5);
	fixture_close(&f);
	uint8_t *bytes = malloc(m->bytes);
	uint32_t refused = 0;
	for (size_t at = 0; at < m->bytes; at++)
		for (uint32_t bit = 0; bit < 8; bit++) {
			memcpy(bytes, m->spans[0].data, m->bytes);
			bytes[at] ^= (uint8_t)(1u << bit);
			fixture_open(&f, &options, 1);
			weir_status status = ledger_merge(f.ledger, bytes, m->bytes, NULL, &err);
			refused += status != WEIR_OK;
			if (status == WEIR_OK) { /* then the ledger must be usable */
				f.now_ms += 5000;
				ledger_tick(f.ledger);
			}
			fixture_close(&f);
		}
	assert_true(refused > 50);
	free(bytes);
	message_release(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_ledger_fed_with_the_changes_is_equal),
	    cmocka_unit_test(a_close_that_is_read_has_the_weights_that_were_told),
	    cmocka_unit_test(renewals_are_not_logged),
	    cmocka_unit_test(after_recovery_everybody_has_a_whole_term),
	    cmocka_unit_test(a_state_that_cannot_be_is_refused),
	};
	return cmocka_run_group_tests_name("ledger_state", tests, NULL, NULL);
}
