/* libweir's idle clock, on a fake clock: it runs while the worker holds a unit and waits for
 * nobody. */
#include "tests/cmocka_check.h"

#include <stddef.h>
#include <string.h>

#include "tests/manual_clock.h"
#include "worker/client/client.h"

enum { TICK_MS = 100 };

struct trainer {
	weir_client client;
	struct manual_clock clock;
	int64_t now_ms;
	struct held_unit unit;
	struct held_batch batches[8];
	struct held_batch *list[8];
	struct table table;
	struct link link;
	struct operation operation;
};

/* A trainer that holds a unit of eight batches. */
static struct trainer *begin(weir_role role)
{
	static struct trainer t;
	t = (struct trainer){.clock = manual_clock_ms(&t.now_ms), .now_ms = 5000};
	t.client.clock = &t.clock.base;
	t.client.options.role = role;
	pthread_mutex_init(&t.client.lock, NULL);
	for (uint32_t i = 0; i < 8; i++)
		t.list[i] = &t.batches[i];
	t.unit = (struct held_unit){.attempt = 1, .batches = 8, .batch = t.list};
	t.client.units = role == WEIR_TRAINER ? &t.unit : NULL;
	t.client.links[0] = &t.link;
	t.client.links_count = 1;
	t.client.activity.ticked_ms = t.now_ms;
	return &t;
}

static Weir__V1__Activity told(const struct trainer *t)
{
	Weir__V1__Activity a;
	activity_fill(&t->client, &a);
	return a;
}

/* The loop runs for `ms`. Returns the idle time. */
static uint64_t go_on(struct trainer *t, int64_t ms)
{
	for (int64_t until = t->now_ms + ms; t->now_ms < until;) {
		t->now_ms += TICK_MS;
		activity_tick(&t->client);
	}
	return told(t).idle_ms;
}

static void between_two_moves_the_stopwatch_runs(void **state)
{
	struct trainer *t = begin(WEIR_TRAINER);
	(void)state;
	assert_int_equal(go_on(t, 3000), 3000);
	activity_batch_begins(&t->client, &t->batches[0]);
	assert_int_equal(go_on(t, 100), 0);
	assert_int_equal(told(t).longest_ms, 3000);
	assert_int_equal(go_on(t, 1000), 1000);
	activity_batch_begins(&t->client, &t->batches[0]); /* a repetition is no progress */
	assert_int_equal(go_on(t, 1000), 2000);
	assert_int_equal(told(t).batches, 0);
	activity_batch_ends(&t->client);
	assert_int_equal(go_on(t, 100), 0);
	assert_int_equal(told(t).batches, 1);
	assert_int_equal(told(t).longest_ms, 3000);
	assert_int_equal(go_on(t, 70000), 70000);
	assert_int_equal(told(t).still_ms, 70000);
}

static void progress_of_batches_is_a_move_and_other_numbers_are_none(void **state)
{
	struct trainer *t = begin(WEIR_TRAINER);
	(void)state;
	(void)go_on(t, 3000);
	weir_progress(&t->client, &(weir_report){.loss_scale = 2, .device_bytes = 9});
	assert_int_equal(go_on(t, 1000), 4000);
	/* a step of a round, which pushes only at its end */
	weir_progress(&t->client, &(weir_report){.batches = 1, .rows = 64});
	assert_int_equal(go_on(t, 1000), 900);
}

static void a_worker_without_a_unit_is_not_idle(void **state)
{
	struct trainer *t = begin(WEIR_TRAINER);
	(void)state;
	t->client.units = NULL;
	assert_int_equal(go_on(t, 90000), 0);
	assert_int_equal(told(t).longest_ms, 0);
	t->client.leasing = true; /* a lease may have been granted that the program has not taken yet */
	assert_int_equal(go_on(t, 90000), 90000);
	t->client.leasing = false;
	assert_int_equal(go_on(t, 100), 0);
	assert_int_equal(told(t).longest_ms, 0);
}

/* A waiting trainer is not idle; its clock runs again when the wait ends. */
#define WAITS(t, begins, ends)                             \
	do {                                                   \
		const uint64_t before = go_on(t, 1000);            \
		const uint64_t still = told(t).still_ms;           \
		begins;                                            \
		assert_int_equal(go_on(t, 90000), before);         \
		assert_int_equal(told(t).still_ms, still + 90000); \
		ends;                                              \
		assert_int_equal(go_on(t, 1000), before + 1000);   \
	} while (0)

static void waiting_for_a_server_is_not_idle(void **state)
{
	struct trainer *t = begin(WEIR_TRAINER);
	static struct in_flight_frame push;
	struct request pull = {0};
	(void)state;
	/* the server is slow or dead: a failover, too few replicas in sync */
	WAITS(t, t->link.push.first = &push, t->link.push.first = NULL);
	/* parked at the server until a step is applied */
	WAITS(t, t->link.pull.first = &push, t->link.pull.first = NULL);
	/* no stream or no credit */
	WAITS(t, t->link.pull.queue_first = &pull, t->link.pull.queue_first = NULL);
	/* any other call, also to the ledger */
	WAITS(t, t->client.activity.calls++, t->client.activity.calls--);
}

static void waiting_for_the_ledger_is_not_idle(void **state)
{
	struct trainer *t = begin(WEIR_TRAINER);
	(void)state;
	struct message *report = message_copy("x", 1);
	/* the ledger is dead, or its disk is full */
	WAITS(t, t->client.unreported = report, t->client.unreported = NULL);
	message_release(report);
}

static void waiting_for_a_step_is_not_idle(void **state)
{
	struct trainer *t = begin(WEIR_TRAINER);
	(void)state;
	WAITS(t, t->client.steps.waiting = &t->operation, t->client.steps.waiting = NULL);
	WAITS(t, t->client.steps.leaving = true, t->client.steps.leaving = false);
	WAITS(t, t->client.steps.closes_in_flight = 1, t->client.steps.closes_in_flight = 0);
}

/* A pull of batch `wants` waits for clocks; the batches below `through` of those begun are done. */
static void wait_for_clocks(struct trainer *t, uint32_t bound, uint32_t wants, uint32_t through)
{
	memset(t->batches, 0, sizeof t->batches);
	t->table.spec.mode = (weir_mode){.kind = WEIR_SSP, .bound = bound};
	t->client.tables[0] = &t->table;
	t->client.clocks.begun = wants;
	for (uint32_t i = 0; i < wants; i++) {
		t->batches[i].clock = i + 1;
		t->batches[i].complete = i < through;
	}
	t->operation = (struct operation){.has_batch = true, .batch = {.batch = wants - 1, .attempt = 1}};
	t->client.clocks.waiting = &t->operation;
}

/* A worker waits for slower ones. The slowest waits for its own batch, so it is idle. */
static void waiting_for_slower_workers_is_not_idle_and_waiting_for_itself_is(void **state)
{
	static const struct {
		uint32_t bound, wants, through;
		bool others;
	} cases[] = {{0, 1, 0, true}, {0, 2, 1, true},  {0, 2, 0, false}, {1, 2, 0, true},
	             {1, 3, 1, true}, {1, 3, 0, false}, {3, 8, 4, true},  {3, 8, 3, false}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct trainer *t = begin(WEIR_TRAINER);
		wait_for_clocks(t, cases[i].bound, cases[i].wants, cases[i].through);
		assert_int_equal(go_on(t, 90000), cases[i].others ? 0 : 90000);
		t->client.clocks.waiting = NULL;
		assert_int_equal(go_on(t, 1000), cases[i].others ? 1000 : 91000);
	}
}

static void time_in_which_the_process_did_not_run_is_not_idle(void **state)
{
	struct trainer *t = begin(WEIR_TRAINER);
	(void)state;
	(void)go_on(t, 1000);
	t->now_ms += 600000; /* SIGSTOP, or a suspended machine */
	activity_tick(&t->client);
	assert_int_equal(told(t).idle_ms, 1000);
	assert_int_equal(told(t).still_ms, 601000);
}

static void another_incarnation_begins_at_zero_and_remembers_its_longest_batch(void **state)
{
	struct trainer *t = begin(WEIR_TRAINER);
	(void)state;
	(void)go_on(t, 7000);
	activity_batch_ends(&t->client);
	(void)go_on(t, 100000);
	activity_begin(&t->client);
	assert_int_equal(told(t).idle_ms, 0);
	assert_int_equal(told(t).longest_ms, 7000);
	assert_int_equal(told(t).batches, 1);
}

static void an_evaluator_moves_by_reading(void **state)
{
	struct trainer *t = begin(WEIR_EVALUATOR);
	(void)state;
	assert_int_equal(go_on(t, 5000), 5000);
	activity_reads(&t->client);
	assert_int_equal(go_on(t, 1000), 900);
	activity_move(&t->client); /* no pass to evaluate */
	assert_int_equal(go_on(t, 1000), 900);
	assert_int_equal(told(t).longest_ms, 5000);
	t = begin(WEIR_TRAINER);
	(void)go_on(t, 5000);
	activity_reads(&t->client); /* a trainer's read is no progress */
	assert_int_equal(go_on(t, 1000), 6000);
}

static void the_state_of_its_data_is_reported(void **state)
{
	struct trainer *t = begin(WEIR_TRAINER);
	(void)state;
	assert_false(told(t).waits_for_data);
	weir_waits_for_data(&t->client, 1);
	assert_true(told(t).waits_for_data);
	assert_int_equal(go_on(t, 5000), 5000); /* its idle clock runs all the same */
	weir_waits_for_data(&t->client, 0);
	assert_false(told(t).waits_for_data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(between_two_moves_the_stopwatch_runs),
	    cmocka_unit_test(progress_of_batches_is_a_move_and_other_numbers_are_none),
	    cmocka_unit_test(a_worker_without_a_unit_is_not_idle),
	    cmocka_unit_test(waiting_for_a_server_is_not_idle),
	    cmocka_unit_test(waiting_for_the_ledger_is_not_idle),
	    cmocka_unit_test(waiting_for_a_step_is_not_idle),
	    cmocka_unit_test(waiting_for_slower_workers_is_not_idle_and_waiting_for_itself_is),
	    cmocka_unit_test(time_in_which_the_process_did_not_run_is_not_idle),
	    cmocka_unit_test(another_incarnation_begins_at_zero_and_remembers_its_longest_batch),
	    cmocka_unit_test(an_evaluator_moves_by_reading),
	    cmocka_unit_test(the_state_of_its_data_is_reported),
	};
	return cmocka_run_group_tests_name("activity", tests, NULL, NULL);
}
