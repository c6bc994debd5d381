/* The bits of fp32 numbers, and integers at any address. Like element.h, minifloat.h and
 * topk_record.h also for CUDA C: the arithmetic of one number is written once. */
#ifndef WEIR_BITS_H
#define WEIR_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef uint32_t wire_u32 __attribute__((aligned(1), may_alias));
typedef uint16_t wire_u16 __attribute__((aligned(1), may_alias));

/* The compiler makes one body for each constant argument. */
#if defined(__CUDACC__)
#define ALWAYS_INLINE static __host__ __device__ __forceinline__
#else
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

#define ABS_MASK      0x7fffffffu
#define SIGN_MASK     0x80000000u
#define INFINITY_BITS 0x7f800000u

ALWAYS_INLINE uint32_t bits_of(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

ALWAYS_INLINE float float_of(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

/* floor(log2(x)), x > 0 */
ALWAYS_INLINE uint32_t log2_of(uint32_t x)
{
#if defined(__CUDA_ARCH__)
	return 31 - (uint32_t)__clz((int)x);
#else
	return 31 - (uint32_t)__builtin_clz(x);
#endif
}

/* Computes both sides. It is a mask because compilers split loops along a conditional. */
ALWAYS_INLINE uint32_t choose(bool condition, uint32_t yes, uint32_t no)
{
	uint32_t mask = -(uint32_t)condition;
	return (yes & mask) | (no & ~mask);
}

ALWAYS_INLINE int32_t least_of(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

ALWAYS_INLINE int32_t most_of(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

#endif
