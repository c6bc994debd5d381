/* 16-bit numbers that kernels read and write. BF16: bfloat16, else IEEE binary16. */
#ifndef WEIR_HALF_H
#define WEIR_HALF_H

#include "kernels/codecs/minifloat.h"
#include "kernels/cuda/launch.h"

/* 65520, as the bits of a float: from it on, numbers round to infinity */
#define FP16_OVERFLOW 0x477ff000u

template <int V> struct alignas(V * sizeof(uint16_t)) halves {
	uint16_t v[V];
};

/* IEEE binary16, to nearest even. (The codec of this name keeps finite numbers finite.) */
static __device__ inline uint16_t fp16_rounded(float x)
{
	const uint32_t bits = bits_of(x), abs = bits & ABS_MASK;
	float back;
	const uint32_t code = fp16_of(x, &back);
	return (uint16_t)(abs >= FP16_OVERFLOW && abs < INFINITY_BITS ? (bits & SIGN_MASK) >> 16 | FP16_INFINITY : code);
}
template <bool BF16> static __device__ inline uint16_t rounded(float x)
{
	return BF16 ? (uint16_t)bf16_of(bits_of(x)) : fp16_rounded(x);
}

#endif
