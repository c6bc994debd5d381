/* Generator: xoshiro256++ (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators",
 * 2019), seeded by splitmix64 (Steele et al. 2014). Permutations: a Feistel network on the smallest
 * even number of bits that holds n, walked until it lands below n (Black and Rogaway, "Ciphers with
 * Arbitrary Finite Domains", 2002). */
#include "common/base/prng.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/prng_mix.h"
#include "common/base/prng_normal.h"

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

float prng_normal_from(uint64_t bits)
{
	const double q = prng_normal_offset(bits);
	if (prng_normal_is_middle(q))
		return (float)prng_normal_middle(q);
	const double z = prng_normal_tail(0.5 - fabs(q));
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
