/* What a table is: the description that the trainer registers, the ledger keeps, the servers obey and the wire carries.
 *
 * A table is rows of `width` fp32 elements. An embedding table is keyed by any u64; a dense table is `elements` numbers in
 * rows ("chunks") of WEIR_CHUNK elements, the last one shorter. A row that nobody has pushed is not stored anywhere (nor is one that
 * is not admitted yet, or was evicted): its value is a pure function of (job seed, table, key) given by the initialiser. */
#ifndef WEIR_TABLE_H
#define WEIR_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_TABLE_NAME_BYTES 64
#define WEIR_CHUNK            65536u

typedef enum weir_table_kind { WEIR_EMBEDDING = 0, WEIR_DENSE = 1 } weir_table_kind;

/* Of a dense table: how many chunks it has, and the elements of one. */
static inline uint64_t weir_chunks(uint64_t elements)
{
	return (elements + WEIR_CHUNK - 1) / WEIR_CHUNK;
}
static inline uint64_t weir_chunk_elements(uint64_t elements, uint64_t chunk)
{
	const uint64_t left = elements - chunk * WEIR_CHUNK;
	return left < WEIR_CHUNK ? left : WEIR_CHUNK;
}

#define WEIR_OPTIMIZER_SLOTS_MAX 2 /* floats per element, at most */
/* X(NAME, number, "name in job files", optimizer slots: floats per element) */
#define WEIR_OPTIMIZER_MAP(X)                                         \
	X(SGD, 0, "sgd", 0)                                               \
	X(MOMENTUM, 1, "momentum", 1)                                     \
	X(NESTEROV, 2, "nesterov", 1)                                     \
	X(ADAGRAD, 3, "adagrad", 1)                                       \
	X(ROW_ADAGRAD, 4, "row_adagrad", 0) /* one accumulator per row */ \
	X(ADAM, 5, "adam", 2)                                             \
	X(ADAMW, 6, "adamw", 2)                                           \
	X(LAMB, 7, "lamb", 2)                                             \
	X(FTRL, 8, "ftrl", 2)                                             \
	X(DELAYED_NESTEROV, 9, "delayed_nesterov", 2)                     \
	X(AVERAGE, 10, "average", 1) /* row = mean of the pushes of a window: running statistics */

typedef enum weir_optimizer_kind {
#define WEIR_OPTIMIZER_ENUM(name, number, text, slots) WEIR_OPT_##name = number,
	WEIR_OPTIMIZER_MAP(WEIR_OPTIMIZER_ENUM)
#undef WEIR_OPTIMIZER_ENUM
} weir_optimizer_kind;

#define WEIR_SCHEDULE_MAP(X)                                                               \
	X(CONSTANT, 0, "constant")                                                             \
	X(LINEAR, 1, "linear") /* down to `min` at `total` */                                  \
	X(COSINE, 2, "cosine") /* min + (max - min) * (1 + cos(pi x)) / 2 */                   \
	X(WSD, 3, "wsd")       /* warm-up, stable, linear decay over the last `decay` steps */ \
	X(STEP, 4, "step")     /* times `gamma` every `period` steps */                        \
	X(TRIANGULAR, 5, "triangular")                                                         \
	X(TRIANGULAR2, 6, "triangular2")                                                       \
	X(EXP_RANGE, 7, "exp_range")

typedef enum weir_schedule_kind {
#define WEIR_SCHEDULE_ENUM(name, number, text) WEIR_SCHEDULE_##name = number,
	WEIR_SCHEDULE_MAP(WEIR_SCHEDULE_ENUM)
#undef WEIR_SCHEDULE_ENUM
} weir_schedule_kind;

typedef struct weir_schedule {
	weir_schedule_kind kind;
	uint64_t warmup; /* steps of linear warm-up from 0, before any kind; 0: none */
	uint64_t total;  /* steps: linear, cosine, wsd */
	uint64_t decay;  /* steps: wsd */
	uint64_t period; /* steps: `step`'s interval; half a cycle ("stepsize") of the cyclical kinds */
	float min;       /* as a fraction of lr: the floor of linear, cosine, wsd; the base of the cyclical kinds */
	float gamma;     /* step, exp_range */
} weir_schedule;

/* What becomes of the rows of an embedding table that a push leaves out. */
#define WEIR_DECAY_MAP(X)                                                                             \
	X(LAZY, 0, "lazy") /* nothing: moments, decay and bias correction are of the pushes to the row */ \
	X(FULL, 1, "full") /* adam, adamw: a step without a gradient, as in a dense tensor */

typedef enum weir_decay {
#define WEIR_DECAY_ENUM(name, number, text) WEIR_DECAY_##name = number,
	WEIR_DECAY_MAP(WEIR_DECAY_ENUM)
#undef WEIR_DECAY_ENUM
} weir_decay;

typedef struct weir_optimizer {
	weir_optimizer_kind kind;
	float lr;
	float momentum;     /* momentum, nesterov, delayed_nesterov */
	float beta1, beta2; /* adam, adamw, lamb */
	float eps;          /* adagrad, adam family */
	float initial;      /* adagrad: accumulator's first value */
	float weight_decay; /* adamw, lamb: decoupled */
	float l1, l2;       /* ftrl: its own; elsewhere l2 adds l2 * value to the gradient of each row that takes a step */
	float ftrl_beta;    /* ftrl */
	weir_decay decay;   /* adam, adamw */
	uint32_t window;    /* average, delayed_nesterov: pushes per window (N) */
	weir_schedule schedule;
} weir_optimizer;

/* When pushes take effect, and how far workers may drift apart. */
typedef enum weir_mode_kind {
	WEIR_ASYNC = 0, /* a push is applied as it comes */
	WEIR_SYNC = 1,  /* with those of a step, as their mean */
	WEIR_SSP = 2 /* as it comes; a worker whose batches are more than `bound` ahead of the slowest one's waits (Ho et al. 2013) */
} weir_mode_kind;

typedef struct weir_mode {
	weir_mode_kind kind;
	uint32_t backup; /* sync: backup workers b */
	uint32_t bound;  /* ssp: s, batches */
	uint32_t
	    local_steps; /* dense: H, batches of a round. A worker trains on its own for so long, and pushes what came of it; 0: each batch's gradient */
	uint32_t
	    fragments; /* with local_steps: parts of the table that are pushed in turn, spread over a round; 0, 1: all at its end */
	bool local_speed;    /* with local_steps: slower workers' rounds are shorter in proportion (DyLU, arXiv 2401.09135) */
	bool staleness_rate; /* async, ssp: a push's rate is divided by its staleness (Zhang et al. 2015) */
} weir_mode;
#define WEIR_SSP_BOUND_MAX 1000000u
/* Tables of a job by which batches wait for other workers wait alike: a worker that waits by one of them says nothing of the other meanwhile, and a round is one batch of
 * every table. Asynchronous tables go with any. */
static inline bool weir_modes_agree(const weir_mode *a, const weir_mode *b)
{
	const bool long_rounds = a->local_steps > 1 || b->local_steps > 1;
	return a->kind == WEIR_ASYNC || b->kind == WEIR_ASYNC ||
	       (a->kind == b->kind && (!long_rounds || a->local_steps == b->local_steps));
}
#define WEIR_LOCAL_STEPS_MAX 4096u
#define WEIR_FRAGMENTS_MAX   64u

/* Codec ids are in the wire format for good. */
#define WEIR_CODEC_MAP(X)      \
	X(FP32, 0, "fp32")         \
	X(BF16, 1, "bf16")         \
	X(FP16, 2, "fp16")         \
	X(INT8, 3, "int8")         \
	X(INT4, 4, "int4")         \
	X(SIGN, 5, "sign")         \
	X(FP8_E4M3, 6, "fp8_e4m3") \
	X(FP8_E5M2, 7, "fp8_e5m2") \
	X(TOPK, 8, "topk")

typedef enum weir_codec {
#define WEIR_CODEC_ENUM(name, number, text) WEIR_CODEC_##name = number,
	WEIR_CODEC_MAP(WEIR_CODEC_ENUM)
#undef WEIR_CODEC_ENUM
} weir_codec;

/* The values of what top-k has selected. */
#define WEIR_VALUES_MAP(X) \
	X(FP32, 0, "fp32")     \
	X(BF16, 1, "bf16")     \
	X(INT8, 2, "int8")     \
	X(LOG4, 3, "log4") /* a sign and eight levels between the least and the largest magnitude */

typedef enum weir_values {
#define WEIR_VALUES_ENUM(name, number, text) WEIR_VALUES_##name = number,
	WEIR_VALUES_MAP(WEIR_VALUES_ENUM)
#undef WEIR_VALUES_ENUM
} weir_values;

/* The sixteen values that the codes of int4 stand for. */
#define WEIR_BOOK_MAP(X)                                        \
	X(NF4, 0, "nf4")             /* of a normal distribution */ \
	X(LOG, 1, "log")             /* powers of 2 */              \
	X(SEGMENTED, 2, "segmented") /* fitted to the table, again and again */

typedef enum weir_book {
#define WEIR_BOOK_ENUM(name, number, text) WEIR_BOOK_##name = number,
	WEIR_BOOK_MAP(WEIR_BOOK_ENUM)
#undef WEIR_BOOK_ENUM
} weir_book;

/* Whether what is sent is packed by LZ4. */
#define WEIR_LZ4_MAP(X) \
	X(OFF, 0, "off")    \
	X(AUTO, 1, "auto") /* where a trial says that it pays: gradients that are mostly zeros */

typedef enum weir_lz4 {
#define WEIR_LZ4_ENUM(name, number, text) WEIR_LZ4_##name = number,
	WEIR_LZ4_MAP(WEIR_LZ4_ENUM)
#undef WEIR_LZ4_ENUM
} weir_lz4;

/* How gradients are coded on their way to the servers. What a lossy codec leaves out of a dense table stays with the worker and is added to its next push (error
 * feedback), where `feedback` is set; sign and topk need it. */
typedef struct weir_compression {
	weir_codec codec;   /* embedding: neither sign nor topk */
	weir_values values; /* topk */
	weir_book book;     /* int4 */
	float density;      /* topk: share of the elements that a push brings, (0, WEIR_DENSITY_MAX] */
	float momentum;     /* topk: of a velocity that the worker sums up instead of gradients (DGC), [0, 1); 0: none */
	uint32_t
	    warmup; /* topk: pushes of a worker in which the density falls from WEIR_DENSITY_MAX to `density`, each by the same factor; 0: none */
	bool feedback; /* dense tables, all codecs but fp32 and bf16 */
	float
	    rows; /* embedding: share of a push's rows that it brings, those of the greatest norm; the others wait for the row's next gradient. 0: all */
	weir_lz4 lz4;
	float
	    clip; /* topk: most that the norm of a worker's gradient may be; it is scaled down to that before it is summed up (DGC, section 3.3). 0: any */
} weir_compression;
#define WEIR_DENSITY_MAX 0.25f /* beyond it int4 takes fewer bytes */

/* How values are coded on their way to trainers. A row of an embedding comes as it is, in this codec. Of a dense table with another codec than fp32 come
 * differences from what the trainer holds: what one leaves out is in the next. Who does not train gets fp32. */
typedef struct weir_pull_coding {
	weir_codec codec;   /* embedding: fp32, bf16, fp16 or int8; dense: all but sign */
	weir_values values; /* topk */
	weir_book book;     /* int4 */
	float density;      /* topk: share of the elements that a difference brings, (0, WEIR_DENSITY_MAX] */
	uint32_t every;     /* dense, not fp32: pushes to a chunk from one difference to the next; 0: as 1 */
} weir_pull_coding;

typedef enum weir_init_kind {
	WEIR_INIT_ZERO = 0,
	WEIR_INIT_CONSTANT = 1, /* a */
	WEIR_INIT_UNIFORM = 2,  /* [-a, a) */
	WEIR_INIT_NORMAL = 3    /* standard deviation a */
} weir_init_kind;

/* How `elements` consecutive elements of a dense table begin (an embedding table has one segment: its row width). */
typedef struct weir_init_segment {
	uint64_t elements;
	weir_init_kind kind;
	float a;
	bool undecayed; /* dense: weight_decay leaves these elements out */
} weir_init_segment;

/* Which keys of an embedding table get a row at all. A key that has none reads as its initial value, and a push to it has no effect but the count. */
#define WEIR_ADMISSION_MAP(X)                                                                             \
	X(NONE, 0, "none")               /* every key, with its first push */                                 \
	X(COUNT, 1, "count")             /* with its `count`-th push (sync: step); those before only count */ \
	X(PROBABILITY, 2, "probability") /* each push to an unknown key admits it with this probability */

typedef enum weir_admission_kind {
#define WEIR_ADMISSION_ENUM(name, number, text) WEIR_ADMIT_##name = number,
	WEIR_ADMISSION_MAP(WEIR_ADMISSION_ENUM)
#undef WEIR_ADMISSION_ENUM
} weir_admission_kind;

typedef struct weir_admission {
	weir_admission_kind kind;
	uint32_t count;    /* COUNT: from 1 */
	float probability; /* PROBABILITY: (0, 1] */
} weir_admission;

/* Which rows of an embedding table go again: those to which either applies. A key that comes back begins anew. */
typedef struct weir_eviction {
	uint32_t ttl_s;       /* no push for so long; 0: off */
	uint32_t min_score;   /* no push for a half-life, and pushes >> (seconds since the last / half_life_s) below this; 0: off */
	uint32_t half_life_s; /* with min_score: from 1 */
} weir_eviction;

typedef struct weir_table_spec {
	char name[WEIR_TABLE_NAME_BYTES]; /* [a-z0-9_.-]+, NUL-terminated */
	weir_table_kind kind;
	uint32_t width;    /* embedding: elements per row */
	uint64_t elements; /* dense: elements in all */
	weir_optimizer optimizer;
	weir_mode mode;
	weir_compression push;
	weir_pull_coding pull;
	weir_admission admission; /* embedding */
	weir_eviction eviction;   /* embedding */
	uint32_t segments_count;
	const weir_init_segment *segments; /* (segments_count), borrowed during the call */
	uint64_t seed;                     /* of the initial values */
} weir_table_spec;

#ifdef __cplusplus
}
#endif
#endif
