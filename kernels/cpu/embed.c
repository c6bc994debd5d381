/* Token and position embeddings. Forward spreads rows over threads. Backward spreads columns, so
 * that each element is added to in row order for any number of threads. */
#include <assert.h>
#include <string.h>

#include "kernels/cpu/ops.h"

#define COLUMNS_MIN 64 /* of a thread: some cache lines */

struct embed {
	float *out, *dtable, *dpositions;
	const float *table, *positions, *dout;
	const uint32_t *tokens;
	size_t vocabulary, rows, length, width;
};

static void forward_range(void *args, size_t begin, size_t end)
{
	const struct embed *a = args;
	const size_t width = a->width;
	for (size_t r = begin; r < end; r++) {
		assert(a->tokens[r] < a->vocabulary);
		const float *restrict from = a->table + a->tokens[r] * width;
		float *restrict out = a->out + r * width;
		memcpy(out, from, width * sizeof *out);
		if (!a->positions)
			continue;
		const float *restrict position = a->positions + r % a->length * width;
		for (size_t j = 0; j < width; j++)
			out[j] += position[j];
	}
}

void ISA(cpu_embed)(struct backend *b, float *out, const float *table, const float *positions, const uint32_t *tokens,
                    size_t vocabulary, size_t rows, size_t length, size_t width)
{
	struct embed a = {.out = out,
	                  .table = table,
	                  .positions = positions,
	                  .tokens = tokens,
	                  .vocabulary = vocabulary,
	                  .rows = rows,
	                  .length = length,
	                  .width = width};
	cpu_parallel(b, rows, cpu_grain(width), forward_range, &a);
}

static inline void add_to(float *restrict to, const float *restrict from, size_t n)
{
	for (size_t j = 0; j < n; j++)
		to[j] += from[j];
}

static void backward_range(void *args, size_t begin, size_t end)
{
	const struct embed *a = args;
	for (size_t r = 0; r < a->rows; r++) {
		const float *from = a->dout + r * a->width + begin;
		assert(a->tokens[r] < a->vocabulary);
		if (a->dtable)
			add_to(a->dtable + a->tokens[r] * a->width + begin, from, end - begin);
		if (a->dpositions)
			add_to(a->dpositions + r % a->length * a->width + begin, from, end - begin);
	}
}

void ISA(cpu_embed_backward)(struct backend *b, float *dtable, float *dpositions, const float *dout, const uint32_t *tokens,
                             size_t vocabulary, size_t rows, size_t length, size_t width)
{
	struct embed a = {.dtable = dtable,
	                  .dpositions = dpositions,
	                  .dout = dout,
	                  .tokens = tokens,
	                  .vocabulary = vocabulary,
	                  .rows = rows,
	                  .length = length,
	                  .width = width};
	const size_t grain = cpu_grain(rows);
	cpu_parallel(b, width, grain < COLUMNS_MIN ? COLUMNS_MIN : grain, backward_range, &a);
}
