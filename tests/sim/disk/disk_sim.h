/* A node's disk: tests/unit/faulty_disk.h with latency, a limit of space, and crashes of its
 * machine. It outlives the processes of its node. */
#ifndef WEIR_SIM_DISK_H
#define WEIR_SIM_DISK_H

#include "common/system/disk.h"
#include "tests/sim/world/world.h"

struct disk_sim;

struct disk_mood {
	int64_t sync_ns;  /* maximum time of a sync */
	double slow_sync; /* share of syncs that take a hundred times that */
	double stray;     /* share of machine crashes that also misdirect sectors; disk_sim_misdirect */
};

/* The disk follows its node's death. Open handles can only be closed, and locks are released. If
 * the machine dies, unsynced data is partly lost. */
struct disk_sim *disk_sim_create(struct node *n, const struct disk_mood *mood);
void disk_sim_destroy(struct disk_sim *d); /* the node must be down */
struct disk *disk_sim_interface(struct disk_sim *d);
void disk_sim_calm(struct disk_sim *d); /* stops slow syncs */
/* While full, operations that need space fail with E_NO_SPACE. */
void disk_sim_fill(struct disk_sim *d, bool full);
/* The next crash of the machine misdirects sectors. */
void disk_sim_misdirect(struct disk_sim *d);
/* Deletes everything on the disk. The node must be down. */
void disk_sim_lose(struct disk_sim *d);
/* Copies the disk. The copy replaces an earlier one. */
void disk_sim_remember(struct disk_sim *d);
/* Goes back to the copy, or forward to the content before that. The node must be down. */
void disk_sim_go_back(struct disk_sim *d);
void disk_sim_come_back(struct disk_sim *d);

#endif
