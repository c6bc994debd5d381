/* Three trainers of a job meant for one take steps three times as long: the ledger's factor goes
 * from a trainer's push, or a step's close, to the rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/client/cluster.h"

enum { ELEMENTS = 8, PATIENCE_MS = 60000 };

struct trainer {
	weir_client *client;
	weir_unit unit;
	uint32_t table;
};

static void wait_for(weir_client *c, weir_ticket ticket)
{
	weir_error err = {0};
	if (weir_wait(c, ticket, PATIENCE_MS, &err) != WEIR_OK)
		fail_msg("%s", err.text);
}

/* A batch with gradients of 1. Returns the pulled value. */
static float batch(struct trainer *t, uint32_t number)
{
	const weir_batch id = {.pass = t->unit.pass, .unit = t->unit.unit, .batch = number, .attempt = t->unit.attempt};
	float values[ELEMENTS], gradient[ELEMENTS];
	weir_ticket ticket;
	for (uint32_t i = 0; i < ELEMENTS; i++)
		gradient[i] = 1;
	assert_int_equal(
	    weir_pull(t->client, &id, &(weir_pull_item){.table = t->table, .values = values}, 1, NULL, NULL, &ticket, NULL), WEIR_OK);
	wait_for(t->client, ticket);
	assert_int_equal(
	    weir_push(t->client, &id, &(weir_push_item){.table = t->table, .values = gradient}, 1, NULL, NULL, NULL, &ticket, NULL),
	    WEIR_OK);
	wait_for(t->client, ticket);
	return values[0];
}

static void run(weir_mode mode)
{
	struct cluster c;
	struct trainer t = {0};
	cluster_start(&c, &(struct cluster_options){.rate_rule = LEDGER_RATE_LINEAR, .workers = 1});
	weir_client *const others[] = {cluster_trainer(&c, "second", 2), cluster_trainer(&c, "third", 2)};
	t.client = cluster_trainer(&c, "first", 2);
	t.table = cluster_table(t.client, "dense", WEIR_DENSE, ELEMENTS, mode);
	assert_int_equal(weir_unit_lease(t.client, &t.unit, PATIENCE_MS, NULL), WEIR_OK);
	assert_int_equal(weir_unit_begin(t.client, &t.unit, 2, NULL), WEIR_OK);
	assert_true(batch(&t, 0) == 0);
	assert_true(batch(&t, 1) == -3);
	assert_int_equal(weir_unit_commit(t.client, &t.unit, NULL), WEIR_OK);

	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_close(others[i], NULL), WEIR_OK);
	assert_int_equal(weir_unit_lease(t.client, &t.unit, PATIENCE_MS, NULL), WEIR_OK);
	assert_int_equal(weir_unit_begin(t.client, &t.unit, 2, NULL), WEIR_OK);
	assert_true(batch(&t, 0) == -6);
	assert_true(batch(&t, 1) == -7); /* alone, as the job is meant to be */
	assert_int_equal(weir_unit_commit(t.client, &t.unit, NULL), WEIR_OK);
	assert_int_equal(weir_close(t.client, NULL), WEIR_OK);
	cluster_stop(&c);
}

static void pushes_are_scaled(void **state)
{
	(void)state;
	run((weir_mode){.kind = WEIR_ASYNC});
}

static void steps_are_scaled(void **state)
{
	(void)state;
	run((weir_mode){.kind = WEIR_SYNC});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pushes_are_scaled),
	    cmocka_unit_test(steps_are_scaled),
	};
	return cmocka_run_group_tests_name("rate_scale", tests, NULL, NULL);
}
