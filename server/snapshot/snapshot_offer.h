/* The primary's side of building one partition's learners: it sends snapshots one after another,
 * and offers each one to its learner (replica.h). An offer may be lost, so it is repeated. A
 * learner that was away briefly finds the same snapshot and continues it.
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
	struct callback_executor owner; /* runs tasks on its thread */
	struct logger *logger;
	/* A snapshot begins; a snapshot has ended. The server must exist in between. */
	void (*enter)(void *arg);
	void (*leave)(void *arg);
	void *arg;
	/* Private. */
	bool running;
	uint16_t member;
	uint64_t incarnation, session, index;
	uint32_t quiet; /* ticks since the last offer */
};

/* Serves replication_subject_ops.snapshot. One snapshot of the partition at a time: another member
 * waits until it ends. It ends at once when its member's server is silent, or when it was begun for
 * an earlier start of the same member. */
void snapshot_offer_begin(struct snapshot_offer *o, uint16_t member, uint64_t incarnation);
/* Ends the snapshot: the partition is no longer primary here. */
void snapshot_offer_stop(struct snapshot_offer *o);
void snapshot_offer_tick(struct snapshot_offer *o); /* call about every 100 ms */
/* The learner of the current snapshot needs the log from this entry on; UINT64_MAX: no snapshot. */
uint64_t snapshot_offer_needs(const struct snapshot_offer *o);

#endif
