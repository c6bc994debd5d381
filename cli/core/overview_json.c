#include "cli/core/overview_json.h"

/* Writes a histogram: its quantiles, and the count of each nonempty bucket. */
static void put_staleness(struct json *j, const uint64_t counts[HISTOGRAM_BUCKETS])
{
	json_set_count(j, "staleness.p50", counts_quantile(counts, 0.5));
	json_set_count(j, "staleness.p99", counts_quantile(counts, 0.99));
	json_set_real(j, "staleness.mean", counts_mean(counts));
	json_set_empty_list(j, "staleness.counts");
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
		if (!counts[b])
			continue;
		struct json *item = json_create();
		json_set_count(item, "upto", histogram_bucket_bound(b));
		json_set_count(item, "count", counts[b]);
		json_append(j, "staleness.counts", item);
	}
}

void overview_put_totals(struct json *j, const struct overview *s)
{
	json_set_count(j, "rows", s->rows);
	json_set_count(j, "bytes.pushed", s->bytes_pushed);
	json_set_count(j, "bytes.pulled", s->bytes_pulled);
	if (s->keys) {
		json_set_count(j, "row_cache.keys", s->keys);
		json_set_count(j, "row_cache.hits", s->keys_cached);
		json_set_real(j, "row_cache.hit_ratio", overview_hit_ratio(s));
	}
	put_staleness(j, s->staleness);
	json_set_count(j, "duplicates_refused", s->duplicates_refused);
	json_set_count(j, "stale_refused", s->stale_refused);
	json_set_count(j, "leases_expired", s->leases_expired);
	json_set_count(j, "batches_dropped", s->batches_dropped);
	json_set_count(j, "batches_not_finite", s->batches_not_finite);
	if (s->loss_scale > 0) {
		json_set_count(j, "loss_scale.skipped", s->scale_skipped);
		json_set_real(j, "loss_scale.last", s->loss_scale);
	}
	if (s->gradient_norm > 0)
		json_set_real(j, "gradient_norm", s->gradient_norm);
	if (overview_learning_rate(s) > 0)
		json_set_real(j, "learning_rate", overview_learning_rate(s));
	if (s->device_bytes)
		json_set_count(j, "device.bytes_most", s->device_bytes);
	json_set_count(j, "units_skipped", s->units_quarantined);
	json_set_count(j, "checkpoints.written", s->checkpoints.written);
	json_set_count(j, "checkpoints.failed", s->checkpoints.failed);
	json_set_bool(j, "checkpoints.failing", s->checkpoints.failing);
	if (s->checkpoints.failed) {
		json_set_text(j, "checkpoints.name", s->checkpoints.name);
		json_set_text(j, "checkpoints.failure", s->checkpoints.text);
	}
	json_set_real(j, "compression.energy_sent", s->energy_sent);
	json_set_real(j, "compression.residual_norm", s->residual_norm);
	json_set_real(j, "compression.residual_lost", s->residual_lost);
}

void overview_put_speed(struct json *j, const struct overview *s, double samples_per_s, uint32_t workers)
{
	const double mfu = overview_mfu(s, samples_per_s, workers);
	json_set_real(j, "samples_per_s", samples_per_s);
	if (s->row_tokens)
		json_set_real(j, "tokens_per_s", samples_per_s * s->row_tokens);
	if (mfu > 0)
		json_set_real(j, "mfu", mfu);
}

void overview_put_table(struct json *j, const struct overview_table *t)
{
	json_set_text(j, "name", t->name);
	json_set_count(j, "pushes", t->pushes);
	json_set_count(j, "push_bytes", t->push_bytes);
	json_set_count(j, "push_plain_bytes", t->push_plain_bytes);
	json_set_text(j, "push_codec", t->push_codec);
	json_set_text(j, "pull_codec", t->pull_codec);
	put_staleness(j, t->staleness);
	json_set_count(j, "pull_bytes", t->pull_bytes);
	json_set_count(j, "pull_plain_bytes", t->pull_plain_bytes);
	json_set_count(j, "steps", t->steps);
	json_set_real(j, "learning_rate", t->learning_rate);
}

void overview_put_worker(struct json *j, const struct overview_worker *w)
{
	json_set_text(j, "name", w->name);
	json_set_count(j, "rows", w->rows);
	put_staleness(j, w->staleness);
}

void overview_put_stall(struct json *j, const struct overview_worker *w)
{
	const struct overview_stall *s = &w->stall;
	json_set_count(j, "stalls", s->count);
	json_set_bool(j, "stalled", s->now);
	if (!s->count)
		return;
	json_set_text(j, "stall.host", w->host);
	json_set_count(j, "stall.pid", w->pid);
	json_set_count(j, "stall.since_unix_ms", s->since_unix_ms);
	json_set_count(j, "stall.idle_ms", s->idle_ms);
	json_set_count(j, "stall.pass", s->pass + 1u);
	json_set_count(j, "stall.unit", s->unit);
	json_set_count(j, "stall.units", s->units);
	json_set_bool(j, "stall.waits_for_data", s->waits_for_data);
}
