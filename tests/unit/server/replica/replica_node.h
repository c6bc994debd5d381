/* Servers that replicate, for tests and benchmarks of the traffic between them: real replicas
 * (replica.h) with logs in memory, links and intakes over any transport, and a coordinator that
 * answers at once. A partition is its log, without rows. Server 0 is the primary of all. */
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

/* A replica of one partition. Owned by its node's home loop. */
struct node_replica {
	struct node *node;
	uint16_t partition;
	struct replica *r;
	struct log *log;
	struct replica_actions out;
	struct node_event events[2 * REPLICA_ACTIONS_MAX]; /* (events_count) not reported yet */
	uint32_t events_count;
	const struct replica_wire *incoming;
};

struct node {
	struct node_world *world;
	uint16_t id;
	struct rpc_loop *home, *door; /* the loops of replicas and of connections, maybe the same */
	struct rpc_server *server;
	struct replica_intake intake;
	struct replica_links *links;
	struct heartbeat heartbeat;
	struct node_replica replicas[NODE_PARTITIONS];
	char address[WEIR_ADDRESS_BYTES_MAX];
	bool stopping;
	/* Faults for tests, and counters. Owned by home. */
	bool twice;         /* every message arrives twice */
	uint32_t lose_each; /* every n-th message is lost; 0: none */
	uint32_t received;  /* messages; `last` is the last one */
	struct replica_message last;
	uint32_t rooms;                               /* callbacks that a link has room again */
	struct rpc_stream *streams[NODE_STREAMS_MAX]; /* (streams_count) links from others; of door */
	uint32_t streams_count;
	/* Guarded by the world's lock. */
	uint32_t busy; /* open streams */
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
	pthread_cond_t changed; /* signals changes of the guarded fields */
	struct replica_record records[NODE_PARTITIONS];
};

/* Opens three nodes, with loops of their own for connections or not. Node 0 serves. Nodes that are
 * not in `live` (one bit each) do not start. */
void world_open(struct node_world *w, const char *transport, bool doors, uint32_t live);
void world_close(struct node_world *w);
/* Listens at a new address, and the first time also starts to replicate. */
void node_start(struct node *n);
void node_stop_server(struct node *n);

/* As in replica_links_options. `arg` is a node. */
bool node_address(void *arg, uint16_t server, char *out);

/* Appends an entry to a partition and takes ownership of e->message. Call on node 0's home loop
 * while it serves. */
void node_append(struct node *n, uint16_t partition, struct log_entry *e);
/* Waits until all nodes know that index is committed. */
void world_wait_commit(struct node_world *w, uint16_t partition, uint64_t index);
/* Waits until the node has index in its log. */
void node_wait_stored(struct node *n, uint16_t partition, uint64_t index);
/* Waits until node 0 serves every partition. */
void world_wait_serving(struct node_world *w);

#endif
