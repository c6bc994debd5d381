/* A flush. It takes the header as of now. Once the log is durable up to it, it writes all dirty
 * rows, then the header, then a sync. Once all of it is on disk, the log may forget the entries
 * that the header covers. The partition continues meanwhile, so rows may be written newer than the
 * header; replay handles that (partition_replay.c). */
#include <stddef.h>

#include "server/partition/partition_internal.h"
#include "server/partition/partition_state.h"

static struct partition *flush_owner(struct cold_write *w, size_t member)
{
	return (struct partition *)(void *)((char *)w - offsetof(struct partition, flush) - member);
}

static void flush_end(struct partition *p)
{
	struct partition_flush_state *f = &p->flush;
	void (*done)(void *arg) = f->done;
	message_release(f->header);
	f->header = NULL;
	f->running = false;
	if (done)
		done(f->arg);
}

/* Whether a write succeeded. While the disk is full, the writer waits, and gives up only when the
 * server ends; every other error is final. */
static bool written(struct partition *p, const struct cold_write *w)
{
	if (w->status && w->status != WEIR_E_NO_SPACE)
		host_fail(p, &w->err);
	return w->status == WEIR_OK;
}

static void on_synced(struct cold_write *w)
{
	struct partition *p = flush_owner(w, offsetof(struct partition_flush_state, sync_write));
	if (written(p, w)) {
		p->flushed = p->flush.index;
		p->unflushed = false;
		atomic_store_explicit(&p->counters.flushed, p->flushed, memory_order_relaxed);
		p->options.log->ops->truncate_below(p->options.log, p->flush.needs);
	}
	flush_end(p);
}

static void on_header_written(struct cold_write *w)
{
	struct partition *p = flush_owner(w, offsetof(struct partition_flush_state, header_write));
	if (written(p, w) && !p->closed)
		cold_writer_submit(p->options.store->writer, &p->flush.sync_write);
	else
		flush_end(p);
}

/* The header must not be ahead of the durable log: entries that it covers could then be lost, and
 * their indices reused. */
void flush_continue(struct partition *p, uint64_t durable)
{
	struct partition_flush_state *f = &p->flush;
	if (!f->running || f->begun || p->closed || durable < f->index)
		return;
	f->begun = true;
	store_flush(p->store, &f->header_write);
}

/* A folder of an earlier version does not record that the log has begun anew. A restart then
 * replays the former entries, and finds a log that ends below them. The log will not become durable
 * up to there; this replica is about to begin anew as well (replica_follower.c). */
static bool is_ahead_of_log(const struct partition *p)
{
	return p->applied > p->options.log->ops->last(p->options.log);
}

bool partition_flush(struct partition *p, void (*done)(void *arg), void *arg)
{
	struct partition_flush_state *f = &p->flush;
	if (!p->cold || p->closed || p->halted || f->running || p->failed || partition_is_flushed(p) || is_ahead_of_log(p))
		return false;
	f->header = partition_state_export(p);
	if (!f->header)
		return false;
	f->running = true;
	f->begun = false;
	f->index = p->applied;
	f->needs = partition_state_needs(p);
	f->done = done;
	f->arg = arg;
	f->header_write = (struct cold_write){.kind = COLD_WRITE_HEADER,
	                                      .partition = p->options.id,
	                                      .header = f->header->spans[0].data,
	                                      .header_bytes = f->header->spans[0].size,
	                                      .run_on = p->options.store->run_on,
	                                      .done = on_header_written};
	f->sync_write = (struct cold_write){.kind = COLD_WRITE_FLUSH, .run_on = p->options.store->run_on, .done = on_synced};
	p->options.log->ops->sync(p->options.log);
	flush_continue(p, p->options.log->ops->durable(p->options.log));
	return true;
}
