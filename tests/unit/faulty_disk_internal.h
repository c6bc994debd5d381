/* What a faulty disk holds. A file has the live bytes, which reads see, the kept bytes, which the
 * device has, and the ordered changes between them that no sync has carried over. A crash applies
 * some of the changes to the kept bytes; reads see those from then on. Names work the same way. */
#ifndef WEIR_TESTS_FAULTY_DISK_INTERNAL_H
#define WEIR_TESTS_FAULTY_DISK_INTERNAL_H

#include <pthread.h>
#include <stddef.h>

#include "tests/unit/faulty_disk.h"

struct bytes {
	uint8_t *data;
	size_t size;
};

/* A write, or a change of size if `data` is NULL. */
struct change {
	uint64_t at; /* offset; or the new size */
	struct bytes written;
};

struct file {
	struct bytes live, kept;
	struct change *changes;
	uint32_t count;
	bool locked, forgotten; /* forgotten: a failed sync dropped changes */
};

struct name {
	char path[256];
	struct file *file; /* NULL: removed */
};
struct names {
	struct name *of;
	uint32_t count;
};

struct faulty_disk {
	struct disk disk;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct file **files; /* all files ever made: handles from before a crash refer to them */
	uint32_t file_count;
	/* changes: in order; file NULL: unlinked */
	struct names live, kept, changes;
	uint64_t steps, syncs, power_off_at, full_at, fail_sync_at; /* 0: never */
	uint64_t age;                                               /* crashes so far */
	bool hold, held, keep_removed, in_place, cannot_exchange;
};

extern const struct disk_ops faulty_disk_ops;

void *disk_must(void *p); /* aborts if NULL */

void bytes_resize(struct bytes *b, size_t size);
void bytes_place(struct bytes *b, uint64_t at, const void *data, size_t size);
void bytes_copy(struct bytes *to, const struct bytes *from);

/* Adds a change. data NULL: a change of size to `at`. */
void file_note(struct file *f, uint64_t at, const void *data, size_t size);
void file_forget_changes(struct file *f);
struct file *disk_new_file(struct faulty_disk *d);

bool path_is_in(const char *path, const char *directory);
struct name *names_find(struct names *n, const char *path);
void names_append(struct names *n, const char *path, struct file *f);
void names_copy(struct names *to, const struct names *from);
/* Binds path to f; NULL unbinds it. A crash may undo it until the directory is synced. */
void disk_change_name(struct faulty_disk *d, const char *path, struct file *f);
/* Makes the first `keep` pending changes of the directory's names durable and drops its others.
 * NULL: of all directories. */
void disk_settle_names(struct faulty_disk *d, const char *directory, uint32_t keep);
void disk_settle_parent(struct faulty_disk *d, const char *path);

#endif
