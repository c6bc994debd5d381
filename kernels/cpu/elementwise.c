/* fill, copy, axpy, add, scale, clip, lerp, subtract, removal of NaN and infinity, concat, split,
 * casts, and the sums and searches over all elements. */
#include <math.h>
#include <string.h>

#include "kernels/codecs/code.h"
#include "kernels/cpu/ops.h"

struct flat {
	float *y;
	const float *x;
	float a;
};

static void fill_range(void *args, size_t begin, size_t end)
{
	const struct flat *f = args;
	for (size_t i = begin; i < end; i++)
		f->y[i] = f->a;
}

void ISA(cpu_fill)(struct backend *b, float *x, float value, size_t n)
{
	struct flat f = {.y = x, .a = value};
	cpu_parallel(b, n, CPU_GRAIN, fill_range, &f);
}

static void axpy_range(void *args, size_t begin, size_t end)
{
	const struct flat *f = args;
	float *restrict y = f->y;
	const float *restrict x = f->x;
	const float a = f->a;
	for (size_t i = begin; i < end; i++)
		y[i] += a * x[i];
}

void ISA(cpu_axpy)(struct backend *b, float *y, float a, const float *x, size_t n)
{
	struct flat f = {.y = y, .x = x, .a = a};
	cpu_parallel(b, n, CPU_GRAIN, axpy_range, &f);
}

static void scale_range(void *args, size_t begin, size_t end)
{
	const struct flat *f = args;
	const float a = f->a;
	for (size_t i = begin; i < end; i++)
		f->y[i] *= a;
}

void ISA(cpu_scale)(struct backend *b, float *x, float a, size_t n)
{
	struct flat f = {.y = x, .a = a};
	cpu_parallel(b, n, CPU_GRAIN, scale_range, &f);
}

static void zero_range(void *args, size_t begin, size_t end)
{
	const struct flat *f = args;
	for (size_t i = begin; i < end; i++)
		f->y[i] = (bits_of(f->y[i]) & ABS_MASK) >= INFINITY_BITS ? 0 : f->y[i];
}

void ISA(cpu_zero_not_finite)(struct backend *b, float *x, size_t n)
{
	struct flat f = {.y = x};
	cpu_parallel(b, n, CPU_GRAIN, zero_range, &f);
}

static void lerp_range(void *args, size_t begin, size_t end)
{
	const struct flat *f = args;
	float *restrict y = f->y;
	const float *restrict x = f->x;
	const float t = f->a;
	if (t == 1) {
		memcpy(y + begin, x + begin, (end - begin) * sizeof *y);
		return;
	}
	for (size_t i = begin; i < end; i++)
		y[i] += t * (x[i] - y[i]);
}

void ISA(cpu_lerp)(struct backend *b, float *y, float t, const float *x, size_t n)
{
	struct flat f = {.y = y, .x = x, .a = t};
	cpu_parallel(b, n, CPU_GRAIN, lerp_range, &f);
}

struct difference {
	float *out;
	const float *x, *y;
};

static void subtract_range(void *args, size_t begin, size_t end)
{
	const struct difference *d = args;
	float *restrict out = d->out;
	const float *restrict x = d->x, *restrict y = d->y;
	for (size_t i = begin; i < end; i++)
		out[i] = x[i] - y[i];
}

void ISA(cpu_subtract)(struct backend *b, float *out, const float *x, const float *y, size_t n)
{
	struct difference d = {out, x, y};
	cpu_parallel(b, n, CPU_GRAIN, subtract_range, &d);
}

static void copy_range(void *args, size_t begin, size_t end)
{
	const struct flat *f = args;
	memcpy(f->y + begin, f->x + begin, (end - begin) * sizeof *f->y);
}

void ISA(cpu_copy)(struct backend *b, float *to, const float *from, size_t n)
{
	struct flat f = {.y = to, .x = from};
	cpu_parallel(b, n, CPU_GRAIN, copy_range, &f);
}

struct sum {
	float *out;
	const float *x, *y, *bias;
	size_t n;
};

static void add_range(void *args, size_t begin, size_t end)
{
	const struct sum *a = args;
	const float *bias = a->bias;
	for (size_t r = begin; r < end; r++) {
		const float *x = a->x + r * a->n, *y = a->y + r * a->n;
		float *out = a->out + r * a->n; /* may be x or y */
		if (bias) {
			IN_PLACE_LOOP
			for (size_t j = 0; j < a->n; j++)
				out[j] = x[j] + (y[j] + bias[j]);
		} else {
			IN_PLACE_LOOP
			for (size_t j = 0; j < a->n; j++)
				out[j] = x[j] + y[j];
		}
	}
}

void ISA(cpu_add)(struct backend *b, float *out, const float *x, const float *y, const float *bias, size_t rows, size_t n)
{
	struct sum a = {out, x, y, bias, n};
	cpu_parallel(b, rows, cpu_grain(n), add_range, &a);
}

struct sides {
	float *joined;       /* (rows, na + nb) */
	float *left, *right; /* (rows, na), (rows, nb) */
	size_t na, nb;
};

static void concat_range(void *args, size_t begin, size_t end)
{
	const struct sides *s = args;
	for (size_t r = begin; r < end; r++) {
		float *row = s->joined + r * (s->na + s->nb);
		memcpy(row, s->left + r * s->na, s->na * sizeof *row);
		memcpy(row + s->na, s->right + r * s->nb, s->nb * sizeof *row);
	}
}

void ISA(cpu_concat)(struct backend *b, float *out, const float *A, size_t na, const float *B, size_t nb, size_t rows)
{
	struct sides s = {out, (float *)A, (float *)B, na, nb};
	cpu_parallel(b, rows, cpu_grain(na + nb), concat_range, &s);
}

static void split_range(void *args, size_t begin, size_t end)
{
	const struct sides *s = args;
	for (size_t r = begin; r < end; r++) {
		const float *row = s->joined + r * (s->na + s->nb);
		memcpy(s->left + r * s->na, row, s->na * sizeof *row);
		memcpy(s->right + r * s->nb, row + s->na, s->nb * sizeof *row);
	}
}

void ISA(cpu_split)(struct backend *b, const float *in, float *A, size_t na, float *B, size_t nb, size_t rows)
{
	struct sides s = {(float *)in, A, B, na, nb};
	cpu_parallel(b, rows, cpu_grain(na + nb), split_range, &s);
}

/* --- Over all elements: blocks fixed by n alone, added in order. */

struct blocks {
	const float *x;
	size_t n, block; /* elements per block */
	double sum[CPU_REDUCE_BLOCKS];
	bool finite[CPU_REDUCE_BLOCKS];
};

static struct blocks blocks_of(const float *x, size_t n)
{
	return (struct blocks){.x = x, .n = n, .block = cpu_reduce_block(n)};
}

static size_t blocks_grain(size_t n)
{
	return 1 + CPU_GRAIN / (n / CPU_REDUCE_BLOCKS + 1);
}

static void squares_range(void *args, size_t begin, size_t end)
{
	struct blocks *s = args;
	for (size_t i = begin; i < end; i++) {
		size_t at = least(i * s->block, s->n);
		s->sum[i] = ISA(sum_squares)(s->x + at, least(s->block, s->n - at));
	}
}

void ISA(cpu_sum_squares)(struct backend *b, double *out, const float *x, size_t n)
{
	struct blocks s = blocks_of(x, n);
	cpu_parallel(b, CPU_REDUCE_BLOCKS, blocks_grain(n), squares_range, &s);
	double sum = 0;
	for (size_t i = 0; i < CPU_REDUCE_BLOCKS; i++)
		sum += s.sum[i];
	*out = sum;
}

void ISA(cpu_clip)(struct backend *b, float *x, size_t n, const double *squares, size_t parts, float limit)
{
	double sum = 0;
	for (size_t i = 0; i < parts; i++)
		sum += squares[i];
	const double norm = sqrt(sum);
	if (norm > (double)limit && isfinite(norm))
		ISA(cpu_scale)(b, x, (float)((double)limit / norm), n);
}

static void finite_range(void *args, size_t begin, size_t end)
{
	struct blocks *s = args;
	for (size_t i = begin; i < end; i++) {
		size_t at = least(i * s->block, s->n);
		s->finite[i] = ISA(all_finite)(s->x + at, least(s->block, s->n - at));
	}
}

bool ISA(cpu_all_finite)(struct backend *b, const float *x, size_t n)
{
	struct blocks s = blocks_of(x, n);
	cpu_parallel(b, CPU_REDUCE_BLOCKS, blocks_grain(n), finite_range, &s);
	bool finite = true;
	for (size_t i = 0; i < CPU_REDUCE_BLOCKS; i++)
		finite &= s.finite[i];
	return finite;
}

/* --- Loss scaling */

void ISA(cpu_scale_by)(struct backend *b, float *x, size_t n, const float *by)
{
	ISA(cpu_scale)(b, x, *by, n);
}

void ISA(cpu_unscale)(struct backend *b, const struct floats *x, size_t count, const float *by, uint32_t *not_finite)
{
	bool finite = true;
	for (size_t i = 0; i < count; i++) {
		ISA(cpu_scale)(b, x[i].at, 1 / *by, x[i].n);
		finite &= ISA(cpu_all_finite)(b, x[i].at, x[i].n);
	}
	*not_finite = !finite;
}

/* --- Casts */

struct cast {
	float *fp32;
	uint16_t *bf16;
};

static void to_bf16_range(void *args, size_t begin, size_t end)
{
	const struct cast *c = args;
	ISA(bf16_encode)(NULL, c->fp32 + begin, NULL, end - begin, NULL, (uint8_t *)(c->bf16 + begin));
}

void ISA(cpu_cast_bf16)(struct backend *b, uint16_t *out, const float *in, size_t n)
{
	struct cast c = {(float *)in, out};
	cpu_parallel(b, n, CPU_GRAIN, to_bf16_range, &c);
}

static void to_fp32_range(void *args, size_t begin, size_t end)
{
	const struct cast *c = args;
	ISA(bf16_decode)(NULL, NULL, (const uint8_t *)(c->bf16 + begin), end - begin, c->fp32 + begin);
}

void ISA(cpu_cast_fp32)(struct backend *b, float *out, const uint16_t *bf16, size_t n)
{
	struct cast c = {out, (uint16_t *)bf16};
	cpu_parallel(b, n, CPU_GRAIN, to_fp32_range, &c);
}
