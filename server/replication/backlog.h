/* The newest applied entries of a partition's log, kept in memory. Replicas that were away for a
 * moment and the peers of a new primary continue from there. A replica further behind needs a
 * snapshot. */
#ifndef WEIR_BACKLOG_H
#define WEIR_BACKLOG_H

#include "server/partition/partition.h"

struct backlog {
	struct partition_pin pin;
	uint64_t counted; /* the applied entries from pin.first up to here are counted in bytes */
	uint64_t bytes;   /* of the counted entries */
};

/* Keeps the entries that are applied from now on. b outlives the partition. */
void backlog_open(struct backlog *b, struct partition *p);
void backlog_close(struct backlog *b, struct partition *p);
/* Releases the oldest entries below `owed` while all of them together exceed bytes_max. Call
 * periodically. */
void backlog_trim(struct backlog *b, const struct partition *p, uint64_t owed, uint64_t bytes_max);

#endif
