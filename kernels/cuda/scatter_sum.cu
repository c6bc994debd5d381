/* The gradient of the look-up. Uses are sorted by row, stably, so that each row's uses lie together and in order of use; then
 *   rows of at most CUDA_SCATTER_CHUNK uses are added one use after the other: the CPU's bits;
 *   longer ones are cut, from their first use on, in chunks of that many. Chunks are added side by side, and their sums in order.
 * So a row that every bag uses takes no longer than its share, and the result depends on nothing but the uses.
 *
 * A chunk's sum has its place without any counting. Cut the sorted uses in tiles of CUDA_SCATTER_CHUNK: at most two chunks of long rows begin in a
 * tile, the first chunk of one row and a later chunk of the row before it, since chunks of a row begin a tile's length apart. */
#include "launch.h"
#include "sort.h"

#define CHUNK     ((size_t)CUDA_SCATTER_CHUNK)
#define IN_FLIGHT 4                   /* rows of dout asked for before the first is added */
#define USES_MAX  ((size_t)INT32_MAX) /* of one call: what the sort counts to */

/* In all of the following: row (n) sorted, use (n) in that order, bag (n) of use u, weight (n) of use u, and the sorted uses
 * of row r are [begin[r], end[r]), both 0 for a row without any. Without weights (NULL) nothing needs the uses' numbers, and use (n) are their bags. */

/* use (n) counts up; bag (n): the last bag that begins at or before it, by halving. bag NULL: that is in use. */
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
	use[u] = (uint32_t)(bag != NULL ? u : low);
	if (bag != NULL)
		bag[u] = (uint32_t)low;
}

/* row (n) is sorted. */
static __global__ void bounds_kernel(uint32_t *begin, uint32_t *end, const uint32_t *row, size_t n)
{
	const size_t i = thread_number();
	if (i >= n)
		return;
	if (i == 0 || row[i - 1] != row[i])
		begin[row[i]] = (uint32_t)i;
	if (i + 1 == n || row[i + 1] != row[i])
		end[row[i]] = (uint32_t)(i + 1);
}

/* The sum over sorted uses [at, last), in order. */
template <int V>
static __device__ inline pack<V> sum_of_uses(const uint32_t *use, const uint32_t *bag, const float *weight, const float *dout,
                                             size_t width, size_t j, size_t at, size_t last)
{
	pack<V> sum = {{0}};
	for (; at + IN_FLIGHT <= last; at += IN_FLIGHT) {
		pack<V> from[IN_FLIGHT];
		float by[IN_FLIGHT];
#pragma unroll
		for (int k = 0; k < IN_FLIGHT; k++) {
			const uint32_t u = use[at + k];
			from[k] = load<V>(dout + (weight != NULL ? bag[u] : u) * width + j);
			by[k] = weight != NULL ? weight[u] : 1;
		}
#pragma unroll
		for (int k = 0; k < IN_FLIGHT; k++)
			for (int v = 0; v < V; v++)
				sum.v[v] += by[k] * from[k].v[v];
	}
	for (; at < last; at++) {
		const uint32_t u = use[at];
		const pack<V> from = load<V>(dout + (weight != NULL ? bag[u] : u) * width + j);
		const float by = weight != NULL ? weight[u] : 1;
		for (int v = 0; v < V; v++)
			sum.v[v] += by * from.v[v];
	}
	return sum;
}

/* Rows of at most CHUNK uses, also those of none. A thread for V columns of a row. */
template <int V>
static __global__ void short_rows_kernel(float *drows, const uint32_t *begin, const uint32_t *end, const uint32_t *use,
                                         const uint32_t *bag, const float *weight, const float *dout, size_t width, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t r = quotient(i, width), at = begin[r], last = end[r];
	if (last - at <= CHUNK)
		store<V>(drows + i, sum_of_uses<V>(use, bag, weight, dout, width, i - r * width, at, last));
}

/* Where the chunk of place p begins, and the row's end; false when there is no such chunk. Place 2 t + 1: the first chunk of a
 * long row that begins in tile t; place 2 t: a later chunk. row (n) is sorted. */
static __device__ inline bool chunk_of(size_t p, const uint32_t *row, const uint32_t *begin, const uint32_t *end, size_t n,
                                       size_t *at, size_t *last)
{
	const size_t low = p / 2 * CHUNK, high = low + CHUNK < n ? low + CHUNK : n;
	const uint32_t r =
	    row[p % 2 == 1 ? high - 1 : low]; /* a first chunk reaches its tile's end, a later one's row began before the tile */
	const size_t first = begin[r];
	*last = end[r];
	*at = p % 2 == 1 || first >= low ? first : low + (CHUNK - (low - first) % CHUNK) % CHUNK;
	if (*last - first <= CHUNK || *at < low || *at >= high || *at >= *last)
		return false;
	return (*at == first) == (p % 2 == 1);
}

/* partial (places, width); a thread for V columns of a place */
template <int V>
static __global__ void chunks_kernel(float *partial, const uint32_t *row, const uint32_t *begin, const uint32_t *end,
                                     const uint32_t *use, const uint32_t *bag, const float *weight, const float *dout,
                                     size_t width, size_t n, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t p = quotient(i, width);
	size_t at, last;
	if (!chunk_of(p, row, begin, end, n, &at, &last))
		return;
	last = at + CHUNK < last ? at + CHUNK : last;
	store<V>(partial + i, sum_of_uses<V>(use, bag, weight, dout, width, i - p * width, at, last));
}

/* The chunks of each long row, in order: a thread for V columns of the place of its first chunk. */
template <int V>
static __global__ void long_rows_kernel(float *drows, const float *partial, const uint32_t *row, const uint32_t *begin,
                                        const uint32_t *end, size_t width, size_t n, size_t total)
{
	const size_t i = thread_number() * V; /* in (tiles, width) */
	if (i >= total)
		return;
	const size_t tile = quotient(i, width), j = i - tile * width;
	size_t at, last;
	if (!chunk_of(2 * tile + 1, row, begin, end, n, &at, &last))
		return;
	const size_t r = row[at];
	pack<V> sum = load<V>(partial + (2 * tile + 1) * width + j);
#pragma unroll 4
	for (at += CHUNK; at < last; at += CHUNK) {
		const pack<V> chunk = load<V>(partial + at / CHUNK * 2 * width + j);
		for (int v = 0; v < V; v++)
			sum.v[v] += chunk.v[v];
	}
	store<V>(drows + r * width + j, sum);
}

enum { SORTED_ROW, SORTED_USE, USE, BAG, BEGIN, END, PARTIAL, TEMPORARY, PARTS };

template <int V>
static void add_rows(struct cuda_backend *c, float *drows, size_t unique, size_t width, const float *dout, const float *weight,
                     void *const *parts, size_t n)
{
	const uint32_t *row = (const uint32_t *)parts[SORTED_ROW], *use = (const uint32_t *)parts[SORTED_USE],
	               *bag = (const uint32_t *)parts[BAG], *begin = (const uint32_t *)parts[BEGIN],
	               *end = (const uint32_t *)parts[END];
	float *partial = (float *)parts[PARTIAL];
	const size_t tiles = (n + CHUNK - 1) / CHUNK, all = unique * width, places = 2 * tiles * width;
	LAUNCH(c, short_rows_kernel<V>, blocks_for(c, all / V), CUDA_THREADS, drows, begin, end, use, bag, weight, dout, width, all);
	if (n <= CHUNK) /* no row is long */
		return;
	LAUNCH(c, chunks_kernel<V>, blocks_for(c, places / V), CUDA_THREADS, partial, row, begin, end, use, bag, weight, dout, width,
	       n, places);
	LAUNCH(c, long_rows_kernel<V>, blocks_for(c, tiles * width / V), CUDA_THREADS, drows, partial, row, begin, end, width, n,
	       tiles * width);
}

void cuda_scatter_sum(struct backend *b, float *drows, size_t unique, size_t width, const float *dout, const uint32_t *offsets,
                      const uint32_t *index, const float *weight, size_t bags, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (n > USES_MAX)
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
	                             weight != NULL ? of_uses : 0,
	                             of_rows,
	                             of_rows,
	                             (n + CHUNK - 1) / CHUNK * 2 * width * sizeof(float),
	                             temporary};
	void *parts[PARTS];
	if (!cuda_workspace(c, PARTS, sizes, parts))
		return;
	LAUNCH(c, expand_kernel, blocks_for(c, n), CUDA_THREADS, (uint32_t *)parts[USE],
	       weight != NULL ? (uint32_t *)parts[BAG] : NULL, offsets, bags, n);
	if (!cuda_ok(c))
		return;
	cuda_try(c, "sort by row",
	         cuda_sort(parts[TEMPORARY], temporary, index, (uint32_t *)parts[SORTED_ROW], (const uint32_t *)parts[USE],
	                   (uint32_t *)parts[SORTED_USE], n, bits, c->stream));
	CUDA_TRY(c, cudaMemsetAsync(parts[BEGIN], 0, of_rows, c->stream));
	CUDA_TRY(c, cudaMemsetAsync(parts[END], 0, of_rows, c->stream));
	LAUNCH(c, bounds_kernel, blocks_for(c, n), CUDA_THREADS, (uint32_t *)parts[BEGIN], (uint32_t *)parts[END],
	       (const uint32_t *)parts[SORTED_ROW], n);
	if (pack_width(width, ADDRESS(drows) | ADDRESS(dout)) == 4)
		add_rows<4>(c, drows, unique, width, dout, weight, parts, n);
	else
		add_rows<1>(c, drows, unique, width, dout, weight, parts, n);
}
