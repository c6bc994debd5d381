#include "worker/model/click_look_up.h"

#include <stdlib.h>

#include "worker/model/index_array.h"
#include "worker/model/scratch.h"

static uint32_t greatest_divisor(uint32_t a, uint32_t b)
{
	while (b > 0) {
		const uint32_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

static weir_status find_max_fields(struct click_look_up *l, const struct job *job)
{
	struct backend *b = l->backend;
	const size_t bytes = l->fields * sizeof(uint32_t);
	uint32_t *is_max = calloc(1, bytes), at = 0;
	bool any = false;
	for (uint32_t group = 0; is_max && group < l->groups->count; group++)
		for (uint32_t f = 0; f < l->fields; f++) {
			if (l->groups->count > 1 && l->groups->of[f] != group)
				continue;
			const struct job_column *column = job_column_of_field(job, f);
			is_max[at] = column && column->pooling == POOLING_MAX;
			any |= is_max[at++];
		}
	if (any && (l->is_max = b->ops->buffer_alloc(b, bytes)) != NULL)
		b->ops->to_device(b, l->is_max, is_max, bytes);
	const bool done = is_max && (!any || l->is_max);
	free(is_max);
	return done ? WEIR_OK : WEIR_E_MEMORY;
}

weir_status click_look_up_init(struct click_look_up *l, struct backend *b, const struct job *job,
                               const struct field_groups *groups, uint32_t fields)
{
	*l = (struct click_look_up){
	    .backend = b, .groups = groups, .fields = fields, .columns = field_groups_columns(groups), .unit = groups->dim[0]};
	for (uint32_t i = 1; i < groups->count; i++)
		l->unit = greatest_divisor(l->unit, groups->dim[i]);
	return l->columns > 0 ? find_max_fields(l, job) : WEIR_OK;
}

void click_look_up_destroy(struct click_look_up *l)
{
	if (!l->backend)
		return;
	scratch_free(l->backend, &l->x);
	scratch_free(l->backend, &l->dx);
	scratch_free(l->backend, &l->grouped);
	scratch_free_words(l->backend, &l->is_max);
	scratch_free_words(l->backend, &l->chosen);
	scratch_free_words(l->backend, &l->places);
}

/* Writes the places of a group, and returns their number. */
static size_t write_places(const struct click_look_up *l, uint32_t group, uint32_t rows, uint32_t *out)
{
	const struct field_groups *g = l->groups;
	size_t n = 0;
	for (uint32_t r = 0; r < rows; r++) {
		uint32_t place = r * (l->columns / l->unit);
		for (uint32_t f = 0; f < l->fields; f++) {
			const uint32_t runs = g->dim[g->of[f]] / l->unit;
			for (uint32_t k = 0; k < runs && g->of[f] == group; k++)
				out[n++] = place + k;
			place += runs;
		}
	}
	return n;
}

static weir_status put_places(struct click_look_up *l, uint32_t rows)
{
	const size_t n = (size_t)rows * l->columns / l->unit;
	uint32_t *host = n <= UINT32_MAX ? malloc(n * sizeof *host) : NULL;
	size_t written = 0;
	if (!host)
		return WEIR_E_MEMORY;
	for (uint32_t group = 0; group < l->groups->count; group++)
		written += write_places(l, group, rows, host + written);
	const weir_status status = index_array_put(l->backend, &l->places, host, n);
	free(host);
	return status;
}

weir_status click_look_up_reserve(struct click_look_up *l, uint32_t rows)
{
	const size_t n = (size_t)rows * l->columns;
	const bool several = l->groups->count > 1;
	weir_status status = scratch_grow(l->backend, &l->x, n);
	if (status == WEIR_OK)
		status = scratch_grow(l->backend, &l->dx, n);
	if (status == WEIR_OK && l->is_max)
		status = scratch_grow_words(l->backend, &l->chosen, n);
	if (status == WEIR_OK && several)
		status = scratch_grow(l->backend, &l->grouped, n);
	if (status == WEIR_OK && several)
		status = put_places(l, rows);
	l->rows = status == WEIR_OK ? rows : 0;
	return status;
}

/* One group of a batch. */
struct group {
	enum model_table table;
	size_t dim, fields, bags, unique, uses;
	const uint32_t *offsets, *index;
	const float *values;
	size_t before; /* fields of the groups before it */
	size_t at;     /* its first element among those of all groups */
	const uint32_t *places;
};

static struct group first_group(const struct click_look_up *l, const struct model_input *in)
{
	if (l->groups->count == 1)
		return (struct group){
		    .unique = in->unique, .uses = in->uses, .offsets = in->offsets, .index = in->index, .values = in->values};
	return (struct group){.unique = in->group_begin[1] - in->group_begin[0],
	                      .uses = in->group_uses[0],
	                      .offsets = in->group_offsets,
	                      .index = in->group_index,
	                      .values = in->group_values,
	                      .places = l->places};
}

static struct group group_of(const struct click_look_up *l, const struct model_input *in, uint32_t i)
{
	const struct field_groups *f = l->groups;
	struct group g = first_group(l, in);
	for (uint32_t k = 0; k < i; k++) {
		g.offsets += (size_t)in->rows * f->fields[k] + 1;
		g.index += g.uses;
		g.values = g.values ? g.values + g.uses : NULL;
		g.before += f->fields[k];
		g.at += (size_t)in->rows * f->fields[k] * f->dim[k];
		g.places += (size_t)l->rows * f->fields[k] * (f->dim[k] / l->unit);
		g.unique = in->group_begin[k + 2] - in->group_begin[k + 1];
		g.uses = in->group_uses[k + 1];
	}
	g.table = model_group_table(i);
	g.dim = f->dim[i];
	g.fields = f->fields[i];
	g.bags = in->rows * g.fields;
	return g;
}

static void gather(struct click_look_up *l, const struct group *g, const float *rows, float *out)
{
	struct backend *b = l->backend;
	b->ops->gather_pool(b, out, rows, g->unique, g->dim, g->offsets, g->index, g->values, g->bags);
	if (l->is_max)
		b->ops->gather_max(b, out, l->chosen + g->at, rows, g->dim, g->offsets, g->index, l->is_max + g->before, g->fields,
		                   g->bags);
}

void click_look_up_forward(struct click_look_up *l, const struct model_input *in)
{
	struct backend *b = l->backend;
	const bool several = l->groups->count > 1;
	for (uint32_t i = 0; i < l->groups->count && l->columns > 0; i++) {
		const struct group g = group_of(l, in, i);
		float *out = several ? l->grouped + g.at : l->x;
		gather(l, &g, in->parameters[g.table], out);
		if (several)
			b->ops->copy_rows(b, l->x, g.places, out, NULL, l->unit, g.bags * g.dim / l->unit);
	}
}

static void scatter(struct click_look_up *l, const struct group *g, const float *dx, float *drows)
{
	struct backend *b = l->backend;
	if (l->is_max)
		b->ops->scatter_chosen(b, drows, g->unique, g->dim, dx, l->chosen + g->at, g->offsets, g->index, g->values, g->bags,
		                       g->uses);
	else
		b->ops->scatter_sum(b, drows, g->unique, g->dim, dx, g->offsets, g->index, g->values, g->bags, g->uses);
}

void click_look_up_backward(struct click_look_up *l, const struct model_input *in, float *const *gradients)
{
	struct backend *b = l->backend;
	const bool several = l->groups->count > 1;
	for (uint32_t i = 0; i < l->groups->count && l->columns > 0; i++) {
		const struct group g = group_of(l, in, i);
		float *dx = several ? l->grouped + g.at : l->dx;
		if (several)
			b->ops->copy_rows(b, dx, NULL, l->dx, g.places, l->unit, g.bags * g.dim / l->unit);
		scatter(l, &g, dx, gradients[g.table]);
	}
}
