#include "tests/unit/worker/client/mover.h"

#include <assert.h>

#include "common/base/key_partition.h"
#include "server/service/server_internal.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/worker/client/partition_copy.h"

/* Runs it on the loop that owns the server's partitions. */
static void run_on(struct server *s, void (*run)(void *arg), void *arg)
{
	assert(s->options.executors == 1);
	on_loop(s->executors[0].loop, run, arg);
}

struct move {
	struct server *server;
	uint32_t partition;
	uint64_t epoch;
	struct partition *copy;
};

static void copy(void *arg)
{
	struct move *m = arg;
	m->copy = partition_copy(m->server->partitions[m->partition], m->epoch);
}

static void take(void *arg)
{
	struct move *m = arg;
	partition_step_down(m->server->partitions[m->partition]);
	copy(m);
}

static void give(void *arg)
{
	struct move *m = arg;
	partition_destroy(m->server->partitions[m->partition]);
	m->server->partitions[m->partition] = m->copy;
}

void mover_open(struct mover *m, struct cluster *c)
{
	*m = (struct mover){.cluster = c, .revision = 1};
	for (uint32_t p = 0; p < c->partitions; p++) {
		m->place[p] = placement_server(p, c->servers_count);
		m->epoch[p] = 1;
	}
}

static void take_by(struct mover *m, uint32_t partition, void (*how)(void *arg))
{
	struct move move = {
	    .server = m->cluster->servers[m->place[partition]], .partition = partition, .epoch = ++m->epoch[partition]};
	run_on(move.server, how, &move);
	m->taken[partition] = move.copy;
}

void mover_take(struct mover *m, uint32_t partition)
{
	take_by(m, partition, take);
}

void mover_copy(struct mover *m, uint32_t partition)
{
	take_by(m, partition, copy);
}

void mover_give(struct mover *m, uint32_t partition, uint32_t to)
{
	struct move move = {.server = m->cluster->servers[to], .partition = partition, .copy = m->taken[partition]};
	run_on(move.server, give, &move);
	m->place[partition] = to;
	m->taken[partition] = NULL;
	m->revision++;
}

void mover_drop_old(struct mover *m, uint32_t partition, uint32_t server)
{
	struct move move = {.server = m->cluster->servers[server], .partition = partition};
	run_on(move.server, give, &move);
}

void mover_tell(struct mover *m, uint32_t server)
{
	struct partition_map *map = m->cluster->servers[server]->map;
	for (uint32_t p = 0; p < m->cluster->partitions; p++)
		partition_map_set(map, p, (struct partition_place){.server = m->place[p], .epoch = m->epoch[p]});
	partition_map_advance(map, m->revision);
}

void mover_move(struct mover *m, uint32_t partition, uint32_t to)
{
	const uint32_t from = m->place[partition];
	mover_take(m, partition);
	mover_give(m, partition, to);
	mover_tell(m, to);
	mover_tell(m, from);
	if (from != to)
		mover_drop_old(m, partition, from);
}
