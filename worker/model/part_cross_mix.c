/* The cross network of DCN-v2 with a mixture of low-rank experts (Wang et al. 2021, eq. 3 and 4):
 *
 *     x_{l+1} = sum_i G_i(x_l) (x_0 * (U_i tanh(C_i tanh(V_i^T x_l)) + b)) + x_l
 *
 * The gates G are a softmax over the experts, without bias. They add up to 1 and are the same for
 * all elements of x_0. So they can scale the experts' `rank` activations instead of their outputs,
 * and a layer is that of part_cross.c with
 *
 *     u = [U_1 .. U_K] [G_i tanh(C_i tanh(V_i^T x))] + b
 *
 * All experts' V, and all their U, are one matrix each. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "worker/model/click_part.h"
#include "worker/model/index_array.h"
#include "worker/model/scratch.h"

struct mix_layer {
	/* offsets: (experts * rank, n), (experts * rank, rank), (experts, n), (n, experts * rank),
	 * (n) */
	uint64_t v, c, gate, u, bias;
	float *low;   /* (rows, experts * rank) tanh(V^T x) */
	float *mid;   /* (rows, experts * rank) tanh(C low) */
	float *gates; /* (rows, experts) */
	float *gated; /* (rows, experts * rank) gates mid */
	float *out_u; /* (rows, n) u */
	float *out;   /* (rows, n) */
};

struct cross_mix {
	struct backend *backend;
	struct mix_layer layers[WEIR_CROSS_LAYERS_MAX];
	uint32_t count, n, experts, rank, rows;
	uint32_t *numbers;     /* (rows * experts + 1) 0, 1, 2, .. */
	float *dout, *dx, *du; /* (rows, n) */
	float *dlow, *dmid;    /* (rows, experts * rank) */
	float *dgates;         /* (rows, experts) */
};

static void *create(const struct click_place *p)
{
	struct cross_mix *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	const uint32_t n = p->features, experts = p->job->model.experts, rank = p->job->model.rank, wide = experts * rank;
	const float of_n = 1.0f / sqrtf((float)n), of_rank = 1.0f / sqrtf((float)rank), of_wide = 1.0f / sqrtf((float)wide);
	*c = (struct cross_mix){.backend = p->backend, .count = p->job->model.cross_layers, .n = n, .experts = experts, .rank = rank};
	for (uint32_t i = 0; i < c->count; i++) {
		struct mix_layer *l = &c->layers[i];
		l->v = layout_add(p->params, wide, n, WEIR_INIT_UNIFORM, of_n, "cross_mix.%u.v.weight", i);
		l->c = layout_add(p->params, wide, rank, WEIR_INIT_UNIFORM, of_rank, "cross_mix.%u.c.weight", i);
		l->gate = layout_add(p->params, experts, n, WEIR_INIT_UNIFORM, of_n, "cross_mix.%u.gate.weight", i);
		l->u = layout_add(p->params, n, wide, WEIR_INIT_UNIFORM, of_wide, "cross_mix.%u.u.weight", i);
		l->bias = layout_add(p->params, n, 0, WEIR_INIT_ZERO, 0.0f, "cross_mix.%u.bias", i);
	}
	return c;
}

/* --- Memory */

struct wanted {
	float **buffer;
	size_t elements;
};
enum { WANTED_MAX = 6 + 6 * WEIR_CROSS_LAYERS_MAX };

static uint32_t wanted_floats(struct cross_mix *c, size_t rows, struct wanted w[WANTED_MAX])
{
	const size_t n = rows * c->n, gates = rows * c->experts, wide = gates * c->rank;
	uint32_t count = 0;
	const struct wanted shared[] = {{&c->dout, n},    {&c->dx, n},      {&c->du, n},
	                                {&c->dlow, wide}, {&c->dmid, wide}, {&c->dgates, gates}};
	for (; count < sizeof shared / sizeof *shared; count++)
		w[count] = shared[count];
	for (uint32_t i = 0; i < c->count; i++) {
		struct mix_layer *l = &c->layers[i];
		const struct wanted own[] = {{&l->low, wide},   {&l->mid, wide}, {&l->gates, gates},
		                             {&l->gated, wide}, {&l->out_u, n},  {&l->out, n}};
		for (size_t k = 0; k < sizeof own / sizeof *own; k++)
			w[count++] = own[k];
	}
	return count;
}

static void destroy(void *part)
{
	struct cross_mix *c = part;
	struct wanted wanted[WANTED_MAX];
	for (uint32_t i = wanted_floats(c, 0, wanted); i-- > 0;)
		scratch_free(c->backend, wanted[i].buffer);
	scratch_free_words(c->backend, &c->numbers);
	free(c);
}

static weir_status reserve(void *part, uint32_t rows)
{
	struct cross_mix *c = part;
	struct wanted wanted[WANTED_MAX];
	const uint32_t count = wanted_floats(c, rows, wanted);
	weir_status status = index_array_steps(c->backend, &c->numbers, (size_t)rows * c->experts + 1, 1, 1);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
		status = scratch_grow(c->backend, wanted[i].buffer, wanted[i].elements);
	c->rows = status == WEIR_OK ? rows : 0;
	return status;
}

/* --- Forward */

static uint32_t width(const void *part)
{
	const struct cross_mix *c = part;
	return c->n;
}

/* out = x * gates, where each gate is of `rank` elements of its row. */
static void scale_by_gates(struct cross_mix *c, float *out, const float *x, const float *gates, uint32_t rows)
{
	const size_t bags = (size_t)rows * c->experts;
	c->backend->ops->gather_pool(c->backend, out, x, bags, c->rank, c->numbers, c->numbers, gates, bags);
}

static struct linear low_of(const struct cross_mix *c, const struct mix_layer *l, const float *x, const struct click_pass *p)
{
	return (struct linear){.x = x, .W = p->params + l->v, .rows = p->in->rows, .in = c->n, .out = c->experts * c->rank};
}

static struct linear gate_of(const struct cross_mix *c, const struct mix_layer *l, const float *x, const struct click_pass *p)
{
	return (struct linear){.x = x, .W = p->params + l->gate, .rows = p->in->rows, .in = c->n, .out = c->experts};
}

static struct linear out_of(const struct cross_mix *c, const struct mix_layer *l, const struct click_pass *p)
{
	return (struct linear){.x = l->gated, .W = p->params + l->u, .rows = p->in->rows, .in = c->experts * c->rank, .out = c->n};
}

static void layer_forward(struct cross_mix *c, struct mix_layer *l, const float *x, const struct click_pass *p)
{
	struct backend *b = c->backend;
	const struct backend_ops *ops = b->ops;
	const size_t rows = p->in->rows, rank = c->rank, wide = c->experts * rank;
	const struct linear low = low_of(c, l, x, p), gate = gate_of(c, l, x, p), out = out_of(c, l, p);
	ops->linear(b, l->low, &low, NULL, ACT_TANH);
	for (size_t e = 0; e < wide; e += rank)
		ops->gemm(b, false, true, rows, rank, rank, 1.0f, l->low + e, wide, p->params + l->c + e * rank, rank, 0.0f, l->mid + e,
		          wide);
	ops->bias_act(b, l->mid, NULL, rows, wide, ACT_TANH);
	ops->linear(b, l->gates, &gate, NULL, ACT_NONE);
	ops->softmax(b, l->gates, l->gates, rows, c->experts);
	scale_by_gates(c, l->gated, l->mid, l->gates, p->in->rows);
	ops->linear(b, l->out_u, &out, p->params + l->bias, ACT_NONE);
	ops->cross(b, l->out, p->features, x, l->out_u, rows, c->n);
}

static const float *forward(void *part, const struct click_pass *p)
{
	struct cross_mix *c = part;
	assert(p->in->rows <= c->rows);
	const float *x = p->features;
	for (uint32_t i = 0; i < c->count; i++) {
		layer_forward(c, &c->layers[i], x, p);
		x = c->layers[i].out;
	}
	return x;
}

/* --- Backward */

static float *output_gradient(void *part)
{
	struct cross_mix *c = part;
	return c->dout;
}

/* From du, the gradient of u, to dx, to which it adds, and to the layer's parameters. */
static void experts_backward(struct cross_mix *c, const struct mix_layer *l, const float *x, float *dx,
                             const struct click_pass *p)
{
	struct backend *b = c->backend;
	const struct backend_ops *ops = b->ops;
	const size_t rows = p->in->rows, rank = c->rank, wide = c->experts * rank;
	const struct linear low = low_of(c, l, x, p), gate = gate_of(c, l, x, p), out = out_of(c, l, p);
	float *dgated = c->dlow;
	ops->bias_act_backward(b, c->du, c->du, l->out_u, p->dparams + l->bias, rows, c->n, ACT_NONE);
	ops->linear_backward(b, p->dparams + l->u, dgated, wide, 0.0f, c->du, &out);
	ops->row_dots(b, c->dgates, dgated, NULL, l->mid, NULL, rank, rows * c->experts);
	scale_by_gates(c, c->dmid, dgated, l->gates, p->in->rows);
	ops->softmax_backward(b, c->dgates, c->dgates, l->gates, rows, c->experts);
	ops->linear_backward(b, p->dparams + l->gate, dx, c->n, 1.0f, c->dgates, &gate);
	ops->bias_act_backward(b, c->dmid, c->dmid, l->mid, NULL, rows, wide, ACT_TANH);
	for (size_t e = 0; e < wide; e += rank) {
		ops->gemm(b, true, false, rank, rank, rows, 1.0f, c->dmid + e, wide, l->low + e, wide, 0.0f, p->dparams + l->c + e * rank,
		          rank);
		ops->gemm(b, false, false, rows, rank, rank, 1.0f, c->dmid + e, wide, p->params + l->c + e * rank, rank, 0.0f,
		          c->dlow + e, wide);
	}
	ops->bias_act_backward(b, c->dlow, c->dlow, l->low, NULL, rows, wide, ACT_TANH);
	ops->linear_backward(b, p->dparams + l->v, dx, c->n, 1.0f, c->dlow, &low);
}

static void backward(void *part, const struct click_pass *p)
{
	struct cross_mix *c = part;
	struct backend *b = c->backend;
	const struct backend_ops *ops = b->ops;
	const size_t rows = p->in->rows, n = rows * c->n;
	float *dout = c->dout, *dx = c->dx;
	assert(p->columns == c->n);
	if (!p->adds)
		ops->fill(b, p->dx, 0.0f, n);
	for (uint32_t i = c->count; i-- > 0;) {
		const struct mix_layer *l = &c->layers[i];
		const float *x = i > 0 ? c->layers[i - 1].out : p->features;
		ops->fill(b, dx, 0.0f, n);
		ops->cross_backward(b, c->du, p->dx, dx, dout, p->features, l->out_u, rows, c->n);
		experts_backward(c, l, x, dx, p);
		float *t = dout;
		dout = dx;
		dx = t;
	}
	ops->axpy(b, p->dx, 1.0f, dout, n);
}

const struct click_part cross_mix_part = {.reads = CLICK_READS_FEATURES,
                                          .whole_gradient = true,
                                          .create = create,
                                          .destroy = destroy,
                                          .reserve = reserve,
                                          .width = width,
                                          .forward = forward,
                                          .output_gradient = output_gradient,
                                          .backward = backward};
