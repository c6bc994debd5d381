/* A multi-layer perceptron: per layer z = x W^T (+ bias), batch norm (optional), ReLU, dropout (optional).
 *
 * W is (out, in) as in PyTorch's nn.Linear and starts like it: uniform in +-1/sqrt(in). With batch norm the bias is left out (the
 * norm's beta does its work). Parameters live in the model's flat space; running statistics (mean, variance of each layer)
 * in a flat space of their own. Activations are kept from forward to backward: one batch at a time. */
#ifndef WEIR_TOWER_H
#define WEIR_TOWER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"
#include "worker/model/layout.h"

#define TOWER_BN_EPS 1e-5f

struct tower_layer {
	uint32_t in, out;
	uint64_t weight, bias, gamma, beta; /* offsets in the parameters */
	uint64_t mean, var;                 /* offsets in the statistics */
	float *y;                           /* (rows, out) output */
	float *xhat;                        /* (rows, out) batch norm only: normalised input */
	float *mean_now, *inv_std_now;      /* (out) batch norm only */
};

struct tower {
	struct backend *backend;
	struct tower_layer layers[WEIR_HIDDEN_LAYERS_MAX];
	uint32_t count;
	bool batch_norm;
	float dropout;
	float *dy, *dx; /* (rows, widest); dx also holds z on the way forward */
	float *inv_std; /* (widest) host: running variances turned round for evaluation */
	uint32_t rows, widest;
};

/* widths (count); tensors are named "<name>.<layer>.weight" and so on. */
void tower_init(struct tower *t, struct backend *b, const char *name, uint32_t in, const uint32_t *widths, uint32_t count,
                bool batch_norm, float dropout, struct layout *params, struct layout *stats);
void tower_free(struct tower *t);
weir_status tower_reserve(struct tower *t, uint32_t rows);
uint32_t tower_width(const struct tower *t); /* of the output */

/* How a forward pass runs. */
struct forward_mode {
	bool training;
	const uint64_t *seed;    /* training: (1) of the dropout masks; device */
	float *batch_stats;      /* training: statistics of this batch, laid out as the running ones; device */
	const float *running;    /* evaluation: running statistics; host */
	const float *loss_scale; /* training: (1) that the loss's gradient is multiplied by; device; NULL: 1 */
};

/* x (rows, in) -> output (rows, width), valid until the next forward. */
const float *tower_forward(struct tower *t, const float *x, uint32_t rows, const float *params, const struct forward_mode *mode);
/* Where the caller puts d(loss)/d(output) (rows, width) before tower_backward. */
float *tower_output_gradient(struct tower *t);
/* Writes the gradients of the tower's parameters into dparams and d(loss)/dx, its first dx_cols columns only, into dx with row stride dx_cols.
 * dx NULL: not needed. */
void tower_backward(struct tower *t, const float *x, uint32_t rows, const float *params, float *dparams, float *dx,
                    uint32_t dx_cols);

#endif
