/* Every operation belongs to the machine. It completes at once and as a whole, whichever thread
 * asks. Only syncs take time. */
#include "tests/sim/disk/disk_sim.h"

#include "tests/unit/faulty_disk.h"

struct disk_sim {
	struct disk disk;
	struct disk_mood mood;
	bool astray; /* the next crash misdirects sectors */
	struct node *node;
	struct faulty_disk *faulty;
	/* A copy, and the disk before it went back to the copy; NULL without a copy. */
	struct faulty_disk *old, *newest;
	struct disk *below; /* the interface of `faulty` */
	struct handle *handles;
};

struct handle { /* in the world's memory, as a dying process leaves it open */
	struct disk_file base;
	struct disk_file *below;
	struct handle *next, **at; /* *at points to this handle */
};

static struct disk_sim *disk_of(struct disk *d)
{
	return (struct disk_sim *)d;
}
static struct disk_file *below(struct disk_file *f)
{
	return ((struct handle *)f)->below;
}

/* Runs CALL as the machine; its status is the result. */
#define AT_THE_MACHINE(CALL)              \
	do {                                  \
		machine_enter();                  \
		const weir_status status_ = CALL; \
		machine_leave();                  \
		return status_;                   \
	} while (0)

/* --- Handles */

static struct disk_file *handle_create(struct disk_sim *d, struct disk_file *file)
{
	struct handle *h = world_alloc(sizeof *h);
	h->base.disk = &d->disk;
	h->below = file;
	h->next = d->handles;
	h->at = &d->handles;
	if (h->next)
		h->next->at = &h->next;
	d->handles = h;
	return &h->base;
}

static void handle_close(struct handle *h)
{
	*h->at = h->next;
	if (h->next)
		h->next->at = h->at;
	h->below->disk->ops->close(h->below);
	world_free(h);
}

static weir_status sim_open(struct disk *self, const char *path, bool create, struct disk_file **out, weir_error *err)
{
	struct disk_sim *d = disk_of(self);
	struct disk_file *file = NULL;
	machine_enter();
	weir_status status = d->below->ops->open(d->below, path, create, &file, err);
	if (!status)
		*out = handle_create(d, file);
	machine_leave();
	return status;
}

static weir_status sim_lock(struct disk *self, const char *path, const char *holder, struct disk_file **out, weir_error *err)
{
	struct disk_sim *d = disk_of(self);
	struct disk_file *file = NULL;
	machine_enter();
	weir_status status = d->below->ops->lock(d->below, path, holder, &file, err);
	if (!status)
		*out = handle_create(d, file);
	machine_leave();
	return status;
}

static void sim_close(struct disk_file *f)
{
	machine_enter();
	handle_close((struct handle *)f);
	machine_leave();
}

/* --- Files */

static weir_status sim_read_at(struct disk_file *f, uint64_t offset, void *out, size_t bytes, size_t *got, weir_error *err)
{
	AT_THE_MACHINE(below(f)->disk->ops->read_at(below(f), offset, out, bytes, got, err));
}

static weir_status sim_write_at(struct disk_file *f, uint64_t offset, const void *data, size_t bytes, weir_error *err)
{
	AT_THE_MACHINE(below(f)->disk->ops->write_at(below(f), offset, data, bytes, err));
}

static weir_status sim_write_spans(struct disk_file *f, uint64_t offset, const struct span *spans, uint32_t count,
                                   weir_error *err)
{
	AT_THE_MACHINE(below(f)->disk->ops->write_spans(below(f), offset, spans, count, err));
}

static weir_status sim_allocate(struct disk_file *f, uint64_t bytes, weir_error *err)
{
	AT_THE_MACHINE(below(f)->disk->ops->allocate(below(f), bytes, err));
}

static weir_status sim_truncate(struct disk_file *f, uint64_t bytes, weir_error *err)
{
	AT_THE_MACHINE(below(f)->disk->ops->truncate(below(f), bytes, err));
}

/* The bytes become durable at some moment between the start and the end of the sync. */
static weir_status sim_sync(struct disk_file *f, weir_error *err)
{
	const struct disk_mood *m = &disk_of(f->disk)->mood;
	const int64_t time_ns = world_between(1000, m->sync_ns * (world_chance(m->slow_sync) ? 100 : 1));
	const int64_t first_ns = world_between(0, time_ns);
	thread_sleep(first_ns);
	machine_enter();
	weir_status status = below(f)->disk->ops->sync(below(f), err);
	machine_leave();
	thread_sleep(time_ns - first_ns);
	return status;
}

static void sim_drop_cache(struct disk_file *f)
{
	machine_enter();
	below(f)->disk->ops->drop_cache(below(f));
	machine_leave();
}

static weir_status sim_size(struct disk_file *f, uint64_t *bytes, weir_error *err)
{
	AT_THE_MACHINE(below(f)->disk->ops->size(below(f), bytes, err));
}

/* --- Names */

static weir_status sim_rename(struct disk *self, const char *from, const char *to, weir_error *err)
{
	struct disk *b = disk_of(self)->below;
	AT_THE_MACHINE(b->ops->rename(b, from, to, err));
}

static weir_status sim_exchange(struct disk *self, const char *from, const char *to, weir_error *err)
{
	struct disk *b = disk_of(self)->below;
	AT_THE_MACHINE(b->ops->exchange(b, from, to, err));
}

static weir_status sim_remove(struct disk *self, const char *path, weir_error *err)
{
	struct disk *b = disk_of(self)->below;
	AT_THE_MACHINE(b->ops->remove(b, path, err));
}

static weir_status sim_make_dirs(struct disk *self, const char *path, weir_error *err)
{
	struct disk *b = disk_of(self)->below;
	AT_THE_MACHINE(b->ops->make_dirs(b, path, err));
}

static weir_status sim_sync_directory(struct disk *self, const char *path, weir_error *err)
{
	struct disk *b = disk_of(self)->below;
	AT_THE_MACHINE(b->ops->sync_directory(b, path, err));
}

struct visit {
	weir_status (*each)(void *arg, const char *name);
	void *arg;
};

static weir_status visit_name(void *arg, const char *name)
{
	const struct visit *v = arg;
	machine_leave();
	weir_status status = v->each(v->arg, name);
	machine_enter();
	return status;
}

static weir_status sim_list(struct disk *self, const char *path, weir_status (*each)(void *arg, const char *name), void *arg,
                            weir_error *err)
{
	struct disk *b = disk_of(self)->below;
	struct visit v = {each, arg};
	AT_THE_MACHINE(b->ops->list(b, path, visit_name, &v, err));
}

static weir_status sim_free_space(struct disk *self, const char *path, uint64_t *bytes, weir_error *err)
{
	struct disk *b = disk_of(self)->below;
	AT_THE_MACHINE(b->ops->free_space(b, path, bytes, err));
}

/* --- Life */

static void on_death(void *arg, struct node *n, enum node_death how)
{
	struct disk_sim *d = arg;
	if (n != d->node)
		return;
	machine_enter();
	const enum faulty_crash crash = how == DEATH_PROCESS                       ? CRASH_PROCESS
	                                : world_chance(d->mood.stray) || d->astray ? CRASH_ASTRAY
	                                                                           : CRASH_RANDOM;
	d->astray = false;
	faulty_disk_crash(d->faulty, crash, prng_mix(world_seed(), node_index(n), node_life(n)));
	while (d->handles)
		handle_close(d->handles);
	machine_leave();
}

struct disk_sim *disk_sim_create(struct node *n, const struct disk_mood *mood)
{
	static const struct disk_ops ops = {
	    .open = sim_open,
	    .read_at = sim_read_at,
	    .write_at = sim_write_at,
	    .write_spans = sim_write_spans,
	    .allocate = sim_allocate,
	    .truncate = sim_truncate,
	    .sync = sim_sync,
	    .drop_cache = sim_drop_cache,
	    .size = sim_size,
	    .close = sim_close,
	    .rename = sim_rename,
	    .exchange = sim_exchange,
	    .remove = sim_remove,
	    .make_dirs = sim_make_dirs,
	    .sync_directory = sim_sync_directory,
	    .list = sim_list,
	    .lock = sim_lock,
	    .free_space = sim_free_space,
	};
	struct disk_sim *d = world_alloc(sizeof *d);
	d->disk.ops = &ops;
	d->mood = *mood;
	d->node = n;
	machine_enter();
	d->faulty = faulty_disk_create();
	machine_leave();
	d->below = faulty_disk_interface(d->faulty);
	node_watch_deaths(on_death, d);
	return d;
}

void disk_sim_destroy(struct disk_sim *d)
{
	struct faulty_disk *const all[] = {d->faulty, d->old, d->newest};
	machine_enter();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i])
			faulty_disk_destroy(all[i]);
	machine_leave();
	d->node = NULL;
}

struct disk *disk_sim_interface(struct disk_sim *d)
{
	return &d->disk;
}

void disk_sim_calm(struct disk_sim *d)
{
	d->mood.slow_sync = 0;
}

void disk_sim_misdirect(struct disk_sim *d)
{
	d->astray = true;
}

void disk_sim_lose(struct disk_sim *d)
{
	machine_enter();
	faulty_disk_destroy(d->faulty);
	d->faulty = faulty_disk_create();
	machine_leave();
	d->below = faulty_disk_interface(d->faulty);
	world_note("the disk of %s is another, and empty", node_name(d->node));
}

void disk_sim_remember(struct disk_sim *d)
{
	machine_enter();
	if (d->old)
		faulty_disk_destroy(d->old);
	d->old = faulty_disk_copy(d->faulty);
	machine_leave();
}

/* Replaces the disk's content by *from. */
static void become(struct disk_sim *d, struct faulty_disk **from)
{
	d->faulty = *from;
	d->below = faulty_disk_interface(d->faulty);
	*from = NULL;
}

void disk_sim_go_back(struct disk_sim *d)
{
	machine_enter();
	if (d->newest)
		faulty_disk_destroy(d->newest);
	d->newest = d->faulty;
	become(d, &d->old);
	machine_leave();
	world_note("the disk of %s goes back in time", node_name(d->node));
}

void disk_sim_come_back(struct disk_sim *d)
{
	machine_enter();
	faulty_disk_destroy(d->faulty);
	become(d, &d->newest);
	machine_leave();
	world_note("the disk of %s is its newest copy again", node_name(d->node));
}

void disk_sim_fill(struct disk_sim *d, bool full)
{
	machine_enter();
	if (full)
		faulty_disk_full_at(d->faulty, faulty_disk_steps(d->faulty) + 1);
	else
		faulty_disk_make_room(d->faulty);
	machine_leave();
	world_note("the disk of %s %s", d->node ? node_name(d->node) : "-", full ? "is full" : "has room again");
}
