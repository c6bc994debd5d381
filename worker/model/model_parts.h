/* The internals of a model, shared by model*.c only. */
#ifndef WEIR_MODEL_PARTS_H
#define WEIR_MODEL_PARTS_H

#include "worker/model/model.h"
#include "worker/model/ngram.h"
#include "worker/model/transformer.h"

struct model_family;
struct click_model;
struct retrieval;

struct model {
	const struct model_family *family;
	struct backend *backend;
	const struct job *job; /* outlives the model */
	struct field_groups groups;
	bool linear;    /* has the table of first-order weights */
	uint32_t tasks; /* clicks: logits of a row */
	struct layout params, stats;
	weir_init_segment embedding_init[WEIR_DIMS_MAX], linear_init;
	uint32_t rows; /* reserved capacity */

	/* its family's own */
	struct click_model *clicks;
	struct ngram *ngram;
	struct transformer *transformer;
	struct retrieval *retrieval;
};

struct model_step {
	struct model *model;
	const struct model_input *in;
	const uint64_t *seed;
	const struct model_output *out;
};

/* The models of one kind of data. */
struct model_family {
	/* Names the key that does not fit. NULL: create checks. */
	weir_status (*check)(const struct job *job, const struct model_data *data, weir_error *err);
	/* Finds the failures of create that `check` leaves out, apart from memory. NULL: none. */
	weir_status (*check_files)(const struct job *job, const struct model_data *data, weir_error *err);
	/* Adds the tensors to m->params and m->stats. destroy follows, also after a failure. */
	weir_status (*create)(struct model *m, const struct model_data *data, weir_error *err);
	void (*destroy)(struct model *m);
	weir_status (*reserve)(struct model *m, uint32_t rows, bool training, weir_error *err);
	/* model.h; NULL: there are no histories */
	weir_status (*reserve_histories)(struct model *m, const struct model_input *in, weir_error *err);
	uint32_t (*histories)(const struct model *m, struct job_history out[WEIR_HISTORIES_MAX]);
	const float *(*score)(struct model *m, const struct model_input *in);
	void (*train)(struct model_step *s);
	bool by_layer; /* train follows model_input.flow; else the whole table must be there */
	/* Appends facts beyond those of the keys after the first n; returns the new count. NULL: no
	 * more facts. */
	uint32_t (*facts)(const struct model *m, struct model_fact *facts, uint32_t n);
};
extern const struct model_family model_clicks, model_retrieval, model_ngram, model_transformers;

/* Fails as a batch of that many rows that has no memory. */
weir_status model_no_memory(const struct model *m, uint32_t rows, weir_error *err);
/* Issues the ops of a step, which are the same in each batch of one size, so that the backend can
 * replay them. */
void model_replay(struct model_step *s, void (*issue)(void *step));
struct forward_mode model_training_mode(const struct model_step *s);

#endif
