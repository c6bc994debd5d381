/* What a batch takes to load, to train and to score. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/probe/probe_internal.h"
#include "common/base/prng.h"
#include "common/system/process.h"
#include "kernels/optimizer.h"
#include "worker/train/job/data_shape.h"
#include "worker/train/job/device.h"

enum { BATCHES_LEAST = 3, SAMPLES_MAX = 4096, TOGETHER_MAX = 8 };

static double clock_s(clockid_t which)
{
	struct timespec t;
	clock_gettime(which, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double probe_now_s(void)
{
	return clock_s(CLOCK_MONOTONIC);
}

double probe_thread_s(void)
{
	return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

double probe_process_s(void)
{
	return clock_s(CLOCK_PROCESS_CPUTIME_ID);
}

/* --- A model and its batches */

static void fill_parameters(struct probe_computer *c, struct minibatch *m, struct prng *rng)
{
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		const size_t n = model_table_elements(c->model, t) * model_table_rows(c->model, &m->input, t).count;
		for (size_t i = 0; m->parameters[t] && i < n; i++)
			m->parameters[t][i] = t == MODEL_STATISTICS ? 1 : 0.02f * prng_normal(rng);
	}
}

static uint32_t batches_of(const struct model *m, uint32_t read)
{
	const uint64_t bytes = 2 * sizeof(float) * model_table_elements(m, MODEL_DENSE) + 1, room = PROBE_MEMORY_BYTES / bytes;
	return room < 1 ? 1 : room < read ? (uint32_t)room : read;
}

weir_status probe_computer_open(struct probe_computer *c, const struct probe_data *d, uint32_t threads, weir_error *err)
{
	const struct dataset_info *info = dataset_get_info(d->dataset);
	const struct model_data data = model_data_of(info);
	const struct batch_pipeline_shape shape = {
	    .fields = info->fields, .dense_dim = info->dense_dim, .context = info->context, .sequence = info->sequence};
	const struct backend_options where = device_options(d->job, 0, threads, true);
	struct prng rng;
	prng_seed(&rng, 1);
	*c = (struct probe_computer){.backend = backend_open(&where, err)};
	if (!c->backend)
		return err->status;
	weir_status status = model_create(&c->model, c->backend, d->job, &data, err);
	if (status == WEIR_OK)
		status = batch_pipeline_create(&c->pipeline, c->backend, c->model, &shape, err);
	const uint32_t count = status == WEIR_OK ? batches_of(c->model, d->count) : 0;
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		status = minibatch_init(&c->batches[c->count++], c->backend, c->model, MINIBATCH_ALL, err);
		if (status == WEIR_OK)
			status = minibatch_load(&c->batches[i], &d->batches[i], err);
		if (status == WEIR_OK)
			fill_parameters(c, &c->batches[i], &rng);
	}
	return status;
}

void probe_computer_close(struct probe_computer *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		minibatch_destroy(&c->batches[i]);
	batch_pipeline_destroy(c->pipeline);
	model_destroy(c->model);
	if (c->backend)
		c->backend->ops->destroy(c->backend);
	*c = (struct probe_computer){0};
}

/* --- Times */

/* Seconds of this thread's processor; of the wall's clock where a device computes. */
static double busy_s(const struct probe_computer *c)
{
	return c->backend->ops->host_memory ? probe_thread_s() : probe_now_s();
}

/* Of a batch. Others' work on the machine delays the wall's clock, and less so the processor's. */
struct times {
	double wall_s;             /* the lower quartile */
	double own_s, deviation_s; /* processor seconds of the calling thread: median, deviation without the slowest tenth */
};

struct samples {
	uint32_t count;
	double wall_s[SAMPLES_MAX], own_s[SAMPLES_MAX];
};

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static struct times times_of(struct samples *s)
{
	const uint32_t n = s->count, kept = n - (n + 9) / 10;
	double mean = 0, squares = 0;
	qsort(s->wall_s, n, sizeof *s->wall_s, compare);
	qsort(s->own_s, n, sizeof *s->own_s, compare);
	for (uint32_t i = 0; i < kept; i++)
		mean += s->own_s[i] / kept;
	for (uint32_t i = 0; i < kept; i++)
		squares += (s->own_s[i] - mean) * (s->own_s[i] - mean) / kept;
	return (struct times){.wall_s = s->wall_s[n / 4], .own_s = s->own_s[n / 2], .deviation_s = sqrt(squares)};
}

weir_status probe_train(struct probe_computer *c, const struct job *job, uint32_t i, weir_error *err)
{
	struct minibatch *m = &c->batches[i % c->count];
	const struct batch_pipeline_step step = {.seed = i, .clip_norm = job->train.clip_norm};
	return batch_pipeline_train(c->pipeline, &m->input, NULL, &step, &m->output, err);
}

static weir_status score_once(struct probe_computer *c, const struct job *job, uint32_t i, weir_error *err)
{
	struct minibatch *m = &c->batches[i % c->count];
	(void)job;
	float *scores = malloc((size_t)m->input.rows * model_row_scores(c->model) * sizeof *scores);
	if (!scores)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for scores");
	weir_status status = batch_pipeline_load_flat(c->pipeline, &m->input, err);
	if (status == WEIR_OK)
		status = batch_pipeline_score(c->pipeline, &m->input, scores, err);
	free(scores);
	return status;
}

/* Goes around the batches for a slice of time, after one that does not count. */
static weir_status time_batches(struct probe_computer *c, const struct job *job,
                                weir_status (*once)(struct probe_computer *, const struct job *, uint32_t, weir_error *),
                                struct times *out, weir_error *err)
{
	struct samples *samples = calloc(1, sizeof *samples);
	if (!samples)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for measurements");
	weir_status status = once(c, job, 0, err);
	const double until = probe_now_s() + PROBE_SLICE_S;
	uint32_t n = 0;
	for (; status == WEIR_OK && n < SAMPLES_MAX && (n < BATCHES_LEAST || probe_now_s() < until); n++) {
		const double wall = probe_now_s(), own = busy_s(c);
		status = once(c, job, n, err);
		samples->wall_s[n] = probe_now_s() - wall;
		samples->own_s[n] = busy_s(c) - own;
	}
	samples->count = n;
	if (status == WEIR_OK)
		*out = times_of(samples);
	free(samples);
	return status;
}

/* --- Several at once */

struct together {
	struct probe_computer computer;
	const struct job *job;
	pthread_barrier_t *start;
	struct times times;
	weir_status status;
	weir_error err;
};

static void *run_beside(void *arg)
{
	struct together *t = arg;
	pthread_barrier_wait(t->start);
	t->status = time_batches(&t->computer, t->job, probe_train, &t->times, &t->err);
	return NULL;
}

/* Trains on as many models at once, one thread each. */
static weir_status run_together(struct together *all, uint32_t count, double *mean_own_s, weir_error *err)
{
	pthread_barrier_t start;
	pthread_t threads[TOGETHER_MAX];
	uint32_t running = 0;
	weir_status status = WEIR_OK;
	pthread_barrier_init(&start, NULL, count);
	for (; running < count; running++) {
		all[running].start = &start;
		if (pthread_create(&threads[running], NULL, run_beside, &all[running]) != 0)
			abort(); /* the others would wait at the barrier for ever */
	}
	*mean_own_s = 0;
	for (uint32_t i = 0; i < running; i++) {
		pthread_join(threads[i], NULL);
		*mean_own_s += all[i].times.own_s / count;
		if (all[i].status != WEIR_OK && status == WEIR_OK) {
			*err = all[i].err;
			status = all[i].status;
		}
	}
	pthread_barrier_destroy(&start);
	return status;
}

static weir_status measure_crowd(const struct probe_data *d, struct plan_figures *out, weir_error *err)
{
	const uint32_t cores = (uint32_t)out->cores, count = cores < TOGETHER_MAX ? cores : TOGETHER_MAX;
	struct together *all = calloc(count, sizeof *all);
	weir_status status = all ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for measurements");
	double beside_s = 0;
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		all[i].job = d->job;
		status = probe_computer_open(&all[i].computer, d, 1, err);
	}
	if (status == WEIR_OK)
		status = run_together(all, count, &beside_s, err);
	if (status == WEIR_OK)
		out->crowd = beside_s > out->compute_one_s ? beside_s / out->compute_one_s : 1;
	for (uint32_t i = 0; all && i < count; i++)
		probe_computer_close(&all[i].computer);
	free(all);
	return status;
}

/* --- The parts of the figures */

static weir_status measure_load(const struct probe_data *d, struct probe_computer *c, struct plan_figures *out, weir_error *err)
{
	double keys = 0;
	weir_status status = WEIR_OK;
	const double start = probe_thread_s();
	for (uint32_t i = 0; i < c->count && status == WEIR_OK; i++)
		status = minibatch_load(&c->batches[i], &d->batches[i], err);
	out->load_s = (probe_thread_s() - start) / c->count;
	for (uint32_t i = 0; i < c->count; i++)
		keys += (double)c->batches[i].input.unique / c->count;
	out->keys = keys;
	return status;
}

/* The share of keys that a cache with the job's limits has, once it is as old as a row may be. */
static weir_status measure_cache(const struct probe_data *d, struct probe_computer *c, struct plan_figures *out, weir_error *err)
{
	struct job_row_cache options = d->job->tables.embedding.cache;
	struct row_cache *cache = NULL;
	struct row_cache_batch found = {0};
	double hits = 0, keys = 0, width = 0;
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		width += model_table_is_keyed(t) ? (double)model_table_elements(c->model, t) : 0;
	if (width == 0)
		return WEIR_OK;
	out->cache_bytes = out->keys * (options.max_age + 1) * width * sizeof(float);
	options.memory_bytes = WEIR_ROW_CACHE_BYTES_MIN + 2 * (uint64_t)out->cache_bytes;
	weir_status status = row_cache_create(&cache, c->backend, c->model, &options, err);
	for (uint32_t i = 0; i < c->count && status == WEIR_OK; i++) {
		const struct minibatch *m = &c->batches[i];
		status = row_cache_look_up(cache, i + 1, m->keys, m->input.group_begin, &found, err);
		if (i + 1 < c->count && i < options.max_age)
			continue; /* it still fills */
		hits += (double)found.hits;
		keys += (double)m->input.unique;
	}
	out->cache_hits = keys > 0 ? hits / keys : 0;
	row_cache_batch_destroy(&found);
	row_cache_destroy(cache);
	return status;
}

/* A step of the dense table's optimizer in the worker, as rounds of local steps take them. */
static weir_status measure_inner(const struct probe_data *d, struct probe_computer *c, struct plan_figures *out, weir_error *err)
{
	const struct job_table *t = &d->job->tables.dense;
	weir_optimizer spec = t->mode.local_steps > 0 ? t->local.inner : t->optimizer;
	const struct backend_ops *ops = c->backend->ops;
	const size_t n = model_table_elements(c->model, MODEL_DENSE), slots = optimizer_slots(spec.kind);
	spec.schedule = (weir_schedule){0}; /* one that lasts the whole training has no total here */
	struct optimizer *optimizer = n ? optimizer_create(&spec, err) : NULL;
	if (!optimizer)
		return n ? err->status : WEIR_OK;
	float *memory = ops->buffer_alloc(c->backend, n * (slots + 2) * sizeof *memory);
	float *accumulators = ops->buffer_alloc(c->backend, weir_chunks(n) * sizeof *accumulators);
	const struct optimizer_scalars scalars = {.lr = 1e-6f, .grad_scale = 1};
	weir_status status = memory && accumulators ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for an optimizer's step");
	uint32_t times = 0;
	const double start = busy_s(c), until = probe_now_s() + PROBE_SLICE_S / 2;
	for (; status == WEIR_OK && (times < BATCHES_LEAST || probe_now_s() < until); times++) {
		struct optimizer_step step = optimizer_step_of(optimizer, &scalars, times + 1);
		step.accumulator = accumulators;
		ops->update(c->backend, &step, memory, slots ? memory + 2 * n : NULL, memory + n, n);
		status = ops->sync(c->backend, err);
	}
	out->inner_s = times ? (busy_s(c) - start) / times : 0;
	if (memory)
		ops->buffer_free(c->backend, memory);
	if (accumulators)
		ops->buffer_free(c->backend, accumulators);
	optimizer_destroy(optimizer);
	return status;
}

static void note_layers(const struct model *m, struct plan_figures *out)
{
	const struct layout *l = model_layout(m, MODEL_DENSE);
	for (uint32_t i = 0; l && i < l->count; i++) {
		const bool begins = l->tensors[i].cols > 0 && out->layers_count < PLAN_LAYERS_MAX; /* biases go with their matrix */
		out->layers_count += begins || out->layers_count == 0;
		out->layers[out->layers_count - 1] += (double)l->tensors[i].elements;
	}
}

weir_status probe_compute(const struct probe_data *d, struct probe_computer *first, struct plan_figures *out, weir_error *err)
{
	struct times one = {0}, all = {0}, score = {0};
	struct probe_computer wide = {0};
	out->dense_elements = (double)model_table_elements(first->model, MODEL_DENSE);
	note_layers(first->model, out);
	weir_status status = measure_load(d, first, out, err);
	if (status == WEIR_OK)
		status = time_batches(first, d->job, probe_train, &one, err);
	if (status == WEIR_OK)
		status = time_batches(first, d->job, score_once, &score, err);
	if (status == WEIR_OK)
		status = measure_cache(d, first, out, err);
	if (status == WEIR_OK)
		status = measure_inner(d, first, out, err);
	if (status == WEIR_OK)
		status = probe_computer_open(&wide, d, (uint32_t)out->cores, err);
	if (status == WEIR_OK)
		status = time_batches(&wide, d->job, probe_train, &all, err);
	probe_computer_close(&wide);
	out->compute_one_s = one.own_s;
	out->compute_all_s = all.wall_s;
	out->score_s = score.own_s + out->read_s + out->load_s;
	out->jitter = one.own_s > 0 ? one.deviation_s / one.own_s : 0;
	return status == WEIR_OK ? measure_crowd(d, out, err) : status;
}
