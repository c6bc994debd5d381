/* Compute backends behind one vtable: the CPU here, CUDA as a shared object opened at run time.
 * Model code is written once, against this interface.
 *
 * Memory. Tensors are row-major fp32 in the backend's own memory (buffer_alloc): 64-byte aligned
 * host memory on the CPU, device memory on a GPU. Index arrays are uint32_t in the same memory.
 * Numbers that ops take or produce by pointer are there too, so that no op waits for them.
 * to_device and to_host copy. Outputs never alias inputs unless the comment says "in place". Every
 * op is deterministic: equal inputs give equal bits on the same backend and thread count.
 * tests/unit checks every op against float64.
 *
 * Order. Ops run in the order they are issued, on the stream chosen last (STREAM_COMPUTE until one
 * is chosen). Only marks order work on different streams: buffers that two streams use need one. On
 * the CPU every op is complete when it returns, and streams and marks do nothing.
 *
 * Errors. Ops return nothing. The backend keeps a device's first failure: later ops do nothing
 * (all_finite returns false), and sync, sync_stream and await_mark return the failure, naming the
 * device, the call and the remedy. The next of these three calls also reports, once, that
 * buffer_alloc ran out of memory.
 *
 * Threads. One thread uses a backend object. The backend may use `threads` workers inside. */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/click_loss.h"
#include "kernels/codec.h"
#include "kernels/optimizer.h"
#include "kernels/topk.h"
#include "weir/status.h"

struct backend;

enum activation { ACT_NONE, ACT_RELU, ACT_SIGMOID, ACT_TANH, ACT_GELU };

/* Causal self-attention over `batch` sequences of `length` tokens; rows = batch * length. A row of
 * qkv is [queries (heads, dim) | keys (kv_heads, dim) | values (kv_heads, dim)]. Query head h uses
 * key and value head h / (heads / kv_heads) (Ainslie et al. 2023). While a text grows, `first`
 * skips queries that were answered before; their keys and values still take part. */
struct attention_shape {
	/* heads is a multiple of kv_heads; dim is at most ATTENTION_DIM_MAX */
	size_t batch, length, heads, kv_heads, dim;
	float scale;  /* factor of a query's product with a key: 1 / sqrt(dim) */
	size_t first; /* the first token whose query is answered; 0 except in `attention` */
};
#define ATTENTION_DIM_MAX 256u
static inline size_t attention_width(const struct attention_shape *s)
{
	return (s->heads + 2 * s->kv_heads) * s->dim;
}

#define POOL_ALL    0xffffffffu /* chosen: all uses of a bag, which is summed */
#define TARGET_NONE 0xffffffffu /* target of a row without a loss */

/* Rounding of the factors of matrix products: to 24, 11, 8 or 11 significant bits. fp16 has no
 * finite number beyond 65504. Sums, and everything other than a product, are fp32. Attention uses
 * fp32 products under COMPUTE_TF32, and on devices without 16-bit products. */
enum compute_precision { COMPUTE_FP32, COMPUTE_TF32, COMPUTE_BF16, COMPUTE_FP16 };
static inline const char *compute_precision_name(enum compute_precision precision)
{
	static const char *const names[] = {"fp32", "tf32", "bf16", "fp16"};
	return names[precision];
}

/* A device's concurrent work: computing, input for the next batch, and results of the last
 * batch. */
enum backend_stream { STREAM_COMPUTE, STREAM_IN, STREAM_OUT, BACKEND_STREAMS };

/* The work issued on a stream up to some moment. A zeroed mark marks nothing and counts as done. */
struct backend_mark {
	void *event;
};

/* A linear layer: x (rows, in) W^T + bias, with W (out, in) as in PyTorch's nn.Linear. */
struct linear {
	const float *x, *W;
	size_t rows, in, out;
};

/* One of several arrays that an op takes at once. */
struct floats {
	float *at; /* (n) */
	size_t n;
};
#define BACKEND_FLOATS_MAX 8u

/* Rows whose items are each other's negatives: the loss of row i is -ln softmax(z)[i] over all
 * rows, with z = logits - log_q, which corrects for the chance of an item to be in a batch (Yi et
 * al. 2019, eq. 4). Other rows with row i's item are left out. A row whose label is not positive
 * has no loss. */
struct in_batch {
	const uint32_t *items; /* (rows) equal numbers: the same item */
	const float *labels;   /* (rows) */
	const float *log_q;    /* (rows), or NULL: all 0 */
	const float *weights;  /* (rows) of the losses, or NULL: all 1 */
	size_t rows;
};

/* The input to a row's residual: grad * scale, through the velocity if the row has momentum. */
struct topk_row {
	const float *grad; /* (n); NULL: the residual is already the sum */
	float *residual;   /* (n) */
	struct topk_momentum momentum;
	float scale;
	size_t n;
};

/* A backend's description of itself. Memory: the device's, in bytes; all 0 on the CPU. */
struct backend_info {
	const char *device; /* "cpu", "cuda:0 (NVIDIA H200)"; the backend owns it */
	enum compute_precision precision;
	uint64_t memory_budget, memory_held, memory_used, memory_used_most;
	uint64_t replays; /* runs of ops that one call replayed */
	/* reason of the last run that could not be replayed; NULL: none failed */
	const char *not_replayed;
};

#define BACKEND_REPLAY_KEY_BYTES 256u

struct backend_ops {
	const char *name; /* "cpu", "cuda" */
	/* buffers are ordinary memory: any code may read and write them, and ops accept any memory */
	bool host_memory;
	void (*destroy)(struct backend *b);
	weir_status (*sync)(struct backend *b, weir_error *err); /* waits for all streams */
	void (*info)(const struct backend *b, struct backend_info *out);

	/* --- memory */
	/* zeroed, on the chosen stream; NULL: out of memory */
	void *(*buffer_alloc)(struct backend *b, size_t bytes);
	void (*buffer_free)(struct backend *b, void *p); /* ops that use it may still be running */
	/* Host memory for copies to and from the device, which are fastest with it. Zeroed. */
	void *(*host_alloc)(struct backend *b, size_t bytes);
	void (*host_free)(struct backend *b, void *p); /* waits for all streams */
	/* `host` may be reused on return; memory of host_alloc only after a later mark of this stream
	 * has been awaited. */
	void (*to_device)(struct backend *b, void *device, const void *host, size_t bytes);
	/* complete on return */
	void (*to_host)(struct backend *b, void *host, const void *device, size_t bytes);
	/* `host` is memory of host_alloc. It holds the data once a later mark of this stream has been
	 * awaited. */
	void (*to_host_later)(struct backend *b, void *host, const void *device, size_t bytes);

	/* --- order */
	/* returns the previous one */
	enum backend_stream (*choose_stream)(struct backend *b, enum backend_stream s);
	/* as sync, but waits for the chosen stream only */
	weir_status (*sync_stream)(struct backend *b, weir_error *err);
	/* on the chosen stream; a second call moves it */
	void (*set_mark)(struct backend *b, struct backend_mark *m);
	void (*free_mark)(struct backend *b, struct backend_mark *m);
	/* Work issued on the chosen stream from now on begins after the marked work is done. */
	void (*follow_mark)(struct backend *b, const struct backend_mark *m);
	/* The host waits until the marked work is done. Returns failures as sync does. */
	weir_status (*await_mark)(struct backend *b, const struct backend_mark *m, weir_error *err);
	/* Runs the ops that issue(arg) issues, on STREAM_COMPUTE. A device repeats a run it has met
	 * before with one call. The key must therefore hold all arguments of the ops, shapes and
	 * pointers; the contents of buffers may differ each time. issue may be called twice, or not at
	 * all. It only issues ops: it copies nothing from or to the host and allocates no memory. */
	void (*replay)(struct backend *b, const void *key, size_t bytes, void (*issue)(void *arg), void *arg);
	/* Forgets all runs. Call it when buffers that keys do not name were or will be freed. */
	void (*forget_replays)(struct backend *b);

	/* --- dense algebra */
	/* C (m, n) = alpha * op(A) op(B) + beta * C, row-major. op(A) is (m, k), op(B) is (k, n); lda,
	 * ldb, ldc are row strides in elements. On STREAM_COMPUTE only. */
	void (*gemm)(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
	             size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc);
	/* y (rows, n) += bias (n), then y = act(y), in place. bias may be NULL. */
	void (*bias_act)(struct backend *b, float *y, const float *bias, size_t rows, size_t n, enum activation act);
	/* dx = dy * act'(.) given y = act(x) (rows, n), NaN where y is NaN; may be in place on dy.
	 * dbias (n) = column sums of dx, unless NULL. GELU's result does not determine its input, so
	 * for ACT_GELU y is the activation's input. */
	void (*bias_act_backward)(struct backend *b, float *dx, const float *dy, const float *y, float *dbias, size_t rows, size_t n,
	                          enum activation act);
	/* y (rows, out) = act(x W^T + bias), bias (out) or NULL: gemm, then bias_act. On STREAM_COMPUTE
	 * only. */
	void (*linear)(struct backend *b, float *y, const struct linear *l, const float *bias, enum activation act);
	/* Given dz (rows, out), the gradient of x W^T + bias: dW (out, in) = dz^T x, and dx
	 * (rows, columns) = dz W + beta dx for the first `columns` columns of x. dx may be NULL: not
	 * needed. */
	void (*linear_backward)(struct backend *b, float *dW, float *dx, size_t columns, float beta, const float *dz,
	                        const struct linear *l);
	void (*fill)(struct backend *b, float *x, float value, size_t n);
	void (*axpy)(struct backend *b, float *y, float a, const float *x, size_t n); /* y += a x */
	void (*scale)(struct backend *b, float *x, float a, size_t n);
	/* y += t (x - y); t = 1: y = x */
	void (*lerp)(struct backend *b, float *y, float t, const float *x, size_t n);
	/* out = x - y */
	void (*subtract)(struct backend *b, float *out, const float *x, const float *y, size_t n);
	/* out (rows, na + nb) = [A (rows, na) | B (rows, nb)], and its reverse. */
	void (*concat)(struct backend *b, float *out, const float *A, size_t na, const float *B, size_t nb, size_t rows);
	void (*split)(struct backend *b, const float *in, float *A, size_t na, float *B, size_t nb, size_t rows);
	/* *out = the sum of squares, in a fixed order. */
	void (*sum_squares)(struct backend *b, double *out, const float *x, size_t n);
	/* x *= limit / norm if the norm is finite and above limit. The norm is the root of the sum of
	 * squares (parts). */
	void (*clip)(struct backend *b, float *x, size_t n, const double *squares, size_t parts, float limit);
	bool (*all_finite)(struct backend *b, const float *x, size_t n);
	/* x = 0 where it is NaN or infinite */
	void (*zero_not_finite)(struct backend *b, float *x, size_t n);
	void (*scale_by)(struct backend *b, float *x, size_t n, const float *by); /* x *= *by */
	/* x /= *by for `count` arrays, at most BACKEND_FLOATS_MAX; *by is a power of two.
	 * *not_finite = 1 if any of their elements is NaN or infinite, else 0. */
	void (*unscale)(struct backend *b, const struct floats *x, size_t count, const float *by, uint32_t *not_finite);

	/* --- embeddings. Bag j is index[offsets[j] .. offsets[j+1]). index points into
	 * rows (unique, width); weight (nnz), or NULL for 1. */
	/* out (bags, width): bag j = sum of weight * rows[index]; an empty bag is 0. */
	void (*gather_pool)(struct backend *b, float *out, const float *rows, size_t unique, size_t width, const uint32_t *offsets,
	                    const uint32_t *index, const float *weight, size_t bags);
	/* drows (unique, width) = for each row the sum over its uses of weight * dout[bag], in order of
	 * use. `uses` is offsets[bags], and offsets[0] is 0. CUDA adds a row of at most 256 uses in the
	 * same order. It cuts a longer row into runs of 256 uses from the first, adds each run in
	 * order, then the runs in order. */
	void (*scatter_sum)(struct backend *b, float *drows, size_t unique, size_t width, const float *dout, const uint32_t *offsets,
	                    const uint32_t *index, const float *weight, size_t bags, size_t uses);
	/* Max pooling, after gather_pool of the same bags: bag j is of field j % fields. Where
	 * is_max[field] is not 0, row j of out (bags, width) has the largest element of the bag's rows
	 * in each column, and chosen (bags, width) the first use that has it; an empty bag is 0.
	 * Elsewhere out stays, and chosen is POOL_ALL. */
	void (*gather_max)(struct backend *b, float *out, uint32_t *chosen, const float *rows, size_t width, const uint32_t *offsets,
	                   const uint32_t *index, const uint32_t *is_max, size_t fields, size_t bags);
	/* As scatter_sum, but a use adds dout[bag], without weight, only to the columns for which it is
	 * chosen; and weight * dout[bag] where chosen is POOL_ALL. */
	void (*scatter_chosen)(struct backend *b, float *drows, size_t unique, size_t width, const float *dout,
	                       const uint32_t *chosen, const uint32_t *offsets, const uint32_t *index, const float *weight,
	                       size_t bags, size_t uses);
	/* Row to[i] of out (.., width) = row from[i] of in (.., width), for i < n. A NULL `to` or
	 * `from` stands for row i. The rows of `to` are distinct. */
	void (*copy_rows)(struct backend *b, float *out, const uint32_t *to, const float *in, const uint32_t *from, size_t width,
	                  size_t n);
	/* keys (n) -> unique_keys (<= n) in order of first use, index (n) into it; returns their count.
	 * All are host memory on every backend, complete on return: batches are read as keys, and pulls
	 * use keys. */
	size_t (*unique)(struct backend *b, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index);

	/* --- interactions. x (rows, fields, dim) */
	/* FM second-order term (Rendle 2010, eq. 3): out (rows) = 1/2 sum_d ((sum_f x)^2 - sum_f x^2).
	 * sum (rows, dim) is kept for the backward op. */
	void (*fm)(struct backend *b, float *out, float *sum, const float *x, size_t rows, size_t fields, size_t dim);
	/* dx += dout * (sum - x) */
	void (*fm_backward)(struct backend *b, float *dx, const float *dout, const float *sum, const float *x, size_t rows,
	                    size_t fields, size_t dim);
	/* out (rows) = sum over fields of x (rows, fields) */
	void (*row_sum)(struct backend *b, float *out, const float *x, size_t rows, size_t n);
	/* DCN-v2 full cross layer (Wang 2021, eq. 1): given u = x W^T + bias (rows, n),
	 * out = x0 * u + x. */
	void (*cross)(struct backend *b, float *out, const float *x0, const float *x, const float *u, size_t rows, size_t n);
	/* du = dout * x0; dx0 += dout * u; dx += dout. dx0 and dx may be the same buffer. */
	void (*cross_backward)(struct backend *b, float *du, float *dx0, float *dx, const float *dout, const float *x0,
	                       const float *u, size_t rows, size_t n);
	/* DLRM dot interaction (Naumov 2019) of the V vectors of each row: the one of
	 * first (rows, dim), unless it is NULL, and those of x (rows, fields, dim). out (rows, [dim +]
	 * V (V - 1) / 2): the vector of first, then the strictly lower triangle of all products. */
	void (*dot_interaction)(struct backend *b, float *out, const float *first, const float *x, size_t rows, size_t fields,
	                        size_t dim);
	/* The gradient: dfirst (rows, dim), NULL if first is NULL, and dx (rows, fields, dim). */
	void (*dot_interaction_backward)(struct backend *b, float *dfirst, float *dx, const float *dout, const float *first,
	                                 const float *x, size_t rows, size_t fields, size_t dim);

	/* Pair i is row of_x[i] of x (.., width) and row of_y[i] of y (.., width), for i < n; a NULL
	 * index stands for row i. out (n) = their dot products. */
	void (*row_dots)(struct backend *b, float *out, const float *x, const uint32_t *of_x, const float *y, const uint32_t *of_y,
	                 size_t width, size_t n);
	/* Such pairs as the input of DIN's attention unit (Zhou et al. 2018): out (n, 4 width) =
	 * [x | y | x - y | x * y]. */
	void (*pair_features)(struct backend *b, float *out, const float *x, const uint32_t *of_x, const float *y,
	                      const uint32_t *of_y, size_t width, size_t n);
	/* The gradient of each pair's rows: dx, dy (n, width). */
	void (*pair_features_backward)(struct backend *b, float *dx, float *dy, const float *dout, const float *x,
	                               const uint32_t *of_x, const float *y, const uint32_t *of_y, size_t width, size_t n);

	/* --- layers */
	/* y (rows, n) = softmax of each row of x, for gates: n is small. May be in place. */
	void (*softmax)(struct backend *b, float *y, const float *x, size_t rows, size_t n);
	/* dx = y * (dy - sum of dy * y); may be in place on dy. */
	void (*softmax_backward)(struct backend *b, float *dx, const float *dy, const float *y, size_t rows, size_t n);
	/* Batch norm over rows (Ioffe 2015): y = gamma * (x - mean) / sqrt(var + eps) + beta. training:
	 * writes the batch's statistics to mean and inv_std (n), and to batch_mean and batch_var (n;
	 * unbiased variance) for the running averages. Otherwise mean and inv_std are inputs.
	 * xhat (rows, n) is kept. */
	void (*batch_norm)(struct backend *b, float *y, float *xhat, float *mean, float *inv_std, float *batch_mean, float *batch_var,
	                   const float *x, const float *gamma, const float *beta, size_t rows, size_t n, float eps, bool training);
	/* Uses the batch's statistics. dx may be in place on dy. */
	void (*batch_norm_backward)(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *xhat,
	                            const float *gamma, const float *inv_std, size_t rows, size_t n);
	/* Inverted dropout, in place: hash(*seed, salt, first + i) decides whether x[i] is kept, and
	 * kept elements are scaled by 1 / (1 - p). Equal seed and salt give the same mask, so the
	 * backward op is the same call on the gradient. */
	void (*dropout)(struct backend *b, float *x, size_t first, size_t n, float p, const uint64_t *seed, uint64_t salt);
	/* The loss of clicks (click_loss.h): dlogits (rows, tasks) = its gradient * scale; *loss = the
	 * sum (not scaled). Each of the two may be NULL. */
	void (*click_loss)(struct backend *b, double *loss, float *dlogits, const struct click_rows *rows,
	                   const struct click_loss *kind, float scale);
	/* Softmax cross-entropy of rows over n classes. dlogits (rows, n) = (softmax(z) - [class is the
	 * target]) * scale, may be in place on logits. losses (rows) = -ln softmax(z)[target].
	 * *loss = the sum of the losses (not scaled). Each of the three may be NULL. targets (rows) are
	 * below n: the CPU asserts it, CUDA makes that row's loss NaN. */
	void (*cross_entropy)(struct backend *b, double *loss, float *dlogits, float *losses, const float *logits,
	                      const uint32_t *targets, size_t rows, size_t n, float scale);
	/* The loss of retrieval over the items of a batch (struct in_batch). logits (rows, rows),
	 * of each row with every row's item, become the gradient * scale; *loss = the sum (not
	 * scaled). */
	void (*in_batch)(struct backend *b, double *loss, float *logits, const struct in_batch *in, float scale);
	void (*sigmoid)(struct backend *b, float *p, const float *z, size_t n);
	void (*cast_bf16)(struct backend *b, uint16_t *out, const float *in, size_t n);
	void (*cast_fp32)(struct backend *b, float *out, const uint16_t *bf16, size_t n);

	/* --- update rules */
	/* One step on a dense tensor. Each row of WEIR_CHUNK elements (the last one may be shorter) is
	 * updated as by optimizer_apply, with equal bits on every backend. value, grad (n). slots:
	 * those of one row after the other, NULL for rules without slots. step->accumulator (rows), in
	 * the same memory. */
	void (*update)(struct backend *b, const struct optimizer_step *step, float *value, float *slots, const float *grad, size_t n);

	/* --- compression: the bytes that codec.h and topk.h describe, equal on every backend. Rows
	 * begin at an address that is a multiple of 4. */
	/* codec_encode, for all codecs except top-k. in (n) or NULL; residual (n) or NULL;
	 * out (codec_bytes). */
	void (*encode)(struct backend *b, const struct coding *coding, const float *in, float *residual, size_t n, uint8_t *out);
	/* Encodes each row of in (rows, width) on its own, as rows of embeddings are sent. out (rows,
	 * codec_bytes(width)), without gaps. For all codecs except sign and top-k, which embeddings
	 * cannot have. */
	void (*encode_rows)(struct backend *b, const struct coding *coding, const float *in, size_t rows, size_t width, uint8_t *out);
	/* codec_decode, of checked bytes. */
	void (*decode)(struct backend *b, const struct coding *coding, const uint8_t *in, size_t n, float *out);
	/* topk_accumulate of row->grad. */
	void (*topk_accumulate)(struct backend *b, const struct topk_row *row);
	/* topk_threshold; `out` is host memory. */
	weir_status (*topk_threshold)(struct backend *b, const float *x, size_t n, size_t k, float *out, weir_error *err);
	/* topk_encode of every tile of a row, one record after the other in out (at most codec_tiles(n)
	 * of topk_record_max bytes). ends (tiles): the end of each record, in bytes. selected (tiles):
	 * the number of elements that reach the threshold. */
	void (*topk_encode)(struct backend *b, const struct topk_row *row, float threshold, weir_values values, uint8_t *out,
	                    uint32_t *ends, uint32_t *selected);
	/* topk_decode_dense of every tile: checked records, and the end of each. */
	void (*topk_decode)(struct backend *b, const uint8_t *in, const uint32_t *ends, size_t n, weir_values values, float *out);

	/* --- transformers. Gradients marked += are added to: they accumulate over micro-batches, and
	 * where paths join. */
	void (*copy)(struct backend *b, float *to, const float *from, size_t n);
	/* out (rows, n) = x + y + bias (n). bias may be NULL; out may be x or y. */
	void (*add)(struct backend *b, float *out, const float *x, const float *y, const float *bias, size_t rows, size_t n);
	/* out (n) += column sums of x (rows, n): the gradient of a bias. */
	void (*column_sum)(struct backend *b, float *out, const float *x, size_t rows, size_t n);
	/* Layer norm (Ba et al. 2016, eq. 4) of each row: y = gamma * (x - mean) * inv_std + beta.
	 * mean, inv_std (rows) are kept. beta may be NULL. */
	void (*layer_norm)(struct backend *b, float *y, float *mean, float *inv_std, const float *x, const float *gamma,
	                   const float *beta, size_t rows, size_t n, float eps);
	/* dx +=, dgamma +=, dbeta +=; the last two may be NULL. */
	void (*layer_norm_backward)(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *x,
	                            const float *gamma, const float *mean, const float *inv_std, size_t rows, size_t n);
	/* RMS norm (Zhang, Sennrich 2019, eq. 4) of each row: y = gamma * x * inv_rms, with inv_rms
	 * (rows) = 1 / sqrt(mean of x^2 + eps). */
	void (*rms_norm)(struct backend *b, float *y, float *inv_rms, const float *x, const float *gamma, size_t rows, size_t n,
	                 float eps);
	/* dx +=, dgamma +=; dgamma may be NULL. */
	void (*rms_norm_backward)(struct backend *b, float *dx, float *dgamma, const float *dy, const float *x, const float *gamma,
	                          const float *inv_rms, size_t rows, size_t n);
	/* Rotary positions (Su et al. 2021, eq. 34), in place on the first heads * dim columns of
	 * x (rows, stride). In each head, elements i and i + dim / 2 turn by the angle of cosines[t, i]
	 * and sines[t, i] (length, dim / 2), where row r is at t = r % length. `back` turns by the
	 * negative angle, which is the gradient. dim is even. */
	void (*rope)(struct backend *b, float *x, size_t stride, const float *cosines, const float *sines, size_t rows, size_t length,
	             size_t heads, size_t dim, bool back);
	/* out (batch * (length - first), heads * dim) = softmax(scale q k^T, of this and earlier
	 * tokens) v, in blocks with a running maximum (Dao et al. 2022, algorithm 1): no memory grows
	 * with length^2. log_sums (batch, heads, length - first) = ln of each row's sum of
	 * exponentials, kept. */
	void (*attention)(struct backend *b, float *out, float *log_sums, const float *qkv, const struct attention_shape *s);
	/* dqkv = the gradient; scores are computed again. */
	void (*attention_backward)(struct backend *b, float *dqkv, const float *dout, const float *out, const float *log_sums,
	                           const float *qkv, const struct attention_shape *s);
	/* SwiGLU (Shazeer 2020, eq. 6): y (rows, n) = gate * sigmoid(gate) * up, with x
	 * (rows, 2 n) = [gate | up]. */
	void (*swiglu)(struct backend *b, float *y, const float *x, size_t rows, size_t n);
	/* dx (rows, 2 n); may be x. */
	void (*swiglu_backward)(struct backend *b, float *dx, const float *dy, const float *x, size_t rows, size_t n);
	/* x (rows, n) += bias, in place; y = gelu(x). bias may be NULL. The gradient: bias_act_backward
	 * with ACT_GELU of x. */
	void (*gelu)(struct backend *b, float *y, float *x, const float *bias, size_t rows, size_t n);
	/* out (rows, width) = table[tokens[r]] + positions[r % length]. positions (length, width) may
	 * be NULL. tokens (rows) are below `vocabulary`: the CPU asserts it, CUDA makes that row
	 * NaN. */
	void (*embed)(struct backend *b, float *out, const float *table, const float *positions, const uint32_t *tokens,
	              size_t vocabulary, size_t rows, size_t length, size_t width);
	/* dtable (vocabulary, width) +=, dpositions (length, width) +=, over rows in order. Each may be
	 * NULL. CUDA adds a token of more than 256 rows in runs, as scatter_sum adds rows; the first
	 * run starts from dtable's value. */
	void (*embed_backward)(struct backend *b, float *dtable, float *dpositions, const float *dout, const uint32_t *tokens,
	                       size_t vocabulary, size_t rows, size_t length, size_t width);
	/* cross_entropy for many classes. Row r of logits is at r * stride, and becomes
	 * (softmax(z) - [class is the target]) * scale if `gradient`. A row with target TARGET_NONE has
	 * no loss and no gradient. losses (rows) may be NULL. *loss, in the backend's memory, += their
	 * sum. */
	void (*classifier)(struct backend *b, double *loss, float *losses, float *logits, size_t stride, const uint32_t *targets,
	                   size_t rows, size_t n, float scale, bool gradient);
};

/* All ops in the order of backend_ops, except destroy, sync and info. */
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
	X(gather_max)               \
	X(scatter_chosen)           \
	X(copy_rows)                \
	X(unique)                   \
	X(fm)                       \
	X(fm_backward)              \
	X(row_sum)                  \
	X(cross)                    \
	X(cross_backward)           \
	X(dot_interaction)          \
	X(dot_interaction_backward) \
	X(row_dots)                 \
	X(pair_features)            \
	X(pair_features_backward)   \
	X(softmax)                  \
	X(softmax_backward)         \
	X(batch_norm)               \
	X(batch_norm_backward)      \
	X(dropout)                  \
	X(click_loss)               \
	X(cross_entropy)            \
	X(in_batch)                 \
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

/* A backend on the calling thread (any thread) in ordinary memory, for coding pushes where nothing
 * else is computed. It needs no matrix library. It has only these ops: memory, order, fill,
 * sum_squares, all_finite, zero_not_finite and compression. Static. */
struct backend *backend_plain(void);
/* threads 0: as many as the machine has cores. */
struct backend *backend_cpu_create(uint32_t threads, weir_error *err);

struct backend_options {
	/* "auto" (a CUDA device, or the CPU if there is no such device), "cpu", "cuda" (any CUDA
	 * device), "cuda:N", or "cuda:" and the id that nvidia-smi -L prints (GPU-... or MIG-...) or
	 * its first characters. */
	const char *device;
	enum compute_precision precision; /* the CPU supports only fp32, and refuses others */
	uint32_t threads;                 /* of the CPU; 0: as many as the machine has cores */
	/* if any of several devices will do: the index of the one to use, modulo their count */
	uint32_t turn;
	uint64_t memory_bytes; /* at most, of a device; 0: nine tenths of the free memory */
};

/* For cuda opens libweir_cuda.so beside the program. Without the library or a device:
 * E_UNSUPPORTED, with the reason. */
struct backend *backend_open(const struct backend_options *options, weir_error *err);
/* Checks whether backend_open would find a usable device. Returns the status and error that
 * backend_open would, and keeps nothing open. Does not check the device's free memory. */
weir_status backend_check(const struct backend_options *options, weir_error *err);

#endif
