/* Causal attention and rotary positions: against float64 from the definitions, gradients against
 * finite differences, shapes at and beside the blocks' edges, groups of query heads, extreme
 * scores. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

struct sample {
	struct attention_shape s;
	size_t rows, width, row; /* tokens; width of qkv; width of out */
	float *qkv, *out, *log_sums, *dout, *dqkv;
	double *qkv64, *out64, *log_sums64, *dout64, *dqkv64;
	/* sums of the terms' magnitudes: the effect of rounding a factor */
	double *out_size, *dqkv_size;
};

static struct sample sample_of(struct prng *rng, struct attention_shape s, double spread)
{
	struct sample a = {.s = s, .rows = s.batch * s.length, .width = attention_width(&s), .row = s.heads * s.dim};
	a.qkv = random_floats(rng, a.rows * a.width, -spread, spread);
	a.dout = random_floats(rng, a.rows * a.row, -1, 1);
	a.out = poisoned_floats(a.rows * a.row);
	a.log_sums = poisoned_floats(a.rows * s.heads);
	a.dqkv = poisoned_floats(a.rows * a.width);
	a.qkv64 = to_doubles(a.qkv, a.rows * a.width);
	a.dout64 = to_doubles(a.dout, a.rows * a.row);
	a.out64 = to_doubles(a.dout, a.rows * a.row); /* as scratch, here and below */
	a.out_size = to_doubles(a.dout, a.rows * a.row);
	a.log_sums64 = malloc((a.rows * s.heads + 1) * sizeof *a.log_sums64);
	a.dqkv64 = to_doubles(a.qkv, a.rows * a.width);
	a.dqkv_size = to_doubles(a.qkv, a.rows * a.width);
	return a;
}

static void sample_free(struct sample *a)
{
	float *floats[] = {a->qkv, a->out, a->log_sums, a->dout, a->dqkv};
	double *doubles[] = {a->qkv64, a->out64, a->log_sums64, a->dout64, a->dqkv64, a->out_size, a->dqkv_size};
	for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
		free(floats[i]);
	for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
		free(doubles[i]);
}

struct head {
	const double *q, *k, *v; /* of the sequence's first token */
};

static struct head head_of(const struct sample *a, size_t sequence, size_t h)
{
	const struct attention_shape *s = &a->s;
	const double *rows = a->qkv64 + sequence * s->length * a->width;
	const size_t key_head = h / (s->heads / s->kv_heads);
	const double *k = rows + (s->heads + key_head) * s->dim;
	return (struct head){rows + h * s->dim, k, k + s->kv_heads * s->dim};
}

/* p (t + 1) = the weights of token t. Returns the logarithm of the sum of exponentials. */
static double weights_of(const struct sample *a, const struct head *h, size_t t, double *p)
{
	double most = -INFINITY, sum = 0;
	for (size_t u = 0; u <= t; u++) {
		p[u] = 0;
		for (size_t d = 0; d < a->s.dim; d++)
			p[u] += h->q[t * a->width + d] * h->k[u * a->width + d] * (double)a->s.scale;
		most = fmax(most, p[u]);
	}
	for (size_t u = 0; u <= t; u++)
		sum += exp(p[u] - most);
	for (size_t u = 0; u <= t; u++)
		p[u] = exp(p[u] - most) / sum;
	return most + log(sum);
}

static void reference(struct sample *a)
{
	const struct attention_shape *s = &a->s;
	double *p = malloc((s->length + 1) * sizeof *p);
	for (size_t i = 0; i < s->batch * s->heads * s->length; i++) {
		const size_t t = i % s->length, h = i / s->length % s->heads, sequence = i / s->length / s->heads;
		const struct head head = head_of(a, sequence, h);
		const size_t at = (sequence * s->length + t) * a->row + h * s->dim;
		double *out = a->out64 + at, *size = a->out_size + at;
		a->log_sums64[i] = weights_of(a, &head, t, p);
		for (size_t d = 0; d < s->dim; d++) {
			out[d] = size[d] = 0;
			for (size_t u = 0; u <= t; u++) {
				out[d] += p[u] * head.v[u * a->width + d];
				size[d] += p[u] * fabs(head.v[u * a->width + d]);
			}
		}
	}
	free(p);
}

/* dqkv64 by the chain rule, from the weights. A score's gradient is rounded itself, and so is the
 * output that it depends on. */
static void reference_backward(struct sample *a)
{
	const struct attention_shape *s = &a->s;
	double *p = malloc((s->length + 1) * sizeof *p), *dp = malloc((s->length + 1) * sizeof *dp);
	memset(a->dqkv64, 0, a->rows * a->width * sizeof *a->dqkv64);
	memset(a->dqkv_size, 0, a->rows * a->width * sizeof *a->dqkv_size);
	for (size_t i = 0; i < s->batch * s->heads * s->length; i++) {
		const size_t t = i % s->length, h = i / s->length % s->heads, sequence = i / s->length / s->heads;
		const struct head head = head_of(a, sequence, h);
		const size_t row = (sequence * s->length + t) * a->row + h * s->dim, q = (size_t)(head.q - a->qkv64),
		             k = (size_t)(head.k - a->qkv64), v = (size_t)(head.v - a->qkv64);
		const double *dout = a->dout64 + row;
		double *dqkv = a->dqkv64, *size = a->dqkv_size, mean = 0, mean_size = 0;
		weights_of(a, &head, t, p);
		for (size_t d = 0; d < s->dim; d++)
			mean_size += fabs(dout[d]) * a->out_size[row + d];
		for (size_t u = 0; u <= t; u++) {
			dp[u] = 0;
			for (size_t d = 0; d < s->dim; d++) {
				dp[u] += dout[d] * head.v[u * a->width + d];
				dqkv[v + u * a->width + d] += p[u] * dout[d];
				size[v + u * a->width + d] += p[u] * fabs(dout[d]);
			}
			mean += p[u] * dp[u];
		}
		for (size_t u = 0; u <= t; u++)
			for (size_t d = 0; d < s->dim; d++) {
				const size_t to_q = q + t * a->width + d, to_k = k + u * a->width + d;
				const double ds = p[u] * (dp[u] - mean) * (double)s->scale,
				             ds_size = fabs(ds) + p[u] * mean_size * (double)s->scale;
				dqkv[to_q] += ds * a->qkv64[to_k];
				dqkv[to_k] += ds * a->qkv64[to_q];
				size[to_q] += ds_size * fabs(a->qkv64[to_k]);
				size[to_k] += ds_size * fabs(a->qkv64[to_q]);
			}
	}
	free(p);
	free(dp);
}

static void run(struct backend *b, struct sample *a)
{
	b->ops->attention(b, a->out, a->log_sums, a->qkv, &a->s);
	b->ops->attention_backward(b, a->dqkv, a->dout, a->out, a->log_sums, a->qkv, &a->s);
}

/* A backend's relative rounding of a factor: attention rounds its factors to 16 bits or not at
 * all. */
static double unit_of(const struct backend *b)
{
	struct backend_info info;
	b->ops->info(b, &info);
	return info.precision == COMPUTE_BF16 ? 0x1p-8 : info.precision == COMPUTE_FP16 ? 0x1p-11 : 0;
}

static void check_near(const char *what, const float *got, const double *want, const double *size, size_t n, double relative,
                       double absolute, double unit)
{
	for (size_t i = 0; i < n; i++) {
		const double bound =
		    /* the spacing of fp16's smallest numbers */
		    relative * fabs(want[i]) + absolute + unit * (size[i] + 0.01);
		if (!(fabs((double)got[i] - want[i]) <= bound))
			fail_msg("%s[%zu] is %.9g, expected %.9g within %.2g", what, i, (double)got[i], want[i], bound);
	}
}

static void check_all(struct backend *b, struct sample *a, double relative, double absolute)
{
	const double unit = unit_of(b);
	reference(a);
	reference_backward(a);
	run(b, a);
	check_near("out", a->out, a->out64, a->out_size, a->rows * a->row, relative, absolute, unit);
	check_close("log_sums", a->log_sums, a->log_sums64, a->rows * a->s.heads, 2e-6, 2e-6);
	check_near("dqkv", a->dqkv, a->dqkv64, a->dqkv_size, a->rows * a->width, relative, 4 * absolute, unit);
}

/* Block sizes: 64 on the CPU; 32, 16 or 8 on a device, by head size; 128 and 64 on its tensor
 * cores, for heads of at most 128. */
static const struct attention_shape shapes[] = {
    {1, 1, 1, 1, 1, 1.0f, 0},   {2, 1, 3, 1, 5, 0.5f, 0},   {1, 2, 2, 2, 16, 0.25f, 0},  {0, 7, 2, 1, 8, 1.0f, 0},
    {3, 9, 4, 2, 6, 0.4f, 0},   {1, 31, 2, 1, 33, 0.2f, 0}, {2, 33, 2, 2, 32, 0.2f, 0},  {1, 64, 1, 1, 20, 0.2f, 0},
    {1, 65, 6, 2, 12, 0.3f, 0}, {1, 40, 2, 1, 80, 0.1f, 0}, {1, 20, 1, 1, 144, 0.1f, 0}, {1, 9, 1, 1, 256, 0.1f, 0},
    {1, 130, 1, 1, 4, 0.5f, 0}, {5, 3, 8, 1, 2, 0.7f, 0},   {1, 20, 2, 1, 64, 0.1f, 0},  {1, 20, 1, 1, 128, 0.1f, 0},
};

/* Makes inputs exact in 16-bit factors, so that scores equal those of fp32. */
static float in_eight_bits(float x)
{
	int exponent;
	const float fraction = frexpf(x, &exponent);
	return ldexpf(roundf(ldexpf(fraction, 8)), exponent - 8);
}
static void make_exact(const struct backend *b, struct sample *a)
{
	for (size_t i = 0; i < a->rows * a->width && unit_of(b) > 0; i++)
		a->qkv64[i] = a->qkv[i] = in_eight_bits(a->qkv[i]);
	for (size_t i = 0; i < a->rows * a->row && unit_of(b) > 0; i++)
		a->dout64[i] = a->dout[i] = in_eight_bits(a->dout[i]);
}

static void try_shapes(struct backend *b, struct prng *rng)
{
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct sample a = sample_of(rng, shapes[i], 2);
		make_exact(b, &a);
		check_all(b, &a, 1e-5, 4e-6);
		sample_free(&a);
	}
}

static double loss(void *context)
{
	struct sample *a = context;
	double sum = 0;
	reference(a);
	for (size_t i = 0; i < a->rows * a->row; i++)
		sum += a->dout64[i] * a->out64[i];
	return sum;
}

static void try_differences(struct backend *b, struct prng *rng)
{
	struct sample a = sample_of(rng, (struct attention_shape){2, 7, 4, 2, 3, 0.6f, 0}, 1.5);
	const size_t n = a.rows * a.width;
	double *want = malloc(n * sizeof *want);
	numeric_gradient(loss, &a, a.qkv64, n, want);
	run(b, &a);
	check_close("dqkv", a.dqkv, want, n, 1e-5, 1e-5);
	sample_free(&a);
	free(want);
}

/* Scores of several hundred: weights near 1 and near 0. One block's scores are far below those of
 * earlier blocks. */
static void try_far_out(struct backend *b, struct prng *rng)
{
	struct sample a = sample_of(rng, (struct attention_shape){1, 150, 2, 1, 4, 1.0f, 0}, 12);
	for (size_t t = 64; t < 128; t++) /* keys opposite to the first element of all queries */
		a.qkv64[t * a.width + 8] = a.qkv[t * a.width + 8] = -90;
	for (size_t t = 0; t < 150; t++)
		a.qkv64[t * a.width] = a.qkv[t * a.width] = 12;
	make_exact(b, &a);
	reference(&a);
	run(b, &a);
	check_near("out", a.out, a.out64, a.out_size, a.rows * a.row, 1e-3, 1e-3, unit_of(b));
	for (size_t i = 0; i < a.rows * a.width; i++)
		assert_true(isfinite(a.dqkv[i]));
	sample_free(&a);
}

/* Causality: a later token changes no bit of earlier outputs, or of another sequence. A NaN reaches
 * every output that sees it. */
static void try_later_tokens(struct backend *b, struct prng *rng)
{
	struct sample a = sample_of(rng, (struct attention_shape){2, 70, 2, 1, 8, 0.3f, 0}, 1);
	run(b, &a);
	float *before = copy_floats(a.out, a.rows * a.row);
	const size_t changed = 37;
	for (size_t j = 0; j < a.width; j++)
		a.qkv[changed * a.width + j] += 5;
	run(b, &a);
	check_same_bits("earlier tokens", a.out, before, changed * a.row);
	check_same_bits("the other sequence", a.out + 70 * a.row, before + 70 * a.row, 70 * a.row);
	for (size_t i = changed * a.row; i < 70 * a.row; i++)
		assert_true(a.out[i] != before[i]);
	a.qkv[changed * a.width + 2 * 8] = NAN; /* in a key */
	run(b, &a);
	for (size_t i = changed * a.row; i < 70 * a.row; i++)
		assert_true(isnan(a.out[i]));
	check_same_bits("the other sequence", a.out + 70 * a.row, before + 70 * a.row, 70 * a.row);
	free(before);
	sample_free(&a);
}

/* Queries of the last tokens alone give the same outputs as among all tokens. */
static void try_last_tokens(struct backend *b, struct prng *rng)
{
	static const size_t cases[][2] = {{1, 0}, {70, 69}, {70, 64}, {70, 1}, {70, 70}, {130, 65}, {33, 31}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sample a = sample_of(rng, (struct attention_shape){2, cases[i][0], 4, 2, 12, 0.3f, 0}, 2);
		const size_t answered = cases[i][0] - cases[i][1];
		make_exact(b, &a);
		float *out = poisoned_floats(2 * answered * a.row), *log_sums = poisoned_floats(2 * answered * 4);
		struct attention_shape last = a.s;
		last.first = cases[i][1];
		reference(&a);
		b->ops->attention(b, out, log_sums, a.qkv, &last);
		for (size_t sequence = 0; sequence < 2; sequence++) {
			const size_t at = sequence * a.s.length + last.first;
			check_near("out", out + sequence * answered * a.row, a.out64 + at * a.row, a.out_size + at * a.row, answered * a.row,
			           1e-5, 4e-6, unit_of(b));
			for (size_t h = sequence * 4; h < sequence * 4 + 4; h++)
				check_close("log_sums", log_sums + h * answered, a.log_sums64 + h * a.s.length + last.first, answered, 2e-6,
				            2e-6);
		}
		free(out);
		free(log_sums);
		sample_free(&a);
	}
}

/* --- Rotary positions */

static void try_rope(struct backend *b, struct prng *rng)
{
	static const struct {
		size_t rows, length, heads, dim, stride;
	} cases[] = {{0, 3, 2, 4, 8}, {1, 1, 1, 2, 2}, {10, 5, 3, 6, 25}, {14, 7, 2, 64, 300}, {600, 300, 1, 16, 16}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const size_t rows = cases[i].rows, length = cases[i].length, heads = cases[i].heads, dim = cases[i].dim,
		             stride = cases[i].stride, n = rows * stride, half = dim / 2;
		float *angle = random_floats(rng, length * half, -4, 4), *x = random_floats(rng, n, -1, 1), *was = copy_floats(x, n);
		float *cosines = copy_floats(angle, length * half), *sines = copy_floats(angle, length * half);
		double *want = to_doubles(x, n);
		for (size_t k = 0; k < length * half; k++) {
			cosines[k] = cosf(angle[k]);
			sines[k] = sinf(angle[k]);
		}
		for (size_t k = 0; k < rows * heads * half; k++) {
			const size_t r = k / half / heads, at = r * stride + k / half % heads * dim + k % half;
			const double by = (double)angle[r % length * half + k % half], u = want[at], v = want[at + half];
			want[at] = u * cos(by) - v * sin(by);
			want[at + half] = v * cos(by) + u * sin(by);
		}
		b->ops->rope(b, x, stride, cosines, sines, rows, length, heads, dim, false);
		check_close("turned", x, want, n, 1e-6, 1e-6);
		double *kept = to_doubles(was, n);
		b->ops->rope(b, x, stride, cosines, sines, rows, length, heads, dim, true);
		check_close("turned back", x, kept, n, 1e-6, 1e-6);
		float *all[] = {angle, x, was, cosines, sines};
		for (size_t k = 0; k < sizeof all / sizeof *all; k++)
			free(all[k]);
		free(want);
		free(kept);
	}
}

static void attention_matches_float64(void **state)
{
	(void)state;
	on_every_precision(211, try_shapes);
}
static void gradients_are_those_of_the_loss(void **state)
{
	(void)state;
	on_every_backend(212, try_differences);
}
static void scores_far_out_do_not_overflow(void **state)
{
	(void)state;
	on_every_precision(213, try_far_out);
}
static void later_tokens_are_not_seen(void **state)
{
	(void)state;
	on_every_precision(214, try_later_tokens);
}
static void the_last_tokens_are_answered_alone(void **state)
{
	(void)state;
	on_every_precision(216, try_last_tokens);
}
static void rotary_positions_turn_pairs(void **state)
{
	(void)state;
	on_every_backend(215, try_rope);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(attention_matches_float64),      cmocka_unit_test(gradients_are_those_of_the_loss),
	    cmocka_unit_test(scores_far_out_do_not_overflow), cmocka_unit_test(later_tokens_are_not_seen),
	    cmocka_unit_test(rotary_positions_turn_pairs),    cmocka_unit_test(the_last_tokens_are_answered_alone),
	};
	return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
