/* Fixed outputs, uniformity, the normal distribution's moments and quantiles, permutations. */
#include "common/base/prng.h"

#include <math.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

/* Runs must be repeatable, so the seeding and xoshiro's step can never change. */
static void the_stream_of_a_seed_is_fixed(void **state)
{
	(void)state;
	/* xoshiro256++ from state {1, 2, 3, 4}: the first outputs of the authors' code. */
	struct prng r = {{1, 2, 3, 4}};
	static const uint64_t want[] = {41943041ull, 58720359ull, 3588806011781223ull, 3591011842654386ull, 9228616714210784205ull};
	for (int i = 0; i < 5; i++)
		assert_true(prng_u64(&r) == want[i]);
	/* splitmix64 from 0. */
	prng_seed(&r, 0);
	assert_true(r.s[0] == 0xe220a8397b1dcdafull);
	assert_true(r.s[1] == 0x6e789e6aa1b965f4ull);
}

static void below_is_uniform(void **state)
{
	(void)state;
	enum { BOUND = 7, N = 70000 };
	struct prng r;
	prng_seed(&r, 1);
	int counts[BOUND] = {0};
	for (int i = 0; i < N; i++) {
		uint64_t v = prng_below(&r, BOUND);
		assert_true(v < BOUND);
		counts[v]++;
	}
	double chi2 = 0;
	for (int i = 0; i < BOUND; i++) {
		double d = counts[i] - (double)N / BOUND;
		chi2 += d * d / ((double)N / BOUND);
	}
	assert_true(chi2 < 22.5); /* 6 degrees of freedom: p 0.001 */
	assert_true(prng_below(&r, 1) == 0);
	for (int i = 0; i < 100; i++)
		assert_true(prng_below(&r, UINT64_MAX) < UINT64_MAX);
}

static void unit_lies_in_its_interval(void **state)
{
	(void)state;
	struct prng r;
	prng_seed(&r, 2);
	double sum = 0;
	for (int i = 0; i < 100000; i++) {
		double u = prng_unit(&r);
		assert_true(u >= 0 && u < 1);
		sum += u;
	}
	assert_true(fabs(sum / 100000 - 0.5) < 0.005);
}

static void normals_have_the_right_moments(void **state)
{
	(void)state;
	enum { N = 1000000 };
	struct prng r;
	prng_seed(&r, 3);
	double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
	for (int i = 0; i < N; i++) {
		double z = (double)prng_normal(&r);
		m1 += z;
		m2 += z * z;
		m3 += z * z * z;
		m4 += z * z * z * z;
	}
	/* Four standard errors each: 1, sqrt 2, sqrt 15, sqrt 96 over sqrt N. */
	assert_true(fabs(m1 / N) < 4 * 1e-3);
	assert_true(fabs(m2 / N - 1) < 4 * 1.4143e-3);
	assert_true(fabs(m3 / N) < 4 * 3.873e-3);
	assert_true(fabs(m4 / N - 3) < 4 * 9.798e-3);
}

static void normals_invert_the_distribution_function(void **state)
{
	(void)state;
	for (int i = 0; i <= 5200; i++) {
		/* Down to 2^-53 from either end, in both tails. */
		double p = i < 4000 ? (i + 0.5) / 8000 : ldexp(0.77, -(i - 3999) / 24 - 1);
		uint64_t step = (uint64_t)(p * 0x1p52);
		double exact = ((double)step + 0.5) * 0x1p-52;
		double z = (double)prng_normal_from(step << 12);
		double back = 0.5 * erfc(-z / sqrt(2));
		double density = exp(-z * z / 2) / sqrt(2 * 3.14159265358979);
		if (fabs(back - exact) / density > 1e-6 * (1 + fabs(z)))
			fail_msg("z %.9g for p %.9g: off by %.3g", z, exact, (back - exact) / density);
		double mirrored = (double)prng_normal_from((((uint64_t)1 << 52) - 1 - step) << 12);
		assert_true(mirrored == -z);
	}
	assert_true(isfinite(prng_normal_from(0)) && isfinite(prng_normal_from(UINT64_MAX)));
	assert_true(prng_normal_from(0) < -8 && prng_normal_from(UINT64_MAX) > 8);
}

static void mix_spreads_every_input_bit(void **state)
{
	(void)state;
	uint64_t base = prng_mix(11, 22, 33);
	assert_true(prng_mix(11, 33, 22) != base);
	double flips = 0;
	for (int bit = 0; bit < 64; bit++) {
		uint64_t one = 1ull << bit;
		flips += __builtin_popcountll(prng_mix(11 ^ one, 22, 33) ^ base) +
		         __builtin_popcountll(prng_mix(11, 22 ^ one, 33) ^ base) +
		         __builtin_popcountll(prng_mix(11, 22, 33 ^ one) ^ base);
	}
	assert_true(fabs(flips / 192 - 32) < 1.5);
}

static void permute_is_a_bijection(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {1, 2, 3, 4, 5, 10, 16, 17, 255, 256, 257, 1000, 65537};
	for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
		uint64_t n = sizes[k];
		for (uint64_t seed = 0; seed < 3; seed++) {
			uint8_t *seen = calloc(n, 1);
			for (uint64_t i = 0; i < n; i++) {
				uint64_t to = prng_permute(seed, n, i);
				assert_true(to < n);
				assert_int_equal(seen[to], 0);
				seen[to] = 1;
			}
			free(seen);
		}
	}
	assert_true(prng_permute(1, UINT64_C(1) << 63, 12345) < UINT64_C(1) << 63);
	assert_true(prng_permute(1, UINT64_MAX, 12345) < UINT64_MAX);
}

static void permute_depends_on_the_seed_and_scatters(void **state)
{
	(void)state;
	enum { N = 1000 };
	int fixed = 0, same = 0, next = 0;
	for (uint64_t i = 0; i < N; i++) {
		uint64_t to = prng_permute(1, N, i);
		fixed += to == i;
		same += to == prng_permute(2, N, i);
		next += i > 0 && to == prng_permute(1, N, i - 1) + 1;
	}
	assert_true(fixed < 10 && same < 10 && next < 10); /* the expected count is about one each */
}

static void entropy_differs(void **state)
{
	(void)state;
	struct entropy *e = entropy_system();
	assert_true(e->ops->u64(e) != e->ops->u64(e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_stream_of_a_seed_is_fixed),
	    cmocka_unit_test(below_is_uniform),
	    cmocka_unit_test(unit_lies_in_its_interval),
	    cmocka_unit_test(normals_have_the_right_moments),
	    cmocka_unit_test(normals_invert_the_distribution_function),
	    cmocka_unit_test(mix_spreads_every_input_bit),
	    cmocka_unit_test(permute_is_a_bijection),
	    cmocka_unit_test(permute_depends_on_the_seed_and_scatters),
	    cmocka_unit_test(entropy_differs),
	};
	return cmocka_run_group_tests_name("prng", tests, NULL, NULL);
}
