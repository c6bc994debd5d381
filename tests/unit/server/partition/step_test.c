/* Synchronous steps: parts that wait, closes, dropped batches, parked pulls. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "tests/unit/server/partition/partition_fixture.h"

static const struct fixture_options sgd = {.optimizer = WEIR_OPT_SGD};

static weir_status push_sync(struct fixture *f, uint32_t batch, uint64_t key, float v, uint64_t step)
{
	struct one_row x;
	struct rows rows = one_row(&x, SYNC_ROWS, key, v);
	struct record r = push_record(1, 1, batch, 0, step);
	return fixture_push(f, &r, &rows, 1);
}

static void a_step_applies_the_mean_once_closed(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_sync(&f, 0, 10, 1, 1), WEIR_OK);
	assert_int_equal(push_sync(&f, 1, 10, 4, 1), WEIR_OK);
	assert_int_equal(push_sync(&f, 2, 20, 8, 1), WEIR_OK);
	assert_int_equal(push_sync(&f, 1, 10, 4, 1), WEIR_E_DUPLICATE); /* the part waits */
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == 0);
	assert_int_equal(partition_get_counters(f.p)->parts_applied, 0);
	assert_int_equal(fixture_seal(&f, 1, 1, 2), WEIR_OK);
	/* Waiting parts count as present. */
	assert_true(f.bitmap[0] == 1 && f.bitmap[1] == 1 && f.bitmap[2] == 1);
	const uint32_t ids[3][3] = {{1, 1, 1}, {1, 1, 0}, {1, 1, 2}};
	assert_int_equal(fixture_close_step(&f, 1, ids, 3, 0), WEIR_OK);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == -(5.0f * (1.0f / 3)));
	assert_true(fixture_row(&f, SYNC_ROWS, 20) == -(8.0f * (1.0f / 3)));
	assert_int_equal(partition_get_counters(f.p)->parts_applied, 3);
	assert_int_equal(partition_get_counters(f.p)->fingerprint,
	                 frame_identity_hash(1, 1, 0, 0) + frame_identity_hash(1, 1, 1, 0) + frame_identity_hash(1, 1, 2, 0));
	fixture_close(&f);
}

/* The close carries the factor. */
static void a_step_may_scale_its_rates(void **state)
{
	(void)state;
	const float twice = 2;
	const uint32_t ids[1][3] = {{1, 1, 0}};
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_sync(&f, 0, 10, 3, 1), WEIR_OK);
	struct built b = records_build_close(1, ids, 1, 0);
	b.record.close.rate_scale = UINT64_MAX;
	assert_int_equal(fixture_submit(&f, &b), WEIR_E_INVALID);
	b.record.close.rate_scale = 0;
	memcpy(&b.record.close.rate_scale, &twice, sizeof twice);
	assert_int_equal(fixture_submit(&f, &b), WEIR_OK);
	records_free(&b);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == -6);
	fixture_close(&f);
}

static weir_status close_weighed(struct fixture *f, uint64_t step, const uint32_t (*ids)[3], const float *weights,
                                 uint32_t included, uint32_t dropped)
{
	struct built b = records_build_weighed(step, ids, weights, included, dropped);
	const weir_status status = fixture_submit(f, &b);
	records_free(&b);
	return status;
}

/* Batches that counted 1 and 25 tokens: the mean is over the 26 tokens, also for a row that only
 * one batch has. Batches that count 0, and dropped ones, have no weight. */
static void the_mean_is_weighed_by_what_batches_counted(void **state)
{
	(void)state;
	const uint32_t ids[4][3] = {{1, 1, 0}, {1, 1, 1}, {1, 1, 2}, {1, 1, 3}};
	const float weights[3] = {3 * 1 / 26.0f, 3 * 25 / 26.0f, 0}, wrong[3] = {3, 0, 3.5f}, nan[3] = {1, 1, NAN};
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_sync(&f, 0, 10, 26, 1), WEIR_OK);
	assert_int_equal(push_sync(&f, 1, 10, -52, 1), WEIR_OK);
	assert_int_equal(push_sync(&f, 2, 10, 1000, 1), WEIR_OK);
	assert_int_equal(push_sync(&f, 3, 10, 1000, 1), WEIR_OK);
	assert_int_equal(close_weighed(&f, 1, ids, wrong, 3, 1), WEIR_E_INVALID);
	assert_int_equal(close_weighed(&f, 1, ids, nan, 3, 1), WEIR_E_INVALID);
	assert_int_equal(close_weighed(&f, 1, ids, weights, 3, 1), WEIR_OK);
	assert_float_equal(fixture_row(&f, SYNC_ROWS, 10), -(26 - 25 * 52) / 26.0, 1e-5);
	assert_int_equal(partition_get_counters(f.p)->parts_applied, 3);
	assert_int_equal(partition_get_counters(f.p)->parts_dropped, 1);
	fixture_close(&f);
}

/* A step also advances partitions without rows in it: such a row keeps its value, whatever the
 * step's number. */
static void a_step_is_one_of_every_synchronous_table(void **state)
{
	(void)state;
	const uint32_t ids[1][3] = {{1, 1, 0}}, more[1][3] = {{1, 1, 1}};
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_sync(&f, 0, 10, 1, 1), WEIR_OK);
	assert_int_equal(fixture_close_step(&f, 1, ids, 1, 0), WEIR_OK);
	/* Their rows are in other partitions. */
	assert_int_equal(fixture_close_step(&f, 2, more, 1, 0), WEIR_OK);
	assert_int_equal(partition_table_clock(f.p, SYNC_ROWS).steps, 2);
	assert_int_equal(partition_table_clock(f.p, SYNC_DENSE).steps, 2);
	assert_int_equal(partition_table_clock(f.p, ASYNC_ROWS).steps, 0);
	fixture_close(&f);
}

static void closes_come_in_order_and_count_once(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	const uint32_t ids[1][3] = {{1, 1, 0}};
	assert_int_equal(push_sync(&f, 0, 10, 1, 1), WEIR_OK);
	assert_int_equal(fixture_close_step(&f, 2, ids, 1, 0), WEIR_E_STATE);
	assert_int_equal(fixture_close_step(&f, 1, ids, 1, 0), WEIR_OK);
	uint64_t applied = partition_applied(f.p);
	assert_int_equal(fixture_close_step(&f, 1, ids, 1, 0), WEIR_OK);
	assert_int_equal(partition_applied(f.p), applied);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == -1);
	assert_int_equal(fixture_close_step(&f, 2, ids, 0, 0), WEIR_OK); /* an empty step */
	assert_int_equal(partition_steps_closed(f.p), 2);
	assert_int_equal(push_sync(&f, 0, 10, 1, 1), WEIR_E_DUPLICATE);
	fixture_close(&f);
}

static void a_dropped_batch_is_done_and_changes_nothing(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_sync(&f, 0, 10, 1, 1), WEIR_OK);
	assert_int_equal(push_sync(&f, 1, 10, 100, 1), WEIR_OK); /* dropped while it waits */
	const uint32_t ids[3][3] = {{1, 1, 0}, {1, 1, 1}, {1, 1, 2}};
	assert_int_equal(fixture_close_step(&f, 1, ids, 1, 2), WEIR_OK);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == -1);
	/* Dropped before it came: logged and counted. */
	assert_int_equal(push_sync(&f, 2, 10, 100, 1), WEIR_E_DROPPED);
	assert_int_equal(push_sync(&f, 2, 10, 100, 1), WEIR_E_DROPPED); /* a repetition: only a reply */
	assert_int_equal(push_sync(&f, 1, 10, 100, 1), WEIR_E_DROPPED);
	const struct partition_counters *c = partition_get_counters(f.p);
	assert_int_equal(c->parts_applied, 1);
	assert_int_equal(c->parts_dropped, 2);
	assert_int_equal(c->dropped_fingerprint, frame_identity_hash(1, 1, 1, 0) + frame_identity_hash(1, 1, 2, 0));
	assert_int_equal(c->parts_double, 0);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == -1);
	fixture_close(&f);
}

/* A batch has one step. A later part, from another attempt that computed what the first had
 * refused, belongs to no step, and must not wait forever. */
static void a_part_that_comes_after_its_step_is_dropped(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	const uint32_t ids[1][3] = {{1, 1, 0}};
	/* included, without parts here. */
	assert_int_equal(fixture_close_step(&f, 1, ids, 1, 0), WEIR_OK);
	assert_int_equal(push_sync(&f, 0, 10, 100, 2), WEIR_E_DROPPED);
	assert_int_equal(push_sync(&f, 0, 10, 100, 2), WEIR_E_DUPLICATE);
	assert_int_equal(fixture_close_step(&f, 2, ids, 1, 0), WEIR_OK);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == 0);
	assert_int_equal(partition_get_counters(f.p)->parts_applied, 0);
	assert_int_equal(partition_get_counters(f.p)->parts_dropped, 1);
	fixture_close(&f);
}

static void parts_that_wait_when_their_unit_closes_are_dropped(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	struct one_row x;
	for (uint32_t unit = 1; unit <= 3; unit++)
		for (uint32_t batch = 0; batch < 2; batch++) {
			struct rows rows = one_row(&x, SYNC_ROWS, 10, 1);
			struct record r = push_record(unit, 1, batch, 0, 1);
			assert_int_equal(fixture_push(&f, &r, &rows, 1), WEIR_OK);
		}
	assert_int_equal(fixture_retire_one(&f, 1, 2), WEIR_OK);
	assert_int_equal(partition_get_counters(f.p)->parts_dropped, 2);
	assert_int_equal(fixture_retire(&f, 1, 2), WEIR_OK);
	assert_int_equal(partition_get_counters(f.p)->parts_dropped, 4);
	const uint32_t ids[4][3] = {{1, 1, 0}, {1, 2, 0}, {1, 3, 0}, {1, 3, 1}};
	assert_int_equal(fixture_close_step(&f, 1, ids, 4, 0), WEIR_OK);
	assert_int_equal(partition_get_counters(f.p)->parts_applied, 2);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == -2.0f * 0.25f);
	fixture_close(&f);
}

/* Half of a mixed part would be applied at once, and half would wait: a checkpoint in between would
 * hold half a part. */
static void a_part_is_synchronous_or_not(void **state)
{
	(void)state;
	struct fixture f;
	struct one_row x, y;
	fixture_open(&f, &sgd);
	const struct record r = push_record(1, 1, 0, 0, 1);
	struct rows sections[2] = {one_row(&x, SYNC_ROWS, 10, 1), one_row(&y, ASYNC_ROWS, 10, 1)};
	assert_int_equal(fixture_push(&f, &r, sections, 2), WEIR_E_INVALID);
	struct rows swapped[2] = {sections[1], sections[0]};
	assert_int_equal(fixture_push(&f, &r, swapped, 2), WEIR_E_INVALID);
	assert_true(fixture_row(&f, ASYNC_ROWS, 10) == 0);
	assert_int_equal(partition_applied(f.p), 0);
	fixture_close(&f);
}

/* A batch that is leased again after its worker died may be in a later step than its first push
 * asked for. */
static void a_waiting_part_belongs_to_its_batch(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_sync(&f, 0, 10, 1, 1), WEIR_OK);
	assert_int_equal(push_sync(&f, 1, 10, 2, 1), WEIR_OK);
	const uint32_t first[1][3] = {{1, 1, 1}}, second[1][3] = {{1, 1, 0}};
	assert_int_equal(fixture_close_step(&f, 1, first, 1, 0), WEIR_OK);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == -2);
	assert_int_equal(fixture_close_step(&f, 2, second, 1, 0), WEIR_OK);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == -3);
	fixture_close(&f);
}

static void fill_dense(struct prng *r, float *out)
{
	for (uint32_t i = 0; i < DENSE_ELEMENTS; i++)
		out[i] = prng_normal(r);
}

static struct rows dense_rows(uint16_t table, const float *values)
{
	static const uint64_t chunk = 0;
	return (struct rows){
	    .table = table, .width = WEIR_CHUNK, .count = 1, .keys = &chunk, .values = values, .values_count = DENSE_ELEMENTS};
}

static void one_batch_a_step_equals_applying_it_directly(void **state)
{
	(void)state;
	const weir_optimizer_kind kinds[] = {WEIR_OPT_SGD, WEIR_OPT_ADAM, WEIR_OPT_LAMB, WEIR_OPT_MOMENTUM, WEIR_OPT_ADAGRAD};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		struct fixture f;
		fixture_open(&f, &(struct fixture_options){.optimizer = kinds[k]});
		struct prng r;
		prng_seed(&r, 5);
		float values[DENSE_ELEMENTS], a[DENSE_ELEMENTS], b[DENSE_ELEMENTS];
		for (uint32_t batch = 0; batch < 10; batch++) {
			fill_dense(&r, values);
			values[0] = -0.0f;
			struct rows sync = dense_rows(SYNC_DENSE, values), async = dense_rows(ASYNC_DENSE, values);
			struct record push = push_record(1, 1, batch, 0, batch + 1);
			assert_int_equal(fixture_push(&f, &push, &sync, 1), WEIR_OK);
			push.part = 1;
			assert_int_equal(fixture_push(&f, &push, &async, 1), WEIR_OK);
			const uint32_t ids[1][3] = {{1, 1, batch}};
			assert_int_equal(fixture_close_step(&f, batch + 1, ids, 1, 0), WEIR_OK);
		}
		store_read_chunk(store_table(partition_store(f.p), SYNC_DENSE), 0, a);
		store_read_chunk(store_table(partition_store(f.p), ASYNC_DENSE), 0, b);
		assert_memory_equal(a, b, sizeof a);
		fixture_close(&f);
	}
}

static void the_sum_follows_the_order_of_the_close(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	const float v[3] = {1e8f, 1, -1e8f};
	for (uint32_t batch = 0; batch < 3; batch++)
		assert_int_equal(push_sync(&f, batch, 10, v[batch], 1), WEIR_OK);
	const uint32_t ids[3][3] = {{1, 1, 0}, {1, 1, 2}, {1, 1, 1}};
	assert_int_equal(fixture_close_step(&f, 1, ids, 3, 0), WEIR_OK);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == -((1e8f - 1e8f + 1) * (1.0f / 3)));
	fixture_close(&f);
}

struct waiter {
	uint32_t calls;
	weir_status status;
};

static void on_ready(void *arg, weir_status status)
{
	struct waiter *w = arg;
	w->calls++;
	w->status = status;
}

static void a_parked_pull_wakes_with_its_step_or_its_deadline(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	struct waiter w[4] = {0};
	const struct record pull[] = {
	    {.pull.step_least = 0}, {.pull.step_least = 1}, {.pull.step_least = 2}, {.pull.step_least = 2}, {.pull.step_least = 9}};
	const struct cursor nothing = {0};
	assert_true(partition_pull_ready(f.p, &pull[0], &nothing, 1000, on_ready, NULL));
	const int64_t deadlines[4] = {1000, 1000, 5000, 9000};
	for (uint32_t i = 0; i < 4; i++)
		assert_false(partition_pull_ready(f.p, &pull[1 + i], &nothing, deadlines[i], on_ready, &w[i]));
	partition_tick(f.p, 999);
	assert_int_equal(w[0].calls, 0);
	assert_int_equal(fixture_close_step(&f, 1, NULL, 0, 0), WEIR_OK);
	assert_true(w[0].calls == 1 && w[0].status == WEIR_OK);
	partition_tick(f.p, 1000);
	assert_true(w[1].calls == 1 && w[1].status == WEIR_E_NOT_CURRENT);
	assert_int_equal(w[2].calls, 0);
	assert_int_equal(fixture_close_step(&f, 2, NULL, 0, 0), WEIR_OK);
	assert_true(w[2].calls == 1 && w[2].status == WEIR_OK);
	fixture_close(&f);
	/* A parked pull always ends. */
	assert_true(w[3].calls == 1 && w[3].status == WEIR_E_NOT_CURRENT);
}

static void a_refused_sync_push_does_not_wait(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, &sgd);
	assert_int_equal(push_sync(&f, 0, 10, NAN, 1), WEIR_E_NOT_FINITE);
	const uint32_t ids[1][3] = {{1, 1, 0}};
	assert_int_equal(fixture_close_step(&f, 1, ids, 1, 0), WEIR_OK);
	assert_true(fixture_row(&f, SYNC_ROWS, 10) == 0);
	/* Counted once, when it was refused. */
	assert_int_equal(partition_get_counters(f.p)->parts_applied, 1);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_step_applies_the_mean_once_closed),
	    cmocka_unit_test(a_step_may_scale_its_rates),
	    cmocka_unit_test(the_mean_is_weighed_by_what_batches_counted),
	    cmocka_unit_test(a_step_is_one_of_every_synchronous_table),
	    cmocka_unit_test(closes_come_in_order_and_count_once),
	    cmocka_unit_test(a_dropped_batch_is_done_and_changes_nothing),
	    cmocka_unit_test(a_part_that_comes_after_its_step_is_dropped),
	    cmocka_unit_test(parts_that_wait_when_their_unit_closes_are_dropped),
	    cmocka_unit_test(a_part_is_synchronous_or_not),
	    cmocka_unit_test(a_waiting_part_belongs_to_its_batch),
	    cmocka_unit_test(one_batch_a_step_equals_applying_it_directly),
	    cmocka_unit_test(the_sum_follows_the_order_of_the_close),
	    cmocka_unit_test(a_parked_pull_wakes_with_its_step_or_its_deadline),
	    cmocka_unit_test(a_refused_sync_push_does_not_wait),
	};
	return cmocka_run_group_tests_name("step", tests, NULL, NULL);
}
