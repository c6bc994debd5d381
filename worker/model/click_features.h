/* The features of a click model, which its tower and cross network read: the fields' pooled
 * embeddings followed by the numeric features, or DLRM's dot interaction of both (interaction.h),
 * whose numeric features pass through a bottom tower.
 *
 * Activations live from forward to backward: one batch at a time. */
#ifndef WEIR_CLICK_FEATURES_H
#define WEIR_CLICK_FEATURES_H

#include "worker/model/interaction.h"
#include "worker/model/model.h"
#include "worker/model/tower.h"

struct click_features {
	struct backend *backend;
	uint32_t fields, dense_dim, dim, columns, width; /* columns: of the embeddings */
	bool interacts, joins;
	bool whole_gradient; /* somebody computes the gradient of the numeric columns, too */
	struct tower bottom;
	struct interaction interaction;
	float *joined, *djoined; /* (rows, width) */
};

weir_status click_features_check(const struct job *job, uint32_t fields, uint32_t dense_dim, weir_error *err);
/* `read`: a term reads the features; without one they stay the embeddings. */
void click_features_init(struct click_features *f, struct backend *b, const struct job *job, const struct model_data *data,
                         const struct field_groups *groups, bool read, bool whole_gradient, struct layout *params,
                         struct layout *stats);
void click_features_destroy(struct click_features *f);
weir_status click_features_reserve(struct click_features *f, uint32_t rows);
/* x (rows, columns) -> features (rows, width), valid until the next forward. */
const float *click_features_forward(struct click_features *f, const struct model_input *in, const float *x, const float *params);
/* Returns the buffer for the first *columns columns of d(loss)/d(features): dx (rows, columns)
 * itself if nothing is joined. */
float *click_features_gradient(struct click_features *f, float *dx, uint32_t *columns);
/* Takes that buffer to dx (rows, columns), which it writes. */
void click_features_backward(struct click_features *f, const struct model_input *in, const float *x, const float *params,
                             float *dparams, float *dx);

#endif
