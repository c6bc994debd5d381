/* What a running job says about itself: the ledger's status and every server's, asked at once and put together; or what one server says of itself. Plain numbers,
 * no wire types: the live line, the audit, the report, `weir status` and the pages for Prometheus read it. */
#ifndef WEIR_OVERVIEW_H
#define WEIR_OVERVIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/metrics/metrics.h"
#include "common/system/logger.h"
#include "weir/status.h"

enum job_state { JOB_RUNNING, JOB_EVALUATING, JOB_FINISHED, JOB_FAILED };

struct part_sum { /* parts, and the wrapping sum of their identities' hashes */
	uint64_t count, fingerprint;
};

struct overview_partition {
	bool reported;                                       /* by its primary, */
	uint32_t primary;                                    /* this server, */
	uint64_t epoch;                                      /* of which this is the epoch; */
	uint32_t in_sync[WEIR_REPLICAS_MAX], in_sync_count;  /* and these have all that is committed */
	struct part_sum expected, skipped, applied, dropped; /* skipped: of units that were given up */
	uint64_t twice;                                      /* identities found applied when about to be applied */
	uint64_t rows, units_open;
	uint64_t replication_lag; /* log entries that wait for replicas */
};

/* The last time that a worker was taken for dead because it did not move. */
struct overview_stall {
	uint32_t count; /* how often; 0: never, and the rest is nothing */
	bool now;       /* it has not come back since */
	bool waits_for_data;
	uint64_t since_unix_ms, idle_ms; /* when it moved last; idle time, without waiting */
	uint32_t pass, unit, units;      /* that it held; `unit` is the first; 0 units: an evaluation */
};

struct overview_worker {
	char name[WEIR_NAME_BYTES_MAX], host[WEIR_NAME_BYTES_MAX];
	uint32_t pid;
	bool evaluator, live, left;
	uint64_t rows, silent_ms;
	uint32_t units_held;
	uint64_t idle_ms, idle_limit_ms; /* 0: nobody waits for it; then it is taken for dead */
	bool waits_for_data;
	struct overview_stall stall;
	double residual_norm;                  /* of what its lossy codecs have held back */
	uint64_t staleness[HISTOGRAM_BUCKETS]; /* of its pushes, since the ledger's start; of many workers not told */
};

struct overview_server {
	char address[WEIR_ADDRESS_BYTES_MAX];
	bool answered, draining;
	char stuck[16];    /* its stuck thread, beside which it tells nothing; "": none */
	uint64_t stuck_ms; /* for so long */
	uint32_t pid;
	uint64_t uptime_ms, connections, partitions, bytes_pushed, bytes_pulled;
	uint64_t requests, request_bytes; /* of data streams, that have come and are not answered */
	bool durable;                     /* its log is on disk, and what follows is told */
	bool disk_full, disk_slow;
	uint64_t sync_ms;                                                 /* of its log's last sync, or of a longer one under way */
	uint64_t recovery_ms, replayed_entries, journal_bytes, flush_lag; /* of its start; now; entries applied and not flushed */
	uint64_t resident_rows, cold_rows, hits, misses, memory_bytes, budget_bytes;
};

struct overview_table {
	char name[WEIR_TABLE_NAME_BYTES_MAX];
	uint64_t rows, bytes, pushes, pulls;
	uint64_t rows_stub, pushes_unadmitted, rows_evicted;
	const char *push_codec, *pull_codec;
	uint64_t push_bytes, push_plain_bytes; /* as they came, since the servers' start; as they would have been uncompressed */
	uint64_t staleness[HISTOGRAM_BUCKETS]; /* of pushes to it */
	uint64_t pull_bytes, pull_plain_bytes; /* the same of pulls */
	uint64_t steps;                        /* that its optimizer has taken, in the partition that has taken the most, */
	double learning_rate;                  /* and the rate of the last of them */
};

/* Of partitions that have several. */
struct overview_replicas {
	uint32_t compared, differ;        /* partitions: two replicas or more have said what they have; and it was not the same */
	char text[WEIR_ERROR_TEXT_BYTES]; /* the first that differs, with who has what; "": none */
};

struct overview_place {
	uint32_t server;
	uint64_t epoch;                                     /* 0: there is one copy, and */
	uint32_t in_sync[WEIR_REPLICAS_MAX], in_sync_count; /* none of these */
};

/* Checkpoints of the job, as its servers took them since they started. */
struct overview_checkpoints {
	uint64_t written, failed;
	bool failing, running; /* the last one that ended failed; one is being written */
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], text[WEIR_ERROR_TEXT_BYTES]; /* of the last that failed, and why */
};

struct overview {
	bool has_ledger; /* else what it alone knows is 0 */
	bool alone;      /* of one server: no other was asked, and sums over servers are its numbers */
	enum job_state state;
	uint64_t generation;                             /* of the job, from 1 */
	char checkpoint[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* that it began with; "": none */
	char rewound[WEIR_REWIND_WHY_BYTES_MAX];         /* why the job went back to it; "": it did not */
	struct overview_place ledger;
	uint32_t pass, passes, units, committed; /* pass counts from 0; units in a pass, committed of this pass */
	uint64_t rows, batches, dataset_rows;
	double rows_per_s; /* over the last seconds; 0: nobody trains, or not known */
	double loss_sum;   /* over loss_rows: those whose loss was a number */
	uint64_t loss_rows;
	/* The last evaluation, at the end of a pass: batches of the job until then, 0: there was none, and the rest is nothing; whether the model has a loss and no AUC; the
	 * figures, NaN: undefined; scores that are no numbers. */
	uint64_t evaluated_batches;
	bool language;
	double auc, logloss;
	uint64_t not_numbers;
	uint64_t bad_lines, workers_lost, workers_stalled, leases_expired, units_quarantined, steps_closed, batches_dropped,
	    redone_batches;
	uint64_t batches_not_finite; /* whose gradients were not */
	uint64_t scale_skipped;      /* batches left out because their loss scale was too large for fp16 */
	double loss_scale;           /* the last that a worker told; 0: they have none */
	/* As a worker told last; 0: not known. */
	double gradient_norm;                /* of a batch, before it was clipped */
	double inner_rate;                   /* learning rate of workers that take steps of their own */
	uint32_t row_tokens;                 /* of a language model: tokens of a row */
	double row_least_s;                  /* seconds that a row would take at the most that a worker's device can do */
	uint64_t device_bytes;               /* of a device's memory that a worker had in use at most; 0: none computes on one */
	uint64_t bytes_pushed, bytes_pulled; /* as the workers counted them */
	uint64_t keys, keys_cached;          /* distinct keys of batches, and those whose rows needed no pull; 0: workers keep none */
	double
	    energy_sent; /* mean of 1 - |residual|^2 / |acc|^2 over pushes: the share that lossy codecs let through; 1: there are none */
	double residual_norm, residual_lost; /* of what is held back now; of what was, by workers that are gone */
	uint64_t duplicates_refused, stale_refused, corrupt_refused, nonfinite_refused;
	uint64_t scrubs, scrubs_differ;        /* times that replicas of a partition were compared by and by, and were not equal */
	uint64_t staleness[HISTOGRAM_BUCKETS]; /* of every push, all tables, by common/metrics/metrics.h's buckets */
	char failure[WEIR_ERROR_TEXT_BYTES];
	char lost[WEIR_ERROR_TEXT_BYTES]; /* for good, as there is no checkpoint to go back to; "": nothing */
	struct overview_checkpoints checkpoints;
	uint32_t replicas; /* that each partition shall have; 0: no server has answered */
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
/* Whether a live worker has been idle for a quarter of its limit, from when on it is shown. */
bool overview_is_idle(const struct overview_worker *w);
void overview_free(struct overview *s);
/* Of counts by histogram buckets: the value at quantile q, and the mean (both by bucket bounds); 0 where there are none. */
uint64_t counts_quantile(const uint64_t counts[HISTOGRAM_BUCKETS], double q);
double counts_mean(const uint64_t counts[HISTOGRAM_BUCKETS]);
/* The share of keys whose rows needed no pull. */
double overview_hit_ratio(const struct overview *s);
/* At so many samples a second of so many workers: the share of what their devices can do that training makes use of (model FLOPs utilization). 0: not known. */
double overview_mfu(const struct overview *s, double samples_per_s, uint32_t workers);
/* Of the last step: of the dense table's optimizer, or, where workers take steps of their own, of theirs. 0: not known. */
double overview_learning_rate(const struct overview *s);
/* Of a language model, by the last evaluation, a token; 0: not known. */
double overview_perplexity(const struct overview *s);
/* Of the staleness of all pushes. */
uint64_t overview_staleness_quantile(const struct overview *s, double q);
double overview_staleness_mean(const struct overview *s);

#endif
