/* The service over the in-memory transport: several clients, executors and servers at once; invalid
 * requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/key_partition.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/server/service/service_fixture.h"

static struct record push_of(uint32_t unit, uint32_t batch, uint32_t partition, uint64_t id)
{
	return (struct record){.kind = RECORD_PUSH,
	                       .partition = (uint16_t)partition,
	                       .request_id = id,
	                       .pass = 1,
	                       .unit = unit,
	                       .attempt = 1,
	                       .batch = batch};
}

/* Servers, and a client with a stream to the last one. It has registered the tables. */
static void begin(struct cluster *k, struct client *c, uint32_t servers, uint32_t executors, enum rpc_method stream)
{
	cluster_open(k, servers, executors);
	client_open(c, k->rpc, cluster_address(servers - 1), stream);
	cluster_register(c);
}

static void end(struct cluster *k, struct client *c)
{
	client_close(c);
	cluster_close(k);
}

static float pull_one(struct client *c, uint32_t partition, uint16_t table, uint64_t key, uint64_t id)
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

static ProtobufCMessage *server_status(struct client *c)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m;
	weir_error err = {0};
	if (client_call(c, RPC_STATUS, &q.base, &weir__v1__server_status__descriptor, &m, &err))
		fail_msg("%s", err.text);
	return m;
}

/* --- Integer gradients: the applied sum equals the acknowledged sum */

enum { PUSHERS = 4, BATCHES = 150 };
struct pusher {
	struct cluster *cluster;
	uint32_t number;
	pthread_t thread;
};

static void *push_integers(void *arg)
{
	struct pusher *p = arg;
	struct client push, pull;
	client_open(&push, p->cluster->rpc, cluster_address(0), RPC_PUSH_STREAM);
	client_open(&pull, p->cluster->rpc, cluster_address(0), RPC_PULL_STREAM);
	for (uint32_t batch = 0; batch < BATCHES; batch++) {
		struct record_writer *w = record_writer_create();
		for (uint32_t part = 0; part < CLUSTER_PARTITIONS; part++) {
			struct record r = push_of(p->number, batch, part, batch * CLUSTER_PARTITIONS + part);
			uint64_t key = cluster_key(CLUSTER_ASYNC, part, batch % 3);
			float values[CLUSTER_WIDTH];
			for (uint32_t i = 0; i < CLUSTER_WIDTH; i++)
				values[i] = -(float)(p->number + 1);
			struct rows rows = cluster_row(CLUSTER_ASYNC, &key, values);
			records_add(w, &r, &rows, 1);
		}
		struct message *frame = records_finish(w);
		record_writer_destroy(w);
		if (batch % 10 == 0) /* the same frame twice: one is refused as a duplicate */
			client_send(&push, message_retain(frame));
		client_send(&push, frame);
		if (batch % 25 == 0)
			(void)pull_one(&pull, batch % CLUSTER_PARTITIONS, CLUSTER_ASYNC,
			               cluster_key(CLUSTER_ASYNC, batch % CLUSTER_PARTITIONS, 0), batch);
		if (batch % 50 == 49) /* stay within the credit */
			client_wait(&push, (batch + 1 + (batch + 10) / 10) * CLUSTER_PARTITIONS);
	}
	client_close(&push);
	client_close(&pull);
	return NULL;
}

static void concurrent_integer_gradients_sum_up_exactly(uint32_t executors)
{
	struct cluster k;
	struct client c;
	begin(&k, &c, 1, executors, RPC_PULL_STREAM);
	struct pusher pushers[PUSHERS];
	for (uint32_t i = 0; i < PUSHERS; i++) {
		pushers[i] = (struct pusher){.cluster = &k, .number = i};
		assert_int_equal(pthread_create(&pushers[i].thread, NULL, push_integers, &pushers[i]), 0);
	}
	for (uint32_t i = 0; i < PUSHERS; i++)
		pthread_join(pushers[i].thread, NULL);
	for (uint32_t part = 0; part < CLUSTER_PARTITIONS; part++)
		for (uint32_t i = 0; i < 3; i++)
			assert_true(pull_one(&c, part, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, part, i), 1000 + part * 3 + i) ==
			            BATCHES / 3 * (1 + 2 + 3 + 4));
	ProtobufCMessage *m = server_status(&c);
	const Weir__V1__ServerStatus *status = (const Weir__V1__ServerStatus *)m;
	assert_int_equal(status->n_partitions, CLUSTER_PARTITIONS);
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++) {
		uint64_t fingerprint = 0;
		for (uint32_t unit = 0; unit < PUSHERS; unit++)
			for (uint32_t batch = 0; batch < BATCHES; batch++)
				fingerprint += frame_identity_hash(1, unit, batch, 0);
		assert_int_equal(status->partitions[p]->parts_applied, PUSHERS * BATCHES);
		assert_int_equal(status->partitions[p]->fingerprint, fingerprint);
		assert_int_equal(status->partitions[p]->parts_double, 0);
		assert_int_equal(status->partitions[p]->rows, 3);
	}
	assert_int_equal(status->duplicates_refused, PUSHERS * BATCHES / 10 * CLUSTER_PARTITIONS);
	assert_int_equal(status->n_tables, 3);
	assert_int_equal(status->tables[0]->pushes, PUSHERS * BATCHES * CLUSTER_PARTITIONS);
	uint64_t staleness = 0;
	for (size_t i = 0; i < status->tables[0]->n_staleness; i++)
		staleness += status->tables[0]->staleness[i];
	assert_int_equal(staleness, PUSHERS * BATCHES * CLUSTER_PARTITIONS);
	wire_free(m);
	end(&k, &c);
}

static void integers_sum_up_with_one_executor(void **state)
{
	(void)state;
	concurrent_integer_gradients_sum_up_exactly(1);
}

static void integers_sum_up_with_three_executors(void **state)
{
	(void)state;
	concurrent_integer_gradients_sum_up_exactly(3);
}

/* --- Invalid requests */

static void a_stream_beyond_its_credit_is_cut_off(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 1, 1, RPC_PULL_STREAM);
	/* Pulls that wait for a step: 600 fit the credit, 1,200 do not. */
	for (uint32_t frame = 0; frame < 2; frame++) {
		struct record_writer *w = record_writer_create();
		uint64_t key = cluster_key(CLUSTER_SYNC, 0, 0);
		struct rows rows = cluster_row(CLUSTER_SYNC, &key, NULL);
		for (uint32_t i = 0; i < 600; i++) {
			struct record r = {.kind = RECORD_PULL, .pull.step_least = 1, .request_id = i};
			records_add(w, &r, &rows, 1);
		}
		client_send(&c, records_finish(w));
		record_writer_destroy(w);
	}
	assert_int_equal(client_wait_closed(&c), WEIR_E_LIMIT);
	assert_non_null(strstr(c.text, "stream credit exceeded: 600 requests"));
	client_reopen(&c, RPC_PULL_STREAM); /* the server goes on */
	assert_true(pull_one(&c, 0, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 0, 0), 1) == 0);
	end(&k, &c);
}

/* A server without replicas has no peers. */
static void streams_between_servers_are_refused(void **state)
{
	(void)state;
	static const enum rpc_method methods[] = {RPC_HEARTBEAT, RPC_SNAPSHOT};
	struct cluster k;
	struct client c;
	begin(&k, &c, 1, 1, RPC_LINK);
	assert_int_equal(client_wait_closed(&c), WEIR_E_UNSUPPORTED);
	for (uint32_t i = 0; i < 2; i++) {
		client_reopen(&c, methods[i]);
		assert_int_equal(client_wait_closed(&c), WEIR_E_UNSUPPORTED);
		assert_non_null(strstr(c.text, "does not offer"));
	}
	client_reopen(&c, RPC_PULL_STREAM);
	assert_true(pull_one(&c, 0, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 0, 0), 1) == 0);
	end(&k, &c);
}

/* Copies a frame and changes one byte. */
static struct message *spoil(struct message *frame, size_t at)
{
	uint8_t *data;
	struct message *m = message_alloc(frame->bytes, &data);
	struct cursor c = cursor_at(frame);
	assert_int_equal(cursor_read(&c, data, frame->bytes), WEIR_OK);
	data[at] ^= 0x40;
	message_release(frame);
	return m;
}

static void corrupt_bytes_are_refused_and_the_server_lives_on(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 1, 1, RPC_PUSH_STREAM);
	uint64_t key = cluster_key(CLUSTER_ASYNC, 2, 0);
	struct record r = push_of(1, 0, 2, 77);
	const size_t data_at = FRAME_HEADER_BYTES + RECORD_HEADER_BYTES + SECTION_HEADER_BYTES + 8;
	client_send(&c, spoil(cluster_frame(&r, CLUSTER_ASYNC, key, -5, true), data_at));
	client_wait(&c, 1);
	assert_int_equal(client_answer(&c, 77, 2)->record.status, WEIR_E_CORRUPT);
	assert_non_null(strstr((const char *)client_answer(&c, 77, 2)->data, "crc"));
	r.request_id = 78;
	client_send(&c, cluster_frame(&r, CLUSTER_ASYNC, key, -5, true)); /* repeated, undamaged */
	client_wait(&c, 2);
	assert_int_equal(client_answer(&c, 78, 2)->record.status, WEIR_OK);
	/* The frame's own header. */
	client_send(&c, spoil(cluster_frame(&r, CLUSTER_ASYNC, key, -5, true), 8));
	assert_int_equal(client_wait_closed(&c), WEIR_E_CORRUPT);
	client_reopen(&c, RPC_PUSH_STREAM);
	/* The record's length. */
	client_send(&c, spoil(cluster_frame(&r, CLUSTER_ASYNC, key, -5, true), FRAME_HEADER_BYTES + 2));
	assert_int_equal(client_wait_closed(&c), WEIR_E_CORRUPT);
	client_reopen(&c, RPC_PULL_STREAM);
	assert_true(pull_one(&c, 2, CLUSTER_ASYNC, key, 80) == 5);
	ProtobufCMessage *m = server_status(&c);
	assert_int_equal(((const Weir__V1__ServerStatus *)m)->corrupt_refused, 3);
	wire_free(m);
	end(&k, &c);
}

static void another_generation_is_refused_naming_both(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	cluster_open(&k, 1, 1);
	client_open(&c, k.rpc, cluster_address(0), RPC_PUSH_STREAM);
	struct record_writer *w = record_writer_create();
	client_send(&c, record_writer_finish(w, records_uuid, RECORDS_GENERATION - 1, NULL, NULL));
	assert_int_equal(client_wait_closed(&c), WEIR_E_GENERATION);
	assert_non_null(strstr(c.text, "generation 2"));
	assert_non_null(strstr(c.text, "generation 3"));
	client_reopen(&c, RPC_PUSH_STREAM);
	client_send(&c, record_writer_finish(w, records_uuid, RECORDS_GENERATION + 4, NULL, NULL));
	/* The server is behind and will catch up. */
	assert_int_equal(client_wait_closed(&c), WEIR_E_UNAVAILABLE);
	assert_non_null(strstr(c.text, "generation 7"));
	client_reopen(&c, RPC_PUSH_STREAM);
	client_send(&c, record_writer_finish(w, (const uint8_t *)"another-job-uuid", RECORDS_GENERATION, NULL, NULL));
	assert_int_equal(client_wait_closed(&c), WEIR_E_GENERATION);
	assert_non_null(strstr(c.text, "another job"));
	record_writer_destroy(w);
	Weir__V1__JobId job = cluster_job(RECORDS_GENERATION - 1);
	Weir__V1__ScanRequest scan = WEIR__V1__SCAN_REQUEST__INIT;
	scan.job = &job;
	weir_error err = {0};
	assert_int_equal(client_call(&c, RPC_SCAN, &scan.base, NULL, NULL, &err), WEIR_E_GENERATION);
	end(&k, &c);
}

static void misdirected_records_are_refused_one_by_one(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 2, 1, RPC_PUSH_STREAM);
	uint64_t key = cluster_key(CLUSTER_ASYNC, 3, 0);
	struct record_writer *w = record_writer_create();
	float values[CLUSTER_WIDTH] = {0};
	struct rows rows = cluster_row(CLUSTER_ASYNC, &key, values);
	struct record there = push_of(1, 0, 2, 1), here = push_of(1, 0, 3, 2), wrong = push_of(1, 1, 1, 3),
	              all = push_of(1, 2, 0xffff, 4);
	struct record reply = {.kind = RECORD_PUSH_REPLY, .partition = 3, .request_id = 5};
	records_add(w, &there, &rows, 1);
	records_add(w, &here, &rows, 1);
	records_add(w, &wrong, &rows, 1);
	records_add(w, &all, &rows, 1);
	records_add(w, &reply, NULL, 0);
	client_send(&c, records_finish(w));
	record_writer_destroy(w);
	client_wait(&c, 5);
	assert_int_equal(client_answer(&c, 1, 0xffff)->record.status, WEIR_E_MOVED);
	/* The server that has it. */
	assert_int_equal(client_answer(&c, 1, 0xffff)->record.scan_reply.cursor, 0);
	assert_non_null(strstr((const char *)client_answer(&c, 1, 0xffff)->data, "partition 2 is not on server 1"));
	assert_int_equal(client_answer(&c, 2, 0xffff)->record.status, WEIR_OK);
	/* The key belongs to another partition. */
	assert_int_equal(client_answer(&c, 3, 0xffff)->record.status, WEIR_E_NOT_FOUND);
	assert_int_equal(client_answer(&c, 4, 0xffff)->record.status, WEIR_E_INVALID);
	assert_int_equal(client_answer(&c, 5, 0xffff)->record.status, WEIR_E_INVALID);
	end(&k, &c);
}

static void a_table_of_another_width_is_refused(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	weir_error err = {0};
	begin(&k, &c, 1, 2, RPC_PUSH_STREAM);
	assert_int_equal(cluster_register_width(&c, CLUSTER_WIDTH, &err), WEIR_OK);
	assert_int_equal(cluster_register_width(&c, CLUSTER_WIDTH + 1, &err), WEIR_E_EXISTS);
	char both[64];
	snprintf(both, sizeof both, "width %u, not %u", CLUSTER_WIDTH, CLUSTER_WIDTH + 1);
	assert_non_null(strstr(err.text, both));
	end(&k, &c);
}

/* --- All partitions of a server */

static void seals_answer_per_partition_and_closes_once(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 2, 3, RPC_PUSH_STREAM);
	struct record push = push_of(4, 1, 7, 1);
	client_send(&c, cluster_frame(&push, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 7, 0), 1, true));
	client_wait(&c, 1);
	struct record_writer *w = record_writer_create();
	records_add(w,
	            &(struct record){
	                .kind = RECORD_SEAL, .partition = FRAME_PARTITION_ALL, .request_id = 2, .pass = 1, .unit = 4, .attempt = 2},
	            NULL, 0);
	struct record close = {.kind = RECORD_CLOSE_STEP, .partition = FRAME_PARTITION_ALL, .request_id = 3, .close.step = 1};
	records_add_bytes(w, &close, "", 0);
	close.request_id = 4;
	close.close.step = 3;
	records_add_bytes(w, &close, "", 0);
	records_add(w,
	            &(struct record){.kind = RECORD_RETIRE, .partition = FRAME_PARTITION_ALL, .request_id = 5, .pass = 1, .unit = 5},
	            NULL, 0);
	client_send(&c, records_finish(w));
	client_wait(&c, 1 + 5 + 3);
	for (uint32_t p = 1; p < CLUSTER_PARTITIONS; p += 2) {
		const struct answer *a = client_answer(&c, 2, p);
		assert_int_equal(a->record.status, WEIR_OK);
		assert_int_equal(a->bytes * 8, a->record.seal_reply.bits);
		assert_int_equal(a->record.seal_reply.bits > 0, p == 7);
		if (p == 7)
			assert_int_equal(a->data[frame_part_bit(1, 0) / 8], 1);
	}
	assert_int_equal(client_answer(&c, 3, 0xffff)->record.status, WEIR_OK);
	assert_int_equal(client_answer(&c, 4, 0xffff)->record.status, WEIR_E_STATE);
	assert_int_equal(client_answer(&c, 5, 0xffff)->record.status, WEIR_OK);
	push.request_id = 6;
	push.attempt = 2;
	client_send(&c, cluster_frame(&push, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 7, 0), 1, true));
	client_wait(&c, 10);
	assert_int_equal(client_answer(&c, 6, 7)->record.status, WEIR_E_DUPLICATE);
	record_writer_destroy(w);
	end(&k, &c);
}

static void a_sync_pull_waits_for_its_step(uint32_t executors)
{
	struct cluster k;
	struct client push, pull;
	cluster_open(&k, 1, executors);
	client_open(&push, k.rpc, cluster_address(0), RPC_PUSH_STREAM);
	client_open(&pull, k.rpc, cluster_address(0), RPC_PULL_STREAM);
	cluster_register(&push);
	uint64_t key = cluster_key(CLUSTER_SYNC, 5, 0);
	struct record p = push_of(1, 0, 5, 1), q = {.kind = RECORD_PULL, .partition = 5, .request_id = 2, .pull.step_least = 1};
	p.push.step = 1;
	client_send(&pull, cluster_frame(&q, CLUSTER_SYNC, key, 0, false));
	client_send(&push, cluster_frame(&p, CLUSTER_SYNC, key, -3, true));
	client_wait(&push, 1);
	assert_int_equal(client_answer(&push, 1, 5)->record.status, WEIR_OK); /* it waits in the step */
	assert_int_equal(client_answers(&pull), 0);
	struct record_writer *w = record_writer_create();
	const uint32_t ids[3] = {1, 1, 0};
	struct record close = {
	    .kind = RECORD_CLOSE_STEP, .partition = FRAME_PARTITION_ALL, .request_id = 3, .close = {.step = 1, .included = 1}};
	records_add_bytes(w, &close, ids, sizeof ids);
	client_send(&push, records_finish(w));
	record_writer_destroy(w);
	client_wait(&push, 2);
	client_wait(&pull, 1);
	float value;
	memcpy(&value, client_answer(&pull, 2, 5)->data, sizeof value);
	assert_true(value == 3);
	q.request_id = 4;
	q.pull.step_least = 2; /* no close for it follows */
	client_send(&pull, cluster_frame(&q, CLUSTER_SYNC, key, 0, false));
	client_wait(&pull, 2);
	assert_int_equal(client_answer(&pull, 4, 5)->record.status, WEIR_E_NOT_CURRENT);
	client_close(&push);
	client_close(&pull);
	cluster_close(&k);
}

static void a_sync_pull_waits_on_the_same_executor(void **state)
{
	(void)state;
	a_sync_pull_waits_for_its_step(1);
}

static void a_sync_pull_waits_on_another_executor(void **state)
{
	(void)state;
	a_sync_pull_waits_for_its_step(4);
}

/* --- Partitions on other servers */

static void step_down(void *partition)
{
	partition_step_down(partition);
}

static void assert_moved(const struct answer *a, uint32_t server, uint64_t epoch, uint32_t revision)
{
	assert_int_equal(a->record.status, WEIR_E_MOVED);
	assert_int_equal(a->record.moved.server, server);
	assert_int_equal(a->record.moved.epoch, epoch);
	assert_int_equal(a->record.moved.revision, revision);
}

/* Waiting and new requests are answered with the partition's new server, if known. */
static void a_partition_that_has_moved_sends_its_clients_on(uint32_t executors)
{
	struct cluster k;
	struct client push, pull;
	cluster_open(&k, 2, executors);
	client_open(&push, k.rpc, cluster_address(1), RPC_PUSH_STREAM);
	client_open(&pull, k.rpc, cluster_address(1), RPC_PULL_STREAM);
	cluster_register(&push);
	struct server *s = k.servers[1];
	const uint64_t key = cluster_key(CLUSTER_SYNC, 5, 0);
	struct record parked = {.kind = RECORD_PULL, .partition = 5, .request_id = 1, .pull.step_least = 1}, r = push_of(1, 0, 5, 2);
	client_send(&pull, cluster_frame(&parked, CLUSTER_SYNC, key, 0, false));
	client_send(&push, cluster_frame(&r, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 5, 0), 1, true));
	client_wait(&push, 1);
	rpc_loop_post(server_executor(s, 5)->loop, step_down, s->partitions[5]);
	client_wait(&pull, 1);
	/* The new server is not known. */
	assert_moved(client_answer(&pull, 1, 5), WEIR_SERVER_NONE, 0, 1);
	partition_map_set(s->map, 5, (struct partition_place){.server = 0, .epoch = 7});
	partition_map_advance(s->map, 33);
	parked.request_id = 3;
	parked.pull.step_least = 0;
	client_send(&pull, cluster_frame(&parked, CLUSTER_SYNC, key, 0, false));
	client_wait(&pull, 2);
	assert_moved(client_answer(&pull, 3, 5), 0, 7, 33);
	r.request_id = 4; /* even an applied push, because only the new primary may reply */
	client_send(&push, cluster_frame(&r, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 5, 0), 1, true));
	client_wait(&push, 2);
	assert_moved(client_answer(&push, 4, 5), 0, 7, 33);
	struct record_writer *w = record_writer_create();
	const struct record resume = {.kind = RECORD_RESUME, .partition = 5, .request_id = 5};
	const struct record seal = {
	    .kind = RECORD_SEAL, .partition = FRAME_PARTITION_ALL, .request_id = 6, .pass = 1, .unit = 1, .attempt = 2};
	const struct record retire = {.kind = RECORD_RETIRE, .partition = FRAME_PARTITION_ALL, .request_id = 7, .pass = 1, .unit = 1};
	records_add(w, &resume, NULL, 0);
	records_add(w, &seal, NULL, 0);
	records_add(w, &retire, NULL, 0);
	client_send(&push, records_finish(w));
	record_writer_destroy(w);
	client_wait(&push, 2 + 1 + 4 + 1);
	assert_moved(client_answer(&push, 5, 5), 0, 7, 33);
	for (uint32_t p = 1; p < CLUSTER_PARTITIONS; p += 2) /* all partitions of this server */
		if (p != 5)
			assert_int_equal(client_answer(&push, 6, p)->record.status, WEIR_OK);
	assert_int_equal(client_answer(&push, 7, 0xffff)->record.status, WEIR_OK);
	client_close(&push);
	client_close(&pull);
	cluster_close(&k);
}

static void a_moved_partition_sends_its_clients_on_from_its_executor(void **state)
{
	(void)state;
	a_partition_that_has_moved_sends_its_clients_on(1);
}

static void a_moved_partition_sends_its_clients_on_from_another_executor(void **state)
{
	(void)state;
	a_partition_that_has_moved_sends_its_clients_on(3);
}

static void a_partition_that_has_moved_is_not_scanned(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 2, 1, RPC_PUSH_STREAM);
	Weir__V1__JobId job = cluster_job(RECORDS_GENERATION);
	Weir__V1__ScanRequest q = WEIR__V1__SCAN_REQUEST__INIT;
	weir_error err = {0};
	q.job = &job;
	q.table = CLUSTER_ASYNC;
	q.partition = 2; /* on the other server */
	assert_int_equal(client_call(&c, RPC_SCAN, &q.base, NULL, NULL, &err), WEIR_E_MOVED);
	q.partition = CLUSTER_PARTITIONS;
	assert_int_equal(client_call(&c, RPC_SCAN, &q.base, NULL, NULL, &err), WEIR_E_NOT_FOUND);
	end(&k, &c);
}

static void every_server_tells_where_partitions_are(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 2, 1, RPC_PUSH_STREAM);
	Weir__V1__JobId job = cluster_job(RECORDS_GENERATION), other = cluster_job(RECORDS_GENERATION - 1);
	Weir__V1__MapRequest q = WEIR__V1__MAP_REQUEST__INIT;
	ProtobufCMessage *m;
	weir_error err = {0};
	q.job = &job;
	if (client_call(&c, RPC_MAP, &q.base, &weir__v1__map_reply__descriptor, &m, &err))
		fail_msg("%s", err.text);
	const Weir__V1__PartitionMap *map = ((const Weir__V1__MapReply *)m)->map;
	assert_int_equal(map->revision, 1);
	assert_int_equal(map->n_servers, 2);
	assert_string_equal(map->servers[0], cluster_address(0));
	assert_string_equal(map->servers[1], cluster_address(1));
	assert_int_equal(map->n_server, CLUSTER_PARTITIONS);
	assert_int_equal(map->n_epoch, CLUSTER_PARTITIONS);
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++) {
		assert_int_equal(map->server[p], placement_server(p, 2));
		assert_int_equal(map->epoch[p], 0);
	}
	wire_free(m);
	q.job = &other;
	assert_int_equal(client_call(&c, RPC_MAP, &q.base, NULL, NULL, &err), WEIR_E_GENERATION);
	end(&k, &c);
}

/* An older epoch of a partition is ignored. The map as a whole is as new as its latest report. */
static void a_servers_map_does_not_go_back(void **state)
{
	(void)state;
	uint64_t revision;
	struct partition_map *m = partition_map_create(4, 2, 2, NULL);
	partition_map_set(m, 1, (struct partition_place){.server = 0, .epoch = 5});
	assert_int_equal(partition_map_find(m, 1, &revision).server, 0);
	assert_int_equal(revision, 1);
	partition_map_set(m, 1, (struct partition_place){.server = 1, .epoch = 4});
	assert_int_equal(partition_map_find(m, 1, &revision).server, 0);
	partition_map_set(m, 1, (struct partition_place){.server = WEIR_SERVER_NONE, .epoch = 5});
	assert_int_equal(partition_map_find(m, 1, &revision).server, WEIR_SERVER_NONE);
	partition_map_advance(m, 9);
	partition_map_advance(m, 8);
	assert_int_equal(partition_map_find(m, 2, &revision).server, 0);
	assert_int_equal(revision, 9);
	partition_map_destroy(m);
}

/* --- Flow */

static void a_client_that_does_not_read_gets_everything_later(void **state)
{
	(void)state;
	enum { PULLS = 200 }; /* of 2 chunks, 512 KiB each: 100 MiB in all */
	struct cluster k;
	struct client c;
	begin(&k, &c, 1, 1, RPC_PULL_STREAM);
	client_pause(&c, true);
	struct record_writer *w = record_writer_create();
	const uint64_t chunks[1] = {7};
	struct rows rows = {.table = CLUSTER_DENSE, .width = WEIR_CHUNK, .count = 1, .keys = chunks};
	for (uint32_t i = 0; i < PULLS; i++)
		records_add(w, &(struct record){.kind = RECORD_PULL, .partition = 0, .request_id = i}, &rows, 1);
	client_send(&c, records_finish(w));
	client_pause(&c, false);
	client_wait(&c, PULLS);
	for (uint32_t i = 0; i < PULLS; i++)
		assert_int_equal(client_answer(&c, i, 0)->bytes, WEIR_CHUNK * sizeof(float));
	record_writer_destroy(w);
	end(&k, &c);
}

static void a_pull_too_big_for_a_message_says_so(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 1, 1, RPC_PULL_STREAM);
	struct record_writer *w = record_writer_create();
	const uint64_t keys[14] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
	struct rows rows = {.table = CLUSTER_DENSE, .width = WEIR_CHUNK, .count = 14, .keys = keys};
	records_add(w, &(struct record){.kind = RECORD_PULL, .partition = 0, .request_id = 9}, &rows, 1);
	client_send(&c, records_finish(w));
	record_writer_destroy(w);
	client_wait(&c, 1);
	assert_int_equal(client_answer(&c, 9, 0)->record.status, WEIR_E_LIMIT);
	assert_non_null(strstr((const char *)client_answer(&c, 9, 0)->data, "ask for fewer rows"));
	end(&k, &c);
}

/* --- Several servers, the ledger, unary calls */

static void five_servers_live_in_one_process(void **state)
{
	(void)state;
	struct cluster k;
	struct client c[5];
	cluster_open(&k, 5, 2);
	for (uint32_t i = 0; i < 5; i++) {
		client_open(&c[i], k.rpc, cluster_address(i), RPC_PUSH_STREAM);
		cluster_register(&c[i]);
		struct record r = push_of(1, 0, i + 5, 1);
		client_send(&c[i], cluster_frame(&r, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, i + 5, 0), -(float)i, true));
	}
	Weir__V1__JoinRequest join = WEIR__V1__JOIN_REQUEST__INIT;
	join.name = (char *)(uintptr_t) "observer";
	join.host = (char *)(uintptr_t) "here";
	join.wire_version = FRAME_VERSION;
	join.role = WEIR__V1__ROLE__OBSERVER;
	ProtobufCMessage *m;
	weir_error err = {0};
	if (client_call(&c[0], RPC_JOIN, &join.base, &weir__v1__join_reply__descriptor, &m, &err))
		fail_msg("%s", err.text);
	assert_int_equal(((const Weir__V1__JoinReply *)m)->map->n_servers, 5);
	wire_free(m);
	assert_int_equal(client_call(&c[1], RPC_JOIN, &join.base, NULL, NULL, &err), WEIR_E_NOT_FOUND);
	assert_non_null(strstr(err.text, "server 0"));
	for (uint32_t i = 0; i < 5; i++) {
		client_wait(&c[i], 1);
		assert_int_equal(client_answer(&c[i], 1, i + 5)->record.status, WEIR_OK);
		m = server_status(&c[i]);
		assert_int_equal(((const Weir__V1__ServerStatus *)m)->n_partitions, 2);
		assert_int_equal(((const Weir__V1__ServerStatus *)m)->connections, 1);
		assert_int_equal(((const Weir__V1__ServerStatus *)m)->process_id, cluster_process_id(i));
		wire_free(m);
		client_close(&c[i]);
	}
	cluster_close(&k);
}

static struct message *unary(struct client *c, enum rpc_method method, struct message *frame)
{
	struct message *reply;
	weir_error err = {0};
	if (rpc_call_wait(c->channel, method, wire_wrap_frame(frame), 5000, &reply, &err))
		fail_msg("%s", err.text);
	return reply;
}

static void unary_calls_do_what_streams_do(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 1, 3, RPC_PULL_STREAM);
	struct record_writer *w = record_writer_create();
	for (uint32_t part = 0; part < CLUSTER_PARTITIONS; part++) { /* on three executors */
		float values[CLUSTER_WIDTH] = {(float)part};
		uint64_t key = cluster_key(CLUSTER_ASYNC, part, 0);
		struct rows rows = cluster_row(CLUSTER_ASYNC, &key, values);
		records_add(w, &(struct record){.kind = RECORD_ASSIGN, .partition = (uint16_t)part, .request_id = part}, &rows, 1);
	}
	struct message *reply = unary(&c, RPC_ASSIGN, records_finish(w));
	struct cursor at;
	struct frame_header h;
	assert_int_equal(wire_unwrap_frame(reply, &at, NULL), WEIR_OK);
	assert_int_equal(frame_open(&at, &h, NULL), WEIR_OK);
	assert_int_equal(h.records, CLUSTER_PARTITIONS);
	for (uint32_t i = 0; i < h.records; i++) {
		struct record r;
		struct cursor body;
		assert_int_equal(frame_next_record(&at, true, &r, &body, NULL), WEIR_OK);
		assert_int_equal(r.kind, RECORD_ASSIGN_REPLY);
		assert_int_equal(r.status, WEIR_OK);
		assert_int_equal(r.request_id, r.partition);
	}
	message_release(reply);
	for (uint32_t part = 0; part < CLUSTER_PARTITIONS; part++)
		assert_true(pull_one(&c, part, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, part, 0), 100 + part) == (float)part);
	record_writer_destroy(w);
	end(&k, &c);
}

/* The status of a server. Repeats the call until it arrives on a loop that runs. NULL: no loop
 * runs. */
static ProtobufCMessage *status_over_some_loop(struct cluster *k)
{
	enum { CALLS = 4, ANSWER_MS = 500 };
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	struct client c;
	client_open(&c, k->rpc, cluster_address(0), RPC_PUSH_STREAM);
	for (uint32_t i = 0; i < CALLS && !m; i++) {
		struct message *reply;
		if (rpc_call_wait(c.channel, RPC_STATUS, wire_pack(&q.base), ANSWER_MS, &reply, NULL))
			continue;
		assert_int_equal(wire_unpack(&weir__v1__server_status__descriptor, reply, &m, NULL), WEIR_OK);
		message_release(reply);
	}
	client_close(&c);
	return m;
}

/* Also with single copies, which send no heartbeats. */
static void while_a_thread_hangs_the_status_says_so(void **state)
{
	(void)state;
	struct cluster k;
	struct held_loop held;
	char thread[LOOP_WATCH_NAME_BYTES];
	uint64_t ms;
	cluster_open(&k, 1, 2);
	assert_false(server_stuck(k.servers[0], thread, &ms));
	held_loop_hold(&held, k.servers[0]->executors[1].loop);
	AWAIT(server_stuck(k.servers[0], thread, &ms), "a thread hangs, and nobody says so");
	ProtobufCMessage *m = status_over_some_loop(&k);
	assert_non_null(m);
	const Weir__V1__ServerStatus *s = (const Weir__V1__ServerStatus *)m;
	assert_string_equal(s->stuck, "exec-1");
	assert_true(s->stuck_ms >= WEIR_STUCK_MS && s->n_partitions == 0 && s->pid > 0);
	wire_free(m);
	held_loop_release(&held);
	AWAIT(!server_stuck(k.servers[0], thread, &ms), "all threads run, and one is said to hang");
	m = status_over_some_loop(&k);
	s = (const Weir__V1__ServerStatus *)m;
	assert_true(s && !s->stuck[0] && s->n_partitions == CLUSTER_PARTITIONS);
	wire_free(m);
	cluster_close(&k);
}

static void a_scan_pages_through_a_partition(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 1, 2, RPC_PUSH_STREAM);
	for (uint32_t i = 0; i < 5; i++) {
		struct record r = push_of(1, i, 3, i);
		client_send(&c, cluster_frame(&r, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 3, i), 1, true));
	}
	client_wait(&c, 5);
	Weir__V1__JobId job = cluster_job(RECORDS_GENERATION);
	Weir__V1__ScanRequest q = WEIR__V1__SCAN_REQUEST__INIT;
	q.job = &job;
	q.table = CLUSTER_ASYNC;
	q.partition = 3;
	q.rows_max = 2;
	uint32_t rows = 0, pages = 0;
	do {
		struct message *reply;
		weir_error err = {0};
		assert_int_equal(rpc_call_wait(c.channel, RPC_SCAN, wire_pack(&q.base), 5000, &reply, &err), WEIR_OK);
		struct cursor at, body;
		struct frame_header h;
		struct record r;
		struct section s;
		assert_int_equal(wire_unwrap_frame(reply, &at, NULL), WEIR_OK);
		assert_int_equal(frame_open(&at, &h, NULL), WEIR_OK);
		assert_int_equal(frame_next_record(&at, true, &r, &body, NULL), WEIR_OK);
		assert_int_equal(r.status, WEIR_OK);
		assert_int_equal(frame_next_section(&body, &s, NULL), WEIR_OK);
		for (uint32_t i = 0; i < s.rows; i++) {
			uint64_t key;
			float values[CLUSTER_WIDTH];
			assert_int_equal(cursor_read(&s.index, &key, sizeof key), WEIR_OK);
			assert_int_equal(cursor_read(&s.data, values, sizeof values), WEIR_OK);
			assert_int_equal(key, cluster_key(CLUSTER_ASYNC, 3, rows + i));
			assert_true(values[0] == -1 && values[CLUSTER_WIDTH - 1] == -1);
		}
		rows += s.rows;
		pages++;
		q.cursor = r.scan_reply.cursor;
		q.process_id = r.request_id;
		message_release(reply);
	} while (q.cursor);
	assert_int_equal(rows, 5);
	assert_int_equal(pages, 3);
	end(&k, &c);
}

static void a_drained_server_ends_its_streams(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	begin(&k, &c, 1, 2, RPC_PUSH_STREAM);
	/* A health check has an empty body, too. */
	Weir__V1__StatusRequest nothing = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m;
	weir_error err = {0};
	assert_int_equal(
	    client_call(&c, RPC_HEALTH_CHECK, &nothing.base, &grpc__health__v1__health_check_response__descriptor, &m, &err),
	    WEIR_OK);
	assert_int_equal(((const Grpc__Health__V1__HealthCheckResponse *)m)->status,
	                 GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING);
	wire_free(m);
	struct record r = push_of(1, 0, 3, 1);
	client_send(&c, cluster_frame(&r, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 3, 0), 1, true));
	client_wait(&c, 1);
	server_drain(k.servers[0], 5000);
	assert_int_equal(client_wait_closed(&c), WEIR_OK);
	assert_int_not_equal(client_call(&c, RPC_STATUS, &nothing.base, NULL, NULL, &err), WEIR_OK);
	end(&k, &c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(integers_sum_up_with_one_executor),
	    cmocka_unit_test(integers_sum_up_with_three_executors),
	    cmocka_unit_test(a_stream_beyond_its_credit_is_cut_off),
	    cmocka_unit_test(streams_between_servers_are_refused),
	    cmocka_unit_test(corrupt_bytes_are_refused_and_the_server_lives_on),
	    cmocka_unit_test(another_generation_is_refused_naming_both),
	    cmocka_unit_test(misdirected_records_are_refused_one_by_one),
	    cmocka_unit_test(a_table_of_another_width_is_refused),
	    cmocka_unit_test(seals_answer_per_partition_and_closes_once),
	    cmocka_unit_test(a_sync_pull_waits_on_the_same_executor),
	    cmocka_unit_test(a_sync_pull_waits_on_another_executor),
	    cmocka_unit_test(a_moved_partition_sends_its_clients_on_from_its_executor),
	    cmocka_unit_test(a_moved_partition_sends_its_clients_on_from_another_executor),
	    cmocka_unit_test(a_partition_that_has_moved_is_not_scanned),
	    cmocka_unit_test(every_server_tells_where_partitions_are),
	    cmocka_unit_test(a_servers_map_does_not_go_back),
	    cmocka_unit_test(a_client_that_does_not_read_gets_everything_later),
	    cmocka_unit_test(a_pull_too_big_for_a_message_says_so),
	    cmocka_unit_test(five_servers_live_in_one_process),
	    cmocka_unit_test(unary_calls_do_what_streams_do),
	    cmocka_unit_test(a_scan_pages_through_a_partition),
	    cmocka_unit_test(while_a_thread_hangs_the_status_says_so),
	    cmocka_unit_test(a_drained_server_ends_its_streams),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
