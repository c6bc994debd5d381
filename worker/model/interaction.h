/* DLRM's interaction (Naumov et al. 2019, section 2.1): dot products between the bottom vector and
 * all embeddings of an example.
 *
 * The bottom vector and the dot products (strictly lower triangle) are the features of the top
 * tower. Without numeric features there is no bottom vector. Activations live from forward to
 * backward: one batch at a time. */
#ifndef WEIR_INTERACTION_H
#define WEIR_INTERACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"

struct interaction {
	struct backend *backend;
	uint32_t fields, dim;
	bool bottom;
	float *features, *dfeatures; /* (rows, [dim +] V (V - 1) / 2), V = bottom + fields */
	uint32_t rows;
};

void interaction_init(struct interaction *i, struct backend *b, uint32_t fields, uint32_t dim, bool bottom);
void interaction_destroy(struct interaction *i);
weir_status interaction_reserve(struct interaction *i, uint32_t rows);
uint32_t interaction_width(const struct interaction *i); /* width of the features */
/* bottom (rows, dim) or NULL, x (rows, fields, dim) -> features (rows, width), valid until the next
 * forward. */
const float *interaction_forward(struct interaction *i, const float *bottom, const float *x, uint32_t rows);
/* Returns the buffer for d(loss)/d(features), which the caller fills before
 * interaction_backward. */
float *interaction_output_gradient(struct interaction *i);
/* Writes dx and, unless bottom is NULL, dbottom. bottom and x are those of forward. */
void interaction_backward(struct interaction *i, const float *bottom, const float *x, uint32_t rows, float *dbottom, float *dx);

#endif
