/* Copies rows from place to place at memory speed, which requires prefetching the next rows. */
#include <string.h>

#include "kernels/cpu/ops.h"

#define PREFETCH_AHEAD 8

struct copy {
	float *out;
	const uint32_t *to;
	const float *in;
	const uint32_t *from;
	size_t width, n;
};

static inline size_t row(const uint32_t *index, size_t i)
{
	return index ? index[i] : i;
}

/* width is a constant at some calls. */
static inline __attribute__((always_inline)) void copy(const struct copy *c, size_t begin, size_t end, size_t width)
{
	for (size_t i = begin; i < end; i++) {
		if (i + PREFETCH_AHEAD < c->n) {
			__builtin_prefetch(c->in + row(c->from, i + PREFETCH_AHEAD) * width);
			if (c->to)
				__builtin_prefetch(c->out + c->to[i + PREFETCH_AHEAD] * width, 1);
		}
		memcpy(c->out + row(c->to, i) * width, c->in + row(c->from, i) * width, width * sizeof *c->out);
	}
}

static void copy_range(void *args, size_t begin, size_t end)
{
	const struct copy *c = args;
	switch (c->width) {
	case 1:
		copy(c, begin, end, 1);
		break;
	case 16:
		copy(c, begin, end, 16);
		break;
	default:
		copy(c, begin, end, c->width);
	}
}

void ISA(cpu_copy_rows)(struct backend *b, float *out, const uint32_t *to, const float *in, const uint32_t *from, size_t width,
                        size_t n)
{
	struct copy c = {out, to, in, from, width, n};
	cpu_parallel(b, n, cpu_grain(width), copy_range, &c);
}
