#include "overview/overview_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/codec.h"
#include "proto/wire/wire_figures.h"

static void copy_text(char *out, size_t bytes, const char *text)
{
	snprintf(out, bytes, "%s", text ? text : "");
}

/* --- Reading the ledger's answer */

static enum job_state job_state_of(Weir__V1__LeaseState state)
{
	switch (state) {
	case WEIR__V1__LEASE_STATE__FINISHED:
		return JOB_FINISHED;
	case WEIR__V1__LEASE_STATE__FAILED:
		return JOB_FAILED;
	case WEIR__V1__LEASE_STATE__EVALUATE:
		return JOB_EVALUATING;
	default:
		return JOB_RUNNING;
	}
}

static void read_totals(struct overview *s, const Weir__V1__WorkerReport *totals)
{
	if (!totals)
		return;
	s->rows = totals->rows;
	s->batches = totals->batches;
	s->loss_sum = totals->loss_sum;
	s->loss_rows = totals->rows > totals->rows_without_loss ? totals->rows - totals->rows_without_loss : 0;
	s->bytes_pushed = totals->bytes_pushed;
	s->bytes_pulled = totals->bytes_pulled;
	s->redone_batches = totals->redone_batches;
	s->bad_lines = totals->bad_lines;
	s->keys = totals->keys;
	s->keys_cached = totals->keys_cached;
	s->batches_not_finite = totals->nonfinite;
	s->scale_skipped = totals->scale_skipped;
	s->loss_scale = totals->loss_scale;
	s->gradient_norm = totals->gradient_norm;
	s->inner_rate = totals->learning_rate;
	s->row_tokens = totals->row_tokens;
	s->row_least_s = totals->row_least_s;
	s->device_bytes = totals->device_bytes;
	s->energy_sent = totals->energy_measured ? totals->energy_sent / (double)totals->energy_measured : 1;
	s->residual_norm = totals->residual_norm;
	s->residual_lost = totals->residual_lost;
}

static struct overview_stall read_stall(const Weir__V1__Stall *in)
{
	if (!in)
		return (struct overview_stall){0};
	return (struct overview_stall){.count = in->count,
	                               .now = in->now,
	                               .waits_for_data = in->waits_for_data,
	                               .since_unix_ms = in->since_unix_ms,
	                               .idle_ms = in->idle_ms,
	                               .pass = in->pass,
	                               .unit = in->unit,
	                               .units = in->units};
}

static weir_status read_workers(struct overview *s, const Weir__V1__LedgerStatus *l)
{
	s->workers = calloc(l->n_workers + 1, sizeof *s->workers);
	if (!s->workers)
		return WEIR_E_MEMORY;
	s->workers_count = (uint32_t)l->n_workers;
	for (size_t i = 0; i < l->n_workers; i++) {
		const Weir__V1__WorkerStatus *in = l->workers[i];
		struct overview_worker *out = &s->workers[i];
		copy_text(out->name, sizeof out->name, in->name);
		copy_text(out->host, sizeof out->host, in->host);
		out->pid = in->pid;
		out->evaluator = in->role == WEIR__V1__ROLE__EVALUATOR;
		out->live = in->live;
		out->left = in->left;
		out->rows = in->rows;
		out->silent_ms = in->silent_ms;
		out->units_held = in->units_held;
		out->idle_ms = in->idle_ms;
		out->idle_limit_ms = in->idle_limit_ms;
		out->waits_for_data = in->waits_for_data;
		out->stall = read_stall(in->stall);
		out->residual_norm = in->residual_norm;
		for (size_t b = 0; b < in->n_staleness && b < HISTOGRAM_BUCKETS; b++)
			out->staleness[b] = in->staleness[b];
		s->workers_live += in->live && in->role == WEIR__V1__ROLE__TRAINER;
	}
	return WEIR_OK;
}

static struct part_sum read_sum(const Weir__V1__PartTotals *t, uint32_t partition)
{
	if (!t || partition >= t->n_count || partition >= t->n_fingerprint)
		return (struct part_sum){0};
	return (struct part_sum){t->count[partition], t->fingerprint[partition]};
}

static weir_status read_partitions(struct overview *s, const Weir__V1__LedgerStatus *l)
{
	s->partitions = calloc(l->n_partition_server + 1, sizeof *s->partitions);
	if (!s->partitions)
		return WEIR_E_MEMORY;
	s->partitions_count = (uint32_t)l->n_partition_server;
	for (uint32_t p = 0; p < s->partitions_count; p++) {
		s->partitions[p].expected = read_sum(l->expected, p);
		s->partitions[p].skipped = read_sum(l->skipped, p);
	}
	return WEIR_OK;
}

static weir_status read_servers(struct overview *s, const Weir__V1__LedgerStatus *l)
{
	s->servers = calloc(l->n_servers + 1, sizeof *s->servers);
	if (!s->servers)
		return WEIR_E_MEMORY;
	s->servers_count = (uint32_t)l->n_servers;
	for (size_t i = 0; i < l->n_servers; i++)
		copy_text(s->servers[i].address, sizeof s->servers[i].address, l->servers[i]);
	return WEIR_OK;
}

static const char *codec_text(uint32_t codec)
{
	const char *name = codec_name((weir_codec)codec);
	return name ? name : "unknown";
}

static void read_table(struct overview_table *out, const Weir__V1__Table *in)
{
	copy_text(out->name, sizeof out->name, in->name);
	out->push_codec = codec_text(in->push_codec);
	out->pull_codec = codec_text(in->pull_codec);
}

static weir_status read_tables(struct overview *s, const Weir__V1__LedgerStatus *l)
{
	s->tables = calloc(l->n_tables + 1, sizeof *s->tables);
	if (!s->tables)
		return WEIR_E_MEMORY;
	s->tables_count = (uint32_t)l->n_tables;
	for (size_t i = 0; i < l->n_tables; i++)
		read_table(&s->tables[i], l->tables[i]);
	return WEIR_OK;
}

weir_status overview_read_ledger(struct overview *s, const Weir__V1__LedgerStatus *l, weir_error *err)
{
	if (l->status && l->status->code != WEIR_OK)
		return weir_fail(err, (weir_status)l->status->code, "the ledger answers: %s", l->status->text);
	s->has_ledger = true;
	s->state = job_state_of(l->state);
	s->generation = l->job ? l->job->generation : 0;
	copy_text(s->checkpoint, sizeof s->checkpoint, l->checkpoint);
	copy_text(s->rewound, sizeof s->rewound, l->rewound);
	s->pass = l->pass;
	s->passes = l->passes;
	s->units = l->units;
	s->committed = l->committed;
	s->dataset_rows = l->dataset_rows;
	s->rows_per_s = l->rows_per_s;
	s->rows_still_ms = l->rows_still_ms;
	s->evaluated_batches = l->evaluated_batches;
	s->language = l->language;
	s->auc = l->auc;
	s->logloss = l->logloss;
	s->not_numbers = l->not_numbers;
	const weir_status figures = wire_figures_read(&s->figures, l->figures, l->n_figures, err);
	if (figures != WEIR_OK)
		return figures;
	s->workers_lost = l->workers_lost;
	s->workers_stalled = l->workers_stalled;
	s->leases_expired = l->leases_expired;
	s->units_quarantined = l->units_quarantined;
	s->steps_closed = l->steps_closed;
	s->batches_dropped = l->batches_dropped;
	copy_text(s->failure, sizeof s->failure, l->failure);
	s->ledger = (struct overview_place){.server = l->server, .epoch = l->epoch};
	for (size_t i = 0; i < l->n_members && i < WEIR_REPLICAS_MAX; i++)
		s->ledger.in_sync[s->ledger.in_sync_count++] = l->members[i];
	read_totals(s, l->totals);
	if (l->n_servers > WEIR_SERVERS_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, "the ledger tells of %zu servers, more than there may be", l->n_servers);
	if (read_workers(s, l) != WEIR_OK || read_partitions(s, l) != WEIR_OK || read_servers(s, l) != WEIR_OK ||
	    read_tables(s, l) != WEIR_OK)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a status of %zu workers and %zu servers", l->n_workers, l->n_servers);
	return WEIR_OK;
}

/* --- Reading a server's answer */

static void add_counts(uint64_t sum[HISTOGRAM_BUCKETS], const Weir__V1__TableStatus *in)
{
	for (size_t b = 0; b < in->n_staleness && b < HISTOGRAM_BUCKETS; b++)
		sum[b] += in->staleness[b];
}

static void read_server_table(struct overview *s, const Weir__V1__TableStatus *in)
{
	for (uint32_t t = 0; t < s->tables_count; t++)
		if (strcmp(s->tables[t].name, in->name) == 0) {
			s->tables[t].rows += in->rows;
			s->tables[t].bytes += in->bytes;
			s->tables[t].pushes += in->pushes;
			s->tables[t].pulls += in->pulls;
			s->tables[t].rows_stub += in->rows_stub;
			s->tables[t].pushes_unadmitted += in->pushes_unadmitted;
			s->tables[t].rows_evicted += in->rows_evicted;
			s->tables[t].push_bytes += in->push_bytes;
			s->tables[t].push_plain_bytes += in->push_plain_bytes;
			add_counts(s->tables[t].staleness, in);
			s->tables[t].pull_bytes += in->pull_bytes;
			s->tables[t].pull_plain_bytes += in->pull_plain_bytes;
			if (in->steps > s->tables[t].steps) {
				s->tables[t].steps = in->steps;
				s->tables[t].learning_rate = in->learning_rate;
			}
		}
	add_counts(s->staleness, in);
}

static void take_durable(const Weir__V1__DurableStatus *in, struct overview_server *out)
{
	out->durable = in != NULL;
	if (!in)
		return;
	out->disk_full = in->disk_full;
	out->disk_slow = in->disk_slow;
	out->sync_ms = in->sync_ms;
	out->recovery_ms = in->recovery_ms;
	out->replayed_entries = in->replayed_entries;
	out->journal_bytes = in->journal_bytes;
	out->flush_lag = in->flush_lag_entries;
	out->resident_rows = in->resident_rows;
	out->cold_rows = in->cold_rows;
	out->hits = in->hits;
	out->misses = in->misses;
	out->memory_bytes = in->memory_bytes;
	out->budget_bytes = in->budget_bytes;
}

/* A former primary that has not heard of its successor may still claim the partition: the highest
 * epoch wins. */
static void read_partition(struct overview *s, uint32_t server, const Weir__V1__PartitionStatus *in)
{
	struct overview_partition *out = in->id < s->partitions_count ? &s->partitions[in->id] : NULL;
	if (!out || (out->reported && out->epoch > in->epoch))
		return;
	out->reported = true;
	out->primary = server;
	out->epoch = in->epoch;
	out->applied = (struct part_sum){in->parts_applied, in->fingerprint};
	out->dropped = (struct part_sum){in->parts_dropped, in->dropped_fingerprint};
	out->twice = in->parts_double;
	out->rows = in->rows;
	out->replication_lag = in->log_last > in->applied ? in->log_last - in->applied : 0;
	out->units_open = in->units_open;
	s->scrubs += in->scrubs;
	s->scrubs_differ += in->scrubs_differ;
	out->in_sync_count = 0;
	for (size_t i = 0; i < in->n_members && i < WEIR_REPLICAS_MAX; i++)
		out->in_sync[out->in_sync_count++] = in->members[i];
}

static void read_checkpoints(struct overview_checkpoints *out, const Weir__V1__CheckpointStatus *in)
{
	if (!in)
		return;
	out->written += in->written;
	out->failed += in->failed;
	out->failing |= in->failing;
	out->running |= in->running;
	if (in->failing || !out->text[0]) {
		copy_text(out->name, sizeof out->name, in->name);
		copy_text(out->text, sizeof out->text, in->text);
	}
}

void overview_read_server(struct overview *s, uint32_t index, const Weir__V1__ServerStatus *in)
{
	struct overview_server *out = &s->servers[index];
	/* The server, or the ledger, is still in an older generation. */
	if (in->job && in->job->generation != s->generation)
		return;
	out->answered = true;
	out->draining = in->draining;
	copy_text(out->stuck, sizeof out->stuck, in->stuck);
	out->stuck_ms = in->stuck_ms;
	out->pid = in->pid;
	out->uptime_ms = in->uptime_ms;
	take_durable(in->durable, out);
	out->connections = in->connections;
	out->partitions = in->n_partitions;
	out->bytes_pushed = in->bytes_pushed;
	out->bytes_pulled = in->bytes_pulled;
	out->requests = in->requests;
	out->request_bytes = in->request_bytes;
	s->servers_answered++;
	if (!s->lost[0])
		copy_text(s->lost, sizeof s->lost, in->lost);
	read_checkpoints(&s->checkpoints, in->checkpoints);
	s->replicas = in->replicas;
	s->duplicates_refused += in->duplicates_refused;
	s->stale_refused += in->stale_refused;
	s->corrupt_refused += in->corrupt_refused;
	s->nonfinite_refused += in->nonfinite_refused;
	for (size_t i = 0; i < in->n_partitions; i++)
		read_partition(s, index, in->partitions[i]);
	for (size_t i = 0; i < in->n_tables; i++)
		read_server_table(s, in->tables[i]);
}

/* --- One server alone */

static weir_status make_room(struct overview *s, uint32_t index, const Weir__V1__ServerStatus *in)
{
	s->generation = in->job ? in->job->generation : 0;
	for (size_t i = 0; i < in->n_partitions; i++)
		if (in->partitions[i]->id < WEIR_PARTITIONS_MAX && in->partitions[i]->id >= s->partitions_count)
			s->partitions_count = in->partitions[i]->id + 1;
	s->servers_count = index + 1;
	s->tables_count = (uint32_t)in->n_tables;
	s->partitions = calloc(s->partitions_count + 1, sizeof *s->partitions);
	s->servers = calloc(s->servers_count, sizeof *s->servers);
	s->tables = calloc(s->tables_count + 1, sizeof *s->tables);
	if (!s->partitions || !s->servers || !s->tables)
		return WEIR_E_MEMORY;
	for (uint32_t t = 0; t < s->tables_count; t++) {
		copy_text(s->tables[t].name, sizeof s->tables[t].name, in->tables[t]->name);
		s->tables[t].push_codec = codec_text(in->tables[t]->push_codec);
		s->tables[t].pull_codec = codec_text(in->tables[t]->pull_codec);
	}
	return WEIR_OK;
}

weir_status overview_read_alone(struct overview *s, uint32_t index, const Weir__V1__ServerStatus *in, weir_error *err)
{
	s->alone = true;
	if (!s->has_ledger && make_room(s, index, in) != WEIR_OK)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the status of a server with %zu partitions", in->n_partitions);
	if (index < s->servers_count)
		overview_read_server(s, index, in);
	return WEIR_OK;
}
