/* The ledger's state, private to ledger*.c. Request handlers (ledger_workers.c, ledger_units.c,
 * ledger_steps.c, ledger_tables.c) decide. The small functions declared here change the state, one
 * decided fact each, so that facts can be logged and replayed. */
#ifndef WEIR_LEDGER_STATE_H
#define WEIR_LEDGER_STATE_H

#include <stdbool.h>

#include "common/base/figures.h"
#include "common/base/limits.h"
#include "common/base/peer_identity.h"
#include "common/metrics/metrics.h"
#include "server/ledger/ledger.h"

#define LEDGER_RETRY_MS 50u /* pause before a waiting worker asks again */

/* Parts per partition, (partitions) each. NULL means zeros. */
struct totals {
	uint64_t *count, *fingerprint;
};

enum unit_state { UNIT_FREE, UNIT_LEASED, UNIT_COMMITTED, UNIT_QUARANTINED };

struct ledger_unit {
	enum unit_state state;
	uint32_t attempt;  /* last one granted; 0: none */
	uint32_t failures; /* attempts that their holders gave up explicitly */
	uint32_t excused;  /* attempts that do not count, because the holders did not move */
	uint32_t holder;   /* worker, while leased */
	uint32_t batches, watermark;
	uint32_t local_steps; /* batches of its local rounds, in every attempt; 0: no local steps */
	uint32_t place, end;  /* as in WorkUnit */
	uint32_t first;       /* its first batch */
	struct totals totals; /* of the batches below the watermark */
	bool skip;            /* given up: leased only to be sealed and counted */
	uint64_t *stepped;    /* bit b: batch b was in a step that has closed; NULL: none */
	char *error;          /* of the last explicit failure; may be NULL */
	bool changed;         /* listed in ledger_changes.units */
};

struct ledger_batch {
	uint32_t pass, unit, batch;
};

/* A parked StepRequest. */
struct step_poll {
	/* over: its batch has had its step. ready: it waits for a step for `batch`; else for the close
	 * of the step that it is a member of. */
	bool active, ready, dropped, over;
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

/* Clock for bounded staleness (ledger_clocks.c). Not in the log. */
struct worker_clock {
	bool known; /* the worker has told this ledger its clock */
	/* It got a unit when it had none and has not asked since: it does not count yet. */
	bool entering;
	int64_t shift; /* shift + finished is its position among the workers */
	uint64_t finished;
	struct clock_poll poll;
};

/* Speed (ledger_speed.c). Not in the log. */
struct speed {
	double per_second; /* 0: not known yet */
	uint64_t count;    /* since since_ms */
	int64_t since_ms;
};

/* Activity of a worker (ledger_idle.c). Only `tells` is in the log. */
struct worker_activity {
	bool tells; /* Its library sends the counts below. Else the ledger uses moved_ms. */
	bool waits_for_data;
	bool proven;                                     /* it has finished something since it joined */
	uint64_t idle_ms, still_ms, longest_ms, batches; /* as last reported */
	int64_t moved_ms;                                /* when the ledger last saw it move */
};
struct worker_stall { /* the last stall; count 0: none */
	uint32_t count;
	uint64_t since_unix_ms, idle_ms;
	uint32_t pass, unit, units;
	bool waits_for_data, now;
};

struct ledger_worker {
	uint32_t id, pid;
	char name[WEIR_NAME_BYTES_MAX], host[WEIR_ADDRESS_BYTES_MAX];
	Weir__V1__Role role;
	/* Drawn at random: the worker's credential for every statement about itself. Never shown. */
	uint64_t incarnation;
	bool live, left;
	bool heard;           /* this incarnation has sent a request since it joined */
	uint64_t heard_count; /* its requests to this ledger; not in the log */
	int64_t renewed_ms;
	uint64_t client, pid_namespace; /* as of its join request */
	uint64_t connection;            /* that it joined over; not in the log */
	char address[WEIR_ADDRESS_BYTES_MAX];
	unsigned certificate;                           /* role of its certificate; 0: none */
	uint32_t held[WEIR_UNITS_HELD_MAX], held_count; /* units of the current pass */
	uint64_t rows;
	double residual_norm; /* as last reported */
	/* Of its pushes, as reported to this ledger; not in the log. */
	uint64_t staleness[HISTOGRAM_BUCKETS];
	uint64_t lease_sequence, report_sequence; /* last ones seen: a repeat gets the same answer */
	uint32_t granted;                         /* unit granted for lease_sequence */
	bool dropped;                             /* its last step closed without `dropped_batch` */
	struct ledger_batch dropped_batch;
	struct step_poll poll;
	struct worker_clock clock;
	struct speed speed; /* in batches */
	struct worker_activity activity;
	struct worker_stall stall;
	bool asked;   /* It has asked for a unit, and takes part in lockstep since. Not in the log. */
	bool joined;  /* it joined this ledger, not a predecessor; not in the log */
	bool late;    /* steps do not wait for it until it is ready again; not in the log */
	bool changed; /* listed in ledger_changes.workers */
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
	uint64_t closed; /* steps closed; an open step is number closed + 1 */
	bool open;
	uint32_t needed;
	struct step_member *members; /* (capacity) */
	uint32_t count, capacity;
	struct close_record *closes[WEIR_STEP_CLOSES_KEPT]; /* oldest first */
	uint32_t closes_count;
	uint64_t batches_dropped;
};

/* Lockstep. Not in the log: the next ledger waits anew. */
struct lockstep {
	bool gathered;     /* units are leased, and steps open */
	bool lost;         /* a trainer has gone since then and may be replaced */
	uint32_t wanted;   /* number of trainers to wait for */
	int64_t gather_ms; /* since when a trainer waits for that number; 0: none does */
	/* Since when the open step has the seat of a lost member while all trainers are present. 0: no
	 * such seat. */
	int64_t seat_ms;
	int64_t spare_ms; /* since when a trainer has no unit while others' units are free; 0: none */
	int64_t ready_ms; /* since when some trainers are ready for a step that is not open; 0: none */
};

struct ledger_table {
	uint32_t id;
	weir_table_spec spec;
	struct wire_table wire;
};

/* Join tokens, shared by some addresses (ledger_join.c). */
#define LEDGER_JOIN_BUCKETS 64u
struct join_bucket {
	double spent;
	int64_t at_ms;
};

/* A server's low-water mark (mark.h) in this generation. */
struct server_mark {
	uint64_t epoch; /* 0: not reported */
	uint64_t began, position;
	bool changed; /* since the last export */
};

struct ledger_list {
	uint32_t *items, count, capacity;
};

/* What the next export must hold. Each function that changes something marks it here. */
struct ledger_changes {
	bool recorded; /* somebody exports: marks are kept */
	bool all;      /* a mark could not be kept: export everything */
	bool globals, totals, steps;
	bool marks;      /* some marks changed; server_mark.changed says which */
	uint32_t tables; /* tables exported so far */
	bool fingerprint, contents_anew;
	struct ledger_list units, workers, contents; /* contents: data units */
};

struct ledger {
	struct ledger_options options; /* with copies of what it points to */
	char **servers;
	uint32_t *partition_server;
	/* (servers_count) Process ids as workers report them; 0: not yet. NULL: servers' state outlives
	 * their processes. */
	uint64_t *process_ids;
	struct server_mark *marks; /* (servers_count) */

	struct join_bucket joins[LEDGER_JOIN_BUCKETS];
	struct ledger_worker **workers; /* (workers_count) */
	uint32_t workers_count, workers_capacity;
	struct ledger_table **tables;
	uint32_t tables_count;
	uint64_t dense_bytes[WEIR_SERVERS_MAX]; /* of each server's memory, taken by the tables */

	bool has_dataset;
	uint64_t dataset_fingerprint, dataset_rows;
	uint32_t dataset_units; /* in a pass */
	uint32_t unit_batches;  /* in one unit, about; 0: units are leased whole */
	uint32_t passes;        /* the options', or the first trainer's; 0: not known yet */
	char dataset_by[WEIR_NAME_BYTES_MAX];
	/* Of the job. The first worker that knows a key sets it. NULL: no key is set. */
	char *fingerprint;
	/* (dataset_units) Hashes of the data units' examples; 0: unknown. NULL: all are unknown. */
	uint64_t *contents;

	uint32_t pass; /* the open one */
	/* (units_count) Units of this pass: those of the dataset, then parts cut from them. */
	struct ledger_unit *units;
	uint32_t units_count, units_capacity;
	uint32_t free_from;              /* no unit below is free */
	uint32_t low;                    /* all units below are closed */
	uint32_t committed, quarantined; /* of this pass */
	uint32_t parts_committed;        /* among the committed units */
	uint32_t completed, evaluated;   /* passes */
	uint64_t batches;                /* of committed units */
	uint64_t completed_batches;      /* of completed passes */
	uint64_t evaluated_batches;      /* up to the last pass with a verdict; 0: none */
	/* When the last pass completed; when an evaluator was last alive. */
	int64_t completed_ms, evaluator_ms;
	bool finished, failed;
	/* Passes of the job, once all are trained. 0: it still trains, or stopped early. */
	uint32_t passes_done;
	char failure[WEIR_ERROR_TEXT_BYTES];

	struct ledger_steps steps;
	struct lockstep lockstep;
	struct totals expected, skipped; /* of committed units; of quarantined units */
	Weir__V1__WorkerReport report;
	struct speed speed;  /* rows of all workers */
	int64_t rows_ms;     /* when rows were last reported; 0: not since this server has the ledger */
	double auc, logloss; /* these and the next three: of the last evaluation, as in GateRequest */
	bool language;
	uint64_t not_numbers;
	struct figures figures;
	uint64_t workers_lost, workers_stalled, leases_expired, units_quarantined;
	struct epochs epochs;
	struct ledger_changes changes;
};

int64_t ledger_now(const struct ledger *l);
/* Checks that a request belongs to this job. E_GENERATION; E_UNAVAILABLE if the ledger's generation
 * is older than the request's. */
weir_status ledger_check_job(const struct ledger *l, const Weir__V1__JobId *job, weir_error *err) WEIR_MUST_CHECK;
void ledger_fill_job(struct ledger *l, Weir__V1__JobId *out);
void ledger_fill_status(Weir__V1__Status *out, weir_status status, const char *text);
Weir__V1__UnitMark ledger_closed_low(const struct ledger *l);

/* Change marks (ledger_export.c) */
void ledger_mark_unit(struct ledger *l, uint32_t unit);
void ledger_mark_worker(struct ledger *l, struct ledger_worker *w);
void ledger_unmark_units(struct ledger *l); /* the pass is over */

/* Totals over partitions */
weir_status ledger_totals_init(struct totals *t, uint32_t partitions);
void ledger_totals_destroy(struct totals *t);
bool ledger_totals_valid(const Weir__V1__PartTotals *in, uint32_t partitions);
void ledger_totals_add(struct totals *t, const Weir__V1__PartTotals *in, uint32_t partitions);
void ledger_totals_set(struct totals *t, const Weir__V1__PartTotals *in, uint32_t partitions);
void ledger_totals_fill(Weir__V1__PartTotals *out, const struct totals *t, uint32_t partitions);

/* Workers. ledger_worker_find returns NULL and sets *err unless the request comes from a live
 * incarnation of this job. Otherwise it renews the worker's lease. ledger_worker_add gives the
 * worker the next id; NULL: out of memory. */
struct ledger_worker *ledger_worker_add(struct ledger *l);
struct ledger_worker *ledger_worker_find(struct ledger *l, const Weir__V1__JobId *job, uint32_t id, uint64_t incarnation,
                                         weir_error *err);
void ledger_worker_end(struct ledger *l, struct ledger_worker *w, bool clean, const char *why);
uint32_t ledger_workers_holding(const struct ledger *l);
uint32_t ledger_trainers(const struct ledger *l); /* live ones */
float ledger_rate_scale(const struct ledger *l);  /* of pushes from now on, as in WorkUnit */
void ledger_report_add(struct ledger *l, struct ledger_worker *w, const Weir__V1__WorkerReport *r, const uint64_t *staleness,
                       size_t buckets);

/* Units */
weir_status ledger_pass_open(struct ledger *l, uint32_t pass);
/* All units are free. */
weir_status ledger_pass_reset(struct ledger *l, uint32_t dataset_units, uint32_t pass);
weir_status ledger_pass_grow(struct ledger *l, uint32_t units_count); /* by parts, which are free */
void ledger_pass_destroy(struct ledger *l);
void ledger_pass_advance(struct ledger *l);
void ledger_unit_return(struct ledger *l, uint32_t unit, const char *why);
/* E_INVALID: the worker has read other examples than the earlier readers of the data unit. */
weir_status ledger_unit_watermark(struct ledger *l, struct ledger_worker *w, const Weir__V1__UnitProgress *p,
                                  weir_error *err) WEIR_MUST_CHECK;
/* A batch has one step. ledger_unit_can_step reserves room to remember the step of a batch whose
 * unit is open. False: out of memory. */
bool ledger_unit_can_step(struct ledger *l, const struct ledger_batch *b);
void ledger_unit_step(struct ledger *l, const struct ledger_batch *b);
bool ledger_unit_has_stepped(const struct ledger *l, const struct ledger_batch *b);
bool ledger_unit_is_held(const struct ledger *l, const struct ledger_worker *w, const struct ledger_batch *b);
void ledger_fail(struct ledger *l, const char *text); /* the job, for good */

/* The job's fingerprint: what determines results (ledger_fingerprint.c). E_INVALID names the keys
 * in which a newcomer differs from the job, unless it accepts them. */
weir_status ledger_fingerprint_check(const struct ledger *l, const Weir__V1__JoinRequest *q, weir_error *err) WEIR_MUST_CHECK;
/* Whether the newcomer knowingly uses other data: their fingerprint may differ. */
bool ledger_fingerprint_accepts_data(const Weir__V1__JoinRequest *q);
/* Makes the newcomer's keys part of the job's fingerprint. E_MEMORY, E_LIMIT. */
weir_status ledger_fingerprint_take(struct ledger *l, const Weir__V1__JoinRequest *q, weir_error *err) WEIR_MUST_CHECK;
weir_status ledger_fingerprint_merge(struct ledger *l, const ProtobufCBinaryData *in, weir_error *err) WEIR_MUST_CHECK;
/* Contents of data units */
uint64_t ledger_content(const struct ledger *l, uint32_t data_unit); /* 0: unknown */
weir_status ledger_content_note(struct ledger *l, const struct ledger_worker *w, uint32_t data_unit, uint64_t content,
                                weir_error *err) WEIR_MUST_CHECK;
/* Reserves room for the dataset's units. E_MEMORY. */
weir_status ledger_contents_reserve(struct ledger *l) WEIR_MUST_CHECK;
void ledger_mark_content(struct ledger *l, uint32_t data_unit); /* in ledger_export.c */

/* Parts of units (ledger_parts.c) */
/* Cuts the unit to w's share, before w gets it. */
void ledger_unit_cut(struct ledger *l, const struct ledger_worker *w, uint32_t unit);

/* Steps. A leaving worker reports `done`, the batch of the open step that it has finished (NULL:
 * none). The batch then counts without the worker. */
void ledger_step_done(struct ledger *l, struct ledger_worker *w, const Weir__V1__BatchId *done,
                      const Weir__V1__BatchWeight *weight);
void ledger_steps_forget(struct ledger *l, struct ledger_worker *w, const char *why);
/* Answers the worker's parked poll: the ledger is shutting down. */
void ledger_steps_answer(struct ledger *l, struct ledger_worker *w, weir_status status, const char *why);
/* The worker gives a unit up. A batch of it that is in the open step and not done leaves the step.
 * A batch of it that waits for a step stops waiting. */
void ledger_steps_forget_unit(struct ledger *l, struct ledger_worker *w, uint32_t pass, uint32_t unit);
void ledger_steps_advance(struct ledger *l);
/* Returns a batch of the open step whose worker was lost before the batch was done and whose unit w
 * should get: w owns the unit, or its owner has a batch in the step already. NULL: none, or w
 * itself has a batch in the step. */
const struct ledger_batch *ledger_steps_seat_for(struct ledger *l, const struct ledger_worker *w);
void ledger_steps_destroy(struct ledger *l);
/* Makes the record of a close. Members [0, included) count, in this order and by their weights; the
 * others are dropped. NULL: out of memory. */
struct close_record *ledger_close_make(uint64_t step, float rate_scale, const struct step_member *members, uint32_t count,
                                       uint32_t included);
void ledger_close_destroy(struct close_record *c);

/* Steps that are the same in every run (ledger_lockstep.c); without synchronous tables nothing
 * waits. ledger_lockstep_lease returns the free unit that w gets; units_count: none. No unit below
 * l->free_from is free. */
uint32_t ledger_lockstep_lease(struct ledger *l, struct ledger_worker *w);
/* Whether the next step may open with the ready trainers. */
bool ledger_lockstep_complete(struct ledger *l);
/* Call before a worker ends: the others may wait for its replacement. */
void ledger_lockstep_lose(struct ledger *l, const struct ledger_worker *w);
/* Whether the open step waits for this batch, whose worker was lost before the batch was done. */
bool ledger_lockstep_keeps(struct ledger *l, const struct ledger_batch *b);
/* NULL: no trainer takes part */
struct ledger_worker *ledger_lockstep_owner(const struct ledger *l, uint32_t unit);
void ledger_lockstep_kept_none(struct ledger *l); /* the open step waits for no such batch */

/* Clocks */
void ledger_clocks_enter(struct ledger_worker *w); /* the worker gets a unit and had none */
/* A worker holds no units any more or has advanced: releases waiting workers. */
void ledger_clocks_advance(struct ledger *l);
/* Answers the worker's poll and forgets its reported clock. */
void ledger_clocks_forget(struct ledger_worker *w, weir_status status, const char *why);

/* Workers that do not move */
/* activity: NULL if the client sends none. */
void ledger_idle_hear(struct ledger_worker *w, const Weir__V1__Activity *activity);
void ledger_idle_moved(struct ledger *l, struct ledger_worker *w); /* it has done something */
/* It has finished a batch or a unit. */
void ledger_idle_finished(struct ledger *l, struct ledger_worker *w);
/* Whether the worker may hold a second unit. A worker that stalled may not until it finishes
 * something. */
bool ledger_idle_trusts(const struct ledger_worker *w);
void ledger_idle_tick(struct ledger *l); /* ends workers that have been idle too long */
/* 0: nothing waits for it */
uint64_t ledger_idle_ms(const struct ledger *l, const struct ledger_worker *w);
uint64_t ledger_idle_limit_ms(const struct ledger *l, const struct ledger_worker *w);
/* Refuses the next request of an incarnation that ended because it did not move. */
weir_status ledger_idle_refuse(const struct ledger_worker *w, weir_error *err);
void ledger_stall_fill(Weir__V1__Stall *out, const struct worker_stall *in);

/* Speeds */
/* The worker gets a unit and had none. */
void ledger_speed_begin(struct ledger *l, struct ledger_worker *w);
void ledger_speed_add(struct ledger *l, struct ledger_worker *w, const Weir__V1__WorkerReport *r);
/* Batches of the worker's local rounds. 0: no table has local steps. */
uint32_t ledger_speed_round(const struct ledger *l, const struct ledger_worker *w);

/* Share of the speed of all trainers, as far as known. */
double ledger_speed_share(const struct ledger *l, const struct ledger_worker *w);

/* Tables */
bool ledger_tables_in_step(const struct ledger *l); /* a table is synchronous or has local steps */
bool ledger_tables_synchronous(const struct ledger *l);
uint32_t ledger_tables_backup(const struct ledger *l); /* of the sync tables */
/* Parts of gradients are kept back: each unit has one more batch for them. */
bool ledger_tables_keep_back(const struct ledger *l);
/* The smallest of the ssp tables; UINT32_MAX: no such table. */
uint32_t ledger_tables_bound(const struct ledger *l);
/* Steps per local round that units are cut into: the largest of the tables. 0: no table has local
 * steps. *by_speed: slower workers get shorter rounds. */
uint32_t ledger_tables_local_steps(const struct ledger *l, bool *by_speed);
void ledger_tables_destroy(struct ledger *l);
/* Adds a table with the next id. Owns spec's segments, also on failure. */
weir_status ledger_table_add(struct ledger *l, const weir_table_spec *spec, struct ledger_table **out, weir_error *err);

#endif
