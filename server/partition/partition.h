/* One partition: dedup table, log, rows, steps. The life of a push here: check its identity, append
 * an entry to the log, apply the entry once it is committed, reply.
 *
 * Every change of rows or of the dedup table is an entry: push, seal, close step, retire, assign,
 * evict. With several replicas a new table is an entry too; with one copy the caller adds tables
 * directly. Applying reads only the entry and the state, so replicas that apply the same log are
 * equal. Every epoch begins with an entry, so the log says where each epoch began.
 *
 * An entry in the log waits to be committed: the other replicas, if any, must have it. Until then
 * it is invisible. A record that conflicts with it (the same push again, a push of a unit that it
 * seals) waits for it, and gets the answer of a record that comes later.
 *
 * What waits (partition_record.c and partition_wait.c draw the states):
 *   record   for its rows, when they are below memory; it has no effect before
 *   record   for disk space, when the disk is full; those behind it wait too
 *   record   when WEIR_TAIL_ENTRIES_MAX entries are not applied, until half of them are
 *   reply    until the entries that it reports are stable, if they must not be lost. Replies to
 *            asynchronous pushes need not wait, because RESUME tells their senders what a crash or
 *            failover has lost; enum partition_ack says when they go
 *
 * One owner: all calls come from the executor (an rpc_loop) that the partition was created for.
 * Replies come through callbacks on that thread, maybe before the call returns. */
#ifndef WEIR_PARTITION_H
#define WEIR_PARTITION_H

#include <stdint.h>

#include "common/base/clock.h"
#include "common/metrics/metrics.h"
#include "common/system/logger.h"
#include "common/trace/trace.h"
#include "proto/frame/frame.h"
#include "server/log/log.h"
#include "server/replica/replica.h"
#include "server/store/store.h"

struct journal_cut;
struct partition;
struct record_writer;

/* The effect of a NaN or infinity in a push. The numbers are those of enum not_finite_policy in
 * common/job/job.h. */
enum partition_not_finite { PARTITION_REJECT, PARTITION_CLIP, PARTITION_ACCEPT };

/* When a push to asynchronous tables is answered: the servers' part of cluster.ack. */
enum partition_ack {
	PARTITION_ACK_REPLICAS, /* once it is applied, and so is in the logs of all in-sync replicas */
	/* Once it is in the primary's log; with one copy the same as REPLICAS. */
	PARTITION_ACK_PRIMARY,
	/* Once it is on the disks of all in-sync replicas. The same then holds for all replies that
	 * must not be lost. */
	PARTITION_ACK_DISK
};

/* The owner of a partition: decides which entries are committed, and learns what its owner must
 * know. All calls come on the partition's thread. A function marked optional may be NULL. */
struct partition_host_ops {
	/* A lower layer has failed for good: the server must stop. May come more than once. */
	void (*failed)(void *host, const weir_error *err);
	/* The log has entries up to index. partition_commit_to follows, at once or later. */
	void (*appended)(void *host, uint64_t index);
	/* Optional. The durable end of the log has changed; see partition_durable_index. */
	void (*durable)(void *host);
	/* Optional, both or neither; without them this log alone decides. How much of the log is
	 * stable: on two replicas, or on the disk of a single one. How much is on the disks of all
	 * in-sync replicas. Both are at most the commit index; partition_settled reports growth. */
	uint64_t (*stable)(void *host);
	uint64_t (*on_disks)(void *host);
	/* Optional. An entry has brought this table; keep it before the log has the entry. */
	weir_status (*keep_table)(void *host, uint32_t id, const weir_table_spec *spec, weir_error *err);
	/* Optional. The SCRUB entry e was just applied. exact: every row is in the state of that entry;
	 * during a replay some rows may be ahead. */
	void (*scrub)(void *host, const struct log_entry *e, bool exact);
};
struct partition_host {
	const struct partition_host_ops *ops; /* NULL: no owner, and everything in the log is committed */
	void *arg;
};

struct partition_options {
	uint32_t id, partitions;
	uint64_t generation;
	/* The process id, a number of no other process of the job; it makes the origins of delta bases
	 * unique. */
	uint64_t process_id;
	struct log *log; /* taken over; NULL: partition_set_log sets it during recovery */
	/* Copied, except its callbacks, which are the partition's. NULL: all rows are in memory. */
	const struct store_options *store;
	uint32_t ack; /* enum partition_ack */
	/* With a cold store: between two flushes; 0: only partition_flush. */
	uint32_t flush_interval_ms;
	struct partition_host host;
	bool replicated; /* there are other copies: an entry in the log may yet be cut off */
	const struct clock *clock;
	struct logger *logger;
	struct trace *trace; /* NULL: spans are not recorded */
	uint32_t not_finite; /* enum partition_not_finite */
};

/* Counters of the status report. The executor writes them; any thread may read them. */
struct partition_counters {
	_Atomic uint64_t applied, parts_applied, fingerprint, parts_dropped, dropped_fingerprint, parts_double, units_open, rows;
	_Atomic uint64_t duplicates_refused, stale_refused, nonfinite_refused;
	_Atomic uint64_t stable, flushed; /* log indices */
	_Atomic bool disk_full;           /* records wait for space */
};

/* Counters of one table in one partition; the same rule. */
struct partition_table_counters {
	_Atomic uint64_t pushes, pulls; /* records with rows of the table */
	/* Rows of pushes that were not admitted; evicted rows. These and the next counters start anew
	 * at a recovery. */
	_Atomic uint64_t unadmitted, evicted;
	/* Sections as received; and the same with keys of 8 bytes and values of 4. */
	_Atomic uint64_t push_bytes, push_plain_bytes;
	/* Sections as requested and answered; and the same in plain form. */
	_Atomic uint64_t pull_bytes, pull_plain_bytes;
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
/* Stops use of the writer and the fetch service, so that they may be destroyed. Abandons a flush
 * under way. */
void partition_close(struct partition *p);
/* Answers waiting requests with E_UNAVAILABLE. With a cold store, needs: the partition is closed,
 * writer and fetch service are destroyed, and everything that they posted has run. */
void partition_destroy(struct partition *p);
weir_status partition_add_table(struct partition *p, uint32_t id, const weir_table_spec *spec, weir_error *err);
/* The same as a record for partition_submit, for partitions with other replicas. Once it is
 * answered, every later primary knows the table. The caller releases frame. E_MEMORY. */
struct table_record {
	struct record record;
	struct cursor body;
	struct message *frame;
};
weir_status partition_table_record(const struct partition *p, uint32_t id, const weir_table_spec *spec,
                                   struct table_record *out) WEIR_MUST_CHECK;
/* Submits a record. It changes state (PUSH, SEAL, CLOSE_STEP, RETIRE, ASSIGN, TABLE, EVICT of those
 * keys whose rows are expired now), or asks what became of earlier ones (RESUME). body: its
 * sections, inside m. r, body and m must stay unchanged until the reply. */
void partition_submit(struct partition *p, const struct record *r, const struct cursor *body, struct message *m,
                      partition_reply_fn reply, void *arg);
/* Whether a pull may be answered now: its step (r->pull.step_least; 0: none) and the entries that
 * the client knows of (r->pull.applied_least) are applied, and its rows are in memory. Otherwise
 * `ready` runs later: with OK once all that holds, E_NOT_CURRENT at the deadline, E_MOVED when
 * another replica is primary, or E_UNAVAILABLE when the partition ends. A replica that is not
 * primary answers pulls that allow it (r->pull.age_ms_max), or says E_NOT_CURRENT. r and body must
 * stay unchanged until then. */
bool partition_pull_ready(struct partition *p, const struct record *r, const struct cursor *body, int64_t deadline_ms,
                          void (*ready)(void *arg, weir_status status), void *arg);
/* Expires parked pulls, retries work that lacked disk space or memory, begins flushes, and looks
 * for rows to evict. INT64_MAX: answers pulls and records that wait for space; they wait no
 * longer. */
void partition_tick(struct partition *p, int64_t now_ms);
/* Answers everything that waits with E_UNAVAILABLE. */
void partition_abandon(struct partition *p);

/* --- With other replicas */

struct log *partition_log(const struct partition *p); /* borrowed; NULL: not set yet */
/* While a pin is set, the log keeps the entries from `first` on in memory. */
struct partition_pin {
	uint64_t first;             /* the caller may raise it */
	struct partition_pin *next; /* the partition's */
};
void partition_pin(struct partition *p, struct partition_pin *pin);
void partition_unpin(struct partition *p, struct partition_pin *pin);

/* Commits the entries up to index, which the log has. They are applied in order as soon as their
 * rows are in memory, and records that wait for them are answered. An index below an earlier one
 * does nothing. */
void partition_commit_to(struct partition *p, uint64_t index);
/* More entries are stable or on disks: answers replies that wait for that. */
void partition_settled(struct partition *p);
/* This replica is primary in `epoch`, which is larger than all before and at least 1. Appends the
 * epoch's first entry, now or, when the disk is full, at a later tick. Records wait until then. */
void partition_begin(struct partition *p, uint64_t epoch);
/* Another replica is primary. Answers all waiting and all later records, pulls and scans with
 * E_MOVED. Entries that are not committed stay in the log; the new primary decides whether they
 * ever are. */
void partition_step_down(struct partition *p);
/* Steps down, and cuts off the entries above index, none of which is committed. It is as if they
 * had never come, and the new primary's entries take their places. Errors of
 * log_ops.truncate_above: nothing was cut off; E_IO is final. */
weir_status partition_truncate(struct partition *p, uint64_t index, weir_error *err) WEIR_MUST_CHECK;
/* Prepares to discard the local state, because a state that is not of this log will replace it.
 * Steps down, and stops to apply, flush and look below memory until partition_empty or
 * partition_recovered. */
void partition_halt(struct partition *p);
/* Whether no work is under way, so that the partition may be emptied. */
bool partition_is_still(const struct partition *p);
/* Returns the partition to its state at creation, without tables. Needs: halted, still, and its log
 * restarted at 1. E_MEMORY: nothing has changed. */
weir_status partition_empty(struct partition *p, weir_error *err) WEIR_MUST_CHECK;
/* Fills in what a restart has found, except `promised`, `begun` and `whole`, which the log does not
 * hold. */
void partition_find(const struct partition *p, struct replica_found *found);
uint64_t partition_durable_index(const struct partition *p); /* last index of the log on disk */
/* This replica is primary, and all that former primaries may have committed is committed: accepts
 * records. */
void partition_serve(struct partition *p);
/* Appends a SCRUB entry for slice `slice` of `slices`. Returns its index; 0: not possible now,
 * because the partition is not primary, holds up records or has no space. */
uint64_t partition_scrub(struct partition *p, uint32_t slice, uint32_t slices);
/* Holds records until partition_serve or partition_step_down. */
void partition_pause(struct partition *p);
/* Tells that this is an in-sync replica of a primary that was last heard at heard_ms of clock_ms.
 * It may answer pulls until partition_unfollow, partition_step_down or partition_serve. Call at
 * each tick while that is so. */
void partition_follow(struct partition *p, int64_t heard_ms);
void partition_unfollow(struct partition *p);
/* Appends the primary's entry unchanged to this log, which keeps a reference to its message. Errors
 * of log_ops.append, and E_NOT_FOUND for a table that is not here yet; nothing was done then. */
weir_status partition_take(struct partition *p, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;

/* --- With a log on disk */

/* Recovery. The order of calls:
 *   1  add the tables
 *   2  partition_state_import with the header of the last flush, if there is one
 *   3  load the rows
 *   4  partition_set_log; the log's first entry will be partition_state_needs
 *   5  from there on partition_replay for every entry of the journal, and partition_replay_cut for
 *      every cut in its place
 *   6  partition_recovered; then the primary begins an epoch
 * Applies what is committed, as far as the header or an entry tells; the tail stays in the log. */
void partition_set_log(struct partition *p, struct log *log); /* taken over */
weir_status partition_replay(struct partition *p, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
weir_status partition_replay_cut(struct partition *p, const struct journal_cut *cut, weir_error *err) WEIR_MUST_CHECK;
void partition_recovered(struct partition *p);
/* Whether rows may be ahead of the applied index, because not all entries that the log had at
 * recovery are committed again. */
bool partition_is_replaying(const struct partition *p);
uint64_t partition_flushed(const struct partition *p); /* log index that the last flush covers */
/* Whether the last flush covers everything applied. */
bool partition_is_flushed(const struct partition *p);
/* The state comes from a checkpoint: nothing of it is in RocksDB, whatever was imported. */
void partition_set_unflushed(struct partition *p);
/* The log is durable further. Call after each growth, on the owner's thread. */
void partition_durable(struct partition *p);
/* Flushes what has changed since the last flush, and then lets the log be truncated. False: a flush
 * is under way, or nothing has changed. `done` (NULL allowed) runs at the end, even if the flush
 * failed. */
bool partition_flush(struct partition *p, void (*done)(void *arg), void *arg);

uint32_t partition_id(const struct partition *p);
bool partition_is_moved(const struct partition *p); /* another replica is primary, or none yet */
uint64_t partition_applied(const struct partition *p);
uint64_t partition_epoch(const struct partition *p);        /* the newest one applied; 0: none */
uint64_t partition_steps_closed(const struct partition *p); /* the last closed step */
/* Units below this one (dedup_key) are closed. */
uint64_t partition_closed_low(const struct partition *p);
/* Whether the partition has all `parts` parts, whose identities' hashes add up to `fingerprint`. It
 * may have more, of units that are still open. */
bool partition_has_parts(const struct partition *p, uint64_t parts, uint64_t fingerprint);
struct store *partition_store(struct partition *p);
const struct partition_counters *partition_get_counters(const struct partition *p);
/* NULL: unknown */
const struct partition_table_counters *partition_table_get_counters(const struct partition *p, uint32_t table);
/* 0: unknown */
struct optimizer_clock partition_table_clock(const struct partition *p, uint32_t table);
/* Staleness counts of pushes to a table, in the buckets of common/metrics/metrics.h. */
struct histogram *partition_staleness(struct partition *p, uint32_t table); /* NULL: no push yet */

/* Answers a pull: writes its PULL_REPLY record and gathers rows directly into the writer's memory.
 * The reply also reports errors of the request. */
void partition_pull(struct partition *p, const struct record *r, const struct cursor *body, struct record_writer *w);
/* Writes the SCAN_REPLY record with up to rows_max rows of a table from `place` on. slots: put
 * optimizer slots behind each row's value. clock: for tables with full decay, rows are brought at
 * least to this clock. request_id: of the reply. */
void partition_scan(struct partition *p, uint32_t table, struct store_place place, uint32_t rows_max, bool slots,
                    struct optimizer_clock clock, uint64_t request_id, struct record_writer *w);
/* A reply to request r with a status and nothing else. */
struct record partition_reply_to(const struct record *r, uint8_t kind, weir_status status);
/* Writes a reply that refuses. With text, a section (table 0, width 0) holds the text; NULL: no
 * section. */
void partition_write_refusal(struct record_writer *w, const struct record *reply, const char *text);

#endif
