#include "worker/model/retrieval_side.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/model/index_array.h"
#include "worker/model/scratch.h"

#define NORM_EPS 1e-12f /* added to the mean square */

/* Finds the fields and the numeric features of the columns, in the order of the data. */
static void find_columns(struct retrieval_side *s, const struct job *job, char *const *names, uint32_t count)
{
	uint32_t field = 0, number = 0;
	for (uint32_t i = 0; i < job->data.columns_count; i++) {
		const struct job_column *c = &job->data.columns[i];
		const bool is_field = job_column_is_field(c), is_number = !is_field && c->kind == COLUMN_NUMERIC;
		bool named = false;
		for (uint32_t k = 0; k < count; k++)
			named |= strcmp(names[k], c->name) == 0;
		if (named && is_field)
			s->of_fields[s->fields_count++] = field;
		if (named && is_number)
			s->of_numbers[s->numbers_count++] = number;
		field += is_field;
		number += is_number;
	}
}

void retrieval_side_init(struct retrieval_side *s, struct backend *b, const struct job *job, const struct model_data *data,
                         char *const *names, uint32_t count, const char *name, uint64_t salt, struct layout *params,
                         struct layout *stats)
{
	*s = (struct retrieval_side){.backend = b,
	                             .fields = data->fields,
	                             .dense_dim = data->dense_dim,
	                             .dim = job->model.dim,
	                             .width = job->model.vector,
	                             .normalised = job->model.normalize};
	find_columns(s, job, names, count);
	tower_init(&s->tower, b, name, s->fields_count * s->dim + s->numbers_count, job->model.hidden, job->model.hidden_count,
	           job->model.batch_norm, job->model.dropout, params, stats);
	s->tower.salt = salt;
	const uint32_t in = tower_width(&s->tower);
	const float bound = 1.0f / sqrtf((float)in);
	s->weight = layout_add(params, s->width, in, WEIR_INIT_UNIFORM, bound, "%s.out.weight", name);
	s->bias = layout_add(params, s->width, 0, WEIR_INIT_UNIFORM, bound, "%s.out.bias", name);
}

void retrieval_side_destroy(struct retrieval_side *s)
{
	float **floats[] = {&s->fields_x, &s->dx, &s->numbers_x, &s->joined, &s->p, &s->dp, &s->v, &s->dv, &s->inverse, &s->gain};
	tower_destroy(&s->tower);
	for (size_t i = 0; s->backend && i < sizeof floats / sizeof *floats; i++)
		scratch_free(s->backend, floats[i]);
	if (s->backend) {
		scratch_free_words(s->backend, &s->field_places);
		scratch_free_words(s->backend, &s->number_places);
	}
}

/* Puts row * width + of[k] for each row and k. */
static weir_status put_places(struct backend *b, uint32_t **buffer, uint32_t rows, uint32_t width, const uint32_t *of,
                              uint32_t count)
{
	const size_t n = (size_t)rows * count;
	uint32_t *host = malloc((n + 1) * sizeof *host);
	if (!host)
		return WEIR_E_MEMORY;
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t k = 0; k < count; k++)
			host[(size_t)r * count + k] = r * width + of[k];
	const weir_status status = index_array_put(b, buffer, host, n);
	free(host);
	return status;
}

weir_status retrieval_side_reserve(struct retrieval_side *s, uint32_t rows)
{
	struct backend *b = s->backend;
	const size_t n = (size_t)rows * s->fields_count * s->dim, numbers = (size_t)rows * s->numbers_count,
	             vectors = (size_t)rows * s->width;
	struct {
		float **buffer;
		size_t elements;
	} wanted[] = {{&s->fields_x, n},   {&s->dx, n},         {&s->numbers_x, numbers}, {&s->joined, numbers > 0 ? n + numbers : 0},
	              {&s->p, vectors},    {&s->dp, vectors},   {&s->v, vectors},         {&s->dv, vectors},
	              {&s->inverse, rows}, {&s->gain, s->width}};
	weir_status status = tower_reserve(&s->tower, rows);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == WEIR_OK; i++)
		status = scratch_grow(b, wanted[i].buffer, wanted[i].elements);
	if (status == WEIR_OK)
		status = put_places(b, &s->field_places, rows, s->fields, s->of_fields, s->fields_count);
	if (status == WEIR_OK)
		status = put_places(b, &s->number_places, rows, s->dense_dim, s->of_numbers, s->numbers_count);
	if (status == WEIR_OK)
		b->ops->fill(b, s->gain, 1.0f / sqrtf((float)s->width), s->width);
	s->rows = status == WEIR_OK ? rows : 0;
	return status;
}

static const float *input_of(const struct retrieval_side *s)
{
	return s->numbers_count > 0 ? s->joined : s->fields_x;
}

static struct linear projection(const struct retrieval_side *s, uint32_t rows, const float *params)
{
	return (struct linear){
	    .x = tower_output(&s->tower), .W = params + s->weight, .rows = rows, .in = tower_width(&s->tower), .out = s->width};
}

void retrieval_side_forward(struct retrieval_side *s, const float *x, const float *dense, uint32_t rows, const float *params,
                            const struct forward_mode *mode)
{
	struct backend *b = s->backend;
	const struct backend_ops *ops = b->ops;
	assert(rows <= s->rows);
	ops->copy_rows(b, s->fields_x, NULL, x, s->field_places, s->dim, (size_t)rows * s->fields_count);
	if (s->numbers_count > 0) {
		ops->copy_rows(b, s->numbers_x, NULL, dense, s->number_places, 1, (size_t)rows * s->numbers_count);
		ops->concat(b, s->joined, s->fields_x, (size_t)s->fields_count * s->dim, s->numbers_x, s->numbers_count, rows);
	}
	(void)tower_forward(&s->tower, input_of(s), rows, params, mode);
	const struct linear out = projection(s, rows, params);
	ops->linear(b, s->normalised ? s->p : s->v, &out, params + s->bias, ACT_NONE);
	/* x / root of (mean of x^2) / root of n = x / |x| */
	if (s->normalised)
		ops->rms_norm(b, s->v, s->inverse, s->p, s->gain, rows, s->width, NORM_EPS);
}

void retrieval_side_backward(struct retrieval_side *s, uint32_t rows, const float *params, float *dparams, float *dx)
{
	struct backend *b = s->backend;
	const struct backend_ops *ops = b->ops;
	const struct linear out = projection(s, rows, params);
	float *dp = s->normalised ? s->dp : s->dv;
	if (s->normalised) {
		ops->fill(b, s->dp, 0.0f, (size_t)rows * s->width);
		ops->rms_norm_backward(b, s->dp, NULL, s->dv, s->p, s->gain, s->inverse, rows, s->width);
	}
	ops->bias_act_backward(b, dp, dp, s->normalised ? s->p : s->v, dparams + s->bias, rows, s->width, ACT_NONE);
	ops->linear_backward(b, dparams + s->weight, tower_output_gradient(&s->tower), out.in, 0.0f, dp, &out);
	tower_backward(&s->tower, input_of(s), rows, params, dparams, s->dx, s->fields_count * s->dim, false);
	ops->copy_rows(b, dx, s->field_places, s->dx, NULL, s->dim, (size_t)rows * s->fields_count);
}
