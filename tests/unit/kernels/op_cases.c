#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/op_cases.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void sums(struct backend *b, struct prng *rng, float *out)
{
	enum { N = 50001, ROWS = 2 };
	float *x = random_floats(rng, N, -1, 1), *label = random_floats(rng, N, 0, 1);
	const uint32_t targets[ROWS] = {7, 2999};
	double all[3];
	b->ops->sum_squares(b, &all[0], x, N);
	const struct click_rows rows = {.logits = x, .labels = label, .rows = N, .tasks = 1};
	b->ops->click_loss(b, &all[1], out, &rows, &CLICK_LOSS_PLAIN, 1);
	b->ops->cross_entropy(b, &all[2], out + N, NULL, x, targets, ROWS, 3000, 1);
	memcpy(out + N + ROWS * 3000, all, sizeof all);
	free(x);
	free(label);
}

static void columns(struct backend *b, struct prng *rng, float *out)
{
	enum { ROWS = 1500, N = 17 };
	float *x = random_floats(rng, (size_t)ROWS * N, -1, 1), *ones = random_floats(rng, N, 1, 2),
	      *y = malloc(2 * (size_t)ROWS * N * sizeof *y);
	float *s = out + ROWS * N;
	b->ops->batch_norm(b, y, y + ROWS * N, s, s + N, s + 2 * N, s + 3 * N, x, ones, ones, ROWS, N, 1e-5f, true);
	b->ops->batch_norm_backward(b, out, s + 4 * N, s + 5 * N, x, y + ROWS * N, ones, s + N, ROWS, N);
	b->ops->bias_act_backward(b, y, x, x, s + 6 * N, ROWS, N, ACT_SIGMOID);
	b->ops->bias_act_backward(b, y, x, x, s + 7 * N, ROWS * N, 1, ACT_SIGMOID);
	free(x);
	free(ones);
	free(y);
}

static void interactions(struct backend *b, struct prng *rng, float *out)
{
	enum { ROWS = 5, VECTORS = 37, DIM = 50, PAIRS = VECTORS * (VECTORS - 1) / 2 };
	float *x = random_floats(rng, (size_t)ROWS * VECTORS * DIM, -1, 1);
	b->ops->dot_interaction(b, out, NULL, x, ROWS, VECTORS, DIM);
	b->ops->dot_interaction_backward(b, NULL, out + ROWS * PAIRS, out, NULL, x, ROWS, VECTORS, DIM);
	float *rest = out + ROWS * PAIRS + ROWS * VECTORS * DIM;
	b->ops->fm(b, rest, rest + ROWS, x, ROWS, VECTORS, DIM);
	b->ops->row_sum(b, rest + ROWS + ROWS * DIM, x, ROWS, VECTORS * DIM);
	free(x);
}

static void embeddings(struct backend *b, struct prng *rng, float *out)
{
	enum { BAGS = 6000, UNIQUE = 40, WIDTH = 12 };
	uint32_t *offsets = malloc((BAGS + 1) * sizeof *offsets), *index = malloc(BAGS * sizeof *index);
	for (uint32_t i = 0; i <= BAGS; i++)
		offsets[i] = i;
	for (size_t i = 0; i < BAGS; i++) /* rows of every length; most uses are of a few rows */
		index[i] = (uint32_t)prng_below(rng, 1 + prng_below(rng, UNIQUE));
	float *dout = random_floats(rng, (size_t)BAGS * WIDTH, -1, 1), *weight = random_floats(rng, BAGS, -1, 1);
	b->ops->scatter_sum(b, out, UNIQUE, WIDTH, dout, offsets, index, weight, BAGS, BAGS);
	b->ops->scatter_sum(b, out + UNIQUE * WIDTH, UNIQUE, 5, dout, offsets, index, NULL, BAGS, BAGS);
	uint32_t *chosen = malloc(sizeof *chosen * BAGS * WIDTH);
	for (uint32_t i = 0; i < BAGS * WIDTH; i++)
		chosen[i] = i % 3 == 0 ? POOL_ALL : i / WIDTH + i % 2;
	b->ops->scatter_chosen(b, out + UNIQUE * (WIDTH + 5), UNIQUE, WIDTH, dout, chosen, offsets, index, weight, BAGS, BAGS);
	free(chosen);
	free(offsets);
	free(index);
	free(dout);
	free(weight);
}

/* A matrix product; the library chooses the order of its sums. */
static void products(struct backend *b, struct prng *rng, float *out)
{
	enum { M = 70, N = 65, K = 300 };
	float *A = random_floats(rng, M * K, -1, 1), *B = random_floats(rng, K * N, -1, 1);
	b->ops->gemm(b, false, false, M, N, K, 1, A, K, B, N, 0, out, N);
	b->ops->gemm(b, true, false, M, N, K, 1, A, M, B, N, 0, out + M * N, N);
	free(A);
	free(B);
}

static void compressed(struct backend *b, struct prng *rng, float *out)
{
	enum { N = CODEC_TILE + 777, TILES = 2 };
	const struct coding int8 = {.codec = WEIR_CODEC_INT8};
	float *grad = random_floats(rng, N, -1, 1), *residual = random_floats(rng, N, -1, 1);
	uint8_t *bytes = calloc(codec_bytes(WEIR_CODEC_FP32, N), 2); /* large enough for either codec */
	uint32_t ends[TILES], selected[TILES];
	float threshold = 0;
	weir_error err = {0};
	b->ops->encode(b, &int8, grad, residual, N, bytes);
	memcpy(out, bytes, codec_bytes(WEIR_CODEC_INT8, N));
	float *to = out + codec_bytes(WEIR_CODEC_INT8, N) / sizeof *out + 1;
	assert_int_equal(b->ops->topk_threshold(b, residual, N, N / 20, &threshold, &err), WEIR_OK);
	const struct topk_row row = {.grad = grad, .residual = residual, .scale = 0.5f, .n = N};
	b->ops->topk_encode(b, &row, threshold, WEIR_VALUES_LOG4, bytes, ends, selected);
	memcpy(to, bytes, ends[TILES - 1]);
	memcpy(to + N, residual, N * sizeof *residual);
	memcpy(to + 2 * N, selected, sizeof selected);
	free(grad);
	free(residual);
	free(bytes);
}

static void transformers(struct backend *b, struct prng *rng, float *out)
{
	enum { LENGTH = 70, ROWS = 2 * LENGTH, HEADS = 4, KV_HEADS = 2, DIM = 12, WIDTH = HEADS * DIM, TOKENS = 9 };
	const struct attention_shape s = {2, LENGTH, HEADS, KV_HEADS, DIM, 0.3f, 0};
	const size_t all = ROWS * attention_width(&s), n = (size_t)ROWS * WIDTH;
	float *qkv = random_floats(rng, all, -1, 1), *dout = random_floats(rng, n, -1, 1), *scratch = calloc(4 * n, sizeof *scratch);
	uint32_t tokens[ROWS];
	double loss = 0;
	for (size_t i = 0; i < ROWS; i++)
		tokens[i] = (uint32_t)prng_below(rng, TOKENS);
	float *dqkv = out + n, *table = dqkv + all, *dx = table + TOKENS * WIDTH, *sums = dx + n;
	b->ops->attention(b, out, scratch, qkv, &s);
	b->ops->attention_backward(b, dqkv, dout, out, scratch, qkv, &s);
	b->ops->embed_backward(b, table, NULL, dout, tokens, TOKENS, ROWS, LENGTH, WIDTH);
	b->ops->layer_norm(b, scratch, scratch + n, scratch + n + ROWS, dout, qkv, qkv + WIDTH, ROWS, WIDTH, 1e-5f);
	b->ops->layer_norm_backward(b, dx, sums, sums + WIDTH, out, dout, qkv, scratch + n, scratch + n + ROWS, ROWS, WIDTH);
	b->ops->column_sum(b, sums + 2 * WIDTH, dout, ROWS, WIDTH);
	b->ops->classifier(b, &loss, sums + 3 * WIDTH, dout, WIDTH, tokens, ROWS, WIDTH, 1, false);
	memcpy(sums + 3 * WIDTH + ROWS, &loss, sizeof loss);
	free(qkv);
	free(dout);
	free(scratch);
}

bool op_case_run(unsigned i, struct backend *b, struct prng *rng, float *out)
{
	static void (*const cases[])(struct backend *, struct prng *, float *) = {sums,     columns,    interactions, embeddings,
	                                                                          products, compressed, transformers};
	if (i >= COUNT(cases))
		return false;
	cases[i](b, rng, out);
	return true;
}
