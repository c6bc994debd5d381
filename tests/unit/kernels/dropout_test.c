/* Dropout: the rate, equal masks for equal seeds, independent masks for different seeds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

enum { N = 200001 };

static void drop(struct backend *b, float *x, size_t n, float p, uint64_t seed, uint64_t salt)
{
	b->ops->dropout(b, x, 0, n, p, &seed, salt);
}

static float *ones(void)
{
	float *x = malloc(N * sizeof *x);
	for (size_t i = 0; i < N; i++)
		x[i] = 1;
	return x;
}

static void try_share(struct backend *b, struct prng *rng)
{
	(void)rng;
	static const float rates[] = {0, 0.1f, 0.5f, 0.9f};
	for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
		float *x = ones(), *again = ones();
		size_t dropped = 0, pairs = 0;
		drop(b, x, N, rates[r], 99, 3);
		const float kept = (float)(1 / (1 - (double)rates[r]));
		for (size_t i = 0; i < N; i++) {
			assert_true(x[i] == 0 || x[i] == kept);
			dropped += x[i] == 0;
			pairs += i > 0 && x[i] == 0 && x[i - 1] == 0;
		}
		const double p = rates[r], share = (double)dropped / N, both = (double)pairs / N;
		assert_true(fabs(share - p) <= 4 * sqrt(p * (1 - p) / N));
		assert_true(fabs(both - p * p) <= 8 * sqrt(p / N)); /* neighbours are independent */
		struct backend *single = backend_cpu_create_with(cpu_variant_at(0), 1, NULL);
		drop(single, again, N, rates[r], 99, 3);
		check_same_bits("the same mask everywhere", again, x, N);
		single->ops->destroy(single);
		float *fewer = ones();
		drop(b, fewer, N - 1, rates[r], 99, 3); /* a length that vector code handles */
		check_same_bits("the same mask for fewer", fewer, x, N - 1);
		assert_true(fewer[N - 1] == 1);
		free(fewer);
		free(x);
		free(again);
	}
}

static void try_seeds(struct backend *b, struct prng *rng)
{
	(void)rng;
	/* masks of neighbouring seeds, or of neighbouring salts, agree on half of the elements */
	for (uint64_t seed = 0; seed < 8; seed++) {
		float *x = ones(), *y = ones();
		size_t equal = 0;
		drop(b, x, N, 0.5f, seed / 2, 7);
		drop(b, y, N, 0.5f, seed / 2 + seed % 2, 8 - seed % 2);
		for (size_t i = 0; i < N; i++)
			equal += x[i] == y[i];
		assert_true(fabs((double)equal / N - 0.5) <= 4 * 0.5 / sqrt(N));
		free(x);
		free(y);
	}
}

/* Parts of a mask equal the whole mask, on both sides of a seed boundary. */
static void try_parts(struct backend *b, struct prng *rng)
{
	enum { LENGTH = 20001 };
	(void)rng;
	const uint64_t seed = 5, begin = (1ull << 32) - 1003;
	float *whole = ones(), *parts = ones(), *other = ones();
	b->ops->dropout(b, whole, begin, LENGTH, 0.5f, &seed, 3);
	for (size_t at = 0, n = 1; at < LENGTH; at += n, n = 2 * n < LENGTH - at ? 2 * n : LENGTH - at)
		b->ops->dropout(b, parts + at, begin + at, n, 0.5f, &seed, 3);
	check_same_bits("in parts", parts, whole, LENGTH);
	b->ops->dropout(b, other, 0, LENGTH, 0.5f, &seed, 3);
	size_t equal = 0;
	for (size_t i = 0; i < LENGTH; i++)
		equal += other[i] == whole[i];
	assert_true(fabs((double)equal / LENGTH - 0.5) <= 4 * 0.5 / sqrt(LENGTH));
	free(whole);
	free(parts);
	free(other);
}

static void the_share_is_right_and_the_mask_repeats(void **state)
{
	(void)state;
	on_every_backend(91, try_share);
}

static void seeds_give_independent_masks(void **state)
{
	(void)state;
	on_every_backend(92, try_seeds);
}

static void parts_have_the_mask_of_the_whole(void **state)
{
	(void)state;
	on_every_backend(93, try_parts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_share_is_right_and_the_mask_repeats),
	    cmocka_unit_test(seeds_give_independent_masks),
	    cmocka_unit_test(parts_have_the_mask_of_the_whole),
	};
	return cmocka_run_group_tests_name("dropout", tests, NULL, NULL);
}
