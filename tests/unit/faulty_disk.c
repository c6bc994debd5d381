/* A file has the live bytes, which reads see, the kept bytes, which the device has, and the ordered
 * changes between them that no sync has carried over. A crash applies some of the changes to the
 * kept bytes; reads see those from then on. Names work the same way. */
#include "tests/unit/faulty_disk.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/prng.h"

#define SECTOR_BYTES 512u

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

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

/* --- Bytes */

static void resize(struct bytes *b, size_t size)
{
	b->data = must(realloc(b->data, size ? size : 1));
	if (size > b->size)
		memset(b->data + b->size, 0, size - b->size);
	b->size = size;
}

static void place(struct bytes *b, uint64_t at, const void *data, size_t size)
{
	if (at + size > b->size)
		resize(b, at + size);
	if (size)
		memcpy(b->data + at, data, size);
}

static void copy(struct bytes *to, const struct bytes *from)
{
	resize(to, from->size);
	memcpy(to->data, from->data, from->size);
}

static void note(struct file *f, uint64_t at, const void *data, size_t size)
{
	f->changes = must(realloc(f->changes, (f->count + 1) * sizeof *f->changes));
	struct change *c = &f->changes[f->count++];
	*c = (struct change){.at = at};
	if (data)
		place(&c->written, 0, data, size);
}

static void forget_changes(struct file *f)
{
	for (uint32_t i = 0; i < f->count; i++)
		free(f->changes[i].written.data);
	f->count = 0;
}

/* --- Names */

static struct name *find(struct names *n, const char *path)
{
	for (uint32_t i = 0; i < n->count; i++)
		if (strcmp(n->of[i].path, path) == 0)
			return &n->of[i];
	return NULL;
}

static void append_name(struct names *n, const char *path, struct file *f)
{
	if (strlen(path) >= sizeof n->of->path)
		abort();
	n->of = must(realloc(n->of, (n->count + 1) * sizeof *n->of));
	struct name *added = &n->of[n->count++];
	strcpy(added->path, path);
	added->file = f;
}

/* Binds path to f; NULL unbinds it. */
static void set_name(struct names *n, const char *path, struct file *f)
{
	struct name *old = find(n, path);
	if (f && old)
		old->file = f;
	else if (f)
		append_name(n, path, f);
	else if (old)
		*old = n->of[--n->count];
}

static void copy_names(struct names *to, const struct names *from)
{
	to->count = from->count;
	to->of = must(realloc(to->of, (from->count + 1) * sizeof *to->of));
	if (from->count)
		memcpy(to->of, from->of, from->count * sizeof *to->of);
}

static void change_name(struct faulty_disk *d, const char *path, struct file *f)
{
	set_name(&d->live, path, f);
	append_name(&d->changes, path, f);
}

static bool is_in(const char *path, const char *directory)
{
	size_t length = strlen(directory);
	return strncmp(path, directory, length) == 0 && path[length] == '/' && !strchr(path + length + 1, '/');
}

/* Makes the first `keep` pending changes of the directory's names durable and drops its others.
 * NULL: of all directories. */
static void settle_names(struct faulty_disk *d, const char *directory, uint32_t keep)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < d->changes.count; i++) {
		struct name *c = &d->changes.of[i];
		if (directory && !is_in(c->path, directory))
			d->changes.of[left++] = *c;
		else if (keep > 0 && keep--)
			set_name(&d->kept, c->path, c->file);
	}
	d->changes.count = left;
}

static void settle_parent(struct faulty_disk *d, const char *path)
{
	char directory[256];
	const char *slash = strrchr(path, '/');
	snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 0, path);
	settle_names(d, directory, UINT32_MAX);
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

static struct file *new_file(struct faulty_disk *d)
{
	d->files = must(realloc(d->files, (d->file_count + 1) * sizeof(struct file *)));
	struct file *f = must(calloc(1, sizeof *f));
	resize(&f->live, 0);
	resize(&f->kept, 0);
	return d->files[d->file_count++] = f;
}

static weir_status open_locked(struct faulty_disk *d, const char *path, bool create, struct file **out, weir_error *err)
{
	struct name *n = find(&d->live, path);
	if (is_off(d))
		return fail_step(STEP_POWER, "open", path, err);
	if (!n && !create)
		return weir_fail(err, WEIR_E_NOT_FOUND, "cannot open %s: not on the faulty disk", path);
	if (!n) {
		enum step step = take_step(d, true);
		if (step != STEP_DONE)
			return fail_step(step, "create", path, err);
		change_name(d, path, new_file(d));
	}
	*out = find(&d->live, path)->file;
	return WEIR_OK;
}

static weir_status faulty_open(struct disk *self, const char *path, bool create, struct disk_file **out, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	struct handle *h = must(calloc(1, sizeof *h));
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
	place(&f->live, offset, data, done);
	note(f, offset, data, done);
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
		place(&all, all.size, spans[i].data, spans[i].size);
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
		resize(&f->live, bytes);
		note(f, bytes, NULL, 0);
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
		forget_changes(f);
		return leave(d, weir_fail(err, WEIR_E_IO, "cannot sync %s: the faulty disk lost it", h->path));
	}
	d->syncs++;
	if (!f->forgotten)
		copy(&f->kept, &f->live);
	forget_changes(f);
	return leave(d, WEIR_OK);
}

static void faulty_drop_cache(struct disk_file *file)
{
	struct faulty_disk *d = disk_of(file->disk);
	struct file *f = enter((struct handle *)file);
	if (f && f->count == 0) {
		copy(&f->live, &f->kept);
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
	struct name *n = find(&d->live, from);
	if (!n || is_off(d))
		return leave(d, weir_fail(err, n ? WEIR_E_IO : WEIR_E_NOT_FOUND, "cannot rename to %s", to));
	enum step step = take_step(d, true);
	if (step == STEP_FULL)
		return leave(d, fail_step(step, "rename to", to, err));
	struct file *f = n->file;
	change_name(d, to, f);
	change_name(d, from, NULL);
	if (step == STEP_DONE)
		settle_parent(d, to);
	return leave(d, step == STEP_DONE ? WEIR_OK : fail_step(step, "rename to", to, err));
}

static weir_status faulty_exchange(struct disk *self, const char *from, const char *to, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	pthread_mutex_lock(&d->lock);
	const struct name *a = find(&d->live, from), *b = find(&d->live, to);
	if (d->cannot_exchange)
		return leave(d, weir_fail(err, WEIR_E_UNSUPPORTED, "cannot exchange %s with another", to));
	if (!a || !b || is_off(d))
		return leave(d, weir_fail(err, a && b ? WEIR_E_IO : WEIR_E_NOT_FOUND, "cannot exchange %s", to));
	struct file *f = a->file, *g = b->file;
	enum step step = take_step(d, false);
	if (step != STEP_DONE) /* a rename happens whole or not at all */
		return leave(d, fail_step(step, "exchange", to, err));
	change_name(d, to, f);
	change_name(d, from, g);
	settle_parent(d, to);
	return leave(d, WEIR_OK);
}

static weir_status faulty_remove(struct disk *self, const char *path, weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	pthread_mutex_lock(&d->lock);
	bool there = find(&d->live, path) != NULL;
	if (!there || is_off(d))
		return leave(d, weir_fail(err, there ? WEIR_E_IO : WEIR_E_NOT_FOUND, "cannot remove %s", path));
	enum step step = take_step(d, false);
	if (!d->keep_removed)
		change_name(d, path, NULL);
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
		settle_names(d, path, UINT32_MAX);
	return leave(d, step == STEP_DONE ? WEIR_OK : fail_step(step, "sync", path, err));
}

static weir_status faulty_list(struct disk *self, const char *path, weir_status (*each)(void *arg, const char *name), void *arg,
                               weir_error *err)
{
	struct faulty_disk *d = disk_of(self);
	pthread_mutex_lock(&d->lock);
	weir_status status = is_off(d) ? fail_step(STEP_POWER, "list", path, err) : WEIR_OK;
	struct names all = {0};
	copy_names(&all, &d->live);
	leave(d, WEIR_OK);
	for (uint32_t i = 0; i < all.count && status == WEIR_OK; i++)
		if (is_in(all.of[i].path, path))
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

/* --- For the test */

struct faulty_disk *faulty_disk_create(void)
{
	static const struct disk_ops ops = {
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
	struct faulty_disk *d = must(calloc(1, sizeof *d));
	d->disk.ops = &ops;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->change, NULL);
	return d;
}

struct faulty_disk *faulty_disk_copy(struct faulty_disk *d)
{
	struct faulty_disk *image = faulty_disk_create();
	pthread_mutex_lock(&d->lock);
	for (uint32_t i = 0; i < d->live.count; i++) {
		struct file *f = new_file(image);
		copy(&f->live, &d->live.of[i].file->live);
		copy(&f->kept, &f->live);
		append_name(&image->live, d->live.of[i].path, f);
	}
	pthread_mutex_unlock(&d->lock);
	copy_names(&image->kept, &image->live);
	return image;
}

void faulty_disk_destroy(struct faulty_disk *d)
{
	for (uint32_t i = 0; i < d->file_count; i++) {
		forget_changes(d->files[i]);
		free(d->files[i]->changes);
		free(d->files[i]->live.data);
		free(d->files[i]->kept.data);
		free(d->files[i]);
	}
	free(d->files);
	free(d->live.of);
	free(d->kept.of);
	free(d->changes.of);
	pthread_cond_destroy(&d->change);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

struct disk *faulty_disk_interface(struct faulty_disk *d)
{
	return &d->disk;
}

/* Sets or reads a field of the disk under its lock. */
static uint64_t read_locked(struct faulty_disk *d, const uint64_t *field)
{
	pthread_mutex_lock(&d->lock);
	uint64_t value = *field;
	pthread_mutex_unlock(&d->lock);
	return value;
}

static void set_locked(struct faulty_disk *d, uint64_t *field, uint64_t value)
{
	pthread_mutex_lock(&d->lock);
	*field = value;
	pthread_mutex_unlock(&d->lock);
}

uint64_t faulty_disk_steps(struct faulty_disk *d)
{
	return read_locked(d, &d->steps);
}

uint64_t faulty_disk_syncs(struct faulty_disk *d)
{
	return read_locked(d, &d->syncs);
}

void faulty_disk_power_off_at(struct faulty_disk *d, uint64_t step)
{
	set_locked(d, &d->power_off_at, step);
}

void faulty_disk_full_at(struct faulty_disk *d, uint64_t step)
{
	set_locked(d, &d->full_at, step);
}

void faulty_disk_make_room(struct faulty_disk *d)
{
	set_locked(d, &d->full_at, 0);
}

static void set_for_good(struct faulty_disk *d, bool *field)
{
	pthread_mutex_lock(&d->lock);
	*field = true;
	pthread_mutex_unlock(&d->lock);
}

void faulty_disk_overwrite_in_place(struct faulty_disk *d)
{
	set_for_good(d, &d->in_place);
}

void faulty_disk_cannot_exchange(struct faulty_disk *d)
{
	set_for_good(d, &d->cannot_exchange);
}

void faulty_disk_fail_sync_at(struct faulty_disk *d, uint64_t step)
{
	set_locked(d, &d->fail_sync_at, step);
}

void faulty_disk_hold_syncs(struct faulty_disk *d, bool on)
{
	pthread_mutex_lock(&d->lock);
	d->hold = on;
	pthread_cond_broadcast(&d->change);
	pthread_mutex_unlock(&d->lock);
}

void faulty_disk_keep_removed(struct faulty_disk *d)
{
	pthread_mutex_lock(&d->lock);
	d->keep_removed = true;
	pthread_mutex_unlock(&d->lock);
}

void faulty_disk_await_held_sync(struct faulty_disk *d)
{
	pthread_mutex_lock(&d->lock);
	while (!d->held)
		pthread_cond_wait(&d->change, &d->lock);
	pthread_mutex_unlock(&d->lock);
}

/* The target of a misdirected sector: an unsynced write of the same file. */
static uint64_t astray(const struct file *f, struct prng *random)
{
	const struct change *other = &f->changes[prng_below(random, f->count)];
	return other->at + prng_below(random, other->written.size / SECTOR_BYTES + 1) * SECTOR_BYTES;
}

/* Each sector of a write lasts in `odds` of 4 cases. */
static void keep_some(struct file *f, uint64_t odds, bool may_stray, struct prng *random)
{
	for (uint32_t i = 0; i < f->count; i++) {
		const struct change *c = &f->changes[i];
		if (!c->written.data && prng_below(random, 4) < odds)
			resize(&f->kept, c->at);
		for (size_t at = 0, n; at < c->written.size; at += n) {
			n = SECTOR_BYTES - (c->at + at) % SECTOR_BYTES;
			if (n > c->written.size - at)
				n = c->written.size - at;
			const bool strays = may_stray && prng_below(random, 8) == 0;
			const uint64_t to = strays ? astray(f, random) : c->at + at;
			if (prng_below(random, 4) < odds && (!strays || to + n <= f->kept.size))
				place(&f->kept, to, c->written.data + at, n);
		}
	}
}

void faulty_disk_crash(struct faulty_disk *d, enum faulty_crash how, uint64_t seed)
{
	struct prng random;
	prng_seed(&random, seed);
	pthread_mutex_lock(&d->lock);
	d->age++;
	d->power_off_at = d->full_at = d->fail_sync_at = 0;
	d->hold = d->keep_removed = false;
	for (uint32_t i = 0; i < d->file_count; i++)
		d->files[i]->locked = false;
	if (how != CRASH_PROCESS) {
		const bool some = how != CRASH_UNSYNCED;
		/* from 0, nothing lasts, to 4, everything lasts */
		const uint64_t odds = some ? prng_below(&random, 5) : 0;
		settle_names(d, NULL, some ? (uint32_t)prng_below(&random, d->changes.count + 1) : 0);
		copy_names(&d->live, &d->kept);
		for (uint32_t i = 0; i < d->file_count; i++) {
			struct file *f = d->files[i];
			keep_some(f, odds, how == CRASH_ASTRAY, &random);
			forget_changes(f);
			copy(&f->live, &f->kept);
			f->forgotten = false;
		}
	}
	pthread_mutex_unlock(&d->lock);
}

void faulty_disk_flip(struct faulty_disk *d, const char *path, uint64_t offset, unsigned bit)
{
	pthread_mutex_lock(&d->lock);
	struct name *n = find(&d->live, path);
	if (!n || offset >= n->file->live.size)
		abort();
	n->file->live.data[offset] ^= (uint8_t)(1u << bit);
	if (offset < n->file->kept.size)
		n->file->kept.data[offset] ^= (uint8_t)(1u << bit);
	pthread_mutex_unlock(&d->lock);
}
