/* Ops of transformers on the mirrored device. */
#include "tests/unit/kernels/mirror_ops.h"

static void mirror_copy(struct backend *b, float *to, const float *from, size_t n)
{
	struct mirror *m = mirror(b);
	float *there_to = mirror_floats(m, to, n);
	RUN(m, copy, there_to, mirror_floats(m, from, n), n);
}

static void mirror_add(struct backend *b, float *out, const float *x, const float *y, const float *bias, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, rows * n);
	const float *left = mirror_floats(m, x, rows * n), *right = mirror_floats(m, y, rows * n);
	RUN(m, add, to, left, right, mirror_floats(m, bias, n), rows, n);
}

static void mirror_column_sum(struct backend *b, float *out, const float *x, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, n);
	RUN(m, column_sum, to, mirror_floats(m, x, rows * n), rows, n);
}

static void mirror_layer_norm(struct backend *b, float *y, float *mean, float *inv_std, const float *x, const float *gamma,
                              const float *beta, size_t rows, size_t n, float eps)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, y, rows * n), *to_mean = mirror_floats(m, mean, rows), *to_inv = mirror_floats(m, inv_std, rows);
	const float *from = mirror_floats(m, x, rows * n), *by = mirror_floats(m, gamma, n);
	RUN(m, layer_norm, to, to_mean, to_inv, from, by, mirror_floats(m, beta, n), rows, n, eps);
}

static void mirror_layer_norm_backward(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *x,
                                       const float *gamma, const float *mean, const float *inv_std, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, dx, rows * n), *to_gamma = mirror_floats(m, dgamma, n), *to_beta = mirror_floats(m, dbeta, n);
	const float *from = mirror_floats(m, dy, rows * n), *at = mirror_floats(m, x, rows * n), *by = mirror_floats(m, gamma, n),
	            *middle = mirror_floats(m, mean, rows);
	RUN(m, layer_norm_backward, to, to_gamma, to_beta, from, at, by, middle, mirror_floats(m, inv_std, rows), rows, n);
}

static void mirror_rms_norm(struct backend *b, float *y, float *inv_rms, const float *x, const float *gamma, size_t rows,
                            size_t n, float eps)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, y, rows * n), *to_inv = mirror_floats(m, inv_rms, rows);
	const float *from = mirror_floats(m, x, rows * n);
	RUN(m, rms_norm, to, to_inv, from, mirror_floats(m, gamma, n), rows, n, eps);
}

static void mirror_rms_norm_backward(struct backend *b, float *dx, float *dgamma, const float *dy, const float *x,
                                     const float *gamma, const float *inv_rms, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, dx, rows * n), *to_gamma = mirror_floats(m, dgamma, n);
	const float *from = mirror_floats(m, dy, rows * n), *at = mirror_floats(m, x, rows * n), *by = mirror_floats(m, gamma, n);
	RUN(m, rms_norm_backward, to, to_gamma, from, at, by, mirror_floats(m, inv_rms, rows), rows, n);
}

static void mirror_rope(struct backend *b, float *x, size_t stride, const float *cosines, const float *sines, size_t rows,
                        size_t length, size_t heads, size_t dim, bool back_)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, x, mirror_strided(rows, heads * dim, stride));
	const float *cosine = mirror_floats(m, cosines, length * (dim / 2));
	RUN(m, rope, to, stride, cosine, mirror_floats(m, sines, length * (dim / 2)), rows, length, heads, dim, back_);
}

static void mirror_attention(struct backend *b, float *out, float *log_sums, const float *qkv, const struct attention_shape *s)
{
	struct mirror *m = mirror(b);
	const size_t rows = s->batch * s->length, answered = s->batch * (s->length - s->first);
	float *to = mirror_floats(m, out, answered * s->heads * s->dim), *to_sums = mirror_floats(m, log_sums, answered * s->heads);
	RUN(m, attention, to, to_sums, mirror_floats(m, qkv, rows * attention_width(s)), s);
}

static void mirror_attention_backward(struct backend *b, float *dqkv, const float *dout, const float *out, const float *log_sums,
                                      const float *qkv, const struct attention_shape *s)
{
	struct mirror *m = mirror(b);
	const size_t rows = s->batch * s->length, width = s->heads * s->dim;
	float *to = mirror_floats(m, dqkv, rows * attention_width(s));
	const float *from = mirror_floats(m, dout, rows * width), *result = mirror_floats(m, out, rows * width),
	            *sums = mirror_floats(m, log_sums, rows * s->heads);
	RUN(m, attention_backward, to, from, result, sums, mirror_floats(m, qkv, rows * attention_width(s)), s);
}

static void mirror_swiglu(struct backend *b, float *y, const float *x, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, y, rows * n);
	RUN(m, swiglu, to, mirror_floats(m, x, rows * 2 * n), rows, n);
}

static void mirror_swiglu_backward(struct backend *b, float *dx, const float *dy, const float *x, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, dx, rows * 2 * n);
	const float *from = mirror_floats(m, dy, rows * n);
	RUN(m, swiglu_backward, to, from, mirror_floats(m, x, rows * 2 * n), rows, n);
}

static void mirror_gelu(struct backend *b, float *y, float *x, const float *bias, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, y, rows * n), *at = mirror_floats(m, x, rows * n);
	RUN(m, gelu, to, at, mirror_floats(m, bias, n), rows, n);
}

static void mirror_embed(struct backend *b, float *out, const float *table, const float *positions, const uint32_t *tokens,
                         size_t vocabulary, size_t rows, size_t length, size_t width)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, rows * width);
	const float *from = mirror_floats(m, table, vocabulary * width), *places = mirror_floats(m, positions, length * width);
	RUN(m, embed, to, from, places, mirror_words(m, tokens, rows), vocabulary, rows, length, width);
}

static void mirror_embed_backward(struct backend *b, float *dtable, float *dpositions, const float *dout, const uint32_t *tokens,
                                  size_t vocabulary, size_t rows, size_t length, size_t width)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, dtable, vocabulary * width), *to_places = mirror_floats(m, dpositions, length * width);
	const float *from = mirror_floats(m, dout, rows * width);
	RUN(m, embed_backward, to, to_places, from, mirror_words(m, tokens, rows), vocabulary, rows, length, width);
}

static void mirror_classifier(struct backend *b, double *loss, float *losses, float *logits, size_t stride,
                              const uint32_t *targets, size_t rows, size_t n, float scale, bool gradient)
{
	struct mirror *m = mirror(b);
	double *to = mirror_array(m, loss, sizeof *loss);
	float *to_losses = mirror_floats(m, losses, rows), *z = mirror_floats(m, logits, mirror_strided(rows, n, stride));
	RUN(m, classifier, to, to_losses, z, stride, mirror_words(m, targets, rows), rows, n, scale, gradient);
}

void mirror_transformers(struct backend_ops *ops)
{
	ops->copy = mirror_copy;
	ops->add = mirror_add;
	ops->column_sum = mirror_column_sum;
	ops->layer_norm = mirror_layer_norm;
	ops->layer_norm_backward = mirror_layer_norm_backward;
	ops->rms_norm = mirror_rms_norm;
	ops->rms_norm_backward = mirror_rms_norm_backward;
	ops->rope = mirror_rope;
	ops->attention = mirror_attention;
	ops->attention_backward = mirror_attention_backward;
	ops->swiglu = mirror_swiglu;
	ops->swiglu_backward = mirror_swiglu_backward;
	ops->gelu = mirror_gelu;
	ops->embed = mirror_embed;
	ops->embed_backward = mirror_embed_backward;
	ops->classifier = mirror_classifier;
}
