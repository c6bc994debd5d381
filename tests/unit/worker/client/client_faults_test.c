/* Broken streams, dead servers, workers that die in mid-step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "tests/rounds.h"
#include "tests/unit/worker/client/integer_trainer.h"

/* Cuts random streams of a client every few milliseconds, CUTS times. Runs on the client's loop. */
enum { CUTS = 40 };
struct saboteur {
	weir_client *client;
	struct prng random;
	atomic_bool stop;
	atomic_uint cuts, running;
};

static void cut_one(void *arg)
{
	struct saboteur *s = arg;
	if (atomic_load(&s->stop) || atomic_load(&s->cuts) == CUTS) {
		atomic_store(&s->running, 0);
		return;
	}
	struct link *l = s->client->links[prng_below(&s->random, s->client->links_count)];
	struct lane *lane = prng_below(&s->random, 2) ? &l->push : &l->pull;
	if (lane->stream) {
		rpc_stream_cancel(lane->stream, WEIR_E_UNAVAILABLE, "cut by the test");
		atomic_fetch_add(&s->cuts, 1);
	}
	rpc_loop_after(s->client->loop, 1 + (uint32_t)prng_below(&s->random, 8), cut_one, s);
}

/* Three times the 9 s in which a dead server is detected, for a slow machine. */
enum { LOST_MS = 27000 };

static void broken_streams_lose_and_repeat_nothing(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= rounds(2); seed++) {
		struct cluster c;
		struct trainer t;
		weir_error err = {0};
		cluster_start(&c, &(struct cluster_options){.passes = 1, .executors = 2});
		trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
		struct saboteur s = {.client = t.client, .running = 1};
		prng_seed(&s.random, seed);
		rpc_loop_post(t.client->loop, cut_one, &s);
		assert_ok(train(&t, UINT32_MAX, &err), &err);
		atomic_store(&s.stop, true);
		while (atomic_load(&s.running))
			assert_true(weir_wait(t.client, 1, 1, &err) != WEIR_OK);
		assert_true(atomic_load(&s.cuts) > 0);
		assert_sums(&t);
		assert_audit(&c);
		trainer_close(&t);
		cluster_stop(&c);
	}
}

static void a_server_that_goes_away_ends_operations_and_is_named(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){0});
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	trainer_lease(&t, &u);
	assert_ok(run_batch(&t, &u, 0, &err), &err);
	server_destroy(c.servers[1]);
	int64_t before = clock_ms(clock_system());
	assert_int_equal(run_batch(&t, &u, 1, &err), WEIR_E_UNAVAILABLE);
	assert_in_range(clock_ms(clock_system()) - before, 0, LOST_MS);
	assert_non_null(strstr(err.text, "memory:1"));
	assert_non_null(strstr(err.text, "pulling batch 1 of unit"));
	before = clock_ms(clock_system());
	assert_int_equal(run_batch(&t, &u, 2, &err), WEIR_E_UNAVAILABLE); /* detected by now */
	assert_in_range(clock_ms(clock_system()) - before, 0, WEIR_DEAD_PEER_MS - 1);
	trainer_close(&t);
	c.servers_count = 1;
	cluster_stop(&c);
}

/* An evaluator between passes makes no requests; it detects a dead server all the same. */
static void a_client_that_only_waits_notices_a_lost_server(void **state)
{
	(void)state;
	struct cluster c;
	weir_client *evaluator;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){0});
	const weir_options options = {.ledger = "memory:0", .name = "evaluator", .role = WEIR_EVALUATOR};
	assert_ok(client_open(&evaluator, &options, c.rpc, &err), &err);
	server_destroy(c.servers[1]);
	c.servers_count = 1;
	int64_t before = clock_ms(clock_system());
	assert_int_equal(weir_unit_lease(evaluator, &u, PATIENCE_MS, &err), WEIR_E_UNAVAILABLE);
	assert_in_range(clock_ms(clock_system()) - before, 0, LOST_MS);
	assert_non_null(strstr(err.text, "memory:1"));
	weir_abandon(evaluator);
	cluster_stop(&c);
}

static void a_synchronous_worker_that_dies_does_not_stop_the_others(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer_thread t[3];
	cluster_start(&c, &(struct cluster_options){.lease_ms = 4000});
	threads_open(t, 3, &c, (weir_mode){WEIR_SYNC, .backup = 0});
	t[2].batches_max = 7;
	threads_train(t, 3);
	assert_audit(&c);
	assert_int_equal(cluster_audit(&c).dropped, 0);
	threads_close(t, 3);
	cluster_stop(&c);
}

static void a_gradient_that_is_not_finite_is_refused_before_it_is_sent(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	weir_ticket ticket;
	cluster_start(&c, &(struct cluster_options){0});
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	trainer_lease(&t, &u);
	weir_batch id = {.pass = u.pass, .unit = u.unit, .batch = 0, .attempt = u.attempt};
	for (uint32_t i = 0; i < DENSE; i++)
		t.gradient[i] = 0;
	t.gradient[DENSE - 1] = 0.0f / 0.0f;
	weir_push_item item = {.table = t.dense, .values = t.gradient};
	assert_int_equal(weir_push(t.client, &id, &item, 1, NULL, NULL, NULL, &ticket, &err), WEIR_E_NOT_FINITE);
	assert_non_null(strstr(err.text, "dense"));
	assert_int_equal(cluster_audit(&c).applied, 0);
	t.gradient[DENSE - 1] = 0;
	assert_ok(weir_push(t.client, &id, &item, 1, &(weir_push_options){.copy = 1}, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(t.client, ticket, PATIENCE_MS, &err), &err);
	trainer_close(&t);
	cluster_stop(&c);
}

static int count_row(void *arg, uint64_t key, const float *values, size_t elements)
{
	double *sum = arg;
	assert_int_equal(elements, WIDTH);
	for (size_t i = 0; i < elements; i++) {
		assert_float_equal(values[i], (float)(key * 10 + i), 0);
		sum[1] += values[i];
	}
	sum[0]++;
	return 0;
}

static void assigned_rows_come_back_from_pull_and_scan(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_ticket ticket;
	uint64_t keys[KEY_SPACE];
	static float values[KEY_SPACE * WIDTH], back[KEY_SPACE * WIDTH];
	cluster_start(&c, &(struct cluster_options){.servers = 3, .partitions = 7});
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	for (uint64_t k = 0; k < KEY_SPACE; k++) {
		keys[k] = k * 3;
		for (uint32_t i = 0; i < WIDTH; i++)
			values[k * WIDTH + i] = (float)(keys[k] * 10 + i);
	}
	assert_ok(weir_assign(t.client, t.embedding, keys, KEY_SPACE, values, &err), &err);
	weir_pull_item item = {.table = t.embedding, .keys = keys, .rows = KEY_SPACE, .values = back};
	assert_ok(weir_pull(t.client, NULL, &item, 1, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(t.client, ticket, PATIENCE_MS, &err), &err);
	assert_memory_equal(values, back, sizeof values);
	double sum[2] = {0};
	assert_ok(weir_scan(t.client, t.embedding, 0, count_row, sum, &err), &err);
	assert_int_equal((int)sum[0], KEY_SPACE);
	for (uint32_t i = 0; i < DENSE; i++)
		t.gradient[i] = (float)i;
	assert_ok(weir_assign(t.client, t.dense, NULL, 0, t.gradient, &err), &err);
	weir_pull_item dense = {.table = t.dense, .values = t.values};
	assert_ok(weir_pull(t.client, NULL, &dense, 1, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(t.client, ticket, PATIENCE_MS, &err), &err);
	assert_memory_equal(t.values, t.gradient, DENSE * sizeof(float));
	trainer_close(&t);
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(broken_streams_lose_and_repeat_nothing),
	    cmocka_unit_test(a_server_that_goes_away_ends_operations_and_is_named),
	    cmocka_unit_test(a_client_that_only_waits_notices_a_lost_server),
	    cmocka_unit_test(a_synchronous_worker_that_dies_does_not_stop_the_others),
	    cmocka_unit_test(a_gradient_that_is_not_finite_is_refused_before_it_is_sent),
	    cmocka_unit_test(assigned_rows_come_back_from_pull_and_scan),
	};
	return cmocka_run_group_tests_name("client_faults", tests, NULL, NULL);
}
