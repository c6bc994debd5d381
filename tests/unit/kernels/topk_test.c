/* Top-k encoding: golden bytes; random tiles against the definition, in every variant; inputs at
 * the ends of fp32; code sizes and errors. test_topk [SEEDS]: the number of random tiles */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/topk.h"
#include "kernels/vector.h"
#include "tests/rounds.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/topk_inputs.h"

#define KINDS      WEIR_VALUES
#define SEEDS      400u
#define RECORD_MAX 32768u
#define GUARD      0xee
#define GOLDEN_MAX 8192u

static uint32_t seeds;

static const char *const kind_names[KINDS] = {
#define KIND_NAME(name, number, text, pulled) [number] = #text,
    WEIR_VALUES_MAP(KIND_NAME)
#undef KIND_NAME
};

/* --- Golden bytes */

/* Elements of exact values with different signs, magnitudes and places. */
static void golden_tile(float *x, size_t n, size_t every)
{
	for (size_t i = 0; i < n; i++) {
		const float magnitude = i % every == every - 1 ? 1 + (float)(i * 37 % 64) / 64 : 0.25f;
		x[i] = i / every % 2 ? -magnitude : magnitude;
	}
}

static const struct golden_case {
	size_t n, every; /* elements of the tile; every `every`-th is selected */
	float threshold;
} golden_cases[] = {
    {CODEC_TILE, 1, 4},        /* selects none */
    {1, 1, 1},                 /* one of one */
    {CODEC_TILE, 10000, 1},    /* selects one */
    {100, 14, 1},              /* an odd count, in a short tile */
    {37, 1, 1},                /* selects all */
    {CODEC_TILE, 1000, 1},     /* 16 */
    {CODEC_TILE - 1, 1500, 1}, /* 10 */
};

static void the_bytes_are_those_of_the_format(void **state)
{
	(void)state;
	static uint8_t got[GOLDEN_MAX + RECORD_MAX], want[GOLDEN_MAX];
	static float residual[CODEC_TILE];
	size_t bytes = 0, expected = 0;
	unsigned byte;
	for (int values = 0; values < KINDS; values++)
		for (size_t c = 0; c < sizeof golden_cases / sizeof *golden_cases; c++) {
			const struct golden_case *g = &golden_cases[c];
			uint32_t selected;
			golden_tile(residual, g->n, g->every);
			bytes += topk_encode(NULL, residual, NULL, g->n, g->threshold, (weir_values)values, got + bytes, &selected);
			assert_true(bytes <= GOLDEN_MAX);
		}
	FILE *in = fopen(GOLDEN_DIR "/topk.hex", "r");
	assert_non_null(in);
	while (expected < GOLDEN_MAX && fscanf(in, "%2x", &byte) == 1)
		want[expected++] = (uint8_t)byte;
	fclose(in);
	if (bytes != expected || memcmp(got, want, bytes) != 0)
		for (size_t i = 0; i < bytes; i++)
			fprintf(stderr, "%02x%c", got[i], i % 32 == 31 || i + 1 == bytes ? '\n' : ' ');
	assert_int_equal(bytes, expected);
	assert_memory_equal(got, want, bytes);
}

/* --- Random tiles, against the definition */

struct tile {
	size_t n;
	weir_values values;
	bool has_momentum, has_grad;
	float factor, threshold;
	float grad[CODEC_TILE + 1], residual[CODEC_TILE], velocity[CODEC_TILE];
	/* By definition: */
	float acc[CODEC_TILE], sum[CODEC_TILE]; /* sum: also the velocity before any is sent */
	size_t reach, sent;
	uint16_t offsets[CODEC_TILE];
};

struct coded {
	float residual[CODEC_TILE], velocity[CODEC_TILE];
	uint8_t record[RECORD_MAX];
	size_t bytes;
	uint32_t selected;
};

/* Lengths near every special one, and random lengths. */
static size_t random_length(struct prng *r)
{
	static const size_t edges[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 1023, 1024, 1025, CODEC_TILE - 1, CODEC_TILE};
	const uint64_t which = prng_below(r, 3);
	return which == 0   ? edges[prng_below(r, sizeof edges / sizeof *edges)]
	       : which == 1 ? 1 + (size_t)prng_below(r, 100)
	                    : 1 + (size_t)prng_below(r, CODEC_TILE);
}

static void random_tile(struct tile *t, uint64_t seed)
{
	struct prng r;
	prng_seed(&r, seed);
	t->n = random_length(&r);
	t->values = (weir_values)prng_below(&r, KINDS);
	t->has_momentum = prng_below(&r, 2);
	t->has_grad = prng_below(&r, 4) > 0;
	t->factor = 0.9f;
	distribution_draw((enum distribution)prng_below(&r, DISTRIBUTIONS), &r, t->grad, t->n);
	distribution_draw((enum distribution)prng_below(&r, DISTRIBUTIONS), &r, t->residual, t->n);
	distribution_draw(DIST_NORMAL, &r, t->velocity, t->n);
	const float scale = ldexpf(1, (int)prng_below(&r, 200) - 100);
	for (size_t i = 0; i < t->n; i++) {
		t->grad[i] *= scale;
		t->residual[i] *= scale;
		t->velocity[i] *= scale;
		t->sum[i] = t->has_grad ? t->factor * t->velocity[i] + t->grad[i] : t->velocity[i];
		t->acc[i] = !t->has_grad ? t->residual[i] : t->residual[i] + (t->has_momentum ? t->sum[i] : t->grad[i]);
	}
	/* About 1 in 100, or any share. */
	const size_t k = prng_below(&r, 2) ? 1 + t->n / 100 : 1 + (size_t)prng_below(&r, t->n);
	t->threshold = kth_magnitude(t->acc, t->n, k);
	t->threshold = t->threshold > 0 ? t->threshold : TOPK_THRESHOLD_MIN;
	t->reach = 0;
	for (size_t i = 0; i < t->n; i++)
		if (fabsf(t->acc[i]) >= t->threshold)
			t->offsets[t->reach++] = (uint16_t)i;
	t->sent = t->reach < TOPK_TILE_COUNT_MAX ? t->reach : TOPK_TILE_COUNT_MAX;
}

static void encode(const struct vector_ops *ops, const struct tile *t, size_t shift, struct coded *c)
{
	static float grad[CODEC_TILE + 4];
	memcpy(grad + shift, t->grad, t->n * sizeof *grad);
	memcpy(c->residual, t->residual, sizeof c->residual);
	memcpy(c->velocity, t->velocity, sizeof c->velocity);
	memset(c->record, GUARD, sizeof c->record);
	const struct topk_momentum momentum = {.velocity = c->velocity, .factor = t->factor};
	c->bytes = topk_encode_with(ops, t->has_grad ? grad + shift : NULL, c->residual, t->has_momentum ? &momentum : NULL, t->n,
	                            t->threshold, t->values, c->record + shift, &c->selected);
	for (size_t i = 0; i < shift; i++)
		assert_int_equal(c->record[i], GUARD);
	assert_true(c->bytes <= topk_record_max(t->n, t->values));
	assert_int_equal(c->record[shift + c->bytes], GUARD);
	memmove(c->record, c->record + shift, c->bytes);
}

static double ulp(double x)
{
	return ldexp(1, (fabs(x) > FLT_MIN ? ilogb(x) : ilogb(FLT_MIN)) - 23);
}

/* Unsent elements equal acc to the bit; sent ones plus residual equal acc. */
static void check_coded(const struct tile *t, const struct coded *c)
{
	uint16_t offsets[TOPK_TILE_COUNT_MAX];
	static float sent[TOPK_TILE_COUNT_MAX], dense[CODEC_TILE], want[CODEC_TILE], velocity[CODEC_TILE];
	weir_error err = {0};
	size_t bytes;
	assert_int_equal(topk_check(c->record, c->bytes, t->n, t->values, &bytes, &err), WEIR_OK);
	assert_int_equal(bytes, c->bytes);
	assert_int_equal(topk_check(c->record, c->bytes - 1, t->n, t->values, &bytes, &err), WEIR_E_CORRUPT);
	assert_true(topk_is_finite(c->record, t->n, t->values));
	assert_int_equal(c->selected, t->reach);
	assert_int_equal(topk_decode(c->record, t->n, t->values, offsets, sent), t->sent);
	assert_memory_equal(offsets, t->offsets, t->sent * sizeof *offsets);
	topk_decode_dense(c->record, t->n, t->values, dense);
	memcpy(want, t->acc, sizeof want);
	memcpy(velocity, t->has_momentum ? t->sum : t->velocity, sizeof velocity);
	for (size_t i = 0; i < t->sent; i++) {
		const double acc = (double)t->acc[offsets[i]], value = (double)sent[i], rest = (double)c->residual[offsets[i]];
		const double larger = fabs(acc) > fabs(value) ? acc : value;
		if (fabs(value + rest - acc) > ulp(larger))
			fail_msg("%s: %a sent and %a kept of %a", kind_names[t->values], value, rest, acc);
		want[offsets[i]] -= sent[i];
		velocity[offsets[i]] = t->has_momentum ? 0 : velocity[offsets[i]];
		assert_memory_equal(&dense[offsets[i]], &sent[i], sizeof *sent);
		dense[offsets[i]] = 0;
	}
	check_same_bits("residual", c->residual, want, t->n);
	check_same_bits("velocity", c->velocity, velocity, t->n);
	for (size_t i = 0; i < t->n; i++)
		assert_true(dense[i] == 0);
}

static void every_variant_follows_the_definition(void **state)
{
	(void)state;
	static struct tile t;
	static struct coded first, again;
	for (uint32_t seed = 1; seed <= seeds; seed++) {
		random_tile(&t, seed);
		encode(vector_ops_variant(0), &t, 0, &first);
		check_coded(&t, &first);
		for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
			const struct vector_ops *ops = vector_ops_variant(v);
			encode(ops, &t, seed % 4, &again);
			if (again.bytes != first.bytes || memcmp(again.record, first.record, first.bytes) != 0)
				fail_msg("seed %u: %s writes other bytes than base", seed, ops->name);
			assert_int_equal(again.selected, first.selected);
			check_same_bits(ops->name, again.residual, first.residual, t.n);
			check_same_bits(ops->name, again.velocity, first.velocity, t.n);
		}
	}
	print_message("%u random tiles\n", seeds);
}

/* The exact threshold accumulates into the residual first, for any length. */
static void accumulating_first_is_the_same(void **state)
{
	(void)state;
	static struct tile t;
	static struct coded whole;
	static float residual[CODEC_TILE], velocity[CODEC_TILE];
	static uint8_t record[RECORD_MAX];
	uint32_t selected;
	for (uint32_t seed = 1; seed <= 50; seed++) {
		random_tile(&t, seed);
		t.has_grad = true;
		encode(vector_ops_best(), &t, 0, &whole);
		const struct topk_momentum momentum = {.velocity = velocity, .factor = t.factor};
		const struct topk_momentum *m = t.has_momentum ? &momentum : NULL;
		memcpy(residual, t.residual, sizeof residual);
		memcpy(velocity, t.velocity, sizeof velocity);
		topk_accumulate(t.grad, residual, m, t.n);
		assert_int_equal(topk_encode(NULL, residual, m, t.n, t.threshold, t.values, record, &selected), whole.bytes);
		assert_memory_equal(record, whole.record, whole.bytes);
		check_same_bits("residual", residual, whole.residual, t.n);
		check_same_bits("velocity", velocity, whole.velocity, t.n);
	}
}

/* --- The ends of fp32 */

static size_t count_of(const uint8_t *record)
{
	return (size_t)record[0] + 256 * (size_t)record[1];
}

static void a_tile_without_elements_is_a_header(void **state)
{
	(void)state;
	static float residual[CODEC_TILE];
	static const uint8_t none[] = {0, 0, 1, 0};
	memset(residual, 0, sizeof residual);
	for (int values = 0; values < KINDS; values++) {
		uint8_t record[8];
		uint32_t selected = 1;
		assert_int_equal(
		    topk_encode(NULL, residual, NULL, CODEC_TILE, TOPK_THRESHOLD_MIN, (weir_values)values, record, &selected), 4);
		assert_memory_equal(record, none, sizeof none);
		assert_int_equal(selected, 0);
	}
}

/* A tile of equal elements takes four records, in order of elements, and loses nothing. */
static void values_without_room_wait(void **state)
{
	(void)state;
	static float residual[CODEC_TILE];
	static uint8_t record[RECORD_MAX];
	for (int values = 0; values < KINDS; values++)
		for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
			for (size_t i = 0; i < CODEC_TILE; i++)
				residual[i] = i % 2 ? 3 : -3;
			for (size_t left = CODEC_TILE; left > 0; left -= TOPK_TILE_COUNT_MAX) {
				uint32_t selected;
				topk_encode_with(vector_ops_variant(v), NULL, residual, NULL, CODEC_TILE, 3, (weir_values)values, record,
				                 &selected);
				assert_int_equal(selected, left);
				assert_int_equal(count_of(record), TOPK_TILE_COUNT_MAX);
				/* int8 rounds 3 / 127 and codes 127 of it: the remainder is below the threshold. */
				for (size_t i = 0; i < CODEC_TILE; i++)
					assert_true(i < CODEC_TILE - left + TOPK_TILE_COUNT_MAX ? fabsf(residual[i]) < 1e-6f
					                                                        : fabsf(residual[i]) == 3);
			}
		}
}

/* Encodes x and checks that decoded + residual is x, all finite. */
static void survives(const float *x, size_t n, float threshold)
{
	float residual[64], dense[64];
	uint8_t record[RECORD_MAX];
	for (int values = 0; values < KINDS; values++) {
		uint32_t selected;
		size_t bytes;
		weir_error err = {0};
		memcpy(residual, x, n * sizeof *x);
		topk_encode(NULL, residual, NULL, n, threshold, (weir_values)values, record, &selected);
		assert_int_equal(topk_check(record, sizeof record, n, (weir_values)values, &bytes, &err), WEIR_OK);
		assert_true(topk_is_finite(record, n, (weir_values)values));
		topk_decode_dense(record, n, (weir_values)values, dense);
		for (size_t i = 0; i < n; i++) {
			assert_true(isfinite(dense[i]) && isfinite(residual[i]));
			const double off = fabs((double)dense[i] + (double)residual[i] - (double)x[i]);
			if (off > ulp((double)fmaxf(fabsf(x[i]), fabsf(dense[i]))))
				fail_msg("%s: %a became %a and %a", kind_names[values], (double)x[i], (double)dense[i], (double)residual[i]);
		}
	}
}

static void tiny_and_huge_numbers_stay_finite(void **state)
{
	(void)state;
	const float huge[] = {FLT_MAX, -FLT_MAX, FLT_MAX / 2, -FLT_MAX / 3, nextafterf(FLT_MAX, 0)};
	const float denormal[] = {FLT_TRUE_MIN, -FLT_TRUE_MIN, 100 * FLT_TRUE_MIN, FLT_MIN / 2, -FLT_MIN / 4};
	const float tiny[] = {FLT_MIN, -FLT_MIN, 3 * FLT_MIN, 200 * FLT_MIN, -100 * FLT_MIN};
	const float both[] = {FLT_MAX, FLT_MIN, -1, 1e-20f, -1e20f, FLT_TRUE_MIN, 0};
	const float equal[] = {FLT_MAX, -FLT_MAX, FLT_MAX};
	survives(huge, 5, FLT_MAX / 8);
	survives(huge, 5, FLT_MAX);
	survives(denormal, 5, FLT_TRUE_MIN);
	survives(tiny, 5, FLT_MIN);
	survives(both, 7, FLT_TRUE_MIN);
	survives(both, 7, FLT_MIN);
	survives(both, 7, 1e-10f);
	survives(equal, 3, 1);
	/* where 127 * (x / 127) may overflow */
	for (float x = FLT_MAX; x > FLT_MAX * 0.99999f; x = nextafterf(x, 0))
		survives(&x, 1, 1);
}

/* Gradients below the least threshold accumulate until they reach it. */
static void denormals_add_up(void **state)
{
	(void)state;
	const float grad = FLT_MIN / 4;
	float residual = 0;
	uint8_t record[64];
	for (unsigned push = 1; push <= 4; push++) {
		uint32_t selected;
		topk_encode(&grad, &residual, NULL, 1, TOPK_THRESHOLD_MIN, WEIR_VALUES_FP32, record, &selected);
		assert_int_equal(selected, push == 4);
		assert_true(residual == (push == 4 ? 0 : (float)push * grad));
	}
}

/* --- Coding errors */

/* Squared error relative to the sent squares, for the largest 1 in 100 of a table. */
static double error_of_values(enum distribution d, weir_values values, uint32_t tiles)
{
	struct prng r;
	static uint8_t record[RECORD_MAX];
	const size_t n = (size_t)tiles * CODEC_TILE;
	float *x = malloc(n * sizeof *x), threshold;
	double error = 0, all = 0;
	weir_error err = {0};
	assert_non_null(x);
	prng_seed(&r, 5);
	distribution_draw(d, &r, x, n);
	assert_int_equal(topk_threshold(x, n, n / 100, &threshold, &err), WEIR_OK);
	for (size_t i = 0; i < n; i++)
		all += fabsf(x[i]) >= threshold ? (double)x[i] * (double)x[i] : 0;
	for (size_t at = 0; at < n; at += CODEC_TILE) {
		uint32_t selected;
		uint16_t offsets[TOPK_TILE_COUNT_MAX];
		float sent[TOPK_TILE_COUNT_MAX];
		topk_encode(NULL, x + at, NULL, CODEC_TILE, threshold, values, record, &selected);
		const size_t count = topk_decode(record, CODEC_TILE, values, offsets, sent);
		for (size_t i = 0; i < count; i++)
			error += (double)x[at + offsets[i]] * (double)x[at + offsets[i]];
		assert_int_equal(count, selected);
	}
	free(x);
	return error / all;
}

static void errors_are_those_of_the_codes(void **state)
{
	(void)state;
	static const double most[][DISTRIBUTIONS] = {[WEIR_VALUES_INT8] = {1.3e-5, 2.1e-5, 4.5e-5},
	                                             [WEIR_VALUES_LOG4] = {3.8e-4, 1.1e-3, 3.6e-3},
	                                             [WEIR_VALUES_INT2] = {4.3e-3, 1.2e-2, 3.4e-2}};
	for (int d = 0; d < DISTRIBUTIONS; d++) {
		const double exact = error_of_values((enum distribution)d, WEIR_VALUES_FP32, 64);
		const double bf16 = error_of_values((enum distribution)d, WEIR_VALUES_BF16, 64);
		const double int8 = error_of_values((enum distribution)d, WEIR_VALUES_INT8, 64);
		const double log4 = error_of_values((enum distribution)d, WEIR_VALUES_LOG4, 64);
		const double int2 = error_of_values((enum distribution)d, WEIR_VALUES_INT2, 64);
		print_message("%s: relative squared error of bf16 %.2g, int8 %.2g, log4 %.2g, int2 %.2g\n", distribution_names[d], bf16,
		              int8, log4, int2);
		assert_true(exact == 0);
		assert_true(bf16 > 0 && bf16 < 4e-6);
		assert_true(int8 > 0 && int8 < most[WEIR_VALUES_INT8][d]);
		assert_true(log4 > int8 && log4 < most[WEIR_VALUES_LOG4][d]);
		assert_true(int2 > log4 && int2 < most[WEIR_VALUES_INT2][d]);
	}
}

int main(int argc, char **argv)
{
	seeds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : rounds(SEEDS);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_bytes_are_those_of_the_format),
	    cmocka_unit_test(every_variant_follows_the_definition),
	    cmocka_unit_test(accumulating_first_is_the_same),
	    cmocka_unit_test(a_tile_without_elements_is_a_header),
	    cmocka_unit_test(values_without_room_wait),
	    cmocka_unit_test(tiny_and_huge_numbers_stay_finite),
	    cmocka_unit_test(denormals_add_up),
	    cmocka_unit_test(errors_are_those_of_the_codes),
	};
	return cmocka_run_group_tests_name("topk", tests, NULL, NULL);
}
