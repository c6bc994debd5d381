#include "worker/train/batch/batch_pipeline.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/model/bags/history.h"

/* A buffer of the backend that grows to the largest batch seen. */
struct buffer {
	void *at;
	size_t capacity; /* bytes */
};

enum part {
	LABELS,
	WEIGHTS,
	NUMBERS,
	OFFSETS,
	ROW_OFFSETS,
	INDEX,
	VALUES,
	GROUP_OFFSETS,
	GROUP_INDEX,
	GROUP_VALUES,
	HISTORIES,
	ITEMS,
	LOG_Q,
	TOKENS,
	TARGETS,
	PLACES,
	STEP,
	LOSS,
	NOT_FINITE,
	SQUARES,
	SCORES,
	PARTS
};

/* One batch, in the backend's memory. */
struct set {
	struct buffer parts[PARTS], parameters[MODEL_TABLES], pulled[MODEL_TABLES], gradients[MODEL_TABLES];
	struct model_input input;
	struct model_output output;
	struct batch_pipeline_step *step;    /* in host memory, from host_alloc */
	double *squares;                     /* (MODEL_TABLES) likewise: squares of its gradients */
	size_t measured;                     /* number of squares; 0: not measured */
	struct model_output host;            /* output addresses on the host */
	struct backend_mark there, computed; /* marks: its input is on the device; it is computed */
};

struct batch_pipeline {
	struct backend *backend;
	struct model *model;
	struct batch_pipeline_shape shape;
	struct set sets[STAGING_SETS];
	struct set *set;              /* of the present batch */
	uint64_t launched, collected; /* batches; collected <= launched <= collected + STAGING_SETS */
	struct backend_mark before, back;
	bool kept[MODEL_TABLES];
	bool failed; /* out of memory, in the present batch */
};

static bool is_host(const struct batch_pipeline *s)
{
	return s->backend->ops->host_memory;
}

weir_status batch_pipeline_create(struct batch_pipeline **out, struct backend *b, struct model *model,
                                  const struct batch_pipeline_shape *shape, weir_error *err)
{
	struct batch_pipeline *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	s->backend = b;
	s->model = model;
	s->shape = *shape;
	s->set = s->sets;
	*out = s;
	bool whole = true;
	for (struct set *set = s->sets; set < s->sets + STAGING_SETS; set++) {
		set->step = b->ops->host_alloc(b, sizeof *set->step);
		set->squares = b->ops->host_alloc(b, MODEL_TABLES * sizeof *set->squares);
		whole &= set->step && set->squares != NULL;
	}
	return whole ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory");
}

static void release(struct batch_pipeline *s, struct buffer *b)
{
	if (b->at)
		s->backend->ops->buffer_free(s->backend, b->at);
	*b = (struct buffer){0};
}

static void set_destroy(struct batch_pipeline *s, struct set *set)
{
	for (enum part p = 0; p < PARTS; p++)
		release(s, &set->parts[p]);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		release(s, &set->parameters[t]);
		release(s, &set->pulled[t]);
		release(s, &set->gradients[t]);
	}
	if (set->step)
		s->backend->ops->host_free(s->backend, set->step);
	if (set->squares)
		s->backend->ops->host_free(s->backend, set->squares);
	s->backend->ops->free_mark(s->backend, &set->there);
	s->backend->ops->free_mark(s->backend, &set->computed);
}

void batch_pipeline_destroy(struct batch_pipeline *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < STAGING_SETS; i++)
		set_destroy(s, &s->sets[i]);
	s->backend->ops->free_mark(s->backend, &s->before);
	s->backend->ops->free_mark(s->backend, &s->back);
	free(s);
}

/* --- To the backend */

/* Room for `bytes` and a quarter more, on the chosen stream, so that slowly growing batches seldom
 * reallocate. NULL: out of memory; the failure is remembered. */
static void *room(struct batch_pipeline *s, struct buffer *b, size_t bytes)
{
	if (!b->at || bytes > b->capacity) {
		release(s, b);
		const size_t capacity = bytes + bytes / 4 + 1;
		b->at = s->backend->ops->buffer_alloc(s->backend, capacity);
		b->capacity = b->at ? capacity : 0;
	}
	s->failed |= !b->at;
	return b->at;
}

/* The backend's address of the host's data at `from`; NULL for NULL. */
static const void *copied(struct batch_pipeline *s, struct buffer *b, const void *from, size_t bytes)
{
	if (!from || is_host(s))
		return from;
	void *to = room(s, b, bytes);
	if (to)
		s->backend->ops->to_device(s->backend, to, from, bytes);
	return to;
}

static size_t table_bytes(const struct batch_pipeline *s, const struct model_input *in, enum model_table t)
{
	return model_table_elements(s->model, t) * model_table_rows(s->model, in, t).count * sizeof(float);
}

static void load_parameters(struct batch_pipeline *s, const struct model_input *in, bool keyed)
{
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (model_table_is_keyed(t) == keyed)
			/* The model reads them on the host. */
			s->set->input.parameters[t] = s->kept[t] || t == MODEL_STATISTICS
			                                  ? in->parameters[t]
			                                  : copied(s, &s->set->parameters[t], in->parameters[t], table_bytes(s, in, t));
}

/* Loads keyed tables: the host has the pulled rows, the backend the cached ones. */
static void load_cached(struct batch_pipeline *s, const struct model_input *in, const struct row_cache_batch *cached)
{
	const uint32_t *places = copied(s, &s->set->parts[PLACES], cached->words, row_cache_words(cached) * sizeof *places);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		if (!model_table_is_keyed(t) || !model_has(s->model, t))
			continue;
		const size_t bytes = row_cache_misses(cached, t) * model_table_elements(s->model, t) * sizeof(float);
		const float *pulled = copied(s, &s->set->pulled[t], in->parameters[t], bytes);
		float *rows = room(s, &s->set->parameters[t], table_bytes(s, in, t));
		if (!s->failed)
			row_cache_join(cached, places, t, pulled, rows);
		s->set->input.parameters[t] = rows;
	}
}

static void load_histories(struct batch_pipeline *s, const struct model_input *in)
{
	struct job_history of[WEIR_HISTORIES_MAX];
	struct model_input *to = &s->set->input;
	const uint32_t count = model_histories(s->model, of);
	size_t words = 0;
	for (uint32_t i = 0; i < count; i++) {
		to->history_uses[i] = in->history_uses[i];
		words += history_words(in->rows, in->history_uses[i]);
	}
	to->histories = copied(s, &s->set->parts[HISTORIES], in->histories, words * sizeof *in->histories);
}

static void load_groups(struct batch_pipeline *s, const struct model_input *in, size_t bags, size_t nnz)
{
	struct model_input *to = &s->set->input;
	const size_t offsets = bags + model_field_groups(s->model)->count;
	memcpy(to->group_begin, in->group_begin, sizeof to->group_begin);
	memcpy(to->group_uses, in->group_uses, sizeof to->group_uses);
	to->group_offsets = copied(s, &s->set->parts[GROUP_OFFSETS], in->group_offsets, offsets * sizeof(uint32_t));
	to->group_index = copied(s, &s->set->parts[GROUP_INDEX], in->group_index, nnz * sizeof(uint32_t));
	to->group_values = copied(s, &s->set->parts[GROUP_VALUES], in->group_values, nnz * sizeof(float));
}

/* Loads everything except the flat tables. */
static void load_batch(struct batch_pipeline *s, const struct model_input *in, const struct row_cache_batch *cached)
{
	const size_t rows = in->rows, bags = rows * s->shape.fields, nnz = in->offsets ? in->offsets[bags] : 0;
	struct model_input *to = &s->set->input;
	to->rows = in->rows;
	to->unique = in->unique;
	to->uses = in->uses;
	to->negatives = in->negatives;
	to->labels = copied(s, &s->set->parts[LABELS], in->labels, rows * model_row_labels(s->model) * sizeof(float));
	to->weights = copied(s, &s->set->parts[WEIGHTS], in->weights, rows * sizeof(float));
	to->dense = copied(s, &s->set->parts[NUMBERS], in->dense, rows * s->shape.dense_dim * sizeof(float));
	to->offsets = copied(s, &s->set->parts[OFFSETS], in->offsets, (bags + 1) * sizeof(uint32_t));
	to->row_offsets = copied(s, &s->set->parts[ROW_OFFSETS], in->row_offsets, (rows + 1) * sizeof(uint32_t));
	to->index = copied(s, &s->set->parts[INDEX], in->index, nnz * sizeof(uint32_t));
	to->values = copied(s, &s->set->parts[VALUES], in->values, nnz * sizeof(float));
	to->items = copied(s, &s->set->parts[ITEMS], in->items, rows * sizeof(uint32_t));
	to->log_q = copied(s, &s->set->parts[LOG_Q], in->log_q, rows * sizeof(float));
	load_groups(s, in, bags, nnz);
	load_histories(s, in);
	to->sequence = in->sequence;
	to->counted = in->counted;
	to->flow = in->flow;
	to->tokens = copied(s, &s->set->parts[TOKENS], in->tokens, rows * (s->shape.context + s->shape.sequence) * sizeof(uint32_t));
	to->targets = copied(s, &s->set->parts[TARGETS], in->targets,
	                     rows * (s->shape.sequence > 0 ? s->shape.sequence : 1) * sizeof(uint32_t));
	if (cached)
		load_cached(s, in, cached);
	else
		load_parameters(s, in, true);
}

static void room_for_gradients(struct batch_pipeline *s, const struct model_input *in, const struct model_output *out)
{
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		s->set->output.gradients[t] = is_host(s)               ? out->gradients[t]
		                              : model_has(s->model, t) ? room(s, &s->set->gradients[t], table_bytes(s, in, t))
		                                                       : NULL;
	s->set->output.loss_sum = is_host(s) ? out->loss_sum : room(s, &s->set->parts[LOSS], sizeof *out->loss_sum);
	s->set->output.not_finite = is_host(s) ? out->not_finite : room(s, &s->set->parts[NOT_FINITE], sizeof *out->not_finite);
	s->set->output.squares = is_host(s) ? s->set->squares : room(s, &s->set->parts[SQUARES], MODEL_TABLES * sizeof(double));
	s->set->host = *out;
	*out->not_finite = 0;
}

/* --- Training and scoring */

void batch_pipeline_keep(struct batch_pipeline *s, enum model_table t)
{
	s->kept[t] = true;
}

static struct set *set_of(struct batch_pipeline *s, uint64_t batch)
{
	return &s->sets[batch % STAGING_SETS];
}

/* Waits for every stream. Returns the error since the last call, if any. */
static weir_status settled(struct batch_pipeline *s, weir_error *err)
{
	const bool failed = s->failed;
	s->failed = false;
	const weir_status status = s->backend->ops->sync(s->backend, err);
	if (status != WEIR_OK || !failed)
		return status;
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch: make data.batch smaller");
}

/* Trains the present set. step: in the backend's memory. */
static void train(struct batch_pipeline *s, const struct batch_pipeline_step *step)
{
	struct set *set = s->set;
	const bool scaled = set->step->loss_scale > 0;
	set->input.loss_scale = scaled ? &step->loss_scale : NULL;
	model_train(s->model, &set->input, &step->seed, &set->output);
	if (scaled)
		model_unscale(s->model, &set->input, &set->output);
	const bool clips = set->step->clip_norm > 0;
	set->measured = clips || set->input.sequence > 0 ? model_measure(s->model, &set->input, &set->output) : 0;
	if (clips)
		model_clip(s->model, &set->input, &set->output, set->step->clip_norm);
}

/* Copies back loss, not_finite and squares. */
static void bring_back(struct batch_pipeline *s, const struct set *set)
{
	const struct backend_ops *ops = s->backend->ops;
	if (is_host(s))
		return;
	ops->to_host_later(s->backend, set->host.loss_sum, set->output.loss_sum, sizeof *set->host.loss_sum);
	if (set->input.loss_scale)
		ops->to_host_later(s->backend, set->host.not_finite, set->output.not_finite, sizeof *set->host.not_finite);
	if (set->measured > 0)
		ops->to_host_later(s->backend, set->squares, set->output.squares, set->measured * sizeof *set->squares);
}

weir_status batch_pipeline_launch(struct batch_pipeline *s, const struct model_input *in, const struct row_cache_batch *cached,
                                  const struct batch_pipeline_step *step, const struct model_output *out, weir_error *err)
{
	struct backend *b = s->backend;
	assert(s->launched - s->collected < STAGING_SETS);
	struct set *set = s->set = set_of(s, s->launched);
	b->ops->set_mark(b, &s->before);
	/* Nothing reads there: the set's last batch is collected. */
	const enum backend_stream chosen = b->ops->choose_stream(b, STREAM_IN);
	load_batch(s, in, cached);
	load_parameters(s, in, false);
	*set->step = *step;
	const struct batch_pipeline_step *there = copied(s, &set->parts[STEP], set->step, sizeof *there);
	b->ops->set_mark(b, &set->there);
	b->ops->choose_stream(b, STREAM_COMPUTE);
	b->ops->follow_mark(b, &s->before);
	b->ops->follow_mark(b, &set->there);
	room_for_gradients(s, in, out);
	if (!s->failed) {
		train(s, there);
		b->ops->set_mark(b, &set->computed);
		s->launched++;
	}
	b->ops->choose_stream(b, chosen);
	return s->failed ? settled(s, err) : WEIR_OK;
}

weir_status batch_pipeline_collect(struct batch_pipeline *s, weir_error *err)
{
	struct backend *b = s->backend;
	assert(s->collected < s->launched);
	const struct set *set = set_of(s, s->collected++);
	b->ops->follow_mark(b, &set->computed);
	bring_back(s, set);
	b->ops->set_mark(b, &s->back);
	return b->ops->await_mark(b, &s->back, err);
}

float *batch_pipeline_gradient(const struct batch_pipeline *s, enum model_table t)
{
	return s->sets[(s->collected - 1) % STAGING_SETS].output.gradients[t];
}

double batch_pipeline_gradient_norm(const struct batch_pipeline *s)
{
	const struct set *set = &s->sets[(s->collected - 1) % STAGING_SETS];
	double sum = 0;
	for (size_t i = 0; i < set->measured; i++)
		sum += set->squares[i];
	return sqrt(sum);
}

weir_status batch_pipeline_train(struct batch_pipeline *s, const struct model_input *in, const struct row_cache_batch *cached,
                                 const struct batch_pipeline_step *step, const struct model_output *out, weir_error *err)
{
	const weir_status status = batch_pipeline_launch(s, in, cached, step, out, err);
	return status == WEIR_OK ? batch_pipeline_collect(s, err) : status;
}

void batch_pipeline_drop(struct batch_pipeline *s)
{
	(void)settled(s, NULL); /* a permanent failure is reported again */
	s->collected = s->launched;
}

weir_status batch_pipeline_load_flat(struct batch_pipeline *s, const struct model_input *in, weir_error *err)
{
	load_parameters(s, in, false);
	return settled(s, err);
}

weir_status batch_pipeline_score(struct batch_pipeline *s, const struct model_input *in, float *scores, weir_error *err)
{
	const struct backend_ops *ops = s->backend->ops;
	load_batch(s, in, NULL);
	const size_t n = (size_t)in->rows * model_row_scores(s->model);
	float *made = room(s, &s->set->parts[SCORES], n * sizeof *made);
	if (s->failed)
		return settled(s, err);
	const float *out = model_score(s->model, &s->set->input);
	if (s->shape.context == 0 && s->shape.sequence == 0 && model_vector_width(s->model) == 0) {
		ops->sigmoid(s->backend, made, out, n);
		out = made;
	}
	ops->to_host(s->backend, scores, out, n * sizeof *scores);
	return settled(s, err);
}
