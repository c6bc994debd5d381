#include "worker/train/loop/trainer.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "common/system/process.h"
#include "worker/data/dataset.h"
#include "worker/data/prefetch.h"
#include "worker/train/batch/batch_pipeline.h"
#include "worker/train/batch/batch_places.h"
#include "worker/train/batch/gradients.h"
#include "worker/train/batch/loss_scale.h"
#include "worker/train/batch/not_finite.h"
#include "worker/train/batch/tables.h"
#include "worker/train/job/data_shape.h"
#include "worker/train/job/device.h"
#include "worker/train/job/job_fingerprint.h"
#include "worker/train/job/rejoin.h"
#include "worker/train/job/worker_log.h"
#include "worker/train/loop/anomaly.h"
#include "worker/train/loop/local_sgd.h"
#include "worker/train/loop/pace.h"
#include "worker/train/loop/trainer_metrics.h"
#include "worker/train/loop/units.h"

/* Batches pulled ahead of the one that computes: one hides the pull, more would only make gradients
 * staler. */
#define TRAINER_AHEAD 1u
/* Batches pushed but not yet acknowledged: with this many the next one waits. */
#define TRAINER_PUSHED 4u
/* Batches in the ring: pulled ahead, computing, pushed. */
#define TRAINER_RING_MAX (TRAINER_AHEAD + STAGING_SETS - 1u + TRAINER_PUSHED)
/* How often a batch that waits for its step checks `stop`. */
#define TRAINER_STOP_LOOK_MS 50
#define MIB                  1048576.0

struct slot {
	struct minibatch data;
	struct row_cache_batch cached;
	struct prefetched *item;
	struct held_unit *unit;
	uint64_t place;     /* in the training */
	weir_ticket ticket; /* of the pull, then of the push; 0: nothing under way */
	struct batch_pipeline_step step;
	int64_t launched_ns;
	int64_t until_ns; /* train.pace: the batch lasts at least until then */
};

struct trainer {
	const struct trainer_options *options;
	const struct job *job;
	uint32_t number; /* among the workers */
	weir_client *client;
	struct dataset *dataset;
	struct batch_places places;
	struct fingerprint fingerprint;
	struct prefetcher *prefetcher;
	struct backend *backend;
	struct model *model;
	struct batch_pipeline *pipeline;
	struct gradients *gradients;
	struct row_cache *row_cache; /* NULL: none */
	struct tables tables;
	struct local_sgd *local; /* NULL: the dense table's mode is not local */
	weir_optimizer inner;    /* inner optimizer of `local` */
	struct loss_scale scale;
	struct trainer_metrics metrics;
	struct anomalies anomalies;
	int64_t fed_ns; /* when the reader last brought something, or had nothing to bring */
	struct units units;
	/* Batches that compute while the one before is pushed; 0: each is pushed before the next
	 * computes. */
	uint32_t goes_on;
	uint32_t ring_count;
	struct slot ring[TRAINER_RING_MAX]; /* (ring_count) */
	/* Batches so far; acknowledged <= computed <= launched <= started <= acknowledged + ring_count.
	 * The batch pipeline has those that are launched and not computed. */
	uint64_t started, launched, computed, acknowledged;
	bool not_replayed; /* it has been logged */
	int64_t began_ms, joined_ms;
};

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

uint32_t trainer_threads(const struct job *job, uint32_t local)
{
	const uint32_t share = local ? process_cores() / local : 0;
	if (job->train.threads > 0)
		return job->train.threads;
	return share ? share : 1;
}

static struct slot *slot_at(struct trainer *t, uint64_t n)
{
	return &t->ring[n % t->ring_count];
}

static weir_batch batch_of(const struct slot *s)
{
	const weir_unit *u = &s->unit->lease;
	return (weir_batch){.pass = u->pass, .unit = u->unit, .batch = s->item->index, .attempt = u->attempt};
}

/* --- The stages of a batch */

static weir_status pull(struct trainer *t, struct slot *s, enum pull_set set, weir_error *err)
{
	weir_pull_item items[MODEL_TABLES];
	weir_batch id = batch_of(s);
	size_t count = tables_pull_items(&t->tables, &s->data, set, true, items);
	if (count == 0)
		return WEIR_OK;
	return weir_pull(t->client, &id, items, count, NULL, NULL, &s->ticket, err);
}

static weir_status settle(struct trainer *t, struct slot *s, weir_error *err)
{
	if (s->ticket == 0)
		return WEIR_OK;
	weir_ticket ticket = s->ticket;
	s->ticket = 0;
	return weir_wait(t->client, ticket, -1, err);
}

/* The same for a pull that may wait for other workers: E_CANCELLED once this one is to stop. */
static weir_status settle_step(struct trainer *t, struct slot *s, weir_error *err)
{
	weir_error late = {0};
	while (s->ticket != 0) {
		const weir_status status = weir_wait(t->client, s->ticket, TRAINER_STOP_LOOK_MS, &late);
		if (status != WEIR_E_TIMEOUT) {
			s->ticket = 0;
			return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "%s", late.text);
		}
		if (atomic_load(t->options->stop))
			weir_stop_waiting(t->client);
	}
	return WEIR_OK;
}

/* Reports an anomaly. `what`: a text, or NULL: none. */
static weir_status heed(struct trainer *t, const char *what, const weir_batch *id, weir_error *err)
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

/* Measures how long the reader has not brought what it was asked for. */
static weir_status note_reader(struct trainer *t, bool came, weir_error *err)
{
	const int64_t now_ns = clock_ns(clock_system());
	if (came || !units_any(&t->units) || t->fed_ns == 0)
		t->fed_ns = now_ns;
	return heed(t, anomalies_note_wait(&t->anomalies, (double)(now_ns - t->fed_ns) / 1e9, t->job->train.anomaly.data_s), NULL,
	            err);
}

/* Looks up the batch's keys: cached rows are not pulled. */
static weir_status look_up(struct trainer *t, struct slot *s, weir_error *err)
{
	if (!t->row_cache)
		return WEIR_OK;
	const weir_status status = row_cache_look_up(t->row_cache, t->started, s->data.keys, s->data.input.unique, &s->cached, err);
	minibatch_want(&s->data, s->cached.missing, s->cached.misses);
	return status;
}

/* Takes the reader's next batch into the ring and starts its pull. *started: whether there was
 * one. */
static weir_status start_next(struct trainer *t, bool wait, bool *started, weir_error *err)
{
	struct prefetched *item = NULL;
	*started = false;
	const int64_t since_ns = clock_ns(clock_system());
	weir_status status = prefetcher_next(t->prefetcher, &item, wait ? UNITS_POLL_MS : 0);
	if (wait) {
		trainer_metrics_spent(t->metrics.read_wait, since_ns);
		weir_waits_for_data(t->client, status == WEIR_E_TIMEOUT);
	}
	if (status == WEIR_OK || (status == WEIR_E_TIMEOUT && wait)) {
		const weir_status heeded = note_reader(t, status == WEIR_OK, err);
		if (heeded != WEIR_OK)
			return heeded;
	}
	if (status == WEIR_E_TIMEOUT)
		return WEIR_OK;
	if (status != WEIR_OK)
		return weir_fail(err, status, "the reader stopped");
	bool usable;
	status = units_note(&t->units, item, &usable, err);
	if (status != WEIR_OK || !usable) {
		prefetcher_recycle(t->prefetcher, item);
		*started = status == WEIR_OK;
		return status;
	}
	struct slot *s = slot_at(t, t->started++);
	s->item = item;
	s->unit = &t->units.held[item->unit.tag];
	s->unit->in_ring++;
	*started = true;
	const weir_unit *u = &s->unit->lease;
	status = batch_places_find(&t->places, u->pass, u->place, item->index, &s->place, err);
	if (status == WEIR_OK)
		status = minibatch_load(&s->data, &item->batch, err);
	if (status == WEIR_OK)
		status = look_up(t, s, err);
	return status == WEIR_OK ? pull(t, s, PULL_ASYNC, err) : status;
}

/* --- The worker's own copy of a dense table */

static struct local_sgd_batch local_batch_of(const struct trainer *t, const struct slot *s)
{
	return (struct local_sgd_batch){.client = t->client,
	                                .table = t->tables.ids[MODEL_DENSE],
	                                .unit = &s->unit->lease,
	                                .batch = s->item->index,
	                                .batches = s->item->batches,
	                                .sequence = t->computed + 1};
}

/* Position in the inner optimizer's schedule. It is a function of the batch, so that a worker that
 * comes later continues at the others' position. */
static uint64_t inner_step_number(const struct trainer *t, const struct slot *s)
{
	return s->place / t->job->cluster.workers;
}

static weir_status acknowledge(struct trainer *t, bool wait, weir_error *err);

/* Before the batch is computed: takes in the servers' results of this worker's rounds and of the
 * others'. */
static weir_status begin_local(struct trainer *t, struct slot *s, weir_error *err)
{
	if (!t->local)
		return WEIR_OK;
	const struct local_sgd_batch b = local_batch_of(t, s);
	const uint64_t waits_for = local_sgd_waits_for(t->local, &b);
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && t->acknowledged < waits_for)
		status = acknowledge(t, true, err);
	if (status == WEIR_OK)
		status = local_sgd_acknowledged(t->local, &b, t->acknowledged, err);
	if (status == WEIR_OK)
		status = local_sgd_begin(t->local, &b, err);
	s->data.input.parameters[MODEL_DENSE] = local_sgd_parameters(t->local);
	return status;
}

/* --- Pushing */

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
		const weir_batch id = batch_of(s);
		LOG_AT(t->options->logger, LOG_INFO, "loss scale too large", "pass=%u unit=%u batch=%u is left out: %g, from now on %g",
		       id.pass, id.unit, id.batch, (double)scale, (double)t->scale.value);
	}
	return out;
}

/* Whether the batch has one row in a model that normalises over rows: there is no spread to
 * normalise by, and nothing to learn from. (PyTorch refuses such a batch.) */
static bool is_alone(struct trainer *t, struct slot *s, weir_report *report)
{
	const weir_batch id = batch_of(s);
	if (!job_normalises_batches(t->job) || s->data.input.rows != 1)
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

/* Number of examples that the batch's gradient averages: targets that count, or rows. Rounds of
 * local steps weigh the same, however many steps and examples they had. */
static double weight_of(const struct trainer *t, const struct slot *s)
{
	const struct model_input *in = &s->data.input;
	if (t->local)
		return 0;
	return in->sequence > 0 ? (double)in->counted : (double)in->rows;
}

/* Whether the batch has nothing to learn from, since no target of its sequences counts. */
static bool is_all_masked(const struct slot *s)
{
	return s->data.input.sequence > 0 && s->data.input.counted == 0;
}

/* A push that libweir refuses because it is not finite is complete for its unit: nothing of the
 * batch is applied. So is the push of a batch that is left out, except in a round of local steps:
 * there it goes on with gradients of 0. */
static weir_status push(struct trainer *t, struct slot *s, bool left_out, weir_report *report, weir_error *err)
{
	const uint64_t *chunks = NULL;
	size_t chunks_count = 0;
	weir_push_item items[MODEL_TABLES];
	weir_batch id = batch_of(s);
	const struct trained_batch made = {t->backend, t->model, t->pipeline, s->data.input.unique};
	if (left_out && !t->local)
		return weir_leave_out(t->client, &id, err);
	if (left_out)
		trained_zero(&made);
	if (t->job->train.not_finite == NOT_FINITE_CLIP && trained_clip_not_finite(&made))
		note_not_finite(t, &id, report, "is clipped", "elements that were not finite are 0");
	if (t->local) {
		const struct local_sgd_batch b = local_batch_of(t, s);
		/* It would stay in the table and in its optimizer's moments, so the batch's gradients
		 * become 0. */
		if (t->job->train.not_finite == NOT_FINITE_REJECT && trained_zero_not_finite(&made))
			note_not_finite(t, &id, report, "is left out", "it would stay in the worker's own parameters");
		local_sgd_step(t->local, &b, inner_step_number(t, s), batch_pipeline_gradient(t->pipeline, MODEL_DENSE), &chunks,
		               &chunks_count);
	}
	const size_t count = tables_push_items(&t->tables, &s->data, chunks, chunks_count, items);
	weir_status status = gradients_bring_back(t->gradients, t->pipeline, &s->data, items, count, err);
	const weir_push_options options = {.place = s->place + 1, .weight = weight_of(t, s)};
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
	report->learning_rate = t->local ? schedule_lr(&t->inner, inner_step_number(t, s)) : 0;
	report->row_tokens = in->sequence;
	report->row_least_s = peak > 0 ? model_row_flops(t->model) / peak : 0;
	report->device_bytes = device_bytes(t);
}

static weir_status launch_next(struct trainer *t, weir_error *err)
{
	struct slot *s = slot_at(t, t->launched);
	const struct clock *clock = clock_system();
	const int64_t since_ns = clock_ns(clock);
	weir_status status = settle(t, s, err);
	if (status == WEIR_OK)
		status = pull(t, s, PULL_SYNC, err);
	if (status == WEIR_OK)
		status = settle_step(t, s, err);
	trainer_metrics_spent(t->metrics.pull_wait, since_ns);
	if (status == WEIR_OK)
		status = begin_local(t, s, err);
	if (status != WEIR_OK)
		return status;
	const weir_unit *u = &s->unit->lease;
	s->launched_ns = clock_ns(clock);
	s->until_ns = s->launched_ns + pace_of(t->job, t->number, clock->ops->wall_ns(clock));
	s->step = (struct batch_pipeline_step){.seed = trainer_dropout_seed(t->job, u->pass, u->place, s->item->index),
	                                       .clip_norm = t->job->train.clip_norm,
	                                       .loss_scale = t->scale.value};
	status = batch_pipeline_launch(t->pipeline, &s->data.input, t->row_cache ? &s->cached : NULL, &s->step, &s->data.output, err);
	t->launched += status == WEIR_OK;
	return status;
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

/* Sends the results of the oldest launched batch to the servers. */
static weir_status push_next(struct trainer *t, weir_error *err)
{
	struct slot *s = slot_at(t, t->computed);
	weir_status status = batch_pipeline_collect(t->pipeline, err);
	if (status != WEIR_OK)
		return status;
	note_not_replayed(t);
	pace_wait(clock_system(), s->until_ns);
	trainer_metrics_spent(t->metrics.compute, s->launched_ns);
	weir_report report = {.rows = s->item->batch.rows, .batches = 1, .bad_lines = s->unit->bad_lines};
	tell_training(t, s, &report);
	if (t->row_cache) {
		report.keys = s->data.input.unique;
		report.keys_cached = s->cached.hits;
	}
	s->unit->bad_lines = 0;
	const weir_batch id = batch_of(s);
	status = heed(t, anomalies_note_batch(&t->anomalies, report.loss_sum / (double)report.rows, report.gradient_norm), &id, err);
	if (status != WEIR_OK)
		return status;
	const bool alone = is_alone(t, s, &report);
	const bool left_out = is_scaled_out(t, s, &report) || is_all_masked(s) || alone;
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

/* Notes acknowledged pushes. Waits for one if the ring is full or there is nothing else to do. */
static weir_status acknowledge(struct trainer *t, bool wait, weir_error *err)
{
	while (t->acknowledged < t->computed) {
		struct slot *s = slot_at(t, t->acknowledged);
		const int64_t since_ns = clock_ns(clock_system());
		weir_status status = s->ticket == 0 ? WEIR_OK : weir_wait(t->client, s->ticket, wait ? -1 : 0, err);
		if (wait)
			trainer_metrics_spent(t->metrics.push_wait, since_ns);
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

/* --- The loop */

/* One iteration: fill the pipeline, launch one batch, push one, note acknowledged ones. */
static weir_status turn(struct trainer *t, weir_error *err)
{
	weir_status status = units_lease_ahead(&t->units, err);
	bool stopping = atomic_load(t->options->stop), more = true;
	while (status == WEIR_OK && more && !stopping && t->started - t->computed <= TRAINER_AHEAD &&
	       t->started - t->acknowledged < t->ring_count) {
		bool idle = t->started == t->acknowledged;
		status = start_next(t, idle, &more, err);
	}
	bool computes = t->computed < t->started, launches = t->launched < t->started;
	if (status == WEIR_OK && launches)
		status = launch_next(t, err);
	while (status == WEIR_OK && t->launched - t->computed > (launches ? t->goes_on : 0))
		status = push_next(t, err);
	bool full = t->computed - t->acknowledged >= TRAINER_PUSHED;
	if (status == WEIR_OK)
		status = acknowledge(t, full || !computes, err);
	return status == WEIR_OK ? units_close(&t->units, err) : status;
}

/* Releases everything in hand. All that was under way has completed, in whatever way, when this
 * returns. */
static void drop_everything(struct trainer *t)
{
	batch_pipeline_drop(t->pipeline);
	for (; t->acknowledged < t->started; t->acknowledged++) {
		struct slot *s = slot_at(t, t->acknowledged);
		weir_error ignored = {0};
		(void)settle(t, s, &ignored);
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
		status = push_next(t, err);
	while (status == WEIR_OK && t->acknowledged < t->computed)
		status = acknowledge(t, true, err);
	if (status == WEIR_OK)
		status = units_close(&t->units, err);
	if (status == WEIR_OK)
		status = units_leave_nothing(&t->units, err);
	drop_everything(t);
	return status == WEIR_OK ? weir_fail(err, WEIR_E_CANCELLED, "stopped by a signal") : status;
}

static weir_status open_client(void *trainer, weir_error *err);

/* Rejoins; nothing in hand counts any more. */
static weir_status begin_anew(struct trainer *t, weir_error *err)
{
	const struct rejoin g = {
	    .client = &t->client, .open = open_client, .arg = t, .stop = t->options->stop, .logger = t->options->logger};
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

/* --- Creation and destruction */

static weir_status open_client(void *trainer, weir_error *err)
{
	struct trainer *t = trainer;
	const struct dataset_info *info = dataset_get_info(t->dataset);
	struct job_security security;
	job_security(t->job, ROLE_WORKER, &security);
	const weir_options options = {
	    .ledger = t->options->ledger,
	    .name = t->options->name,
	    .role = WEIR_TRAINER,
	    .connect_timeout_ms = job_server_patience_ms(t->job),
	    .dataset_fingerprint = info->fingerprint,
	    .dataset_units = info->units,
	    .dataset_rows = info->rows,
	    .dataset_unit_batches = t->job->data.unit_batches,
	    .fingerprint = t->fingerprint.text,
	    .accept = t->options->accept,
	    .accept_count = t->options->accept_count,
	    .log = worker_log_line,
	    .log_arg = t->options->logger,
	    .observed = trainer_metrics_observe,
	    .observed_arg = &t->metrics,
	    .network = {t->job->cluster.network.rate_bits_per_s, t->job->cluster.network.latency_ms},
	    .security = security.is,
	};
	const struct training_length length = training_length_of(t->job, t->dataset);
	weir_status status = weir_open(&t->client, &options, err);
	t->joined_ms = clock_ms(clock_system());
	if (status == WEIR_OK)
		status = tables_register(&t->tables, t->model, &length, t->client, err);
	return status == WEIR_OK ? gradients_register(t->gradients, t->client, t->tables.ids, err) : status;
}

static weir_status open_local(struct trainer *t, weir_error *err)
{
	const struct job_table *table = &t->job->tables.dense;
	const struct training_length length = training_length_of(t->job, t->dataset);
	const weir_table_spec spec = model_table_spec(t->model, MODEL_DENSE);
	const struct local_sgd_options options = {.elements = model_table_elements(t->model, MODEL_DENSE),
	                                          .segments = spec.segments,
	                                          .segments_count = spec.segments_count,
	                                          .inner = &t->inner,
	                                          .fragments = table->mode.fragments,
	                                          .overlap = table->local.overlap,
	                                          .merge = table->local.merge};
	weir_status status = tables_inner(&t->inner, t->job, &length, err);
	return status == WEIR_OK ? local_sgd_create(&t->local, t->backend, &options, err) : status;
}

/* Batches that a device computes while the one before is pushed. None if a batch must begin with
 * the result of that push, or may not begin before it. */
static uint32_t goes_on(const struct trainer *t)
{
	bool in_turn = t->backend->ops->host_memory || t->local || t->job->train.pace.batch_ms > 0;
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		const weir_mode mode = model_has(t->model, k) ? model_table_spec(t->model, k).mode : (weir_mode){0};
		in_turn |= mode.kind == WEIR_SYNC || (mode.kind == WEIR_SSP && mode.bound < STAGING_SETS - 1);
	}
	return in_turn ? 0 : STAGING_SETS - 1;
}

static void make_ring(struct trainer *t)
{
	struct backend_info i;
	t->goes_on = goes_on(t);
	t->ring_count = TRAINER_AHEAD + t->goes_on + TRAINER_PUSHED;
	t->backend->ops->info(t->backend, &i);
	t->scale = loss_scale_first(i.precision == COMPUTE_FP16);
	LOG_AT(t->options->logger, LOG_INFO, "computing", "device=%s precision=%s memory=%.1fMiB batches_at_once=%u", i.device,
	       compute_precision_name(i.precision), (double)i.memory_budget / MIB, t->goes_on + 1);
}

static weir_status trainer_open(struct trainer *t, weir_error *err)
{
	weir_status status = dataset_open(&t->dataset, t->job, SPLIT_TRAIN, t->options->logger, err);
	if (status != WEIR_OK)
		return status;
	status = job_fingerprint(t->job, &(struct fingerprint_parts){.items = {t->dataset}}, &t->fingerprint, err);
	if (status != WEIR_OK)
		return status;
	const struct dataset_info *info = dataset_get_info(t->dataset);
	t->places = (struct batch_places){.job = t->job, .dataset = t->dataset};
	bool one_machine = strcmp(t->job->cluster.listen, "auto") == 0;
	const struct backend_options where =
	    device_options(t->job, t->number, trainer_threads(t->job, one_machine ? t->job->cluster.workers : 1), true);
	t->backend = backend_open(&where, err);
	if (!t->backend)
		return err && err->status != WEIR_OK ? err->status : WEIR_E_UNSUPPORTED;
	const struct model_data data = model_data_of(info);
	status = model_create(&t->model, t->backend, t->job, &data, err);
	if (status == WEIR_OK && t->job->tables.dense.mode.local_steps > 0)
		status = open_local(t, err);
	const struct batch_pipeline_shape shape = {
	    .fields = info->fields, .dense_dim = info->dense_dim, .context = info->context, .sequence = info->sequence};
	if (status == WEIR_OK)
		status = batch_pipeline_create(&t->pipeline, t->backend, t->model, &shape, err);
	if (status == WEIR_OK)
		status = gradients_create(&t->gradients, t->backend, t->model, err);
	if (status == WEIR_OK && t->local)
		batch_pipeline_keep(t->pipeline, MODEL_DENSE);
	if (status == WEIR_OK && t->job->tables.embedding.cache.memory_bytes > 0)
		status = row_cache_create(&t->row_cache, t->backend, t->model, &t->job->tables.embedding.cache, err);
	if (status == WEIR_OK)
		make_ring(t);
	for (uint32_t i = 0; i < t->ring_count && status == WEIR_OK; i++)
		status = minibatch_init(&t->ring[i].data, t->backend, t->model, gradients_come_back(t->gradients), err);
	if (status == WEIR_OK)
		status = prefetcher_create(&t->prefetcher, t->dataset, t->job->data.prefetch > 0 ? t->job->data.prefetch : 1, err);
	t->units = (struct units){
	    .options = t->options, .tables = &t->tables, .client = &t->client, .prefetcher = t->prefetcher, .dataset = t->dataset};
	if (status == WEIR_OK)
		status = open_client(t, err);
	if (status == WEIR_OK)
		/* Allocations are zeroed before any stream uses them. */
		status = t->backend->ops->sync(t->backend, err);
	t->backend->ops->choose_stream(t->backend, STREAM_OUT);
	return status;
}

static void log_device(const struct trainer *t)
{
	struct backend_info i = {0};
	if (t->backend)
		t->backend->ops->info(t->backend, &i);
	if (i.memory_budget > 0)
		LOG_AT(t->options->logger, LOG_INFO, "device used",
		       "device=%s in_use_at_most=%.1fMiB held=%.1fMiB budget=%.1fMiB replays=%llu", i.device,
		       (double)i.memory_used_most / MIB, (double)i.memory_held / MIB, (double)i.memory_budget / MIB,
		       (unsigned long long)i.replays);
}

/* failed: leaves without order, as a crash would; what is in flight cannot be waited for. */
static weir_status trainer_close(struct trainer *t, bool failed, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (t->client && failed)
		weir_abandon(t->client);
	else if (t->client)
		status = weir_close(t->client, err);
	for (uint32_t i = 0; i < t->ring_count; i++) {
		if (t->ring[i].item)
			prefetcher_recycle(t->prefetcher, t->ring[i].item);
		minibatch_free(&t->ring[i].data);
		row_cache_batch_free(&t->ring[i].cached);
	}
	prefetcher_destroy(t->prefetcher);
	log_device(t);
	local_sgd_destroy(t->local);
	gradients_destroy(t->gradients);
	batch_pipeline_destroy(t->pipeline);
	row_cache_destroy(t->row_cache);
	model_destroy(t->model);
	if (t->backend)
		t->backend->ops->destroy(t->backend);
	batch_places_free(&t->places);
	if (t->dataset)
		dataset_close(t->dataset);
	free(t->fingerprint.text);
	return status;
}

weir_status trainer_run(const struct trainer_options *options, weir_error *err)
{
	struct trainer t = {
	    .options = options, .job = options->job, .number = pace_worker(options->name), .began_ms = clock_ms(clock_system())};
	weir_status status = trainer_metrics_open(&t.metrics, options->metrics, err);
	if (status == WEIR_OK)
		status = trainer_open(&t, err);
	if (status == WEIR_OK)
		status = train(&t, err);
	bool failed = status != WEIR_OK && status != WEIR_E_CANCELLED;
	weir_status closed = trainer_close(&t, failed, failed ? NULL : err);
	trainer_metrics_close(&t.metrics);
	return status == WEIR_OK ? closed : status;
}
