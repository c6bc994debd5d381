#include "tests/unit/server/service/service_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/key_partition.h"

static const char *const addresses[CLUSTER_SERVERS_MAX] = {"memory:server-0", "memory:server-1", "memory:server-2",
                                                           "memory:server-3", "memory:server-4"};

const char *cluster_address(uint32_t server)
{
	return addresses[server];
}

uint64_t cluster_process_id(uint32_t server)
{
	return 0xb007000000000000 + server;
}

void cluster_open(struct cluster *k, uint32_t servers, uint32_t executors)
{
	cluster_open_over(k, rpc_memory_create(NULL), addresses, servers, executors);
}

void cluster_open_over(struct cluster *k, struct rpc *rpc, const char *const *places, uint32_t servers, uint32_t executors)
{
	*k = (struct cluster){.rpc = rpc, .count = servers};
	uint32_t partition_server[CLUSTER_PARTITIONS];
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		partition_server[p] = placement_server(p, servers);
	struct ledger_options ledger = {.clock = clock_system(),
	                                .entropy = entropy_system(),
	                                .generation = RECORDS_GENERATION,
	                                .lease_ms = 4000,
	                                .passes = 1,
	                                .partitions = CLUSTER_PARTITIONS,
	                                .servers_count = servers,
	                                .servers = places,
	                                .partition_server = partition_server};
	memcpy(ledger.uuid, records_uuid, 16);
	for (uint32_t i = 0; i < servers; i++) {
		char name[32];
		snprintf(name, sizeof name, "server-%u", i);
		struct server_options o = {.rpc = k->rpc,
		                           .clock = clock_system(),
		                           .name = name,
		                           .listen = places[i],
		                           .generation = RECORDS_GENERATION,
		                           .process_id = cluster_process_id(i),
		                           .index = i,
		                           .servers = servers,
		                           .partitions = CLUSTER_PARTITIONS,
		                           .addresses = places,
		                           .executors = executors,
		                           .ledger = i == 0 ? &ledger : NULL};
		memcpy(o.uuid, records_uuid, 16);
		weir_error err = {0};
		if (server_create(&k->servers[i], &o, &err))
			fail_msg("%s", err.text);
	}
}

void cluster_close(struct cluster *k)
{
	for (uint32_t i = 0; i < k->count; i++)
		server_destroy(k->servers[i]);
	rpc_destroy(k->rpc);
}

Weir__V1__JobId cluster_job(uint64_t generation)
{
	Weir__V1__JobId job = WEIR__V1__JOB_ID__INIT;
	job.uuid = (ProtobufCBinaryData){.len = 16, .data = (uint8_t *)(uintptr_t)records_uuid};
	job.generation = generation;
	return job;
}

/* *partitions: one bit for each partition that has the table now. */
static weir_status register_table(struct client *c, uint32_t id, weir_mode_kind mode, uint32_t width, uint32_t *partitions,
                                  weir_error *err)
{
	bool dense = width == 0;
	const weir_init_segment zero = {.elements = dense ? (uint64_t)CLUSTER_DENSE_CHUNKS * WEIR_CHUNK : width,
	                                .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = dense ? WEIR_DENSE : WEIR_EMBEDDING,
	                        .width = width,
	                        .elements = dense ? zero.elements : 0,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .mode = {.kind = mode},
	                        .segments_count = 1,
	                        .segments = &zero};
	snprintf(spec.name, sizeof spec.name, "table-%u", id);
	struct wire_table table;
	assert_int_equal(wire_table_make(&table, &spec, id), WEIR_OK);
	Weir__V1__JobId job = cluster_job(RECORDS_GENERATION);
	Weir__V1__RegisterTableRequest q = WEIR__V1__REGISTER_TABLE_REQUEST__INIT;
	q.job = &job;
	q.table = &table.table;
	ProtobufCMessage *m;
	weir_status status = client_call(c, RPC_REGISTER_TABLE, &q.base, &weir__v1__register_table_reply__descriptor, &m, err);
	wire_table_destroy(&table);
	if (status)
		return status;
	const Weir__V1__RegisterTableReply *reply = (const Weir__V1__RegisterTableReply *)m;
	status = (weir_status)reply->status->code;
	if (status)
		weir_fail(err, status, "%s", reply->status->text);
	*partitions = 0;
	for (size_t i = 0; i < reply->n_partitions; i++)
		*partitions |= 1u << reply->partitions[i];
	wire_destroy(m);
	return status;
}

weir_status cluster_register_width(struct client *c, uint32_t width, weir_error *err)
{
	uint32_t partitions;
	return register_table(c, CLUSTER_ASYNC, WEIR_ASYNC, width, &partitions, err);
}

uint32_t cluster_register_embeddings(struct client *c)
{
	weir_error err = {0};
	uint32_t async = 0, sync = 0;
	if (register_table(c, CLUSTER_ASYNC, WEIR_ASYNC, CLUSTER_WIDTH, &async, &err) ||
	    register_table(c, CLUSTER_SYNC, WEIR_SYNC, CLUSTER_WIDTH, &sync, &err))
		fail_msg("%s", err.text);
	return async & sync;
}

uint32_t cluster_register(struct client *c)
{
	weir_error err = {0};
	uint32_t embeddings = cluster_register_embeddings(c), dense;
	if (register_table(c, CLUSTER_DENSE, WEIR_ASYNC, 0, &dense, &err))
		fail_msg("%s", err.text);
	return embeddings & dense;
}

uint64_t cluster_key(uint16_t table, uint32_t partition, uint32_t i)
{
	for (uint64_t key = 0;; key++)
		if (placement_embedding(table, key, CLUSTER_PARTITIONS) == partition && i-- == 0)
			return key;
}

struct rows cluster_row(uint16_t table, const uint64_t *key, const float *values)
{
	return (struct rows){.table = table,
	                     .width = CLUSTER_WIDTH,
	                     .count = 1,
	                     .keys = key,
	                     .values = values,
	                     .values_count = values ? CLUSTER_WIDTH : 0};
}

struct message *cluster_frame(const struct record *r, uint16_t table, uint64_t key, float v, bool push)
{
	float values[CLUSTER_WIDTH];
	for (uint32_t i = 0; i < CLUSTER_WIDTH; i++)
		values[i] = v;
	struct rows rows = cluster_row(table, &key, push ? values : NULL);
	struct record_writer *w = record_writer_create();
	records_add(w, r, &rows, 1);
	struct message *frame = records_finish(w);
	record_writer_destroy(w);
	return frame;
}

struct record cluster_push(uint32_t unit, uint32_t batch, uint32_t partition, uint64_t id)
{
	return (struct record){.kind = RECORD_PUSH,
	                       .partition = (uint16_t)partition,
	                       .request_id = id,
	                       .pass = 1,
	                       .unit = unit,
	                       .attempt = 1,
	                       .batch = batch};
}

void cluster_open_with_client(struct cluster *k, struct client *c, uint32_t servers, uint32_t executors, enum rpc_method stream)
{
	cluster_open(k, servers, executors);
	client_open(c, k->rpc, cluster_address(servers - 1), stream);
	cluster_register(c);
}

void cluster_close_with_client(struct cluster *k, struct client *c)
{
	client_close(c);
	cluster_close(k);
}

float cluster_pull_one(struct client *c, uint32_t partition, uint16_t table, uint64_t key, uint64_t id)
{
	struct record r = {.kind = RECORD_PULL, .partition = (uint16_t)partition, .request_id = id};
	uint32_t before = client_answers(c);
	client_send(c, cluster_frame(&r, table, key, 0, false));
	client_wait(c, before + 1);
	const struct answer *a = client_answer(c, id, FRAME_PARTITION_ALL);
	assert_int_equal(a->record.status, WEIR_OK);
	assert_int_equal(a->bytes, CLUSTER_WIDTH * sizeof(float));
	float value;
	memcpy(&value, a->data, sizeof value);
	return value;
}

ProtobufCMessage *cluster_status(struct client *c)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m;
	weir_error err = {0};
	if (client_call(c, RPC_STATUS, &q.base, &weir__v1__server_status__descriptor, &m, &err))
		fail_msg("%s", err.text);
	return m;
}
