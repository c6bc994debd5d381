/* The state that a replica of a partition would have. */
#ifndef WEIR_PARTITION_COPY_H
#define WEIR_PARTITION_COPY_H

#include <stdint.h>

struct partition;

/* A copy of the partition's current state, with its log in memory, in a new epoch. Call it on the
 * loop that owns the partition; its rows and log must be in memory. */
struct partition *partition_copy(struct partition *from, uint64_t epoch);

#endif
