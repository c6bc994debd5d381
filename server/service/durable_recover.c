/* Recovery at a start: tables, headers and rows of the last flushes, then every entry since. */
#include <stdlib.h>

#include "server/ledger/ledger_log.h"
#include "server/partition/partition_state.h"
#include "server/service/durable_internal.h"
#include "server/service/ledger_role.h"
#include "server/snapshot/snapshot_receive.h"
#include "server/store/cold_writer.h"

/* --- Partitions */

/* Reads the header of a channel. *bytes is NULL if there is no header; *found then gets the marker
 * in its place, if any. */
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
	store->run_on = rpc_loop_executor(server_executor(s, options->id)->loop);
	options->flush_interval_ms = d->options.flush_interval_ms;
}

static weir_status add_tables(const struct server *s, struct partition *p, weir_error *err)
{
	size_t count;
	Weir__V1__Table *const *tables = folder_tables(s->identity.folder, &count);
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

/* Loads rows of a table until memory is full, at most *rows of them. Chunks (dense rows) are always
 * loaded, because they stay in memory. */
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

/* A server with many rows serves before it has loaded all of them. The others are loaded on
 * demand. */
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
	if (folder_is_restoring(s->identity.folder)) /* remains of an earlier try */
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
	const bool replicated = server_is_replicated(s), is_new = folder_is_restoring(s->identity.folder);
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
	                               .epoch = folder_epoch(s->identity.folder),
	                               .generation = s->options.generation,
	                               .clock = s->options.clock,
	                               .logger = s->options.logger,
	                               .writer = d->writer,
	                               .run_on = rpc_loop_executor(s->ledger_loop),
	                               .flush_interval_ms = d->options.flush_interval_ms,
	                               .replicated = replicated,
	                               .backlog_bytes = s->options.backlog_bytes,
	                               .ack_disk = s->options.ack == PARTITION_ACK_DISK,
	                               .appended = ledger_role_appended,
	                               .failed = durable_failed,
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

weir_status durable_add_table(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err)
{
	struct wire_table wire;
	if (wire_table_make(&wire, spec, id))
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
	weir_status status = folder_add_table(s->identity.folder, &wire.table, err);
	wire_table_destroy(&wire);
	return status;
}

/* Stores the tables of all partitions, as the checkpoint had them. */
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

/* Makes the restored state this server's own. */
static weir_status keep_restored(struct server *s, weir_error *err)
{
	weir_status status = keep_tables(s, err);
	if (status)
		return status;
	durable_flush_all(s);
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p] && !partition_is_flushed(s->partitions[p]))
			return weir_fail(err, WEIR_E_IO, "partition %u: what was restored could not be written to %s", p,
			                 folder_path(s->identity.folder));
	if (s->ledger_log && !ledger_log_is_flushed(s->ledger_log))
		return weir_fail(err, WEIR_E_IO, "the ledger: what was restored could not be written to %s",
		                 folder_path(s->identity.folder));
	return folder_restored(s->identity.folder, err);
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
	(void)durable; /* queried again there: it may be further by then */
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

/* With one copy, no other server can decide about entries that are not known to be committed. So
 * there must be none. */
static weir_status begin_channel(struct server *s, const struct journal_channel *c, weir_error *err)
{
	const bool ledger = c->channel == JOURNAL_LEDGER;
	struct partition *p = ledger ? NULL : s->partitions[c->channel];
	const uint64_t applied = ledger ? ledger_log_applied(s->ledger_log) : partition_applied(p);
	char name[32] = "ledger";
	if (!ledger)
		snprintf(name, sizeof name, "partition %u", c->channel);
	struct log *log = ledger ? ledger_log_entries(s->ledger_log) : partition_log(p);
	/* is_cut_short: a snapshot was installed (ledger_snapshot.h). */
	const bool is_cut_short = ledger && server_is_replicated(s) && c->last < applied;
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

/* Starts the logs behind the imported state. */
static weir_status start_logs(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	for (uint32_t id = 0; id < s->options.partitions; id++) {
		struct partition *p = s->partitions[id];
		if (!p)
			continue;
		if (folder_is_restoring(s->identity.folder))
			partition_set_unflushed(p);
		struct log *log = log_disk_create(d->journal, (uint16_t)id, partition_state_needs(p));
		if (!log)
			return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", id);
		partition_set_log(p, log);
		add_channel(d, id, &d->found[id], partition_state_needs(p), partition_flushed(p));
	}
	return s->ledger_loop ? start_ledger_log(s, err) : WEIR_OK;
}

/* A partition whose snapshot was not finished counts as new once its log is known to begin
 * again. */
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
	return folder_is_restoring(s->identity.folder);
}

weir_status durable_recover(struct server *s, weir_error *err)
{
	struct durable *d = s->durable;
	weir_status status = start_logs(s, err);
	const int64_t begun_ms = clock_ms(s->options.clock);
	if (!status)
		status = journal_replay(d->journal, d->channels, d->channels_count,
		                        &(struct journal_reader){.entry = replay_entry, .cut = replay_cut, .ctx = s}, err);
	status = durable_not_gone_back(s, status, err);
	if (!status) {
		d->began = journal_durable_position(d->journal);
		status = folder_begin(s->identity.folder, err);
	}
	for (uint32_t i = 0; i < d->channels_count && !status; i++)
		status = begin_channel(s, &d->channels[i], err);
	if (!status)
		status = forget_all_unfinished(s, err);
	if (!status && folder_is_restoring(s->identity.folder))
		status = keep_restored(s, err);
	if (status)
		return status;
	d->recovered = true;
	d->recovery_ms = (uint64_t)(clock_ms(s->options.clock) - d->opened_ms);
	logger_write(s->options.logger, LOG_INFO, NULL, "recovered",
	             "folder=%s epoch=%llu clean=%d entries=%llu bytes=%llu ms=%llu replay_ms=%llu", folder_path(s->identity.folder),
	             (unsigned long long)folder_epoch(s->identity.folder), folder_was_clean(s->identity.folder),
	             (unsigned long long)d->replayed_entries, (unsigned long long)d->replayed_bytes,
	             (unsigned long long)d->recovery_ms, (unsigned long long)(clock_ms(s->options.clock) - begun_ms));
	return WEIR_OK;
}
