/* y = x W^T + bias, the matrix products of a transformer: of several projections of one input as one, where they lie beside each other; with low-rank
 * adapters (Hu et al. 2021) of some of them. A projection says where its tensors are; what they hold comes with each call. */
#ifndef WEIR_PROJECTION_H
#define WEIR_PROJECTION_H

#include "kernels/backend.h"

#define PROJECTION_PARTS_MAX 3 /* query, key, value */

/* y[column .. column + out) += scale * B (A x), A (rank, in), B (out, rank) */
struct adapter {
	uint64_t a, b; /* offsets in the adapters' space */
	uint32_t column, out;
	uint64_t salt; /* of its dropout */
};

struct projection {
	uint32_t in, out;
	bool input_major; /* W is (in, out), as GPT-2's Conv1D has it; else (out, in) */
	bool biased;
	uint64_t weight, bias; /* offsets in the weights' space */
	struct adapter adapters[PROJECTION_PARTS_MAX];
	uint32_t adapters_count;
};

/* What one pass reads and writes. */
struct projection_pass {
	struct backend *backend;
	const float *weights, *adapters;
	float *dweights, *dadapters; /* NULL: frozen, or there are none */
	float beta;                  /* of the gradients: 1 adds to them */
	uint32_t rank;
	float scale; /* of the adapters: alpha / rank */
	float dropout;
	bool training;
	size_t first;                /* rows of the batch before these: dropout's masks are the whole batch's */
	const uint64_t *seed;        /* (1), the backend's */
	float *dropped, *low, *dlow; /* scratch: (rows, the widest input) where there is dropout, (rows, rank) */
};

/* y (rows, out), without the bias. */
void projection_forward(const struct projection *p, const struct projection_pass *pass, const float *x, float *y, size_t rows);
/* dx (rows, in) = the gradient of x (rows, in); those of W, bias and the adapters, where they are trained. */
void projection_backward(const struct projection *p, const struct projection_pass *pass, float *dx, const float *dy,
                         const float *x, size_t rows);
static inline const float *projection_bias(const struct projection *p, const struct projection_pass *pass)
{
	return p->biased ? pass->weights + p->bias : NULL;
}

#endif
