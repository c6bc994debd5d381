/* The family of click models: look-ups, features, terms and the head (model.h). */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "worker/model/click_features.h"
#include "worker/model/click_histories.h"
#include "worker/model/click_look_up.h"
#include "worker/model/click_part.h"
#include "worker/model/model_parts.h"
#include "worker/model/scratch.h"

/* A term of the model. */
struct term {
	const struct click_part *is;
	void *state;
	uint32_t width; /* of its output; 0: it adds to the logit */
	uint64_t head;  /* offset of its share of the head: (width) */
	uint64_t at;    /* offset of its parameters: (elements) */
	uint64_t elements;
	const float *out; /* (rows, width) of the last forward */
};

struct click_model {
	struct term terms[CLICK_PARTS];
	uint32_t count;
	struct click_features features;
	bool reads_features;
	uint32_t fields;
	uint64_t bias; /* offset: (tasks) */
	struct click_loss loss;
	float *task_weights;          /* (tasks) of the loss; NULL: all 1 */
	float *logit, *dlogit;        /* (rows, tasks) */
	struct click_look_up look_up; /* of the embeddings */
	struct click_histories histories;
};

#define CLICK_PART_EXTERN(NAME, name) extern const struct click_part name##_part;
CLICK_PART_MAP(CLICK_PART_EXTERN)
#undef CLICK_PART_EXTERN

const struct click_part *click_part(enum model_part part)
{
	static const struct click_part *const parts[] = {
#define CLICK_PART_ROW(NAME, name) [PART_##NAME] = &name##_part,
	    CLICK_PART_MAP(CLICK_PART_ROW)
#undef CLICK_PART_ROW
	};
	assert(part < CLICK_PARTS);
	return parts[part];
}

static weir_status check(const struct job *job, const struct model_data *data, weir_error *err)
{
	const enum model_kind kind = job->model.kind;
	const char *name = model_kind_name(kind);
	weir_status status = WEIR_OK;
	if (data->fields == 0)
		return weir_fail(err, WEIR_E_INVALID, "the data has no categorical fields: model %s has nothing to look up", name);
	if (data->fields > WEIR_FIELDS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "the data have %u fields: at most %u", data->fields, WEIR_FIELDS_MAX);
	if (data->tasks > 1 && !model_kind_has(kind, PART_TASKS))
		return weir_fail(err, WEIR_E_INVALID, "the data have %u labels: model %s learns one, and mmoe and shared_bottom all",
		                 data->tasks, name);
	if (job->train.loss.task_weights_count > 0 && data->tasks > 0 && job->train.loss.task_weights_count != data->tasks)
		return weir_fail(err, WEIR_E_INVALID, "train.loss.task_weights has %u numbers, and the data have %u labels",
		                 job->train.loss.task_weights_count, data->tasks);
	if (model_kind_has(kind, PART_EMBEDDING) && job->model.dim == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.dim is 0: model %s needs embeddings of at least 1", name);
	for (enum model_part p = 0; p < CLICK_PARTS && status == WEIR_OK; p++)
		if (model_kind_has(kind, p) && click_part(p)->check)
			status = click_part(p)->check(job, data, err);
	if (status == WEIR_OK)
		status = click_features_check(job, data->fields, data->dense_dim, err);
	if (status == WEIR_OK && !(job->model.dropout >= 0.0f && job->model.dropout < 1.0f))
		return weir_fail(err, WEIR_E_INVALID, "model.dropout is %g: expected at least 0 and below 1", (double)job->model.dropout);
	return status;
}

static weir_status add_terms(struct model *m, const struct click_place *place)
{
	struct click_model *c = m->clicks;
	for (enum model_part p = 0; p < CLICK_PARTS; p++) {
		if (!model_kind_has(m->job->model.kind, p))
			continue;
		struct term *t = &c->terms[c->count++];
		t->is = click_part(p);
		t->at = m->params.elements;
		t->state = t->is->create(place);
		if (!t->state)
			return WEIR_E_MEMORY;
		t->elements = m->params.elements - t->at;
		t->width = t->is->width ? t->is->width(t->state) : 0;
	}
	return WEIR_OK;
}

/* The head over all outputs is one tensor, as if over their concatenation. */
static void add_head(struct model *m)
{
	struct click_model *c = m->clicks;
	uint32_t width = 0;
	for (uint32_t i = 0; i < c->count; i++)
		width += c->terms[i].width;
	if (width == 0)
		return;
	uint64_t at = layout_add(&m->params, 1, width, WEIR_INIT_UNIFORM, 1.0f / sqrtf((float)width), "head.weight");
	for (uint32_t i = 0; i < c->count; i++) {
		c->terms[i].head = at;
		at += c->terms[i].width;
	}
}

static struct click_loss loss_of(const struct job *job)
{
	return (struct click_loss){.focal = job->train.loss.kind == LOSS_FOCAL,
	                           .gamma = job->train.loss.gamma,
	                           .alpha = job->train.loss.alpha,
	                           .label_smoothing = job->train.loss.label_smoothing,
	                           .pos_weight = job->train.loss.pos_weight};
}

static weir_status put_task_weights(struct model *m)
{
	struct backend *b = m->backend;
	const size_t bytes = m->job->train.loss.task_weights_count * sizeof(float);
	if (bytes == 0)
		return WEIR_OK;
	m->clicks->task_weights = b->ops->buffer_alloc(b, bytes);
	if (m->clicks->task_weights)
		b->ops->to_device(b, m->clicks->task_weights, m->job->train.loss.task_weights, bytes);
	return m->clicks->task_weights ? WEIR_OK : WEIR_E_MEMORY;
}

static weir_status create(struct model *m, const struct model_data *data, weir_error *err)
{
	const enum model_kind kind = m->job->model.kind;
	struct click_model *c = m->clicks = calloc(1, sizeof *c);
	if (!c)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a model");
	c->fields = data->fields;
	c->loss = loss_of(m->job);
	m->linear = model_kind_has(kind, PART_LINEAR);
	m->tasks = data->tasks > 0 ? data->tasks : 1;
	c->bias = layout_add(&m->params, m->tasks, 0, WEIR_INIT_ZERO, 0.0f, "bias");
	if (model_kind_has(kind, PART_ATTENTION))
		click_histories_init(&c->histories, m->backend, m->job, data->fields, &m->params, &m->stats);
	bool whole = false;
	for (enum model_part p = 0; p < CLICK_PARTS; p++)
		if (model_kind_has(kind, p)) {
			c->reads_features |= click_part(p)->reads == CLICK_READS_FEATURES;
			whole |= click_part(p)->whole_gradient;
		}
	click_features_init(&c->features, m->backend, m->job, data, &m->groups, c->reads_features, whole, &m->params, &m->stats);
	const struct click_place place = {.backend = m->backend,
	                                  .job = m->job,
	                                  .fields = data->fields,
	                                  .dense_dim = data->dense_dim,
	                                  .dim = m->groups.dim[0],
	                                  .features = c->features.width,
	                                  .tasks = m->tasks,
	                                  .params = &m->params,
	                                  .stats = &m->stats};
	if (add_terms(m, &place) != WEIR_OK ||
	    click_look_up_init(&c->look_up, m->backend, m->job, &m->groups, data->fields) != WEIR_OK ||
	    put_task_weights(m) != WEIR_OK)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a model");
	add_head(m);
	return WEIR_OK;
}

static void destroy(struct model *m)
{
	struct click_model *c = m->clicks;
	if (!c)
		return;
	for (uint32_t i = 0; i < c->count; i++)
		if (c->terms[i].state)
			c->terms[i].is->destroy(c->terms[i].state);
	click_features_destroy(&c->features);
	click_histories_destroy(&c->histories);
	float **buffers[] = {&c->logit, &c->dlogit, &c->task_weights};
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
		scratch_free(m->backend, buffers[i]);
	click_look_up_destroy(&c->look_up);
	free(c);
}

static weir_status reserve(struct model *m, uint32_t rows, bool training, weir_error *err)
{
	(void)training;
	if (rows <= m->rows)
		return WEIR_OK;
	struct backend *b = m->backend;
	struct click_model *c = m->clicks;
	const size_t logits = (size_t)rows * m->tasks;
	b->ops->forget_replays(b);
	weir_status status = scratch_grow(b, &c->logit, logits);
	if (status == WEIR_OK)
		status = scratch_grow(b, &c->dlogit, logits);
	if (status == WEIR_OK)
		status = click_look_up_reserve(&c->look_up, rows);
	if (status == WEIR_OK)
		status = click_features_reserve(&c->features, rows);
	if (status == WEIR_OK)
		status = click_histories_reserve_rows(&c->histories, rows);
	for (uint32_t i = 0; i < c->count && status == WEIR_OK; i++)
		if (c->terms[i].is->reserve)
			status = c->terms[i].is->reserve(c->terms[i].state, rows);
	m->rows = status == WEIR_OK ? rows : 0;
	return status == WEIR_OK ? status : model_no_memory(m, rows, err);
}

static weir_status reserve_histories(struct model *m, const struct model_input *in, weir_error *err)
{
	const weir_status status = click_histories_reserve_uses(&m->clicks->histories, in);
	return status == WEIR_OK ? status : model_no_memory(m, in->rows, err);
}

static uint32_t histories(const struct model *m, struct job_history out[WEIR_HISTORIES_MAX])
{
	const struct click_histories *h = &m->clicks->histories;
	for (uint32_t i = 0; i < h->count; i++)
		out[i] = h->of[i].of;
	return h->count;
}

/* Gathers the keyed parameters: the logit's first-order part and the pooled embeddings. */
static void look_up(struct model *m, const struct model_input *in)
{
	struct backend *b = m->backend;
	struct click_model *c = m->clicks;
	if (m->linear)
		b->ops->gather_pool(b, c->logit, in->parameters[MODEL_LINEAR], in->unique, 1, in->row_offsets, in->index, in->values,
		                    in->rows);
	click_look_up_forward(&c->look_up, in);
}

/* Writes the gradients of the keyed parameters. */
static void look_up_backward(struct model *m, const struct model_input *in, float *const *gradients)
{
	struct backend *b = m->backend;
	struct click_model *c = m->clicks;
	if (m->linear)
		b->ops->scatter_sum(b, gradients[MODEL_LINEAR], in->unique, 1, c->dlogit, in->row_offsets, in->index, in->values,
		                    in->rows, in->uses);
	click_look_up_backward(&c->look_up, in, gradients);
	click_histories_scatter(&c->histories, in, gradients[MODEL_EMBEDDING]);
}

static struct click_pass pass_of(struct click_model *c, const struct model_input *in, const struct forward_mode *mode)
{
	return (struct click_pass){.in = in,
	                           .mode = mode,
	                           .params = in->parameters[MODEL_DENSE],
	                           .flow = in->flow,
	                           .x = c->look_up.x,
	                           .logit = c->logit,
	                           .dlogit = c->dlogit};
}

/* Computes the logit from the gathered parameters. */
static void forward(struct model *m, struct click_pass *p)
{
	struct backend *b = m->backend;
	struct click_model *c = m->clicks;
	const uint32_t rows = p->in->rows;
	if (!m->linear)
		b->ops->fill(b, c->logit, 0.0f, (size_t)rows * m->tasks);
	if (c->reads_features)
		p->features = click_features_forward(&c->features, p->in, c->look_up.x, p->params);
	for (uint32_t i = 0; i < c->count; i++) {
		struct term *t = &c->terms[i];
		if (!t->is->by_layer)
			layer_flow_await(p->flow, t->at, t->elements);
		t->out = t->is->forward(t->state, p);
		layer_flow_await(p->flow, t->head, t->width);
		/* logit += out . head */
		if (t->width > 0)
			b->ops->gemm(b, false, false, rows, 1, t->width, 1.0f, t->out, t->width, p->params + t->head, 1, 1.0f, c->logit, 1);
	}
	b->ops->bias_act(b, c->logit, p->params + c->bias, rows, m->tasks, ACT_NONE);
}

/* dhead = dlogit^T out; dout = dlogit head */
static void head_backward(struct model *m, const struct term *t, const struct click_pass *p)
{
	struct backend *b = m->backend;
	const size_t rows = p->in->rows, n = t->width;
	b->ops->gemm(b, true, false, 1, n, rows, 1.0f, p->dlogit, 1, t->out, n, 0.0f, p->dparams + t->head, n);
	b->ops->gemm(b, false, false, rows, n, 1, 1.0f, p->dlogit, 1, p->params + t->head, n, 0.0f, t->is->output_gradient(t->state),
	             n);
	layer_flow_done(p->flow, t->head, n);
}

/* Runs the terms backward that read such input. Returns whether one has written p->dx. */
static bool terms_backward(struct model *m, enum click_reads reads, struct click_pass *p)
{
	struct click_model *c = m->clicks;
	for (uint32_t i = 0; i < c->count; i++) {
		const struct term *t = &c->terms[i];
		if (t->is->reads != reads)
			continue;
		if (t->width > 0)
			head_backward(m, t, p);
		t->is->backward(t->state, p);
		if (!t->is->by_layer)
			layer_flow_done(p->flow, t->at, t->elements);
		p->adds = true;
	}
	return p->adds;
}

static void backward(struct model *m, struct click_pass *p)
{
	struct click_model *c = m->clicks;
	(void)terms_backward(m, CLICK_READS_NUMBERS, p);
	p->adds = false;
	p->dx = click_features_gradient(&c->features, c->look_up.dx, &p->columns);
	if (terms_backward(m, CLICK_READS_FEATURES, p))
		click_features_backward(&c->features, p->in, c->look_up.x, p->params, p->dparams, c->look_up.dx);
	p->dx = c->look_up.dx;
	p->columns = c->look_up.columns;
	(void)terms_backward(m, CLICK_READS_EMBEDDINGS, p);
}

static const float *score(struct model *m, const struct model_input *in)
{
	const struct forward_mode mode = {.running = in->parameters[MODEL_STATISTICS]};
	struct click_pass p = pass_of(m->clicks, in, &mode);
	assert(in->rows <= m->rows);
	look_up(m, in);
	click_histories_forward(&m->clicks->histories, in, m->clicks->look_up.x, &mode);
	forward(m, &p);
	return m->clicks->logit;
}

/* Issues the ops between the pooled embeddings and their gradient. */
static void issue(void *arg)
{
	const struct model_step *s = arg;
	struct model *m = s->model;
	struct click_model *c = m->clicks;
	struct backend *b = m->backend;
	const struct model_input *in = s->in;
	const struct forward_mode mode = model_training_mode(s);
	struct click_pass p = pass_of(c, in, &mode);
	p.dparams = s->out->gradients[MODEL_DENSE];
	forward(m, &p);
	const struct click_rows rows = {.logits = c->logit,
	                                .labels = in->labels,
	                                .weights = in->weights,
	                                .task_weights = c->task_weights,
	                                .rows = in->rows,
	                                .tasks = m->tasks};
	b->ops->click_loss(b, s->out->loss_sum, c->dlogit, &rows, &c->loss, 1.0f / (float)in->rows);
	if (in->loss_scale)
		b->ops->scale_by(b, c->dlogit, (size_t)in->rows * m->tasks, in->loss_scale);
	b->ops->bias_act_backward(b, c->dlogit, c->dlogit, c->logit, p.dparams + c->bias, in->rows, m->tasks, ACT_NONE);
	backward(m, &p);
}

static void train(struct model_step *s)
{
	struct click_model *c = s->model->clicks;
	const struct forward_mode mode = model_training_mode(s);
	assert(s->in->rows <= s->model->rows);
	look_up(s->model, s->in);
	/* Bias, histories and features come before the first term. */
	layer_flow_await(s->in->flow, 0, c->terms[0].at);
	click_histories_forward(&c->histories, s->in, c->look_up.x, &mode);
	model_replay(s, issue);
	click_histories_backward(&c->histories, s->in, c->look_up.x, s->out->gradients[MODEL_DENSE], c->look_up.dx);
	look_up_backward(s->model, s->in, s->out->gradients);
}

const struct model_family model_clicks = {.check = check,
                                          .create = create,
                                          .destroy = destroy,
                                          .reserve = reserve,
                                          .reserve_histories = reserve_histories,
                                          .histories = histories,
                                          .score = score,
                                          .train = train,
                                          .by_layer = true};
