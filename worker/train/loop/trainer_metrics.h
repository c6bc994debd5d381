/* A trainer's own metrics, for its page (common/metrics/monitor.h): the results of its batches, and
 * its waits. */
#ifndef WEIR_TRAINER_METRICS_H
#define WEIR_TRAINER_METRICS_H

#include "common/metrics/metrics.h"
#include "weir/weir.h"

/* X(member, name, help) */
#define TRAINER_COUNTERS(X)                                                                               \
	X(rows, "weir_trainer_rows_total", "Examples trained.")                                               \
	X(batches, "weir_trainer_batches_total", "Batches trained.")                                          \
	X(bad_lines, "weir_trainer_bad_lines_total", "Lines of the data that could not be read.")             \
	X(not_finite, "weir_trainer_not_finite_total", "Batches whose gradients were NaN or infinite.")       \
	X(scaled_out, "weir_trainer_scaled_out_total", "Batches left out as their loss scale was too large.") \
	X(keys, "weir_trainer_row_cache_keys_total", "Distinct keys of batches, where rows are kept.")        \
	X(keys_cached, "weir_trainer_row_cache_hits_total", "Those whose rows needed no pull.")               \
	X(push_bytes, "weir_trainer_push_bytes_total", "Bytes pushed.")                                       \
	X(pull_bytes, "weir_trainer_pull_bytes_total", "Bytes pulled.")                                       \
	X(duplicates, "weir_trainer_duplicates_total", "Parts that a server had already.")                    \
	X(reads_returned, "weir_trainer_reads_returned_total",                                                \
	  "Times that a replica did not answer reads in half a second: primaries were asked.")                \
	X(anomalies, "weir_trainer_anomalies_total",                                                          \
	  "Times that something went wrong while numbers were finite: the log says what.")                    \
	X(dropped, "weir_trainer_batches_dropped_total", "Batches that came too late for their step.")
#define TRAINER_GAUGES(X)                                                                                    \
	X(in_hand, "weir_trainer_batches_in_hand", "Batches pulled, computing or pushed, and not acknowledged.") \
	X(pushes, "weir_trainer_pushes_in_flight", "Pushes that are not acknowledged.")                          \
	X(pulls, "weir_trainer_pulls_in_flight", "Pulls that are not answered.")                                 \
	X(device_bytes, "weir_trainer_device_memory_bytes", "Memory of the device in use at most; 0: it computes on none.")
#define TRAINER_HISTOGRAMS(X)                                                            \
	X(read_wait, "weir_trainer_read_wait_seconds", "Waiting for a batch from the data.") \
	X(pull_wait, "weir_trainer_pull_wait_seconds", "Waiting for a batch's parameters.")  \
	X(compute, "weir_trainer_compute_seconds", "Forward and backward of a batch.")       \
	X(push_wait, "weir_trainer_push_wait_seconds", "Waiting for a push, with nothing else to do.")

struct trainer_metrics {
	struct metrics *all, *own; /* own: NULL if the caller passes `all` */
#define TRAINER_COUNTER(member, name, help) struct counter *member;
	TRAINER_COUNTERS(TRAINER_COUNTER)
#undef TRAINER_COUNTER
#define TRAINER_GAUGE(member, name, help) struct gauge *member;
	TRAINER_GAUGES(TRAINER_GAUGE)
#undef TRAINER_GAUGE
#define TRAINER_HISTOGRAM(member, name, help) struct histogram *member;
	TRAINER_HISTOGRAMS(TRAINER_HISTOGRAM)
#undef TRAINER_HISTOGRAM
};

/* all NULL: creates metrics that no page shows. */
weir_status trainer_metrics_open(struct trainer_metrics *out, struct metrics *all, weir_error *err) WEIR_MUST_CHECK;
void trainer_metrics_close(struct trainer_metrics *m);
/* Call after each batch. */
void trainer_metrics_note(const struct trainer_metrics *m, const weir_report *report, const weir_stats *stats, uint64_t in_hand);
/* weir_options.observed, with a struct trainer_metrics. */
void trainer_metrics_observe(void *trainer_metrics, const char *method, int64_t ns);
/* Adds the time since `since_ns` (clock_ns of the system's clock) to `on`. */
void trainer_metrics_spent(struct histogram *on, int64_t since_ns);

#endif
