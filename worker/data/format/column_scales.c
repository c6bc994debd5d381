#include "worker/data/format/column_scales.h"

#include <math.h>
#include <stdlib.h>

weir_status column_scales_take(struct column_scales *out, const struct job *job, weir_error *err)
{
	*out = (struct column_scales){.of = calloc(job_columns_dense(job) + 1, sizeof *out->of)};
	if (!out->of)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening the data");
	for (uint32_t i = 0, feature = 0; i < job->data.columns_count; i++) {
		const struct job_column *c = &job->data.columns[i];
		const bool standard = c->transform == TRANSFORM_STANDARD;
		const float shift = standard ? c->mean : c->min, width = standard ? c->std : c->max - c->min;
		if (job_column_is_scaled(c) && isnan(shift)) {
			column_scales_destroy(out);
			return weir_fail(err, WEIR_E_INVALID, "data.columns: the scale of '%.60s' is not known; expected %s", c->name,
			                 standard ? "mean and std" : "min and max");
		}
		if (job_column_is_scaled(c))
			out->of[out->count++] = (struct column_scale){feature, shift, width};
		feature += c->kind == COLUMN_NUMERIC && !job_column_is_field(c);
	}
	return WEIR_OK;
}

void column_scales_apply(const struct column_scales *s, float *dense, uint32_t rows, uint32_t dense_dim)
{
	for (uint32_t i = 0; i < s->count; i++)
		for (uint32_t r = 0; r < rows; r++) {
			float *x = &dense[(size_t)r * dense_dim + s->of[i].feature];
			*x = isnan(*x) ? 0 : (*x - s->of[i].shift) / s->of[i].width;
		}
}

void column_scales_destroy(struct column_scales *s)
{
	free(s->of);
	*s = (struct column_scales){0};
}
