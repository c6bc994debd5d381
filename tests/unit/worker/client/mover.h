/* Moves partitions of a cluster between servers, as replication does: the old primary steps down,
 * the new one begins with its state, and servers learn of it later. For clusters with one executor
 * per server and logs in memory. Calls come from one thread. */
#ifndef WEIR_MOVER_H
#define WEIR_MOVER_H

#include "tests/unit/worker/client/cluster.h"

struct partition;

struct mover {
	struct cluster *cluster;
	uint32_t place[WEIR_PARTITIONS_MAX];          /* the current or last primary */
	uint64_t epoch[WEIR_PARTITIONS_MAX];          /* of that primary */
	struct partition *taken[WEIR_PARTITIONS_MAX]; /* the copy of a partition without a server */
	uint64_t revision;
};

void mover_open(struct mover *m, struct cluster *c);
/* The primary steps down: no server has the partition. */
void mover_take(struct mover *m, uint32_t partition);
/* mover_give will use the partition's current state, although its primary continues. Later pushes
 * to it will be lost. */
void mover_copy(struct mover *m, uint32_t partition);
/* Deletes the old primary's copy. Needed before an audit of the cluster. */
void mover_drop_old(struct mover *m, uint32_t partition, uint32_t server);
/* Makes `to` the primary in a new epoch; no other server knows. */
void mover_give(struct mover *m, uint32_t partition, uint32_t to);
/* The server learns of all moves so far. */
void mover_tell(struct mover *m, uint32_t server);
/* A whole move: old and new primary know. */
void mover_move(struct mover *m, uint32_t partition, uint32_t to);

#endif
