/* A message: a reference-counted chain of byte spans, sent and received without flattening.
 *
 * Ownership. message_retain/message_release count references from any thread; the last release calls `release`,
 * which frees whatever the spans point into, and then the message. Spans never change after creation.
 * A cursor borrows its message: it is valid while the caller holds a reference. */
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
	uint32_t count;                        /* spans */
	size_t bytes;                          /* sum of the spans' sizes */
	struct span *spans;                    /* (count) */
	void (*release)(struct message *self); /* frees what the spans point into; may be NULL; may run on any thread */
	void *owner;                           /* for release */
};

/* A message of `count` spans, copied from `spans`; one reference; NULL when out of memory (then release is not called). */
struct message *message_create(const struct span *spans, uint32_t count, void (*release)(struct message *), void *owner);
/* A message of one span of `bytes` uninitialised bytes that it owns; *data gets the writable bytes. NULL when out of memory. */
struct message *message_alloc(size_t bytes, uint8_t **data);
/* A message holding a copy of the bytes. */
struct message *message_copy(const void *data, size_t bytes);
struct message *message_retain(struct message *m);
void message_release(struct message *m); /* NULL is allowed */

/* Reading position in a message. Copy it freely. */
struct cursor {
	const struct message *message;
	uint32_t span; /* current span */
	size_t offset; /* in that span */
	size_t left;   /* bytes until the end of what this cursor may read */
};

struct cursor cursor_at(const struct message *m);
/* The next n bytes as a cursor of their own; *c moves past them. Needs n <= c->left (asserted). */
struct cursor cursor_take(struct cursor *c, size_t n);
/* Copies n bytes out and moves on. E_CORRUPT when fewer are left (nothing is read then). */
weir_status cursor_read(struct cursor *c, void *out, size_t n) WEIR_MUST_CHECK;
weir_status cursor_skip(struct cursor *c, size_t n) WEIR_MUST_CHECK;
/* The longest contiguous run of whole elements of elem_bytes, at most max_elems: returns the count and sets *run (unaligned
 * memory). An element that straddles spans is assembled in `straddle` (elem_bytes) and returned alone. 0 only at the end. */
size_t cursor_run(struct cursor *c, size_t elem_bytes, size_t max_elems, void *straddle, const uint8_t **run);
/* crc32c over the next n bytes without moving. Needs n <= c->left (asserted). */
uint32_t cursor_crc32c(const struct cursor *c, size_t n, uint32_t seed);

#endif
