/* Files behind an interface: what the journal and the checkpoints need, and no more. Tests and the simulator replace it.
 *
 * What lasts. Written bytes survive a crash of the process at once and a crash of the machine once `sync` on their file has returned; a new, renamed
 * or removed name once `sync_directory` has (rename does it itself). A failed sync is final: the system may have dropped the bytes and forgotten
 * the error, so a second one that succeeds proves nothing.
 * Errors name the path and what was tried: E_NOT_FOUND, E_NO_SPACE (disk or quota full), E_IO. */
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
	/* create: made when missing, never emptied. Without write permission an existing file is opened for reading. */
	weir_status (*open)(struct disk *self, const char *path, bool create, struct disk_file **out, weir_error *err);
	/* Short only at the end of the file. */
	weir_status (*read_at)(struct disk_file *f, uint64_t offset, void *out, size_t bytes, size_t *got, weir_error *err);
	weir_status (*write_at)(struct disk_file *f, uint64_t offset, const void *data, size_t bytes, weir_error *err);
	/* The spans one behind the other. After a failure any part of them may have been written; not atomic in a crash either. */
	weir_status (*write_spans)(struct disk_file *f, uint64_t offset, const struct span *spans, uint32_t count, weir_error *err);
	/* Reserves space for the first `bytes` bytes, those not there yet reading as zeros; the file is then at least so long. E_NO_SPACE: it does
	 * not fit. A file system that cannot reserve answers OK and does nothing. */
	weir_status (*allocate)(struct disk_file *f, uint64_t bytes, weir_error *err);
	weir_status (*truncate)(struct disk_file *f, uint64_t bytes, weir_error *err);
	weir_status (*sync)(struct disk_file *f, weir_error *err); /* data and size; E_IO, too: the file was deleted */
	/* Cached bytes that are synced are dropped: what is read next comes from the device. */
	void (*drop_cache)(struct disk_file *f);
	weir_status (*size)(struct disk_file *f, uint64_t *bytes, weir_error *err);
	void (*close)(struct disk_file *f);
	weir_status (*rename)(struct disk *self, const char *from, const char *to, weir_error *err); /* atomic, directory synced */
	/* Two files of a directory get each other's name, atomically, directory synced; it needs no space.
	 * E_UNSUPPORTED: the file system cannot, nothing was changed. */
	weir_status (*exchange)(struct disk *self, const char *from, const char *to, weir_error *err);
	weir_status (*remove)(struct disk *self, const char *path, weir_error *err);
	/* With parents; existing is fine, and what is new is in a directory that is synced. It is made
	 * for its owner alone (0700), parents for all to look into (0755); what exists keeps its
	 * mode. */
	weir_status (*make_dirs)(struct disk *self, const char *path, weir_error *err);
	weir_status (*sync_directory)(struct disk *self, const char *path, weir_error *err);
	/* Calls `each` with every name in the directory but . and .., in no order, until it answers other than OK; returns that. */
	weir_status (*list)(struct disk *self, const char *path, weir_status (*each)(void *arg, const char *name), void *arg,
	                    weir_error *err);
	/* Locks the file (made when missing) for this process until it is closed or the process ends, and writes `holder` into it: a line that says
	 * who holds it. E_BUSY: another has it; the error names both. */
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

/* Reads a whole file of at most bytes_max into malloc'ed memory with a NUL after it. */
weir_status disk_read_file(struct disk *d, const char *path, size_t bytes_max, char **out, size_t *bytes, weir_error *err);
/* Makes a whole file anew, atomically: `fill` writes it under a temporary name; sync, rename. */
weir_status disk_replace_file(struct disk *d, const char *path,
                              weir_status (*fill)(void *arg, struct disk_file *f, weir_error *err), void *arg, weir_error *err);
/* The same with these bytes, or with those of another file. */
weir_status disk_write_file(struct disk *d, const char *path, const void *data, size_t bytes, weir_error *err);
weir_status disk_copy_file(struct disk *d, const char *from, const char *to, weir_error *err);
/* For a file that must be written when the disk is full, too, and always has as many bytes. A
 * second one, `path`.spare, keeps its space: disk_rewrite_file writes there, syncs, and exchanges the
 * two. disk_reserve_file makes the spare one. On a file system that copies what is overwritten, or
 * cannot exchange, each write needs space. */
weir_status disk_rewrite_file(struct disk *d, const char *path, const void *data, size_t bytes, weir_error *err);
weir_status disk_reserve_file(struct disk *d, const char *path, size_t bytes, weir_error *err);
/* Writes the first `bytes` bytes of `from` at `offset` of `to`, in blocks. E_IO: it has fewer. */
weir_status disk_copy_bytes(struct disk_file *from, uint64_t bytes, struct disk_file *to, uint64_t offset, weir_error *err);

#endif
