/* Matrix products, and those of a layer. Factors are rounded here if the precision has 16 bits;
 * product.cu multiplies. */
#include <stdint.h>

#include "kernels/cuda/half.h"

#define FACTORS_MOST 3
#define FACTOR_ALIGN 8 /* elements: rows of rounded factors begin at multiples of 16 bytes */

/* C (m, n) *= beta; C is not read when beta is 0. */
static __global__ void scale_matrix_kernel(float *C, float beta, size_t n, size_t ldc, size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	const size_t r = quotient(i, n), at = r * ldc + (i - r * n);
	C[at] = beta == 0 ? 0 : beta * C[at];
}

static void scale_matrix(struct cuda_backend *c, float *C, float beta, size_t m, size_t n, size_t ldc)
{
	LAUNCH(c, scale_matrix_kernel, blocks_for(c, m * n), CUDA_THREADS, C, beta, n, ldc, m * n);
}

/* --- Factors */

struct matrix { /* as stored */
	const float *at;
	size_t rows, columns, ld;
};

struct factor {
	const void *at;
	size_t ld;
};

/* out: rows of `columns`, `stride` apart; in: `ld` apart. */
template <bool BF16, int V>
static __global__ void round_kernel(uint16_t *out, size_t stride, const float *in, size_t ld, size_t columns, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t r = quotient(i, columns), j = i - r * columns;
	const pack<V> x = load<V>(in + r * ld + j);
	halves<V> h;
	for (int k = 0; k < V; k++)
		h.v[k] = rounded<BF16>(x.v[k]);
	*(halves<V> *)(out + r * stride + j) = h;
}

template <bool BF16> static void round_factor(struct cuda_backend *c, uint16_t *out, size_t stride, const struct matrix *m)
{
	const size_t total = m->rows * m->columns;
	if (pack_width(m->columns | m->ld, ADDRESS(m->at)) == 4)
		LAUNCH(c, (round_kernel<BF16, 4>), blocks_for(c, total / 4), CUDA_THREADS, out, stride, m->at, m->ld, m->columns, total);
	else
		LAUNCH(c, (round_kernel<BF16, 1>), blocks_for(c, total), CUDA_THREADS, out, stride, m->at, m->ld, m->columns, total);
}

static cudaDataType factor_type(const struct cuda_backend *c)
{
	return c->precision == COMPUTE_BF16 ? CUDA_R_16BF : c->precision == COMPUTE_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

/* The matrices as factors of products: unchanged, or rounded into the workspace. False after a
 * failure. */
static bool factors_of(struct cuda_backend *c, const struct matrix *in, struct factor *out, size_t count)
{
	size_t sizes[FACTORS_MOST];
	void *parts[FACTORS_MOST];
	for (size_t i = 0; i < count; i++) {
		if (in[i].rows > INT32_MAX || in[i].columns > INT32_MAX - FACTOR_ALIGN || in[i].ld > INT32_MAX) {
			cuda_failed_limit(c, "a matrix larger than cuBLAS can have");
			return false;
		}
		out[i] = factor{in[i].at, in[i].ld};
	}
	if (factor_type(c) == CUDA_R_32F)
		return true;
	for (size_t i = 0; i < count; i++) {
		out[i].ld = (in[i].columns + FACTOR_ALIGN - 1) / FACTOR_ALIGN * FACTOR_ALIGN;
		sizes[i] = in[i].rows * out[i].ld * sizeof(uint16_t);
	}
	if (!cuda_workspace(c, count, sizes, parts))
		return false;
	for (size_t i = 0; i < count; i++) {
		out[i].at = parts[i];
		if (factor_type(c) == CUDA_R_16BF)
			round_factor<true>(c, (uint16_t *)parts[i], out[i].ld, &in[i]);
		else
			round_factor<false>(c, (uint16_t *)parts[i], out[i].ld, &in[i]);
	}
	return cuda_ok(c);
}

/* --- Ops */

void cuda_gemm(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
               size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc)
{
	struct cuda_backend *c = cuda_of(b);
	if (m == 0 || n == 0 || !cuda_ok(c))
		return;
	if (k == 0 || alpha == 0) {
		scale_matrix(c, C, beta, m, n, ldc);
		return;
	}
	const struct matrix in[] = {{A, trans_a ? k : m, trans_a ? m : k, lda}, {B, trans_b ? n : k, trans_b ? k : n, ldb}};
	struct factor f[2];
	if (!factors_of(c, in, f, 2))
		return;
	struct cuda_product p = {};
	p.type = factor_type(c);
	p.trans_a = trans_a, p.trans_b = trans_b;
	p.m = m, p.n = n, p.k = k;
	p.alpha = alpha, p.beta = beta;
	p.A = f[0].at, p.lda = f[0].ld;
	p.B = f[1].at, p.ldb = f[1].ld;
	p.C = C, p.ldc = ldc;
	cuda_multiply(c, &p);
}

void cuda_linear(struct backend *b, float *y, const struct linear *l, const float *bias, enum activation act)
{
	struct cuda_backend *c = cuda_of(b);
	if (l->rows == 0 || l->out == 0 || !cuda_ok(c))
		return;
	if (l->in == 0) {
		scale_matrix(c, y, 0, l->rows, l->out, l->out);
		cuda_bias_act(b, y, bias, l->rows, l->out, act);
		return;
	}
	const struct matrix in[] = {{l->x, l->rows, l->in, l->in}, {l->W, l->out, l->in, l->in}};
	struct factor f[2];
	if (!factors_of(c, in, f, 2))
		return;
	struct cuda_product p = {};
	p.type = factor_type(c);
	p.trans_b = true;
	p.m = l->rows, p.n = l->out, p.k = l->in;
	p.alpha = 1;
	p.A = f[0].at, p.lda = f[0].ld;
	p.B = f[1].at, p.ldb = f[1].ld;
	p.C = y, p.ldc = l->out;
	p.bias = bias, p.act = act;
	cuda_multiply(c, &p);
}

/* dz is a factor of both products, and is rounded once. */
void cuda_linear_backward(struct backend *b, float *dW, float *dx, size_t columns, float beta, const float *dz,
                          const struct linear *l)
{
	struct cuda_backend *c = cuda_of(b);
	const bool wants_dx = dx && columns > 0 && l->rows > 0;
	if (!cuda_ok(c))
		return;
	if (l->rows == 0 || l->out == 0) {
		scale_matrix(c, dW, 0, l->out, l->in, l->in);
		if (wants_dx)
			scale_matrix(c, dx, beta, l->rows, columns, columns);
		return;
	}
	if (l->in == 0)
		return;
	const struct matrix in[] = {{dz, l->rows, l->out, l->out}, {l->x, l->rows, l->in, l->in}, {l->W, l->out, columns, l->in}};
	struct factor f[3];
	if (!factors_of(c, in, f, wants_dx ? 3 : 2))
		return;
	struct cuda_product p = {};
	p.type = factor_type(c);
	p.trans_a = true;
	p.m = l->out, p.n = l->in, p.k = l->rows;
	p.alpha = 1;
	p.A = f[0].at, p.lda = f[0].ld;
	p.B = f[1].at, p.ldb = f[1].ld;
	p.C = dW, p.ldc = l->in;
	cuda_multiply(c, &p);
	if (!wants_dx)
		return;
	p.trans_a = false;
	p.m = l->rows, p.n = columns, p.k = l->out;
	p.beta = beta;
	p.B = f[2].at, p.ldb = f[2].ld;
	p.C = dx, p.ldc = columns;
	cuda_multiply(c, &p);
}
