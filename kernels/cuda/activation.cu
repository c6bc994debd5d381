/* Bias and activation, forward and backward; the logistic function. */
#include "kernels/cuda/act.h"

/* y (total / n, n); bias (n) or NULL */
template <int V, int ACT> static __global__ void bias_act_kernel(float *y, const float *bias, size_t n, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	pack<V> x = load<V>(y + i);
	if (bias) {
		const pack<V> add = load<V>(bias + remainder_of(i, n));
		for (int k = 0; k < V; k++)
			x.v[k] += add.v[k];
	}
	for (int k = 0; k < V; k++)
		x.v[k] = act_value<ACT>(x.v[k]);
	store<V>(y + i, x);
}

template <int ACT> static void forward(struct cuda_backend *c, float *y, const float *bias, size_t n, size_t total)
{
	if (pack_width(n, ADDRESS(y) | ADDRESS(bias)) == 4)
		LAUNCH(c, (bias_act_kernel<4, ACT>), blocks_for(c, total / 4), CUDA_THREADS, y, bias, n, total);
	else
		LAUNCH(c, (bias_act_kernel<1, ACT>), blocks_for(c, total), CUDA_THREADS, y, bias, n, total);
}

void cuda_bias_act(struct backend *b, float *y, const float *bias, size_t rows, size_t n, enum activation act)
{
	struct cuda_backend *c = cuda_of(b);
	switch (act) {
	case ACT_NONE:
		if (bias)
			forward<ACT_NONE>(c, y, bias, n, rows * n);
		break;
	case ACT_RELU:
		forward<ACT_RELU>(c, y, bias, n, rows * n);
		break;
	case ACT_SIGMOID:
		forward<ACT_SIGMOID>(c, y, bias, n, rows * n);
		break;
	case ACT_TANH:
		forward<ACT_TANH>(c, y, bias, n, rows * n);
		break;
	case ACT_GELU:
		forward<ACT_GELU>(c, y, bias, n, rows * n);
		break;
	}
}

/* x += bias, which may be NULL; y = gelu(x). */
template <int V> static __global__ void gelu_kernel(float *y, float *x, const float *bias, size_t n, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	pack<V> p = load<V>(x + i);
	if (bias) {
		const pack<V> add = load<V>(bias + remainder_of(i, n));
		for (int k = 0; k < V; k++)
			p.v[k] += add.v[k];
		store<V>(x + i, p);
	}
	for (int k = 0; k < V; k++)
		p.v[k] = act_value<ACT_GELU>(p.v[k]);
	store<V>(y + i, p);
}

void cuda_gelu(struct backend *b, float *y, float *x, const float *bias, size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * n;
	if (pack_width(n, ADDRESS(y) | ADDRESS(x) | ADDRESS(bias)) == 4)
		LAUNCH(c, gelu_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, y, x, bias, n, total);
	else
		LAUNCH(c, gelu_kernel<1>, blocks_for(c, total), CUDA_THREADS, y, x, bias, n, total);
}

/* dx may be dy. */
template <int V, int ACT> static __global__ void act_backward_kernel(float *dx, const float *dy, const float *y, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	pack<V> d = load<V>(dy + i);
	const pack<V> at = load<V>(y + i);
	for (int k = 0; k < V; k++)
		d.v[k] = act_gradient<ACT>(d.v[k], at.v[k]);
	store<V>(dx + i, d);
}

/* out (n) = or += the column sums of `in`. */
static void sum_columns(struct cuda_backend *c, enum column_kind kind, float *out, bool add, const struct column_input *in)
{
	const size_t size = cuda_column_partial_bytes(kind, in->rows, in->n);
	void *partial;
	if (cuda_workspace(c, 1, &size, &partial))
		cuda_column_sums_rounded(c, kind, out, add, (double *)partial, in);
}

void cuda_column_sum(struct backend *b, float *out, const float *x, size_t rows, size_t n)
{
	const struct column_input in = {.a = x, .rows = rows, .n = n};
	sum_columns(cuda_of(b), COLUMN_SUM, out, true, &in);
}

/* Also computes the bias's gradient in the same pass if dbias is not NULL. */
template <int ACT>
static void backward(struct cuda_backend *c, enum column_kind kind, float *dx, const float *dy, const float *y, float *dbias,
                     size_t rows, size_t n)
{
	const struct column_input in = {.a = dy, .b = y, .rows = rows, .n = n, .dx = dx};
	const size_t total = rows * n;
	if (dbias)
		sum_columns(c, kind, dbias, false, &in);
	else if (pack_width(total, ADDRESS(dx) | ADDRESS(dy) | ADDRESS(y)) == 4)
		LAUNCH(c, (act_backward_kernel<4, ACT>), blocks_for(c, total / 4), CUDA_THREADS, dx, dy, y, total);
	else
		LAUNCH(c, (act_backward_kernel<1, ACT>), blocks_for(c, total), CUDA_THREADS, dx, dy, y, total);
}

void cuda_bias_act_backward(struct backend *b, float *dx, const float *dy, const float *y, float *dbias, size_t rows, size_t n,
                            enum activation act)
{
	struct cuda_backend *c = cuda_of(b);
	switch (act) {
	case ACT_NONE:
		if (dx != dy)
			backward<ACT_NONE>(c, COLUMN_SUM, dx, dy, y, NULL, rows, n);
		if (dbias) {
			const struct column_input in = {.a = dy, .rows = rows, .n = n};
			sum_columns(c, COLUMN_SUM, dbias, false, &in);
		}
		break;
	case ACT_RELU:
		backward<ACT_RELU>(c, COLUMN_RELU, dx, dy, y, dbias, rows, n);
		break;
	case ACT_SIGMOID:
		backward<ACT_SIGMOID>(c, COLUMN_SIGMOID, dx, dy, y, dbias, rows, n);
		break;
	case ACT_TANH:
		backward<ACT_TANH>(c, COLUMN_TANH, dx, dy, y, dbias, rows, n);
		break;
	case ACT_GELU:
		backward<ACT_GELU>(c, COLUMN_GELU, dx, dy, y, dbias, rows, n);
		break;
	}
}

template <int V> static __global__ void sigmoid_kernel(float *p, const float *z, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	pack<V> x = load<V>(z + i);
	for (int k = 0; k < V; k++)
		x.v[k] = logistic(x.v[k]);
	store<V>(p + i, x);
}

void cuda_sigmoid(struct backend *b, float *p, const float *z, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(p) | ADDRESS(z)) == 4)
		LAUNCH(c, sigmoid_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, p, z, n);
	else
		LAUNCH(c, sigmoid_kernel<1>, blocks_for(c, n), CUDA_THREADS, p, z, n);
}
