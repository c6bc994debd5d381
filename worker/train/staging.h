/* Batches on their way to the backend and back. Where the backend's memory is the host's, the model reads and writes a minibatch as it is; where it is a device's, what
 * the model reads is copied there first, and gradients.h says what becomes of the gradients. One batch at a time: a trainer has one of these for all the batches of its ring. */
#ifndef WEIR_STAGING_H
#define WEIR_STAGING_H

#include "model.h"
#include "row_cache.h"

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
 * then, as they were pulled. Gradients are in the backend's memory then: where that is the host's, out's own. out->not_finite is 0 without a loss scale. What failed on a
 * device: E_MEMORY, E_UNSUPPORTED or E_IO, and what to do. */
weir_status staging_train(struct staging *s, const struct model_input *in, const struct row_cache_batch *cached,
                          const struct staging_step *step, const struct model_output *out, weir_error *err);
/* A table's gradient of the last batch; NULL: the model has no such table. */
float *staging_gradient(const struct staging *s, enum model_table t);

/* What model_score reads of the flat tables, from now on. */
weir_status staging_load_flat(struct staging *s, const struct model_input *in, weir_error *err);
/* scores (rows, model_row_scores), host memory: model_score's, of clicks as probabilities. */
weir_status staging_score(struct staging *s, const struct model_input *in, float *scores, weir_error *err);

#endif
