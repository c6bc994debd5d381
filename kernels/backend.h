/* Compute backends behind one vtable: CPU here, CUDA as a shared object opened at run time. A model is written once against this.
 *
 * Memory. Tensors are row-major fp32 in the backend's own memory (buffer_alloc; on the CPU ordinary 64-byte aligned memory, on a
 * GPU device memory). Index arrays are uint32_t in the same memory, and so are numbers that ops take or make: nothing waits for them. to_device/to_host
 * copy. Outputs never alias inputs unless the comment says in place. Every op is deterministic: the same inputs give the same bits on the same backend and
 * thread count, and is checked against float64 in tests/unit.
 *
 * Order. Ops are done as issued, those of the stream that was chosen last. What is on different streams is ordered by marks alone: buffers that both use
 * need one. Without choosing all goes to STREAM_COMPUTE. On the CPU every op is complete when it returns, and streams and marks are nothing.
 *
 * Errors. Ops return nothing. A device's first failure is kept: ops after it do nothing (all_finite is false), and sync, sync_stream and await_mark
 * return it, naming the device, the call and what to do. Memory that buffer_alloc could not have is told by the next of them, once.
 * One backend object is used by one thread; it may use `threads` workers inside. */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec.h"
#include "kernels/optimizer.h"
#include "kernels/topk.h"
#include "weir/status.h"

struct backend;

enum activation { ACT_NONE, ACT_RELU, ACT_SIGMOID, ACT_TANH, ACT_GELU };

/* Causal self-attention over `batch` sequences of `length` tokens; rows = batch * length. A row of qkv is [queries (heads, dim) | keys (kv_heads, dim) |
 * values (kv_heads, dim)]: query head h looks at key and value head h / (heads / kv_heads) (Ainslie et al. 2023). Where a text grows, `first` leaves out the queries
 * that were answered before: their keys and values are looked at as all others are. */
struct attention_shape {
	size_t batch, length, heads, kv_heads, dim; /* heads is a multiple of kv_heads; dim at most ATTENTION_DIM_MAX */
	float scale;                                /* of a query's product with a key; 1 / sqrt(dim) */
	size_t first;                               /* of the tokens whose queries are answered; 0 but in attention */
};
#define ATTENTION_DIM_MAX 256u
static inline size_t attention_width(const struct attention_shape *s)
{
	return (s->heads + 2 * s->kv_heads) * s->dim;
}

#define TARGET_NONE 0xffffffffu /* of a row that has no loss */

/* How the factors of matrix products are rounded: to 24, 11, 8 or 11 bits; fp16 has nothing beyond 65504. Their sums, and all that is not a product, are fp32.
 * Attention's products are of fp32 in tf32, and where a device has no others. */
enum compute_precision { COMPUTE_FP32, COMPUTE_TF32, COMPUTE_BF16, COMPUTE_FP16 };
static inline const char *compute_precision_name(enum compute_precision precision)
{
	static const char *const names[] = {"fp32", "tf32", "bf16", "fp16"};
	return names[precision];
}

/* What a device does side by side: computing, what goes there for the next batch, and what becomes of the results of the last. */
enum backend_stream { STREAM_COMPUTE, STREAM_IN, STREAM_OUT, BACKEND_STREAMS };

/* What has been issued on a stream up to some moment. Zeroed: nothing, which is done. */
struct backend_mark {
	void *event;
};

/* A layer: x (rows, in) W^T + bias, where W is (out, in) as PyTorch's nn.Linear has it. */
struct linear {
	const float *x, *W;
	size_t rows, in, out;
};

/* Some numbers among others that an op is given at once. */
struct floats {
	float *at; /* (n) */
	size_t n;
};
#define BACKEND_FLOATS_MAX 8u

/* What goes into a row's residual: grad * scale, by way of the velocity where there is one. */
struct topk_row {
	const float *grad; /* (n); NULL: the residual is the sum already */
	float *residual;   /* (n) */
	struct topk_momentum momentum;
	float scale;
	size_t n;
};

/* What a backend says of itself. Memory: of a device, in bytes; all 0 on the CPU. */
struct backend_info {
	const char *device; /* "cpu", "cuda:0 (NVIDIA H200)"; the backend's own */
	enum compute_precision precision;
	uint64_t memory_budget, memory_held, memory_used, memory_used_most;
	uint64_t replays;         /* runs of ops that were one call */
	const char *not_replayed; /* why one was not, the last time; NULL: each that could be was */
};

#define BACKEND_REPLAY_KEY_BYTES 256u

struct backend_ops {
	const char *name; /* "cpu", "cuda" */
	bool host_memory; /* buffers are ordinary memory: anybody may read and write them, and ops take any memory */
	void (*destroy)(struct backend *b);
	weir_status (*sync)(struct backend *b, weir_error *err); /* waits for all streams */
	void (*info)(const struct backend *b, struct backend_info *out);

	/* --- memory */
	void *(*buffer_alloc)(struct backend *b, size_t bytes); /* zeroed, by the chosen stream; NULL when out of memory */
	void (*buffer_free)(struct backend *b, void *p);        /* ops that use it need not be done */
	/* Memory of the host, for what goes there and what comes back: copies of it are the fastest. Zeroed. */
	void *(*host_alloc)(struct backend *b, size_t bytes);
	void (*host_free)(struct backend *b, void *p); /* waits for all streams */
	/* The host's memory may be used again at once; that from host_alloc when a later mark of this stream has been awaited. */
	void (*to_device)(struct backend *b, void *device, const void *host, size_t bytes);
	void (*to_host)(struct backend *b, void *host, const void *device, size_t bytes); /* complete on return */
	/* host is of host_alloc: there when a later mark of this stream has been awaited. */
	void (*to_host_later)(struct backend *b, void *host, const void *device, size_t bytes);

	/* --- order */
	enum backend_stream (*choose_stream)(struct backend *b, enum backend_stream s); /* returns the one before */
	weir_status (*sync_stream)(struct backend *b, weir_error *err); /* as sync, but waits for the chosen one alone */
	void (*set_mark)(struct backend *b, struct backend_mark *m);    /* on the chosen stream; again moves it */
	void (*free_mark)(struct backend *b, struct backend_mark *m);
	/* What is issued on the chosen stream from now on begins when what is marked is done. */
	void (*follow_mark)(struct backend *b, const struct backend_mark *m);
	/* The host waits until what is marked is done. What has failed, as sync. */
	weir_status (*await_mark)(struct backend *b, const struct backend_mark *m, weir_error *err);
	/* A run of ops: what issue(arg) issues, on STREAM_COMPUTE. A device does a run that it has met by one call, so the key says all that its ops are given, shapes and pointers; what
	 * buffers hold is as it is each time. issue may be called twice, or not at all, and only issues ops: it copies nothing from or to the host, and has no memory allocated. */
	void (*replay)(struct backend *b, const void *key, size_t bytes, void (*issue)(void *arg), void *arg);
	/* Of buffers that are gone, or will be, and that keys did not name. */
	void (*forget_replays)(struct backend *b);

	/* --- dense algebra */
	/* C (m, n) = alpha * op(A) op(B) + beta * C, row-major; op(A) is (m, k), op(B) is (k, n); lda/ldb/ldc are row strides in elements. On
	 * STREAM_COMPUTE alone. */
	void (*gemm)(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
	             size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc);
	/* y (rows, n) += bias (n), then y = act(y), in place. bias may be NULL. */
	void (*bias_act)(struct backend *b, float *y, const float *bias, size_t rows, size_t n, enum activation act);
	/* dx = dy * act'(.) given y = act(x) (rows, n), NaN where y is; may be in place on dy.
	 * dbias (n) = column sums of dx when not NULL. GELU cannot be told from its result: for
	 * ACT_GELU y is the activation's input. */
	void (*bias_act_backward)(struct backend *b, float *dx, const float *dy, const float *y, float *dbias, size_t rows, size_t n,
	                          enum activation act);
	/* y (rows, out) = act(x W^T + bias), bias (out) or NULL: gemm, then bias_act; where gemm may be. */
	void (*linear)(struct backend *b, float *y, const struct linear *l, const float *bias, enum activation act);
	/* Of dz (rows, out), the gradient of x W^T + bias: dW (out, in) = dz^T x, and dx (rows, columns) = dz W + beta dx, for x's first `columns` columns. dx
	 * NULL: not needed. */
	void (*linear_backward)(struct backend *b, float *dW, float *dx, size_t columns, float beta, const float *dz,
	                        const struct linear *l);
	void (*fill)(struct backend *b, float *x, float value, size_t n);
	void (*axpy)(struct backend *b, float *y, float a, const float *x, size_t n); /* y += a x */
	void (*scale)(struct backend *b, float *x, float a, size_t n);
	void (*lerp)(struct backend *b, float *y, float t, const float *x, size_t n); /* y += t (x - y); where t is 1: y = x */
	void (*subtract)(struct backend *b, float *out, const float *x, const float *y, size_t n); /* out = x - y */
	/* out (rows, na + nb) = [A (rows, na) | B (rows, nb)], and its reverse. */
	void (*concat)(struct backend *b, float *out, const float *A, size_t na, const float *B, size_t nb, size_t rows);
	void (*split)(struct backend *b, const float *in, float *A, size_t na, float *B, size_t nb, size_t rows);
	/* *out = the sum of squares, in a fixed order. */
	void (*sum_squares)(struct backend *b, double *out, const float *x, size_t n);
	/* x *= limit / norm where the norm, the root of the sum of squares (parts), is finite and above limit. */
	void (*clip)(struct backend *b, float *x, size_t n, const double *squares, size_t parts, float limit);
	bool (*all_finite)(struct backend *b, const float *x, size_t n);
	void (*zero_not_finite)(struct backend *b, float *x, size_t n);           /* x = 0 where it is NaN or infinite */
	void (*scale_by)(struct backend *b, float *x, size_t n, const float *by); /* x *= *by */
	/* x /= *by of `count` arrays, at most BACKEND_FLOATS_MAX, by is a power of two; *not_finite = 1 where any element of them is NaN or infinite, else 0. */
	void (*unscale)(struct backend *b, const struct floats *x, size_t count, const float *by, uint32_t *not_finite);

	/* --- embeddings. Bags: bag j is index[offsets[j] .. offsets[j+1]); index points into rows (unique, width); weight (nnz) or NULL for 1. */
	/* out (bags, width): bag j = sum of weight * rows[index]; an empty bag is 0. */
	void (*gather_pool)(struct backend *b, float *out, const float *rows, size_t unique, size_t width, const uint32_t *offsets,
	                    const uint32_t *index, const float *weight, size_t bags);
	/* drows (unique, width) = for each row the sum over its uses of weight * dout[bag], in order of use; `uses` is offsets[bags], and offsets[0] is 0.
	 * CUDA: the same for rows of at most 256 uses; longer ones are added in runs of 256 uses from the first, each in order, and then the runs in order. */
	void (*scatter_sum)(struct backend *b, float *drows, size_t unique, size_t width, const float *dout, const uint32_t *offsets,
	                    const uint32_t *index, const float *weight, size_t bags, size_t uses);
	/* Row to[i] of out (.., width) = row from[i] of in (.., width), for i below n; of NULL: row i. The rows of `to` are distinct. */
	void (*copy_rows)(struct backend *b, float *out, const uint32_t *to, const float *in, const uint32_t *from, size_t width,
	                  size_t n);
	/* keys (n) -> unique_keys (<= n) in order of first use, index (n) into it; returns how many. All are host memory, on every backend, and there on
	 * return: keys are what a batch is read as, and what is pulled by. */
	size_t (*unique)(struct backend *b, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index);

	/* --- interactions. x (rows, fields, dim) */
	/* FM second order term (Rendle 2010, eq. 3): out (rows) = 1/2 sum_d ((sum_f x)^2 - sum_f x^2); sum (rows, dim) is kept for backward. */
	void (*fm)(struct backend *b, float *out, float *sum, const float *x, size_t rows, size_t fields, size_t dim);
	/* dx += dout * (sum - x) */
	void (*fm_backward)(struct backend *b, float *dx, const float *dout, const float *sum, const float *x, size_t rows,
	                    size_t fields, size_t dim);
	/* out (rows) = sum over fields of x (rows, fields) */
	void (*row_sum)(struct backend *b, float *out, const float *x, size_t rows, size_t n);
	/* DCN-v2 full cross layer (Wang 2021, eq. 1): given u = x W^T + bias (rows, n): out = x0 * u + x. */
	void (*cross)(struct backend *b, float *out, const float *x0, const float *x, const float *u, size_t rows, size_t n);
	/* du = dout * x0; dx0 += dout * u; dx += dout. dx0 and dx may be one buffer. */
	void (*cross_backward)(struct backend *b, float *du, float *dx0, float *dx, const float *dout, const float *x0,
	                       const float *u, size_t rows, size_t n);
	/* DLRM dot interaction (Naumov 2019) of the V vectors of each row: that of first (rows, dim), unless it is NULL, and those of x (rows, fields, dim).
	 * out (rows, [dim +] V (V - 1) / 2): first's vector, and the strictly lower triangle of all their products. */
	void (*dot_interaction)(struct backend *b, float *out, const float *first, const float *x, size_t rows, size_t fields,
	                        size_t dim);
	/* dfirst (rows, dim), NULL with first, and dx (rows, fields, dim) = its gradient. */
	void (*dot_interaction_backward)(struct backend *b, float *dfirst, float *dx, const float *dout, const float *first,
	                                 const float *x, size_t rows, size_t fields, size_t dim);

	/* --- layers */
	/* Batch norm over rows (Ioffe 2015): y = gamma * (x - mean)/sqrt(var + eps) + beta. training: batch statistics into mean, inv_std (n), and
	 * batch_mean, batch_var (n; unbiased variance) for the running averages; else mean and inv_std are given. xhat (rows, n) is kept. */
	void (*batch_norm)(struct backend *b, float *y, float *xhat, float *mean, float *inv_std, float *batch_mean, float *batch_var,
	                   const float *x, const float *gamma, const float *beta, size_t rows, size_t n, float eps, bool training);
	/* With the batch's statistics. dx may be in place on dy. */
	void (*batch_norm_backward)(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *xhat,
	                            const float *gamma, const float *inv_std, size_t rows, size_t n);
	/* Inverted dropout, in place: x[i] is kept iff hash(*seed, salt, first + i) says so, and scaled by 1/(1-p). The same seed and salt give the same mask,
	 * so backward is the same call on the gradient. */
	void (*dropout)(struct backend *b, float *x, size_t first, size_t n, float p, const uint64_t *seed, uint64_t salt);
	/* Binary cross-entropy with logits: dlogit (rows) = weight * (sigmoid(z) - label) * scale; *loss = sum of weight * loss (not scaled).
	 * weight may be NULL (1). loss and dlogit may be NULL. */
	void (*bce)(struct backend *b, double *loss, float *dlogit, const float *logit, const float *label, const float *weight,
	            size_t rows, float scale);
	/* Softmax cross-entropy of rows over n classes: dlogits (rows, n) = (softmax(z) - [class is the target]) * scale, may be in place on logits;
	 * losses (rows) = -ln softmax(z)[target]; *loss = the sum of the losses (not scaled). Each of the three may be NULL. targets (rows), each below n:
	 * the CPU asserts it, CUDA makes that row's loss NaN. */
	void (*cross_entropy)(struct backend *b, double *loss, float *dlogits, float *losses, const float *logits,
	                      const uint32_t *targets, size_t rows, size_t n, float scale);
	void (*sigmoid)(struct backend *b, float *p, const float *z, size_t n);
	void (*cast_bf16)(struct backend *b, uint16_t *out, const float *in, size_t n);
	void (*cast_fp32)(struct backend *b, float *out, const uint16_t *bf16, size_t n);

	/* --- update rules */
	/* A step on a dense tensor, whose rows of WEIR_CHUNK elements (the last one shorter) are each done as optimizer_apply does, to the same bits on every
	 * backend. value, grad (n); slots: one row's behind the other's, NULL where the rule has none; step->accumulator (rows), in the same memory. */
	void (*update)(struct backend *b, const struct optimizer_step *step, float *value, float *slots, const float *grad, size_t n);

	/* --- compression: the bytes that codec.h and topk.h describe, equal on every backend. Rows begin at an address that is a multiple of 4. */
	/* codec_encode, for all codecs but top-k. in (n) or NULL; residual (n) or NULL; out (codec_bytes). */
	void (*encode)(struct backend *b, const struct coding *coding, const float *in, float *residual, size_t n, uint8_t *out);
	/* Each of the rows of in (rows, width) on its own, as those of embeddings are sent: out (rows, codec_bytes(width)), one behind the other. For all
	 * codecs but sign and top-k, which embeddings cannot have. */
	void (*encode_rows)(struct backend *b, const struct coding *coding, const float *in, size_t rows, size_t width, uint8_t *out);
	/* codec_decode, of bytes that were checked. */
	void (*decode)(struct backend *b, const struct coding *coding, const uint8_t *in, size_t n, float *out);
	/* topk_accumulate of row->grad. */
	void (*topk_accumulate)(struct backend *b, const struct topk_row *row);
	/* topk_threshold; out: host memory. */
	weir_status (*topk_threshold)(struct backend *b, const float *x, size_t n, size_t k, float *out, weir_error *err);
	/* topk_encode of every tile of a row, the records one behind the other in out (at most codec_tiles(n) of topk_record_max bytes); ends (tiles): where each
	 * ends, in bytes; selected (tiles): how many elements reach the threshold. */
	void (*topk_encode)(struct backend *b, const struct topk_row *row, float threshold, weir_values values, uint8_t *out,
	                    uint32_t *ends, uint32_t *selected);
	/* topk_decode_dense of every tile: records that were checked, and where each ends. */
	void (*topk_decode)(struct backend *b, const uint8_t *in, const uint32_t *ends, size_t n, weir_values values, float *out);

	/* --- transformers. Gradients marked += are added to, so that they add up over micro-batches and where paths join. */
	void (*copy)(struct backend *b, float *to, const float *from, size_t n);
	/* out (rows, n) = x + y + bias (n). bias may be NULL; out may be x or y. */
	void (*add)(struct backend *b, float *out, const float *x, const float *y, const float *bias, size_t rows, size_t n);
	/* out (n) += column sums of x (rows, n): a bias's gradient. */
	void (*column_sum)(struct backend *b, float *out, const float *x, size_t rows, size_t n);
	/* Layer norm (Ba et al. 2016, eq. 4) of each row: y = gamma * (x - mean) * inv_std + beta. mean, inv_std (rows) are kept. beta may be NULL. */
	void (*layer_norm)(struct backend *b, float *y, float *mean, float *inv_std, const float *x, const float *gamma,
	                   const float *beta, size_t rows, size_t n, float eps);
	/* dx +=, dgamma +=, dbeta +=; the last two may be NULL. */
	void (*layer_norm_backward)(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *x,
	                            const float *gamma, const float *mean, const float *inv_std, size_t rows, size_t n);
	/* RMS norm (Zhang, Sennrich 2019, eq. 4) of each row: y = gamma * x * inv_rms, inv_rms (rows) = 1 / sqrt(mean of x^2 + eps). */
	void (*rms_norm)(struct backend *b, float *y, float *inv_rms, const float *x, const float *gamma, size_t rows, size_t n,
	                 float eps);
	/* dx +=, dgamma +=; dgamma may be NULL. */
	void (*rms_norm_backward)(struct backend *b, float *dx, float *dgamma, const float *dy, const float *x, const float *gamma,
	                          const float *inv_rms, size_t rows, size_t n);
	/* Rotary positions (Su et al. 2021, eq. 34), in place on the first heads * dim columns of x (rows, stride): of each head, elements i and i + dim / 2
	 * turn by the angle of cosines[t, i] and sines[t, i] (length, dim / 2), row r being at t = r % length; `back`: by its negative, which is the
	 * gradient. dim is even. */
	void (*rope)(struct backend *b, float *x, size_t stride, const float *cosines, const float *sines, size_t rows, size_t length,
	             size_t heads, size_t dim, bool back);
	/* out (batch * (length - first), heads * dim) = softmax(scale q k^T, of this and earlier tokens) v, in blocks with a running maximum (Dao et al. 2022,
	 * algorithm 1): no memory that grows with length^2. log_sums (batch, heads, length - first) = ln of each row's sum of exponents, kept. */
	void (*attention)(struct backend *b, float *out, float *log_sums, const float *qkv, const struct attention_shape *s);
	/* dqkv = its gradient; scores are computed again. */
	void (*attention_backward)(struct backend *b, float *dqkv, const float *dout, const float *out, const float *log_sums,
	                           const float *qkv, const struct attention_shape *s);
	/* SwiGLU (Shazeer 2020, eq. 6): y (rows, n) = gate * sigmoid(gate) * up, x (rows, 2 n) = [gate | up]. */
	void (*swiglu)(struct backend *b, float *y, const float *x, size_t rows, size_t n);
	/* dx (rows, 2 n), which may be x. */
	void (*swiglu_backward)(struct backend *b, float *dx, const float *dy, const float *x, size_t rows, size_t n);
	/* x (rows, n) += bias, in place; y = gelu(x). bias may be NULL. Its gradient: bias_act_backward with ACT_GELU of x. */
	void (*gelu)(struct backend *b, float *y, float *x, const float *bias, size_t rows, size_t n);
	/* out (rows, width) = table[tokens[r]] + positions[r % length]; positions (length, width) may be NULL. tokens (rows), each below `vocabulary`: the CPU
	 * asserts it, CUDA makes that row NaN. */
	void (*embed)(struct backend *b, float *out, const float *table, const float *positions, const uint32_t *tokens,
	              size_t vocabulary, size_t rows, size_t length, size_t width);
	/* dtable (vocabulary, width) +=, dpositions (length, width) +=, over rows in order. Each may be
	 * NULL. CUDA: a token of more than 256 rows is added in runs, as scatter_sum's rows are; the
	 * first run goes on from dtable's value. */
	void (*embed_backward)(struct backend *b, float *dtable, float *dpositions, const float *dout, const uint32_t *tokens,
	                       size_t vocabulary, size_t rows, size_t length, size_t width);
	/* cross_entropy where there are many classes: row r of logits is at r * stride, and becomes (softmax(z) - [class is the target]) * scale when
	 * `gradient`. A target of TARGET_NONE has no loss and no gradient. losses (rows) may be NULL; *loss, in the backend's memory, += their sum. */
	void (*classifier)(struct backend *b, double *loss, float *losses, float *logits, size_t stride, const uint32_t *targets,
	                   size_t rows, size_t n, float scale, bool gradient);
};

/* All of them in order, but for a backend's life. */
#define BACKEND_OPS(X)          \
	X(buffer_alloc)             \
	X(buffer_free)              \
	X(host_alloc)               \
	X(host_free)                \
	X(to_device)                \
	X(to_host)                  \
	X(to_host_later)            \
	X(choose_stream)            \
	X(sync_stream)              \
	X(set_mark)                 \
	X(free_mark)                \
	X(follow_mark)              \
	X(await_mark)               \
	X(replay)                   \
	X(forget_replays)           \
	X(gemm)                     \
	X(bias_act)                 \
	X(bias_act_backward)        \
	X(linear)                   \
	X(linear_backward)          \
	X(fill)                     \
	X(axpy)                     \
	X(scale)                    \
	X(lerp)                     \
	X(subtract)                 \
	X(concat)                   \
	X(split)                    \
	X(sum_squares)              \
	X(clip)                     \
	X(all_finite)               \
	X(zero_not_finite)          \
	X(scale_by)                 \
	X(unscale)                  \
	X(gather_pool)              \
	X(scatter_sum)              \
	X(copy_rows)                \
	X(unique)                   \
	X(fm)                       \
	X(fm_backward)              \
	X(row_sum)                  \
	X(cross)                    \
	X(cross_backward)           \
	X(dot_interaction)          \
	X(dot_interaction_backward) \
	X(batch_norm)               \
	X(batch_norm_backward)      \
	X(dropout)                  \
	X(bce)                      \
	X(cross_entropy)            \
	X(sigmoid)                  \
	X(cast_bf16)                \
	X(cast_fp32)                \
	X(update)                   \
	X(encode)                   \
	X(encode_rows)              \
	X(decode)                   \
	X(topk_accumulate)          \
	X(topk_threshold)           \
	X(topk_encode)              \
	X(topk_decode)              \
	X(copy)                     \
	X(add)                      \
	X(column_sum)               \
	X(layer_norm)               \
	X(layer_norm_backward)      \
	X(rms_norm)                 \
	X(rms_norm_backward)        \
	X(rope)                     \
	X(attention)                \
	X(attention_backward)       \
	X(swiglu)                   \
	X(swiglu_backward)          \
	X(gelu)                     \
	X(embed)                    \
	X(embed_backward)           \
	X(classifier)

struct backend {
	const struct backend_ops *ops;
};

/* The calling thread, any, in ordinary memory; of the ops memory, order, fill, sum_squares, all_finite, zero_not_finite and compression alone: what codes pushes where nothing else is
 * computed, without a matrix library. Static. */
struct backend *backend_plain(void);
/* threads 0: as many as the machine has cores. */
struct backend *backend_cpu_create(uint32_t threads, weir_error *err);

struct backend_options {
	/* "auto" (a CUDA device, or the CPU where there is none), "cpu", "cuda" (any CUDA device), "cuda:N", or "cuda:" and what nvidia-smi -L calls it:
	 * GPU-... or MIG-..., or how that begins. */
	const char *device;
	enum compute_precision precision; /* the CPU has fp32 alone, and refuses others */
	uint32_t threads;                 /* of the CPU; 0: as many as the machine has cores */
	uint32_t turn;                    /* any of several devices: the one of this number, counted round */
	uint64_t memory_bytes;            /* of a device, at most; 0: nine tenths of what is free */
};

/* cuda opens libweir_cuda.so beside the program; without it or without a device a clear E_UNSUPPORTED. */
struct backend *backend_open(const struct backend_options *options, weir_error *err);
/* Whether backend_open would find a device that it can use: what it would say, and nothing that stays. What that device has free is not asked. */
weir_status backend_check(const struct backend_options *options, weir_error *err);

#endif
