/* Implements server/store/cold.h over a sorted list in memory, without RocksDB. A program links
 * this in place of cold.c. When a node dies, writes that were not flushed are lost from some write
 * on. */
#ifndef WEIR_SIM_COLD_H
#define WEIR_SIM_COLD_H

#include <stdint.h>

#include "tests/sim/world/world.h"

/* Call once per world. A flush takes up to flush_ns. */
void cold_sim_begin(int64_t flush_ns);
/* Deletes all stores of the node. The node must be down. */
void cold_sim_lose(const struct node *n);
/* The same for stores as disk_sim.h has for disks: copy what is on disk, and go back to the
 * copy. */
void cold_sim_remember(const struct node *n);
void cold_sim_go_back(const struct node *n);
void cold_sim_come_back(const struct node *n);

#endif
