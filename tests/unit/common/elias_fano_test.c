/* Sorted numbers: bytes computed by hand, round trips of every shape through any cut, and
 * damage. */
#include "common/base/elias_fano.h"

#include <stdlib.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/random_u64.h"

enum { NUMBERS_MAX = 3000, SPANS_MAX = 4096 };

struct shape {
	uint64_t most;
	size_t count;
};

static void draw(struct prng *r, const struct shape *s, uint64_t *numbers)
{
	for (size_t i = 0; i < s->count; i++)
		numbers[i] = random_u64_up_to(r, s->most);
	qsort(numbers, s->count, sizeof *numbers, random_u64_compare);
}

static void bytes_by_hand(void **state)
{
	(void)state;
	static const uint64_t eight[] = {3, 4, 7, 13, 14, 15, 21, 43}, distinct[] = {103, 105, 109, 116, 118, 120, 127, 150};
	static const uint8_t expected[] = {0x73, 0xde, 0, 0, 0xcd, 0x09, 0x02, 0};
	uint8_t out[sizeof expected];
	uint64_t back[8];
	weir_error err = {0};
	assert_int_equal(elias_fano_bytes(8, 43), sizeof expected);
	elias_fano_encode(eight, 8, 43, out);
	assert_memory_equal(out, expected, sizeof out);
	memset(out, 0xff, sizeof out);
	elias_fano_encode_distinct(distinct, 8, 100, 43, out); /* numbers[i] - 100 - i */
	assert_memory_equal(out, expected, sizeof out);
	CHECK_OK(elias_fano_decode(expected, sizeof expected, 8, 43, back, &err), err);
	assert_memory_equal(back, eight, sizeof eight);
	static const uint64_t crowd[] = {0, 0, 1, 1, 1}; /* more numbers than values: no low bits */
	static const uint8_t few[] = {0x3b, 0, 0, 0};
	assert_int_equal(elias_fano_bytes(5, 1), 4);
	elias_fano_encode(crowd, 5, 1, out);
	assert_memory_equal(out, few, sizeof few);
	assert_int_equal(elias_fano_bytes(0, 12345), 0);
	CHECK_OK(elias_fano_decode(NULL, 0, 0, 12345, back, &err), err);
}

/* The bytes as a message in spans of at most `cut`. */
static struct message *cut_up(const uint8_t *bytes, size_t n, size_t cut)
{
	struct span spans[SPANS_MAX];
	uint32_t count = 0;
	for (size_t at = 0; at < n; at += cut) {
		assert_in_range(count, 0, SPANS_MAX - 1);
		spans[count++] = (struct span){bytes + at, n - at < cut ? n - at : cut};
	}
	struct message *m = message_create(spans, count, NULL, NULL);
	assert_non_null(m);
	return m;
}

static void take_in_steps(struct prng *r, const uint8_t *bytes, const struct shape *s, const uint64_t *expected)
{
	const size_t n = elias_fano_bytes(s->count, s->most), cut = 1 + n / 1000 + prng_below(r, n + 1);
	struct message *m = cut_up(bytes, n, cut);
	struct elias_fano e;
	uint64_t *out = malloc((s->count + 1) * sizeof *out);
	elias_fano_begin(&e, cursor_at(m), s->count, s->most);
	for (size_t have = 0; have < s->count;) {
		const size_t max = 1 + prng_below(r, prng_below(r, 2) ? 3 : 1500), left = s->count - have;
		assert_false(elias_fano_is_whole(&e));
		assert_int_equal(elias_fano_next(&e, out + have, max), left < max ? left : max);
		have += left < max ? left : max;
	}
	assert_int_equal(elias_fano_next(&e, out, 1), 0);
	assert_true(elias_fano_is_whole(&e));
	assert_memory_equal(out, expected, s->count * sizeof *out);
	free(out);
	message_release(m);
}

static void round_trip(struct prng *r, const struct shape *s, const uint64_t *numbers)
{
	const size_t n = elias_fano_bytes(s->count, s->most), skew = (size_t)prng_below(r, 8);
	uint8_t *memory = malloc(n + 8), *bytes = memory + skew;
	uint64_t *back = malloc((s->count + 1) * sizeof *back);
	weir_error err = {0};
	memset(memory, 0xa5, n + 8);
	elias_fano_encode(numbers, s->count, s->most, bytes);
	for (size_t i = 0; i < n + 8; i++)
		assert_true(i - skew < n || memory[i] == 0xa5);
	CHECK_OK(elias_fano_decode(bytes, n, s->count, s->most, back, &err), err);
	assert_memory_equal(back, numbers, s->count * sizeof *back);
	take_in_steps(r, bytes, s, numbers);
	free(back);
	free(memory);
}

/* A number takes 2 bits plus the logarithm of the mean gap, rounded down; the rounding costs less
 * than one bit more. */
static void check_size(const struct shape *s)
{
	const uint64_t each = s->count ? s->most / s->count : 0;
	const uint32_t l = each ? 63 - (uint32_t)__builtin_clzll(each) : 0;
	assert_true(elias_fano_bytes(s->count, s->most) <= (s->count * (l + 3) + 7) / 8 + 8);
}

static void every_shape_comes_back(void **state)
{
	(void)state;
	static const size_t counts[] = {0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 511, 512, 513, 1024, NUMBERS_MAX};
	uint64_t *numbers = malloc(NUMBERS_MAX * sizeof *numbers);
	struct prng r;
	prng_seed(&r, 1);
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
		for (uint32_t bits = 0; bits <= 64; bits++) {
			struct shape s = {.count = counts[c], .most = bits < 64 ? ((uint64_t)1 << bits) - prng_below(&r, 2) : UINT64_MAX};
			draw(&r, &s, numbers);
			check_size(&s);
			round_trip(&r, &s, numbers);
			if (s.count) { /* the ends of the range */
				numbers[s.count - 1] = s.most;
				numbers[0] = s.count > 1 ? 0 : s.most;
				round_trip(&r, &s, numbers);
			}
			for (size_t i = 0; i < s.count; i++)
				numbers[i] = s.most;
			round_trip(&r, &s, numbers);
		}
	free(numbers);
}

/* Damaged bytes are refused, or the decoded numbers encode to the same bytes. */
static bool is_refused(const uint8_t *bytes, size_t n, const struct shape *s)
{
	uint64_t back[64];
	uint8_t again[1024];
	weir_error err = {0};
	assert_true(s->count <= 64);
	if (elias_fano_decode(bytes, n, s->count, s->most, back, &err)) {
		assert_int_equal(err.status, WEIR_E_CORRUPT);
		assert_true(err.text[0] != '\0');
		return true;
	}
	for (size_t i = 0; i < s->count; i++)
		assert_true(back[i] <= s->most && (i == 0 || back[i - 1] <= back[i]));
	elias_fano_encode(back, s->count, s->most, again);
	assert_memory_equal(bytes, again, n);
	return false;
}

static void damage_is_refused_or_is_another_list(void **state)
{
	(void)state;
	uint64_t numbers[64];
	uint8_t bytes[1024];
	struct prng r;
	uint32_t refused = 0, accepted = 0;
	prng_seed(&r, 2);
	for (uint32_t round = 0; round < 4000; round++) {
		const uint32_t bits = (uint32_t)prng_below(&r, 65);
		struct shape s = {.count = 1 + prng_below(&r, 64), .most = bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX};
		const size_t n = elias_fano_bytes(s.count, s.most);
		draw(&r, &s, numbers);
		elias_fano_encode(numbers, s.count, s.most, bytes);
		for (uint64_t flips = 1 + prng_below(&r, 3); flips > 0; flips--) {
			const size_t bit = prng_below(&r, 8 * n);
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		const bool is = is_refused(bytes, n, &s);
		refused += is;
		accepted += !is;
		assert_true(is_refused(bytes, n - 1, &s) && is_refused(bytes, n + 1, &s));
	}
	assert_in_range(refused, 1000, 4000);
	assert_in_range(accepted, 500, 4000);
}

static void each_fault_is_seen(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		uint64_t most;
		size_t count;
		uint8_t bytes[8];
		size_t size;
	} cases[] = {
	    {"a bit too few", 43, 8, {0x73, 0xde, 0, 0, 0xcd, 0x09, 0, 0}, 8},
	    {"a bit too many", 43, 8, {0x73, 0xde, 0, 0, 0xcd, 0x09, 0x03, 0}, 8},
	    {"bits in the padding of the low ones", 43, 8, {0x73, 0xde, 1, 0, 0xcd, 0x09, 0x02, 0}, 8},
	    {"bits in the padding of the high ones", 43, 8, {0x73, 0xde, 0, 0, 0xcd, 0x09, 0, 0x80}, 8},
	    {"above most", 42, 8, {0x73, 0xde, 0, 0, 0xcd, 0x09, 0x02, 0}, 8},
	    {"falls within equal high bits", 43, 8, {0x73, 0xdb, 0, 0, 0xcd, 0x09, 0x02, 0}, 8},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct shape s = {cases[i].most, cases[i].count};
		if (!is_refused(cases[i].bytes, cases[i].size, &s))
			fail_msg("accepted: %s", cases[i].what);
	}
	static const uint8_t beyond[12] = {[8] = 4}; /* 2 << 63 */
	assert_int_equal(elias_fano_bytes(1, UINT64_MAX), sizeof beyond);
	assert_true(is_refused(beyond, sizeof beyond, &(struct shape){UINT64_MAX, 1}));
	static const uint8_t none[4];
	assert_true(is_refused(none, 4, &(struct shape){0, 0}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_by_hand),
	    cmocka_unit_test(every_shape_comes_back),
	    cmocka_unit_test(damage_is_refused_or_is_another_list),
	    cmocka_unit_test(each_fault_is_seen),
	};
	return cmocka_run_group_tests_name("elias_fano", tests, NULL, NULL);
}
