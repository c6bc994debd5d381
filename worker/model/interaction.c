#include "interaction.h"

#include <assert.h>

#include "scratch.h"

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

void interaction_free(struct interaction *i)
{
	float **buffers[] = {&i->vectors, &i->dvectors, &i->pairs, &i->dpairs, &i->features, &i->dfeatures, &i->dbottom};
	for (size_t j = 0; j < sizeof buffers / sizeof *buffers; j++)
		scratch_free(i->backend, buffers[j]);
	*i = (struct interaction){0};
}

weir_status interaction_reserve(struct interaction *i, uint32_t rows)
{
	if (rows <= i->rows)
		return WEIR_OK;
	struct {
		float **buffer;
		size_t width;
	} wanted[] = {
	    {&i->pairs, pair_count(i)},
	    {&i->dpairs, pair_count(i)},
	    {&i->vectors, vector_count(i) * i->dim},
	    {&i->dvectors, vector_count(i) * i->dim},
	    {&i->features, interaction_width(i)},
	    {&i->dfeatures, interaction_width(i)},
	    {&i->dbottom, i->dim},
	};
	size_t count = i->bottom ? sizeof wanted / sizeof *wanted : 2;
	i->rows = 0;
	for (size_t j = 0; j < count; j++)
		if (scratch_grow(i->backend, wanted[j].buffer, rows * wanted[j].width) != WEIR_OK)
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
	struct backend *b = i->backend;
	if (!i->bottom) {
		b->ops->dot_interaction(b, i->pairs, x, rows, i->fields, i->dim);
		return i->pairs;
	}
	b->ops->concat(b, i->vectors, bottom, i->dim, x, (size_t)i->fields * i->dim, rows);
	b->ops->dot_interaction(b, i->pairs, i->vectors, rows, vector_count(i), i->dim);
	b->ops->concat(b, i->features, bottom, i->dim, i->pairs, pair_count(i), rows);
	return i->features;
}

float *interaction_output_gradient(struct interaction *i)
{
	return i->bottom ? i->dfeatures : i->dpairs;
}

void interaction_backward(struct interaction *i, const float *x, uint32_t rows, float *dbottom, float *dx)
{
	struct backend *b = i->backend;
	if (!i->bottom) {
		b->ops->dot_interaction_backward(b, dx, i->dpairs, x, rows, i->fields, i->dim);
		return;
	}
	b->ops->split(b, i->dfeatures, dbottom, i->dim, i->dpairs, pair_count(i), rows);
	b->ops->dot_interaction_backward(b, i->dvectors, i->dpairs, i->vectors, rows, vector_count(i), i->dim);
	b->ops->split(b, i->dvectors, i->dbottom, i->dim, dx, (size_t)i->fields * i->dim, rows);
	b->ops->axpy(b, dbottom, 1.0f, i->dbottom, (size_t)rows * i->dim);
}
