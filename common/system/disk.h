/* Files behind an interface, with only the operations that the journal and the checkpoints need.
 * Tests and the simulator replace it.
 *
 * Durability. Written bytes survive a crash of the process at once. They survive a crash of the
 * machine once `sync` of their file has returned. A new, renamed or removed name survives it once
 * `sync_directory` has returned (rename calls it itself). A failed sync is final: the system may
 * have dropped the bytes and forgotten the error, so a later sync that succeeds proves nothing.
 *
 * Errors name the path and the operation: E_NOT_FOUND, E_NO_SPACE (disk or quota full), E_IO. */
#ifndef WEIR_DISK_H
#define WEIR_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/message.h"
#include "weir/status.h"

struct disk;
struct disk_file;
struct disk_ops {
	/* create: creates a missing file, never empties one. An existing file without write permission
	 * is opened for reading. */
	weir_status (*open)(struct disk *self, const char *path, bool create, struct disk_file **out, weir_error *err);
	/* *got is less than `bytes` only at the end of the file. */
	weir_status (*read_at)(struct disk_file *f, uint64_t offset, void *out, size_t bytes, size_t *got, weir_error *err);
	weir_status (*write_at)(struct disk_file *f, uint64_t offset, const void *data, size_t bytes, weir_error *err);
	/* Writes the spans one after the other. Not atomic: after a failure or a crash, any part of
	 * them may have been written. */
	weir_status (*write_spans)(struct disk_file *f, uint64_t offset, const struct span *spans, uint32_t count, weir_error *err);
	/* Reserves space for the first `bytes` bytes, and makes the file at least that long; new bytes
	 * read as zeros. E_NO_SPACE: it does not fit. A file system that cannot reserve returns OK and
	 * does nothing. */
	weir_status (*allocate)(struct disk_file *f, uint64_t bytes, weir_error *err);
	weir_status (*truncate)(struct disk_file *f, uint64_t bytes, weir_error *err);
	/* data and size; E_IO also if the file was deleted */
	weir_status (*sync)(struct disk_file *f, weir_error *err);
	/* Drops synced bytes from the cache: the next read comes from the device. */
	void (*drop_cache)(struct disk_file *f);
	weir_status (*size)(struct disk_file *f, uint64_t *bytes, weir_error *err);
	void (*close)(struct disk_file *f);
	/* atomic; syncs the directory */
	weir_status (*rename)(struct disk *self, const char *from, const char *to, weir_error *err);
	/* Exchanges the names of two files of one directory, atomically, and syncs the directory. Needs
	 * no space. E_UNSUPPORTED: the file system cannot do this; nothing changed. */
	weir_status (*exchange)(struct disk *self, const char *from, const char *to, weir_error *err);
	weir_status (*remove)(struct disk *self, const char *path, weir_error *err);
	/* Creates a directory and its parents, and syncs the directories that contain new ones. An
	 * existing one is fine and keeps its mode. The new directory is its owner's alone (0700); new
	 * parents are readable by all (0755). */
	weir_status (*make_dirs)(struct disk *self, const char *path, weir_error *err);
	weir_status (*sync_directory)(struct disk *self, const char *path, weir_error *err);
	/* Calls `each` with every name in the directory except . and .., in no particular order, until
	 * it returns a status other than OK; returns that status. */
	weir_status (*list)(struct disk *self, const char *path, weir_status (*each)(void *arg, const char *name), void *arg,
	                    weir_error *err);
	/* Locks the file (created if missing) for this process until it is closed or the process ends.
	 * Writes `holder` into it, a line that names the owner of the lock. E_BUSY: another process has
	 * it; the error names both. */
	weir_status (*lock)(struct disk *self, const char *path, const char *holder, struct disk_file **out, weir_error *err);
	weir_status (*free_space)(struct disk *self, const char *path, uint64_t *bytes, weir_error *err);
};
struct disk {
	const struct disk_ops *ops;
};
struct disk_file {
	struct disk *disk;
};

struct disk *disk_system(void);

/* Reads a whole file of at most bytes_max into malloc'ed memory, with a NUL after it. */
weir_status disk_read_file(struct disk *d, const char *path, size_t bytes_max, char **out, size_t *bytes, weir_error *err);
/* Replaces a whole file atomically: `fill` writes it under a temporary name, then sync and
 * rename. */
weir_status disk_replace_file(struct disk *d, const char *path,
                              weir_status (*fill)(void *arg, struct disk_file *f, weir_error *err), void *arg, weir_error *err);
/* The same with these bytes, or with the bytes of another file. */
weir_status disk_write_file(struct disk *d, const char *path, const void *data, size_t bytes, weir_error *err);
weir_status disk_copy_file(struct disk *d, const char *from, const char *to, weir_error *err);
/* For a file that must be written even on a full disk, and always has the same size. A second file,
 * `path`.spare, keeps the space: disk_rewrite_file writes there, syncs, and exchanges the two.
 * disk_reserve_file creates the spare file. On a file system that copies on write, or that cannot
 * exchange, each write needs space. */
weir_status disk_rewrite_file(struct disk *d, const char *path, const void *data, size_t bytes, weir_error *err);
weir_status disk_reserve_file(struct disk *d, const char *path, size_t bytes, weir_error *err);
/* Copies the first `bytes` bytes of `from` to `offset` of `to`, in blocks. E_IO: `from` is
 * shorter. */
weir_status disk_copy_bytes(struct disk_file *from, uint64_t bytes, struct disk_file *to, uint64_t offset, weir_error *err);

#endif
