/* What the planner knows: the figures of a job's batch, measured by a probe (cli/probe/) or read
 * from a file, and the machines that the job runs on. Seconds are of one thread of the measured
 * machine unless a comment says otherwise. */
#ifndef WEIR_PLAN_FIGURES_H
#define WEIR_PLAN_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#define PLAN_CODES_MAX    16u
#define PLAN_CODEC_BYTES  16u
#define PLAN_MACHINES_MAX 64u
#define PLAN_LAYERS_MAX   64u

/* One direction of one kind of table. X(NAME, key of the job file) */
#define PLAN_LEG_MAP(X)                         \
	X(DENSE_PUSH, "tables.dense.push.codec")    \
	X(DENSE_PULL, "tables.dense.pull.codec")    \
	X(ROWS_PUSH, "tables.embedding.push.codec") \
	X(ROWS_PULL, "tables.embedding.pull.codec")
enum plan_leg {
#define PLAN_LEG_ENUM(name, key) PLAN_##name,
	PLAN_LEG_MAP(PLAN_LEG_ENUM)
#undef PLAN_LEG_ENUM
	    PLAN_LEGS
};

/* What a batch's push or pull of a leg costs in one codec. */
struct plan_code {
	char codec[PLAN_CODEC_BYTES];
	double bytes;       /* on the wire: what a push brings, what a pull gets */
	double asked_bytes; /* of a pull's request, the other way */
	double caller_s;    /* of the trainer's thread, which codes what it pushes */
	double client_s;    /* of the worker's other threads */
	double server_s;    /* of all servers together */
};

struct plan_figures {
	double cores;
	double rows;           /* examples of a batch */
	double keys;           /* its distinct keys; 0: the model has no embeddings */
	double dense_elements; /* of the dense table */
	double compute_one_s;  /* forward and backward, one thread */
	double compute_all_s;  /* the same with a thread on each core: wall time */
	double crowd;          /* how many times longer a thread computes while all cores compute */
	double jitter;         /* standard deviation of a batch's time over its mean */
	double load_s;         /* the trainer's thread: distinct keys of the batch */
	double read_s;         /* the reader's thread */
	double inner_s;        /* a step of the dense table's optimizer at the worker */
	double outer_s;        /* of servers: how much less SGD costs them than that optimizer */
	double score_s;        /* evaluation, a batch of as many rows, with its reading */
	double cache_hits;     /* share of a batch's keys that a worker's cache of rows has */
	double cache_bytes;    /* memory that those rows need */
	double round_trip_s;   /* a small pull, on this machine */
	/* What a whole batch with the job's own codecs takes beyond the sum of its parts (below 0:
	 * less): of the trainer's thread, of the worker's other threads, of servers. */
	double joint_caller_s, joint_client_s, joint_server_s;
	double batches;       /* of a pass */
	double valid_batches; /* of the validation part; 0: passes do not wait for it */
	struct plan_code legs[PLAN_LEGS][PLAN_CODES_MAX];
	uint32_t codes[PLAN_LEGS]; /* their number; 0: the model has no such table */
	/* The dense table's tensors in the order of the forward pass: elements. */
	double layers[PLAN_LAYERS_MAX];
	uint32_t layers_count;
};

/* Where processes run. With `shared`, all on one machine of figures.cores; otherwise each on its
 * own. Lists are ordered: the first servers and workers are used first. */
struct plan_site {
	bool shared;
	double rate_bits_per_s;                  /* of each process's card and direction; 0: no limit */
	double latency_s;                        /* of a message, one way */
	double least_batch_s[PLAN_MACHINES_MAX]; /* workers: train.pace */
	double worker_speed[PLAN_MACHINES_MAX];  /* relative to the measured machine */
	double server_speed[PLAN_MACHINES_MAX];
	double worker_cores, server_cores; /* of a machine; not shared */
	uint32_t workers_max, servers_max;
	uint32_t threads;      /* train.threads; 0: cores / workers */
	uint32_t replicas;     /* copies of each partition */
	uint32_t unit_batches; /* data.unit_batches; a round has at most so many steps */
	uint32_t passes;       /* train.passes */
	bool rows_cached;      /* the embedding table may be cached: its mode is async */
	bool rows_wait;        /* the embedding table is synchronous */
	bool pulls_by_layer;   /* a synchronous dense table travels while its layers compute: pulls, pushes */
	bool pushes_by_layer;
	bool rounds_wait; /* rounds of local steps wait for all workers */
	/* Speed of the job as written, measured here, over its bill's: a factor of every plan's. */
	double rehearsed;
};

#endif
