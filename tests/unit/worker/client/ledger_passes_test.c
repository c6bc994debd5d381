/* The number of passes: of the job file, or of the first trainer. */
#include "tests/cmocka_check.h"

#include "common/base/limits.h"
#include "common/base/message.h"
#include "tests/unit/worker/client/ledger_fixture.h"

#define TRAINER WEIR__V1__ROLE__TRAINER
#define UNITS   2u

static const struct ledger_options open_options = {.lease_ms = 4000}, job_options = {.lease_ms = 4000, .passes = 3};

static struct joined join(struct fixture *f, const char *name, uint32_t passes)
{
	f->passes = passes;
	return fixture_join(f, name, TRAINER, 1, UNITS);
}

static void on_status(void *arg, const ProtobufCMessage *m)
{
	*(uint32_t *)arg = ((const Weir__V1__LedgerStatus *)m)->passes;
}

static uint32_t passes(struct ledger *l)
{
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	uint32_t out = 99;
	ledger_status(l, &q, on_status, &out);
	return out;
}

/* Trains until nothing is left; returns the number of units. */
static uint32_t finish(struct fixture *f, const struct joined *w)
{
	uint32_t units = 0;
	for (;; units++) {
		const struct leased u = fixture_lease(f, w, units + 1);
		assert_int_equal(u.status, WEIR_OK);
		if (u.state == WEIR__V1__LEASE_STATE__FINISHED)
			return units;
		assert_int_equal(u.state, WEIR__V1__LEASE_STATE__UNIT);
		assert_int_equal(fixture_commit(f, w, &u, 1), WEIR_OK);
		ledger_tick(f->ledger);
	}
}

static void the_first_trainer_gives_the_number(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &open_options, 1);
	assert_int_equal(fixture_join(&f, "o", WEIR__V1__ROLE__OBSERVER, 1, UNITS).status, WEIR_OK);
	assert_int_equal(passes(f.ledger), 0);
	const struct joined a = join(&f, "a", 4);
	assert_int_equal(a.status, WEIR_OK);
	assert_int_equal(passes(f.ledger), 4);
	assert_int_equal(join(&f, "b", 4).status, WEIR_OK);
	assert_int_equal(join(&f, "c", 0).status, WEIR_OK);
	const struct joined d = join(&f, "d", 5);
	assert_int_equal(d.status, WEIR_E_INVALID);
	CHECK_CONTAINS(d.text, "worker d wants 5 passes, and the job has 4 since its first trainer, a");
	assert_int_equal(finish(&f, &a), 4 * UNITS);
	fixture_close(&f);
}

static void without_any_number_it_is_1(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &open_options, 1);
	const struct joined a = join(&f, "a", 0);
	assert_int_equal(passes(f.ledger), 1);
	assert_int_equal(join(&f, "b", 2).status, WEIR_E_INVALID);
	assert_int_equal(finish(&f, &a), UNITS);
	fixture_close(&f);
}

static void the_job_files_number_holds(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &job_options, 1);
	const struct joined a = join(&f, "a", 2);
	assert_int_equal(a.status, WEIR_E_INVALID);
	CHECK_CONTAINS(a.text, "worker a wants 2 passes, and the job has 3 (train.passes)");
	assert_int_equal(join(&f, "a", 3).status, WEIR_OK);
	assert_int_equal(join(&f, "b", 0).status, WEIR_OK);
	assert_int_equal(join(&f, "c", WEIR_PASSES_MAX + 1).status, WEIR_E_INVALID);
	fixture_close(&f);
}

static void replay(struct fixture *f, struct ledger **out)
{
	weir_error err = {0};
	struct message *state = NULL;
	CHECK_OK(ledger_export_all(f->ledger, 1, &state, &err), err);
	CHECK_OK(ledger_merge(*out, state->spans[0].data, state->bytes, NULL, &err), err);
	message_release(state);
}

static void a_replayed_ledger_knows_the_number(void **state)
{
	(void)state;
	struct fixture f;
	struct ledger *again;
	weir_error err = {0};
	fixture_open(&f, &open_options, 1);
	(void)join(&f, "a", 4);
	CHECK_OK(ledger_create_like(&again, f.ledger, &err), err);
	assert_int_equal(passes(again), 0);
	replay(&f, &again);
	assert_int_equal(passes(again), 4);
	ledger_destroy(again);
	fixture_close(&f);
}

/* The servers start again without train.passes, after they had it, and the reverse. */
static void servers_that_start_otherwise_keep_the_job(void **state)
{
	(void)state;
	struct fixture f, other;
	fixture_open(&f, &job_options, 1);
	(void)join(&f, "a", 0);
	fixture_open(&other, &open_options, 1);
	replay(&f, &other.ledger);
	assert_int_equal(passes(other.ledger), 3);
	fixture_close(&other);
	fixture_close(&f);

	fixture_open(&f, &open_options, 1);
	const struct joined a = join(&f, "a", 1);
	assert_int_equal(finish(&f, &a), UNITS);
	fixture_open(&other, &job_options, 1);
	replay(&f, &other.ledger);
	assert_int_equal(passes(other.ledger), 3);
	const struct joined b = join(&other, "b", 0);
	ledger_tick(other.ledger);
	assert_int_equal(finish(&other, &b), 2 * UNITS); /* it goes on */
	fixture_close(&other);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_trainer_gives_the_number),
	    cmocka_unit_test(without_any_number_it_is_1),
	    cmocka_unit_test(the_job_files_number_holds),
	    cmocka_unit_test(a_replayed_ledger_knows_the_number),
	    cmocka_unit_test(servers_that_start_otherwise_keep_the_job),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
