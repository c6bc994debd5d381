/* One partition: identities, log, rows, steps. The life of a push here: check its identity, append an entry to the log, apply the
 * committed entry, reply. Everything that changes rows or identities is an entry (push, seal, close step, retire, assign, evict; with other replicas table, with one copy tables are added by whoever asks), and applying reads nothing but
 * the entry and the state, so that replicas applying the same log are equal. An epoch, too, begins with an entry, so that where each began is part of
 * what the log says.
 *
 * Between the log and the rows an entry waits to be committed: for that the other replicas must have it, if there are any. Until then nothing is seen of it,
 * but that a record which it concerns (the same push again, a push of a unit that it seals) waits for it, and is answered as if it had come later.
 *
 * What waits. A record whose rows are below memory waits for them before it is looked at (until then it is nothing). A record that finds the disk full
 * waits until there is room, and those behind it too. So does one that finds WEIR_TAIL_ENTRIES_MAX entries not applied, until half of them are. A reply that
 * speaks of entries which must not be lost waits until they are stable: every one but those to asynchronous pushes, whose sender is told by RESUME what a crash or
 * a failover has lost. When those are answered is the job's to say (enum partition_ack).
 *
 * One owner: the executor (an rpc_loop) that it was created for calls every function. Replies come through callbacks on that thread, maybe
 * before the call returns. */
#ifndef WEIR_PARTITION_H
#define WEIR_PARTITION_H

#include <stdint.h>

#include "common/base/clock.h"
#include "common/metrics/metrics.h"
#include "common/system/logger.h"
#include "proto/frame/frame.h"
#include "server/log/log.h"
#include "server/replica/replica.h"
#include "server/store/store.h"

struct journal_cut;
struct partition;
struct record_writer;

/* What a NaN or infinity in a push does. The numbers are those of enum not_finite_policy in common/job/job.h. */
enum partition_not_finite { PARTITION_REJECT, PARTITION_CLIP, PARTITION_ACCEPT };

/* When a push to asynchronous tables is answered: cluster.ack, as far as servers have a part in it. */
enum partition_ack {
	PARTITION_ACK_REPLICAS, /* when it is applied, and so in the logs of all in-sync replicas; */
	PARTITION_ACK_PRIMARY,  /* when it is in the primary's log, which is the same where there is one copy; */
	PARTITION_ACK_DISK      /* when it is on their disks, and so are then all replies that must not be lost */
};

struct partition_options {
	uint32_t id, partitions;
	uint64_t generation;
	uint64_t boot;                     /* a number that no other process of the job has: of what trainers are told to hold */
	struct log *log;                   /* taken over; NULL: partition_set_log follows recovery's first steps */
	const struct store_options *store; /* copied but for its callbacks, which are the partition's; NULL: all rows in memory */
	uint32_t ack;                      /* enum partition_ack */
	uint32_t flush_interval_ms;        /* with a cold: between two flushes; 0: only partition_flush */
	/* Something below failed for good: the server must stop. Once at least, on the owner's thread. */
	void (*failed)(void *arg, const weir_error *err);
	void *failed_arg;
	/* For who decides what is committed (replication.h). NULL: everything in the log is. Entries up to index are in it: partition_commit_to follows, at once
	 * or later. What is on disk has changed: partition_durable_index. */
	void (*appended)(void *arg, uint64_t index);
	void (*durable)(void *arg); /* may be NULL alone */
	/* What of the log is stable: two replicas have it, or the disk of a single one; what is on the disks of all in-sync ones. At most what is committed; partition_settled
	 * tells when they have grown. NULL, both: of this log alone. */
	uint64_t (*stable)(void *arg);
	uint64_t (*on_disks)(void *arg);
	void *driver; /* their arg, and the next two's */
	/* A table that an entry has brought, to be kept beside the log before that is there; NULL: nobody keeps any. */
	weir_status (*keep_table)(void *arg, uint32_t id, const weir_table_spec *spec, weir_error *err);
	/* The SCRUB entry e has just been applied. exact: every row is as it says; no row is ahead of it, as some may be in a replay. NULL: nobody asks. */
	void (*scrub)(void *arg, const struct log_entry *e, bool exact);
	bool replicated; /* there are other copies: an entry in the log may yet be cut off */
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
	    evicted; /* rows of pushes that found no admission; rows that went; these and what follows not of the time before a recovery */
	_Atomic uint64_t push_bytes, push_plain_bytes; /* sections as they came; and with keys of 8 bytes and values of 4 */
	_Atomic uint64_t pull_bytes, pull_plain_bytes; /* sections as they were asked and answered; and the same */
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
/* The same as a record for partition_submit, where there are other replicas: when it is answered, whoever is primary later knows the table. frame is the caller's
 * to release. E_MEMORY. */
struct table_record {
	struct record record;
	struct cursor body;
	struct message *frame;
};
weir_status partition_table_record(const struct partition *p, uint32_t id, const weir_table_spec *spec,
                                   struct table_record *out) WEIR_MUST_CHECK;
/* A record that changes state: PUSH, SEAL, CLOSE_STEP, RETIRE, ASSIGN, TABLE, EVICT (of those keys whose rows are expired now), or asks what became of it: RESUME. body: its sections, inside m. All three stay as they
 * are until the reply. */
void partition_submit(struct partition *p, const struct record *r, const struct cursor *body, struct message *m,
                      partition_reply_fn reply, void *arg);
/* Whether a pull may be answered now: its step (r->pull.step_least; 0: none) is applied, and so is what the client knows of (r->pull.applied_least), and its rows are in memory. When not,
 * `ready` runs once that is so, or with E_NOT_CURRENT when it is not by the deadline, E_MOVED when another replica is primary, or E_UNAVAILABLE when the
 * partition ends. A replica that is not primary answers pulls that allow it (r->pull.age_ms_max), or says E_NOT_CURRENT. r and body stay as they are until then. */
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
/* More is stable, or on disks: who waits for that is answered. */
void partition_settled(struct partition *p);
/* This one is primary in `epoch`, larger than all before; from 1. Its first entry, which says so, goes into the log: at once, or at a later tick when
 * the disk is full; until then records wait. */
void partition_begin(struct partition *p, uint64_t epoch);
/* Another replica is primary: all records and pulls that wait, and those that come, are answered E_MOVED, scans too. Entries that are not committed stay in
 * the log: whether they ever are is the new primary's to say. */
void partition_step_down(struct partition *p);
/* Steps down, and cuts off the entries above index, none of which is committed: they are as if they had never come, and the new primary's come in their
 * places. Errors of log_ops.truncate_above: nothing was cut off; E_IO is final. */
weir_status partition_truncate(struct partition *p, uint64_t index, weir_error *err) WEIR_MUST_CHECK;
/* What it has is to go, as what comes in its place is not its log's: it steps down, and nothing is applied, flushed or looked for below, until
 * partition_empty or partition_recovered. */
void partition_halt(struct partition *p);
/* Whether nothing of it is under way any more, so that it may be emptied. */
bool partition_is_still(const struct partition *p);
/* Needs: halted, still, and its log restarted at 1. It is as it was created, without tables; E_MEMORY: as before. */
weir_status partition_empty(struct partition *p, weir_error *err) WEIR_MUST_CHECK;
/* What a restart has found: but for `promised` and `whole`, which are not its log's. */
void partition_find(const struct partition *p, struct replica_found *found);
uint64_t partition_durable_index(const struct partition *p); /* of the log, on disk */
/* This one is primary, and everything that former primaries may have committed is committed: records are taken. */
void partition_serve(struct partition *p);
/* Appends a SCRUB entry for that slice of the rows, of so many. Its index; 0: not now, as it is not primary, holds up records or has no space. */
uint64_t partition_scrub(struct partition *p, uint32_t slice, uint32_t slices);
/* Records that come wait, for partition_serve or partition_step_down. */
void partition_pause(struct partition *p);
/* An in-sync replica of a primary that was last heard at heard_ms, as clock_ms counts: it may answer pulls, until partition_unfollow, partition_step_down
 * or partition_serve. At each tick, while that is so. */
void partition_follow(struct partition *p, int64_t heard_ms);
void partition_unfollow(struct partition *p);
/* The primary's entry behind this log's end, as it is; the log keeps a reference to its message. Errors of log_ops.append, and E_NOT_FOUND for a table that is not
 * here yet: nothing was done. */
weir_status partition_take(struct partition *p, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;

/* --- With a log on disk */

/* Recovery: tables are added, then the header of the last flush (partition_state_import) if there is one, then rows are loaded, then the log is set,
 * whose first entry will be partition_state_needs, then every entry of the journal from there on is replayed, and every cut in its place, then
 * partition_recovered ends it, and whoever is primary begins an epoch. Applied is what is committed, as far as the header or an entry says so; the tail
 * stays in the log. */
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
bool partition_is_moved(const struct partition *p); /* another replica is primary, or none as yet */
uint64_t partition_applied(const struct partition *p);
uint64_t partition_epoch(const struct partition *p);        /* the newest that is applied; 0: none */
uint64_t partition_steps_closed(const struct partition *p); /* the last one */
uint64_t partition_closed_low(const struct partition *p);   /* units below this one (identity_key) are closed */
/* Whether it has all of so many parts, whose identities' hashes add up to `fingerprint`, besides
 * those that units still open have brought. */
bool partition_has_parts(const struct partition *p, uint64_t parts, uint64_t fingerprint);
struct store *partition_store(struct partition *p);
const struct partition_counters *partition_get_counters(const struct partition *p);
const struct partition_table_counters *partition_table_get_counters(const struct partition *p,
                                                                    uint32_t table);     /* NULL: unknown */
struct optimizer_clock partition_table_clock(const struct partition *p, uint32_t table); /* 0: unknown */
/* Staleness counts of pushes to a table, by common/metrics/metrics.h's buckets. */
struct histogram *partition_staleness(struct partition *p, uint32_t table); /* NULL: there was no push */

/* Answers a pull: writes its PULL_REPLY record, gathering rows straight into the writer's memory. What is wrong with the request is in the reply. */
void partition_pull(struct partition *p, const struct record *r, const struct cursor *body, struct record_writer *w);
/* Writes the SCAN_REPLY record with up to rows_max rows of a table from `place` on. slots: optimizer slots behind each row's value. clock: with full decay rows
 * are brought so far at least. request_id: the reply's. */
void partition_scan(struct partition *p, uint32_t table, struct store_place place, uint32_t rows_max, bool slots,
                    struct optimizer_clock clock, uint64_t request_id, struct record_writer *w);
/* A reply to request r that says no more than a status. */
struct record partition_reply_to(const struct record *r, uint8_t kind, weir_status status);
/* Writes a reply that refuses; text not NULL: with a section (table 0, width 0) that is the text. */
void partition_write_refusal(struct record_writer *w, const struct record *reply, const char *text);

#endif
