/* The gradient of the look-up: segmented sums (segment_sum.h) of the uses of rows. Without weights
 * the uses' numbers are not needed, and `use` holds their bags. After max pooling each use has a
 * row of its own, which has 0 in the columns for which it is not chosen. */
#include "kernels/cuda/segment_sum.h"

/* use (n) = 0, 1, ..; bag (n): the last bag that begins at or before each use, by bisection. bag
 * NULL: `use` gets the bags instead. */
static __global__ void expand_kernel(uint32_t *use, uint32_t *bag, const uint32_t *offsets, size_t bags, size_t n)
{
	const size_t u = thread_number();
	if (u >= n)
		return;
	size_t low = 0, high = bags; /* offsets[low] <= u < offsets[high] */
	while (high - low > 1) {
		const size_t middle = (low + high) / 2;
		if (offsets[middle] <= u)
			low = middle;
		else
			high = middle;
	}
	use[u] = (uint32_t)(bag ? u : low);
	if (bag)
		bag[u] = (uint32_t)low;
}

/* out (n, width) = the gradient of each use. */
static __global__ void chosen_kernel(float *out, const float *dout, const uint32_t *chosen, const uint32_t *bag,
                                     const float *weight, size_t width, size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	const size_t u = quotient(i, width), at = bag[u] * width + (i - u * width);
	const uint32_t use = chosen[at];
	out[i] = use == POOL_ALL ? (weight ? weight[u] : 1) * dout[at] : use == u ? dout[at] : 0;
}

enum { SORTED_ROW, SORTED_USE, USE, BAG, BEGIN, END, PARTIAL, OF_USE, TEMPORARY, PARTS };

/* chosen NULL: all uses are. */
static void scatter(struct cuda_backend *c, float *drows, size_t unique, size_t width, const float *dout, const uint32_t *chosen,
                    const uint32_t *offsets, const uint32_t *index, const float *weight, size_t bags, size_t n)
{
	const bool numbered = weight || chosen;
	if (n > SEGMENT_USES_MAX)
		cuda_failed_limit(c, "more uses in a batch than a sort can count");
	if (!cuda_ok(c))
		return;
	if (n == 0) {
		CUDA_TRY(c, cudaMemsetAsync(drows, 0, unique * width * sizeof *drows, c->stream));
		return;
	}
	unsigned bits = 1;
	while (bits < 32 && (unique - 1) >> bits != 0)
		bits++;
	cudaError_t code;
	const size_t temporary = cuda_sort_bytes(n, bits, &code), of_uses = n * sizeof(uint32_t), of_rows = unique * sizeof(uint32_t);
	if (!cuda_try(c, "sort by row", code))
		return;
	const size_t sizes[PARTS] = {of_uses,
	                             of_uses,
	                             of_uses,
	                             numbered ? of_uses : 0,
	                             of_rows,
	                             of_rows,
	                             segment_partial_bytes(n, width),
	                             chosen ? n * width * sizeof(float) : 0,
	                             temporary};
	void *parts[PARTS];
	if (!cuda_workspace(c, PARTS, sizes, parts))
		return;
	LAUNCH(c, expand_kernel, blocks_for(c, n), CUDA_THREADS, (uint32_t *)parts[USE], numbered ? (uint32_t *)parts[BAG] : NULL,
	       offsets, bags, n);
	if (chosen)
		LAUNCH(c, chosen_kernel, blocks_for(c, n * width), CUDA_THREADS, (float *)parts[OF_USE], dout, chosen,
		       (const uint32_t *)parts[BAG], weight, width, n * width);
	if (!cuda_ok(c))
		return;
	cuda_try(c, "sort by row",
	         cuda_sort(parts[TEMPORARY], temporary, index, (uint32_t *)parts[SORTED_ROW], (const uint32_t *)parts[USE],
	                   (uint32_t *)parts[SORTED_USE], n, bits, c->stream));
	CUDA_TRY(c, cudaMemsetAsync(parts[BEGIN], 0, of_rows, c->stream));
	CUDA_TRY(c, cudaMemsetAsync(parts[END], 0, of_rows, c->stream));
	const struct segments s = {(const uint32_t *)parts[SORTED_ROW],
	                           (const uint32_t *)parts[SORTED_USE],
	                           (const uint32_t *)parts[BEGIN],
	                           (const uint32_t *)parts[END],
	                           weight && !chosen ? (const uint32_t *)parts[BAG] : NULL,
	                           chosen ? NULL : weight,
	                           chosen ? (const float *)parts[OF_USE] : dout,
	                           n,
	                           unique,
	                           width};
	segment_sum<SEGMENT_ASSIGN>(c, drows, (float *)parts[PARTIAL], (uint32_t *)parts[BEGIN], (uint32_t *)parts[END], &s);
}

void cuda_scatter_sum(struct backend *b, float *drows, size_t unique, size_t width, const float *dout, const uint32_t *offsets,
                      const uint32_t *index, const float *weight, size_t bags, size_t uses)
{
	scatter(cuda_of(b), drows, unique, width, dout, NULL, offsets, index, weight, bags, uses);
}

void cuda_scatter_chosen(struct backend *b, float *drows, size_t unique, size_t width, const float *dout, const uint32_t *chosen,
                         const uint32_t *offsets, const uint32_t *index, const float *weight, size_t bags, size_t uses)
{
	scatter(cuda_of(b), drows, unique, width, dout, chosen, offsets, index, weight, bags, uses);
}
