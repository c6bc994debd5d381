/* Factorisation machine, second order (Rendle 2010, eq. 3 and lemma 3.1), and the first order's row
 * sum. A row has a group of lanes, as many as dim needs and at most a warp. Each lane takes every
 * width-th of the sums over d, and the lanes are added in a tree. */
#include "kernels/cuda/launch.h"

/* Lanes for n items, a power of two. */
static unsigned group_width(size_t n)
{
	unsigned width = 1;
	while (width < CUDA_LANES && width < n)
		width *= 2;
	return width;
}

template <int V>
static __global__ void fm_kernel(float *out, float *sum, const float *x, size_t rows, size_t fields, size_t dim, unsigned width)
{
	const size_t r = thread_number() / width;
	const unsigned lane = threadIdx.x % width;
	float pairs = 0;
	if (r < rows) {
		x += r * fields * dim;
		sum += r * dim;
		for (size_t d = (size_t)lane * V; d < dim; d += (size_t)width * V) {
			pack<V> s = {{0}}, squares = {{0}};
#pragma unroll 4
			for (size_t f = 0; f < fields; f++) {
				const pack<V> p = load<V>(x + f * dim + d);
				for (int k = 0; k < V; k++) {
					s.v[k] += p.v[k];
					squares.v[k] += p.v[k] * p.v[k];
				}
			}
			store<V>(sum + d, s);
			for (int k = 0; k < V; k++)
				pairs += s.v[k] * s.v[k] - squares.v[k];
		}
	}
	pairs = lanes_sum(pairs, width);
	if (lane == 0 && r < rows)
		out[r] = 0.5f * pairs;
}

void cuda_fm(struct backend *b, float *out, float *sum, const float *x, size_t rows, size_t fields, size_t dim)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(dim, ADDRESS(sum) | ADDRESS(x)) == 4) {
		const unsigned width = group_width(dim / 4);
		LAUNCH(c, fm_kernel<4>, blocks_for(c, rows * width), CUDA_THREADS, out, sum, x, rows, fields, dim, width);
	} else {
		const unsigned width = group_width(dim);
		LAUNCH(c, fm_kernel<1>, blocks_for(c, rows * width), CUDA_THREADS, out, sum, x, rows, fields, dim, width);
	}
}

/* One thread per V sums of a row, over all fields. */
template <int V>
static __global__ void fm_backward_kernel(float *dx, const float *dout, const float *sum, const float *x, size_t fields,
                                          size_t dim, size_t total)
{
	const size_t i = thread_number() * V; /* index in sum (rows, dim) */
	if (i >= total)
		return;
	const size_t r = quotient(i, dim), at = r * fields * dim + (i - r * dim);
	const float by = dout[r];
	const pack<V> s = load<V>(sum + i);
#pragma unroll 4
	for (size_t f = 0; f < fields; f++) {
		const pack<V> p = load<V>(x + at + f * dim);
		pack<V> d = load<V>(dx + at + f * dim);
		for (int k = 0; k < V; k++)
			d.v[k] += by * (s.v[k] - p.v[k]);
		store<V>(dx + at + f * dim, d);
	}
}

void cuda_fm_backward(struct backend *b, float *dx, const float *dout, const float *sum, const float *x, size_t rows,
                      size_t fields, size_t dim)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * dim;
	if (pack_width(dim, ADDRESS(dx) | ADDRESS(sum) | ADDRESS(x)) == 4)
		LAUNCH(c, fm_backward_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, dx, dout, sum, x, fields, dim, total);
	else
		LAUNCH(c, fm_backward_kernel<1>, blocks_for(c, total), CUDA_THREADS, dx, dout, sum, x, fields, dim, total);
}

static __global__ void row_sum_kernel(float *out, const float *x, size_t rows, size_t n, unsigned width)
{
	const size_t r = thread_number() / width;
	const unsigned lane = threadIdx.x % width;
	float sum = 0;
	if (r < rows)
		for (size_t j = lane; j < n; j += width)
			sum += x[r * n + j];
	sum = lanes_sum(sum, width);
	if (lane == 0 && r < rows)
		out[r] = sum;
}

void cuda_row_sum(struct backend *b, float *out, const float *x, size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const unsigned width = group_width(n);
	LAUNCH(c, row_sum_kernel, blocks_for(c, rows * width), CUDA_THREADS, out, x, rows, n, width);
}
