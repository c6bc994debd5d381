/* An array that an op has twice (in place) is one buffer on the device too: its address identifies
 * it. Memory ops (buffer_alloc and others) are the device's own. */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/mirror.h"

#define ARRAYS_MAX  16
#define GUARD_BYTES ((size_t)256) /* also keeps the alignment of the array between them */
#define GUARD       0x5a

struct array {
	void *host;
	size_t bytes;
	unsigned char *buffer; /* guard, array, guard */
};

struct mirror {
	struct backend base;
	struct backend_ops ops;
	struct backend *device;
	struct array arrays[ARRAYS_MAX];
	size_t count;
};

static struct mirror *mirror(struct backend *b)
{
	return (struct mirror *)b;
}

static void check_device(struct mirror *m)
{
	weir_error err = {0};
	if (m->device->ops->sync(m->device, &err) != WEIR_OK)
		fail_msg("%s", err.text);
}

/* The array's address on the device; NULL for NULL. */
static void *there(struct mirror *m, const void *host, size_t bytes)
{
	const struct backend_ops *ops = m->device->ops;
	if (host == NULL)
		return NULL;
	for (size_t i = 0; i < m->count; i++)
		if (m->arrays[i].host == host && m->arrays[i].bytes > 0 && bytes > 0) {
			assert(bytes <= m->arrays[i].bytes);
			return m->arrays[i].buffer + GUARD_BYTES;
		}
	assert(m->count < ARRAYS_MAX);
	struct array *a = &m->arrays[m->count++];
	*a = (struct array){(void *)(uintptr_t)host, bytes, ops->buffer_alloc(m->device, bytes + 2 * GUARD_BYTES)};
	if (a->buffer == NULL)
		check_device(m);
	assert_non_null(a->buffer);
	unsigned char *whole = malloc(bytes + 2 * GUARD_BYTES);
	assert_non_null(whole);
	memset(whole, GUARD, bytes + 2 * GUARD_BYTES);
	memcpy(whole + GUARD_BYTES, host, bytes);
	ops->to_device(m->device, a->buffer, whole, bytes + 2 * GUARD_BYTES);
	free(whole);
	return a->buffer + GUARD_BYTES;
}

static float *floats(struct mirror *m, const float *host, size_t n)
{
	return there(m, host, n * sizeof *host);
}
static uint32_t *words(struct mirror *m, const uint32_t *host, size_t n)
{
	return there(m, host, n * sizeof *host);
}

/* Copies arrays back, together with stray writes beside them. */
static void back(struct mirror *m)
{
	const struct backend_ops *ops = m->device->ops;
	for (size_t i = 0; i < m->count; i++) {
		struct array *a = &m->arrays[i];
		const size_t bytes = a->bytes + 2 * GUARD_BYTES, last = GUARD_BYTES + a->bytes;
		unsigned char *whole = malloc(bytes), *now = whole + GUARD_BYTES;
		assert_non_null(whole);
		ops->to_host(m->device, whole, a->buffer, bytes);
		for (size_t j = 0; j < bytes; j++)
			if ((j < GUARD_BYTES || j >= last) && whole[j] != GUARD)
				fail_msg("array %zu of an op, of %zu bytes: byte %td was written", i, a->bytes,
				         (ptrdiff_t)j - (ptrdiff_t)GUARD_BYTES);
		if (a->bytes > 0 &&
		    /* an unchanged constant may lie in read-only memory */
		    memcmp(now, a->host, a->bytes) != 0)
			memcpy(a->host, now, a->bytes);
		free(whole);
		ops->buffer_free(m->device, a->buffer);
	}
	m->count = 0;
	check_device(m);
}

/* --- Life and memory */

static void mirror_destroy(struct backend *b)
{
	mirror(b)->device->ops->destroy(mirror(b)->device);
	free(b);
}
static weir_status mirror_sync(struct backend *b, weir_error *err)
{
	return mirror(b)->device->ops->sync(mirror(b)->device, err);
}
static void mirror_info(const struct backend *b, struct backend_info *out)
{
	const struct backend *device = ((const struct mirror *)b)->device;
	device->ops->info(device, out);
}
static void *mirror_buffer_alloc(struct backend *b, size_t bytes)
{
	return mirror(b)->device->ops->buffer_alloc(mirror(b)->device, bytes);
}
static void mirror_buffer_free(struct backend *b, void *p)
{
	mirror(b)->device->ops->buffer_free(mirror(b)->device, p);
}
static void *mirror_host_alloc(struct backend *b, size_t bytes)
{
	return mirror(b)->device->ops->host_alloc(mirror(b)->device, bytes);
}
static void mirror_host_free(struct backend *b, void *p)
{
	mirror(b)->device->ops->host_free(mirror(b)->device, p);
}
static void mirror_to_device(struct backend *b, void *device, const void *host, size_t bytes)
{
	mirror(b)->device->ops->to_device(mirror(b)->device, device, host, bytes);
}
static void mirror_to_host(struct backend *b, void *host, const void *device, size_t bytes)
{
	mirror(b)->device->ops->to_host(mirror(b)->device, host, device, bytes);
}

static void mirror_to_host_later(struct backend *b, void *host, const void *device, size_t bytes)
{
	mirror(b)->device->ops->to_host_later(mirror(b)->device, host, device, bytes);
}

/* --- Order */

static enum backend_stream mirror_choose_stream(struct backend *b, enum backend_stream s)
{
	return mirror(b)->device->ops->choose_stream(mirror(b)->device, s);
}
static weir_status mirror_sync_stream(struct backend *b, weir_error *err)
{
	return mirror(b)->device->ops->sync_stream(mirror(b)->device, err);
}
static void mirror_set_mark(struct backend *b, struct backend_mark *m)
{
	mirror(b)->device->ops->set_mark(mirror(b)->device, m);
}
static void mirror_free_mark(struct backend *b, struct backend_mark *m)
{
	mirror(b)->device->ops->free_mark(mirror(b)->device, m);
}
static void mirror_follow_mark(struct backend *b, const struct backend_mark *m)
{
	mirror(b)->device->ops->follow_mark(mirror(b)->device, m);
}
static weir_status mirror_await_mark(struct backend *b, const struct backend_mark *m, weir_error *err)
{
	return mirror(b)->device->ops->await_mark(mirror(b)->device, m, err);
}

/* Every op copies its arrays, and a run cannot contain copies. */
static void mirror_replay(struct backend *b, const void *key, size_t bytes, void (*issue)(void *arg), void *arg)
{
	(void)b, (void)key, (void)bytes;
	issue(arg);
}
static void mirror_forget_replays(struct backend *b)
{
	mirror(b)->device->ops->forget_replays(mirror(b)->device);
}

/* --- Ops. RUN(m, op, ...) runs the op on the device and copies the arrays back. */

#define RUN(m, op, ...)                                 \
	do {                                                \
		(m)->device->ops->op((m)->device, __VA_ARGS__); \
		back(m);                                        \
	} while (0)
#define RUN_FOR(m, type, op, ...)                                      \
	do {                                                               \
		type result_ = (m)->device->ops->op((m)->device, __VA_ARGS__); \
		back(m);                                                       \
		return result_;                                                \
	} while (0)

/* Elements from the first to the last of a strided matrix. Memory beyond the last row's end need
 * not exist. */
static size_t strided(size_t rows, size_t columns, size_t stride)
{
	return rows == 0 || columns == 0 ? 0 : (rows - 1) * stride + columns;
}

static void mirror_gemm(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
                        size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc)
{
	struct mirror *s = mirror(b);
	float *to = floats(s, C, strided(m, n, ldc));
	const float *left = floats(s, A, trans_a ? strided(k, m, lda) : strided(m, k, lda));
	const float *right = floats(s, B, trans_b ? strided(n, k, ldb) : strided(k, n, ldb));
	RUN(s, gemm, trans_a, trans_b, m, n, k, alpha, left, lda, right, ldb, beta, to, ldc);
}

static void mirror_bias_act(struct backend *b, float *y, const float *bias, size_t rows, size_t n, enum activation act)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, y, rows * n);
	RUN(m, bias_act, to, floats(m, bias, n), rows, n, act);
}

static void mirror_bias_act_backward(struct backend *b, float *dx, const float *dy, const float *y, float *dbias, size_t rows,
                                     size_t n, enum activation act)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, dx, rows * n), *to_bias = floats(m, dbias, n);
	const float *from = floats(m, dy, rows * n);
	RUN(m, bias_act_backward, to, from, floats(m, y, rows * n), to_bias, rows, n, act);
}

static void mirror_linear(struct backend *b, float *y, const struct linear *l, const float *bias, enum activation act)
{
	struct mirror *m = mirror(b);
	struct linear there = *l;
	float *to = floats(m, y, l->rows * l->out);
	there.x = floats(m, l->x, l->rows * l->in);
	there.W = floats(m, l->W, l->out * l->in);
	RUN(m, linear, to, &there, floats(m, bias, l->out), act);
}

static void mirror_linear_backward(struct backend *b, float *dW, float *dx, size_t columns, float beta, const float *dz,
                                   const struct linear *l)
{
	struct mirror *m = mirror(b);
	struct linear there = *l;
	float *to_W = floats(m, dW, l->out * l->in), *to_x = floats(m, dx, l->rows * columns);
	const float *from = floats(m, dz, l->rows * l->out);
	there.x = floats(m, l->x, l->rows * l->in);
	there.W = floats(m, l->W, l->out * l->in);
	RUN(m, linear_backward, to_W, to_x, columns, beta, from, &there);
}

static void mirror_fill(struct backend *b, float *x, float value, size_t n)
{
	struct mirror *m = mirror(b);
	RUN(m, fill, floats(m, x, n), value, n);
}

static void mirror_axpy(struct backend *b, float *y, float a, const float *x, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, y, n);
	RUN(m, axpy, to, a, floats(m, x, n), n);
}

static void mirror_scale(struct backend *b, float *x, float a, size_t n)
{
	struct mirror *m = mirror(b);
	RUN(m, scale, floats(m, x, n), a, n);
}

static void mirror_lerp(struct backend *b, float *y, float t, const float *x, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, y, n);
	RUN(m, lerp, to, t, floats(m, x, n), n);
}

static void mirror_subtract(struct backend *b, float *out, const float *x, const float *y, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, n);
	const float *from = floats(m, x, n);
	RUN(m, subtract, to, from, floats(m, y, n), n);
}

static void mirror_concat(struct backend *b, float *out, const float *A, size_t na, const float *B, size_t nb, size_t rows)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, rows * (na + nb));
	const float *left = floats(m, A, rows * na), *right = floats(m, B, rows * nb);
	RUN(m, concat, to, left, na, right, nb, rows);
}

static void mirror_split(struct backend *b, const float *in, float *A, size_t na, float *B, size_t nb, size_t rows)
{
	struct mirror *m = mirror(b);
	float *left = floats(m, A, rows * na), *right = floats(m, B, rows * nb);
	RUN(m, split, floats(m, in, rows * (na + nb)), left, na, right, nb, rows);
}

static void mirror_sum_squares(struct backend *b, double *out, const float *x, size_t n)
{
	struct mirror *m = mirror(b);
	double *to = there(m, out, sizeof *out);
	RUN(m, sum_squares, to, floats(m, x, n), n);
}

static void mirror_clip(struct backend *b, float *x, size_t n, const double *squares, size_t parts, float limit)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, x, n);
	RUN(m, clip, to, n, there(m, squares, parts * sizeof *squares), parts, limit);
}

static bool mirror_all_finite(struct backend *b, const float *x, size_t n)
{
	struct mirror *m = mirror(b);
	RUN_FOR(m, bool, all_finite, floats(m, x, n), n);
}

static void mirror_zero_not_finite(struct backend *b, float *x, size_t n)
{
	struct mirror *m = mirror(b);
	RUN(m, zero_not_finite, floats(m, x, n), n);
}

static void mirror_scale_by(struct backend *b, float *x, size_t n, const float *by)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, x, n);
	RUN(m, scale_by, to, n, floats(m, by, 1));
}

static void mirror_unscale(struct backend *b, const struct floats *x, size_t count, const float *by, uint32_t *not_finite)
{
	struct mirror *m = mirror(b);
	struct floats to[BACKEND_FLOATS_MAX];
	for (size_t i = 0; i < count; i++)
		to[i] = (struct floats){floats(m, x[i].at, x[i].n), x[i].n};
	const float *scale = floats(m, by, 1);
	RUN(m, unscale, to, count, scale, words(m, not_finite, 1));
}

static void mirror_gather_pool(struct backend *b, float *out, const float *rows, size_t unique, size_t width,
                               const uint32_t *offsets, const uint32_t *index, const float *weight, size_t bags)
{
	struct mirror *m = mirror(b);
	const size_t uses = offsets[bags];
	float *to = floats(m, out, bags * width);
	const float *from = floats(m, rows, unique * width), *by = floats(m, weight, uses);
	const uint32_t *which = words(m, index, uses);
	RUN(m, gather_pool, to, from, unique, width, words(m, offsets, bags + 1), which, by, bags);
}

static void mirror_scatter_sum(struct backend *b, float *drows, size_t unique, size_t width, const float *dout,
                               const uint32_t *offsets, const uint32_t *index, const float *weight, size_t bags, size_t uses)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, drows, unique * width);
	const float *from = floats(m, dout, bags * width), *by = floats(m, weight, uses);
	const uint32_t *which = words(m, index, uses);
	RUN(m, scatter_sum, to, unique, width, from, words(m, offsets, bags + 1), which, by, bags, uses);
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
	float *there_out = floats(m, out, rows_of(to, n) * width);
	const float *there_in = floats(m, in, rows_of(from, n) * width);
	const uint32_t *there_to = words(m, to, n);
	RUN(m, copy_rows, there_out, there_to, there_in, words(m, from, n), width, n);
}

static size_t mirror_unique(struct backend *b, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index)
{
	struct mirror *m = mirror(b); /* host memory on every backend */
	return m->device->ops->unique(m->device, keys, n, unique_keys, index);
}

static void mirror_fm(struct backend *b, float *out, float *sum, const float *x, size_t rows, size_t fields, size_t dim)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, rows), *to_sum = floats(m, sum, rows * dim);
	RUN(m, fm, to, to_sum, floats(m, x, rows * fields * dim), rows, fields, dim);
}

static void mirror_fm_backward(struct backend *b, float *dx, const float *dout, const float *sum, const float *x, size_t rows,
                               size_t fields, size_t dim)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, dx, rows * fields * dim);
	const float *from = floats(m, dout, rows), *sums = floats(m, sum, rows * dim);
	RUN(m, fm_backward, to, from, sums, floats(m, x, rows * fields * dim), rows, fields, dim);
}

static void mirror_row_sum(struct backend *b, float *out, const float *x, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, rows);
	RUN(m, row_sum, to, floats(m, x, rows * n), rows, n);
}

static void mirror_cross(struct backend *b, float *out, const float *x0, const float *x, const float *u, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, rows * n);
	const float *first = floats(m, x0, rows * n), *last = floats(m, x, rows * n);
	RUN(m, cross, to, first, last, floats(m, u, rows * n), rows, n);
}

static void mirror_cross_backward(struct backend *b, float *du, float *dx0, float *dx, const float *dout, const float *x0,
                                  const float *u, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to_u = floats(m, du, rows * n), *to_x0 = floats(m, dx0, rows * n), *to_x = floats(m, dx, rows * n);
	const float *from = floats(m, dout, rows * n), *first = floats(m, x0, rows * n);
	RUN(m, cross_backward, to_u, to_x0, to_x, from, first, floats(m, u, rows * n), rows, n);
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
	float *to = floats(m, out, rows * dots_width(first, fields, dim));
	const float *there_first = floats(m, first, rows * dim);
	RUN(m, dot_interaction, to, there_first, floats(m, x, rows * fields * dim), rows, fields, dim);
}

static void mirror_dot_interaction_backward(struct backend *b, float *dfirst, float *dx, const float *dout, const float *first,
                                            const float *x, size_t rows, size_t fields, size_t dim)
{
	struct mirror *m = mirror(b);
	float *to_first = floats(m, dfirst, rows * dim), *to = floats(m, dx, rows * fields * dim);
	const float *from = floats(m, dout, rows * dots_width(first, fields, dim)), *there_first = floats(m, first, rows * dim);
	RUN(m, dot_interaction_backward, to_first, to, from, there_first, floats(m, x, rows * fields * dim), rows, fields, dim);
}

static void mirror_batch_norm(struct backend *b, float *y, float *xhat, float *mean, float *inv_std, float *batch_mean,
                              float *batch_var, const float *x, const float *gamma, const float *beta, size_t rows, size_t n,
                              float eps, bool training)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, y, rows * n), *to_hat = floats(m, xhat, rows * n);
	float *middle = floats(m, mean, n), *spread = floats(m, inv_std, n), *to_mean = floats(m, batch_mean, n),
	      *to_var = floats(m, batch_var, n);
	const float *from = floats(m, x, rows * n), *by = floats(m, gamma, n);
	RUN(m, batch_norm, to, to_hat, middle, spread, to_mean, to_var, from, by, floats(m, beta, n), rows, n, eps, training);
}

static void mirror_batch_norm_backward(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy,
                                       const float *xhat, const float *gamma, const float *inv_std, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, dx, rows * n), *to_gamma = floats(m, dgamma, n), *to_beta = floats(m, dbeta, n);
	const float *from = floats(m, dy, rows * n), *hat = floats(m, xhat, rows * n), *by = floats(m, gamma, n);
	RUN(m, batch_norm_backward, to, to_gamma, to_beta, from, hat, by, floats(m, inv_std, n), rows, n);
}

static void mirror_dropout(struct backend *b, float *x, size_t first, size_t n, float p, const uint64_t *seed, uint64_t salt)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, x, n);
	RUN(m, dropout, to, first, n, p, there(m, seed, sizeof *seed), salt);
}

static void mirror_bce(struct backend *b, double *loss, float *dlogit, const float *logit, const float *label,
                       const float *weight, size_t rows, float scale)
{
	struct mirror *m = mirror(b);
	double *to_loss = there(m, loss, sizeof *loss);
	float *to = floats(m, dlogit, rows);
	const float *z = floats(m, logit, rows), *y = floats(m, label, rows);
	RUN(m, bce, to_loss, to, z, y, floats(m, weight, rows), rows, scale);
}

static void mirror_cross_entropy(struct backend *b, double *loss, float *dlogits, float *losses, const float *logits,
                                 const uint32_t *targets, size_t rows, size_t n, float scale)
{
	struct mirror *m = mirror(b);
	double *to_loss = there(m, loss, sizeof *loss);
	float *to = floats(m, dlogits, rows * n), *to_losses = floats(m, losses, rows);
	const float *z = floats(m, logits, rows * n);
	RUN(m, cross_entropy, to_loss, to, to_losses, z, words(m, targets, rows), rows, n, scale);
}

static void mirror_sigmoid(struct backend *b, float *p, const float *z, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, p, n);
	RUN(m, sigmoid, to, floats(m, z, n), n);
}

static void mirror_cast_bf16(struct backend *b, uint16_t *out, const float *in, size_t n)
{
	struct mirror *m = mirror(b);
	uint16_t *to = there(m, out, n * sizeof *out);
	RUN(m, cast_bf16, to, floats(m, in, n), n);
}

static void mirror_cast_fp32(struct backend *b, float *out, const uint16_t *bf16, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, n);
	RUN(m, cast_fp32, to, there(m, bf16, n * sizeof *bf16), n);
}

static void mirror_update(struct backend *b, const struct optimizer_step *step, float *value, float *slots, const float *grad,
                          size_t n)
{
	struct mirror *m = mirror(b);
	struct optimizer_step there_step = *step;
	float *to = floats(m, value, n), *to_slots = floats(m, slots, n * optimizer_slots(step->kind));
	there_step.accumulator = floats(m, step->accumulator, weir_chunks(n));
	RUN(m, update, &there_step, to, to_slots, floats(m, grad, n), n);
}

/* --- Compression. The bytes of an output are its capacity. */

static void mirror_encode(struct backend *b, const struct coding *coding, const float *in, float *residual, size_t n,
                          uint8_t *out)
{
	struct mirror *m = mirror(b);
	uint8_t *to = there(m, out, codec_bytes(coding->codec, n));
	float *left = floats(m, residual, n);
	RUN(m, encode, coding, floats(m, in, n), left, n, to);
}

static void mirror_encode_rows(struct backend *b, const struct coding *coding, const float *in, size_t rows, size_t width,
                               uint8_t *out)
{
	struct mirror *m = mirror(b);
	uint8_t *to = there(m, out, rows * codec_bytes(coding->codec, width));
	RUN(m, encode_rows, coding, floats(m, in, rows * width), rows, width, to);
}

static void mirror_decode(struct backend *b, const struct coding *coding, const uint8_t *in, size_t n, float *out)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, n);
	RUN(m, decode, coding, there(m, in, codec_bytes(coding->codec, n)), n, to);
}

static struct topk_row row_there(struct mirror *m, const struct topk_row *row)
{
	struct topk_row r = *row;
	r.residual = floats(m, row->residual, row->n);
	r.grad = floats(m, row->grad, row->n);
	r.momentum.velocity = floats(m, row->momentum.velocity, row->n);
	return r;
}

static void mirror_topk_accumulate(struct backend *b, const struct topk_row *row)
{
	struct mirror *m = mirror(b);
	const struct topk_row r = row_there(m, row);
	RUN(m, topk_accumulate, &r);
}

static weir_status mirror_topk_threshold(struct backend *b, const float *x, size_t n, size_t k, float *out, weir_error *err)
{
	struct mirror *m = mirror(b);
	RUN_FOR(m, weir_status, topk_threshold, floats(m, x, n), n, k, out, err);
}

static void mirror_topk_encode(struct backend *b, const struct topk_row *row, float threshold, weir_values values, uint8_t *out,
                               uint32_t *ends, uint32_t *selected)
{
	struct mirror *m = mirror(b);
	const struct topk_row r = row_there(m, row);
	const size_t tiles = codec_tiles(row->n);
	size_t room = 0;
	for (size_t at = 0; at < row->n; at += CODEC_TILE)
		room += topk_record_max(codec_tile_elements(row->n, at), values);
	uint8_t *to = there(m, out, room);
	uint32_t *to_ends = words(m, ends, tiles);
	RUN(m, topk_encode, &r, threshold, values, to, to_ends, words(m, selected, tiles));
}

static void mirror_topk_decode(struct backend *b, const uint8_t *in, const uint32_t *ends, size_t n, weir_values values,
                               float *out)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, n);
	const uint8_t *from = there(m, in, ends[codec_tiles(n) - 1]);
	RUN(m, topk_decode, from, words(m, ends, codec_tiles(n)), n, values, to);
}

struct backend *mirror_device(struct backend *b)
{
	return mirror(b)->device;
}

/* --- Transformers */

static void mirror_copy(struct backend *b, float *to, const float *from, size_t n)
{
	struct mirror *m = mirror(b);
	float *there_to = floats(m, to, n);
	RUN(m, copy, there_to, floats(m, from, n), n);
}

static void mirror_add(struct backend *b, float *out, const float *x, const float *y, const float *bias, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, rows * n);
	const float *left = floats(m, x, rows * n), *right = floats(m, y, rows * n);
	RUN(m, add, to, left, right, floats(m, bias, n), rows, n);
}

static void mirror_column_sum(struct backend *b, float *out, const float *x, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, n);
	RUN(m, column_sum, to, floats(m, x, rows * n), rows, n);
}

static void mirror_layer_norm(struct backend *b, float *y, float *mean, float *inv_std, const float *x, const float *gamma,
                              const float *beta, size_t rows, size_t n, float eps)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, y, rows * n), *to_mean = floats(m, mean, rows), *to_inv = floats(m, inv_std, rows);
	const float *from = floats(m, x, rows * n), *by = floats(m, gamma, n);
	RUN(m, layer_norm, to, to_mean, to_inv, from, by, floats(m, beta, n), rows, n, eps);
}

static void mirror_layer_norm_backward(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *x,
                                       const float *gamma, const float *mean, const float *inv_std, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, dx, rows * n), *to_gamma = floats(m, dgamma, n), *to_beta = floats(m, dbeta, n);
	const float *from = floats(m, dy, rows * n), *at = floats(m, x, rows * n), *by = floats(m, gamma, n),
	            *middle = floats(m, mean, rows);
	RUN(m, layer_norm_backward, to, to_gamma, to_beta, from, at, by, middle, floats(m, inv_std, rows), rows, n);
}

static void mirror_rms_norm(struct backend *b, float *y, float *inv_rms, const float *x, const float *gamma, size_t rows,
                            size_t n, float eps)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, y, rows * n), *to_inv = floats(m, inv_rms, rows);
	const float *from = floats(m, x, rows * n);
	RUN(m, rms_norm, to, to_inv, from, floats(m, gamma, n), rows, n, eps);
}

static void mirror_rms_norm_backward(struct backend *b, float *dx, float *dgamma, const float *dy, const float *x,
                                     const float *gamma, const float *inv_rms, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, dx, rows * n), *to_gamma = floats(m, dgamma, n);
	const float *from = floats(m, dy, rows * n), *at = floats(m, x, rows * n), *by = floats(m, gamma, n);
	RUN(m, rms_norm_backward, to, to_gamma, from, at, by, floats(m, inv_rms, rows), rows, n);
}

static void mirror_rope(struct backend *b, float *x, size_t stride, const float *cosines, const float *sines, size_t rows,
                        size_t length, size_t heads, size_t dim, bool back_)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, x, strided(rows, heads * dim, stride));
	const float *cosine = floats(m, cosines, length * (dim / 2));
	RUN(m, rope, to, stride, cosine, floats(m, sines, length * (dim / 2)), rows, length, heads, dim, back_);
}

static void mirror_attention(struct backend *b, float *out, float *log_sums, const float *qkv, const struct attention_shape *s)
{
	struct mirror *m = mirror(b);
	const size_t rows = s->batch * s->length, answered = s->batch * (s->length - s->first);
	float *to = floats(m, out, answered * s->heads * s->dim), *to_sums = floats(m, log_sums, answered * s->heads);
	RUN(m, attention, to, to_sums, floats(m, qkv, rows * attention_width(s)), s);
}

static void mirror_attention_backward(struct backend *b, float *dqkv, const float *dout, const float *out, const float *log_sums,
                                      const float *qkv, const struct attention_shape *s)
{
	struct mirror *m = mirror(b);
	const size_t rows = s->batch * s->length, width = s->heads * s->dim;
	float *to = floats(m, dqkv, rows * attention_width(s));
	const float *from = floats(m, dout, rows * width), *result = floats(m, out, rows * width),
	            *sums = floats(m, log_sums, rows * s->heads);
	RUN(m, attention_backward, to, from, result, sums, floats(m, qkv, rows * attention_width(s)), s);
}

static void mirror_swiglu(struct backend *b, float *y, const float *x, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, y, rows * n);
	RUN(m, swiglu, to, floats(m, x, rows * 2 * n), rows, n);
}

static void mirror_swiglu_backward(struct backend *b, float *dx, const float *dy, const float *x, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, dx, rows * 2 * n);
	const float *from = floats(m, dy, rows * n);
	RUN(m, swiglu_backward, to, from, floats(m, x, rows * 2 * n), rows, n);
}

static void mirror_gelu(struct backend *b, float *y, float *x, const float *bias, size_t rows, size_t n)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, y, rows * n), *at = floats(m, x, rows * n);
	RUN(m, gelu, to, at, floats(m, bias, n), rows, n);
}

static void mirror_embed(struct backend *b, float *out, const float *table, const float *positions, const uint32_t *tokens,
                         size_t vocabulary, size_t rows, size_t length, size_t width)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, out, rows * width);
	const float *from = floats(m, table, vocabulary * width), *places = floats(m, positions, length * width);
	RUN(m, embed, to, from, places, words(m, tokens, rows), vocabulary, rows, length, width);
}

static void mirror_embed_backward(struct backend *b, float *dtable, float *dpositions, const float *dout, const uint32_t *tokens,
                                  size_t vocabulary, size_t rows, size_t length, size_t width)
{
	struct mirror *m = mirror(b);
	float *to = floats(m, dtable, vocabulary * width), *to_places = floats(m, dpositions, length * width);
	const float *from = floats(m, dout, rows * width);
	RUN(m, embed_backward, to, to_places, from, words(m, tokens, rows), vocabulary, rows, length, width);
}

static void mirror_classifier(struct backend *b, double *loss, float *losses, float *logits, size_t stride,
                              const uint32_t *targets, size_t rows, size_t n, float scale, bool gradient)
{
	struct mirror *m = mirror(b);
	double *to = there(m, loss, sizeof *loss);
	float *to_losses = floats(m, losses, rows), *z = floats(m, logits, strided(rows, n, stride));
	RUN(m, classifier, to, to_losses, z, stride, words(m, targets, rows), rows, n, scale, gradient);
}

struct backend *mirror_of(struct backend *device)
{
	struct mirror *m = calloc(1, sizeof *m);
	assert_non_null(m);
	m->device = device;
	m->base.ops = &m->ops;
	m->ops = (struct backend_ops){.name = device->ops->name,
#define MIRROR_ENTRY(op) .op = mirror_##op,
	                              .destroy = mirror_destroy,
	                              .sync = mirror_sync,
	                              .info = mirror_info,
	                              BACKEND_OPS(MIRROR_ENTRY)
#undef MIRROR_ENTRY
	};
	/* a new op needs a mirror here */
	for (size_t i = offsetof(struct backend_ops, destroy) / sizeof(void *); i < sizeof m->ops / sizeof(void *); i++)
		assert_true(((void *const *)&m->ops)[i] != NULL);
	return &m->base;
}
