/* The hash behind prng_mix and prng_seed (prng.h), in C and in CUDA C. */
#ifndef WEIR_PRNG_MIX_H
#define WEIR_PRNG_MIX_H

#include <stdint.h>

#define PRNG_GOLDEN 0x9e3779b97f4a7c15ull

#if defined(__CUDACC__)
#define PRNG_INLINE static __host__ __device__ inline
#else
#define PRNG_INLINE static inline
#endif

/* splitmix64's finaliser: a bijection in which every input bit reaches every output bit. */
PRNG_INLINE uint64_t prng_avalanche(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

PRNG_INLINE uint64_t prng_mix_of(uint64_t seed, uint64_t a, uint64_t b)
{
	uint64_t x = prng_avalanche(seed + PRNG_GOLDEN);
	x = prng_avalanche((x ^ a) + PRNG_GOLDEN);
	return prng_avalanche((x ^ b) + PRNG_GOLDEN);
}

#endif
