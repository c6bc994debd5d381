/* The entries of a log that are held in memory: a growing ring that keeps a reference to each one's message and a copy of its rates. */
#ifndef WEIR_LOG_RING_H
#define WEIR_LOG_RING_H

#include "server/log/log.h"

struct log_ring {
	uint64_t first, last;    /* entries first..last are held; first == last + 1: none */
	uint64_t committed;      /* the largest that an entry has named, or what is in front of all */
	uint64_t mask;           /* ring size - 1 */
	struct log_entry *slots; /* entry i at i & mask */
};

/* The first entry to be put in is `first`. E_MEMORY. */
weir_status log_ring_init(struct log_ring *r, uint64_t first);
/* e's index must be last + 1. E_MEMORY. */
weir_status log_ring_push(struct log_ring *r, const struct log_entry *e, weir_error *err);
void log_ring_pop(struct log_ring *r); /* takes the last entry back */
/* The entries behind index go. It must be committed or more, and no released entry. */
void log_ring_truncate_above(struct log_ring *r, uint64_t index);
void log_ring_restart(struct log_ring *r, uint64_t first);                      /* all go: as log_ring_init left it */
struct log_entry *log_ring_newest(struct log_ring *r);                          /* needs one */
const struct log_entry *log_ring_get(const struct log_ring *r, uint64_t index); /* NULL when not held */
void log_ring_compact(struct log_ring *r, uint64_t index);                      /* log_ops.compact */
void log_ring_release_below(struct log_ring *r, uint64_t index);
void log_ring_free(struct log_ring *r);

#endif
