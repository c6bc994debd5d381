/* DLRM's dot interaction (Naumov et al. 2019, sec. 2.1.3): the strictly lower triangle of x x^T, row by row, without the rest.
 * Forward works on 16 columns of the triangle at once, from 16 vectors transposed into a small tile. */
#include <string.h>

#include "ops.h"

#define TILE_DIM 128 /* of dim, per tile: 8 KiB on the stack */

struct dots {
	float *out;     /* (rows, vectors (vectors - 1) / 2) */
	const float *x; /* (rows, vectors, dim) */
	size_t vectors, dim;
};

static size_t triangle(size_t i)
{
	return i * (i - 1) / 2;
} /* where row i of the triangle begins, i >= 1 */

/* tile (dim, 16): vectors j .. j + count - 1 as columns, zeros beyond */
static void transpose(float *tile, const float *x, size_t stride, size_t count, size_t dim)
{
	for (size_t d = 0; d < dim; d++, tile += 16) {
		for (size_t c = 0; c < count; c++)
			tile[c] = x[c * stride + d];
		memset(tile + count, 0, (16 - count) * sizeof *tile);
	}
}

static void dots_of_row(const struct dots *a, const float *x, float *out)
{
	float tile[TILE_DIM * 16] __attribute__((aligned(64))), sums[16];
	for (size_t d0 = 0; d0 < a->dim; d0 += TILE_DIM) {
		const size_t dim = least(TILE_DIM, a->dim - d0);
		for (size_t j = 0; j + 1 < a->vectors; j += 16) {
			transpose(tile, x + j * a->dim + d0, a->dim, least(16, a->vectors - j), dim);
			for (size_t i = j + 1; i < a->vectors; i++) {
				const float *v = x + i * a->dim + d0;
				float *to = out + triangle(i) + j;
				const size_t columns = least(16, i - j);
				vf16 sum = {0};
				for (size_t d = 0; d < dim; d++)
					sum += v[d] * VF16_AT(tile + 16 * d);
				if (d0 == 0 && columns == 16) {
					VF16_PUT(to, sum);
					continue;
				}
				VF16_PUT(sums, sum);
				for (size_t c = 0; c < columns; c++)
					to[c] = d0 == 0 ? sums[c] : to[c] + sums[c];
			}
		}
	}
}

static void dots_range(void *args, size_t begin, size_t end)
{
	const struct dots *a = args;
	for (size_t r = begin; r < end; r++)
		dots_of_row(a, a->x + r * a->vectors * a->dim, a->out + r * triangle(a->vectors));
}

void ISA(cpu_dot_interaction)(struct backend *b, float *out, const float *x, size_t rows, size_t vectors, size_t dim)
{
	struct dots a = {out, x, vectors, dim};
	if (vectors < 2)
		return;
	if (dim == 0)
		memset(out, 0, rows * triangle(vectors) * sizeof *out);
	cpu_parallel(b, rows, cpu_grain(triangle(vectors) * dim), dots_range, &a);
}

struct dots_backward {
	float *dx;
	const float *dout, *x;
	size_t vectors, dim;
};

/* dx_i = sum over j of dout_ij x_j, the triangle read as a symmetric matrix with zeros on the diagonal. */
static void dots_backward_of_row(const struct dots_backward *a, float *dx, const float *dout, const float *x)
{
	const size_t dim = a->dim;
	for (size_t i = 0; i < a->vectors; i++) {
		size_t d = 0;
		for (; d + 16 <= dim; d += 16) {
			vf16 sum = {0};
			for (size_t j = 0; j < i; j++)
				sum += dout[triangle(i) + j] * VF16_AT(x + j * dim + d);
			for (size_t j = i + 1; j < a->vectors; j++)
				sum += dout[triangle(j) + i] * VF16_AT(x + j * dim + d);
			VF16_PUT(dx + i * dim + d, sum);
		}
		for (; d < dim; d++) {
			float sum = 0;
			for (size_t j = 0; j < i; j++)
				sum += dout[triangle(i) + j] * x[j * dim + d];
			for (size_t j = i + 1; j < a->vectors; j++)
				sum += dout[triangle(j) + i] * x[j * dim + d];
			dx[i * dim + d] = sum;
		}
	}
}

static void dots_backward_range(void *args, size_t begin, size_t end)
{
	const struct dots_backward *a = args;
	const size_t row = a->vectors * a->dim;
	for (size_t r = begin; r < end; r++)
		dots_backward_of_row(a, a->dx + r * row, a->dout + r * triangle(a->vectors), a->x + r * row);
}

void ISA(cpu_dot_interaction_backward)(struct backend *b, float *dx, const float *dout, const float *x, size_t rows,
                                       size_t vectors, size_t dim)
{
	struct dots_backward a = {dx, dout, x, vectors, dim};
	cpu_parallel(b, rows, cpu_grain(vectors * vectors * dim), dots_backward_range, &a);
}
