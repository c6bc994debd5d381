#include "worker/data/format/rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void rows_init(struct rows *r, struct row_shape shape, bool bags)
{
	*r = (struct rows){.tasks = shape.tasks, .fields = shape.fields, .dense_dim = shape.dense_dim, .bags = bags, .one_hot = true};
}

void rows_destroy(struct rows *r)
{
	free(r->labels);
	free(r->weights);
	free(r->dense);
	free(r->values);
	free(r->offsets);
	free(r->keys);
	free(r->groups);
	rows_init(r, (struct row_shape){r->tasks, r->fields, r->dense_dim}, r->bags);
}

void rows_clear(struct rows *r)
{
	r->count = 0;
	r->keys_count = 0;
	r->weighted = r->valued = r->grouped = false;
	r->one_hot = true;
}

static bool grow(void *column, size_t element, size_t elements)
{
	void **p = column;
	void *larger = realloc(*p, element * elements + 64);
	if (!larger)
		return false;
	*p = larger;
	return true;
}

static bool grow_rows(struct rows *r, uint32_t count)
{
	const uint32_t needed = r->count + count, twice = r->capacity == 0 ? 256 : r->capacity * 2;
	const uint32_t capacity = needed > twice ? needed : twice;
	if (!grow(&r->labels, sizeof(float), (size_t)capacity * r->tasks) ||
	    !grow(&r->dense, sizeof(float), (size_t)capacity * r->dense_dim))
		return false;
	if (r->bags) {
		if (!grow(&r->weights, sizeof(float), capacity) || !grow(&r->groups, sizeof(uint64_t), capacity) ||
		    !grow(&r->offsets, sizeof(uint32_t), (size_t)capacity * r->fields + 1))
			return false;
		r->offsets[0] = 0;
	}
	r->capacity = capacity;
	return true;
}

static bool grow_keys(struct rows *r, size_t keys)
{
	const size_t needed = r->keys_count + keys + 1024, twice = r->keys_capacity * 2;
	const size_t capacity = needed > twice ? needed : twice;
	if (!grow(&r->keys, sizeof(uint64_t), capacity) || (r->bags && !grow(&r->values, sizeof(float), capacity)))
		return false;
	r->keys_capacity = capacity;
	return true;
}

bool rows_reserve_many(struct rows *r, uint32_t count, size_t keys)
{
	return (r->capacity - r->count >= count || grow_rows(r, count)) &&
	       (r->keys_count + keys <= r->keys_capacity || grow_keys(r, keys));
}

bool rows_reserve(struct rows *r, size_t keys)
{
	return rows_reserve_many(r, 1, keys);
}

struct rows_view rows_as_view(const struct rows *r)
{
	bool plain = !r->bags;
	return (struct rows_view){
	    .count = r->count,
	    .tasks = r->tasks,
	    .fields = r->fields,
	    .dense_dim = r->dense_dim,
	    .labels = r->labels,
	    .weights = plain || !r->weighted ? NULL : r->weights,
	    .dense = r->dense_dim > 0 ? r->dense : NULL,
	    .offsets = plain || r->one_hot ? NULL : r->offsets,
	    .keys = r->keys,
	    .values = plain || !r->valued ? NULL : r->values,
	    .groups = plain || !r->grouped ? NULL : r->groups,
	    .keys_count = r->keys_count,
	};
}

/* Appends what only rows with bags have. */
static void append_bags(struct rows *r, const struct rows_view *v, uint32_t first, uint32_t count, size_t begin, size_t keys)
{
	const size_t bags = (size_t)count * v->fields;
	uint32_t *offsets = r->offsets + (size_t)r->count * r->fields + 1;
	const uint32_t *from = v->offsets ? v->offsets + (size_t)first * v->fields + 1 : NULL;
	for (size_t i = 0; i < bags; i++)
		offsets[i] = (uint32_t)(r->keys_count + (from ? from[i] - begin : i + 1));
	for (uint32_t i = 0; i < count; i++) {
		r->weights[r->count + i] = v->weights ? v->weights[first + i] : 1.0f;
		r->groups[r->count + i] = v->groups ? v->groups[first + i] : 0;
	}
	for (size_t i = 0; i < keys; i++)
		r->values[r->keys_count + i] = v->values ? v->values[begin + i] : 1.0f;
	r->weighted |= v->weights != NULL;
	r->valued |= v->values != NULL;
	r->grouped |= v->groups != NULL;
	r->one_hot &= !v->offsets;
}

bool rows_append(struct rows *r, const struct rows_view *v, uint32_t first, uint32_t count)
{
	const size_t row = first, end = row + count, fields = v->fields;
	const size_t begin = v->offsets ? v->offsets[row * fields] : row * fields;
	const size_t keys = (v->offsets ? v->offsets[end * fields] : end * fields) - begin;
	if (count > UINT32_MAX / 2 - r->count || (r->bags && keys > UINT32_MAX - r->keys_count) || !rows_reserve_many(r, count, keys))
		return false;
	memcpy(r->labels + (size_t)r->count * r->tasks, v->labels + row * r->tasks, (size_t)count * r->tasks * sizeof *r->labels);
	if (r->dense_dim > 0)
		memcpy(r->dense + (size_t)r->count * r->dense_dim, v->dense + row * r->dense_dim,
		       (size_t)count * r->dense_dim * sizeof *r->dense);
	if (keys > 0)
		memcpy(r->keys + r->keys_count, v->keys + begin, keys * sizeof *r->keys);
	if (r->bags)
		append_bags(r, v, first, count, begin, keys);
	r->count += count;
	r->keys_count += keys;
	return true;
}

static size_t aligned(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

/* Returns the batch's memory, grown if needed; NULL when out of memory. */
static uint8_t *batch_memory(struct batch *b, size_t bytes)
{
	if (b->memory && b->capacity >= bytes)
		return b->memory;
	free(b->memory);
	void *memory = aligned_alloc(64, aligned(bytes + 1));
	*b = (struct batch){.capacity = !memory ? 0 : bytes, .memory = memory};
	return memory;
}

bool batch_reserve(struct batch *b, uint32_t rows, struct row_shape shape, size_t keys, struct batch_columns has)
{
	size_t bags = (size_t)rows * shape.fields;
	size_t keys_at = 0, groups_at = aligned(keys * sizeof(uint64_t));
	size_t labels_at = groups_at + (has.groups ? aligned(rows * sizeof(uint64_t)) : 0);
	size_t weights_at = labels_at + aligned((size_t)rows * shape.tasks * sizeof(float));
	size_t dense_at = weights_at + (has.weights ? aligned(rows * sizeof(float)) : 0);
	size_t offsets_at = dense_at + aligned((size_t)rows * shape.dense_dim * sizeof(float));
	size_t values_at = offsets_at + aligned((bags + 1) * sizeof(uint32_t));
	size_t bytes = values_at + (has.values ? aligned(keys * sizeof(float)) : 0);
	uint8_t *base = batch_memory(b, bytes);
	if (!base)
		return false;
	*b = (struct batch){.rows = 0,
	                    .tasks = shape.tasks,
	                    .fields = shape.fields,
	                    .dense_dim = shape.dense_dim,
	                    .keys = (uint64_t *)(base + keys_at),
	                    .labels = (float *)(base + labels_at),
	                    .weights = has.weights ? (float *)(base + weights_at) : NULL,
	                    .dense = shape.dense_dim > 0 ? (float *)(base + dense_at) : NULL,
	                    .offsets = (uint32_t *)(base + offsets_at),
	                    .values = has.values ? (float *)(base + values_at) : NULL,
	                    .groups = has.groups ? (uint64_t *)(base + groups_at) : NULL,
	                    .memory = b->memory,
	                    .capacity = b->capacity};
	b->offsets[0] = 0;
	return true;
}

bool batch_reserve_tokens(struct batch *b, uint32_t rows, uint32_t context)
{
	const size_t targets_at = aligned((size_t)rows * context * sizeof(uint32_t));
	uint8_t *base = batch_memory(b, targets_at + rows * sizeof(uint32_t));
	if (!base)
		return false;
	*b = (struct batch){.context = context,
	                    .tokens = (uint32_t *)base,
	                    .targets = (uint32_t *)(base + targets_at),
	                    .memory = b->memory,
	                    .capacity = b->capacity};
	return true;
}

bool batch_reserve_sequences(struct batch *b, uint32_t rows, uint32_t sequence)
{
	const size_t targets_at = aligned((size_t)rows * sequence * sizeof(uint32_t));
	uint8_t *base = batch_memory(b, 2 * targets_at);
	if (!base)
		return false;
	*b = (struct batch){.sequence = sequence,
	                    .tokens = (uint32_t *)base,
	                    .targets = (uint32_t *)(base + targets_at),
	                    .memory = b->memory,
	                    .capacity = b->capacity};
	return true;
}

void batch_append(struct batch *b, const struct rows_view *v, uint32_t i)
{
	uint32_t r = b->rows, fields = v->fields;
	uint32_t *offsets = b->offsets + (size_t)r * fields;
	uint32_t at = offsets[0];
	memcpy(b->labels + (size_t)r * v->tasks, v->labels + (size_t)i * v->tasks, v->tasks * sizeof(float));
	if (b->weights)
		b->weights[r] = v->weights ? v->weights[i] : 1.0f;
	if (b->groups)
		b->groups[r] = v->groups ? v->groups[i] : 0;
	if (b->dense)
		memcpy(b->dense + (size_t)r * v->dense_dim, v->dense + (size_t)i * v->dense_dim, v->dense_dim * sizeof(float));
	size_t first = (size_t)i * fields, count = fields;
	if (!v->offsets) {
		for (uint32_t f = 1; f <= fields; f++)
			offsets[f] = at + f;
	} else {
		const uint32_t *from = v->offsets + first;
		for (uint32_t f = 1; f <= fields; f++)
			offsets[f] = at + from[f] - from[0];
		first = from[0];
		count = from[fields] - from[0];
	}
	if (count > 0) /* `keys` may be NULL if no row has any */
		memcpy(b->keys + at, v->keys + first, count * sizeof(uint64_t));
	if (b->values) {
		for (size_t k = 0; k < count; k++)
			b->values[at + k] = v->values ? v->values[first + k] : 1.0f;
	}
	b->rows++;
}

void batch_destroy(struct batch *b)
{
	free(b->memory);
	*b = (struct batch){0};
}
