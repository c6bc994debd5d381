/* Shared by the two kinds of attention: attention.cu, with fp32 products, and attention_tensor.cu,
 * with products of 16-bit factors. */
#ifndef WEIR_ATTENTION_H
#define WEIR_ATTENTION_H

#include <math.h>

#include "kernels/cuda/launch.h"

#define GRID_Y_MAX 65535u

/* A grid of tiles of `side` rows for each of `columns` heads; an empty grid after a failure. */
static inline dim3 cuda_tiles(struct cuda_backend *c, size_t columns, size_t length, unsigned side)
{
	const size_t tiles = (length + side - 1) / side;
	if (columns > CUDA_GRID_MAX || tiles > GRID_Y_MAX) {
		cuda_failed_limit(c, "longer or more sequences than a launch can have");
		return dim3(0);
	}
	return dim3((unsigned)columns, (unsigned)tiles);
}

/* The largest value and the sum over LANES neighbouring lanes, which share a row. */
template <int LANES> static __device__ inline float lanes_largest(float v)
{
	for (int step = LANES / 2; step > 0; step /= 2)
		v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, step, LANES));
	return v;
}
template <int LANES> static __device__ inline float lanes_total(float v)
{
	for (int step = LANES / 2; step > 0; step /= 2)
		v += __shfl_xor_sync(ALL_LANES, v, step, LANES);
	return v;
}

/* delta (batch, heads, length) = the sum of dout * out over a head's columns. */
void cuda_attention_delta(struct cuda_backend *c, float *delta, const float *dout, const float *out,
                          const struct attention_shape *s);

/* Whether tensor cores can take it: the precision has 16 bits, the device has such products, and
 * heads are not too wide. Both ops then do as backend_ops says. */
bool cuda_tensor_attention_takes(const struct cuda_backend *c, const struct attention_shape *s);
void cuda_tensor_attention(struct cuda_backend *c, float *out, float *log_sums, const float *qkv,
                           const struct attention_shape *s);
void cuda_tensor_attention_backward(struct cuda_backend *c, float *dqkv, const float *dout, const float *out,
                                    const float *log_sums, const float *qkv, const struct attention_shape *s);

#endif
