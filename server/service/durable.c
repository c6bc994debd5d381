#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "common/system/process.h"
#include "server/ledger/ledger_log.h"
#include "server/service/durable_internal.h"
#include "server/service/ledger_role.h"
#include "server/store/cold_fetch.h"
#include "server/store/cold_sweep.h"
#include "server/store/cold_writer.h"

#define READER_THREADS 2u
/* RocksDB's memtables have 1 / this of the memory budget. */
#define COLD_SHARE     10u
#define COLD_BYTES_MAX ((uint64_t)256 << 20) /* at most this much */
#define REST_BYTES     ((uint64_t)160 << 20) /* of memory that is not rows: this much */
/* And 1 / this of the budget for RocksDB's data about the rows on disk. */
#define REST_OF  8u
#define REST_MAX 5u /* but at most this many eighths of the budget */

void durable_failed(void *arg, const weir_error *err)
{
	struct server *s = arg;
	const struct durable_options *o = &s->durable->options;
	LOG_AT(s->options.logger, LOG_ERROR, "storage failed", "folder=%s %s", folder_path(s->identity.folder), err->text);
	weir_error why = {0};
	if (vote_store_distrust_log(s->identity.votes, &why))
		LOG_AT(s->options.logger, LOG_ERROR, "votes not written", "%s", why.text);
	if (o->failed)
		o->failed(o->arg, err);
}

/* --- Memory. The bytes of rows are counted. The rest is measured: RocksDB's memtables, indexes and
 * filters, messages under way, and memory that the allocator keeps. The rest still grows after rows
 * have filled the remaining memory, and rows cannot give memory back. So its expected size is kept
 * free, up to REST_MAX eighths of the budget. */

static void charge_rest(struct durable *d)
{
	const uint64_t cold = cold_memory(d->cold), most = d->budget->limit / 8 * REST_MAX;
	uint64_t rest = cold;
	if (d->options.owns_process) {
		const uint64_t rows = memory_budget_used(d->budget) - d->rest, own = process_memory(),
		               expected = REST_BYTES + d->budget->limit / REST_OF;
		rest = own > d->baseline + rows ? own - d->baseline - rows : 0;
		rest = rest < expected ? expected : rest;
		rest = rest > most ? most : rest;
		rest = rest < cold ? cold : rest;
	}
	memory_budget_charge(d->budget, rest);
	memory_budget_release(d->budget, d->rest);
	d->rest = rest;
}

/* Recovery reads the log in addition to the rows. The bound keeps it from taking much longer than
 * the rows. */
static void bound_journal(struct durable *d)
{
	uint64_t high = WEIR_JOURNAL_ROWS_FACTOR * (memory_budget_used(d->budget) - d->rest);
	high = high < WEIR_JOURNAL_BYTES_MIN ? WEIR_JOURNAL_BYTES_MIN : high;
	high = high > WEIR_JOURNAL_BYTES_MAX ? WEIR_JOURNAL_BYTES_MAX : high;
	atomic_store_explicit(&d->journal_high, high, memory_order_relaxed);
}

/* --- Opening */

static bool is_stopping(void *arg)
{
	struct server *s = arg;
	const struct durable_options *o = &s->durable->options;
	return atomic_load(&s->draining) || atomic_load(&s->stopping) || (o->asked_to_end && o->asked_to_end(o->arg));
}

static weir_status open_cold(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	char path[WEIR_PATH_BYTES_MAX];
	uint64_t share = s->budget.limit / COLD_SHARE;
	share = share > COLD_BYTES_MAX ? COLD_BYTES_MAX : share;
	if (snprintf(path, sizeof path, "%s/db", folder_path(s->identity.folder)) >= (int)sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX,
		                 folder_path(s->identity.folder));
	weir_status status = cold_open(&d->cold, &(struct cold_options){.path = path, .memory_bytes = share}, err);
	s->cold = d->cold;
	if (!status)
		charge_rest(d);
	bound_journal(d);
	struct cold_writer_options writer = {.cold = d->cold, .logger = s->options.logger, .stopping = is_stopping, .arg = s};
	if (!status && !(s->writer = d->writer = cold_writer_create(&writer, err)))
		status = err->status;
	if (!status && !(d->fetch = cold_fetch_create(d->cold, READER_THREADS, err)))
		status = err->status;
	if (!status && !(d->sweep = cold_sweep_create(d->cold, err)))
		status = err->status;
	return status;
}

/* --- Marks */

static weir_status gone_back(const char *folder, const char *what, weir_error *err)
{
	return weir_fail(err, WEIR_E_STALE,
	                 "%s has gone back in time: %s. Put back its newest copy, or go back to a checkpoint: `weir restore --from "
	                 "latest`, then `weir train --resume`",
	                 folder, what);
}

/* Extends the journal's E_STALE with what to do. */
weir_status durable_not_gone_back(const struct server *s, weir_status status, weir_error *err)
{
	const weir_error why = *err;
	return status == WEIR_E_STALE ? gone_back(folder_path(s->identity.folder), why.text, err) : status;
}

static weir_status open_journal(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	char path[WEIR_PATH_BYTES_MAX];
	if (snprintf(path, sizeof path, "%s/journal", folder_path(s->identity.folder)) >= (int)sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX,
		                 folder_path(s->identity.folder));
	struct journal_options o = {.disk = d->options.disk,
	                            .directory = path,
	                            .holder = s->name,
	                            .segment_bytes = d->options.journal_segment_bytes,
	                            .sync_interval_ms = d->options.fsync_interval_ms,
	                            .watch = &d->syncs,
	                            .failed = durable_failed,
	                            .ctx = s};
	if (d->known.generation && folder_epoch_found(s->identity.folder) == d->known.epoch)
		o.durable_known = d->known.position;
	folder_id(s->identity.folder, o.id);
	return durable_not_gone_back(s, journal_open(&d->journal, &o, err), err);
}

/* Finds the higher one of the coordinator's mark and this server's own. */
static weir_status find_mark(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	const struct durable_options *o = &d->options;
	struct mark_owner owner = {.server = s->options.index};
	struct mark own = {0};
	memcpy(owner.uuid, s->options.uuid, sizeof owner.uuid);
	weir_status status = o->mark_path ? mark_read(o->mark_disk, o->mark_path, &owner, &own, err) : WEIR_OK;
	if (status)
		return status;
	d->known = mark_is_below(&own, &o->known) ? o->known : own;
	if (d->known.generation > s->options.generation)
		return weir_fail(err, WEIR_E_GENERATION,
		                 "%s: this server has served generation %llu of the job, and is started with generation %llu", s->name,
		                 (unsigned long long)d->known.generation, (unsigned long long)s->options.generation);
	if (d->known.generation < s->options.generation)
		d->known = (struct mark){0};
	return WEIR_OK;
}

/* With one copy, no other server has the data of a missing folder. */
static weir_status check_there(struct server *s, const char *path, weir_error *err)
{
	const struct durable *d = s->durable;
	char what[WEIR_ERROR_TEXT_BYTES];
	bool there = true;
	weir_status status = WEIR_OK;
	if (d->known.generation && !server_is_replicated(s))
		status = folder_is_there(d->options.disk, path, &there, err);
	if (status || there)
		return status;
	snprintf(what, sizeof what, "it is empty, and server %u has run %llu times with it%s%s", s->options.index,
	         (unsigned long long)d->known.epoch, d->options.mark_path ? "; where the job begins anew, remove " : "",
	         d->options.mark_path ? d->options.mark_path : "");
	return gone_back(path, what, err);
}

/* Takes the folder. */
static weir_status open_folder(struct server *s, const char *path, bool restore, weir_error *err)
{
	struct durable *d = s->durable;
	const struct folder_start start = {.restore = restore, .epoch_known = d->known.epoch};
	struct promising_options folder = {.disk = d->options.disk, .path = path};
	weir_error why = {0};
	memcpy(folder.machine_boot, d->options.machine_boot, sizeof folder.machine_boot);
	/* Replicas acknowledge entries in the page cache, whatever `ack` makes clients wait for. */
	const weir_status status = server_open_replica_identity(s, &folder, VOTE_LOG_CACHED, &start, &why);
	if (status == WEIR_E_STALE)
		return gone_back(path, why.text, err);
	return status ? weir_fail(err, status, "%s", why.text) : WEIR_OK;
}

struct mark durable_mark(const struct server *s)
{
	return (struct mark){.generation = s->options.generation,
	                     .epoch = folder_epoch(s->identity.folder),
	                     .position = journal_durable_position(s->durable->journal)};
}

uint64_t durable_began(const struct server *s)
{
	return s->durable->began;
}

weir_status durable_open(struct server *s, const struct durable_options *options, bool restore, weir_error *err)
{
	struct durable *d = s->durable = calloc(1, sizeof *d);
	if (!d)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	d->budget = &s->budget;
	d->options = *options;
	d->options.path = NULL; /* the folder keeps it */
	d->opened_ms = clock_ms(s->options.clock);
	d->baseline = process_memory();
	d->channels = calloc(s->options.partitions + 1u, sizeof *d->channels);
	d->found = calloc(s->options.partitions + 1u, sizeof *d->found);
	if (!d->channels || !d->found)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	weir_status status = find_mark(s, err);
	if (!status)
		status = check_there(s, options->path, err);
	d->options.mark_path = NULL; /* marks.c has a copy */
	if (!status)
		status = open_folder(s, options->path, restore, err);
	if (!status)
		status = open_cold(s, err);
	return status ? status : open_journal(s, err);
}

/* --- Everything at once, at the start and end of a server's life */

static void tour_nothing(struct executor *e, void *arg)
{
	(void)e, (void)arg;
}

static void leave(void *arg)
{
	server_leave(arg);
}

/* Waits until all that was posted to the loops before has run. */
static void wait_for_loops(struct server *s)
{
	(void)server_tour(s, tour_nothing, tour_nothing, NULL);
	if (s->ledger_loop) {
		server_enter(s);
		rpc_loop_post(s->ledger_loop, leave, s);
	}
	server_wait_idle(s);
}

static void flush_partitions(struct executor *e, void *arg)
{
	struct server *s = e->server;
	(void)arg;
	for (uint32_t p = 0; p < s->options.partitions; p++) {
		if (!s->partitions[p] || server_executor(s, p) != e)
			continue;
		server_enter(s);
		if (!partition_flush(s->partitions[p], leave, s))
			server_leave(s);
	}
}

static void flush_ledger(void *arg)
{
	struct server *s = arg;
	if (!ledger_log_flush(s->ledger_log, leave, s))
		server_leave(s);
}

void durable_flush_all(struct server *s)
{
	if (s->ledger_log) {
		server_enter(s);
		rpc_loop_post(s->ledger_loop, flush_ledger, s);
	}
	(void)server_tour(s, flush_partitions, tour_nothing, NULL);
	server_wait_idle(s);
}

/* --- Running */

static bool is_journal_large(const struct durable *d)
{
	struct journal_stats stats;
	journal_get_stats(d->journal, &stats);
	return stats.bytes > atomic_load_explicit(&d->journal_high, memory_order_relaxed);
}

bool durable_is_slow(const struct server *s)
{
	return sync_watch_is_slow(&s->durable->syncs, clock_ns(clock_system()));
}

void durable_watch_tick(struct server *s)
{
	sync_watch_tick(&s->durable->syncs);
}

static void tell_slow(struct server *s)
{
	struct durable *d = s->durable;
	const char *folder = folder_path(s->identity.folder);
	const bool slow = durable_is_slow(s);
	if (slow && !d->told_slow)
		LOG_AT(s->options.logger, LOG_WARN, "disk slow",
		       "folder=%s a sync takes %" PRIu64 " ms: look at the disk (smartctl, iostat, who else writes there)%s", folder,
		       sync_watch_ms(&d->syncs, clock_ns(clock_system())),
		       server_is_replicated(s) ? "; this server leaves the in-sync replicas where min_isr allows" : "");
	else if (!slow && d->told_slow)
		LOG_AT(s->options.logger, LOG_INFO, "disk well again", "folder=%s", folder);
	d->told_slow = slow;
}

void durable_tick(struct server *s, struct executor *e)
{
	struct durable *d = s->durable;
	if (e == &s->executors[0]) {
		tell_slow(s);
		charge_rest(d);
		bound_journal(d);
	}
	if (!is_journal_large(d))
		return;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p] && server_executor(s, p) == e && journal_is_kept_by(d->journal, (uint16_t)p))
			(void)partition_flush(s->partitions[p], NULL, NULL);
}

void durable_ledger_tick(struct server *s)
{
	const struct durable *d = s->durable;
	if (is_journal_large(d) && journal_is_kept_by(d->journal, JOURNAL_LEDGER))
		(void)ledger_log_flush(s->ledger_log, NULL, NULL);
}

/* --- Stopping */

void durable_turn_journal(struct server *s)
{
	weir_error err = {0};
	if (journal_turn(s->durable->journal, &err))
		LOG_AT(s->options.logger, LOG_ERROR, "journal not turned", "%s", err.text);
}

void durable_settle(struct server *s)
{
	struct durable *d = s->durable;
	weir_error err = {0};
	if (d->recovered)
		d->stopped_well = journal_wait(d->journal, &err) == WEIR_OK;
}

static void end_ledger_log(void *arg)
{
	struct server *s = arg;
	ledger_log_close(s->ledger_log);
	server_leave(s);
}

static void close_partitions(struct executor *e, void *arg)
{
	struct server *s = e->server;
	(void)arg;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p] && server_executor(s, p) == e)
			partition_close(s->partitions[p]);
}

void durable_stop(struct server *s)
{
	struct durable *d = s->durable;
	durable_settle(s); /* the last replies may have brought entries */
	wait_for_loops(s);
	if (d->stopped_well && !cold_writer_is_stuck(d->writer))
		durable_flush_all(s);
	(void)server_tour(s, close_partitions, tour_nothing, NULL);
	if (s->ledger_log) {
		server_enter(s);
		rpc_loop_post(s->ledger_loop, end_ledger_log, s);
	}
	server_wait_idle(s);
	cold_writer_destroy(d->writer);
	cold_fetch_destroy(d->fetch);
	cold_sweep_destroy(d->sweep);
	s->writer = d->writer = NULL;
	d->fetch = NULL;
	d->sweep = NULL;
	wait_for_loops(s);
}

void durable_close(struct server *s)
{
	struct durable *d = s->durable;
	weir_error err = {0};
	if (d->journal && journal_close(d->journal, &err)) {
		LOG_AT(s->options.logger, LOG_ERROR, "journal not closed well", "%s", err.text);
		d->stopped_well = false;
	}
	cold_writer_destroy(d->writer);
	cold_fetch_destroy(d->fetch);
	cold_sweep_destroy(d->sweep);
	cold_close(d->cold);
	replica_identity_close(&s->identity, d->stopped_well);
	free(d->channels);
	free(d->found);
	free(d);
	s->durable = NULL;
	s->writer = NULL;
	s->cold = NULL;
}

void durable_get_status(const struct server *s, struct durable_status *out)
{
	const struct durable *d = s->durable;
	struct journal_stats stats;
	struct cold_usage usage;
	journal_get_stats(d->journal, &stats);
	cold_usage(d->cold, &usage);
	const uint64_t own = process_memory();
	*out = (struct durable_status){.recovery_ms = d->recovery_ms,
	                               .replayed_entries = d->replayed_entries,
	                               .replayed_bytes = d->replayed_bytes,
	                               .journal_bytes = stats.bytes,
	                               .budget_bytes = d->budget->limit,
	                               .memory_bytes = !d->options.owns_process ? memory_budget_used(d->budget)
	                                               : own > d->baseline      ? own - d->baseline
	                                                                        : 0,
	                               .keys = usage.keys,
	                               .disk_full = cold_writer_is_stuck(d->writer),
	                               .sync_ms = sync_watch_ms(&d->syncs, clock_ns(clock_system())),
	                               .disk_slow = durable_is_slow(s)};
}
