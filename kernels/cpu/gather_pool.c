/* Embedding look-up with sum pooling. Bags are spread over threads. Rows come from a compact table
 * (one batch's distinct rows), so most accesses hit the cache; prefetching covers the others. */
#include <string.h>

#include "kernels/cpu/ops.h"

#define PREFETCH_AHEAD 8

struct gather {
	float *out;
	const float *rows;
	size_t width;
	const uint32_t *offsets, *index;
	const float *weight;
	size_t uses; /* offsets[bags] */
};

static inline void add_row(float *restrict out, const float *restrict row, float weight, size_t width)
{
	for (size_t j = 0; j < width; j++)
		out[j] += weight * row[j];
}

/* width is a constant at some calls. */
static inline __attribute__((always_inline)) void gather_bags(const struct gather *g, size_t begin, size_t end, size_t width)
{
	for (size_t bag = begin; bag < end; bag++) {
		const size_t first = g->offsets[bag], last = g->offsets[bag + 1];
		float *out = g->out + bag * width;
		if (first + PREFETCH_AHEAD < g->uses)
			__builtin_prefetch(g->rows + g->index[first + PREFETCH_AHEAD] * width);
		if (last == first + 1 && !g->weight) {
			memcpy(out, g->rows + g->index[first] * width, width * sizeof *out);
			continue;
		}
		memset(out, 0, width * sizeof *out);
		for (size_t u = first; u < last; u++)
			add_row(out, g->rows + g->index[u] * width, g->weight ? g->weight[u] : 1, width);
	}
}

static void gather_range(void *args, size_t begin, size_t end)
{
	const struct gather *g = args;
	switch (g->width) {
	case 1:
		gather_bags(g, begin, end, 1);
		break;
	case 16:
		gather_bags(g, begin, end, 16);
		break;
	case 17:
		gather_bags(g, begin, end, 17);
		break;
	default:
		gather_bags(g, begin, end, g->width);
	}
}

void ISA(cpu_gather_pool)(struct backend *b, float *out, const float *rows, size_t unique, size_t width, const uint32_t *offsets,
                          const uint32_t *index, const float *weight, size_t bags)
{
	(void)unique;
	struct gather g = {out, rows, width, offsets, index, weight, bags == 0 ? 0 : offsets[bags]};
	cpu_parallel(b, bags, cpu_grain(width), gather_range, &g);
}
