/* Gradients with a NaN or an infinity, and batches that are left out: the worker handles them here,
 * before it pushes. */
#ifndef WEIR_NOT_FINITE_H
#define WEIR_NOT_FINITE_H

#include "worker/train/batch/batch_pipeline.h"

/* The batch that the batch pipeline trained last. */
struct trained_batch {
	struct backend *backend;
	const struct model *model;
	const struct batch_pipeline *pipeline;
	const struct model_input *input;
};

/* Sets gradients to 0. Statistics are not gradients: they stay, unless one is not finite. */
void trained_zero(const struct trained_batch *t);
/* Sets elements that are NaN or infinite to 0. Returns whether there were any. */
bool trained_clip_not_finite(const struct trained_batch *t);
/* Calls trained_zero if any element is NaN or infinite. Returns whether one was. */
bool trained_zero_not_finite(const struct trained_batch *t);

#endif
