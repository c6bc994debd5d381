/* The cross network of DCN-v2 (Wang et al. 2021, eq. 1) with full matrices: x_{l+1} = x_0 * (W_l
 * x_l + b_l) + x_l.
 *
 * Parameters live in the model's flat space. Activations live from forward to backward: one batch
 * at a time. */
#ifndef WEIR_CROSS_H
#define WEIR_CROSS_H

#include <stdint.h>

#include "kernels/backend.h"
#include "worker/model/layout.h"

#define CROSS_LAYERS_MAX WEIR_HIDDEN_LAYERS_MAX

struct cross_layer {
	uint64_t weight, bias; /* offsets: (n, n), (n) */
	float *u;              /* (rows, n) W x + b */
	float *out;            /* (rows, n) */
};

struct cross {
	struct backend *backend;
	struct cross_layer layers[CROSS_LAYERS_MAX];
	uint32_t count, n;
	float *dout, *dx, *du; /* (rows, n) */
	uint32_t rows;
};

void cross_init(struct cross *c, struct backend *b, uint32_t n, uint32_t count, struct layout *params);
void cross_free(struct cross *c);
weir_status cross_reserve(struct cross *c, uint32_t rows);
/* x0 (rows, n) -> output (rows, n), valid until the next forward. */
const float *cross_forward(struct cross *c, const float *x0, uint32_t rows, const float *params);
/* Returns the buffer for d(loss)/d(output) (rows, n), which the caller fills before
 * cross_backward. */
float *cross_output_gradient(struct cross *c);
/* Writes the parameters' gradients into dparams and adds d(loss)/dx0 (rows, n) to dx0. */
void cross_backward(struct cross *c, const float *x0, uint32_t rows, const float *params, float *dparams, float *dx0);

#endif
