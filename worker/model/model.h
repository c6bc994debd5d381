/* Models: of clicks, and of what comes next in a text (MODEL_NGRAM: ngram.h; MODEL_GPT2, MODEL_LLAMA: transformer.h).
 *
 * Every click model is a sum of parts that add to one logit per example:
 *
 *     logit = bias
 *           + linear     sum of first-order weights of the example's keys, and of its numeric features      LR FM W&D DeepFM
 *           + fm         second-order term over the fields' pooled embeddings (Rendle 2010, eq. 3)              FM     DeepFM
 *           + tower      w . MLP(features)                                           W&D DeepFM DCN-v2 DLRM
 *           + cross      w . cross network(features) (Wang 2021), parallel to the tower                    DCN-v2
 *
 * features are the fields' pooled embeddings and then the numeric features; DLRM's are its dot interaction (interaction.h). Numeric
 * features have no embedding: they enter the linear part and the features as they are, as public DeepFM code does (DeepCTR).
 *
 * Parameters are in up to four tables. embedding (rows of `dim`) and linear (rows of 1) by key; dense: all else in one flat space
 * (layout.h); statistics: batch norm's running mean and variance. A model sees of a keyed table the rows of one batch, each once.
 * Everything here is in the backend's memory unless said otherwise. A model belongs to one thread, as its backend. */
#ifndef WEIR_MODEL_H
#define WEIR_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "kernels/backend.h"
#include "worker/model/layout.h"

enum model_table { MODEL_EMBEDDING, MODEL_LINEAR, MODEL_DENSE, MODEL_STATISTICS, MODEL_TABLES };
static inline bool model_table_is_keyed(enum model_table t)
{
	return t == MODEL_EMBEDDING || t == MODEL_LINEAR;
}

struct model;

/* As job files have it: "deepfm". */
const char *model_kind_name(enum model_kind kind);

/* What it is built over. */
struct model_data {
	uint32_t fields, dense_dim; /* clicks: bags, and numeric features of a row */
	uint32_t vocabulary;        /* tokens: each is below this */
};

/* Builds job->model. E_INVALID names the key of the job file that does not fit; what is said of a folder that model.from names, model_folder.h. With adapters
 * (model.lora) the frozen weights are read from there, too. */
weir_status model_create(struct model **out, struct backend *b, const struct job *job, const struct model_data *data,
                         weir_error *err);
void model_destroy(struct model *m);
/* Whether it could be: what model_create would say but for memory and the backend, and, of model.from, that its weights are there. */
weir_status model_check(const struct job *job, const struct model_data *data, weir_error *err);

/* How a transformer of the job computes, whoever says it: the job's keys or the folders that they name. */
struct transformer_config;
struct lora_options;
weir_status model_settle_transformer(const struct job *job, uint32_t vocabulary, struct transformer_config *config,
                                     struct lora_options *lora, weir_error *err) WEIR_MUST_CHECK;

/* What tells a model's weights from another's: the keys of the job file that say which tensors there are and what they mean, and their values,
 * model.kind first. A key that this kind does not use is left out. Returns how many. */
#define MODEL_FACTS_MAX  12u
#define MODEL_FACT_BYTES (12u * WEIR_HIDDEN_LAYERS_MAX)
struct model_fact {
	const char *key;
	char value[MODEL_FACT_BYTES]; /* "fm", "8", "[400, 400]", "true" */
};
uint32_t model_facts(const struct model *m, struct model_fact facts[MODEL_FACTS_MAX]);

/* Of what a gpt2 or llama is made; NULL: it is neither. Its weights, or its adapters, are the dense table. */
struct transformer;
struct transformer *model_transformer(const struct model *m);
/* Whether the dense table has all weights of a transformer, by Hugging Face's names. */
bool model_is_whole_transformer(const struct model *m);
/* Floating-point operations that training takes for a row; of a transformer only, else 0. */
double model_row_flops(const struct model *m);
bool model_has(const struct model *m, enum model_table t);
/* The description of one of the model's tables, by the job's optimizers, modes and codecs. Borrows the model's segments. */
weir_table_spec model_table_spec(const struct model *m, enum model_table t);
/* Floats of a row (keyed tables) or of the whole table (flat ones). 0 when the model has no such table. */
uint64_t model_table_elements(const struct model *m, enum model_table t);
/* Names and shapes inside MODEL_DENSE or MODEL_STATISTICS. */
const struct layout *model_layout(const struct model *m, enum model_table t);

/* A batch with the rows it needs; of text and tokens, all but rows, tokens, targets, what they count and the flat parameters is 0. */
struct model_input {
	uint32_t rows;
	const float *labels;         /* (rows) */
	const float *weights;        /* (rows) or NULL */
	const float *dense;          /* (rows, dense_dim) or NULL */
	const uint32_t *offsets;     /* (rows * fields + 1) bags */
	const uint32_t *row_offsets; /* (rows + 1) a whole example as one bag: every fields-th of offsets */
	const uint32_t *index;       /* (nnz) into the unique rows */
	const float *values;         /* (nnz) or NULL */
	size_t unique, uses;         /* uses: nnz */
	uint32_t sequence;           /* tokens: of a row; else 0 */
	uint64_t counted;            /* tokens: targets that are not TARGET_NONE */
	const uint32_t *tokens;      /* (rows, context) or (rows, sequence) */
	const uint32_t *targets;     /* (rows) or (rows, sequence) */
	const float *loss_scale;     /* (1) that all gradients are multiplied by; NULL: 1 */
	const float
	    *parameters[MODEL_TABLES]; /* embedding (unique, dim), linear (unique), dense (elements), statistics (elements; host) */
};

/* What a batch makes: gradients of the tables, and in place of a gradient the batch's own statistics. Caller's memory. */
struct model_output {
	float *gradients[MODEL_TABLES]; /* shapes of parameters */
	double *loss_sum;     /* (1) sum over the rows of weight * cross-entropy, nats; of tokens, over the targets that count */
	uint32_t *not_finite; /* (1) of model_unscale: 1 where a gradient has a NaN or an infinity, else 0 */
	double *squares;      /* (MODEL_TABLES) of model_measure */
};

/* Memory for batches of up to `rows`, to train or only to score. */
weir_status model_reserve(struct model *m, uint32_t rows, bool training, weir_error *err);
/* Scores of a row: 1, or one for each target of its tokens. */
uint32_t model_row_scores(const struct model *m);
/* (rows, model_row_scores), by running statistics and without dropout; valid until the next call: the logits of a click, or the logarithm of the
 * probability of each target, 0 for TARGET_NONE. */
const float *model_score(struct model *m, const struct model_input *in);
/* Forward and backward, of tokens part by part (train.accumulate). Gradients are of the mean loss over the batch's rows, or targets that count. seed (1) makes the
 * dropout masks. */
void model_train(struct model *m, const struct model_input *in, const uint64_t *seed, const struct model_output *out);
/* Takes in->loss_scale out of all gradients. */
void model_unscale(struct model *m, const struct model_input *in, const struct model_output *out);
/* The sum of squares of each gradient there is, and returns how many those are. */
size_t model_measure(struct model *m, const struct model_input *in, const struct model_output *out);
/* Scales all gradients, which were measured, so that their joint norm is at most clip_norm, unless it is not finite. */
void model_clip(struct model *m, const struct model_input *in, const struct model_output *out, float clip_norm);

#endif
