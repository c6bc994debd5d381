/* The log on disk: entries in memory as in log_memory.c. Every append and every cut is also written
 * to the server's journal. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "server/log/journal.h"
#include "server/log/log_ring.h"

struct log_disk {
	struct log log;
	struct log_ring ring;
	struct journal *journal; /* not owned */
	uint16_t channel;
	uint64_t restarted; /* the journal's position behind the last restart */
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
	status = journal_append(d->journal, d->channel, log_ring_newest(&d->ring), err);
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

static uint64_t disk_committed(const struct log *l)
{
	return ((const struct log_disk *)l)->ring.committed;
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

static void disk_compact(struct log *l, uint64_t index)
{
	log_ring_compact(&disk_of(l)->ring, index);
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

static weir_status disk_truncate_above(struct log *l, uint64_t index, weir_error *err)
{
	struct log_disk *d = disk_of(l);
	assert(index >= d->ring.committed);
	if (index >= d->ring.last)
		return WEIR_OK;
	weir_status status = journal_cut(d->journal, d->channel, (struct journal_cut){.next = index + 1}, err);
	if (status == WEIR_OK)
		log_ring_truncate_above(&d->ring, index);
	return status;
}

static weir_status disk_restart(struct log *l, uint64_t first, weir_error *err)
{
	struct log_disk *d = disk_of(l);
	weir_status status = journal_cut(d->journal, d->channel, (struct journal_cut){.next = first, .restart = true}, err);
	if (status != WEIR_OK)
		return status;
	log_ring_restart(&d->ring, first);
	d->restarted = journal_position(d->journal);
	return WEIR_OK;
}

static bool disk_is_restarted(const struct log *l)
{
	const struct log_disk *d = (const struct log_disk *)l;
	return journal_is_durable(d->journal, d->restarted);
}

static uint64_t disk_restarted(const struct log *l)
{
	return ((const struct log_disk *)l)->restarted;
}

static void disk_destroy(struct log *l)
{
	log_ring_destroy(&disk_of(l)->ring);
	free(l);
}

weir_status log_disk_restore(struct log *l, const struct log_entry *e, weir_error *err)
{
	return log_ring_push(&disk_of(l)->ring, e, err);
}

weir_status log_disk_restore_cut(struct log *l, const struct journal_cut *cut, weir_error *err)
{
	struct log_ring *r = &disk_of(l)->ring;
	if (cut->restart)
		log_ring_restart(r, cut->next);
	else if (cut->next <= r->committed || cut->next < r->first)
		return weir_fail(err, WEIR_E_CORRUPT, "log: a cut voids entry %" PRIu64 ", entries up to %" PRIu64 " are committed",
		                 cut->next, r->committed);
	else
		log_ring_truncate_above(r, cut->next - 1);
	return WEIR_OK;
}

struct log *log_disk_create(struct journal *journal, uint16_t channel, uint64_t first)
{
	static const struct log_ops ops = {
	    .append = disk_append,
	    .get = disk_get,
	    .first = disk_first,
	    .last = disk_last,
	    .committed = disk_committed,
	    .durable = disk_durable,
	    .sync = disk_sync,
	    .compact = disk_compact,
	    .release_below = disk_release_below,
	    .truncate_below = disk_truncate_below,
	    .truncate_above = disk_truncate_above,
	    .restart = disk_restart,
	    .is_restarted = disk_is_restarted,
	    .restarted = disk_restarted,
	    .destroy = disk_destroy,
	};
	struct log_disk *d = malloc(sizeof *d);
	if (!d)
		return NULL;
	d->log.ops = &ops;
	d->journal = journal;
	d->channel = channel;
	d->restarted = 0;
	if (log_ring_init(&d->ring, first) != WEIR_OK) {
		free(d);
		return NULL;
	}
	return &d->log;
}
