/* Initial values: pure functions of their coordinates, with the promised distribution. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "kernels/init.h"
#include "kernels/vector.h"
#include "tests/unit/kernels/check.h"

enum { N = 200000 };

static void check_moments(const float *x, double mean, double deviation)
{
	double sum = 0, squares = 0;
	for (size_t i = 0; i < N; i++)
		sum += x[i];
	for (size_t i = 0; i < N; i++)
		squares += (x[i] - sum / N) * (x[i] - sum / N);
	/* four standard errors */
	double off = fabs(sum / N - mean), want = 4 * deviation / sqrt(N);
	if (off > want)
		fail_msg("the mean is off by %g, more than %g", off, want);
	if (fabs(sqrt(squares / N) / deviation - 1) > 4 / sqrt(2.0 * N))
		fail_msg("the deviation is %g, expected %g", sqrt(squares / N), deviation);
}

static void uniform_and_normal_have_their_moments(void **state)
{
	(void)state;
	float *x = poisoned_floats(N);
	const weir_init_segment uniform = {.elements = N, .kind = WEIR_INIT_UNIFORM, .a = 0.3f};
	init_dense(1, 2, &uniform, 1, 0, x, N);
	for (size_t i = 0; i < N; i++)
		assert_true(x[i] >= -0.3f && x[i] < 0.3f);
	check_moments(x, 0, 0.3 / sqrt(3));
	const weir_init_segment normal = {.elements = N, .kind = WEIR_INIT_NORMAL, .a = 0.01f};
	init_dense(1, 2, &normal, 1, 0, x, N);
	check_moments(x, 0, 0.01);
	size_t beyond_two = 0;
	for (size_t i = 0; i < N; i++)
		beyond_two += fabsf(x[i]) > 0.02f;
	assert_true(fabs((double)beyond_two / N - 0.0455) < 0.003);
	free(x);
}

static void rows_differ_by_seed_table_key_and_element(void **state)
{
	(void)state;
	const weir_init_segment normal = {.elements = 16, .kind = WEIR_INIT_NORMAL, .a = 1};
	float base[16], other[16];
	init_embedding_row(7, 1, 42, &normal, base, 16);
	init_embedding_row(7, 1, 42, &normal, other, 16);
	check_same_bits("again", other, base, 16);
	init_embedding_row(7, 1, 42, &normal, other, 9);
	check_same_bits("a prefix", other, base, 9);
	for (size_t i = 1; i < 16; i++)
		assert_true(base[i] != base[i - 1]);
	init_embedding_row(8, 1, 42, &normal, other, 16);
	assert_true(other[0] != base[0]);
	init_embedding_row(7, 2, 42, &normal, other, 16);
	assert_true(other[0] != base[0]);
	init_embedding_row(7, 1, 43, &normal, other, 16);
	assert_true(other[0] != base[0]);
}

/* Rows without a push are not stored anywhere, so their bits must never change. */
static void values_are_the_recorded_bits(void **state)
{
	(void)state;
	static const float normal_row[4] = {0x1.2ba81ep-11f, 0x1.415612p-9f, -0x1.c29ccap-9f, 0x1.2e8cf6p-11f};
	static const float uniform_part[4] = {-0x1.364a94p-5f, 0x1.602fdap-7f, 0x1.79aecep-5f, 0x1.d2df66p-7f};
	const weir_init_segment normal = {.elements = 4, .kind = WEIR_INIT_NORMAL, .a = 0.01f};
	const weir_init_segment uniform = {.elements = 1u << 20, .kind = WEIR_INIT_UNIFORM, .a = 0.05f};
	float got[4];
	init_embedding_row(1, 2, 3, &normal, got, 4);
	check_same_bits("normal", got, normal_row, 4);
	init_dense(1, 2, &uniform, 1, 65536, got, 4);
	check_same_bits("uniform", got, uniform_part, 4);
}

/* Every variant gives the bits of the scalar functions: in the middle, at both of its ends, far
 * outside, and for any number of elements. */
static void variants_have_the_same_bits(void **state)
{
	(void)state;
	enum { EACH = 1000 };
	static const uint64_t around[] = {0,         (uint64_t)(0.075 * 0x1p64), (uint64_t)(0.925 * 0x1p64), 1ull << 63, UINT64_MAX,
	                                  1ull << 30};
	uint64_t bits[EACH];
	float got[EACH], expected[EACH];
	const struct vector_ops *ops;
	for (unsigned v = 0; (ops = vector_ops_variant(v)); v++) {
		ops->mix(7, 100, 3, bits, EACH);
		for (uint64_t i = 0; i < EACH; i++)
			assert_true(bits[i] == prng_mix(7, 100 + i, 3));
		for (uint64_t i = 0; i < EACH / 2; i++)
			bits[i] = around[i % 6] + (i % 12 < 6 ? i << 12 : -(i << 12));
		for (size_t i = 0; i < EACH; i++)
			expected[i] = 0.25f * prng_normal_from(bits[i]);
		for (size_t n = 0; n <= EACH; n += n < 140 ? 1 : 172) {
			ops->normals(bits, 0.25f, got, n);
			check_same_bits(ops->name, got, expected, n);
		}
	}
}

static void rows_at_once_are_those_one_by_one(void **state)
{
	(void)state;
	enum { ROWS = 37, WIDTH_MAX = 70 };
	static const weir_init_segment segments[] = {
	    {.kind = WEIR_INIT_NORMAL, .a = 0.1f}, {.kind = WEIR_INIT_UNIFORM, .a = 0.1f}, {.kind = WEIR_INIT_CONSTANT, .a = 3}};
	uint64_t keys[ROWS];
	float got[ROWS * WIDTH_MAX], expected[WIDTH_MAX], *out[ROWS];
	for (size_t n = 0; n <= WIDTH_MAX; n++)
		for (size_t s = 0; s < sizeof segments / sizeof *segments; s++) {
			for (size_t i = 0; i < ROWS; i++) {
				keys[i] = i * i + n;
				out[i] = got + i * n;
			}
			init_embedding_rows(7, 1, keys, ROWS, &segments[s], out, n);
			for (size_t i = 0; i < ROWS; i++) {
				init_embedding_row(7, 1, keys[i], &segments[s], expected, n);
				check_same_bits("row", out[i], expected, n);
			}
		}
}

static void embedding_columns_are_not_correlated(void **state)
{
	(void)state;
	const weir_init_segment normal = {.elements = 2, .kind = WEIR_INIT_NORMAL, .a = 1};
	double product = 0, neighbour = 0;
	float before = 0;
	for (uint64_t key = 0; key < N; key++) {
		float row[2];
		init_embedding_row(3, 5, key, &normal, row, 2);
		product += row[0] * row[1];
		neighbour += row[0] * before;
		before = row[0];
	}
	assert_true(fabs(product / N) < 4 / sqrt(N));
	assert_true(fabs(neighbour / N) < 4 / sqrt(N));
}

/* Chunks are read one by one: any cut of the flat space gives the same numbers. */
static void a_dense_table_can_be_cut_anywhere(void **state)
{
	(void)state;
	const weir_init_segment segments[] = {{.elements = 100, .kind = WEIR_INIT_NORMAL, .a = 0.1f},
	                                      {.elements = 7, .kind = WEIR_INIT_ZERO},
	                                      {.elements = 1, .kind = WEIR_INIT_CONSTANT, .a = 3},
	                                      {.elements = 92, .kind = WEIR_INIT_UNIFORM, .a = 1}};
	float *whole = poisoned_floats(200);
	init_dense(9, 4, segments, 4, 0, whole, 200);
	for (size_t i = 100; i < 107; i++)
		assert_true(whole[i] == 0);
	assert_true(whole[107] == 3);
	for (size_t first = 0; first < 200; first += 13)
		for (size_t n = 0; first + n <= 200; n += 11) {
			float *part = poisoned_floats(n);
			init_dense(9, 4, segments, 4, first, part, n);
			check_same_bits("part", part, whole + first, n);
			assert_true(isnan(part[n]));
			free(part);
		}
	free(whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(uniform_and_normal_have_their_moments), cmocka_unit_test(rows_differ_by_seed_table_key_and_element),
	    cmocka_unit_test(values_are_the_recorded_bits),          cmocka_unit_test(embedding_columns_are_not_correlated),
	    cmocka_unit_test(a_dense_table_can_be_cut_anywhere),     cmocka_unit_test(variants_have_the_same_bits),
	    cmocka_unit_test(rows_at_once_are_those_one_by_one),
	};
	return cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
