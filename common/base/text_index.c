/* A hash table with linear probing, at most half full; the texts lie behind each other. */
#include "common/base/text_index.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"

#define SLOTS_FIRST 1024u
#define FREE        UINT32_MAX

struct entry {
	uint64_t hash;
	size_t at; /* of the text */
	size_t n;
};

struct text_index {
	uint32_t *slots; /* (slots_count, a power of 2) numbers of entries, or FREE */
	size_t slots_count;
	struct entry *entries; /* (count, of slots_count / 2) */
	uint32_t count;
	char *texts; /* (texts_bytes, of texts_capacity) */
	size_t texts_bytes, texts_capacity;
};

/* The slot of a text, or the free one where it belongs. */
static size_t slot_of(const struct text_index *t, const char *text, size_t n, uint64_t hash)
{
	size_t slot = hash & (t->slots_count - 1);
	for (; t->slots[slot] != FREE; slot = (slot + 1) & (t->slots_count - 1)) {
		const struct entry *e = &t->entries[t->slots[slot]];
		if (e->hash == hash && e->n == n && memcmp(t->texts + e->at, text, n) == 0)
			break;
	}
	return slot;
}

/* Makes a table of this size with the same entries. */
static bool resize(struct text_index *t, size_t slots_count)
{
	uint32_t *slots = malloc(slots_count * sizeof *slots);
	struct entry *entries = realloc(t->entries, slots_count / 2 * sizeof *entries);
	t->entries = entries ? entries : t->entries;
	if (!slots || !entries) {
		free(slots);
		return false;
	}
	memset(slots, 0xff, slots_count * sizeof *slots);
	free(t->slots);
	t->slots = slots;
	t->slots_count = slots_count;
	for (uint32_t i = 0; i < t->count; i++) {
		size_t slot = entries[i].hash & (slots_count - 1);
		while (slots[slot] != FREE)
			slot = (slot + 1) & (slots_count - 1);
		slots[slot] = i;
	}
	return true;
}

struct text_index *text_index_create(void)
{
	struct text_index *t = calloc(1, sizeof *t);
	if (t && !resize(t, SLOTS_FIRST)) {
		text_index_destroy(t);
		return NULL;
	}
	return t;
}

void text_index_destroy(struct text_index *t)
{
	if (!t)
		return;
	free(t->slots);
	free(t->entries);
	free(t->texts);
	free(t);
}

uint32_t text_index_count(const struct text_index *t)
{
	return t->count;
}

static bool reserve_text(struct text_index *t, size_t n)
{
	if (t->texts_bytes + n + 1 <= t->texts_capacity)
		return true;
	const size_t capacity = 2 * t->texts_capacity + n + 4096;
	char *more = realloc(t->texts, capacity);
	if (!more)
		return false;
	t->texts = more;
	t->texts_capacity = capacity;
	return true;
}

bool text_index_add(struct text_index *t, const char *text, size_t n, uint32_t *number)
{
	const uint64_t hash = hash_bytes(text, n, 0);
	size_t slot = slot_of(t, text, n, hash);
	if (t->slots[slot] == FREE) {
		if (t->count == FREE - 1 || !reserve_text(t, n))
			return false;
		if (t->count == t->slots_count / 2) {
			if (!resize(t, 2 * t->slots_count))
				return false;
			slot = slot_of(t, text, n, hash);
		}
		memcpy(t->texts + t->texts_bytes, text, n);
		t->texts[t->texts_bytes + n] = 0;
		t->entries[t->count] = (struct entry){hash, t->texts_bytes, n};
		t->texts_bytes += n + 1;
		t->slots[slot] = t->count++;
	}
	*number = t->slots[slot];
	return true;
}

bool text_index_find(const struct text_index *t, const char *text, size_t n, uint32_t *number)
{
	*number = t->slots[slot_of(t, text, n, hash_bytes(text, n, 0))];
	return *number != FREE;
}

const char *text_index_text(const struct text_index *t, uint32_t number, size_t *n)
{
	*n = t->entries[number].n;
	return t->texts + t->entries[number].at;
}
