/* The log on disk: entries in memory as in log_memory.c, and each one written to the server's journal when it is appended. */
#include <stdlib.h>

#include "journal.h"
#include "log_ring.h"

struct log_disk {
	struct log log;
	struct log_ring ring;
	struct journal *journal; /* not owned */
	uint16_t channel;
};

static struct log_disk *disk_of(struct log *l)
{
	return (struct log_disk *)l;
}

static weir_status disk_append(struct log *l, const struct log_entry *e, weir_error *err)
{
	struct log_disk *d = disk_of(l);
	weir_status status = log_ring_push(&d->ring, e, err);
	if (status != WEIR_OK)
		return status;
	status = journal_append(d->journal, d->channel, e, err);
	if (status != WEIR_OK)
		log_ring_pop(&d->ring);
	return status;
}

static const struct log_entry *disk_get(struct log *l, uint64_t index)
{
	return log_ring_get(&disk_of(l)->ring, index);
}

static uint64_t disk_first(const struct log *l)
{
	return ((const struct log_disk *)l)->ring.first;
}

static uint64_t disk_last(const struct log *l)
{
	return ((const struct log_disk *)l)->ring.last;
}

static uint64_t disk_durable(const struct log *l)
{
	const struct log_disk *d = (const struct log_disk *)l;
	return journal_durable(d->journal, d->channel);
}

static void disk_sync(struct log *l)
{
	journal_sync(disk_of(l)->journal);
}

static void disk_release_below(struct log *l, uint64_t index)
{
	log_ring_release_below(&disk_of(l)->ring, index);
}

static void disk_truncate_below(struct log *l, uint64_t index)
{
	struct log_disk *d = disk_of(l);
	journal_truncate_below(d->journal, d->channel, index);
}

static void disk_destroy(struct log *l)
{
	log_ring_free(&disk_of(l)->ring);
	free(l);
}

weir_status log_disk_restore(struct log *l, const struct log_entry *e, weir_error *err)
{
	return log_ring_push(&disk_of(l)->ring, e, err);
}

struct log *log_disk_create(struct journal *journal, uint16_t channel, uint64_t first)
{
	static const struct log_ops ops = {
	    .append = disk_append,
	    .get = disk_get,
	    .first = disk_first,
	    .last = disk_last,
	    .durable = disk_durable,
	    .sync = disk_sync,
	    .release_below = disk_release_below,
	    .truncate_below = disk_truncate_below,
	    .destroy = disk_destroy,
	};
	struct log_disk *d = malloc(sizeof *d);
	if (!d)
		return NULL;
	d->log.ops = &ops;
	d->journal = journal;
	d->channel = channel;
	if (log_ring_init(&d->ring, first) != WEIR_OK) {
		free(d);
		return NULL;
	}
	return &d->log;
}
