/* The backend's ops on the shapes of a click model: 4,096 rows, 39 categorical fields, dim 16,
 * hidden layers of 400. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "kernels/backend.h"
#include "tests/bench/kernels/bench.h"

enum {
	ROWS = 4096,
	FIELDS = 39,
	DIM = 16,
	USES = ROWS * FIELDS,
	HIDDEN = 400,
	VECTORS = 27,
	PAIRS = VECTORS * (VECTORS - 1) / 2
};

struct batch {
	struct backend *b;
	uint64_t *keys, *unique_keys;
	uint32_t *offsets, *index, *row_offsets;
	size_t unique;
	float *table, *x, *dx, *out, *sum, *hidden, *xhat, *dhidden, *small[7], *pairs;
	double loss;
	uint64_t seed;
};

/* Ids follow a power law, as in click data: id = range * u^4 per field. */
static void make_keys(struct batch *t)
{
	struct prng rng;
	prng_seed(&rng, 3);
	for (size_t i = 0; i < USES; i++) {
		double u = prng_unit(&rng);
		t->keys[i] = (uint64_t)(i % FIELDS) << 32 | (uint64_t)(25000 * u * u * u * u);
	}
	for (uint32_t i = 0; i <= USES; i++)
		t->offsets[i] = i;
	for (uint32_t i = 0; i <= ROWS; i++)
		t->row_offsets[i] = i * FIELDS;
}

static void unique_once(void *arg)
{
	struct batch *t = arg;
	t->unique = t->b->ops->unique(t->b, t->keys, USES, t->unique_keys, t->index);
}

static void gather_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->gather_pool(t->b, t->x, t->table, t->unique, DIM, t->offsets, t->index, NULL, USES);
}

static void gather_linear_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->gather_pool(t->b, t->out, t->table, t->unique, 1, t->row_offsets, t->index, NULL, ROWS);
}

static void scatter_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->scatter_sum(t->b, t->table, t->unique, DIM, t->x, t->offsets, t->index, NULL, USES, USES);
}

static void scatter_linear_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->scatter_sum(t->b, t->table, t->unique, 1, t->out, t->row_offsets, t->index, NULL, ROWS, USES);
}

static void copy_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->copy_rows(t->b, t->x, NULL, t->table, t->index, DIM, USES);
}

static void fm_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->fm(t->b, t->out, t->sum, t->x, ROWS, FIELDS, DIM);
}

static void fm_backward_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->fm_backward(t->b, t->dx, t->out, t->sum, t->x, ROWS, FIELDS, DIM);
}

static void cross_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->cross(t->b, t->dx, t->x, t->x, t->x, ROWS, FIELDS * DIM);
}

static void dots_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->dot_interaction(t->b, t->pairs, NULL, t->x, ROWS, VECTORS, DIM);
}

static void dots_backward_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->dot_interaction_backward(t->b, NULL, t->dx, t->pairs, NULL, t->x, ROWS, VECTORS, DIM);
}

static void relu_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->bias_act(t->b, t->hidden, t->small[0], ROWS, HIDDEN, ACT_RELU);
}

static void gelu_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->bias_act(t->b, t->hidden, t->small[0], ROWS, HIDDEN, ACT_GELU);
}

static void relu_backward_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->bias_act_backward(t->b, t->dhidden, t->dhidden, t->hidden, t->small[0], ROWS, HIDDEN, ACT_RELU);
}

static void norm_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->batch_norm(t->b, t->dhidden, t->xhat, t->small[0], t->small[1], t->small[2], t->small[3], t->hidden, t->small[4],
	                      t->small[5], ROWS, HIDDEN, 1e-5f, true);
}

static void norm_backward_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->batch_norm_backward(t->b, t->dhidden, t->small[0], t->small[1], t->hidden, t->xhat, t->small[4], t->small[5], ROWS,
	                               HIDDEN);
}

static void dropout_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->dropout(t->b, t->hidden, 0, (size_t)ROWS * HIDDEN, 0.5f, &t->seed, 7);
}

static void click_loss_once(void *arg)
{
	struct batch *t = arg;
	const struct click_rows rows = {.logits = t->out, .labels = t->small[5], .rows = ROWS, .tasks = 1};
	t->b->ops->click_loss(t->b, &t->loss, t->small[6], &rows, &CLICK_LOSS_PLAIN, 1);
}

static void squares_once(void *arg)
{
	struct batch *t = arg;
	t->b->ops->sum_squares(t->b, &t->loss, t->x, (size_t)USES * DIM);
}

void bench_ops(uint32_t threads, const struct limits_measured *limits)
{
	struct batch t = {.b = backend_cpu_create(threads, NULL)};
	t.keys = bench_alloc(USES * sizeof *t.keys);
	t.unique_keys = bench_alloc(USES * sizeof *t.unique_keys);
	t.offsets = bench_alloc((USES + 1) * sizeof *t.offsets);
	t.row_offsets = bench_alloc((ROWS + 1) * sizeof *t.row_offsets);
	t.index = bench_alloc(USES * sizeof *t.index);
	t.table = bench_floats((size_t)USES * DIM, 1);
	t.x = bench_floats((size_t)USES * DIM, 2);
	t.dx = bench_floats((size_t)USES * DIM, 3);
	t.out = bench_floats(ROWS, 4);
	t.sum = bench_floats((size_t)ROWS * DIM, 5);
	t.hidden = bench_floats((size_t)ROWS * HIDDEN, 6);
	t.xhat = bench_floats((size_t)ROWS * HIDDEN, 7);
	t.dhidden = bench_floats((size_t)ROWS * HIDDEN, 8);
	t.pairs = bench_floats((size_t)ROWS * PAIRS, 9);
	for (size_t i = 0; i < sizeof t.small / sizeof *t.small; i++)
		t.small[i] = bench_floats(ROWS, 10 + i);
	make_keys(&t);
	bench_print("unique keys, 4,096 x 39", USES / bench_seconds(unique_once, &t) / 1e6, "M keys/s", 0, NULL);

	const size_t x = (size_t)USES * DIM * 4, h = (size_t)ROWS * HIDDEN * 4;
	const struct {
		const char *name;
		bench_fn fn;
		double items; /* per call */
		const char *unit;
		double bytes; /* read and written, per call */
	} ops[] = {
	    {"gather_pool, width 16, one-hot", gather_once, USES, "M rows/s", 2.0 * (double)x},
	    {"gather_pool, width 1, bags of 39", gather_linear_once, USES, "M rows/s", 0},
	    {"scatter_sum, width 16, one-hot", scatter_once, USES, "M rows/s", 2.0 * (double)x},
	    {"scatter_sum, width 1, bags of 39", scatter_linear_once, USES, "M rows/s", 0},
	    {"copy_rows, width 16, by index", copy_once, USES, "M rows/s", 2.0 * (double)x},
	    {"fm 39 x 16", fm_once, ROWS, "M rows/s", (double)x},
	    {"fm backward", fm_backward_once, ROWS, "M rows/s", 3.0 * (double)x},
	    {"cross 624", cross_once, ROWS, "M rows/s", 2.0 * (double)x},
	    {"dot_interaction 27 x 16", dots_once, ROWS, "M rows/s", ROWS * 4.0 * (VECTORS * DIM + PAIRS)},
	    {"dot_interaction backward", dots_backward_once, ROWS, "M rows/s", ROWS * 4.0 * (2 * VECTORS * DIM + PAIRS)},
	    {"bias + relu, 4,096 x 400", relu_once, ROWS * HIDDEN, "M elements/s", 2.0 * (double)h},
	    {"bias + gelu", gelu_once, ROWS * HIDDEN, "M elements/s", 2.0 * (double)h},
	    {"relu backward with bias", relu_backward_once, ROWS * HIDDEN, "M elements/s", 3.0 * (double)h},
	    {"batch norm, training", norm_once, ROWS * HIDDEN, "M elements/s", 5.0 * (double)h},
	    {"batch norm backward", norm_backward_once, ROWS * HIDDEN, "M elements/s", 5.0 * (double)h},
	    {"dropout", dropout_once, ROWS * HIDDEN, "M elements/s", 2.0 * (double)h},
	    {"click_loss", click_loss_once, ROWS, "M rows/s", 0},
	    {"sum of squares", squares_once, USES * DIM, "M elements/s", (double)x},
	};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		double seconds = bench_seconds(ops[i].fn, &t);
		double ratio = ops[i].bytes / seconds / (2 * limits->copy_bytes_per_s);
		bench_print(ops[i].name, ops[i].items / seconds / 1e6, ops[i].unit, ratio, ops[i].bytes > 0 ? "memcpy's traffic" : NULL);
	}
	void *all[] = {t.keys, t.unique_keys, t.offsets, t.row_offsets, t.index, t.table,   t.x,
	               t.dx,   t.out,         t.sum,     t.hidden,      t.xhat,  t.dhidden, t.pairs};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
	for (size_t i = 0; i < sizeof t.small / sizeof *t.small; i++)
		free(t.small[i]);
	t.b->ops->destroy(t.b);
}
