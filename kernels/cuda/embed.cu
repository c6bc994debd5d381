/* Token and position embeddings. Backward, rows are sorted by token, stably, so that those of one token lie together and in order: they are added by the
 * threads of the first of them, one after the other, which is the CPU's order. */
#include <math.h>

#include "launch.h"
#include "sort.h"

#define ROWS_MAX ((size_t)INT32_MAX) /* of one call: what the sort counts to */

static __global__ void embed_kernel(float *out, const float *table, const float *positions, const uint32_t *tokens,
                                    size_t vocabulary, size_t length, size_t width, size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	const size_t r = quotient(i, width), j = i - r * width;
	const uint32_t token = tokens[r];
	float x = token < vocabulary ? table[token * width + j] : NAN;
	if (positions != NULL)
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

/* token, row (rows): sorted, and where each was. */
static __global__ void add_tokens_kernel(float *dtable, const float *dout, const uint32_t *token, const uint32_t *row,
                                         size_t vocabulary, size_t rows, size_t width, size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	size_t at = quotient(i, width);
	const size_t j = i - at * width;
	const uint32_t t = token[at];
	if (t >= vocabulary || (at > 0 && token[at - 1] == t))
		return;
	float sum = dtable[t * width + j];
	for (; at < rows && token[at] == t; at++)
		sum += dout[row[at] * width + j];
	dtable[t * width + j] = sum;
}

static void add_tokens(struct cuda_backend *c, float *dtable, const float *dout, const uint32_t *tokens, size_t vocabulary,
                       size_t rows, size_t width)
{
	const unsigned bits = 32; /* of a token that is none, too */
	cudaError_t code;
	if (rows > ROWS_MAX)
		cuda_failed_limit(c, "more rows in a batch than a sort can count");
	if (!cuda_ok(c))
		return;
	const size_t temporary = cuda_sort_bytes(rows, bits, &code), of_rows = rows * sizeof(uint32_t);
	const size_t sizes[] = {of_rows, of_rows, of_rows, temporary};
	void *parts[4];
	if (!cuda_try(c, "sort by token", code) || !cuda_workspace(c, 4, sizes, parts))
		return;
	uint32_t *row = (uint32_t *)parts[0], *sorted_token = (uint32_t *)parts[1], *sorted_row = (uint32_t *)parts[2];
	LAUNCH(c, count_kernel, blocks_for(c, rows), CUDA_THREADS, row, rows);
	if (!cuda_ok(c))
		return;
	cuda_try(c, "sort by token", cuda_sort(parts[3], temporary, tokens, sorted_token, row, sorted_row, rows, bits, c->stream));
	LAUNCH(c, add_tokens_kernel, blocks_for(c, rows * width), CUDA_THREADS, dtable, dout, sorted_token, sorted_row, vocabulary,
	       rows, width, rows * width);
}

/* dpositions (used, width) of the `used` positions that rows have. */
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
	if (dtable != NULL)
		add_tokens(c, dtable, dout, tokens, vocabulary, rows, width);
	const size_t used = rows < length ? rows : length;
	if (dpositions != NULL)
		LAUNCH(c, add_positions_kernel, blocks_for(c, used * width), CUDA_THREADS, dpositions, dout, rows, length, width,
		       used * width);
}
