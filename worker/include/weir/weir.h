/* libweir: the client half of Weir, for trainers of any kind.
 *
 * A trainer opens a client, registers its tables, and then repeats: lease a work unit, and for each of its batches pull the rows
 * it needs, compute, push gradients; when the unit is through, commit it. The library cuts rows by partition, talks to all servers at
 * once, keeps what it sent until it is acknowledged, seals units that another worker had begun, leaves out parts that are applied
 * already, renews leases, and follows the steps of synchronous tables. Every batch's push is applied exactly once in every partition,
 * whoever dies, provided that a batch (pass, unit, batch) always holds the same examples.
 *
 *     weir_client *c;  weir_unit u;  weir_error e = {0};
 *     weir_open(&c, &(weir_options){.ledger = "unix:/run/weir/server-0.sock", .name = "worker-0"}, &e);
 *     weir_table_register(c, &spec, &table, &e);
 *     while (weir_unit_lease(c, &u, -1, &e) == WEIR_OK && u.state == WEIR_UNIT_LEASED) {
 *         weir_unit_begin(c, &u, batches, &e);
 *         for (b = u.watermark; b < batches; b++) { pull; wait; compute; push; }
 *         weir_unit_commit(c, &u, &e);
 *     }
 *     weir_close(c, &e);
 *
 * Ownership. Options, specs and item arrays are borrowed for the duration of the call, strings in options are copied. What `keys`,
 * `values` and `encoded` of a pull or push point to is borrowed until that operation completes (its callback runs, or weir_wait on it
 * returns); with `copy` set, a push's values only during the call. Handles are the caller's until closed.
 * Callbacks run on the library's own thread, exactly once per operation that was accepted; an operation that was refused
 * (a status other than WEIR_OK) never calls back. A callback must be short and must not call weir_wait, weir_unit_*, weir_push_residuals, weir_rejoin or weir_close.
 * Threads. One client may be used by several threads; operations started by one thread are sent in its order.
 * Errors. weir_error (may be NULL) gets a sentence. WEIR_E_STALE: this worker was taken for dead; drop residuals, call weir_rejoin.
 * WEIR_E_LOST: a server was started again and has nothing any more; close the client, and start the job anew.
 * WEIR_E_GENERATION: the job has gone back to a checkpoint; what was pushed since does not count. Drop everything, weir_abandon the client, open another.
 * Progress. The library's own thread keeps the client alive, but the trainer must move, too. While it
 * holds a unit, at most cluster.progress_timeout_ms may pass between two moves: a batch begins (with its
 * first pull or its push), is pushed or is left out, a unit is committed or given back, or weir_progress
 * is told of batches. By default that is ten times the longest such time so far, at least a minute, and
 * ten minutes before the first push. Time does not count while a server, the ledger or another worker
 * has to act first. A trainer that computes for longer without a push, as in a round of local steps,
 * calls weir_progress for each batch. A trainer that does not move is named, its units go to other
 * workers, and it gets WEIR_E_STALE. An evaluator that a pass waits for must pull, scan, or give its
 * verdict likewise.
 * The library never exits, prints, or reads the environment. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stddef.h>
#include <stdint.h>

#include "weir/encoder.h"
#include "weir/security.h"
#include "weir/status.h"
#include "weir/table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_API_VERSION 1

typedef struct weir_client weir_client;

typedef enum weir_role { WEIR_TRAINER = 0, WEIR_EVALUATOR = 1, WEIR_OBSERVER = 2 } weir_role;
typedef enum weir_log_level { WEIR_LOG_DEBUG, WEIR_LOG_INFO, WEIR_LOG_WARN, WEIR_LOG_ERROR } weir_log_level;

typedef struct weir_options {
	/* Address of the server that hosts the ledger: "unix:/path", "HOST:PORT". Where it has replicas: of any server, or of several, separated by commas. */
	const char *ledger;
	/* Of this worker: letters, digits, '_', '-', '.'. A name belongs to one live worker, and a
	 * job has one evaluator: weir_open and weir_rejoin wait while the holder may have died (2 s
	 * of silence), and fail with WEIR_E_EXISTS, naming it, once it has been heard from. */
	const char *name;
	weir_role role;               /* evaluators and observers may pull but not push or lease */
	uint64_t dataset_fingerprint; /* trainers: hash of what the units are cut from; all trainers must agree */
	uint32_t dataset_units;       /* trainers: units per pass */
	uint64_t dataset_rows;        /* 0: unknown */
	/* trainers: batches that a unit has, about. Towards the end of a pass the ledger then leases parts of units, so that all workers end it together: see weir_unit.end.
	 * 0: never */
	uint32_t dataset_unit_batches;
	/* What determines the job's results, as lines KEY=VALUE: the first trainer's is kept, and whoever has another value for a key is refused by WEIR_E_INVALID, which
	 * names the key and both values. A key that only one of two has is not compared. NULL: none, nothing is compared. */
	const char *fingerprint;
	/* Keys of it in which this worker may differ (accept_count): for the job their values are this worker's from then on. */
	const char *const *accept;
	size_t accept_count;
	uint32_t connect_timeout_ms;                                    /* 0: 4000 */
	void (*log)(void *arg, weir_log_level level, const char *line); /* may be NULL */
	void *log_arg;
	/* How long each operation on rows and each call of the job took, under the name of the protocol's method, as "PullStream" or "Lease". On libweir's threads, and not
	 * from two at once. May be NULL. */
	void (*observed)(void *arg, const char *method, int64_t ns);
	void *observed_arg;
	/* A slow network to be simulated by this process, at its end of everything it sends and receives; all 0: none. */
	struct {
		uint64_t rate_bits_per_s; /* each way; 0: as fast as it is */
		uint32_t latency_ms;      /* one way */
	} network;
	/* By TLS where certificates are given; all zero: in plain text, to this machine alone. */
	weir_security security;
} weir_options;

/* --- The job */
WEIR_API weir_status weir_open(weir_client **out, const weir_options *options, weir_error *err);
/* Waits for what is in flight, leaves the job cleanly, frees. Never fails to free; the status says whether all was acknowledged. */
WEIR_API weir_status weir_close(weir_client *client, weir_error *err);
/* Frees at once without leaving, as a crash would. For tests and second signals. */
WEIR_API void weir_abandon(weir_client *client);
/* After WEIR_E_STALE: joins as a new incarnation. Operations in flight have completed with WEIR_E_STALE. */
WEIR_API weir_status weir_rejoin(weir_client *client, weir_error *err);
WEIR_API uint32_t weir_partitions(const weir_client *client);
WEIR_API uint32_t weir_passes(const weir_client *client);
WEIR_API uint64_t weir_incarnation(const weir_client *client);
WEIR_API uint64_t weir_generation(const weir_client *client); /* of the job: grows whenever it goes back to a checkpoint */
WEIR_API uint32_t weir_evaluated(const weir_client *client);  /* passes whose evaluation the job had when this client joined */

/* --- Tables */
/* Creates the table in the job, or finds it when it exists with the same description (else WEIR_E_EXISTS naming what differs). */
WEIR_API weir_status weir_table_register(weir_client *client, const weir_table_spec *spec, uint32_t *table, weir_error *err);
/* Finds a table of the job by name; spec->segments is NULL in the answer. */
WEIR_API weir_status weir_table_find(weir_client *client, const char *name, weir_table_spec *spec, uint32_t *table,
                                     weir_error *err);

/* Has pushes to a dense table coded by an encoder of the trainer's, in place of libweir's own: where gradients are computed, say, so that they need not come to the host.
 * `values` of such a table's items are handed to it as they are, not read: they may be addresses of a device. They are used up when weir_push returns.
 * Before the first push to the table, once (else E_STATE). *encoder is copied; what its `arg` points to must live until the client is closed or abandoned, which calls none
 * of it. It is called within weir_push, weir_push_residuals and weir_rejoin, on their caller's thread; one call at a time, but for `check` of pushes from several threads.
 * E_INVALID: for embeddings, or codecs fp32 and bf16, which leave nothing to keep: see weir_push_item.encoded. */
WEIR_API weir_status weir_table_encoder(weir_client *client, uint32_t table, const weir_encoder *encoder, weir_error *err);

/* --- Work */
typedef enum weir_unit_state {
	WEIR_UNIT_LEASED = 0,
	WEIR_UNIT_EVALUATE = 1, /* evaluators: pass `pass` is complete */
	WEIR_UNIT_FINISHED = 2  /* no more work, ever */
} weir_unit_state;

typedef struct weir_unit {
	weir_unit_state state;
	uint32_t pass, unit, attempt;
	uint32_t data_unit; /* which of the dataset's units */
	uint32_t watermark; /* first batch to execute: those below are applied and stable */
	uint32_t last_pass; /* evaluators: 1 when no pass follows */
	/* Batches of a round where tables have local steps, counted from the unit's first; 0: there are none. A round's batches push nothing to these tables but its last,
	 * which brings what came of the round; a batch that has nothing at all to push pushes no items. A unit whose holder has died begins again at a round. */
	uint32_t local_steps;
	uint32_t
	    place; /* in the pass's order: `unit`, but for a part of a unit the whole one's. Let the order of rows be a function of (pass, place) */
	uint32_t end;     /* batches from here on are another part's: begin at most so many; 0: none are */
	uint64_t content; /* a hash of the data unit's examples, as who had it first said (weir_unit_content); 0: nobody has */
} weir_unit;

/* Takes the next unit, waiting until there is one (timeout_ms < 0: for ever; WEIR_E_TIMEOUT). A trainer may hold several (prefetch).
 * When an older attempt existed this seals it everywhere first. */
WEIR_API weir_status weir_unit_lease(weir_client *client, weir_unit *unit, int64_t timeout_ms, weir_error *err);
/* Says how many batches the unit has; before its first pull or push. */
WEIR_API weir_status weir_unit_begin(weir_client *client, const weir_unit *unit, uint32_t batches, weir_error *err);
/* Says what examples the unit's data unit holds, as a hash of all of them (never 0), before its first push. WEIR_E_INVALID: in an
 * earlier attempt or pass they were others; the worker must not go on. */
WEIR_API weir_status weir_unit_content(weir_client *client, const weir_unit *unit, uint64_t content, weir_error *err);
/* Waits until all its pushes are stable, then commits it. */
WEIR_API weir_status weir_unit_commit(weir_client *client, const weir_unit *unit, weir_error *err);
/* Gives a unit back that cannot be executed (a broken file): counts as a failed attempt, `why` is reported. */
WEIR_API weir_status weir_unit_fail(weir_client *client, const weir_unit *unit, const char *why, weir_error *err);
/* An evaluator's verdict on a pass: the next one opens unless stop. */
typedef struct weir_evaluation {
	uint32_t pass;
	double auc, logloss;  /* from 0 to 1, and from 0; NaN: undefined, and both so where nothing was validated */
	uint64_t not_numbers; /* scores that are NaN or infinite: both are NaN then */
	int language;         /* the model has a loss and no AUC */
	int stop;
} weir_evaluation;
WEIR_API weir_status weir_pass_evaluated(weir_client *client, const weir_evaluation *evaluation, weir_error *err);

typedef struct weir_batch {
	uint32_t pass, unit, batch, attempt;
} weir_batch;

/* --- Pull and push */
typedef uint64_t weir_ticket; /* 0 is never one */
typedef void (*weir_done_fn)(void *arg, weir_ticket ticket, weir_status status, const char *text);

typedef struct weir_pull_item {
	uint32_t table;
	/* embedding: (rows), any order, duplicates allowed but wasteful; dense: NULL, the whole table, or chunks of WEIR_CHUNK elements by number (rows), rising */
	const uint64_t *keys;
	size_t rows;   /* of keys */
	float *values; /* embedding: (rows, width); dense: (elements), of which those of the chunks are written */
} weir_pull_item;

/* batch: the batch that the values are for. Synchronous tables answer with the state at the start of that batch's step, so such a pull
 * completes only when the step before has closed; NULL (evaluators, observers) reads what is there, or with `read.from: any` what a replica has that
 * is as recent as the job asks. Never older than what this client has pushed and was told of. All items complete together. */
WEIR_API weir_status weir_pull(weir_client *client, const weir_batch *batch, const weir_pull_item *items, size_t count,
                               weir_done_fn done, void *arg, weir_ticket *ticket, weir_error *err);

typedef struct weir_push_item {
	uint32_t table;
	const uint64_t *
	    keys; /* embedding: (rows) distinct, else E_INVALID names the key; dense: NULL, the whole table, or chunks by number as above: every attempt of a batch the same */
	size_t rows;
	const float *
	    values; /* gradients: embedding (rows, width); dense (elements), of which the named chunks are read. Encoded with the table's push codec */
	/* Instead of values: bytes of the table's push codec already encoded, e.g. on a GPU. Of embeddings without push.rows: row for row, each coded on its own. Of dense
	 * tables, fp32 and bf16: laid out as values are, all of it, of which the named chunks are read; whether those are finite the servers alone say. E_UNSUPPORTED
	 * elsewhere: what is left out is kept, by libweir or by the table's encoder. */
	const void *encoded;
	size_t encoded_bytes;
	/* Embedding tables of which a push brings a share of the rows (push.rows): (rows) how important each is, finite and at least 0. Those with the greatest sums of
	 * scores since they were last sent go out, the others' gradients wait; e.g. of rows that are tokens the attention they get. NULL: norms of gradients
	 * decide. Read before weir_push returns; without push.rows they choose nothing. */
	const float *scores;
} weir_push_item;

typedef struct weir_push_options {
	int copy; /* values may be reused as soon as weir_push returns */
	/* Where the batch stands in the whole training, counted from 1: the schedules of tables that are
	 * not synchronous go by it. Every attempt of a batch says the same. 0: its pass and unit tell, in
	 * units of dataset_unit_batches, or of as many batches as its own has. */
	uint64_t place;
	/* How much the batch counts in the mean of its step, where tables are synchronous: its examples,
	 * or what of them has a loss, so that the mean is that of all. Every attempt says the same. 0: 1. */
	double weight;
} weir_push_options;

/* Of a batch whose gradients are not to be had: it pushes nothing, and is done, as one that weir_push refuses because it is not finite. Only batches of units that this client
 * has leased; each pushes or is left out, once. */
WEIR_API weir_status weir_leave_out(weir_client *client, const weir_batch *batch, weir_error *err);

/* The one push of a batch: all tables in one call. Refuses NaN and infinities with WEIR_E_NOT_FINITE, naming the table (nothing is sent then).
 * Completes when every part is acknowledged; in a job with `ack: sent`, which copies values, when it is on its way: what goes wrong then is told by
 * weir_unit_commit. Blocks while the client's send credit is used up. */
WEIR_API weir_status weir_push(weir_client *client, const weir_batch *batch, const weir_push_item *items, size_t count,
                               const weir_push_options *options, weir_done_fn done, void *arg, weir_ticket *ticket,
                               weir_error *err);
/* What error feedback has kept back, in full and as this batch's only push: before a worker leaves, as with it that would be lost. The batch is one of a
 * unit held that has no other push; every trainer counts it in weir_unit_begin, whether it will push it or not. Tables that are synchronous take part when one of them
 * was pulled for this batch. Blocking. */
WEIR_API weir_status weir_push_residuals(weir_client *client, const weir_batch *batch, weir_error *err);
/* Waits for one operation. After it, the ticket is forgotten. An operation started with a callback needs no wait. */
WEIR_API weir_status weir_wait(weir_client *client, weir_ticket ticket, int64_t timeout_ms, weir_error *err);
/* Ends the pulls that wait for their step to begin, with WEIR_E_CANCELLED. For a trainer that is to
 * leave: others may have left before it, and the step would wait for trainers in their place, or
 * begin without them. */
WEIR_API void weir_stop_waiting(weir_client *client);

/* Sets rows: initial weights, import. Blocking. Dense: keys NULL, whole table. Unlike a push it has no identity: after a broken connection or a
 * server's restart it is sent again and takes effect again, so that pushes to these rows made before it returns may be overwritten. It is for
 * a job that does not train. */
WEIR_API weir_status weir_assign(weir_client *client, uint32_t table, const uint64_t *keys, size_t rows, const float *values,
                                 weir_error *err);

/* Calls `row` for each stored row of a table (embedding: those that were pushed or assigned), with or without optimizer slots. Blocking.
 * values (width or chunk elements [, slots]). Stop early by returning non-zero. WEIR_E_MOVED: a server was started again, or a partition went to
 * another, before all of its rows were said; what `row` was given is incomplete: scan again. */
WEIR_API weir_status weir_scan(weir_client *client, uint32_t table, int slots,
                               int (*row)(void *arg, uint64_t key, const float *values, size_t elements), void *arg,
                               weir_error *err);

/* Where a table is in a partition: `steps` counts the pushes (of a synchronous table, the closed steps) that brought it rows, the last at
 * rate `lr`. A row of a table with full decay that was never pushed has taken those steps without a gradient. */
typedef struct weir_table_clock {
	uint64_t steps;
	float lr;
} weir_table_clock;
/* clocks (weir_partitions). Blocking. */
WEIR_API weir_status weir_clocks(weir_client *client, uint32_t table, weir_table_clock *clocks, weir_error *err);

/* --- Numbers */
typedef struct weir_report { /* a trainer's progress since the last call, summed up by the ledger */
	uint64_t rows, batches, bad_lines, nonfinite;
	double loss_sum; /* NaN: of these rows it is no number */
	/* Of a trainer that keeps rows of embeddings: distinct keys of its batches, and those whose rows needed no pull. */
	uint64_t keys, keys_cached;
	uint64_t scale_skipped; /* batches left out because the loss was scaled by too much for fp16 */
	double loss_scale;      /* now; 0: it is not scaled */
	uint64_t device_bytes;  /* of a device's memory, in use at most so far */
	/* Now; 0: not known. */
	double gradient_norm; /* of a batch, all tables together, before it is clipped */
	double learning_rate; /* of a trainer that takes steps of its own; that of others is the servers' */
	uint32_t row_tokens;  /* of a language model: tokens of a row */
	double row_least_s;   /* seconds that a row would take at the most that its device can do */
} weir_report;
WEIR_API void weir_progress(weir_client *client, const weir_report *report);
/* Says whether the trainer waits for its own data (0: no more). Shown where a worker does not
 * move. */
WEIR_API void weir_waits_for_data(weir_client *client, int waits);

typedef struct weir_stats {
	uint64_t bytes_pushed, bytes_pulled; /* on the wire, frames */
	uint64_t parts_pushed, duplicates;
	uint64_t pushes_in_flight, pulls_in_flight;
	uint64_t batches_dropped;
	uint64_t reads_returned; /* times that a primary was asked what another replica had not answered in half a second */
	double residual_norm;    /* of what codecs and the choice of rows have kept back, when it was last measured */
} weir_stats;
WEIR_API void weir_get_stats(weir_client *client, weir_stats *out);

#ifdef __cplusplus
}
#endif
#endif
