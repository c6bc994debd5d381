/* Runs models forward and backward, part by part. */
#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "worker/model/model_parts.h"
#include "worker/model/scratch.h"

/* Returns whether the numeric features are joined to the embeddings. Interaction does not join
 * them. */
static bool joins(const struct model *m)
{
	return m->parts.tower && !m->parts.interaction && m->dense_dim > 0;
}

/* A cross network computes the gradient of the numeric columns; towers alone skip it. */
static bool joined_gradient(const struct model *m)
{
	return joins(m) && m->parts.cross;
}

static weir_status no_memory(const struct model *m, uint32_t rows, weir_error *err)
{
	char what[32];
	snprintf(what, sizeof what, "a batch of %u rows", rows);
	return scratch_refused(m->backend, what, err);
}

double model_row_flops(const struct model *m)
{
	const uint32_t length = m->job->data.sequence;
	return m->parts.transformer ? length * transformer_flops(m->transformer, length) : 0;
}

uint32_t model_row_scores(const struct model *m)
{
	return m->parts.transformer ? m->job->data.sequence : 1;
}

/* Returns how many of `rows` one part of a training batch has (train.accumulate). */
static uint32_t rows_at_once(const struct model *m, uint32_t rows)
{
	const uint32_t parts = m->job->train.accumulate, most = parts > 1 ? (m->job->data.batch + parts - 1) / parts : rows;
	return most < rows ? most : rows;
}

weir_status model_reserve(struct model *m, uint32_t rows, bool training, weir_error *err)
{
	struct backend *b = m->backend;
	if (m->parts.transformer)
		return transformer_reserve(m->transformer, training ? rows_at_once(m, rows) : rows, m->job->data.sequence, training, err);
	if (rows <= m->rows)
		return WEIR_OK;
	b->ops->forget_replays(b);
	if (m->parts.ngram) {
		const weir_status made = ngram_reserve(&m->ngram, rows);
		m->rows = made == WEIR_OK ? rows : 0;
		return made == WEIR_OK ? made : no_memory(m, rows, err);
	}
	struct {
		float **buffer;
		size_t width;
	} wanted[] = {
	    {&m->logit, 1},
	    {&m->dlogit, 1},
	    {&m->pair, m->parts.fm ? 1 : 0},
	    {&m->sum, m->parts.fm ? m->dim : 0},
	    {&m->x, (size_t)m->fields * m->dim},
	    {&m->dx, (size_t)m->fields * m->dim},
	    {&m->joined, joins(m) ? m->features : 0},
	    {&m->djoined, joined_gradient(m) ? m->features : 0},
	};
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == WEIR_OK; i++)
		status = scratch_grow(b, wanted[i].buffer, rows * wanted[i].width);
	if (status == WEIR_OK && m->parts.tower)
		status = tower_reserve(&m->tower, rows);
	if (status == WEIR_OK && m->bottom.count > 0)
		status = tower_reserve(&m->bottom, rows);
	if (status == WEIR_OK && m->parts.cross)
		status = cross_reserve(&m->cross, rows);
	if (status == WEIR_OK && m->parts.interaction)
		status = interaction_reserve(&m->interaction, rows);
	m->rows = status == WEIR_OK ? rows : 0;
	return status == WEIR_OK ? status : no_memory(m, rows, err);
}

/* Gathers the keyed parameters: the logit's first-order part and the pooled embeddings. */
static void look_up(struct model *m, const struct model_input *in)
{
	struct backend *b = m->backend;
	if (m->parts.linear)
		b->ops->gather_pool(b, m->logit, in->parameters[MODEL_LINEAR], in->unique, 1, in->row_offsets, in->index, in->values,
		                    in->rows);
	if (m->parts.embedding)
		b->ops->gather_pool(b, m->x, in->parameters[MODEL_EMBEDDING], in->unique, m->dim, in->offsets, in->index, in->values,
		                    (size_t)in->rows * m->fields);
}

/* Writes the gradients of the keyed parameters. */
static void look_up_backward(struct model *m, const struct model_input *in, float *const *gradients)
{
	struct backend *b = m->backend;
	if (m->parts.linear)
		b->ops->scatter_sum(b, gradients[MODEL_LINEAR], in->unique, 1, m->dlogit, in->row_offsets, in->index, in->values,
		                    in->rows, in->uses);
	if (m->parts.embedding)
		b->ops->scatter_sum(b, gradients[MODEL_EMBEDDING], in->unique, m->dim, m->dx, in->offsets, in->index, in->values,
		                    (size_t)in->rows * m->fields, in->uses);
}

/* logit += numeric features (rows, dense_dim) . w (dense_dim) */
static void numeric_forward(struct model *m, const struct model_input *in)
{
	struct backend *b = m->backend;
	b->ops->gemm(b, false, false, in->rows, 1, m->dense_dim, 1.0f, in->dense, m->dense_dim,
	             in->parameters[MODEL_DENSE] + m->numeric, 1, 1.0f, m->logit, 1);
}

static void numeric_backward(struct model *m, const struct model_input *in, float *dparams)
{
	struct backend *b = m->backend;
	b->ops->gemm(b, true, false, m->dense_dim, 1, in->rows, 1.0f, in->dense, m->dense_dim, m->dlogit, 1, 0.0f,
	             dparams + m->numeric, 1);
}

/* logit += y (rows, n) . w (n) */
static void head_forward(struct model *m, const float *y, const float *w, size_t n, uint32_t rows)
{
	m->backend->ops->gemm(m->backend, false, false, rows, 1, n, 1.0f, y, n, w, 1, 1.0f, m->logit, 1);
}

/* dw = dlogit^T y; dy = dlogit w */
static void head_backward(struct model *m, const float *y, const float *w, size_t n, uint32_t rows, float *dw, float *dy)
{
	struct backend *b = m->backend;
	b->ops->gemm(b, true, false, 1, n, rows, 1.0f, m->dlogit, 1, y, n, 0.0f, dw, n);
	b->ops->gemm(b, false, false, rows, n, 1, 1.0f, m->dlogit, 1, w, n, 0.0f, dy, n);
}

/* Returns the input of tower and cross, (rows, features). */
static const float *features_forward(struct model *m, const struct model_input *in)
{
	struct backend *b = m->backend;
	const float *params = in->parameters[MODEL_DENSE];
	if (m->parts.interaction) {
		const struct forward_mode plain = {.training = false};
		const float *bottom = m->bottom.count > 0 ? tower_forward(&m->bottom, in->dense, in->rows, params, &plain) : NULL;
		return interaction_forward(&m->interaction, bottom, m->x, in->rows);
	}
	if (!joins(m))
		return m->x;
	b->ops->concat(b, m->joined, m->x, (size_t)m->fields * m->dim, in->dense, m->dense_dim, in->rows);
	return m->joined;
}

/* Computes the logit from the gathered parameters. */
static void forward(struct model *m, const struct model_input *in, const struct forward_mode *mode)
{
	struct backend *b = m->backend;
	const float *params = in->parameters[MODEL_DENSE];
	if (!m->parts.linear)
		b->ops->fill(b, m->logit, 0.0f, in->rows);
	else if (m->dense_dim > 0)
		numeric_forward(m, in);
	if (m->parts.fm) {
		b->ops->fm(b, m->pair, m->sum, m->x, in->rows, m->fields, m->dim);
		b->ops->axpy(b, m->logit, 1.0f, m->pair, in->rows);
	}
	if (m->parts.tower) {
		const float *features = features_forward(m, in);
		size_t width = tower_width(&m->tower);
		head_forward(m, tower_forward(&m->tower, features, in->rows, params, mode), params + m->head, width, in->rows);
		if (m->parts.cross)
			head_forward(m, cross_forward(&m->cross, features, in->rows, params), params + m->head + width, m->features,
			             in->rows);
	}
	b->ops->bias_act(b, m->logit, params + m->bias, in->rows, 1, ACT_NONE);
}

static struct ngram_batch ngram_batch_of(const struct model_input *in)
{
	return (struct ngram_batch){.rows = in->rows, .tokens = in->tokens, .targets = in->targets};
}

static struct token_batch tokens_of(const struct model_input *in, uint32_t first, uint32_t rows)
{
	const size_t before = (size_t)first * in->sequence;
	return (struct token_batch){
	    .sequences = rows, .length = in->sequence, .tokens = in->tokens + before, .targets = in->targets + before};
}

const float *model_score(struct model *m, const struct model_input *in)
{
	if (m->parts.transformer) {
		const struct token_batch batch = tokens_of(in, 0, in->rows);
		return transformer_score(m->transformer, &batch, in->parameters[MODEL_DENSE]);
	}
	const struct forward_mode mode = {.running = in->parameters[MODEL_STATISTICS]};
	if (m->parts.ngram) {
		const struct ngram_batch text = ngram_batch_of(in);
		return ngram_score(&m->ngram, &text, in->parameters[MODEL_DENSE], &mode);
	}
	assert(in->rows <= m->rows);
	look_up(m, in);
	forward(m, in, &mode);
	return m->logit;
}

static const float *tower_output(const struct tower *t)
{
	return t->layers[t->count - 1].y;
}

/* Writes d(loss)/dx of all parts that read the features. */
static void deep_backward(struct model *m, const struct model_input *in, float *dparams)
{
	struct backend *b = m->backend;
	const float *params = in->parameters[MODEL_DENSE];
	const float *features = joins(m) ? m->joined : m->x;
	float *dfeatures = joined_gradient(m) ? m->djoined : m->dx;
	uint32_t columns = joined_gradient(m) ? m->features : m->fields * m->dim;
	if (m->parts.interaction) {
		features = m->interaction.features;
		dfeatures = interaction_output_gradient(&m->interaction);
		columns = m->features;
	}
	size_t width = tower_width(&m->tower);
	head_backward(m, tower_output(&m->tower), params + m->head, width, in->rows, dparams + m->head,
	              tower_output_gradient(&m->tower));
	tower_backward(&m->tower, features, in->rows, params, dparams, dfeatures, columns);
	if (m->parts.cross) {
		const float *crossed = m->cross.layers[m->cross.count - 1].out;
		head_backward(m, crossed, params + m->head + width, m->features, in->rows, dparams + m->head + width,
		              cross_output_gradient(&m->cross));
		cross_backward(&m->cross, features, in->rows, params, dparams, dfeatures);
	}
	/* Puts the unused gradient of the numeric columns into m->joined, which is free by now. */
	if (joined_gradient(m))
		b->ops->split(b, m->djoined, m->dx, (size_t)m->fields * m->dim, m->joined, m->dense_dim, in->rows);
	if (m->parts.interaction) {
		bool bottom = m->bottom.count > 0;
		interaction_backward(&m->interaction, bottom ? tower_output(&m->bottom) : NULL, m->x, in->rows,
		                     bottom ? tower_output_gradient(&m->bottom) : NULL, m->dx);
		if (bottom)
			tower_backward(&m->bottom, in->dense, in->rows, params, dparams, NULL, 0);
	}
}

/* --- Training. The ops between the pooled embeddings and their gradient (for text, all ops) are
 * the same in each batch of one size, so that the backend can replay them. */

struct step {
	struct model *m;
	const struct model_input *in;
	const uint64_t *seed;
	const struct model_output *out;
};

/* All arguments of the replayed ops beyond the model's own buffers. It has no gaps, as keys are
 * compared byte by byte. */
struct step_key {
	const void *labels, *weights, *dense, *tokens, *targets, *parameters, *seed, *loss_scale, *gradient, *statistics, *loss;
	uint64_t counted;
	uint32_t rows, sequence;
};
_Static_assert(sizeof(struct step_key) == 13 * sizeof(uint64_t) && sizeof(struct step_key) <= BACKEND_REPLAY_KEY_BYTES,
               "no gaps");

static struct step_key key_of(const struct step *s)
{
	return (struct step_key){.labels = s->in->labels,
	                         .weights = s->in->weights,
	                         .dense = s->in->dense,
	                         .tokens = s->in->tokens,
	                         .targets = s->in->targets,
	                         .parameters = s->in->parameters[MODEL_DENSE],
	                         .seed = s->seed,
	                         .loss_scale = s->in->loss_scale,
	                         .gradient = s->out->gradients[MODEL_DENSE],
	                         .statistics = s->out->gradients[MODEL_STATISTICS],
	                         .loss = s->out->loss_sum,
	                         .counted = s->in->counted,
	                         .rows = s->in->rows,
	                         .sequence = s->in->sequence};
}

static struct forward_mode training_mode(const struct step *s)
{
	return (struct forward_mode){
	    .training = true, .seed = s->seed, .batch_stats = s->out->gradients[MODEL_STATISTICS], .loss_scale = s->in->loss_scale};
}

static void train_text(void *arg)
{
	const struct step *s = arg;
	const struct forward_mode mode = training_mode(s);
	const struct ngram_batch text = ngram_batch_of(s->in);
	ngram_train(&s->m->ngram, &text, s->in->parameters[MODEL_DENSE], &mode, s->out->gradients[MODEL_DENSE], s->out->loss_sum);
}

/* Trains on the batch part by part and adds up losses and gradients. */
static void train_transformer(void *arg)
{
	const struct step *s = arg;
	struct model *m = s->m;
	const struct model_input *in = s->in;
	const struct model_output *out = s->out;
	const uint32_t most = rows_at_once(m, in->rows);
	struct transformer_step step = {
	    .scale = in->counted > 0 ? (float)(1 / (double)in->counted) : 0, .seed = s->seed, .loss_scale = in->loss_scale};
	m->backend->ops->fill(m->backend, (float *)out->loss_sum, 0, sizeof *out->loss_sum / sizeof(float));
	for (uint32_t first = 0, rows; first < in->rows; first += rows) {
		rows = in->rows - first < most ? in->rows - first : most;
		const struct token_batch part = tokens_of(in, first, rows);
		step.first = (size_t)first * in->sequence;
		transformer_train(m->transformer, &part, in->parameters[MODEL_DENSE], out->gradients[MODEL_DENSE], &step, out->loss_sum);
	}
}

static void train_clicks(void *arg)
{
	const struct step *s = arg;
	struct model *m = s->m;
	struct backend *b = m->backend;
	const struct model_input *in = s->in;
	float *dparams = s->out->gradients[MODEL_DENSE];
	const struct forward_mode mode = training_mode(s);
	forward(m, in, &mode);
	b->ops->bce(b, s->out->loss_sum, m->dlogit, m->logit, in->labels, in->weights, in->rows, 1.0f / (float)in->rows);
	if (in->loss_scale)
		b->ops->scale_by(b, m->dlogit, in->rows, in->loss_scale);
	b->ops->bias_act_backward(b, m->dlogit, m->dlogit, m->logit, dparams + m->bias, in->rows, 1, ACT_NONE);
	if (m->parts.linear && m->dense_dim > 0)
		numeric_backward(m, in, dparams);
	if (m->parts.tower)
		deep_backward(m, in, dparams);
	else if (m->parts.fm)
		b->ops->fill(b, m->dx, 0.0f, (size_t)in->rows * m->fields * m->dim);
	if (m->parts.fm)
		b->ops->fm_backward(b, m->dx, m->dlogit, m->sum, m->x, in->rows, m->fields, m->dim);
}

void model_train(struct model *m, const struct model_input *in, const uint64_t *seed, const struct model_output *out)
{
	const struct backend_ops *ops = m->backend->ops;
	struct step step = {m, in, seed, out};
	const struct step_key key = key_of(&step);
	/* Transformers check their own reservation. */
	assert(m->parts.transformer || in->rows <= m->rows);
	if (m->parts.transformer || m->parts.ngram) {
		ops->replay(m->backend, &key, sizeof key, m->parts.transformer ? train_transformer : train_text, &step);
		return;
	}
	look_up(m, in);
	ops->replay(m->backend, &key, sizeof key, train_clicks, &step);
	look_up_backward(m, in, out->gradients);
}

/* Lists the gradients that exist for this batch. Statistics are not a gradient. */
static size_t gradients_of(const struct model *m, const struct model_input *in, const struct model_output *out,
                           struct floats all[MODEL_TABLES])
{
	size_t count = 0;
	for (enum model_table t = 0; t < MODEL_STATISTICS; t++) {
		const size_t elements = model_table_elements(m, t) * (model_table_is_keyed(t) ? in->unique : 1);
		if (elements > 0)
			all[count++] = (struct floats){out->gradients[t], elements};
	}
	return count;
}

void model_unscale(struct model *m, const struct model_input *in, const struct model_output *out)
{
	struct floats all[MODEL_TABLES];
	const size_t count = gradients_of(m, in, out, all);
	m->backend->ops->unscale(m->backend, all, count, in->loss_scale, out->not_finite);
}

size_t model_measure(struct model *m, const struct model_input *in, const struct model_output *out)
{
	struct floats all[MODEL_TABLES];
	const size_t count = gradients_of(m, in, out, all);
	for (size_t i = 0; i < count; i++)
		m->backend->ops->sum_squares(m->backend, &out->squares[i], all[i].at, all[i].n);
	return count;
}

void model_clip(struct model *m, const struct model_input *in, const struct model_output *out, float clip_norm)
{
	struct floats all[MODEL_TABLES];
	const size_t count = gradients_of(m, in, out, all);
	for (size_t i = 0; i < count; i++)
		m->backend->ops->clip(m->backend, all[i].at, all[i].n, out->squares, count, clip_norm);
}
