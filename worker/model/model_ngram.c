/* The family of models that read text: n-grams (ngram.h). */
#include <assert.h>
#include <stdlib.h>

#include "worker/model/model_parts.h"

static weir_status check(const struct job *job, const struct model_data *data, weir_error *err)
{
	const char *name = model_kind_name(job->model.kind);
	(void)data;
	if (job->data.context == 0)
		return weir_fail(err, WEIR_E_INVALID, "data.context is 0: model %s needs at least 1", name);
	if (job->model.dim == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.dim is 0: model %s needs embeddings of at least 1", name);
	if (job->model.hidden_count == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.hidden is empty: model %s needs at least one hidden layer", name);
	if (!(job->model.dropout >= 0.0f && job->model.dropout < 1.0f))
		return weir_fail(err, WEIR_E_INVALID, "model.dropout is %g: expected at least 0 and below 1", (double)job->model.dropout);
	return WEIR_OK;
}

static weir_status create(struct model *m, const struct model_data *data, weir_error *err)
{
	(void)data;
	m->ngram = calloc(1, sizeof *m->ngram);
	if (!m->ngram)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a model");
	ngram_init(m->ngram, m->backend, m->job, &m->params, &m->stats);
	return WEIR_OK;
}

static void destroy(struct model *m)
{
	if (m->ngram)
		ngram_destroy(m->ngram);
	free(m->ngram);
}

static weir_status reserve(struct model *m, uint32_t rows, bool training, weir_error *err)
{
	(void)training;
	if (rows <= m->rows)
		return WEIR_OK;
	m->backend->ops->forget_replays(m->backend);
	const weir_status made = ngram_reserve(m->ngram, rows);
	m->rows = made == WEIR_OK ? rows : 0;
	return made == WEIR_OK ? made : model_no_memory(m, rows, err);
}

static struct ngram_batch batch_of(const struct model_input *in)
{
	return (struct ngram_batch){.rows = in->rows, .tokens = in->tokens, .targets = in->targets};
}

static const float *score(struct model *m, const struct model_input *in)
{
	const struct forward_mode mode = {.running = in->parameters[MODEL_STATISTICS]};
	const struct ngram_batch text = batch_of(in);
	return ngram_score(m->ngram, &text, in->parameters[MODEL_DENSE], &mode);
}

static void issue(void *arg)
{
	const struct model_step *s = arg;
	const struct forward_mode mode = model_training_mode(s);
	const struct ngram_batch text = batch_of(s->in);
	ngram_train(s->model->ngram, &text, s->in->parameters[MODEL_DENSE], &mode, s->out->gradients[MODEL_DENSE], s->out->loss_sum);
}

static void train(struct model_step *s)
{
	assert(s->in->rows <= s->model->rows);
	model_replay(s, issue);
}

const struct model_family model_ngram = {
    .check = check, .create = create, .destroy = destroy, .reserve = reserve, .score = score, .train = train};
