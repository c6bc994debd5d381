/* Ops of layers, click models, losses and update rules, on the mirrored device. */
#include "tests/unit/kernels/mirror_ops.h"

static void mirror_gemm(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
                        size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc)
{
	struct mirror *s = mirror(b);
	float *to = mirror_floats(s, C, mirror_strided(m, n, ldc));
	const float *left = mirror_floats(s, A, trans_a ? mirror_strided(k, m, lda) : mirror_strided(m, k, lda));
	const float *right = mirror_floats(s, B, trans_b ? mirror_strided(n, k, ldb) : mirror_strided(k, n, ldb));
	RUN(s, gemm, trans_a, trans_b, m, n, k, alpha, left, lda, right, ldb, beta, to, ldc);
}

static void mirror_bias_act(struct backend *b, float *y, const float *bias, size_t rows, size_t n, enum activation act)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, y, rows * n);
	RUN(m, bias_act, to, mirror_floats(m, bias, n), rows, n, act);
}

static void mirror_bias_act_backward(struct backend *b, float *dx, const float *dy, const float *y, float *dbias, size_t rows,
                                     size_t n, enum activation act)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, dx, rows * n), *to_bias = mirror_floats(m, dbias, n);
	const float *from = mirror_floats(m, dy, rows * n);
	RUN(m, bias_act_backward, to, from, mirror_floats(m, y, rows * n), to_bias, rows, n, act);
}

static void mirror_linear(struct backend *b, float *y, const struct linear *l, const float *bias, enum activation act)
{
	struct mirror *m = mirror(b);
	struct linear there = *l;
	float *to = mirror_floats(m, y, l->rows * l->out);
	there.x = mirror_floats(m, l->x, l->rows * l->in);
	there.W = mirror_floats(m, l->W, l->out * l->in);
	RUN(m, linear, to, &there, mirror_floats(m, bias, l->out), act);
}

static void mirror_linear_backward(struct backend *b, float *dW, float *dx, size_t columns, float beta, const float *dz,
                                   const struct linear *l)
{
	struct mirror *m = mirror(b);
	struct linear there = *l;
	float *to_W = mirror_floats(m, dW, l->out * l->in), *to_x = mirror_floats(m, dx, l->rows * columns);
	const float *from = mirror_floats(m, dz, l->rows * l->out);
	there.x = mirror_floats(m, l->x, l->rows * l->in);
	there.W = mirror_floats(m, l->W, l->out * l->in);
	RUN(m, linear_backward, to_W, to_x, columns, beta, from, &there);
}

static void mirror_fill(struct backend *b, float *x, float value, size_t n)
{
	struct mirror *m = mirror(b);
	RUN(m, fill, mirror_floats(m, x, n), value, n);
}

static void mirror_axpy(struct backend *b, float *y, float a, const float *x, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, y, n);
	RUN(m, axpy, to, a, mirror_floats(m, x, n), n);
}

static void mirror_scale(struct backend *b, float *x, float a, size_t n)
{
	struct mirror *m = mirror(b);
	RUN(m, scale, mirror_floats(m, x, n), a, n);
}

static void mirror_lerp(struct backend *b, float *y, float t, const float *x, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, y, n);
	RUN(m, lerp, to, t, mirror_floats(m, x, n), n);
}

static void mirror_subtract(struct backend *b, float *out, const float *x, const float *y, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, n);
	const float *from = mirror_floats(m, x, n);
	RUN(m, subtract, to, from, mirror_floats(m, y, n), n);
}

static void mirror_concat(struct backend *b, float *out, const float *A, size_t na, const float *B, size_t nb, size_t rows)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, rows * (na + nb));
	const float *left = mirror_floats(m, A, rows * na), *right = mirror_floats(m, B, rows * nb);
	RUN(m, concat, to, left, na, right, nb, rows);
}

static void mirror_split(struct backend *b, const float *in, float *A, size_t na, float *B, size_t nb, size_t rows)
{
	struct mirror *m = mirror(b);
	float *left = mirror_floats(m, A, rows * na), *right = mirror_floats(m, B, rows * nb);
	RUN(m, split, mirror_floats(m, in, rows * (na + nb)), left, na, right, nb, rows);
}

static void mirror_sum_squares(struct backend *b, double *out, const float *x, size_t n)
{
	struct mirror *m = mirror(b);
	double *to = mirror_array(m, out, sizeof *out);
	RUN(m, sum_squares, to, mirror_floats(m, x, n), n);
}

static void mirror_clip(struct backend *b, float *x, size_t n, const double *squares, size_t parts, float limit)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, x, n);
	RUN(m, clip, to, n, mirror_array(m, squares, parts * sizeof *squares), parts, limit);
}

static bool mirror_all_finite(struct backend *b, const float *x, size_t n)
{
	struct mirror *m = mirror(b);
	RUN_FOR(m, bool, all_finite, mirror_floats(m, x, n), n);
}

static void mirror_zero_not_finite(struct backend *b, float *x, size_t n)
{
	struct mirror *m = mirror(b);
	RUN(m, zero_not_finite, mirror_floats(m, x, n), n);
}

static void mirror_scale_by(struct backend *b, float *x, size_t n, const float *by)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, x, n);
	RUN(m, scale_by, to, n, mirror_floats(m, by, 1));
}

static void mirror_unscale(struct backend *b, const struct floats *x, size_t count, const float *by, uint32_t *not_finite)
{
	struct mirror *m = mirror(b);
	struct floats to[BACKEND_FLOATS_MAX];
	for (size_t i = 0; i < count; i++)
		to[i] = (struct floats){mirror_floats(m, x[i].at, x[i].n), x[i].n};
	const float *scale = mirror_floats(m, by, 1);
	RUN(m, unscale, to, count, scale, mirror_words(m, not_finite, 1));
}

static void mirror_gather_pool(struct backend *b, float *out, const float *rows, size_t unique, size_t width,
                               const uint32_t *offsets, const uint32_t *index, const float *weight, size_t bags)
{
	struct mirror *m = mirror(b);
	const size_t uses = offsets[bags];
	float *to = mirror_floats(m, out, bags * width);
	const float *from = mirror_floats(m, rows, unique * width), *by = mirror_floats(m, weight, uses);
	const uint32_t *which = mirror_words(m, index, uses);
	RUN(m, gather_pool, to, from, unique, width, mirror_words(m, offsets, bags + 1), which, by, bags);
}

static void mirror_scatter_sum(struct backend *b, float *drows, size_t unique, size_t width, const float *dout,
                               const uint32_t *offsets, const uint32_t *index, const float *weight, size_t bags, size_t uses)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, drows, unique * width);
	const float *from = mirror_floats(m, dout, bags * width), *by = mirror_floats(m, weight, uses);
	const uint32_t *which = mirror_words(m, index, uses);
	RUN(m, scatter_sum, to, unique, width, from, mirror_words(m, offsets, bags + 1), which, by, bags, uses);
}

static void mirror_gather_max(struct backend *b, float *out, uint32_t *chosen, const float *rows, size_t width,
                              const uint32_t *offsets, const uint32_t *index, const uint32_t *is_max, size_t fields, size_t bags)
{
	struct mirror *m = mirror(b);
	const size_t uses = offsets[bags];
	size_t unique = 0;
	for (size_t u = 0; u < uses; u++)
		unique = index[u] >= unique ? index[u] + 1 : unique;
	float *to = mirror_floats(m, out, bags * width);
	uint32_t *uses_of = mirror_words(m, chosen, bags * width);
	const float *from = mirror_floats(m, rows, unique * width);
	const uint32_t *which = mirror_words(m, index, uses), *of = mirror_words(m, is_max, fields);
	RUN(m, gather_max, to, uses_of, from, width, mirror_words(m, offsets, bags + 1), which, of, fields, bags);
}

static void mirror_scatter_chosen(struct backend *b, float *drows, size_t unique, size_t width, const float *dout,
                                  const uint32_t *chosen, const uint32_t *offsets, const uint32_t *index, const float *weight,
                                  size_t bags, size_t uses)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, drows, unique * width);
	const float *from = mirror_floats(m, dout, bags * width), *by = mirror_floats(m, weight, uses);
	const uint32_t *uses_of = mirror_words(m, chosen, bags * width), *which = mirror_words(m, index, uses);
	RUN(m, scatter_chosen, to, unique, width, from, uses_of, mirror_words(m, offsets, bags + 1), which, by, bags, uses);
}

/* Rows up to the largest index. */
static size_t rows_of(const uint32_t *index, size_t n)
{
	size_t rows = index == NULL ? n : 0;
	for (size_t i = 0; i < n && index != NULL; i++)
		rows = index[i] >= rows ? index[i] + 1 : rows;
	return rows;
}

static void mirror_copy_rows(struct backend *b, float *out, const uint32_t *to, const float *in, const uint32_t *from,
                             size_t width, size_t n)
{
	struct mirror *m = mirror(b);
	float *there_out = mirror_floats(m, out, rows_of(to, n) * width);
	const float *there_in = mirror_floats(m, in, rows_of(from, n) * width);
	const uint32_t *there_to = mirror_words(m, to, n);
	RUN(m, copy_rows, there_out, there_to, there_in, mirror_words(m, from, n), width, n);
}

static size_t mirror_unique(struct backend *b, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index)
{
	struct mirror *m = mirror(b); /* host memory on every backend */
	return m->device->ops->unique(m->device, keys, n, unique_keys, index);
}

static void mirror_fm(struct backend *b, float *out, float *sum, const float *x, size_t rows, size_t fields, size_t dim)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, rows), *to_sum = mirror_floats(m, sum, rows * dim);
	RUN(m, fm, to, to_sum, mirror_floats(m, x, rows * fields * dim), rows, fields, dim);
}

static void mirror_fm_backward(struct backend *b, float *dx, const float *dout, const float *sum, const float *x, size_t rows,
                               size_t fields, size_t dim)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, dx, rows * fields * dim);
	const float *from = mirror_floats(m, dout, rows), *sums = mirror_floats(m, sum, rows * dim);
	RUN(m, fm_backward, to, from, sums, mirror_floats(m, x, rows * fields * dim), rows, fields, dim);
}

static void mirror_row_sum(struct backend *b, float *out, const float *x, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, rows);
	RUN(m, row_sum, to, mirror_floats(m, x, rows * n), rows, n);
}

static void mirror_cross(struct backend *b, float *out, const float *x0, const float *x, const float *u, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, rows * n);
	const float *first = mirror_floats(m, x0, rows * n), *last = mirror_floats(m, x, rows * n);
	RUN(m, cross, to, first, last, mirror_floats(m, u, rows * n), rows, n);
}

static void mirror_cross_backward(struct backend *b, float *du, float *dx0, float *dx, const float *dout, const float *x0,
                                  const float *u, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to_u = mirror_floats(m, du, rows * n), *to_x0 = mirror_floats(m, dx0, rows * n),
	      *to_x = mirror_floats(m, dx, rows * n);
	const float *from = mirror_floats(m, dout, rows * n), *first = mirror_floats(m, x0, rows * n);
	RUN(m, cross_backward, to_u, to_x0, to_x, from, first, mirror_floats(m, u, rows * n), rows, n);
}

static size_t dots_width(const float *first, size_t fields, size_t dim)
{
	const size_t vectors = fields + (first != NULL);
	return (first != NULL ? dim : 0) + (vectors > 0 ? vectors * (vectors - 1) / 2 : 0);
}

static void mirror_dot_interaction(struct backend *b, float *out, const float *first, const float *x, size_t rows, size_t fields,
                                   size_t dim)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, rows * dots_width(first, fields, dim));
	const float *there_first = mirror_floats(m, first, rows * dim);
	RUN(m, dot_interaction, to, there_first, mirror_floats(m, x, rows * fields * dim), rows, fields, dim);
}

static void mirror_dot_interaction_backward(struct backend *b, float *dfirst, float *dx, const float *dout, const float *first,
                                            const float *x, size_t rows, size_t fields, size_t dim)
{
	struct mirror *m = mirror(b);
	float *to_first = mirror_floats(m, dfirst, rows * dim), *to = mirror_floats(m, dx, rows * fields * dim);
	const float *from = mirror_floats(m, dout, rows * dots_width(first, fields, dim)),
	            *there_first = mirror_floats(m, first, rows * dim);
	RUN(m, dot_interaction_backward, to_first, to, from, there_first, mirror_floats(m, x, rows * fields * dim), rows, fields,
	    dim);
}

static void mirror_row_dots(struct backend *b, float *out, const float *x, const uint32_t *of_x, const float *y,
                            const uint32_t *of_y, size_t width, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, n);
	const float *left = mirror_floats(m, x, rows_of(of_x, n) * width), *right = mirror_floats(m, y, rows_of(of_y, n) * width);
	const uint32_t *lefts = mirror_words(m, of_x, n);
	RUN(m, row_dots, to, left, lefts, right, mirror_words(m, of_y, n), width, n);
}

static void mirror_pair_features(struct backend *b, float *out, const float *x, const uint32_t *of_x, const float *y,
                                 const uint32_t *of_y, size_t width, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, 4 * n * width);
	const float *left = mirror_floats(m, x, rows_of(of_x, n) * width), *right = mirror_floats(m, y, rows_of(of_y, n) * width);
	const uint32_t *lefts = mirror_words(m, of_x, n);
	RUN(m, pair_features, to, left, lefts, right, mirror_words(m, of_y, n), width, n);
}

static void mirror_pair_features_backward(struct backend *b, float *dx, float *dy, const float *dout, const float *x,
                                          const uint32_t *of_x, const float *y, const uint32_t *of_y, size_t width, size_t n)
{
	struct mirror *m = mirror(b);
	float *to_x = mirror_floats(m, dx, n * width), *to_y = mirror_floats(m, dy, n * width);
	const float *from = mirror_floats(m, dout, 4 * n * width);
	const float *left = mirror_floats(m, x, rows_of(of_x, n) * width), *right = mirror_floats(m, y, rows_of(of_y, n) * width);
	const uint32_t *lefts = mirror_words(m, of_x, n);
	RUN(m, pair_features_backward, to_x, to_y, from, left, lefts, right, mirror_words(m, of_y, n), width, n);
}

static void mirror_softmax(struct backend *b, float *y, const float *x, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, y, rows * n);
	RUN(m, softmax, to, mirror_floats(m, x, rows * n), rows, n);
}

static void mirror_softmax_backward(struct backend *b, float *dx, const float *dy, const float *y, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, dx, rows * n);
	const float *from = mirror_floats(m, dy, rows * n);
	RUN(m, softmax_backward, to, from, mirror_floats(m, y, rows * n), rows, n);
}

static void mirror_batch_norm(struct backend *b, float *y, float *xhat, float *mean, float *inv_std, float *batch_mean,
                              float *batch_var, const float *x, const float *gamma, const float *beta, size_t rows, size_t n,
                              float eps, bool training)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, y, rows * n), *to_hat = mirror_floats(m, xhat, rows * n);
	float *middle = mirror_floats(m, mean, n), *spread = mirror_floats(m, inv_std, n), *to_mean = mirror_floats(m, batch_mean, n),
	      *to_var = mirror_floats(m, batch_var, n);
	const float *from = mirror_floats(m, x, rows * n), *by = mirror_floats(m, gamma, n);
	RUN(m, batch_norm, to, to_hat, middle, spread, to_mean, to_var, from, by, mirror_floats(m, beta, n), rows, n, eps, training);
}

static void mirror_batch_norm_backward(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy,
                                       const float *xhat, const float *gamma, const float *inv_std, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, dx, rows * n), *to_gamma = mirror_floats(m, dgamma, n), *to_beta = mirror_floats(m, dbeta, n);
	const float *from = mirror_floats(m, dy, rows * n), *hat = mirror_floats(m, xhat, rows * n), *by = mirror_floats(m, gamma, n);
	RUN(m, batch_norm_backward, to, to_gamma, to_beta, from, hat, by, mirror_floats(m, inv_std, n), rows, n);
}

static void mirror_dropout(struct backend *b, float *x, size_t first, size_t n, float p, const uint64_t *seed, uint64_t salt)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, x, n);
	RUN(m, dropout, to, first, n, p, mirror_array(m, seed, sizeof *seed), salt);
}

static void mirror_click_loss(struct backend *b, double *loss, float *dlogits, const struct click_rows *rows,
                              const struct click_loss *kind, float scale)
{
	struct mirror *m = mirror(b);
	const size_t n = rows->rows * rows->tasks;
	struct click_rows there = *rows;
	double *to_loss = mirror_array(m, loss, sizeof *loss);
	float *to = mirror_floats(m, dlogits, n);
	there.logits = mirror_floats(m, rows->logits, n);
	there.labels = mirror_floats(m, rows->labels, n);
	there.weights = mirror_floats(m, rows->weights, rows->rows);
	there.task_weights = mirror_floats(m, rows->task_weights, rows->tasks);
	RUN(m, click_loss, to_loss, to, &there, kind, scale);
}

static void mirror_cross_entropy(struct backend *b, double *loss, float *dlogits, float *losses, const float *logits,
                                 const uint32_t *targets, size_t rows, size_t n, float scale)
{
	struct mirror *m = mirror(b);
	double *to_loss = mirror_array(m, loss, sizeof *loss);
	float *to = mirror_floats(m, dlogits, rows * n), *to_losses = mirror_floats(m, losses, rows);
	const float *z = mirror_floats(m, logits, rows * n);
	RUN(m, cross_entropy, to_loss, to, to_losses, z, mirror_words(m, targets, rows), rows, n, scale);
}

static void mirror_in_batch(struct backend *b, double *loss, float *logits, const struct in_batch *in, float scale)
{
	struct mirror *m = mirror(b);
	struct in_batch there = *in;
	double *to_loss = mirror_array(m, loss, sizeof *loss);
	float *to = mirror_floats(m, logits, in->rows * in->rows);
	there.items = mirror_words(m, in->items, in->rows);
	there.labels = mirror_floats(m, in->labels, in->rows);
	there.log_q = mirror_floats(m, in->log_q, in->rows);
	there.weights = mirror_floats(m, in->weights, in->rows);
	RUN(m, in_batch, to_loss, to, &there, scale);
}

static void mirror_sigmoid(struct backend *b, float *p, const float *z, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, p, n);
	RUN(m, sigmoid, to, mirror_floats(m, z, n), n);
}

static void mirror_cast_bf16(struct backend *b, uint16_t *out, const float *in, size_t n)
{
	struct mirror *m = mirror(b);
	uint16_t *to = mirror_array(m, out, n * sizeof *out);
	RUN(m, cast_bf16, to, mirror_floats(m, in, n), n);
}

static void mirror_cast_fp32(struct backend *b, float *out, const uint16_t *bf16, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = mirror_floats(m, out, n);
	RUN(m, cast_fp32, to, mirror_array(m, bf16, n * sizeof *bf16), n);
}

static void mirror_update(struct backend *b, const struct optimizer_step *step, float *value, float *slots, const float *grad,
                          size_t n)
{
	struct mirror *m = mirror(b);
	struct optimizer_step there_step = *step;
	float *to = mirror_floats(m, value, n), *to_slots = mirror_floats(m, slots, n * optimizer_slots(step->kind));
	there_step.accumulator = mirror_floats(m, step->accumulator, weir_chunks(n));
	RUN(m, update, &there_step, to, to_slots, mirror_floats(m, grad, n), n);
}

void mirror_layers(struct backend_ops *ops)
{
	ops->gemm = mirror_gemm;
	ops->bias_act = mirror_bias_act;
	ops->bias_act_backward = mirror_bias_act_backward;
	ops->linear = mirror_linear;
	ops->linear_backward = mirror_linear_backward;
	ops->fill = mirror_fill;
	ops->axpy = mirror_axpy;
	ops->scale = mirror_scale;
	ops->lerp = mirror_lerp;
	ops->subtract = mirror_subtract;
	ops->concat = mirror_concat;
	ops->split = mirror_split;
	ops->sum_squares = mirror_sum_squares;
	ops->clip = mirror_clip;
	ops->all_finite = mirror_all_finite;
	ops->zero_not_finite = mirror_zero_not_finite;
	ops->scale_by = mirror_scale_by;
	ops->unscale = mirror_unscale;
	ops->gather_pool = mirror_gather_pool;
	ops->scatter_sum = mirror_scatter_sum;
	ops->gather_max = mirror_gather_max;
	ops->scatter_chosen = mirror_scatter_chosen;
	ops->copy_rows = mirror_copy_rows;
	ops->unique = mirror_unique;
	ops->fm = mirror_fm;
	ops->fm_backward = mirror_fm_backward;
	ops->row_sum = mirror_row_sum;
	ops->cross = mirror_cross;
	ops->cross_backward = mirror_cross_backward;
	ops->dot_interaction = mirror_dot_interaction;
	ops->dot_interaction_backward = mirror_dot_interaction_backward;
	ops->row_dots = mirror_row_dots;
	ops->pair_features = mirror_pair_features;
	ops->pair_features_backward = mirror_pair_features_backward;
	ops->softmax = mirror_softmax;
	ops->softmax_backward = mirror_softmax_backward;
	ops->batch_norm = mirror_batch_norm;
	ops->batch_norm_backward = mirror_batch_norm_backward;
	ops->dropout = mirror_dropout;
	ops->click_loss = mirror_click_loss;
	ops->cross_entropy = mirror_cross_entropy;
	ops->in_batch = mirror_in_batch;
	ops->sigmoid = mirror_sigmoid;
	ops->cast_bf16 = mirror_cast_bf16;
	ops->cast_fp32 = mirror_cast_fp32;
	ops->update = mirror_update;
}
