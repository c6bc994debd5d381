/* Bias and activation, forward and backward; the logistic function. GELU in its tanh
 * form (Hendrycks, Gimpel 2016, sec. 2): x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3). */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/vector_math.h"

#define GELU_A 0.7978845608f
#define GELU_B 0.044715f

static inline float act_value(float x, enum activation act)
{
	switch (act) {
	case ACT_RELU:
		return x < 0 ? 0 : x; /* NaN passes */
	case ACT_SIGMOID:
		return math_sigmoid(x);
	case ACT_TANH:
		return math_tanh(x);
	case ACT_GELU:
		return x * math_sigmoid(2 * GELU_A * (x + GELU_B * x * x * x));
	case ACT_NONE:
		break;
	}
	return x;
}

/* dy times the slope; y is the activation's output, for GELU its input. NaN if y is NaN. */
static inline float act_gradient(float dy, float y, enum activation act)
{
	switch (act) {
	case ACT_RELU:
		return y > 0 ? dy : y <= 0 ? 0 : y;
	case ACT_SIGMOID:
		return dy * (y * (1 - y));
	case ACT_TANH:
		return dy * (1 - y * y);
	case ACT_GELU: {
		float s = math_sigmoid(2 * GELU_A * (y + GELU_B * y * y * y));
		return dy * (s + y * s * (1 - s) * (2 * GELU_A * (1 + 3 * GELU_B * y * y)));
	}
	case ACT_NONE:
		break;
	}
	return dy;
}

struct forward {
	float *y;
	const float *bias;
	size_t n;
	enum activation act;
};

static inline __attribute__((always_inline)) void forward_rows(const struct forward *f, size_t begin, size_t end,
                                                               enum activation act)
{
	const size_t n = f->n;
	const float *restrict bias = f->bias;
	for (size_t r = begin; r < end; r++) {
		float *restrict y = f->y + r * n;
		if (bias)
			for (size_t j = 0; j < n; j++)
				y[j] = act_value(y[j] + bias[j], act);
		else
			for (size_t j = 0; j < n; j++)
				y[j] = act_value(y[j], act);
	}
}

static void forward_range(void *args, size_t begin, size_t end)
{
	const struct forward *f = args;
	/* one loop per kind, so that each is vectorised */
	switch (f->act) {
	case ACT_NONE:
		forward_rows(f, begin, end, ACT_NONE);
		break;
	case ACT_RELU:
		forward_rows(f, begin, end, ACT_RELU);
		break;
	case ACT_SIGMOID:
		forward_rows(f, begin, end, ACT_SIGMOID);
		break;
	case ACT_TANH:
		forward_rows(f, begin, end, ACT_TANH);
		break;
	case ACT_GELU:
		forward_rows(f, begin, end, ACT_GELU);
		break;
	}
}

void ISA(cpu_bias_act)(struct backend *b, float *y, const float *bias, size_t rows, size_t n, enum activation act)
{
	if (act == ACT_NONE && !bias)
		return;
	struct forward f = {y, bias, n, act};
	cpu_parallel(b, rows, cpu_grain(n), forward_range, &f);
}

struct gelu {
	float *y, *x;
	const float *bias;
	size_t n;
};

static void gelu_range(void *args, size_t begin, size_t end)
{
	const struct gelu *a = args;
	const float *restrict bias = a->bias;
	for (size_t r = begin; r < end; r++) {
		float *restrict x = a->x + r * a->n, *restrict y = a->y + r * a->n;
		for (size_t j = 0; bias && j < a->n; j++)
			x[j] += bias[j];
		for (size_t j = 0; j < a->n; j++)
			y[j] = act_value(x[j], ACT_GELU);
	}
}

void ISA(cpu_gelu)(struct backend *b, float *y, float *x, const float *bias, size_t rows, size_t n)
{
	struct gelu a = {y, x, bias, n};
	cpu_parallel(b, rows, cpu_grain(n), gelu_range, &a);
}

struct columns {
	float *out;
	const float *x;
	size_t rows, n;
};

static void column_sum_range(void *args, size_t begin, size_t end)
{
	const struct columns *a = args;
	for (size_t c = begin; c < end; c += CPU_COLUMNS) {
		const size_t columns = least(CPU_COLUMNS, end - c);
		double sum[CPU_COLUMNS] = {0};
		for (size_t r = 0; r < a->rows; r++)
			for (size_t j = 0; j < columns; j++)
				sum[j] += (double)a->x[r * a->n + c + j];
		for (size_t j = 0; j < columns; j++)
			a->out[c + j] += (float)sum[j];
	}
}

void ISA(cpu_column_sum)(struct backend *b, float *out, const float *x, size_t rows, size_t n)
{
	struct columns a = {out, x, rows, n};
	const size_t grain = cpu_grain(rows);
	cpu_parallel(b, n, grain < CPU_COLUMNS ? CPU_COLUMNS : grain, column_sum_range, &a);
}

struct backward {
	float *dx, *dbias;
	const float *dy, *y;
	size_t rows, n;
	enum activation act;
};

/* Columns [begin, end) in blocks: a block's column sums stay in registers or the nearest cache. */
static inline __attribute__((always_inline)) void backward_columns(const struct backward *a, size_t begin, size_t end,
                                                                   enum activation act)
{
	for (size_t c = begin; c < end; c += CPU_COLUMNS) {
		const size_t columns = least(CPU_COLUMNS, end - c);
		double sum[CPU_COLUMNS] = {0};
		for (size_t r = 0; r < a->rows; r++) {
			const float *dy = a->dy + r * a->n + c, *y = a->y + r * a->n + c;
			float *dx = a->dx + r * a->n + c; /* may be dy */
			IN_PLACE_LOOP
			for (size_t j = 0; j < columns; j++) {
				const float d = act_gradient(dy[j], y[j], act);
				dx[j] = d;
				sum[j] += d;
			}
		}
		if (a->dbias)
			for (size_t j = 0; j < columns; j++)
				a->dbias[c + j] = (float)sum[j];
	}
}

static void backward_range(void *args, size_t begin, size_t end)
{
	const struct backward *a = args;
	/* one loop per kind, so that each is vectorised */
	switch (a->act) {
	case ACT_NONE:
		backward_columns(a, begin, end, ACT_NONE);
		break;
	case ACT_RELU:
		backward_columns(a, begin, end, ACT_RELU);
		break;
	case ACT_SIGMOID:
		backward_columns(a, begin, end, ACT_SIGMOID);
		break;
	case ACT_TANH:
		backward_columns(a, begin, end, ACT_TANH);
		break;
	case ACT_GELU:
		backward_columns(a, begin, end, ACT_GELU);
		break;
	}
}

void ISA(cpu_bias_act_backward)(struct backend *b, float *dx, const float *dy, const float *y, float *dbias, size_t rows,
                                size_t n, enum activation act)
{
	struct backward a = {dx, dbias, dy, y, rows, n, act};
	cpu_parallel(b, n, cpu_grain(rows) < CPU_COLUMNS / 4 ? CPU_COLUMNS / 4 : cpu_grain(rows), backward_range, &a);
}

struct logistic {
	float *p;
	const float *z;
};

static void logistic_range(void *args, size_t begin, size_t end)
{
	const struct logistic *a = args;
	float *restrict p = a->p;
	const float *restrict z = a->z;
	for (size_t i = begin; i < end; i++)
		p[i] = math_sigmoid(z[i]);
}

void ISA(cpu_sigmoid)(struct backend *b, float *p, const float *z, size_t n)
{
	struct logistic a = {p, z};
	cpu_parallel(b, n, CPU_GRAIN, logistic_range, &a);
}
