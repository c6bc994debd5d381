/* Look-up, its gradient, distinct keys. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

struct bags {
	size_t count, unique, width, uses;
	uint32_t *offsets, *index;
	float *weight, *rows;
};

enum bag_kind { ONE_HOT, MULTI_HOT, MANY_HOT, ALL_ONE_ROW, ALL_EMPTY };

static struct bags random_bags(struct prng *rng, size_t count, size_t unique, size_t width, enum bag_kind kind)
{
	struct bags s = {.count = count, .unique = unique, .width = width};
	s.offsets = malloc((count + 1) * sizeof *s.offsets);
	s.offsets[0] = 0;
	for (size_t i = 0; i < count; i++) {
		const uint32_t most = kind == MANY_HOT ? 11 : 3;
		/* empty bags included */
		uint32_t size = kind == ONE_HOT ? 1 : kind == ALL_EMPTY ? 0 : (uint32_t)prng_below(rng, most + 1);
		s.offsets[i + 1] = s.offsets[i] + size;
	}
	s.uses = s.offsets[count];
	s.index = malloc((s.uses + 1) * sizeof *s.index);
	for (size_t i = 0; i < s.uses; i++)
		s.index[i] = kind == ALL_ONE_ROW ? (uint32_t)(unique - 1) : (uint32_t)prng_below(rng, unique);
	s.weight = random_floats(rng, s.uses, -2, 2);
	s.rows = random_floats(rng, unique * width, -1, 1);
	return s;
}

static void free_bags(struct bags *s)
{
	free(s->offsets);
	free(s->index);
	free(s->weight);
	free(s->rows);
}

static const size_t widths[] = {1, 2, 15, 16, 17, 33, 64};

/* A device adds longer rows in parts of this many uses. */
#define IN_ORDER_ON_DEVICE 256

static void check_rerun(struct backend *b, const struct bags *s, const float *weight, const float *dout, const float *drows)
{
	float *again = poisoned_floats(s->unique * s->width);
	b->ops->scatter_sum(b, again, s->unique, s->width, dout, s->offsets, s->index, weight, s->count, s->uses);
	check_same_bits("scatter_sum again", again, drows, s->unique * s->width);
	free(again);
}

static void check_pooling(struct backend *b, struct prng *rng, const struct bags *s, const float *weight)
{
	const size_t n = s->count * s->width, m = s->unique * s->width;
	float *out = poisoned_floats(n), *drows = poisoned_floats(m), *again = poisoned_floats(m),
	      *dout = random_floats(rng, n, -1, 1);
	double *want = calloc(n + 1, sizeof *want), *want_rows = calloc(m + 1, sizeof *want_rows);
	for (size_t bag = 0; bag < s->count; bag++)
		for (size_t u = s->offsets[bag]; u < s->offsets[bag + 1]; u++)
			for (size_t j = 0; j < s->width; j++) {
				double w = weight != NULL ? (double)weight[u] : 1;
				want[bag * s->width + j] += w * (double)s->rows[s->index[u] * s->width + j];
				want_rows[s->index[u] * s->width + j] += w * (double)dout[bag * s->width + j];
			}
	b->ops->gather_pool(b, out, s->rows, s->unique, s->width, s->offsets, s->index, weight, s->count);
	check_close("gather_pool", out, want, n, 1e-5, 1e-6);
	b->ops->scatter_sum(b, drows, s->unique, s->width, dout, s->offsets, s->index, weight, s->count, s->uses);
	check_close("scatter_sum", drows, want_rows, m, 2e-5, 1e-4);
	assert_true(isnan(out[n]) && isnan(drows[m]));
	struct backend *single = backend_cpu_create_with(cpu_variant_at(0), 1, NULL);
	single->ops->scatter_sum(single, again, s->unique, s->width, dout, s->offsets, s->index, weight, s->count, s->uses);
	if (is_cpu(b) || s->uses <= IN_ORDER_ON_DEVICE)
		check_same_bits("scatter_sum on one thread", again, drows, m); /* in order of use */
	check_rerun(b, s, weight, dout, drows);
	single->ops->destroy(single);
	free(out);
	free(drows);
	free(again);
	free(dout);
	free(want);
	free(want_rows);
}

static void try_pooling(struct backend *b, struct prng *rng)
{
	static const size_t counts[] = {0, 1, 5, 2500};
	for (int kind = ONE_HOT; kind <= ALL_EMPTY; kind++)
		for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
			for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
				struct bags s = random_bags(rng, counts[c], 1 + prng_below(rng, 300), widths[w], (enum bag_kind)kind);
				check_pooling(b, rng, &s, NULL);
				check_pooling(b, rng, &s, s.weight);
				free_bags(&s);
			}
}

/* Fields in turn are summed and take the largest. Rows of few values make ties, of which the first
 * use is chosen. */
static void check_max(struct backend *b, struct prng *rng, const struct bags *s, const float *weight)
{
	enum { FIELDS = 5 };
	static const uint32_t is_max[FIELDS] = {0, 1, 1, 0, 1};
	const size_t n = s->count * s->width, m = s->unique * s->width;
	float *out = random_floats(rng, n, -1, 1), *want = copy_floats(out, n), *drows = poisoned_floats(m),
	      *dout = random_floats(rng, n, -1, 1);
	uint32_t *chosen = malloc((n + 1) * sizeof *chosen), *want_chosen = malloc((n + 1) * sizeof *chosen);
	double *want_rows = calloc(m + 1, sizeof *want_rows);
	for (size_t i = 0; i < m; i++)
		s->rows[i] = (float)(int)(3 * s->rows[i]);
	for (size_t i = 0; i < n; i++) {
		const size_t bag = i / s->width, j = i % s->width;
		const uint32_t first = s->offsets[bag], last = s->offsets[bag + 1];
		want_chosen[i] = is_max[bag % FIELDS] ? first : POOL_ALL;
		if (is_max[bag % FIELDS] && first == last)
			want[i] = 0;
		for (uint32_t u = first; u < last; u++) {
			const float x = s->rows[s->index[u] * s->width + j];
			if (is_max[bag % FIELDS] && (u == first || x > want[i])) {
				want[i] = x;
				want_chosen[i] = u;
			}
		}
		for (uint32_t u = first; u < last; u++)
			if (want_chosen[i] == POOL_ALL || want_chosen[i] == u)
				want_rows[s->index[u] * s->width + j] +=
				    (double)dout[i] * (weight && want_chosen[i] == POOL_ALL ? (double)weight[u] : 1);
	}
	b->ops->gather_max(b, out, chosen, s->rows, s->width, s->offsets, s->index, is_max, FIELDS, s->count);
	check_same_bits("gather_max", out, want, n);
	assert_memory_equal(chosen, want_chosen, n * sizeof *chosen);
	b->ops->scatter_chosen(b, drows, s->unique, s->width, dout, chosen, s->offsets, s->index, weight, s->count, s->uses);
	check_close("scatter_chosen", drows, want_rows, m, 2e-5, 1e-4);
	assert_true(isnan(drows[m]));
	free(out);
	free(want);
	free(drows);
	free(dout);
	free(chosen);
	free(want_chosen);
	free(want_rows);
}

static void try_max_pooling(struct backend *b, struct prng *rng)
{
	static const size_t counts[] = {0, 5, 2500};
	for (int kind = ONE_HOT; kind <= ALL_EMPTY; kind++)
		for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
			for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
				struct bags s = random_bags(rng, counts[c], 1 + prng_below(rng, 300), widths[w], (enum bag_kind)kind);
				check_max(b, rng, &s, c % 2 ? NULL : s.weight);
				free_bags(&s);
			}
}

/* So many bags that a device gives several to a thread: the bits equal one thread's. */
static void try_many_bags(struct backend *b, struct prng *rng)
{
	static const size_t sizes[][2] = {{175003, 3}, {132003, 16}}; /* bags, width */
	struct backend *single = backend_cpu_create_with(cpu_variant_at(0), 1, NULL);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct bags s = random_bags(rng, sizes[i][0], 1000, sizes[i][1], MULTI_HOT);
		const float *weight = i == 0 ? s.weight : NULL;
		const size_t n = s.count * s.width;
		float *out = poisoned_floats(n), *want = poisoned_floats(n);
		b->ops->gather_pool(b, out, s.rows, s.unique, s.width, s.offsets, s.index, weight, s.count);
		single->ops->gather_pool(single, want, s.rows, s.unique, s.width, s.offsets, s.index, weight, s.count);
		check_same_bits("gather_pool of many bags", out, want, n);
		assert_true(isnan(out[n]));
		free(out);
		free(want);
		free_bags(&s);
	}
	single->ops->destroy(single);
}

/* A row with a hundred thousand uses, and rows with about as many uses as a device adds in one
 * run. */
static void try_a_popular_row(struct backend *b, struct prng *rng)
{
	enum { POPULAR = 100000 };
	static const uint32_t uses_of[] = {POPULAR, 0, 1, 255, 256, 257, 511, 512, 513, 3};
	enum { UNIQUE = sizeof uses_of / sizeof *uses_of, WIDTH = 8 };
	struct bags s = {.unique = UNIQUE, .width = WIDTH};
	for (size_t r = 0; r < UNIQUE; r++)
		s.count += uses_of[r];
	s.uses = s.count;
	s.offsets = malloc((s.count + 1) * sizeof *s.offsets);
	s.index = malloc(s.uses * sizeof *s.index);
	for (size_t i = 0; i <= s.count; i++)
		s.offsets[i] = (uint32_t)i;
	for (size_t r = 0, i = 0; r < UNIQUE; r++)
		for (size_t u = 0; u < uses_of[r]; u++)
			s.index[i++] = (uint32_t)r;
	for (size_t i = s.uses; i > 1; i--) { /* in any order */
		const size_t other = prng_below(rng, i);
		const uint32_t kept = s.index[i - 1];
		s.index[i - 1] = s.index[other];
		s.index[other] = kept;
	}
	s.weight = random_floats(rng, s.uses, 0, 2);
	s.rows = random_floats(rng, s.unique * s.width, -1, 1);
	float *dout = random_floats(rng, s.count * WIDTH, 0, 1), *drows = poisoned_floats(UNIQUE * WIDTH);
	double want[UNIQUE * WIDTH] = {0};
	for (size_t i = 0; i < s.count; i++)
		for (size_t j = 0; j < WIDTH; j++)
			want[s.index[i] * WIDTH + j] += (double)s.weight[i] * (double)dout[i * WIDTH + j];
	b->ops->scatter_sum(b, drows, UNIQUE, WIDTH, dout, s.offsets, s.index, s.weight, s.count, s.uses);
	check_close("a popular row", drows, want, UNIQUE * WIDTH, 1e-4, 0);
	check_rerun(b, &s, s.weight, dout, drows);
	free_bags(&s);
	free(dout);
	free(drows);
}

/* NaN and infinity stay in the bags that use them. Uses before the first bag belong to no bag. */
static void try_ends(struct backend *b, struct prng *rng)
{
	(void)rng;
	enum { WIDTH = 4, BAGS = 3, UNIQUE = 4 };
	const uint32_t offsets[BAGS + 1] = {2, 3, 3, 5}, index[] = {0, 0, 1, 2, 3};
	const float weight[] = {NAN, NAN, 1, INFINITY, 1};
	const float rows[UNIQUE * WIDTH] = {1, 1, 1, 1, 2, NAN, 2, 2, 0, 1, 1, -1, 4, 4, -INFINITY, 4};
	float out[BAGS * WIDTH], drows[UNIQUE * WIDTH];
	b->ops->gather_pool(b, out, rows, UNIQUE, WIDTH, offsets, index, weight, BAGS);
	assert_true(out[0] == 2 && isnan(out[1]) && out[2] == 2 && out[3] == 2);
	for (size_t j = 0; j < WIDTH; j++)
		assert_true(out[WIDTH + j] == 0);
	/* inf * 0 and inf - inf */
	assert_true(isnan(out[8]) && out[9] == INFINITY && isnan(out[10]) && out[11] == -INFINITY);
	const float dout[BAGS * WIDTH] = {1, 2, 3, 4, NAN, NAN, NAN, NAN, 1, 0, -1, 1};
	const uint32_t from_zero[BAGS + 1] = {0, 1, 1, 3};
	b->ops->scatter_sum(b, drows, UNIQUE, WIDTH, dout, from_zero, index + 2, weight + 2, BAGS, 3);
	for (size_t j = 0; j < WIDTH; j++) {
		assert_true(drows[j] == 0); /* unused */
		assert_true(drows[WIDTH + j] == dout[j] && drows[3 * WIDTH + j] == dout[2 * WIDTH + j]);
	}
	assert_true(drows[8] == INFINITY && isnan(drows[9]) && drows[10] == -INFINITY && drows[11] == INFINITY);
}

/* n of the numbers below `most`, distinct, in any order. */
static uint32_t *some_of(struct prng *rng, size_t n, size_t most)
{
	uint32_t *all = malloc((most + 1) * sizeof *all);
	for (size_t i = 0; i < most; i++)
		all[i] = (uint32_t)i;
	for (size_t i = 0; i < n; i++) {
		const size_t other = i + prng_below(rng, most - i);
		const uint32_t kept = all[i];
		all[i] = all[other];
		all[other] = kept;
	}
	return all;
}

/* Copies rows of any bits, and writes nothing beside them. */
static void check_copy(struct backend *b, struct prng *rng, size_t n, size_t width, bool to_some, bool from_some)
{
	const size_t out_rows = n + 1 + prng_below(rng, n + 1), in_rows = n + prng_below(rng, n + 1) + 1;
	uint32_t *to = to_some ? some_of(rng, n, out_rows) : NULL, *from = from_some ? malloc((n + 1) * sizeof *from) : NULL;
	float *in = poisoned_floats(in_rows * width), *out = random_floats(rng, out_rows * width, -1, 1);
	for (size_t i = 0; i < n && from_some; i++)
		from[i] = (uint32_t)prng_below(rng, in_rows); /* a row may be copied twice */
	for (size_t i = 0; i < in_rows * width; i++) {
		const uint32_t bits = (uint32_t)prng_u64(rng);
		memcpy(&in[i], &bits, sizeof bits);
	}
	float *want = copy_floats(out, out_rows * width);
	for (size_t i = 0; i < n; i++)
		memcpy(want + (to_some ? to[i] : i) * width, in + (from_some ? from[i] : i) * width, width * sizeof *want);
	b->ops->copy_rows(b, out, to, in, from, width, n);
	check_same_bits("copy_rows", out, want, out_rows * width);
	free(to);
	free(from);
	free(in);
	free(out);
	free(want);
}

static void try_copying_rows(struct backend *b, struct prng *rng)
{
	static const size_t counts[] = {0, 1, 5, 2500};
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
		for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
			for (unsigned which = 0; which < 4; which++)
				check_copy(b, rng, counts[c], widths[w], which & 1, which & 2);
}

static void try_unique(struct backend *b, struct prng *rng)
{
	static const size_t counts[] = {0, 1, 2, 511, 512, 513, 20000, 100, 40000};
	static const uint64_t ranges[] = {1, 3, 1000, UINT64_MAX};
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
		for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
			const size_t n = counts[c];
			uint64_t *keys = malloc((n + 1) * sizeof *keys), *distinct = malloc((n + 1) * sizeof *distinct);
			uint32_t *index = malloc((n + 1) * sizeof *index);
			for (size_t i = 0; i < n; i++)
				keys[i] = prng_below(rng, ranges[r]); /* 0 is a valid key */
			const size_t count = b->ops->unique(b, keys, n, distinct, index);
			size_t seen = 0;
			for (size_t i = 0; i < n; i++) {
				assert_true(index[i] <= seen); /* order of first use */
				seen += index[i] == seen;
				assert_true(distinct[index[i]] == keys[i]);
			}
			assert_int_equal(count, seen);
			/* keys are distinct: looking them up again gives 0, 1, 2, ... */
			uint64_t *again = malloc((count + 1) * sizeof *again);
			assert_int_equal(b->ops->unique(b, distinct, count, again, index), count);
			assert_memory_equal(distinct, again, count * sizeof *again);
			free(keys);
			free(distinct);
			free(index);
			free(again);
		}
}

static void pooling_and_its_gradient_match_float64(void **state)
{
	(void)state;
	on_every_backend(61, try_pooling);
}

static void max_pooling_chooses_the_first_of_the_largest(void **state)
{
	(void)state;
	on_every_backend(67, try_max_pooling);
}

static void many_bags_are_pooled_in_order(void **state)
{
	(void)state;
	on_every_backend(66, try_many_bags);
}

static void a_popular_row_is_summed_whole(void **state)
{
	(void)state;
	on_every_backend(63, try_a_popular_row);
}

static void numbers_that_are_not_finite_stay_in_their_rows(void **state)
{
	(void)state;
	on_every_backend(64, try_ends);
}

static void rows_are_copied_bit_for_bit(void **state)
{
	(void)state;
	on_every_backend(65, try_copying_rows);
}

static void unique_keeps_the_order_of_first_use(void **state)
{
	(void)state;
	on_every_backend(62, try_unique);
}

static void unique_survives_its_stamp_running_over(void **state)
{
	(void)state;
	struct backend *b = backend_cpu_create(1, NULL);
	const uint64_t keys[] = {5, 6, 5};
	uint64_t distinct[3];
	uint32_t index[3];
	assert_int_equal(b->ops->unique(b, keys, 3, distinct, index), 2);
	((struct cpu_backend *)b)->table.stamp = UINT32_MAX;
	assert_int_equal(b->ops->unique(b, keys, 3, distinct, index), 2);
	assert_int_equal(b->ops->unique(b, keys + 1, 2, distinct, index), 2);
	assert_int_equal(distinct[0], 6);
	b->ops->destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pooling_and_its_gradient_match_float64),
	    cmocka_unit_test(max_pooling_chooses_the_first_of_the_largest),
	    cmocka_unit_test(a_popular_row_is_summed_whole),
	    cmocka_unit_test(many_bags_are_pooled_in_order),
	    cmocka_unit_test(numbers_that_are_not_finite_stay_in_their_rows),
	    cmocka_unit_test(unique_keeps_the_order_of_first_use),
	    cmocka_unit_test(unique_survives_its_stamp_running_over),
	    cmocka_unit_test(rows_are_copied_bit_for_bit),
	};
	return cmocka_run_group_tests_name("embedding", tests, NULL, NULL);
}
