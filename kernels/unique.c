/* Distinct keys in order of first use: open addressing with linear probing at a load of at most one
 * half. The table is kept between calls and never cleared: a slot is in use if it carries the stamp
 * of the present call. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "kernels/unique.h"

#define SLOTS_MIN      1024
#define PREFETCH_AHEAD 16

static void reserve(struct unique_table *t, size_t n)
{
	size_t need = SLOTS_MIN;
	while (need < 2 * n)
		need *= 2;
	if (need > t->slots_count) {
		free(t->slots);
		t->slots = calloc(need, sizeof *t->slots);
		/* an op cannot fail; the table is a fraction of the batch's own memory */
		assert(t->slots);
		t->slots_count = need;
		t->stamp = 0;
	}
	if (++t->stamp == 0) {
		memset(t->slots, 0, t->slots_count * sizeof *t->slots);
		t->stamp = 1;
	}
}

size_t unique_of(struct unique_table *t, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index)
{
	assert(n < UINT32_MAX);
	reserve(t, n);
	struct unique_slot *slots = t->slots;
	const uint64_t mask = t->slots_count - 1;
	const uint32_t stamp = t->stamp;
	uint32_t count = 0;
	for (size_t i = 0; i < n; i++) {
		if (i + PREFETCH_AHEAD < n)
			__builtin_prefetch(&slots[hash_u64(keys[i + PREFETCH_AHEAD]) & mask], 1);
		const uint64_t key = keys[i];
		uint64_t at = hash_u64(key) & mask;
		while (slots[at].stamp == stamp && slots[at].key != key)
			at = (at + 1) & mask;
		if (slots[at].stamp != stamp) {
			slots[at] = (struct unique_slot){.key = key, .index = count, .stamp = stamp};
			unique_keys[count++] = key;
		}
		index[i] = slots[at].index;
	}
	return count;
}

void unique_destroy(struct unique_table *t)
{
	free(t->slots);
	*t = (struct unique_table){0};
}
