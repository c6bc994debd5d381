/* The models of job files: one row each. Checks, the schema, fingerprints and worker/model read
 * these rows; nothing else asks for a kind. docs/EXTENDING.md says how to add one. */
#ifndef WEIR_JOB_MODELS_H
#define WEIR_JOB_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The terms of a click model's logit, in the order in which they are computed and in which their
 * tensors lie in the dense table. Each is a file of worker/model: part_<name>.c.
 * X(NAME, name) */
#define CLICK_PART_MAP(X)   \
	X(LINEAR, linear)       \
	X(FM, fm)               \
	X(TOWER, tower)         \
	X(CROSS, cross)         \
	X(CIN, cin)             \
	X(CROSS_MIX, cross_mix) \
	X(TASKS, tasks)

/* The properties of models. A model has some of them; keys of the job file belong to them
 * (job_schema.c). */
enum model_part {
#define CLICK_PART_ENUM(NAME, name) PART_##NAME,
	CLICK_PART_MAP(CLICK_PART_ENUM)
#undef CLICK_PART_ENUM
	/* below this: terms of a click model */
	CLICK_PARTS,
	PART_EMBEDDING = CLICK_PARTS, /* a row of model.dim elements for each key */
	PART_INTERACTION,             /* the features are dot products of the embeddings */
	PART_ATTENTION,               /* histories are pooled by attention to the row's target */
	PART_RETRIEVAL,               /* a vector of the user and one of the item */
	PART_EXPERTS,                 /* tasks mix the outputs of several towers */
	PART_NGRAM,
	PART_TRANSFORMER,
	PART_ROTARY,       /* heads turn pairs of elements by the position, which has no limit */
	PART_GROUPED_HEADS /* heads may share keys and values */
};

enum model_reads { READS_CLICKS, READS_TEXT, READS_TOKENS };
#define MODEL_READS (READS_TOKENS + 1)

#define HAS(NAME) (1u << PART_##NAME)

/* X(NAME, name in job files, the data it reads, its parts) */
#define MODEL_MAP(X)                                                                  \
	X(LR, lr, CLICKS, HAS(LINEAR))                                                    \
	X(FM, fm, CLICKS, HAS(LINEAR) | HAS(EMBEDDING) | HAS(FM))                         \
	X(WIDE_DEEP, wide_deep, CLICKS, HAS(LINEAR) | HAS(EMBEDDING) | HAS(TOWER))        \
	X(DEEPFM, deepfm, CLICKS, HAS(LINEAR) | HAS(EMBEDDING) | HAS(FM) | HAS(TOWER))    \
	X(DCN_V2, dcn_v2, CLICKS, HAS(EMBEDDING) | HAS(TOWER) | HAS(CROSS))               \
	X(DCN_MIX, dcn_mix, CLICKS, HAS(EMBEDDING) | HAS(TOWER) | HAS(CROSS_MIX))         \
	X(XDEEPFM, xdeepfm, CLICKS, HAS(LINEAR) | HAS(EMBEDDING) | HAS(TOWER) | HAS(CIN)) \
	X(DLRM, dlrm, CLICKS, HAS(EMBEDDING) | HAS(TOWER) | HAS(INTERACTION))             \
	X(DIN, din, CLICKS, HAS(EMBEDDING) | HAS(TOWER) | HAS(ATTENTION))                 \
	X(SHARED_BOTTOM, shared_bottom, CLICKS, HAS(EMBEDDING) | HAS(TASKS))              \
	X(MMOE, mmoe, CLICKS, HAS(EMBEDDING) | HAS(TASKS) | HAS(EXPERTS))                 \
	X(TWO_TOWER, two_tower, CLICKS, HAS(EMBEDDING) | HAS(RETRIEVAL))                  \
	X(NGRAM, ngram, TEXT, HAS(NGRAM))                                                 \
	X(GPT2, gpt2, TOKENS, HAS(TRANSFORMER))                                           \
	X(LLAMA, llama, TOKENS, HAS(TRANSFORMER) | HAS(ROTARY) | HAS(GROUPED_HEADS))

enum model_kind {
#define MODEL_ENUM(NAME, name, reads, parts) MODEL_##NAME,
	MODEL_MAP(MODEL_ENUM)
#undef MODEL_ENUM
	/* the number of models */
	MODEL_KINDS
};

struct model_kind_row {
	const char *name; /* in job files: "deepfm" */
	enum model_reads reads;
	uint32_t parts; /* bits: 1 << enum model_part */
};

const struct model_kind_row *model_kind_row(enum model_kind kind);
const char *model_kind_name(enum model_kind kind);
bool model_kind_has(enum model_kind kind, enum model_part part);
/* Whether columns may have embeddings of different widths: the model joins them, and computes
 * nothing of two of them element by element. */
bool model_kind_joins_dims(enum model_kind kind);
/* "clicks", "text", "tokens" */
const char *model_reads_name(enum model_reads reads);
/* Writes the names of the models that read such data: "gpt2 or llama"; cut at the end of out. */
#define MODEL_NAMES_BYTES 256u
void model_names(enum model_reads reads, char out[MODEL_NAMES_BYTES]);

#endif
