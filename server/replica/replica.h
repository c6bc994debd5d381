/* One replica of one partition: the protocol of replication and failover, and nothing else. It is told what happened and says what to do; it has no thread, no
 * clock, no I/O, and allocates nothing after replica_create. The partition, its log, the network and the coordinator are the driver's, so that the
 * same code runs in a server and, with everything around it simulated, in one thread.
 *
 * The authority is the partition's record in the coordinator (struct replica_record), changed only by transactions guarded by its revision. The
 * primary ships its log to the in-sync replicas (ISR) and to learners; an index is committed once every in-sync replica has it, and only then
 * applied and acknowledged. The family is primary-backup with its configuration kept elsewhere: PacificA (Lin et al. 2008), Kafka's ISR. PacificA fences an
 * old primary by leases; here it needs an acknowledgement from a member that has promised a higher epoch, and will not get it. No clock takes part.
 *
 * What holds, whatever is lost, delayed, repeated or reordered:
 *   1  an index is committed with one content only                    2  what is committed is in the log of every in-sync replica that is whole
 *   3  applied <= commit                                              4  one primary per epoch, once
 *   5  a replica acknowledges in no epoch below the one it promised   6  what is acknowledged at `replicas` is in every later epoch's log
 *   7  once faults end, a partition with a whole in-sync replica has a primary that serves, within seconds
 *
 * Terms. An incarnation is one start of a server; acknowledgements of an earlier one do not count. A replica is `established` in an epoch when its log has
 * been compared with the primary's, by where their epochs begin (epochs.h) and never by a commit index, and the end that differs is cut off. It is `whole` when
 * nothing that it has acknowledged is missing from its log. After a restart that may have lost the log's end it is not: it leaves the ISR before it campaigns
 * or acknowledges, and is whole again when a primary that knows this incarnation has brought it up to its commit index and to what its epoch began with, all
 * of which former primaries may have committed. A replica whose rows are not what its log says (scrub.h) leaves the ISR too, and begins anew, as another incarnation.
 *
 * The calls. Each event adds to `out`; the driver carries it out in order, and empties it, before it calls again (replica_batch and replica_shipped aside). One
 * owner: the partition's executor. */
#ifndef WEIR_REPLICA_H
#define WEIR_REPLICA_H

#include "server/records/epochs.h"
#include "server/records/heartbeat.h"
#include "server/records/member_set.h"
#include "weir/status.h"

/* The partition's record in the coordinator. */
struct replica_record {
	uint64_t revision; /* its mod_revision; 0: none is known */
	uint64_t epoch;    /* leader_epoch: grows whenever the primary changes; 0: there never was one */
	uint16_t primary;  /* MEMBER_NONE: the first in-sync replica that asks */
	uint16_t min_isr;  /* nothing is committed while fewer are in sync */
	struct member_set isr;
};

/* --- Between replicas. All travel on the stream of their server pair; any may be lost, repeated, late. */

#define REPLICA_MESSAGE_MAP(X)                                                                                                     \
	X(JOIN)      /* to the primary: tell me what I should have. `incarnation`: the sender's, as in ACK */                          \
	X(ESTABLISH) /* from the primary of `epoch`: its epochs. `incarnation`: the receiver's as known, 0: not; so in APPEND */       \
	X(APPEND)    /* entries first..last (first == last + 1: none), and the commit index */                                         \
	X(ACK)       /* established in `epoch`, and the log is the primary's up to `last`; on disk up to `durable` */                  \
	X(REFUSE)    /* `epoch`, which is higher than the one you wrote in, has been promised */                                       \
	X(OFFER) /* from the primary of `epoch`, whose log begins at `first`: a snapshot up to `last` is kept for you, as `session`. \
	              * `incarnation`: as in ESTABLISH */ \
	X(SCRUBBED) /* to the primary: hashes at the SCRUB entry `last`. Of no concern to the protocol: scrub.h */                     \
	X(REBUILD)  /* from the primary of `epoch`: what you have is wrong, begin anew. `incarnation`: as in ESTABLISH */

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
	bool gap;                    /* ACK: an append did not fit behind `last` */
	uint64_t rows, state;        /* SCRUBBED */
	const struct epochs *epochs; /* ESTABLISH; valid until the next call */
};

/* --- What to do */

#define REPLICA_ACTION_MAP(X)                                                                                        \
	X(SEND)      /* `message` */                                                                                     \
	X(SHIP)      /* there may be something for peers: replica_batch of each */                                       \
	X(STORE)     /* put the entries first..last of the APPEND being handled behind the log, then replica_stored */   \
	X(TRUNCATE)  /* cut off the log's entries behind `last`; none of them is committed */                            \
	X(RESET)     /* drop the log, rows and header: all is fetched again. That it is not whole is on disk before */   \
	X(COMMIT)    /* entries up to `last` are committed: apply them; who waits for them may be answered */            \
	X(PROMISE)   /* write `epoch` down so that a crash does not lose it, then replica_promised */                    \
	X(BEGIN)     /* primary of `epoch`: append its first entry, which says so, and replica_stored */                 \
	X(SERVE)     /* requests are taken: what former epochs left is committed */                                      \
	X(PAUSE)     /* requests wait: the partition is moving */                                                        \
	X(STEP_DOWN) /* primary no more: who waits is told to ask another */                                             \
	X(READ)      /* read the record, linearizably, then replica_read */                                              \
	X(CHANGE)    /* replace the record by `record` if its revision still is record.revision, then replica_changed */ \
	X(SNAPSHOT)  /* `member` needs what the log has no more: stream a snapshot to it, then replica_snapshot_ended */ \
	X(FETCH)     /* `member` offers the snapshot that `message` speaks of, and it is of use. May come again */       \
	X(LOST)      /* the last in-sync replica is not whole: the job must go back to a checkpoint. Once */

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

#define REPLICA_ACTIONS_MAX 32u /* of one event; every peer at most two, and a few */
struct replica_actions {
	struct replica_action list[REPLICA_ACTIONS_MAX]; /* (count) */
	uint32_t count;
};

/* --- Life */

#define REPLICA_ANEW_BITS \
	20u /* the low ones of an incarnation count how often the replica has begun anew since its server's start */
struct replica_options {
	uint16_t self;         /* this server */
	uint64_t incarnation;  /* of this start, larger than all before; from 1 << REPLICA_ANEW_BITS */
	bool alone;            /* the job has one replica of everything: what a crash takes, RESUME tells, and no ISR can be left */
	uint32_t silent_ticks; /* a server that is silent for so long is taken for dead */
	uint32_t stall_ticks;  /* a replica that owes acknowledgements for so long leaves the ISR */
	uint32_t retry_ticks;  /* what is not answered is sent again */
	uint64_t grow_lag;     /* entries that a learner may be behind when the primary begins to wait for it */
};

/* What a start has found. A new replica: all zero, or a checkpoint. It is whole where there was no primary since, as nothing was acknowledged; elsewhere a new folder may be
 * one in place of a folder that was lost. */
struct replica_found {
	uint64_t promised;
	struct epochs epochs; /* of the log; truncated to it */
	uint64_t first, last; /* of the log: entries first..last are there (first == last + 1: none) */
	uint64_t durable;     /* on disk */
	uint64_t applied;     /* by the header and rows: committed, therefore */
	uint64_t begun;       /* the last epoch of the checkpoint that is all it has; 0: none */
	bool whole;           /* clean mark, or the same boot of the machine, or every acknowledgement waited for fsync */
};

struct replica;
struct replica *replica_create(const struct replica_options *options, const struct replica_found *found); /* NULL: no memory */
void replica_destroy(struct replica *r);

/* --- Events */

/* Every 100 ms or so of the loop's own running. Silence is counted in h, ticked before. */
void replica_tick(struct replica *r, const struct heartbeat *h, struct replica_actions *out);
/* The coordinator's watch says so. Older than what is known: nothing. */
void replica_learn(struct replica *r, const struct replica_record *record, struct replica_actions *out);
/* A READ has ended: the record, or NULL when the coordinator could not be asked. */
void replica_read(struct replica *r, const struct replica_record *record, struct replica_actions *out);
/* A CHANGE has ended: `record` is what the transaction left or found; NULL when nobody knows, and it may still come to pass. */
void replica_changed(struct replica *r, const struct replica_record *record, struct replica_actions *out);
void replica_receive(struct replica *r, const struct replica_message *m, struct replica_actions *out);
/* Entries up to `last` are in the log; those behind the former last are of `epoch`. On the primary of its own epoch, else as STORE asked. */
void replica_stored(struct replica *r, uint64_t epoch, uint64_t last, struct replica_actions *out);
void replica_durable(struct replica *r, uint64_t durable, struct replica_actions *out);
void replica_promised(struct replica *r, uint64_t epoch, struct replica_actions *out);
/* An ACK was kept back: it can be said again. */
void replica_repeat(struct replica *r, struct replica_actions *out);
/* The log begins at `first` now: what is below has left it. */
void replica_trimmed(struct replica *r, uint64_t first);
/* Whether a snapshot of the primary of `epoch`, in which everything up to `last` is applied, is still of use: to be asked on the way, and once more before it
 * replaces what is there. */
bool replica_takes_snapshot(const struct replica *r, uint64_t epoch, uint64_t last);
/* Whether it needs one of that primary, as the log of that begins at `first` and does not go on behind this one. Asked again before what is there goes: whoever is
 * in sync must keep what it has acknowledged. */
bool replica_is_left_behind(const struct replica *r, uint64_t epoch, uint64_t first);
/* It has been installed, durably: what is applied is up to `commit`. The log has entries first..last (first == last + 1: none): those that open steps still wait
 * for, and those behind `commit` that came with it. */
void replica_installed(struct replica *r, uint64_t epoch, uint64_t first, uint64_t last, uint64_t commit,
                       const struct epochs *epochs, struct replica_actions *out);
/* The log, rows and header go: a snapshot is to come in their place, or did not come to its end. Then RESET. Nothing while it is primary. */
void replica_start_over(struct replica *r, struct replica_actions *out);
/* The snapshot to `member` is over, well or not. */
void replica_snapshot_ended(struct replica *r, uint16_t member, struct replica_actions *out);
/* Tells `member` of the snapshot that is kept for it. Any offer may be lost: again, now and then. */
void replica_offer(struct replica *r, uint16_t member, uint64_t session, uint64_t last, struct replica_actions *out);
/* The primary hands over to an in-sync replica: PAUSE, all is committed, CHANGE; SERVE again when it does not come to that. E_STATE: not the primary, or it is
 * no in-sync replica. */
weir_status replica_move(struct replica *r, uint16_t to, struct replica_actions *out) WEIR_MUST_CHECK;
/* What `member` has is wrong, as the primary has found: it leaves the ISR, unless it is the last one there, and begins anew; the primary itself steps down first.
 * The message may be lost. E_STATE: not the primary, or alone; its logs have not been compared with the member's. */
weir_status replica_rebuild(struct replica *r, uint16_t member, struct replica_actions *out) WEIR_MUST_CHECK;
/* What this replica has is less than it once had: it leaves the ISR and begins anew. Where it is
 * the last one there, the partition is lost. */
void replica_distrust(struct replica *r, struct replica_actions *out);
/* The primary drops a member that is no longer wanted from the ISR, as soon as min_isr allows, and forgets it; a learner at once. If it joins again, it is a
 * learner like any other. E_STATE: not the primary; itself. */
weir_status replica_drop(struct replica *r, uint16_t member, struct replica_actions *out) WEIR_MUST_CHECK;

/* --- Shipping: the sender of a server pair asks when it has credit. */

struct replica_batch {
	uint64_t epoch, incarnation, commit;
	uint64_t first, last; /* the sender may take fewer; first == last + 1: only the commit index */
};
/* Whether there is something to send to `to` now. */
bool replica_batch(const struct replica *r, uint16_t to, struct replica_batch *batch);
/* An APPEND with entries up to `last` and this commit index is on its way. */
void replica_shipped(struct replica *r, uint16_t to, uint64_t last, uint64_t commit);
/* The servers that replica_batch may have something for: (count). */
uint32_t replica_peers(const struct replica *r, uint16_t out[WEIR_REPLICAS_MAX]);

/* --- What it knows */

bool replica_is_primary(const struct replica *r); /* entries are its own to append */
bool replica_serves(const struct replica *r);     /* and requests are taken */
uint64_t replica_epoch(const struct replica *r);  /* that it is primary of, or established in; 0: neither */
uint64_t replica_commit(const struct replica *r);
/* Of the primary: entries that two replicas hold or that are on its disk; and that are on the disks of the whole ISR. */
uint64_t replica_stable(const struct replica *r);
uint64_t replica_on_disks(const struct replica *r);
/* Of the primary: which start of `member` it speaks to; 0: not known. */
uint64_t replica_incarnation_of(const struct replica *r, uint16_t member);
/* The same: whether `member` is one of those it speaks to, and its server is heard. */
bool replica_hears(const struct replica *r, uint16_t member);
/* The same: whether `member` may need a snapshot. False: the log goes on behind what it has. */
bool replica_needs_snapshot(const struct replica *r, uint16_t member);
/* The log's entries from here on are still owed to somebody. */
uint64_t replica_needs(const struct replica *r);
bool replica_is_whole(const struct replica *r);
const struct replica_record *replica_get_record(const struct replica *r);

#endif
