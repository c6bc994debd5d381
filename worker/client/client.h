/* Internals of libweir, for its own files and its tests only.
 *
 * Threads. Callers' threads encode and submit. The client's loop sends, receives, decodes and calls
 * back. One mutex guards everything that both touch; no thread holds it while a caller's function
 * runs or while a reply is decoded. Streams, channels and timers belong to the loop.
 *
 * The life of an operation (operation.c). A caller makes it with one `hold`. Every unanswered
 * request, and every message that still points into the caller's memory, holds it too. When the
 * last hold goes, the operation finishes on the loop: its callback runs, or its waiter wakes. A
 * request is one record to one partition. An in-flight frame (in_flight_frame.c) is one frame of
 * requests to one server. The client keeps it until all its requests are answered, and sends it
 * again, byte for byte, after a lost stream. The map (map.h) says which server has a partition;
 * when that changes, the partition's requests move. */
#ifndef WEIR_CLIENT_H
#define WEIR_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/metrics/metrics.h"
#include "proto/frame/frame.h"
#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"
#include "weir/weir.h"
#include "worker/client/map.h"
#include "worker/client/pack.h"
#include "worker/client/poll.h"
#include "worker/client/trace_upload.h"

struct table {
	uint32_t id;
	weir_table_spec spec; /* segments NULL */
	bool registered;      /* by this client, with every server */
	/* Codes pushes to it; NULL: no coder needed, or nothing pushed yet. Used holding `coding`. */
	struct coder *_Atomic coder;
	struct row_sparsifier *_Atomic kept; /* NULL likewise; a table has at most one of the two */
	weir_encoder_stats told;             /* the coder's or the sparsifier's stats, in the report */
	struct pulled_base *_Atomic held;    /* delta base of its coded pulls; NULL likewise */
	struct pack_trial pack_index, pack_data;
};

/* --- operation.c */
struct operation;
struct in_flight_frame;

struct request {
	struct operation *op;
	struct request *next;          /* in a pull lane's queue */
	struct in_flight_frame *frame; /* that carries it */
	uint16_t partition;
	uint16_t part;
	uint32_t server; /* the server that has the request, or had it last */
	bool answered;
	bool asked_again;      /* by on_reply, on the loop: the reply is not its answer */
	bool elsewhere;        /* pull: at a replica that is not primary (read.c) */
	uint32_t first, count; /* pull: its pieces */
	uint32_t retries;
	size_t reply_bytes; /* pull: approximate */
};

struct operation {
	weir_client *client;
	weir_ticket ticket;
	const char *what;       /* "pushing", "pulling"...: for error texts */
	enum rpc_method stream; /* that carries its records */
	int64_t begun_ns;
	atomic_uint holds;
	bool finished, forgotten; /* forgotten: nobody waits for it */
	weir_status status;
	char *text;
	weir_done_fn done;
	void *arg;
	struct operation *next; /* in a list of submitted, waiting or finished ones */
	bool has_batch;
	weir_batch batch;
	bool synchronous; /* pull: waits for its batch's step */
	bool clocked;     /* pull: waits for the slowest workers */
	bool anywhere;    /* pull: any replica may answer */
	/* It is repeated in other words when a partition moves: its requests do not move. */
	bool asked_anew;
	uint64_t asked_at;        /* map.changes at that time */
	uint64_t floor;           /* pull: the step that must have been applied; close: the step */
	struct request *requests; /* (requests_count) */
	uint32_t requests_count;
	/* On the loop, under the lock except for pulls. A status other than OK makes the operation
	 * fail. */
	weir_status (*on_reply)(struct operation *op, struct request *q, const struct record *r, struct cursor *body,
	                        weir_error *err);
	void (*on_finish)(struct operation *op); /* under the lock, once; may be NULL */
	void (*destroy)(struct operation *op);   /* frees `payload`; may be NULL */
	void *payload;
};

/* With one hold, the caller's. NULL: *err says why (out of memory, too many operations). */
struct operation *operation_create(weir_client *c, const char *what, uint32_t requests, weir_error *err);
struct operation *operation_create_locked(weir_client *c, const char *what, uint32_t requests, weir_error *err);
uint64_t operation_request_id(const struct operation *op, const struct request *q);
/* Under the lock: the request of a reply; NULL if its operation is over. */
struct request *operation_find(weir_client *c, uint64_t request_id);
/* Of several failures the first counts. */
void operation_fail(struct operation *op, weir_status status, const char *text);
/* Under the lock: ends an operation none of whose requests was or will be sent. Gives the caller's
 * hold back. */
void operation_end_unsent(struct operation *op, weir_status status, const char *text);
/* Gives a hold back. From any thread, with or without the lock. */
void operation_unhold(struct operation *op);
/* Frees an operation that nobody has waited for, once the loop is gone. */
void operation_destroy(struct operation *op);
/* Under the lock: marks a request as answered. */
void request_answer(struct request *q);
/* Waits for the operation and frees it. Only for operations without a callback. */
weir_status operation_wait(struct operation *op, int64_t timeout_ms, weir_error *err);

/* --- in_flight_frame.c, link.c: one server */
struct in_flight_frame {
	struct in_flight_frame *next, *prev;
	struct message *message; /* one reference */
	size_t bytes;
	bool sent;
	uint32_t left, count;
	uint64_t ids[]; /* (count) */
};

struct lane { /* one stream of one server */
	struct link *link;
	enum rpc_method method;
	struct rpc_stream *stream; /* NULL while down */
	bool proven;               /* something has come back since it was opened */
	bool dead;                 /* given up: tries go on, but nothing waits for them */
	bool opening;              /* a timer will open it */
	bool told_lost;            /* the user has been told of its loss, but not yet of its return */
	bool told_silent;          /* the user has been told that it is connected but does not answer */
	uint32_t backoff_ms;
	/* Last reply, or when something began to wait for one. */
	int64_t progress_ms;
	struct in_flight_frame *first, *last;     /* unanswered, in order */
	struct request *queue_first, *queue_last; /* pull: not packed yet */
	size_t bytes;                             /* of frames in flight */
	size_t reply_bytes;                       /* of answers to come */
	uint32_t requests;
	size_t sent_bytes; /* of those sent on this stream */
	uint32_t sent_requests;
	char why[256]; /* the last loss */
	/* First and last loss of a series with less than WEIR_DEAD_PEER_MS between two. */
	int64_t lost_first_ms, lost_last_ms;
};

struct link {
	weir_client *client;
	uint32_t index;
	char address[WEIR_ADDRESS_BYTES_MAX]; /* "": not known */
	/* Process id of the process whose state we rely on; 0: not known, or the state outlives its
	 * process. */
	uint64_t process_id;
	/* The process at the other end of the push lane has that id; no pulls before. */
	bool recognised;
	struct rpc_channel *channel; /* NULL: not used yet */
	int64_t readable_ms;         /* replicas there are not read before this time */
	struct lane push, pull;
};

/* Under the lock, on any thread: appends a frame to the lane in flight, or prepends it (`first`).
 * Takes message over. ids (count) are its records' request ids, in order; each must exist. NULL:
 * out of memory. */
struct in_flight_frame *in_flight_frame_add(struct lane *lane, struct message *message, const uint64_t *ids, uint32_t count,
                                            bool first);
void request_done(struct lane *lane, struct request *q);
/* Under the lock: fails the requests that wait in the lane, of one partition or all
 * (FRAME_PARTITION_ALL). Returns their number. */
uint32_t lane_drop(struct lane *lane, uint32_t partition, weir_status status, const char *text);
/* Under the lock, on the loop: moves the lane's reads from replicas that are not primary to their
 * primaries. Returns whether there were any. */
bool lane_return_reads(struct lane *lane);
/* Under the lock, on the loop: sends requests of partitions that have moved to the server that the
 * map names. */
void lane_move_pushes(struct lane *lane);
void lane_move_pulls(struct lane *lane);
/* Under the lock, on any thread: the same for the last frame, which was made for an older map. */
void lane_move_last(struct lane *lane);

/* The channel to a server, for blocking calls from a thread that is not a loop. */
weir_status client_channel(weir_client *c, uint32_t server, struct rpc_channel **out, weir_error *err);

struct link *link_create(weir_client *c, uint32_t index);
/* Under the lock, on any thread: connects the link if it was not used yet. */
weir_status link_use(struct link *l, weir_error *err);

/* Under the lock, on any thread: hands over a frame to be sent on the push lane, `first`: before
 * all that waits there. Takes message over. ids (count). */
weir_status link_send_frame(struct link *l, struct message *message, const uint64_t *ids, uint32_t count, bool first);
/* Under the lock, on the loop: link_queue_pull queues a pull's request, lane_pump sends queued
 * requests as far as credit permits. */
void link_queue_pull(struct link *l, struct request *q);
void lane_pump(struct lane *lane);
/* Under the lock: does not count time in which our own loop did not run (a stopped process) as a
 * peer's silence. */
void links_forgive_pause(weir_client *c);
/* Under the lock: E_UNAVAILABLE, which names the server, if one has been lost for patience_ms. For
 * callers that wait without asking that server anything. */
weir_status links_reachable(const weir_client *c, weir_error *err);
/* Under the lock, on any thread: makes the loop look at all lanes. */
void links_wake(weir_client *c);
/* A refusal in words: the sentence that came with it, else the status's own. text (bytes); returns
 * it. */
const char *reply_text(const struct record *r, struct cursor body, char *text, size_t bytes);
void lane_open(struct lane *lane); /* on the loop */
void lane_tick(struct lane *lane); /* on the loop, under the lock */
/* Under the lock, before a request is added: if nothing waited for a reply, the wait starts now. */
void lane_is_asked(struct lane *lane);

/* --- units.c */
struct part_sent {
	uint16_t partition, part;
	uint64_t applied; /* index of its acknowledgement */
	bool withdrawn;   /* it was not sent, and will not be */
};

struct held_batch {
	uint64_t step;  /* sync: its step; 0: none yet */
	uint64_t clock; /* ssp: its number; 0: none yet */
	bool begun, pushed, complete, refused;
	bool withdrawn;    /* sync: its step leaves out what was pushed of it */
	uint64_t *applied; /* (partitions) at its pull; NULL before */
	struct part_sent *parts;
	uint32_t parts_count, unacknowledged;
	double weight; /* sync: in the mean of its step */
};

struct held_unit {
	struct held_unit *next;
	uint32_t pass, unit, attempt, data_unit;
	uint32_t place; /* in the pass's order */
	uint32_t batches, watermark;
	uint64_t content; /* hash of its data unit, as this worker has read it; 0: not reported */
	float rate_scale; /* of its pushes; 0: none */
	/* The watermark moves by whole rounds of this many batches, and at the unit's end; 0: by each
	 * batch. */
	uint32_t round;
	uint64_t *count;       /* (partitions) parts of the batches below the watermark */
	uint64_t *fingerprint; /* (partitions) sum of the hashes of their identities */
	uint8_t **present;     /* (partitions) bitmap of parts applied by older attempts; NULL: none */
	uint32_t *present_bits;
	uint64_t *sealed;          /* (partitions) log index by which they were; NULL: none */
	struct held_batch **batch; /* (batches) */
	uint32_t outstanding;      /* pushes in flight */
	bool ends;                 /* it is being committed, or given up */
	weir_status failure;
	char failure_text[256];
};
struct held_unit *unit_find(weir_client *c, uint32_t pass, uint32_t unit, uint32_t attempt);
/* The batch's record, made when needed. NULL and *err if the unit is not held or not begun, or if
 * memory is out. */
struct held_batch *batch_find(weir_client *c, const weir_batch *b, struct held_unit **unit, weir_error *err);
struct held_unit *unit_create(weir_client *c, const Weir__V1__WorkUnit *in);
/* Under the lock: the value of held_unit.round. */
uint32_t unit_round(const weir_client *c, uint32_t local_steps);
void unit_destroy(weir_client *c, struct held_unit *u);
void unit_forget(weir_client *c, struct held_unit *u); /* no longer held */
/* Whether all its pushes are acknowledged and stable. */
bool unit_is_settled(const weir_client *c, const struct held_unit *u);
/* The unit's totals in each partition, for its commit: count, fingerprint (partitions). */
void unit_totals(const weir_client *c, const struct held_unit *u, uint64_t *count, uint64_t *fingerprint);
bool unit_has_part(const struct held_unit *u, uint32_t batch, uint32_t partition, uint32_t part);
void unit_advance(weir_client *c, struct held_unit *u);
void units_destroy(weir_client *c);
/* The batch's position in the training, counted from 1, as far as its pass and unit determine
 * it. */
uint64_t unit_batch_place(const weir_client *c, const struct held_unit *u, uint32_t batch);
static inline uint32_t rate_bits(float scale) /* in the form of frames */
{
	uint32_t bits;
	memcpy(&bits, &scale, sizeof bits);
	return bits;
}
/* --- commit.c */
void closed_low_learn(weir_client *c, const Weir__V1__UnitMark *low); /* under the lock */
weir_status commit_totals(weir_client *c, const weir_unit *unit, uint32_t batches, uint64_t *count, uint64_t *fingerprint,
                          weir_error *err);

/* --- resume.c. All under the lock, on any thread. */
/* An acknowledgement in an epoch later than epoch_seen, while the client still asks whether all
 * earlier acknowledged state exists. */
struct told {
	uint64_t index, epoch; /* 0, 0: nothing */
};
/* Notes the applied and stable log index in a reply to a push or a seal of that partition; the
 * applied index as seen from `epoch`. */
void acknowledge(weir_client *c, uint32_t partition, const struct record *reply, uint32_t epoch);
/* Asks the partitions of a server whether everything that they acknowledged still exists. The
 * answer comes once that is stable; E_STALE for this client if something is missing. moved: only
 * the partitions that have just come to the server. */
weir_status resume_ask(struct link *l, bool moved, bool first);
weir_status resume_ask_all(weir_client *c);
/* Whether an answer is of an epoch before one that its partition has reported: its server is no
 * longer the primary, or does not know yet that it is primary again. */
bool resume_is_outdated(const weir_client *c, const struct request *q, const struct record *r);

/* --- progress.c */
void progress_start(weir_client *c); /* a timer on the loop */
void report_anew(weir_client *c);    /* under the lock: the ledger has moved */
/* Under the lock: norm of the gradients that all tables have kept back, as last measured. */
double residual_norm(const weir_client *c);
/* Under the lock: takes the counts since the last report. staleness (HISTOGRAM_BUCKETS). Returns
 * how many entries of staleness are to be reported. */
size_t report_take(weir_client *c, Weir__V1__WorkerReport *out, uint64_t *staleness);

/* --- activity.c: whether the trainer moves. All of it under the lock. */
struct activity {
	uint64_t moves, seen;                            /* seen: as of the last tick */
	uint64_t idle_ms, still_ms, longest_ms, batches; /* as in the message Activity */
	int64_t ticked_ms;
	uint32_t calls; /* to servers and the ledger, in flight */
	bool waits_for_data;
};
void activity_move(weir_client *c);
void activity_batch_begins(weir_client *c, struct held_batch *b);
void activity_batch_ends(weir_client *c); /* it is pushed, or will not be */
void activity_reads(weir_client *c);      /* an evaluator's move; no effect for others */
void activity_begin(weir_client *c);      /* as another incarnation */
void activity_tick(weir_client *c);       /* often, on the loop */
void activity_fill(const weir_client *c, Weir__V1__Activity *out);

/* --- steps.c */
struct steps {
	bool member; /* of step `number` with `current` */
	weir_batch current;
	uint64_t number;
	struct poll poll;
	bool asked_ready; /* the poll asks when `asked` may begin */
	weir_batch asked;
	bool leaving;
	weir_status failure;  /* why it could not leave */
	double weight;        /* of the last batch that was pushed in a step */
	uint64_t closes_sent; /* last step whose close was sent to the servers */
	uint64_t closed;      /* last step whose close all servers have acknowledged */
	uint32_t closes_in_flight;
	struct operation *waiting; /* pulls that wait for a step */
};
void steps_submit(weir_client *c, struct operation *pull); /* under the lock, on the loop */
void steps_poll(weir_client *c);                           /* likewise */
void steps_learn(weir_client *c, Weir__V1__StepClose *const *closes, size_t count);
/* Waits. Without the lock. */
weir_status steps_leave(weir_client *c, const struct held_unit *u, weir_error *err);
void steps_fail(weir_client *c, weir_status status, const char *text);
/* Cancels the waiting pulls. Under the lock, on the loop. */
void steps_cancel(weir_client *c);
void steps_forget_unit(weir_client *c, uint32_t pass, uint32_t unit); /* it is given up */
struct done_batch {
	Weir__V1__BatchId id;
	Weir__V1__BatchWeight weight;
};
/* *out: the batch of its step. Returns whether its push is through. */
bool steps_done(weir_client *c, struct done_batch *out);
/* Whether the batch takes part in a step; a batch whose step has closed takes part in no other. */
bool steps_takes_part(const weir_client *c, const weir_batch *batch);

extern const struct poll_type steps_poll_type;

/* --- clocks.c: tables of bounded staleness */
struct clocks {
	struct poll poll;
	uint64_t begun;                       /* batches of this incarnation that have their number */
	uint64_t limit;                       /* those up to it may begin */
	uint64_t asked_wants, asked_finished; /* by the last request */
	bool told;                            /* the ledger has heard of them, as far as is known */
	bool placed;                          /* the ledger has sent the shift */
	int64_t shift;
	struct operation *waiting; /* pulls of batches beyond the limit */
};
void clocks_submit(weir_client *c, struct operation *pull); /* under the lock, on the loop */
/* Likewise, when batches are through, or the ledger has moved. */
void clocks_poll(weir_client *c);
/* Under the lock: the unit is about to be given back. Without a unit the worker has no place among
 * the others: it gets a new one, also from a ledger that begins meanwhile. */
void clocks_leave_unit(weir_client *c, struct held_unit *u);
void clocks_begin(weir_client *c); /* under the lock: as another incarnation */
void clocks_fail(weir_client *c, weir_status status, const char *text);
void clocks_forget_unit(weir_client *c, uint32_t pass, uint32_t unit); /* it is given up */
/* Whether a batch may not begin yet because of another worker's clock, not because of this
 * one's. */
bool clocks_wait_for_others(weir_client *c);
extern const struct poll_type clocks_poll_type;

/* --- ledger.c */
#define LEDGER_ADDRESSES_MAX (2 * WEIR_SERVERS_MAX)
struct ledger_address { /* an address that may be the ledger's */
	char address[WEIR_ADDRESS_BYTES_MAX];
	struct rpc_channel *channel; /* NULL: not used yet */
};
struct ledger_way {
	struct ledger_address *addresses[LEDGER_ADDRESSES_MAX]; /* (addresses_count) */
	uint32_t addresses_count, at;                           /* at: the one in use */
	uint64_t moves;                                         /* how often `at` changed */
	/* Of the map's claim; 0: none, the ledger does not move. */
	uint64_t epoch, revision;
};

/* --- client.c */
/* A live worker that keeps a newcomer out. */
struct holder {
	bool there;
	uint32_t pid;
	uint64_t pid_namespace, heard;
};
struct weir_client {
	struct rpc *rpc;
	bool rpc_owned;
	struct rpc_loop *loop;
	const struct clock *clock;

	char name[WEIR_NAME_BYTES_MAX];
	/* Random: the ledger recognises a repeated join of the same client by it. */
	uint64_t token;
	struct holder holder; /* the worker that blocked the last join */
	weir_options options; /* strings NULL */
	char *fingerprint;    /* options.fingerprint, or NULL */
	char *accept[WEIR_ACCEPTED_KEYS_MAX];
	size_t accept_count;
	uint8_t uuid[16];
	uint64_t generation;
	uint64_t ledger_process_id; /* JobId's */
	uint32_t worker, lease_ms, partitions, passes, evaluated;
	/* How long a server may be gone; restarts take longer if its log is on disk. */
	uint32_t patience_ms;
	struct link *links[WEIR_SERVERS_MAX]; /* (links_count) by server */
	uint32_t links_count;
	struct map map;
	struct ledger_way ledger;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* operations finish, credit comes back, units advance, states change */
	bool closing, stale;
	weir_error failure; /* status OK while it may go on */
	uint64_t incarnation;
	struct table *tables[WEIR_TABLES_MAX];
	/* Held while a push is coded: one push at a time, for all tables. Taken before `lock`. */
	pthread_mutex_t coding;
	uint32_t tables_count;
	struct operation **slots; /* (slots_count) */
	uint32_t *slot_generation;
	uint32_t slots_count, operations, free_hint;
	struct operation *submitted, **submitted_tail; /* pulls on their way to the loop */
	bool wake_posted;
	struct held_unit *units;
	struct steps steps;
	struct clocks clocks;
	struct activity activity;
	struct trace *trace;
	struct trace_upload trace_upload;
	/* Frames that point into the caller's memory and are with the transport. */
	_Atomic int32_t lent;
	uint64_t *applied_seen, *stable_seen; /* (partitions) */
	/* The highest position of a pushed batch, counted from 1; 0: none was pushed. */
	_Atomic uint32_t pushed_place;
	/* (partitions) acknowledged: highest index in a reply to this incarnation's pushes and seals;
	 * epoch_seen: the epoch that it is seen from */
	uint64_t *acknowledged, *epoch_seen;
	struct told *later; /* (partitions) */
	bool ack_sent;      /* a push completes when it is on its way */
	struct {
		/* Most that other replicas than the primary may lag when they answer; 0: they are not
		 * asked. */
		uint32_t staleness_ms;
		uint64_t staleness_entries;
	} read;
	bool leasing; /* some thread asks for a unit */
	uint64_t lease_sequence, report_sequence;
	/* since when leased units are closed in a partition (lease.c); 0: they are not */
	int64_t closed_since_ms;
	struct {
		uint32_t pass, unit;
	} closed_low;
	Weir__V1__WorkerReport report;
	uint64_t staleness[HISTOGRAM_BUCKETS]; /* of pushes, since the last report */
	uint64_t reported_pushed, reported_pulled, reported_duplicates;
	struct reported *reporting; /* a report in flight, NULL: none */
	/* A report without an answer; it is sent again unchanged; NULL: none. */
	struct message *unreported;
	int64_t progress_ms;
	int64_t ticked_ms;            /* when the loop last looked at its lanes */
	struct record_writer *writer; /* the loop's */
	uint8_t *scratch;             /* the loop's: one row */
	size_t scratch_bytes;

	_Atomic uint64_t bytes_pushed, bytes_pulled, parts_pushed, duplicates, batches_dropped, reads_returned, pushes_in_flight,
	    pulls_in_flight;
};

/* weir_open over a transport of the caller's, which outlives the client. Tests use rpc_memory. */
weir_status client_open(weir_client **out, const weir_options *options, struct rpc *rpc, weir_error *err);
int64_t client_now(const weir_client *c);
/* Under the lock: this incarnation is dead; everything in flight completes with E_STALE. */
void client_become_stale(weir_client *c, const char *why);
/* Under the lock: the client can do no more; everything in flight and every later request fails
 * with this status. */
void client_fail(weir_client *c, weir_status status, const char *why);
/* Whether a client with this status cannot go on, whatever it does. */
bool client_is_over(weir_status status);
/* Under the lock: whether operations may start. */
weir_status client_usable(const weir_client *c, weir_error *err);
struct table *client_table(weir_client *c, uint32_t id, weir_error *err); /* under the lock */
void client_log(weir_client *c, weir_log_level level, const char *format, ...) WEIR_PRINTF(3, 4);
/* Waits for `changed` until the deadline (client_now; < 0: for ever). False once it has passed. */
bool client_wait(weir_client *c, int64_t deadline_ms);

/* --- join.c: blocking calls to servers. */
weir_status client_call_wait(weir_client *c, struct rpc_channel *channel, enum rpc_method method, struct message *m,
                             uint32_t timeout_ms, struct message **answer, weir_error *err);
/* Checks the Status, which is the first field of every reply. */
weir_status client_call(weir_client *c, struct rpc_channel *channel, enum rpc_method method, const ProtobufCMessage *q,
                        uint32_t timeout_ms, const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err);
/* An idempotent call: repeated for patience_ms while the other end cannot be reached. */
weir_status client_call_again(weir_client *c, struct rpc_channel *channel, enum rpc_method method, const ProtobufCMessage *q,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err);
/* Applies a refusal to the whole client: it becomes stale, or fails for good. Returns status. */
weir_status client_heed(weir_client *c, weir_status status, const weir_error *err);
/* Repeated calls to an unreachable peer. Zero-initialise the pause. */
struct tries {
	int64_t end_ms;
	uint32_t pause_ms;
};
/* After a try that failed with *why: waits, and clears *why; logs the first failure. False if there
 * is no time for another try, or no use: the client is closing, has failed, or is stale (unless it
 * is `joining`). */
bool client_try_again(weir_client *c, struct tries *t, bool joining, weir_error *why);
weir_status client_reply_status(const ProtobufCMessage *reply, weir_error *err);
void client_fill_job(weir_client *c, Weir__V1__JobId *out);
weir_status client_join(weir_client *c, bool again, weir_error *err);
weir_status tables_learn(weir_client *c, const Weir__V1__Table *table, struct table **out, weir_error *err);
/* Created on first use. NULL: E_MEMORY. Not under the lock. */
struct coder *tables_coder(weir_client *c, uint32_t id, weir_error *err);
struct row_sparsifier *tables_kept(weir_client *c, uint32_t id, weir_error *err);
/* Holding `coding`: makes the encoders' stats available to the report. */
void tables_note_compression(weir_client *c);
struct pulled_base *tables_held(weir_client *c, uint32_t id, weir_error *err); /* likewise */
void tables_forget_residuals(weir_client *c);
void tables_destroy(weir_client *c);

/* --- ledger.c: calls of the ledger. */
/* addresses: of servers of the job, separated by commas. E_INVALID, E_LIMIT, or the error of
 * opening a channel to the first. */
weir_status ledger_open(weir_client *c, const char *addresses, weir_error *err);
void ledger_calls_destroy(weir_client *c); /* ends all calls; then the loop may end */
/* One blocking try. E_MOVED: the ledger is elsewhere, or nowhere at present. */
weir_status ledger_call(weir_client *c, enum rpc_method method, const ProtobufCMessage *q, uint32_t timeout_ms,
                        const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err);
/* Retries while the ledger cannot be reached, for patience_ms, or for c->patience_ms. */
weir_status ledger_call_patiently(weir_client *c, enum rpc_method method, const ProtobufCMessage *q, uint32_t patience_ms,
                                  const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err);
weir_status ledger_call_again(weir_client *c, enum rpc_method method, const ProtobufCMessage *q,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err);
/* The rest under the lock. */

/* The channel to its place, as far as is known. */
weir_status ledger_channel(weir_client *c, struct rpc_channel **out, weir_error *err);
/* Takes a newer map's claim about the ledger. Returns whether it names another place; calls under
 * way are then asked there. */
bool ledger_claim(weir_client *c, const Weir__V1__PartitionMap *m);
/* The address asked after `moves` moves does not have the ledger: asks others. */
void ledger_missed(weir_client *c, uint64_t moves);

/* --- pull.c */
void pull_start(struct operation *op); /* under the lock, on the loop: its step is known */
/* Likewise, once its batch may begin. Takes the caller's hold. */
void pull_go_on(struct operation *op);
/* Writes one PULL record. Under the lock, on the loop. */
weir_status pull_pack(struct record_writer *w, struct request *q);
/* --- read.c: pulls from replicas that are not primary. Under the lock, on the loop. */

/* The link for a pull's request: each replica in turn, if any may answer. */
struct link *read_choose(struct request *q);
/* The index that a replica must have applied to answer a pull. */
uint64_t read_floor(const weir_client *c, uint32_t partition);
/* The replica does not answer the request as it should: the primary is asked. */
void read_refused(struct lane *lane, struct request *q);
/* The server does not answer at all. */
void read_gave_up(struct link *l);
/* --- broadcast.c */
/* on_reply of operations that need only completion. */
weir_status plain_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body, weir_error *err);
/* Sends one small record to every partition: request p of op, which has one for each. Those that
 * cannot be sent fail. Under the lock. */
void ask_partitions(struct operation *op, const struct record *r, const struct section *s, const void *data);
/* The same, with no waiter. Under the lock. */
weir_status broadcast(weir_client *c, const char *what, const struct record *r, const struct section *s, const void *data,
                      void (*on_finish)(struct operation *op));

#endif
