/* The numeric features that are scaled: transform standard and minmax. */
#ifndef WEIR_COLUMN_SCALES_H
#define WEIR_COLUMN_SCALES_H

#include "common/job/job.h"

/* (x - shift) / width; NaN, an empty cell, becomes 0. */
struct column_scale {
	uint32_t feature;
	float shift, width;
};
struct column_scales {
	struct column_scale *of; /* (count) */
	uint32_t count;
};

/* E_INVALID: the scale of a column is not known. */
weir_status column_scales_take(struct column_scales *out, const struct job *job, weir_error *err) WEIR_MUST_CHECK;
/* dense (rows, dense_dim) */
void column_scales_apply(const struct column_scales *s, float *dense, uint32_t rows, uint32_t dense_dim);
void column_scales_destroy(struct column_scales *s);

#endif
