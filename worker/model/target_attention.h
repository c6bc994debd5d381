/* Pools a history by attention to the row's target (DIN, Zhou et al. 2018, eq. 3):
 *
 *     v = sum_j a_j e_j,  a_j = w . MLP([e_j, t, e_j - t, e_j * t]) + b
 *
 * with e_j the embeddings of the history and t that of the target. Weights are not normalised, as
 * in the paper, so that v also tells how much of the history is like the target. The MLP has ReLU
 * in place of the paper's Dice, and products by element as in the authors' program.
 *
 * Numbers of uses differ from batch to batch: these ops are outside of replays. */
#ifndef WEIR_TARGET_ATTENTION_H
#define WEIR_TARGET_ATTENTION_H

#include "worker/model/bags/history.h"
#include "worker/model/model.h"
#include "worker/model/tower.h"

struct target_attention {
	struct backend *backend;
	struct job_history of;
	uint32_t fields, dim;
	struct tower unit;
	uint64_t head, bias;   /* offsets: (width of the unit), (1) */
	uint64_t first, count; /* its tensors in the dense table */

	uint32_t rows, uses; /* reserved */
	size_t unique;
	uint32_t *numbers;          /* (uses + 1) 0, 1, 2, .. */
	uint32_t *places, *targets; /* (rows) row * fields + the history's field, the target's */
	float *pooled, *sum;        /* (rows, dim) */
	float *pairs, *dpairs;      /* (uses, 4 dim) */
	float *weights, *dweights;  /* (uses) a */
	float *duses, *dtarget;     /* (uses, dim) */
	float *more;                /* (unique, dim) */
};

/* number: of the attention among those of the model, for the names of its tensors. */
void target_attention_init(struct target_attention *a, struct backend *b, const struct job *job, struct job_history of,
                           uint32_t fields, uint32_t number, struct layout *params, struct layout *stats);
void target_attention_destroy(struct target_attention *a);
weir_status target_attention_reserve_rows(struct target_attention *a, uint32_t rows);
weir_status target_attention_reserve_uses(struct target_attention *a, uint32_t uses, size_t unique);
/* embeddings (unique, dim). Replaces the history's field of x (rows, fields, dim). */
void target_attention_forward(struct target_attention *a, const struct history *h, uint32_t rows, const float *embeddings,
                              size_t unique, float *x, const float *params, const struct forward_mode *mode);
/* Writes the gradients of its tensors, and moves that of the history's field in dx
 * (rows, fields, dim): to the target's field, and to a->duses for target_attention_scatter. */
void target_attention_backward(struct target_attention *a, const struct history *h, uint32_t rows, const float *embeddings,
                               const float *x, const float *params, float *dparams, float *dx);
/* Adds the gradient of the history's embeddings to drows (unique, dim). */
void target_attention_scatter(struct target_attention *a, const struct history *h, float *drows, size_t unique);

#endif
