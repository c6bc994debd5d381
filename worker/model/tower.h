/* A multi-layer perceptron; each layer is z = x W^T (+ bias), batch norm (optional), ReLU, dropout
 * (optional).
 *
 * W is (out, in) and starts uniform in +-1/sqrt(in), as in PyTorch's nn.Linear. With batch norm
 * there is no bias, as the norm's beta replaces it. Parameters live in the model's flat space,
 * running statistics (mean and variance of each layer) in a flat space of their own. Activations
 * live from forward to backward: one batch at a time. */
#ifndef WEIR_TOWER_H
#define WEIR_TOWER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"
#include "worker/model/layer_flow.h"
#include "worker/model/layout.h"

#define TOWER_BN_EPS 1e-5f

struct tower_layer {
	uint32_t in, out;
	uint64_t weight, bias, gamma, beta; /* offsets in the parameters */
	uint64_t elements;                  /* its parameters, from `weight` on */
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
	uint64_t salt;  /* of the first layer's dropout mask: towers of one model differ in it */
	float *dy, *dx; /* (rows, widest); dx also holds z during forward */
	float *inv_std; /* (widest) host: inverse standard deviations for evaluation */
	uint32_t rows, widest;
	/* of the present batch: forward and backward tell it of each layer; NULL: of none */
	const struct layer_flow *flow;
};

/* widths (count). Tensors are named "<name>.<layer>.weight" and so on. */
void tower_init(struct tower *t, struct backend *b, const char *name, uint32_t in, const uint32_t *widths, uint32_t count,
                bool batch_norm, float dropout, struct layout *params, struct layout *stats);
void tower_destroy(struct tower *t);
weir_status tower_reserve(struct tower *t, uint32_t rows);
uint32_t tower_width(const struct tower *t); /* width of the output */

/* The settings of a forward pass. */
struct forward_mode {
	bool training;
	const uint64_t *seed; /* training: (1) seed of the dropout masks; device */
	/* training: statistics of this batch, laid out like `running`; device */
	float *batch_stats;
	const float *running; /* evaluation: running statistics; host */
	/* training: (1) multiplies the gradient of the loss; device; NULL: 1 */
	const float *loss_scale;
};

/* x (rows, in) -> output (rows, width), valid until the next forward. */
const float *tower_forward(struct tower *t, const float *x, uint32_t rows, const float *params, const struct forward_mode *mode);
/* The output of the last forward. */
const float *tower_output(const struct tower *t);
/* Returns the buffer for d(loss)/d(output) (rows, width), which the caller fills before
 * tower_backward. */
float *tower_output_gradient(struct tower *t);
/* Writes the gradients of the tower's parameters into dparams, and writes or adds the first dx_cols
 * columns of d(loss)/dx to dx with row stride dx_cols. dx may be NULL. */
void tower_backward(struct tower *t, const float *x, uint32_t rows, const float *params, float *dparams, float *dx,
                    uint32_t dx_cols, bool adds);

#endif
