/* A disk in memory, behind common/system/disk.h, that fails as real disks do. A power failure may
 * lose, tear and reorder unsynced writes. The disk can fill up. An fsync can fail and drop pages
 * that still read well from the cache. A step is an operation that changes the disk: making a file,
 * writing, reserving, cutting, syncing, renaming, removing, syncing a directory. Steps count from
 * 1; a fault is set for a step. Paths compare as strings. A directory is durable as soon as it is
 * made. Thread-safe. */
#ifndef WEIR_TESTS_FAULTY_DISK_H
#define WEIR_TESTS_FAULTY_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/system/disk.h"

struct faulty_disk;

/* aborts when out of memory, as all functions here do */
struct faulty_disk *faulty_disk_create(void);
void faulty_disk_destroy(struct faulty_disk *d); /* all files must be closed */
/* an image in which every write is synced */
struct faulty_disk *faulty_disk_copy(struct faulty_disk *d);
struct disk *faulty_disk_interface(struct faulty_disk *d);

uint64_t faulty_disk_steps(struct faulty_disk *d); /* taken so far */
uint64_t faulty_disk_syncs(struct faulty_disk *d); /* syncs of files that succeeded */

/* The power goes during that step, which happens in part or not at all. It and every later step
 * fail with E_IO until faulty_disk_crash. */
void faulty_disk_power_off_at(struct faulty_disk *d, uint64_t step);
/* From that step on every operation that needs space fails with E_NO_SPACE until
 * faulty_disk_make_room. A failing write is half done. A write over reserved bytes needs space too,
 * as on a copy-on-write file system. */
void faulty_disk_full_at(struct faulty_disk *d, uint64_t step);
void faulty_disk_make_room(struct faulty_disk *d);
/* From now on a full disk still accepts writes over existing bytes, as most file systems do. */
void faulty_disk_overwrite_in_place(struct faulty_disk *d);
/* From now on exchanging two names fails. */
void faulty_disk_cannot_exchange(struct faulty_disk *d);
/* The first sync of a file at or after that step fails with E_IO. It drops the unsynced bytes,
 * which still read well from the cache until a crash. */
void faulty_disk_fail_sync_at(struct faulty_disk *d, uint64_t step);
/* While on, syncs of files block. */
void faulty_disk_hold_syncs(struct faulty_disk *d, bool on);
void faulty_disk_await_held_sync(struct faulty_disk *d); /* until a sync blocks */
/* Removed files stay until the crash, as if it came just before their removal. */
void faulty_disk_keep_removed(struct faulty_disk *d);

enum faulty_crash {
	CRASH_PROCESS,  /* loses nothing: the page cache survives */
	CRASH_UNSYNCED, /* loses all unsynced changes */
	CRASH_RANDOM,   /* loses any unsynced sectors, in any order, and the last changes of names */
	/* the same, and some sectors land in place of another unsynced sector of the file */
	CRASH_ASTRAY
};
/* Open handles fail from now on and can only be closed. Locks and faults end. */
void faulty_disk_crash(struct faulty_disk *d, enum faulty_crash how, uint64_t seed);
/* Flips a bit of the file, in the live and in the kept bytes. The byte must exist. */
void faulty_disk_flip(struct faulty_disk *d, const char *path, uint64_t offset, unsigned bit);

#endif
