/* Servers with replicated partitions over the in-memory transport. Tests kill and restart them.
 * Batches of integers go to all partitions, one batch after the other, each until the primary has
 * replied. */
#ifndef TEST_WORLD_FIXTURE_H
#define TEST_WORLD_FIXTURE_H

#include <stdio.h>

#include "server/service/server_internal.h"
#include "tests/folder.h"
#include "tests/unit/server/service/service_fixture.h"

enum { WORLD_SERVERS = 3, WORLD_KEYS = 3 };

/* Zeros: logs in memory, and no limits. */
struct world_setting {
	uint32_t executors;
	bool on_disk;
	uint32_t replicas, min_isr;
	uint64_t memory_bytes;  /* of rows, with logs on disk; 0: no limit */
	uint64_t backlog_bytes; /* as in server_options */
	uint64_t catch_up_bytes_per_s;
	uint32_t ack;               /* as in server_options */
	uint32_t fsync_interval_ms; /* 0: 5 */
	uint32_t scrub_interval_ms; /* 0: on command only */
	uint32_t keys;              /* keys per partition that batches use in turn; 0: WORLD_KEYS */
	bool dense;                 /* some batches push to the dense table, so more bytes replicate */
};

/* A push in progress: its server and its request id. */
struct attempt {
	uint32_t server;
	uint64_t id;
	bool waits;
};

struct world {
	struct rpc *rpc;
	struct coord_memory *coordinator;
	FILE *lines; /* errors that the servers log */
	struct logger *logger;
	char folder[FOLDER_BYTES];                /* of logs on disk; "": logs in memory */
	struct faulty_disk *disks[WORLD_SERVERS]; /* of the vote stores when logs are in memory */
	struct server *servers[WORLD_SERVERS];    /* NULL: killed */
	struct client clients[WORLD_SERVERS];     /* of running servers */
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
void world_lose_disk(struct world *w, uint32_t server); /* discards the data of a killed server */
void world_restart(struct world *w, uint32_t server);   /* requires: killed */

/* Pushes a batch into every partition. kill: a server to kill meanwhile; WORLD_SERVERS: none. */
void world_push_batch(struct world *w, uint32_t kill);
void world_push_batches(struct world *w, uint32_t count);
/* The negated value that a batch adds to its row, and its table. */
float world_gradient(uint32_t batch);
bool world_is_dense(const struct world *w, uint32_t batch);
uint64_t world_first_chunk(uint32_t partition); /* of the dense table */

/* Totals of one server, or of all running servers. Partitions count as their primaries see them. */
struct world_totals {
	uint32_t partitions, in_sync;
	uint64_t parts, fingerprint, twice;
	uint64_t scrubs, differ;
	uint32_t primary[CLUSTER_PARTITIONS];
};
void world_add_status(struct world *w, uint32_t server, struct world_totals *t);
struct world_totals world_totals(struct world *w);
/* Waits until each partition has one primary, and `replicas_min` replicas in all are in sync. */
struct world_totals world_await_in_sync(struct world *w, uint32_t replicas_min);

bool world_is_host(const struct world *w, uint32_t partition, uint32_t server);
/* The next running one. */
uint32_t world_other_host(const struct world *w, uint32_t partition, uint32_t server);
bool world_is_alive(const struct world *w, uint32_t partition); /* a running server has a replica */
uint32_t world_count_alive(const struct world *w);              /* number of such partitions */

#endif
