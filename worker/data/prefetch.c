/* Reads batches ahead of the trainer. One lock guards everything; the reader thread reads without
 * it. Queues are bounded by construction: PREFETCH_UNITS_MAX units, depth items. */
#include "worker/data/prefetch.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/base/deadline.h"

struct item {
	struct prefetched out; /* first member: the trainer's view */
	struct item *next;
};

struct prefetcher {
	struct dataset *dataset;
	uint32_t depth;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;  /* wakes the reader: a unit, room, a flush or the end */
	pthread_cond_t ready; /* wakes the trainer */
	bool stop;
	/* Work begun under an older count is discarded. */
	uint64_t flushes;
	bool reading;                                   /* the reader is in a unit, */
	uint64_t reading_since;                         /* which it began under this count */
	struct prefetch_unit units[PREFETCH_UNITS_MAX]; /* a ring buffer */
	uint32_t units_head, units_count;
	struct item *first, **last; /* ready */
	uint32_t ready_count;
	struct item *spare; /* recycled */
	bool out_of_memory; /* no memory even for an item with the failure */
};

static void item_free_list(struct item *list)
{
	while (list) {
		struct item *next = list->next;
		batch_destroy(&list->out.batch);
		free(list);
		list = next;
	}
}

/* Returns a clean item that keeps its batch's memory. NULL when out of memory. */
static struct item *take_spare(struct prefetcher *p)
{
	pthread_mutex_lock(&p->lock);
	struct item *item = p->spare;
	if (item)
		p->spare = item->next;
	pthread_mutex_unlock(&p->lock);
	if (!item)
		return calloc(1, sizeof *item);
	struct batch batch = item->out.batch;
	*item = (struct item){.out.batch = batch};
	return item;
}

/* Waits for room and appends. Returns false, and recycles the item, if flushed or stopped since. */
static bool put(struct prefetcher *p, struct item *item, uint64_t flushes)
{
	pthread_mutex_lock(&p->lock);
	while (!p->stop && p->flushes == flushes && p->ready_count == p->depth)
		pthread_cond_wait(&p->work, &p->lock);
	bool good = !p->stop && p->flushes == flushes;
	item->next = good ? NULL : p->spare;
	if (good) {
		*p->last = item;
		p->last = &item->next;
		p->ready_count++;
		pthread_cond_signal(&p->ready);
	} else {
		p->spare = item;
	}
	pthread_mutex_unlock(&p->lock);
	return good;
}

static void tell_out_of_memory(struct prefetcher *p)
{
	pthread_mutex_lock(&p->lock);
	p->out_of_memory = true;
	pthread_cond_signal(&p->ready);
	pthread_mutex_unlock(&p->lock);
}

/* Reads a unit into items. A failure becomes an item too. */
static void read_unit(struct prefetcher *p, const struct prefetch_unit *unit, uint64_t flushes)
{
	struct unit_reader *reader = NULL;
	weir_error error = {0};
	weir_status status = unit_open(&reader, p->dataset, unit->data_unit, unit->order_seed, &error);
	uint64_t content = 0;
	if (status == WEIR_OK && unit->wants_content)
		status = unit_content(reader, &content, &error);
	uint32_t batches = status == WEIR_OK ? unit_batches(reader) : 0;
	uint32_t end = unit->end_batch < batches ? unit->end_batch : batches, i = unit->first_batch;
	bool last = false;
	while (!last) {
		struct item *item = take_spare(p);
		if (!item) {
			tell_out_of_memory(p);
			break;
		}
		item->out.unit = *unit;
		item->out.index = i;
		item->out.batches = batches;
		item->out.bad_lines = status == WEIR_OK ? unit_bad_lines(reader) : 0;
		item->out.content = content;
		item->out.empty = i >= end;
		if (status == WEIR_OK && i < end)
			status = unit_read(reader, i, &item->out.batch, &error);
		i++;
		last = item->out.last = status != WEIR_OK || i >= end;
		item->out.status = status;
		item->out.error = error;
		if (!put(p, item, flushes))
			break;
	}
	unit_close(reader);
}

static void *reader_thread(void *argument)
{
	struct prefetcher *p = argument;
	pthread_setname_np(pthread_self(), "reader");
	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		if (p->units_count == 0) {
			pthread_cond_wait(&p->work, &p->lock);
			continue;
		}
		struct prefetch_unit unit = p->units[p->units_head];
		uint64_t flushes = p->reading_since = p->flushes;
		p->reading = true;
		p->units_head = (p->units_head + 1) % PREFETCH_UNITS_MAX;
		p->units_count--;
		pthread_mutex_unlock(&p->lock);
		read_unit(p, &unit, flushes);
		pthread_mutex_lock(&p->lock);
		p->reading = false;
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

weir_status prefetcher_create(struct prefetcher **out, struct dataset *dataset, uint32_t depth, weir_error *err)
{
	assert(depth > 0);
	struct prefetcher *p = calloc(1, sizeof *p);
	if (!p)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for prefetching");
	p->dataset = dataset;
	p->depth = depth;
	p->last = &p->first;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	deadline_cond_init(&p->ready);
	if (pthread_create(&p->thread, NULL, reader_thread, p) != 0) {
		pthread_cond_destroy(&p->ready);
		pthread_cond_destroy(&p->work);
		pthread_mutex_destroy(&p->lock);
		free(p);
		return weir_fail(err, WEIR_E_MEMORY, "cannot start a thread for prefetching");
	}
	*out = p;
	return WEIR_OK;
}

weir_status prefetcher_submit(struct prefetcher *p, const struct prefetch_unit *unit)
{
	weir_status status = WEIR_OK;
	pthread_mutex_lock(&p->lock);
	if (p->units_count == PREFETCH_UNITS_MAX) {
		status = WEIR_E_BUSY;
	} else {
		p->units[(p->units_head + p->units_count++) % PREFETCH_UNITS_MAX] = *unit;
		pthread_cond_signal(&p->work);
	}
	pthread_mutex_unlock(&p->lock);
	return status;
}

weir_status prefetcher_next(struct prefetcher *p, struct prefetched **out, int64_t timeout_ms)
{
	const int64_t deadline_ns = deadline_after_ms(timeout_ms);
	pthread_mutex_lock(&p->lock);
	while (!p->first && !p->out_of_memory && deadline_wait(&p->ready, &p->lock, deadline_ns))
		;
	struct item *item = p->first;
	weir_status status = item ? WEIR_OK : p->out_of_memory ? WEIR_E_MEMORY : WEIR_E_TIMEOUT;
	if (item) {
		p->first = item->next;
		if (!p->first)
			p->last = &p->first;
		p->ready_count--;
		pthread_cond_signal(&p->work);
	}
	pthread_mutex_unlock(&p->lock);
	*out = !item ? NULL : &item->out;
	return status;
}

void prefetcher_recycle(struct prefetcher *p, struct prefetched *out)
{
	struct item *item = (struct item *)out;
	pthread_mutex_lock(&p->lock);
	item->next = p->spare;
	p->spare = item;
	pthread_mutex_unlock(&p->lock);
}

void prefetcher_flush(struct prefetcher *p)
{
	pthread_mutex_lock(&p->lock);
	p->flushes++;
	p->units_count = 0;
	*p->last = p->spare;
	p->spare = p->first;
	p->first = NULL;
	p->last = &p->first;
	p->ready_count = 0;
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
}

bool prefetcher_is_behind(struct prefetcher *p)
{
	pthread_mutex_lock(&p->lock);
	const bool behind = p->reading && p->reading_since != p->flushes;
	pthread_mutex_unlock(&p->lock);
	return behind;
}

void prefetcher_destroy(struct prefetcher *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	item_free_list(p->first);
	item_free_list(p->spare);
	pthread_cond_destroy(&p->ready);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
