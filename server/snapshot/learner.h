/* The learner's side of bringing one replica up: it begins anew (partition_reset.h), and takes the snapshot that the primary offers (snapshot_receive.h).
 *
 * Nothing that it has is of use from the first frame on. So it is one that is not whole, on disk, and empty, before it asks for one; and whatever ends a snapshot
 * but its last frame empties it again. While it is being filled nobody else touches the partition.
 *
 * One owner: the partition's thread. None of the calls comes from inside a function of the replication, but for learner_reset, learner_offered and what is
 * const. */
#ifndef WEIR_LEARNER_H
#define WEIR_LEARNER_H

#include "proto/rpc/rpc.h"
#include "server/replication/replication.h"
#include "server/snapshot/partition_reset.h"
#include "server/snapshot/snapshot_stream.h"

struct learner_options {
	struct partition *partition;
	struct replication *replication;
	struct cold_writer *writer; /* NULL: rows stay in memory */
	struct poster owner;        /* to its thread */
	uint8_t uuid[16];           /* of the job */
	uint64_t generation;
	uint32_t partitions; /* of the job */
	const struct clock *clock;
	struct logger *logger;
	/* A channel to a server, on the partition's loop. */
	weir_status (*connect)(void *arg, uint16_t server, struct rpc_channel **out, weir_error *err);
	/* A table that it has from now on, to be kept. */
	weir_status (*add_table)(void *arg, uint32_t id, const weir_table_spec *spec, weir_error *err);
	/* It has begun anew, or a snapshot is in: its log begins elsewhere. */
	void (*changed)(void *arg);
	/* Storage has failed for good: the server must stop. */
	void (*failed)(void *arg, const weir_error *err);
	void *arg;
};

struct learner {
	struct learner_options options;
	struct partition_reset reset;
	bool is_void;   /* it was emptied, and nothing has come since */
	bool is_spoilt; /* a snapshot did not come to its end: it is to be emptied again */
	bool stopped;
	uint16_t from; /* of what is being received, or was */
	uint64_t epoch, session;
	struct snapshot_receiver *receiver; /* NULL: nothing is */
	struct snapshot_fetch *fetch;
	struct replica_message offer; /* session 0: none */
};

void learner_init(struct learner *l, const struct learner_options *options);
/* Nothing is received, emptied or called any more; what is being written comes to its end through the loop. */
void learner_stop(struct learner *l);

weir_status learner_reset(struct learner *l);                                 /* replication_subject.reset */
void learner_offered(struct learner *l, const struct replica_message *offer); /* replication_subject.fetch */
/* An entry is to be put behind the log. False: not now, as what is there is going. */
bool learner_lets_store(struct learner *l);
/* It is being emptied or filled, or is to be emptied: its log is not the replica's. */
bool learner_is_busy(const struct learner *l);
void learner_tick(struct learner *l); /* every 100 ms or so */

#endif
