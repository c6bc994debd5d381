/* Rules for joining: a name has one live worker, an id is reused when nothing refers to it, a job
 * has one evaluator, and a peer cannot take all places. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/cmocka_check.h"

#include "common/base/limits.h"
#include "common/base/peer_identity.h"
#include "tests/unit/worker/client/ledger_fixture.h"

#define TRAINER   WEIR__V1__ROLE__TRAINER
#define EVALUATOR WEIR__V1__ROLE__EVALUATOR

static const struct ledger_options options = {.lease_ms = 4000, .passes = 2};

static struct joined join_as(struct fixture *f, const char *format, uint32_t n)
{
	char name[WEIR_NAME_BYTES_MAX];
	snprintf(name, sizeof name, format, n);
	return fixture_join(f, name, TRAINER, 1, 100);
}

/* --- Ids */

static void names_are_not_used_up(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	struct joined stays = join_as(&f, "stays-%u", 0);
	for (uint32_t i = 0; i < 3 * WEIR_WORKERS_MAX; i++) {
		struct joined w = join_as(&f, "pod-%u", i);
		assert_int_equal(w.status, WEIR_OK);
		assert_true(w.worker <= WEIR_WORKERS_GONE_KEPT + 2);
		assert_int_equal(fixture_leave(&f, &w, NULL), WEIR_OK);
	}
	assert_int_equal(fixture_status(&f).workers, WEIR_WORKERS_GONE_KEPT + 2);
	struct leased u = fixture_lease(&f, &stays, 0); /* a living worker keeps its id */
	assert_int_equal(fixture_commit(&f, &stays, &u, 1), WEIR_OK);
	fixture_close(&f);
}

static void all_places_may_be_taken_at_once(void **state)
{
	(void)state;
	struct fixture f;
	struct joined w[WEIR_WORKERS_MAX];
	fixture_open(&f, &options, 1);
	for (uint32_t i = 0; i < WEIR_WORKERS_MAX; i++)
		assert_int_equal((w[i] = join_as(&f, "w-%u", i)).status, WEIR_OK);
	struct joined more = join_as(&f, "more-%u", 0);
	assert_int_equal(more.status, WEIR_E_LIMIT);
	CHECK_CONTAINS(more.text, "worker more-0: 4096 workers are alive");
	assert_int_equal(fixture_leave(&f, &w[77], NULL), WEIR_OK);
	more = join_as(&f, "more-%u", 0);
	assert_int_equal(more.status, WEIR_OK);
	assert_int_equal(more.worker, 77);
	assert_int_equal(fixture_lease(&f, &w[77], 0).status, WEIR_E_STALE);
	fixture_close(&f);
}

/* A dead worker's commit does not count for the newcomer with its id. */
static void an_id_that_is_given_again_brings_nothing(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	struct joined first = join_as(&f, "first-%u", 0);
	struct leased u = fixture_lease(&f, &first, 0);
	assert_int_equal(fixture_leave(&f, &first, NULL), WEIR_OK);
	struct joined last = {0};
	for (uint32_t i = 0; i <= WEIR_WORKERS_GONE_KEPT + 1; i++) {
		last = join_as(&f, "pod-%u", i);
		if (last.worker == first.worker)
			break;
		f.now_ms++;
		assert_int_equal(fixture_leave(&f, &last, NULL), WEIR_OK);
	}
	assert_int_equal(last.worker, first.worker);
	assert_int_equal(fixture_commit(&f, &last, &u, 1), WEIR_E_STALE);
	assert_int_equal(fixture_commit(&f, &first, &u, 1), WEIR_E_STALE);
	struct leased again = fixture_lease(&f, &last, 0);
	assert_int_equal(again.unit, u.unit);
	assert_int_equal(again.attempt, 2);
	fixture_close(&f);
}

static void the_open_step_keeps_its_members_places(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	assert_int_equal(fixture_table(&f, "dense", (weir_mode){.kind = WEIR_SYNC}), WEIR_OK);
	struct joined slow = join_as(&f, "slow-%u", 0), done = join_as(&f, "done-%u", 0);
	struct leased a = fixture_lease(&f, &slow, 0), b = fixture_lease(&f, &done, 0);
	fixture_step(&f, &slow, &a, 0, true); /* alone in the first step */
	fixture_step(&f, &done, &b, 0, true);
	fixture_step(&f, &slow, &a, 1, true); /* both in the second step */
	fixture_step(&f, &done, &b, 0, false);
	/* its finished batch counts without it */
	assert_int_equal(fixture_leave(&f, &done, NULL), WEIR_OK);
	for (uint32_t i = 0; i < 2 * WEIR_WORKERS_GONE_KEPT; i++) {
		struct joined w = join_as(&f, "pod-%u", i);
		assert_int_not_equal(w.worker, done.worker);
		assert_int_equal(fixture_leave(&f, &w, NULL), WEIR_OK);
	}
	const uint64_t closed = fixture_status(&f).steps;
	fixture_step(&f, &slow, &a, 1, false);
	assert_int_equal(fixture_status(&f).steps, closed + 1);
	fixture_close(&f);
}

/* --- Names */

static struct joined newcomer(struct fixture *f, uint64_t client, uint32_t pid)
{
	f->newcomer.client = client;
	f->newcomer.pid = pid;
	return join_as(f, "w-%u", 0);
}

static void a_name_is_one_live_workers(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	struct joined holder = newcomer(&f, 7, 100);
	f.now_ms += 900;
	struct joined second = newcomer(&f, 8, 200);
	assert_int_equal(second.status, WEIR_E_EXISTS);
	assert_string_equal(
	    second.text,
	    "worker w-0 (pid 200 on here): a live worker has this name, pid 100 on here: give each worker a name of its own");
	assert_int_equal(second.holder_pid, 100);
	assert_int_equal(second.holder_heard, 0);
	assert_int_not_equal(fixture_lease(&f, &holder, 0).status, WEIR_E_STALE);
	assert_int_equal(newcomer(&f, 8, 200).holder_heard, 1);
	f.now_ms += WEIR_NAME_SILENT_MS - 1;
	assert_int_equal(newcomer(&f, 8, 200).status, WEIR_E_EXISTS);
	f.now_ms += 1;
	assert_int_equal(newcomer(&f, 8, 200).status, WEIR_OK);
	assert_int_equal(fixture_lease(&f, &holder, 0).status, WEIR_E_STALE);
	fixture_close(&f);
}

static void a_client_that_joins_again_takes_its_own_place(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	struct joined first = newcomer(&f, 7, 100), again = newcomer(&f, 7, 100);
	assert_int_equal(again.status, WEIR_OK);
	assert_int_equal(again.worker, first.worker);
	assert_int_not_equal(again.incarnation, first.incarnation);
	fixture_close(&f);
}

static void a_process_that_is_gone_is_replaced_at_once(void **state)
{
	(void)state;
	static const struct ledger_peer here = {.address = "10.0.0.1", .name = ""}, elsewhere = {.address = "10.0.0.2", .name = ""};
	struct fixture f;
	fixture_open(&f, &options, 1);
	f.newcomer.pid_namespace = 55;
	f.newcomer.peer = &here;
	assert_int_equal(newcomer(&f, 7, 100).status, WEIR_OK);
	f.newcomer.gone_pid = 101; /* a different process */
	assert_int_equal(newcomer(&f, 8, 200).status, WEIR_E_EXISTS);
	f.newcomer.gone_pid = 100;
	f.newcomer.pid_namespace = 56; /* in another pid namespace, 100 is another process */
	assert_int_equal(newcomer(&f, 8, 200).status, WEIR_E_EXISTS);
	f.newcomer.pid_namespace = 55;
	f.newcomer.peer = &elsewhere; /* the report comes from another machine */
	assert_int_equal(newcomer(&f, 8, 200).status, WEIR_E_EXISTS);
	f.newcomer.peer = &here;
	assert_int_equal(newcomer(&f, 8, 200).status, WEIR_OK);
	fixture_close(&f);
}

/* A refused join leaves nothing, not even a first trainer's dataset. */
static void a_refusal_changes_nothing(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	f.newcomer.client = 7;
	assert_int_equal(fixture_join(&f, "w-0", WEIR__V1__ROLE__OBSERVER, 0, 0).status, WEIR_OK);
	f.newcomer.client = 8;
	assert_int_equal(fixture_join(&f, "w-0", TRAINER, 2, 50).status, WEIR_E_EXISTS);
	assert_int_equal(fixture_join(&f, "w-1", TRAINER, 1, 100).status, WEIR_OK);
	fixture_close(&f);
}

/* --- Certificates */

static void a_certificates_name_binds_where_it_is_no_role(void **state)
{
	(void)state;
	static const struct ledger_peer shared = {.address = "", .role = ROLE_WORKER, .name = "worker"},
	                                own = {.address = "", .role = ROLE_WORKER, .name = "w-0"},
	                                evaluator = {.address = "", .role = ROLE_EVALUATOR, .name = "evaluator"};
	struct fixture f;
	fixture_open(&f, &options, 1);
	f.newcomer.peer = &own;
	assert_int_equal(join_as(&f, "w-%u", 0).status, WEIR_OK);
	struct joined other = join_as(&f, "w-%u", 1);
	assert_int_equal(other.status, WEIR_E_DENIED);
	CHECK_CONTAINS(other.text, "worker w-1: its certificate is that of w-0");
	f.newcomer.peer = &shared;
	assert_int_equal(join_as(&f, "w-%u", 1).status, WEIR_OK);
	f.newcomer.peer = &evaluator;
	other = join_as(&f, "w-%u", 2);
	assert_int_equal(other.status, WEIR_E_DENIED);
	CHECK_CONTAINS(other.text, "its certificate is an evaluator's");
	fixture_close(&f);
}

/* --- The evaluator */

static void a_job_has_one_evaluator(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &options, 1);
	struct joined e = fixture_join(&f, "e", EVALUATOR, 0, 0);
	assert_int_equal(e.status, WEIR_OK);
	struct joined second = fixture_join(&f, "second", EVALUATOR, 0, 0);
	assert_int_equal(second.status, WEIR_E_EXISTS);
	CHECK_CONTAINS(second.text, "the job has a live evaluator, e (pid 0 on here)");
	assert_int_equal(fixture_leave(&f, &e, NULL), WEIR_OK);
	assert_int_equal(fixture_join(&f, "second", EVALUATOR, 0, 0).status, WEIR_OK);
	f.now_ms += options.lease_ms; /* silent longer than a name is kept, but its lease is live */
	ledger_tick(f.ledger);
	assert_int_equal(fixture_join(&f, "third", EVALUATOR, 0, 0).status, WEIR_E_EXISTS);
	f.now_ms++;
	ledger_tick(f.ledger);
	assert_int_equal(fixture_join(&f, "third", EVALUATOR, 0, 0).status, WEIR_OK);
	fixture_close(&f);
}

static void an_evaluators_certificate_goes_before_a_workers(void **state)
{
	(void)state;
	static const struct ledger_peer worker = {.address = "", .role = ROLE_WORKER, .name = "worker"},
	                                evaluator = {.address = "", .role = ROLE_EVALUATOR, .name = "evaluator"};
	struct fixture f;
	fixture_open(&f, &options, 1);
	f.newcomer.peer = &worker;
	struct joined old = fixture_join(&f, "old", EVALUATOR, 0, 0);
	assert_int_equal(old.status, WEIR_OK);
	f.newcomer.peer = &evaluator;
	struct joined e = fixture_join(&f, "e", EVALUATOR, 0, 0);
	assert_int_equal(e.status, WEIR_OK);
	assert_int_equal(fixture_lease(&f, &old, 0).status, WEIR_E_STALE);
	assert_int_equal(fixture_join(&f, "e2", EVALUATOR, 0, 0).status, WEIR_E_EXISTS);
	f.newcomer.peer = &worker;
	assert_int_equal(fixture_join(&f, "old", EVALUATOR, 0, 0).status, WEIR_E_EXISTS);
	fixture_close(&f);
}

static void a_verdict_is_of_a_pass_that_waits_for_it(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &(struct ledger_options){.lease_ms = 4000, .passes = 3, .gate = true}, 1);
	struct joined w = fixture_join(&f, "w", TRAINER, 1, 1), e = fixture_join(&f, "e", EVALUATOR, 0, 0);
	struct leased u = fixture_lease(&f, &w, 0);
	/* the pass is not complete */
	assert_int_equal(fixture_verdict(&f, &e, 0, 0.9, 0.1, true), WEIR_E_STATE);
	assert_int_equal(fixture_commit(&f, &w, &u, 1), WEIR_OK);
	assert_int_equal(fixture_verdict(&f, &w, 0, 0.9, 0.1, true), WEIR_E_DENIED);
	static const double wrong[][2] = {{1.01, 0.1}, {-0.1, 0.1}, {INFINITY, 0.1}, {0.9, -1}, {0.9, INFINITY}, {NAN, -INFINITY}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(fixture_verdict(&f, &e, 0, wrong[i][0], wrong[i][1], true), WEIR_E_INVALID);
	assert_int_equal(fixture_verdict(&f, &e, 0, 0.9, 0.1, false), WEIR_OK);
	u = fixture_lease(&f, &w, 0);
	assert_int_equal(u.pass, 1);
	/* a repeated verdict changes nothing */
	assert_int_equal(fixture_verdict(&f, &e, 0, 0.1, 9, true), WEIR_OK);
	assert_int_equal(fixture_lease(&f, &w, 0).state, WEIR__V1__LEASE_STATE__WAIT);
	assert_int_equal(fixture_commit(&f, &w, &u, 1), WEIR_OK);
	/* an evaluation without validation rows */
	assert_int_equal(fixture_verdict(&f, &e, 1, NAN, NAN, false), WEIR_OK);
	assert_int_equal(fixture_lease(&f, &w, 0).pass, 2);
	fixture_close(&f);
}

/* --- Peers */

static void one_peer_does_not_take_all_places(void **state)
{
	(void)state;
	struct fixture f;
	struct ledger_peer one = {.address = "10.0.0.1", .connection = 1, .name = ""}, other = {.address = "10.0.0.2", .name = ""};
	fixture_open(&f, &options, 1);
	f.newcomer.peer = &one;
	uint32_t taken = 0;
	struct joined w = {0};
	for (; taken < WEIR_WORKERS_PER_CONNECTION_MAX; taken++)
		assert_int_equal(join_as(&f, "w-%u", taken).status, WEIR_OK);
	w = join_as(&f, "w-%u", taken);
	assert_int_equal(w.status, WEIR_E_LIMIT);
	CHECK_CONTAINS(w.text, "over this connection");
	for (; taken < WEIR_WORKERS_PER_ADDRESS_MAX; taken++) {
		one.connection++;
		assert_int_equal(join_as(&f, "w-%u", taken).status, WEIR_OK);
	}
	one.connection++;
	w = join_as(&f, "w-%u", taken);
	assert_int_equal(w.status, WEIR_E_LIMIT);
	CHECK_CONTAINS(w.text, "from 10.0.0.1");
	f.newcomer.peer = &other;
	assert_int_equal(join_as(&f, "v-%u", 0).status, WEIR_OK);
	fixture_close(&f);
}

static void joins_from_one_address_have_a_pace(void **state)
{
	(void)state;
	struct fixture f;
	struct ledger_peer one = {.address = "10.0.0.1", .name = ""};
	fixture_open(&f, &options, 1);
	f.newcomer.peer = &one;
	for (uint32_t i = 0; i < WEIR_JOINS_BURST; i++) {
		struct joined w = join_as(&f, "pod-%u", i);
		assert_int_equal(w.status, WEIR_OK);
		assert_int_equal(fixture_leave(&f, &w, NULL), WEIR_OK);
	}
	struct joined w = join_as(&f, "pod-%u", WEIR_JOINS_BURST);
	assert_int_equal(w.status, WEIR_E_UNAVAILABLE); /* its client retries */
	CHECK_CONTAINS(w.text, "too many joins from 10.0.0.1");
	f.now_ms += 1000 / WEIR_JOINS_PER_S + 1;
	assert_int_equal(join_as(&f, "pod-%u", WEIR_JOINS_BURST).status, WEIR_OK);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_are_not_used_up),
	    cmocka_unit_test(all_places_may_be_taken_at_once),
	    cmocka_unit_test(an_id_that_is_given_again_brings_nothing),
	    cmocka_unit_test(the_open_step_keeps_its_members_places),
	    cmocka_unit_test(a_name_is_one_live_workers),
	    cmocka_unit_test(a_client_that_joins_again_takes_its_own_place),
	    cmocka_unit_test(a_process_that_is_gone_is_replaced_at_once),
	    cmocka_unit_test(a_refusal_changes_nothing),
	    cmocka_unit_test(a_certificates_name_binds_where_it_is_no_role),
	    cmocka_unit_test(a_job_has_one_evaluator),
	    cmocka_unit_test(an_evaluators_certificate_goes_before_a_workers),
	    cmocka_unit_test(a_verdict_is_of_a_pass_that_waits_for_it),
	    cmocka_unit_test(one_peer_does_not_take_all_places),
	    cmocka_unit_test(joins_from_one_address_have_a_pace),
	};
	return cmocka_run_group_tests_name("ledger_join", tests, NULL, NULL);
}
