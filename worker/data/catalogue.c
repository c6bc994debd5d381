#include "worker/data/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "worker/data/item_counts.h"

/* Reading the data. */
struct reading {
	struct catalogue *catalogue;
	uint32_t field;
	bool *of_item; /* (fields) the item's tower reads it */
};

static bool *item_fields(const struct job *job, uint32_t fields)
{
	bool *of_item = calloc(fields + 1, sizeof *of_item);
	for (uint32_t i = 0; of_item && i < job->model.item_count; i++) {
		const struct job_column *c = job_column_find(job, job->model.item[i]);
		if (job_column_is_field(c))
			of_item[job_column_field(job, c)] = true;
	}
	return of_item;
}

static void append(const struct reading *g, const struct batch *b, uint32_t row)
{
	struct rows *r = &g->catalogue->rows;
	const uint32_t *offsets = &b->offsets[(size_t)row * b->fields];
	const size_t first = (size_t)r->count * r->fields;
	for (uint32_t t = 0; t < r->tasks; t++)
		r->labels[(size_t)r->count * r->tasks + t] = 1;
	r->weights[r->count] = 1;
	r->groups[r->count] = 0;
	if (b->dense)
		memcpy(r->dense + (size_t)r->count * r->dense_dim, b->dense + (size_t)row * b->dense_dim,
		       b->dense_dim * sizeof *b->dense);
	for (uint32_t f = 0; f < r->fields; f++) {
		for (uint32_t k = offsets[f]; g->of_item[f] && k < offsets[f + 1]; k++) {
			r->keys[r->keys_count] = b->keys[k];
			r->values[r->keys_count++] = b->values ? b->values[k] : 1;
		}
		r->offsets[first + f + 1] = (uint32_t)r->keys_count;
	}
	r->valued |= b->values != NULL;
	r->one_hot = false;
	r->count++;
}

static weir_status take_batch(void *arg, const struct batch *b, weir_error *err)
{
	struct reading *g = arg;
	struct catalogue *c = g->catalogue;
	for (uint32_t i = 0; i < b->rows; i++) {
		const uint32_t *offsets = &b->offsets[(size_t)i * b->fields];
		uint32_t number;
		if (item_index_find(&c->items, b->keys[offsets[g->field]], &number))
			continue;
		if (!rows_reserve(&c->rows, offsets[b->fields] - offsets[0]) ||
		    !item_index_add(&c->items, b->keys[offsets[g->field]], &number))
			return weir_fail(err, WEIR_E_MEMORY, "out of memory for a catalogue of %u items", c->items.count);
		append(g, b, i);
	}
	return WEIR_OK;
}

static weir_status read_part(struct reading *g, const struct job *job, enum split_part part, weir_error *err)
{
	struct dataset *d;
	weir_status status = dataset_open(&d, job, part, NULL, err);
	if (status != WEIR_OK)
		return status;
	const struct dataset_info *info = dataset_get_info(d);
	if (!g->of_item) {
		rows_init(&g->catalogue->rows, (struct row_shape){info->tasks, info->fields, info->dense_dim}, true);
		g->of_item = item_fields(job, info->fields);
	}
	status = g->of_item ? dataset_each_batch(d, UINT64_MAX, take_batch, g, err)
	                    : weir_fail(err, WEIR_E_MEMORY, "out of memory for a catalogue");
	dataset_close(d);
	return status;
}

static weir_status read_parts(struct catalogue *out, const struct job *job, uint32_t field, bool all, weir_error *err)
{
	struct reading g = {.catalogue = out, .field = field};
	*out = (struct catalogue){0};
	weir_status status = read_part(&g, job, SPLIT_TRAIN, err);
	if (status == WEIR_OK && all && job_has_valid(job))
		status = read_part(&g, job, SPLIT_VALID, err);
	if (status == WEIR_OK && all && job_has_test(job))
		status = read_part(&g, job, SPLIT_TEST, err);
	free(g.of_item);
	return status;
}

weir_status catalogue_read(struct catalogue *out, const struct job *job, uint32_t field, weir_error *err)
{
	return read_parts(out, job, field, true, err);
}

weir_status catalogue_read_training(struct catalogue *out, const struct job *job, uint32_t field, weir_error *err)
{
	return read_parts(out, job, field, false, err);
}

void catalogue_destroy(struct catalogue *c)
{
	item_index_destroy(&c->items);
	rows_destroy(&c->rows);
}

weir_status catalogue_batch(const struct catalogue *c, uint32_t first, uint32_t count, struct batch *out, weir_error *err)
{
	const struct rows_view view = rows_as_view(&c->rows);
	const struct row_shape shape = {view.tasks, view.fields, view.dense_dim};
	const size_t keys = view.offsets[(size_t)(first + count) * view.fields] - view.offsets[(size_t)first * view.fields];
	if (!batch_reserve(out, count, shape, keys, (struct batch_columns){.values = view.values != NULL}))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch of %u items", count);
	for (uint32_t i = first; i < first + count; i++)
		batch_append(out, &view, i);
	return WEIR_OK;
}
