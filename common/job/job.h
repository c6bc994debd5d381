/* The job file, parsed and checked. It is the only interface that a person writes.
 * config/reference.yaml documents every key with its unit and default; job_schema.c holds the
 * schema. A program parses the job file once, at its edge, and passes the struct down; nothing else
 * reads YAML or the environment. */
#ifndef WEIR_JOB_H
#define WEIR_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/base/peer_identity.h"
#include "common/job/job_columns.h"
#include "common/job/job_models.h"
#include "weir/security.h"
#include "weir/status.h"
#include "weir/table.h"

enum log_place { JOB_LOG_MEMORY, JOB_LOG_DISK };
enum ack_rung { JOB_ACK_SENT, JOB_ACK_PRIMARY, JOB_ACK_REPLICAS, JOB_ACK_DISK };
enum data_format {
	DATA_CRITEO,
	DATA_LIBSVM,
	DATA_LIBFFM,
	DATA_PACKED,
	DATA_TEXT,
	DATA_TOKENS,
	DATA_CSV,
	DATA_JSONL,
	DATA_PARQUET,
	DATA_ARROW
};
enum job_lane { JOB_LANE_AUTO, JOB_LANE_GRPC };
enum data_packing { PACKING_PACKED, PACKING_APART };
enum chat_format { CHAT_AUTO, CHAT_NONE, CHAT_CHATML, CHAT_LLAMA2, CHAT_LLAMA3, CHAT_ALPACA };
enum invalid_utf8 { INVALID_UTF8_FAIL, INVALID_UTF8_REPLACE };
enum split_by { SPLIT_NONE, SPLIT_CRC32, SPLIT_GROUP, SPLIT_TIME };
enum recompute { RECOMPUTE_OFF, RECOMPUTE_LAYERS };
/* of train.early_stop.metric the first two */
enum eval_metric {
	METRIC_AUC,
	METRIC_LOGLOSS,
	METRIC_PR_AUC,
	METRIC_GAUC,
	METRIC_NDCG,
	METRIC_RECALL,
	METRIC_HIT_RATE,
	METRIC_OF_EARLY_STOP
};
enum slow_worker { SLOW_NONE, SLOW_ONE, SLOW_ROTATING };
enum read_from { READ_PRIMARY, READ_ANY };
enum checkpoint_precision { PRECISION_FP32, PRECISION_BF16, PRECISION_INT8 };
enum train_precision { TRAIN_FP32, TRAIN_TF32, TRAIN_BF16, TRAIN_FP16 };
enum loss_kind { LOSS_BCE, LOSS_FOCAL };
enum anomaly_policy { ANOMALY_WARN, ANOMALY_STOP };
enum overlap { OVERLAP_AUTO, OVERLAP_OFF, OVERLAP_LAYERS };
enum lr_scale { LR_SCALE_NONE, LR_SCALE_LINEAR, LR_SCALE_SQRT };
enum not_finite_policy { NOT_FINITE_REJECT, NOT_FINITE_CLIP, NOT_FINITE_ACCEPT };

/* mode.kind: local, until it is resolved to the mode of its rounds */
enum { JOB_MODE_LOCAL = WEIR_SSP + 1 };

/* The worker's part of mode.kind: local. */
struct job_local {
	weir_mode_kind rounds;
	weir_optimizer inner; /* optimizer of a worker's own steps; the table's is the outer one */
	uint32_t overlap;     /* batches between the push of a fragment and the use of its result */
	float merge;          /* share of that result that the worker takes; the rest stays its own */
};

/* pull.cache: rows that a worker keeps for later batches (worker/train/batch/row_cache.h). */
struct job_row_cache {
	uint64_t memory_bytes; /* for the rows; 0: no cache */
	uint32_t max_age;      /* batches that a row may serve after the one that pulled it */
	uint32_t max_uses;     /* number of uses of a row */
};

struct job_table { /* tables.embedding, tables.dense */
	weir_optimizer optimizer;
	weir_mode mode;
	struct job_local local; /* dense */
	bool decay_vectors;     /* dense: apply weight decay also to biases and norms */
	weir_compression push;
	weir_pull_coding pull;
	struct job_row_cache cache; /* embedding */
	weir_admission admission;   /* embedding */
	weir_eviction eviction;     /* embedding */
};

/* Keys that say `auto`, which asks the planner (docs/PLANNER.md). Until it has answered they have
 * their defaults. */
#define JOB_ASKS_MAX 16u
struct job_asks {
	uint32_t count;
	const char *keys[JOB_ASKS_MAX]; /* paths of the schema */
};

struct job {
	char name[WEIR_NAME_BYTES_MAX];
	struct job_asks asks;
	/* The file has neither data nor a model: trainers of other programs bring both, and register
	 * their own tables. train.passes is then 0 if the file does not give it. */
	bool foreign;
	char run_dir[WEIR_PATH_BYTES_MAX]; /* default runs/<job> */
	uint32_t keep_runs;                /* earlier runs whose results are kept there */
	struct {
		uint32_t servers, workers, partitions, replicas, min_isr; /* min_isr 0: auto */
		/* "static" | "etcd://HOST:PORT,..." */
		char coord[WEIR_PATH_BYTES_MAX];
		/* "auto": unix sockets in run_dir; otherwise "HOST:0" or "HOST:PORT" (server i adds i) */
		char listen[WEIR_ADDRESS_BYTES_MAX];
		/* (servers_at_count) addresses of a cluster that was started by other means */
		char **servers_at;
		uint32_t servers_at_count;
		uint64_t memory_budget_bytes;
		enum ack_rung ack;
		enum job_lane lane;
		uint32_t lane_port; /* 0: any */
		uint32_t fsync_interval_ms, flush_interval_ms;
		enum log_place log;
		uint32_t lease_ms;
		uint32_t progress_timeout_ms; /* 0: auto */
		uint32_t scrub_interval_s;    /* 0: never */
		/* rate of the snapshots that a server sends to others, 10^6 bytes/s */
		uint32_t catch_up_mb_s;
		uint32_t executors; /* threads per server; 0: auto = cores / local servers, at least 1 */
		struct {
			uint64_t rate_bits_per_s; /* 0: off */
			uint32_t latency_ms;
		} network; /* simulated; all 0: the real network */
	} cluster;
	struct {
		enum data_format format;
		/* globs of files, or addresses; with a split, only `train` is needed */
		char **train, **valid, **test;
		uint32_t train_count, valid_count, test_count;
		struct {
			enum split_by by;
			/* Shares. The crc32 of the line (text: of the block) modulo their sum (reduced) selects
			 * the part. */
			uint32_t train, valid, test;
			/* csv, by group or time: the column that decides; "": the one of that kind */
			char column[WEIR_COLUMN_NAME_BYTES_MAX];
			/* by time, in the column's format; "": there is no such part */
			char valid_from[WEIR_NAME_BYTES_MAX], test_from[WEIR_NAME_BYTES_MAX];
		} split;
		struct job_column *columns; /* (columns_count) csv */
		uint32_t columns_count;
		struct {
			char delimiter[2];
			char quote[8]; /* a character, or "none" */
			bool header;   /* the first row of each file names its columns */
			char **names;  /* (names_count) the columns of the files instead; none: data.columns */
			uint32_t names_count;
		} csv;
		uint32_t batch;        /* rows */
		uint32_t unit_batches; /* batches in one work unit */
		bool shuffle;
		uint64_t seed;
		uint32_t context;  /* text: bytes before the predicted one */
		uint32_t sequence; /* tokens: length of one sequence */
		/* tokens, from texts: "bytes", a folder or a tokenizer.json */
		char tokenizer[WEIR_PATH_BYTES_MAX];
		enum data_packing packing;      /* tokens */
		enum chat_format chat;          /* tokens, from JSONL: the form of conversations */
		enum invalid_utf8 invalid_utf8; /* tokens, from texts */
		uint32_t fields;                /* categorical fields; 0: from the format or the files */
		uint32_t dense;                 /* numeric features; 0: from the format */
		uint32_t min_bad_line_reports;  /* bad lines to show with file:line */
		uint64_t bad_lines_max;         /* more bad lines fail the job */
		/* per field; 0: keys are hashed to 64 bits, without buckets */
		uint64_t hash_buckets;
		/* labels above this are positive; NaN: labels are 0, 1 or -1 */
		float positive_above;
		uint32_t threads;  /* parsing threads per worker */
		uint32_t prefetch; /* batches to prepare ahead */
		/* for S3; "": the checkpoint's */
		char endpoint[WEIR_ADDRESS_BYTES_MAX], region[WEIR_NAME_BYTES_MAX];
		/* packed cache: "auto" = run_dir/cache, "off", or a directory */
		char cache[WEIR_PATH_BYTES_MAX];
		struct { /* generated data (weir datagen); rows 0: none */
			uint64_t rows, ids, seed;
		} generate;
	} data;
	struct {
		enum model_kind kind;
		uint32_t dim; /* embedding width */
		uint32_t hidden[WEIR_HIDDEN_LAYERS_MAX], hidden_count;
		/* dlrm: bottom MLP; its last width must be dim */
		uint32_t bottom[WEIR_HIDDEN_LAYERS_MAX], bottom_count;
		uint32_t cross_layers;                                       /* dcn_v2, dcn_mix */
		uint32_t experts;                                            /* dcn_mix, mmoe */
		uint32_t rank;                                               /* dcn_mix */
		uint32_t attention[WEIR_HIDDEN_LAYERS_MAX], attention_count; /* din: layers of the attention unit */
		/* shared_bottom, mmoe: the layers of each task's tower */
		uint32_t task_hidden[WEIR_HIDDEN_LAYERS_MAX], task_hidden_count;
		/* two_tower: (user_count), (item_count) the columns that each tower reads; the item's first
		 * one names it */
		char **user, **item;
		uint32_t user_count, item_count;
		uint32_t vector;   /* two_tower: elements of a tower's vector */
		float temperature; /* two_tower: the products' divisor */
		bool normalize;    /* two_tower: vectors have length 1 */
		bool logq;         /* two_tower: the loss corrects for how often items are in a batch */
		/* two_tower: items that join each batch, drawn by how often they are to this power */
		uint32_t negatives;
		float negatives_power;
		/* xdeepfm: feature maps of each layer of the compressed interaction network */
		uint32_t cin[WEIR_HIDDEN_LAYERS_MAX], cin_count;
		bool batch_norm;
		float dropout;
		float init_std; /* for embeddings */
		struct {
			float embedding, linear, dense; /* l2 per table: see weir_optimizer */
		} l2;
		/* gpt2, llama */
		/* A model folder that gives the values of the next three lines; "": these lines give
		 * them. */
		char from[WEIR_PATH_BYTES_MAX];
		uint32_t layers, heads, kv_heads, width, feed_forward; /* kv_heads, feed_forward 0: auto */
		uint32_t vocabulary, positions;                        /* 0: from the data; data.sequence */
		float norm_eps, rope_theta;
		bool tied_head;
		enum recompute recompute;
		struct {
			/* A PEFT folder with the initial adapters, which gives rank, alpha and targets; "":
			 * none. */
			char from[WEIR_PATH_BYTES_MAX];
			uint32_t rank; /* 0: no adapters, unless `from` has them */
			float alpha, dropout;
			char **targets; /* (targets_count); none: auto */
			uint32_t targets_count;
		} lora;
	} model;
	struct {
		struct job_table embedding, dense;
	} tables;
	struct {
		uint32_t passes;
		struct {
			enum loss_kind kind;
			float gamma, alpha; /* focal; alpha NaN: both classes count alike */
			float label_smoothing, pos_weight;
			float *task_weights; /* (task_weights_count) one for each label; none: all 1 */
			uint32_t task_weights_count;
		} loss; /* of clicks: kernels/click_loss.h */
		/* maximum number of parts that a batch is computed in, one after the other; language
		 * models */
		uint32_t accumulate;
		enum overlap overlap; /* whether layers of a synchronous dense table travel while others compute */
		float clip_norm;      /* global gradient norm; 0: off */
		/* how the number of live trainers (relative to cluster.workers) scales the learning
		 * rates */
		enum lr_scale lr_scale;
		enum not_finite_policy not_finite;
		struct {
			enum anomaly_policy policy;
			uint32_t data_s; /* seconds without a batch from the reader */
		} anomaly;
		enum train_precision precision; /* of the factors of matrix products */
		float peak_flops;               /* operations per second of a worker's device; 0: unknown */
		uint64_t device_memory_bytes;   /* 0: auto */
		struct {
			enum eval_metric metric; /* text: always METRIC_LOGLOSS, the loss */
			uint32_t patience;       /* evaluations without improvement; 0: never stop early */
			float min_delta;
		} early_stop;
		bool keep_best;                             /* test with the weights that were best on the validation split */
		enum eval_metric best_by;                   /* which are the best: see job_best_by */
		char best_task[WEIR_COLUMN_NAME_BYTES_MAX]; /* of several: whose figures; "": the first */
		/* the k of NDCG@k, recall@k and hit rate@k; best_by means the first */
		uint32_t rank_at[WEIR_RANK_PLACES_MAX], rank_at_count;
		uint64_t seed;
		struct {
			uint32_t batch_ms; /* minimum duration of a batch; 0: no minimum */
			enum slow_worker slow;
			uint32_t times;   /* slowdown factor of a slow worker */
			uint32_t turn_ms; /* rotating: duration of one worker's turn */
		} pace;               /* artificial, for experiments */
		uint32_t threads;     /* compute threads per worker; 0: auto */
		uint32_t allow_skip;  /* number of quarantined units to tolerate */
		/* safetensors file or checkpoint; "": initial values */
		char warm_start[WEIR_PATH_BYTES_MAX];
	} train;
	/* auto | cpu | cuda | cuda:N | cuda:GPU-... | cuda:MIG-... */
	char device[WEIR_DEVICE_BYTES_MAX];
	struct {
		/* a folder, or s3://BUCKET[/PREFIX]; default run_dir/checkpoints */
		char dir[WEIR_PATH_BYTES_MAX];
		/* for S3; "": Amazon's, us-east-1 */
		char endpoint[WEIR_ADDRESS_BYTES_MAX], region[WEIR_NAME_BYTES_MAX];
		uint64_t every_steps; /* batches of the whole job; 0: only on request */
		uint32_t keep;
		enum checkpoint_precision precision, slot_precision; /* of values, of optimizer slots */
		/* rate at which a server copies out while it trains */
		uint64_t rate_bytes_per_s;
	} checkpoint;
	struct {
		enum read_from from;
		uint32_t max_staleness_ms; /* this and the next: with READ_ANY */
		uint64_t max_staleness_entries;
	} read;
	struct {
		char host[WEIR_ADDRESS_BYTES_MAX]; /* numeric */
		uint32_t port;                     /* 0: off */
		char **names;                      /* (names_count) further host names for the pages */
		uint32_t names_count;
		char powercap[WEIR_PATH_BYTES_MAX]; /* the tree with the machine's energy counters (energy.h) */
	} metrics;
	struct {
		/* folder of the event files and of mlflow.json; default run_dir */
		char dir[WEIR_PATH_BYTES_MAX];
		struct {
			char uri[WEIR_ADDRESS_BYTES_MAX];        /* "": no tracking by MLflow */
			char experiment[WEIR_ADDRESS_BYTES_MAX]; /* default: the job's name */
			char run_name[WEIR_ADDRESS_BYTES_MAX];   /* default: the job's name */
			char parent[WEIR_NAME_BYTES_MAX];        /* id of the run that this one is nested in; "": none */
			char **tags;                             /* (tags_count) "key=value" */
			uint32_t tags_count, patience_s;
		} mlflow;
	} track;
	struct {
		/* All or none. "{role}" in them stands for the role of the process. */
		char certificate[WEIR_PATH_BYTES_MAX], key[WEIR_PATH_BYTES_MAX], ca[WEIR_PATH_BYTES_MAX];
		uint32_t reload_s;
		bool insecure;
	} security;
};

/* Reads and checks `path`, then applies `sets` ("a.b=c") in order. ${NAME} in strings is replaced
 * from the environment here, at the edge; an unset variable is an error that names it. On failure,
 * *err states file:line:column, the key, its value, the expected value, and the nearest valid key.
 * Free *out with job_destroy. */
weir_status job_load(const char *path, const char *const *sets, uint32_t sets_count, struct job **out, weir_error *err);
weir_status job_parse(const char *text, const char *name, const char *const *sets, uint32_t sets_count, struct job **out,
                      weir_error *err);
/* All mistakes of one job file, in the order of its lines; then those of --set; then those without
 * a place. */
struct job_mistake {
	uint32_t line;
	weir_error error;
};
struct job_mistakes {
	uint32_t count; /* the first WEIR_JOB_MISTAKES_MAX are kept */
	struct job_mistake kept[WEIR_JOB_MISTAKES_MAX];
};
/* The same, but reports all mistakes (none if the file does not exist), and returns the file's text
 * in *text; the caller frees it. */
weir_status job_load_all(const char *path, const char *const *sets, uint32_t sets_count, struct job **out, char **text,
                         struct job_mistakes *mistakes, weir_error *err);
weir_status job_parse_all(const char *text, const char *name, const char *const *sets, uint32_t sets_count, struct job **out,
                          struct job_mistakes *mistakes, weir_error *err);
/* The text of a job file in malloc'ed memory; "-" is stdin. */
weir_status job_read_file(const char *path, char **out, size_t *bytes, weir_error *err);
/* Whether the file can be read only once, and only by this process: "-", a pipe, /dev/stdin, or a
 * shell's <(...). */
bool job_file_is_piped(const char *path);
void job_destroy(struct job *job);
/* E_STATE: keys of the job still wait for the planner; for processes that `weir train` starts with
 * its answers. */
weir_status job_check_planned(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
bool job_asks(const struct job *job, const char *key);
/* E_INVALID for a foreign job: what is missing, and which verbs it is for. */
weir_status job_check_own(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
/* The address of the pages of a process of the job (monitor.h); false: no pages. place: the number
 * of the process among those that `weir train` starts on one machine, which determines its port:
 * servers first, then workers, then the evaluator. */
bool job_monitor_address(const struct job *job, uint32_t place, char out[WEIR_ADDRESS_BYTES_MAX]);
/* The folder of a server's log and rows (`log: disk`): run_dir/server-<index>. */
void job_server_dir(const struct job *job, uint32_t index, char out[WEIR_PATH_BYTES_MAX + 32]);
/* the mark file beside it */
void job_server_mark(const struct job *job, uint32_t index, char out[WEIR_PATH_BYTES_MAX + 32]);
/* The servers of cluster.servers_at that may have the ledger: "A,B". False: servers_at is empty. */
#define JOB_PLACES_BYTES (WEIR_SERVERS_MAX * WEIR_ADDRESS_BYTES_MAX)
bool job_ledger_places(const struct job *job, char out[JOB_PLACES_BYTES]);
/* the number of servers, from the first one, that may have the ledger */
uint32_t job_ledger_places_count(const struct job *job);
/* The security settings of a process of this role towards the other processes of the job. Borrows
 * job while *out is in use; *out must not move. */
struct job_security {
	weir_security is;
	char certificate[WEIR_PATH_BYTES_MAX], key[WEIR_PATH_BYTES_MAX], ca[WEIR_PATH_BYTES_MAX];
};
void job_security(const struct job *job, enum peer_role role, struct job_security *out);
/* The role of the evaluator's certificate: evaluator, or worker if the job has no file for that
 * role. */
enum peer_role job_evaluator_role(const struct job *job);
/* Whether the job has rows for validation, and for tests: files of their own, or a share of the
 * split. */
bool job_has_valid(const struct job *job);
/* The figure of the validation part by which weights are the best, and the task, from 0, of which
 * it is. */
enum eval_metric job_best_by(const struct job *job);
uint32_t job_best_task(const struct job *job);
bool job_has_test(const struct job *job);
/* Whether the model predicts the next part of a text, and not clicks. */
bool job_is_language(const struct job *job);
bool job_is_transformer(const struct job *job);
/* Whether the model normalises over the rows of a batch: it cannot learn from a batch of one
 * row. */
bool job_normalises_batches(const struct job *job);
/* How long workers wait for an unreachable server. A server whose log is on disk comes back;
 * partitions with replicas continue elsewhere; a server whose only log is in memory may just stall
 * for a while. */
uint32_t job_server_patience_ms(const struct job *job);
/* Whether passes wait for the evaluator's result: only if the result decides something. */
bool job_waits_for_evaluation(const struct job *job);
/* The candidate nearest to `word` by edit distance, or NULL if none is close. Also for error
 * messages elsewhere. */
const char *job_nearest(const char *word, const char *const *candidates, uint32_t count);

#endif
