#include "worker/model/click_features.h"

#include "worker/model/scratch.h"

weir_status click_features_check(const struct job *job, uint32_t fields, uint32_t dense_dim, weir_error *err)
{
	if (!model_kind_has(job->model.kind, PART_INTERACTION))
		return WEIR_OK;
	if (fields + (dense_dim > 0) < 2)
		return weir_fail(err, WEIR_E_INVALID, "model %s needs at least two fields to let interact",
		                 model_kind_name(job->model.kind));
	if (dense_dim > 0 && (job->model.bottom_count == 0 || job->model.bottom[job->model.bottom_count - 1] != job->model.dim))
		return weir_fail(err, WEIR_E_INVALID, "model.bottom must end with a layer of model.dim (%u)", job->model.dim);
	return WEIR_OK;
}

void click_features_init(struct click_features *f, struct backend *b, const struct job *job, const struct model_data *data,
                         const struct field_groups *groups, bool read, bool whole_gradient, struct layout *params,
                         struct layout *stats)
{
	const bool interacts = model_kind_has(job->model.kind, PART_INTERACTION);
	*f = (struct click_features){.backend = b,
	                             .fields = data->fields,
	                             .dense_dim = data->dense_dim,
	                             .dim = job->model.dim,
	                             .columns = field_groups_columns(groups),
	                             .interacts = interacts,
	                             .joins = read && !interacts && data->dense_dim > 0};
	f->whole_gradient = f->joins && whole_gradient;
	f->width = f->columns + f->dense_dim;
	if (!interacts)
		return;
	if (f->dense_dim > 0)
		tower_init(&f->bottom, b, "bottom", f->dense_dim, job->model.bottom, job->model.bottom_count, false, 0.0f, params, stats);
	interaction_init(&f->interaction, b, f->fields, f->dim, f->dense_dim > 0);
	f->width = interaction_width(&f->interaction);
}

void click_features_destroy(struct click_features *f)
{
	tower_destroy(&f->bottom);
	interaction_destroy(&f->interaction);
	scratch_free(f->backend, &f->joined);
	scratch_free(f->backend, &f->djoined);
}

weir_status click_features_reserve(struct click_features *f, uint32_t rows)
{
	weir_status status = scratch_grow(f->backend, &f->joined, f->joins ? (size_t)rows * f->width : 0);
	if (status == WEIR_OK)
		status = scratch_grow(f->backend, &f->djoined, f->whole_gradient ? (size_t)rows * f->width : 0);
	if (status == WEIR_OK && f->bottom.count > 0)
		status = tower_reserve(&f->bottom, rows);
	if (status == WEIR_OK && f->interacts)
		status = interaction_reserve(&f->interaction, rows);
	return status;
}

const float *click_features_forward(struct click_features *f, const struct model_input *in, const float *x, const float *params)
{
	struct backend *b = f->backend;
	if (f->interacts) {
		const struct forward_mode plain = {.training = false};
		const float *bottom = f->bottom.count > 0 ? tower_forward(&f->bottom, in->dense, in->rows, params, &plain) : NULL;
		return interaction_forward(&f->interaction, bottom, x, in->rows);
	}
	if (!f->joins)
		return x;
	b->ops->concat(b, f->joined, x, f->columns, in->dense, f->dense_dim, in->rows);
	return f->joined;
}

float *click_features_gradient(struct click_features *f, float *dx, uint32_t *columns)
{
	*columns = f->interacts || f->whole_gradient ? f->width : f->columns;
	if (f->interacts)
		return interaction_output_gradient(&f->interaction);
	return f->whole_gradient ? f->djoined : dx;
}

void click_features_backward(struct click_features *f, const struct model_input *in, const float *x, const float *params,
                             float *dparams, float *dx)
{
	struct backend *b = f->backend;
	/* Puts the unused gradient of the numeric columns into f->joined, which is free by now. */
	if (f->whole_gradient)
		b->ops->split(b, f->djoined, dx, f->columns, f->joined, f->dense_dim, in->rows);
	if (!f->interacts)
		return;
	struct tower *bottom = f->bottom.count > 0 ? &f->bottom : NULL;
	interaction_backward(&f->interaction, bottom ? tower_output(bottom) : NULL, x, in->rows,
	                     bottom ? tower_output_gradient(bottom) : NULL, dx);
	if (bottom)
		tower_backward(bottom, in->dense, in->rows, params, dparams, NULL, 0, false);
}
