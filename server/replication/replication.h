/* One replica, driven: tells the protocol (replica.h) what happens, and carries out what it says, in order. The same for a partition and for the ledger, in a
 * server and in a test, for one copy and for several.
 *
 * What is to be done goes four ways: to the log and what is made of it (struct replication_subject), to the other servers (struct
 * replication_network), to the partition's record in the coordinator (authority.h), and to the disk, for what a restart must find again (promises.h).
 *
 * Carrying out an action may bring about another event: entries that are committed answer a client, whose next record is appended. It counts when all
 * actions of the event before have been carried out. An action may find the disk full. Then it waits, and with it everything behind it, for a
 * tick at which there is space: messages are dropped meanwhile, as any may be lost, and what comes once counts afterwards.
 *
 * One owner: the loop of its subject. Nothing here is called from inside a function of a subject or a network, but for replication_appended,
 * replication_durable, replication_snapshot_ended and what is const. */
#ifndef WEIR_REPLICATION_H
#define WEIR_REPLICATION_H

#include "common/system/logger.h"
#include "server/coord/coord_records.h"
#include "server/log/log.h"
#include "server/replica/replica.h"
#include "server/replica/vote_store.h"

struct replication;

/* The log of one replica, and what is made of it. What has a single copy (replica_options.alone) needs commit, begin, serve, step_down and durable. */
struct replication_subject {
	/* Puts the entry behind the log; its index is last + 1. An error: it is not there, and comes again. */
	weir_status (*store)(void *subject, const struct log_entry *e);
	/* These two: NO_SPACE or MEMORY, and nothing was done; any other error is final: the subject has told whoever must know, and the driver does nothing more. */
	weir_status (*truncate)(void *subject, uint64_t last); /* entries behind `last` are void; they are not committed */
	/* Everything is void: log, rows, header. E_BUSY: not yet, it is asked again at each tick. That this replica is not whole is on disk. */
	weir_status (*reset)(void *subject);
	void (*commit)(void *subject, uint64_t index); /* entries up to it are committed; it is in the log */
	/* Primary of this epoch: its first entry goes into the log, now or when there is space. */
	void (*begin)(void *subject, uint64_t epoch);
	void (*serve)(void *subject);     /* records are taken */
	void (*pause)(void *subject);     /* records wait, for serve or step_down */
	void (*step_down)(void *subject); /* who waits is told to ask another server, and who comes */
	/* Streams one to that start of it, then replication_snapshot_ended. */
	void (*snapshot)(void *subject, uint16_t member, uint64_t incarnation);
	/* Server offer->from keeps one for this replica, of its primary's epoch. Then, if it still is left behind, replication_start_over, before anything changes, and
	 * replication_installed, or replication_start_over again. May come again. NULL: none is ever of use. */
	void (*fetch)(void *subject, const struct replica_message *offer);
	void (*lost)(void *subject); /* no full log is left anywhere: the job must go back to a checkpoint */
	/* Of a primary that is not alone: replica_stable or replica_on_disks has changed. May be NULL. */
	void (*settled)(void *subject);
	uint64_t (*durable)(const void *subject); /* last index on disk */
	/* To be sent; NULL: the log has it no more. Valid until the log changes. */
	const struct log_entry *(*entry)(void *subject, uint64_t index);
};

/* The other servers. Messages of one pair of servers stay in order while they come. */
struct replication_network {
	/* To m->to; it may get lost. m is borrowed, with its epochs. Never an APPEND: those are shipped. */
	void (*send)(void *network, uint16_t partition, const struct replica_message *m);
	/* replica_batch may have something for the replica's peers. The network asks when it has room for it, sends APPENDs of entries that replication_entry gives, and tells
	 * by replication_shipped; later, never before this returns. */
	void (*ship)(void *network, struct replication *x);
};

struct replication_options {
	uint16_t partition; /* or JOURNAL_LEDGER */
	struct replica_options replica;
	/* Of the record, when there is none yet. */
	struct member_set hosts; /* who has a replica; */
	uint16_t primary;        /* who is to be primary, MEMBER_NONE: whoever asks first; */
	uint16_t min_isr;        /* how many must have an entry; */
	uint64_t begun;          /* what all of them begin with is up to this index: a checkpoint; 0: nothing */
	const struct replication_subject *subject;
	void *subject_arg;
	const struct replication_network *network; /* NULL: there are no other servers */
	void *network_arg;
	struct authority *authority;
	struct promises *promises; /* NULL: nothing of this replica outlives the process */
	struct poster poster;      /* of the owner's loop */
	struct logger *logger;
	/* A promise could not be written, and none will be: the server must stop. */
	void (*failed)(void *arg, const weir_error *err);
	void *failed_arg;
};

/* found: as of recovery; where there are promises, `whole` is theirs, and `promised` at least. Asks for the record at the first tick. NULL: out of memory. */
struct replication *replication_create(const struct replication_options *options, const struct replica_found *found);
/* From here on nothing is carried out, and events do nothing. */
void replication_stop(struct replication *x);
/* When nothing comes any more: authority and promises are closed, and what they posted has run. NULL is allowed. */
void replication_destroy(struct replication *x);

/* --- Events */

/* As of replica_tick. */
void replication_tick(struct replication *x, const struct heartbeat *h);
/* In place of a tick, of a replica that takes no part: what is under way goes on. */
void replication_rest(struct replication *x);
/* From another server. entries: of an APPEND, m->first to m->last, else NULL; borrowed, the log keeps references to their messages. */
void replication_receive(struct replication *x, const struct replica_message *m, const struct log_entry *entries);
/* The primary's own entries are in the log up to index. */
void replication_appended(struct replication *x, uint64_t index);
/* What is on disk has changed. */
void replication_durable(struct replication *x);
void replication_snapshot_ended(struct replication *x, uint16_t member);
/* As of replica_offer. One that cannot be sent now is lost. */
void replication_offer(struct replication *x, uint16_t member, uint64_t session, uint64_t last);
/* As of replica_start_over. False: not now. */
bool replication_start_over(struct replication *x);
/* As of replica_takes_snapshot; and whether the driver can take it now. */
bool replication_takes_snapshot(const struct replication *x, uint64_t epoch, uint64_t last);
/* As of replica_installed. Needs: replication_takes_snapshot. */
void replication_installed(struct replication *x, uint64_t epoch, uint64_t first, uint64_t last, uint64_t commit,
                           const struct epochs *epochs);
/* As of replica_trimmed; to be told again, as it may be passed over. */
void replication_trimmed(struct replication *x, uint64_t first);
bool replication_distrust(struct replication *x); /* as of replica_distrust. False: not now */
/* As of replica_move, replica_drop and replica_rebuild; E_STATE: not now, too. */
weir_status replication_move(struct replication *x, uint16_t to) WEIR_MUST_CHECK;
weir_status replication_drop(struct replication *x, uint16_t member) WEIR_MUST_CHECK;
weir_status replication_rebuild(struct replication *x, uint16_t member) WEIR_MUST_CHECK;

/* --- Shipping */

const struct log_entry *replication_entry(struct replication *x, uint64_t index);
void replication_shipped(struct replication *x, uint16_t to, uint64_t last, uint64_t commit);

/* --- What it knows: everything const of replica.h */

const struct replica *replication_replica(const struct replication *x);
uint16_t replication_partition(const struct replication *x);

#endif
