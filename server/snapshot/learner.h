/* The learner's side of building one replica: it resets the partition (partition_reset.h), then
 * installs the snapshot that the primary offers (snapshot_receive.h).
 *
 * The first frame discards everything that the replica has. So before it requests a snapshot, the
 * replica is empty and is recorded as not whole on disk. Any end of a snapshot other than its last
 * frame empties the replica again. Only the learner touches the partition while it is filled.
 *
 * One owner: the partition's thread. The replication code may call learner_reset, learner_offered
 * and the functions that take a const learner from inside one of its own functions, but no other
 * function of this file. */
#ifndef WEIR_LEARNER_H
#define WEIR_LEARNER_H

#include "proto/rpc/rpc.h"
#include "server/replication/replication.h"
#include "server/snapshot/partition_reset.h"
#include "server/snapshot/snapshot_stream.h"

struct learner_options {
	struct partition *partition;
	struct replication *replication;
	struct cold_writer *writer;     /* NULL: rows stay in memory */
	struct callback_executor owner; /* runs tasks on its thread */
	uint8_t uuid[16];               /* of the job */
	uint64_t generation;
	uint32_t partitions; /* of the job */
	const struct clock *clock;
	struct logger *logger;
	/* Opens a channel to a server, on the partition's loop. */
	weir_status (*connect)(void *arg, uint16_t server, struct rpc_channel **out, weir_error *err);
	/* Stores a table that the partition has gained. */
	weir_status (*add_table)(void *arg, uint32_t id, const weir_table_spec *spec, weir_error *err);
	/* A reset or an installation is complete: the log begins at another index. */
	void (*changed)(void *arg);
	/* Storage has failed permanently: the server must stop. */
	void (*failed)(void *arg, const weir_error *err);
	void *arg;
};

struct learner {
	struct learner_options options;
	struct partition_reset reset;
	bool is_void;   /* empty since a reset: nothing has been stored yet */
	bool is_spoilt; /* a snapshot ended early: another reset is due */
	bool stopped;
	uint16_t from; /* sender of the current or the last snapshot */
	uint64_t epoch, session;
	struct snapshot_receiver *receiver; /* NULL: no snapshot is being received */
	struct snapshot_fetch *fetch;
	struct replica_message offer; /* session 0: none */
};

void learner_init(struct learner *l, const struct learner_options *options);
/* Stops receiving, resetting and calling back. Writes in progress complete through the loop. */
void learner_stop(struct learner *l);

weir_status learner_reset(struct learner *l); /* replication_subject_ops.reset */
/* replication_subject_ops.fetch */
void learner_offered(struct learner *l, const struct replica_message *offer);
/* Call before an entry is appended to the log. False: not now, the contents are being discarded. */
bool learner_lets_store(struct learner *l);
/* A reset or an installation is in progress or due: the log is not the replica's. */
bool learner_is_busy(const struct learner *l);
void learner_tick(struct learner *l); /* call about every 100 ms */

#endif
