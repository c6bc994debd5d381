/* Batches on their way to the backend and back. Where the backend's memory is the host's, the model reads and writes a minibatch as it is; where it is a device's, what
 * the model reads is copied there first, and gradients.h says what becomes of the gradients.
 *
 * A batch is launched, and collected in the order of launches; STAGING_SETS of them may be between the two. On a device nothing waits in between: a batch goes
 * there on STREAM_IN and computes on STREAM_COMPUTE while what is issued on the chosen stream, best a third one, makes use of the one before. The chosen stream stays
 * chosen: a batch computes when what was issued on it before the launch is done, as that may still read the gradients of an earlier batch; what is issued on it after
 * collecting finds the batch computed. On the host a batch is computed when it is launched. */
#ifndef WEIR_STAGING_H
#define WEIR_STAGING_H

#include "worker/model/model.h"
#include "worker/train/batch/row_cache.h"

/* Batches on the device at once: one computes while the next one is on its way and the one before is pushed. */
#define STAGING_SETS 2u

struct staging;

struct staging_shape {
	uint32_t fields, dense_dim, context, sequence; /* of the data: dataset.h */
};

/* Borrows both. E_MEMORY. */
weir_status staging_create(struct staging **out, struct backend *b, struct model *model, const struct staging_shape *shape,
                           weir_error *err);
void staging_destroy(struct staging *s);

/* From now on this table's parameters are the backend's memory. */
void staging_keep(struct staging *s, enum model_table t);

struct staging_step {
	uint64_t seed;    /* of dropout */
	float clip_norm;  /* 0: no clipping */
	float loss_scale; /* a power of two; 0: none */
};

/* model_train of a batch in host memory, the loss scaled and its gradients unscaled, then model_clip. cached: NULL, or what a cache has of its rows; `in` has the others
 * then, as they were pulled. What `in` and `cached` point to stays as it is until the batch is collected. What failed on a device: E_MEMORY, E_UNSUPPORTED or E_IO,
 * and what to do. */
weir_status staging_launch(struct staging *s, const struct model_input *in, const struct row_cache_batch *cached,
                           const struct staging_step *step, const struct model_output *out, weir_error *err);
/* Waits for the batch that was launched first. Its loss is where `out` has it, not_finite too (0 without a loss scale), and its gradients in the backend's memory until STAGING_SETS more are launched:
 * where that is the host's, out's own. */
weir_status staging_collect(struct staging *s, weir_error *err);
/* A table's gradient of the batch collected last; NULL: the model has no such table. */
float *staging_gradient(const struct staging *s, enum model_table t);
/* The norm of all of them together, before they were clipped; 0: unknown, as they are neither clipped nor of tokens. */
double staging_gradient_norm(const struct staging *s);
/* Both, of one batch. */
weir_status staging_train(struct staging *s, const struct model_input *in, const struct row_cache_batch *cached,
                          const struct staging_step *step, const struct model_output *out, weir_error *err);
/* Waits for all that the device does. What is launched is not to be collected. */
void staging_drop(struct staging *s);

/* What model_score reads of the flat tables, from now on. */
weir_status staging_load_flat(struct staging *s, const struct model_input *in, weir_error *err);
/* scores (rows, model_row_scores), host memory: model_score's, of clicks as probabilities. */
weir_status staging_score(struct staging *s, const struct model_input *in, float *scores, weir_error *err);

#endif
