#include "worker/train/loop/trainer_internal.h"

#include <stdio.h>

#include "common/base/prng.h"
#include "common/system/process.h"
#include "worker/train/job/rejoin.h"
#include "worker/train/loop/pace.h"

uint64_t trainer_order_seed(const struct job *job, uint32_t pass, uint32_t unit)
{
	if (!job->data.shuffle)
		return 0;
	uint64_t seed = prng_mix(job->data.seed, pass, unit);
	return seed != 0 ? seed : 1;
}

uint64_t trainer_dropout_seed(const struct job *job, uint32_t pass, uint32_t unit, uint32_t batch)
{
	return prng_mix(prng_mix(job->train.seed, pass, unit), batch, 0);
}

uint64_t trainer_negatives_seed(const struct job *job, uint32_t pass, uint32_t unit, uint32_t batch)
{
	return prng_mix(trainer_dropout_seed(job, pass, unit, batch), 1, 0);
}

uint32_t trainer_threads(const struct job *job, uint32_t local)
{
	const uint32_t share = local ? process_cores() / local : 0;
	if (job->train.threads > 0)
		return job->train.threads;
	return share ? share : 1;
}

weir_status trainer_heed(struct trainer *t, const char *what, const weir_batch *id, weir_error *err)
{
	char where[64] = "";
	if (!what)
		return WEIR_OK;
	if (id)
		snprintf(where, sizeof where, "pass=%u unit=%u batch=%u: ", id->pass, id->unit, id->batch);
	counter_add(t->metrics.anomalies, 1);
	LOG_AT(t->options->logger, LOG_WARN, "anomaly", "%s%s", where, what);
	if (t->job->train.anomaly.policy == ANOMALY_WARN)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_STATE, "%s%s (train.anomaly.policy: stop)", where, what);
}

struct local_sgd_batch trainer_local_batch(const struct trainer *t, const struct slot *s)
{
	return (struct local_sgd_batch){.client = t->client,
	                                .table = t->tables.ids[MODEL_DENSE],
	                                .unit = &s->unit->lease,
	                                .batch = s->item->index,
	                                .batches = s->item->batches,
	                                .sequence = t->computed + 1};
}

uint64_t trainer_inner_step(const struct trainer *t, const struct slot *s)
{
	return s->place / t->job->cluster.workers;
}

/* --- The loop */

/* One iteration: fill the pipeline, launch one batch, push one, note acknowledged ones. */
static weir_status turn(struct trainer *t, weir_error *err)
{
	weir_status status = units_lease_ahead(&t->units, err);
	bool stopping = atomic_load(t->options->stop), more = true;
	while (status == WEIR_OK && more && !stopping && t->started - t->computed <= TRAINER_AHEAD &&
	       t->started - t->acknowledged < t->ring_count) {
		bool idle = t->started == t->acknowledged;
		status = trainer_start_next(t, idle, &more, err);
	}
	bool computes = t->computed < t->started, launches = t->launched < t->started;
	if (status == WEIR_OK && launches)
		status = trainer_launch_next(t, err);
	while (status == WEIR_OK && t->launched - t->computed > (launches ? t->goes_on : 0))
		status = trainer_push_next(t, err);
	bool full = t->computed - t->acknowledged >= TRAINER_PUSHED;
	if (status == WEIR_OK)
		status = trainer_acknowledge(t, full || !computes, err);
	return status == WEIR_OK ? units_close(&t->units, err) : status;
}

/* Releases everything in hand. All that was under way has completed, in whatever way, when this
 * returns. */
static void drop_everything(struct trainer *t)
{
	batch_pipeline_drop(t->pipeline);
	if (t->layers)
		layers_drop(t->layers, true);
	for (; t->acknowledged < t->started; t->acknowledged++) {
		struct slot *s = trainer_slot(t, t->acknowledged);
		weir_error ignored = {0};
		(void)trainer_settle(t, s, &ignored);
		if (s->item)
			prefetcher_recycle(t->prefetcher, s->item);
		s->item = NULL;
	}
	t->computed = t->launched = t->started;
	if (t->local)
		local_sgd_forget(t->local, t->client);
	if (t->row_cache)
		row_cache_forget(t->row_cache);
	prefetcher_flush(t->prefetcher);
	units_drop(&t->units);
}

/* Stopping: pulled batches are not computed, computing ones are pushed, pushed ones are waited
 * for. */
static weir_status leave_early(struct trainer *t, weir_error *err)
{
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && t->computed < t->launched)
		status = trainer_push_next(t, err);
	while (status == WEIR_OK && t->acknowledged < t->computed)
		status = trainer_acknowledge(t, true, err);
	if (status == WEIR_OK)
		status = units_close(&t->units, err);
	if (status == WEIR_OK)
		status = units_leave_nothing(&t->units, err);
	drop_everything(t);
	return status == WEIR_OK ? weir_fail(err, WEIR_E_CANCELLED, "stopped by a signal") : status;
}

/* Rejoins; nothing in hand counts any more. */
static weir_status begin_anew(struct trainer *t, weir_error *err)
{
	const struct rejoin g = {
	    .client = &t->client, .open = trainer_open_client, .arg = t, .stop = t->options->stop, .logger = t->options->logger};
	drop_everything(t);
	t->units.finished = false;
	return rejoin(&g, err);
}

static weir_status train(struct trainer *t, weir_error *err)
{
	while (!t->units.finished || units_any(&t->units)) {
		if (atomic_load(t->options->stop))
			return leave_early(t, err);
		weir_status status = turn(t, err);
		if (status == WEIR_E_CANCELLED && atomic_load(t->options->stop))
			return leave_early(t, err);
		if (status == WEIR_E_STALE) {
			LOG_AT(t->options->logger, LOG_WARN, "taken for dead", "rejoining as a new incarnation: %s", err->text);
			drop_everything(t);
			status = weir_rejoin(t->client, err);
		}
		if (status == WEIR_E_GENERATION)
			status = begin_anew(t, err);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

weir_status trainer_run(const struct trainer_options *options, weir_error *err)
{
	struct trainer t = {
	    .options = options, .job = options->job, .number = pace_worker(options->name), .began_ms = clock_ms(clock_system())};
	weir_status status = trainer_metrics_open(&t.metrics, options->metrics, err);
	if (status == WEIR_OK)
		status = trainer_parts_open(&t, err);
	if (status == WEIR_OK)
		status = train(&t, err);
	bool failed = status != WEIR_OK && status != WEIR_E_CANCELLED;
	weir_status closed = trainer_parts_close(&t, failed, failed ? NULL : err);
	trainer_metrics_close(&t.metrics);
	return status == WEIR_OK ? closed : status;
}
