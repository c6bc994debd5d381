/* Generator: xoshiro256++ (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators",
 * 2019), seeded by splitmix64 (Steele et al. 2014). Normals: the inverse distribution function
 * (Wichura 1988, AS 241 PPND7). Permutations: a Feistel network on the smallest even number of bits
 * that holds n, walked until it lands below n (Black and Rogaway, "Ciphers with Arbitrary Finite
 * Domains", 2002). The code uses only +, -, *, / and sqrt on doubles: IEEE 754 fixes their bits on
 * every machine. */
#include "common/base/prng.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/prng_mix.h"

#define FEISTEL_ROUNDS 6

static uint64_t rotate(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

void prng_seed(struct prng *r, uint64_t seed)
{
	for (uint64_t i = 0; i < 4; i++)
		r->s[i] = prng_avalanche(seed + (i + 1) * PRNG_GOLDEN);
}

uint64_t prng_u64(struct prng *r)
{
	uint64_t *s = r->s;
	uint64_t result = rotate(s[0] + s[3], 23) + s[0];
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return result;
}

/* Lemire, "Fast Random Integer Generation in an Interval" (2019): takes the high word of a product,
 * and rejects the low words that would cause bias. */
uint64_t prng_below(struct prng *r, uint64_t bound)
{
	assert(bound > 0);
	unsigned __int128 product = (unsigned __int128)prng_u64(r) * bound;
	if ((uint64_t)product < bound) {
		uint64_t threshold = -bound % bound;
		while ((uint64_t)product < threshold)
			product = (unsigned __int128)prng_u64(r) * bound;
	}
	return (uint64_t)(product >> 64);
}

double prng_unit(struct prng *r)
{
	return (double)(prng_u64(r) >> 11) * 0x1p-53;
}

float prng_normal(struct prng *r)
{
	return prng_normal_from(prng_u64(r));
}

uint64_t prng_mix(uint64_t seed, uint64_t a, uint64_t b)
{
	return prng_mix_of(seed, a, b);
}

/* Natural logarithm of 0 < x < 1, accurate to about 1e-12: x = m * 2^e with m in [sqrt(1/2),
 * sqrt(2)), log m = 2 atanh((m-1)/(m+1)). */
static double log_unit(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	int64_t exponent = (int64_t)(bits >> 52) - 1023;
	bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
	double m;
	memcpy(&m, &bits, sizeof m);
	if (m > 1.4142135623730951) {
		m *= 0.5;
		exponent++;
	}
	double s = (m - 1) / (m + 1), z = s * s;
	double series = 1.0 / 13;
	series = series * z + 1.0 / 11;
	series = series * z + 1.0 / 9;
	series = series * z + 1.0 / 7;
	series = series * z + 1.0 / 5;
	series = series * z + 1.0 / 3;
	series = series * z + 1.0;
	return 2 * s * series + (double)exponent * 0.6931471805599453;
}

float prng_normal_from(uint64_t bits)
{
	/* 52.5 bits: exact, symmetric, never 0 or 1. */
	double u = ((double)(bits >> 12) + 0.5) * 0x1p-52;
	double q = u - 0.5;
	if (q >= -0.425 && q <= 0.425) {
		double r = 0.180625 - q * q;
		double up = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179;
		double down = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0;
		return (float)(q * up / down);
	}
	double r = sqrt(-log_unit(q < 0 ? u : 1 - u)), z;
	if (r <= 5) {
		r -= 1.6;
		z = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
		    ((0.12021132975 * r + 0.73700164250) * r + 1.0);
	} else {
		r -= 5;
		z = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
		    ((0.012258202635 * r + 0.24197894225) * r + 1.0);
	}
	return (float)(q < 0 ? -z : z);
}

uint64_t prng_permute(uint64_t seed, uint64_t n, uint64_t i)
{
	assert(i < n);
	if (n == 1)
		return 0;
	unsigned bits = 64 - (unsigned)__builtin_clzll(n - 1);
	unsigned half = (bits + 1) / 2;
	uint64_t mask = (1ull << half) - 1;
	do {
		uint64_t left = i >> half, right = i & mask;
		for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
			uint64_t next = left ^ (prng_mix(seed, round, right) & mask);
			left = right;
			right = next;
		}
		i = left << half | right;
	} while (i >= n);
	return i;
}

static uint64_t system_u64(struct entropy *self)
{
	(void)self;
	uint64_t v;
	ssize_t got;
	do
		got = getrandom(&v, sizeof v, 0);
	while (got < 0 && errno == EINTR);
	assert(got == sizeof v);
	return v;
}

struct entropy *entropy_system(void)
{
	static const struct entropy_ops ops = {.u64 = system_u64};
	static struct entropy system = {.ops = &ops};
	return &system;
}
