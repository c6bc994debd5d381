/* Servers whose partitions have replicas on one another, over the in-memory transport. They die and come back; batches of integers are pushed into all partitions,
 * one batch after the other, each until whoever is primary has answered it. */
#ifndef TEST_WORLD_FIXTURE_H
#define TEST_WORLD_FIXTURE_H

#include <stdio.h>

#include "server/service/server_internal.h"
#include "tests/unit/server/folder.h"
#include "tests/unit/server/service/service_fixture.h"

enum { WORLD_SERVERS = 3, WORLD_KEYS = 3 };

/* Of the servers; zeros: logs in memory, and of everything as much as there is. */
struct world_setting {
	uint32_t executors;
	bool on_disk;
	uint32_t replicas, min_isr;
	uint64_t memory_bytes;  /* on disk: 0: all rows stay in memory */
	uint64_t backlog_bytes; /* as in server_options */
	uint64_t catch_up_bytes_per_s;
	uint32_t ack;               /* as in server_options */
	uint32_t fsync_interval_ms; /* 0: 5 */
	uint32_t scrub_interval_ms; /* 0: on command alone */
	uint32_t keys;              /* of each partition that batches go to, in turn; 0: WORLD_KEYS */
	bool dense;                 /* some batches go to the dense table: much to send */
};

/* A push on its way: to which server, under which request id. */
struct attempt {
	uint32_t server;
	uint64_t id;
	bool waits;
};

struct world {
	struct rpc *rpc;
	struct coord_memory *coordinator;
	FILE *lines; /* of all servers' logs, errors alone */
	struct logger *logger;
	char folder[FOLDER_BYTES];                /* with logs on disk; "": they are in memory, and */
	struct faulty_disk *disks[WORLD_SERVERS]; /* promises here */
	struct server *servers[WORLD_SERVERS];    /* NULL: dead */
	struct client clients[WORLD_SERVERS];     /* of the living */
	struct world_setting setting;
	uint32_t boots;
	uint64_t requests;
	struct attempt attempts[CLUSTER_PARTITIONS];
	uint32_t batches;
};

struct world *world_open(const struct world_setting *setting); /* with its tables registered */
void world_close(struct world *w);

void world_start(struct world *w, uint32_t server);
void world_kill(struct world *w, uint32_t server);
void world_lose_disk(struct world *w, uint32_t server); /* what a dead one had, on whatever */
void world_restart(struct world *w, uint32_t server);   /* one that was killed */

/* A batch into every partition. kill: a server that dies while it is under way; WORLD_SERVERS: none. */
void world_push_batch(struct world *w, uint32_t kill);
void world_push_batches(struct world *w, uint32_t count);
/* What a batch adds to its row, negated; and where it goes. */
float world_gradient(uint32_t batch);
bool world_is_dense(const struct world *w, uint32_t batch);
uint64_t world_first_chunk(uint32_t partition); /* of the dense table */

/* Of one server, or of all that live; of partitions as their primaries see them. */
struct world_totals {
	uint32_t partitions, in_sync;
	uint64_t parts, fingerprint, twice;
	uint64_t scrubs, differ;
	uint32_t primary[CLUSTER_PARTITIONS];
};
void world_add_status(struct world *w, uint32_t server, struct world_totals *t);
struct world_totals world_totals(struct world *w);
/* Once each partition has one primary, and so many replicas of all together are in sync. */
struct world_totals world_await_in_sync(struct world *w, uint32_t replicas_min);

bool world_is_host(const struct world *w, uint32_t partition, uint32_t server);
uint32_t world_other_host(const struct world *w, uint32_t partition, uint32_t server); /* the next one that lives */
bool world_is_alive(const struct world *w, uint32_t partition);                        /* it has a replica that lives */
uint32_t world_count_alive(const struct world *w);                                     /* such partitions */

#endif
