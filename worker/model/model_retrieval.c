/* The family of two-tower models: a vector of the user and one of the item, whose product ranks
 * items (Yi et al. 2019, "Sampling-bias-corrected neural modeling for large corpus item
 * recommendations"). Trained on the items of a batch as each other's negatives, with the logits
 *
 *     z_ij = u_i . v_j / temperature - log q_j
 *
 * in which q_j is item j's share of the batch's rows, as expected. Negatives that were drawn are
 * further rows (negatives.h). */
#include <assert.h>
#include <stdlib.h>

#include "worker/model/model_parts.h"
#include "worker/model/retrieval_side.h"
#include "worker/model/scratch.h"

struct retrieval {
	uint32_t fields, item_field;
	struct retrieval_side user, item;
	float *x, *dx;  /* (rows, fields, dim) pooled embeddings */
	float *logits;  /* (rows, rows) */
	float *vectors; /* (rows, 2 width) of users and items: the scores */
};

static weir_status check(const struct job *job, const struct model_data *data, weir_error *err)
{
	if (data->fields != job_columns_fields(job) || data->fields == 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "model %s takes its towers' columns by their names: data.columns has %u fields, the data %u",
		                 model_kind_name(job->model.kind), job_columns_fields(job), data->fields);
	if (data->tasks > 1)
		return weir_fail(err, WEIR_E_INVALID, "the data have %u labels: model %s learns one", data->tasks,
		                 model_kind_name(job->model.kind));
	return WEIR_OK;
}

static weir_status create(struct model *m, const struct model_data *data, weir_error *err)
{
	struct retrieval *r = m->retrieval = calloc(1, sizeof *r);
	const struct job *job = m->job;
	if (!r)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a model");
	r->fields = data->fields;
	r->item_field = job_column_field(job, job_column_find(job, job->model.item[0]));
	retrieval_side_init(&r->user, m->backend, job, data, job->model.user, job->model.user_count, "user", 0, &m->params,
	                    &m->stats);
	retrieval_side_init(&r->item, m->backend, job, data, job->model.item, job->model.item_count, "item", WEIR_HIDDEN_LAYERS_MAX,
	                    &m->params, &m->stats);
	return WEIR_OK;
}

static void destroy(struct model *m)
{
	struct retrieval *r = m->retrieval;
	if (!r)
		return;
	float **buffers[] = {&r->x, &r->dx, &r->logits, &r->vectors};
	retrieval_side_destroy(&r->user);
	retrieval_side_destroy(&r->item);
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
		scratch_free(m->backend, buffers[i]);
	free(r);
}

static weir_status reserve(struct model *m, uint32_t rows, bool training, weir_error *err)
{
	struct retrieval *r = m->retrieval;
	const size_t embeddings = (size_t)rows * r->fields * m->groups.dim[0];
	if (rows <= m->rows)
		return WEIR_OK;
	m->backend->ops->forget_replays(m->backend);
	struct {
		float **buffer;
		size_t elements;
	} wanted[] = {{&r->x, embeddings},
	              {&r->dx, embeddings},
	              {&r->logits, training ? (size_t)rows * rows : 0},
	              {&r->vectors, 2 * (size_t)rows * r->user.width}};
	weir_status status = retrieval_side_reserve(&r->user, rows);
	if (status == WEIR_OK)
		status = retrieval_side_reserve(&r->item, rows);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == WEIR_OK; i++)
		status = scratch_grow(m->backend, wanted[i].buffer, wanted[i].elements);
	m->rows = status == WEIR_OK ? rows : 0;
	return status == WEIR_OK ? status : model_no_memory(m, rows, err);
}

static void look_up(struct model *m, const struct model_input *in)
{
	struct backend *b = m->backend;
	b->ops->gather_pool(b, m->retrieval->x, in->parameters[MODEL_EMBEDDING], in->unique, m->groups.dim[0], in->offsets, in->index,
	                    in->values, (size_t)in->rows * m->retrieval->fields);
}

static void forward(struct model *m, const struct model_input *in, const struct forward_mode *mode)
{
	struct retrieval *r = m->retrieval;
	retrieval_side_forward(&r->user, r->x, in->dense, in->rows, in->parameters[MODEL_DENSE], mode);
	retrieval_side_forward(&r->item, r->x, in->dense, in->rows, in->parameters[MODEL_DENSE], mode);
}

static const float *score(struct model *m, const struct model_input *in)
{
	struct retrieval *r = m->retrieval;
	struct backend *b = m->backend;
	const struct forward_mode mode = {.running = in->parameters[MODEL_STATISTICS]};
	assert(in->rows <= m->rows);
	look_up(m, in);
	forward(m, in, &mode);
	b->ops->concat(b, r->vectors, r->user.v, r->user.width, r->item.v, r->item.width, in->rows);
	return r->vectors;
}

/* Issues the ops between the pooled embeddings and their gradient. */
static void issue(void *arg)
{
	const struct model_step *s = arg;
	struct retrieval *r = s->model->retrieval;
	struct backend *b = s->model->backend;
	const struct backend_ops *ops = b->ops;
	const struct model_input *in = s->in;
	const struct forward_mode mode = model_training_mode(s);
	const struct in_batch batch = {
	    .items = in->items, .labels = in->labels, .log_q = in->log_q, .weights = in->weights, .rows = in->rows};
	const size_t rows = in->rows, n = r->user.width;
	const float sharp = 1.0f / s->model->job->model.temperature, *params = in->parameters[MODEL_DENSE];
	float *dparams = s->out->gradients[MODEL_DENSE];
	forward(s->model, in, &mode);
	ops->gemm(b, false, true, rows, rows, n, sharp, r->user.v, n, r->item.v, n, 0.0f, r->logits, rows);
	ops->in_batch(b, s->out->loss_sum, r->logits, &batch, 1.0f / (float)(in->rows - in->negatives));
	if (in->loss_scale)
		ops->scale_by(b, r->logits, rows * rows, in->loss_scale);
	ops->gemm(b, false, false, rows, n, rows, sharp, r->logits, rows, r->item.v, n, 0.0f, r->user.dv, n);
	ops->gemm(b, true, false, rows, n, rows, sharp, r->logits, rows, r->user.v, n, 0.0f, r->item.dv, n);
	retrieval_side_backward(&r->user, in->rows, params, dparams, r->dx);
	retrieval_side_backward(&r->item, in->rows, params, dparams, r->dx);
}

static void train(struct model_step *s)
{
	struct model *m = s->model;
	const struct model_input *in = s->in;
	assert(in->rows <= m->rows);
	look_up(m, in);
	model_replay(s, issue);
	m->backend->ops->scatter_sum(m->backend, s->out->gradients[MODEL_EMBEDDING], in->unique, m->groups.dim[0], m->retrieval->dx,
	                             in->offsets, in->index, in->values, (size_t)in->rows * m->retrieval->fields, in->uses);
}

bool model_item_field(const struct model *m, uint32_t *field)
{
	if (m->retrieval)
		*field = m->retrieval->item_field;
	return m->retrieval != NULL;
}

uint32_t model_vector_width(const struct model *m)
{
	return m->retrieval ? m->retrieval->user.width : 0;
}

const struct model_family model_retrieval = {
    .check = check, .create = create, .destroy = destroy, .reserve = reserve, .score = score, .train = train};
