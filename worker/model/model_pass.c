/* Runs models forward and backward, and measures their gradients. */
#include <stdio.h>

#include "worker/model/model_parts.h"
#include "worker/model/scratch.h"

weir_status model_no_memory(const struct model *m, uint32_t rows, weir_error *err)
{
	char what[32];
	snprintf(what, sizeof what, "a batch of %u rows", rows);
	return scratch_refused(m->backend, what, err);
}

double model_row_flops(const struct model *m)
{
	const uint32_t length = m->job->data.sequence;
	return m->transformer ? length * transformer_flops(m->transformer, length) : 0;
}

uint32_t model_row_scores(const struct model *m)
{
	return m->transformer ? m->job->data.sequence : m->retrieval ? 2 * model_vector_width(m) : model_row_labels(m);
}

uint32_t model_row_labels(const struct model *m)
{
	return m->clicks ? m->tasks : 1;
}

weir_status model_reserve(struct model *m, uint32_t rows, bool training, weir_error *err)
{
	return m->family->reserve(m, rows, training, err);
}

weir_status model_reserve_histories(struct model *m, const struct model_input *in, weir_error *err)
{
	return m->family->reserve_histories ? m->family->reserve_histories(m, in, err) : WEIR_OK;
}

uint32_t model_histories(const struct model *m, struct job_history out[WEIR_HISTORIES_MAX])
{
	return m->family->histories ? m->family->histories(m, out) : 0;
}

const float *model_score(struct model *m, const struct model_input *in)
{
	return m->family->score(m, in);
}

void model_train(struct model *m, const struct model_input *in, const uint64_t *seed, const struct model_output *out)
{
	struct model_step step = {m, in, seed, out};
	if (!m->family->by_layer)
		layer_flow_await(in->flow, 0, m->params.elements);
	m->family->train(&step);
}

/* All arguments of the replayed ops beyond the model's own buffers. It has no gaps, as keys are
 * compared byte by byte. */
struct step_key {
	const void *labels, *weights, *dense, *tokens, *targets, *items, *log_q, *parameters, *seed, *loss_scale, *gradient,
	    *statistics, *loss;
	uint64_t counted;
	uint32_t rows, sequence;
};
_Static_assert(sizeof(struct step_key) == 15 * sizeof(uint64_t) && sizeof(struct step_key) <= BACKEND_REPLAY_KEY_BYTES,
               "no gaps");

void model_replay(struct model_step *s, void (*issue)(void *step))
{
	const struct step_key key = {.labels = s->in->labels,
	                             .weights = s->in->weights,
	                             .dense = s->in->dense,
	                             .tokens = s->in->tokens,
	                             .targets = s->in->targets,
	                             .items = s->in->items,
	                             .log_q = s->in->log_q,
	                             .parameters = s->in->parameters[MODEL_DENSE],
	                             .seed = s->seed,
	                             .loss_scale = s->in->loss_scale,
	                             .gradient = s->out->gradients[MODEL_DENSE],
	                             .statistics = s->out->gradients[MODEL_STATISTICS],
	                             .loss = s->out->loss_sum,
	                             .counted = s->in->counted,
	                             .rows = s->in->rows,
	                             .sequence = s->in->sequence};
	if (s->in->flow) /* its calls are no ops, and cannot be replayed */
		issue(s);
	else
		s->model->backend->ops->replay(s->model->backend, &key, sizeof key, issue, s);
}

struct forward_mode model_training_mode(const struct model_step *s)
{
	return (struct forward_mode){
	    .training = true, .seed = s->seed, .batch_stats = s->out->gradients[MODEL_STATISTICS], .loss_scale = s->in->loss_scale};
}

struct used_rows model_table_rows(const struct model *m, const struct model_input *in, enum model_table t)
{
	if (!model_table_is_keyed(t))
		return (struct used_rows){.count = 1};
	if (t == MODEL_LINEAR || m->groups.count == 1)
		return (struct used_rows){.count = in->unique};
	const size_t *begin = in->group_begin + model_table_group(t);
	return (struct used_rows){.first = begin[0], .count = begin[1] - begin[0]};
}

/* Lists the gradients that exist for this batch. Statistics are not a gradient. */
static size_t gradients_of(const struct model *m, const struct model_input *in, const struct model_output *out,
                           struct floats all[MODEL_TABLES])
{
	size_t count = 0;
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		const size_t elements = model_table_elements(m, t) * model_table_rows(m, in, t).count;
		if (elements > 0 && t != MODEL_STATISTICS)
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
