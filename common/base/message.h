/* A message: a reference-counted chain of byte spans. It is sent and received without copying it
 * into one block.
 *
 * Ownership. message_retain and message_release count references; any thread may call them. The
 * last release calls `release`, which frees the memory that the spans point to, and then frees the
 * message. Spans never change after creation. A cursor borrows its message: it is valid while the
 * caller holds a reference. */
#ifndef WEIR_MESSAGE_H
#define WEIR_MESSAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct span {
	const uint8_t *data;
	size_t size;
};

struct message {
	atomic_uint refs;
	uint32_t count;     /* number of spans */
	size_t bytes;       /* sum of the spans' sizes */
	struct span *spans; /* (count) */
	/* frees the memory of the spans; may be NULL; may run on any thread */
	void (*release)(struct message *self);
	void *owner; /* for release */
};

/* Creates a message of `count` spans, which it copies from `spans`, with one reference. NULL when
 * out of memory; `release` is not called then. */
struct message *message_create(const struct span *spans, uint32_t count, void (*release)(struct message *), void *owner);
/* Creates a message of one span of `bytes` uninitialised bytes that it owns. *data gets the
 * writable bytes. NULL when out of memory. */
struct message *message_alloc(size_t bytes, uint8_t **data);
/* Creates a message with a copy of the bytes. NULL when out of memory. */
struct message *message_copy(const void *data, size_t bytes);
struct message *message_retain(struct message *m);
void message_release(struct message *m); /* NULL is allowed */

/* A reading position in a message. Copies are independent. */
struct cursor {
	const struct message *message;
	uint32_t span; /* current span */
	size_t offset; /* within the current span */
	size_t left;   /* bytes that this cursor may still read */
};

struct cursor cursor_at(const struct message *m);
/* Returns a cursor over the next n bytes; *c moves past them. Needs n <= c->left (asserted). */
struct cursor cursor_take(struct cursor *c, size_t n);
/* Copies n bytes out and moves on. E_CORRUPT when fewer are left; then nothing is read. */
weir_status cursor_read(struct cursor *c, void *out, size_t n) WEIR_MUST_CHECK;
weir_status cursor_skip(struct cursor *c, size_t n) WEIR_MUST_CHECK;
/* Reads the longest contiguous run of whole elements of elem_bytes, at most max_elems. Returns the
 * count and sets *run (unaligned memory). An element that straddles spans is assembled in
 * `straddle` (elem_bytes) and returned alone. Returns 0 only at the end. */
size_t cursor_run(struct cursor *c, size_t elem_bytes, size_t max_elems, void *straddle, const uint8_t **run);
/* crc32c over the next n bytes, without moving. Needs n <= c->left (asserted). */
uint32_t cursor_crc32c(const struct cursor *c, size_t n, uint32_t seed);

#endif
