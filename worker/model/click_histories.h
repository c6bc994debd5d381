/* The histories that a click model attends to, each by an attention of its own. */
#ifndef WEIR_CLICK_HISTORIES_H
#define WEIR_CLICK_HISTORIES_H

#include "worker/model/target_attention.h"

struct click_histories {
	struct target_attention of[WEIR_HISTORIES_MAX]; /* (count) */
	uint32_t count;
};

void click_histories_init(struct click_histories *h, struct backend *b, const struct job *job, uint32_t fields,
                          struct layout *params, struct layout *stats);
void click_histories_destroy(struct click_histories *h);
weir_status click_histories_reserve_rows(struct click_histories *h, uint32_t rows);
weir_status click_histories_reserve_uses(struct click_histories *h, const struct model_input *in);
/* Replaces the histories' fields of x (rows, fields, dim). */
void click_histories_forward(struct click_histories *h, const struct model_input *in, float *x, const struct forward_mode *mode);
/* Moves the gradient of the histories' fields in dx to their targets, and writes that of the
 * attentions' tensors. */
void click_histories_backward(struct click_histories *h, const struct model_input *in, const float *x, float *dparams, float *dx);
/* Adds the gradient of the histories' embeddings to drows (unique, dim); after scatter_sum. */
void click_histories_scatter(struct click_histories *h, const struct model_input *in, float *drows);

#endif
