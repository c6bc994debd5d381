/* Memory outside the disk. A disk can go back in time: a machine is restored from an image, a
 * folder from a backup, a log loses its end to fsck. Such a folder looks whole, and its checksums
 * fit. A server that starts on it would serve old weights, and a replica would make the others
 * truncate their logs to its own.
 *
 * So each server keeps a low-water mark outside its folder, three numbers that never go back and
 * are compared in this order:
 *
 *   generation   of the job; a restore and a rewind raise it
 *   epoch        of the folder (data_folder.h): counts the starts of this server
 *   position     up to which its journal was durable (journal_format.h): counts bytes, never
 *                repeats
 *
 * When. The mark is written once the server has recovered and before it serves, then at most once
 * in WEIR_MARK_INTERVAL_MS while the position moves, and at the end of a clean stop. It never runs
 * ahead of what was synced: a torn tail, which was not, is above no mark.
 *
 * Where. In a file beside the folder (this header, MARK_BYTES), on every server. Where partitions
 * have replicas, also in the coordinator (authority.h). Where they have one copy, also in the
 * ledger's log (ledger_marks.c), which lies on server 0's machine. A start reads the file and the
 * coordinator's record, and takes the higher one; the ledger compares when the server reports for
 * the first time.
 *
 * What follows. A folder whose generation, epoch or end of log is below the mark is not whole
 * (E_STALE):
 *   one copy   the server refuses to start, by name, and has changed nothing. The newest copy of
 *              the folder goes on; else the job goes back to a checkpoint
 *   replicas   the server puts the folder aside and begins with a new one, which is outside the
 *              in-sync set and is rebuilt from the others (replica.h). Where no full copy is left,
 *              the job goes back to a checkpoint by itself (rewind.h)
 * A folder that is not there is one of epoch 0. One that begins in place of another continues that
 * one's epochs, so that the old disk, should it come back, is below the mark for good. The epoch of
 * a start goes to disk only after the verdict: a start that is refused leaves the folder as old as
 * it is.
 *
 * The ledger's own memory. At the first report of every epoch of a partition the ledger says how
 * many parts its committed units have put there. A partition that has fewer is not whole either
 * (marks.h), whatever its server's mark says; and a ledger that counts units as open which a
 * partition has closed has gone back itself.
 *
 * What nobody can see. A folder that is older by less than the interval; one whose marks went back
 * together with it (a machine's only disk, with one server in the job); and what happened while the
 * coordinator, or the ledger, could not be reached. docs/OPERATIONS.md says so. */
#ifndef WEIR_MARK_H
#define WEIR_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/system/disk.h"

struct mark {
	uint64_t generation; /* 0: there is no mark */
	uint64_t epoch;
	uint64_t position;
};

/* Whether a is older than b. */
bool mark_is_below(const struct mark *a, const struct mark *b);

/* The file, little-endian. It is replaced as a whole (disk_write_file).
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
/* out->generation is 0 where there is no file, or one of another job or server. E_CORRUPT:
 * damaged; E_VERSION: of a newer Weir; E_IO. */
weir_status mark_read(struct disk *disk, const char *path, const struct mark_owner *owner, struct mark *out,
                      weir_error *err) WEIR_MUST_CHECK;
/* It is on disk when it returns. E_NO_SPACE, E_IO. */
weir_status mark_write(struct disk *disk, const char *path, const struct mark_owner *owner, const struct mark *mark,
                       weir_error *err) WEIR_MUST_CHECK;

#endif
