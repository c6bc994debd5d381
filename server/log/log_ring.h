/* The entries of a log that are in memory: a growing ring. It keeps a reference to the message of
 * each entry and a copy of its rates. */
#ifndef WEIR_LOG_RING_H
#define WEIR_LOG_RING_H

#include "server/log/log.h"

struct log_ring {
	uint64_t first, last; /* holds entries first..last; first == last + 1: none */
	/* The largest index that an entry records, or the index before the first entry. */
	uint64_t committed;
	uint64_t mask;           /* ring size - 1 */
	struct log_entry *slots; /* entry i at i & mask */
};

/* The first entry to be pushed is `first`. E_MEMORY. */
weir_status log_ring_init(struct log_ring *r, uint64_t first);
/* e's index must be last + 1. E_MEMORY. */
weir_status log_ring_push(struct log_ring *r, const struct log_entry *e, weir_error *err);
void log_ring_pop(struct log_ring *r); /* takes the last entry back */
/* Removes the entries behind index. index must be at least `committed`, and must not be below a
 * released entry. */
void log_ring_truncate_above(struct log_ring *r, uint64_t index);
/* Removes all entries; the ring is then as after log_ring_init. */
void log_ring_restart(struct log_ring *r, uint64_t first);
/* Needs at least one entry. */
struct log_entry *log_ring_newest(struct log_ring *r);
/* NULL: not in the ring. */
const struct log_entry *log_ring_get(const struct log_ring *r, uint64_t index);
/* log_ops.compact. */
void log_ring_compact(struct log_ring *r, uint64_t index);
void log_ring_release_below(struct log_ring *r, uint64_t index);
void log_ring_destroy(struct log_ring *r);

#endif
