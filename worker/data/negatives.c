#include "worker/data/negatives.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/prng.h"
#include "worker/data/item_counts.h"

weir_status negatives_open(struct negatives *out, const struct job *job, uint32_t field, const struct item_index *counts,
                           weir_error *err)
{
	*out = (struct negatives){.count = job->model.negatives};
	weir_status status = catalogue_read_training(&out->catalogue, job, field, err);
	const uint32_t items = out->catalogue.items.count;
	if (status == WEIR_OK && !(out->ends = malloc((items + 1) * sizeof *out->ends)))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory for the chances of %u items", items);
	if (status != WEIR_OK)
		return status;
	double sum = 0;
	for (uint32_t i = 0; i < items; i++) {
		sum += pow(exp((double)item_counts_log_share(counts, out->catalogue.items.keys[i])), (double)job->model.negatives_power);
		out->ends[i] = sum;
	}
	for (uint32_t i = 0; i < items; i++)
		out->ends[i] /= sum;
	return WEIR_OK;
}

void negatives_destroy(struct negatives *n)
{
	catalogue_destroy(&n->catalogue);
	free(n->ends);
	*n = (struct negatives){0};
}

/* The item whose part of [0, 1) has x. */
static uint32_t item_at(const struct negatives *n, double x)
{
	uint32_t low = 0, high = n->catalogue.items.count - 1;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (n->ends[middle] > x)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct rows_view view_of(const struct batch *b)
{
	return (struct rows_view){.count = b->rows,
	                          .tasks = b->tasks,
	                          .fields = b->fields,
	                          .dense_dim = b->dense_dim,
	                          .labels = b->labels,
	                          .weights = b->weights,
	                          .dense = b->dense,
	                          .offsets = b->offsets,
	                          .keys = b->keys,
	                          .values = b->values,
	                          .groups = b->groups,
	                          .keys_count = b->offsets[(size_t)b->rows * b->fields]};
}

/* Keys of the longest item. */
static size_t most_keys(const struct rows_view *items)
{
	size_t most = 0;
	for (uint32_t i = 0; i < items->count; i++) {
		const uint32_t *bags = items->offsets + (size_t)i * items->fields;
		most = bags[items->fields] - bags[0] > most ? bags[items->fields] - bags[0] : most;
	}
	return most;
}

weir_status negatives_join(const struct negatives *n, const struct batch *batch, uint64_t seed, struct batch *out,
                           weir_error *err)
{
	const struct rows_view rows = view_of(batch), items = rows_as_view(&n->catalogue.rows);
	const struct row_shape shape = {rows.tasks, rows.fields, rows.dense_dim};
	const size_t keys = rows.keys_count + n->count * most_keys(&items);
	const struct batch_columns has = {.weights = rows.weights, .values = rows.values || items.values, .groups = rows.groups};
	struct prng prng;
	if (keys > UINT32_MAX || !batch_reserve(out, rows.count + n->count, shape, keys, has))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch of %u rows and %u negatives", rows.count, n->count);
	for (uint32_t i = 0; i < rows.count; i++)
		batch_append(out, &rows, i);
	prng_seed(&prng, seed);
	for (uint32_t i = 0; i < n->count; i++) {
		batch_append(out, &items, item_at(n, prng_unit(&prng)));
		out->labels[(size_t)(out->rows - 1) * out->tasks] = 0;
	}
	return WEIR_OK;
}

double negatives_chance(const struct negatives *n, uint64_t key)
{
	uint32_t item;
	if (!item_index_find(&n->catalogue.items, key, &item))
		return 0;
	return n->ends[item] - (item > 0 ? n->ends[item - 1] : 0);
}
