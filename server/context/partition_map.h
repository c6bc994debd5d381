/* Which server is primary of which partition, as far as this server knows. It tells clients that
 * join, ask, or come to the wrong server. The server's own actions do not depend on it: a partition
 * itself knows whether it takes records (partition_serve, partition_step_down).
 *
 * The initial map is that of `coord: static`: partitions are placed by key_partition.h, in epoch 0,
 * and revision 1 is the last. Any thread. */
#ifndef WEIR_PARTITION_MAP_H
#define WEIR_PARTITION_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/wire.h"
#include "server/records/member_set.h"

struct partition_map;
struct partition_place {
	uint32_t server; /* the primary; WEIR_SERVER_NONE: none */
	uint64_t epoch;  /* of that primary */
	/* Its replicas, with the primary; empty: unknown, as with one copy. */
	struct member_set in_sync;
};

/* addresses: (servers), copied; NULL: none is known. More servers may be added later, up to
 * servers_max in all. NULL: out of memory. */
struct partition_map *partition_map_create(uint32_t partitions, uint32_t servers, uint32_t servers_max,
                                           const char *const *addresses);
void partition_map_destroy(struct partition_map *m);
/* Of a partition or the ledger. */
struct partition_place partition_map_find(struct partition_map *m, uint32_t partition, uint64_t *revision);
/* Copies the address where a server listens to out (WEIR_ADDRESS_BYTES_MAX). False: unknown. */
bool partition_map_address(struct partition_map *m, uint32_t server, char *out);
/* Sets the server's present address. Out of memory: nothing changes. */
void partition_map_set_address(struct partition_map *m, uint32_t server, const char *address);
/* Sets what is known of one partition, or of the ledger (JOURNAL_LEDGER), from any source. An epoch
 * older than the present one changes nothing. */
void partition_map_set(struct partition_map *m, uint32_t partition, struct partition_place place);
/* Every change up to this revision has been set. The revision never goes back. */
void partition_map_advance(struct partition_map *m, uint64_t revision);
/* Calls `use` with the whole map, which does not change during the call. */
void partition_map_show(struct partition_map *m, void (*use)(void *arg, const Weir__V1__PartitionMap *map), void *arg);

#endif
