/* The click models again, written naively in float64 from their papers' formulas and independent of the kernels: what the real ones are checked
 * against. Slow, for tiny shapes only. */
#ifndef WEIR_TEST_REFERENCE_H
#define WEIR_TEST_REFERENCE_H

#include "worker/model/model.h"

struct delta_base {
	const struct job *job;
	uint32_t fields, dense_dim;
	const struct layout *params, *stats;
	const struct model_input *in;     /* its parameters are not read */
	double *parameters[MODEL_TABLES]; /* float64 copies, to be perturbed */
};

/* Fills logits (rows) and returns the mean loss. training: batch norm by the batch's statistics; no dropout either way. */
double reference_loss(const struct delta_base *r, bool training, double *logits);

#endif
