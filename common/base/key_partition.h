/* The placement of rows: which partition owns a row, and which server a partition. Part of the
 * on-disk format. */
#ifndef WEIR_KEY_PARTITION_H
#define WEIR_KEY_PARTITION_H

#include <stdint.h>

#include "common/base/hash.h"

/* Embedding rows are placed by a hash of (table, key). */
static inline uint32_t placement_embedding(uint32_t table, uint64_t key, uint32_t partitions)
{
	uint64_t h = hash_u64(key + 0x9e3779b97f4a7c15ull * (table + 1u));
	return (uint32_t)(((h >> 32) * partitions) >> 32);
}

/* Dense chunks are placed round-robin. Each table starts at another partition, so that many small
 * tables spread too. */
static inline uint32_t placement_dense(uint32_t table, uint64_t chunk, uint32_t partitions)
{
	return (uint32_t)((chunk + table) % partitions);
}

/* Static coordination: partition to server, round-robin. */
static inline uint32_t placement_server(uint32_t partition, uint32_t servers)
{
	return partition % servers;
}
/* The server of a partition's i-th replica: the i-th one after the partition's server. */
static inline uint32_t placement_replica(uint32_t partition, uint32_t i, uint32_t servers)
{
	return (placement_server(partition, servers) + i) % servers;
}

#endif
