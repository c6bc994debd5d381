/* The job file, parsed and checked: the one interface a person writes. config/reference.yaml documents every key with its
 * unit and default; job_schema.c holds the schema. Parsed once at the edge and passed down; nothing else reads YAML or environment. */
#ifndef WEIR_JOB_H
#define WEIR_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/base/peer_identity.h"
#include "weir/security.h"
#include "weir/status.h"
#include "weir/table.h"

enum log_place { JOB_LOG_MEMORY, JOB_LOG_DISK };
enum ack_rung { JOB_ACK_SENT, JOB_ACK_PRIMARY, JOB_ACK_REPLICAS, JOB_ACK_DISK };
enum data_format { DATA_CRITEO, DATA_LIBSVM, DATA_LIBFFM, DATA_PACKED, DATA_TEXT, DATA_TOKENS };
enum data_packing { PACKING_PACKED, PACKING_APART };
enum chat_format { CHAT_AUTO, CHAT_NONE, CHAT_CHATML, CHAT_LLAMA2, CHAT_LLAMA3, CHAT_ALPACA };
enum invalid_utf8 { INVALID_UTF8_FAIL, INVALID_UTF8_REPLACE };
enum split_by { SPLIT_NONE, SPLIT_CRC32 };
enum model_kind {
	MODEL_LR,
	MODEL_FM,
	MODEL_WIDE_DEEP,
	MODEL_DEEPFM,
	MODEL_DCN_V2,
	MODEL_DLRM,
	MODEL_NGRAM,
	MODEL_GPT2,
	MODEL_LLAMA
};
enum recompute { RECOMPUTE_OFF, RECOMPUTE_LAYERS };
enum eval_metric { METRIC_AUC, METRIC_LOGLOSS };
enum slow_worker { SLOW_NONE, SLOW_ONE, SLOW_ROTATING };
enum read_from { READ_PRIMARY, READ_ANY };
enum checkpoint_precision { PRECISION_FP32, PRECISION_BF16, PRECISION_INT8 };
enum train_precision { TRAIN_FP32, TRAIN_TF32, TRAIN_BF16, TRAIN_FP16 };
enum anomaly_policy { ANOMALY_WARN, ANOMALY_STOP };
enum lr_scale { LR_SCALE_NONE, LR_SCALE_LINEAR, LR_SCALE_SQRT };
enum not_finite_policy { NOT_FINITE_REJECT, NOT_FINITE_CLIP, NOT_FINITE_ACCEPT };

enum { JOB_MODE_LOCAL = WEIR_SSP + 1 }; /* mode.kind: local, before it is settled to that of its rounds */

/* mode.kind: local, the worker's part. */
struct job_local {
	weir_mode_kind rounds;
	weir_optimizer inner; /* of a worker's own steps; the table's is the outer one */
	uint32_t overlap;     /* batches between a fragment's push and when what came of it is taken in */
	float merge;          /* then: share of it; the rest stays the worker's own */
};

/* pull.cache: rows that a worker keeps for the batches after (worker/train/batch/row_cache.h). */
struct job_row_cache {
	uint64_t memory_bytes; /* of the rows; 0: no cache */
	uint32_t max_age;      /* batches that a row may serve after the one that pulled it, */
	uint32_t max_uses;     /* and how many of them */
};

struct job_table { /* tables.embedding, tables.dense */
	weir_optimizer optimizer;
	weir_mode mode;
	struct job_local local; /* dense */
	bool decay_vectors;     /* dense: weight decay acts on biases and norms, too */
	weir_compression push;
	weir_pull_coding pull;
	struct job_row_cache cache; /* embedding */
	weir_admission admission;   /* embedding */
	weir_eviction eviction;     /* embedding */
};

struct job {
	char name[WEIR_NAME_BYTES_MAX];
	char run_dir[WEIR_PATH_BYTES_MAX]; /* default runs/<job> */
	uint32_t keep_runs;                /* earlier runs whose results stay there */
	struct {
		uint32_t servers, workers, partitions, replicas, min_isr; /* min_isr 0: auto */
		char coord[WEIR_PATH_BYTES_MAX];                          /* "static" | "etcd://HOST:PORT,..." */
		char listen[WEIR_ADDRESS_BYTES_MAX]; /* "auto": unix sockets in run_dir; else "HOST:0", "HOST:PORT" (server i adds i) */
		char **servers_at;                   /* (servers_at_count) addresses of a cluster started by other means */
		uint32_t servers_at_count;
		uint64_t memory_budget_bytes;
		enum ack_rung ack;
		uint32_t fsync_interval_ms, flush_interval_ms;
		enum log_place log;
		uint32_t lease_ms;
		uint32_t progress_timeout_ms; /* 0: auto */
		uint32_t scrub_interval_s;    /* 0: never */
		uint32_t catch_up_mb_s;       /* 10^6 bytes a second of snapshots that a server sends to others */
		uint32_t executors;           /* threads per server; 0: auto = cores / local servers, at least 1 */
		struct {
			uint64_t rate_bits_per_s; /* 0: off */
			uint32_t latency_ms;
		} network; /* simulated; all 0: the network as it is */
	} cluster;
	struct {
		enum data_format format;
		char **train, **valid, **test; /* globs of files, addresses; with a split only `train` is needed */
		uint32_t train_count, valid_count, test_count;
		struct {
			enum split_by by;
			uint32_t train, valid,
			    test; /* shares; the crc32 of the line (text: of the block) modulo their sum (reduced) decides */
		} split;
		uint32_t batch;        /* rows */
		uint32_t unit_batches; /* batches per work unit */
		bool shuffle;
		uint64_t seed;
		uint32_t context;                    /* text: bytes before the one to predict */
		uint32_t sequence;                   /* tokens: of one sequence */
		char tokenizer[WEIR_PATH_BYTES_MAX]; /* tokens, of texts: "bytes", a folder or a tokenizer.json */
		enum data_packing packing;           /* tokens */
		enum chat_format chat;               /* tokens, of JSONL: how conversations are written */
		enum invalid_utf8 invalid_utf8;      /* tokens, of texts */
		uint32_t fields;                     /* categorical fields; 0: from the format or the files */
		uint32_t dense;                      /* numeric features; 0: from the format */
		uint32_t min_bad_line_reports;       /* bad lines shown with file:line */
		uint64_t bad_lines_max;              /* more than this fails the job */
		uint64_t hash_buckets;               /* of each field; 0: keys are hashed to 64 bits, no buckets */
		float positive_above;                /* labels above this are positive; NaN: labels are 0, 1 or -1 */
		uint32_t threads;                    /* parsing threads per worker */
		uint32_t prefetch;                   /* batches ready ahead */
		char endpoint[WEIR_ADDRESS_BYTES_MAX], region[WEIR_NAME_BYTES_MAX]; /* of S3; "": the checkpoint's */
		char cache[WEIR_PATH_BYTES_MAX]; /* packed cache: "auto" = run_dir/cache, "off", or a directory */
		struct {                         /* generated data (weir datagen); rows 0: none */
			uint64_t rows, ids, seed;
		} generate;
	} data;
	struct {
		enum model_kind kind;
		uint32_t dim; /* embedding width */
		uint32_t hidden[WEIR_HIDDEN_LAYERS_MAX], hidden_count;
		uint32_t bottom[WEIR_HIDDEN_LAYERS_MAX], bottom_count; /* dlrm: bottom MLP; its last width must be dim */
		uint32_t cross_layers;                                 /* dcn_v2 */
		bool batch_norm;
		float dropout;
		float init_std; /* of embeddings */
		struct {
			float embedding, linear, dense; /* l2 per table: see weir_optimizer */
		} l2;
		/* gpt2, llama */
		char from[WEIR_PATH_BYTES_MAX]; /* a model folder, which says what of the next three lines is; "": they do */
		uint32_t layers, heads, kv_heads, width, feed_forward; /* kv_heads, feed_forward 0: auto */
		uint32_t vocabulary, positions;                        /* 0: the data's; data.sequence */
		float norm_eps, rope_theta;
		bool tied_head;
		enum recompute recompute;
		struct {
			char from
			    [WEIR_PATH_BYTES_MAX]; /* a folder of PEFT's that adapters begin with, which says rank, alpha and targets; "": none */
			uint32_t rank;             /* 0: none, but for those of `from` */
			float alpha, dropout;
			char **targets; /* (targets_count) none: auto */
			uint32_t targets_count;
		} lora;
	} model;
	struct {
		struct job_table embedding, dense;
	} tables;
	struct {
		uint32_t passes;
		uint32_t accumulate;    /* parts that a batch is computed in, at most, one after the other; language models */
		float clip_norm;        /* global gradient norm; 0: off */
		enum lr_scale lr_scale; /* learning rates in trainers that live over cluster.workers */
		enum not_finite_policy not_finite;
		struct {
			enum anomaly_policy policy;
			uint32_t data_s; /* without a batch from the reader */
		} anomaly;
		enum train_precision precision; /* of the factors of matrix products */
		float peak_flops;               /* operations that a worker's device can do in a second; 0: unknown */
		uint64_t device_memory_bytes;   /* 0: auto */
		struct {
			enum eval_metric metric; /* text: always METRIC_LOGLOSS, its loss */
			uint32_t patience;       /* evaluations without improvement; 0: never stop early */
			float min_delta;
		} early_stop;
		bool keep_best; /* test with the weights that were best on the validation split */
		uint64_t seed;
		struct {
			uint32_t batch_ms; /* a batch lasts at least; 0: as long as it takes */
			enum slow_worker slow;
			uint32_t times;                   /* as long for who is slow */
			uint32_t turn_ms;                 /* rotating: how long one is */
		} pace;                               /* made up, for experiments */
		uint32_t threads;                     /* compute threads per worker; 0: auto */
		uint32_t allow_skip;                  /* quarantined units tolerated */
		char warm_start[WEIR_PATH_BYTES_MAX]; /* safetensors file or checkpoint; "": initial values */
	} train;
	char device[WEIR_DEVICE_BYTES_MAX]; /* auto | cpu | cuda | cuda:N | cuda:GPU-... | cuda:MIG-... */
	struct {
		char dir[WEIR_PATH_BYTES_MAX]; /* a folder, or s3://BUCKET[/PREFIX]; default run_dir/checkpoints */
		char endpoint[WEIR_ADDRESS_BYTES_MAX], region[WEIR_NAME_BYTES_MAX]; /* of S3; "": Amazon's, us-east-1 */
		uint64_t every_steps;                                               /* batches of the whole job; 0: only when asked */
		uint32_t keep;
		enum checkpoint_precision precision, slot_precision; /* of values, of optimizer slots */
		uint64_t rate_bytes_per_s;                           /* that a server copies out while it trains */
	} checkpoint;
	struct {
		enum read_from from;
		uint32_t max_staleness_ms; /* these two: with READ_ANY */
		uint64_t max_staleness_entries;
	} read;
	struct {
		char host[WEIR_ADDRESS_BYTES_MAX]; /* numeric */
		uint32_t port;                     /* 0: off */
		char **names;                      /* (names_count) by which pages may be asked for, too */
		uint32_t names_count;
	} metrics;
	struct {
		char certificate[WEIR_PATH_BYTES_MAX], key[WEIR_PATH_BYTES_MAX],
		    ca[WEIR_PATH_BYTES_MAX]; /* all or none; "{role}" in them: as what a process takes part */
		uint32_t reload_s;
		bool insecure;
	} security;
};

/* Reads and checks `path`, then applies `sets` ("a.b=c") in order. ${NAME} in strings is replaced from the environment here,
 * at the edge, and an unset one is an error that names it. On failure *err says file:line:column, the key, its value, what was expected and the
 * nearest valid key. *out is freed with job_free. */
weir_status job_load(const char *path, const char *const *sets, uint32_t sets_count, struct job **out, weir_error *err);
weir_status job_parse(const char *text, const char *name, const char *const *sets, uint32_t sets_count, struct job **out,
                      weir_error *err);
/* Every mistake of one job file, in the order of its lines; then those of --set, then what stands
 * nowhere. */
struct job_mistake {
	uint32_t line;
	weir_error error;
};
struct job_mistakes {
	uint32_t count; /* the first WEIR_JOB_MISTAKES_MAX are kept */
	struct job_mistake kept[WEIR_JOB_MISTAKES_MAX];
};
/* The same, telling all mistakes (none where there is no such file), and leaving the file's text in
 * *text, to free. */
weir_status job_load_all(const char *path, const char *const *sets, uint32_t sets_count, struct job **out, char **text,
                         struct job_mistakes *mistakes, weir_error *err);
weir_status job_parse_all(const char *text, const char *name, const char *const *sets, uint32_t sets_count, struct job **out,
                          struct job_mistakes *mistakes, weir_error *err);
/* The text of a job file in malloc'ed memory; "-" is stdin. */
weir_status job_read_file(const char *path, char **out, size_t *bytes, weir_error *err);
/* Whether it can be read only once, and by this process alone: "-", a pipe, /dev/stdin, what a
 * shell makes of <(...). */
bool job_file_is_piped(const char *path);
void job_free(struct job *job);
/* The folder of a server's log and rows (`log: disk`): run_dir/server-<index>. */
/* Where a process of the job shows its pages (monitor.h); false: it does not. place: among those that `weir train` starts on one machine, which are told apart by their
 * ports: servers first, then workers, then the evaluator. */
bool job_monitor_address(const struct job *job, uint32_t place, char out[WEIR_ADDRESS_BYTES_MAX]);
void job_server_dir(const struct job *job, uint32_t index, char out[WEIR_PATH_BYTES_MAX + 32]);
void job_server_mark(const struct job *job, uint32_t index, char out[WEIR_PATH_BYTES_MAX + 32]); /* the file beside it */
/* Servers that may have the ledger, of those that cluster.servers_at names: "A,B". False: it names none. */
#define JOB_PLACES_BYTES (WEIR_SERVERS_MAX * WEIR_ADDRESS_BYTES_MAX)
bool job_ledger_places(const struct job *job, char out[JOB_PLACES_BYTES]);
uint32_t job_ledger_places_count(const struct job *job); /* the first so many servers may have it */
/* How a process of that role speaks to the others of the job. job is borrowed as long as *out is used, which must stay where it is. */
struct job_security {
	weir_security is;
	char certificate[WEIR_PATH_BYTES_MAX], key[WEIR_PATH_BYTES_MAX], ca[WEIR_PATH_BYTES_MAX];
};
void job_security(const struct job *job, enum principal_role role, struct job_security *out);
/* The role of the evaluator's certificate: evaluator, or worker where the job has no file for
 * that role. */
enum principal_role job_evaluator_role(const struct job *job);
/* Whether the job has rows to validate on, and to test on: files of their own, or a share of the split. */
bool job_has_valid(const struct job *job);
bool job_has_test(const struct job *job);
/* Whether the model learns what comes next in a text, rather than who clicks. */
bool job_is_language(const struct job *job);
bool job_is_transformer(const struct job *job);
/* Whether the model normalises over the rows of a batch: it cannot learn from a batch of one. */
bool job_normalises_batches(const struct job *job);
/* How long workers wait for a server that cannot be reached: one whose log is on disk comes back, partitions with replicas go on elsewhere, and one whose only log is in
 * memory may stand still for a while. */
uint32_t job_server_patience_ms(const struct job *job);
/* Whether passes wait for the evaluator's verdict: only when it decides something. */
bool job_waits_for_evaluation(const struct job *job);
/* "nearest" of candidates to `word` by edit distance, or NULL when nothing is close. For error messages elsewhere too. */
const char *job_nearest(const char *word, const char *const *candidates, uint32_t count);

#endif
