/* The gradient of the look-up: each use of a row adds its bag's gradient, in order of use for any
 * number of threads. Rows are dealt to threads in groups of 16: this shares out frequent rows,
 * which come first, and splits no cache line. Every thread walks all uses, collects its own without
 * branching, and then adds them with the rows prefetched. */
#include <assert.h>
#include <string.h>

#include "kernels/cpu/ops.h"

#define GROUP_SHIFT    4
#define COLLECT        1024 /* uses collected before they are added */
#define PREFETCH_AHEAD 8

struct scatter {
	float *drows;
	const float *dout;
	const uint32_t *offsets, *index;
	const float *weight;
	size_t unique, width, bags;
	uint32_t parts; /* a power of two */
};

struct use {
	uint32_t row, bag;
	float weight;
};

static inline __attribute__((always_inline)) void add_uses(const struct scatter *s, const struct use *uses, size_t count,
                                                           size_t width)
{
	for (size_t u = 0; u < count; u++) {
		if (u + PREFETCH_AHEAD < count)
			__builtin_prefetch(s->drows + uses[u + PREFETCH_AHEAD].row * width, 1);
		float *restrict to = s->drows + uses[u].row * width;
		const float *restrict from = s->dout + uses[u].bag * width;
		const float weight = uses[u].weight;
		for (size_t j = 0; j < width; j++)
			to[j] += weight * from[j];
	}
}

static void add_collected(const struct scatter *s, const struct use *uses, size_t count)
{
	switch (s->width) {
	case 1:
		add_uses(s, uses, count, 1);
		break;
	case 16:
		add_uses(s, uses, count, 16);
		break;
	case 17:
		add_uses(s, uses, count, 17);
		break;
	default:
		add_uses(s, uses, count, s->width);
	}
}

static void clear_rows(const struct scatter *s, uint32_t part)
{
	const size_t group = (size_t)1 << GROUP_SHIFT;
	for (size_t first = part * group; first < s->unique; first += s->parts * group)
		memset(s->drows + first * s->width, 0, least(group, s->unique - first) * s->width * sizeof *s->drows);
}

static void scatter_part(void *args, uint32_t part)
{
	const struct scatter *s = args;
	/* one beyond the end: a use is written before its thread is known */
	struct use uses[COLLECT + 1];
	size_t count = 0;
	clear_rows(s, part);
	for (size_t bag = 0; bag < s->bags; bag++)
		for (size_t u = s->offsets[bag]; u < s->offsets[bag + 1]; u++) {
			const uint32_t row = s->index[u];
			uses[count] = (struct use){row, (uint32_t)bag, s->weight ? s->weight[u] : 1};
			count += ((row >> GROUP_SHIFT) & (s->parts - 1)) == part;
			if (count == COLLECT) {
				add_collected(s, uses, count);
				count = 0;
			}
		}
	add_collected(s, uses, count);
}

void ISA(cpu_scatter_sum)(struct backend *b, float *drows, size_t unique, size_t width, const float *dout,
                          const uint32_t *offsets, const uint32_t *index, const float *weight, size_t bags, size_t uses)
{
	assert(offsets[0] == 0 && offsets[bags] == uses);
	struct pool *pool = cpu_of(b)->pool;
	struct scatter s = {drows, dout, offsets, index, weight, unique, width, bags, 1};
	const size_t work = bags * width / CPU_GRAIN;
	while (s.parts * 2 <= pool_threads(pool) && s.parts < work)
		s.parts *= 2;
	pool_run(pool, s.parts, scatter_part, &s);
}
