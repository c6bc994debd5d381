/* The ops of a DLRM step (26 tables, dim 128, batch 65,536), and those of the other click models on
 * as many rows. An op's bytes are its inputs read once and its outputs written once. Ids follow a
 * power law, as in click data. */
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "tests/bench/gpu/bench_gpu.h"

enum {
	BATCH = 65536,
	BATCH_QUICK = 24,
	FIELDS = 26,
	DIM = 128,
	VECTORS = FIELDS + 1,
	PAIRS = VECTORS * (VECTORS - 1) / 2,
	IDS = 40000, /* per field */
	HIDDEN = 1024,
	CROSS = 1024,
	FM_DIM = 16,
	SMALLS = 8
};

struct step {
	struct gpu_bench *g;
	struct backend *b;
	size_t rows, uses, unique;
	uint32_t *offsets, *index; /* (uses + 1), (uses) */
	float *table;              /* (unique, DIM) */
	float *x, *dx;             /* (rows, VECTORS, DIM) */
	float *y, *dy, *z;         /* (rows, HIDDEN) */
	float *pairs;              /* (rows, DIM + PAIRS) */
	float *small[SMALLS];      /* (rows) each, at least HIDDEN of them */
	size_t m, n, k;            /* dimensions of a matrix product */
};

static void gather(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->gather_pool(s->b, s->x, s->table, s->unique, DIM, s->offsets, s->index, NULL, s->uses);
}
static void scatter(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->scatter_sum(s->b, s->table, s->unique, DIM, s->dx, s->offsets, s->index, NULL, s->uses, s->uses);
}
static void copy_rows(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->copy_rows(s->b, s->x, NULL, s->table, s->index, DIM, s->uses);
}
static void dots(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->dot_interaction(s->b, s->pairs, s->y, s->x, s->rows, FIELDS, DIM);
}
static void dots_backward(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->dot_interaction_backward(s->b, s->dy, s->dx, s->pairs, s->y, s->x, s->rows, FIELDS, DIM);
}
static void fm(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->fm(s->b, s->small[0], s->y, s->x, s->rows, FIELDS, FM_DIM);
}
static void fm_backward(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->fm_backward(s->b, s->dx, s->small[0], s->y, s->x, s->rows, FIELDS, FM_DIM);
}
static void cross(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->cross(s->b, s->z, s->x, s->dx, s->y, s->rows, CROSS);
}
static void cross_backward(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->cross_backward(s->b, s->z, s->dx, s->dx, s->dy, s->x, s->y, s->rows, CROSS);
}
static void relu(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->bias_act(s->b, s->y, s->small[0], s->rows, HIDDEN, ACT_RELU);
}
static void relu_backward(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->bias_act_backward(s->b, s->z, s->dy, s->y, s->small[1], s->rows, HIDDEN, ACT_RELU);
}
static void norm(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->batch_norm(s->b, s->z, s->x, s->small[0], s->small[1], s->small[2], s->small[3], s->y, s->small[4], s->small[5],
	                      s->rows, HIDDEN, 1e-5f, true);
}
static void norm_backward(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->batch_norm_backward(s->b, s->z, s->small[0], s->small[1], s->dy, s->x, s->small[4], s->small[5], s->rows, HIDDEN);
}
static void drop(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	const void *seed = s->small[0];
	s->b->ops->dropout(s->b, s->z, 0, s->rows * HIDDEN, 0.5f, seed, 7);
}
static void join(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->concat(s->b, s->x, s->y, DIM, s->pairs, PAIRS, s->rows);
}
static void sigmoid(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->sigmoid(s->b, s->z, s->y, s->rows * HIDDEN);
}
static void forward_product(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->gemm(s->b, false, true, s->m, s->n, s->k, 1, s->x, s->k, s->table, s->k, 0, s->z, s->n);
}
static void input_product(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->gemm(s->b, false, false, s->m, s->k, s->n, 1, s->z, s->n, s->table, s->k, 0, s->x, s->k);
}
static void weight_product(void *arg, unsigned call)
{
	const struct step *s = arg;
	(void)call;
	s->b->ops->gemm(s->b, true, false, s->n, s->k, s->m, 1, s->z, s->n, s->x, s->k, 0, s->table, s->k);
}

/* --- A batch */

/* id = range * u^4 per field. Rows of the table are in order of first use, as in a real batch. */
static bool make_index(struct step *s)
{
	uint64_t *keys = malloc(s->uses * sizeof *keys), *distinct = malloc(s->uses * sizeof *distinct);
	uint32_t *index = malloc(s->uses * sizeof *index), *offsets = malloc((s->uses + 1) * sizeof *offsets);
	const bool whole = keys != NULL && distinct != NULL && index != NULL && offsets != NULL;
	struct prng rng;
	prng_seed(&rng, 3);
	for (size_t i = 0; whole && i < s->uses; i++) {
		const double u = prng_unit(&rng);
		keys[i] = (uint64_t)(i % FIELDS) << 32 | (uint64_t)(IDS * u * u * u * u);
	}
	for (size_t i = 0; whole && i <= s->uses; i++)
		offsets[i] = (uint32_t)i;
	if (whole) {
		s->unique = s->b->ops->unique(s->b, keys, s->uses, distinct, index);
		s->b->ops->to_device(s->b, s->index, index, s->uses * sizeof *index);
		s->b->ops->to_device(s->b, s->offsets, offsets, (s->uses + 1) * sizeof *offsets);
	}
	free(keys);
	free(distinct);
	free(index);
	free(offsets);
	return whole;
}

static bool step_open(struct step *s, struct gpu_bench *g)
{
	*s = (struct step){.g = g, .b = g->b, .rows = g->quick ? BATCH_QUICK : BATCH};
	s->uses = s->rows * FIELDS;
	const size_t smalls = s->rows > HIDDEN ? s->rows : HIDDEN, x = s->rows * VECTORS * DIM, y = s->rows * HIDDEN;
	const size_t table = s->uses < (size_t)FIELDS * IDS ? s->uses : (size_t)FIELDS * IDS;
	bool whole = true;
	s->offsets = gpu_bytes(g, (s->uses + 1) * sizeof *s->offsets);
	s->index = gpu_bytes(g, s->uses * sizeof *s->index);
	s->table = gpu_normal(g, (table * DIM > HIDDEN * HIDDEN ? table * DIM : HIDDEN * HIDDEN), 11);
	s->x = gpu_normal(g, x, 12);
	s->dx = gpu_normal(g, x, 13);
	s->y = gpu_normal(g, y, 14);
	s->dy = gpu_normal(g, y, 15);
	s->z = gpu_normal(g, y, 16);
	s->pairs = gpu_normal(g, s->rows * (DIM + PAIRS), 17);
	for (unsigned i = 0; i < SMALLS; i++)
		whole &= (s->small[i] = gpu_normal(g, smalls, 20 + i)) != NULL;
	return whole && s->offsets != NULL && s->index != NULL && s->table != NULL && s->x != NULL && s->dx != NULL && s->y != NULL &&
	       s->dy != NULL && s->z != NULL && s->pairs != NULL && make_index(s);
}

static void step_close(struct step *s)
{
	void *const all[] = {s->offsets, s->index, s->table, s->x, s->dx, s->y, s->dy, s->z, s->pairs};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		gpu_free(s->g, all[i]);
	for (unsigned i = 0; i < SMALLS; i++)
		gpu_free(s->g, s->small[i]);
}

/* --- Subjects */

static void bench_ops(struct step *s)
{
	const double each = sizeof(float), x = each * (double)s->uses * DIM, h = each * (double)s->rows * HIDDEN,
	             rows = each * (double)s->unique * DIM, features = each * (double)s->rows * (DIM + PAIRS),
	             vectors = each * (double)s->rows * VECTORS * DIM, fm_x = each * (double)s->uses * FM_DIM,
	             c = each * (double)s->rows * CROSS;
	const struct {
		const char *name;
		double bytes;
		void (*run)(void *, unsigned);
	} ops[] = {
	    {"gather_pool, one-hot", x + rows, gather},
	    {"scatter_sum, one-hot", x + rows, scatter},
	    {"copy_rows", x + rows, copy_rows},
	    {"dot_interaction", vectors + features, dots},
	    {"dot_interaction backward", 2 * vectors + features, dots_backward},
	    {"concat 128 + 351", 2 * each * (double)s->rows * (DIM + PAIRS), join},
	    {"bias + relu, 1,024", 2 * h, relu},
	    {"relu backward with bias, 1,024", 3 * h, relu_backward},
	    {"batch norm, 1,024", 3 * h, norm},
	    {"batch norm backward, 1,024", 3 * h, norm_backward},
	    {"dropout, 1,024", 2 * h, drop},
	    {"sigmoid, 1,024", 2 * h, sigmoid},
	    {"fm 26 x 16", fm_x, fm},
	    {"fm backward", 3 * fm_x, fm_backward},
	    {"cross 1,024", 4 * c, cross},
	    {"cross backward 1,024", 6 * c, cross_backward},
	};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		const struct gpu_subject subject = {
		    .name = ops[i].name, .n = s->rows, .bytes = ops[i].bytes, .run = ops[i].run, .arg = s};
		if (!gpu_measure(s->g, &subject))
			return;
	}
}

/* Layers of the towers: forward, gradient of the input, gradient of the weights. */
static void bench_products(struct step *s)
{
	static const size_t layers[][2] = {{13, 512}, {512, 256}, {256, 128}, {479, 1024}, {1024, 1024}, {1024, 512}};
	static const struct {
		const char *name;
		void (*run)(void *, unsigned);
	} kinds[] = {{"forward", forward_product}, {"back", input_product}, {"weights", weight_product}};
	const size_t count = s->g->quick ? 1 : sizeof layers / sizeof *layers;
	for (size_t l = 0; l < count; l++)
		for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
			char name[sizeof s->g->results->name];
			s->m = s->rows;
			s->k = layers[l][0];
			s->n = layers[l][1];
			snprintf(name, sizeof name, "layer %zu to %zu, %s", s->k, s->n, kinds[i].name);
			const struct gpu_subject subject = {.name = name,
			                                    .n = s->rows,
			                                    .flops = 2.0 * (double)s->m * (double)s->n * (double)s->k,
			                                    .run = kinds[i].run,
			                                    .arg = s};
			if (!gpu_measure(s->g, &subject))
				return;
		}
}

void bench_model(struct gpu_bench *g)
{
	struct step s;
	weir_error err = {0};
	if (step_open(&s, g) && g->b->ops->sync(g->b, &err) == WEIR_OK) {
		printf("%zu rows of %d ids, %zu of them distinct\n", s.rows, FIELDS, s.unique);
		bench_ops(&s);
		bench_products(&s);
	} else {
		(void)g->b->ops->sync(g->b, &err);
		printf("a batch of %zu rows: left out: %s\n", s.rows, err.text);
	}
	step_close(&s);
}
