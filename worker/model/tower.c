#include "worker/model/tower.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "worker/model/scratch.h"

/* A large layer is computed in blocks of its outputs, whether or not a flow follows them, so that
 * results do not depend on it. Small blocks cost speed; only the last layer has them, for whose
 * values the forward pass waits longest, and whose gradients leave first. */
#define BLOCK_ELEMENTS      (4u * WEIR_CHUNK)
#define LAST_BLOCK_ELEMENTS WEIR_CHUNK
#define BLOCK_OUTPUTS       128u

void tower_init(struct tower *t, struct backend *b, const char *name, uint32_t in, const uint32_t *widths, uint32_t count,
                bool batch_norm, float dropout, struct layout *params, struct layout *stats)
{
	assert(count <= WEIR_HIDDEN_LAYERS_MAX && in > 0);
	*t = (struct tower){.backend = b, .count = count, .batch_norm = batch_norm, .dropout = dropout, .widest = in};
	for (uint32_t i = 0; i < count; i++) {
		struct tower_layer *l = &t->layers[i];
		l->in = in;
		l->out = widths[i];
		float bound = 1.0f / sqrtf((float)in);
		l->weight = layout_add(params, l->out, in, WEIR_INIT_UNIFORM, bound, "%s.%u.weight", name, i);
		if (batch_norm) {
			l->gamma = layout_add(params, l->out, 0, WEIR_INIT_CONSTANT, 1.0f, "%s.%u.norm.weight", name, i);
			l->beta = layout_add(params, l->out, 0, WEIR_INIT_ZERO, 0.0f, "%s.%u.norm.bias", name, i);
			l->mean = layout_add(stats, l->out, 0, WEIR_INIT_ZERO, 0.0f, "%s.%u.norm.running_mean", name, i);
			l->var = layout_add(stats, l->out, 0, WEIR_INIT_CONSTANT, 1.0f, "%s.%u.norm.running_var", name, i);
		} else {
			l->bias = layout_add(params, l->out, 0, WEIR_INIT_UNIFORM, bound, "%s.%u.bias", name, i);
		}
		l->elements = params->elements - l->weight;
		in = l->out;
		t->widest = in > t->widest ? in : t->widest;
	}
}

void tower_destroy(struct tower *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		scratch_free(t->backend, &t->layers[i].y);
		scratch_free(t->backend, &t->layers[i].xhat);
		scratch_free(t->backend, &t->layers[i].mean_now);
		scratch_free(t->backend, &t->layers[i].inv_std_now);
	}
	scratch_free(t->backend, &t->dy);
	scratch_free(t->backend, &t->dx);
	free(t->inv_std);
	*t = (struct tower){0};
}

weir_status tower_reserve(struct tower *t, uint32_t rows)
{
	if (rows <= t->rows)
		return WEIR_OK;
	struct backend *b = t->backend;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < t->count && status == WEIR_OK; i++) {
		struct tower_layer *l = &t->layers[i];
		status = scratch_grow(b, &l->y, (size_t)rows * l->out);
		if (status == WEIR_OK && t->batch_norm && (status = scratch_grow(b, &l->xhat, (size_t)rows * l->out)) == WEIR_OK &&
		    (status = scratch_grow(b, &l->mean_now, l->out)) == WEIR_OK)
			status = scratch_grow(b, &l->inv_std_now, l->out);
	}
	if (status == WEIR_OK && (status = scratch_grow(b, &t->dy, (size_t)rows * t->widest)) == WEIR_OK)
		status = scratch_grow(b, &t->dx, (size_t)rows * t->widest);
	if (status == WEIR_OK && !t->inv_std && !(t->inv_std = malloc(t->widest * sizeof *t->inv_std)))
		status = WEIR_E_MEMORY;
	t->rows = status == WEIR_OK ? rows : 0;
	return status;
}

uint32_t tower_width(const struct tower *t)
{
	return t->layers[t->count - 1].out;
}

static void normalise(struct tower *t, struct tower_layer *l, uint32_t rows, const float *params, const struct forward_mode *mode)
{
	struct backend *b = t->backend;
	float *mean = NULL, *var = NULL;
	if (mode->training) {
		mean = mode->batch_stats + l->mean;
		var = mode->batch_stats + l->var;
	} else {
		for (uint32_t j = 0; j < l->out; j++)
			t->inv_std[j] = 1.0f / sqrtf(mode->running[l->var + j] + TOWER_BN_EPS);
		b->ops->to_device(b, l->mean_now, mode->running + l->mean, l->out * sizeof(float));
		b->ops->to_device(b, l->inv_std_now, t->inv_std, l->out * sizeof(float));
	}
	b->ops->batch_norm(b, l->y, l->xhat, l->mean_now, l->inv_std_now, mean, var, t->dx, params + l->gamma, params + l->beta, rows,
	                   l->out, TOWER_BN_EPS, mode->training);
}

static struct linear linear_of(const struct tower_layer *l, const float *x, uint32_t rows, const float *params)
{
	return (struct linear){.x = x, .W = params + l->weight, .rows = rows, .in = l->in, .out = l->out};
}

/* Outputs of a block; at least l->out: the layer is one block. */
static uint32_t block_outputs(const struct tower *t, const struct tower_layer *l)
{
	const uint64_t most = l == &t->layers[t->count - 1] ? LAST_BLOCK_ELEMENTS : BLOCK_ELEMENTS;
	const uint64_t blocks = ((uint64_t)l->in * l->out + most - 1) / most;
	const uint64_t outputs = (l->out + blocks - 1) / blocks, even = (outputs + BLOCK_OUTPUTS - 1) / BLOCK_OUTPUTS * BLOCK_OUTPUTS;
	return t->backend->ops->host_memory ? (uint32_t)even : l->out;
}

/* Parameters of the layer behind its weights. */
static void await_rest(const struct tower *t, const struct tower_layer *l)
{
	const uint64_t weights = (uint64_t)l->in * l->out;
	layer_flow_await(t->flow, l->weight + weights, l->elements - weights);
}

/* z = act(x W^T + bias) */
static void multiply(const struct tower *t, const struct tower_layer *l, float *z, const struct linear *layer, const float *bias,
                     enum activation act)
{
	struct backend *b = t->backend;
	const size_t in = l->in, block = block_outputs(t, l);
	if (block >= l->out) {
		layer_flow_await(t->flow, l->weight, l->elements);
		b->ops->linear(b, z, layer, bias, act);
		return;
	}
	for (size_t at = 0; at < l->out; at += block) {
		const size_t n = l->out - at < block ? l->out - at : block;
		layer_flow_await(t->flow, l->weight + at * in, n * in);
		b->ops->gemm(b, false, true, layer->rows, n, in, 1.0f, layer->x, in, layer->W + at * in, in, 0.0f, z + at, l->out);
	}
	await_rest(t, l);
	b->ops->bias_act(b, z, bias, layer->rows, l->out, act);
}

/* dW = dz^T x; dx (rows, columns) = dz W + beta dx, unless NULL. All other gradients of the layer
 * are final. */
static void multiply_backward(const struct tower *t, const struct tower_layer *l, float *dW, float *dx, size_t columns,
                              float beta, const float *dz, const struct linear *layer)
{
	struct backend *b = t->backend;
	const size_t in = l->in, block = block_outputs(t, l), weights = in * l->out;
	if (block >= l->out) {
		b->ops->linear_backward(b, dW, dx, columns, beta, dz, layer);
		layer_flow_done(t->flow, l->weight, l->elements);
		return;
	}
	layer_flow_done(t->flow, l->weight + weights, l->elements - weights);
	for (size_t end = l->out; end > 0;) {
		const size_t at = (end - 1) / block * block;
		b->ops->gemm(b, true, false, end - at, in, layer->rows, 1.0f, dz + at, l->out, layer->x, in, 0.0f, dW + at * in, in);
		layer_flow_done(t->flow, l->weight + at * in, (end - at) * in);
		end = at;
	}
	if (dx && columns > 0)
		b->ops->gemm(b, false, false, layer->rows, columns, l->out, 1.0f, dz, l->out, layer->W, in, beta, dx, columns);
}

const float *tower_forward(struct tower *t, const float *x, uint32_t rows, const float *params, const struct forward_mode *mode)
{
	assert(rows <= t->rows);
	struct backend *b = t->backend;
	for (uint32_t i = 0; i < t->count; i++) {
		struct tower_layer *l = &t->layers[i];
		float *z = t->batch_norm ? t->dx : l->y;
		const struct linear layer = linear_of(l, x, rows, params);
		multiply(t, l, z, &layer, t->batch_norm ? NULL : params + l->bias, t->batch_norm ? ACT_NONE : ACT_RELU);
		if (t->batch_norm) {
			normalise(t, l, rows, params, mode);
			b->ops->bias_act(b, l->y, NULL, rows, l->out, ACT_RELU);
		}
		if (mode->training && t->dropout > 0.0f)
			b->ops->dropout(b, l->y, 0, (size_t)rows * l->out, t->dropout, mode->seed, t->salt + i);
		x = l->y;
	}
	return x;
}

const float *tower_output(const struct tower *t)
{
	return t->layers[t->count - 1].y;
}

float *tower_output_gradient(struct tower *t)
{
	return t->dy;
}

void tower_backward(struct tower *t, const float *x, uint32_t rows, const float *params, float *dparams, float *dx,
                    uint32_t dx_cols, bool adds)
{
	struct backend *b = t->backend;
	const struct backend_ops *ops = b->ops;
	float *dy = t->dy, *spare = t->dx;
	for (uint32_t i = t->count; i-- > 0;) {
		struct tower_layer *l = &t->layers[i];
		/* y is 0 at each element that dropout removed, so that ReLU's mask removes its gradient
		 * too. */
		if (t->dropout > 0.0f)
			ops->scale(b, dy, 1.0f / (1.0f - t->dropout), (size_t)rows * l->out);
		ops->bias_act_backward(b, dy, dy, l->y, t->batch_norm ? NULL : dparams + l->bias, rows, l->out, ACT_RELU);
		float *dz = dy;
		if (t->batch_norm) {
			ops->batch_norm_backward(b, spare, dparams + l->gamma, dparams + l->beta, dy, l->xhat, params + l->gamma,
			                         l->inv_std_now, rows, l->out);
			dz = spare;
			spare = dy;
		}
		const struct linear layer = linear_of(l, i > 0 ? t->layers[i - 1].y : x, rows, params);
		float *out = i > 0 ? spare : dx;
		multiply_backward(t, l, dparams + l->weight, out, i > 0 ? l->in : dx_cols, i == 0 && adds ? 1.0f : 0.0f, dz, &layer);
		dy = out;
		spare = dz;
	}
}
