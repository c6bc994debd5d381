/* A section's keys: the chosen encoding, its cost, and the refusal of other bytes. */
#include "proto/frame/section_keys.h"

#include <stdlib.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/random_u64.h"
#include "tests/unit/proto/pieces.h"

enum { KEYS_MAX = 3000, STREAM_MAX = 8 * KEYS_MAX + 64 };

/* A section with an index stream of `bytes` in spans of `cut`. Release s->index.message. */
static struct section section_of(uint8_t codec, uint32_t rows, const uint8_t *bytes, size_t n, size_t cut)
{
	struct message *m = pieces_of(bytes, n, cut);
	return (struct section){.index_codec = codec, .rows = rows, .index_bytes = (uint32_t)n, .index = cursor_at(m)};
}

static void release(const struct section *s)
{
	message_release((struct message *)(uintptr_t)s->index.message);
}

/* Writes the keys and checks the planned size. */
static struct section written(const uint64_t *keys, uint32_t rows, uint8_t *bytes)
{
	struct section s = {.rows = rows};
	section_keys_plan(&s, keys);
	assert_in_range(s.index_bytes, 0, STREAM_MAX - 1);
	bytes[s.index_bytes] = 0xa5;
	section_keys_write(&s, keys, bytes);
	assert_int_equal(bytes[s.index_bytes], 0xa5);
	return s;
}

static weir_status read_all(const struct section *s, uint64_t *out, size_t step, weir_error *err)
{
	struct section_keys k;
	size_t have = 0;
	section_keys_begin(&k, s);
	for (size_t n; (n = section_keys_next(&k, out + have, step)) > 0; have += n)
		assert_true(have + n <= s->rows);
	weir_status status = section_keys_end(&k, s, err);
	assert_true(status || have == s->rows);
	return status;
}

static void come_back(struct prng *r, const uint64_t *keys, uint32_t rows, uint8_t codec)
{
	static uint8_t bytes[STREAM_MAX];
	static uint64_t back[KEYS_MAX];
	const struct section s = written(keys, rows, bytes);
	weir_error err = {0};
	assert_int_equal(s.index_codec, codec);
	const struct section in = section_of(codec, rows, bytes, s.index_bytes, 1 + s.index_bytes / 500 + prng_below(r, 500));
	CHECK_OK(read_all(&in, back, 1 + prng_below(r, prng_below(r, 2) ? 4 : 1000), &err), err);
	assert_memory_equal(back, keys, rows * sizeof *keys);
	release(&in);
}

static void bytes_by_hand(void **state)
{
	(void)state;
	static const uint64_t keys[] = {103, 105, 109, 116, 118, 120, 127, 153};
	/* base 103, most 153 - 103 - 7 = 43. The rest is 0 1 4 10 11 12 18 43: their low two bits, then
	 * the high bits. */
	static const uint8_t expected[] = {0x11, 103, 43, 0x84, 0xe3, 0, 0, 0x6b, 0x05, 0x02, 0};
	uint8_t bytes[STREAM_MAX];
	const struct section s = written(keys, 8, bytes);
	assert_int_equal(s.index_codec, INDEX_ELIAS_FANO);
	assert_int_equal(s.index_bytes, sizeof expected);
	for (size_t i = 0; i < sizeof expected; i++)
		assert_int_equal(bytes[i], expected[i]);
}

/* Sorted and distinct; at most `rows` keys in [from, from + range]. */
static uint32_t draw(struct prng *r, uint64_t from, uint64_t range, uint32_t rows, uint64_t *keys)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < rows; i++)
		keys[i] = from + random_u64_up_to(r, range);
	qsort(keys, rows, sizeof *keys, random_u64_compare);
	for (uint32_t i = 0; i < rows; i++)
		if (n == 0 || keys[i] != keys[n - 1])
			keys[n++] = keys[i];
	return n;
}

static void any_rising_keys_come_back(void **state)
{
	(void)state;
	static uint64_t keys[KEYS_MAX];
	struct prng r;
	prng_seed(&r, 1);
	for (uint32_t round = 0; round < 3000; round++) {
		const uint32_t bits = (uint32_t)prng_below(&r, 65);
		const uint64_t range = bits < 64 ? ((uint64_t)1 << bits) - prng_below(&r, 2) : UINT64_MAX;
		const uint64_t highest = UINT64_MAX - range, from = prng_below(&r, 2)   ? 0
		                                                    : prng_below(&r, 2) ? highest
		                                                                        : random_u64_up_to(&r, highest);
		const uint32_t wanted = (uint32_t)prng_below(&r, round % 8 ? 100 : KEYS_MAX), n = draw(&r, from, range, wanted, keys);
		struct section s = {.rows = n};
		section_keys_plan(&s, keys);
		come_back(&r, keys, n, s.index_codec);
		assert_true(s.index_bytes <= 8 * n && (s.index_codec == INDEX_RAW) == (s.index_bytes == 8 * n));
	}
	for (uint32_t i = 0; i < KEYS_MAX; i++) /* consecutive, up to the largest key */
		keys[i] = UINT64_MAX - (KEYS_MAX - 1 - i);
	come_back(&r, keys, KEYS_MAX, INDEX_ELIAS_FANO);
	struct section s = {.rows = KEYS_MAX};
	section_keys_plan(&s, keys);
	assert_int_equal(s.index_bytes, 1 + 8 + (KEYS_MAX + 31) / 32 * 4);
}

static void others_stay_raw(void **state)
{
	(void)state;
	static const uint64_t equal[] = {1, 2, 3, 4, 4, 5, 6, 7}, falls[] = {1, 2, 3, 9, 8, 10, 11, 12}, one[] = {7},
	                      far[] = {1ull << 62, 1ull << 63, 3ull << 62};
	struct prng r;
	prng_seed(&r, 2);
	come_back(&r, equal, 8, INDEX_RAW);
	come_back(&r, falls, 8, INDEX_RAW);
	come_back(&r, one, 1, INDEX_RAW);
	come_back(&r, far, 3, INDEX_RAW); /* the coded form would be larger */
	come_back(&r, NULL, 0, INDEX_RAW);
}

/* A little more than the logarithm of the number of such sets. */
static void keys_cost_what_they_must(void **state)
{
	(void)state;
	static const struct {
		uint64_t range;
		uint32_t rows;
		double bits_max; /* per key, with the two leading numbers and padding */
	} cases[] = {{1u << 20, 200, 15.2}, {1u << 20, 3000, 10.5}, {5381, 60, 10.7}, {UINT64_MAX, 200, 59.4}, {1u << 12, 3000, 2.1}};
	static uint64_t keys[KEYS_MAX];
	struct prng r;
	prng_seed(&r, 3);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const uint32_t n = draw(&r, 0, cases[i].range, cases[i].rows, keys);
		struct section s = {.rows = n};
		section_keys_plan(&s, keys);
		const double bits = 8.0 * s.index_bytes / n;
		if (bits > cases[i].bits_max)
			fail_msg("%u keys up to %llu: %.2f bits each", n, (unsigned long long)cases[i].range, bits);
	}
}

/* Returns true if the bytes are corrupt; otherwise the keys that they give encode to the same
 * bytes. */
static bool is_refused(const uint8_t *bytes, size_t n, uint32_t rows, size_t cut)
{
	static uint64_t back[KEYS_MAX];
	static uint8_t again[STREAM_MAX];
	weir_error err = {0};
	const struct section in = section_of(INDEX_ELIAS_FANO, rows, bytes, n, cut);
	const weir_status status = read_all(&in, back, 7, &err);
	release(&in);
	if (status) {
		assert_int_equal(status, WEIR_E_CORRUPT);
		assert_true(err.text[0] != '\0');
		return true;
	}
	struct section s = {.index_codec = INDEX_ELIAS_FANO, .rows = rows};
	for (uint32_t i = 1; i < rows; i++)
		assert_true(back[i - 1] < back[i]);
	if (rows)
		section_keys_write(&s, back, again);
	assert_memory_equal(again, bytes, n);
	return false;
}

static void damage_is_refused_or_is_other_keys(void **state)
{
	(void)state;
	uint64_t keys[64];
	uint8_t bytes[STREAM_MAX];
	struct prng r;
	uint32_t refused = 0, accepted = 0;
	prng_seed(&r, 4);
	for (uint32_t round = 0; round < 6000; round++) {
		const uint32_t n =
		    draw(&r, prng_below(&r, 1000), ((uint64_t)1 << prng_below(&r, 40)) - 1, 4 + (uint32_t)prng_below(&r, 60), keys);
		const struct section s = written(keys, n, bytes);
		if (s.index_codec != INDEX_ELIAS_FANO)
			continue;
		const size_t cut = 1 + prng_below(&r, s.index_bytes);
		assert_false(is_refused(bytes, s.index_bytes, n, cut));
		assert_true(is_refused(bytes, s.index_bytes - 1, n, cut));
		assert_true(is_refused(bytes, s.index_bytes + 1, n, cut));
		for (uint64_t flips = 1 + prng_below(&r, 3); flips > 0; flips--) {
			const size_t bit = prng_below(&r, 8ull * s.index_bytes);
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		const bool is = is_refused(bytes, s.index_bytes, n, cut);
		refused += is;
		accepted += !is;
	}
	assert_in_range(refused, 1000, 6000);
	assert_in_range(accepted, 500, 6000);
}

static void each_fault_is_seen(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		uint32_t rows;
		uint8_t bytes[32];
		size_t size;
	} cases[] = {
	    {"nothing", 8, {0}, 0},
	    {"only sizes", 8, {0x11}, 1},
	    {"bytes of no rows", 0, {0}, 1},
	    {"a base of nine bytes", 1, {9, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0}, 14},
	    {"a base with a zero on top", 8, {0x12, 103, 0, 43, 0x84, 0xe3, 0, 0, 0x6b, 0x05, 0x02, 0}, 12},
	    {"a most with a zero on top", 8, {0x21, 103, 43, 0, 0x84, 0xe3, 0, 0, 0x6b, 0x05, 0x02, 0}, 12},
	    {"another base than the first key", 8, {0x11, 103, 43, 0x85, 0xe3, 0, 0, 0x6b, 0x05, 0x02, 0}, 11},
	    {"another most than the last key", 8, {0x11, 103, 44, 0x84, 0xe3, 0, 0, 0x6b, 0x05, 0x02, 0}, 11},
	    {"keys that fall", 8, {0x11, 103, 43, 0xc4, 0xe2, 0, 0, 0x6b, 0x05, 0x02, 0}, 11},
	    {"one key less", 7, {0x11, 103, 43, 0x84, 0xe3, 0, 0, 0x6b, 0x05, 0x02, 0}, 11},
	    {"beyond the largest key there is", 2, {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0}, 13},
	    {"beyond it by the distance", 2, {0x18, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 5, 0, 0, 0}, 14},
	};
	static const uint8_t good[] = {0x11, 103, 43, 0x84, 0xe3, 0, 0, 0x6b, 0x05, 0x02, 0};
	assert_false(is_refused(good, sizeof good, 8, 3));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (!is_refused(cases[i].bytes, cases[i].size, cases[i].rows, 5))
			fail_msg("accepted: %s", cases[i].what);
}

static void other_codecs_have_no_keys(void **state)
{
	(void)state;
	static const uint8_t bytes[16] = {1};
	uint64_t back[2];
	for (uint8_t codec = INDEX_DELTA; codec <= INDEX_ALL; codec += INDEX_ALL - INDEX_DELTA) {
		weir_error err = {0};
		const struct section s = section_of(codec, 2, bytes, sizeof bytes, 16);
		assert_int_equal(read_all(&s, back, 2, &err), WEIR_E_UNSUPPORTED);
		release(&s);
	}
	weir_error err = {0};
	const struct section s = section_of(INDEX_RAW, 3, bytes, sizeof bytes, 16);
	assert_int_equal(read_all(&s, back, 2, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "16 bytes are not 3 raw keys");
	release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_by_hand),
	    cmocka_unit_test(any_rising_keys_come_back),
	    cmocka_unit_test(others_stay_raw),
	    cmocka_unit_test(keys_cost_what_they_must),
	    cmocka_unit_test(damage_is_refused_or_is_other_keys),
	    cmocka_unit_test(each_fault_is_seen),
	    cmocka_unit_test(other_codecs_have_no_keys),
	};
	return cmocka_run_group_tests_name("section_keys", tests, NULL, NULL);
}
