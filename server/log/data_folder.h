/* The data folder: the files that a server must find again at its next start.
 *
 *   LOCK             locked while a server uses the folder
 *   IDENTITY         JSON: format version, job uuid, generation, server index, servers, partitions,
 *                    epoch, whether a restore is incomplete, whether the last server stopped
 *                    cleanly, checksum
 *   PROMISES         votes of the server's replicas, and which replicas are whole (vote_store.h)
 *   PROMISES.spare   space for the next version of PROMISES
 *   TABLES           TableRegistry of state.proto, with a checksum: every table registered here. A
 *                    table is stored before the log mentions it
 *   RESERVE          reserved space that lets a server start and stop on a full disk
 *   journal/         the log (journal.h)
 *   db/              RocksDB: rows and headers (cold.h)
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

/* If the folder belongs to an earlier generation of this server's job, renames it to `aside`,
 * creates the parents of `aside`, and sets *done. E_EXISTS: `aside` exists already; E_BUSY: another
 * process uses the folder; E_CORRUPT, E_VERSION, E_IO. */
weir_status folder_set_aside(struct disk *disk, const char *path, const char *aside, const char *holder,
                             const struct folder_identity *who, bool *done, weir_error *err) WEIR_MUST_CHECK;

/* Renames a folder that no process uses to `aside`, and creates the parents of `aside`. E_EXISTS:
 * `aside` exists already; E_BUSY, E_IO. */
weir_status folder_put_aside(struct disk *disk, const char *path, const char *aside, const char *holder,
                             weir_error *err) WEIR_MUST_CHECK;
/* Sets *there if a server has ever opened the folder. E_IO. */
weir_status folder_is_there(struct disk *disk, const char *path, bool *there, weir_error *err) WEIR_MUST_CHECK;

struct folder;
struct folder_start {
	/* The folder may be filled from a checkpoint. If false, a folder with an incomplete restore is
	 * E_STATE. */
	bool restore;
	uint64_t
	    /* Epoch of an earlier start of this server (mark.h); 0: unknown. A folder that has not seen
	     * this epoch is E_STALE. A new folder begins above it. */
	    epoch_known;
};
/* Locks the folder. The epoch of this start is on disk once folder_begin has returned; for a new
 * folder, once folder_open has returned. holder: names this process to others that find the folder
 * locked. E_BUSY: another server uses the folder. E_GENERATION, E_STATE, E_STALE: the folder
 * belongs to another job, generation or server, or has gone back in time; nothing was changed.
 * E_VERSION, E_CORRUPT, E_IO. */
weir_status folder_open(struct folder **out, struct disk *disk, const char *path, const char *holder,
                        const struct folder_identity *who, const struct folder_start *start, weir_error *err) WEIR_MUST_CHECK;
weir_status folder_begin(struct folder *f, weir_error *err) WEIR_MUST_CHECK;
/* clean: everything accepted is on disk. NULL is allowed. */
void folder_close(struct folder *f, bool clean);
const char *folder_path(const struct folder *f);
/* Returns an id of the server that owns the folder. A file in the folder with another id was put
 * there by mistake. Never all zero. */
void folder_id(const struct folder *f, uint8_t id[16]);
uint64_t folder_epoch(const struct folder *f);       /* of this start; 1 for the first folder */
uint64_t folder_epoch_found(const struct folder *f); /* of the start before; 0 for a new folder */
bool folder_was_clean(const struct folder *f);       /* new, or the last server stopped cleanly */
/* Whether the folder must be filled from a checkpoint: `restore` was set, and the folder is new or
 * its restore was incomplete. */
bool folder_is_restoring(const struct folder *f);
/* Marks the restore complete, on disk. */
weir_status folder_restored(struct folder *f, weir_error *err);

/* Stores a table; it is on disk when this returns. Keeps a table that is already stored. From any
 * thread. */
weir_status folder_add_table(struct folder *f, const Weir__V1__Table *table, weir_error *err);
/* Returns the (count) tables that the folder held when it was opened. */
Weir__V1__Table *const *folder_tables(const struct folder *f, size_t *count);

/* Reads the tables of a folder that no server uses; free *out with wire_destroy. A folder that no
 * server has opened has no tables. E_CORRUPT, E_IO. */
weir_status folder_read_tables(struct disk *disk, const char *path, Weir__V1__TableRegistry **out,
                               weir_error *err) WEIR_MUST_CHECK;

#endif
