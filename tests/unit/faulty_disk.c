/* What tests ask of a faulty disk: when it fails, and what a crash leaves of it. */
#include "tests/unit/faulty_disk_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"

#define SECTOR_BYTES 512u

/* --- Life */

struct faulty_disk *faulty_disk_create(void)
{
	struct faulty_disk *d = disk_must(calloc(1, sizeof *d));
	d->disk.ops = &faulty_disk_ops;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->change, NULL);
	return d;
}

struct faulty_disk *faulty_disk_copy(struct faulty_disk *d)
{
	struct faulty_disk *image = faulty_disk_create();
	pthread_mutex_lock(&d->lock);
	for (uint32_t i = 0; i < d->live.count; i++) {
		struct file *f = disk_new_file(image);
		bytes_copy(&f->live, &d->live.of[i].file->live);
		bytes_copy(&f->kept, &f->live);
		names_append(&image->live, d->live.of[i].path, f);
	}
	pthread_mutex_unlock(&d->lock);
	names_copy(&image->kept, &image->live);
	return image;
}

void faulty_disk_destroy(struct faulty_disk *d)
{
	for (uint32_t i = 0; i < d->file_count; i++) {
		file_forget_changes(d->files[i]);
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

/* --- Faults */

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

/* --- Crashes */

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
			bytes_resize(&f->kept, c->at);
		for (size_t at = 0, n; at < c->written.size; at += n) {
			n = SECTOR_BYTES - (c->at + at) % SECTOR_BYTES;
			if (n > c->written.size - at)
				n = c->written.size - at;
			const bool strays = may_stray && prng_below(random, 8) == 0;
			const uint64_t to = strays ? astray(f, random) : c->at + at;
			if (prng_below(random, 4) < odds && (!strays || to + n <= f->kept.size))
				bytes_place(&f->kept, to, c->written.data + at, n);
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
		disk_settle_names(d, NULL, some ? (uint32_t)prng_below(&random, d->changes.count + 1) : 0);
		names_copy(&d->live, &d->kept);
		for (uint32_t i = 0; i < d->file_count; i++) {
			struct file *f = d->files[i];
			keep_some(f, odds, how == CRASH_ASTRAY, &random);
			file_forget_changes(f);
			bytes_copy(&f->live, &f->kept);
			f->forgotten = false;
		}
	}
	pthread_mutex_unlock(&d->lock);
}

void faulty_disk_flip(struct faulty_disk *d, const char *path, uint64_t offset, unsigned bit)
{
	pthread_mutex_lock(&d->lock);
	struct name *n = names_find(&d->live, path);
	if (!n || offset >= n->file->live.size)
		abort();
	n->file->live.data[offset] ^= (uint8_t)(1u << bit);
	if (offset < n->file->kept.size)
		n->file->kept.data[offset] ^= (uint8_t)(1u << bit);
	pthread_mutex_unlock(&d->lock);
}
