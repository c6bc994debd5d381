#include "worker/client/partition_keys.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "common/base/limits.h"
#include "worker/client/key_order.h"

static weir_status allocate(struct partition_keys *s, size_t rows, uint32_t partitions)
{
	*s = (struct partition_keys){0};
	if (rows > UINT32_MAX)
		return WEIR_E_LIMIT;
	s->offsets = calloc(partitions + 1u, sizeof *s->offsets);
	s->keys = malloc(rows * sizeof *s->keys + 1);
	s->order = malloc(rows * sizeof *s->order + 1);
	if (s->offsets && s->keys && s->order)
		return WEIR_OK;
	partition_keys_destroy(s);
	return WEIR_E_MEMORY;
}

void partition_keys_destroy(struct partition_keys *s)
{
	free(s->offsets);
	free(s->keys);
	free(s->order);
	*s = (struct partition_keys){0};
}

/* owner (rows): each row's partition. Turns counts into group starts and scatters; leaves offsets
 * pointing at group starts. */
static void scatter(struct partition_keys *s, const uint64_t *keys, const uint16_t *owner, size_t rows, uint32_t partitions)
{
	uint32_t next[WEIR_PARTITIONS_MAX];
	for (size_t i = 0; i < rows; i++)
		s->offsets[owner[i] + 1u]++;
	for (uint32_t p = 0; p < partitions; p++) {
		next[p] = s->offsets[p];
		s->offsets[p + 1] += s->offsets[p];
	}
	for (size_t i = 0; i < rows; i++) {
		uint32_t at = next[owner[i]]++;
		s->keys[at] = keys ? keys[i] : i;
		s->order[at] = (uint32_t)i;
	}
}

static bool order_groups(struct partition_keys *s, size_t rows, uint32_t partitions)
{
	uint64_t *keys = malloc(rows * sizeof *keys + 1);
	uint32_t *order = malloc(rows * sizeof *order + 1);
	for (uint32_t p = 0; keys && order && p < partitions; p++) {
		const uint32_t begin = s->offsets[p];
		key_order(s->keys + begin, s->order + begin, s->offsets[p + 1] - begin, keys, order);
	}
	const bool done = keys && order;
	free(keys);
	free(order);
	return done;
}

weir_status partition_keys_split(struct partition_keys *s, uint32_t table, const uint64_t *keys, size_t rows, uint32_t partitions)
{
	weir_status status = allocate(s, rows, partitions);
	if (status != WEIR_OK)
		return status;
	uint16_t *owner = malloc(rows * sizeof *owner + 1);
	if (!owner) {
		partition_keys_destroy(s);
		return WEIR_E_MEMORY;
	}
	for (size_t i = 0; i < rows; i++)
		owner[i] = (uint16_t)placement_embedding(table, keys[i], partitions);
	scatter(s, keys, owner, rows, partitions);
	free(owner);
	if (order_groups(s, rows, partitions))
		return WEIR_OK;
	partition_keys_destroy(s);
	return WEIR_E_MEMORY;
}

bool chunks_are_listed(const weir_table_spec *spec, const uint64_t *chunks, size_t count)
{
	bool rising = true;
	for (size_t i = 1; chunks && i < count; i++)
		rising &= chunks[i - 1] < chunks[i];
	return !chunks || (rising && (!count || chunks[count - 1] < weir_chunks(spec->elements)));
}

weir_status partition_chunks_split(struct partition_keys *s, uint32_t table, const uint64_t *chunks, uint64_t count,
                                   uint32_t partitions)
{
	weir_status status = allocate(s, count, partitions);
	if (status != WEIR_OK)
		return status;
	uint16_t *owner = malloc(count * sizeof *owner + 1);
	if (!owner) {
		partition_keys_destroy(s);
		return WEIR_E_MEMORY;
	}
	for (uint64_t i = 0; i < count; i++)
		owner[i] = (uint16_t)placement_dense(table, chunks ? chunks[i] : i, partitions);
	scatter(s, chunks, owner, count, partitions);
	free(owner);
	return WEIR_OK;
}
