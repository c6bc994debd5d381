/* Partitions of a cluster move from server to server, as replication will have it: the old primary steps down, the new one begins with its state, and servers
 * hear of it sooner or later. Clusters with one executor per server and logs in memory. Calls of one thread. */
#ifndef WEIR_MOVER_H
#define WEIR_MOVER_H

#include "tests/unit/worker/client/cluster.h"

struct partition;

struct mover {
	struct cluster *cluster;
	uint32_t place[WEIR_PARTITIONS_MAX];          /* the server that is, or was last, primary */
	uint64_t epoch[WEIR_PARTITIONS_MAX];          /* of that primary */
	struct partition *taken[WEIR_PARTITIONS_MAX]; /* the copy that is nowhere */
	uint64_t revision;
};

void mover_open(struct mover *m, struct cluster *c);
/* The primary steps down: from now on nobody has the partition. */
void mover_take(struct mover *m, uint32_t partition);
/* What mover_give will give is the partition as it is now, though its primary goes on: what comes to it will be lost. */
void mover_copy(struct mover *m, uint32_t partition);
/* What the old primary keeps is no more. Before its cluster is audited. */
void mover_drop_old(struct mover *m, uint32_t partition, uint32_t server);
/* `to` is its primary, in a new epoch; nobody but itself knows. */
void mover_give(struct mover *m, uint32_t partition, uint32_t to);
/* The server knows of all moves so far. */
void mover_tell(struct mover *m, uint32_t server);
/* All of that: old and new primary know. */
void mover_move(struct mover *m, uint32_t partition, uint32_t to);

#endif
