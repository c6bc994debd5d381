/* What a replica of a partition would have. */
#ifndef WEIR_PARTITION_COPY_H
#define WEIR_PARTITION_COPY_H

#include <stdint.h>

struct partition;

/* All of it, as it is now, in a partition of its own with its log in memory, in an epoch of its own. On the loop that owns it; its rows and log are
 * in memory. */
struct partition *partition_copy(struct partition *from, uint64_t epoch);

#endif
