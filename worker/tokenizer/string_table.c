#include "worker/tokenizer/string_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"

enum { SHOWN = 60 };

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a vocabulary");
}

/* The slot of the string, or the unused one where it would go. The table must have slots. */
static uint32_t slot_of(const struct string_table *t, const char *string, size_t bytes)
{
	uint32_t slot = (uint32_t)hash_bytes(string, bytes, 0) & (t->slots_count - 1);
	for (; t->slots[slot] != STRING_NONE; slot = (slot + 1) & (t->slots_count - 1)) {
		const struct string_place *p = &t->places[t->slots[slot]];
		if (p->bytes == bytes && memcmp(t->block + p->at, string, bytes) == 0)
			break;
	}
	return slot;
}

static weir_status grow_slots(struct string_table *t, weir_error *err)
{
	if ((t->count + 1) * 2 <= t->slots_count)
		return WEIR_OK;
	const uint32_t old = t->slots_count, count = old == 0 ? 1024 : old * 2;
	uint32_t *slots = malloc(count * sizeof *slots), *before = t->slots;
	if (!slots)
		return out_of_memory(err);
	memset(slots, 0xff, count * sizeof *slots);
	t->slots = slots;
	t->slots_count = count;
	for (uint32_t i = 0; i < old; i++) {
		if (before[i] == STRING_NONE)
			continue;
		const struct string_place *p = &t->places[before[i]];
		slots[slot_of(t, t->block + p->at, p->bytes)] = before[i];
	}
	free(before);
	return WEIR_OK;
}

static weir_status grow_places(struct string_table *t, uint32_t id, weir_error *err)
{
	if (id >= t->ids_capacity) {
		uint32_t capacity = t->ids_capacity * 2 > 1024 ? t->ids_capacity * 2 : 1024;
		while (capacity <= id)
			capacity *= 2;
		struct string_place *larger = realloc(t->places, capacity * sizeof *larger);
		if (!larger)
			return out_of_memory(err);
		memset(larger + t->ids_capacity, 0xff, (capacity - t->ids_capacity) * sizeof *larger);
		t->places = larger;
		t->ids_capacity = capacity;
	}
	return WEIR_OK;
}

static weir_status grow_block(struct string_table *t, size_t bytes, weir_error *err)
{
	if (bytes > UINT32_MAX - 1 - t->used)
		return weir_fail(err, WEIR_E_LIMIT, "a vocabulary of more than 4 GiB of text");
	if (t->block && t->used + bytes <= t->capacity)
		return WEIR_OK;
	const size_t capacity = (t->used + bytes) * 2 + 4096;
	char *larger = realloc(t->block, capacity);
	if (!larger)
		return out_of_memory(err);
	t->block = larger;
	t->capacity = capacity;
	return WEIR_OK;
}

weir_status string_table_add(struct string_table *t, const char *string, size_t bytes, uint32_t id, weir_error *err)
{
	const int shown = bytes < SHOWN ? (int)bytes : SHOWN;
	if (id >= WEIR_VOCABULARY_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "the token '%.*s' has the id %u; ids are to be below %u", shown, string, id,
		                 WEIR_VOCABULARY_MAX);
	if (id < t->ids && t->places[id].at != STRING_NONE)
		return weir_fail(err, WEIR_E_INVALID, "the id %u is that of two tokens; one is '%.*s'", id, shown, string);
	weir_status status = grow_slots(t, err);
	if (status == WEIR_OK)
		status = grow_places(t, id, err);
	if (status == WEIR_OK)
		status = grow_block(t, bytes, err);
	if (status != WEIR_OK)
		return status;
	const uint32_t slot = slot_of(t, string, bytes);
	if (t->slots[slot] != STRING_NONE)
		return weir_fail(err, WEIR_E_INVALID, "the token '%.*s' has two ids: %u and %u", shown, string, t->slots[slot], id);
	if (bytes > 0)
		memcpy(t->block + t->used, string, bytes);
	t->places[id] = (struct string_place){(uint32_t)t->used, (uint32_t)bytes};
	t->used += bytes;
	t->slots[slot] = id;
	t->count++;
	t->ids = id >= t->ids ? id + 1 : t->ids;
	return WEIR_OK;
}

uint32_t string_table_find(const struct string_table *t, const char *string, size_t bytes)
{
	return t->slots_count == 0 ? STRING_NONE : t->slots[slot_of(t, string, bytes)];
}

const char *string_table_get(const struct string_table *t, uint32_t id, size_t *bytes)
{
	if (id >= t->ids || t->places[id].at == STRING_NONE)
		return NULL;
	*bytes = t->places[id].bytes;
	return t->block + t->places[id].at;
}

void string_table_destroy(struct string_table *t)
{
	free(t->block);
	free(t->places);
	free(t->slots);
	*t = (struct string_table){0};
}
