#include "server/context/partition_map.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "server/log/journal.h"

struct partition_map {
	pthread_mutex_t lock;
	Weir__V1__PartitionMap message; /* owns what it points to; its servers: (servers_max) */
	uint32_t servers_max;
	struct map_replicas {
		Weir__V1__InSync message; /* owned likewise */
		uint32_t servers[WEIR_REPLICAS_MAX];
	} replicas[]; /* (partitions) */
};

static void copy_addresses(struct partition_map *m, uint32_t servers, const char *const *addresses)
{
	for (uint32_t i = 0; m->message.servers && i < m->servers_max; i++)
		m->message.servers[i] = strdup(addresses && i < servers ? addresses[i] : "");
}

static bool is_whole(const struct partition_map *m)
{
	bool whole = m->message.servers && m->message.server && m->message.epoch && m->message.in_sync;
	for (uint32_t i = 0; whole && i < m->servers_max; i++)
		whole = m->message.servers[i] != NULL;
	return whole;
}

struct partition_map *partition_map_create(uint32_t partitions, uint32_t servers, uint32_t servers_max,
                                           const char *const *addresses)
{
	assert(servers <= servers_max);
	struct partition_map *m = calloc(1, sizeof *m + partitions * sizeof *m->replicas);
	if (!m)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	weir__v1__partition_map__init(&m->message);
	m->message.revision = 1;
	m->message.n_servers = servers;
	m->message.n_server = m->message.n_epoch = partitions;
	m->servers_max = servers_max;
	m->message.servers = calloc(servers_max, sizeof *m->message.servers);
	m->message.server = calloc(partitions, sizeof *m->message.server);
	m->message.epoch = calloc(partitions, sizeof *m->message.epoch);
	m->message.in_sync = calloc(partitions, sizeof *m->message.in_sync);
	copy_addresses(m, servers, addresses);
	if (!is_whole(m)) {
		partition_map_destroy(m);
		return NULL;
	}
	for (uint32_t p = 0; p < partitions; p++) {
		m->message.server[p] = placement_server(p, servers);
		m->message.in_sync[p] = &m->replicas[p].message;
		weir__v1__in_sync__init(&m->replicas[p].message);
		m->replicas[p].message.server = m->replicas[p].servers;
	}
	return m;
}

void partition_map_destroy(struct partition_map *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; m->message.servers && i < m->servers_max; i++)
		free(m->message.servers[i]);
	free(m->message.servers);
	free(m->message.server);
	free(m->message.epoch);
	free(m->message.in_sync);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static uint32_t *server_of(struct partition_map *m, uint32_t partition)
{
	return partition == JOURNAL_LEDGER ? &m->message.ledger : &m->message.server[partition];
}

static uint64_t *epoch_of(struct partition_map *m, uint32_t partition)
{
	return partition == JOURNAL_LEDGER ? &m->message.ledger_epoch : &m->message.epoch[partition];
}

struct partition_place partition_map_find(struct partition_map *m, uint32_t partition, uint64_t *revision)
{
	pthread_mutex_lock(&m->lock);
	assert(partition < m->message.n_server || partition == JOURNAL_LEDGER);
	struct partition_place place = {.server = *server_of(m, partition), .epoch = *epoch_of(m, partition)};
	*revision = m->message.revision;
	pthread_mutex_unlock(&m->lock);
	return place;
}

bool partition_map_address(struct partition_map *m, uint32_t server, char *out)
{
	pthread_mutex_lock(&m->lock);
	assert(server < m->servers_max);
	snprintf(out, WEIR_ADDRESS_BYTES_MAX, "%s", m->message.servers[server]);
	pthread_mutex_unlock(&m->lock);
	return out[0];
}

/* Requires the lock. */
static void cover(struct partition_map *m, uint32_t server)
{
	if (m->message.n_servers <= server)
		m->message.n_servers = server + 1;
}

void partition_map_set_address(struct partition_map *m, uint32_t server, const char *address)
{
	pthread_mutex_lock(&m->lock);
	assert(server < m->servers_max);
	char *copy = strdup(address);
	if (copy) {
		free(m->message.servers[server]);
		m->message.servers[server] = copy;
		cover(m, server);
	}
	pthread_mutex_unlock(&m->lock);
}

/* The map lists the in-sync sets of all partitions, or of none. */
static void set_in_sync(struct partition_map *m, uint32_t partition, const struct member_set *in_sync)
{
	struct map_replicas *r = &m->replicas[partition];
	r->message.n_server = in_sync->count;
	for (uint32_t i = 0; i < in_sync->count; i++)
		r->servers[i] = in_sync->ids[i];
	if (in_sync->count)
		m->message.n_in_sync = m->message.n_server;
}

void partition_map_set(struct partition_map *m, uint32_t partition, struct partition_place place)
{
	pthread_mutex_lock(&m->lock);
	assert(partition < m->message.n_server || partition == JOURNAL_LEDGER);
	assert(place.server < m->servers_max || place.server == WEIR_SERVER_NONE);
	if (place.epoch >= *epoch_of(m, partition)) {
		if (place.server != WEIR_SERVER_NONE)
			cover(m, place.server);
		*server_of(m, partition) = place.server;
		*epoch_of(m, partition) = place.epoch;
		if (partition != JOURNAL_LEDGER)
			set_in_sync(m, partition, &place.in_sync);
	}
	pthread_mutex_unlock(&m->lock);
}

void partition_map_advance(struct partition_map *m, uint64_t revision)
{
	pthread_mutex_lock(&m->lock);
	if (revision > m->message.revision)
		m->message.revision = revision;
	pthread_mutex_unlock(&m->lock);
}

void partition_map_show(struct partition_map *m, void (*use)(void *arg, const Weir__V1__PartitionMap *map), void *arg)
{
	pthread_mutex_lock(&m->lock);
	use(arg, &m->message);
	pthread_mutex_unlock(&m->lock);
}
