/* Inverted dropout (Srivastava et al. 2014) with the masks of kernels/cpu/dropout.c, element for
 * element (dropout_mask.h). */
#include <assert.h>

#include "kernels/cuda/launch.h"

#include "common/base/prng_mix.h"
#include "kernels/dropout_mask.h"

/* x[0] is element `first` of a stretch of 2^32 elements. Each stretch has its own seed. */
template <int V>
static __global__ void dropout_kernel(float *x, uint32_t first, size_t n, uint32_t threshold, float scale, const uint64_t *seed,
                                      uint64_t salt, uint64_t stretch)
{
	SHARED(uint64_t, mixed, [1]);
	if (threadIdx.x == 0)
		mixed[0] = prng_mix_of(prng_mix_of(*seed, salt, 0), stretch, 0);
	__syncthreads();
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	const uint32_t seed0 = (uint32_t)mixed[0], seed1 = (uint32_t)(mixed[0] >> 32);
	pack<V> p = load<V>(x + i);
	for (unsigned k = 0; k < V; k++)
		p.v[k] = mask_hash(first + (uint32_t)i + k, seed0, seed1) >= threshold ? p.v[k] * scale : 0;
	store<V>(x + i, p);
}

void cuda_dropout(struct backend *b, float *x, size_t first, size_t n, float p, const uint64_t *seed, uint64_t salt)
{
	assert(p >= 0 && p < 1);
	if (p == 0)
		return;
	struct cuda_backend *c = cuda_of(b);
	const uint32_t threshold = (uint32_t)((double)p * 0x1p32);
	const float scale = (float)(1 / (1 - (double)p));
	for (size_t done = 0, count; done < n; done += count, x += count) {
		const uint64_t at = first + done, stretch = at >> 32, left = ((stretch + 1) << 32) - at;
		count = n - done < left ? n - done : left;
		if (pack_width(count, ADDRESS(x)) == 4)
			LAUNCH(c, dropout_kernel<4>, blocks_for(c, count / 4), CUDA_THREADS, x, (uint32_t)at, count, threshold, scale, seed,
			       salt, stretch);
		else
			LAUNCH(c, dropout_kernel<1>, blocks_for(c, count), CUDA_THREADS, x, (uint32_t)at, count, threshold, scale, seed, salt,
			       stretch);
	}
}
