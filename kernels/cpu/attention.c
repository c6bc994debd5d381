/* Causal attention in blocks (Dao et al. 2022, algorithms 1 and 4): a block of queries meets the
 * keys block by block, with a running maximum and sum of exponentials. Nothing of size length^2 is
 * kept.
 *
 * Queries lie along the lanes. Scores are computed as S^T = K Q^T (keys, lanes), so that maxima and
 * sums of exponentials are per lane. Keys and values are read in place from qkv, one element at a
 * time. With P = exp(S - log_sums), dP = dO V^T and delta = the row's sum of dO * O:
 *     dS = P * (dP - delta),   dV += P^T dO,   dK += dS^T (scale Q),   dQ = scale dS K
 * Forward, the unit of work is a block of queries of one head. Backward, it is a key head of one
 * sequence with all queries that use it, block by block, so that no sum depends on the threads. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/tile.h"
#include "kernels/cpu/vector_math.h"

#define QUERIES 64 /* of a block */
#define KEYS    64
_Static_assert(QUERIES % TILE_COLUMNS == 0 && ATTENTION_DIM_MAX % TILE_COLUMNS == 0, "blocks are whole tiles");

struct forward_scratch {
	float q[ATTENTION_DIM_MAX * QUERIES];   /* (dim, lanes) */
	float out[ATTENTION_DIM_MAX * QUERIES]; /* (dim, lanes) */
	float scores[KEYS * QUERIES];           /* (keys, lanes) */
	float most[QUERIES], sum[QUERIES];
};

struct backward_scratch {
	float q[QUERIES * ATTENTION_DIM_MAX], dout[QUERIES * ATTENTION_DIM_MAX]; /* (lanes, width) */
	/* (dim, lanes) */
	float q_lanes[ATTENTION_DIM_MAX * QUERIES], dout_lanes[ATTENTION_DIM_MAX * QUERIES];
	float dq[ATTENTION_DIM_MAX * QUERIES];                  /* (dim, lanes) */
	float weights[KEYS * QUERIES], dscores[KEYS * QUERIES]; /* (keys, lanes) */
	float log_sum[QUERIES], delta[QUERIES];
};
_Static_assert(sizeof(struct forward_scratch) <= CPU_SCRATCH_BYTES && sizeof(struct backward_scratch) <= CPU_SCRATCH_BYTES,
               "blocks must fit a thread's scratch");

struct attention {
	const struct attention_shape *s;
	float *out, *log_sums, *dqkv;
	const float *dout, *qkv;
	size_t tasks;
	uint32_t parts;
	char *scratch;
};

/* A block of queries of one head, and its keys and values. */
struct block {
	/* rows of qkv, `stride` apart: the block's first query, the sequence's first key and value */
	const float *q, *k, *v;
	size_t stride, dim;
	size_t first, count; /* the block's queries in its sequence */
	size_t lanes;        /* count, rounded up */
	float scale;
};

static struct block block_of(const struct attention *a, size_t sequence, size_t head, size_t first)
{
	const struct attention_shape *s = a->s;
	const size_t stride = attention_width(s), key_head = head / (s->heads / s->kv_heads);
	const float *rows = a->qkv + sequence * s->length * stride;
	struct block k = {.stride = stride, .dim = s->dim, .first = first, .scale = s->scale};
	k.q = rows + first * stride + head * s->dim;
	k.k = rows + (s->heads + key_head) * s->dim;
	k.v = k.k + s->kv_heads * s->dim;
	k.count = least(QUERIES, s->length - first);
	k.lanes = tile_columns(k.count);
	return k;
}

/* out (dim, lanes) = scale times the first `dim` columns of x (count, stride); zeros in the other
 * lanes. */
static void to_lanes(float *out, const float *x, size_t stride, size_t dim, size_t count, size_t lanes, float scale)
{
	for (size_t d = 0; d < dim; d++) {
		for (size_t c = 0; c < count; c++)
			out[d * lanes + c] = x[c * stride + d] * scale;
		for (size_t c = count; c < lanes; c++)
			out[d * lanes + c] = 0;
	}
}

/* scores (keys, lanes) of keys [at, at + keys): -inf for a key after its query. */
static void score(const struct block *k, const float *q, size_t at, size_t keys, float *scores)
{
	const struct product qk = {.m = keys,
	                           .n = k->lanes,
	                           .k = k->dim,
	                           .A = k->k + at * k->stride,
	                           .row = k->stride,
	                           .column = 1,
	                           .B = q,
	                           .ldb = k->lanes,
	                           .C = scores,
	                           .ldc = k->lanes};
	product(&qk);
	for (size_t r = 0; r < keys; r++)
		for (size_t c = 0; at + r > k->first + c && c < k->lanes; c++)
			scores[r * k->lanes + c] = -INFINITY;
}

/* Scores become exp(score - most) with the new maximum; sum and out are rescaled from the old
 * one. */
static void take_exponents(struct forward_scratch *t, const struct block *k, size_t keys)
{
	const size_t lanes = k->lanes;
	float most[QUERIES], by[QUERIES];
	memcpy(most, t->most, lanes * sizeof *most);
	for (size_t r = 0; r < keys; r++)
		for (size_t c = 0; c < lanes; c++)
			most[c] = t->scores[r * lanes + c] > most[c] ? t->scores[r * lanes + c] : most[c];
	for (size_t c = 0; c < lanes; c++) {
		by[c] = math_exp(t->most[c] - most[c]);
		t->most[c] = most[c];
		t->sum[c] *= by[c];
	}
	for (size_t d = 0; d < k->dim; d++)
		for (size_t c = 0; c < lanes; c++)
			t->out[d * lanes + c] *= by[c];
	for (size_t r = 0; r < keys; r++)
		for (size_t c = 0; c < lanes; c++) {
			const float s = t->scores[r * lanes + c], e = s == -INFINITY ? 0 : math_exp(s - most[c]);
			t->scores[r * lanes + c] = e;
			t->sum[c] += e;
		}
}

static void forward_block(const struct attention *a, size_t sequence, size_t head, size_t first, struct forward_scratch *t)
{
	const struct attention_shape *s = a->s;
	const struct block k = block_of(a, sequence, head, first);
	const size_t lanes = k.lanes, dim = s->dim, end = first + k.count;
	to_lanes(t->q, k.q, k.stride, dim, k.count, lanes, k.scale);
	memset(t->out, 0, dim * lanes * sizeof *t->out);
	for (size_t c = 0; c < lanes; c++) {
		t->most[c] = -INFINITY;
		t->sum[c] = 0;
	}
	for (size_t at = 0; at < end; at += KEYS) {
		const size_t keys = least(KEYS, end - at);
		score(&k, t->q, at, keys, t->scores);
		take_exponents(t, &k, keys);
		const struct product pv = {.m = dim,
		                           .n = lanes,
		                           .k = keys,
		                           .A = k.v + at * k.stride,
		                           .row = 1,
		                           .column = k.stride,
		                           .B = t->scores,
		                           .ldb = lanes,
		                           .C = t->out,
		                           .ldc = lanes,
		                           .add = true};
		product(&pv);
	}
	const size_t queries = s->length - s->first, row = first - s->first;
	float *out = a->out + (sequence * queries + row) * s->heads * dim + head * dim;
	float *log_sums = a->log_sums + (sequence * s->heads + head) * queries + row;
	for (size_t c = 0; c < k.count; c++) {
		const float inv = 1 / t->sum[c];
		for (size_t d = 0; d < dim; d++)
			out[c * s->heads * dim + d] = t->out[d * lanes + c] * inv;
		log_sums[c] = (float)((double)t->most[c] + log((double)t->sum[c]));
	}
}

/* Query blocks of one head. */
static size_t query_blocks(const struct attention_shape *s)
{
	return (s->length - s->first + QUERIES - 1) / QUERIES;
}

static void forward_part(void *args, uint32_t part)
{
	const struct attention *a = args;
	const size_t blocks = query_blocks(a->s);
	for (size_t i = a->tasks * part / a->parts; i < a->tasks * (part + 1) / a->parts; i++) {
		const size_t head = i / blocks % a->s->heads, sequence = i / blocks / a->s->heads;
		forward_block(a, sequence, head, a->s->first + i % blocks * QUERIES, (void *)(a->scratch + part * CPU_SCRATCH_BYTES));
	}
}

static void run(struct backend *b, struct attention *a, pool_fn fn)
{
	const struct cpu_backend *c = cpu_of(b);
	const struct attention_shape *s = a->s;
	assert(s->kv_heads > 0 && s->heads % s->kv_heads == 0 && s->dim <= ATTENTION_DIM_MAX && s->first <= s->length);
	const size_t work = s->batch * s->heads * (s->length - s->first) * (s->length + QUERIES) * s->dim / CPU_GRAIN;
	const uint32_t threads = pool_threads(c->pool);
	a->scratch = c->scratch;
	a->parts = a->tasks < threads ? (uint32_t)a->tasks : threads;
	a->parts = work < a->parts ? 1 + (uint32_t)work : a->parts;
	if (a->tasks > 0)
		pool_run(c->pool, a->parts, fn, a);
}

void ISA(cpu_attention)(struct backend *b, float *out, float *log_sums, const float *qkv, const struct attention_shape *s)
{
	struct attention a = {.s = s, .out = out, .log_sums = log_sums, .qkv = qkv};
	a.tasks = s->batch * s->heads * query_blocks(s);
	run(b, &a, forward_part);
}

/* --- Backward */

/* out (lanes, width) = scale times the first `dim` columns of x (count, stride); zeros in the other
 * rows and columns. */
static void to_rows(float *out, size_t width, const float *x, size_t stride, size_t dim, size_t count, size_t lanes, float scale)
{
	memset(out, 0, lanes * width * sizeof *out);
	for (size_t c = 0; c < count; c++)
		for (size_t d = 0; d < dim; d++)
			out[c * width + d] = x[c * stride + d] * scale;
}

static double dot(const float *x, const float *y, size_t n)
{
	double lane[16] = {0}, sum = 0;
	size_t j = 0;
	for (; j + 16 <= n; j += 16)
		for (size_t l = 0; l < 16; l++)
			lane[l] += (double)x[j + l] * (double)y[j + l];
	for (size_t l = 0; j < n; j++, l++)
		lane[l] += (double)x[j] * (double)y[j];
	for (size_t l = 0; l < 16; l++)
		sum += lane[l];
	return sum;
}

static void load_block(const struct attention *a, const struct block *k, size_t sequence, size_t head, struct backward_scratch *t)
{
	const struct attention_shape *s = a->s;
	const size_t dim = s->dim, width = tile_columns(dim), row = s->heads * dim;
	const size_t at = (sequence * s->length + k->first) * row + head * dim;
	const float *dout = a->dout + at, *out = a->out + at;
	const float *log_sums = a->log_sums + (sequence * s->heads + head) * s->length + k->first;
	to_rows(t->q, width, k->q, k->stride, dim, k->count, k->lanes, k->scale);
	to_rows(t->dout, width, dout, row, dim, k->count, k->lanes, 1);
	to_lanes(t->q_lanes, k->q, k->stride, dim, k->count, k->lanes, k->scale);
	to_lanes(t->dout_lanes, dout, row, dim, k->count, k->lanes, 1);
	memset(t->dq, 0, dim * k->lanes * sizeof *t->dq);
	for (size_t c = 0; c < k->lanes; c++) { /* in lanes without a query all is 0, and so is dS */
		t->delta[c] = c < k->count ? (float)dot(dout + c * row, out + c * row, dim) : 0;
		t->log_sum[c] = c < k->count ? log_sums[c] : 0;
	}
}

/* Keys [at, at + keys): dk and dv are their rows of dqkv. */
static void backward_keys(const struct block *k, size_t at, size_t keys, float *dk, float *dv, struct backward_scratch *t)
{
	const size_t lanes = k->lanes, width = tile_columns(k->dim);
	score(k, t->q_lanes, at, keys, t->weights);
	const struct product dp = {.m = keys,
	                           .n = lanes,
	                           .k = k->dim,
	                           .A = k->v + at * k->stride,
	                           .row = k->stride,
	                           .column = 1,
	                           .B = t->dout_lanes,
	                           .ldb = lanes,
	                           .C = t->dscores,
	                           .ldc = lanes};
	product(&dp);
	for (size_t r = 0; r < keys; r++)
		for (size_t c = 0; c < lanes; c++) {
			const float s = t->weights[r * lanes + c], p = s == -INFINITY ? 0 : math_exp(s - t->log_sum[c]);
			t->weights[r * lanes + c] = p;
			t->dscores[r * lanes + c] = p * (t->dscores[r * lanes + c] - t->delta[c]);
		}
	struct product sum = {.m = keys,
	                      .n = k->dim,
	                      .k = lanes,
	                      .A = t->weights,
	                      .row = lanes,
	                      .column = 1,
	                      .B = t->dout,
	                      .ldb = width,
	                      .C = dv,
	                      .ldc = k->stride,
	                      .add = true};
	product(&sum);
	sum.A = t->dscores;
	sum.B = t->q;
	sum.C = dk;
	product(&sum);
	const struct product dq = {.m = k->dim,
	                           .n = lanes,
	                           .k = keys,
	                           .A = k->k + at * k->stride,
	                           .row = 1,
	                           .column = k->stride,
	                           .B = t->dscores,
	                           .ldb = lanes,
	                           .C = t->dq,
	                           .ldc = lanes,
	                           .add = true};
	product(&dq);
}

static void backward_block(const struct attention *a, size_t sequence, size_t head, size_t first, struct backward_scratch *t)
{
	const struct block k = block_of(a, sequence, head, first);
	const size_t end = first + k.count;
	load_block(a, &k, sequence, head, t);
	float *dk = a->dqkv + (k.k - a->qkv), *dv = a->dqkv + (k.v - a->qkv), *dq = a->dqkv + (k.q - a->qkv);
	for (size_t at = 0; at < end; at += KEYS)
		backward_keys(&k, at, least(KEYS, end - at), dk + at * k.stride, dv + at * k.stride, t);
	for (size_t c = 0; c < k.count; c++)
		for (size_t d = 0; d < k.dim; d++)
			dq[c * k.stride + d] = t->dq[d * k.lanes + c] * k.scale;
}

static void backward_part(void *args, uint32_t part)
{
	const struct attention *a = args;
	const struct attention_shape *s = a->s;
	const size_t group = s->heads / s->kv_heads, stride = attention_width(s);
	for (size_t i = a->tasks * part / a->parts; i < a->tasks * (part + 1) / a->parts; i++) {
		const size_t sequence = i / s->kv_heads, key_head = i % s->kv_heads;
		float *dk = a->dqkv + sequence * s->length * stride + (s->heads + key_head) * s->dim, *dv = dk + s->kv_heads * s->dim;
		for (size_t r = 0; r < s->length; r++) {
			memset(dk + r * stride, 0, s->dim * sizeof *dk);
			memset(dv + r * stride, 0, s->dim * sizeof *dv);
		}
		for (size_t head = key_head * group; head < (key_head + 1) * group; head++)
			for (size_t first = 0; first < s->length; first += QUERIES)
				backward_block(a, sequence, head, first, (void *)(a->scratch + part * CPU_SCRATCH_BYTES));
	}
}

void ISA(cpu_attention_backward)(struct backend *b, float *dqkv, const float *dout, const float *out, const float *log_sums,
                                 const float *qkv, const struct attention_shape *s)
{
	assert(s->first == 0);
	struct attention a = {.s = s, .out = (float *)out, .log_sums = (float *)log_sums, .dqkv = dqkv, .dout = dout, .qkv = qkv};
	a.tasks = s->batch * s->kv_heads;
	run(b, &a, backward_part);
}
