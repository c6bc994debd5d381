/* One partition: identities, log, rows, steps. The life of a push here: check its identity, append an entry to the log, apply the
 * committed entry, reply. Everything that changes rows or identities is an entry (push, seal, close step, retire, assign, evict; tables come from the ledger's registry), and applying reads nothing but
 * the entry and the state, so that replicas applying the same log are equal.
 *
 * Between the log and the rows an entry waits to be committed: for that the other replicas must have it, if there are any. Until then nothing is seen of it,
 * but that a record which it concerns (the same push again, a push of a unit that it seals) waits for it, and is answered as if it had come later.
 *
 * What waits. A record whose rows are below memory waits for them before it is looked at (until then it is nothing). A record that finds the disk full
 * waits until there is room, and those behind it too. So does one that finds WEIR_TAIL_ENTRIES_MAX entries not applied, until half of them are. A reply that speaks of entries which must not be lost waits until they are durable: every one
 * but those to asynchronous pushes, whose sender is told by RESUME what a crash has lost; with ack_disk those too.
 *
 * One owner: the executor (an rpc_loop) that it was created for calls every function. Replies come through callbacks on that thread, maybe
 * before the call returns. */
#ifndef WEIR_PARTITION_H
#define WEIR_PARTITION_H

#include <stdint.h>

#include "clock.h"
#include "frame.h"
#include "log.h"
#include "logger.h"
#include "metrics.h"
#include "store.h"

struct journal_cut;
struct partition;
struct record_writer;

/* What a NaN or infinity in a push does. The numbers are those of enum not_finite_policy in common/job.h. */
enum partition_not_finite { PARTITION_REJECT, PARTITION_CLIP, PARTITION_ACCEPT };

struct partition_options {
	uint32_t id, partitions;
	uint64_t generation;
	uint64_t epoch;                    /* of this start of the server, larger than all before; from 1 */
	struct log *log;                   /* taken over; NULL: partition_set_log follows recovery's first steps */
	const struct store_options *store; /* copied but for its callbacks, which are the partition's; NULL: all rows in memory */
	bool ack_disk;                     /* pushes to asynchronous tables are answered when durable, too */
	uint32_t flush_interval_ms;        /* with a cold: between two flushes; 0: only partition_flush */
	/* Something below failed for good: the server must stop. Once at least, on the owner's thread. */
	void (*failed)(void *arg, const weir_error *err);
	void *failed_arg;
	/* Entries up to index are in the log: partition_commit_to follows, at once or later. NULL: there is one copy, and all that is in its log is
	 * committed. */
	void (*appended)(void *arg, uint64_t index);
	void *appended_arg;
	const struct clock *clock;
	struct logger *logger;
	uint32_t not_finite; /* enum partition_not_finite */
};

/* Counters of the status report; the executor writes them, anyone may read. */
struct partition_counters {
	_Atomic uint64_t applied, parts_applied, fingerprint, parts_dropped, dropped_fingerprint, parts_double, units_open, rows;
	_Atomic uint64_t duplicates_refused, stale_refused, nonfinite_refused;
	_Atomic uint64_t stable, flushed; /* log indices */
	_Atomic bool disk_full;           /* records wait for space */
};

/* Of one table in one partition; the same rule. */
struct partition_table_counters {
	_Atomic uint64_t pushes, pulls; /* records with rows of it */
	_Atomic uint64_t unadmitted,
	    evicted; /* rows of pushes that found no admission; rows that went; both not of the time before a recovery */
};

struct partition_reply {
	weir_status status;
	uint64_t applied, stable; /* log indices */
	uint64_t epoch;
	uint32_t staleness;
	const uint8_t *bitmap; /* SEAL: parts present, valid during the callback */
	uint32_t bitmap_bits;
	const char *text;
};
typedef void (*partition_reply_fn)(void *arg, const struct partition_reply *reply);

struct partition *partition_create(const struct partition_options *options, weir_error *err);
/* Nothing more is asked of writer and fetch service: they may be destroyed. A flush under way ends nowhere. */
void partition_close(struct partition *p);
/* Needs, with a cold: closed, writer and fetch service destroyed, and what they posted has run. Who still waits is answered E_UNAVAILABLE. */
void partition_destroy(struct partition *p);
weir_status partition_add_table(struct partition *p, uint32_t id, const weir_table_spec *spec, weir_error *err);
/* A record that changes state: PUSH, SEAL, CLOSE_STEP, RETIRE, ASSIGN, EVICT (of those keys whose rows are expired now), or asks what became of it: RESUME. body: its sections, inside m. All three stay as they
 * are until the reply. */
void partition_submit(struct partition *p, const struct record *r, const struct cursor *body, struct message *m,
                      partition_reply_fn reply, void *arg);
/* Whether a pull may be answered now: its step (r->b; 0: none) is applied and its rows are in memory. When not, `ready` runs once that is so, or with
 * E_NOT_CURRENT when the step is not applied by the deadline, or E_UNAVAILABLE when the partition ends. r and body stay as they are until then. */
bool partition_pull_ready(struct partition *p, const struct record *r, const struct cursor *body, int64_t deadline_ms,
                          void (*ready)(void *arg, weir_status status), void *arg);
/* Expires parked pulls, tries again what a full disk held up or no memory, begins flushes, looks for rows to evict. INT64_MAX: pulls and what waits for space wait no longer. */
void partition_tick(struct partition *p, int64_t now_ms);
/* Answers everything that waits with E_UNAVAILABLE. */
void partition_abandon(struct partition *p);

/* --- With other replicas */

struct log *partition_log(const struct partition *p); /* borrowed; NULL: not set yet */
/* While it is set, the log's entries from `first` on stay in memory. */
struct partition_pin {
	uint64_t first;             /* the caller's: it may grow */
	struct partition_pin *next; /* the partition's */
};
void partition_pin(struct partition *p, struct partition_pin *pin);
void partition_unpin(struct partition *p, struct partition_pin *pin);

/* Entries up to index, which are in the log, are committed: they are applied, in order, as soon as their rows are in memory, and whoever waits for them
 * is answered. An index below one that was told: nothing. */
void partition_commit_to(struct partition *p, uint64_t index);
/* Another replica is primary: all records that wait, and those that come, are answered E_MOVED. Entries that are not committed stay in the log: whether they
 * ever are is the new primary's to say. */
void partition_step_down(struct partition *p);
/* This one is primary again, and everything that former primaries may have committed is committed: records are taken. */
void partition_serve(struct partition *p);

/* --- With a log on disk */

/* Recovery: tables are added, then the header of the last flush (partition_state_import) if there is one, then rows are loaded, then the log is set,
 * whose first entry will be partition_state_needs, then every entry of the journal from there on is replayed, and every cut in its place, then
 * partition_recovered begins the epoch. Applied is what is committed, as far as the header or an entry says so; the tail stays in the log. */
void partition_set_log(struct partition *p, struct log *log); /* taken over */
weir_status partition_replay(struct partition *p, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
weir_status partition_replay_cut(struct partition *p, const struct journal_cut *cut, weir_error *err) WEIR_MUST_CHECK;
void partition_recovered(struct partition *p);
/* Whether rows may be ahead of what is applied: entries that the log had then are not all committed again. */
bool partition_is_replaying(const struct partition *p);
uint64_t partition_flushed(const struct partition *p); /* log index that the last flush covers */
/* Whether that is all there is. */
bool partition_is_flushed(const struct partition *p);
/* Nothing of it is in RocksDB, whatever was imported: it comes from a checkpoint. */
void partition_set_unflushed(struct partition *p);
/* The log has become durable further: on the owner's thread, after each time. */
void partition_durable(struct partition *p);
/* Writes below what has changed since the last flush, and then lets the log be truncated. False: one is under way, or nothing has changed. `done`
 * (NULL allowed) runs when it is over, whether it worked or not. */
bool partition_flush(struct partition *p, void (*done)(void *arg), void *arg);

uint32_t partition_id(const struct partition *p);
uint64_t partition_applied(const struct partition *p);
uint64_t partition_epoch(const struct partition *p);        /* of this start */
uint64_t partition_steps_closed(const struct partition *p); /* the last one */
struct store *partition_store(struct partition *p);
const struct partition_counters *partition_get_counters(const struct partition *p);
const struct partition_table_counters *partition_table_get_counters(const struct partition *p,
                                                                    uint32_t table); /* NULL: unknown */
/* Staleness counts of pushes to a table, by common/metrics.h's buckets. */
struct histogram *partition_staleness(struct partition *p, uint32_t table); /* NULL: unknown */

/* Answers a pull: writes its PULL_REPLY record, gathering rows straight into the writer's memory. What is wrong with the request is in the reply. */
void partition_pull(struct partition *p, const struct record *r, const struct cursor *body, struct record_writer *w);
/* Writes the SCAN_REPLY record with up to rows_max rows of a table from `place` on. slots: optimizer slots behind each row's value. request_id: the reply's. */
void partition_scan(struct partition *p, uint32_t table, struct store_place place, uint32_t rows_max, bool slots,
                    uint64_t request_id, struct record_writer *w);
/* Writes a reply to request r that is a status and, when text is not NULL, a section (table 0, width 0) with the text. */
void partition_write_error(struct record_writer *w, const struct record *r, uint8_t kind, weir_status status, const char *text);

#endif
