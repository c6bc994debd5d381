#include "kernels/backend_traced.h"

#include <stdlib.h>

struct traced {
	struct backend is;
	struct backend_ops ops; /* `is` has these */
	struct backend *inner;
	struct trace *trace;
};

enum op {
#define OP_NUMBER(name) OP_##name,
	BACKEND_OPS(OP_NUMBER)
#undef OP_NUMBER
	    OPS
};

const char *backend_op_name(uint32_t op)
{
	static const char *const names[] = {
#define OP_NAME(name) #name,
	    BACKEND_OPS(OP_NAME)
#undef OP_NAME
	};
	return op < OPS ? names[op] : NULL;
}

static struct traced *traced_of(struct backend *b)
{
	return (struct traced *)b;
}

static void note(const struct traced *t, enum op op, int64_t begun_ns)
{
	trace_end(t->trace, begun_ns, &(struct trace_what){.kind = TRACE_OPERATION, .op = (uint16_t)op});
}

/* TRACED(name, (parameters), arguments after the backend): THIS is the backend. PASSED: the same
 * without a span. */
#define THIS struct backend *b
#define PASSED(name, parameters, ...)                       \
	static void traced_##name parameters                    \
	{                                                       \
		struct backend *inner = traced_of(b)->inner;        \
		inner->ops->name(inner __VA_OPT__(, ) __VA_ARGS__); \
	}
#define PASSED_VALUE(type, name, parameters, ...)                  \
	static type traced_##name parameters                           \
	{                                                              \
		struct backend *inner = traced_of(b)->inner;               \
		return inner->ops->name(inner __VA_OPT__(, ) __VA_ARGS__); \
	}
#define TRACED(name, parameters, ...)                                   \
	static void traced_##name parameters                                \
	{                                                                   \
		const struct traced *self = traced_of(b);                       \
		const int64_t begun_ns = trace_begin(self->trace);              \
		self->inner->ops->name(self->inner __VA_OPT__(, ) __VA_ARGS__); \
		note(self, OP_##name, begun_ns);                                \
	}
#define TRACED_VALUE(type, name, parameters, ...)                                     \
	static type traced_##name parameters                                              \
	{                                                                                 \
		const struct traced *self = traced_of(b);                                     \
		const int64_t begun_ns = trace_begin(self->trace);                            \
		type result = self->inner->ops->name(self->inner __VA_OPT__(, ) __VA_ARGS__); \
		note(self, OP_##name, begun_ns);                                              \
		return result;                                                                \
	}

PASSED_VALUE(void *, buffer_alloc, (THIS, size_t bytes), bytes)
PASSED(buffer_free, (THIS, void *p), p)
PASSED_VALUE(void *, host_alloc, (THIS, size_t bytes), bytes)
PASSED(host_free, (THIS, void *p), p)
TRACED(to_device, (THIS, void *device, const void *host, size_t bytes), device, host, bytes)
TRACED(to_host, (THIS, void *host, const void *device, size_t bytes), host, device, bytes)
TRACED(to_host_later, (THIS, void *host, const void *device, size_t bytes), host, device, bytes)
PASSED_VALUE(enum backend_stream, choose_stream, (THIS, enum backend_stream s), s)
TRACED_VALUE(weir_status, sync_stream, (THIS, weir_error *err), err)
PASSED(set_mark, (THIS, struct backend_mark *m), m)
PASSED(free_mark, (THIS, struct backend_mark *m), m)
PASSED(follow_mark, (THIS, const struct backend_mark *m), m)
TRACED_VALUE(weir_status, await_mark, (THIS, const struct backend_mark *m, weir_error *err), m, err)
PASSED(forget_replays, (THIS))
TRACED(gemm,
       (THIS, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A, size_t lda, const float *B,
        size_t ldb, float beta, float *C, size_t ldc),
       trans_a, trans_b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc)
TRACED(bias_act, (THIS, float *y, const float *bias, size_t rows, size_t n, enum activation act), y, bias, rows, n, act)
TRACED(bias_act_backward,
       (THIS, float *dx, const float *dy, const float *y, float *dbias, size_t rows, size_t n, enum activation act), dx, dy, y,
       dbias, rows, n, act)
TRACED(linear, (THIS, float *y, const struct linear *l, const float *bias, enum activation act), y, l, bias, act)
TRACED(linear_backward, (THIS, float *dW, float *dx, size_t columns, float beta, const float *dz, const struct linear *l), dW, dx,
       columns, beta, dz, l)
TRACED(fill, (THIS, float *x, float value, size_t n), x, value, n)
TRACED(axpy, (THIS, float *y, float a, const float *x, size_t n), y, a, x, n)
TRACED(scale, (THIS, float *x, float a, size_t n), x, a, n)
TRACED(lerp, (THIS, float *y, float t, const float *x, size_t n), y, t, x, n)
TRACED(subtract, (THIS, float *out, const float *x, const float *y, size_t n), out, x, y, n)
TRACED(concat, (THIS, float *out, const float *A, size_t na, const float *B, size_t nb, size_t rows), out, A, na, B, nb, rows)
TRACED(split, (THIS, const float *in, float *A, size_t na, float *B, size_t nb, size_t rows), in, A, na, B, nb, rows)
TRACED(sum_squares, (THIS, double *out, const float *x, size_t n), out, x, n)
TRACED(clip, (THIS, float *x, size_t n, const double *squares, size_t parts, float limit), x, n, squares, parts, limit)
TRACED_VALUE(bool, all_finite, (THIS, const float *x, size_t n), x, n)
TRACED(zero_not_finite, (THIS, float *x, size_t n), x, n)
TRACED(scale_by, (THIS, float *x, size_t n, const float *by), x, n, by)
TRACED(unscale, (THIS, const struct floats *x, size_t count, const float *by, uint32_t *not_finite), x, count, by, not_finite)
TRACED(gather_pool,
       (THIS, float *out, const float *rows, size_t unique, size_t width, const uint32_t *offsets, const uint32_t *index,
        const float *weight, size_t bags),
       out, rows, unique, width, offsets, index, weight, bags)
TRACED(scatter_sum,
       (THIS, float *drows, size_t unique, size_t width, const float *dout, const uint32_t *offsets, const uint32_t *index,
        const float *weight, size_t bags, size_t uses),
       drows, unique, width, dout, offsets, index, weight, bags, uses)
TRACED(gather_max,
       (THIS, float *out, uint32_t *chosen, const float *rows, size_t width, const uint32_t *offsets, const uint32_t *index,
        const uint32_t *is_max, size_t fields, size_t bags),
       out, chosen, rows, width, offsets, index, is_max, fields, bags)
TRACED(scatter_chosen,
       (THIS, float *drows, size_t unique, size_t width, const float *dout, const uint32_t *chosen, const uint32_t *offsets,
        const uint32_t *index, const float *weight, size_t bags, size_t uses),
       drows, unique, width, dout, chosen, offsets, index, weight, bags, uses)
TRACED(copy_rows, (THIS, float *out, const uint32_t *to, const float *in, const uint32_t *from, size_t width, size_t n), out, to,
       in, from, width, n)
TRACED_VALUE(size_t, unique, (THIS, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index), keys, n, unique_keys,
             index)
TRACED(fm, (THIS, float *out, float *sum, const float *x, size_t rows, size_t fields, size_t dim), out, sum, x, rows, fields, dim)
TRACED(fm_backward,
       (THIS, float *dx, const float *dout, const float *sum, const float *x, size_t rows, size_t fields, size_t dim), dx, dout,
       sum, x, rows, fields, dim)
TRACED(row_sum, (THIS, float *out, const float *x, size_t rows, size_t n), out, x, rows, n)
TRACED(cross, (THIS, float *out, const float *x0, const float *x, const float *u, size_t rows, size_t n), out, x0, x, u, rows, n)
TRACED(cross_backward,
       (THIS, float *du, float *dx0, float *dx, const float *dout, const float *x0, const float *u, size_t rows, size_t n), du,
       dx0, dx, dout, x0, u, rows, n)
TRACED(dot_interaction, (THIS, float *out, const float *first, const float *x, size_t rows, size_t fields, size_t dim), out,
       first, x, rows, fields, dim)
TRACED(dot_interaction_backward,
       (THIS, float *dfirst, float *dx, const float *dout, const float *first, const float *x, size_t rows, size_t fields,
        size_t dim),
       dfirst, dx, dout, first, x, rows, fields, dim)
TRACED(row_dots,
       (THIS, float *out, const float *x, const uint32_t *of_x, const float *y, const uint32_t *of_y, size_t width, size_t n),
       out, x, of_x, y, of_y, width, n)
TRACED(pair_features,
       (THIS, float *out, const float *x, const uint32_t *of_x, const float *y, const uint32_t *of_y, size_t width, size_t n),
       out, x, of_x, y, of_y, width, n)
TRACED(pair_features_backward,
       (THIS, float *dx, float *dy, const float *dout, const float *x, const uint32_t *of_x, const float *y, const uint32_t *of_y,
        size_t width, size_t n),
       dx, dy, dout, x, of_x, y, of_y, width, n)
TRACED(softmax, (THIS, float *y, const float *x, size_t rows, size_t n), y, x, rows, n)
TRACED(softmax_backward, (THIS, float *dx, const float *dy, const float *y, size_t rows, size_t n), dx, dy, y, rows, n)
TRACED(batch_norm,
       (THIS, float *y, float *xhat, float *mean, float *inv_std, float *batch_mean, float *batch_var, const float *x,
        const float *gamma, const float *beta, size_t rows, size_t n, float eps, bool training),
       y, xhat, mean, inv_std, batch_mean, batch_var, x, gamma, beta, rows, n, eps, training)
TRACED(batch_norm_backward,
       (THIS, float *dx, float *dgamma, float *dbeta, const float *dy, const float *xhat, const float *gamma,
        const float *inv_std, size_t rows, size_t n),
       dx, dgamma, dbeta, dy, xhat, gamma, inv_std, rows, n)
TRACED(dropout, (THIS, float *x, size_t first, size_t n, float p, const uint64_t *seed, uint64_t salt), x, first, n, p, seed,
       salt)
TRACED(click_loss,
       (THIS, double *loss, float *dlogits, const struct click_rows *rows, const struct click_loss *kind, float scale), loss,
       dlogits, rows, kind, scale)
TRACED(cross_entropy,
       (THIS, double *loss, float *dlogits, float *losses, const float *logits, const uint32_t *targets, size_t rows, size_t n,
        float scale),
       loss, dlogits, losses, logits, targets, rows, n, scale)
TRACED(in_batch, (THIS, double *loss, float *logits, const struct in_batch *in, float scale), loss, logits, in, scale)
TRACED(sigmoid, (THIS, float *p, const float *z, size_t n), p, z, n)
TRACED(cast_bf16, (THIS, uint16_t *out, const float *in, size_t n), out, in, n)
TRACED(cast_fp32, (THIS, float *out, const uint16_t *bf16, size_t n), out, bf16, n)
TRACED(update, (THIS, const struct optimizer_step *step, float *value, float *slots, const float *grad, size_t n), step, value,
       slots, grad, n)
TRACED(encode, (THIS, const struct coding *coding, const float *in, float *residual, size_t n, uint8_t *out), coding, in,
       residual, n, out)
TRACED(encode_rows, (THIS, const struct coding *coding, const float *in, size_t rows, size_t width, uint8_t *out), coding, in,
       rows, width, out)
TRACED(decode, (THIS, const struct coding *coding, const uint8_t *in, size_t n, float *out), coding, in, n, out)
TRACED(topk_accumulate, (THIS, const struct topk_row *row), row)
TRACED_VALUE(weir_status, topk_threshold, (THIS, const float *x, size_t n, size_t k, float *out, weir_error *err), x, n, k, out,
             err)
TRACED(topk_encode,
       (THIS, const struct topk_row *row, float threshold, weir_values values, uint8_t *out, uint32_t *ends, uint32_t *selected),
       row, threshold, values, out, ends, selected)
TRACED(topk_decode, (THIS, const uint8_t *in, const uint32_t *ends, size_t n, weir_values values, float *out), in, ends, n,
       values, out)
TRACED(copy, (THIS, float *to, const float *from, size_t n), to, from, n)
TRACED(add, (THIS, float *out, const float *x, const float *y, const float *bias, size_t rows, size_t n), out, x, y, bias, rows,
       n)
TRACED(column_sum, (THIS, float *out, const float *x, size_t rows, size_t n), out, x, rows, n)
TRACED(layer_norm,
       (THIS, float *y, float *mean, float *inv_std, const float *x, const float *gamma, const float *beta, size_t rows, size_t n,
        float eps),
       y, mean, inv_std, x, gamma, beta, rows, n, eps)
TRACED(layer_norm_backward,
       (THIS, float *dx, float *dgamma, float *dbeta, const float *dy, const float *x, const float *gamma, const float *mean,
        const float *inv_std, size_t rows, size_t n),
       dx, dgamma, dbeta, dy, x, gamma, mean, inv_std, rows, n)
TRACED(rms_norm, (THIS, float *y, float *inv_rms, const float *x, const float *gamma, size_t rows, size_t n, float eps), y,
       inv_rms, x, gamma, rows, n, eps)
TRACED(rms_norm_backward,
       (THIS, float *dx, float *dgamma, const float *dy, const float *x, const float *gamma, const float *inv_rms, size_t rows,
        size_t n),
       dx, dgamma, dy, x, gamma, inv_rms, rows, n)
TRACED(rope,
       (THIS, float *x, size_t stride, const float *cosines, const float *sines, size_t rows, size_t length, size_t heads,
        size_t dim, bool back),
       x, stride, cosines, sines, rows, length, heads, dim, back)
TRACED(attention, (THIS, float *out, float *log_sums, const float *qkv, const struct attention_shape *s), out, log_sums, qkv, s)
TRACED(attention_backward,
       (THIS, float *dqkv, const float *dout, const float *out, const float *log_sums, const float *qkv,
        const struct attention_shape *s),
       dqkv, dout, out, log_sums, qkv, s)
TRACED(swiglu, (THIS, float *y, const float *x, size_t rows, size_t n), y, x, rows, n)
TRACED(swiglu_backward, (THIS, float *dx, const float *dy, const float *x, size_t rows, size_t n), dx, dy, x, rows, n)
TRACED(gelu, (THIS, float *y, float *x, const float *bias, size_t rows, size_t n), y, x, bias, rows, n)
TRACED(embed,
       (THIS, float *out, const float *table, const float *positions, const uint32_t *tokens, size_t vocabulary, size_t rows,
        size_t length, size_t width),
       out, table, positions, tokens, vocabulary, rows, length, width)
TRACED(embed_backward,
       (THIS, float *dtable, float *dpositions, const float *dout, const uint32_t *tokens, size_t vocabulary, size_t rows,
        size_t length, size_t width),
       dtable, dpositions, dout, tokens, vocabulary, rows, length, width)
TRACED(classifier,
       (THIS, double *loss, float *losses, float *logits, size_t stride, const uint32_t *targets, size_t rows, size_t n,
        float scale, bool gradient),
       loss, losses, logits, stride, targets, rows, n, scale, gradient)

/* The CPU issues the run's ops one by one, and each has its own span. */
static void traced_replay(struct backend *b, const void *key, size_t bytes, void (*issue)(void *arg), void *arg)
{
	const struct traced *t = traced_of(b);
	const int64_t begun_ns = t->ops.host_memory ? 0 : trace_begin(t->trace);
	t->inner->ops->replay(t->inner, key, bytes, issue, arg);
	note(t, OP_replay, begun_ns);
}

static void traced_destroy(struct backend *b)
{
	struct traced *t = traced_of(b);
	t->inner->ops->destroy(t->inner);
	free(t);
}

static weir_status traced_sync(struct backend *b, weir_error *err)
{
	struct backend *inner = traced_of(b)->inner;
	return inner->ops->sync(inner, err);
}

static void traced_info(const struct backend *b, struct backend_info *out)
{
	const struct backend *inner = ((const struct traced *)b)->inner;
	inner->ops->info(inner, out);
}

struct backend *backend_traced_create(struct backend *inner)
{
	struct traced *t = calloc(1, sizeof *t);
	if (!t) {
		inner->ops->destroy(inner);
		return NULL;
	}
	t->ops = (struct backend_ops){.name = inner->ops->name,
	                              .host_memory = inner->ops->host_memory,
	                              .destroy = traced_destroy,
	                              .sync = traced_sync,
	                              .info = traced_info,
#define TRACED_ENTRY(name) .name = traced_##name,
	                              BACKEND_OPS(TRACED_ENTRY)
#undef TRACED_ENTRY
	};
	t->is.ops = &t->ops;
	t->inner = inner;
	return &t->is;
}

void backend_traced_use(struct backend *b, struct trace *trace)
{
	traced_of(b)->trace = trace;
}
