/* The primary's side of bringing one partition's learners up: snapshots of it that are being sent, one after the other, and the offers by which a learner hears
 * that one is kept for it (replica.h). An offer may be lost, and is made again; a learner that was away for a moment finds the same one, and goes on with it.
 *
 * One owner: the partition's thread. */
#ifndef WEIR_SNAPSHOT_OFFER_H
#define WEIR_SNAPSHOT_OFFER_H

#include "server/replication/replication.h"
#include "server/snapshot/snapshot_send.h"

struct snapshot_offer {
	struct snapshot_sender *sender;
	struct partition *partition;
	struct replication *replication;
	struct poster owner; /* to its thread */
	struct logger *logger;
	/* A snapshot begins, or has ended: the server stays until then. */
	void (*enter)(void *arg);
	void (*leave)(void *arg);
	void *arg;
	/* Ours. */
	bool running;
	uint16_t member;
	uint64_t incarnation, session, index;
	uint32_t quiet; /* ticks since the last offer */
};

/* replication_subject.snapshot. One of this partition at a time: another member's turn comes when that is over, which is at once when its server is silent, as
 * when it was begun for an earlier start of the same member. */
void snapshot_offer_begin(struct snapshot_offer *o, uint16_t member, uint64_t incarnation);
/* It is primary no more. */
void snapshot_offer_end(struct snapshot_offer *o);
void snapshot_offer_tick(struct snapshot_offer *o); /* every 100 ms or so */
/* The log's entries from here on are owed to who takes it; UINT64_MAX: to nobody. */
uint64_t snapshot_offer_needs(const struct snapshot_offer *o);

#endif
