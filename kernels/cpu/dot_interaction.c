/* DLRM's dot interaction (Naumov et al. 2019, sec. 2.1.3): the strictly lower triangle of the
 * products of a row's vectors, row by row, and nothing else. Forward computes 16 columns of the
 * triangle at once, from 16 vectors transposed into a small tile. */
#include <string.h>

#include "kernels/cpu/ops.h"

#define TILE_DIM 128 /* elements of dim per tile: 8 KiB on the stack */

static size_t triangle(size_t i)
{
	return i * (i - 1) / 2;
} /* the start of row i of the triangle, i >= 1 */

/* The vectors of one row: first, unless it is NULL, and those of x. */
struct vectors {
	const float *first; /* (dim) */
	const float *x;     /* (count without first, dim) */
	size_t count, dim;
};

static struct vectors vectors_of(const float *first, const float *x, size_t r, size_t fields, size_t dim)
{
	return (struct vectors){first != NULL ? first + r * dim : NULL, x + r * fields * dim, fields + (first != NULL), dim};
}

static const float *vector_at(const struct vectors *v, size_t i)
{
	return !v->first ? v->x + i * v->dim : i == 0 ? v->first : v->x + (i - 1) * v->dim;
}

/* The width of a row's results. */
static size_t width_of(const float *first, size_t fields, size_t dim)
{
	const size_t count = fields + (first != NULL);
	return (first ? dim : 0) + (count > 0 ? triangle(count) : 0);
}

/* tile (dim, 16): elements [d0, d0 + dim) of vectors j .. j + count - 1 as columns; zeros beyond */
static void transpose(float *tile, const struct vectors *v, size_t j, size_t count, size_t d0, size_t dim)
{
	const float *columns[16];
	for (size_t c = 0; c < count; c++)
		columns[c] = vector_at(v, j + c) + d0;
	for (size_t d = 0; d < dim; d++, tile += 16) {
		for (size_t c = 0; c < count; c++)
			tile[c] = columns[c][d];
		memset(tile + count, 0, (16 - count) * sizeof *tile);
	}
}

static void dots_of_row(const struct vectors *a, float *out)
{
	float tile[TILE_DIM * 16] __attribute__((aligned(64))), sums[16];
	for (size_t d0 = 0; d0 < a->dim; d0 += TILE_DIM) {
		const size_t dim = least(TILE_DIM, a->dim - d0);
		for (size_t j = 0; j + 1 < a->count; j += 16) {
			transpose(tile, a, j, least(16, a->count - j), d0, dim);
			for (size_t i = j + 1; i < a->count; i++) {
				const float *v = vector_at(a, i) + d0;
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

struct dots {
	float *out; /* (rows, width) */
	const float *first, *x;
	size_t fields, dim;
};

static void dots_range(void *args, size_t begin, size_t end)
{
	const struct dots *a = args;
	const size_t width = width_of(a->first, a->fields, a->dim), offset = a->first ? a->dim : 0;
	for (size_t r = begin; r < end; r++) {
		const struct vectors v = vectors_of(a->first, a->x, r, a->fields, a->dim);
		float *out = a->out + r * width;
		if (offset > 0)
			memcpy(out, v.first, offset * sizeof *out);
		if (a->dim == 0)
			memset(out, 0, width * sizeof *out);
		dots_of_row(&v, out + offset);
	}
}

void ISA(cpu_dot_interaction)(struct backend *b, float *out, const float *first, const float *x, size_t rows, size_t fields,
                              size_t dim)
{
	struct dots a = {out, first, x, fields, dim};
	const size_t width = width_of(first, fields, dim);
	if (width > 0)
		cpu_parallel(b, rows, cpu_grain(width * dim), dots_range, &a);
}

struct dots_backward {
	float *dfirst, *dx;
	const float *dout, *first, *x;
	size_t fields, dim;
};

/* The gradient of vector i: the sum over j of dout_ij x_j, with the triangle read as a symmetric
 * matrix with zeros on the diagonal; plus `more` (dim), unless NULL. */
static void gradient_of_vector(const struct vectors *v, size_t i, const float *dout, const float *more, float *out)
{
	const size_t dim = v->dim, before = v->first != NULL;
	const float *x = v->x; /* of vector `before` and later ones */
	size_t d = 0;
	for (; d + 16 <= dim; d += 16) {
		vf16 sum = {0};
		if (before > 0 && i > 0)
			sum += dout[triangle(i)] * VF16_AT(v->first + d);
		for (size_t j = before; j < i; j++)
			sum += dout[triangle(i) + j] * VF16_AT(x + (j - before) * dim + d);
		for (size_t j = i + 1; j < v->count; j++)
			sum += dout[triangle(j) + i] * VF16_AT(x + (j - before) * dim + d);
		if (more)
			sum += VF16_AT(more + d);
		VF16_PUT(out + d, sum);
	}
	for (; d < dim; d++) {
		float sum = 0;
		for (size_t j = 0; j < i; j++)
			sum += dout[triangle(i) + j] * vector_at(v, j)[d];
		for (size_t j = i + 1; j < v->count; j++)
			sum += dout[triangle(j) + i] * vector_at(v, j)[d];
		out[d] = more ? more[d] + sum : sum;
	}
}

static void dots_backward_range(void *args, size_t begin, size_t end)
{
	const struct dots_backward *a = args;
	const size_t width = width_of(a->first, a->fields, a->dim), before = a->first ? 1 : 0;
	for (size_t r = begin; r < end; r++) {
		const struct vectors v = vectors_of(a->first, a->x, r, a->fields, a->dim);
		const float *dout = a->dout + r * width;
		if (before > 0)
			gradient_of_vector(&v, 0, dout + a->dim, dout, a->dfirst + r * a->dim);
		for (size_t i = before; i < v.count; i++)
			gradient_of_vector(&v, i, dout + before * a->dim, NULL, a->dx + (r * a->fields + i - before) * a->dim);
	}
}

void ISA(cpu_dot_interaction_backward)(struct backend *b, float *dfirst, float *dx, const float *dout, const float *first,
                                       const float *x, size_t rows, size_t fields, size_t dim)
{
	struct dots_backward a = {dfirst, dx, dout, first, x, fields, dim};
	const size_t vectors = fields + (first != NULL);
	cpu_parallel(b, rows, cpu_grain(vectors * vectors * dim), dots_backward_range, &a);
}
