#include "worker/model/cross.h"

#include <assert.h>
#include <math.h>

#include "worker/model/scratch.h"

void cross_init(struct cross *c, struct backend *b, uint32_t n, uint32_t count, struct layout *params)
{
	assert(count <= CROSS_LAYERS_MAX && n > 0);
	*c = (struct cross){.backend = b, .count = count, .n = n};
	float bound = 1.0f / sqrtf((float)n);
	for (uint32_t i = 0; i < count; i++) {
		c->layers[i].weight = layout_add(params, n, n, WEIR_INIT_UNIFORM, bound, "cross.%u.weight", i);
		c->layers[i].bias = layout_add(params, n, 0, WEIR_INIT_UNIFORM, bound, "cross.%u.bias", i);
	}
}

void cross_free(struct cross *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		scratch_free(c->backend, &c->layers[i].u);
		scratch_free(c->backend, &c->layers[i].out);
	}
	scratch_free(c->backend, &c->dout);
	scratch_free(c->backend, &c->dx);
	scratch_free(c->backend, &c->du);
	*c = (struct cross){0};
}

weir_status cross_reserve(struct cross *c, uint32_t rows)
{
	if (rows <= c->rows)
		return WEIR_OK;
	size_t n = (size_t)rows * c->n;
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

const float *cross_forward(struct cross *c, const float *x0, uint32_t rows, const float *params)
{
	assert(rows <= c->rows);
	struct backend *b = c->backend;
	const float *x = x0;
	for (uint32_t i = 0; i < c->count; i++) {
		struct cross_layer *l = &c->layers[i];
		const struct linear layer = {.x = x, .W = params + l->weight, .rows = rows, .in = c->n, .out = c->n};
		b->ops->linear(b, l->u, &layer, params + l->bias, ACT_NONE);
		b->ops->cross(b, l->out, x0, x, l->u, rows, c->n);
		x = l->out;
	}
	return x;
}

float *cross_output_gradient(struct cross *c)
{
	return c->dout;
}

void cross_backward(struct cross *c, const float *x0, uint32_t rows, const float *params, float *dparams, float *dx0)
{
	struct backend *b = c->backend;
	const struct backend_ops *ops = b->ops;
	float *dout = c->dout, *dx = c->dx;
	for (uint32_t i = c->count; i-- > 0;) {
		struct cross_layer *l = &c->layers[i];
		const float *x = i > 0 ? c->layers[i - 1].out : x0;
		const struct linear layer = {.x = x, .W = params + l->weight, .rows = rows, .in = c->n, .out = c->n};
		ops->fill(b, dx, 0.0f, (size_t)rows * c->n);
		ops->cross_backward(b, c->du, dx0, dx, dout, x0, l->u, rows, c->n);
		ops->bias_act_backward(b, c->du, c->du, l->u, dparams + l->bias, rows, c->n, ACT_NONE);
		ops->linear_backward(b, dparams + l->weight, dx, c->n, 1.0f, c->du, &layer);
		float *t = dout;
		dout = dx;
		dx = t;
	}
	ops->axpy(b, dx0, 1.0f, dout, (size_t)rows * c->n);
}
