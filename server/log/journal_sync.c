/* The journal's thread: fsyncs on request and at an interval, tells the watchers, and deletes
 * unneeded segments. One fsync covers every entry that was appended before it began (group commit).
 * Entries appended meanwhile wait for the next fsync. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "server/log/journal_internal.h"
#include "server/log/sync_watch.h"

/* --- With lock, called by the thread */

static bool is_needed_by(const struct journal *j, const struct journal_segment *s, uint32_t slot)
{
	const uint64_t restarted = j->restarted.of[slot];
	if (restarted >= s->end)
		/* The restart voids the entries, but only once it is durable. */
		return s->last->of[slot] > 0 && j->synced <= restarted;
	return s->last->of[slot] >= j->needed.of[slot];
}

bool journal_needs(const struct journal *j, const struct journal_segment *s)
{
	for (uint32_t i = 0; i < JOURNAL_CHANNELS; i++)
		if (is_needed_by(j, s, i))
			return true;
	return false;
}

static bool droppable(const struct journal *j)
{
	return j->count > 1 && !journal_needs(j, &j->segments[0]);
}

static bool has_work(const struct journal *j)
{
	if (j->failure.status != WEIR_OK)
		return j->stopping || !j->failure_told;
	return j->stopping || j->wanted > j->synced || j->told < j->synced || droppable(j);
}

/* Sleeps until there is work, or until the interval since the first write that is not durable has
 * passed. Then it requests an fsync of everything written. */
static void wait_for_work(struct journal *j)
{
	int64_t deadline_ns = DEADLINE_NEVER;
	while (!has_work(j)) {
		bool dirty = j->end > j->synced && j->options.sync_interval_ms && j->failure.status == WEIR_OK;
		if (!dirty)
			deadline_ns = DEADLINE_NEVER;
		else if (deadline_ns == DEADLINE_NEVER)
			deadline_ns = deadline_after_ms(j->options.sync_interval_ms);
		if (!deadline_wait(&j->work, &j->lock, deadline_ns))
			j->wanted = j->end;
	}
}

static void note_sync_time(struct journal_stats *stats, int64_t ns)
{
	stats->syncs++;
	stats->sync_ns_last = (uint64_t)ns;
	if (stats->sync_ns_last > stats->sync_ns_max)
		stats->sync_ns_max = stats->sync_ns_last;
}

/* Makes everything appended so far durable, and records that on disk. */
static void sync_all(struct journal *j)
{
	uint64_t end = j->end;
	weir_error err = {0};
	j->syncing_last = j->last;
	j->syncing = true;
	pthread_mutex_unlock(&j->lock);
	int64_t start = clock_ns(clock_system());
	if (j->options.watch)
		sync_watch_begin(j->options.watch, start);
	weir_status status = j->file->disk->ops->sync(j->file, &err);
	const int64_t end_ns = clock_ns(clock_system()), elapsed = end_ns - start;
	if (j->options.watch)
		sync_watch_end(j->options.watch, end_ns);
	pthread_mutex_lock(&j->lock);
	j->syncing = false;
	pthread_cond_broadcast(&j->progress);
	if (status != WEIR_OK) {
		journal_fail(j, &err);
		return;
	}
	note_sync_time(&j->stats, elapsed);
	j->synced = end;
	j->stable = j->syncing_last;
	if (j->failure.status == WEIR_OK)
		(void)journal_mark(j, NULL); /* its failure is final, and `failed` reports it */
}

/* Publishes the durable indices that have moved, and calls their watchers without the lock. */
static void tell(struct journal *j)
{
	uint64_t synced = j->synced;
	for (uint32_t i = 0; i < JOURNAL_CHANNELS; i++) {
		bool moved = j->stable.of[i] > atomic_load_explicit(&j->watchers[i].durable, memory_order_relaxed);
		j->telling.of[i] = moved ? j->stable.of[i] : 0;
		if (moved)
			atomic_store_explicit(&j->watchers[i].durable, j->stable.of[i], memory_order_release);
	}
	pthread_mutex_unlock(&j->lock);
	for (uint32_t i = 0; i < JOURNAL_CHANNELS; i++)
		if (j->telling.of[i] && j->watchers[i].watch)
			j->watchers[i].watch(j->watchers[i].ctx, journal_channel_of(i), j->telling.of[i]);
	pthread_mutex_lock(&j->lock);
	j->told = synced;
	pthread_cond_broadcast(&j->progress);
}

static void tell_failure(struct journal *j)
{
	j->failure_told = true;
	pthread_mutex_unlock(&j->lock);
	if (j->options.failed)
		j->options.failed(j->options.ctx, &j->failure); /* never written again */
	pthread_mutex_lock(&j->lock);
}

/* The name must be gone durably before the next segment is deleted, or a crash could leave a
 * gap. */
weir_status journal_drop_oldest(struct journal *j, weir_error *err)
{
	struct disk *disk = j->options.disk;
	char path[WEIR_PATH_BYTES_MAX];
	weir_error why = {0};
	journal_segment_path(j, j->segments[0].number, path);
	free(j->segments[0].last);
	memmove(j->segments, j->segments + 1, --j->count * sizeof *j->segments);
	pthread_mutex_unlock(&j->lock);
	weir_status status = disk->ops->remove(disk, path, &why);
	if (status == WEIR_OK)
		status = disk->ops->sync_directory(disk, j->options.directory, &why);
	pthread_mutex_lock(&j->lock);
	if (status == WEIR_OK)
		return WEIR_OK;
	journal_fail(j, &why);
	return weir_fail(err, status, "%s", why.text);
}

static void *run(void *arg)
{
	struct journal *j = arg;
	pthread_mutex_lock(&j->lock);
	while (!j->stopping) {
		wait_for_work(j);
		if (j->wanted > j->synced && j->failure.status == WEIR_OK)
			sync_all(j);
		if (j->told < j->synced)
			tell(j);
		if (j->failure.status == WEIR_OK && droppable(j))
			(void)journal_drop_oldest(j, NULL); /* its failure is final, and `failed` reports it */
		if (j->failure.status != WEIR_OK && !j->failure_told)
			tell_failure(j);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

weir_status journal_start_thread(struct journal *j, weir_error *err)
{
	if (pthread_create(&j->thread, NULL, run, j) != 0)
		return weir_fail(err, WEIR_E_MEMORY, "journal %s: cannot start its thread", j->options.directory);
	j->running = true;
	return WEIR_OK;
}

void journal_stop_thread(struct journal *j)
{
	pthread_mutex_lock(&j->lock);
	j->stopping = true;
	pthread_cond_signal(&j->work);
	pthread_mutex_unlock(&j->lock);
	pthread_join(j->thread, NULL);
	j->running = false;
}

/* --- From any thread */

void journal_watch(struct journal *j, uint16_t channel, journal_watch_fn watch, void *ctx)
{
	struct journal_watcher *w = &j->watchers[journal_slot(channel)];
	pthread_mutex_lock(&j->lock);
	w->watch = watch;
	w->ctx = ctx;
	pthread_mutex_unlock(&j->lock);
}

uint64_t journal_durable(const struct journal *j, uint16_t channel)
{
	return atomic_load_explicit(&j->watchers[journal_slot(channel)].durable, memory_order_acquire);
}

uint64_t journal_position(struct journal *j)
{
	pthread_mutex_lock(&j->lock);
	const uint64_t position = j->entries_end;
	pthread_mutex_unlock(&j->lock);
	return position;
}

bool journal_is_durable(struct journal *j, uint64_t position)
{
	pthread_mutex_lock(&j->lock);
	const bool durable = j->synced >= position;
	pthread_mutex_unlock(&j->lock);
	return durable;
}

uint64_t journal_durable_position(struct journal *j)
{
	pthread_mutex_lock(&j->lock);
	const uint64_t position = j->synced;
	pthread_mutex_unlock(&j->lock);
	return position;
}

void journal_sync(struct journal *j)
{
	pthread_mutex_lock(&j->lock);
	if (j->wanted < j->entries_end) {
		j->wanted = j->entries_end;
		pthread_cond_signal(&j->work);
	}
	pthread_mutex_unlock(&j->lock);
}

weir_status journal_wait(struct journal *j, weir_error *err)
{
	pthread_mutex_lock(&j->lock);
	uint64_t until = j->entries_end;
	if (j->wanted < until)
		j->wanted = until;
	pthread_cond_signal(&j->work);
	while (j->told < until && j->failure.status == WEIR_OK)
		pthread_cond_wait(&j->progress, &j->lock);
	weir_status status = WEIR_OK;
	if (j->told < until)
		status = weir_fail(err, j->failure.status, "the journal has failed: %s", j->failure.text);
	pthread_mutex_unlock(&j->lock);
	return status;
}

void journal_truncate_below(struct journal *j, uint16_t channel, uint64_t index)
{
	uint64_t *needed = &j->needed.of[journal_slot(channel)];
	pthread_mutex_lock(&j->lock);
	if (*needed < index) {
		*needed = index;
		if (droppable(j))
			pthread_cond_signal(&j->work);
	}
	pthread_mutex_unlock(&j->lock);
}

void journal_get_stats(struct journal *j, struct journal_stats *out)
{
	pthread_mutex_lock(&j->lock);
	*out = j->stats;
	out->segments = j->count;
	out->bytes = j->count ? j->end - j->segments[0].start : 0;
	pthread_mutex_unlock(&j->lock);
}

bool journal_is_kept_by(struct journal *j, uint16_t channel)
{
	bool kept = false;
	pthread_mutex_lock(&j->lock);
	for (uint32_t i = 0; i + 1 < j->count && !kept; i++)
		kept = is_needed_by(j, &j->segments[i], journal_slot(channel));
	pthread_mutex_unlock(&j->lock);
	return kept;
}
