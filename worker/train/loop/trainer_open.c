/* What a trainer consists of: made, joined to the job, and unmade. */
#include "worker/train/loop/trainer_internal.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/backend_traced.h"
#include "worker/client/push_stream.h"
#include "worker/train/job/data_shape.h"
#include "worker/train/job/device.h"
#include "worker/train/job/worker_log.h"

#define MIB 1048576.0

weir_status trainer_open_client(void *trainer, weir_error *err)
{
	struct trainer *t = trainer;
	const struct dataset_info *info = dataset_get_info(t->dataset);
	struct job_security security;
	backend_traced_use(t->backend, NULL);
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
	if (status == WEIR_OK) {
		backend_traced_use(t->backend, client_trace(t->client));
		status = tables_register(&t->tables, t->model, &length, t->client, err);
	}
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

/* Whether nothing needs the whole gradient before it is pushed. */
static bool pushes_layers(const struct trainer *t)
{
	bool by_layer = t->job->train.clip_norm == 0 && t->job->train.not_finite != NOT_FINITE_CLIP;
	for (enum model_table k = 0; k < MODEL_TABLES && by_layer; k++) {
		if (!model_has(t->model, k))
			continue;
		const weir_table_spec spec = model_table_spec(t->model, k);
		by_layer = push_streams(&spec);
	}
	return by_layer;
}

/* A dense table whose batches wait for its pulls and pushes travels by layers, unless it is
 * small. */
static weir_status open_layers(struct trainer *t, weir_error *err)
{
	const uint64_t elements = model_table_elements(t->model, MODEL_DENSE);
	const weir_mode *mode = &t->job->tables.dense.mode;
	const enum overlap overlap = t->job->train.overlap;
	if (overlap == OVERLAP_LAYERS && !t->backend->ops->host_memory)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "train.overlap is layers, which is for device: cpu; set it to auto or off");
	if (overlap == OVERLAP_OFF || !t->backend->ops->host_memory || mode->kind != WEIR_SYNC || mode->local_steps > 0 ||
	    weir_chunks(elements) <= WEIR_LAYERED_CHUNKS)
		return WEIR_OK;
	t->pushes_layers = pushes_layers(t);
	LOG_AT(t->options->logger, LOG_INFO, "layers travel while others compute", "pulls=by layer pushes=%s",
	       t->pushes_layers ? "by layer" : "whole");
	return layers_create(&t->layers, elements, err);
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

weir_status trainer_parts_open(struct trainer *t, weir_error *err)
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
	if (t->backend && !(t->backend = backend_traced_create(t->backend)))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	if (!t->backend)
		return err && err->status != WEIR_OK ? err->status : WEIR_E_UNSUPPORTED;
	const struct model_data data = model_data_of(info);
	status = model_create(&t->model, t->backend, t->job, &data, err);
	uint32_t item_field;
	const bool retrieves = status == WEIR_OK && model_item_field(t->model, &item_field);
	if (retrieves && (t->job->model.logq || t->job->model.negatives > 0))
		status = item_counts_read(&t->items, t->dataset, item_field, err);
	if (status == WEIR_OK && retrieves && t->job->model.negatives > 0)
		status = negatives_open(&t->negatives, t->job, item_field, &t->items, err);
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
		status = open_layers(t, err);
	if (status == WEIR_OK)
		make_ring(t);
	for (uint32_t i = 0; i < t->ring_count && status == WEIR_OK; i++) {
		status = minibatch_init(&t->ring[i].data, t->backend, t->model, gradients_come_back(t->gradients), err);
		t->ring[i].data.counts = retrieves && t->job->model.logq ? &t->items : NULL;
		t->ring[i].data.negatives = t->negatives.count > 0 ? &t->negatives : NULL;
	}
	if (status == WEIR_OK)
		status = prefetcher_create(&t->prefetcher, t->dataset, t->job->data.prefetch > 0 ? t->job->data.prefetch : 1, err);
	t->units = (struct units){
	    .options = t->options, .tables = &t->tables, .client = &t->client, .prefetcher = t->prefetcher, .dataset = t->dataset};
	if (status == WEIR_OK)
		status = trainer_open_client(t, err);
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

weir_status trainer_parts_close(struct trainer *t, bool failed, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (t->backend)
		backend_traced_use(t->backend, NULL);
	if (t->layers)
		layers_drop(t->layers, !failed);
	if (t->client && failed)
		weir_abandon(t->client);
	else if (t->client)
		status = weir_close(t->client, err);
	for (uint32_t i = 0; i < t->ring_count; i++) {
		if (t->ring[i].item)
			prefetcher_recycle(t->prefetcher, t->ring[i].item);
		minibatch_destroy(&t->ring[i].data);
		batch_destroy(&t->ring[i].joined);
		row_cache_batch_destroy(&t->ring[i].cached);
	}
	prefetcher_destroy(t->prefetcher);
	log_device(t);
	local_sgd_destroy(t->local);
	layers_destroy(t->layers);
	gradients_destroy(t->gradients);
	batch_pipeline_destroy(t->pipeline);
	row_cache_destroy(t->row_cache);
	model_destroy(t->model);
	if (t->backend)
		t->backend->ops->destroy(t->backend);
	batch_places_destroy(&t->places);
	if (t->dataset)
		dataset_close(t->dataset);
	item_index_destroy(&t->items);
	negatives_destroy(&t->negatives);
	free(t->fingerprint.text);
	return status;
}
