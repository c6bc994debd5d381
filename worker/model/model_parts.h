/* The internals of a model, shared by model*.c only. */
#ifndef WEIR_MODEL_PARTS_H
#define WEIR_MODEL_PARTS_H

#include "worker/model/cross.h"
#include "worker/model/interaction.h"
#include "worker/model/model.h"
#include "worker/model/ngram.h"
#include "worker/model/tower.h"
#include "worker/model/transformer.h"

struct parts {
	bool linear, embedding, fm, tower, cross, interaction;
	bool ngram;       /* excludes all other parts */
	bool transformer; /* excludes all other parts */
};

struct model {
	struct backend *backend;
	const struct job *job; /* outlives the model */
	struct parts parts;
	uint32_t fields, dense_dim, dim;
	uint32_t features; /* width of the input of tower and cross */
	struct layout params, stats;
	weir_init_segment embedding_init, linear_init;
	uint64_t bias, numeric, head; /* offsets */

	struct tower tower, bottom;
	struct cross cross;
	struct interaction interaction;
	struct ngram ngram;
	struct transformer *transformer;

	uint32_t rows;         /* reserved capacity */
	float *logit, *dlogit; /* (rows) */
	float *pair;           /* (rows) the FM term */
	float *sum;            /* (rows, dim) the FM sum */
	float *x, *dx;         /* (rows, fields, dim) pooled embeddings */
	/* (rows, features) x and the numeric features side by side, if there are any */
	float *joined;
	float *djoined; /* (rows, features) */
};

void model_fact_number(struct model_fact *f, const char *key, uint32_t value);

/* --- Transformers, from the job's keys or a model folder (model_transformer.c) */
weir_status model_make_transformer(struct model *m, uint32_t vocabulary, weir_error *err);
weir_status model_check_transformer(const struct job *job, uint32_t vocabulary, weir_error *err);
/* Appends facts after the first n; returns the new count. */
uint32_t model_transformer_facts(const struct model *m, struct model_fact *facts, uint32_t n);

#endif
