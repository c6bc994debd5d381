/* Inverted dropout (Srivastava et al. 2014) with the masks of kernels/cpu/dropout.c, element for element (dropout_mask.h). */
#include <assert.h>

#include "launch.h"

#include "dropout_mask.h"

extern "C" {
#include "common/prng.h"
}

template <int V>
static __global__ void dropout_kernel(float *x, size_t n, uint32_t threshold, float scale, uint32_t seed0, uint32_t seed1)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	pack<V> p = load<V>(x + i);
	for (unsigned k = 0; k < V; k++)
		p.v[k] = mask_hash((uint32_t)i + k, seed0, seed1) >= threshold ? p.v[k] * scale : 0;
	store<V>(x + i, p);
}

void cuda_dropout(struct backend *b, float *x, size_t n, float p, uint64_t seed)
{
	assert(p >= 0 && p < 1);
	if (p == 0)
		return;
	struct cuda_backend *c = cuda_of(b);
	const uint32_t threshold = (uint32_t)((double)p * 0x1p32);
	const float scale = (float)(1 / (1 - (double)p));
	const size_t stretch = (size_t)1 << 32; /* elements that share a seed */
	for (size_t i = 0; i * stretch < n; i++, x += stretch) {
		const size_t count = n - i * stretch < stretch ? n - i * stretch : stretch;
		const uint64_t mixed = prng_mix(seed, i, 0);
		const uint32_t seed0 = (uint32_t)mixed, seed1 = (uint32_t)(mixed >> 32);
		if (pack_width(count, ADDRESS(x)) == 4)
			LAUNCH(c, dropout_kernel<4>, blocks_for(c, count / 4), CUDA_THREADS, x, count, threshold, scale, seed0, seed1);
		else
			LAUNCH(c, dropout_kernel<1>, blocks_for(c, count), CUDA_THREADS, x, count, threshold, scale, seed0, seed1);
	}
}
