#include "server/store/row_batch.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are stored as they lie in memory");
_Static_assert(sizeof(struct row_meta) == ROW_META_BYTES && offsetof(struct row_meta, count) == 20, "as drawn in row_batch.h");

#define ITEMS_FIRST 64u
#define DATA_FIRST  8192u

static weir_status grow(struct row_batch *b, size_t bytes)
{
	if (b->count == b->capacity) {
		size_t capacity = b->capacity ? 2 * b->capacity : ITEMS_FIRST;
		struct row_item *items = realloc(b->items, capacity * sizeof *items);
		if (!items)
			return WEIR_E_MEMORY;
		b->items = items;
		b->capacity = capacity;
	}
	if (b->data_bytes + bytes > b->data_capacity) {
		size_t capacity = b->data_capacity ? b->data_capacity : DATA_FIRST;
		while (capacity < b->data_bytes + bytes)
			capacity *= 2;
		uint8_t *data = realloc(b->data, capacity);
		if (!data)
			return WEIR_E_MEMORY;
		b->data = data;
		b->data_capacity = capacity;
	}
	return WEIR_OK;
}

/* Adds an item and returns the place for its bytes in *data. */
static weir_status add(struct row_batch *b, struct row_item item, uint64_t version, uint8_t **data)
{
	if (grow(b, item.bytes))
		return WEIR_E_MEMORY;
	item.offset = b->data_bytes;
	b->items[b->count++] = item;
	b->data_bytes += item.bytes;
	if (version > b->version_max)
		b->version_max = version;
	*data = b->data + item.offset;
	return WEIR_OK;
}

weir_status row_batch_add(struct row_batch *b, uint32_t table, uint64_t key, const struct row_meta *meta, const float *row,
                          size_t floats)
{
	const struct row_item item = {.key = key, .table = table, .bytes = (uint32_t)(ROW_META_BYTES + floats * sizeof *row)};
	uint8_t *p;
	if (add(b, item, meta->version, &p))
		return WEIR_E_MEMORY;
	memcpy(p, meta, ROW_META_BYTES);
	if (floats)
		memcpy(p + ROW_META_BYTES, row, floats * sizeof *row);
	return WEIR_OK;
}

weir_status row_batch_add_bytes(struct row_batch *b, uint32_t table, uint64_t key, const uint8_t *bytes, size_t count)
{
	const struct row_item item = {.key = key, .table = table, .bytes = (uint32_t)count};
	uint8_t *p;
	if (add(b, item, count >= ROW_META_BYTES ? row_version(bytes) : 0, &p))
		return WEIR_E_MEMORY;
	memcpy(p, bytes, count);
	return WEIR_OK;
}

weir_status row_batch_add_removed(struct row_batch *b, uint32_t table, uint64_t key, uint64_t version)
{
	const struct row_item item = {.key = key, .table = table, .removed = true};
	uint8_t *none;
	return add(b, item, version, &none);
}

static int by_table_and_key(const void *a, const void *b)
{
	const struct row_item *x = a, *y = b;
	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static bool in_order(const struct row_batch *b)
{
	for (size_t i = 1; i < b->count; i++)
		if (by_table_and_key(&b->items[i - 1], &b->items[i]) > 0)
			return false;
	return true;
}

void row_batch_sort(struct row_batch *b)
{
	if (!in_order(b))
		qsort(b->items, b->count, sizeof *b->items, by_table_and_key);
}

void row_batch_clear(struct row_batch *b)
{
	b->count = b->data_bytes = 0;
	b->version_max = 0;
}

void row_batch_destroy(struct row_batch *b)
{
	free(b->items);
	free(b->data);
	*b = (struct row_batch){.partition = b->partition};
}

weir_status row_decode(const uint8_t *bytes, size_t count, struct row_meta *meta, const uint8_t **floats, size_t *floats_count)
{
	if (count < ROW_META_BYTES || (count - ROW_META_BYTES) % sizeof(float) != 0)
		return WEIR_E_CORRUPT;
	memcpy(meta, bytes, ROW_META_BYTES);
	*floats = bytes + ROW_META_BYTES;
	*floats_count = (count - ROW_META_BYTES) / sizeof(float);
	return WEIR_OK;
}
