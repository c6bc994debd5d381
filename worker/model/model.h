/* Models of clicks, and of the next token in text (MODEL_NGRAM: ngram.h; MODEL_GPT2, MODEL_LLAMA:
 * transformer.h).
 *
 * Every click model is a sum of parts that add up to one logit per example (MODEL_MAP in
 * common/job/job_models.h says which parts each has; click_part.h is their interface):
 *
 *     logit = bias
 *           + linear  first-order weights of the example's keys and numeric features:
 *                     LR, FM, W&D, DeepFM, xDeepFM
 *           + fm      second-order term over the fields' pooled embeddings (Rendle 2010, eq. 3):
 *                     FM, DeepFM
 *           + tower   w . MLP(features): W&D, DIN, DeepFM, both DCN-v2, xDeepFM, DLRM
 *           + cross   w . cross network(features) (Wang 2021), parallel to the tower: DCN-v2
 *           + cross_mix  the same of low-rank experts: DCN-v2's mixture
 *           + cin     w . compressed interaction network(pooled embeddings) (Lian 2018): xDeepFM
 *
 * MODEL_TWO_TOWER is a family of its own (model_retrieval.c). Models of several labels
 * (SHARED_BOTTOM, MMOE: part_tasks.c) have a logit for each.
 *
 * The features are the fields' pooled embeddings followed by the numeric features. DIN pools
 * histories by attention to the row's target (target_attention.h). DLRM's features are its dot
 * interaction (interaction.h). Numeric features have no embedding: they enter the linear part and
 * the features as they are, as in public DeepFM code (DeepCTR).
 *
 * Parameters are in tables. embedding (rows of `dim`) and linear (rows of 1) are keyed; if columns
 * have widths of their own, each further width has a table like embedding (field_groups.h). dense
 * holds everything else in one flat space (layout.h). statistics holds batch norm's running
 * mean and variance. A model sees the rows of a keyed table that one batch uses, each once.
 * Pointers refer to backend memory unless a comment says otherwise. A model belongs to one thread,
 * as its backend does. */
#ifndef WEIR_MODEL_H
#define WEIR_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "kernels/backend.h"
#include "worker/model/bags/field_groups.h"
#include "worker/model/layer_flow.h"
#include "worker/model/layout.h"

/* A table's number is part of its seed. */
enum model_table {
	MODEL_EMBEDDING, /* of the first group of fields */
	MODEL_LINEAR,
	MODEL_DENSE,
	MODEL_STATISTICS,
	MODEL_EMBEDDINGS, /* from here on: of the second group, the third, ... */
	MODEL_TABLES = MODEL_EMBEDDINGS + WEIR_DIMS_MAX - 1
};
static inline bool model_table_is_keyed(enum model_table t)
{
	return t <= MODEL_LINEAR || t >= MODEL_EMBEDDINGS;
}
static inline enum model_table model_group_table(uint32_t group)
{
	return group == 0 ? MODEL_EMBEDDING : MODEL_EMBEDDINGS + group - 1;
}
/* The group of an embedding table. */
static inline uint32_t model_table_group(enum model_table t)
{
	return t == MODEL_EMBEDDING ? 0 : t - MODEL_EMBEDDINGS + 1;
}

struct model;

/* The shape of the data that a model is built for. */
struct model_data {
	uint32_t tasks;             /* clicks: labels of a row; 0: unknown */
	uint32_t fields, dense_dim; /* clicks: bags and numeric features of a row */
	uint32_t vocabulary;        /* tokens: each is below this */
};

/* Builds job->model. E_INVALID names the key of the job file that does not fit; errors about a
 * folder in model.from are those of model_folder.h. With adapters (model.lora), the frozen weights
 * are read from that folder too. */
weir_status model_create(struct model **out, struct backend *b, const struct job *job, const struct model_data *data,
                         weir_error *err);
void model_destroy(struct model *m);
/* Checks whether model_create would succeed, apart from memory and the backend. Also checks that
 * model.from has its weights. */
weir_status model_check(const struct job *job, const struct model_data *data, weir_error *err);

/* Finds the shape of the job's transformer, from the job's keys or from the folders that they
 * name. */
struct transformer_config;
struct lora_options;
weir_status model_settle_transformer(const struct job *job, uint32_t vocabulary, struct transformer_config *config,
                                     struct lora_options *lora, weir_error *err) WEIR_MUST_CHECK;

/* The facts that identify a model's weights: the job file's keys, with their values, that determine
 * which tensors exist and what they mean. model.kind comes first. Keys that this kind does not use
 * are left out. Returns the number of facts. */
#define MODEL_FACTS_MAX  12u
#define MODEL_FACT_BYTES (12u * WEIR_HIDDEN_LAYERS_MAX)
struct model_fact {
	const char *key;
	char value[MODEL_FACT_BYTES]; /* "fm", "8", "[400, 400]", "true" */
};
uint32_t model_facts(const struct model *m, struct model_fact facts[MODEL_FACTS_MAX]);

/* Returns the transformer of a gpt2 or llama model, NULL for other kinds. Its weights, or its
 * adapters, are the dense table. */
struct transformer;
struct transformer *model_transformer(const struct model *m);
/* Returns whether the dense table has all weights of a transformer, under Hugging Face's names. */
bool model_is_whole_transformer(const struct model *m);
/* Returns the floating-point operations of training on one row; 0 if the model is not a
 * transformer. */
double model_row_flops(const struct model *m);
bool model_has(const struct model *m, enum model_table t);
/* Describes one of the model's tables with the job's optimizers, modes and codecs. Borrows the
 * model's segments. */
weir_table_spec model_table_spec(const struct model *m, enum model_table t);
/* Returns the floats of a row (keyed tables) or of the whole table (flat ones); 0 if the model has
 * no such table. */
uint64_t model_table_elements(const struct model *m, enum model_table t);
/* The fields by the width of their embeddings. */
const struct field_groups *model_field_groups(const struct model *m);
/* The names and shapes inside MODEL_DENSE or MODEL_STATISTICS. */
const struct layout *model_layout(const struct model *m, enum model_table t);

/* A batch and the rows it needs. For text and tokens, all members are 0 except rows, sequence,
 * counted, tokens, targets, loss_scale and the flat parameters. */
struct model_input {
	uint32_t rows;
	const float *labels;     /* (rows, tasks) */
	const float *weights;    /* (rows) or NULL */
	const float *dense;      /* (rows, dense_dim) or NULL */
	const uint32_t *offsets; /* (rows * fields + 1) bags */
	/* (rows + 1) each example as one bag: every fields-th of offsets */
	const uint32_t *row_offsets;
	const uint32_t *index; /* (nnz) indices into the unique rows */
	const float *values;   /* (nnz) or NULL */
	size_t unique, uses;   /* uses: nnz */
	/* clicks: the distinct keys of group g are those from group_begin[g] to group_begin[g + 1] */
	size_t group_begin[WEIR_DIMS_MAX + 1];
	/* clicks with several groups of fields (field_groups.h): the uses, one group after the other */
	size_t group_uses[WEIR_DIMS_MAX];
	const uint32_t *group_offsets; /* of each group (rows * its fields + 1), from 0 */
	const uint32_t *group_index;   /* (nnz) indices into the unique rows of the group */
	const float *group_values;     /* (nnz) or NULL */
	uint32_t sequence;             /* tokens in a row; 0 for other data */
	uint64_t counted;              /* token data: targets that are not TARGET_NONE */
	const uint32_t *tokens;        /* (rows, context) or (rows, sequence) */
	const uint32_t *targets;       /* (rows) or (rows, sequence) */
	/* clicks: the histories that the model attends to (history.h), and the uses of each */
	const uint32_t *histories;
	uint32_t history_uses[WEIR_HISTORIES_MAX];
	/* retrieval: (rows) the index of the row's item, and ln of its share of the data, or NULL */
	const uint32_t *items;
	const float *log_q;
	uint32_t negatives;      /* retrieval: of the rows the last ones, which are items alone */
	const float *loss_scale; /* (1) multiplies all gradients; NULL: 1 */
	/* Embedding (unique, dim), of several groups each its own (rows of the group, dim); linear
	 * (unique), dense (elements), statistics (elements; host). */
	const float *parameters[MODEL_TABLES];
	const struct layer_flow *flow; /* training: of the dense table; NULL: it is there */
};

/* The results of a batch: the tables' gradients and, for statistics, the batch's own statistics.
 * The caller owns the memory. */
struct model_output {
	float *gradients[MODEL_TABLES]; /* shaped like parameters */
	/* (1) sum over the rows of weight * cross-entropy, in nats; for tokens, over the targets that
	 * count. */
	double *loss_sum;
	/* (1) from model_unscale: 1 if a gradient has a NaN or an infinity, else 0 */
	uint32_t *not_finite;
	double *squares; /* (MODEL_TABLES) from model_measure */
};

/* The rows of a table that a batch uses: of keyed tables, those of its distinct keys from `first`
 * on. Flat tables: one. */
struct used_rows {
	size_t first, count;
};
struct used_rows model_table_rows(const struct model *m, const struct model_input *in, enum model_table t);
/* Reserves memory for batches of up to `rows`, for training or only for scoring. */
weir_status model_reserve(struct model *m, uint32_t rows, bool training, weir_error *err);
/* The same for a batch's histories: rows, unique and history_uses of `in` count. */
weir_status model_reserve_histories(struct model *m, const struct model_input *in, weir_error *err);
/* Writes the histories that the model attends to, and returns their number. */
uint32_t model_histories(const struct model *m, struct job_history out[WEIR_HISTORIES_MAX]);
/* Returns the labels of a row of click data. */
uint32_t model_row_labels(const struct model *m);
/* Whether the model retrieves items; *field is then that of their ids. */
bool model_item_field(const struct model *m, uint32_t *field);
/* Returns the elements of such a model's vectors; 0 for others. */
uint32_t model_vector_width(const struct model *m);
/* Returns the scores of a row: one for each label, or for each target of its tokens; of retrieval
 * the elements of its two vectors. */
uint32_t model_row_scores(const struct model *m);
/* Returns (rows, model_row_scores), valid until the next call: the logit of each label, the log
 * probability of each target, 0 for TARGET_NONE, or the vectors of user and item. Uses running
 * statistics and no dropout. */
const float *model_score(struct model *m, const struct model_input *in);
/* Runs forward and backward; transformers take the batch in parts (train.accumulate). Gradients are
 * of the mean loss over the batch's rows, or over the targets that count. seed (1) determines the
 * dropout masks. */
void model_train(struct model *m, const struct model_input *in, const uint64_t *seed, const struct model_output *out);
/* Divides all gradients by in->loss_scale. */
void model_unscale(struct model *m, const struct model_input *in, const struct model_output *out);
/* Writes the sum of squares of each existing gradient and returns their number. */
size_t model_measure(struct model *m, const struct model_input *in, const struct model_output *out);
/* Scales all gradients so that their joint norm is at most clip_norm, unless it is not finite. Call
 * model_measure first. */
void model_clip(struct model *m, const struct model_input *in, const struct model_output *out, float clip_norm);

#endif
