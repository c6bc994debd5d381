/* Look-up, its gradient, and distinct keys. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check_backend.h"

struct bags {
	size_t count, unique, width, uses;
	uint32_t *offsets, *index;
	float *weight, *rows;
};

enum bag_kind { ONE_HOT, MULTI_HOT, ALL_ONE_ROW, ALL_EMPTY };

static struct bags random_bags(struct prng *rng, size_t count, size_t unique, size_t width, enum bag_kind kind)
{
	struct bags s = {.count = count, .unique = unique, .width = width};
	s.offsets = malloc((count + 1) * sizeof *s.offsets);
	s.offsets[0] = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t size = kind == ONE_HOT ? 1 : kind == ALL_EMPTY ? 0 : (uint32_t)prng_below(rng, 4); /* with empty bags */
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

/* A device adds longer rows in parts of so many uses. */
#define IN_ORDER_ON_DEVICE 256

static void check_rerun(struct backend *b, const struct bags *s, const float *weight, const float *dout, const float *drows)
{
	float *again = poisoned_floats(s->unique * s->width);
	b->ops->scatter_sum(b, again, s->unique, s->width, dout, s->offsets, s->index, weight, s->count);
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
	b->ops->scatter_sum(b, drows, s->unique, s->width, dout, s->offsets, s->index, weight, s->count);
	check_close("scatter_sum", drows, want_rows, m, 2e-5, 1e-4);
	assert_true(isnan(out[n]) && isnan(drows[m]));
	struct backend *single = backend_cpu_create_with(cpu_variant_at(0), 1, NULL);
	single->ops->scatter_sum(single, again, s->unique, s->width, dout, s->offsets, s->index, weight, s->count);
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

static void try_unique(struct backend *b, struct prng *rng)
{
	static const size_t counts[] = {0, 1, 2, 511, 512, 513, 20000, 100, 70000};
	static const uint64_t ranges[] = {1, 3, 1000, UINT64_MAX};
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
		for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
			const size_t n = counts[c];
			uint64_t *keys = malloc((n + 1) * sizeof *keys), *distinct = malloc((n + 1) * sizeof *distinct);
			uint32_t *index = malloc((n + 1) * sizeof *index);
			for (size_t i = 0; i < n; i++)
				keys[i] = prng_below(rng, ranges[r]); /* 0 is a key like any other */
			const size_t count = b->ops->unique(b, keys, n, distinct, index);
			size_t seen = 0;
			for (size_t i = 0; i < n; i++) {
				assert_true(index[i] <= seen); /* order of first use */
				seen += index[i] == seen;
				assert_true(distinct[index[i]] == keys[i]);
			}
			assert_int_equal(count, seen);
			/* no key twice: looking them up again gives 0, 1, 2, ... */
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
	    cmocka_unit_test(unique_keeps_the_order_of_first_use),
	    cmocka_unit_test(unique_survives_its_stamp_running_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
