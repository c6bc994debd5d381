/* The deep term: a multi-layer perceptron over the features (tower.h). */
#include <stdlib.h>

#include "worker/model/click_part.h"

static weir_status check(const struct job *job, const struct model_data *data, weir_error *err)
{
	(void)data;
	if (job->model.hidden_count == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.hidden is empty: model %s needs at least one hidden layer",
		                 model_kind_name(job->model.kind));
	return WEIR_OK;
}

static void *create(const struct click_place *p)
{
	const struct job *job = p->job;
	struct tower *t = calloc(1, sizeof *t);
	if (t)
		tower_init(t, p->backend, "tower", p->features, job->model.hidden, job->model.hidden_count, job->model.batch_norm,
		           job->model.dropout, p->params, p->stats);
	return t;
}

static void destroy(void *part)
{
	tower_destroy(part);
	free(part);
}

static weir_status reserve(void *part, uint32_t rows)
{
	return tower_reserve(part, rows);
}

static uint32_t width(const void *part)
{
	return tower_width(part);
}

static const float *forward(void *part, const struct click_pass *p)
{
	struct tower *t = part;
	t->flow = p->flow;
	return tower_forward(t, p->features, p->in->rows, p->params, p->mode);
}

static float *output_gradient(void *part)
{
	return tower_output_gradient(part);
}

static void backward(void *part, const struct click_pass *p)
{
	tower_backward(part, p->features, p->in->rows, p->params, p->dparams, p->dx, p->columns, p->adds);
}

const struct click_part tower_part = {.reads = CLICK_READS_FEATURES,
                                      .by_layer = true,
                                      .check = check,
                                      .create = create,
                                      .destroy = destroy,
                                      .reserve = reserve,
                                      .width = width,
                                      .forward = forward,
                                      .output_gradient = output_gradient,
                                      .backward = backward};
