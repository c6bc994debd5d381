/* Hostile top-k records: each kind of damage alone is refused; a small tile has every possible
 * record. test_topk_decode [ROUNDS]: the number of randomly damaged records */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/topk.h"
#include "kernels/topk_record.h"
#include "tests/rounds.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/topk_inputs.h"

#define KINDS      WEIR_VALUES
#define ROUNDS     20000u
#define RECORD_MAX 32768u

static uint32_t damages;

/* In memory of exactly `left` bytes, so that sanitizers detect a read beyond. */
static weir_status check_exactly(const uint8_t *record, size_t left, size_t n, weir_values values)
{
	weir_error err = {0};
	size_t bytes = 0;
	uint8_t *exact = malloc(left ? left : 1);
	assert_non_null(exact);
	memcpy(exact, record, left);
	const weir_status status = topk_check(exact, left, n, values, &bytes, &err);
	if (status == WEIR_OK) {
		uint16_t offsets[TOPK_TILE_COUNT_MAX];
		static float sent[TOPK_TILE_COUNT_MAX], dense[CODEC_TILE];
		assert_true(bytes <= left && bytes % 4 == 0);
		const size_t count = topk_decode(exact, n, values, offsets, sent);
		assert_true(count <= n);
		for (size_t i = 0; i < count; i++)
			assert_true(offsets[i] < n && (i == 0 || offsets[i] > offsets[i - 1]));
		topk_decode_dense(exact, n, values, dense);
		bool finite = true;
		for (size_t i = 0; i < count; i++)
			finite = finite && isfinite(sent[i]);
		if (topk_is_finite(exact, n, values))
			assert_true(finite);
		else if (values <= WEIR_VALUES_BF16)
			assert_false(finite);
	} else {
		assert_int_equal(status, WEIR_E_CORRUPT);
		assert_true(err.text[0] != 0);
	}
	free(exact);
	return status;
}

/* A record of every `every`-th element of a tile of n. Returns its bytes. */
static size_t example(size_t n, size_t every, weir_values values, uint8_t *record)
{
	static float residual[CODEC_TILE];
	uint32_t selected;
	for (size_t i = 0; i < n; i++)
		residual[i] = i % every == every / 2 ? 1 + (float)(i % 16) : 0;
	return topk_encode(NULL, residual, NULL, n, 1, values, record, &selected);
}

static void every_shorter_record_is_refused(void **state)
{
	(void)state;
	static uint8_t record[RECORD_MAX];
	for (int values = 0; values < KINDS; values++) {
		const size_t bytes = example(3000, 100, (weir_values)values, record);
		for (size_t left = 0; left < bytes; left++)
			assert_int_equal(check_exactly(record, left, 3000, (weir_values)values), WEIR_E_CORRUPT);
		assert_int_equal(check_exactly(record, bytes, 3000, (weir_values)values), WEIR_OK);
		record[bytes] = 0xff;
		assert_int_equal(check_exactly(record, bytes + 1, 3000, (weir_values)values), WEIR_OK);
	}
}

/* low_bits: floor(log2(999 / 10)) = 6: 60 bits; gaps: 10 + 15 bits */
enum { N = 1000, EVERY = 100, SENT = N / EVERY };
enum { LOW_AT = 4, HIGH_AT = LOW_AT + 8, VALUES_AT = HIGH_AT + 4 };

static void refused(const char *what, weir_values values, size_t at, uint8_t value)
{
	static uint8_t record[RECORD_MAX];
	const size_t bytes = example(N, EVERY, values, record);
	assert_true(at < bytes);
	if (record[at] == value)
		fail_msg("%s: byte %zu is %u already", what, at, value);
	record[at] = value;
	if (check_exactly(record, bytes, N, values) != WEIR_E_CORRUPT)
		fail_msg("%s: not refused", what);
}

static void damage_of_each_part_is_seen(void **state)
{
	(void)state;
	uint8_t record[256];
	const size_t bytes = example(N, EVERY, WEIR_VALUES_LOG4, record);
	assert_int_equal(bytes, VALUES_AT + 8 + 8);
	assert_int_equal(record[0], SENT);
	assert_int_equal(record[2], bytes / 4);
	refused("more elements", WEIR_VALUES_FP32, 0, SENT + 1);
	refused("fewer elements", WEIR_VALUES_FP32, 0, SENT - 1);
	refused("more than the tile", WEIR_VALUES_FP32, 1, 4);
	refused("more than a record", WEIR_VALUES_FP32, 1, 0xff);
	refused("fewer words", WEIR_VALUES_FP32, 2, 13);
	refused("more words", WEIR_VALUES_FP32, 3, 1);
	refused("padding of low bits", WEIR_VALUES_FP32, HIGH_AT - 1, record[HIGH_AT - 1] | 0x80);
	refused("padding of gaps", WEIR_VALUES_FP32, VALUES_AT - 1, 0x80);
	refused("one gap bit more", WEIR_VALUES_FP32, HIGH_AT, record[HIGH_AT] | 2);
	refused("one gap bit less", WEIR_VALUES_FP32, HIGH_AT, record[HIGH_AT] & (uint8_t) ~(record[HIGH_AT] & -record[HIGH_AT]));
	refused("padding of int8", WEIR_VALUES_INT8, VALUES_AT + 4 + SENT, 1);
	refused("int8: a code of -128", WEIR_VALUES_INT8, VALUES_AT + 4, 0x80);
	refused("int8: a negative scale", WEIR_VALUES_INT8, VALUES_AT + 3, 0xbd);
	refused("log4: a negative magnitude", WEIR_VALUES_LOG4, VALUES_AT + 3, 0xbf);
	refused("log4: least above most", WEIR_VALUES_LOG4, VALUES_AT + 3, 0x7f);
	refused("log4: a negative most", WEIR_VALUES_LOG4, VALUES_AT + 7, 0xc1);
	refused("padding of log4", WEIR_VALUES_LOG4, VALUES_AT + 8 + SENT / 2, 1);
	refused("int2: a negative magnitude", WEIR_VALUES_INT2, VALUES_AT + 1, 0xbf);
	refused("int2: a subnormal magnitude", WEIR_VALUES_INT2, VALUES_AT + 1, 0);
	refused("int2: padding of pairs", WEIR_VALUES_INT2, VALUES_AT + 2, 1);
	refused("int2: unused bits", WEIR_VALUES_INT2, VALUES_AT + 4 + SENT / 4, 0x10);
	refused("padding of int2", WEIR_VALUES_INT2, VALUES_AT + 4 + SENT / 4 + 1, 1);
	refused("bf16 of an odd number", WEIR_VALUES_BF16, 0, SENT - 1);
}

static void a_scale_of_zero_is_of_zeros(void **state)
{
	(void)state;
	static const uint8_t subnormal[4] = {0xff, 0xff, 0x7f, 0}, least[4] = {0, 0, 0x80, 0};
	uint8_t record[256];
	const size_t bytes = example(N, EVERY, WEIR_VALUES_INT8, record);
	memcpy(record + VALUES_AT, subnormal, 4);
	assert_int_equal(check_exactly(record, bytes, N, WEIR_VALUES_INT8), WEIR_E_CORRUPT);
	memcpy(record + VALUES_AT, least, 4);
	assert_int_equal(check_exactly(record, bytes, N, WEIR_VALUES_INT8), WEIR_OK);
	memset(record + VALUES_AT, 0, 4);
	assert_int_equal(check_exactly(record, bytes, N, WEIR_VALUES_INT8), WEIR_E_CORRUPT);
	memset(record + VALUES_AT, 0, bytes - VALUES_AT);
	assert_int_equal(check_exactly(record, bytes, N, WEIR_VALUES_INT8), WEIR_OK);
}

static void numbers_that_are_not_finite_are_told(void **state)
{
	(void)state;
	static const uint32_t wrong[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u};
	uint8_t record[256];
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		const uint16_t half = (uint16_t)(wrong[i] >> 16 | (wrong[i] & 1));
		example(N, EVERY, WEIR_VALUES_FP32, record);
		assert_true(topk_is_finite(record, N, WEIR_VALUES_FP32));
		memcpy(record + VALUES_AT + 4 * (SENT - 1), &wrong[i], 4);
		assert_false(topk_is_finite(record, N, WEIR_VALUES_FP32));
		example(N, EVERY, WEIR_VALUES_BF16, record);
		assert_true(topk_is_finite(record, N, WEIR_VALUES_BF16));
		memcpy(record + VALUES_AT + 2 * (SENT - 1), &half, 2);
		assert_false(topk_is_finite(record, N, WEIR_VALUES_BF16));
		example(N, EVERY, WEIR_VALUES_INT8, record);
		assert_true(topk_is_finite(record, N, WEIR_VALUES_INT8));
		memcpy(record + VALUES_AT, &wrong[i], 4);
		assert_false(topk_is_finite(record, N, WEIR_VALUES_INT8) && wrong[i] >> 31 == 0);
		example(N, EVERY, WEIR_VALUES_LOG4, record);
		assert_true(topk_is_finite(record, N, WEIR_VALUES_LOG4));
		memcpy(record + VALUES_AT + 4, &wrong[i], 4);
		assert_false(topk_is_finite(record, N, WEIR_VALUES_LOG4) && wrong[i] >> 31 == 0);
		example(N, EVERY, WEIR_VALUES_INT2, record);
		assert_true(topk_is_finite(record, N, WEIR_VALUES_INT2));
		memcpy(record + VALUES_AT, &half, 2);
		assert_false(topk_is_finite(record, N, WEIR_VALUES_INT2));
	}
}

/* Of all bit strings for offsets in tiles of 5 to 9, exactly one per set of offsets is accepted. */
static void as_many_records_as_there_are_sets(void **state)
{
	(void)state;
	for (size_t n = 5; n <= 9; n += 2) {
		uint64_t sets = 1;
		for (size_t count = 1; count <= n; count++) {
			const struct topk_layout l = topk_layout_of(n, count, WEIR_VALUES_FP32);
			uint8_t record[64] = {(uint8_t)count, 0, (uint8_t)(l.bytes / 4), 0};
			uint32_t taken = 0;
			sets = sets * (n - count + 1) / count;
			assert_true(l.low_bytes <= 4 && l.high_bytes == 4);
			/* One bit more of each than the record has. */
			const uint32_t lows = l.low_bits * (uint32_t)count, highs = (uint32_t)count + ((uint32_t)(n - 1) >> l.low_bits);
			for (uint32_t low = 0; low < (lows > 0 ? 2u << lows : 1); low++)
				for (uint32_t high = 0; high < 2u << highs; high++) {
					weir_error err;
					size_t bytes;
					memcpy(record + 4, &low, l.low_bytes);
					memcpy(record + 4 + l.low_bytes, &high, 4);
					if (topk_check(record, l.bytes, n, WEIR_VALUES_FP32, &bytes, &err) == WEIR_OK)
						taken++;
				}
			assert_int_equal(taken, sets);
		}
	}
}

static void layouts_fit(void **state)
{
	(void)state;
	for (int values = 0; values < KINDS; values++)
		for (size_t n = 1; n <= CODEC_TILE; n += n < 300 ? 1 : 97) {
			const size_t most = n < TOPK_TILE_COUNT_MAX ? n : TOPK_TILE_COUNT_MAX;
			for (size_t count = 0; count <= most; count++) {
				const struct topk_layout l = topk_layout_of(n, count, (weir_values)values);
				assert_true(l.bytes <= topk_record_max(n, (weir_values)values));
				assert_true(l.low_bytes <= TOPK_TILE_COUNT_MAX / 4 && l.high_bytes <= 3 * TOPK_TILE_COUNT_MAX / 8);
				assert_true(l.bytes / 4 <= UINT16_MAX && l.bytes % 4 == 0);
			}
		}
	for (size_t count = 1; count <= TOPK_TILE_COUNT_MAX; count++) {
		const struct topk_layout l = topk_layout_of(CODEC_TILE, count, WEIR_VALUES_FP32);
		assert_true(l.low_bytes <= TOPK_TILE_COUNT_MAX / 4 && l.high_bytes <= 3 * TOPK_TILE_COUNT_MAX / 8);
	}
}

static void damaged_records_are_refused_or_harmless(void **state)
{
	(void)state;
	static uint8_t record[RECORD_MAX];
	struct prng r;
	uint32_t taken = 0;
	prng_seed(&r, 41);
	for (uint32_t i = 0; i < damages; i++) {
		const weir_values values = (weir_values)prng_below(&r, KINDS);
		const size_t n = 1 + (size_t)prng_below(&r, i % 2 ? 64 : CODEC_TILE);
		size_t bytes = example(n, 1 + (size_t)prng_below(&r, i % 4 ? 200 : 4), values, record);
		for (uint64_t edits = 1 + prng_below(&r, 3); edits > 0; edits--) {
			const size_t at = (size_t)prng_below(&r, prng_below(&r, 2) ? bytes : 24 < bytes ? 24 : bytes);
			record[at] = (uint8_t)(prng_below(&r, 2) ? prng_u64(&r) : record[at] ^ 1u << prng_below(&r, 8));
		}
		if (prng_below(&r, 4) == 0)
			bytes = (size_t)prng_below(&r, bytes + 1);
		taken += check_exactly(record, bytes, n, values) == WEIR_OK;
	}
	print_message("%u damaged records, %u of them taken for others\n", damages, taken);
	assert_true(taken > 0 && taken < damages);
}

int main(int argc, char **argv)
{
	damages = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : rounds(ROUNDS);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_shorter_record_is_refused),
	    cmocka_unit_test(damage_of_each_part_is_seen),
	    cmocka_unit_test(numbers_that_are_not_finite_are_told),
	    cmocka_unit_test(as_many_records_as_there_are_sets),
	    cmocka_unit_test(a_scale_of_zero_is_of_zeros),
	    cmocka_unit_test(layouts_fit),
	    cmocka_unit_test(damaged_records_are_refused_or_harmless),
	};
	return cmocka_run_group_tests_name("topk_decode", tests, NULL, NULL);
}
