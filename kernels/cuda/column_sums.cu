/* Sums over rows, in double. A block takes up to 32 columns of one part of the rows: each thread adds every ROWS-th row of its part, and the threads
 * of a column are added in a tree; a second kernel adds the parts in order. Parts follow from the shape alone. */
#include "launch.h"

static unsigned columns_of(size_t n)
{
	unsigned columns = CUDA_LANES;
	while (columns / 2 >= n && columns > 1)
		columns /= 2;
	return columns;
}

static unsigned parts_of(size_t rows, size_t n)
{
	const size_t at_once = CUDA_THREADS / columns_of(n), per_part = at_once * CUDA_COLUMN_ROWS_PER_ROW;
	const size_t parts = (rows + per_part - 1) / per_part;
	return (unsigned)(parts == 0 ? 1 : parts > CUDA_COLUMN_PARTS ? CUDA_COLUMN_PARTS : parts);
}

/* Sums of a column. */
static __host__ __device__ constexpr unsigned results_of(int kind)
{
	return kind == COLUMN_SUM_AND_PRODUCT || kind == COLUMN_SUM_AND_NORMED ? 2 : 1;
}

size_t cuda_column_partial_bytes(enum column_kind kind, size_t rows, size_t n)
{
	return results_of(kind) * parts_of(rows, n) * n * sizeof(double);
}

struct column_terms {
	double v[2];
};

/* Of the element at (r, j); mean is its column's. */
template <int KIND>
static __device__ inline column_terms terms(const float *a, const float *b, double mean, const float *row_mean,
                                            const float *row_inv, size_t r, size_t at)
{
	const double x = (double)a[at];
	if (KIND == COLUMN_SUM_AND_PRODUCT)
		return column_terms{{x, x * (double)b[at]}};
	if (KIND == COLUMN_SUM_AND_NORMED)
		return column_terms{{x, x * (double)((b[at] - (row_mean != NULL ? row_mean[r] : 0)) * row_inv[r])}};
	if (KIND == COLUMN_CENTRED_SQUARES)
		return column_terms{{(x - mean) * (x - mean), 0}};
	return column_terms{{x, 0}};
}

/* partial (results, parts, n); block (x, y): columns x * columns .., part y. */
template <int KIND>
static __global__ void column_parts_kernel(double *partial, const float *a, const float *b, const double *mean,
                                           const float *row_mean, const float *row_inv, size_t rows, size_t n, unsigned columns)
{
	SHARED(double, sums, [CUDA_THREADS]);
	const unsigned results = results_of(KIND);
	const unsigned column = threadIdx.x % columns, row = threadIdx.x / columns, at_once = blockDim.x / columns;
	const size_t j = (size_t)blockIdx.x * columns + column, part = blockIdx.y, parts = gridDim.y;
	const size_t per_part = (rows + parts - 1) / parts, first = part * per_part;
	const size_t last = first + per_part < rows ? first + per_part : rows;
	column_terms sum = {{0, 0}};
	if (j < n) {
		const double centre = KIND == COLUMN_CENTRED_SQUARES ? mean[j] : 0;
		for (size_t r = first + row; r < last; r += at_once) {
			const column_terms t = terms<KIND>(a, b, centre, row_mean, row_inv, r, r * n + j);
			for (unsigned k = 0; k < results; k++)
				sum.v[k] += t.v[k];
		}
	}
	for (unsigned k = 0; k < results; k++) {
		__syncthreads(); /* the tree before is read to its end */
		sums[threadIdx.x] = sum.v[k];
		for (unsigned half = at_once / 2; half > 0; half /= 2) {
			__syncthreads();
			if (row < half)
				sums[threadIdx.x] += sums[threadIdx.x + half * columns];
		}
		if (row == 0 && j < n)
			partial[(k * parts + part) * n + j] = sums[column];
	}
}

/* out (results, n); thread: result and column */
static __global__ void column_totals_kernel(double *out, const double *partial, size_t parts, size_t n, size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	const size_t k = quotient(i, n), j = i - k * n;
	double sum = 0;
	for (size_t part = 0; part < parts; part++)
		sum += partial[(k * parts + part) * n + j];
	out[i] = sum;
}

template <int KIND>
static void column_parts(struct cuda_backend *c, double *partial, const struct column_input *in, dim3 grid, unsigned columns)
{
	LAUNCH(c, column_parts_kernel<KIND>, grid, CUDA_THREADS, partial, in->a, in->b, in->mean, in->row_mean, in->row_inv, in->rows,
	       in->n, columns);
}

void cuda_column_sums(struct cuda_backend *c, enum column_kind kind, double *out, double *partial, const struct column_input *in)
{
	const size_t n = in->n;
	const unsigned columns = columns_of(n), parts = parts_of(in->rows, n);
	const size_t tiles = (n + columns - 1) / columns, total = results_of(kind) * n;
	if (tiles > CUDA_GRID_MAX) {
		cuda_failed_limit(c, "more columns than a launch can have");
		return;
	}
	const dim3 grid((unsigned)tiles, parts);
	switch (kind) {
	case COLUMN_SUM:
		column_parts<COLUMN_SUM>(c, partial, in, grid, columns);
		break;
	case COLUMN_CENTRED_SQUARES:
		column_parts<COLUMN_CENTRED_SQUARES>(c, partial, in, grid, columns);
		break;
	case COLUMN_SUM_AND_PRODUCT:
		column_parts<COLUMN_SUM_AND_PRODUCT>(c, partial, in, grid, columns);
		break;
	case COLUMN_SUM_AND_NORMED:
		column_parts<COLUMN_SUM_AND_NORMED>(c, partial, in, grid, columns);
		break;
	}
	LAUNCH(c, column_totals_kernel, blocks_for(c, total), CUDA_THREADS, out, partial, parts, n, total);
}
