/* fill, copy, axpy, add, scale, lerp, subtract, removal of NaN and infinity, concat, split, and
 * casts: each element is read once and written once, four at a time if aligned. */
#include "kernels/cuda/half.h"

template <int V> static __global__ void fill_kernel(float *x, float value, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	pack<V> p;
	for (int k = 0; k < V; k++)
		p.v[k] = value;
	store<V>(x + i, p);
}

void cuda_fill(struct backend *b, float *x, float value, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(x)) == 4)
		LAUNCH(c, fill_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, x, value, n);
	else
		LAUNCH(c, fill_kernel<1>, blocks_for(c, n), CUDA_THREADS, x, value, n);
}

template <int V> static __global__ void axpy_kernel(float *y, float a, const float *x, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	pack<V> to = load<V>(y + i);
	const pack<V> from = load<V>(x + i);
	for (int k = 0; k < V; k++)
		to.v[k] += a * from.v[k];
	store<V>(y + i, to);
}

void cuda_axpy(struct backend *b, float *y, float a, const float *x, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(x) | ADDRESS(y)) == 4)
		LAUNCH(c, axpy_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, y, a, x, n);
	else
		LAUNCH(c, axpy_kernel<1>, blocks_for(c, n), CUDA_THREADS, y, a, x, n);
}

template <int V> static __global__ void scale_kernel(float *x, float a, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	pack<V> p = load<V>(x + i);
	for (int k = 0; k < V; k++)
		p.v[k] *= a;
	store<V>(x + i, p);
}

void cuda_scale(struct backend *b, float *x, float a, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(x)) == 4)
		LAUNCH(c, scale_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, x, a, n);
	else
		LAUNCH(c, scale_kernel<1>, blocks_for(c, n), CUDA_THREADS, x, a, n);
}

template <int V> static __global__ void zero_not_finite_kernel(float *x, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	pack<V> p = load<V>(x + i);
	for (int k = 0; k < V; k++)
		p.v[k] = (bits_of(p.v[k]) & ABS_MASK) >= INFINITY_BITS ? 0 : p.v[k];
	store<V>(x + i, p);
}

void cuda_zero_not_finite(struct backend *b, float *x, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(x)) == 4)
		LAUNCH(c, zero_not_finite_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, x, n);
	else
		LAUNCH(c, zero_not_finite_kernel<1>, blocks_for(c, n), CUDA_THREADS, x, n);
}

template <int V> static __global__ void lerp_kernel(float *y, float t, const float *x, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	const pack<V> from = load<V>(x + i);
	pack<V> to = load<V>(y + i);
	for (int k = 0; k < V; k++)
		to.v[k] += t * (from.v[k] - to.v[k]);
	store<V>(y + i, to);
}

void cuda_lerp(struct backend *b, float *y, float t, const float *x, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (t == 1)
		CUDA_TRY(c, cudaMemcpyAsync(y, x, n * sizeof *y, cudaMemcpyDeviceToDevice, c->stream));
	else if (pack_width(n, ADDRESS(x) | ADDRESS(y)) == 4)
		LAUNCH(c, lerp_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, y, t, x, n);
	else
		LAUNCH(c, lerp_kernel<1>, blocks_for(c, n), CUDA_THREADS, y, t, x, n);
}

template <int V> static __global__ void subtract_kernel(float *out, const float *x, const float *y, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	pack<V> from = load<V>(x + i);
	const pack<V> by = load<V>(y + i);
	for (int k = 0; k < V; k++)
		from.v[k] -= by.v[k];
	store<V>(out + i, from);
}

void cuda_subtract(struct backend *b, float *out, const float *x, const float *y, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(out) | ADDRESS(x) | ADDRESS(y)) == 4)
		LAUNCH(c, subtract_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, out, x, y, n);
	else
		LAUNCH(c, subtract_kernel<1>, blocks_for(c, n), CUDA_THREADS, out, x, y, n);
}

void cuda_copy(struct backend *b, float *to, const float *from, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (n > 0)
		CUDA_TRY(c, cudaMemcpyAsync(to, from, n * sizeof *to, cudaMemcpyDeviceToDevice, c->stream));
}

/* out may be x or y. */
template <int V>
static __global__ void add_kernel(float *out, const float *x, const float *y, const float *bias, size_t n, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	pack<V> sum = load<V>(y + i);
	if (bias) {
		const pack<V> add = load<V>(bias + remainder_of(i, n));
		for (int k = 0; k < V; k++)
			sum.v[k] += add.v[k];
	}
	const pack<V> p = load<V>(x + i);
	for (int k = 0; k < V; k++)
		sum.v[k] = p.v[k] + sum.v[k];
	store<V>(out + i, sum);
}

void cuda_add(struct backend *b, float *out, const float *x, const float *y, const float *bias, size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * n;
	if (pack_width(n, ADDRESS(out) | ADDRESS(x) | ADDRESS(y) | ADDRESS(bias)) == 4)
		LAUNCH(c, add_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, out, x, y, bias, n, total);
	else
		LAUNCH(c, add_kernel<1>, blocks_for(c, total), CUDA_THREADS, out, x, y, bias, n, total);
}

/* --- Adjacent columns. Widths that are multiples of 4 keep every pack on one side. */

template <int V>
static __global__ void concat_kernel(float *out, const float *A, size_t na, const float *B, size_t nb, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t r = quotient(i, na + nb), j = i - r * (na + nb);
	store<V>(out + i, j < na ? load<V>(A + r * na + j) : load<V>(B + r * nb + (j - na)));
}

void cuda_concat(struct backend *b, float *out, const float *A, size_t na, const float *B, size_t nb, size_t rows)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * (na + nb);
	if (pack_width(na | nb, ADDRESS(out) | ADDRESS(A) | ADDRESS(B)) == 4)
		LAUNCH(c, concat_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, out, A, na, B, nb, total);
	else
		LAUNCH(c, concat_kernel<1>, blocks_for(c, total), CUDA_THREADS, out, A, na, B, nb, total);
}

template <int V> static __global__ void split_kernel(const float *in, float *A, size_t na, float *B, size_t nb, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t r = quotient(i, na + nb), j = i - r * (na + nb);
	store<V>(j < na ? A + r * na + j : B + r * nb + (j - na), load<V>(in + i));
}

void cuda_split(struct backend *b, const float *in, float *A, size_t na, float *B, size_t nb, size_t rows)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * (na + nb);
	if (pack_width(na | nb, ADDRESS(in) | ADDRESS(A) | ADDRESS(B)) == 4)
		LAUNCH(c, split_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, in, A, na, B, nb, total);
	else
		LAUNCH(c, split_kernel<1>, blocks_for(c, total), CUDA_THREADS, in, A, na, B, nb, total);
}

/* --- Casts */

template <int V> static __global__ void to_bf16_kernel(uint16_t *out, const float *in, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	const pack<V> x = load<V>(in + i);
	halves<V> h;
	for (int k = 0; k < V; k++)
		h.v[k] = (uint16_t)bf16_of(bits_of(x.v[k]));
	*(halves<V> *)(out + i) = h;
}

void cuda_cast_bf16(struct backend *b, uint16_t *out, const float *in, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(in) | ADDRESS(out) * 2) == 4) /* halves have half the alignment */
		LAUNCH(c, to_bf16_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, out, in, n);
	else
		LAUNCH(c, to_bf16_kernel<1>, blocks_for(c, n), CUDA_THREADS, out, in, n);
}

template <int V> static __global__ void to_fp32_kernel(float *out, const uint16_t *in, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	const halves<V> h = *(const halves<V> *)(in + i);
	pack<V> x;
	for (int k = 0; k < V; k++)
		x.v[k] = __uint_as_float((uint32_t)h.v[k] << 16);
	store<V>(out + i, x);
}

void cuda_cast_fp32(struct backend *b, float *out, const uint16_t *bf16, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(out) | ADDRESS(bf16) * 2) == 4)
		LAUNCH(c, to_fp32_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, out, bf16, n);
	else
		LAUNCH(c, to_fp32_kernel<1>, blocks_for(c, n), CUDA_THREADS, out, bf16, n);
}
