/* The service over the in-memory transport: credit, invalid requests, replies, slow clients. */
#include <stdio.h>
#include <string.h>

#include "server/service/server_internal.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/service/service_fixture.h"

/* --- Invalid requests */

static void a_stream_beyond_its_credit_is_cut_off(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	cluster_open_with_client(&k, &c, 1, 1, RPC_PULL_STREAM);
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
	assert_true(cluster_pull_one(&c, 0, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 0, 0), 1) == 0);
	cluster_close_with_client(&k, &c);
}

/* A server without replicas has no peers. */
static void streams_between_servers_are_refused(void **state)
{
	(void)state;
	static const enum rpc_method methods[] = {RPC_HEARTBEAT, RPC_SNAPSHOT};
	struct cluster k;
	struct client c;
	cluster_open_with_client(&k, &c, 1, 1, RPC_LINK);
	assert_int_equal(client_wait_closed(&c), WEIR_E_UNSUPPORTED);
	for (uint32_t i = 0; i < 2; i++) {
		client_reopen(&c, methods[i]);
		assert_int_equal(client_wait_closed(&c), WEIR_E_UNSUPPORTED);
		assert_non_null(strstr(c.text, "does not offer"));
	}
	client_reopen(&c, RPC_PULL_STREAM);
	assert_true(cluster_pull_one(&c, 0, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 0, 0), 1) == 0);
	cluster_close_with_client(&k, &c);
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
	cluster_open_with_client(&k, &c, 1, 1, RPC_PUSH_STREAM);
	uint64_t key = cluster_key(CLUSTER_ASYNC, 2, 0);
	struct record r = cluster_push(1, 0, 2, 77);
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
	assert_true(cluster_pull_one(&c, 2, CLUSTER_ASYNC, key, 80) == 5);
	ProtobufCMessage *m = cluster_status(&c);
	assert_int_equal(((const Weir__V1__ServerStatus *)m)->corrupt_refused, 3);
	wire_destroy(m);
	cluster_close_with_client(&k, &c);
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
	cluster_close_with_client(&k, &c);
}

static void misdirected_records_are_refused_one_by_one(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	cluster_open_with_client(&k, &c, 2, 1, RPC_PUSH_STREAM);
	uint64_t key = cluster_key(CLUSTER_ASYNC, 3, 0);
	struct record_writer *w = record_writer_create();
	float values[CLUSTER_WIDTH] = {0};
	struct rows rows = cluster_row(CLUSTER_ASYNC, &key, values);
	struct record there = cluster_push(1, 0, 2, 1), here = cluster_push(1, 0, 3, 2), wrong = cluster_push(1, 1, 1, 3),
	              all = cluster_push(1, 2, 0xffff, 4);
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
	cluster_close_with_client(&k, &c);
}

static void a_table_of_another_width_is_refused(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	weir_error err = {0};
	cluster_open_with_client(&k, &c, 1, 2, RPC_PUSH_STREAM);
	assert_int_equal(cluster_register_width(&c, CLUSTER_WIDTH, &err), WEIR_OK);
	assert_int_equal(cluster_register_width(&c, CLUSTER_WIDTH + 1, &err), WEIR_E_EXISTS);
	char both[64];
	snprintf(both, sizeof both, "width %u, not %u", CLUSTER_WIDTH, CLUSTER_WIDTH + 1);
	assert_non_null(strstr(err.text, both));
	cluster_close_with_client(&k, &c);
}

/* --- All partitions of a server */

static void seals_answer_per_partition_and_closes_once(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	cluster_open_with_client(&k, &c, 2, 3, RPC_PUSH_STREAM);
	struct record push = cluster_push(4, 1, 7, 1);
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
	cluster_close_with_client(&k, &c);
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
	struct record p = cluster_push(1, 0, 5, 1), q = {.kind = RECORD_PULL, .partition = 5, .request_id = 2, .pull.step_least = 1};
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

/* --- Flow */

static void a_client_that_does_not_read_gets_everything_later(void **state)
{
	(void)state;
	enum { PULLS = 200 }; /* of 2 chunks, 512 KiB each: 100 MiB in all */
	struct cluster k;
	struct client c;
	cluster_open_with_client(&k, &c, 1, 1, RPC_PULL_STREAM);
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
	cluster_close_with_client(&k, &c);
}

static void a_pull_too_big_for_a_message_says_so(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	cluster_open_with_client(&k, &c, 1, 1, RPC_PULL_STREAM);
	struct record_writer *w = record_writer_create();
	const uint64_t keys[14] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
	struct rows rows = {.table = CLUSTER_DENSE, .width = WEIR_CHUNK, .count = 14, .keys = keys};
	records_add(w, &(struct record){.kind = RECORD_PULL, .partition = 0, .request_id = 9}, &rows, 1);
	client_send(&c, records_finish(w));
	record_writer_destroy(w);
	client_wait(&c, 1);
	assert_int_equal(client_answer(&c, 9, 0)->record.status, WEIR_E_LIMIT);
	assert_non_null(strstr((const char *)client_answer(&c, 9, 0)->data, "ask for fewer rows"));
	cluster_close_with_client(&k, &c);
}

static void a_drained_server_ends_its_streams(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	cluster_open_with_client(&k, &c, 1, 2, RPC_PUSH_STREAM);
	/* A health check has an empty body, too. */
	Weir__V1__StatusRequest nothing = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m;
	weir_error err = {0};
	assert_int_equal(
	    client_call(&c, RPC_HEALTH_CHECK, &nothing.base, &grpc__health__v1__health_check_response__descriptor, &m, &err),
	    WEIR_OK);
	assert_int_equal(((const Grpc__Health__V1__HealthCheckResponse *)m)->status,
	                 GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING);
	wire_destroy(m);
	struct record r = cluster_push(1, 0, 3, 1);
	client_send(&c, cluster_frame(&r, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 3, 0), 1, true));
	client_wait(&c, 1);
	server_drain(k.servers[0], 5000);
	assert_int_equal(client_wait_closed(&c), WEIR_OK);
	assert_int_not_equal(client_call(&c, RPC_STATUS, &nothing.base, NULL, NULL, &err), WEIR_OK);
	cluster_close_with_client(&k, &c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_stream_beyond_its_credit_is_cut_off),
	    cmocka_unit_test(streams_between_servers_are_refused),
	    cmocka_unit_test(corrupt_bytes_are_refused_and_the_server_lives_on),
	    cmocka_unit_test(another_generation_is_refused_naming_both),
	    cmocka_unit_test(misdirected_records_are_refused_one_by_one),
	    cmocka_unit_test(a_table_of_another_width_is_refused),
	    cmocka_unit_test(seals_answer_per_partition_and_closes_once),
	    cmocka_unit_test(a_sync_pull_waits_on_the_same_executor),
	    cmocka_unit_test(a_sync_pull_waits_on_another_executor),
	    cmocka_unit_test(a_client_that_does_not_read_gets_everything_later),
	    cmocka_unit_test(a_pull_too_big_for_a_message_says_so),
	    cmocka_unit_test(a_drained_server_ends_its_streams),
	};
	return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
