/* The arena keeps a list of blocks of at least BLOCK_BYTES, newest first, and bumps them in order.
 * The maximum counts the requested bytes, rounded up to the alignment. The first block survives a
 * reset, so that a steady user allocates once. */
#include "common/base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT   64u
#define BLOCK_BYTES (64u << 10)

struct block {
	struct block *older;
	size_t size, used; /* bytes of data */
	_Alignas(ALIGNMENT) uint8_t data[];
};

struct arena {
	size_t bytes_max, bytes;
	struct block *newest;
};

struct arena *arena_create(size_t bytes_max)
{
	struct arena *a = calloc(1, sizeof *a);
	if (a)
		a->bytes_max = bytes_max;
	return a;
}

static struct block *block_create(size_t at_least)
{
	size_t size = at_least > BLOCK_BYTES ? at_least : BLOCK_BYTES;
	struct block *b = aligned_alloc(ALIGNMENT, sizeof *b + size);
	if (b) {
		b->older = NULL;
		b->size = size;
		b->used = 0;
	}
	return b;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	if (bytes > a->bytes_max)
		return NULL;
	size_t rounded = bytes ? (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1) : ALIGNMENT;
	if (rounded > a->bytes_max - a->bytes)
		return NULL;
	struct block *b = a->newest;
	if (!b || b->size - b->used < rounded) {
		b = block_create(rounded);
		if (!b)
			return NULL;
		b->older = a->newest;
		a->newest = b;
	}
	void *p = b->data + b->used;
	b->used += rounded;
	a->bytes += rounded;
	return memset(p, 0, rounded);
}

char *arena_strdup(struct arena *a, const char *s)
{
	size_t bytes = strlen(s) + 1;
	char *copy = arena_alloc(a, bytes);
	return copy ? memcpy(copy, s, bytes) : NULL;
}

void arena_reset(struct arena *a)
{
	while (a->newest && a->newest->older) {
		struct block *b = a->newest;
		a->newest = b->older;
		free(b);
	}
	if (a->newest)
		a->newest->used = 0;
	a->bytes = 0;
}

void arena_destroy(struct arena *a)
{
	if (!a)
		return;
	arena_reset(a);
	free(a->newest);
	free(a);
}
