/* Servers whose partitions and ledger move while clients push integers. */
#ifndef WEIR_TESTS_MOVE_FIXTURE_H
#define WEIR_TESTS_MOVE_FIXTURE_H

#include "cli/core/layout.h"
#include "server/service/server_internal.h"
#include "tests/unit/worker/client/cluster.h"

enum {
	SERVERS = 3,
	PARTITIONS = 6,
	REPLICAS = 2,
	MOVES = 12,
	KEYS_PUSHED = 24,
	PUSHES_MAX = 400000,
	UNIT_PUSHES = 100,
	PUSH_PAUSE_NS = 500000, /* after each, so that other tests have processor time */
	SOME_PUSHES = 50,
	QUIET_MS = 60000
};

/* --- Pushing, one batch at a time */

struct push {
	int64_t from_ns, to_ns;
};

struct pusher {
	weir_client *client;
	uint32_t table;
	pthread_t id;
	struct push *pushes; /* (PUSHES_MAX) */
	float sum;           /* pushed to every key */
	weir_error err;
	pthread_mutex_t lock;
	pthread_cond_t pushed;
	/* The lock guards these: */
	uint32_t count; /* of `pushes` */
	bool stop, ended;
	weir_status status;
};

struct world {
	struct cluster cluster;
	struct layout_asker *asker;
	struct layout layout;
	struct layout_plan plan;
	struct pusher pusher;
};

uint32_t pushes_so_far(struct pusher *p);
/* Waits for a few more pushes, so that every move has pushes after it. */
void await_pushes(struct world *w, uint32_t count);

/* --- The job */

const struct layout *look(struct world *w);
/* Waits until every partition and the ledger have a primary and all replicas in sync. */
void await_whole(struct world *w);
/* All replicas are in sync and have pushes. */
struct world *open_world(uint32_t executors, const char *folder);
void close_world(struct world *w);
void carry_out(struct world *w);
void rebalance(struct world *w);
void move(struct world *w, uint32_t partition, uint32_t to);
/* A server without a replica of the partition. */
uint32_t absent(const struct layout *l, uint32_t partition);
void await_ledger(struct server *s, bool is_here);

#endif
