/* What the ledger is made of, shared by ledger*.c and nobody else. Requests (ledger_workers.c, ledger_units.c, ledger_steps.c, ledger_tables.c)
 * decide; the small functions declared here change state, one decided fact each, so that they can be logged and replayed later. */
#ifndef WEIR_LEDGER_STATE_H
#define WEIR_LEDGER_STATE_H

#include <stdbool.h>

#include "common/base/limits.h"
#include "common/base/peer_identity.h"
#include "common/metrics/metrics.h"
#include "server/ledger/ledger.h"

#define LEDGER_RETRY_MS 50u /* what a worker that must wait is told */

/* Parts per partition: (partitions) each; NULL stands for zeros. */
struct totals {
	uint64_t *count, *fingerprint;
};

enum unit_state { UNIT_FREE, UNIT_LEASED, UNIT_COMMITTED, UNIT_QUARANTINED };

struct ledger_unit {
	enum unit_state state;
	uint32_t attempt;  /* last one granted; 0: never */
	uint32_t failures; /* attempts given up explicitly */
	uint32_t excused;  /* attempts that do not count, as their holders did not move */
	uint32_t holder;   /* worker, while leased */
	uint32_t batches, watermark;
	uint32_t local_steps; /* of its rounds, in every attempt; 0: none */
	uint32_t place, end;  /* as WorkUnit's */
	uint32_t first;       /* batch that it begins with */
	struct totals totals; /* of the batches below the watermark */
	bool skip;            /* given up: leased only to be sealed and counted */
	uint64_t *stepped;    /* bit b: batch b has been in a step that has closed; NULL: none */
	char *error;          /* of the last attempt that failed explicitly; may be NULL */
	bool changed;         /* is in ledger_changes.units */
};

struct ledger_batch {
	uint32_t pass, unit, batch;
};

/* A parked StepRequest. */
struct step_poll {
	bool active, ready, dropped,
	    over; /* over: its batch has had its step. ready: waits for a step for `batch`; else for the close of the step it is a member of */
	struct ledger_batch batch;
	ledger_reply_fn reply;
	void *arg;
};

/* A parked ClockRequest. */
struct clock_poll {
	bool active;
	uint64_t wants;
	ledger_reply_fn reply;
	void *arg;
};

/* Of bounded staleness (ledger_clocks.c). Not in the log. */
struct worker_clock {
	bool known;    /* the worker has told this ledger */
	bool entering; /* it got a unit when it had none, and has not asked since: it counts for nothing yet */
	int64_t shift; /* shift + finished: where it stands among the others */
	uint64_t finished;
	struct clock_poll poll;
};

/* ledger_speed.c; not in the log. */
struct speed {
	double per_second; /* 0: not known yet */
	uint64_t count;    /* since then */
	int64_t since_ms;
};

/* How a worker moves (ledger_idle.c). The log has only `tells`. */
struct worker_activity {
	bool tells; /* its library sends the counts below; else the ledger goes by moved_ms */
	bool waits_for_data;
	bool proven;                                     /* it has finished something since it joined */
	uint64_t idle_ms, still_ms, longest_ms, batches; /* as told last */
	int64_t moved_ms;                                /* when the ledger last saw it move */
};
struct worker_stall { /* the last one; count 0: none */
	uint32_t count;
	uint64_t since_unix_ms, idle_ms;
	uint32_t pass, unit, units;
	bool waits_for_data, now;
};

struct ledger_worker {
	uint32_t id, pid;
	char name[WEIR_NAME_BYTES_MAX], host[WEIR_ADDRESS_BYTES_MAX];
	Weir__V1__Role role;
	uint64_t incarnation; /* drawn at random: the credential for all that the worker says of itself. Never shown */
	bool live, left;
	bool heard;           /* this incarnation has asked for something since it joined */
	uint64_t heard_count; /* times that it has asked this ledger; not in the log */
	int64_t renewed_ms;
	uint64_t client, pid_namespace; /* as it said when it joined */
	uint64_t connection;            /* that it joined over; not in the log */
	char address[WEIR_ADDRESS_BYTES_MAX];
	unsigned certificate;                           /* its role; 0: none */
	uint32_t held[WEIR_UNITS_HELD_MAX], held_count; /* units of the current pass */
	uint64_t rows;
	double residual_norm;                     /* as it said last */
	uint64_t staleness[HISTOGRAM_BUCKETS];    /* of its pushes, as it has told this ledger; not in the log */
	uint64_t lease_sequence, report_sequence; /* last ones seen: repeats are answered alike */
	uint32_t granted;                         /* unit granted for lease_sequence */
	bool dropped;                             /* its last step closed without `dropped_batch` */
	struct ledger_batch dropped_batch;
	struct step_poll poll;
	struct worker_clock clock;
	struct speed speed; /* batches */
	struct worker_activity activity;
	struct worker_stall stall;
	bool asked;   /* for a unit, and takes part in lockstep since; not in the log */
	bool joined;  /* this ledger, not one before it; not in the log */
	bool late;    /* steps do not wait for it until it is ready again; not in the log */
	bool changed; /* is in ledger_changes.workers */
};

struct step_member {
	uint32_t worker;
	uint64_t incarnation;
	struct ledger_batch batch;
	bool done;
	double weight; /* in the mean of its step, once it is done */
};

struct close_record {
	Weir__V1__StepClose message; /* points into the rest */
	Weir__V1__BatchId *ids;
	Weir__V1__BatchId **list;
	float *weights; /* (included) */
};

struct ledger_steps {
	uint64_t closed; /* steps closed; the open one, if any, is closed + 1 */
	bool open;
	uint32_t needed;
	struct step_member *members; /* (capacity) */
	uint32_t count, capacity;
	struct close_record *closes[WEIR_STEP_CLOSES_KEPT]; /* oldest first */
	uint32_t closes_count;
	uint64_t batches_dropped;
};

/* Not in the log: whoever has the ledger next waits anew. */
struct lockstep {
	bool gathered;     /* units are leased, and steps open */
	bool lost;         /* a trainer has gone since they were, and may be replaced */
	uint32_t wanted;   /* so many trainers are waited for */
	int64_t gather_ms; /* since when a trainer has waited for that; 0: none has */
	int64_t seat_ms;   /* since when the open step has a seat of one that has gone, and all are there */
	int64_t spare_ms;  /* since when one has had no unit while others' were free; 0: none has */
	int64_t ready_ms;  /* since when some were ready for a step that is not open; 0: none are */
};

struct ledger_table {
	uint32_t id;
	weir_table_spec spec;
	struct wire_table wire;
};

/* Tokens of joins from some addresses (ledger_join.c). */
#define LEDGER_JOIN_BUCKETS 64u
struct join_bucket {
	double spent;
	int64_t at_ms;
};

/* A server's low-water mark (mark.h), in this generation. */
struct server_mark {
	uint64_t epoch; /* 0: it has told none */
	uint64_t began, position;
	bool changed; /* since the last export */
};

struct ledger_list {
	uint32_t *items, count, capacity;
};

/* What the next export must hold. Whoever changes something marks it, in the function that changes it. */
struct ledger_changes {
	bool recorded; /* somebody exports: marks are kept */
	bool all;      /* a mark could not be kept: everything */
	bool globals, totals, steps;
	bool marks;      /* some: those say so themselves */
	uint32_t tables; /* so many are exported */
	bool fingerprint, contents_anew;
	struct ledger_list units, workers, contents; /* contents: data units */
};

struct ledger {
	struct ledger_options options; /* with copies of what it points to */
	char **servers;
	uint32_t *partition_server;
	uint64_t *boots; /* (servers_count) as workers have told, 0: not yet; NULL: what servers hold outlives their processes */
	struct server_mark *marks; /* (servers_count) */

	struct join_bucket joins[LEDGER_JOIN_BUCKETS];
	struct ledger_worker **workers; /* (workers_count) */
	uint32_t workers_count, workers_capacity;
	struct ledger_table **tables;
	uint32_t tables_count;
	uint64_t dense_bytes[WEIR_SERVERS_MAX]; /* that the tables take of each server's memory */

	bool has_dataset;
	uint64_t dataset_fingerprint, dataset_rows;
	uint32_t dataset_units; /* in a pass */
	uint32_t unit_batches;  /* of one, about; 0: they are leased whole */
	char dataset_by[WEIR_NAME_BYTES_MAX];
	char *fingerprint;  /* of the job, as the first who knew each key said; NULL: nobody has */
	uint64_t *contents; /* (dataset_units) hashes of the data units' examples, 0: unknown; NULL: all are */

	uint32_t pass;             /* open one */
	struct ledger_unit *units; /* (units_count) of this pass: those of the dataset, then parts that were cut from them */
	uint32_t units_count, units_capacity;
	uint32_t free_from;                 /* no unit below is free */
	uint32_t low;                       /* all units below are closed */
	uint32_t committed, quarantined;    /* of this pass */
	uint32_t parts_committed;           /* of those that are committed */
	uint32_t completed, evaluated;      /* passes */
	uint64_t batches;                   /* of committed units, */
	uint64_t completed_batches;         /* of completed passes, and */
	uint64_t evaluated_batches;         /* up to the last pass with a verdict; 0: there is none */
	int64_t completed_ms, evaluator_ms; /* when the last pass completed; when an evaluator was last alive */
	bool finished, failed;
	uint32_t passes_done; /* the job was of so many passes, and all are trained; 0: it trains still, or stopped early */
	char failure[WEIR_ERROR_TEXT_BYTES];

	struct ledger_steps steps;
	struct lockstep lockstep;
	struct totals expected, skipped; /* of committed units, of quarantined ones */
	Weir__V1__WorkerReport report;
	struct speed speed;  /* rows of all workers */
	double auc, logloss; /* of the last evaluation, as GateRequest's, and so are the next */
	bool language;
	uint64_t not_numbers;
	uint64_t workers_lost, workers_stalled, leases_expired, units_quarantined;
	struct epochs epochs;
	struct ledger_changes changes;
};

int64_t ledger_now(const struct ledger *l);
/* Whether a request is of this job. */
/* E_GENERATION, or E_UNAVAILABLE where the ledger is of an older generation than the request. */
weir_status ledger_check_job(const struct ledger *l, const Weir__V1__JobId *job, weir_error *err) WEIR_MUST_CHECK;
void ledger_fill_job(struct ledger *l, Weir__V1__JobId *out);
void ledger_fill_status(Weir__V1__Status *out, weir_status status, const char *text);
Weir__V1__UnitMark ledger_closed_low(const struct ledger *l);

/* Marks (ledger_export.c). */
void ledger_mark_unit(struct ledger *l, uint32_t unit);
void ledger_mark_worker(struct ledger *l, struct ledger_worker *w);
void ledger_unmark_units(struct ledger *l); /* the pass is over */

/* Totals over partitions. */
weir_status ledger_totals_init(struct totals *t, uint32_t partitions);
void ledger_totals_free(struct totals *t);
bool ledger_totals_valid(const Weir__V1__PartTotals *in, uint32_t partitions);
void ledger_totals_add(struct totals *t, const Weir__V1__PartTotals *in, uint32_t partitions);
void ledger_totals_set(struct totals *t, const Weir__V1__PartTotals *in, uint32_t partitions);
void ledger_totals_fill(Weir__V1__PartTotals *out, const struct totals *t, uint32_t partitions);

/* Workers. NULL and a status (with a text in *err) when the request is not from a live incarnation of this job; renews otherwise. */
struct ledger_worker *ledger_worker_add(struct ledger *l); /* with the next id; NULL when out of memory */
struct ledger_worker *ledger_worker_find(struct ledger *l, const Weir__V1__JobId *job, uint32_t id, uint64_t incarnation,
                                         weir_error *err);
void ledger_worker_end(struct ledger *l, struct ledger_worker *w, bool clean, const char *why);
uint32_t ledger_workers_holding(const struct ledger *l);
uint32_t ledger_trainers(const struct ledger *l); /* that live */
float ledger_rate_scale(const struct ledger *l);  /* what is pushed from now on: as WorkUnit's */
void ledger_report_add(struct ledger *l, struct ledger_worker *w, const Weir__V1__WorkerReport *r, const uint64_t *staleness,
                       size_t buckets);

/* Units. */
weir_status ledger_pass_open(struct ledger *l, uint32_t pass);
weir_status ledger_pass_reset(struct ledger *l, uint32_t dataset_units, uint32_t pass); /* all its units are free */
weir_status ledger_pass_grow(struct ledger *l, uint32_t units_count);                   /* by parts, which are free */
void ledger_pass_free(struct ledger *l);
void ledger_pass_advance(struct ledger *l);
void ledger_unit_return(struct ledger *l, uint32_t unit, const char *why);
/* E_INVALID: the worker has read other examples than those who had the data unit before. */
weir_status ledger_unit_watermark(struct ledger *l, struct ledger_worker *w, const Weir__V1__UnitProgress *p,
                                  weir_error *err) WEIR_MUST_CHECK;
/* A batch has one step. Room to remember that it was, for units that are not closed; false when out of memory. */
bool ledger_unit_can_step(struct ledger *l, const struct ledger_batch *b);
void ledger_unit_step(struct ledger *l, const struct ledger_batch *b);
bool ledger_unit_has_stepped(const struct ledger *l, const struct ledger_batch *b);
bool ledger_unit_is_held(const struct ledger *l, const struct ledger_worker *w, const struct ledger_batch *b);
void ledger_fail(struct ledger *l, const char *text); /* the job, for good */

/* What determines results (ledger_fingerprint.c). */
/* E_INVALID names the keys in which a newcomer differs from the job, unless it accepts them. */
weir_status ledger_fingerprint_check(const struct ledger *l, const Weir__V1__JoinRequest *q, weir_error *err) WEIR_MUST_CHECK;
/* Whether it takes other data knowingly: their identity may differ. */
bool ledger_fingerprint_accepts_data(const Weir__V1__JoinRequest *q);
/* From now on what it says is the job's. E_MEMORY, E_LIMIT. */
weir_status ledger_fingerprint_take(struct ledger *l, const Weir__V1__JoinRequest *q, weir_error *err) WEIR_MUST_CHECK;
weir_status ledger_fingerprint_merge(struct ledger *l, const ProtobufCBinaryData *in, weir_error *err) WEIR_MUST_CHECK;
/* Contents of data units. */
uint64_t ledger_content(const struct ledger *l, uint32_t data_unit); /* 0: unknown */
weir_status ledger_content_note(struct ledger *l, const struct ledger_worker *w, uint32_t data_unit, uint64_t content,
                                weir_error *err) WEIR_MUST_CHECK;
/* Room for the dataset's units. E_MEMORY. */
weir_status ledger_contents_reserve(struct ledger *l) WEIR_MUST_CHECK;
void ledger_mark_content(struct ledger *l, uint32_t data_unit); /* ledger_export.c */

/* Parts of units (ledger_parts.c). */
void ledger_unit_cut(struct ledger *l, const struct ledger_worker *w,
                     uint32_t unit); /* before w gets it: to what w is to have of it */

/* Steps. */
/* Who leaves says what it has done in the open step (NULL: nothing): that counts without it. */
void ledger_step_done(struct ledger *l, struct ledger_worker *w, const Weir__V1__BatchId *done,
                      const Weir__V1__BatchWeight *weight);
void ledger_steps_forget(struct ledger *l, struct ledger_worker *w, const char *why);
/* Answers a poll of the worker that waits: the ledger is going away. */
void ledger_steps_answer(struct ledger *l, struct ledger_worker *w, weir_status status, const char *why);
/* The worker gives a unit up: a batch of it that is in the open step and not done leaves the step, one that waits for a step waits no more. */
void ledger_steps_forget_unit(struct ledger *l, struct ledger_worker *w, uint32_t pass, uint32_t unit);
void ledger_steps_advance(struct ledger *l);
/* A batch of the open step whose worker has gone before it was done, and whose unit w is to have:
 * its own, or that of one who waits in the step, unless w does itself. NULL: there is none. */
const struct ledger_batch *ledger_steps_seat_for(struct ledger *l, const struct ledger_worker *w);
void ledger_steps_free(struct ledger *l);
/* The record of a close: members [0, included) count, in this order and by their weights, the others are dropped. NULL when out of memory. */
struct close_record *ledger_close_make(uint64_t step, float rate_scale, const struct step_member *members, uint32_t count,
                                       uint32_t included);
void ledger_close_free(struct close_record *c);

/* Steps that are alike in every run (ledger_lockstep.c); without synchronous tables nobody waits. */
/* The free unit that w, which asks for one, gets; units_count: none. None below l->free_from is free. */
uint32_t ledger_lockstep_lease(struct ledger *l, struct ledger_worker *w);
bool ledger_lockstep_complete(struct ledger *l); /* whether the next step may open with who is ready */
/* Before a worker ends: others may wait for one in its place. */
void ledger_lockstep_lose(struct ledger *l, const struct ledger_worker *w);
/* Whether the open step waits for this batch, whose worker has gone before it was done. */
bool ledger_lockstep_keeps(struct ledger *l, const struct ledger_batch *b);
struct ledger_worker *ledger_lockstep_owner(const struct ledger *l, uint32_t unit); /* NULL: nobody takes part */
void ledger_lockstep_kept_none(struct ledger *l);                                   /* the open step waits for no such batch */

/* Clocks. */
void ledger_clocks_enter(struct ledger_worker *w); /* it gets a unit, and had none */
void ledger_clocks_advance(struct ledger *l);      /* somebody holds units no more, or has gone on: who waited may go */
/* The worker's poll is answered, and what it said does not count. */
void ledger_clocks_forget(struct ledger_worker *w, weir_status status, const char *why);

/* Workers that do not move. */
void ledger_idle_hear(struct ledger_worker *w, const Weir__V1__Activity *activity); /* NULL: it sends none */
void ledger_idle_moved(struct ledger *l, struct ledger_worker *w);                  /* it has done something */
void ledger_idle_finished(struct ledger *l, struct ledger_worker *w);               /* it has finished a batch or a unit */
/* Whether it may hold a second unit. A worker that has stalled may not until it finishes
 * something. */
bool ledger_idle_trusts(const struct ledger_worker *w);
void ledger_idle_tick(struct ledger *l);                                        /* ends workers that have been idle too long */
uint64_t ledger_idle_ms(const struct ledger *l, const struct ledger_worker *w); /* 0: nobody waits for it */
uint64_t ledger_idle_limit_ms(const struct ledger *l, const struct ledger_worker *w);
/* Answers the next request of an incarnation that has ended so. */
weir_status ledger_idle_refuse(const struct ledger_worker *w, weir_error *err);
void ledger_stall_fill(Weir__V1__Stall *out, const struct worker_stall *in);

/* Speeds. */
void ledger_speed_begin(struct ledger *l, struct ledger_worker *w); /* it gets a unit, and had none */
void ledger_speed_add(struct ledger *l, struct ledger_worker *w, const Weir__V1__WorkerReport *r);
uint32_t ledger_speed_round(const struct ledger *l,
                            const struct ledger_worker *w); /* batches of its rounds; 0: no table has local steps */

double ledger_speed_share(const struct ledger *l,
                          const struct ledger_worker *w); /* of all trainers' speed, as far as it is known */

/* Tables. */
bool ledger_tables_in_step(const struct ledger *l); /* some are synchronous, or have local steps */
bool ledger_tables_synchronous(const struct ledger *l);
uint32_t ledger_tables_backup(const struct ledger *l); /* of the sync tables */
bool ledger_tables_keep_back(const struct ledger *l);  /* parts of gradients: a unit has one batch more, of what was kept */
uint32_t ledger_tables_bound(const struct ledger *l);  /* the least of the ssp tables'; UINT32_MAX: there are none */
/* Rounds that units are cut into: the tables' largest, 0: none has local steps; *by_speed: shorter for slower workers. */
uint32_t ledger_tables_local_steps(const struct ledger *l, bool *by_speed);
void ledger_tables_free(struct ledger *l);
/* Adds a table with the next id. Takes spec's segments over, also on failure. */
weir_status ledger_table_add(struct ledger *l, const weir_table_spec *spec, struct ledger_table **out, weir_error *err);

#endif
