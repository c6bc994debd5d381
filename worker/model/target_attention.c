#include "worker/model/target_attention.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/model/index_array.h"
#include "worker/model/scratch.h"

void target_attention_init(struct target_attention *a, struct backend *b, const struct job *job, struct job_history of,
                           uint32_t fields, uint32_t number, struct layout *params, struct layout *stats)
{
	char name[32];
	snprintf(name, sizeof name, "attention.%u", number);
	*a = (struct target_attention){.backend = b, .of = of, .fields = fields, .dim = job->model.dim, .first = params->elements};
	tower_init(&a->unit, b, name, 4 * a->dim, job->model.attention, job->model.attention_count, false, 0.0f, params, stats);
	const uint32_t width = tower_width(&a->unit);
	a->head = layout_add(params, 1, width, WEIR_INIT_UNIFORM, 1.0f / sqrtf((float)width), "%s.head.weight", name);
	a->bias = layout_add(params, 1, 0, WEIR_INIT_ZERO, 0.0f, "%s.head.bias", name);
	a->count = params->elements - a->first;
}

void target_attention_destroy(struct target_attention *a)
{
	float **floats[] = {&a->pooled, &a->sum, &a->pairs, &a->dpairs, &a->weights, &a->dweights, &a->duses, &a->dtarget, &a->more};
	uint32_t **words[] = {&a->numbers, &a->places, &a->targets};
	tower_destroy(&a->unit);
	for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
		scratch_free(a->backend, floats[i]);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		scratch_free_words(a->backend, words[i]);
}

/* Puts row * fields + field of each row. */
static weir_status put_places(struct target_attention *a, uint32_t **buffer, uint32_t field, uint32_t rows)
{
	uint32_t *host = malloc(rows * sizeof *host);
	if (!host)
		return WEIR_E_MEMORY;
	for (uint32_t r = 0; r < rows; r++)
		host[r] = r * a->fields + field;
	const weir_status status = index_array_put(a->backend, buffer, host, rows);
	free(host);
	return status;
}

weir_status target_attention_reserve_rows(struct target_attention *a, uint32_t rows)
{
	const size_t elements = (size_t)rows * a->dim;
	weir_status status = put_places(a, &a->places, a->of.field, rows);
	if (status == WEIR_OK)
		status = put_places(a, &a->targets, a->of.target, rows);
	if (status == WEIR_OK && (status = scratch_grow(a->backend, &a->pooled, elements)) == WEIR_OK)
		status = scratch_grow(a->backend, &a->sum, elements);
	a->rows = status == WEIR_OK ? rows : 0;
	return status;
}

/* A quarter more than needed: batches grow slowly. */
weir_status target_attention_reserve_uses(struct target_attention *a, uint32_t uses, size_t unique)
{
	struct backend *b = a->backend;
	weir_status status = WEIR_OK;
	if (unique > a->unique) {
		unique += unique / 4;
		status = scratch_grow(b, &a->more, unique * a->dim);
		a->unique = status == WEIR_OK ? unique : 0;
	}
	if (status != WEIR_OK || uses <= a->uses)
		return status;
	uses += uses / 4;
	const size_t n = (size_t)uses * a->dim;
	struct {
		float **buffer;
		size_t elements;
	} wanted[] = {{&a->pairs, 4 * n},   {&a->dpairs, 4 * n}, {&a->weights, uses},
	              {&a->dweights, uses}, {&a->duses, n},      {&a->dtarget, n}};
	status = index_array_steps(b, &a->numbers, (size_t)uses + 1, 1, 1);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == WEIR_OK; i++)
		status = scratch_grow(b, wanted[i].buffer, wanted[i].elements);
	if (status == WEIR_OK)
		status = tower_reserve(&a->unit, uses);
	a->uses = status == WEIR_OK ? uses : 0;
	return status;
}

void target_attention_forward(struct target_attention *a, const struct history *h, uint32_t rows, const float *embeddings,
                              size_t unique, float *x, const float *params, const struct forward_mode *mode)
{
	struct backend *b = a->backend;
	const struct backend_ops *ops = b->ops;
	const uint32_t width = tower_width(&a->unit);
	assert(rows <= a->rows && h->uses <= a->uses);
	if (h->uses == 0) /* the field is 0 already */
		return;
	ops->pair_features(b, a->pairs, embeddings, h->index, x, h->target, a->dim, h->uses);
	const float *out = tower_forward(&a->unit, a->pairs, h->uses, params, mode);
	ops->gemm(b, false, false, h->uses, 1, width, 1.0f, out, width, params + a->head, 1, 0.0f, a->weights, 1);
	ops->bias_act(b, a->weights, params + a->bias, h->uses, 1, ACT_NONE);
	ops->gather_pool(b, a->pooled, embeddings, unique, a->dim, h->offsets, h->index, a->weights, rows);
	ops->copy_rows(b, x, a->places, a->pooled, NULL, a->dim, rows);
}

/* From the weights' gradient to a->duses and a->dtarget. */
static void unit_backward(struct target_attention *a, const struct history *h, const float *embeddings, const float *x,
                          const float *params, float *dparams)
{
	struct backend *b = a->backend;
	const struct backend_ops *ops = b->ops;
	const uint32_t width = tower_width(&a->unit);
	ops->bias_act_backward(b, a->dweights, a->dweights, a->weights, dparams + a->bias, h->uses, 1, ACT_NONE);
	ops->gemm(b, true, false, 1, width, h->uses, 1.0f, a->dweights, 1, tower_output(&a->unit), width, 0.0f, dparams + a->head,
	          width);
	ops->gemm(b, false, false, h->uses, width, 1, 1.0f, a->dweights, 1, params + a->head, width, 0.0f,
	          tower_output_gradient(&a->unit), width);
	tower_backward(&a->unit, a->pairs, h->uses, params, dparams, a->dpairs, 4 * a->dim, false);
	ops->pair_features_backward(b, a->duses, a->dtarget, a->dpairs, embeddings, h->index, x, h->target, a->dim, h->uses);
}

void target_attention_backward(struct target_attention *a, const struct history *h, uint32_t rows, const float *embeddings,
                               const float *x, const float *params, float *dparams, float *dx)
{
	struct backend *b = a->backend;
	const struct backend_ops *ops = b->ops;
	const size_t n = (size_t)rows * a->dim, uses = h->uses;
	if (uses == 0) {
		ops->fill(b, dparams + a->first, 0.0f, a->count);
		return;
	}
	float *dpooled = a->pooled, *weighed = a->pairs; /* which are free by then */
	ops->copy_rows(b, dpooled, NULL, dx, a->places, a->dim, rows);
	ops->row_dots(b, a->dweights, dpooled, h->row, embeddings, h->index, a->dim, uses);
	unit_backward(a, h, embeddings, x, params, dparams);
	ops->gather_pool(b, weighed, dpooled, rows, a->dim, a->numbers, h->row, a->weights, uses);
	ops->axpy(b, a->duses, 1.0f, weighed, uses * a->dim);
	/* dx of the target += the sum over its history */
	ops->gather_pool(b, a->sum, a->dtarget, uses, a->dim, h->offsets, a->numbers, NULL, rows);
	ops->copy_rows(b, a->pooled, NULL, dx, a->targets, a->dim, rows);
	ops->axpy(b, a->sum, 1.0f, a->pooled, n);
	ops->copy_rows(b, dx, a->targets, a->sum, NULL, a->dim, rows);
	ops->fill(b, a->sum, 0.0f, n);
	ops->copy_rows(b, dx, a->places, a->sum, NULL, a->dim, rows);
}

void target_attention_scatter(struct target_attention *a, const struct history *h, float *drows, size_t unique)
{
	struct backend *b = a->backend;
	assert(unique <= a->unique);
	if (h->uses == 0)
		return;
	b->ops->scatter_sum(b, a->more, unique, a->dim, a->duses, a->numbers, h->index, NULL, h->uses, h->uses);
	b->ops->axpy(b, drows, 1.0f, a->more, unique * a->dim);
}
