#include "staging.h"

#include <stdlib.h>

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
	TOKENS,
	TARGETS,
	PLACES,
	SEED,
	LOSS,
	SCALE,
	NOT_FINITE,
	SCORES,
	PARTS
};

struct staging {
	struct backend *backend;
	struct model *model;
	struct staging_shape shape;
	struct buffer parts[PARTS], parameters[MODEL_TABLES], pulled[MODEL_TABLES], gradients[MODEL_TABLES];
	struct model_input input; /* in the backend's memory */
	struct model_output output;
	bool kept[MODEL_TABLES];
	bool failed; /* out of memory, in the batch at hand */
};

static bool is_host(const struct staging *s)
{
	return s->backend->ops->host_memory;
}

weir_status staging_create(struct staging **out, struct backend *b, struct model *model, const struct staging_shape *shape,
                           weir_error *err)
{
	struct staging *s = calloc(1, sizeof *s);
	if (s == NULL)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	s->backend = b;
	s->model = model;
	s->shape = *shape;
	*out = s;
	return WEIR_OK;
}

static void release(struct staging *s, struct buffer *b)
{
	if (b->at != NULL)
		s->backend->ops->buffer_free(s->backend, b->at);
	*b = (struct buffer){0};
}

void staging_destroy(struct staging *s)
{
	if (s == NULL)
		return;
	for (enum part p = 0; p < PARTS; p++)
		release(s, &s->parts[p]);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		release(s, &s->parameters[t]);
		release(s, &s->pulled[t]);
		release(s, &s->gradients[t]);
	}
	free(s);
}

/* --- There */

/* Room for so many bytes and a quarter more, so that slowly growing batches seldom move. NULL: out of memory, which is kept. */
static void *room(struct staging *s, struct buffer *b, size_t bytes)
{
	if (b->at == NULL || bytes > b->capacity) {
		release(s, b);
		const size_t capacity = bytes + bytes / 4 + 1;
		b->at = s->backend->ops->buffer_alloc(s->backend, capacity);
		b->capacity = b->at != NULL ? capacity : 0;
	}
	s->failed |= b->at == NULL;
	return b->at;
}

/* Where the backend finds what the host has at `from`; NULL for NULL. */
static const void *copied(struct staging *s, struct buffer *b, const void *from, size_t bytes)
{
	if (from == NULL || is_host(s))
		return from;
	void *to = room(s, b, bytes);
	if (to != NULL)
		s->backend->ops->to_device(s->backend, to, from, bytes);
	return to;
}

static size_t table_bytes(const struct staging *s, const struct model_input *in, enum model_table t)
{
	return model_table_elements(s->model, t) * (model_table_is_keyed(t) ? in->unique : 1) * sizeof(float);
}

static void load_parameters(struct staging *s, const struct model_input *in, bool keyed)
{
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (model_table_is_keyed(t) == keyed)
			s->input.parameters[t] = s->kept[t] || t == MODEL_STATISTICS /* which the model reads on the host */
			                             ? in->parameters[t]
			                             : copied(s, &s->parameters[t], in->parameters[t], table_bytes(s, in, t));
}

/* Keyed tables, of which the host has the rows that were pulled, and the backend those that it keeps. */
static void load_cached(struct staging *s, const struct model_input *in, const struct row_cache_batch *cached)
{
	const uint32_t *places = copied(s, &s->parts[PLACES], cached->words, row_cache_words(cached) * sizeof *places);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		if (!model_table_is_keyed(t) || !model_has(s->model, t))
			continue;
		const size_t bytes = cached->misses * model_table_elements(s->model, t) * sizeof(float);
		const float *pulled = copied(s, &s->pulled[t], in->parameters[t], bytes);
		float *rows = room(s, &s->parameters[t], table_bytes(s, in, t));
		if (!s->failed)
			row_cache_join(cached, places, t, pulled, rows);
		s->input.parameters[t] = rows;
	}
}

/* All but the flat tables. */
static void load_batch(struct staging *s, const struct model_input *in, const struct row_cache_batch *cached)
{
	const size_t rows = in->rows, bags = rows * s->shape.fields, nnz = in->offsets != NULL ? in->offsets[bags] : 0;
	struct model_input *to = &s->input;
	to->rows = in->rows;
	to->unique = in->unique;
	to->uses = in->uses;
	to->labels = copied(s, &s->parts[LABELS], in->labels, rows * sizeof(float));
	to->weights = copied(s, &s->parts[WEIGHTS], in->weights, rows * sizeof(float));
	to->dense = copied(s, &s->parts[NUMBERS], in->dense, rows * s->shape.dense_dim * sizeof(float));
	to->offsets = copied(s, &s->parts[OFFSETS], in->offsets, (bags + 1) * sizeof(uint32_t));
	to->row_offsets = copied(s, &s->parts[ROW_OFFSETS], in->row_offsets, (rows + 1) * sizeof(uint32_t));
	to->index = copied(s, &s->parts[INDEX], in->index, nnz * sizeof(uint32_t));
	to->values = copied(s, &s->parts[VALUES], in->values, nnz * sizeof(float));
	to->sequence = in->sequence;
	to->counted = in->counted;
	to->tokens = copied(s, &s->parts[TOKENS], in->tokens, rows * (s->shape.context + s->shape.sequence) * sizeof(uint32_t));
	to->targets =
	    copied(s, &s->parts[TARGETS], in->targets, rows * (s->shape.sequence > 0 ? s->shape.sequence : 1) * sizeof(uint32_t));
	if (cached != NULL)
		load_cached(s, in, cached);
	else
		load_parameters(s, in, true);
}

static void room_for_gradients(struct staging *s, const struct model_input *in, const struct model_output *out)
{
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		s->output.gradients[t] = is_host(s)               ? out->gradients[t]
		                         : model_has(s->model, t) ? room(s, &s->gradients[t], table_bytes(s, in, t))
		                                                  : NULL;
	s->output.loss_sum = is_host(s) ? out->loss_sum : room(s, &s->parts[LOSS], sizeof *out->loss_sum);
	s->output.not_finite = is_host(s) ? out->not_finite : room(s, &s->parts[NOT_FINITE], sizeof *out->not_finite);
}

/* --- Training and scoring */

void staging_keep(struct staging *s, enum model_table t)
{
	s->kept[t] = true;
}

float *staging_gradient(const struct staging *s, enum model_table t)
{
	return s->output.gradients[t];
}

/* What went wrong since the last time; what has been asked for is done. */
static weir_status settled(struct staging *s, weir_error *err)
{
	const bool failed = s->failed;
	s->failed = false;
	const weir_status status = s->backend->ops->sync(s->backend, err);
	if (status != WEIR_OK || !failed)
		return status;
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch: make data.batch smaller");
}

/* What tells how it went. */
static void bring_back(struct staging *s, const struct model_output *out)
{
	const struct backend_ops *ops = s->backend->ops;
	if (is_host(s))
		return;
	ops->to_host_later(s->backend, out->loss_sum, s->output.loss_sum, sizeof *out->loss_sum);
	if (s->input.loss_scale != NULL)
		ops->to_host_later(s->backend, out->not_finite, s->output.not_finite, sizeof *out->not_finite);
}

weir_status staging_train(struct staging *s, const struct model_input *in, const struct row_cache_batch *cached,
                          const struct staging_step *step, const struct model_output *out, weir_error *err)
{
	const float *scale = step->loss_scale > 0 ? &step->loss_scale : NULL;
	*out->not_finite = 0;
	load_batch(s, in, cached);
	load_parameters(s, in, false);
	room_for_gradients(s, in, out);
	const uint64_t *seed = copied(s, &s->parts[SEED], &step->seed, sizeof *seed);
	s->input.loss_scale = copied(s, &s->parts[SCALE], scale, sizeof *scale);
	if (s->failed)
		return settled(s, err);
	model_train(s->model, &s->input, seed, &s->output);
	if (scale != NULL)
		model_unscale(s->model, &s->input, &s->output);
	if (step->clip_norm > 0)
		model_clip(s->model, &s->input, &s->output, step->clip_norm);
	bring_back(s, out);
	return settled(s, err);
}

weir_status staging_load_flat(struct staging *s, const struct model_input *in, weir_error *err)
{
	load_parameters(s, in, false);
	return settled(s, err);
}

weir_status staging_score(struct staging *s, const struct model_input *in, float *scores, weir_error *err)
{
	const struct backend_ops *ops = s->backend->ops;
	load_batch(s, in, NULL);
	const size_t n = (size_t)in->rows * model_row_scores(s->model);
	float *made = room(s, &s->parts[SCORES], n * sizeof *made);
	if (s->failed)
		return settled(s, err);
	const float *out = model_score(s->model, &s->input);
	if (s->shape.context == 0 && s->shape.sequence == 0) {
		ops->sigmoid(s->backend, made, out, n);
		out = made;
	}
	ops->to_host(s->backend, scores, out, n * sizeof *scores);
	return settled(s, err);
}
