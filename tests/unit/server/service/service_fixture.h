/* Servers over the in-memory transport, with one embedding table and one synchronous table. */
#ifndef TEST_SERVICE_FIXTURE_H
#define TEST_SERVICE_FIXTURE_H

#include "server/service/server.h"
#include "tests/unit/server/client.h"

#define CLUSTER_SERVERS_MAX 5u
#define CLUSTER_PARTITIONS  10u
#define CLUSTER_WIDTH       8u
enum { CLUSTER_ASYNC = 1, CLUSTER_SYNC = 2, CLUSTER_DENSE = 3 };
#define CLUSTER_DENSE_CHUNKS 12u

struct cluster {
	struct rpc *rpc;
	struct server *servers[CLUSTER_SERVERS_MAX];
	uint32_t count;
};

void cluster_open(struct cluster *k, uint32_t servers, uint32_t executors);
/* The same over a transport that the cluster takes ownership of, at the given addresses. */
void cluster_open_over(struct cluster *k, struct rpc *rpc, const char *const *places, uint32_t servers, uint32_t executors);
void cluster_close(struct cluster *k);
const char *cluster_address(uint32_t server);
uint64_t cluster_process_id(uint32_t server);
/* Registers the tables through a client of a server. Returns one bit for each partition that has
 * them now, those that the server is primary of. */
uint32_t cluster_register(struct client *c);
/* Without the dense table, which needs memory. */
uint32_t cluster_register_embeddings(struct client *c);
weir_status cluster_register_width(struct client *c, uint32_t width, weir_error *err);
/* The i-th key that belongs to a partition. */
uint64_t cluster_key(uint16_t table, uint32_t partition, uint32_t i);
/* A generation of the servers' job. */
Weir__V1__JobId cluster_job(uint64_t generation);
/* One row of CLUSTER_WIDTH. values NULL: the key only. */
struct rows cluster_row(uint16_t table, const uint64_t *key, const float *values);
/* A frame of one record with one row whose CLUSTER_WIDTH elements are v. push false: the key
 * only. */
struct message *cluster_frame(const struct record *r, uint16_t table, uint64_t key, float v, bool push);
/* A push of one batch in the first pass. */
struct record cluster_push(uint32_t unit, uint32_t batch, uint32_t partition, uint64_t id);
/* Servers, and a client with a stream to the last one. It has registered the tables. */
void cluster_open_with_client(struct cluster *k, struct client *c, uint32_t servers, uint32_t executors, enum rpc_method stream);
void cluster_close_with_client(struct cluster *k, struct client *c);
/* Pulls one row, and returns its first element. */
float cluster_pull_one(struct client *c, uint32_t partition, uint16_t table, uint64_t key, uint64_t id);
/* The caller frees it. */
ProtobufCMessage *cluster_status(struct client *c);

#endif
