/* The tensor cores' products of 16-bit numbers, a warp at a time (PTX ISA 9.7.14, mma.m16n8k16 and
 * ldmatrix), from compute capability 8.0 on. Lane 4 g + t of a warp has, two numbers in a word,
 *     A (16, 16)  a[0] of row g, columns 2t and 2t + 1; a[1] of row g + 8; a[2] and a[3] the same
 *                 eight columns on
 *     B (16, 8)   b[0] of column g, rows 2t and 2t + 1; b[1] eight rows on
 *     C (16, 8)   c[0] and c[1] of row g, columns 2t and 2t + 1; c[2] and c[3] of row g + 8, as
 *                 floats
 * so a C of 16 columns becomes the A of another product without leaving its lane. */
#ifndef WEIR_MMA_H
#define WEIR_MMA_H

#include "kernels/cuda/half.h"

#if !defined(CUDA_HOST_EMULATED) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
#define MMA(instruction, ...) asm volatile(instruction __VA_ARGS__)
#else
#define MMA(instruction, ...) __trap() /* never reached: see cuda_tensor_attention_takes */
#endif

/* c += a b */
template <bool BF16> static __device__ inline void multiply_add(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
#if defined(CUDA_HOST_EMULATED)
	cuda_host_mma(c, a, b0, b1, [](uint16_t x) { return BF16 ? float_of((uint32_t)x << 16) : fp16_value(x); });
#else
#define MMA_OPERANDS                                                                \
	"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(c[0]), \
	                                                                    "+f"(c[1]), \
	                                                                    "+f"(c[2]), \
	                                                                    "+f"(c[3])  \
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)
	if constexpr (BF16)
		MMA("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 ", MMA_OPERANDS);
	else
		MMA("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 ", MMA_OPERANDS);
#undef MMA_OPERANDS
#endif
}

/* Loads four matrices (8, 8) from shared memory. Lane 8 i + r names row r of matrix i, whose 16
 * bytes are aligned. m[i] = row g of matrix i, columns 2t and 2t + 1; TRANSPOSED: column g, rows 2t
 * and 2t + 1. */
template <bool TRANSPOSED> static __device__ inline void load_matrices(uint32_t *m, const void *row)
{
#if defined(CUDA_HOST_EMULATED)
	cuda_host_load_matrices(m, row, TRANSPOSED);
#else
	const unsigned at = (unsigned)__cvta_generic_to_shared(row);
	if constexpr (TRANSPOSED)
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		             : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
		             : "r"(at)
		             : "memory");
	else
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		             : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
		             : "r"(at)
		             : "memory");
#endif
}

/* Two numbers as a word, the first in its low half. */
template <bool BF16> static __device__ inline uint32_t rounded_pair(float first, float second)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	uint32_t pair;
	if constexpr (BF16)
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
	else
		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
	return pair;
#else
	return rounded<BF16>(first) | (uint32_t)rounded<BF16>(second) << 16;
#endif
}

#endif
