#include "worker/train/batch/not_finite.h"

static struct floats gradient_of(const struct trained_batch *t, enum model_table k)
{
	return (struct floats){.at = batch_pipeline_gradient(t->pipeline, k),
	                       .n = model_table_elements(t->model, k) * model_table_rows(t->model, t->input, k).count};
}

static bool is_finite(const struct trained_batch *t, struct floats g)
{
	return g.n == 0 || t->backend->ops->all_finite(t->backend, g.at, g.n);
}

void trained_zero(const struct trained_batch *t)
{
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		const struct floats g = gradient_of(t, k);
		if (g.n > 0 && (k != MODEL_STATISTICS || !is_finite(t, g)))
			t->backend->ops->fill(t->backend, g.at, 0, g.n);
	}
}

bool trained_clip_not_finite(const struct trained_batch *t)
{
	bool clipped = false;
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		const struct floats g = gradient_of(t, k);
		if (is_finite(t, g))
			continue;
		t->backend->ops->zero_not_finite(t->backend, g.at, g.n);
		clipped = true;
	}
	return clipped;
}

bool trained_zero_not_finite(const struct trained_batch *t)
{
	bool finite = true;
	for (enum model_table k = 0; k < MODEL_TABLES; k++)
		finite &= is_finite(t, gradient_of(t, k));
	if (!finite)
		trained_zero(t);
	return !finite;
}
