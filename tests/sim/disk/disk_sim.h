/* A node's disk: tests/unit/faulty_disk.h, which outlives the node's processes, takes its time, fills up and has its machine's crashes. */
#ifndef WEIR_SIM_DISK_H
#define WEIR_SIM_DISK_H

#include "common/system/disk.h"
#include "tests/sim/world/world.h"

struct disk_sim;

struct disk_mood {
	int64_t sync_ns;  /* of a sync: at most */
	double slow_sync; /* how often it takes a hundred times that */
	double stray;     /* how many crashes of the machine also misdirect sectors; disk_sim_misdirect */
};

/* Dies with its node: what was open can only be closed, locks are gone, and when it is the machine that dies, so is some of what was not synced. */
struct disk_sim *disk_sim_create(struct node *n, const struct disk_mood *mood);
void disk_sim_destroy(struct disk_sim *d); /* needs: the node is down */
struct disk *disk_sim_interface(struct disk_sim *d);
void disk_sim_calm(struct disk_sim *d); /* no sync is slow any more */
/* From now on whatever needs space fails with E_NO_SPACE. */
void disk_sim_fill(struct disk_sim *d, bool full);
/* If the machine crashes next, sectors are misdirected. */
void disk_sim_misdirect(struct disk_sim *d);
/* Everything on it is gone. Needs: the node is down. */
void disk_sim_lose(struct disk_sim *d);
/* A copy is made of it, in place of the one before. */
void disk_sim_remember(struct disk_sim *d);
/* It is that copy from now on; or what it was before it went back. Need: the node is down. */
void disk_sim_go_back(struct disk_sim *d);
void disk_sim_come_back(struct disk_sim *d);

#endif
