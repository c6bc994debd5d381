/* Sampling: candidates against computed probabilities, draws against them by frequency, and
 * repeatable draws. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/model/sampling.h"

#define TOKENS 7
#define DRAWS  40000

/* In order of probability: 4 (0.4), 1 and 6 (0.2 each), 0 (0.1), 2, 3, 5. */
static const double shares[TOKENS] = {0.1, 0.2, 0.05, 0.03, 0.4, 0.02, 0.2};
static const uint32_t order[TOKENS] = {4, 1, 6, 0, 2, 3, 5};

static void logits_of(double temperature, float logits[TOKENS])
{
	for (size_t i = 0; i < TOKENS; i++)
		logits[i] = (float)(log(shares[i]) * temperature + 3.5);
}

static struct sampler *sampler_of(double temperature, double top_p, uint32_t top_k)
{
	struct sampler *s;
	weir_error err = {0};
	assert_int_equal(sampler_create(&s, TOKENS, &(struct sampling){temperature, top_p, top_k}, &err), WEIR_OK);
	return s;
}

static void candidates_are_the_likeliest_that_add_up(void **state)
{
	(void)state;
	static const struct {
		double temperature, top_p;
		uint32_t top_k, count;
	} cases[] = {{1, 1, 0, 7},    {0.5, 1, 0, 7}, {2, 1, 3, 3},    {1, 0.39, 0, 1},     {1, 0.5, 0, 2}, {1, 0.75, 0, 3},
	             {1, 0.92, 0, 5}, {1, 0.6, 3, 2}, {1, 1e-9, 0, 1}, {1, 0.999999, 0, 7}, {0, 0.5, 3, 1}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sampler *s = sampler_of(cases[i].temperature, cases[i].top_p, cases[i].top_k);
		float logits[TOKENS];
		uint32_t count;
		double all = 0;
		logits_of(cases[i].temperature > 0 ? cases[i].temperature : 1, logits);
		const struct sampled *got = sampler_candidates(s, logits, &count);
		assert_int_equal(count, cases[i].count);
		for (uint32_t k = 0; k < count; k++)
			all += shares[order[k]];
		for (uint32_t k = 0; k < count; k++) {
			assert_int_equal(got[k].token, order[k]);
			assert_true(fabs(got[k].probability - shares[order[k]] / all) < 1e-6);
		}
		sampler_destroy(s);
	}
}

static void draws_have_their_probabilities(void **state)
{
	(void)state;
	/* the five likeliest tokens, 0.95 in sum, are left */
	struct sampler *s = sampler_of(0.7, 0.92, 0);
	float logits[TOKENS];
	uint32_t seen[TOKENS] = {0}, first[TOKENS] = {0}, token;
	weir_error err = {0};
	logits_of(0.7, logits);
	for (int run = 0; run < 2; run++) {
		struct prng rng;
		prng_seed(&rng, 17);
		for (size_t i = 0; i < DRAWS; i++) {
			assert_int_equal(sampler_draw(s, logits, &rng, &token, &err), WEIR_OK);
			(run == 0 ? first : seen)[token]++;
		}
	}
	for (size_t i = 0; i < TOKENS; i++) {
		const double p = shares[i] < 0.05 ? 0 : shares[i] / 0.95;
		assert_int_equal(seen[i], first[i]); /* with the same seed */
		assert_true(fabs(seen[i] / (double)DRAWS - p) <= 5 * sqrt(p * (1 - p) / DRAWS));
	}
	sampler_destroy(s);
}

static void the_likeliest_is_taken_and_what_is_no_number_refused(void **state)
{
	(void)state;
	float logits[TOKENS];
	uint32_t token;
	struct prng rng;
	weir_error err = {0};
	prng_seed(&rng, 1);
	logits_of(1, logits);
	logits[6] = logits[4]; /* of equal logits the first */
	struct sampler *s = sampler_of(0, 1, 0);
	assert_int_equal(sampler_draw(s, logits, &rng, &token, &err), WEIR_OK);
	assert_int_equal(token, 4);
	const float odd[] = {NAN, INFINITY};
	for (int i = 0; i < 4; i++) { /* the most likely token and a random one */
		struct sampler *one = sampler_of(i / 2, 1, 0);
		logits[5] = odd[i % 2];
		assert_int_equal(sampler_draw(one, logits, &rng, &token, &err), WEIR_E_CORRUPT);
		sampler_destroy(one);
	}
	logits[5] = -INFINITY; /* an impossible token is a valid input */
	assert_int_equal(sampler_draw(s, logits, &rng, &token, &err), WEIR_OK);
	sampler_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(candidates_are_the_likeliest_that_add_up),
	                                   cmocka_unit_test(draws_have_their_probabilities),
	                                   cmocka_unit_test(the_likeliest_is_taken_and_what_is_no_number_refused)};
	return cmocka_run_group_tests_name("sampling", tests, NULL, NULL);
}
