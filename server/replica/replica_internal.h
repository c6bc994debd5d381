/* What the files of a replica share: replica.c (its life, its log), replica_record.c (the coordinator's record: who is what), replica_primary.c (peers, commit,
 * who is in sync), replica_follower.c (promises, appends). Nobody else includes this. */
#ifndef WEIR_REPLICA_INTERNAL_H
#define WEIR_REPLICA_INTERNAL_H

#include "server/replica/replica.h"

/* A replica as its primary sees it. */
struct replica_peer {
	uint16_t id;
	bool established;      /* in this epoch, by an acknowledgement of this incarnation */
	bool snapshot;         /* is on its way */
	uint64_t incarnation;  /* 0: not known */
	uint64_t match;        /* its log is ours up to here */
	uint64_t durable;      /* and on its disk */
	uint64_t next;         /* entry to ship next */
	bool rewound;          /* since the last tick, for a gap */
	uint64_t commit_known; /* its commit index, as it said */
	uint64_t commit_shipped;
	uint32_t quiet_ticks;   /* since it last said something new, while it owes something */
	uint64_t goal;          /* our last index, when it last had caught up */
	uint32_t stalled_ticks; /* since then */
	bool silent, slow;      /* by heartbeats */
};

enum replica_asking { ASKING_NOTHING, ASKING_READ, ASKING_CHANGE };

struct replica {
	struct replica_options options;
	/* The log. */
	struct epochs epochs;
	uint64_t first, last, durable, commit;
	/* Promises. */
	uint64_t promised;  /* on disk */
	uint64_t promising; /* being written; at least promised: lower epochs are refused from here on */
	uint16_t promised_to;
	uint64_t begun; /* found.begun */
	bool whole, lost;
	bool spoilt; /* what it has is wrong: it leaves the ISR, then begins anew */
	/* The record. */
	struct replica_record record;
	bool confirmed;             /* it was read since the start: older views of it do not matter any more */
	uint64_t first_read;        /* its revision when it was: what was asked for before the start may still come to pass on it */
	enum replica_asking asking; /* one thing at a time */
	bool unsure;                /* a CHANGE may have come to pass or may still: read before another one */
	uint32_t patience;          /* ticks until the coordinator is asked again */
	uint32_t unestablished;     /* ticks as a replica that its primary does not know */
	bool primary_silent;
	/* A follower. */
	uint64_t established; /* epoch; 0: none in this incarnation */
	uint16_t established_by;
	uint64_t told_commit; /* by its primary; our log may not be there yet */
	uint64_t whole_at;    /* with entries up to here nothing is missing: what its primary's epoch began with */
	uint32_t join_in;     /* ticks until JOIN may be sent again */
	/* The primary. */
	bool primary, serving;
	uint64_t epoch, begin; /* its first entry is `begin` */
	uint64_t stable;
	struct replica_peer peers[WEIR_REPLICAS_MAX];
	uint32_t peers_count;
	struct member_set proposed; /* in a CHANGE whose outcome is not known: maybe in sync */
	struct member_set counting; /* learners that commits wait for, before they are proposed */
	struct member_set dropping;
	uint16_t moving_to; /* MEMBER_NONE: no move */
};

/* --- replica.c */

struct replica_action *replica_do(struct replica_actions *out, enum replica_action_kind kind);
/* A message with `from` and our incarnation. */
struct replica_message *replica_send(struct replica *r, struct replica_actions *out, enum replica_message_kind kind, uint16_t to);
/* Commits up to `index`, if that is news. */
void replica_commit_to(struct replica *r, uint64_t index, struct replica_actions *out);

/* --- replica_record.c */

/* Asks the coordinator for what should change now, if anything. fresh: the record has just been read. */
void replica_decide(struct replica *r, bool fresh, struct replica_actions *out);
/* Whether it must get out of the ISR, or see that it is not in it, before it says anything about its log. */
bool replica_must_leave(const struct replica *r);
void replica_step_down(struct replica *r, struct replica_actions *out);
/* Asks for the record; replica_decide comes again with what is read. */
void replica_ask(struct replica *r, struct replica_actions *out);
void replica_propose(struct replica *r, const struct replica_record *record, struct replica_actions *out);

/* --- replica_primary.c */

void primary_begin(struct replica *r, struct replica_actions *out);
void primary_tick(struct replica *r, const struct heartbeat *h, struct replica_actions *out);
void primary_on_join(struct replica *r, const struct replica_message *m, struct replica_actions *out);
void primary_on_ack(struct replica *r, const struct replica_message *m, struct replica_actions *out);
/* Commits what can be. After anything that acknowledgements or the ISR depend on. */
void primary_advance(struct replica *r, struct replica_actions *out);
/* The record has changed, and we are its primary still. before: who was in sync. */
void primary_on_record(struct replica *r, const struct member_set *before, struct replica_actions *out);
/* Proposes a hand-over, a shrunk or a grown ISR. fresh: the record has just been read. */
void primary_decide(struct replica *r, bool fresh, struct replica_actions *out);

/* --- replica_follower.c */

void follower_tick(struct replica *r, struct replica_actions *out);
void follower_on_establish(struct replica *r, const struct replica_message *m, struct replica_actions *out);
void follower_on_append(struct replica *r, const struct replica_message *m, struct replica_actions *out);
void follower_on_offer(struct replica *r, const struct replica_message *m, struct replica_actions *out);
void follower_on_rebuild(struct replica *r, const struct replica_message *m);
/* Spoilt, and out of the ISR. */
void follower_begin_anew(struct replica *r, struct replica_actions *out);
/* Tells the primary how far the log is. */
void follower_acknowledge(struct replica *r, bool gap, struct replica_actions *out);
/* The log has grown, or the primary's commit index has. */
void follower_advance(struct replica *r, struct replica_actions *out);
void follower_promise(struct replica *r, uint64_t epoch, uint16_t to, struct replica_actions *out);

#endif
