/* Segmented sums: the gradients of look-ups. Each use of a row adds a row of dout. Uses are sorted
 * by row, stably, so that a row's uses are adjacent and in order. Then
 *   rows of at most CUDA_SCATTER_CHUNK uses are added one use after the other: the CPU's bits;
 *   longer ones are cut, from their first use on, into chunks of that many. Chunks are added in
 *   parallel, and their sums in order.
 * Even a row that has half of all uses thus takes no longer than its share, and the result depends
 * only on the uses.
 *
 * A chunk's sum has a fixed place, without counting. Cut the sorted uses into tiles of
 * CUDA_SCATTER_CHUNK: at most two chunks of long rows begin in a tile, the first chunk of one row
 * and a later chunk of the row before it, since chunks of a row begin a tile's length apart. */
#ifndef WEIR_SEGMENT_SUM_H
#define WEIR_SEGMENT_SUM_H

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sort.h"

#define SEGMENT_CHUNK ((size_t)CUDA_SCATTER_CHUNK)
/* rows of dout that are loaded before the first is added */
#define SEGMENT_IN_FLIGHT 4
#define SEGMENT_USES_MAX  ((size_t)INT32_MAX) /* of one call: the limit of the sort */

/* The sorted uses of row r are [begin[r], end[r]). A number of `rows` or more names no row: its
 * uses add nothing. Only SEGMENT_ASSIGN reads the bounds of rows without uses. */
struct segments {
	const uint32_t *row;         /* (n), sorted */
	const uint32_t *use;         /* (n), in that order */
	const uint32_t *begin, *end; /* (rows) */
	const uint32_t *bag;         /* (n): the row of dout that a use adds; NULL: its own number */
	const float *weight;         /* (n), of a use; NULL: 1 */
	const float *dout;           /* (.., width) */
	size_t n, rows, width;
};

enum segment_mode {
	SEGMENT_ASSIGN, /* out = the sum, 0 for a row without uses */
	SEGMENT_ADD     /* out += the sum, from out's value on */
};

static __global__ void segment_bounds_kernel(uint32_t *begin, uint32_t *end, const uint32_t *row, size_t n, size_t rows)
{
	const size_t i = thread_number();
	if (i >= n || row[i] >= rows)
		return;
	if (i == 0 || row[i - 1] != row[i])
		begin[row[i]] = (uint32_t)i;
	if (i + 1 == n || row[i + 1] != row[i])
		end[row[i]] = (uint32_t)(i + 1);
}

/* Adds columns j.. of the sorted uses [at, last) to sum, in order. */
template <int V>
static __device__ inline pack<V> add_uses(pack<V> sum, const struct segments *s, size_t j, size_t at, size_t last)
{
	for (; at + SEGMENT_IN_FLIGHT <= last; at += SEGMENT_IN_FLIGHT) {
		pack<V> from[SEGMENT_IN_FLIGHT];
		float by[SEGMENT_IN_FLIGHT];
#pragma unroll
		for (int k = 0; k < SEGMENT_IN_FLIGHT; k++) {
			const uint32_t u = s->use[at + k];
			from[k] = load<V>(s->dout + (s->bag ? s->bag[u] : u) * s->width + j);
			by[k] = s->weight ? s->weight[u] : 1;
		}
#pragma unroll
		for (int k = 0; k < SEGMENT_IN_FLIGHT; k++)
			for (int v = 0; v < V; v++)
				sum.v[v] += by[k] * from[k].v[v];
	}
	for (; at < last; at++) {
		const uint32_t u = s->use[at];
		const pack<V> from = load<V>(s->dout + (s->bag ? s->bag[u] : u) * s->width + j);
		const float by = s->weight ? s->weight[u] : 1;
		for (int v = 0; v < V; v++)
			sum.v[v] += by * from.v[v];
	}
	return sum;
}

/* The initial sum, to which a row's first use is added. */
template <int V, segment_mode MODE> static __device__ inline pack<V> first_sum(const float *to)
{
	if constexpr (MODE == SEGMENT_ADD)
		return load<V>(to);
	else
		return pack<V>{{0}};
}

/* Rows of at most SEGMENT_CHUNK uses. One thread per V columns of a row. SEGMENT_ASSIGN: row
 * `place`, even without uses; SEGMENT_ADD: the row whose first use is at `place`. */
template <int V, segment_mode MODE> static __global__ void short_segments_kernel(float *out, struct segments s, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t place = quotient(i, s.width), j = i - place * s.width, r = MODE == SEGMENT_ADD ? s.row[place] : place;
	if (r >= s.rows)
		return;
	const size_t first = s.begin[r], last = s.end[r];
	if ((MODE == SEGMENT_ADD && first != place) || last - first > SEGMENT_CHUNK)
		return;
	float *to = out + r * s.width + j;
	store<V>(to, add_uses<V>(first_sum<V, MODE>(to), &s, j, first, last));
}

/* Finds the start of the chunk at place p, and the row's end; false: no such chunk. Place 2 t + 1:
 * the first chunk of a long row that begins in tile t; place 2 t: a later chunk. */
static __device__ inline bool chunk_of(size_t p, const struct segments *s, size_t *at, size_t *last)
{
	const size_t low = p / 2 * SEGMENT_CHUNK, high = low + SEGMENT_CHUNK < s->n ? low + SEGMENT_CHUNK : s->n;
	/* a first chunk reaches its tile's end; the row of a later one began before the tile */
	const uint32_t r = s->row[p % 2 == 1 ? high - 1 : low];
	if (r >= s->rows)
		return false;
	const size_t first = s->begin[r];
	*last = s->end[r];
	*at = p % 2 == 1 || first >= low ? first : low + (SEGMENT_CHUNK - (low - first) % SEGMENT_CHUNK) % SEGMENT_CHUNK;
	if (*last - first <= SEGMENT_CHUNK || *at < low || *at >= high || *at >= *last)
		return false;
	return (*at == first) == (p % 2 == 1);
}

/* partial (places, width); one thread per V columns of a place */
template <int V, segment_mode MODE>
static __global__ void chunks_kernel(float *partial, const float *out, struct segments s, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t p = quotient(i, s.width), j = i - p * s.width;
	size_t at, last;
	if (!chunk_of(p, &s, &at, &last))
		return;
	last = at + SEGMENT_CHUNK < last ? at + SEGMENT_CHUNK : last;
	const pack<V> from = p % 2 == 1 ? first_sum<V, MODE>(out + s.row[at] * s.width + j) : pack<V>{{0}};
	store<V>(partial + i, add_uses<V>(from, &s, j, at, last));
}

/* Adds the chunks of each long row, in order: one thread per V columns of the place of its first
 * chunk. */
template <int V> static __global__ void long_segments_kernel(float *out, const float *partial, struct segments s, size_t total)
{
	const size_t i = thread_number() * V; /* in (tiles, width) */
	if (i >= total)
		return;
	const size_t tile = quotient(i, s.width), j = i - tile * s.width;
	size_t at, last;
	if (!chunk_of(2 * tile + 1, &s, &at, &last))
		return;
	const size_t r = s.row[at];
	pack<V> sum = load<V>(partial + (2 * tile + 1) * s.width + j);
#pragma unroll 4
	for (at += SEGMENT_CHUNK; at < last; at += SEGMENT_CHUNK) {
		const pack<V> chunk = load<V>(partial + at / SEGMENT_CHUNK * 2 * s.width + j);
		for (int v = 0; v < V; v++)
			sum.v[v] += chunk.v[v];
	}
	store<V>(out + r * s.width + j, sum);
}

static inline size_t segment_tiles(size_t n)
{
	return (n + SEGMENT_CHUNK - 1) / SEGMENT_CHUNK;
}

/* Bytes of the chunks' sums. */
static inline size_t segment_partial_bytes(size_t n, size_t width)
{
	return 2 * segment_tiles(n) * width * sizeof(float);
}

template <int V, segment_mode MODE>
static void add_segments(struct cuda_backend *c, float *out, float *partial, const struct segments *s)
{
	const size_t tiles = segment_tiles(s->n), all = (MODE == SEGMENT_ADD ? s->n : s->rows) * s->width;
	LAUNCH(c, (short_segments_kernel<V, MODE>), blocks_for(c, all / V), CUDA_THREADS, out, *s, all);
	if (s->n <= SEGMENT_CHUNK) /* no row is long */
		return;
	LAUNCH(c, (chunks_kernel<V, MODE>), blocks_for(c, 2 * tiles * s->width / V), CUDA_THREADS, partial, out, *s,
	       2 * tiles * s->width);
	LAUNCH(c, long_segments_kernel<V>, blocks_for(c, tiles * s->width / V), CUDA_THREADS, out, partial, *s, tiles * s->width);
}

/* out (rows, width); partial: segment_partial_bytes of workspace; begin, end: those of `s`, filled
 * here. */
template <segment_mode MODE>
static void segment_sum(struct cuda_backend *c, float *out, float *partial, uint32_t *begin, uint32_t *end,
                        const struct segments *s)
{
	LAUNCH(c, segment_bounds_kernel, blocks_for(c, s->n), CUDA_THREADS, begin, end, s->row, s->n, s->rows);
	if (pack_width(s->width, ADDRESS(out) | ADDRESS(s->dout)) == 4)
		add_segments<4, MODE>(c, out, partial, s);
	else
		add_segments<1, MODE>(c, out, partial, s);
}

#endif
