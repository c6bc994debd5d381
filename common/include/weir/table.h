/* Table descriptions. The trainer registers a description, the ledger keeps it, the servers apply
 * it, and the wire carries it.
 *
 * A table consists of rows of `width` fp32 elements. An embedding table maps any u64 key to a row.
 * A dense table is `elements` numbers in rows ("chunks") of WEIR_CHUNK elements; its last chunk may
 * be shorter. A row is stored only after a push creates it. The value of a row that is not stored
 * (never pushed, not yet admitted, or evicted) is a pure function of (job seed, table, key), which
 * the initialiser gives. */
#ifndef WEIR_TABLE_H
#define WEIR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_TABLE_NAME_BYTES 64
#define WEIR_CHUNK            65536u

typedef enum weir_table_kind { WEIR_EMBEDDING = 0, WEIR_DENSE = 1 } weir_table_kind;

/* Dense tables: the number of chunks, and the number of elements in one chunk. */
static inline uint64_t weir_chunks(uint64_t elements)
{
	return (elements + WEIR_CHUNK - 1) / WEIR_CHUNK;
}
static inline uint64_t weir_chunk_elements(uint64_t elements, uint64_t chunk)
{
	const uint64_t left = elements - chunk * WEIR_CHUNK;
	return left < WEIR_CHUNK ? left : WEIR_CHUNK;
}

#define WEIR_OPTIMIZER_SLOTS_MAX 2 /* floats per element */

/* What the rest of Weir needs to know of a rule, besides its slots. */
enum weir_optimizer_trait {
	WEIR_RULE_ANY = 0,
	WEIR_RULE_BETAS = 1,           /* uses beta1 and beta2 */
	WEIR_RULE_WINDOW = 2,          /* uses window, which must be at least 1 */
	WEIR_RULE_DIVIDES_BY_EPS = 4,  /* eps must be above 0: an element without a gradient divides by it */
	WEIR_RULE_DIVIDES_BY_LR = 8,   /* lr must be above 0 */
	WEIR_RULE_BIAS = 16,           /* corrects the bias of its moments by the row's steps */
	WEIR_RULE_WEIGHT_DECAY = 32,   /* decoupled weight decay */
	WEIR_RULE_FULL_DECAY = 64,     /* can take steps without a gradient (WEIR_DECAY_FULL) */
	WEIR_RULE_WHOLE_ROWS = 128,    /* the rate of an element depends on its whole row */
	WEIR_RULE_INITIAL_SLOTS = 256, /* slots begin at `initial` */
	WEIR_RULE_INITIAL_ROW = 512    /* the row's accumulator begins at `initial` */
};
#define WEIR_RULE_ADAM (WEIR_RULE_BETAS | WEIR_RULE_DIVIDES_BY_EPS | WEIR_RULE_BIAS)

/* X(NAME, number, name in job files, optimizer slots: floats per element, traits) */
#define WEIR_OPTIMIZER_MAP(X)                                                                                   \
	X(SGD, 0, sgd, 0, WEIR_RULE_ANY)                                                                            \
	X(MOMENTUM, 1, momentum, 1, WEIR_RULE_ANY)                                                                  \
	X(NESTEROV, 2, nesterov, 1, WEIR_RULE_ANY)                                                                  \
	X(ADAGRAD, 3, adagrad, 1, WEIR_RULE_DIVIDES_BY_EPS | WEIR_RULE_INITIAL_SLOTS)                               \
	X(ROW_ADAGRAD, 4, row_adagrad, 0, /* one accumulator per row */                                             \
	  WEIR_RULE_DIVIDES_BY_EPS | WEIR_RULE_INITIAL_ROW | WEIR_RULE_WHOLE_ROWS)                                  \
	X(ADAM, 5, adam, 2, WEIR_RULE_ADAM | WEIR_RULE_FULL_DECAY)                                                  \
	X(ADAMW, 6, adamw, 2, WEIR_RULE_ADAM | WEIR_RULE_FULL_DECAY | WEIR_RULE_WEIGHT_DECAY)                       \
	X(LAMB, 7, lamb, 2, WEIR_RULE_ADAM | WEIR_RULE_WEIGHT_DECAY | WEIR_RULE_WHOLE_ROWS)                         \
	X(FTRL, 8, ftrl, 2, WEIR_RULE_DIVIDES_BY_LR)                                                                \
	X(DELAYED_NESTEROV, 9, delayed_nesterov, 2, WEIR_RULE_WINDOW)                                               \
	X(AVERAGE, 10, average, 1, WEIR_RULE_WINDOW) /* row = mean of a window of pushes, for running statistics */ \
	X(LION, 11, lion, 1, WEIR_RULE_BETAS | WEIR_RULE_WEIGHT_DECAY)

typedef enum weir_optimizer_kind {
#define WEIR_OPTIMIZER_ENUM(name, number, rule, slots, traits) WEIR_OPT_##name = number,
	WEIR_OPTIMIZER_MAP(WEIR_OPTIMIZER_ENUM)
#undef WEIR_OPTIMIZER_ENUM
} weir_optimizer_kind;
#define WEIR_OPTIMIZER_ONE(name, number, rule, slots, traits) +1
enum { WEIR_OPTIMIZERS = WEIR_OPTIMIZER_MAP(WEIR_OPTIMIZER_ONE) };
#undef WEIR_OPTIMIZER_ONE

#define WEIR_SCHEDULE_MAP(X)                                                               \
	X(CONSTANT, 0, "constant")                                                             \
	X(LINEAR, 1, "linear") /* down to `min` at step `total` */                             \
	X(COSINE, 2, "cosine") /* min + (max - min) * (1 + cos(pi x)) / 2 */                   \
	X(WSD, 3, "wsd")       /* warm-up, stable, linear decay over the last `decay` steps */ \
	X(STEP, 4, "step")     /* multiply by `gamma` every `period` steps */                  \
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
	uint64_t warmup; /* steps of linear warm-up from 0, before any kind; 0: no warm-up */
	uint64_t total;  /* steps: linear, cosine, wsd */
	uint64_t decay;  /* steps: wsd */
	/* step: steps between two changes; cyclical kinds: steps of half a cycle ("stepsize") */
	uint64_t period;
	/* fraction of lr: the floor of linear, cosine and wsd; the base of the cyclical kinds */
	float min;
	float gamma; /* step, exp_range */
} weir_schedule;

/* The effect of a push on the rows of an embedding table that the push does not contain. */
#define WEIR_DECAY_MAP(X)                                                                        \
	X(LAZY, 0, "lazy") /* no effect: moments, decay, bias correction count a row's own pushes */ \
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
	float beta1, beta2; /* adam, adamw, lamb, lion */
	float eps;          /* adagrad, adam family */
	float initial;      /* adagrad: first value of the accumulator */
	float weight_decay; /* adamw, lamb, lion: decoupled weight decay */
	/* l1: ftrl. l2: ftrl uses it in its own rule; the others add l2 * value to the gradient of each
	 * row that takes a step. */
	float l1, l2;
	float ftrl_beta;  /* ftrl */
	weir_decay decay; /* adam, adamw */
	uint32_t window;  /* average, delayed_nesterov: pushes per window (N) */
	weir_schedule schedule;
} weir_optimizer;

/* When pushes take effect, and how far workers may drift apart. */
typedef enum weir_mode_kind {
	WEIR_ASYNC = 0, /* apply each push on arrival */
	WEIR_SYNC = 1,  /* apply the mean of all pushes of a step */
	/* Apply each push on arrival. A worker waits when it is more than `bound` batches ahead of the
	 * slowest worker (Ho et al. 2013). */
	WEIR_SSP = 2
} weir_mode_kind;

typedef struct weir_mode {
	weir_mode_kind kind;
	uint32_t backup; /* sync: number of backup workers, b */
	uint32_t bound;  /* ssp: staleness bound s, in batches */
	/* dense: H, the batches in a round. A worker trains alone for a round, then pushes the result.
	 * 0: push the gradient of every batch. */
	uint32_t local_steps;
	/* With local_steps: parts of the table that are pushed in turn, spread over a round. 0 or 1:
	 * push the whole table at the end of the round. */
	uint32_t fragments;
	/* With local_steps: make the rounds of slower workers shorter in proportion (DyLU, arXiv
	 * 2401.09135). */
	bool local_speed;
	/* async, ssp: divide a push's learning rate by its staleness (Zhang et al. 2015) */
	bool staleness_rate;
} weir_mode;
#define WEIR_SSP_BOUND_MAX 1000000u
/* Checks that two tables of a job can be used together. Tables that make batches wait for other
 * workers must wait in the same way: a worker that waits for one table reports nothing about the
 * other, and a round is one batch of every table. Asynchronous tables agree with any table. */
static inline bool weir_modes_agree(const weir_mode *a, const weir_mode *b)
{
	const bool long_rounds = a->local_steps > 1 || b->local_steps > 1;
	return a->kind == WEIR_ASYNC || b->kind == WEIR_ASYNC ||
	       (a->kind == b->kind && (!long_rounds || a->local_steps == b->local_steps));
}
#define WEIR_LOCAL_STEPS_MAX 4096u
#define WEIR_FRAGMENTS_MAX   64u

/* The error feedback of a codec: whether a worker keeps what a push to a dense table leaves out. */
typedef enum weir_feedback {
	WEIR_FEEDBACK_NEVER,    /* the rounding is too small to keep */
	WEIR_FEEDBACK_OPTIONAL, /* as the job says; the default */
	WEIR_FEEDBACK_ALWAYS    /* without it most of the gradient would be lost */
} weir_feedback;

/* What a codec can code besides pushes to dense tables, which every codec can. */
enum weir_codec_use {
	WEIR_CODES_ROWS = 1,        /* pushes to embedding tables */
	WEIR_CODES_PULLED_ROWS = 2, /* pulls from embedding tables */
	/* pulls from dense tables: differences in this codec come to an end, as it codes 0 as 0 and a
	 * block's largest magnitude closely */
	WEIR_CODES_PULLED_CHUNKS = 4,
	WEIR_CODES_BY_BOOK = 8 /* its codes are numbers of a code book's values */
};
#define WEIR_CODES_ROWS_BOTH_WAYS (WEIR_CODES_ROWS | WEIR_CODES_PULLED_ROWS)

/* Codec ids are part of the wire format and never change. The bytes of each codec are in
 * kernels/codecs/form.h.
 * X(NAME, number, name in job files, feedback, uses) */
#define WEIR_CODEC_MAP(X)                                                                       \
	X(FP32, 0, fp32, NEVER, WEIR_CODES_ROWS_BOTH_WAYS | WEIR_CODES_PULLED_CHUNKS)               \
	X(BF16, 1, bf16, NEVER, WEIR_CODES_ROWS_BOTH_WAYS | WEIR_CODES_PULLED_CHUNKS)               \
	X(FP16, 2, fp16, OPTIONAL, WEIR_CODES_ROWS_BOTH_WAYS | WEIR_CODES_PULLED_CHUNKS)            \
	X(INT8, 3, int8, OPTIONAL, WEIR_CODES_ROWS_BOTH_WAYS | WEIR_CODES_PULLED_CHUNKS)            \
	X(INT4, 4, int4, OPTIONAL, WEIR_CODES_ROWS | WEIR_CODES_PULLED_CHUNKS | WEIR_CODES_BY_BOOK) \
	X(SIGN, 5, sign, ALWAYS, 0)                                                                 \
	X(FP8_E4M3, 6, fp8_e4m3, OPTIONAL, WEIR_CODES_ROWS | WEIR_CODES_PULLED_CHUNKS)              \
	X(FP8_E5M2, 7, fp8_e5m2, OPTIONAL, WEIR_CODES_ROWS | WEIR_CODES_PULLED_CHUNKS)              \
	X(TOPK, 8, topk, ALWAYS, WEIR_CODES_PULLED_CHUNKS)                                          \
	X(INT2, 9, int2, OPTIONAL, WEIR_CODES_ROWS)

typedef enum weir_codec {
#define WEIR_CODEC_ENUM(name, number, text, feedback, uses) WEIR_CODEC_##name = number,
	WEIR_CODEC_MAP(WEIR_CODEC_ENUM)
#undef WEIR_CODEC_ENUM
} weir_codec;
#define WEIR_CODEC_ONE(name, number, text, feedback, uses) +1
enum { WEIR_CODECS = WEIR_CODEC_MAP(WEIR_CODEC_ONE) };
#undef WEIR_CODEC_ONE

/* The format of the values that top-k selects. The bytes of each are in kernels/topk_record.h.
 * X(NAME, number, name in job files, whether pulls may use it: their differences must end) */
#define WEIR_VALUES_MAP(X)                                                                                \
	X(FP32, 0, fp32, true)                                                                                \
	X(BF16, 1, bf16, true)                                                                                \
	X(INT8, 2, int8, true)                                                                                \
	X(LOG4, 3, log4, true)  /* a sign, and eight levels between the smallest and the largest magnitude */ \
	X(INT2, 4, int2, false) /* a sign, and one of two magnitudes of 64 values */

typedef enum weir_values {
#define WEIR_VALUES_ENUM(name, number, text, pulled) WEIR_VALUES_##name = number,
	WEIR_VALUES_MAP(WEIR_VALUES_ENUM)
#undef WEIR_VALUES_ENUM
} weir_values;
#define WEIR_VALUES_ONE(name, number, text, pulled) +1
enum { WEIR_VALUES = WEIR_VALUES_MAP(WEIR_VALUES_ONE) };
#undef WEIR_VALUES_ONE

/* The sixteen values that int4's codes stand for. */
#define WEIR_BOOK_MAP(X)                                   \
	X(NF4, 0, "nf4")             /* normal distribution */ \
	X(LOG, 1, "log")             /* powers of 2 */         \
	X(SEGMENTED, 2, "segmented") /* fitted to the table, repeatedly */

typedef enum weir_book {
#define WEIR_BOOK_ENUM(name, number, text) WEIR_BOOK_##name = number,
	WEIR_BOOK_MAP(WEIR_BOOK_ENUM)
#undef WEIR_BOOK_ENUM
} weir_book;
#define WEIR_BOOK_ONE(name, number, text) +1
enum { WEIR_BOOKS = WEIR_BOOK_MAP(WEIR_BOOK_ONE) };
#undef WEIR_BOOK_ONE

/* LZ4 compression of what is sent. */
#define WEIR_LZ4_MAP(X) \
	X(OFF, 0, "off")    \
	X(AUTO, 1, "auto") /* when a trial shows that it pays: gradients that are mostly zeros */

typedef enum weir_lz4 {
#define WEIR_LZ4_ENUM(name, number, text) WEIR_LZ4_##name = number,
	WEIR_LZ4_MAP(WEIR_LZ4_ENUM)
#undef WEIR_LZ4_ENUM
} weir_lz4;

/* How workers code gradients for the servers. With `feedback`, a worker keeps what a lossy codec
 * leaves out of a dense table and adds it to its next push (error feedback). */
typedef struct weir_compression {
	weir_codec codec;   /* embedding: those with WEIR_CODES_ROWS */
	weir_values values; /* topk */
	weir_book book;     /* int4 */
	float density;      /* topk: share of the elements in a push, (0, WEIR_DENSITY_MAX] */
	/* topk: momentum of the velocity that a worker accumulates instead of gradients (DGC), [0, 1);
	 * 0: no velocity */
	float momentum;
	/* topk: pushes of a worker during which the density falls from WEIR_DENSITY_MAX to `density`,
	 * by the same factor each time; 0: no warm-up */
	uint32_t warmup;
	bool feedback; /* dense tables, all codecs except those with WEIR_FEEDBACK_NEVER */
	/* embedding: share of the rows of a push that it sends, those with the largest norm; the others
	 * wait for the row's next gradient. 0: all rows. */
	float rows;
	weir_lz4 lz4;
	/* topk: maximum norm of a worker's gradient. A larger gradient is scaled down to it before
	 * accumulation (DGC, section 3.3). 0: no maximum. */
	float clip;
} weir_compression;
#define WEIR_DENSITY_MAX 0.25f /* above this, int4 takes fewer bytes */

/* How servers code values for trainers. Embedding rows are sent as values in this codec. For a
 * dense table with a codec other than fp32, servers send differences from the trainer's copy; the
 * next difference includes what this one leaves out. Clients that do not train get fp32. */
typedef struct weir_pull_coding {
	weir_codec codec;   /* of WEIR_CODES_PULLED_ROWS or WEIR_CODES_PULLED_CHUNKS */
	weir_values values; /* topk */
	weir_book book;     /* int4 */
	float density;      /* topk: share of the elements in a difference, (0, WEIR_DENSITY_MAX] */
	uint32_t every;     /* dense, not fp32: pushes to a chunk between two differences; 0: as 1 */
} weir_pull_coding;

typedef enum weir_init_kind {
	WEIR_INIT_ZERO = 0,
	WEIR_INIT_CONSTANT = 1, /* a */
	WEIR_INIT_UNIFORM = 2,  /* [-a, a) */
	WEIR_INIT_NORMAL = 3    /* standard deviation a */
} weir_init_kind;

/* Initial values of `elements` consecutive elements of a dense table. An embedding table has one
 * segment: its row width. */
typedef struct weir_init_segment {
	uint64_t elements;
	weir_init_kind kind;
	float a;
	bool undecayed; /* dense: weight_decay skips these elements */
} weir_init_segment;

/* Which keys of an embedding table get a row. A key without a row reads as its initial value; a
 * push to it has no effect except that it is counted. */
#define WEIR_ADMISSION_MAP(X)                                                                    \
	X(NONE, 0, "none")               /* every key, at its first push */                          \
	X(COUNT, 1, "count")             /* `count`-th push (sync: step); earlier ones only count */ \
	X(PROBABILITY, 2, "probability") /* each push to an unknown key admits it at this probability */

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

/* When rows of an embedding table are evicted: when either rule applies. A key that returns starts
 * anew. */
typedef struct weir_eviction {
	uint32_t ttl_s; /* no push for this many seconds; 0: off */
	/* no push for a half-life, and pushes >> (seconds since the last push / half_life_s) is less
	 * than this; 0: off */
	uint32_t min_score;
	uint32_t half_life_s; /* with min_score: at least 1 */
} weir_eviction;

typedef struct weir_table_spec {
	size_t size;                      /* see weir.h */
	char name[WEIR_TABLE_NAME_BYTES]; /* [a-z0-9_.-]+, NUL-terminated */
	weir_table_kind kind;
	uint32_t width;    /* embedding: elements per row */
	uint64_t elements; /* dense: total number of elements */
	weir_optimizer optimizer;
	weir_mode mode;
	weir_compression push;
	weir_pull_coding pull;
	weir_admission admission; /* embedding */
	weir_eviction eviction;   /* embedding */
	uint32_t segments_count;
	const weir_init_segment *segments; /* (segments_count), borrowed during the call */
	uint64_t seed;                     /* for the initial values */
} weir_table_spec;

#ifdef __cplusplus
}
#endif
#endif
