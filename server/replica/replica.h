/* One replica of one partition: the protocol of replication and failover, without I/O. The caller
 * reports events; the replica answers with actions. It has no thread and no clock, and allocates
 * nothing after replica_create. The driver owns the partition, its log, the network and the
 * coordinator, so the same code runs in a server and, fully simulated, in one thread.
 *
 * The authority is the partition's record in the coordinator (struct replica_record). Only
 * transactions guarded by its revision change it. The primary ships its log to the in-sync replicas
 * (ISR) and to learners. An index is committed once every in-sync replica has it; only then is it
 * applied and acknowledged. The protocol is a primary-backup protocol with its configuration kept
 * elsewhere, as PacificA (Lin et al. 2008) and Kafka's ISR. PacificA fences an old primary by
 * leases. Here an old primary needs an acknowledgement from a member that has promised a higher
 * epoch, and never gets it. No clock takes part.
 *
 * Invariants, whatever is lost, delayed, repeated or reordered:
 *   1  an index is committed with one content only
 *   2  every committed entry is in the log of every in-sync replica that is whole
 *   3  applied <= commit
 *   4  an epoch has at most one primary, once
 *   5  a replica acknowledges in no epoch below the one that it promised
 *   6  an entry acknowledged at `replicas` is in the log of every later epoch
 *   7  once faults end, a partition with a whole in-sync replica has a primary that serves, within
 *      seconds
 *
 * Terms. An incarnation is one start of a server; acknowledgements of an earlier incarnation do not
 * count. A replica is `established` in an epoch once its log was compared with the primary's and
 * its differing end was cut off. The comparison uses the starts of epochs (epochs.h), never a
 * commit index.
 *
 * A replica is `whole` when its log has every entry that it has acknowledged. It is not whole after
 * a restart that may have lost the log's end. It then leaves the ISR before it campaigns or
 * acknowledges. It is whole again when a primary that knows this incarnation has brought it up to
 * the primary's commit index and to the index that the primary's epoch began with. Former primaries
 * may have committed everything below that index. A replica whose rows differ from its log
 * (scrub.h) also leaves the ISR, and begins anew as another incarnation.
 *
 * Calls. Each event adds actions to `out`. Before its next call, except replica_batch and
 * replica_shipped, the driver carries them out in order and empties `out`. One owner: the
 * partition's executor. */
#ifndef WEIR_REPLICA_H
#define WEIR_REPLICA_H

#include "server/records/epochs.h"
#include "server/records/heartbeat.h"
#include "server/records/member_set.h"
#include "weir/status.h"

/* The partition's record in the coordinator. */
struct replica_record {
	uint64_t revision; /* mod_revision; 0: no record is known */
	uint64_t epoch;    /* leader_epoch: grows whenever the primary changes; 0: no primary yet */
	uint16_t primary;  /* MEMBER_NONE: the first in-sync replica that asks becomes primary */
	uint16_t min_isr;  /* nothing is committed while fewer replicas are in sync */
	struct member_set isr;
};

/* --- Messages between replicas. All travel on the stream of their server pair. Any may be lost,
 * repeated or late.
 *
 *   JOIN       to the primary: send me ESTABLISH. `incarnation`: the sender's, as in ACK
 *   ESTABLISH  from the primary of `epoch`: its epochs. `incarnation`: the receiver's as far as the
 *              primary knows, 0: not known; the same in APPEND, OFFER and REBUILD
 *   APPEND     entries first..last (first == last + 1: none), and the commit index
 *   ACK        established in `epoch`: the log equals the primary's up to `last`, and is on disk up
 *              to `durable`
 *   REFUSE     the sender has promised `epoch`, higher than the epoch of the receiver's message
 *   OFFER      from the primary of `epoch`, whose log begins at `first`: it keeps a snapshot up to
 *              `last` for the receiver, as `session`
 *   SCRUBBED   to the primary: hashes at the SCRUB entry `last` (scrub.h); the protocol ignores it
 *   REBUILD    from the primary of `epoch`: the receiver's data is wrong, it shall begin anew */

#define REPLICA_MESSAGE_MAP(X) \
	X(JOIN)                    \
	X(ESTABLISH)               \
	X(APPEND)                  \
	X(ACK)                     \
	X(REFUSE)                  \
	X(OFFER)                   \
	X(SCRUBBED)                \
	X(REBUILD)

enum replica_message_kind {
#define REPLICA_MESSAGE_ENUM(name) REPLICA_##name,
	REPLICA_MESSAGE_MAP(REPLICA_MESSAGE_ENUM)
#undef REPLICA_MESSAGE_ENUM
};

struct replica_message {
	enum replica_message_kind kind;
	uint16_t from, to;
	uint64_t epoch, incarnation;
	uint64_t first, last;
	uint64_t commit;             /* ESTABLISH, APPEND: the primary's. ACK: the sender's */
	uint64_t durable;            /* ACK */
	uint64_t session;            /* OFFER */
	bool gap;                    /* ACK: an APPEND began behind `last` + 1 */
	uint64_t rows, state;        /* SCRUBBED */
	const struct epochs *epochs; /* ESTABLISH; valid until the next call */
};

/* --- Actions of the driver
 *
 *   SEND       send `message`
 *   SHIP       peers may need entries: ask replica_batch for each
 *   STORE      append the entries first..last of the current APPEND to the log, then replica_stored
 *   TRUNCATE   cut off the log's entries behind `last`; none of them is committed
 *   RESET      drop log, rows and header; a snapshot replaces them. First write to disk that the
 *              replica is not whole
 *   COMMIT     entries up to `last` are committed: apply them; requests that wait for them may be
 *              answered
 *   PROMISE    write the promise of `epoch` to disk, then replica_promised
 *   BEGIN      primary of `epoch`: append its first entry, which says so, then replica_stored
 *   SERVE      accept requests: all entries of former epochs are committed
 *   PAUSE      hold requests: the partition is moving
 *   STEP_DOWN  primary no more: tell waiting clients to ask another server
 *   READ       read the record, linearizably, then replica_read
 *   CHANGE     replace the record by `record` if its revision still is record.revision, then
 *              replica_changed
 *   SNAPSHOT   `member` needs entries that have left the log: stream a snapshot to it, then
 *              replica_snapshot_ended
 *   FETCH      `member` offers the snapshot in `message`, and it is useful. May come again
 *   LOST       the last in-sync replica is not whole: the job must go back to a checkpoint. Once */

#define REPLICA_ACTION_MAP(X) \
	X(SEND)                   \
	X(SHIP)                   \
	X(STORE)                  \
	X(TRUNCATE)               \
	X(RESET)                  \
	X(COMMIT)                 \
	X(PROMISE)                \
	X(BEGIN)                  \
	X(SERVE)                  \
	X(PAUSE)                  \
	X(STEP_DOWN)              \
	X(READ)                   \
	X(CHANGE)                 \
	X(SNAPSHOT)               \
	X(FETCH)                  \
	X(LOST)

enum replica_action_kind {
#define REPLICA_ACTION_ENUM(name) REPLICA_DO_##name,
	REPLICA_ACTION_MAP(REPLICA_ACTION_ENUM)
#undef REPLICA_ACTION_ENUM
};

struct replica_action {
	enum replica_action_kind kind;
	uint16_t member;
	uint64_t epoch, first, last;
	struct replica_message message;
	struct replica_record record;
};

#define REPLICA_ACTIONS_MAX 32u /* per event: at most two for each peer, and a few more */
struct replica_actions {
	struct replica_action list[REPLICA_ACTIONS_MAX]; /* (count) */
	uint32_t count;
};

/* --- Life */

/* The low bits of an incarnation count how often the replica began anew since its server's
 * start. */
#define REPLICA_ANEW_BITS 20u
struct replica_options {
	uint16_t self; /* this server */
	/* of this start, larger than all before; at least 1 << REPLICA_ANEW_BITS */
	uint64_t incarnation;
	/* Everything in the job has one replica: RESUME reports what a crash loses, and there is no ISR
	 * to leave. */
	bool alone;
	uint32_t silent_ticks; /* after this much silence a server counts as dead */
	uint32_t stall_ticks;  /* a replica that owes acknowledgements for this long leaves the ISR */
	uint32_t retry_ticks;  /* interval between repeats of an unanswered message */
	/* Entries that a learner may lag when the primary begins to wait for it. */
	uint64_t grow_lag;
};

/* The state that a start finds. For a new replica it is all zero, or a checkpoint. A new replica is
 * whole only when its partition has had no primary since, because then nothing was acknowledged;
 * otherwise its folder may stand in for a lost one. */
struct replica_found {
	uint64_t promised;
	struct epochs epochs; /* of the log, truncated to it */
	uint64_t first, last; /* of the log: it has entries first..last (first == last + 1: none) */
	uint64_t durable;     /* last index on disk */
	uint64_t applied;     /* last index in header and rows, which therefore is committed */
	/* Last epoch of the checkpoint, when the checkpoint is all it has; 0: none. */
	uint64_t begun;
	/* Clean end, or same boot of the machine, or every acknowledgement waited for fsync. */
	bool whole;
};

struct replica;
/* NULL: out of memory */
struct replica *replica_create(const struct replica_options *options, const struct replica_found *found);
void replica_destroy(struct replica *r);

/* --- Events */

/* Call about every 100 ms of the loop's own running time. `h` counts silence; tick it first. */
void replica_tick(struct replica *r, const struct heartbeat *h, struct replica_actions *out);
/* The coordinator's watch reports this record. A record older than the known one does nothing. */
void replica_learn(struct replica *r, const struct replica_record *record, struct replica_actions *out);
/* A READ has ended with this record; NULL: the coordinator could not be reached. */
void replica_read(struct replica *r, const struct replica_record *record, struct replica_actions *out);
/* A CHANGE has ended. `record` is what the transaction left or found. NULL: the outcome is unknown,
 * and the change may still happen. */
void replica_changed(struct replica *r, const struct replica_record *record, struct replica_actions *out);
void replica_receive(struct replica *r, const struct replica_message *m, struct replica_actions *out);
/* Entries up to `last` are in the log; those behind the former last are of `epoch`. On the primary
 * they are of its own epoch, elsewhere they are those that STORE asked for. */
void replica_stored(struct replica *r, uint64_t epoch, uint64_t last, struct replica_actions *out);
void replica_durable(struct replica *r, uint64_t durable, struct replica_actions *out);
void replica_promised(struct replica *r, uint64_t epoch, struct replica_actions *out);
/* The driver has held back an ACK, and can send one now. */
void replica_repeat(struct replica *r, struct replica_actions *out);
/* The log begins at `first` now; lower entries have left it. */
void replica_trimmed(struct replica *r, uint64_t first);
/* Whether a snapshot of the primary of `epoch`, with everything up to `last` applied, is still
 * useful. Ask during the transfer, and once more before the snapshot replaces the present state. */
bool replica_takes_snapshot(const struct replica *r, uint64_t epoch, uint64_t last);
/* Whether this replica needs a snapshot of that primary, because that primary's log begins at
 * `first`, behind the end of this one. Ask again before the present state is dropped: an in-sync
 * replica must keep every entry that it has acknowledged. */
bool replica_is_left_behind(const struct replica *r, uint64_t epoch, uint64_t first);
/* A snapshot is installed, durably. Everything up to `commit` is applied. The log has entries
 * first..last (first == last + 1: none): those that open steps still wait for, and those behind
 * `commit` that came with the snapshot. */
void replica_installed(struct replica *r, uint64_t epoch, uint64_t first, uint64_t last, uint64_t commit,
                       const struct epochs *epochs, struct replica_actions *out);
/* Drops log, rows and header, because a snapshot will replace them or one did not complete. Adds
 * RESET. Does nothing on a primary. */
void replica_start_over(struct replica *r, struct replica_actions *out);
/* The snapshot to `member` has ended, successfully or not. */
void replica_snapshot_ended(struct replica *r, uint16_t member, struct replica_actions *out);
/* Offers `member` the snapshot that is kept for it. Any offer may be lost, so repeat it now and
 * then. */
void replica_offer(struct replica *r, uint16_t member, uint64_t session, uint64_t last, struct replica_actions *out);
/* The primary hands over to an in-sync replica: PAUSE, commit everything, CHANGE. If that fails,
 * SERVE again. E_STATE: not a primary that serves, or `to` is not another in-sync replica. */
weir_status replica_move(struct replica *r, uint16_t to, struct replica_actions *out) WEIR_MUST_CHECK;
/* The primary has found the data of `member` wrong. The member leaves the ISR, unless it is the
 * last one there, and begins anew; the primary itself steps down first. The message may be lost.
 * E_STATE: not the primary, or the only in-sync replica, or the member is not established. */
weir_status replica_rebuild(struct replica *r, uint16_t member, struct replica_actions *out) WEIR_MUST_CHECK;
/* This replica has lost data that it once had. It leaves the ISR and begins anew. When it is the
 * last one in the ISR, the partition is lost. */
void replica_distrust(struct replica *r, struct replica_actions *out);
/* The primary drops `member` from the ISR as soon as min_isr allows, and forgets it; it forgets a
 * learner at once. A member that joins again is a learner like any other. E_STATE: not the primary,
 * or `member` is itself, or too many are being dropped. */
weir_status replica_drop(struct replica *r, uint16_t member, struct replica_actions *out) WEIR_MUST_CHECK;

/* --- Shipping: the sender of a server pair asks when it has credit. */

struct replica_batch {
	uint64_t epoch, incarnation, commit;
	uint64_t first, last; /* the sender may take fewer; first == last + 1: only the commit index */
};
/* Whether there is something to send to `to` now. */
bool replica_batch(const struct replica *r, uint16_t to, struct replica_batch *batch);
/* An APPEND with entries up to `last` and this commit index has been sent. */
void replica_shipped(struct replica *r, uint16_t to, uint64_t last, uint64_t commit);
/* The servers to ask replica_batch for: out (count). Returns the count. */
uint32_t replica_peers(const struct replica *r, uint16_t out[WEIR_REPLICAS_MAX]);

/* --- State */

bool replica_is_primary(const struct replica *r); /* it may append entries of its own */
bool replica_serves(const struct replica *r);     /* the primary accepts requests */
/* That it is primary of, or established in; 0: neither. */
uint64_t replica_epoch(const struct replica *r);
uint64_t replica_commit(const struct replica *r);
/* Of the primary: the last entry that two replicas have, or with a single in-sync replica that is
 * on its disk; and the last entry that is on the disks of the whole ISR. */
uint64_t replica_stable(const struct replica *r);
uint64_t replica_on_disks(const struct replica *r);
/* Of the primary: the incarnation of `member` that it talks to; 0: not known. */
uint64_t replica_incarnation_of(const struct replica *r, uint16_t member);
/* Of the primary: whether it talks to `member` and hears its server. */
bool replica_hears(const struct replica *r, uint16_t member);
/* Of the primary: whether `member` may need a snapshot. False: the log continues the member's
 * log. */
bool replica_needs_snapshot(const struct replica *r, uint16_t member);
/* The first log entry that some established peer has not acknowledged. */
uint64_t replica_needs(const struct replica *r);
bool replica_is_whole(const struct replica *r);
const struct replica_record *replica_get_record(const struct replica *r);

#endif
