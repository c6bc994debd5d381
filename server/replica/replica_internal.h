/* Shared by the files of a replica: replica.c (life, log), replica_record.c (the coordinator's
 * record: roles), replica_primary.c (peers, commit, in-sync set), replica_follower.c (promises,
 * appends). No other file includes this header. */
#ifndef WEIR_REPLICA_INTERNAL_H
#define WEIR_REPLICA_INTERNAL_H

#include "server/replica/replica.h"

/* A peer as its primary sees it. */
struct replica_peer {
	uint16_t id;
	bool established;      /* in this epoch, by an acknowledgement of this incarnation */
	bool snapshot;         /* a snapshot is on its way */
	uint64_t incarnation;  /* 0: not known */
	uint64_t match;        /* its log equals ours up to here */
	uint64_t durable;      /* its log is on its disk up to here */
	uint64_t next;         /* the entry to ship next */
	bool rewound;          /* since the last tick, because of a gap */
	uint64_t commit_known; /* its commit index, as it last reported */
	uint64_t commit_shipped;
	uint32_t quiet_ticks;   /* while it owes something: ticks since it last reported progress */
	uint64_t goal;          /* our last index when it last had caught up */
	uint32_t stalled_ticks; /* ticks since then */
	bool silent, slow;      /* by heartbeats */
};

enum replica_asking { ASKING_NOTHING, ASKING_READ, ASKING_CHANGE };

struct replica {
	struct replica_options options;
	/* The log. */
	struct epochs epochs;
	uint64_t first, last, durable, commit;
	/* Promises (vote_store.h). */
	uint64_t promised; /* on disk */
	/* The promise that is being written, at least `promised`. Lower epochs are refused from now
	 * on. */
	uint64_t promising;
	uint16_t promised_to;
	uint64_t begun; /* found.begun */
	bool whole, lost;
	bool spoilt; /* its data is wrong: it leaves the ISR, then begins anew */
	/* The record. */
	struct replica_record record;
	bool confirmed; /* the record was read since the start: older views of it no longer count */
	/* The record's revision at that read. A change requested before the start may still succeed on
	 * it. */
	uint64_t first_read;
	enum replica_asking asking; /* one request at a time */
	/* A CHANGE may have happened or may still happen: read before the next one. */
	bool unsure;
	uint32_t patience;      /* ticks until the coordinator is asked again */
	uint32_t unestablished; /* ticks as a replica that its primary does not know */
	bool primary_silent;
	/* A follower. */
	uint64_t established; /* epoch; 0: not established in this incarnation */
	uint16_t established_by;
	uint64_t told_commit; /* the primary's commit index; our log may not reach it yet */
	/* With entries up to here nothing is missing: the end of the log before the primary's epoch. */
	uint64_t whole_at;
	uint32_t join_in; /* ticks until JOIN may be sent again */
	/* The primary. */
	bool primary, serving;
	uint64_t epoch, begin; /* begin: index of its first entry */
	uint64_t stable;
	struct replica_peer peers[WEIR_REPLICAS_MAX];
	uint32_t peers_count;
	struct member_set proposed; /* in a CHANGE of unknown outcome, so maybe in sync */
	struct member_set counting; /* learners that commits wait for, before they are proposed */
	struct member_set dropping;
	uint16_t moving_to; /* MEMBER_NONE: no move */
};

/* --- replica.c */

struct replica_action *replica_do(struct replica_actions *out, enum replica_action_kind kind);
/* A message with our `from` and `incarnation`. */
struct replica_message *replica_send(struct replica *r, struct replica_actions *out, enum replica_message_kind kind, uint16_t to);
/* Commits up to `index`, unless that is committed already. */
void replica_commit_to(struct replica *r, uint64_t index, struct replica_actions *out);

/* --- replica_record.c */

/* Asks the coordinator for the change that is due, if any. fresh: the record has just been read. */
void replica_decide(struct replica *r, bool fresh, struct replica_actions *out);
/* Whether the replica must leave the ISR, or confirm that it is outside, before it reports anything
 * about its log. */
bool replica_must_leave(const struct replica *r);
void replica_step_down(struct replica *r, struct replica_actions *out);
/* Asks for the record; replica_decide runs again with the answer. */
void replica_ask(struct replica *r, struct replica_actions *out);
void replica_propose(struct replica *r, const struct replica_record *record, struct replica_actions *out);

/* --- replica_primary.c */

void primary_begin(struct replica *r, struct replica_actions *out);
void primary_tick(struct replica *r, const struct heartbeat *h, struct replica_actions *out);
void primary_on_join(struct replica *r, const struct replica_message *m, struct replica_actions *out);
void primary_on_ack(struct replica *r, const struct replica_message *m, struct replica_actions *out);
/* Commits what it can. Call after any change of acknowledgements or of the ISR. */
void primary_advance(struct replica *r, struct replica_actions *out);
/* The record has changed, and we are still its primary. before: the former ISR. */
void primary_on_record(struct replica *r, const struct member_set *before, struct replica_actions *out);
/* Proposes a hand-over, or a smaller or larger ISR. fresh: the record has just been read. */
void primary_decide(struct replica *r, bool fresh, struct replica_actions *out);

/* --- replica_follower.c */

void follower_tick(struct replica *r, struct replica_actions *out);
void follower_on_establish(struct replica *r, const struct replica_message *m, struct replica_actions *out);
void follower_on_append(struct replica *r, const struct replica_message *m, struct replica_actions *out);
void follower_on_offer(struct replica *r, const struct replica_message *m, struct replica_actions *out);
void follower_on_rebuild(struct replica *r, const struct replica_message *m);
/* A spoilt replica, now outside the ISR, begins anew. */
void follower_begin_anew(struct replica *r, struct replica_actions *out);
/* Reports the log's end to the primary. */
void follower_acknowledge(struct replica *r, bool gap, struct replica_actions *out);
/* The log or the primary's commit index has grown. */
void follower_advance(struct replica *r, struct replica_actions *out);
void follower_promise(struct replica *r, uint64_t epoch, uint16_t to, struct replica_actions *out);

#endif
