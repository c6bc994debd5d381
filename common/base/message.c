/* Reference-counted span chains and their cursors. One allocation holds a message, its span list
 * and, for message_alloc, its bytes.
 *
 * Cursor invariant: `left` counts only existing bytes, and span/offset never rest at the end of a
 * span while left > 0. */
#include "common/base/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"

#define DATA_ALIGNMENT 64u

struct message *message_create(const struct span *spans, uint32_t count, void (*release)(struct message *), void *owner)
{
	struct message *m = malloc(sizeof *m + count * sizeof(struct span));
	if (!m)
		return NULL;
	atomic_init(&m->refs, 1);
	m->count = count;
	m->bytes = 0;
	m->spans = (struct span *)(m + 1);
	m->release = release;
	m->owner = owner;
	for (uint32_t i = 0; i < count; i++) {
		m->spans[i] = spans[i];
		m->bytes += spans[i].size;
	}
	return m;
}

struct message *message_alloc(size_t bytes, uint8_t **data)
{
	size_t head = (sizeof(struct message) + sizeof(struct span) + DATA_ALIGNMENT - 1) & ~(size_t)(DATA_ALIGNMENT - 1);
	if (bytes > SIZE_MAX - head - DATA_ALIGNMENT)
		return NULL;
	size_t total = (head + bytes + DATA_ALIGNMENT - 1) & ~(size_t)(DATA_ALIGNMENT - 1);
	struct message *m = aligned_alloc(DATA_ALIGNMENT, total);
	if (!m)
		return NULL;
	atomic_init(&m->refs, 1);
	m->count = 1;
	m->bytes = bytes;
	m->spans = (struct span *)(m + 1);
	m->release = NULL;
	m->owner = NULL;
	*data = (uint8_t *)m + head;
	m->spans[0] = (struct span){.data = *data, .size = bytes};
	return m;
}

struct message *message_copy(const void *data, size_t bytes)
{
	uint8_t *to;
	struct message *m = message_alloc(bytes, &to);
	if (m && bytes)
		memcpy(to, data, bytes);
	return m;
}

struct message *message_retain(struct message *m)
{
	unsigned before = atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
	assert(before > 0 && before < UINT32_MAX);
	return m;
}

void message_release(struct message *m)
{
	if (!m)
		return;
	/* All use by all holders must happen before the free: every decrement releases, the last one
	 * acquires. */
	unsigned before = atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel);
	assert(before > 0);
	if (before > 1)
		return;
	if (m->release)
		m->release(m);
	free(m);
}

/* Moves past the ends of spans, including empty ones, to keep the invariant. */
static void settle(struct cursor *c)
{
	while (c->left > 0 && c->offset == c->message->spans[c->span].size) {
		c->span++;
		c->offset = 0;
		assert(c->span < c->message->count);
	}
}

/* Contiguous bytes at the cursor. */
static size_t contiguous(const struct cursor *c)
{
	if (c->left == 0)
		return 0;
	size_t here = c->message->spans[c->span].size - c->offset;
	return here < c->left ? here : c->left;
}

static const uint8_t *position(const struct cursor *c)
{
	return c->message->spans[c->span].data + c->offset;
}

/* Moves on by n contiguous bytes. */
static void step(struct cursor *c, size_t n)
{
	c->offset += n;
	c->left -= n;
	settle(c);
}

struct cursor cursor_at(const struct message *m)
{
	struct cursor c = {.message = m, .left = m->bytes};
	settle(&c);
	return c;
}

static void advance(struct cursor *c, size_t n)
{
	while (n > 0) {
		size_t here = contiguous(c);
		size_t take = here < n ? here : n;
		step(c, take);
		n -= take;
	}
}

struct cursor cursor_take(struct cursor *c, size_t n)
{
	assert(n <= c->left);
	struct cursor part = *c;
	part.left = n;
	advance(c, n);
	return part;
}

weir_status cursor_read(struct cursor *c, void *out, size_t n)
{
	if (n > c->left)
		return WEIR_E_CORRUPT;
	for (uint8_t *to = out; n > 0;) {
		size_t here = contiguous(c);
		size_t take = here < n ? here : n;
		memcpy(to, position(c), take);
		step(c, take);
		to += take;
		n -= take;
	}
	return WEIR_OK;
}

weir_status cursor_skip(struct cursor *c, size_t n)
{
	if (n > c->left)
		return WEIR_E_CORRUPT;
	advance(c, n);
	return WEIR_OK;
}

size_t cursor_run(struct cursor *c, size_t elem_bytes, size_t max_elems, void *straddle, const uint8_t **run)
{
	assert(elem_bytes > 0);
	if (max_elems == 0 || c->left < elem_bytes)
		return 0;
	size_t elems = contiguous(c) / elem_bytes;
	if (elems == 0) {
		weir_status status = cursor_read(c, straddle, elem_bytes);
		assert(status == WEIR_OK);
		*run = straddle;
		return 1;
	}
	if (elems > max_elems)
		elems = max_elems;
	*run = position(c);
	step(c, elems * elem_bytes);
	return elems;
}

uint32_t cursor_crc32c(const struct cursor *c, size_t n, uint32_t seed)
{
	assert(n <= c->left);
	struct cursor at = *c;
	uint32_t crc = seed;
	while (n > 0) {
		size_t here = contiguous(&at);
		size_t take = here < n ? here : n;
		crc = crc32c(crc, position(&at), take);
		step(&at, take);
		n -= take;
	}
	return crc;
}
