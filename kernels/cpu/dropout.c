/* Inverted dropout (Srivastava et al. 2014). Element i is kept iff a 32-bit hash of (seed, i) is at
 * least p 2^32: no state, any order or division into parts, and the same mask for backward. */
#include <assert.h>

#include "common/base/prng.h"
#include "kernels/cpu/ops.h"
#include "kernels/dropout_mask.h"

struct drop {
	float *x;
	size_t first; /* x[0] is this element */
	uint32_t threshold;
	float scale;
	uint64_t seed;
};

static void drop_range(void *args, size_t begin, size_t end)
{
	const struct drop *d = args;
	while (begin < end) {
		/* the seed of a stretch of 2^32 elements */
		const uint64_t at = d->first + begin, stretch = at >> 32, seed = prng_mix(d->seed, stretch, 0);
		const size_t n = least(end - begin, (size_t)(((stretch + 1) << 32) - at));
		const uint32_t seed0 = (uint32_t)seed, seed1 = (uint32_t)(seed >> 32), first = (uint32_t)at, threshold = d->threshold;
		const float scale = d->scale;
		float *restrict x = d->x + begin;
		for (size_t i = 0; i < n; i++)
			x[i] = mask_hash(first + (uint32_t)i, seed0, seed1) >= threshold ? x[i] * scale : 0;
		begin += n;
	}
}

void ISA(cpu_dropout)(struct backend *b, float *x, size_t first, size_t n, float p, const uint64_t *seed, uint64_t salt)
{
	assert(p >= 0 && p < 1);
	if (p == 0)
		return;
	struct drop d = {.x = x,
	                 .first = first,
	                 .threshold = (uint32_t)((double)p * 0x1p32),
	                 .scale = (float)(1 / (1 - (double)p)),
	                 .seed = prng_mix(*seed, salt, 0)};
	cpu_parallel(b, n, CPU_GRAIN, drop_range, &d);
}
