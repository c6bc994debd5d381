/* The faulty disk's operations: each that changes the disk takes a step, and a step may fail. */
#include "tests/unit/faulty_disk_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct handle {
	struct disk_file base;
	struct file *file;
	uint64_t age; /* the handle works while the disk has the same age */
	bool locks;
	char path[256];
};

static struct faulty_disk *disk_of(struct disk *d)
{
	return (struct faulty_disk *)d;
}

/* --- Faults. The caller holds the lock. */

enum step { STEP_DONE, STEP_POWER, STEP_FULL };

static enum step take_step(struct faulty_disk *d, bool needs_space)
{
	d->steps++;
	if (d->power_off_at && d->steps >= d->power_off_at)
		return STEP_POWER;
	return needs_space && d->full_at && d->steps >= d->full_at ? STEP_FULL : STEP_DONE;
}

/* Returns true while the power is off. */
static bool is_off(const struct faulty_disk *d)
{
	return d->power_off_at && d->steps >= d->power_off_at;
}

static weir_status fail_step(enum step step, const char *doing, const char *path, weir_error *err)
{
	if (step == STEP_FULL)
		return weir_fail(err, WEIR_E_NO_SPACE, "cannot %s %s: the faulty disk is full", doing, path);
	return weir_fail(err, WEIR_E_IO, "cannot %s %s: the faulty disk is gone", doing, path);
}

/* The handle's file, with the lock held; NULL if a crash came after the open. */
static struct file *enter(struct handle *h)
{
	struct faulty_disk *d = disk_of(h->base.disk);
	pthread_mutex_lock(&d->lock);
	return h->age == d->age ? h->file : NULL;
}

static weir_status leave(struct faulty_disk *d, weir_status status)
{
	pthread_mutex_unlock(&d->lock);
	return status;
}

/* --- Files */

static weir_status open_locked(struct faulty_disk *d, const char *path, bool create, struct file **out, weir_error *err)
{
	struct name *n = names_find(&d->live, path);
	if (is_off(d))
		return fail_step(STEP_POWER, "open", path, err);
	if (!n && !create)
		return weir_fail(err, WEIR_E_NOT_FOUND, "cannot open %s: not on the faulty disk", path);
	if (!n) {
		enum step step = take_step(d, true);
		if (step != STEP_DONE)
			return fail_step(step, "create", path, err);
		disk_change_name(d, path, disk_new_file(d));
	}
	*out = names_find(&d->live, path)->file;
	return WEIR_OK;
}

static weir_status faulty_open(struct disk *self, const char *path, bool create, struct disk_file **out, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	struct handle *h = disk_must(calloc(1, sizeof *h));
	pthread_mutex_lock(&d->lock);
	weir_status status = open_locked(d, path, create, &h->file, err);
	h->base.disk = self;
	h->age = d->age;
	snprintf(h->path, sizeof h->path, "%s", path);
	if (status == WEIR_OK)
		*out = &h->base;
	else
		free(h);
	return leave(d, status);
}

static weir_status faulty_read_at(struct disk_file *file, uint64_t offset, void *out, size_t bytes, size_t *got, weir_error *err)
{
	struct handle *h = (struct handle *)file;
	struct faulty_disk *d = disk_of(file->disk);
	struct file *f = enter(h);
	if (!f || is_off(d))
		return leave(d, fail_step(STEP_POWER, "read", h->path, err));
	*got = offset >= f->live.size ? 0 : f->live.size - offset < bytes ? f->live.size - offset : bytes;
	memcpy(out, f->live.data + (*got ? offset : 0), *got);
	return leave(d, WEIR_OK);
}

static weir_status write_locked(struct handle *h, struct file *f, uint64_t offset, const void *data, size_t bytes,
                                weir_error *err)
{
	struct faulty_disk *d = disk_of(h->base.disk);
	if (!f || is_off(d))
		return fail_step(STEP_POWER, "write", h->path, err);
	enum step step = take_step(d, !d->in_place || offset + bytes > f->live.size);
	/* the crash tears a write during which the power goes */
	size_t done = step == STEP_FULL ? bytes / 2 : bytes;
	bytes_place(&f->live, offset, data, done);
	file_note(f, offset, data, done);
	return step == STEP_DONE ? WEIR_OK : fail_step(step, "write", h->path, err);
}

static weir_status faulty_write_at(struct disk_file *file, uint64_t offset, const void *data, size_t bytes, weir_error *err)
{
	struct handle *h = (struct handle *)file;
	struct file *f = enter(h);
	return leave(disk_of(file->disk), write_locked(h, f, offset, data, bytes, err));
}

static weir_status faulty_write_spans(struct disk_file *file, uint64_t offset, const struct span *spans, uint32_t count,
                                      weir_error *err)
{
	struct handle *h = (struct handle *)file;
	struct bytes all = {0};
	for (uint32_t i = 0; i < count; i++)
		bytes_place(&all, all.size, spans[i].data, spans[i].size);
	struct file *f = enter(h);
	weir_status status = write_locked(h, f, offset, all.data, all.size, err);
	free(all.data);
	return leave(disk_of(file->disk), status);
}

static weir_status set_size(struct disk_file *file, uint64_t bytes, bool grow, weir_error *err)
{
	struct handle *h = (struct handle *)file;
	struct faulty_disk *d = disk_of(file->disk);
	struct file *f = enter(h);
	if (!f || is_off(d))
		return leave(d, fail_step(STEP_POWER, "resize", h->path, err));
	enum step step = take_step(d, grow);
	if (step == STEP_FULL)
		return leave(d, fail_step(step, "reserve space for", h->path, err));
	if (!grow || bytes > f->live.size) {
		bytes_resize(&f->live, bytes);
		file_note(f, bytes, NULL, 0);
	}
	return leave(d, step == STEP_DONE ? WEIR_OK : fail_step(step, "resize", h->path, err));
}

static weir_status faulty_allocate(struct disk_file *file, uint64_t bytes, weir_error *err)
{
	return set_size(file, bytes, true, err);
}

static weir_status faulty_truncate(struct disk_file *file, uint64_t bytes, weir_error *err)
{
	return set_size(file, bytes, false, err);
}

static void wait_while_held(struct faulty_disk *d)
{
	while (d->hold) {
		d->held = true;
		pthread_cond_broadcast(&d->change);
		pthread_cond_wait(&d->change, &d->lock);
	}
	d->held = false;
}

static weir_status faulty_sync(struct disk_file *file, weir_error *err)
{
	struct handle *h = (struct handle *)file;
	struct faulty_disk *d = disk_of(file->disk);
	struct file *f = enter(h);
	wait_while_held(d);
	if (!f || is_off(d))
		return leave(d, fail_step(STEP_POWER, "sync", h->path, err));
	enum step step = take_step(d, false);
	if (step != STEP_DONE)
		return leave(d, fail_step(step, "sync", h->path, err));
	if (d->fail_sync_at && d->steps >= d->fail_sync_at) {
		d->fail_sync_at = 0;
		f->forgotten = true;
		file_forget_changes(f);
		return leave(d, weir_fail(err, WEIR_E_IO, "cannot sync %s: the faulty disk lost it", h->path));
	}
	d->syncs++;
	if (!f->forgotten)
		bytes_copy(&f->kept, &f->live);
	file_forget_changes(f);
	return leave(d, WEIR_OK);
}

static void faulty_drop_cache(struct disk_file *file)
{
	struct faulty_disk *d = disk_of(file->disk);
	struct file *f = enter((struct handle *)file);
	if (f && f->count == 0) {
		bytes_copy(&f->live, &f->kept);
		f->forgotten = false;
	}
	leave(d, WEIR_OK);
}

static weir_status faulty_size(struct disk_file *file, uint64_t *bytes, weir_error *err)
{
	struct handle *h = (struct handle *)file;
	struct faulty_disk *d = disk_of(file->disk);
	struct file *f = enter(h);
	if (!f || is_off(d))
		return leave(d, fail_step(STEP_POWER, "stat", h->path, err));
	*bytes = f->live.size;
	return leave(d, WEIR_OK);
}

static void faulty_close(struct disk_file *file)
{
	struct handle *h = (struct handle *)file;
	struct faulty_disk *d = disk_of(file->disk);
	struct file *f = enter(h);
	if (f && h->locks)
		f->locked = false;
	leave(d, WEIR_OK);
	free(h);
}

/* --- Names */

static weir_status faulty_rename(struct disk *self, const char *from, const char *to, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	pthread_mutex_lock(&d->lock);
	struct name *n = names_find(&d->live, from);
	if (!n || is_off(d))
		return leave(d, weir_fail(err, n ? WEIR_E_IO : WEIR_E_NOT_FOUND, "cannot rename to %s", to));
	enum step step = take_step(d, true);
	if (step == STEP_FULL)
		return leave(d, fail_step(step, "rename to", to, err));
	struct file *f = n->file;
	disk_change_name(d, to, f);
	disk_change_name(d, from, NULL);
	if (step == STEP_DONE)
		disk_settle_parent(d, to);
	return leave(d, step == STEP_DONE ? WEIR_OK : fail_step(step, "rename to", to, err));
}

static weir_status faulty_exchange(struct disk *self, const char *from, const char *to, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	pthread_mutex_lock(&d->lock);
	const struct name *a = names_find(&d->live, from), *b = names_find(&d->live, to);
	if (d->cannot_exchange)
		return leave(d, weir_fail(err, WEIR_E_UNSUPPORTED, "cannot exchange %s with another", to));
	if (!a || !b || is_off(d))
		return leave(d, weir_fail(err, a && b ? WEIR_E_IO : WEIR_E_NOT_FOUND, "cannot exchange %s", to));
	struct file *f = a->file, *g = b->file;
	enum step step = take_step(d, false);
	if (step != STEP_DONE) /* a rename happens whole or not at all */
		return leave(d, fail_step(step, "exchange", to, err));
	disk_change_name(d, to, f);
	disk_change_name(d, from, g);
	disk_settle_parent(d, to);
	return leave(d, WEIR_OK);
}

static weir_status faulty_remove(struct disk *self, const char *path, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	pthread_mutex_lock(&d->lock);
	bool there = names_find(&d->live, path) != NULL;
	if (!there || is_off(d))
		return leave(d, weir_fail(err, there ? WEIR_E_IO : WEIR_E_NOT_FOUND, "cannot remove %s", path));
	enum step step = take_step(d, false);
	if (!d->keep_removed)
		disk_change_name(d, path, NULL);
	return leave(d, step == STEP_DONE ? WEIR_OK : fail_step(step, "remove", path, err));
}

static weir_status faulty_make_dirs(struct disk *self, const char *path, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	pthread_mutex_lock(&d->lock);
	return leave(d, is_off(d) ? fail_step(STEP_POWER, "create directory", path, err) : WEIR_OK);
}

static weir_status faulty_sync_directory(struct disk *self, const char *path, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	pthread_mutex_lock(&d->lock);
	enum step step = is_off(d) ? STEP_POWER : take_step(d, false);
	if (step == STEP_DONE)
		disk_settle_names(d, path, UINT32_MAX);
	return leave(d, step == STEP_DONE ? WEIR_OK : fail_step(step, "sync", path, err));
}

static weir_status faulty_list(struct disk *self, const char *path, weir_status (*each)(void *arg, const char *name), void *arg,
                               weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	pthread_mutex_lock(&d->lock);
	weir_status status = is_off(d) ? fail_step(STEP_POWER, "list", path, err) : WEIR_OK;
	struct names all = {0};
	names_copy(&all, &d->live);
	leave(d, WEIR_OK);
	for (uint32_t i = 0; i < all.count && status == WEIR_OK; i++)
		if (path_is_in(all.of[i].path, path))
			status = each(arg, strrchr(all.of[i].path, '/') + 1);
	free(all.of);
	return status;
}

static weir_status faulty_lock(struct disk *self, const char *path, const char *holder, struct disk_file **out, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	struct disk_file *opened;
	weir_status status = faulty_open(self, path, true, &opened, err);
	if (status != WEIR_OK)
		return status;
	struct handle *h = (struct handle *)opened;
	struct file *f = enter(h);
	bool taken = f->locked;
	f->locked = true;
	h->locks = !taken;
	leave(d, WEIR_OK);
	if (!taken) {
		*out = opened;
		return WEIR_OK;
	}
	faulty_close(opened);
	return weir_fail(err, WEIR_E_BUSY, "%s cannot have %s: it is in use", holder, path);
}

static weir_status faulty_free_space(struct disk *self, const char *path, uint64_t *bytes, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	(void)path, (void)err;
	pthread_mutex_lock(&d->lock);
	*bytes = d->full_at && d->steps >= d->full_at ? 0 : UINT32_MAX;
	return leave(d, WEIR_OK);
}

const struct disk_ops faulty_disk_ops = {
    .open = faulty_open,
    .read_at = faulty_read_at,
    .write_at = faulty_write_at,
    .write_spans = faulty_write_spans,
    .allocate = faulty_allocate,
    .truncate = faulty_truncate,
    .sync = faulty_sync,
    .drop_cache = faulty_drop_cache,
    .size = faulty_size,
    .close = faulty_close,
    .rename = faulty_rename,
    .exchange = faulty_exchange,
    .remove = faulty_remove,
    .make_dirs = faulty_make_dirs,
    .sync_directory = faulty_sync_directory,
    .list = faulty_list,
    .lock = faulty_lock,
    .free_space = faulty_free_space,
};
