/* Servers that replicate, for tests and benchmarks of what goes between them: real replicas (replica.h) with logs in memory, links and intakes over any transport,
 * and a coordinator that answers at once. There are no rows: a partition is its log. Server 0 is the primary of all. */
#ifndef REPLICA_NODE_H
#define REPLICA_NODE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/replication/replica_intake.h"
#include "server/replication/replica_link.h"

#define NODES               3u
#define NODE_PARTITIONS     4u
#define NODE_STREAMS_MAX    64u
#define NODE_GENERATION     7u
#define NODE_INCARNATION(i) (100u + (i))
extern const uint8_t node_uuid[16];

struct node_event {
	enum { NODE_READ, NODE_CHANGED, NODE_PROMISED, NODE_STORED } kind;
	uint64_t epoch, last;
};

/* A replica of one partition. Its node's home loop. */
struct node_replica {
	struct node *node;
	uint16_t partition;
	struct replica *r;
	struct log *log;
	struct replica_actions out;
	struct node_event events[2 * REPLICA_ACTIONS_MAX]; /* (events_count) what is still to be told */
	uint32_t events_count;
	const struct replica_wire *incoming;
};

struct node {
	struct node_world *world;
	uint16_t id;
	struct rpc_loop *home, *door; /* of the replicas; of connections. Maybe the same */
	struct rpc_server *server;
	struct replica_intake intake;
	struct replica_links *links;
	struct heartbeat heartbeat;
	struct node_replica replicas[NODE_PARTITIONS];
	char address[WEIR_ADDRESS_BYTES_MAX];
	bool stopping;
	/* What tests want of it; home's. */
	bool twice;         /* every message comes twice */
	uint32_t lose_each; /* every so many-th message is lost; 0: none */
	uint32_t received;  /* messages, and the last one */
	struct replica_message last;
	uint32_t rooms;                               /* times that room came back */
	struct rpc_stream *streams[NODE_STREAMS_MAX]; /* (streams_count) links from others; the door's */
	uint32_t streams_count;
	/* Guarded by the world's lock. */
	uint32_t busy; /* streams */
	uint64_t stored[NODE_PARTITIONS], commit[NODE_PARTITIONS];
	bool serves[NODE_PARTITIONS];
};

struct node_world {
	const char *transport; /* "memory", "unix" */
	struct rpc *rpc;
	char directory[64];
	uint32_t addresses;
	struct node nodes[NODES];
	pthread_mutex_t lock;
	pthread_cond_t changed; /* something that the lock guards */
	struct replica_record records[NODE_PARTITIONS];
};

/* Three nodes whose connections have loops of their own, or not; node 0 serves. Of those that are not in `live` (a bit each) nothing is there yet. */
void world_open(struct node_world *w, const char *transport, bool doors, uint32_t live);
void world_close(struct node_world *w);
/* Begins to listen, at another address than before; and begins to replicate, the first time. */
void node_start(struct node *n);
void node_stop_server(struct node *n);

/* As of replica_links_options; arg: a node. */
bool node_address(void *arg, uint16_t server, char *out);

/* Appends an entry to a partition; takes e->message over. On node 0's home, while it serves. */
void node_append(struct node *n, uint16_t partition, struct log_entry *e);
/* Waits until all nodes know that so much is committed. */
void world_wait_commit(struct node_world *w, uint16_t partition, uint64_t index);
/* Until this one has so much in its log. */
void node_wait_stored(struct node *n, uint16_t partition, uint64_t index);
/* Waits until node 0 serves every partition. */
void world_wait_serving(struct node_world *w);

#endif
