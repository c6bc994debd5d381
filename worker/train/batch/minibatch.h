/* A batch at work: its examples, the distinct keys they use, the parameters pulled for it and the
 * gradients computed from it. Buffers grow to the largest batch seen and are reused, so that a
 * steady state allocates nothing.
 *
 * Buffers are in host memory, which libweir reads and writes directly; batch_pipeline.h moves them
 * to the backend and back. */
#ifndef WEIR_MINIBATCH_H
#define WEIR_MINIBATCH_H

#include "weir/weir.h"
#include "worker/data/dataset.h"
#include "worker/data/item_counts.h"
#include "worker/model/model.h"

struct negatives; /* worker/data/negatives.h */

struct minibatch {
	struct backend *backend;
	struct model *model;
	bool gradients[MODEL_TABLES];
	/* (unique) distinct, in order of first use; with several groups of fields, of one group after
	 * the other */
	uint64_t *keys;
	/* The keys whose rows are to be pulled, likewise: all, or those of minibatch_want. Those of
	 * group g begin at wanted_begin[g]. */
	const uint64_t *wanted;
	size_t wanted_begin[WEIR_DIMS_MAX + 1];
	uint32_t *index;       /* (nnz) into keys */
	uint32_t *row_offsets; /* (rows + 1) */
	uint32_t *items;       /* (rows) of models that retrieve them */
	float *log_q;          /* (rows) if counts is not NULL */
	/* of the items in the data; borrowed. NULL: the loss does not correct for them */
	const struct item_index *counts;
	const struct negatives *negatives; /* that have joined the batch; borrowed. NULL: none */
	/* (histories_capacity) of models that attend to them: history.h */
	uint32_t *histories;
	struct grouped_bags grouped; /* with several groups: (nnz_capacity), (bags_capacity) */
	uint32_t *group_index;       /* (nnz_capacity) likewise */
	size_t nnz_capacity, rows_capacity, bags_capacity, histories_capacity;
	size_t unique_capacity[MODEL_TABLES]; /* rows that parameters and gradients hold */
	/* The pulled values: embeddings (wanted of their group, dim), linear (wanted), dense,
	 * statistics. */
	float *parameters[MODEL_TABLES];
	/* gradients of the same shapes; NULL for those that do not come to the host */
	struct model_output output;
	struct model_input input; /* points into the above and into the batch */
};

/* gradients (MODEL_TABLES): the tables with room for gradients; NULL: none, for scoring. Flat
 * tables are allocated here. */
weir_status minibatch_init(struct minibatch *m, struct backend *b, struct model *model, const bool *gradients, weir_error *err);
#define MINIBATCH_ALL ((const bool[MODEL_TABLES]){true, true, true, true, true, true, true})
_Static_assert(MODEL_TABLES == 7, "each is in MINIBATCH_ALL");
void minibatch_destroy(struct minibatch *m);
/* Finds the distinct keys of `batch`, which is borrowed until the next call, and makes room. */
weir_status minibatch_load(struct minibatch *m, const struct batch *batch, weir_error *err);
/* Restricts the pull to these of the batch's keys, of which those of group g begin at begin[g]
 * (groups + 1). Borrows keys. */
void minibatch_want(struct minibatch *m, const uint64_t *keys, const size_t *begin);
/* The rows of a keyed table that are to be pulled: from wanted[first] on. */
struct used_rows minibatch_wanted(const struct minibatch *m, enum model_table t);

#endif
