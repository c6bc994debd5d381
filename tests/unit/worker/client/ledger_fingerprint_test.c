/* The job's fingerprint: the ledger keeps the first worker's, refuses different ones with the names
 * of the keys, and records the content of each data unit. */
#include <string.h>

#include "tests/cmocka_check.h"

#include "common/base/message.h"
#include "tests/unit/worker/client/ledger_fixture.h"

#define TRAINER   WEIR__V1__ROLE__TRAINER
#define EVALUATOR WEIR__V1__ROLE__EVALUATOR
#define OBSERVER  WEIR__V1__ROLE__OBSERVER
#define UNITS     4u

static const struct ledger_options options = {.lease_ms = 4000, .passes = 3};

static struct joined join(struct fixture *f, const char *name, Weir__V1__Role role, const char *fingerprint)
{
	f->fingerprint = fingerprint;
	return fixture_join(f, name, role, 1, UNITS);
}

static struct joined join_accepting(struct fixture *f, const char *name, const char *fingerprint, const char *key)
{
	f->accept = &key;
	f->accept_count = 1;
	const struct joined w = join(f, name, TRAINER, fingerprint);
	f->accept_count = 0;
	return w;
}

static void a_difference_is_refused_by_name(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	assert_int_equal(join(&f, "a", TRAINER, "data.seed=1\ntrain.clip_norm=0.5\n").status, WEIR_OK);
	const struct joined b = join(&f, "b", TRAINER, "data.seed=2\ntrain.clip_norm=0\n");
	assert_int_equal(b.status, WEIR_E_INVALID);
	CHECK_CONTAINS(b.text, "worker b");
	CHECK_CONTAINS(b.text, "data.seed was '1' and is '2'");
	CHECK_CONTAINS(b.text, "train.clip_norm was '0.5' and is '0'");
	assert_int_equal(join(&f, "b", TRAINER, "data.seed=1\ntrain.clip_norm=0.5\n").status, WEIR_OK);
	assert_int_equal(join(&f, "e", EVALUATOR, "data.seed=3\n").status, WEIR_E_INVALID);
	assert_int_equal(join(&f, "o", OBSERVER, "data.seed=3\n").status, WEIR_E_INVALID);
	fixture_close(&f);
}

static void a_key_that_one_side_has_is_not_compared(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	assert_int_equal(join(&f, "none", TRAINER, NULL).status, WEIR_OK);
	/* an observer has no fingerprint */
	assert_int_equal(join(&f, "o", OBSERVER, "data.seed=9\n").status, WEIR_OK);
	assert_int_equal(join(&f, "e", EVALUATOR, "data.valid=v\n").status, WEIR_OK);
	assert_int_equal(join(&f, "a", TRAINER, "data.seed=1\n").status, WEIR_OK);
	CHECK_CONTAINS(join(&f, "b", TRAINER, "data.seed=1\ndata.valid=w\n").text, "data.valid was 'v' and is 'w'");
	assert_int_equal(join(&f, "none", TRAINER, NULL).status, WEIR_OK);
	fixture_close(&f);
}

static void an_accepted_fingerprint_is_the_job_s(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	assert_int_equal(join(&f, "a", TRAINER, "data.seed=1\ntrain.seed=1\n").status, WEIR_OK);
	CHECK_CONTAINS(join_accepting(&f, "b", "data.seed=2\ntrain.seed=2\n", "data.seed").text, "train.seed was '1' and is '2'");
	assert_int_equal(join_accepting(&f, "b", "data.seed=2\ntrain.seed=1\n", "data.seed").status, WEIR_OK);
	CHECK_CONTAINS(join(&f, "a", TRAINER, "data.seed=1\n").text, "data.seed was '2' and is '1'");
	assert_int_equal(join(&f, "c", TRAINER, "data.seed=2\n").status, WEIR_OK);
	fixture_close(&f);
}

static void a_false_fingerprint_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"data.seed", "data.seed=1", "=1\n", "a=1\nb\n", "\n"};
	struct fixture f;
	fixture_open(&f, &options, 1);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_CONTAINS(join(&f, "a", TRAINER, bad[i]).text, "fingerprint");
	fixture_close(&f);
}

/* --- Contents */

static void other_examples_are_refused(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	const struct joined a = join(&f, "a", TRAINER, "data.seed=1\n");
	struct leased u = fixture_lease(&f, &a, 0);
	assert_int_equal(u.content, 0);
	f.content = 77;
	assert_int_equal(fixture_progress(&f, &a, &u, 1), WEIR_OK);
	f.content = 78;
	assert_int_equal(fixture_progress(&f, &a, &u, 2), WEIR_E_INVALID);
	assert_int_equal(fixture_commit(&f, &a, &u, 2), WEIR_E_INVALID);
	f.content = 77;
	assert_int_equal(fixture_commit(&f, &a, &u, 2), WEIR_OK);
	for (uint32_t i = 1; i < UNITS; i++) { /* short units: the content comes with the commit */
		u = fixture_lease(&f, &a, 0);
		f.content = 100 + u.data_unit;
		assert_int_equal(fixture_commit(&f, &a, &u, 1), WEIR_OK);
	}
	for (uint32_t i = 0; i < UNITS; i++) { /* the next pass reports contents */
		u = fixture_lease(&f, &a, 0);
		assert_int_equal(u.pass, 1);
		assert_int_equal(u.content, u.data_unit ? 100 + u.data_unit : 77);
		f.content = u.content;
		assert_int_equal(fixture_commit(&f, &a, &u, 1), WEIR_OK);
	}
	fixture_close(&f);
}

static void take_over(struct fixture *from, struct fixture *to, bool all)
{
	struct message *m = NULL;
	weir_error err = {0};
	if (all)
		CHECK_OK(ledger_export_all(from->ledger, 1, &m, &err), err);
	else
		CHECK_OK(ledger_export_changes(from->ledger, &m, &err), err);
	if (m)
		CHECK_OK(ledger_merge(to->ledger, m->spans[0].data, m->bytes, NULL, &err), err);
	message_release(m);
}

/* The log and snapshots contain both. Accepting other data makes all contents unknown. */
static void it_is_in_the_log_and_in_snapshots(void **state)
{
	(void)state;
	struct fixture f, follower, restored;
	fixture_open(&f, &options, 1);
	fixture_open(&follower, &options, 2);
	fixture_open(&restored, &options, 3);
	ledger_record_changes(f.ledger);
	struct joined a = join(&f, "a", TRAINER, "data.train=x\n");
	take_over(&f, &follower, false);
	struct leased u = fixture_lease(&f, &a, 0);
	f.content = 77;
	assert_int_equal(fixture_progress(&f, &a, &u, 1), WEIR_OK);
	take_over(&f, &follower, false);
	take_over(&f, &restored, true);
	f.now_ms = follower.now_ms = restored.now_ms += 10000; /* every ledger ends its lease */
	struct fixture *all[] = {&f, &follower, &restored};
	for (int i = 0; i < 3; i++) {
		ledger_tick(all[i]->ledger);
		CHECK_CONTAINS(join(all[i], "b", TRAINER, "data.train=y\n").text, "data.train was 'x' and is 'y'");
		const struct joined b = join(all[i], "b", TRAINER, "data.train=x\n");
		assert_int_equal(b.status, WEIR_OK);
		assert_int_equal(fixture_lease(all[i], &b, 0).content, 77);
		assert_int_equal(fixture_leave(all[i], &b, NULL), WEIR_OK);
	}
	take_over(&f, &follower, true);
	a = join_accepting(&f, "c", "data.train=y\n", "data.train");
	assert_int_equal(a.status, WEIR_OK);
	take_over(&f, &follower, false);
	assert_int_equal(fixture_leave(&f, &a, NULL), WEIR_OK);
	take_over(&f, &follower, false);
	const struct joined d = join(&follower, "d", TRAINER, "data.train=y\n");
	assert_int_equal(d.status, WEIR_OK);
	assert_int_equal(fixture_lease(&follower, &d, 0).content, 0);
	fixture_close(&f);
	fixture_close(&follower);
	fixture_close(&restored);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_difference_is_refused_by_name),      cmocka_unit_test(a_key_that_one_side_has_is_not_compared),
	    cmocka_unit_test(an_accepted_fingerprint_is_the_job_s), cmocka_unit_test(a_false_fingerprint_is_refused),
	    cmocka_unit_test(other_examples_are_refused),           cmocka_unit_test(it_is_in_the_log_and_in_snapshots),
	};
	return cmocka_run_group_tests_name("ledger_fingerprint", tests, NULL, NULL);
}
