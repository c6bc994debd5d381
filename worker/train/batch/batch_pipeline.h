/* Moves batches to the backend and their results back. If the backend's memory is the host's, the
 * model reads and writes a minibatch in place. If it is a device's, the model's inputs are copied
 * there first; gradients.h says how the gradients leave.
 *
 * A batch is launched, then collected, in the order of launches; up to STAGING_SETS launched
 * batches may be uncollected. A device does not wait between the two: a batch is copied on
 * STREAM_IN and computes on STREAM_COMPUTE while operations on the chosen stream, best a third one,
 * use the batch before. The chosen stream stays chosen. A batch computes once the operations issued
 * on it before the launch are done, as they may still read the gradients of an earlier batch.
 * Operations issued on it after collecting find the batch computed. The host computes a batch when
 * it is launched. */
#ifndef WEIR_BATCH_PIPELINE_H
#define WEIR_BATCH_PIPELINE_H

#include "worker/model/model.h"
#include "worker/train/batch/row_cache.h"

/* Batches on the device at once: one computes while the next is copied in and the one before is
 * pushed. */
#define STAGING_SETS 2u

struct batch_pipeline;

struct batch_pipeline_shape {
	uint32_t fields, dense_dim, context, sequence; /* of the data: dataset.h */
};

/* Borrows both. E_MEMORY. */
weir_status batch_pipeline_create(struct batch_pipeline **out, struct backend *b, struct model *model,
                                  const struct batch_pipeline_shape *shape, weir_error *err);
void batch_pipeline_destroy(struct batch_pipeline *s);

/* From now on this table's parameters are in the backend's memory. */
void batch_pipeline_keep(struct batch_pipeline *s, enum model_table t);

struct batch_pipeline_step {
	uint64_t seed;    /* of dropout */
	float clip_norm;  /* 0: no clipping */
	float loss_scale; /* a power of two; 0: none */
};

/* model_train for a batch in host memory, with the loss scaled and its gradients unscaled, then
 * model_clip. cached: NULL, or the rows of the batch that a cache has; `in` then holds the others,
 * as pulled. The memory of `in` and `cached` stays unchanged until the batch is collected. Errors
 * of a device: E_MEMORY, E_UNSUPPORTED or E_IO, with the remedy. */
weir_status batch_pipeline_launch(struct batch_pipeline *s, const struct model_input *in, const struct row_cache_batch *cached,
                                  const struct batch_pipeline_step *step, const struct model_output *out, weir_error *err);
/* Waits for the oldest launched batch. Its loss is where `out` points, not_finite too (0 without a
 * loss scale). Its gradients are in the backend's memory until STAGING_SETS more batches are
 * launched; on the host they are out's own. */
weir_status batch_pipeline_collect(struct batch_pipeline *s, weir_error *err);
/* A table's gradient, for the batch collected last; NULL: the model has no such table. */
float *batch_pipeline_gradient(const struct batch_pipeline *s, enum model_table t);
/* Norm of all of that batch's gradients together, before clipping. 0: unknown, because they are
 * neither clipped nor of tokens. */
double batch_pipeline_gradient_norm(const struct batch_pipeline *s);
/* Launches and collects one batch. */
weir_status batch_pipeline_train(struct batch_pipeline *s, const struct model_input *in, const struct row_cache_batch *cached,
                                 const struct batch_pipeline_step *step, const struct model_output *out, weir_error *err);
/* Waits for everything on the device. Launched batches can no longer be collected. */
void batch_pipeline_drop(struct batch_pipeline *s);

/* Loads the flat tables that model_score reads from now on. */
weir_status batch_pipeline_load_flat(struct batch_pipeline *s, const struct model_input *in, weir_error *err);
/* scores (rows, model_row_scores), host memory: those of model_score; of clicks, as
 * probabilities. */
weir_status batch_pipeline_score(struct batch_pipeline *s, const struct model_input *in, float *scores, weir_error *err);

#endif
