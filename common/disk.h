/* Files behind an interface: what the log and the checkpoints need, and no more. The simulator replaces it. */
#ifndef WEIR_DISK_H
#define WEIR_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct disk;
struct disk_file;
struct disk_ops {
	weir_status (*open)(struct disk *self, const char *path, bool create, struct disk_file **out, weir_error *err);
	weir_status (*read_at)(struct disk_file *f, uint64_t offset, void *out, size_t bytes, size_t *got, weir_error *err);
	weir_status (*write_at)(struct disk_file *f, uint64_t offset, const void *data, size_t bytes, weir_error *err);
	weir_status (*sync)(struct disk_file *f, weir_error *err);
	weir_status (*size)(struct disk_file *f, uint64_t *bytes, weir_error *err);
	void (*close)(struct disk_file *f);
	weir_status (*rename)(struct disk *self, const char *from, const char *to, weir_error *err); /* atomic, directory synced */
	weir_status (*remove)(struct disk *self, const char *path, weir_error *err);
	weir_status (*make_dirs)(struct disk *self, const char *path, weir_error *err); /* with parents; existing is fine */
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
/* Writes a whole file atomically: temporary name, sync, rename. */
weir_status disk_write_file(struct disk *d, const char *path, const void *data, size_t bytes, weir_error *err);

#endif
