/* weir bench step: the training step of a model on a device, on generated batches, and the added
 * cost of pulling and pushing.
 *
 *     batch              a batch's distinct keys
 *     compute            forward and backward of a batch that is on the device
 *     step               the same for a batch in host memory, as a worker does between pull
 *                        and push: one batch moves to the device while another computes
 *     push alone         how long a push blocks the worker: gradients are coded (if a codec is
 *                        set) and copied to the host, and weir_push hands them over
 *     step and push      with a weir-server that applies, and as many pushes in flight as a
 *                        worker has
 *     pull, step, push   everything; the next batch's pull runs while one computes
 *
 * As in the trainer, a batch is launched before the previous one is collected, and its gradients
 * are coded on a stream of their own: on a device, copies, computing and coding overlap.
 *
 * Ids follow a power law, as click ids do: id = ids u^4 for each field. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_net.h"
#include "common/base/prng.h"
#include "common/job/job.h"
#include "kernels/backend.h"
#include "worker/data/format/rows.h"
#include "worker/model/model.h"
#include "worker/train/batch/batch_pipeline.h"
#include "worker/train/batch/gradients.h"
#include "worker/train/batch/minibatch.h"
#include "worker/train/batch/tables.h"
#include "worker/train/job/device.h"

enum { STEP_RING = 4, STEP_STEPS = 8, STEP_ROUNDS = 5, STEP_DENSE = 13, STEP_FIELDS_MAX = 4096 };

/* One batch of the ring, and its pending pull or push. */
struct step_slot {
	struct batch batch;
	struct minibatch data;
	weir_ticket pull, push; /* 0: none */
};

struct step_bench {
	struct scratch_server server;
	struct job *job;
	struct backend *backend;
	struct model *model;
	struct batch_pipeline *pipeline;
	struct gradients *gradients;
	struct tables tables;
	struct step_slot ring[STEP_RING];
	struct model_input there; /* the first batch, on the device */
	const uint64_t *seed;     /* also on the device */
	struct model_output made;
	uint32_t rows, fields, steps;
	uint64_t ids, next; /* of a field; the batch whose turn it is */
};

/* --- Batches */

static void fill_normal(float *x, size_t n, struct prng *rng, float scale)
{
	for (size_t i = 0; x && i < n; i++)
		x[i] = scale * prng_normal(rng);
}

static weir_status make_batch(struct step_bench *b, struct step_slot *s, struct prng *rng, weir_error *err)
{
	const size_t keys = (size_t)b->rows * b->fields;
	if (!batch_reserve(&s->batch, b->rows, (struct row_shape){1, b->fields, STEP_DENSE}, keys, (struct batch_columns){0}))
		return weir_fail(err, WEIR_E_MEMORY, "no memory for batches of %u rows", b->rows);
	s->batch.rows = b->rows;
	for (size_t i = 0; i < keys; i++) {
		const double u = prng_unit(rng);
		s->batch.keys[i] = prng_mix(i % b->fields, (uint64_t)((double)b->ids * u * u * u * u), 1);
		s->batch.offsets[i + 1] = (uint32_t)(i + 1);
	}
	for (size_t i = 0; i < b->rows; i++)
		s->batch.labels[i] = prng_unit(rng) < 0.25 ? 1 : 0;
	fill_normal(s->batch.dense, (size_t)b->rows * STEP_DENSE, rng, 1);
	return WEIR_OK;
}

static size_t elements(const struct step_bench *b, const struct minibatch *m, enum model_table t)
{
	return model_table_elements(b->model, t) * model_table_rows(b->model, &m->input, t).count;
}

/* Makes a batch and, in place of a pull, parameters of a model's usual size. */
static weir_status make_slot(struct step_bench *b, struct step_slot *s, struct prng *rng, weir_error *err)
{
	weir_status status = minibatch_init(&s->data, b->backend, b->model, gradients_come_back(b->gradients), err);
	if (status == WEIR_OK)
		status = make_batch(b, s, rng, err);
	if (status == WEIR_OK)
		status = minibatch_load(&s->data, &s->batch, err);
	for (enum model_table t = 0; t < MODEL_TABLES && status == WEIR_OK; t++)
		fill_normal(s->data.parameters[t], elements(b, &s->data, t), rng, 0.05f);
	return status;
}

/* --- One batch that stays on the device */

static const void *put(struct step_bench *b, const void *from, size_t bytes, bool *whole)
{
	if (!from || b->backend->ops->host_memory)
		return from;
	void *to = b->backend->ops->buffer_alloc(b->backend, bytes);
	*whole &= to != NULL;
	if (to)
		b->backend->ops->to_device(b->backend, to, from, bytes);
	return to;
}

static weir_status put_first(struct step_bench *b, weir_error *err)
{
	const struct minibatch *m = &b->ring[0].data;
	const struct model_input *in = &m->input;
	const size_t bags = (size_t)b->rows * b->fields;
	static const uint64_t seed = 1;
	bool whole = true;
	b->there = *in;
	b->seed = put(b, &seed, sizeof seed, &whole);
	b->made.loss_sum = m->output.loss_sum;
	if (!b->backend->ops->host_memory)
		whole &= (b->made.loss_sum = b->backend->ops->buffer_alloc(b->backend, sizeof *b->made.loss_sum)) != NULL;
	b->there.labels = put(b, in->labels, b->rows * sizeof(float), &whole);
	b->there.dense = put(b, in->dense, (size_t)b->rows * STEP_DENSE * sizeof(float), &whole);
	b->there.offsets = put(b, in->offsets, (bags + 1) * sizeof(uint32_t), &whole);
	b->there.row_offsets = put(b, in->row_offsets, (b->rows + 1) * sizeof(uint32_t), &whole);
	b->there.index = put(b, in->index, bags * sizeof(uint32_t), &whole);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		const size_t bytes = elements(b, m, t) * sizeof(float);
		if (t != MODEL_STATISTICS) /* the model reads these on the host */
			b->there.parameters[t] = put(b, in->parameters[t], bytes, &whole);
		b->made.gradients[t] = m->output.gradients[t];
		if (model_has(b->model, t) && !b->backend->ops->host_memory)
			whole &= (b->made.gradients[t] = b->backend->ops->buffer_alloc(b->backend, bytes)) != NULL;
	}
	const weir_status status = b->backend->ops->sync(b->backend, err);
	return status == WEIR_OK && !whole ? weir_fail(err, WEIR_E_MEMORY, "no memory for a batch of %u rows on the device", b->rows)
	                                   : status;
}

static void take_back_first(struct step_bench *b)
{
	if (!b->backend || b->backend->ops->host_memory)
		return;
	const void *const parts[] = {b->there.labels, b->there.dense, b->there.offsets, b->there.row_offsets,
	                             b->there.index,  b->seed,        b->made.loss_sum};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (parts[i])
			b->backend->ops->buffer_free(b->backend, (void *)(uintptr_t)parts[i]);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		if (b->there.parameters[t] && t != MODEL_STATISTICS)
			b->backend->ops->buffer_free(b->backend, (void *)(uintptr_t)b->there.parameters[t]);
		if (b->made.gradients[t])
			b->backend->ops->buffer_free(b->backend, b->made.gradients[t]);
	}
}

/* --- Measurements: samples per second */

static double speed(const struct step_bench *b, double start)
{
	return (double)b->rows * b->steps / (bench_now_s() - start);
}

static double run_batch(void *arg, weir_error *err)
{
	struct step_bench *b = arg;
	const double start = bench_now_s();
	for (uint32_t i = 0; i < b->steps; i++) {
		struct step_slot *s = &b->ring[i % STEP_RING];
		if (minibatch_load(&s->data, &s->batch, err) != WEIR_OK)
			return -1;
	}
	return speed(b, start);
}

static double run_compute(void *arg, weir_error *err)
{
	struct step_bench *b = arg;
	const struct backend_ops *ops = b->backend->ops;
	const double start = bench_now_s();
	const enum backend_stream chosen = ops->choose_stream(b->backend, STREAM_COMPUTE);
	for (uint32_t i = 0; i < b->steps; i++)
		model_train(b->model, &b->there, b->seed, &b->made);
	ops->choose_stream(b->backend, chosen);
	return ops->sync(b->backend, err) == WEIR_OK ? speed(b, start) : -1;
}

static weir_status launch(struct step_bench *b, struct step_slot *s, weir_error *err)
{
	const struct batch_pipeline_step step = {.seed = 1, .clip_norm = b->job->train.clip_norm};
	return batch_pipeline_launch(b->pipeline, &s->data.input, NULL, &step, &s->data.output, err);
}

/* Actions around the steps of the ring's batches. Each step is launched before the previous one is
 * collected. */
struct step_verbs {
	/* called before step i is launched; NULL: nothing */
	weir_status (*prepare)(struct step_bench *b, uint32_t i, weir_error *err);
	/* called after the step is collected; NULL: nothing */
	weir_status (*finish)(struct step_bench *b, struct step_slot *s, weir_error *err);
};

static weir_status begin_step(struct step_bench *b, const struct step_verbs *verbs, uint32_t i, weir_error *err)
{
	const weir_status status = verbs->prepare ? verbs->prepare(b, i, err) : WEIR_OK;
	return status == WEIR_OK ? launch(b, &b->ring[i % STEP_RING], err) : status;
}

static weir_status run_steps(struct step_bench *b, const struct step_verbs *verbs, weir_error *err)
{
	weir_status status = begin_step(b, verbs, 0, err);
	for (uint32_t i = 0; i < b->steps && status == WEIR_OK; i++) {
		if (i + 1 < b->steps)
			status = begin_step(b, verbs, i + 1, err);
		if (status == WEIR_OK)
			status = batch_pipeline_collect(b->pipeline, err);
		if (status == WEIR_OK && verbs->finish)
			status = verbs->finish(b, &b->ring[i % STEP_RING], err);
	}
	return status;
}

static double run_step(void *arg, weir_error *err)
{
	static const struct step_verbs none = {NULL, NULL};
	struct step_bench *b = arg;
	const double start = bench_now_s();
	return run_steps(b, &none, err) == WEIR_OK ? speed(b, start) : -1;
}

static weir_status settle(struct step_bench *b, weir_ticket *ticket, weir_error *err)
{
	const weir_ticket t = *ticket;
	*ticket = 0;
	return t ? weir_wait(b->server.client, t, -1, err) : WEIR_OK;
}

static weir_status settle_all(struct step_bench *b, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < STEP_RING; i++) {
		weir_error ignored = {0};
		weir_status pulled = settle(b, &b->ring[i].pull, status == WEIR_OK ? err : &ignored);
		status = status == WEIR_OK ? pulled : status;
		weir_status pushed = settle(b, &b->ring[i].push, status == WEIR_OK ? err : &ignored);
		status = status == WEIR_OK ? pushed : status;
	}
	return status;
}

static weir_status push(struct step_bench *b, struct step_slot *s, weir_error *err)
{
	weir_push_item items[MODEL_TABLES];
	weir_batch id;
	weir_status status = scratch_server_batch(&b->server, &id, err);
	const size_t count = tables_push_items(&b->tables, &s->data, NULL, 0, items);
	if (status == WEIR_OK)
		status = gradients_bring_back(b->gradients, b->pipeline, &s->data, items, count, err);
	return status == WEIR_OK ? weir_push(b->server.client, &id, items, count, NULL, NULL, NULL, &s->push, err) : status;
}

static weir_status pull(struct step_bench *b, struct step_slot *s, weir_error *err)
{
	weir_pull_item items[MODEL_TABLES];
	const size_t count = tables_pull_items(&b->tables, &s->data, PULL_ALL, true, items);
	return weir_pull(b->server.client, NULL, items, count, NULL, NULL, &s->pull, err);
}

/* Pushes one at a time, so that each has the network to itself. Only the calls count. */
static double run_push(void *arg, weir_error *err)
{
	struct step_bench *b = arg;
	double seconds = 0;
	for (uint32_t i = 0; i < b->steps; i++) {
		struct step_slot *s = &b->ring[i % STEP_RING];
		weir_status status = launch(b, s, err);
		if (status == WEIR_OK)
			status = batch_pipeline_collect(b->pipeline, err);
		const double start = bench_now_s();
		if (status == WEIR_OK)
			status = push(b, s, err);
		seconds += bench_now_s() - start;
		if (status == WEIR_OK)
			status = settle(b, &s->push, err);
		if (status != WEIR_OK)
			return -1;
	}
	return (double)b->rows * b->steps / seconds;
}

/* Waits for the slot's last push: its gradients are overwritten next. */
static weir_status await_push(struct step_bench *b, uint32_t i, weir_error *err)
{
	return settle(b, &b->ring[i % STEP_RING].push, err);
}

/* Does the same, waits for the batch's rows, and starts the pull of the next batch. */
static weir_status await_pull(struct step_bench *b, uint32_t i, weir_error *err)
{
	struct step_slot *now = &b->ring[i % STEP_RING];
	weir_status status = i == 0 ? pull(b, now, err) : WEIR_OK;
	if (status == WEIR_OK && i + 1 < b->steps)
		status = pull(b, &b->ring[(i + 1) % STEP_RING], err);
	if (status == WEIR_OK)
		status = settle(b, &now->pull, err);
	return status == WEIR_OK ? await_push(b, i, err) : status;
}

static double run_pushed(struct step_bench *b, const struct step_verbs *verbs, weir_error *err)
{
	const double start = bench_now_s();
	weir_error ignored = {0};
	const weir_status status = run_steps(b, verbs, err), last = settle_all(b, status == WEIR_OK ? err : &ignored);
	return status == WEIR_OK && last == WEIR_OK ? speed(b, start) : -1;
}

static double run_step_and_push(void *arg, weir_error *err)
{
	static const struct step_verbs verbs = {await_push, push};
	return run_pushed(arg, &verbs, err);
}

static double run_whole(void *arg, weir_error *err)
{
	static const struct step_verbs verbs = {await_pull, push};
	return run_pushed(arg, &verbs, err);
}

/* --- From options to a model */

static weir_status make_job(struct step_bench *b, const struct bench *bench, weir_error *err)
{
	static const char text[] = "job: bench\n"
	                           "data: {format: criteo, train: none, batch: 65536}\n"
	                           "model: {kind: dlrm, dim: 128, hidden: [1024, 1024, 512, 256], bottom: [512, 256, 128]}\n"
	                           "tables:\n"
	                           "  embedding: {optimizer: {kind: sgd, lr: 1.0e-2}}\n"
	                           "  dense: {optimizer: {kind: sgd, lr: 1.0e-2}}\n";
	static const char text_quick[] = "job: bench\n"
	                                 "data: {format: criteo, train: none, batch: 64}\n"
	                                 "model: {kind: dlrm, dim: 4, hidden: [16], bottom: [8, 4]}\n";
	weir_status status = job_parse(bench->quick ? text_quick : text, "bench", bench->sets.items, bench->sets.count, &b->job, err);
	if (status != WEIR_OK)
		return status;
	b->rows = b->job->data.batch;
	b->fields = bench->fields ? (uint32_t)bench->fields : 26;
	b->ids = bench->ids ? bench->ids : bench->quick ? 100 : 40000;
	b->steps = bench->quick ? 2 : STEP_STEPS;
	if (job_is_language(b->job) || (b->job->tables.dense.mode.local_steps > 0))
		return weir_fail(err, WEIR_E_UNSUPPORTED, "bench step measures click models whose batches are pushed one by one");
	return b->fields <= STEP_FIELDS_MAX ? WEIR_OK
	                                    : weir_fail(err, WEIR_E_INVALID, "--fields %u: at most %d", b->fields, STEP_FIELDS_MAX);
}

static weir_status prepare(struct step_bench *b, const struct bench *bench, weir_error *err)
{
	struct prng rng;
	prng_seed(&rng, 1);
	weir_status status = make_job(b, bench, err);
	if (status != WEIR_OK)
		return status;
	const struct backend_options where = device_options(b->job, 0, (uint32_t)bench->threads, true);
	b->backend = backend_open(&where, err);
	if (!b->backend)
		return err->status;
	const struct batch_pipeline_shape shape = {.fields = b->fields, .dense_dim = STEP_DENSE};
	const struct model_data data = {.fields = b->fields, .dense_dim = STEP_DENSE};
	status = model_create(&b->model, b->backend, b->job, &data, err);
	if (status == WEIR_OK)
		status = batch_pipeline_create(&b->pipeline, b->backend, b->model, &shape, err);
	if (status == WEIR_OK)
		status = gradients_create(&b->gradients, b->backend, b->model, err);
	for (uint32_t i = 0; i < STEP_RING && status == WEIR_OK; i++)
		status = make_slot(b, &b->ring[i], &rng, err);
	if (status == WEIR_OK)
		status = put_first(b, err); /* waits for all streams: the allocated memory is zeroed */
	if (status == WEIR_OK)
		b->backend->ops->choose_stream(b->backend, STREAM_OUT);
	return status;
}

static weir_status connect_server(struct step_bench *b, weir_error *err)
{
	const struct training_length length = {.batches = 1u << 20, .workers = 1};
	weir_status status = scratch_server_start(&b->server, &BENCH_SERVER, err);
	if (status == WEIR_OK)
		status = tables_register(&b->tables, b->model, &length, b->server.client, err);
	return status == WEIR_OK ? gradients_register(b->gradients, b->server.client, b->tables.ids, err) : status;
}

static void release(struct step_bench *b)
{
	weir_error ignored = {0};
	if (b->server.client)
		(void)settle_all(b, &ignored);
	scratch_server_stop(&b->server);
	take_back_first(b);
	for (uint32_t i = 0; i < STEP_RING; i++) {
		minibatch_destroy(&b->ring[i].data);
		batch_destroy(&b->ring[i].batch);
	}
	gradients_destroy(b->gradients);
	batch_pipeline_destroy(b->pipeline);
	model_destroy(b->model);
	if (b->backend)
		b->backend->ops->destroy(b->backend);
	job_destroy(b->job);
}

weir_status bench_step(struct bench *bench, weir_error *err)
{
	struct step_bench *b = calloc(1, sizeof *b);
	if (!b)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a benchmark");
	weir_status status = prepare(b, bench, err);
	if (status == WEIR_OK)
		status = connect_server(b, err);
	if (status == WEIR_OK) {
		struct backend_info info;
		b->backend->ops->info(b->backend, &info);
		bench_note(bench, "device %s, batches of %u rows, %u ids each, %zu of them distinct", info.device, b->rows, b->fields,
		           b->ring[0].data.input.unique);
		static const char unit[] = "samples/s";
		uint32_t full = bench_add(bench, unit, run_step, b, BENCH_NO_LIMIT, 0, "step");
		bench_add(bench, unit, run_batch, b, full, 0, "batch");
		bench_add(bench, unit, run_compute, b, full, 0, "compute");
		bench_add(bench, unit, run_push, b, full, 0, "push alone");
		bench_add(bench, unit, run_step_and_push, b, full, 0, "step and push");
		bench_add(bench, unit, run_whole, b, full, 0, "pull, step, push");
		status = bench_run(bench, STEP_ROUNDS, err);
	}
	release(b);
	free(b);
	return status;
}
