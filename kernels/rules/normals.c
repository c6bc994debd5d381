/* Random bits and normal numbers for initial values. */
#include "common/base/prng_mix.h"
#include "common/base/prng_normal.h"
#include "kernels/rules/rule.h"

#define BLOCK 64u
#define LANES 8u

void ISA(mix)(uint64_t seed, uint64_t first, uint64_t kind, uint64_t *bits, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bits[i] = prng_mix_of(seed, first + i, kind);
}

/* Most numbers lie in the middle, where one quotient gives them. The others are collected, so that
 * their logarithms and roots are computed side by side. */
static void normals_of_block(const uint64_t *bits, float a, float *out, size_t n)
{
	double q[BLOCK], far[BLOCK + LANES];
	uint32_t at[BLOCK + 1];
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		q[i] = prng_normal_offset(bits[i]);
	for (size_t i = 0; i < n; i++)
		out[i] = a * (float)prng_normal_middle(q[i]);
	for (size_t i = 0; i < n; i++) {
		at[count] = (uint32_t)i;
		far[count] = 0.5 - fabs(q[i]);
		count += !prng_normal_is_middle(q[i]);
	}
	for (size_t i = count; i < count + LANES; i++)
		far[i] = 0.5;
	for (size_t j = 0; j < count; j += LANES)
		for (size_t lane = 0; lane < LANES; lane++)
			far[j + lane] = prng_normal_tail(far[j + lane]);
	for (size_t j = 0; j < count; j++)
		out[at[j]] = a * (float)(q[at[j]] < 0 ? -far[j] : far[j]);
}

void ISA(normals)(const uint64_t *bits, float a, float *out, size_t n)
{
	for (size_t i = 0; i < n; i += BLOCK)
		normals_of_block(bits + i, a, out + i, n - i < BLOCK ? n - i : BLOCK);
}
