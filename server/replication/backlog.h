/* The newest end of a partition's log, kept in memory though it is applied: replicas that were away for a moment, and a new primary's peers, go on from there. Who is
 * further behind than that needs a snapshot. */
#ifndef WEIR_BACKLOG_H
#define WEIR_BACKLOG_H

#include "server/partition/partition.h"

struct backlog {
	struct partition_pin pin;
	uint64_t counted; /* applied entries from pin.first up to here */
	uint64_t bytes;   /* have so many */
};

/* From what is applied now on. b outlives the partition. */
void backlog_open(struct backlog *b, struct partition *p);
void backlog_close(struct backlog *b, struct partition *p);
/* Lets go of the oldest entries below `owed`, while they have more than bytes_max together. Now and then. */
void backlog_trim(struct backlog *b, const struct partition *p, uint64_t owed, uint64_t bytes_max);

#endif
