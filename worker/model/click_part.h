/* The terms of a click model's logit: one vtable per term, in part_<name>.c. CLICK_PART_MAP lists
 * them (common/job/job_models.h).
 *
 * A term reads the pooled embeddings, the features, or neither. It adds to the logit itself, or it
 * has an output (rows, width) that the model weighs by its share of the head. Activations live from
 * forward to backward: one batch at a time. */
#ifndef WEIR_CLICK_PART_H
#define WEIR_CLICK_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/model/layout.h"
#include "worker/model/model.h"
#include "worker/model/tower.h"

/* The place that a term is built for. */
struct click_place {
	struct backend *backend;
	const struct job *job;
	uint32_t fields, dense_dim;
	uint32_t dim;      /* of embeddings, if all have the same */
	uint32_t features; /* width of the features */
	uint32_t tasks;    /* logits of a row */
	struct layout *params, *stats;
};

/* One batch, forward and backward. */
struct click_pass {
	const struct model_input *in;
	const struct forward_mode *mode;
	const float *params; /* (elements) the dense table */
	const struct layer_flow *flow;
	const float *x;        /* (rows, fields, dim) pooled embeddings; dim may differ by field */
	const float *features; /* (rows, features) */
	float *logit;          /* (rows, tasks) forward adds to it */

	/* --- backward */
	const float *dlogit; /* (rows, tasks) */
	float *dparams;      /* (elements) shaped like params */
	/* (rows, columns) the first columns of the gradient of what the term reads */
	float *dx;
	uint32_t columns;
	bool adds; /* to dx, which an earlier term has written */
};

enum click_reads { CLICK_READS_NUMBERS, CLICK_READS_EMBEDDINGS, CLICK_READS_FEATURES };

struct click_part {
	enum click_reads reads;
	/* backward fills all columns of its gradient, never only those of the embeddings */
	bool whole_gradient;
	/* tells the flow of its layers; else the model does of all its parameters together */
	bool by_layer;
	/* Names the key of the job file that does not fit; NULL: all fit. */
	weir_status (*check)(const struct job *job, const struct model_data *data, weir_error *err);
	/* Adds the tensors. NULL: out of memory. */
	void *(*create)(const struct click_place *place);
	void (*destroy)(void *part);
	weir_status (*reserve)(void *part, uint32_t rows); /* NULL: needs no memory */
	/* Width of the output, of models with one task. NULL: forward adds to the logit. */
	uint32_t (*width)(const void *part);
	/* Returns the output (rows, width), valid until the next forward; NULL without a width. */
	const float *(*forward)(void *part, const struct click_pass *p);
	/* Returns the buffer for d(loss)/d(output) (rows, width), which the model fills before
	 * backward. NULL without a width. */
	float *(*output_gradient)(void *part);
	/* Writes the parameters' gradients and its share of dx. */
	void (*backward)(void *part, const struct click_pass *p);
};

/* Returns the vtable of a part below CLICK_PARTS. */
const struct click_part *click_part(enum model_part part);

#endif
