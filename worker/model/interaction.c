#include "worker/model/interaction.h"

#include <assert.h>

#include "worker/model/scratch.h"

static size_t vector_count(const struct interaction *i)
{
	return i->fields + (i->bottom ? 1 : 0);
}

static size_t pair_count(const struct interaction *i)
{
	return vector_count(i) * (vector_count(i) - 1) / 2;
}

void interaction_init(struct interaction *i, struct backend *b, uint32_t fields, uint32_t dim, bool bottom)
{
	*i = (struct interaction){.backend = b, .fields = fields, .dim = dim, .bottom = bottom};
}

void interaction_destroy(struct interaction *i)
{
	scratch_free(i->backend, &i->features);
	scratch_free(i->backend, &i->dfeatures);
	*i = (struct interaction){0};
}

weir_status interaction_reserve(struct interaction *i, uint32_t rows)
{
	if (rows <= i->rows)
		return WEIR_OK;
	const size_t elements = (size_t)rows * interaction_width(i);
	i->rows = 0;
	if (scratch_grow(i->backend, &i->features, elements) != WEIR_OK ||
	    scratch_grow(i->backend, &i->dfeatures, elements) != WEIR_OK)
		return WEIR_E_MEMORY;
	i->rows = rows;
	return WEIR_OK;
}

uint32_t interaction_width(const struct interaction *i)
{
	return (uint32_t)pair_count(i) + (i->bottom ? i->dim : 0);
}

const float *interaction_forward(struct interaction *i, const float *bottom, const float *x, uint32_t rows)
{
	assert(rows <= i->rows && (bottom != NULL) == i->bottom);
	i->backend->ops->dot_interaction(i->backend, i->features, bottom, x, rows, i->fields, i->dim);
	return i->features;
}

float *interaction_output_gradient(struct interaction *i)
{
	return i->dfeatures;
}

void interaction_backward(struct interaction *i, const float *bottom, const float *x, uint32_t rows, float *dbottom, float *dx)
{
	assert((bottom != NULL) == i->bottom && (dbottom != NULL) == i->bottom);
	i->backend->ops->dot_interaction_backward(i->backend, dbottom, dx, i->dfeatures, bottom, x, rows, i->fields, i->dim);
}
