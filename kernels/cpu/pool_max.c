/* Max pooling of bags, and its gradient. As in scatter_sum.c, each thread adds the uses of its own
 * rows, in order of use for any number of threads. */
#include <assert.h>
#include <string.h>

#include "kernels/cpu/ops.h"

#define GROUP_SHIFT 4

struct gather {
	float *out;
	uint32_t *chosen;
	const float *rows;
	size_t width;
	const uint32_t *offsets, *index, *is_max;
	size_t fields;
};

/* A column keeps the first of equal elements. */
static void largest(const struct gather *g, size_t bag)
{
	const size_t first = g->offsets[bag], last = g->offsets[bag + 1];
	float *restrict out = g->out + bag * g->width;
	uint32_t *restrict chosen = g->chosen + bag * g->width;
	for (size_t j = 0; j < g->width; j++) {
		out[j] = first < last ? g->rows[g->index[first] * g->width + j] : 0;
		chosen[j] = (uint32_t)first;
	}
	for (size_t u = first + 1; u < last; u++) {
		const float *restrict row = g->rows + g->index[u] * g->width;
		for (size_t j = 0; j < g->width; j++) {
			const bool larger = row[j] > out[j];
			out[j] = larger ? row[j] : out[j];
			chosen[j] = larger ? (uint32_t)u : chosen[j];
		}
	}
}

static void gather_range(void *args, size_t begin, size_t end)
{
	const struct gather *g = args;
	for (size_t bag = begin; bag < end; bag++) {
		if (g->is_max[bag % g->fields]) {
			largest(g, bag);
			continue;
		}
		for (size_t j = 0; j < g->width; j++)
			g->chosen[bag * g->width + j] = POOL_ALL;
	}
}

void ISA(cpu_gather_max)(struct backend *b, float *out, uint32_t *chosen, const float *rows, size_t width,
                         const uint32_t *offsets, const uint32_t *index, const uint32_t *is_max, size_t fields, size_t bags)
{
	struct gather g = {out, chosen, rows, width, offsets, index, is_max, fields};
	cpu_parallel(b, bags, cpu_grain(width), gather_range, &g);
}

struct scatter {
	float *drows;
	const float *dout;
	const uint32_t *chosen, *offsets, *index;
	const float *weight;
	size_t unique, width, bags;
	uint32_t parts; /* a power of two */
};

static void add_use(const struct scatter *s, size_t bag, size_t u)
{
	float *restrict to = s->drows + s->index[u] * s->width;
	const float *restrict from = s->dout + bag * s->width;
	const uint32_t *restrict chosen = s->chosen + bag * s->width;
	const float weight = s->weight ? s->weight[u] : 1;
	for (size_t j = 0; j < s->width; j++)
		to[j] += chosen[j] == POOL_ALL ? weight * from[j] : chosen[j] == u ? from[j] : 0;
}

static void scatter_part(void *args, uint32_t part)
{
	const struct scatter *s = args;
	const size_t group = (size_t)1 << GROUP_SHIFT;
	for (size_t first = part * group; first < s->unique; first += s->parts * group)
		memset(s->drows + first * s->width, 0, least(group, s->unique - first) * s->width * sizeof *s->drows);
	for (size_t bag = 0; bag < s->bags; bag++)
		for (size_t u = s->offsets[bag]; u < s->offsets[bag + 1]; u++)
			if (((s->index[u] >> GROUP_SHIFT) & (s->parts - 1)) == part)
				add_use(s, bag, u);
}

void ISA(cpu_scatter_chosen)(struct backend *b, float *drows, size_t unique, size_t width, const float *dout,
                             const uint32_t *chosen, const uint32_t *offsets, const uint32_t *index, const float *weight,
                             size_t bags, size_t uses)
{
	assert(offsets[0] == 0 && offsets[bags] == uses);
	struct pool *pool = cpu_of(b)->pool;
	struct scatter s = {drows, dout, chosen, offsets, index, weight, unique, width, bags, 1};
	const size_t work = bags * width / CPU_GRAIN;
	while (s.parts * 2 <= pool_threads(pool) && s.parts < work)
		s.parts *= 2;
	pool_run(pool, s.parts, scatter_part, &s);
}
