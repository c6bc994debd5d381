/* Idle trainers with real servers and libweir lose their units. Workers that wait for a server or
 * for those trainers keep theirs. */
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/integer_batches.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/worker/client/cluster.h"

enum {
	UNITS = 6,
	BATCHES = 3,
	WIDTH = 4,
	KEYS = 64,
	LEASE_MS = 4000,
	TIMEOUT_MS = 1200,
	LONG_MS = 3 * TIMEOUT_MS,
	PATIENCE_MS = 60000
};

static void begin(struct cluster *c)
{
	cluster_start(c, &(struct cluster_options){.lease_ms = LEASE_MS, .progress_timeout_ms = TIMEOUT_MS});
}

static weir_unit leased(weir_client *w)
{
	weir_unit u;
	weir_error err = {0};
	CHECK_OK(weir_unit_lease(w, &u, PATIENCE_MS, &err), err);
	assert_int_equal(u.state, WEIR_UNIT_LEASED);
	return u;
}

static weir_unit begun(weir_client *w)
{
	const weir_unit u = leased(w);
	weir_error err = {0};
	CHECK_OK(weir_unit_begin(w, &u, BATCHES, &err), err);
	return u;
}

/* Rows in every partition. */
static const uint64_t *keys(void)
{
	static uint64_t all[KEYS];
	for (uint64_t i = 0; i < KEYS; i++)
		all[i] = i;
	return all;
}

static weir_status pull(weir_client *w, const weir_unit *u, uint32_t batch, uint32_t table, weir_ticket *ticket, weir_error *err)
{
	static float values[UNITS][KEYS * WIDTH]; /* two trainers may have pulls in flight at once */
	const weir_pull_item item = {.table = table, .keys = keys(), .rows = KEYS, .values = values[u->unit]};
	const weir_batch id = integer_batch_id(u, batch);
	assert_true(u->unit < UNITS);
	return weir_pull(w, &id, &item, 1, NULL, NULL, ticket, err);
}

static weir_status push(weir_client *w, const weir_unit *u, uint32_t batch, uint32_t table, weir_ticket *ticket, weir_error *err)
{
	static const float ones[KEYS * WIDTH];
	const weir_push_item item = {.table = table, .keys = keys(), .rows = KEYS, .values = ones};
	const weir_batch id = integer_batch_id(u, batch);
	return weir_push(w, &id, &item, 1, NULL, NULL, NULL, ticket, err);
}

/* ticket: set by the `started` call. */
static void done(weir_client *w, weir_status started, const weir_ticket *ticket, weir_error *err)
{
	CHECK_OK(started, *err);
	CHECK_OK(weir_wait(w, *ticket, PATIENCE_MS, err), *err);
}

static void work_off(weir_client *w, uint32_t table)
{
	for (;;) {
		weir_unit u;
		weir_ticket ticket;
		weir_error err = {0};
		CHECK_OK(weir_unit_lease(w, &u, PATIENCE_MS, &err), err);
		if (u.state == WEIR_UNIT_FINISHED)
			return;
		CHECK_OK(weir_unit_begin(w, &u, BATCHES, &err), err);
		for (uint32_t b = u.watermark; b < BATCHES; b++)
			done(w, push(w, &u, b, table, &ticket, &err), &ticket, &err);
		CHECK_OK(weir_unit_commit(w, &u, &err), err);
	}
}

/* A program leases units and begins none: they go to others, although libweir renews the lease. */
static void a_hoard_of_units_goes_to_others(void **state)
{
	struct cluster c;
	weir_error err = {0};
	(void)state;
	begin(&c);
	weir_client *hoarder = cluster_trainer(&c, "hoarder", UNITS), *other = cluster_trainer(&c, "other", UNITS);
	const uint32_t table = cluster_table(other, "rows", WEIR_EMBEDDING, WIDTH, (weir_mode){WEIR_ASYNC});
	weir_unit first = leased(hoarder);
	for (uint32_t i = 1; i < WEIR_UNITS_HELD_MAX; i++)
		(void)leased(hoarder);
	work_off(other, table);
	const struct audit a = cluster_audit(&c);
	assert_true(a.finished && a.workers_stalled == 1 && a.workers_lost == 1 && a.leases_expired == WEIR_UNITS_HELD_MAX);
	assert_int_equal(a.applied, a.expected);
	/* its library may not know of the loss yet */
	(void)weir_unit_begin(hoarder, &first, BATCHES, NULL);
	assert_int_equal(weir_unit_commit(hoarder, &first, &err), WEIR_E_STALE);
	CHECK_OK(weir_rejoin(hoarder, &err), err);
	CHECK_OK(weir_close(hoarder, &err), err);
	CHECK_OK(weir_close(other, &err), err);
	cluster_stop(&c);
}

/* An executor hangs: pushes and pulls wait longer than a worker may be idle. */
static void waiting_for_a_server_is_not_idle(void **state)
{
	struct cluster c;
	struct held_loop held;
	weir_ticket pulled, pushed;
	weir_error err = {0};
	(void)state;
	begin(&c);
	weir_client *w = cluster_trainer(&c, "worker", UNITS);
	const uint32_t table = cluster_table(w, "rows", WEIR_EMBEDDING, WIDTH, (weir_mode){WEIR_ASYNC});
	const weir_unit u = begun(w);
	done(w, push(w, &u, 0, table, &pushed, &err), &pushed, &err);
	held_loop_hold(&held, c.servers[1]->executors[0].loop);
	CHECK_OK(pull(w, &u, 1, table, &pulled, &err), err);
	CHECK_OK(push(w, &u, 1, table, &pushed, &err), err);
	assert_int_equal(weir_wait(w, pulled, LONG_MS, &err), WEIR_E_TIMEOUT);
	held_loop_release(&held);
	CHECK_OK(weir_wait(w, pulled, PATIENCE_MS, &err), err);
	CHECK_OK(weir_wait(w, pushed, PATIENCE_MS, &err), err);
	const struct audit a = cluster_audit(&c);
	assert_int_equal(a.workers_stalled, 0);
	assert_int_equal(a.workers_lost, 0);
	weir_abandon(w);
	cluster_stop(&c);
}

/* One of two workers stops after it has begun a batch that the other waits for. */
static void the_one_that_others_wait_for_is_idle(weir_mode mode)
{
	struct cluster c;
	weir_ticket ticket;
	weir_error err = {0};
	begin(&c);
	weir_client *a = cluster_trainer(&c, "a", UNITS), *b = cluster_trainer(&c, "b", UNITS);
	const uint32_t table = cluster_table(a, "rows", WEIR_EMBEDDING, WIDTH, mode);
	(void)cluster_table(b, "rows", WEIR_EMBEDDING, WIDTH, mode);
	const weir_unit ua = begun(a), ub = begun(b);
	done(b, pull(b, &ub, 0, table, &ticket, &err), &ticket, &err);
	/* within the bound; for steps, b alone is in the first one */
	for (uint32_t batch = 0; batch < 2; batch++) {
		done(a, pull(a, &ua, batch, table, &ticket, &err), &ticket, &err);
		done(a, push(a, &ua, batch, table, &ticket, &err), &ticket, &err);
		if (cluster_audit(&c).workers_stalled)
			break;
	}
	/* waits for b until the ledger declares b dead */
	done(a, pull(a, &ua, 2, table, &ticket, &err), &ticket, &err);
	const struct audit s = cluster_audit(&c);
	assert_int_equal(s.workers_stalled, 1);
	assert_int_equal(s.workers_lost, 1);
	assert_int_equal(weir_unit_commit(b, &ub, &err), WEIR_E_STALE);
	weir_abandon(b);
	weir_abandon(a);
	cluster_stop(&c);
}

static void waiting_for_a_step_is_not_idle(void **state)
{
	(void)state;
	the_one_that_others_wait_for_is_idle((weir_mode){.kind = WEIR_SYNC});
}

static void waiting_for_the_slowest_is_not_idle(void **state)
{
	(void)state;
	the_one_that_others_wait_for_is_idle((weir_mode){.kind = WEIR_SSP, .bound = 0});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_hoard_of_units_goes_to_others),
	    cmocka_unit_test(waiting_for_a_server_is_not_idle),
	    cmocka_unit_test(waiting_for_a_step_is_not_idle),
	    cmocka_unit_test(waiting_for_the_slowest_is_not_idle),
	};
	return cmocka_run_group_tests_name("idle_trainer", tests, NULL, NULL);
}
