/* Randomness: a small seeded generator (xoshiro256++) for streams, and a stateless hash of counters
 * for values that must be a pure function of their coordinates (initial rows, dropout masks,
 * permutations). It never uses libm, so every machine gets the same bits. */
#ifndef WEIR_PRNG_H
#define WEIR_PRNG_H

#include <stdint.h>

struct prng {
	uint64_t s[4];
};

void prng_seed(struct prng *r, uint64_t seed);
uint64_t prng_u64(struct prng *r);
/* uniform in [0, bound), unbiased; bound > 0 */
uint64_t prng_below(struct prng *r, uint64_t bound);
double prng_unit(struct prng *r);  /* uniform in [0, 1) */
float prng_normal(struct prng *r); /* standard normal */

/* A well-mixed 64-bit function of (seed, a, b). */
uint64_t prng_mix(uint64_t seed, uint64_t a, uint64_t b);
/* Standard normal from 64 random bits, by deterministic arithmetic only (no libm). */
float prng_normal_from(uint64_t bits);
/* The place of i in a pseudo-random permutation of [0, n) that `seed` selects. Stores nothing.
 * Needs i < n. */
uint64_t prng_permute(uint64_t seed, uint64_t n, uint64_t i);

/* True randomness for ids and jitter, behind an interface for the simulator. */
struct entropy;
struct entropy_ops {
	uint64_t (*u64)(struct entropy *self);
};
struct entropy {
	const struct entropy_ops *ops;
};
struct entropy *entropy_system(void); /* getrandom(2) */

#endif
