/* The ring under log_memory.c and log_disk.c. */
#include "server/log/log_ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"

#define RING_FIRST 16u

static struct log_entry *slot(const struct log_ring *r, uint64_t index)
{
	return &r->slots[index & r->mask];
}

weir_status log_ring_init(struct log_ring *r, uint64_t first)
{
	assert(first > 0);
	*r = (struct log_ring){.first = first,
	                       .last = first - 1,
	                       .committed = first - 1,
	                       .mask = RING_FIRST - 1,
	                       .slots = calloc(RING_FIRST, sizeof *r->slots)};
	return r->slots ? WEIR_OK : WEIR_E_MEMORY;
}

static weir_status grow(struct log_ring *r)
{
	struct log_ring larger = *r;
	larger.mask = r->mask * 2 + 1;
	larger.slots = calloc(larger.mask + 1, sizeof *larger.slots);
	if (!larger.slots)
		return WEIR_E_MEMORY;
	for (uint64_t i = r->first; i <= r->last; i++)
		*slot(&larger, i) = *slot(r, i);
	free(r->slots);
	*r = larger;
	return WEIR_OK;
}

weir_status log_ring_push(struct log_ring *r, const struct log_entry *e, weir_error *err)
{
	assert(e->index == r->last + 1 && e->committed <= e->index);
	if (r->last - r->first + 1 > r->mask && grow(r))
		return weir_fail(err, WEIR_E_MEMORY, "log: out of memory at entry %llu", (unsigned long long)e->index);
	float *rates = NULL;
	if (e->rates_count) {
		rates = malloc(e->rates_count * sizeof *rates);
		if (!rates)
			return weir_fail(err, WEIR_E_MEMORY, "log: out of memory at entry %llu", (unsigned long long)e->index);
		memcpy(rates, e->rates, e->rates_count * sizeof *rates);
	}
	struct log_entry *copy = slot(r, e->index);
	*copy = *e;
	copy->rates = rates;
	if (copy->message)
		message_retain(copy->message);
	r->last = e->index;
	if (r->committed < e->committed)
		r->committed = e->committed;
	return WEIR_OK;
}

static void release(struct log_entry *e)
{
	free((void *)(uintptr_t)e->rates);
	message_release(e->message);
}

void log_ring_pop(struct log_ring *r)
{
	assert(r->last >= r->first);
	release(slot(r, r->last--));
	/* The entry recorded itself, and so all entries before it, as committed. */
	if (r->committed > r->last)
		r->committed = r->last;
}

void log_ring_truncate_above(struct log_ring *r, uint64_t index)
{
	assert(index >= r->committed && index + 1 >= r->first);
	while (r->last > index)
		log_ring_pop(r);
}

struct log_entry *log_ring_newest(struct log_ring *r)
{
	assert(r->last >= r->first);
	return slot(r, r->last);
}

const struct log_entry *log_ring_get(const struct log_ring *r, uint64_t index)
{
	return index >= r->first && index <= r->last ? slot(r, index) : NULL;
}

void log_ring_compact(struct log_ring *r, uint64_t index)
{
	assert(index >= r->first && index <= r->last);
	struct log_entry *e = slot(r, index);
	struct cursor body = e->body;
	uint8_t *bytes;
	struct message *own = e->message && body.left <= WEIR_LOG_COPY_BYTES_MAX ? message_alloc(body.left, &bytes) : NULL;
	if (!own)
		return;
	weir_status status = cursor_read(&body, bytes, own->bytes);
	assert(status == WEIR_OK);
	(void)status;
	message_release(e->message);
	e->message = own;
	e->body = cursor_at(own);
}

void log_ring_release_below(struct log_ring *r, uint64_t index)
{
	for (; r->first < index && r->first <= r->last; r->first++)
		release(slot(r, r->first));
}

void log_ring_restart(struct log_ring *r, uint64_t first)
{
	assert(first > 0);
	log_ring_release_below(r, r->last + 1);
	r->first = first;
	r->last = r->committed = first - 1;
}

void log_ring_destroy(struct log_ring *r)
{
	log_ring_release_below(r, r->last + 1);
	free(r->slots);
}
