/* Discards everything of a partition when its replica begins anew: log, rows, header and tables, in
 * memory and on disk. A crash between any two steps leaves an unambiguous state:
 *
 *     wait until nothing is in progress | RocksDB: empty, header "unfinished" | fsync
 *     | log begins at 1 | fsync | header "anew" with the log's position | fsync | as created
 *
 * After a crash before the first fsync, the partition is as it was. After the first fsync,
 * snapshot_is_unfinished says that its contents are void. After the last one, snapshot_is_anew says
 * so. The replica must be recorded as not whole, on disk, before the reset.
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
	struct cold_writer *writer;      /* NULL: nothing is on disk */
	struct callback_executor run_on; /* runs tasks on its thread */
	/* Private. */
	enum partition_reset_stage stage;
	uint32_t writing; /* how many of `empty` and `flush` are in progress */
	struct cold_write empty, flush;
	uint8_t anew[SNAPSHOT_ANEW_BYTES];
};

/* Begins or continues a reset; call again until it returns OK (done). E_BUSY: in progress.
 * E_NO_SPACE, E_MEMORY: not possible now. Anything else (E_IO) is final: the server must stop. */
weir_status partition_reset_go_on(struct partition_reset *r, weir_error *err) WEIR_MUST_CHECK;

#endif
