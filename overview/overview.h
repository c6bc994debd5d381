/* A running job's view of itself: the statuses of the ledger and of every server, requested
 * together and combined, or the status of one server. It has plain numbers and no wire types. The
 * progress line, the audit, the report, `weir status` and the pages for Prometheus read it. */
#ifndef WEIR_OVERVIEW_H
#define WEIR_OVERVIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/figures.h"
#include "common/base/limits.h"
#include "common/metrics/metrics.h"
#include "common/system/logger.h"
#include "weir/status.h"

enum job_state { JOB_RUNNING, JOB_EVALUATING, JOB_FINISHED, JOB_FAILED };

struct part_sum { /* parts, and the wrapping sum of their identities' hashes */
	uint64_t count, fingerprint;
};

struct overview_partition {
	bool reported;    /* by its primary */
	uint32_t primary; /* that server */
	uint64_t epoch;   /* of that primary */
	/* The servers that have all committed entries. */
	uint32_t in_sync[WEIR_REPLICAS_MAX], in_sync_count;
	struct part_sum expected, skipped, applied, dropped; /* skipped: of abandoned units */
	/* Parts found applied when about to be applied. */
	uint64_t twice;
	uint64_t rows, units_open;
	uint64_t replication_lag; /* log entries that wait for replicas */
};

/* The last time that a worker was declared dead because it did not move. */
struct overview_stall {
	uint32_t count; /* number of stalls; 0: never, and the other fields are 0 */
	bool now;       /* it has not rejoined since */
	bool waits_for_data;
	uint64_t since_unix_ms, idle_ms; /* last move; idle time, without waits, at its end */
	uint32_t pass, unit, units;      /* held units; `unit` is the first; 0 units: an evaluation */
};

struct overview_worker {
	char name[WEIR_NAME_BYTES_MAX], host[WEIR_NAME_BYTES_MAX];
	uint32_t pid;
	bool evaluator, live, left;
	uint64_t rows, silent_ms;
	uint32_t units_held;
	uint64_t idle_ms, idle_limit_ms; /* 0: nobody waits for it; at the limit it is declared dead */
	bool waits_for_data;
	struct overview_stall stall;
	double residual_norm; /* of the values that its lossy codecs have held back */
	/* Of its pushes, since the ledger's start; not reported for many workers. */
	uint64_t staleness[HISTOGRAM_BUCKETS];
};

struct overview_server {
	char address[WEIR_ADDRESS_BYTES_MAX];
	bool answered, draining;
	char stuck[16];    /* its stuck thread; the server then reports little else; "": none */
	uint64_t stuck_ms; /* duration */
	uint32_t pid;
	uint64_t uptime_ms, connections, partitions, bytes_pushed, bytes_pulled;
	uint64_t requests, request_bytes; /* on data streams, received and not yet answered */
	bool durable;                     /* its log is on disk, and the following fields are set */
	bool disk_full, disk_slow;
	uint64_t sync_ms; /* of its log's last sync, or of a longer one in progress */
	/* Of its start; of its start; now; entries applied and not flushed. */
	uint64_t recovery_ms, replayed_entries, journal_bytes, flush_lag;
	uint64_t resident_rows, cold_rows, hits, misses, memory_bytes, budget_bytes;
};

struct overview_table {
	char name[WEIR_TABLE_NAME_BYTES_MAX];
	uint64_t rows, bytes, pushes, pulls;
	uint64_t rows_stub, pushes_unadmitted, rows_evicted;
	const char *push_codec, *pull_codec;
	/* As received, since the servers' start; the same uncompressed. */
	uint64_t push_bytes, push_plain_bytes;
	uint64_t staleness[HISTOGRAM_BUCKETS]; /* of pushes to it */
	uint64_t pull_bytes, pull_plain_bytes; /* likewise for pulls */
	uint64_t steps;                        /* of its optimizer, in the partition with the most */
	double learning_rate;                  /* of the last of those steps */
};

/* Comparison of replicas, for partitions with several. */
struct overview_replicas {
	/* Partitions that at least two replicas have reported; of these, partitions with
	 * differences. */
	uint32_t compared, differ;
	/* The first difference, and the contents of each replica; "": none. */
	char text[WEIR_ERROR_TEXT_BYTES];
};

struct overview_place {
	uint32_t server;
	uint64_t epoch;                                     /* 0: there is only one copy, */
	uint32_t in_sync[WEIR_REPLICAS_MAX], in_sync_count; /* and this is empty */
};

/* Checkpoints of the job, as taken by its servers since they started. */
struct overview_checkpoints {
	uint64_t written, failed;
	bool failing, running; /* the last one that ended has failed; one is being written */
	/* Of the last failure: its checkpoint and reason. */
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], text[WEIR_ERROR_TEXT_BYTES];
};

struct overview {
	bool has_ledger; /* otherwise the fields that only the ledger knows are 0 */
	bool alone;      /* describes one server: sums over servers are its own numbers */
	enum job_state state;
	uint64_t generation;                             /* of the job, from 1 */
	char checkpoint[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* with which the generation began; "": none */
	/* Why the job returned to it; "": it did not. */
	char rewound[WEIR_REWIND_WHY_BYTES_MAX];
	struct overview_place ledger;
	/* Pass counts from 0; units: per pass; committed: of this pass. */
	uint32_t pass, passes, units, committed;
	uint64_t rows, batches, dataset_rows;
	double rows_per_s;      /* over the last seconds; 0: no training, or unknown */
	uint64_t rows_still_ms; /* since rows last grew; 0: just now, or unknown */
	double loss_sum;        /* over loss_rows, the rows whose loss is a number */
	uint64_t loss_rows;
	/* The last evaluation, at the end of a pass. evaluated_batches: batches of the job until then;
	 * 0: no evaluation yet, and the rest is void. language: the model has a loss and no AUC. auc,
	 * logloss: NaN: undefined. not_numbers: scores that are NaN or infinite. */
	uint64_t evaluated_batches;
	bool language;
	double auc, logloss;
	uint64_t not_numbers;
	struct figures figures; /* further ones */
	uint64_t bad_lines, workers_lost, workers_stalled, leases_expired, units_quarantined, steps_closed, batches_dropped,
	    redone_batches;
	uint64_t batches_not_finite; /* batches with gradients that are not finite */
	/* Batches left out because their loss scale was too large for fp16. */
	uint64_t scale_skipped;
	double loss_scale; /* as last reported by a worker; 0: no loss scale */
	/* As last reported by a worker; 0: unknown. */
	double gradient_norm; /* of a batch, before clipping */
	double inner_rate;    /* learning rate of workers that take their own steps */
	uint32_t row_tokens;  /* of a language model: tokens per row */
	double row_least_s;   /* seconds per row at the peak rate of a worker's device */
	/* Most memory that a worker used on a device; 0: no worker computes on one. */
	uint64_t device_bytes;
	uint64_t bytes_pushed, bytes_pulled; /* as counted by the workers */
	/* Distinct keys of batches, and those whose rows needed no pull; 0: workers keep no rows. */
	uint64_t keys, keys_cached;
	/* Mean of 1 - |residual|^2 / |acc|^2 over pushes: the share that passes lossy codecs; 1: no
	 * lossy codecs. */
	double energy_sent;
	double residual_norm, residual_lost; /* currently held back; lost with workers that are gone */
	uint64_t duplicates_refused, stale_refused, corrupt_refused, nonfinite_refused;
	/* Background comparisons of a partition's replicas, and those that found a difference. */
	uint64_t scrubs, scrubs_differ;
	/* Of every push to any table, in the buckets of common/metrics/metrics.h. */
	uint64_t staleness[HISTOGRAM_BUCKETS];
	char failure[WEIR_ERROR_TEXT_BYTES];
	/* Permanently, because there is no checkpoint to return to; "": nothing. */
	char lost[WEIR_ERROR_TEXT_BYTES];
	struct overview_checkpoints checkpoints;
	uint32_t replicas; /* configured per partition; 0: no server has answered */
	uint32_t partitions_count, workers_count, workers_live, servers_count, servers_answered, tables_count;
	struct overview_partition *partitions; /* (partitions_count) */
	struct overview_worker *workers;       /* (workers_count) */
	struct overview_server *servers;       /* (servers_count) */
	struct overview_table *tables;         /* (tables_count) */
};

const char *overview_state_name(enum job_state state);
/* Writes "did not move for 61.2 s, since 2026-11-26 10:24:01 UTC, with unit 23 of pass 1 and 1
 * more; it waited for data". */
#define OVERVIEW_STALL_BYTES 192
void overview_stall_text(const struct overview_stall *stall, char out[OVERVIEW_STALL_BYTES]);
/* Whether a live worker has been idle for a quarter of its limit; from then on it is shown as
 * idle. */
bool overview_is_idle(const struct overview_worker *w);
void overview_destroy(struct overview *s);
/* The value at quantile q, and the mean, of counts in histogram buckets (both by bucket bounds); 0
 * without counts. */
uint64_t counts_quantile(const uint64_t counts[HISTOGRAM_BUCKETS], double q);
double counts_mean(const uint64_t counts[HISTOGRAM_BUCKETS]);
/* The share of keys whose rows needed no pull. */
double overview_hit_ratio(const struct overview *s);
/* Model FLOPs utilization at this many samples per second of this many workers: the share of their
 * devices' peak rate that training uses. 0: unknown. */
double overview_mfu(const struct overview *s, double samples_per_s, uint32_t workers);
/* The learning rate of the last step: that of the dense table's optimizer, or of the workers if
 * they take their own steps. 0: unknown. */
double overview_learning_rate(const struct overview *s);
/* Perplexity per token of a language model, in the last evaluation; 0: unknown. */
double overview_perplexity(const struct overview *s);
/* Over the staleness of all pushes. */
uint64_t overview_staleness_quantile(const struct overview *s, double q);
double overview_staleness_mean(const struct overview *s);

#endif
