#include "durable.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cold_fetch.h"
#include "cold_sweep.h"
#include "cold_writer.h"
#include "journal.h"
#include "ledger_log.h"
#include "ledger_role.h"
#include "partition_state.h"
#include "placement.h"
#include "process.h"
#include "snapshot_receive.h"
#include "sync_watch.h"

#define READER_THREADS 2u
#define COLD_SHARE     10u                   /* RocksDB's memtables have 1 / this of the memory budget, */
#define COLD_BYTES_MAX ((uint64_t)256 << 20) /* at most this much */
#define REST_BYTES     ((uint64_t)160 << 20) /* of memory that is not rows: so much, */
#define REST_OF        8u                    /* and 1 / this of the budget for what RocksDB keeps of the rows on disk, */
#define REST_MAX       5u                    /* but no more than so many eighths of the budget */

struct durable {
	struct durable_options options;
	struct cold *cold;
	struct cold_writer *writer;
	struct cold_fetch *fetch;
	struct cold_sweep *sweep;
	struct pool *pool;       /* the server's */
	uint64_t rest, baseline; /* bytes: charged to it for what is no row; the process's memory at the start */
	struct journal *journal;
	struct sync_watch syncs;          /* of the journal */
	bool told_slow;                   /* the first executor's */
	_Atomic uint64_t journal_high;    /* bytes: a larger one is cut by a flush at once */
	struct mark known;                /* the folder has been there (mark.h); generation 0: that is not known */
	uint64_t began;                   /* where the log ended at the start */
	struct journal_channel *channels; /* (channels_count) of the partitions here, then the ledger's */
	uint32_t channels_count;
	/* (partitions, then the ledger) What stands in the place of a header. Unfinished: a snapshot
	 * was being received, it is empty, what the journal has of it is void. */
	struct found_header {
		bool is_unfinished;
		uint64_t from; /* position of the journal: the log began anew there; 0: as far as the header knows it did not */
	} * found;
	bool recovered, stopped_well;
	int64_t opened_ms;
	uint64_t recovery_ms, replayed_entries, replayed_bytes;
};

static void on_failed(void *arg, const weir_error *err)
{
	struct server *s = arg;
	const struct durable_options *o = &s->durable->options;
	LOG_AT(s->options.logger, LOG_ERROR, "storage failed", "folder=%s %s", folder_path(s->standing.folder), err->text);
	weir_error why = {0};
	if (promises_distrust_log(s->standing.promises, &why))
		LOG_AT(s->options.logger, LOG_ERROR, "promises not written", "%s", why.text);
	if (o->failed)
		o->failed(o->arg, err);
}

/* --- Memory. What rows take is counted. The rest, RocksDB's memtables, indexes and filters, messages under way and what the allocator keeps, is measured.
 * It goes on growing when rows have filled what it leaves them, and they cannot give that back: so what it is expected to become is kept free, up to REST_MAX eighths of the budget. */

static void charge_rest(struct durable *d)
{
	const uint64_t cold = cold_memory(d->cold), most = d->pool->limit / 8 * REST_MAX;
	uint64_t rest = cold;
	if (d->options.owns_process) {
		const uint64_t rows = pool_used(d->pool) - d->rest, own = process_memory(),
		               expected = REST_BYTES + d->pool->limit / REST_OF;
		rest = own > d->baseline + rows ? own - d->baseline - rows : 0;
		rest = rest < expected ? expected : rest;
		rest = rest > most ? most : rest;
		rest = rest < cold ? cold : rest;
	}
	pool_charge(d->pool, rest);
	pool_release(d->pool, d->rest);
	d->rest = rest;
}

/* Recovery reads the log besides the rows: it may take as long, not much longer. */
static void bound_journal(struct durable *d)
{
	uint64_t high = WEIR_JOURNAL_ROWS_FACTOR * (pool_used(d->pool) - d->rest);
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
	uint64_t share = s->pool.limit / COLD_SHARE;
	share = share > COLD_BYTES_MAX ? COLD_BYTES_MAX : share;
	if (snprintf(path, sizeof path, "%s/db", folder_path(s->standing.folder)) >= (int)sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX,
		                 folder_path(s->standing.folder));
	weir_status status = cold_open(&d->cold, &(struct cold_options){.path = path, .memory_bytes = share}, err);
	s->cold = d->cold;
	if (!status)
		charge_rest(d);
	bound_journal(d);
	struct cold_writer_options writer = {.cold = d->cold, .logger = s->options.logger, .stopping = is_stopping, .arg = s};
	if (!status && !(d->writer = cold_writer_create(&writer, err)))
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

/* The journal's E_STALE, with what to do. */
static weir_status not_gone_back(const struct server *s, weir_status status, weir_error *err)
{
	const weir_error why = *err;
	return status == WEIR_E_STALE ? gone_back(folder_path(s->standing.folder), why.text, err) : status;
}

static weir_status open_journal(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	char path[WEIR_PATH_BYTES_MAX];
	if (snprintf(path, sizeof path, "%s/journal", folder_path(s->standing.folder)) >= (int)sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX,
		                 folder_path(s->standing.folder));
	struct journal_options o = {.disk = d->options.disk,
	                            .directory = path,
	                            .holder = s->name,
	                            .segment_bytes = d->options.journal_segment_bytes,
	                            .sync_interval_ms = d->options.fsync_interval_ms,
	                            .watch = &d->syncs,
	                            .failed = on_failed,
	                            .ctx = s};
	if (d->known.generation && folder_epoch_found(s->standing.folder) == d->known.epoch)
		o.durable_known = d->known.position;
	folder_id(s->standing.folder, o.id);
	return not_gone_back(s, journal_open(&d->journal, &o, err), err);
}

/* The higher one of the coordinator's mark and this server's own. */
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

/* With one copy nobody else has what a folder had that is gone. */
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
	/* Replicas acknowledge what is in the page cache, whatever `ack` makes clients wait for. */
	const weir_status status = server_open_standing(s, &folder, PROMISES_LOG_CACHED, &start, &why);
	if (status == WEIR_E_STALE)
		return gone_back(path, why.text, err);
	return status ? weir_fail(err, status, "%s", why.text) : WEIR_OK;
}

struct mark durable_mark(const struct server *s)
{
	return (struct mark){.generation = s->options.generation,
	                     .epoch = folder_epoch(s->standing.folder),
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
	d->pool = &s->pool;
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

/* --- Partitions */

/* The header of a channel: *bytes NULL when there was no flush yet; and what stands in its place
 * then. */
static weir_status read_header(struct durable *d, uint32_t channel, struct found_header *found, uint8_t **bytes, size_t *n,
                               weir_error *err)
{
	weir_error why = {0};
	*bytes = NULL;
	*n = 0;
	weir_status status = cold_get_header(d->cold, channel, bytes, n, &why);
	if (status)
		return status == WEIR_E_NOT_FOUND ? WEIR_OK : weir_fail(err, status, "%s", why.text);
	found->is_unfinished = snapshot_is_unfinished(*bytes, *n);
	if (found->is_unfinished || snapshot_is_anew(*bytes, *n, &found->from)) {
		free(*bytes);
		*bytes = NULL;
	}
	return WEIR_OK;
}

static void add_channel(struct durable *d, uint32_t channel, const struct found_header *found, uint64_t needs, uint64_t flushed)
{
	d->channels[d->channels_count++] = (struct journal_channel){
	    .channel = (uint16_t)channel, .first = needs, .flushed = flushed, .from = found->from, .is_void = found->is_unfinished};
}

void durable_prepare_partition(struct server *s, struct partition_options *options, struct store_options *store)
{
	struct durable *d = s->durable;
	store->cold = d->cold;
	store->writer = d->writer;
	store->fetch = d->fetch;
	store->sweep = d->sweep;
	store->poster = rpc_loop_poster(server_executor(s, options->id)->loop);
	options->flush_interval_ms = d->options.flush_interval_ms;
	options->failed = on_failed;
	options->failed_arg = s;
}

static weir_status add_tables(const struct server *s, struct partition *p, weir_error *err)
{
	size_t count;
	Weir__V1__Table *const *tables = folder_tables(s->standing.folder, &count);
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < count && !status; i++) {
		weir_table_spec spec = {0};
		uint32_t id;
		status = wire_table_read(tables[i], &spec, &id, err);
		if (!status)
			status = partition_add_table(p, id, &spec, err);
		free((void *)(uintptr_t)spec.segments);
	}
	return status;
}

/* Rows of a table until memory is full, at most *rows; chunks always, they stay. */
static weir_status load_table(struct durable *d, struct partition *p, uint32_t table, uint64_t *rows, weir_error *err)
{
	const bool stays = store_table_spec(store_table(partition_store(p), table))->kind == WEIR_DENSE;
	struct cold_scan *scan;
	struct cold_row row;
	weir_error why = {0};
	weir_status status = cold_scan_create(&scan, d->cold, NULL, partition_id(p), table, err);
	if (status)
		return status;
	while (!status && !(status = cold_scan_next(scan, &row, &why))) {
		if (!stays && *rows == 0) {
			store_expect_cold(partition_store(p));
			status = WEIR_E_LIMIT;
			break;
		}
		*rows -= !stays;
		status = store_load(partition_store(p), row.table, row.key, row.bytes, row.count, false, &why);
	}
	cold_scan_destroy(scan);
	return status == WEIR_E_NOT_FOUND || status == WEIR_E_LIMIT ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

/* A server with many rows serves before it has them all: the others come when they are wanted. */
static weir_status load_rows(struct server *s, struct partition *p, weir_error *err)
{
	const uint64_t rows = s->durable->options.rows_at_start ? s->durable->options.rows_at_start : WEIR_ROWS_AT_START;
	uint64_t left = rows * s->options.servers / s->options.partitions; /* this partition's share */
	weir_status status = WEIR_OK;
	for (uint32_t kind = 0; kind < 2; kind++) /* chunks first */
		for (uint32_t id = 0; id <= WEIR_TABLES_MAX && !status; id++) {
			const struct store_table *t = store_table(partition_store(p), id);
			if (t && (store_table_spec(t)->kind == WEIR_DENSE) == (kind == 0))
				status = load_table(s->durable, p, id, &left, err);
		}
	return status;
}

weir_status durable_load_rows(struct server *s, struct partition *p, weir_error *err)
{
	return load_rows(s, p, err);
}

weir_status durable_fill_partition(struct server *s, struct partition *p, weir_error *err)
{
	struct durable *d = s->durable;
	uint8_t *header = NULL;
	size_t n;
	if (folder_is_restoring(s->standing.folder)) /* what an earlier try has left */
		return cold_remove_partition(d->cold, partition_id(p), err);
	struct found_header *found = &d->found[partition_id(p)];
	weir_status status = add_tables(s, p, err);
	if (!status)
		status = read_header(d, partition_id(p), found, &header, &n, err);
	if (!status && header)
		status = partition_state_import(p, header, n, err);
	free(header);
	return status || found->is_unfinished ? status : load_rows(s, p, err);
}

/* --- The ledger */

static weir_status start_ledger_log(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	const bool replicated = server_is_replicated(s), is_new = folder_is_restoring(s->standing.folder);
	struct found_header *found = &d->found[s->options.partitions];
	uint64_t needs = 1;
	uint8_t *header = NULL;
	size_t n;
	weir_status status = WEIR_OK;
	if (is_new) {
		status = cold_remove_partition(d->cold, JOURNAL_LEDGER, err);
		needs = ledger_role_is_first_host(s) ? s->begun + 1 : 1;
	} else {
		status = read_header(d, JOURNAL_LEDGER, found, &header, &n, err);
	}
	if (!status && header)
		status = ledger_log_restore(s->ledger, header, n, &needs, err);
	if (!status && replicated && header && !(s->ledger_began = message_copy(header, n)))
		status = weir_fail(err, WEIR_E_MEMORY, "ledger: out of memory");
	free(header);
	if (status)
		return status;
	add_channel(d, JOURNAL_LEDGER, found, needs, needs - 1);
	struct ledger_log_options o = {.ledger = s->ledger,
	                               .log = log_disk_create(d->journal, JOURNAL_LEDGER, needs),
	                               .epoch = folder_epoch(s->standing.folder),
	                               .generation = s->options.generation,
	                               .clock = s->options.clock,
	                               .logger = s->options.logger,
	                               .writer = d->writer,
	                               .poster = rpc_loop_poster(s->ledger_loop),
	                               .flush_interval_ms = d->options.flush_interval_ms,
	                               .replicated = replicated,
	                               .backlog_bytes = s->options.backlog_bytes,
	                               .ack_disk = s->options.ack == PARTITION_ACK_DISK,
	                               .appended = ledger_role_appended,
	                               .failed = on_failed,
	                               .arg = s};
	s->ledger_log = o.log ? ledger_log_create(&o, err) : NULL;
	if (!s->ledger_log)
		return weir_fail(err, WEIR_E_MEMORY, "ledger: out of memory");
	if (s->ledger_began)
		ledger_log_set_base(s->ledger_log, s->ledger_began);
	s->ledger_began = NULL;
	if (is_new && ledger_role_is_first_host(s))
		ledger_log_set_unflushed(s->ledger_log);
	return WEIR_OK;
}

/* --- Everything at once, at the ends of a server's life */

static void tour_nothing(struct executor *e, void *arg)
{
	(void)e, (void)arg;
}

static void leave(void *arg)
{
	server_leave(arg);
}

/* What was posted to the loops before has run. */
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

static void flush_all(struct server *s)
{
	if (s->ledger_log) {
		server_enter(s);
		rpc_loop_post(s->ledger_loop, flush_ledger, s);
	}
	(void)server_tour(s, flush_partitions, tour_nothing, NULL);
	server_wait_idle(s);
}

weir_status durable_add_table(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err)
{
	struct wire_table wire;
	if (wire_table_make(&wire, spec, id))
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
	weir_status status = folder_add_table(s->standing.folder, &wire.table, err);
	wire_table_free(&wire);
	return status;
}

/* The tables of all partitions: as the checkpoint had them. */
static weir_status keep_tables(struct server *s, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		for (uint32_t id = 0; s->partitions[p] && id <= WEIR_TABLES_MAX && !status; id++) {
			const struct store_table *t = store_table(partition_store(s->partitions[p]), id);
			if (t)
				status = durable_add_table(s, id, store_table_spec(t), err);
		}
	return status;
}

/* What a checkpoint has brought is ours from here on. */
static weir_status keep_restored(struct server *s, weir_error *err)
{
	weir_status status = keep_tables(s, err);
	if (status)
		return status;
	flush_all(s);
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p] && !partition_is_flushed(s->partitions[p]))
			return weir_fail(err, WEIR_E_IO, "partition %u: what was restored could not be written to %s", p,
			                 folder_path(s->standing.folder));
	if (s->ledger_log && !ledger_log_is_flushed(s->ledger_log))
		return weir_fail(err, WEIR_E_IO, "the ledger: what was restored could not be written to %s",
		                 folder_path(s->standing.folder));
	return folder_restored(s->standing.folder, err);
}

/* --- Replay */

static weir_status replay_entry(void *ctx, uint16_t channel, const struct log_entry *e, weir_error *err)
{
	struct server *s = ctx;
	s->durable->replayed_entries++;
	s->durable->replayed_bytes += e->record.bytes;
	return channel == JOURNAL_LEDGER ? ledger_log_replay(s->ledger_log, e, err)
	                                 : partition_replay(s->partitions[channel], e, err);
}

static weir_status replay_cut(void *ctx, uint16_t channel, const struct journal_cut *cut, weir_error *err)
{
	struct server *s = ctx;
	return channel == JOURNAL_LEDGER ? ledger_log_replay_cut(s->ledger_log, cut, err)
	                                 : partition_replay_cut(s->partitions[channel], cut, err);
}

static void partition_is_durable(void *arg)
{
	partition_durable(arg);
}

static void ledger_is_durable(void *arg)
{
	struct server *s = arg;
	ledger_log_durable(s->ledger_log);
	ledger_role_durable(s);
}

static void on_durable(void *ctx, uint16_t channel, uint64_t durable)
{
	struct server *s = ctx;
	(void)durable; /* asked for again there: it may be further by then */
	if (channel == JOURNAL_LEDGER)
		rpc_loop_post(s->ledger_loop, ledger_is_durable, s);
	else
		rpc_loop_post(server_executor(s, channel)->loop, partition_is_durable, s->partitions[channel]);
}

weir_status durable_begin_partition(struct server *s, struct partition *p, weir_error *err)
{
	const uint16_t channel = (uint16_t)partition_id(p);
	struct log *log = log_disk_create(s->durable->journal, channel, 1);
	if (!log)
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", channel);
	partition_set_log(p, log);
	journal_watch(s->durable->journal, channel, on_durable, s);
	return WEIR_OK;
}

/* With one copy there is nobody who could say what becomes of entries that are not known to be committed: there must be none. */
static weir_status begin_channel(struct server *s, const struct journal_channel *c, weir_error *err)
{
	const bool ledger = c->channel == JOURNAL_LEDGER;
	struct partition *p = ledger ? NULL : s->partitions[c->channel];
	const uint64_t applied = ledger ? ledger_log_applied(s->ledger_log) : partition_applied(p);
	char name[32] = "ledger";
	if (!ledger)
		snprintf(name, sizeof name, "partition %u", c->channel);
	struct log *log = ledger ? ledger_log_entries(s->ledger_log) : partition_log(p);
	const bool is_cut_short =
	    ledger && server_is_replicated(s) && c->last < applied; /* a snapshot was taken over (ledger_snapshot.h) */
	weir_status status = WEIR_OK;
	if (c->is_void || is_cut_short)
		status = log->ops->restart(log, c->is_void ? 1 : applied + 1, err);
	else if (log->ops->first(log) > applied + 1)
		status = weir_fail(err, WEIR_E_CORRUPT, "%s: recovered up to entry %llu, its log begins with %llu", name,
		                   (unsigned long long)applied, (unsigned long long)log->ops->first(log));
	else if (log->ops->last(log) < c->last || (applied != c->last && !server_is_replicated(s)))
		status = weir_fail(err, WEIR_E_CORRUPT, "%s: recovered up to entry %llu, its log ends at %llu", name,
		                   (unsigned long long)applied, (unsigned long long)c->last);
	if (status)
		return status;
	journal_watch(s->durable->journal, c->channel, on_durable, s);
	if (ledger)
		ledger_log_recovered(s->ledger_log);
	else
		partition_recovered(p);
	return WEIR_OK;
}

/* The logs behind what was imported. */
static weir_status start_logs(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	for (uint32_t id = 0; id < s->options.partitions; id++) {
		struct partition *p = s->partitions[id];
		if (!p)
			continue;
		if (folder_is_restoring(s->standing.folder))
			partition_set_unflushed(p);
		struct log *log = log_disk_create(d->journal, (uint16_t)id, partition_state_needs(p));
		if (!log)
			return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", id);
		partition_set_log(p, log);
		add_channel(d, id, &d->found[id], partition_state_needs(p), partition_flushed(p));
	}
	return s->ledger_loop ? start_ledger_log(s, err) : WEIR_OK;
}

/* One whose snapshot was not finished is like a new one once its log is known to begin anew. */
static weir_status forget_unfinished(struct server *s, uint32_t channel, weir_error *err)
{
	const struct log *log = channel == JOURNAL_LEDGER ? ledger_log_entries(s->ledger_log) : partition_log(s->partitions[channel]);
	uint8_t anew[SNAPSHOT_ANEW_BYTES];
	LOG_AT(s->options.logger, LOG_WARN, "partition is empty", "partition=%u its snapshot was not finished", channel);
	snapshot_put_anew(anew, log->ops->restarted(log));
	return cold_empty_partition(s->durable->cold, channel, anew, sizeof anew, err);
}

static weir_status forget_all_unfinished(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	const uint32_t ledger = s->options.partitions;
	bool any = false;
	weir_status status = WEIR_OK;
	for (uint32_t id = 0; id <= ledger; id++)
		any |= d->found[id].is_unfinished;
	if (!any)
		return WEIR_OK;
	status = journal_wait(d->journal, err);
	for (uint32_t id = 0; id <= ledger && !status; id++)
		if (d->found[id].is_unfinished)
			status = forget_unfinished(s, id == ledger ? JOURNAL_LEDGER : id, err);
	return status ? status : cold_flush(d->cold, err);
}

bool durable_is_restoring(const struct server *s)
{
	return folder_is_restoring(s->standing.folder);
}

uint64_t durable_epoch(const struct server *s)
{
	return folder_epoch(s->standing.folder);
}

weir_status durable_recover(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	weir_status status = start_logs(s, err);
	const int64_t begun_ms = clock_ms(s->options.clock);
	if (!status)
		status = journal_replay(d->journal, d->channels, d->channels_count,
		                        &(struct journal_reader){.entry = replay_entry, .cut = replay_cut, .ctx = s}, err);
	status = not_gone_back(s, status, err);
	if (!status) {
		d->began = journal_durable_position(d->journal);
		status = folder_begin(s->standing.folder, err);
	}
	for (uint32_t i = 0; i < d->channels_count && !status; i++)
		status = begin_channel(s, &d->channels[i], err);
	if (!status)
		status = forget_all_unfinished(s, err);
	if (!status && folder_is_restoring(s->standing.folder))
		status = keep_restored(s, err);
	if (status)
		return status;
	d->recovered = true;
	d->recovery_ms = (uint64_t)(clock_ms(s->options.clock) - d->opened_ms);
	logger_write(s->options.logger, LOG_INFO, NULL, "recovered",
	             "folder=%s epoch=%llu clean=%d entries=%llu bytes=%llu ms=%llu replay_ms=%llu", folder_path(s->standing.folder),
	             (unsigned long long)folder_epoch(s->standing.folder), folder_was_clean(s->standing.folder),
	             (unsigned long long)d->replayed_entries, (unsigned long long)d->replayed_bytes,
	             (unsigned long long)d->recovery_ms, (unsigned long long)(clock_ms(s->options.clock) - begun_ms));
	return WEIR_OK;
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

static void tell_slow(struct server *s)
{
	struct durable *d = s->durable;
	const char *folder = folder_path(s->standing.folder);
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
	durable_settle(s); /* the last replies may have come with entries */
	wait_for_loops(s);
	if (d->stopped_well && !cold_writer_is_stuck(d->writer))
		flush_all(s);
	(void)server_tour(s, close_partitions, tour_nothing, NULL);
	if (s->ledger_log) {
		server_enter(s);
		rpc_loop_post(s->ledger_loop, end_ledger_log, s);
	}
	server_wait_idle(s);
	cold_writer_destroy(d->writer);
	cold_fetch_destroy(d->fetch);
	cold_sweep_destroy(d->sweep);
	d->writer = NULL;
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
	standing_close(&s->standing, d->stopped_well);
	free(d->channels);
	free(d->found);
	free(d);
	s->durable = NULL;
	s->cold = NULL;
}

struct cold_writer *durable_writer(const struct server *s)
{
	return s->durable->writer;
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
	                               .budget_bytes = d->pool->limit,
	                               .memory_bytes = !d->options.owns_process ? pool_used(d->pool)
	                                               : own > d->baseline      ? own - d->baseline
	                                                                        : 0,
	                               .keys = usage.keys,
	                               .disk_full = cold_writer_is_stuck(d->writer),
	                               .sync_ms = sync_watch_ms(&d->syncs, clock_ns(clock_system())),
	                               .disk_slow = durable_is_slow(s)};
}
