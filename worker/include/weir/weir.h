/* libweir: the client half of Weir, for trainers of any kind. API version 2.
 *
 * A trainer opens a client and registers its tables. Then it repeats: lease a work unit; for each
 * of its batches pull the rows that the batch needs, compute, and push gradients; commit the unit
 * when its batches are done.
 *
 * The library groups rows by partition and talks to all servers at once. It keeps each push until
 * the servers acknowledge it, seals units that another worker had begun, skips parts of a push that
 * the servers have already applied, renews leases, and follows the steps of synchronous tables.
 * Every partition applies each batch's push exactly once, whichever process dies, provided that a
 * batch (pass, unit, batch) always holds the same examples. A pass is one traversal of the data, an
 * epoch in the field's words.
 *
 *     weir_client *c;  weir_unit u;  weir_error e = {0};
 *     weir_open(&c, &(weir_options){.ledger = "unix:/run/weir/server-0.sock",
 *                                   .name = "worker-0"}, &e);
 *     weir_table_register(c, &spec, &table, &e);
 *     while (weir_unit_lease(c, &u, -1, &e) == WEIR_OK && u.state == WEIR_UNIT_LEASED) {
 *         weir_unit_begin(c, &u, batches, &e);
 *         for (b = u.watermark; b < batches; b++) { pull; wait; compute; push; }
 *         weir_unit_commit(c, &u, &e);
 *     }
 *     weir_close(c, &e);
 *
 * Ownership. A call borrows its options, specs and item arrays until it returns, and copies strings
 * in options. A pull or push borrows the memory behind `keys`, `values` and `encoded` until the
 * operation completes (its callback runs, or weir_wait on it returns). With `copy` set, a push
 * borrows them only during the call. The caller owns handles until it closes them.
 *
 * Callbacks run on the library's own thread, exactly once per accepted operation. A refused
 * operation (a status other than WEIR_OK) never calls back. A callback must be short and must not
 * call weir_wait, weir_unit_*, weir_push_residuals, weir_rejoin or weir_close.
 *
 * Threads. Several threads may use one client. The library sends the operations of one thread in
 * the order in which that thread started them.
 *
 * Errors. weir_error (may be NULL) gets a sentence.
 *   - WEIR_E_STALE: the job took this worker for dead. Drop residuals and call weir_rejoin.
 *   - WEIR_E_LOST: a server restarted and lost its state. Close the client and start the job anew.
 *   - WEIR_E_GENERATION: the job has gone back to a checkpoint; pushes since then do not count.
 *     Drop everything, weir_abandon the client, and open another.
 *
 * Progress. The library's own thread keeps the client alive, but the trainer must move, too. While
 * it holds a unit, at most cluster.progress_timeout_ms may pass between two moves. A move is one of
 * these: a batch begins (with its first pull or its push), is pushed or is left out; a unit is
 * committed or given back; weir_progress reports batches. The default limit is ten times the
 * longest such time so far, at least a minute, and ten minutes before the first push. Time does not
 * count while a server, the ledger or another worker has to act first. A trainer that computes for
 * longer without a push, as in a round of local steps, calls weir_progress for each batch. The job
 * names a trainer that does not move and gives its units to other workers; that trainer gets
 * WEIR_E_STALE. An evaluator that a pass waits for must likewise pull, scan, or give its verdict.
 *
 * Structs that may grow begin with `size`. Zero-initialise such a struct, also one that the library
 * fills, and leave `size` 0: it then has the fields of API version 2. Or call its _init function
 * with sizeof, which sets `size` and gives defaults; a binding that keeps its own copy of the
 * struct, or a program that sets later fields, does that. The library takes fields that the caller
 * does not have as 0. WEIR_E_VERSION: a field that this library does not know is set. All other
 * structs keep their layout.
 *
 * Keys. A pull may name a key several times, and every place gets the row. A push names a key once:
 * add up the gradients of a row, since an optimizer's step is not a sum. WEIR_E_INVALID names a key
 * that comes twice.
 *
 * The library never exits, prints (unless weir_log_to_fd is asked to), or reads the environment. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stddef.h>
#include <stdint.h>

#include "weir/columns.h"
#include "weir/encoder.h"
#include "weir/security.h"
#include "weir/status.h"
#include "weir/table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_API_VERSION 2

/* The API version of the library, to compare with WEIR_API_VERSION of the headers, and its release,
 * such as "1.2.0". */
WEIR_API uint32_t weir_api_version(void);
WEIR_API const char *weir_version(void);

typedef struct weir_client weir_client;

typedef enum weir_role { WEIR_TRAINER = 0, WEIR_EVALUATOR = 1, WEIR_OBSERVER = 2 } weir_role;
typedef enum weir_log_level { WEIR_LOG_DEBUG, WEIR_LOG_INFO, WEIR_LOG_WARN, WEIR_LOG_ERROR } weir_log_level;

typedef struct weir_options {
	size_t size;
	/* Address of the server that hosts the ledger: "unix:/path", "HOST:PORT". If the ledger has
	 * replicas: the address of any server, or several addresses separated by commas. */
	const char *ledger;
	/* Name of this worker: letters, digits, '_', '-', '.'. A name belongs to one live worker, and a
	 * job has one evaluator. weir_open and weir_rejoin wait while the present holder may be dead
	 * (2 s of silence). They fail with WEIR_E_EXISTS, which names the holder, once it has been
	 * heard from. */
	const char *name;
	weir_role role; /* evaluators and observers may pull but not push or lease */
	/* Trainers: hash of the data that units are cut from; must be the same for all trainers. */
	uint64_t dataset_fingerprint;
	uint32_t dataset_units; /* trainers: units per pass */
	uint64_t dataset_rows;  /* 0: unknown */
	/* Trainers: approximate batches per unit. Towards the end of a pass the ledger then leases
	 * parts of units, so that all workers end the pass together: see weir_unit.end. 0: never. */
	uint32_t dataset_unit_batches;
	/* The settings that determine the job's results, as lines KEY=VALUE. The job keeps the first
	 * trainer's. A trainer with another value for a key gets WEIR_E_INVALID, which names the key
	 * and both values. A key that only one of the two has is not compared. NULL: no settings,
	 * nothing is compared. */
	const char *fingerprint;
	/* Keys of `fingerprint` in which this worker may differ (accept_count). From then on the job
	 * uses this worker's values for them. */
	const char *const *accept;
	size_t accept_count;
	uint32_t connect_timeout_ms; /* 0: 4000 */
	/* Called on the library's threads. May be NULL; weir_log_to_fd writes lines to a descriptor. */
	void (*log)(void *arg, weir_log_level level, const char *line);
	void *log_arg;
	/* Reports the duration of each operation on rows and of each call of the job, under the name of
	 * the protocol's method, such as "PullStream" or "Lease". Runs on libweir's threads, never on
	 * two at once. May be NULL. */
	void (*observed)(void *arg, const char *method, int64_t ns);
	void *observed_arg;
	/* Simulates a slow network: this process delays everything that it sends and receives. All 0:
	 * no simulation. */
	struct {
		uint64_t rate_bits_per_s; /* each way; 0: unlimited */
		uint32_t latency_ms;      /* one way */
	} network;
	/* With certificates: TLS. All zero: plain text, to this machine only. */
	weir_security security;
	/* Trainers: passes of the job. 0: as the job says, or 1 if it says nothing. A job whose servers
	 * were started without train.passes takes the number of the first trainer. WEIR_E_INVALID names
	 * both numbers if the job has another. */
	uint32_t passes;
} weir_options;
/* size: sizeof *out, as for every _init function. */
WEIR_API void weir_options_init(weir_options *out, size_t size);
/* For weir_options.log in a program that cannot be called back: writes "LEVEL: line\n" in one
 * write. log_arg: the address of an int, the descriptor, which lives as long as the client. It may
 * be a pipe; if that is full and does not block, the line is lost. */
WEIR_API void weir_log_to_fd(void *fd, weir_log_level level, const char *line);

/* --- The job */
WEIR_API weir_status weir_open(weir_client **out, const weir_options *options, weir_error *err);
/* Waits for operations in flight, leaves the job cleanly, and frees. Never fails to free; the
 * status says whether everything was acknowledged. */
WEIR_API weir_status weir_close(weir_client *client, weir_error *err);
/* Frees at once without leaving, as a crash would. For tests and second signals. */
WEIR_API void weir_abandon(weir_client *client);
/* In a forked child: gives up the child's copies of the connections, so that the servers see at
 * once when the parent dies. The client stays the parent's: this is the only call that a child may
 * make. */
WEIR_API void weir_forked(const weir_client *client);
/* After WEIR_E_STALE: joins as a new incarnation. Operations in flight have completed with
 * WEIR_E_STALE. */
WEIR_API weir_status weir_rejoin(weir_client *client, weir_error *err);
WEIR_API uint32_t weir_partitions(const weir_client *client);
/* 0: no trainer has joined yet, and the job has no number of its own. */
WEIR_API uint32_t weir_passes(const weir_client *client);
WEIR_API uint64_t weir_incarnation(const weir_client *client);
/* The job's generation: grows whenever the job goes back to a checkpoint. */
WEIR_API uint64_t weir_generation(const weir_client *client);
/* The number of passes that were evaluated when this client joined. */
WEIR_API uint32_t weir_evaluated(const weir_client *client);

typedef enum weir_job_state {
	WEIR_JOB_NEW = 0, /* no trainer has joined yet */
	WEIR_JOB_RUNNING = 1,
	WEIR_JOB_FINISHED = 2,
	WEIR_JOB_FAILED = 3
} weir_job_state;

typedef enum weir_audit {
	WEIR_AUDIT_OPEN = 0, /* units are still in progress, or a server has not answered */
	WEIR_AUDIT_EXACT = 1,
	WEIR_AUDIT_WRONG = 2
} weir_audit;

/* The job, as its ledger and its servers know it. */
typedef struct weir_job {
	size_t size;
	weir_job_state state;
	uint32_t pass;             /* the open one, from 0 */
	uint32_t passes;           /* 0: not known before the first trainer */
	uint32_t units, committed; /* in a pass; of the open one */
	uint32_t trainers;         /* live ones */
	uint32_t servers, servers_answered;
	uint32_t tables, partitions;
	weir_audit audit;
	uint64_t generation;
	uint64_t rows, batches; /* trained, in all passes */
	double loss;            /* mean over the rows that have one; NaN: none */
	double rows_per_s;      /* over the last seconds; 0: unknown, or nobody trains */
	/* The last evaluation, after this many batches of the job. 0: none, and the next two are
	 * void. */
	uint64_t evaluated_batches;
	double auc, logloss; /* NaN: undefined */
	uint64_t workers_lost;
	uint64_t units_given_up; /* too many attempts failed */
	uint64_t batches_dropped;
	/* Parts of pushes. expected: by the commits of all units. skipped: of units that were given up.
	 * applied, dropped: by the partitions; dropped parts came too late for their synchronous
	 * step. */
	uint64_t parts_expected, parts_skipped, parts_applied, parts_dropped;
	/* Expected, but in no partition: 0 while the audit is open. */
	uint64_t parts_missing;
	/* Applied twice; or, once the audit is not open, applied but in no commit. */
	uint64_t parts_double;
	char checkpoint[48];                 /* with which this generation began; "": none */
	char failure[WEIR_ERROR_TEXT_BYTES]; /* why the job has failed */
} weir_job;
WEIR_API void weir_job_init(weir_job *out, size_t size);
/* Reads the state of the job from the ledger and all servers. Blocking. A server that does not
 * answer is left out: see servers_answered. */
WEIR_API weir_status weir_job_read(weir_client *client, weir_job *out, weir_error *err);

/* --- Tables */
/* Defaults of a table: those of the job file. Name, kind and width or elements remain to be set. */
WEIR_API void weir_table_spec_init(weir_table_spec *out, size_t size);
/* Creates the table in the job, or finds it if it exists with the same description. WEIR_E_EXISTS
 * names the difference if the description differs. Without segments, all values begin at 0. */
WEIR_API weir_status weir_table_register(weir_client *client, const weir_table_spec *spec, uint32_t *table, weir_error *err);
/* Finds a table of the job by name. spec->segments is NULL in the answer. */
WEIR_API weir_status weir_table_find(weir_client *client, const char *name, weir_table_spec *spec, uint32_t *table,
                                     weir_error *err);
/* Lists the tables of the job in the order of their ids: specs (room), ids (room); both may be
 * NULL. *count: the number of tables, which may exceed room. The size of specs[0] goes for all of
 * specs. segments is NULL in the answer. */
WEIR_API weir_status weir_tables(weir_client *client, weir_table_spec *specs, uint32_t *ids, size_t room, size_t *count,
                                 weir_error *err);

/* Lets an encoder of the trainer's code the pushes to a dense table, in place of libweir's own. For
 * example, an encoder that works where gradients are computed saves copying them to the host. The
 * library passes `values` of such a table's items to the encoder unread: they may be device
 * addresses. It needs them no longer once weir_push returns.
 *
 * Call this once, before the first push to the table (else E_STATE). *encoder is copied. The object
 * behind its `arg` must live until the client is closed or abandoned; closing and abandoning call
 * no function of the encoder. weir_push, weir_push_residuals and weir_rejoin call the encoder on
 * their caller's thread, one call at a time, except `check` of pushes from several threads.
 * E_INVALID: the table is an embedding, or its codec is fp32 or bf16, which keeps nothing back: see
 * weir_push_item.encoded. */
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
	uint32_t data_unit; /* index of the unit in the dataset */
	uint32_t watermark; /* first batch to execute; those below are applied and stable */
	uint32_t last_pass; /* evaluators: 1 if no pass follows */
	/* Batches per round for tables with local steps, counted from the unit's first batch; 0: no
	 * such tables. Only the last batch of a round pushes to these tables, and brings the result of
	 * the whole round; in a table with fragments, each fragment has a batch of the round that
	 * pushes it. A batch with nothing at all to push pushes no items. A unit whose holder has died
	 * starts again at the beginning of a round; with fragments, at its own beginning. */
	uint32_t local_steps;
	/* Position in the pass's order: `unit`, or for a part of a unit, the position of the whole
	 * unit. Let the order of rows be a function of (pass, place). */
	uint32_t place;
	/* Batches from here on belong to another part: begin at most this many. 0: no limit. */
	uint32_t end;
	/* Hash of the data unit's examples, as its first reader reported it (weir_unit_content). 0: not
	 * reported yet. */
	uint64_t content;
	uint64_t reserved[4]; /* 0; room for later fields */
} weir_unit;

/* Takes the next unit and waits until there is one (timeout_ms < 0: for ever; WEIR_E_TIMEOUT). A
 * trainer may hold several (prefetch). If an older attempt exists, this call first seals it in
 * every partition. */
WEIR_API weir_status weir_unit_lease(weir_client *client, weir_unit *unit, int64_t timeout_ms, weir_error *err);
/* Declares how many batches the unit has. Call it before the unit's first pull or push. */
WEIR_API weir_status weir_unit_begin(weir_client *client, const weir_unit *unit, uint32_t batches, weir_error *err);
/* Declares the examples of the unit's data unit, as a hash of all of them (never 0). Call it before
 * the unit's first push. WEIR_E_INVALID: an earlier attempt or pass had other examples; the worker
 * must not go on. */
WEIR_API weir_status weir_unit_content(weir_client *client, const weir_unit *unit, uint64_t content, weir_error *err);
/* Waits until all pushes of the unit are stable, then commits it. */
WEIR_API weir_status weir_unit_commit(weir_client *client, const weir_unit *unit, weir_error *err);
/* Gives back a unit that cannot be executed (for example a broken file). It counts as a failed
 * attempt; the job reports `why`. */
WEIR_API weir_status weir_unit_fail(weir_client *client, const weir_unit *unit, const char *why, weir_error *err);
/* A figure of an evaluation beside AUC and loss. name: letters, digits and _-.@/, at most 47 bytes:
 * "gauc", "ndcg@10". value: finite; a figure that is undefined is left out. */
typedef struct weir_figure {
	const char *name;
	double value;
} weir_figure;
/* An evaluator's verdict on a pass: the next pass opens unless `stop` is set. */
typedef struct weir_evaluation {
	size_t size;
	uint32_t pass;
	/* auc: 0 to 1; logloss: at least 0. NaN: undefined; both are NaN if nothing was validated */
	double auc, logloss;
	uint64_t not_numbers; /* scores that are NaN or infinite; with any, auc and logloss are NaN */
	int language;         /* the model has a loss and no AUC */
	int stop;
	/* (figures_count) further figures, at most 64; status, metrics and TensorBoard show them */
	const weir_figure *figures;
	uint32_t figures_count;
} weir_evaluation;
/* The defaults have no figures: NaN. */
WEIR_API void weir_evaluation_init(weir_evaluation *out, size_t size);
WEIR_API weir_status weir_pass_evaluated(weir_client *client, const weir_evaluation *evaluation, weir_error *err);

typedef struct weir_batch {
	uint32_t pass, unit, batch, attempt;
} weir_batch;

/* --- Pull and push */
typedef uint64_t weir_ticket; /* never 0 */
typedef void (*weir_done_fn)(void *arg, weir_ticket ticket, weir_status status, const char *text);

typedef struct weir_pull_item {
	uint32_t table;
	/* embedding: (rows), any order, duplicates allowed but wasteful: each is sent. dense: NULL for
	 * the whole table, or (rows) numbers of chunks of WEIR_CHUNK elements, rising */
	const uint64_t *keys;
	size_t rows; /* number of keys */
	/* embedding: (rows, width). dense: (elements); only the named chunks are written */
	float *values;
} weir_pull_item;

/* batch: the batch that will use the values. Synchronous tables answer with the state at the start
 * of that batch's step, so such a pull completes only when the step before has closed. NULL
 * (evaluators, observers) reads the present state or, with `read.from: any`, the state of a replica
 * that is as recent as the job asks. The values are never older than this client's acknowledged
 * pushes. All items complete together. */
WEIR_API weir_status weir_pull(weir_client *client, const weir_batch *batch, const weir_pull_item *items, size_t count,
                               weir_done_fn done, void *arg, weir_ticket *ticket, weir_error *err);

typedef struct weir_push_item {
	uint32_t table;
	/* embedding: (rows) distinct, else E_INVALID names the key. dense: NULL for the whole table, or
	 * chunk numbers as above; every attempt of a batch must name the same chunks */
	const uint64_t *keys;
	size_t rows;
	/* gradients. embedding: (rows, width). dense: (elements); only the named chunks are read. The
	 * library encodes them with the table's push codec */
	const float *values;
	/* Instead of values: bytes already encoded in the table's push codec, for example on a GPU.
	 * Embeddings without push.rows: row by row, each row coded on its own. Dense tables with fp32
	 * or bf16: the whole table in the layout of values; only the named chunks are read, and only
	 * the servers check that they are finite. E_UNSUPPORTED for all others: libweir or the table's
	 * encoder keeps their error feedback. */
	const void *encoded;
	size_t encoded_bytes;
	/* For embedding tables whose push sends a share of the rows (push.rows): (rows) the importance
	 * of each row, finite and at least 0. The rows with the greatest sums of scores since they were
	 * last sent go out; the gradients of the others wait. Example: for rows that are tokens, the
	 * attention that they get. NULL: norms of gradients decide. Read before weir_push returns;
	 * without push.rows scores have no effect. */
	const float *scores;
} weir_push_item;

typedef struct weir_push_options {
	size_t size;
	int copy; /* the caller may reuse the items' memory as soon as weir_push returns */
	/* Position of the batch in the whole training, counted from 1. Schedules of tables that are not
	 * synchronous use it. Every attempt of a batch gives the same position. 0: derived from its
	 * pass and unit, in units of dataset_unit_batches, or of as many batches as its own unit
	 * has. */
	uint64_t place;
	/* Weight of the batch in the mean of its step, for synchronous tables: its number of examples,
	 * or of those that have a loss, so that the mean is the mean over all examples. Every attempt
	 * gives the same weight. 0: 1. */
	double weight;
} weir_push_options;
WEIR_API void weir_push_options_init(weir_push_options *out, size_t size);

/* Completes a batch whose gradients are not available: it pushes nothing, like a batch that
 * weir_push refuses because it is not finite. Only for batches of units that this client has
 * leased. Each batch is pushed or left out, once. */
WEIR_API weir_status weir_leave_out(weir_client *client, const weir_batch *batch, weir_error *err);

/* The one push of a batch: all tables in one call. Refuses NaN and infinities with
 * WEIR_E_NOT_FINITE, which names the table; nothing is sent then. Completes when every part is
 * acknowledged. In a job with `ack: sent`, it copies values and completes when it is on its way;
 * weir_unit_commit then reports later errors. Blocks while the client's send credit is used up. */
WEIR_API weir_status weir_push(weir_client *client, const weir_batch *batch, const weir_push_item *items, size_t count,
                               const weir_push_options *options, weir_done_fn done, void *arg, weir_ticket *ticket,
                               weir_error *err);
/* Pushes in full the gradients that error feedback has kept back, as this batch's only push. Call
 * it before a worker leaves, since they are lost with the worker. The batch belongs to a held unit
 * and has no other push; every trainer counts it in weir_unit_begin, even if it will not push it.
 * Synchronous tables take part if one of them was pulled for this batch. Blocking. */
WEIR_API weir_status weir_push_residuals(weir_client *client, const weir_batch *batch, weir_error *err);
/* Waits for one operation and then forgets its ticket. An operation with a callback needs no
 * wait. */
WEIR_API weir_status weir_wait(weir_client *client, weir_ticket ticket, int64_t timeout_ms, weir_error *err);
/* Ends the pulls that wait for their step to begin, with WEIR_E_CANCELLED. For a trainer that is
 * about to leave: others may have left before it, and the step would wait for trainers in their
 * place, or begin without them. */
WEIR_API void weir_stop_waiting(weir_client *client);

/* Sets rows, for initial weights or an import. Blocking. Dense: keys NULL, whole table. Unlike a
 * push it has no identity: after a broken connection or a server's restart it is sent again and
 * takes effect again, and may overwrite pushes to these rows made before it returns. Use it only in
 * a job that does not train. */
WEIR_API weir_status weir_assign(weir_client *client, uint32_t table, const uint64_t *keys, size_t rows, const float *values,
                                 weir_error *err);

/* Calls `row` for each stored row of a table (embedding: rows that were pushed or assigned), with
 * or without optimizer slots. Blocking. values (width or chunk elements [, slots]). `row` returns
 * non-zero to stop early. WEIR_E_MOVED: a server restarted, or a partition moved, before the scan
 * had all of its rows; the rows passed so far are incomplete: scan again. */
WEIR_API weir_status weir_scan(weir_client *client, uint32_t table, int slots,
                               int (*row)(void *arg, uint64_t key, const float *values, size_t elements), void *arg,
                               weir_error *err);

/* The same without a callback. Open, take batches of rows until one has none, close; close before
 * the client. One thread at a time uses a scanner. A failure ends the scan: the next call fails in
 * the same way. */
typedef struct weir_scanner weir_scanner;
typedef struct weir_scan_rows {
	size_t size;
	const uint64_t *keys; /* (rows); dense: the chunk's number, one chunk a batch */
	/* (rows, elements), until the next call with this scanner. Slots follow each row's values. */
	const float *values;
	size_t rows;     /* 0: the scan is complete */
	size_t elements; /* floats in one row, slots included */
} weir_scan_rows;
WEIR_API void weir_scan_rows_init(weir_scan_rows *out, size_t size);
WEIR_API weir_status weir_scan_open(weir_scanner **out, weir_client *client, uint32_t table, int slots, weir_error *err);
WEIR_API weir_status weir_scan_next(weir_scanner *scanner, weir_scan_rows *rows, weir_error *err);
WEIR_API void weir_scan_close(weir_scanner *scanner); /* NULL is allowed */

/* State of a table in a partition: `steps` counts the pushes (for a synchronous table, the closed
 * steps) that brought it rows, the last at rate `lr`. In a table with full decay, a row that was
 * never pushed has taken those steps without a gradient. */
typedef struct weir_table_clock {
	uint64_t steps;
	float lr;
} weir_table_clock;
/* clocks (weir_partitions). Blocking. */
WEIR_API weir_status weir_clocks(weir_client *client, uint32_t table, weir_table_clock *clocks, weir_error *err);

/* --- Numbers */
typedef struct weir_report { /* a trainer's progress since the last call; the ledger sums it up */
	size_t size;
	uint64_t rows, batches, bad_lines, nonfinite;
	double loss_sum; /* NaN: not a number for these rows */
	/* For a trainer that caches rows of embeddings: distinct keys of its batches, and keys whose
	 * rows needed no pull. */
	uint64_t keys, keys_cached;
	uint64_t scale_skipped; /* batches left out because the loss scale was too large for fp16 */
	double loss_scale;      /* at present; 0: not scaled */
	uint64_t device_bytes;  /* most device memory in use so far */
	/* At present; 0: not known. */
	double gradient_norm; /* of a batch, all tables together, before clipping */
	/* For a trainer that takes its own steps; otherwise the servers set the rate. */
	double learning_rate;
	uint32_t row_tokens; /* language models: tokens per row */
	double row_least_s;  /* seconds per row at the device's peak rate */
} weir_report;
WEIR_API void weir_report_init(weir_report *out, size_t size);
/* WEIR_E_VERSION: see `size`. */
WEIR_API weir_status weir_progress(weir_client *client, const weir_report *report);
/* Declares whether the trainer waits for its own data (0: no longer). Shown for a worker that does
 * not move. */
WEIR_API void weir_waits_for_data(weir_client *client, int waits);

typedef struct weir_stats {
	size_t size;
	uint64_t bytes_pushed, bytes_pulled; /* frames on the wire */
	uint64_t parts_pushed, duplicates;
	uint64_t pushes_in_flight, pulls_in_flight;
	uint64_t batches_dropped;
	/* Times that a primary was asked because another replica had not answered in half a second. */
	uint64_t reads_returned;
	/* Norm of the gradients that codecs and row selection have kept back, as last measured. */
	double residual_norm;
} weir_stats;
WEIR_API void weir_stats_init(weir_stats *out, size_t size);
/* Zero-initialise *out, or call weir_stats_init. WEIR_E_VERSION: see `size`. */
WEIR_API weir_status weir_get_stats(weir_client *client, weir_stats *out);

#ifdef __cplusplus
}
#endif
#endif
