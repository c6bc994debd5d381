/* The matrix products y = x W^T + bias of a transformer.
 *
 * Projections of one input whose weights lie side by side are computed as one product. Low-rank
 * adapters (Hu et al. 2021) may be added to some of them. A projection holds the offsets of its
 * tensors; each call passes the values. */
#ifndef WEIR_PROJECTION_H
#define WEIR_PROJECTION_H

#include "kernels/backend.h"
#include "worker/model/layer_flow.h"

#define PROJECTION_PARTS_MAX 3 /* query, key, value */

/* y[column .. column + out) += scale * B (A x), A (rank, in), B (out, rank) */
struct adapter {
	uint64_t a, b; /* offsets in the adapters' space */
	uint32_t column, out;
	uint64_t salt; /* of the adapter's dropout */
};

struct projection {
	uint32_t in, out;
	bool input_major; /* W is (in, out), as in GPT-2's Conv1D; else (out, in) */
	bool biased;
	uint64_t weight, bias; /* offsets in the weights' space */
	struct adapter adapters[PROJECTION_PARTS_MAX];
	uint32_t adapters_count;
};

/* The inputs and outputs of one forward or backward pass. */
struct projection_pass {
	struct backend *backend;
	const float *weights, *adapters;
	float *dweights, *dadapters; /* NULL: frozen, or absent */
	/* Factor of the gradients that are already there: 1 adds to them. */
	float beta;
	uint32_t rank;
	float scale; /* of the adapters: alpha / rank */
	float dropout;
	bool training;
	/* Rows of the batch before these; dropout masks cover the whole batch. */
	size_t first;
	const uint64_t *seed; /* (1), backend memory */
	/* of weights that arrive, of their gradients that leave; NULL: none */
	const struct layer_flow *flow, *back;
	/* scratch: dropped (rows, widest input) with dropout only; low, dlow (rows, rank) */
	float *dropped, *low, *dlow;
};

/* y (rows, out), without the bias. */
void projection_forward(const struct projection *p, const struct projection_pass *pass, const float *x, float *y, size_t rows);
/* Writes dx (rows, in), the gradient of x (rows, in), and the gradients of W, the bias and the
 * adapters, as far as they are trained. */
void projection_backward(const struct projection *p, const struct projection_pass *pass, float *dx, const float *dy,
                         const float *x, size_t rows);
static inline const float *projection_bias(const struct projection *p, const struct projection_pass *pass)
{
	return p->biased ? pass->weights + p->bias : NULL;
}

#endif
