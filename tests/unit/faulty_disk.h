/* A disk in memory that fails as real ones do, behind common/system/disk.h: what is not synced may be lost, torn and reordered when the power goes; it fills up;
 * an fsync fails and the pages it dropped still read well from the cache.
 *
 * Steps. Everything that changes the disk (making a file, writing, reserving, cutting, syncing, renaming, removing, syncing a directory) is a
 * step, counted from 1; a fault is set for a step. Paths are compared as they are given. Directories are there as soon as they are made. Thread-safe. */
#ifndef WEIR_TESTS_FAULTY_DISK_H
#define WEIR_TESTS_FAULTY_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/system/disk.h"

struct faulty_disk;

struct faulty_disk *faulty_disk_create(void);                /* aborts when out of memory, like everything here */
void faulty_disk_destroy(struct faulty_disk *d);             /* needs: all files closed */
struct faulty_disk *faulty_disk_copy(struct faulty_disk *d); /* an image: all that was written is on it, synced */
struct disk *faulty_disk_interface(struct faulty_disk *d);

uint64_t faulty_disk_steps(struct faulty_disk *d); /* taken so far */
uint64_t faulty_disk_syncs(struct faulty_disk *d); /* of files, that succeeded */

/* The power goes during that step, which is done in part or not at all; it and everything after it fails with E_IO until faulty_disk_crash. */
void faulty_disk_power_off_at(struct faulty_disk *d, uint64_t step);
/* From that step on whatever needs space (also a write over reserved bytes, as on a file system that copies) fails with E_NO_SPACE,
 * writes half done; until faulty_disk_make_room. */
void faulty_disk_full_at(struct faulty_disk *d, uint64_t step);
void faulty_disk_make_room(struct faulty_disk *d);
/* From now on what a file has is written over while the disk is full, as on most file systems. */
void faulty_disk_overwrite_in_place(struct faulty_disk *d);
/* From now on names cannot be exchanged. */
void faulty_disk_cannot_exchange(struct faulty_disk *d);
/* The first sync of a file at or after that step fails with E_IO. What it should have kept is dropped but still read until the cache is. */
void faulty_disk_fail_sync_at(struct faulty_disk *d, uint64_t step);
/* While on, syncs of files wait. */
void faulty_disk_hold_syncs(struct faulty_disk *d, bool on);
void faulty_disk_await_held_sync(struct faulty_disk *d); /* until one waits */
/* Until the crash files that are removed stay, as if it came just before. */
void faulty_disk_keep_removed(struct faulty_disk *d);

enum faulty_crash {
	CRASH_PROCESS,  /* nothing is lost: the page cache lives on */
	CRASH_UNSYNCED, /* everything that is not synced is lost */
	CRASH_RANDOM,   /* any sectors of what is not synced are lost, whatever their order; of names, the last ones */
	CRASH_ASTRAY    /* the same, and some land where another sector of the file belongs that is not synced either */
};
/* What was open fails from now on and can only be closed; locks are gone; all faults are off. */
void faulty_disk_crash(struct faulty_disk *d, enum faulty_crash how, uint64_t seed);
/* Changes a bit of the file, as it is and as it is kept. The byte must be there. */
void faulty_disk_flip(struct faulty_disk *d, const char *path, uint64_t offset, unsigned bit);

#endif
