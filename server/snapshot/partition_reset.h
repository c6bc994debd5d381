/* Everything of a partition goes, as its replica begins anew: log, rows, header, tables, in memory
 * and below, in an order that leaves a crash nothing to be mistaken about:
 *
 *     nothing is under way | RocksDB: empty, with a header that says unfinished | fsync | the log begins at 1 | fsync | a header that says where | fsync | as created
 *
 * A crash before the first fsync finds it as it was, one behind it finds what
 * snapshot_is_unfinished says is void, one behind the last what snapshot_is_anew says. That the
 * replica is not whole must be on disk before.
 *
 * One owner: the partition's thread. */
#ifndef WEIR_PARTITION_RESET_H
#define WEIR_PARTITION_RESET_H

#include "server/partition/partition.h"
#include "server/snapshot/snapshot_receive.h"
#include "server/store/cold_writer.h"

enum partition_reset_stage { RESET_IDLE, RESET_STILL, RESET_VOID, RESET_LOG, RESET_HEADER };

struct partition_reset {
	struct partition *partition;
	struct cold_writer *writer; /* NULL: nothing of it is below */
	struct poster poster;       /* to its thread */
	/* Ours. */
	enum partition_reset_stage stage;
	uint32_t writing; /* of the two */
	struct cold_write empty, flush;
	uint8_t anew[SNAPSHOT_ANEW_BYTES];
};

/* Begins, or goes on: to be asked again until it is over. OK: it is done. E_BUSY: not yet.
 * E_NO_SPACE, E_MEMORY: not now. Else (E_IO, final): the server must stop. */
weir_status partition_reset_go_on(struct partition_reset *r, weir_error *err) WEIR_MUST_CHECK;

#endif
