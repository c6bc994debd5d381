/* The log in memory. Nothing survives the process, so an appended entry is as durable as it can
 * be. */
#include <stdlib.h>

#include "server/log/journal_format.h"
#include "server/log/log_ring.h"

struct log_memory {
	struct log log;
	struct log_ring ring;
};

static struct log_ring *ring_of(struct log *l)
{
	return &((struct log_memory *)l)->ring;
}

static weir_status memory_append(struct log *l, const struct log_entry *e, weir_error *err)
{
	struct journal_entry_header h;
	/* Checks the same size limit as on disk. */
	weir_status status = journal_describe(e, 0, &h, err);
	return status ? status : log_ring_push(ring_of(l), e, err);
}

static const struct log_entry *memory_get(struct log *l, uint64_t index)
{
	return log_ring_get(ring_of(l), index);
}

static uint64_t memory_first(const struct log *l)
{
	return ((const struct log_memory *)l)->ring.first;
}

static uint64_t memory_last(const struct log *l)
{
	return ((const struct log_memory *)l)->ring.last;
}

static uint64_t memory_committed(const struct log *l)
{
	return ((const struct log_memory *)l)->ring.committed;
}

static void memory_sync(struct log *l)
{
	(void)l;
}

static void memory_compact(struct log *l, uint64_t index)
{
	log_ring_compact(ring_of(l), index);
}

static void memory_release_below(struct log *l, uint64_t index)
{
	log_ring_release_below(ring_of(l), index);
}

static void memory_truncate_below(struct log *l, uint64_t index)
{
	(void)l, (void)index; /* nothing is on disk */
}

static weir_status memory_truncate_above(struct log *l, uint64_t index, weir_error *err)
{
	(void)err;
	log_ring_truncate_above(ring_of(l), index);
	return WEIR_OK;
}

static weir_status memory_restart(struct log *l, uint64_t first, weir_error *err)
{
	(void)err;
	log_ring_restart(ring_of(l), first);
	return WEIR_OK;
}

static bool memory_is_restarted(const struct log *l)
{
	(void)l;
	return true;
}

static uint64_t memory_restarted(const struct log *l)
{
	(void)l;
	return 0;
}

static void memory_destroy(struct log *l)
{
	log_ring_destroy(ring_of(l));
	free(l);
}

struct log *log_memory_create(void)
{
	static const struct log_ops ops = {
	    .append = memory_append,
	    .get = memory_get,
	    .first = memory_first,
	    .last = memory_last,
	    .committed = memory_committed,
	    .durable = memory_last,
	    .sync = memory_sync,
	    .compact = memory_compact,
	    .release_below = memory_release_below,
	    .truncate_below = memory_truncate_below,
	    .truncate_above = memory_truncate_above,
	    .restart = memory_restart,
	    .is_restarted = memory_is_restarted,
	    .restarted = memory_restarted,
	    .destroy = memory_destroy,
	};
	struct log_memory *m = malloc(sizeof *m);
	if (!m)
		return NULL;
	m->log.ops = &ops;
	if (log_ring_init(&m->ring, 1) != WEIR_OK) {
		free(m);
		return NULL;
	}
	return &m->log;
}
