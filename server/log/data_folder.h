/* The folder in which a server keeps what it must find again:
 *
 *   LOCK       held while a server has the folder
 *   IDENTITY   JSON: format version, job uuid, generation, server index, servers, partitions, epoch, whether the last server stopped cleanly, checksum
 *   PROMISES   what its replicas have promised, and which of them are whole (promises.h)
 *   PROMISES.spare   the space of its next version
 *   TABLES     TableRegistry of state.proto: every table registered here, kept before anything is logged of it; with a checksum
 *   journal/   the log (journal.h)
 *   db/        RocksDB: rows and headers (cold.h)
 */
#ifndef WEIR_DATA_FOLDER_H
#define WEIR_DATA_FOLDER_H

#include <stdint.h>

#include "common/system/disk.h"
#include "proto/wire/wire.h"
#include "state.pb-c.h"

#define FOLDER_VERSION 1u

struct folder_identity {
	uint8_t uuid[16];
	uint64_t generation;
	uint32_t index, servers, partitions;
};

/* Whether the folder is of an earlier generation of this server's job: then it is renamed to `aside`, whose parents are made. E_EXISTS: that is there already; E_BUSY: another
 * process has the folder; E_CORRUPT, E_VERSION, E_IO. */
weir_status folder_set_aside(struct disk *disk, const char *path, const char *aside, const char *holder,
                             const struct folder_identity *who, bool *done, weir_error *err) WEIR_MUST_CHECK;

/* Renames a folder that no process has to `aside`, whose parents are made. E_EXISTS: that is
 * there already; E_BUSY, E_IO. */
weir_status folder_put_aside(struct disk *disk, const char *path, const char *aside, const char *holder,
                             weir_error *err) WEIR_MUST_CHECK;
/* Whether a server has ever opened it. E_IO. */
weir_status folder_is_there(struct disk *disk, const char *path, bool *there, weir_error *err) WEIR_MUST_CHECK;

struct folder;
struct folder_start {
	bool restore; /* it may be filled from a checkpoint; without, a folder in which that was cut off is E_STATE */
	uint64_t
	    epoch_known; /* a start of this server was of this epoch (mark.h); 0: none is known. A folder that has not seen it is E_STALE; a new one begins above it */
};
/* Locks it. The epoch of this start is on disk once folder_begin has returned; of a new folder,
 * at once. holder: who this is, for whoever finds it locked. E_BUSY: another server has it;
 * E_GENERATION, E_STATE, E_STALE: it belongs to another job, generation or server, or has gone
 * back in time; nothing was changed. E_VERSION, E_CORRUPT, E_IO. */
weir_status folder_open(struct folder **out, struct disk *disk, const char *path, const char *holder,
                        const struct folder_identity *who, const struct folder_start *start, weir_error *err) WEIR_MUST_CHECK;
weir_status folder_begin(struct folder *f, weir_error *err) WEIR_MUST_CHECK;
/* clean: all that was accepted is on disk. NULL is allowed. */
void folder_close(struct folder *f, bool clean);
const char *folder_path(const struct folder *f);
/* Names the server that it belongs to: what is in the folder and bears another name was put there by mistake. Never all zero. */
void folder_id(const struct folder *f, uint8_t id[16]);
uint64_t folder_epoch(const struct folder *f);       /* of this start; 1 for the first folder */
uint64_t folder_epoch_found(const struct folder *f); /* of the start before; 0 for a new folder */
bool folder_was_clean(const struct folder *f);       /* new, or the last server stopped cleanly */
/* Whether it must be filled from a checkpoint: it is new or was not filled to the end, and `restore` was asked for. */
bool folder_is_restoring(const struct folder *f);
weir_status folder_restored(struct folder *f, weir_error *err); /* it is filled, and that is on disk */

/* Keeps a table; returns when it is on disk. One that is there already is left alone. From any thread. */
weir_status folder_add_table(struct folder *f, const Weir__V1__Table *table, weir_error *err);
/* The tables that were there when it was opened: (count). */
Weir__V1__Table *const *folder_tables(const struct folder *f, size_t *count);

/* The tables of a folder that no server has, for wire_free; of none where no server has opened it. E_CORRUPT, E_IO. */
weir_status folder_read_tables(struct disk *disk, const char *path, Weir__V1__TableRegistry **out,
                               weir_error *err) WEIR_MUST_CHECK;

#endif
