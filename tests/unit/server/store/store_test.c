/* store.h against a reference, and its guarantees for initial rows, dense chunks and scans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "kernels/init.h"
#include "server/store/store.h"

#define WIDTH 5u
#define KEYS  3000u

static const weir_init_segment normal = {.elements = WIDTH, .kind = WEIR_INIT_NORMAL, .a = 0.5f};

static struct store_table *add_embedding(struct store *s, uint32_t id, weir_optimizer_kind kind)
{
	weir_table_spec spec = {.name = "rows",
	                        .kind = WEIR_EMBEDDING,
	                        .width = WIDTH,
	                        .optimizer = {.kind = kind, .lr = 1, .eps = 1e-8f, .initial = 0.25f, .beta1 = 0.9f, .beta2 = 0.99f},
	                        .segments_count = 1,
	                        .segments = &normal,
	                        .seed = 7};
	struct store_table *t;
	assert_int_equal(store_add_table(s, id, &spec, 0, 1, &t, NULL), WEIR_OK);
	return t;
}

static struct store_table *add_dense(struct store *s, uint32_t id, uint64_t elements, uint32_t partition, uint32_t partitions)
{
	const weir_init_segment uniform = {.elements = elements, .kind = WEIR_INIT_UNIFORM, .a = 0.1f};
	weir_table_spec spec = {.name = "dense",
	                        .kind = WEIR_DENSE,
	                        .elements = elements,
	                        .optimizer = {.kind = WEIR_OPT_MOMENTUM, .lr = 1},
	                        .segments_count = 1,
	                        .segments = &uniform,
	                        .seed = 9};
	struct store_table *t;
	assert_int_equal(store_add_table(s, id, &spec, partition, partitions, &t, NULL), WEIR_OK);
	return t;
}

/* Random upserts and gathers against a reference with every key's row. */
static void rows_equal_a_reference_map(void **state)
{
	(void)state;
	struct store *s = store_create(NULL);
	struct store_table *t = add_embedding(s, 3, WEIR_OPT_ADAGRAD);
	static float reference[KEYS][WIDTH];
	static bool stored[KEYS];
	memset(stored, 0, sizeof stored);
	for (uint64_t k = 0; k < KEYS; k++)
		init_embedding_row(7, 3, k * 0x100000001ull, &normal, reference[k], WIDTH);
	struct prng r;
	prng_seed(&r, 42);
	for (uint32_t round = 0; round < 400; round++) {
		uint64_t ids[100], keys[100];
		float *rows[100], out[100 * WIDTH];
		struct row_meta *metas[100];
		size_t n = 1 + prng_below(&r, 100);
		for (size_t i = 0; i < n; i++) {
			ids[i] = prng_below(&r, KEYS);
			keys[i] = ids[i] * 0x100000001ull;
		}
		if (prng_below(&r, 2)) {
			assert_int_equal(store_upsert(t, keys, n, rows, metas), WEIR_OK);
			for (size_t i = 0; i < n; i++) {
				if (!stored[ids[i]])
					assert_true(rows[i][WIDTH] == 0.25f); /* Adagrad's initial accumulator */
				stored[ids[i]] = true;
				assert_int_equal((uintptr_t)rows[i] % 64, 0);
				rows[i][round % WIDTH] += 1;
				reference[ids[i]][round % WIDTH] += 1;
				metas[i]->count++;
			}
		}
		store_gather(t, keys, n, out);
		for (size_t i = 0; i < n; i++)
			assert_memory_equal(out + i * WIDTH, reference[ids[i]], sizeof reference[0]);
	}
	uint64_t expected = 0;
	for (uint64_t k = 0; k < KEYS; k++)
		expected += stored[k];
	assert_int_equal(store_table_rows(t), expected);
	store_destroy(s);
}

static void a_key_repeated_in_one_upsert_is_one_row(void **state)
{
	(void)state;
	struct store *s = store_create(NULL);
	struct store_table *t = add_embedding(s, 0, WEIR_OPT_SGD);
	uint64_t keys[4] = {0, UINT64_MAX, 0, UINT64_MAX};
	float *rows[4];
	struct row_meta *metas[4];
	assert_int_equal(store_upsert(t, keys, 4, rows, metas), WEIR_OK);
	assert_ptr_equal(rows[0], rows[2]);
	assert_ptr_equal(rows[1], rows[3]);
	assert_ptr_equal(metas[0], metas[2]);
	assert_int_equal(store_table_rows(t), 2);
	store_destroy(s);
}

static void no_row(void *arg, uint64_t key, const struct row_state *state, const float *row)
{
	(void)arg, (void)state, (void)row;
	fail_msg("key %llu", (unsigned long long)key);
}

static void reading_stores_nothing(void **state)
{
	(void)state;
	struct store *s = store_create(NULL);
	struct store_table *t = add_embedding(s, 1, WEIR_OPT_ADAM), *d = add_dense(s, 2, 100, 0, 1);
	uint64_t keys[3] = {5, 6, 1ull << 63};
	float out[3 * WIDTH], again[3 * WIDTH], chunk[100], expected[WIDTH];
	const weir_init_segment uniform = {.elements = 100, .kind = WEIR_INIT_UNIFORM, .a = 0.1f};
	store_gather(t, keys, 3, out);
	store_gather(t, keys, 3, again);
	assert_memory_equal(out, again, sizeof out);
	init_embedding_row(7, 1, 1ull << 63, &normal, expected, WIDTH);
	assert_memory_equal(out + 2 * WIDTH, expected, sizeof expected);
	store_read_chunk(d, 0, chunk);
	float dense[100];
	init_dense(9, 2, &uniform, 1, 0, dense, 100);
	assert_memory_equal(chunk, dense, sizeof dense);
	assert_int_equal(store_table_rows(t), 0);
	assert_int_equal(store_table_rows(d), 0);
	struct store_place place = {0};
	assert_int_equal(store_scan(t, &place, 3, no_row, NULL, NULL), WEIR_OK);
	assert_true(place.at == 0 && !place.below);
	const float *row;
	assert_null(store_find(t, 5, &row));
	store_destroy(s);
}

static void many_rows_survive_growth(void **state)
{
	(void)state;
	enum { ROWS = 300000, BLOCK = 1000 };
	struct store *s = store_create(NULL);
	struct store_table *t = add_embedding(s, 0, WEIR_OPT_ADAM);
	static uint64_t keys[BLOCK];
	static float *rows[BLOCK], out[BLOCK * WIDTH];
	static struct row_meta *metas[BLOCK];
	for (uint64_t base = 0; base < ROWS; base += BLOCK) {
		for (uint64_t i = 0; i < BLOCK; i++)
			keys[i] = (base + i) << 20; /* all low bits are equal */
		assert_int_equal(store_upsert(t, keys, BLOCK, rows, metas), WEIR_OK);
		for (uint64_t i = 0; i < BLOCK; i++)
			rows[i][0] = (float)(base + i);
	}
	assert_int_equal(store_table_rows(t), ROWS);
	for (uint64_t base = 0; base < ROWS; base += BLOCK) {
		for (uint64_t i = 0; i < BLOCK; i++)
			keys[i] = (base + i) << 20;
		store_gather(t, keys, BLOCK, out);
		for (uint64_t i = 0; i < BLOCK; i++)
			assert_true(out[i * WIDTH] == (float)(base + i));
	}
	store_destroy(s);
}

static void chunks_live_round_robin_and_the_last_is_shorter(void **state)
{
	(void)state;
	const uint64_t elements = 10ull * WEIR_CHUNK + 17;
	uint64_t chunks = 0, sum = 0;
	for (uint32_t p = 0; p < 4; p++) {
		struct store *s = store_create(NULL);
		struct store_table *t = add_dense(s, 5, elements, p, 4);
		uint64_t seen = 0;
		for (uint64_t c = 0; c < 13; c++) {
			size_t n = store_row_elements(t, c);
			if (n) {
				assert_int_equal(c, store_first_chunk(t) + 4 * seen);
				seen++;
				sum += n;
			}
		}
		assert_int_equal(seen, store_chunks(t));
		chunks += seen;
		store_destroy(s);
	}
	assert_int_equal(chunks, 11);
	assert_int_equal(sum, elements);
}

static void a_chunk_keeps_what_is_written(void **state)
{
	(void)state;
	struct store *s = store_create(NULL);
	struct store_table *t = add_dense(s, 0, WEIR_CHUNK + 3, 0, 1);
	uint64_t chunk = 1;
	float *row, out[3];
	struct row_meta *meta;
	assert_int_equal(store_upsert(t, &chunk, 1, &row, &meta), WEIR_OK);
	for (size_t i = 0; i < 3; i++)
		row[i] = (float)i + 1;
	assert_true(row[3] == 0 && row[5] == 0); /* the momentum slot */
	store_read_chunk(t, 1, out);
	assert_true(out[0] == 1 && out[1] == 2 && out[2] == 3);
	assert_int_equal(store_table_rows(t), 1);
	store_destroy(s);
}

enum { SCANNED = 1000 };

static void see_row(void *arg, uint64_t key, const struct row_state *state, const float *row)
{
	(void)state;
	bool *seen = arg;
	assert_true(key < SCANNED && !seen[key]);
	seen[key] = true;
	float expected[WIDTH];
	init_embedding_row(7, 0, key, &normal, expected, WIDTH);
	assert_memory_equal(row, expected, sizeof expected);
}

static void a_scan_sees_every_row_once(void **state)
{
	(void)state;
	struct store *s = store_create(NULL);
	struct store_table *t = add_embedding(s, 0, WEIR_OPT_SGD);
	bool seen[SCANNED] = {false};
	for (uint64_t k = 0; k < SCANNED; k++) {
		float *row;
		struct row_meta *meta;
		assert_int_equal(store_upsert(t, &k, 1, &row, &meta), WEIR_OK);
	}
	struct store_place place = {0};
	uint64_t pages = 0;
	do {
		assert_int_equal(store_scan(t, &place, 64, see_row, seen, NULL), WEIR_OK);
		pages++;
	} while (place.at);
	assert_int_equal(pages, (SCANNED + 63) / 64);
	for (uint32_t k = 0; k < SCANNED; k++)
		assert_true(seen[k]);
	store_destroy(s);
}

static void a_table_that_cannot_be_is_refused(void **state)
{
	(void)state;
	struct store *s = store_create(NULL);
	struct store_table *t = add_embedding(s, 0, WEIR_OPT_SGD), *out;
	weir_error err = {0};
	weir_table_spec spec = *store_table_spec(t);
	assert_int_equal(store_add_table(s, 0, &spec, 0, 1, &out, &err), WEIR_E_EXISTS);
	spec.width = 0;
	assert_int_equal(store_add_table(s, 1, &spec, 0, 1, &out, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "width 0"));
	assert_null(store_table(s, 1));
	store_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_equal_a_reference_map),
	    cmocka_unit_test(a_key_repeated_in_one_upsert_is_one_row),
	    cmocka_unit_test(reading_stores_nothing),
	    cmocka_unit_test(many_rows_survive_growth),
	    cmocka_unit_test(chunks_live_round_robin_and_the_last_is_shorter),
	    cmocka_unit_test(a_chunk_keeps_what_is_written),
	    cmocka_unit_test(a_scan_sees_every_row_once),
	    cmocka_unit_test(a_table_that_cannot_be_is_refused),
	};
	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
