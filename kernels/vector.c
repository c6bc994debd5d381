/* Chooses the vector kernels by the CPU's features. */
#include "kernels/vector.h"

extern const struct vector_ops vector_ops_base;
#if defined(__x86_64__)
extern const struct vector_ops vector_ops_avx2, vector_ops_avx512;

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const struct vector_ops *vector_ops_variant(unsigned i)
{
	if (i == 0)
		return &vector_ops_base;
	if (i == 1 && has_avx2())
		return &vector_ops_avx2;
	if (i == 2 && has_avx512())
		return &vector_ops_avx512;
	return NULL;
}
#else
const struct vector_ops *vector_ops_variant(unsigned i)
{
	return i == 0 ? &vector_ops_base : NULL;
}
#endif

const struct vector_ops *vector_ops_best(void)
{
	const struct vector_ops *best = &vector_ops_base;
	for (unsigned i = 1; vector_ops_variant(i); i++)
		best = vector_ops_variant(i);
	return best;
}
