/* Inside of a model, shared by model.c and model_pass.c only. */
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
	bool ngram;       /* alone */
	bool transformer; /* alone */
};

struct model {
	struct backend *backend;
	const struct job *job; /* outlives the model */
	struct parts parts;
	uint32_t fields, dense_dim, dim;
	uint32_t features; /* width of what tower and cross see */
	struct layout params, stats;
	weir_init_segment embedding_init, linear_init;
	uint64_t bias, numeric, head; /* offsets */

	struct tower tower, bottom;
	struct cross cross;
	struct interaction interaction;
	struct ngram ngram;
	struct transformer *transformer;

	uint32_t rows;         /* reserved */
	float *logit, *dlogit; /* (rows) */
	float *pair;           /* (rows) FM's term */
	float *sum;            /* (rows, dim) FM's sum */
	float *x, *dx;         /* (rows, fields, dim) pooled embeddings */
	float *joined;         /* (rows, features) x and numeric features side by side, when there are any */
	float *djoined;        /* (rows, features) */
};

void model_fact_number(struct model_fact *f, const char *key, uint32_t value);

/* --- Transformers, by the job's keys or a model folder (model_transformer.c) */
weir_status model_make_transformer(struct model *m, uint32_t vocabulary, weir_error *err);
weir_status model_check_transformer(const struct job *job, uint32_t vocabulary, weir_error *err);
/* The facts behind the first n; returns how many there are then. */
uint32_t model_transformer_facts(const struct model *m, struct model_fact *facts, uint32_t n);

#endif
