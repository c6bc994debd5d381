/* Which server is primary of which partition, as far as this server knows: what it tells clients that join, ask, or come to the wrong server. What it does
 * itself does not depend on it: that a partition takes records is the partition's own knowledge (partition_serve, partition_step_down).
 *
 * At first it is `coord: static`: the partitions are where placement.h puts them, in epoch 0, and revision 1 is the last. Any thread. */
#ifndef WEIR_PARTITION_MAP_H
#define WEIR_PARTITION_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/wire.h"
#include "server/records/member_set.h"

struct partition_map;
struct partition_place {
	uint32_t server;           /* that is primary; WEIR_SERVER_NONE: there is none */
	uint64_t epoch;            /* of that primary */
	struct member_set in_sync; /* its replicas, itself too; empty: not known, as with one copy */
};

/* addresses (servers) of servers, copied; NULL: none is known. More servers may be told of, servers_max in all. NULL when out of memory. */
struct partition_map *partition_map_create(uint32_t partitions, uint32_t servers, uint32_t servers_max,
                                           const char *const *addresses);
void partition_map_destroy(struct partition_map *m);
/* Of a partition, or the ledger. */
struct partition_place partition_map_find(struct partition_map *m, uint32_t partition, uint64_t *revision);
/* Where a server listens, to out (WEIR_ADDRESS_BYTES_MAX); false: that is not known. */
bool partition_map_address(struct partition_map *m, uint32_t server, char *out);
/* It listens there now. Out of memory: nothing has changed. */
void partition_map_set_address(struct partition_map *m, uint32_t server, const char *address);
/* What is known of one partition, or of the ledger (JOURNAL_LEDGER), however: an epoch older than its present one changes nothing. */
void partition_map_set(struct partition_map *m, uint32_t partition, struct partition_place place);
/* Every change up to this revision has been set; it never goes back. */
void partition_map_advance(struct partition_map *m, uint64_t revision);
/* Calls `use` with all of it, which stays as it is during the call. */
void partition_map_show(struct partition_map *m, void (*use)(void *arg, const Weir__V1__PartitionMap *map), void *arg);

#endif
