/* Code books: their values, and that a fitted book has at most the error of any other on the data
 * that it fits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/book.h"
#include "tests/bench/codec/reference.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_codec.h"

#define N ((size_t)1 << 18)

static void check_book(const float *book)
{
	bool zero = false;
	assert_true(book[0] == -1);
	assert_true(book[CODEC_BOOK - 1] == 1);
	for (size_t i = 1; i < CODEC_BOOK; i++) {
		if (!(book[i - 1] < book[i]))
			fail_msg("value %zu is %a, the one before it %a", i, (double)book[i], (double)book[i - 1]);
		zero |= book[i] == 0;
	}
	assert_true(zero);
}

static void known_books_rise_from_minus_one_to_one(void **state)
{
	(void)state;
	check_book(book_known(WEIR_BOOK_NF4));
	check_book(book_known(WEIR_BOOK_LOG));
	assert_null(book_known(WEIR_BOOK_SEGMENTED));
	assert_true(book_known(WEIR_BOOK_NF4)[8] == 0.07958029955625534f);
	assert_true(book_known(WEIR_BOOK_LOG)[6] == -0x1p-6f);
	assert_true(book_known(WEIR_BOOK_LOG)[8] == 0x1p-7f);
}

static double error_with(const float *book, const float *x, size_t n)
{
	return coded_error(&(struct coding){.codec = WEIR_CODEC_INT4, .book = book}, x, n);
}

/* Numbers around a few values far from those of NF4. */
static void fill_lumps(float *x, size_t n)
{
	static const float lumps[5] = {-1, -0.11f, 0.05f, 0.052f, 0.6f};
	struct prng rng;
	prng_seed(&rng, 63);
	for (size_t i = 0; i < n; i++)
		x[i] = lumps[prng_below(&rng, 5)] + 0.004f * (float)prng_unit(&rng);
}

static void a_fitted_book_is_better_than_those_that_are_known(void **state)
{
	(void)state;
	/* the remaining share of NF4's error, at most */
	static const double left[DISTRIBUTIONS + 2] = {1, 0.97, 1, 0.97, 0.1};
	float *x = malloc(N * sizeof *x), book[CODEC_BOOK];
	for (int kind = 0; kind < DISTRIBUTIONS + 2; kind++) {
		if (kind < DISTRIBUTIONS)
			distribution_fill((enum distribution)kind, 61, x, N);
		else if (kind == DISTRIBUTIONS)
			for (size_t i = 0; i < N; i++)
				x[i] = (float)(i * 40503 % 65536) / 65536 - 0.5f; /* uniform */
		else
			fill_lumps(x, N);
		book_fit(x, N, book);
		check_book(book);
		double fitted = error_with(book, x, N), nf4 = error_with(book_known(WEIR_BOOK_NF4), x, N),
		       powers = error_with(book_known(WEIR_BOOK_LOG), x, N);
		if (!(fitted <= left[kind] * nf4 && fitted <= powers))
			fail_msg("distribution %d: fitted %g, nf4 %g, log %g", kind, fitted, nf4, powers);
	}
	free(x);
}

/* book_fit samples the blocks of many numbers; on a part its book is within 2 % of the best. */
static void a_sample_of_blocks_is_enough(void **state)
{
	(void)state;
	const size_t many = (size_t)3 << 20;
	float *x = malloc(many * sizeof *x), all[CODEC_BOOK], part[CODEC_BOOK];
	distribution_fill(DIST_LAPLACE, 62, x, many);
	book_fit(x, many, all);
	book_fit(x, N, part);
	double a = error_with(all, x, N), b = error_with(part, x, N);
	if (!(a <= 1.02 * b))
		fail_msg("fitted to all %g, to the part itself %g", a, b);
	free(x);
}

static void anything_gives_a_book(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 64);
	static const size_t sizes[] = {0, 1, 2, 63, 64, 65, 1000};
	for (int kind = 0; kind < INPUTS; kind++)
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
			float *x = inputs_make((enum inputs)kind, &rng, sizes[s]), book[CODEC_BOOK];
			book_fit(x, sizes[s], book);
			check_book(book);
			free(x);
		}
	/* two adjacent floats */
	float x[64], book[CODEC_BOOK];
	for (size_t i = 0; i < 64; i++)
		x[i] = i % 3 == 0 ? 0.25f : nextafterf(0.25f, i % 3 == 1 ? 0 : 1);
	x[0] = 1;
	book_fit(x, 64, book);
	check_book(book);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(known_books_rise_from_minus_one_to_one),
	    cmocka_unit_test(a_fitted_book_is_better_than_those_that_are_known),
	    cmocka_unit_test(a_sample_of_blocks_is_enough),
	    cmocka_unit_test(anything_gives_a_book),
	};
	return cmocka_run_group_tests_name("book", tests, NULL, NULL);
}
