/* Exact thresholds (topk.h): adds the gradient to the residual, and finds the k-th largest
 * magnitude by radix selection: it counts the magnitudes with each leading digit, finds the digit
 * of the k-th, and goes on within that digit. Counts are integers: the order of their additions
 * does not matter. */
#include "kernels/cuda/launch.h"

#include <float.h>

#include "kernels/topk_record.h"

#define DIGIT_BITS    11u
#define DIGITS        (1u << DIGIT_BITS)
#define COUNT_THREADS 1024u
#define COUNT_BLOCKS  1024u /* at most; each adds its counts to the table's once */
#define COUNT_EACH    16u   /* elements per thread that pay for another block */

/* --- Accumulating */

template <int V>
static __global__ void accumulate_kernel(const float *grad, float scale, float *residual, float *velocity, float factor, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	pack<V> sum = load<V>(residual + i), added = load<V>(grad + i);
	for (int k = 0; k < V; k++)
		added.v[k] *= scale;
	if (velocity) {
		const pack<V> before = load<V>(velocity + i);
		for (int k = 0; k < V; k++)
			added.v[k] = factor * before.v[k] + added.v[k];
		store<V>(velocity + i, added);
	}
	for (int k = 0; k < V; k++)
		sum.v[k] += added.v[k];
	store<V>(residual + i, sum);
}

void cuda_topk_accumulate(struct backend *b, const struct topk_row *row)
{
	struct cuda_backend *c = cuda_of(b);
	float *velocity = row->momentum.velocity;
	if (pack_width(row->n, ADDRESS(row->grad) | ADDRESS(row->residual) | ADDRESS(velocity)) == 4)
		LAUNCH(c, accumulate_kernel<4>, blocks_for(c, row->n / 4), CUDA_THREADS, row->grad, row->scale, row->residual, velocity,
		       row->momentum.factor, row->n);
	else
		LAUNCH(c, accumulate_kernel<1>, blocks_for(c, row->n), CUDA_THREADS, row->grad, row->scale, row->residual, velocity,
		       row->momentum.factor, row->n);
}

/* --- Selecting */

/* The known part of the k-th magnitude: the bits under `mask`; `rank` (from 1, the largest) among
 * the magnitudes with these bits. */
struct search {
	uint32_t known, mask, rank;
};

/* counts (DIGITS) += the number of magnitudes with the known bits and each digit at `shift`. */
static __global__ void __launch_bounds__(COUNT_THREADS)
    count_kernel(uint32_t *counts, const float *x, size_t n, const struct search *search, uint32_t shift, uint32_t digits)
{
	SHARED(uint32_t, own, [DIGITS]);
	const struct search s = *search;
	for (uint32_t d = threadIdx.x; d < DIGITS; d += COUNT_THREADS)
		own[d] = 0;
	__syncthreads();
	for (size_t i = thread_number(); i < n; i += (size_t)gridDim.x * COUNT_THREADS) {
		const uint32_t magnitude = bits_of(x[i]) & ABS_MASK;
		if ((magnitude & s.mask) == s.known)
			atomicAdd(&own[magnitude >> shift & digits], 1u);
	}
	__syncthreads();
	for (uint32_t d = threadIdx.x; d < DIGITS; d += COUNT_THREADS)
		if (own[d] != 0)
			atomicAdd(&counts[d], own[d]);
}

/* The digit of the k-th: the largest for which it and all larger ones count at least `rank`. One
 * block of DIGITS / 2 threads, two digits each; counts become 0. */
static __global__ void __launch_bounds__(DIGITS / 2)
    choose_kernel(struct search *search, uint32_t *counts, uint32_t shift, uint32_t digits)
{
	SHARED(uint32_t, from, [DIGITS / 2]);
	/* thread 0 has the largest digits */
	const uint32_t t = threadIdx.x, high = DIGITS - 1 - 2 * t, low = high - 1;
	const uint32_t rank = search->rank, of_high = counts[high], of_low = counts[low];
	from[t] = of_high + of_low;
	counts[high] = counts[low] = 0;
	__syncthreads();
	for (uint32_t step = 1; step < DIGITS / 2; step *= 2) {
		const uint32_t before = t >= step ? from[t - step] : 0;
		__syncthreads();
		from[t] += before;
		__syncthreads();
	}
	const uint32_t above = from[t] - of_high - of_low; /* digits larger than this thread's */
	const bool is_high = above < rank && rank <= above + of_high;
	if (is_high || (above + of_high < rank && rank <= from[t])) {
		search->known |= (is_high ? high : low) << shift;
		search->mask |= digits << shift;
		search->rank = rank - above - (is_high ? 0 : of_high);
	}
}

weir_status cuda_topk_threshold(struct backend *b, const float *x, size_t n, size_t k, float *out, weir_error *err)
{
	static const uint32_t shifts[] = {20, 9, 0}; /* of 11, 11 and 9 bits */
	struct cuda_backend *c = cuda_of(b);
	const size_t sizes[] = {DIGITS * sizeof(uint32_t), sizeof(struct search)};
	const struct search start = {0, 0, (uint32_t)k};
	void *parts[2];
	if (n > UINT32_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "top-k of %zu elements: a GPU counts to %u", n, UINT32_MAX);
	if (!cuda_workspace(c, 2, sizes, parts))
		return b->ops->sync(b, err);
	uint32_t *counts = (uint32_t *)parts[0];
	struct search *search = (struct search *)parts[1];
	const size_t useful = (n + COUNT_THREADS * COUNT_EACH - 1) / (COUNT_THREADS * COUNT_EACH);
	const unsigned blocks = useful < COUNT_BLOCKS ? (unsigned)useful : COUNT_BLOCKS;
	CUDA_TRY(c, cudaMemsetAsync(counts, 0, sizes[0], c->stream));
	cuda_to_device(b, search, &start, sizeof start);
	uint32_t known = 0;
	for (size_t pass = 0; pass < sizeof shifts / sizeof *shifts; pass++) {
		const uint32_t digits = (ABS_MASK & ~known) >> shifts[pass];
		LAUNCH(c, count_kernel, dim3(blocks), COUNT_THREADS, counts, x, n, search, shifts[pass], digits);
		LAUNCH(c, choose_kernel, dim3(1), DIGITS / 2, search, counts, shifts[pass], digits);
		known |= digits << shifts[pass];
	}
	const struct search *found = (const struct search *)cuda_read_back(c, search, sizeof *search);
	if (!found)
		return b->ops->sync(b, err);
	const float magnitude = float_of(found->known);
	*out = magnitude > TOPK_THRESHOLD_MIN ? magnitude : TOPK_THRESHOLD_MIN;
	return WEIR_OK;
}
