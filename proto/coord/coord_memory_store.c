/* The store: records by key, and every change in order. */
#include "proto/coord/coord_memory_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void *coord_must_have(void *memory)
{
	assert(memory && "out of memory in a coordinator for tests");
	return memory;
}

/* Grows *array to hold at least one more element. */
static void grow(void *array, size_t count, size_t *capacity, size_t element)
{
	void **p = array;
	if (count < *capacity)
		return;
	*capacity = *capacity ? *capacity * 2 : 64;
	*p = coord_must_have(realloc(*p, *capacity * element));
}

/* --- Entries */

struct coord_entry *coord_entry_create(const char *key, const void *value, size_t value_bytes, uint64_t lease)
{
	size_t key_bytes = strlen(key) + 1;
	struct coord_entry *e = coord_must_have(malloc(sizeof *e + key_bytes + value_bytes));
	memcpy(e->bytes, key, key_bytes);
	if (value_bytes)
		memcpy(e->bytes + key_bytes, value, value_bytes);
	e->refs = 1;
	e->record = (struct coord_record){
	    .key = e->bytes, .value = value ? e->bytes + key_bytes : NULL, .value_bytes = value_bytes, .lease = lease};
	return e;
}

struct coord_entry *coord_entry_retain(struct coord_entry *e)
{
	e->refs++;
	return e;
}

void coord_entry_release(struct coord_entry *e)
{
	if (e && --e->refs == 0)
		free(e);
}

struct coord_record *coord_records_of(struct coord_entry *const *entries, uint32_t count)
{
	struct coord_record *records = coord_must_have(malloc((count + 1) * sizeof *records));
	for (uint32_t i = 0; i < count; i++)
		records[i] = entries[i]->record;
	return records;
}

/* --- The store */

size_t coord_store_place(const struct coord_memory *m, const char *key)
{
	size_t low = 0, high = m->records_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(m->records[middle]->record.key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct coord_entry *coord_store_find(struct coord_memory *m, const char *key)
{
	size_t i = coord_store_place(m, key);
	return i < m->records_count && strcmp(m->records[i]->record.key, key) == 0 ? m->records[i] : NULL;
}

static void put(struct coord_memory *m, struct coord_entry *e)
{
	size_t i = coord_store_place(m, e->record.key), after = m->records_count - i;
	bool there = coord_store_find(m, e->record.key) != NULL;
	if (there)
		coord_entry_release(m->records[i]);
	if (e->record.value && !there) {
		grow(&m->records, m->records_count, &m->records_capacity, sizeof *m->records);
		memmove(m->records + i + 1, m->records + i, after * sizeof *m->records);
		m->records_count++;
	} else if (!e->record.value) {
		memmove(m->records + i, m->records + i + 1, (after - 1) * sizeof *m->records);
		m->records_count--;
	}
	if (e->record.value)
		m->records[i] = coord_entry_retain(e);
}

void coord_store_apply(struct coord_memory *m, struct coord_entry *const *entries, size_t count)
{
	uint64_t revision = m->revision + 1;
	for (size_t i = 0; i < count; i++) {
		struct coord_entry *e = entries[i];
		if (!e->record.value && !coord_store_find(m, e->record.key)) {
			coord_entry_release(e);
			continue;
		}
		e->record.mod_revision = m->revision = revision;
		put(m, e);
		grow(&m->history, m->history_count, &m->history_capacity, sizeof *m->history);
		m->history[m->history_count++] = (struct coord_event){e, clock_ns(m->clock)};
	}
}

void coord_store_end_lease(struct coord_memory *m, uint64_t lease)
{
	struct coord_entry **gone = coord_must_have(malloc((m->records_count + 1) * sizeof *gone));
	size_t count = 0;
	for (size_t i = 0; i < m->records_count; i++)
		if (m->records[i]->record.lease == lease)
			gone[count++] = coord_entry_create(m->records[i]->record.key, NULL, 0, 0);
	coord_store_apply(m, gone, count);
	free(gone);
}

size_t coord_store_since(const struct coord_memory *m, uint64_t revision)
{
	size_t low = 0, high = m->history_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (m->history[middle].entry->record.mod_revision < revision)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void coord_memory_compact(struct coord_memory *m, uint64_t revision)
{
	pthread_mutex_lock(&m->lock);
	assert(revision <= m->revision);
	size_t forgotten = coord_store_since(m, revision + 1);
	for (size_t i = 0; i < forgotten; i++)
		coord_entry_release(m->history[i].entry);
	m->history_count -= forgotten;
	if (forgotten)
		memmove(m->history, m->history + forgotten, m->history_count * sizeof *m->history);
	m->compacted = revision > m->compacted ? revision : m->compacted;
	pthread_mutex_unlock(&m->lock);
}

uint64_t coord_memory_revision(struct coord_memory *m)
{
	pthread_mutex_lock(&m->lock);
	uint64_t revision = m->revision;
	pthread_mutex_unlock(&m->lock);
	return revision;
}

struct coord_memory *coord_memory_create(const struct clock *clock)
{
	struct coord_memory *m = coord_must_have(calloc(1, sizeof *m));
	m->clock = clock;
	m->revision = 1;
	rpc_link_init(&m->sessions);
	pthread_mutex_init(&m->lock, NULL);
	return m;
}

void coord_memory_destroy(struct coord_memory *m)
{
	while (!rpc_link_empty(&m->sessions)) { /* crashed ones, whose leases have not run out */
		struct rpc_link *l = m->sessions.next;
		rpc_link_remove(l);
		free(l);
	}
	for (size_t i = 0; i < m->records_count; i++)
		coord_entry_release(m->records[i]);
	for (size_t i = 0; i < m->history_count; i++)
		coord_entry_release(m->history[i].entry);
	free(m->records);
	free(m->history);
	pthread_mutex_destroy(&m->lock);
	free(m);
}
