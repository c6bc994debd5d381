/* Writes an overview for Prometheus. One list has every series with its type, its help and its
 * value, so that none lacks them. */
#include "overview/overview_metrics.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/exposition.h"

#define EXPOSED_BITS 24u /* histogram of staleness: upper bounds 2^k - 1 for k = 0..24, then +Inf */

static double units_remaining(const struct overview *s)
{
	if (s->state == JOB_FINISHED || s->state == JOB_FAILED)
		return 0;
	const double passes = s->passes > s->pass ? s->passes - s->pass : 0;
	return passes * s->units - s->committed;
}

static double whole_partitions(const struct overview *s)
{
	uint32_t n = 0;
	for (uint32_t p = 0; p < s->partitions_count; p++)
		n += s->partitions[p].reported && (s->replicas < 2 || s->partitions[p].in_sync_count >= s->replicas);
	return n;
}

/* X(name, type, help, number): the ledger's numbers. */
/* clang-format off */
#define JOB_MAP(X) \
	X("weir_job_generation", "gauge", "Grows each time the job goes back to a checkpoint.", s->generation) \
	X("weir_job_running", "gauge", "1 while the job trains or evaluates.", s->state == JOB_RUNNING || s->state == JOB_EVALUATING) \
	X("weir_job_failed", "gauge", "1 once the job has failed.", s->state == JOB_FAILED) \
	X("weir_pass", "gauge", "The pass under way, from 1.", s->pass + 1.0) \
	X("weir_passes", "gauge", "Passes of the job.", s->passes) \
	X("weir_pass_units", "gauge", "Work units of a pass.", s->units) \
	X("weir_units_committed_total", "counter", "Work units of this pass and the ones before that are committed.", (double)s->pass * s->units + s->committed) \
	X("weir_units_remaining", "gauge", "Work units of this pass and the following that are not committed.", units_remaining(s)) \
	X("weir_rows_total", "counter", "Examples trained.", s->rows) \
	X("weir_tokens_total", "counter", "Of a language model: tokens trained.", (double)s->rows * s->row_tokens) \
	X("weir_batches_total", "counter", "Batches trained.", s->batches) \
	X("weir_loss_total", "counter", "Sum of the loss over the examples trained.", s->loss_sum) \
	X("weir_validation_auc_ratio", "gauge", "AUC of the last evaluation; 0: none yet; NaN: undefined.", s->auc) \
	X("weir_validation_logloss", "gauge", "Loss of the last evaluation; 0: none yet; NaN: undefined.", s->logloss) \
	X("weir_validation_not_numbers", "gauge", "Scores of the last evaluation that are NaN or infinite.", s->not_numbers) \
	X("weir_validation_perplexity", "gauge", "Of a language model, by the last evaluation; 0: none yet.", overview_perplexity(s)) \
	X("weir_samples_per_second", "gauge", "Examples that workers train; 0: not known.", s->rows_per_s) \
	X("weir_tokens_per_second", "gauge", "Of a language model: tokens of those.", s->rows_per_s * s->row_tokens) \
	X("weir_mfu_ratio", "gauge", "Share of train.peak_flops that training makes use of; 0: not known.", overview_mfu(s, s->rows_per_s, s->workers_live)) \
	X("weir_gradient_norm", "gauge", "Of a batch's gradient, before it was clipped; 0: not known.", s->gradient_norm) \
	X("weir_learning_rate", "gauge", "Of the last step of dense weights; 0: not known.", overview_learning_rate(s)) \
	X("weir_workers_live", "gauge", "Trainers that hold a lease with the ledger.", s->workers_live) \
	X("weir_workers_lost_total", "counter", "Workers that were taken for dead.", s->workers_lost) \
	X("weir_workers_stalled_total", "counter", "Those of them that held work and did not move.", s->workers_stalled) \
	X("weir_leases_expired_total", "counter", "Leases of work units that ran out.", s->leases_expired) \
	X("weir_units_quarantined_total", "counter", "Work units given up.", s->units_quarantined) \
	X("weir_steps_closed_total", "counter", "Closed steps of synchronous tables.", s->steps_closed) \
	X("weir_batches_dropped_total", "counter", "Batches that came too late for their step.", s->batches_dropped) \
	X("weir_batches_redone_total", "counter", "Batches executed again, as a server had lost them.", s->redone_batches) \
	X("weir_batches_not_finite_total", "counter", "Batches whose gradients were NaN or infinite.", s->batches_not_finite) \
	X("weir_batches_scaled_out_total", "counter", "Batches left out as their loss scale was too large.", s->scale_skipped) \
	X("weir_loss_scale", "gauge", "Loss scale of fp16; 0 without one.", s->loss_scale) \
	X("weir_bad_lines_total", "counter", "Lines of the data that could not be read.", s->bad_lines) \
	X("weir_push_bytes_total", "counter", "Bytes that workers pushed.", s->bytes_pushed) \
	X("weir_pull_bytes_total", "counter", "Bytes that workers pulled.", s->bytes_pulled) \
	X("weir_row_cache_keys_total", "counter", "Distinct keys of the batches of workers that keep rows.", s->keys) \
	X("weir_row_cache_hits_total", "counter", "Those whose rows needed no pull.", s->keys_cached) \
	X("weir_compression_energy_sent_ratio", "gauge", "Mean share of the gradients' squares that codecs let through.", s->energy_sent) \
	X("weir_residual_norm", "gauge", "Norm of what lossy codecs hold back.", s->residual_norm) \
	X("weir_residual_lost_norm", "gauge", "Norm of what workers that are gone held back.", s->residual_lost) \
	X("weir_partitions", "gauge", "Partitions of the job.", s->partitions_count) \
	X("weir_servers", "gauge", "Servers of the job.", s->servers_count) \
	X("weir_device_memory_bytes", "gauge", "Memory of a device that a worker had in use at most; 0: none computes on one.", s->device_bytes)

/* The servers' numbers: sums for a job, a server's own numbers for one server. */
#define SERVERS_MAP(X) \
	X("weir_duplicates_refused_total", "counter", "Parts of pushes that were applied already.", s->duplicates_refused) \
	X("weir_stale_refused_total", "counter", "Pushes of attempts that were sealed.", s->stale_refused) \
	X("weir_corrupt_refused_total", "counter", "Messages whose checksum was wrong.", s->corrupt_refused) \
	X("weir_not_finite_refused_total", "counter", "Pushes with NaN or infinite values.", s->nonfinite_refused) \
	X("weir_scrubs_total", "counter", "Comparisons of a partition's replicas.", s->scrubs) \
	X("weir_scrubs_differ_total", "counter", "Those that found a difference.", s->scrubs_differ) \
	X("weir_checkpoints_total", "counter", "Checkpoints of the job that were written.", s->checkpoints.written) \
	X("weir_checkpoint_failures_total", "counter", "Those that failed.", s->checkpoints.failed) \
	X("weir_checkpoint_failing", "gauge", "1: the last checkpoint failed.", s->checkpoints.failing) \
	X("weir_replicas", "gauge", "Replicas that each partition shall have.", s->replicas) \
	X("weir_partitions_whole", "gauge", "Partitions with a primary that answers and all replicas in sync.", whole_partitions(s)) \
	X("weir_servers_answering", "gauge", "Servers that answered just now.", s->servers_answered)
/* clang-format on */

/* Numbers of server v, table t, worker w, partition p. */
#define SERVER_MAP(X)                                                                                                         \
	X("weir_server_up", "gauge", "1: it answered just now, and all of its threads run.", v->answered && !v->stuck[0])         \
	X("weir_server_stuck_seconds", "gauge", "That a thread of it has not run; 0: all do.",                                    \
	  v->stuck[0] ? (double)v->stuck_ms / 1e3 : 0)                                                                            \
	X("weir_server_uptime_seconds", "gauge", "Since the process started.", (double)v->uptime_ms / 1e3)                        \
	X("weir_server_connections", "gauge", "Clients with open streams.", v->connections)                                       \
	X("weir_server_partitions", "gauge", "Partitions that it is primary of.", v->partitions)                                  \
	X("weir_server_draining", "gauge", "1: it is about to end.", v->draining)                                                 \
	X("weir_server_received_bytes_total", "counter", "Frames of pushes that came.", v->bytes_pushed)                          \
	X("weir_server_sent_bytes_total", "counter", "Frames of pulls that went.", v->bytes_pulled)                               \
	X("weir_server_requests", "gauge", "Pushes and pulls that have come and are not answered.", v->requests)                  \
	X("weir_server_request_bytes", "gauge", "Of them.", v->request_bytes)                                                     \
	X("weir_server_journal_bytes", "gauge", "Of segment files of its log.", v->journal_bytes)                                 \
	X("weir_server_flush_lag_entries", "gauge", "Log entries applied and not flushed.", v->flush_lag)                         \
	X("weir_server_disk_full", "gauge", "1: pushes wait for space.", v->disk_full)                                            \
	X("weir_server_disk_slow", "gauge", "1: syncs of its log take seconds: replicas do not wait for it.", v->disk_slow)       \
	X("weir_server_sync_seconds", "gauge", "Of its log's last sync, or of a longer one under way.", (double)v->sync_ms / 1e3) \
	X("weir_server_recovery_seconds", "gauge", "That its last start took to recover.", (double)v->recovery_ms / 1e3)          \
	X("weir_server_rows_resident", "gauge", "Rows in memory.", v->resident_rows)                                              \
	X("weir_server_rows_cold", "gauge", "Rows on disk only, about.", v->cold_rows)                                            \
	X("weir_server_row_hits_total", "counter", "Rows asked for that were in memory.", v->hits)                                \
	X("weir_server_row_misses_total", "counter", "Rows asked for that were not.", v->misses)                                  \
	X("weir_server_memory_bytes", "gauge", "What the process has beyond what it began with.", v->memory_bytes)                \
	X("weir_server_memory_budget_bytes", "gauge", "Of that; 0: there is no budget.", v->budget_bytes)
#define TABLE_MAP(X)                                                                                                  \
	X("weir_table_rows", "gauge", "Rows that are stored.", t->rows)                                                   \
	X("weir_table_bytes", "gauge", "Memory of its rows.", t->bytes)                                                   \
	X("weir_table_stub_rows", "gauge", "Keys counted and not admitted.", t->rows_stub)                                \
	X("weir_table_pushes_total", "counter", "Records of pushes with rows of it.", t->pushes)                          \
	X("weir_table_pulls_total", "counter", "Records of pulls with rows of it.", t->pulls)                             \
	X("weir_table_unadmitted_rows_total", "counter", "Rows of pushes that found no admission.", t->pushes_unadmitted) \
	X("weir_table_evicted_rows_total", "counter", "Rows that went by ttl_s or min_score.", t->rows_evicted)           \
	X("weir_table_push_bytes_total", "counter", "Sections of pushes as they came.", t->push_bytes)                    \
	X("weir_table_push_plain_bytes_total", "counter", "The same as they would be uncompressed.", t->push_plain_bytes) \
	X("weir_table_pull_bytes_total", "counter", "Sections of pulls as they were answered.", t->pull_bytes)            \
	X("weir_table_pull_plain_bytes_total", "counter", "The same as they would be uncompressed.", t->pull_plain_bytes) \
	X("weir_table_steps_total", "counter", "Of its optimizer.", t->steps)                                             \
	X("weir_table_learning_rate", "gauge", "Of the last of them.", t->learning_rate)
#define WORKER_MAP(X)                                                                                \
	X("weir_worker_live", "gauge", "1: it is live.", w->live)                                        \
	X("weir_worker_rows_total", "counter", "Examples it has trained.", w->rows)                      \
	X("weir_worker_units_held", "gauge", "Work units that it holds.", w->units_held)                 \
	X("weir_worker_silent_seconds", "gauge", "Since it was last heard.", (double)w->silent_ms / 1e3) \
	X("weir_worker_residual_norm", "gauge", "Norm of what its codecs hold back.", w->residual_norm)
/* Also for the evaluator; labelled with host and pid. */
#define MOVING_MAP(X)                                                                                                      \
	X("weir_worker_idle_seconds", "gauge", "That it has held work without moving; 0: it moves.", (double)w->idle_ms / 1e3) \
	X("weir_worker_idle_limit_seconds", "gauge", "When it is taken for dead.", (double)w->idle_limit_ms / 1e3)             \
	X("weir_worker_stalls_total", "counter", "Times that it was taken for dead so.", w->stall.count)
/* Labelled also with the work that it held. */
#define STALL_MAP(X)                                                                        \
	X("weir_worker_stalled_timestamp_seconds", "gauge",                                     \
	  "Since when it had not moved when it was taken for dead; 0: it was not, or is back.", \
	  w->stall.now ? (double)w->stall.since_unix_ms / 1e3 : 0)
#define PARTITION_MAP(X)                                                                                            \
	X("weir_partition_up", "gauge", "1: it has a primary that answers.", p->reported)                               \
	X("weir_partition_epoch", "gauge", "Grows when the primary changes.", p->epoch)                                 \
	X("weir_partition_in_sync_replicas", "gauge", "Replicas that have all that is committed.", p->in_sync_count)    \
	X("weir_partition_replication_lag_entries", "gauge", "Log entries that wait for replicas.", p->replication_lag) \
	X("weir_partition_units_open", "gauge", "Work units begun and not closed.", p->units_open)                      \
	X("weir_partition_rows", "gauge", "Rows that are stored.", p->rows)                                             \
	X("weir_partition_parts_applied_total", "counter", "Parts of pushes that were applied.", p->applied.count)

static void put_figures(FILE *out, const struct overview *s)
{
	static const char metric[] = "weir_validation_figure";
	exposition_header(out, metric, "gauge", "A figure of the last evaluation, such as gauc or ndcg@10.");
	for (uint32_t i = 0; i < s->figures.count; i++) {
		fputs(metric, out);
		exposition_label(out, "figure", s->figures.items[i].name);
		fputc('}', out);
		exposition_value(out, s->figures.items[i].value);
	}
}

static void put_sums(FILE *out, const struct overview *s)
{
#define PUT(metric, type, help, number) exposition_number(out, metric, type, help, (double)(number));
	if (s->has_ledger) {
		JOB_MAP(PUT)
		put_figures(out, s);
	}
	SERVERS_MAP(PUT)
#undef PUT
}

/* Writes one series for each of `count`: ONE finds number i, LABELS opens its labels. */
#define PUT_EACH(metric, type, help, number)     \
	exposition_header(out, metric, type, help);  \
	for (uint32_t i = 0; i < count; i++) {       \
		ONE;                                     \
		fputs(metric, out);                      \
		LABELS;                                  \
		fputc('}', out);                         \
		exposition_value(out, (double)(number)); \
	}

static void put_servers(FILE *out, const struct overview *s)
{
	const uint32_t count = s->servers_count;
#define ONE                                           \
	const struct overview_server *v = &s->servers[i]; \
	if (s->alone && !v->answered)                     \
	continue
#define LABELS fprintf(out, "{server=\"%" PRIu32 "\"", i)
	SERVER_MAP(PUT_EACH)
#undef ONE
#undef LABELS
}

static void put_tables(FILE *out, const struct overview *s)
{
	const uint32_t count = s->tables_count;
#define ONE const struct overview_table *t = &s->tables[i]
#define LABELS                               \
	exposition_label(out, "table", t->name); \
	fprintf(out, ",push_codec=\"%s\",pull_codec=\"%s\"", t->push_codec, t->pull_codec)
	TABLE_MAP(PUT_EACH)
#undef ONE
#undef LABELS
}

static void put_workers(FILE *out, const struct overview *s)
{
	const uint32_t count = s->workers_count < WEIR_METRICS_WORKERS_MAX ? s->workers_count : WEIR_METRICS_WORKERS_MAX;
#define ONE                                           \
	const struct overview_worker *w = &s->workers[i]; \
	if (w->evaluator)                                 \
	continue
#define LABELS exposition_label(out, "worker", w->name)
	WORKER_MAP(PUT_EACH)
#undef ONE
#undef LABELS
}

static void put_process(FILE *out, const struct overview_worker *w)
{
	exposition_label(out, "worker", w->name);
	exposition_next_label(out, "host", w->host);
	fprintf(out, ",pid=\"%" PRIu32 "\"", w->pid);
}

/* Adds labels for the work held at the last stall. "": it never stalled; an evaluator holds no
 * unit. */
static void put_stalled(FILE *out, const struct overview_worker *w)
{
	char pass[16] = "", unit[16] = "";
	if (w->stall.count)
		snprintf(pass, sizeof pass, "%" PRIu32, w->stall.pass + 1);
	if (w->stall.units)
		snprintf(unit, sizeof unit, "%" PRIu32, w->stall.unit);
	put_process(out, w);
	fprintf(out, ",pass=\"%s\",unit=\"%s\"", pass, unit);
}

static void put_moving(FILE *out, const struct overview *s)
{
	const uint32_t count = s->workers_count < WEIR_METRICS_WORKERS_MAX ? s->workers_count : WEIR_METRICS_WORKERS_MAX;
#define ONE    const struct overview_worker *w = &s->workers[i]
#define LABELS put_process(out, w)
	MOVING_MAP(PUT_EACH)
#undef LABELS
#define LABELS put_stalled(out, w)
	STALL_MAP(PUT_EACH)
#undef ONE
#undef LABELS
}

static void put_partitions(FILE *out, const struct overview *s)
{
	const uint32_t count = s->partitions_count;
#define ONE                                                 \
	const struct overview_partition *p = &s->partitions[i]; \
	if (s->alone && !p->reported)                           \
	continue
#define LABELS fprintf(out, "{partition=\"%" PRIu32 "\"", i)
	PARTITION_MAP(PUT_EACH)
#undef ONE
#undef LABELS
}

/* The sum is computed from bucket bounds, because servers send only counts. */
static void put_staleness(FILE *out, const struct overview *s)
{
	exposition_header(out, "weir_staleness_pushes", "histogram",
	                  "Pushes that a table took between a pull and the push made of it.");
	for (uint32_t i = 0; i < s->tables_count; i++) {
		const struct overview_table *t = &s->tables[i];
		uint64_t below = 0;
		unsigned next = 0;
		for (unsigned k = 0; k <= EXPOSED_BITS; k++) {
			const uint64_t bound = (1ull << k) - 1;
			for (; histogram_bucket_bound(next) <= bound; next++)
				below += t->staleness[next];
			fputs("weir_staleness_pushes_bucket", out);
			exposition_label(out, "table", t->name);
			fprintf(out, ",le=\"%" PRIu64 "\"} %" PRIu64 "\n", bound, below);
		}
		for (; next < HISTOGRAM_BUCKETS; next++)
			below += t->staleness[next];
		fputs("weir_staleness_pushes_bucket", out);
		exposition_label(out, "table", t->name);
		fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\nweir_staleness_pushes_sum", below);
		exposition_label(out, "table", t->name);
		fprintf(out, "} %.17g\nweir_staleness_pushes_count", counts_mean(t->staleness) * (double)below);
		exposition_label(out, "table", t->name);
		fprintf(out, "} %" PRIu64 "\n", below);
	}
}

void overview_series(FILE *out, const struct overview *s)
{
	put_sums(out, s);
	put_servers(out, s);
	put_tables(out, s);
	if (s->has_ledger) {
		put_workers(out, s);
		put_moving(out, s);
	}
	put_partitions(out, s);
	put_staleness(out, s);
}
