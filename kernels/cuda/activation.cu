/* Bias and activation, forward and backward; the logistic function. The formulas are those of kernels/cpu/activation.c.
 * GELU in its tanh form (Hendrycks, Gimpel 2016, sec. 2): x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3). */
#include "launch.h"

#define GELU_A 0.7978845608f
#define GELU_B 0.044715f

static __device__ inline float logistic(float x)
{
	return 1 / (1 + expf(-x));
}

template <int ACT> static __device__ inline float act_value(float x)
{
	switch (ACT) {
	case ACT_RELU:
		return x < 0 ? 0 : x; /* NaN passes */
	case ACT_SIGMOID:
		return logistic(x);
	case ACT_TANH:
		return tanhf(x);
	case ACT_GELU:
		return x * logistic(2 * GELU_A * (x + GELU_B * x * x * x));
	default:
		return x;
	}
}

/* dy act'(.); y is the activation's output, for GELU its input. */
template <int ACT> static __device__ inline float act_gradient(float dy, float y)
{
	switch (ACT) {
	case ACT_RELU:
		return y > 0 ? dy : 0;
	case ACT_SIGMOID:
		return dy * (y * (1 - y));
	case ACT_TANH:
		return dy * (1 - y * y);
	case ACT_GELU: {
		const float s = logistic(2 * GELU_A * (y + GELU_B * y * y * y));
		return dy * (s + y * s * (1 - s) * (2 * GELU_A * (1 + 3 * GELU_B * y * y)));
	}
	default:
		return dy;
	}
}

/* y (total / n, n); bias (n) or NULL */
template <int V, int ACT> static __global__ void bias_act_kernel(float *y, const float *bias, size_t n, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	pack<V> x = load<V>(y + i);
	if (bias != NULL) {
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
		if (bias != NULL)
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
	if (bias != NULL) {
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
template <int V, int ACT>
static __global__ void bias_act_backward_kernel(float *dx, const float *dy, const float *y, size_t total)
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

template <int ACT> static void backward(struct cuda_backend *c, float *dx, const float *dy, const float *y, size_t total)
{
	if (pack_width(total, ADDRESS(dx) | ADDRESS(dy) | ADDRESS(y)) == 4)
		LAUNCH(c, (bias_act_backward_kernel<4, ACT>), blocks_for(c, total / 4), CUDA_THREADS, dx, dy, y, total);
	else
		LAUNCH(c, (bias_act_backward_kernel<1, ACT>), blocks_for(c, total), CUDA_THREADS, dx, dy, y, total);
}

template <bool ADD> static __global__ void round_kernel(float *out, const double *in, size_t n)
{
	const size_t i = thread_number();
	if (i < n)
		out[i] = ADD ? out[i] + (float)in[i] : (float)in[i];
}

/* out (n) = or += column sums of x (rows, n) */
template <bool ADD> static void sum_columns(struct cuda_backend *c, float *out, const float *x, size_t rows, size_t n)
{
	const size_t sizes[] = {n * sizeof(double), cuda_column_partial_bytes(COLUMN_SUM, rows, n)};
	void *parts[2];
	if (!cuda_workspace(c, 2, sizes, parts))
		return;
	double *sum = (double *)parts[0];
	const struct column_input in = {.a = x, .rows = rows, .n = n};
	cuda_column_sums(c, COLUMN_SUM, sum, (double *)parts[1], &in);
	LAUNCH(c, round_kernel<ADD>, blocks_for(c, n), CUDA_THREADS, out, sum, n);
}

void cuda_column_sum(struct backend *b, float *out, const float *x, size_t rows, size_t n)
{
	sum_columns<true>(cuda_of(b), out, x, rows, n);
}

void cuda_bias_act_backward(struct backend *b, float *dx, const float *dy, const float *y, float *dbias, size_t rows, size_t n,
                            enum activation act)
{
	struct cuda_backend *c = cuda_of(b);
	switch (act) {
	case ACT_NONE:
		if (dx != dy)
			backward<ACT_NONE>(c, dx, dy, y, rows * n);
		break;
	case ACT_RELU:
		backward<ACT_RELU>(c, dx, dy, y, rows * n);
		break;
	case ACT_SIGMOID:
		backward<ACT_SIGMOID>(c, dx, dy, y, rows * n);
		break;
	case ACT_TANH:
		backward<ACT_TANH>(c, dx, dy, y, rows * n);
		break;
	case ACT_GELU:
		backward<ACT_GELU>(c, dx, dy, y, rows * n);
		break;
	}
	if (dbias != NULL)
		sum_columns<false>(c, dbias, dx, rows, n);
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
