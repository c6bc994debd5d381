/* What lies below the rows, without RocksDB: server/store/cold.h over a sorted list in memory, for programs that link this in its place. A node that dies takes what was
 * not flushed with it, from some write on. */
#ifndef WEIR_SIM_COLD_H
#define WEIR_SIM_COLD_H

#include <stdint.h>

#include "tests/sim/world/world.h"

/* Once in a world: a flush takes up to flush_ns. */
void cold_sim_begin(int64_t flush_ns);
/* Everything that the node has is gone. Needs: it is down. */
void cold_sim_lose(const struct node *n);
/* As of disk_sim.h: a copy of what is on disk, and what becomes of it. */
void cold_sim_remember(const struct node *n);
void cold_sim_go_back(const struct node *n);
void cold_sim_come_back(const struct node *n);

#endif
