/* From the device to the servers: a batch's gradients are pushed, or left out, and acknowledged. */
#include "worker/train/loop/trainer_internal.h"

#include <math.h>

#include "worker/train/batch/not_finite.h"
#include "worker/train/loop/pace.h"

/* Whether the batch is left out because the loss scale was too large. That is not the batch's
 * fault, so train.not_finite does not apply. */
static bool is_scaled_out(struct trainer *t, struct slot *s, weir_report *report)
{
	const float scale = s->step.loss_scale;
	if (scale == 0)
		return false;
	const bool out = loss_scale_note(&t->scale, scale, *s->data.output.not_finite == 0);
	report->loss_scale = t->scale.value;
	report->scale_skipped = out;
	if (out) {
		const weir_batch id = trainer_batch(s);
		LOG_AT(t->options->logger, LOG_INFO, "loss scale too large", "pass=%u unit=%u batch=%u is left out: %g, from now on %g",
		       id.pass, id.unit, id.batch, (double)scale, (double)t->scale.value);
	}
	return out;
}

bool trainer_is_alone(const struct trainer *t, const struct slot *s)
{
	return job_normalises_batches(t->job) && s->data.input.rows == 1;
}

static bool is_left_out_alone(const struct trainer *t, const struct slot *s, weir_report *report)
{
	const weir_batch id = trainer_batch(s);
	if (!trainer_is_alone(t, s))
		return false;
	report->loss_sum = (double)NAN;
	LOG_AT(t->options->logger, LOG_WARN, "batch of one row", "pass=%u unit=%u batch=%u is left out: model.batch_norm needs two",
	       id.pass, id.unit, id.batch);
	return true;
}

static void note_not_finite(const struct trainer *t, const weir_batch *id, weir_report *report, const char *what, const char *why)
{
	report->nonfinite++;
	LOG_AT(t->options->logger, LOG_WARN, "gradient not finite", "pass=%u unit=%u batch=%u %s: %s", id->pass, id->unit, id->batch,
	       what, why);
}

double trainer_weight(const struct trainer *t, const struct slot *s)
{
	const struct model_input *in = &s->data.input;
	if (t->local)
		return 0;
	return in->sequence > 0 ? (double)in->counted : (double)(in->rows - in->negatives);
}

bool trainer_is_masked(const struct slot *s)
{
	return s->data.input.sequence > 0 && s->data.input.counted == 0;
}

/* The rest of a push that the sender has begun. If it has a NaN, what has left does not count in
 * its step; the ticket says so again, and the batch is counted then. */
static weir_status finish_layers(struct trainer *t, struct slot *s, bool *begun, weir_error *err)
{
	const weir_status status = layers_finish(t->layers, begun, &s->ticket, err);
	if (status != WEIR_E_NOT_FINITE)
		return status;
	const weir_batch id = trainer_batch(s);
	note_not_finite(t, &id, &(weir_report){0}, "is left out", err->text);
	return WEIR_OK;
}

/* A push that libweir refuses because it is not finite is complete for its unit: nothing of the
 * batch is applied. So is the push of a batch that is left out, except in a round of local steps:
 * there it goes on with gradients of 0. */
static weir_status push(struct trainer *t, struct slot *s, bool left_out, weir_report *report, weir_error *err)
{
	const uint64_t *chunks = NULL;
	size_t chunks_count = 0;
	weir_push_item items[MODEL_TABLES];
	weir_batch id = trainer_batch(s);
	const struct trained_batch made = {t->backend, t->model, t->pipeline, &s->data.input};
	bool begun = false;
	const weir_status sent = t->layers ? finish_layers(t, s, &begun, err) : WEIR_OK;
	if (begun || sent != WEIR_OK)
		return sent;
	if (left_out && !t->local)
		return weir_leave_out(t->client, &id, err);
	if (left_out)
		trained_zero(&made);
	if (t->job->train.not_finite == NOT_FINITE_CLIP && trained_clip_not_finite(&made))
		note_not_finite(t, &id, report, "is clipped", "elements that were not finite are 0");
	if (t->local) {
		const struct local_sgd_batch b = trainer_local_batch(t, s);
		/* It would stay in the table and in its optimizer's moments, so the batch's gradients
		 * become 0. */
		if (t->job->train.not_finite == NOT_FINITE_REJECT && trained_zero_not_finite(&made))
			note_not_finite(t, &id, report, "is left out", "it would stay in the worker's own parameters");
		local_sgd_step(t->local, &b, trainer_inner_step(t, s), batch_pipeline_gradient(t->pipeline, MODEL_DENSE), &chunks,
		               &chunks_count);
	}
	const size_t count = tables_push_items(&t->tables, &s->data, chunks, chunks_count, items);
	weir_status status = gradients_bring_back(t->gradients, t->pipeline, &s->data, items, count, err);
	const weir_push_options options = {.place = s->place + 1, .weight = trainer_weight(t, s)};
	if (status == WEIR_OK)
		status = weir_push(t->client, &id, items, count, &options, NULL, NULL, &s->ticket, err);
	if (status != WEIR_E_NOT_FINITE)
		return status;
	s->ticket = 0;
	note_not_finite(t, &id, report, "is left out", err->text);
	return WEIR_OK;
}

static uint64_t device_bytes(const struct trainer *t)
{
	struct backend_info info;
	t->backend->ops->info(t->backend, &info);
	return info.memory_used_most;
}

/* Reports the state of learning and its cost. */
static void tell_training(const struct trainer *t, const struct slot *s, weir_report *report)
{
	const struct model_input *in = &s->data.input;
	const double loss = *s->data.output.loss_sum, norm = batch_pipeline_gradient_norm(t->pipeline),
	             peak = (double)t->job->train.peak_flops;
	report->loss_sum = isfinite(loss) ? loss : (double)NAN;
	if (in->sequence > 0) /* so that the mean over rows is the mean over targets */
		report->loss_sum *= in->counted > 0 ? (double)in->rows / (double)in->counted : (double)NAN;
	report->gradient_norm = isfinite(norm) ? norm : 0;
	report->learning_rate = t->local ? schedule_lr(&t->inner, trainer_inner_step(t, s)) : 0;
	report->row_tokens = in->sequence;
	report->row_least_s = peak > 0 ? model_row_flops(t->model) / peak : 0;
	report->device_bytes = device_bytes(t);
}

/* Logs once, as it holds for each batch. */
static void note_not_replayed(struct trainer *t)
{
	struct backend_info info;
	t->backend->ops->info(t->backend, &info);
	if (!info.not_replayed || t->not_replayed)
		return;
	t->not_replayed = true;
	LOG_AT(t->options->logger, LOG_WARN, "ops one by one", "a batch's ops are not one call to the device, which takes longer: %s",
	       info.not_replayed);
}

weir_status trainer_push_next(struct trainer *t, weir_error *err)
{
	struct slot *s = trainer_slot(t, t->computed);
	weir_status status = batch_pipeline_collect(t->pipeline, err);
	if (status != WEIR_OK)
		return status;
	note_not_replayed(t);
	pace_wait(clock_system(), s->until_ns);
	trainer_metrics_spent(t->metrics.compute, s->launched_ns);
	trainer_note_span(t, s, t->goes_on > 0 ? TRACE_COMPUTE_DEVICE : TRACE_COMPUTE, s->launched_ns);
	weir_report report = {.rows = s->item->batch.rows, .batches = 1, .bad_lines = s->unit->bad_lines};
	tell_training(t, s, &report);
	if (t->row_cache) {
		report.keys = s->data.input.unique;
		report.keys_cached = s->cached.hits;
	}
	s->unit->bad_lines = 0;
	const weir_batch id = trainer_batch(s);
	status = trainer_heed(t, anomalies_note_batch(&t->anomalies, report.loss_sum / (double)report.rows, report.gradient_norm),
	                      &id, err);
	if (status != WEIR_OK)
		return status;
	const bool alone = is_left_out_alone(t, s, &report);
	const bool left_out = is_scaled_out(t, s, &report) || trainer_is_masked(s) || alone;
	status = push(t, s, left_out, &report, err);
	prefetcher_recycle(t->prefetcher, s->item);
	s->item = NULL;
	if (status != WEIR_OK)
		return status;
	t->computed++;
	weir_progress(t->client, &report);
	weir_stats stats = {0};
	weir_get_stats(t->client, &stats);
	trainer_metrics_note(&t->metrics, &report, &stats, t->started - t->acknowledged);
	return WEIR_OK;
}

/* Logs the time until this worker's first acknowledged push. */
static void note_first(const struct trainer *t)
{
	const int64_t now_ms = clock_ms(clock_system());
	LOG_AT(t->options->logger, LOG_INFO, "first push", "is acknowledged ms_since_start=%lld ms_since_join=%lld",
	       (long long)(now_ms - t->began_ms), (long long)(now_ms - t->joined_ms));
}

weir_status trainer_acknowledge(struct trainer *t, bool wait, weir_error *err)
{
	while (t->acknowledged < t->computed) {
		struct slot *s = trainer_slot(t, t->acknowledged);
		const int64_t since_ns = clock_ns(clock_system());
		weir_status status = s->ticket == 0 ? WEIR_OK : weir_wait(t->client, s->ticket, wait ? -1 : 0, err);
		if (wait) {
			trainer_metrics_spent(t->metrics.push_wait, since_ns);
			trainer_note_span(t, s, TRACE_PUSH_WAIT, since_ns);
		}
		if (status == WEIR_E_TIMEOUT)
			return WEIR_OK;
		s->ticket = 0;
		if (status == WEIR_E_NOT_FINITE) /* a server found it, in the encoding of finite numbers */
			weir_progress(t->client, &(weir_report){.nonfinite = 1});
		else if (status != WEIR_OK && status != WEIR_E_DROPPED)
			return status;
		s->unit->in_ring--;
		if (t->acknowledged++ == 0)
			note_first(t);
		wait = false;
	}
	return WEIR_OK;
}
