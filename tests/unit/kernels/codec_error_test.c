/* Coding errors: within a tenth of their float64 definitions; and the effect of error feedback. */
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

#define N         ((size_t)1 << 18)
#define TOLERANCE 1.1

static void no_codec_leaves_out_more_than_its_definition(void **state)
{
	(void)state;
	float *x = malloc(N * sizeof *x);
	for (int kind = 0; kind < DISTRIBUTIONS; kind++) {
		distribution_fill((enum distribution)kind, 51, x, N);
		struct coding c;
		const char *name;
		for (unsigned i = 0; coding_at(i, &c, &name); i++) {
			double got = coded_error(&c, x, N), want = reference_error(&c, x, N);
			if (!(got <= TOLERANCE * want && got >= want / TOLERANCE))
				fail_msg("%s, %s: relative squared error %g, of the definition %g", name, distribution_names[kind], got, want);
		}
	}
	free(x);
}

static void int8_and_nf4_reach_the_figures_of_the_field(void **state)
{
	(void)state;
	static const double int8[2] = {5e-5, 1e-4}, nf4[2] = {.0085, .011};
	const struct coding i8 = {.codec = WEIR_CODEC_INT8}, i4 = {.codec = WEIR_CODEC_INT4, .book = book_known(WEIR_BOOK_NF4)};
	float *x = malloc(N * sizeof *x);
	for (int kind = DIST_NORMAL; kind <= DIST_LAPLACE; kind++) {
		distribution_fill((enum distribution)kind, 52, x, N);
		double e8 = coded_error(&i8, x, N), e4 = coded_error(&i4, x, N);
		if (!(e8 <= TOLERANCE * int8[kind] && e4 <= TOLERANCE * nf4[kind]))
			fail_msg("%s: int8 %g, figure %g; nf4 %g, figure %g", distribution_names[kind], e8, int8[kind], e4, nf4[kind]);
	}
	free(x);
}

static double ulp_of(float x)
{
	return (double)nextafterf(fabsf(x), INFINITY) - fabs((double)x);
}

/* The decoded number and the residual sum to the input, except for the last bit. */
static void decoded_values_and_residuals_add_up(void **state)
{
	(void)state;
	enum { M = 20001 };
	struct prng rng;
	prng_seed(&rng, 53);
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++)
		for (int kind = NORMAL; kind < TINY; kind++) {
			float *x = inputs_make((enum inputs)kind, &rng, M), *residual = inputs_make((enum inputs)kind, &rng, M);
			float *acc = malloc(M * sizeof *acc), *back = malloc(M * sizeof *back);
			uint8_t *wire = malloc(codec_bytes(c.codec, M));
			for (size_t j = 0; j < M; j++)
				acc[j] = x[j] + residual[j];
			codec_encode(&c, x, residual, M, wire);
			codec_decode(&c, wire, M, back);
			for (size_t j = 0; j < M; j++) {
				double sum = (double)back[j] + (double)residual[j];
				float most = fmaxf(fabsf(acc[j]), fmaxf(fabsf(back[j]), fabsf(residual[j])));
				if (!(fabs(sum - (double)acc[j]) <=
				      ulp_of(c.codec == WEIR_CODEC_SIGN || c.codec == WEIR_CODEC_INT2 ? most : acc[j])))
					fail_msg("%s of %s: %a became %a and %a", name, inputs_name((enum inputs)kind), (double)acc[j],
					         (double)back[j], (double)residual[j]);
			}
			free(x);
			free(residual);
			free(acc);
			free(back);
			free(wire);
		}
}

/* Over many pushes the sum arrives: the difference is the last residual, for any codec. */
static void with_feedback_the_sum_of_many_pushes_arrives(void **state)
{
	(void)state;
	enum { M = 3000, PUSHES = 200 };
	struct prng rng;
	prng_seed(&rng, 54);
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++) {
		float *residual = calloc(M, sizeof *residual), *back = malloc(M * sizeof *back);
		double *want = calloc(M, sizeof *want), *got = calloc(M, sizeof *got);
		uint8_t *wire = malloc(codec_bytes(c.codec, M));
		for (unsigned p = 0; p < PUSHES; p++) {
			float *x = inputs_make(NORMAL, &rng, M);
			codec_encode(&c, x, residual, M, wire);
			codec_decode(&c, wire, M, back);
			for (size_t j = 0; j < M; j++) {
				want[j] += (double)x[j];
				got[j] += (double)back[j];
			}
			free(x);
		}
		for (size_t j = 0; j < M; j++)
			if (!(fabs(want[j] - got[j] - (double)residual[j]) < 1e-4))
				fail_msg("%s: of %g arrived %g, and %g is left", name, want[j], got[j], (double)residual[j]);
		free(residual);
		free(back);
		free(want);
		free(got);
		free(wire);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_codec_leaves_out_more_than_its_definition),
	    cmocka_unit_test(int8_and_nf4_reach_the_figures_of_the_field),
	    cmocka_unit_test(decoded_values_and_residuals_add_up),
	    cmocka_unit_test(with_feedback_the_sum_of_many_pushes_arrives),
	};
	return cmocka_run_group_tests_name("codec_error", tests, NULL, NULL);
}
