#include "worker/train/score/scorer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/catalogue.h"
#include "worker/data/prefetch.h"
#include "worker/model/transformer.h"
#include "worker/train/batch/batch_pipeline.h"
#include "worker/train/batch/tables.h"
#include "worker/train/job/device.h"
#include "worker/train/score/scorer_internal.h"
#include "worker/train/score/snapshot.h"

/* Batches under way at once: pulls of all but one overlap with computing. */
#define SCORER_RING     4u
#define SCORER_PREFETCH 4u

struct scoring {
	struct minibatch data;
	struct prefetched *item;
	weir_ticket ticket;
};

struct scorer {
	struct scorer_options options;
	struct backend *backend;
	struct model *model;
	struct batch_pipeline *pipeline;
	struct tables tables;       /* with a client */
	struct snapshot *snapshot;  /* with a file */
	struct catalogue catalogue; /* of retrieval */
	struct scoring ring[SCORER_RING];
	float *scores; /* (scores_capacity) of a batch */
	size_t scores_capacity;
};

weir_status scorer_open(struct scorer **out, const struct scorer_options *options, weir_error *err)
{
	assert((options->client != NULL) != (options->path != NULL));
	struct scorer *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	s->options = *options;
	weir_status status = WEIR_OK;
	if (options->path) {
		status = snapshot_open(&s->snapshot, options->path, err);
		if (status == WEIR_OK && options->trusted)
			snapshot_trust(s->snapshot);
		if (status == WEIR_OK)
			s->options.data = snapshot_data(s->snapshot);
		if (status == WEIR_OK && s->options.data.fields == 0 && !job_is_language(options->job))
			status = weir_fail(err, WEIR_E_INVALID,
			                   "%s is not of a click model of weir: its metadata do not name a number of fields", options->path);
	}
	const struct backend_options where = device_options(options->job, options->turn, options->threads, false);
	if (status == WEIR_OK && !(s->backend = backend_open(&where, err)))
		status = err && err->status != WEIR_OK ? err->status : WEIR_E_UNSUPPORTED;
	if (status == WEIR_OK)
		status = model_create(&s->model, s->backend, options->job, &s->options.data, err);
	/* Adapters do not give it, their model does. */
	if (status == WEIR_OK && model_transformer(s->model))
		s->options.data.vocabulary = transformer_config_of(model_transformer(s->model))->vocabulary;
	if (status == WEIR_OK)
		status =
		    s->snapshot ? snapshot_bind(s->snapshot, s->model, err) : tables_find(&s->tables, s->model, options->client, err);
	const struct job *job = options->job;
	const struct batch_pipeline_shape shape = {.fields = s->options.data.fields,
	                                           .dense_dim = s->options.data.dense_dim,
	                                           .context = job->data.format == DATA_TEXT ? job->data.context : 0,
	                                           .sequence = job->data.format == DATA_TOKENS ? job->data.sequence : 0};
	if (status == WEIR_OK)
		status = batch_pipeline_create(&s->pipeline, s->backend, s->model, &shape, err);
	for (size_t i = 0; i < SCORER_RING && status == WEIR_OK; i++)
		status = minibatch_init(&s->ring[i].data, s->backend, s->model, NULL, err);
	if (status == WEIR_OK)
		*out = s;
	else
		scorer_close(s);
	return status;
}

void scorer_close(struct scorer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < SCORER_RING; i++)
		minibatch_destroy(&s->ring[i].data);
	batch_pipeline_destroy(s->pipeline);
	model_destroy(s->model);
	if (s->backend)
		s->backend->ops->destroy(s->backend);
	snapshot_close(s->snapshot);
	catalogue_destroy(&s->catalogue);
	free(s->scores);
	free(s);
}

const struct model_data *scorer_data(const struct scorer *s)
{
	return &s->options.data;
}

/* Starts a pull of the items with keys, or of those without. */
static weir_status pull(struct scorer *s, struct minibatch *m, bool keyed, weir_ticket *ticket, weir_error *err)
{
	weir_pull_item items[MODEL_TABLES];
	size_t all = tables_pull_items(&s->tables, m, PULL_ALL, false, items), count = 0;
	for (size_t i = 0; i < all; i++)
		if ((items[i].keys != NULL) == keyed)
			items[count++] = items[i];
	return count > 0 ? weir_pull(s->options.client, NULL, items, count, NULL, NULL, ticket, err) : WEIR_OK;
}

/* Reads flat tables once per run; all batches share them. */
static weir_status load_flat(struct scorer *s, weir_error *err)
{
	struct minibatch *first = &s->ring[0].data;
	if (s->snapshot) {
		snapshot_fill_flat(s->snapshot, first);
	} else {
		weir_ticket ticket = 0;
		weir_status status = pull(s, first, false, &ticket, err);
		if (status == WEIR_OK)
			status = weir_wait(s->options.client, ticket, -1, err);
		if (status != WEIR_OK)
			return status;
	}
	return batch_pipeline_load_flat(s->pipeline, &first->input, err);
}

static weir_status start(struct scorer *s, struct scoring *b, struct prefetched *item, weir_error *err)
{
	b->item = item;
	weir_status status = minibatch_load(&b->data, &item->batch, err);
	if (status != WEIR_OK)
		return status;
	if (!s->snapshot)
		return pull(s, &b->data, true, &b->ticket, err);
	snapshot_fill_rows(s->snapshot, &b->data);
	return WEIR_OK;
}

static weir_status finish(struct scorer *s, struct scoring *b, scorer_rows_fn rows, void *arg, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (b->ticket != 0)
		status = weir_wait(s->options.client, b->ticket, -1, err);
	b->ticket = 0;
	const size_t n = (size_t)b->data.input.rows * model_row_scores(s->model);
	if (status == WEIR_OK && n > s->scores_capacity) {
		free(s->scores);
		s->scores = malloc(n * sizeof(float));
		s->scores_capacity = s->scores ? n : 0;
		if (!s->scores)
			status = weir_fail(err, WEIR_E_MEMORY, "out of memory for the scores of a batch");
	}
	if (status != WEIR_OK)
		return status;
	status = batch_pipeline_score(s->pipeline, &b->data.input, s->scores, err);
	return status == WEIR_OK ? rows(arg, &b->item->batch, s->scores, err) : status;
}

struct run {
	struct scorer *scorer;
	struct dataset *data;
	struct prefetcher *prefetcher;
	scorer_rows_fn rows;
	void *arg;
	uint32_t units, submitted, read; /* units of the data */
	uint64_t started, finished;      /* batches */
};

static weir_status submit_units(struct run *r, weir_error *err)
{
	while (r->submitted < r->units) {
		const struct prefetch_unit unit = {.tag = r->submitted, .data_unit = r->submitted, .end_batch = UINT32_MAX};
		weir_status status = prefetcher_submit(r->prefetcher, &unit);
		if (status == WEIR_E_BUSY)
			return WEIR_OK;
		if (status != WEIR_OK)
			return weir_fail(err, status, "the reader refused a unit");
		r->submitted++;
	}
	return WEIR_OK;
}

static weir_status start_next(struct run *r, weir_error *err)
{
	struct prefetched *item = NULL;
	weir_status status = prefetcher_next(r->prefetcher, &item, -1);
	if (status != WEIR_OK)
		return weir_fail(err, status, "the reader stopped");
	r->read += item->last;
	if (item->status == WEIR_OK && !item->empty)
		return start(r->scorer, &r->scorer->ring[r->started++ % SCORER_RING], item, err);
	status = item->status != WEIR_OK ? weir_fail(err, item->status, "%s", item->error.text) : WEIR_OK;
	prefetcher_recycle(r->prefetcher, item);
	return status;
}

static weir_status finish_next(struct run *r, weir_error *err)
{
	struct scoring *b = &r->scorer->ring[r->finished % SCORER_RING];
	weir_status status = finish(r->scorer, b, r->rows, r->arg, err);
	if (status != WEIR_OK)
		return status;
	prefetcher_recycle(r->prefetcher, b->item);
	b->item = NULL;
	r->finished++;
	return WEIR_OK;
}

static weir_status run_all(struct run *r, weir_error *err)
{
	weir_status status = load_flat(r->scorer, err);
	while (status == WEIR_OK && (r->read < r->units || r->finished < r->started)) {
		status = submit_units(r, err);
		while (status == WEIR_OK && r->read < r->submitted && r->started - r->finished < SCORER_RING)
			status = start_next(r, err);
		if (status == WEIR_OK && r->finished < r->started)
			status = finish_next(r, err);
	}
	return status;
}

weir_status scorer_run_raw(struct scorer *s, struct dataset *data, scorer_rows_fn rows, void *arg, weir_error *err)
{
	const struct dataset_info *info = dataset_get_info(data);
	const struct model_data *model = &s->options.data;
	if (info->fields != model->fields || info->dense_dim != model->dense_dim)
		return weir_fail(err, WEIR_E_INVALID,
		                 "the data have %u fields and %u numeric features, the model was trained with %u and %u: set data.fields",
		                 info->fields, info->dense_dim, model->fields, model->dense_dim);
	if (info->tasks > 1 && info->tasks != model->tasks)
		return weir_fail(err, WEIR_E_INVALID, "the data have %u labels, the model was trained with %u", info->tasks,
		                 model->tasks > 0 ? model->tasks : 1);
	if (info->vocabulary > model->vocabulary)
		return weir_fail(err, WEIR_E_INVALID, "the data have tokens below %u, the model was trained with those below %u",
		                 info->vocabulary, model->vocabulary);
	struct run r = {.scorer = s, .data = data, .rows = rows, .arg = arg, .units = info->units};
	weir_status status = prefetcher_create(&r.prefetcher, data, SCORER_PREFETCH, err);
	if (status != WEIR_OK)
		return status;
	status = run_all(&r, err);
	/* After a failure: operations under way must end before their memory is freed. */
	for (size_t i = 0; i < SCORER_RING; i++) {
		weir_error ignored = {0};
		if (s->ring[i].ticket != 0)
			(void)weir_wait(s->options.client, s->ring[i].ticket, -1, &ignored);
		if (s->ring[i].item)
			prefetcher_recycle(r.prefetcher, s->ring[i].item);
		s->ring[i].ticket = 0;
		s->ring[i].item = NULL;
	}
	prefetcher_destroy(r.prefetcher);
	return status;
}

weir_status scorer_load(struct scorer *s, weir_error *err)
{
	return load_flat(s, err);
}

weir_status scorer_score(struct scorer *s, const struct batch *batch, scorer_rows_fn rows, void *arg, weir_error *err)
{
	struct prefetched item = {.batch = *batch};
	struct scoring *b = &s->ring[0];
	weir_status status = start(s, b, &item, err);
	if (status == WEIR_OK)
		status = finish(s, b, rows, arg, err);
	b->item = NULL;
	return status;
}

const struct job *scorer_job(const struct scorer *s)
{
	return s->options.job;
}

const struct model *scorer_model(const struct scorer *s)
{
	return s->model;
}

/* The products of vectors as scores. */
struct products {
	const struct scorer *scorer;
	scorer_rows_fn rows;
	void *arg;
	float *scores; /* (capacity) */
	uint32_t capacity;
};

static weir_status multiply_rows(void *arg, const struct batch *batch, const float *vectors, weir_error *err)
{
	struct products *p = arg;
	const uint32_t width = model_vector_width(p->scorer->model);
	if (batch->rows > p->capacity) {
		free(p->scores);
		p->scores = malloc(batch->rows * sizeof *p->scores);
		p->capacity = p->scores ? batch->rows : 0;
		if (!p->scores)
			return weir_fail(err, WEIR_E_MEMORY, "out of memory for the scores of a batch");
	}
	for (uint32_t r = 0; r < batch->rows; r++) {
		const float *user = vectors + (size_t)r * 2 * width, *item = user + width;
		double sum = 0;
		for (uint32_t d = 0; d < width; d++)
			sum += (double)user[d] * (double)item[d];
		p->scores[r] = (float)(sum / (double)p->scorer->options.job->model.temperature);
	}
	return p->rows(p->arg, batch, p->scores, err);
}

weir_status scorer_run(struct scorer *s, struct dataset *data, scorer_rows_fn rows, void *arg, weir_error *err)
{
	struct products p = {.scorer = s, .rows = rows, .arg = arg};
	if (model_vector_width(s->model) == 0)
		return scorer_run_raw(s, data, rows, arg, err);
	const weir_status status = scorer_run_raw(s, data, multiply_rows, &p, err);
	free(p.scores);
	return status;
}

/* --- Quality */

/* A taker for each task. */
struct takers {
	struct quality_taker *of; /* (tasks) */
	size_t *rows;             /* (capacity) those of a batch that have the label */
	uint32_t tasks, capacity;
};

static weir_status add_task(struct takers *t, uint32_t task, struct scored *rows, uint32_t count, weir_error *err)
{
	rows->n = 0;
	for (uint32_t r = 0; r < count; r++)
		if (!isnan(scored_label(rows, r)))
			t->rows[rows->n++] = r;
	rows->rows = t->rows;
	return quality_add(&t->of[task], rows, err);
}

static weir_status add_clicks(void *arg, const struct batch *batch, const float *probabilities, weir_error *err)
{
	struct takers *t = arg;
	weir_status status = WEIR_OK;
	if (batch->rows > t->capacity) {
		free(t->rows);
		t->rows = malloc(batch->rows * sizeof *t->rows);
		t->capacity = t->rows ? batch->rows : 0;
		if (!t->rows)
			return weir_fail(err, WEIR_E_MEMORY, "out of memory for the rows of a batch");
	}
	for (uint32_t k = 0; k < t->tasks && status == WEIR_OK; k++) {
		struct scored rows = {.labels = batch->labels + k,
		                      .scores = probabilities + k,
		                      .weights = batch->weights,
		                      .groups = batch->groups,
		                      .stride = t->tasks};
		status = add_task(t, k, &rows, batch->rows, err);
	}
	return status;
}

/* The figures of the task that the job judges by, and the main ones of each. */
static weir_status take(const struct takers *t, const struct job *job, struct quality *out, weir_error *err)
{
	struct task_quality tasks[WEIR_TASKS_MAX];
	struct quality judged = quality_none();
	weir_status status = WEIR_OK;
	for (uint32_t k = 0; k < t->tasks && status == WEIR_OK; k++) {
		const struct job_column *label = job_column_label(job, k);
		status = quality_take(&t->of[k], job->train.rank_at, job->train.rank_at_count, out, err);
		tasks[k] = quality_of_task(label ? label->name : "", out);
		if (k == job_best_task(job))
			judged = *out;
	}
	*out = judged;
	out->tasks_count = t->tasks > 1 ? t->tasks : 0;
	memcpy(out->tasks, tasks, out->tasks_count * sizeof *tasks);
	return status;
}

static weir_status evaluate_clicks(struct scorer *s, struct dataset *data, struct quality *out, weir_error *err)
{
	struct takers t = {.tasks = model_row_scores(s->model)};
	t.of = calloc(t.tasks, sizeof *t.of);
	if (!t.of)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the figures of %u tasks", t.tasks);
	for (uint32_t k = 0; k < t.tasks; k++)
		quality_taker_init(&t.of[k]);
	weir_status status = scorer_run(s, data, add_clicks, &t, err);
	if (status == WEIR_OK)
		status = take(&t, s->options.job, out, err);
	for (uint32_t k = 0; k < t.tasks; k++)
		quality_taker_destroy(&t.of[k]);
	free(t.of);
	free(t.rows);
	return status;
}

struct total {
	double loss;
	uint64_t rows, not_numbers;
};

/* In the order of the text: the same weights give the same bits. */
static weir_status add_losses(void *arg, const struct batch *batch, const float *scores, weir_error *err)
{
	struct total *t = arg;
	(void)err;
	const size_t n = (size_t)batch->rows * (batch->sequence > 0 ? batch->sequence : 1);
	for (size_t i = 0; i < n; i++)
		t->loss -= (double)scores[i];
	t->not_numbers += score_not_numbers(&(struct scored){.scores = scores, .n = n});
	t->rows += batch->sequence > 0 ? batch->counted : batch->rows;
	return WEIR_OK;
}

static weir_status evaluate_text(struct scorer *s, struct dataset *data, struct quality *out, weir_error *err)
{
	struct total t = {0};
	weir_status status = scorer_run(s, data, add_losses, &t, err);
	*out = quality_none();
	out->logloss = t.not_numbers || !t.rows ? (double)NAN : t.loss / (double)t.rows;
	out->rows = t.rows;
	out->not_numbers = t.not_numbers;
	return status;
}

weir_status scorer_evaluate(struct scorer *s, struct dataset *data, struct quality *out, weir_error *err)
{
	if (model_vector_width(s->model) > 0)
		return scorer_evaluate_retrieval(s, &s->catalogue, data, out, err);
	return job_is_language(s->options.job) ? evaluate_text(s, data, out, err) : evaluate_clicks(s, data, out, err);
}

weir_status scorer_save(struct scorer *s, const char *path, weir_error *err)
{
	assert(s->options.client);
	return snapshot_save(path, &s->tables, s->options.client, &s->options.data,
	                     s->options.fingerprint ? s->options.fingerprint : "", err);
}
