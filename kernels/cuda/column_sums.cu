/* Sums over rows, in double. A block takes up to 32 columns of one part of the rows: each thread
 * adds every ROWS-th row of its part, and the threads of a column are added in a tree. A second
 * kernel adds the parts in order. Parts follow from the shape alone. */
#include "kernels/cuda/act.h"

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

/* Number of sums of a column. */
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

static __host__ __device__ constexpr int act_of(int kind)
{
	return kind == COLUMN_RELU      ? ACT_RELU
	       : kind == COLUMN_SIGMOID ? ACT_SIGMOID
	       : kind == COLUMN_TANH    ? ACT_TANH
	       : kind == COLUMN_GELU    ? ACT_GELU
	                                : ACT_NONE;
}

/* Terms of the element at (r, j); mean is its column's. */
template <int KIND>
static __device__ inline column_terms terms(const float *a, const float *b, double mean, const float *row_mean,
                                            const float *row_inv, float *dx, size_t r, size_t at)
{
	if constexpr (act_of(KIND) != ACT_NONE) {
		const float d = act_gradient<act_of(KIND)>(a[at], b[at]);
		dx[at] = d;
		return column_terms{{(double)d, 0}};
	}
	const double x = (double)a[at];
	if (KIND == COLUMN_SUM_AND_PRODUCT)
		return column_terms{{x, x * (double)b[at]}};
	if (KIND == COLUMN_SUM_AND_NORMED)
		return column_terms{{x, x * (double)((b[at] - (row_mean ? row_mean[r] : 0)) * row_inv[r])}};
	if (KIND == COLUMN_CENTRED_SQUARES)
		return column_terms{{(x - mean) * (x - mean), 0}};
	return column_terms{{x, 0}};
}

/* partial (results, parts, n); block (x, y): columns x * columns .., part y. */
template <int KIND>
static __global__ void column_parts_kernel(double *partial, const float *a, const float *b, const double *mean,
                                           const float *row_mean, const float *row_inv, float *dx, size_t rows, size_t n,
                                           unsigned columns)
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
#pragma unroll 4
		for (size_t r = first + row; r < last; r += at_once) {
			const column_terms t = terms<KIND>(a, b, centre, row_mean, row_inv, dx, r, r * n + j);
			for (unsigned k = 0; k < results; k++)
				sum.v[k] += t.v[k];
		}
	}
	for (unsigned k = 0; k < results; k++) {
		__syncthreads(); /* all threads have read the previous tree */
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

/* out (results, n) = or += the sums; thread: result and column */
template <typename T, bool ADD>
static __global__ void column_totals_kernel(T *out, const double *partial, size_t parts, size_t n, size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	const size_t k = quotient(i, n), j = i - k * n;
	double sum = 0;
	for (size_t part = 0; part < parts; part++)
		sum += partial[(k * parts + part) * n + j];
	out[i] = ADD ? out[i] + (T)sum : (T)sum;
}

template <int KIND> static void parts_of_kind(struct cuda_backend *c, double *partial, const struct column_input *in)
{
	const unsigned columns = columns_of(in->n);
	const size_t tiles = (in->n + columns - 1) / columns;
	if (tiles > CUDA_GRID_MAX) {
		cuda_failed_limit(c, "more columns than a launch can have");
		return;
	}
	LAUNCH(c, column_parts_kernel<KIND>, dim3((unsigned)tiles, parts_of(in->rows, in->n)), CUDA_THREADS, partial, in->a, in->b,
	       in->mean, in->row_mean, in->row_inv, in->dx, in->rows, in->n, columns);
}

static void column_parts(struct cuda_backend *c, enum column_kind kind, double *partial, const struct column_input *in)
{
	switch (kind) {
	case COLUMN_SUM:
		return parts_of_kind<COLUMN_SUM>(c, partial, in);
	case COLUMN_CENTRED_SQUARES:
		return parts_of_kind<COLUMN_CENTRED_SQUARES>(c, partial, in);
	case COLUMN_SUM_AND_PRODUCT:
		return parts_of_kind<COLUMN_SUM_AND_PRODUCT>(c, partial, in);
	case COLUMN_SUM_AND_NORMED:
		return parts_of_kind<COLUMN_SUM_AND_NORMED>(c, partial, in);
	case COLUMN_RELU:
		return parts_of_kind<COLUMN_RELU>(c, partial, in);
	case COLUMN_SIGMOID:
		return parts_of_kind<COLUMN_SIGMOID>(c, partial, in);
	case COLUMN_TANH:
		return parts_of_kind<COLUMN_TANH>(c, partial, in);
	case COLUMN_GELU:
		return parts_of_kind<COLUMN_GELU>(c, partial, in);
	}
}

void cuda_column_sums(struct cuda_backend *c, enum column_kind kind, double *out, double *partial, const struct column_input *in)
{
	const size_t total = results_of(kind) * in->n;
	column_parts(c, kind, partial, in);
	LAUNCH(c, (column_totals_kernel<double, false>), blocks_for(c, total), CUDA_THREADS, out, partial, parts_of(in->rows, in->n),
	       in->n, total);
}

void cuda_column_sums_rounded(struct cuda_backend *c, enum column_kind kind, float *out, bool add, double *partial,
                              const struct column_input *in)
{
	const size_t total = results_of(kind) * in->n, parts = parts_of(in->rows, in->n);
	column_parts(c, kind, partial, in);
	if (add)
		LAUNCH(c, (column_totals_kernel<float, true>), blocks_for(c, total), CUDA_THREADS, out, partial, parts, in->n, total);
	else
		LAUNCH(c, (column_totals_kernel<float, false>), blocks_for(c, total), CUDA_THREADS, out, partial, parts, in->n, total);
}
