/* The log in memory: a ring of entries that holds references to their messages until they are truncated. Nothing survives the process, so
 * an appended entry is as durable as it will ever be. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

#define RING_FIRST 16u

struct log_memory {
	struct log log;
	uint64_t first, last;   /* entries first..last are held; first == last + 1: none */
	uint64_t mask;          /* ring size - 1 */
	struct log_entry *ring; /* entry i at i & mask */
};

static struct log_entry *slot(const struct log_memory *m, uint64_t index)
{
	return &m->ring[index & m->mask];
}

static weir_status grow(struct log_memory *m)
{
	struct log_memory larger = *m;
	larger.mask = m->mask * 2 + 1;
	larger.ring = calloc(larger.mask + 1, sizeof *larger.ring);
	if (!larger.ring)
		return WEIR_E_MEMORY;
	for (uint64_t i = m->first; i <= m->last; i++)
		*slot(&larger, i) = *slot(m, i);
	free(m->ring);
	*m = larger;
	return WEIR_OK;
}

static weir_status memory_append(struct log *l, const struct log_entry *e, weir_error *err)
{
	struct log_memory *m = (struct log_memory *)l;
	assert(e->index == m->last + 1);
	if (m->last - m->first + 1 > m->mask && grow(m))
		return weir_fail(err, WEIR_E_MEMORY, "log: out of memory at entry %llu", (unsigned long long)e->index);
	float *rates = NULL;
	if (e->rates_count) {
		rates = malloc(e->rates_count * sizeof *rates);
		if (!rates)
			return weir_fail(err, WEIR_E_MEMORY, "log: out of memory at entry %llu", (unsigned long long)e->index);
		memcpy(rates, e->rates, e->rates_count * sizeof *rates);
	}
	struct log_entry *copy = slot(m, e->index);
	*copy = *e;
	copy->rates = rates;
	if (copy->message)
		message_retain(copy->message);
	m->last = e->index;
	return WEIR_OK;
}

static const struct log_entry *memory_get(struct log *l, uint64_t index)
{
	struct log_memory *m = (struct log_memory *)l;
	return index >= m->first && index <= m->last ? slot(m, index) : NULL;
}

static uint64_t memory_first(const struct log *l)
{
	return ((const struct log_memory *)l)->first;
}
static uint64_t memory_last(const struct log *l)
{
	return ((const struct log_memory *)l)->last;
}

static void memory_truncate_below(struct log *l, uint64_t index)
{
	struct log_memory *m = (struct log_memory *)l;
	for (; m->first < index && m->first <= m->last; m->first++) {
		struct log_entry *e = slot(m, m->first);
		free((void *)(uintptr_t)e->rates);
		message_release(e->message);
	}
}

static void memory_destroy(struct log *l)
{
	struct log_memory *m = (struct log_memory *)l;
	memory_truncate_below(l, m->last + 1);
	free(m->ring);
	free(m);
}

struct log *log_memory_create(void)
{
	static const struct log_ops ops = {
	    .append = memory_append,
	    .get = memory_get,
	    .first = memory_first,
	    .last = memory_last,
	    .durable = memory_last,
	    .truncate_below = memory_truncate_below,
	    .destroy = memory_destroy,
	};
	struct log_memory *m = malloc(sizeof *m);
	if (!m)
		return NULL;
	*m = (struct log_memory){.log = {&ops}, .first = 1, .mask = RING_FIRST - 1, .ring = calloc(RING_FIRST, sizeof *m->ring)};
	if (!m->ring) {
		free(m);
		return NULL;
	}
	return &m->log;
}
