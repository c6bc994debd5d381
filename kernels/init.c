/* Initial values. Each element is a counter-based hash of its coordinates, so that any server or
 * worker can compute any row at any time:
 *     base = mix(seed, table, key)         (key 0 for a dense table)
 *     bits = mix(base, element, kind)      (element: in the row; for a dense table in the whole
 *                                           flat space)
 * uniform: the upper 24 bits as u in [0, 1), then a (2 u - 1), one rounding. normal: a times
 * prng_normal_from(bits). */
#include "kernels/init.h"

#include <assert.h>
#include <string.h>

#include "common/base/prng.h"

static void init_run(uint64_t base, uint64_t first, const weir_init_segment *segment, float *out, size_t n)
{
	const float a = segment->a;
	switch (segment->kind) {
	case WEIR_INIT_ZERO:
		if (n > 0)
			memset(out, 0, n * sizeof *out);
		return;
	case WEIR_INIT_CONSTANT:
		for (size_t i = 0; i < n; i++)
			out[i] = a;
		return;
	case WEIR_INIT_UNIFORM:
		for (size_t i = 0; i < n; i++) {
			int32_t u = (int32_t)(prng_mix(base, first + i, WEIR_INIT_UNIFORM) >> 40); /* 24 bits */
			out[i] = a * ((float)(2 * u - (1 << 24)) * 0x1p-24f);
		}
		return;
	case WEIR_INIT_NORMAL:
		for (size_t i = 0; i < n; i++)
			out[i] = a * prng_normal_from(prng_mix(base, first + i, WEIR_INIT_NORMAL));
		return;
	}
	assert(0 && "an initialiser that does not exist");
}

void init_embedding_row(uint64_t seed, uint32_t table, uint64_t key, const weir_init_segment *segment, float *out, size_t n)
{
	init_run(prng_mix(seed, table, key), 0, segment, out, n);
}

void init_dense(uint64_t seed, uint32_t table, const weir_init_segment *segments, uint32_t count, uint64_t first, float *out,
                size_t n)
{
	const uint64_t base = prng_mix(seed, table, 0);
	uint64_t start = 0; /* of the segment */
	for (uint32_t s = 0; s < count && n > 0; s++) {
		uint64_t end = start + segments[s].elements;
		if (first < end) {
			size_t run = end - first < n ? (size_t)(end - first) : n;
			init_run(base, first, &segments[s], out, run);
			first += run;
			out += run;
			n -= run;
		}
		start = end;
	}
	assert(n == 0); /* the segments cover the table */
}
