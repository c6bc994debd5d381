/* Memory that dies with its process. Records the allocations of a node's threads, and frees them
 * when the node is killed. */
#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world/heap.h"
#include "tests/sim/world/internal.h"

struct piece {
	uintptr_t at;  /* 0: the slot was never used; GONE: it is free again */
	size_t mapped; /* size of a pages_map block; 0: from malloc */
	struct node *owner;
};
#define GONE 1u

static struct {
	struct piece *of; /* open addressing */
	size_t capacity, used, live;
} heap;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *p);
void *__real_pages_map(size_t bytes);
void __real_pages_unmap(void *base, size_t bytes);
void __real_protobuf_c_message_free_unpacked(ProtobufCMessage *m, ProtobufCAllocator *allocator);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *p);
char *__wrap_strdup(const char *text);
void *__wrap_pages_map(size_t bytes);
void __wrap_pages_unmap(void *base, size_t bytes);
void __wrap_protobuf_c_message_free_unpacked(ProtobufCMessage *m, ProtobufCAllocator *allocator);

static size_t slot_of(uintptr_t at)
{
	return (size_t)((at >> 4) * 0x9e3779b97f4a7c15ull >> 20) & (heap.capacity - 1);
}

static void put(const struct piece *piece)
{
	size_t i = slot_of(piece->at);
	while (heap.of[i].at > GONE)
		i = (i + 1) & (heap.capacity - 1);
	heap.used += heap.of[i].at == 0;
	heap.live++;
	heap.of[i] = *piece;
}

static void grow(void)
{
	const struct piece *old = heap.of;
	const size_t capacity = heap.capacity;
	heap.capacity = heap.live * 4 < 4096 ? 4096 : 1;
	while (heap.capacity < heap.live * 4)
		heap.capacity *= 2;
	heap.of = __real_calloc(heap.capacity, sizeof *heap.of);
	heap.used = heap.live = 0;
	if (!heap.of)
		abort();
	for (size_t i = 0; i < capacity; i++)
		if (old[i].at > GONE)
			put(&old[i]);
	__real_free((void *)(uintptr_t)old);
}

static void *note(void *p, size_t mapped)
{
	struct node *owner = heap_owner();
	if (!p || !owner)
		return p;
	if (heap.used * 2 >= heap.capacity)
		grow();
	put(&(struct piece){.at = (uintptr_t)p, .mapped = mapped, .owner = owner});
	return p;
}

static void forget(const void *p)
{
	if (!p || !heap.capacity)
		return;
	for (size_t i = slot_of((uintptr_t)p); heap.of[i].at; i = (i + 1) & (heap.capacity - 1)) {
		if (heap.of[i].at != (uintptr_t)p)
			continue;
		heap.of[i].at = GONE;
		heap.live--;
		return;
	}
}

static void heap_kill(void *arg, struct node *n, enum node_death how)
{
	(void)arg, (void)how;
	for (size_t i = 0; i < heap.capacity; i++) {
		struct piece *piece = &heap.of[i];
		if (piece->at <= GONE || piece->owner != n)
			continue;
		if (piece->mapped)
			__real_pages_unmap((void *)piece->at, piece->mapped);
		else
			__real_free((void *)piece->at);
		piece->at = GONE;
		heap.live--;
	}
}

void heap_begin(void)
{
	/* --wrap does not reach calls inside a shared library. */
	json_set_alloc_funcs(__wrap_malloc, __wrap_free);
	node_watch_deaths(heap_kill, NULL);
}

void *__wrap_malloc(size_t bytes)
{
	return note(__real_malloc(bytes), 0);
}
void *__wrap_calloc(size_t count, size_t bytes)
{
	return note(__real_calloc(count, bytes), 0);
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return note(__real_aligned_alloc(alignment, bytes), 0);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	forget(p);
	return note(__real_realloc(p, bytes), 0);
}

void __wrap_free(void *p)
{
	forget(p);
	__real_free(p);
}

char *__wrap_strdup(const char *text)
{
	const size_t bytes = strlen(text) + 1;
	char *copy = __wrap_malloc(bytes);
	return copy ? memcpy(copy, text, bytes) : NULL;
}

static void *own_alloc(void *data, size_t bytes)
{
	(void)data;
	return __wrap_malloc(bytes);
}

static void own_free(void *data, void *p)
{
	(void)data;
	__wrap_free(p);
}

/* The library would free our allocations with its own free(). */
void __wrap_protobuf_c_message_free_unpacked(ProtobufCMessage *m, ProtobufCAllocator *allocator)
{
	static ProtobufCAllocator own = {.alloc = own_alloc, .free = own_free};
	__real_protobuf_c_message_free_unpacked(m, allocator ? allocator : &own);
}

void *__wrap_pages_map(size_t bytes)
{
	return note(__real_pages_map(bytes), bytes);
}

void __wrap_pages_unmap(void *base, size_t bytes)
{
	forget(base);
	__real_pages_unmap(base, bytes);
}
