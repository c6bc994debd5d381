/* Distinct keys in order of first use: open addressing with linear probing at a load of at most one half. The table is kept
 * between calls and never cleared: a slot is in use when it carries the stamp of the present call. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "hash.h"

#define SLOTS_MIN      1024
#define PREFETCH_AHEAD 16

static void reserve(struct cpu_backend *c, size_t n)
{
	size_t need = SLOTS_MIN;
	while (need < 2 * n)
		need *= 2;
	if (need > c->slots_count) {
		free(c->slots);
		c->slots = calloc(need, sizeof *c->slots);
		assert(c->slots != NULL); /* an op cannot fail; this is a fraction of the batch's own memory */
		c->slots_count = need;
		c->stamp = 0;
	}
	if (++c->stamp == 0) {
		memset(c->slots, 0, c->slots_count * sizeof *c->slots);
		c->stamp = 1;
	}
}

size_t cpu_unique(struct backend *b, const uint64_t *keys, size_t n, uint64_t *unique_keys, uint32_t *index)
{
	struct cpu_backend *c = cpu_of(b);
	assert(n < UINT32_MAX);
	reserve(c, n);
	struct unique_slot *slots = c->slots;
	const uint64_t mask = c->slots_count - 1;
	const uint32_t stamp = c->stamp;
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
