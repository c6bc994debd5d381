#include "worker/train/loop/trainer_metrics.h"

#include <stdio.h>

#include "common/base/clock.h"

weir_status trainer_metrics_open(struct trainer_metrics *out, struct metrics *all, weir_error *err)
{
	if (!all)
		all = out->own = metrics_create();
	out->all = all;
	bool complete = all != NULL;
#define OPEN(kind, member, name, help) complete = complete && (out->member = metrics_##kind(all, name, "", help));
#define COUNTER(member, name, help)    OPEN(counter, member, name, help)
#define GAUGE(member, name, help)      OPEN(gauge, member, name, help)
#define HISTOGRAM(member, name, help)  OPEN(histogram, member, name, help)
	TRAINER_COUNTERS(COUNTER)
	TRAINER_GAUGES(GAUGE)
	TRAINER_HISTOGRAMS(HISTOGRAM)
#undef HISTOGRAM
#undef GAUGE
#undef COUNTER
#undef OPEN
	return complete ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory");
}

void trainer_metrics_close(struct trainer_metrics *m)
{
	metrics_destroy(m->own);
}

void trainer_metrics_note(const struct trainer_metrics *m, const weir_report *report, const weir_stats *stats, uint64_t in_hand)
{
	counter_add(m->rows, report->rows);
	counter_add(m->batches, report->batches);
	counter_add(m->bad_lines, report->bad_lines);
	counter_add(m->not_finite, report->nonfinite);
	counter_add(m->scaled_out, report->scale_skipped);
	counter_add(m->keys, report->keys);
	counter_add(m->keys_cached, report->keys_cached);
	counter_set(m->push_bytes, stats->bytes_pushed);
	counter_set(m->pull_bytes, stats->bytes_pulled);
	counter_set(m->duplicates, stats->duplicates);
	counter_set(m->dropped, stats->batches_dropped);
	counter_set(m->reads_returned, stats->reads_returned);
	gauge_set(m->in_hand, (int64_t)in_hand);
	gauge_set(m->pushes, (int64_t)stats->pushes_in_flight);
	gauge_set(m->pulls, (int64_t)stats->pulls_in_flight);
	gauge_set(m->device_bytes, (int64_t)report->device_bytes);
}

void trainer_metrics_observe(void *trainer_metrics, const char *method, int64_t ns)
{
	const struct trainer_metrics *m = trainer_metrics;
	char label[64];
	snprintf(label, sizeof label, "method=\"%s\"", method);
	struct histogram *h = metrics_histogram(m->all, "weir_rpc_client_seconds", label, "Time that calls of others took.");
	if (h)
		histogram_record(h, (uint64_t)ns);
}

void trainer_metrics_spent(struct histogram *on, int64_t since_ns)
{
	histogram_record(on, (uint64_t)(clock_ns(clock_system()) - since_ns));
}
