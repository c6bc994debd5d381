/* The click models in plain float64 from their papers' formulas, independent of the kernels: a
 * reference for the real ones. Slow; for tiny shapes only. */
#ifndef WEIR_TEST_REFERENCE_H
#define WEIR_TEST_REFERENCE_H

#include "worker/model/model.h"

struct reference {
	const struct job *job;
	uint32_t fields, dense_dim, tasks;
	const struct layout *params, *stats;
	const struct model_input *in;     /* only its shape is used, not its parameters */
	double *parameters[MODEL_TABLES]; /* float64 copies, to be perturbed */
};

/* Computes logits (rows, tasks) and returns the mean loss. training: batch norm uses the batch's
 * statistics. Never applies dropout. */
double reference_loss(const struct reference *r, bool training, double *logits);
/* The same for two towers: vectors (rows, 2 vector), of user and item. */
double reference_retrieval(const struct reference *r, double *vectors);

#endif
