/* Rows of an item by partition, each sorted by key. */
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/key_partition.h"
#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "worker/client/partition_keys.h"

enum { ROWS_MAX = 20000, TABLE = 5, SHAPES = 9 };

/* Keys as in jobs, and extreme ones. */
static uint64_t draw(struct prng *r, uint32_t shape, size_t i)
{
	switch (shape) {
	case 0:
		return prng_u64(r);
	case 1:
		return prng_below(r, 5000);
	case 2:
		return (uint64_t)prng_below(r, 40) << 48 | prng_below(r, 300); /* fields in high bits */
	case 3:
		return UINT64_MAX - i;
	case 4:
		return i * 3;
	case 5:
		return 7;
	case 6:
		return prng_below(r, 2) ? UINT64_MAX : 0;
	case 7:
		return (uint64_t)1 << prng_below(r, 64); /* each round of the sort finds one more bit */
	default:
		return prng_below(r, 8) ? 1 + prng_below(r, 3) : prng_u64(r);
	}
}

static void check_group(const struct partition_keys *s, const uint64_t *keys, uint32_t begin, uint32_t end)
{
	for (uint32_t i = begin; i < end; i++) {
		assert_int_equal(s->keys[i], keys[s->order[i]]);
		if (i > begin)
			assert_true(s->keys[i - 1] < s->keys[i] || (s->keys[i - 1] == s->keys[i] && s->order[i - 1] < s->order[i]));
	}
}

static void rows_are_in_order_in_their_partitions(void **state)
{
	(void)state;
	static const size_t counts[] = {0, 1, 2, 24, 25, 26, 300, 3000, ROWS_MAX};
	static const uint32_t partitions[] = {1, 16, 1024};
	uint64_t *keys = malloc(ROWS_MAX * sizeof *keys);
	bool *seen = malloc(ROWS_MAX);
	struct prng r;
	prng_seed(&r, 1);
	for (uint32_t shape = 0; shape < SHAPES; shape++)
		for (uint32_t c = 0; c < sizeof counts / sizeof *counts; c++)
			for (uint32_t p = 0; p < sizeof partitions / sizeof *partitions; p++) {
				struct partition_keys s;
				for (size_t i = 0; i < counts[c]; i++)
					keys[i] = draw(&r, shape, i);
				assert_int_equal(partition_keys_split(&s, TABLE, keys, counts[c], partitions[p]), WEIR_OK);
				memset(seen, 0, ROWS_MAX);
				assert_int_equal(s.offsets[0], 0);
				for (uint32_t g = 0; g < partitions[p]; g++) {
					check_group(&s, keys, s.offsets[g], s.offsets[g + 1]);
					for (uint32_t i = s.offsets[g]; i < s.offsets[g + 1]; i++) {
						assert_int_equal(placement_embedding(TABLE, s.keys[i], partitions[p]), g);
						assert_false(seen[s.order[i]]);
						seen[s.order[i]] = true;
					}
				}
				assert_int_equal(s.offsets[partitions[p]], counts[c]);
				partition_keys_destroy(&s);
			}
	free(keys);
	free(seen);
}

static void chunks_stay_in_their_own_order(void **state)
{
	(void)state;
	struct partition_keys s;
	assert_int_equal(partition_chunks_split(&s, TABLE, NULL, 100, 8), WEIR_OK);
	for (uint32_t g = 0; g < 8; g++)
		for (uint32_t i = s.offsets[g]; i < s.offsets[g + 1]; i++) {
			assert_int_equal(placement_dense(TABLE, s.keys[i], 8), g);
			assert_int_equal(s.keys[i], s.order[i]);
			assert_true(i == s.offsets[g] || s.keys[i - 1] < s.keys[i]);
		}
	assert_int_equal(s.offsets[8], 100);
	partition_keys_destroy(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_are_in_order_in_their_partitions),
	    cmocka_unit_test(chunks_stay_in_their_own_order),
	};
	return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
