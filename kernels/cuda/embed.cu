/* Token and position embeddings. Backward, the rows of a token are a segment (segment_sum.h), so
 * that a token of every second row is added in parts, in parallel. */
#include <math.h>

#include "kernels/cuda/segment_sum.h"

static __global__ void embed_kernel(float *out, const float *table, const float *positions, const uint32_t *tokens,
                                    size_t vocabulary, size_t length, size_t width, size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	const size_t r = quotient(i, width), j = i - r * width;
	const uint32_t token = tokens[r];
	float x = token < vocabulary ? table[token * width + j] : NAN;
	if (positions)
		x += positions[remainder_of(r, length) * width + j];
	out[i] = x;
}

void cuda_embed(struct backend *b, float *out, const float *table, const float *positions, const uint32_t *tokens,
                size_t vocabulary, size_t rows, size_t length, size_t width)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * width;
	LAUNCH(c, embed_kernel, blocks_for(c, total), CUDA_THREADS, out, table, positions, tokens, vocabulary, length, width, total);
}

static __global__ void count_kernel(uint32_t *row, size_t rows)
{
	const size_t r = thread_number();
	if (r < rows)
		row[r] = (uint32_t)r;
}

enum { ROW, SORTED_TOKEN, SORTED_ROW, BEGIN, END, PARTIAL, TEMPORARY, PARTS };

static void add_tokens(struct cuda_backend *c, float *dtable, const float *dout, const uint32_t *tokens, size_t vocabulary,
                       size_t rows, size_t width)
{
	const unsigned bits = 32; /* also for tokens outside the vocabulary */
	cudaError_t code;
	if (rows > SEGMENT_USES_MAX)
		cuda_failed_limit(c, "more rows in a batch than a sort can count");
	if (!cuda_ok(c))
		return;
	const size_t temporary = cuda_sort_bytes(rows, bits, &code), of_rows = rows * sizeof(uint32_t),
	             of_tokens = vocabulary * sizeof(uint32_t);
	const size_t sizes[PARTS] = {of_rows, of_rows, of_rows, of_tokens, of_tokens, segment_partial_bytes(rows, width), temporary};
	void *parts[PARTS];
	if (!cuda_try(c, "sort by token", code) || !cuda_workspace(c, PARTS, sizes, parts))
		return;
	uint32_t *token = (uint32_t *)parts[SORTED_TOKEN], *row = (uint32_t *)parts[SORTED_ROW], *begin = (uint32_t *)parts[BEGIN],
	         *end = (uint32_t *)parts[END];
	LAUNCH(c, count_kernel, blocks_for(c, rows), CUDA_THREADS, (uint32_t *)parts[ROW], rows);
	if (!cuda_ok(c))
		return;
	cuda_try(c, "sort by token",
	         cuda_sort(parts[TEMPORARY], temporary, tokens, token, (uint32_t *)parts[ROW], row, rows, bits, c->stream));
	const struct segments s = {token, row, begin, end, NULL, NULL, dout, rows, vocabulary, width};
	segment_sum<SEGMENT_ADD>(c, dtable, (float *)parts[PARTIAL], begin, end, &s);
}

/* dpositions (used, width) of the `used` positions that occur in the rows. */
static __global__ void add_positions_kernel(float *dpositions, const float *dout, size_t rows, size_t length, size_t width,
                                            size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	const size_t t = quotient(i, width), j = i - t * width;
	float sum = dpositions[i];
	for (size_t r = t; r < rows; r += length)
		sum += dout[r * width + j];
	dpositions[i] = sum;
}

void cuda_embed_backward(struct backend *b, float *dtable, float *dpositions, const float *dout, const uint32_t *tokens,
                         size_t vocabulary, size_t rows, size_t length, size_t width)
{
	struct cuda_backend *c = cuda_of(b);
	if (rows == 0)
		return;
	if (dtable)
		add_tokens(c, dtable, dout, tokens, vocabulary, rows, width);
	const size_t used = rows < length ? rows : length;
	if (dpositions)
		LAUNCH(c, add_positions_kernel, blocks_for(c, used * width), CUDA_THREADS, dpositions, dout, rows, length, width,
		       used * width);
}
