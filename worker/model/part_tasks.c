/* Models of several tasks, a logit each: a shared bottom (Caruana 1997), or the multi-gate mixture
 * of experts (MMoE, Ma et al. 2018, eq. 6 and 7):
 *
 *     logit_t = w_t . MLP_t(f_t(x))
 *     shared bottom: f_t(x) = f_0(x), one tower
 *     MMoE:          f_t(x) = sum_i softmax(G_t x)_i f_i(x), with G_t without bias
 *
 * A shared bottom is a mixture of one expert without gates. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/model/click_part.h"
#include "worker/model/index_array.h"
#include "worker/model/scratch.h"

struct task {
	struct tower tower;
	uint64_t gate, head; /* offsets: (experts, n), (width of its tower) */
	float *gates;        /* (rows, experts) */
	float *mix;          /* (rows, width) f_t */
};

struct tasks {
	struct backend *backend;
	uint32_t experts_count, tasks_count, n, width, rows; /* n: features; width: of an expert's output */
	bool gated;
	struct tower *experts; /* (experts_count) */
	struct task *tasks;    /* (tasks_count) */

	/* gated: */
	uint32_t *numbers;      /* (rows * experts + 1) 0, 1, 2, .. */
	uint32_t *first;        /* (rows + 1) multiples of experts */
	uint32_t *row_of;       /* (rows * experts) i / experts */
	float *outputs;         /* (rows, experts, width) */
	float *doutputs, *more; /* (rows, experts, width) */
	float *dmix;            /* (rows, width) */
	float *dgates;          /* (rows, experts) */
};

/* The tensors of both kinds of towers, gates, heads and the bias. */
static weir_status check(const struct job *job, const struct model_data *data, weir_error *err)
{
	const uint32_t tasks = data->tasks > 0 ? data->tasks : 1, each = job->model.batch_norm ? 3 : 2;
	const uint32_t experts = model_kind_has(job->model.kind, PART_EXPERTS) ? job->model.experts : 1;
	const uint64_t tensors =
	    1 + (uint64_t)experts * job->model.hidden_count * each + (uint64_t)tasks * (job->model.task_hidden_count * each + 2);
	if (job->model.hidden_count == 0 || job->model.task_hidden_count == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.%s is empty: model %s needs at least one layer",
		                 job->model.hidden_count == 0 ? "hidden" : "task_hidden", model_kind_name(job->model.kind));
	if (tensors > WEIR_TABLE_SEGMENTS_MAX)
		return weir_fail(
		    err, WEIR_E_LIMIT,
		    "model %s of %u experts and %u tasks has %llu tensors, and at most %u are possible: use fewer experts or "
		    "layers",
		    model_kind_name(job->model.kind), experts, tasks, (unsigned long long)tensors, WEIR_TABLE_SEGMENTS_MAX);
	return WEIR_OK;
}

static void add_task(struct tasks *m, const struct click_place *p, uint32_t t)
{
	const struct job *job = p->job;
	struct task *task = &m->tasks[t];
	char name[32];
	if (m->gated)
		task->gate =
		    layout_add(p->params, m->experts_count, m->n, WEIR_INIT_UNIFORM, 1.0f / sqrtf((float)m->n), "task.%u.gate.weight", t);
	snprintf(name, sizeof name, "task.%u", t);
	tower_init(&task->tower, p->backend, name, m->width, job->model.task_hidden, job->model.task_hidden_count,
	           job->model.batch_norm, job->model.dropout, p->params, p->stats);
	task->tower.salt = (uint64_t)(m->experts_count + t) * WEIR_HIDDEN_LAYERS_MAX;
	const uint32_t width = tower_width(&task->tower);
	task->head = layout_add(p->params, 1, width, WEIR_INIT_UNIFORM, 1.0f / sqrtf((float)width), "task.%u.head.weight", t);
}

static void *create(const struct click_place *p)
{
	const struct job *job = p->job;
	struct tasks *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	const bool gated = model_kind_has(job->model.kind, PART_EXPERTS);
	*m = (struct tasks){.backend = p->backend,
	                    .experts_count = gated ? job->model.experts : 1,
	                    .tasks_count = p->tasks,
	                    .n = p->features,
	                    .width = job->model.hidden[job->model.hidden_count - 1],
	                    .gated = gated};
	m->experts = calloc(m->experts_count, sizeof *m->experts);
	m->tasks = calloc(m->tasks_count, sizeof *m->tasks);
	if (!m->experts || !m->tasks) {
		free(m->experts);
		free(m->tasks);
		free(m);
		return NULL;
	}
	for (uint32_t e = 0; e < m->experts_count; e++) {
		char name[32];
		snprintf(name, sizeof name, "expert.%u", e);
		tower_init(&m->experts[e], p->backend, name, m->n, job->model.hidden, job->model.hidden_count, job->model.batch_norm,
		           job->model.dropout, p->params, p->stats);
		m->experts[e].salt = (uint64_t)e * WEIR_HIDDEN_LAYERS_MAX;
	}
	for (uint32_t t = 0; t < m->tasks_count; t++)
		add_task(m, p, t);
	return m;
}

static void destroy(void *part)
{
	struct tasks *m = part;
	float **floats[] = {&m->outputs, &m->doutputs, &m->more, &m->dmix, &m->dgates};
	uint32_t **words[] = {&m->numbers, &m->first, &m->row_of};
	for (uint32_t e = 0; e < m->experts_count; e++)
		tower_destroy(&m->experts[e]);
	for (uint32_t t = 0; t < m->tasks_count; t++) {
		tower_destroy(&m->tasks[t].tower);
		scratch_free(m->backend, &m->tasks[t].gates);
		scratch_free(m->backend, &m->tasks[t].mix);
	}
	for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
		scratch_free(m->backend, floats[i]);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		scratch_free_words(m->backend, words[i]);
	free(m->experts);
	free(m->tasks);
	free(m);
}

static weir_status reserve_mixture(struct tasks *m, uint32_t rows)
{
	struct backend *b = m->backend;
	const uint32_t experts = m->experts_count;
	const size_t gates = (size_t)rows * experts, all = gates * m->width;
	struct {
		float **buffer;
		size_t elements;
	} wanted[] = {
	    {&m->outputs, all}, {&m->doutputs, all}, {&m->more, all}, {&m->dmix, (size_t)rows * m->width}, {&m->dgates, gates}};
	weir_status status = index_array_steps(b, &m->numbers, gates + 1, 1, 1);
	if (status == WEIR_OK)
		status = index_array_steps(b, &m->first, (size_t)rows + 1, 1, experts);
	if (status == WEIR_OK)
		status = index_array_steps(b, &m->row_of, gates, experts, 1);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == WEIR_OK; i++)
		status = scratch_grow(b, wanted[i].buffer, wanted[i].elements);
	for (uint32_t t = 0; t < m->tasks_count && status == WEIR_OK; t++)
		if ((status = scratch_grow(b, &m->tasks[t].gates, gates)) == WEIR_OK)
			status = scratch_grow(b, &m->tasks[t].mix, (size_t)rows * m->width);
	return status;
}

static weir_status reserve(void *part, uint32_t rows)
{
	struct tasks *m = part;
	weir_status status = m->gated ? reserve_mixture(m, rows) : WEIR_OK;
	for (uint32_t e = 0; e < m->experts_count && status == WEIR_OK; e++)
		status = tower_reserve(&m->experts[e], rows);
	for (uint32_t t = 0; t < m->tasks_count && status == WEIR_OK; t++)
		status = tower_reserve(&m->tasks[t].tower, rows);
	m->rows = status == WEIR_OK ? rows : 0;
	return status;
}

/* --- Forward */

static struct linear gate_of(const struct tasks *m, const struct task *t, const struct click_pass *p)
{
	return (struct linear){.x = p->features, .W = p->params + t->gate, .rows = p->in->rows, .in = m->n, .out = m->experts_count};
}

/* Returns f_t (rows, width). */
static const float *mix(struct tasks *m, struct task *t, const struct click_pass *p)
{
	struct backend *b = m->backend;
	const size_t rows = p->in->rows;
	if (!m->gated)
		return tower_output(&m->experts[0]);
	const struct linear gate = gate_of(m, t, p);
	b->ops->linear(b, t->gates, &gate, NULL, ACT_NONE);
	b->ops->softmax(b, t->gates, t->gates, rows, m->experts_count);
	b->ops->gather_pool(b, t->mix, m->outputs, rows * m->experts_count, m->width, m->first, m->numbers, t->gates, rows);
	return t->mix;
}

static const float *forward(void *part, const struct click_pass *p)
{
	struct tasks *m = part;
	struct backend *b = m->backend;
	const uint32_t rows = p->in->rows;
	assert(rows <= m->rows);
	for (uint32_t e = 0; e < m->experts_count; e++) {
		const float *out = tower_forward(&m->experts[e], p->features, rows, p->params, p->mode);
		if (m->gated) /* row r goes to row r * experts + e */
			b->ops->copy_rows(b, m->outputs + (size_t)e * m->width, m->first, out, NULL, m->width, rows);
	}
	for (uint32_t t = 0; t < m->tasks_count; t++) {
		struct task *task = &m->tasks[t];
		const float *out = tower_forward(&task->tower, mix(m, task, p), rows, p->params, p->mode);
		const uint32_t n = tower_width(&task->tower);
		b->ops->gemm(b, false, false, rows, 1, n, 1.0f, out, n, p->params + task->head, 1, 1.0f, p->logit + t, m->tasks_count);
	}
	return NULL;
}

/* --- Backward */

/* Adds the gradient of f_t, in m->dmix, to that of the experts' outputs, and that of the gates to
 * p->dx. */
static void gates_backward(struct tasks *m, uint32_t t, const struct click_pass *p, bool adds)
{
	struct backend *b = m->backend;
	const struct backend_ops *ops = b->ops;
	const struct task *task = &m->tasks[t];
	const size_t rows = p->in->rows, gates = rows * m->experts_count;
	const struct linear gate = gate_of(m, task, p);
	float *doutputs = t == 0 ? m->doutputs : m->more;
	ops->gather_pool(b, doutputs, m->dmix, rows, m->width, m->numbers, m->row_of, task->gates, gates);
	if (t > 0)
		ops->axpy(b, m->doutputs, 1.0f, doutputs, gates * m->width);
	ops->row_dots(b, m->dgates, m->dmix, m->row_of, m->outputs, NULL, m->width, gates);
	ops->softmax_backward(b, m->dgates, m->dgates, task->gates, rows, m->experts_count);
	ops->linear_backward(b, p->dparams + task->gate, p->dx, p->columns, adds ? 1.0f : 0.0f, m->dgates, &gate);
}

/* From a task's logit to m->dmix, or to the shared bottom's output. */
static void task_backward(struct tasks *m, uint32_t t, const struct click_pass *p)
{
	struct backend *b = m->backend;
	struct task *task = &m->tasks[t];
	const uint32_t rows = p->in->rows, n = tower_width(&task->tower), tasks = m->tasks_count;
	const float *input = m->gated ? task->mix : tower_output(&m->experts[0]), *dlogit = p->dlogit + t;
	float *dinput = m->gated ? m->dmix : tower_output_gradient(&m->experts[0]);
	b->ops->gemm(b, true, false, 1, n, rows, 1.0f, dlogit, tasks, tower_output(&task->tower), n, 0.0f, p->dparams + task->head,
	             n);
	b->ops->gemm(b, false, false, rows, n, 1, 1.0f, dlogit, tasks, p->params + task->head, n, 0.0f,
	             tower_output_gradient(&task->tower), n);
	tower_backward(&task->tower, input, rows, p->params, p->dparams, dinput, m->width, !m->gated && t > 0);
}

static void backward(void *part, const struct click_pass *p)
{
	struct tasks *m = part;
	struct backend *b = m->backend;
	const uint32_t rows = p->in->rows;
	bool adds = p->adds;
	for (uint32_t t = 0; t < m->tasks_count; t++) {
		task_backward(m, t, p);
		if (m->gated) {
			gates_backward(m, t, p, adds);
			adds = true;
		}
	}
	for (uint32_t e = 0; e < m->experts_count; e++) {
		struct tower *expert = &m->experts[e];
		if (m->gated)
			b->ops->copy_rows(b, tower_output_gradient(expert), NULL, m->doutputs + (size_t)e * m->width, m->first, m->width,
			                  rows);
		tower_backward(expert, p->features, rows, p->params, p->dparams, p->dx, p->columns, adds);
		adds = true;
	}
}

const struct click_part tasks_part = {.reads = CLICK_READS_FEATURES,
                                      .check = check,
                                      .create = create,
                                      .destroy = destroy,
                                      .reserve = reserve,
                                      .forward = forward,
                                      .backward = backward};
