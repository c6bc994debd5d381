/* Keys in any order: each row goes to and comes from its place, with few bytes on the wire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "tests/unit/worker/client/integer_trainer.h"

enum { ROWS = 60000, ROW_WIDTH = 8 };

struct fixture {
	struct cluster cluster;
	weir_client *client;
	uint32_t table;
	uint64_t *keys;
	float *values;
};

static void setup(struct fixture *f, uint32_t partitions, uint32_t width)
{
	cluster_start(&f->cluster, &(struct cluster_options){.partitions = partitions});
	f->client = cluster_trainer(&f->cluster, "worker", UNITS);
	f->table = cluster_table(f->client, "rows", WEIR_EMBEDDING, width, (weir_mode){WEIR_ASYNC});
	f->keys = malloc(ROWS * sizeof *f->keys);
	f->values = calloc(ROWS, width * sizeof *f->values);
	assert_true(f->keys && f->values);
}

static void teardown(struct fixture *f)
{
	weir_abandon(f->client);
	cluster_stop(&f->cluster);
	free(f->keys);
	free(f->values);
}

static void shuffle(struct prng *r, uint64_t *keys, size_t n)
{
	for (size_t i = n; i > 1; i--) {
		const size_t k = prng_below(r, i);
		const uint64_t key = keys[i - 1];
		keys[i - 1] = keys[k];
		keys[k] = key;
	}
}

static float value_of(uint64_t key, uint32_t element)
{
	return (float)(key % 100003) + (float)element;
}

static void pull(struct fixture *f, size_t rows)
{
	const weir_pull_item item = {.table = f->table, .keys = f->keys, .rows = rows, .values = f->values};
	weir_ticket ticket;
	weir_error err = {0};
	assert_ok(weir_pull(f->client, NULL, &item, 1, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(f->client, ticket, PATIENCE_MS, &err), &err);
}

/* 60,000 rows of 40 bytes, enough for several parts per partition. */
static void rows_keep_their_places(uint64_t gap)
{
	struct fixture f;
	struct prng r;
	weir_error err = {0};
	prng_seed(&r, gap);
	setup(&f, 2, ROW_WIDTH);
	for (uint64_t i = 0; i < ROWS; i++)
		f.keys[i] = i * gap;
	shuffle(&r, f.keys, ROWS);
	for (size_t i = 0; i < ROWS * ROW_WIDTH; i++)
		f.values[i] = value_of(f.keys[i / ROW_WIDTH], i % ROW_WIDTH);
	assert_ok(weir_assign(f.client, f.table, f.keys, ROWS, f.values, &err), &err);
	shuffle(&r, f.keys, ROWS);
	for (size_t i = 0; i < ROWS; i += 3)
		f.keys[i] = f.keys[prng_below(&r, ROWS)]; /* some keys occur several times */
	memset(f.values, 0, ROWS * ROW_WIDTH * sizeof *f.values);
	pull(&f, ROWS);
	for (size_t i = 0; i < ROWS * ROW_WIDTH; i++)
		if (f.values[i] != value_of(f.keys[i / ROW_WIDTH], i % ROW_WIDTH))
			fail_msg("row %zu, key %llu: %g", i / ROW_WIDTH, (unsigned long long)f.keys[i / ROW_WIDTH], f.values[i]);
	teardown(&f);
}

static void small_numbers_keep_their_places(void **state)
{
	(void)state;
	rows_keep_their_places(7);
}

static void large_numbers_keep_their_places(void **state)
{
	(void)state;
	rows_keep_their_places(UINT64_MAX / ROWS - 1);
}

/* About one of 16 keys, spread over the partitions: about 6 bits per key and 4 per value. */
static void a_key_costs_a_byte_or_so(void **state)
{
	(void)state;
	struct fixture f;
	struct prng r;
	weir_error err = {0};
	weir_stats before = {0}, after = {0};
	prng_seed(&r, 1);
	setup(&f, 16, 1);
	for (uint64_t i = 0; i < ROWS; i++)
		f.keys[i] = i;
	shuffle(&r, f.keys, ROWS);
	weir_get_stats(f.client, &before);
	assert_ok(weir_assign(f.client, f.table, f.keys, ROWS, f.values, &err), &err);
	weir_get_stats(f.client, &after);
	const double bytes = (double)(after.bytes_pushed - before.bytes_pushed) / ROWS;
	assert_true(bytes >= 4);
	if (bytes > 4.85)
		fail_msg("%.3f bytes of a row with a value of 4", bytes);
	teardown(&f);
}

/* A duplicate key would be two steps or one step with the sum, by how parts are cut. Nothing is
 * sent; the batch can still be pushed. */
static void a_key_that_is_there_twice_is_refused(void **state)
{
	(void)state;
	struct fixture f;
	weir_unit u;
	weir_ticket ticket;
	weir_error err = {0};
	setup(&f, 4, 2);
	f.keys[0] = 5, f.keys[1] = 1000000007, f.keys[2] = 3, f.keys[3] = 1000000007;
	f.values[2] = 7;
	const weir_push_item items[] = {{.table = f.table, .keys = f.keys, .rows = 4, .values = f.values}};
	assert_ok(weir_unit_lease(f.client, &u, PATIENCE_MS, &err), &err);
	assert_ok(weir_unit_begin(f.client, &u, 1, &err), &err);
	const weir_batch id = {.pass = u.pass, .unit = u.unit, .attempt = u.attempt};
	assert_int_equal(weir_push(f.client, &id, items, 1, NULL, NULL, NULL, &ticket, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "key 1000000007 is there twice, as rows 1 and 3"));
	assert_int_equal(weir_assign(f.client, f.table, f.keys, 4, f.values, &err), WEIR_E_INVALID);
	f.keys[3] = 9;
	assert_ok(weir_push(f.client, &id, items, 1, NULL, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(f.client, ticket, PATIENCE_MS, &err), &err);
	pull(&f, 4);
	assert_true(f.values[2] == 7 || f.values[2] == -7); /* once, at rate 1 */
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(small_numbers_keep_their_places),
	    cmocka_unit_test(large_numbers_keep_their_places),
	    cmocka_unit_test(a_key_costs_a_byte_or_so),
	    cmocka_unit_test(a_key_that_is_there_twice_is_refused),
	};
	return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
