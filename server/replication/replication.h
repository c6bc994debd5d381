/* The driver of one replica. It reports events to the protocol (replica.h) and carries out the
 * resulting actions in order. It is the same for a partition and for the ledger, in servers and
 * tests, with one copy or several.
 *
 * Actions go to four places: the log and its users (struct replication_subject), the other servers
 * (struct replication_network), the partition's record in the coordinator (coord_records.h), and
 * the disk, for what a restart must find again (vote_store.h).
 *
 * An action may cause another event: for example, a commit answers a client, whose next record is
 * then appended. The driver notes such an event and reports it after all actions of the current
 * one. An action may find the disk full. It then waits, and all actions behind it, for a tick with
 * space. Messages are dropped meanwhile, as any message may be lost; one-time events are noted and
 * reported afterwards.
 *
 * One owner: the loop of its subject. Functions of a subject or a network may call only
 * replication_appended, replication_durable, replication_snapshot_ended and the const functions. */
#ifndef WEIR_REPLICATION_H
#define WEIR_REPLICATION_H

#include "common/system/logger.h"
#include "server/coord/coord_records.h"
#include "server/log/log.h"
#include "server/replica/replica.h"
#include "server/replica/vote_store.h"

struct replication;

/* The log of one replica and its users. A function marked optional may be NULL. A single copy
 * (replica_options.alone) needs only commit, begin, serve, step_down and durable. */
struct replication_subject_ops {
	/* Appends the entry to the log; its index is last + 1. On an error it was not appended, and
	 * comes again. */
	weir_status (*store)(void *subject, const struct log_entry *e);
	/* truncate drops the entries behind `last`, which are not committed. Errors of truncate and
	 * reset: NO_SPACE or MEMORY means that nothing was done. Any other error is final: the subject
	 * has reported it, and the driver does nothing more. */
	weir_status (*truncate)(void *subject, uint64_t last);
	/* Drops everything: log, rows, header. E_BUSY: not yet; asked again at each tick. Before the
	 * call it is on disk that this replica is not whole. */
	weir_status (*reset)(void *subject);
	void (*commit)(void *subject, uint64_t index); /* commits the log's entries up to index */
	/* Primary of this epoch: appends its first entry, now or when there is space. */
	void (*begin)(void *subject, uint64_t epoch);
	void (*serve)(void *subject);     /* accepts records */
	void (*pause)(void *subject);     /* holds records until serve or step_down */
	void (*step_down)(void *subject); /* tells waiting and new clients to ask another server */
	/* Streams a snapshot to this incarnation of the member, then calls
	 * replication_snapshot_ended. */
	void (*snapshot)(void *subject, uint16_t member, uint64_t incarnation);
	/* Optional: without it, snapshots are never useful. Server offer->from keeps a snapshot for
	 * this replica, of its primary's epoch. If this replica still is left behind, the subject calls
	 * replication_start_over before it changes anything, then replication_installed, or
	 * replication_start_over again. May come again. */
	void (*fetch)(void *subject, const struct replica_message *offer);
	/* No full log is left anywhere: the job must go back to a checkpoint. */
	void (*lost)(void *subject);
	/* Optional. On a primary with peers: replica_stable or replica_on_disks has changed. */
	void (*settled)(void *subject);
	uint64_t (*durable)(const void *subject); /* last index on disk */
	/* An entry to send; NULL: it has left the log. Valid until the log changes. */
	const struct log_entry *(*entry)(void *subject, uint64_t index);
};
struct replication_subject {
	const struct replication_subject_ops *ops;
	void *arg;
};

/* The other servers. Messages of one pair of servers that arrive stay in order. */
struct replication_network_ops {
	/* Sends m to m->to; it may be lost. m and its epochs are borrowed. Never an APPEND: ship sends
	 * those. */
	void (*send)(void *network, uint16_t partition, const struct replica_message *m);
	/* The replica's peers may need entries (replica_batch). When it has room, the network asks,
	 * sends APPENDs of entries from replication_entry, and reports them with replication_shipped.
	 * It does so later, never before this returns. */
	void (*ship)(void *network, struct replication *x);
};
struct replication_network {
	const struct replication_network_ops *ops; /* NULL: no other servers */
	void *arg;
};

struct replication_options {
	uint16_t partition; /* or JOURNAL_LEDGER */
	struct replica_options replica;
	/* For the first record. */
	struct member_set hosts; /* the servers with a replica */
	uint16_t primary;        /* the first primary; MEMBER_NONE: the first server that asks */
	uint16_t min_isr;        /* number of servers that must have an entry */
	/* Last index of the checkpoint that all of them begin with; 0: they begin empty. */
	uint64_t begun;
	struct replication_subject subject;
	struct replication_network network;
	struct coord_records *records;
	struct vote_store *votes;        /* NULL: nothing of this replica outlives the process */
	struct callback_executor run_on; /* of the owner's loop */
	struct logger *logger;
	/* A promise could not be written, and none will be: the server must stop. */
	void (*failed)(void *arg, const weir_error *err);
	void *failed_arg;
};

/* found: the result of recovery. With a vote store, its `whole` replaces found's, and its
 * `promised` is a lower bound. Asks for the record at the first tick. NULL: out of memory. */
struct replication *replication_create(const struct replication_options *options, const struct replica_found *found);
/* From now on no action is carried out, and events do nothing. */
void replication_stop(struct replication *x);
/* Call when no event comes any more: coordinator records and vote store are closed, and what they
 * posted has run. NULL does nothing. */
void replication_destroy(struct replication *x);

/* --- Events */

/* As replica_tick. */
void replication_tick(struct replication *x, const struct heartbeat *h);
/* Instead of a tick, for a replica that takes no part: continues what is under way. */
void replication_rest(struct replication *x);
/* A message from another server. entries: for an APPEND, m->first to m->last, else NULL. They are
 * borrowed; the log keeps references to their messages. */
void replication_receive(struct replication *x, const struct replica_message *m, const struct log_entry *entries);
/* The log has the primary's own entries up to index. */
void replication_appended(struct replication *x, uint64_t index);
/* The durable index has changed. */
void replication_durable(struct replication *x);
void replication_snapshot_ended(struct replication *x, uint16_t member);
/* As replica_offer. An offer that cannot be sent now is lost. */
void replication_offer(struct replication *x, uint16_t member, uint64_t session, uint64_t last);
/* As replica_start_over. False: not possible now. */
bool replication_start_over(struct replication *x);
/* As replica_takes_snapshot, and whether the driver can take it now. */
bool replication_takes_snapshot(const struct replication *x, uint64_t epoch, uint64_t last);
/* As replica_installed. Needs: replication_takes_snapshot. */
void replication_installed(struct replication *x, uint64_t epoch, uint64_t first, uint64_t last, uint64_t commit,
                           const struct epochs *epochs);
/* As replica_trimmed. May be ignored, so repeat it. */
void replication_trimmed(struct replication *x, uint64_t first);
bool replication_distrust(struct replication *x); /* as replica_distrust. False: not possible now */
/* As replica_move, replica_drop and replica_rebuild; E_STATE also when not possible now. */
weir_status replication_move(struct replication *x, uint16_t to) WEIR_MUST_CHECK;
weir_status replication_drop(struct replication *x, uint16_t member) WEIR_MUST_CHECK;
weir_status replication_rebuild(struct replication *x, uint16_t member) WEIR_MUST_CHECK;

/* --- Shipping */

const struct log_entry *replication_entry(struct replication *x, uint64_t index);
void replication_shipped(struct replication *x, uint16_t to, uint64_t last, uint64_t commit);

/* --- State: all const functions of replica.h */

const struct replica *replication_replica(const struct replication *x);
uint16_t replication_partition(const struct replication *x);

#endif
