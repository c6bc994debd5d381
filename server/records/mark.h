/* A low-water mark outside the data folder. It detects a disk that went back in time: a machine is
 * restored from an image, a folder from a backup, or a log loses its end to fsck. Such a folder
 * looks whole and its checksums match. A server that starts on it would serve old weights, and a
 * replica would make the others truncate their logs to its own.
 *
 * The mark is three numbers that never go back, compared in this order:
 *
 *   generation   of the job; a restore and a rewind raise it
 *   epoch        of the folder (data_folder.h): counts the starts of this server
 *   position     up to which its journal was durable (journal_format.h): counts bytes, never
 *                repeats
 *
 * When. A server writes its mark after recovery and before it serves, then at most once in
 * WEIR_MARK_INTERVAL_MS while the position moves, and at the end of a clean stop. The mark never
 * runs ahead of synced data, so the loss of a torn, unsynced tail never puts a folder below its
 * mark.
 *
 * Where. Every server keeps the mark in a file beside the folder (this header, MARK_BYTES). With
 * several replicas per partition it is also in the coordinator (coord_records.h). With one copy it
 * is also in the ledger's log (ledger_marks.c), on server 0's machine. A start reads the file and
 * the coordinator's record, and takes the higher mark. The ledger compares when the server first
 * reports.
 *
 * Verdict. A folder whose generation, epoch or end of log is below the mark is not whole (E_STALE):
 *   one copy   the server refuses to start, names the folder, and has changed nothing. The newest
 *              copy of the folder can go on; else the job goes back to a checkpoint
 *   replicas   the server puts the folder aside and begins with a new one. The new replica is
 *              outside the in-sync set and is rebuilt from the others (replica.h). When no full
 *              copy is left, the job goes back to a checkpoint by itself (rewind.h)
 * A missing folder has epoch 0. A folder that replaces another continues its epochs, so the old
 * disk, should it come back, stays below the mark for good. A start writes its epoch to disk only
 * after the verdict: a refused start leaves the folder as old as it is.
 *
 * The ledger's own count. At the first report of every epoch of a partition, the ledger says how
 * many parts its committed units have put there. A partition with fewer parts is not whole either
 * (marks.h), whatever its server's mark says. A ledger that counts units as open which a partition
 * has closed has gone back itself.
 *
 * Undetected (docs/OPERATIONS.md lists these): a folder that is older by less than the interval; a
 * folder whose marks went back with it (a machine's only disk, with one server in the job); changes
 * while the coordinator or the ledger could not be reached. */
#ifndef WEIR_MARK_H
#define WEIR_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/system/disk.h"

struct mark {
	uint64_t generation; /* 0: no mark */
	uint64_t epoch;
	uint64_t position;
};

/* Whether a is older than b. */
bool mark_is_below(const struct mark *a, const struct mark *b);

/* The file, little-endian. A write replaces the whole file (disk_write_file).
 *
 *    0  magic "weirmark"        8 bytes
 *    8  version = 1             u32     12  server              u32
 *   16  job uuid                16 bytes
 *   32  generation              u64     40  epoch               u64
 *   48  position                u64     56  zero                u32
 *   60  crc32c of these 64 bytes with this field 0 */
#define MARK_VERSION 1u
#define MARK_BYTES   64u

struct mark_owner {
	uint8_t uuid[16]; /* of the job */
	uint32_t server;
};
/* Sets out->generation to 0 when the file is missing or belongs to another job or server.
 * E_CORRUPT: damaged; E_VERSION: of a newer Weir; E_IO. */
weir_status mark_read(struct disk *disk, const char *path, const struct mark_owner *owner, struct mark *out,
                      weir_error *err) WEIR_MUST_CHECK;
/* The mark is on disk when this returns. E_NO_SPACE, E_IO. */
weir_status mark_write(struct disk *disk, const char *path, const struct mark_owner *owner, const struct mark *mark,
                       weir_error *err) WEIR_MUST_CHECK;

#endif
