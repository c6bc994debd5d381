/* The cross network of DCN-v2 (Wang et al. 2021, eq. 1) with full matrices: x_{l+1} = x_0 * (W_l
 * x_l + b_l) + x_l. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "worker/model/click_part.h"
#include "worker/model/scratch.h"

struct cross_layer {
	uint64_t weight, bias; /* offsets: (n, n), (n) */
	float *u;              /* (rows, n) W x + b */
	float *out;            /* (rows, n) */
};

struct cross {
	struct backend *backend;
	struct cross_layer layers[WEIR_CROSS_LAYERS_MAX];
	uint32_t count, n;
	float *dout, *dx, *du; /* (rows, n) */
	uint32_t rows;
};

static weir_status check(const struct job *job, const struct model_data *data, weir_error *err)
{
	(void)data;
	if (job->model.cross_layers == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.cross_layers is 0: model %s needs at least one",
		                 model_kind_name(job->model.kind));
	if (job->model.cross_layers > WEIR_CROSS_LAYERS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "model.cross_layers is %u: at most %u", job->model.cross_layers,
		                 WEIR_CROSS_LAYERS_MAX);
	return WEIR_OK;
}

static void *create(const struct click_place *p)
{
	struct cross *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	const uint32_t n = p->features;
	const float bound = 1.0f / sqrtf((float)n);
	*c = (struct cross){.backend = p->backend, .count = p->job->model.cross_layers, .n = n};
	for (uint32_t i = 0; i < c->count; i++) {
		c->layers[i].weight = layout_add(p->params, n, n, WEIR_INIT_UNIFORM, bound, "cross.%u.weight", i);
		c->layers[i].bias = layout_add(p->params, n, 0, WEIR_INIT_UNIFORM, bound, "cross.%u.bias", i);
	}
	return c;
}

static void destroy(void *part)
{
	struct cross *c = part;
	for (uint32_t i = 0; i < c->count; i++) {
		scratch_free(c->backend, &c->layers[i].u);
		scratch_free(c->backend, &c->layers[i].out);
	}
	scratch_free(c->backend, &c->dout);
	scratch_free(c->backend, &c->dx);
	scratch_free(c->backend, &c->du);
	free(c);
}

static weir_status reserve(void *part, uint32_t rows)
{
	struct cross *c = part;
	const size_t n = (size_t)rows * c->n;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < c->count && status == WEIR_OK; i++)
		if ((status = scratch_grow(c->backend, &c->layers[i].u, n)) == WEIR_OK)
			status = scratch_grow(c->backend, &c->layers[i].out, n);
	if (status == WEIR_OK && (status = scratch_grow(c->backend, &c->dout, n)) == WEIR_OK &&
	    (status = scratch_grow(c->backend, &c->dx, n)) == WEIR_OK)
		status = scratch_grow(c->backend, &c->du, n);
	c->rows = status == WEIR_OK ? rows : 0;
	return status;
}

static uint32_t width(const void *part)
{
	const struct cross *c = part;
	return c->n;
}

static const float *forward(void *part, const struct click_pass *p)
{
	struct cross *c = part;
	struct backend *b = c->backend;
	const uint32_t rows = p->in->rows;
	assert(rows <= c->rows);
	const float *x = p->features;
	for (uint32_t i = 0; i < c->count; i++) {
		struct cross_layer *l = &c->layers[i];
		const struct linear layer = {.x = x, .W = p->params + l->weight, .rows = rows, .in = c->n, .out = c->n};
		b->ops->linear(b, l->u, &layer, p->params + l->bias, ACT_NONE);
		b->ops->cross(b, l->out, p->features, x, l->u, rows, c->n);
		x = l->out;
	}
	return x;
}

static float *output_gradient(void *part)
{
	struct cross *c = part;
	return c->dout;
}

static void backward(void *part, const struct click_pass *p)
{
	struct cross *c = part;
	struct backend *b = c->backend;
	const struct backend_ops *ops = b->ops;
	const uint32_t rows = p->in->rows;
	const float *x0 = p->features;
	float *dout = c->dout, *dx = c->dx, *dx0 = p->dx;
	assert(p->columns == c->n);
	if (!p->adds)
		ops->fill(b, dx0, 0.0f, (size_t)rows * c->n);
	for (uint32_t i = c->count; i-- > 0;) {
		struct cross_layer *l = &c->layers[i];
		const float *x = i > 0 ? c->layers[i - 1].out : x0;
		const struct linear layer = {.x = x, .W = p->params + l->weight, .rows = rows, .in = c->n, .out = c->n};
		ops->fill(b, dx, 0.0f, (size_t)rows * c->n);
		ops->cross_backward(b, c->du, dx0, dx, dout, x0, l->u, rows, c->n);
		ops->bias_act_backward(b, c->du, c->du, l->u, p->dparams + l->bias, rows, c->n, ACT_NONE);
		ops->linear_backward(b, p->dparams + l->weight, dx, c->n, 1.0f, c->du, &layer);
		float *t = dout;
		dout = dx;
		dx = t;
	}
	ops->axpy(b, dx0, 1.0f, dout, (size_t)rows * c->n);
}

const struct click_part cross_part = {.reads = CLICK_READS_FEATURES,
                                      .whole_gradient = true,
                                      .check = check,
                                      .create = create,
                                      .destroy = destroy,
                                      .reserve = reserve,
                                      .width = width,
                                      .forward = forward,
                                      .output_gradient = output_gradient,
                                      .backward = backward};
