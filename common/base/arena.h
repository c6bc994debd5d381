/* A bump allocator with a maximum size. It frees everything at once. For one thread. */
#ifndef WEIR_ARENA_H
#define WEIR_ARENA_H

#include <stddef.h>

struct arena;
struct arena *arena_create(size_t bytes_max); /* NULL when out of memory */
/* 64-byte aligned, zeroed; NULL when out of memory or beyond the maximum */
void *arena_alloc(struct arena *a, size_t bytes);
char *arena_strdup(struct arena *a, const char *s);
void arena_reset(struct arena *a); /* keeps the first block */
void arena_destroy(struct arena *a);

#endif
