/* Gradients with a NaN or an infinity in them, and batches that are left out: what becomes of them where the worker computes, before they are pushed. */
#ifndef WEIR_TRAIN_NOT_FINITE_H
#define WEIR_TRAIN_NOT_FINITE_H

#include "worker/train/batch/batch_pipeline.h"

/* The batch that staging has trained last. */
struct trained_batch {
	struct backend *backend;
	const struct model *model;
	const struct staging *staging;
	size_t unique; /* rows of keyed tables */
};

/* Gradients become 0. Statistics are none, and stay where they are finite. */
void trained_zero(const struct trained_batch *t);
/* Elements that are NaN or infinite become 0. Whether there were any. */
bool trained_clip_not_finite(const struct trained_batch *t);
/* trained_zero where any element is. Whether one was. */
bool trained_zero_not_finite(const struct trained_batch *t);

#endif
