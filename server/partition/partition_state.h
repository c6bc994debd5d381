/* The state of a partition at a log index as bytes (PartitionState of state.proto), without its
 * rows. A flush writes it as the header; a checkpoint keeps it beside the rows. */
#ifndef WEIR_PARTITION_STATE_H
#define WEIR_PARTITION_STATE_H

#include "common/base/message.h"
#include "server/partition/partition.h"

/* The present state. NULL: out of memory. */
struct message *partition_state_export(const struct partition *p);
/* Imports into a partition that has its tables and nothing else. E_CORRUPT, E_LIMIT, E_MEMORY: the
 * partition must not be used. */
weir_status partition_state_import(struct partition *p, const void *bytes, size_t n, weir_error *err) WEIR_MUST_CHECK;
/* The first log entry that recovery from this state needs: a waiting push's, or the next one. */
uint64_t partition_state_needs(const struct partition *p);

#endif
