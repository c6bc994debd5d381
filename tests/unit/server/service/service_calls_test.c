/* Unary calls: pulls, scans and the status. */

#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/server/service/service_fixture.h"

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
	cluster_open_with_client(&k, &c, 1, 3, RPC_PULL_STREAM);
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
		assert_true(cluster_pull_one(&c, part, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, part, 0), 100 + part) == (float)part);
	record_writer_destroy(w);
	cluster_close_with_client(&k, &c);
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
	wire_destroy(m);
	held_loop_release(&held);
	AWAIT(!server_stuck(k.servers[0], thread, &ms), "all threads run, and one is said to hang");
	m = status_over_some_loop(&k);
	s = (const Weir__V1__ServerStatus *)m;
	assert_true(s && !s->stuck[0] && s->n_partitions == CLUSTER_PARTITIONS);
	wire_destroy(m);
	cluster_close(&k);
}

static void a_scan_pages_through_a_partition(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	cluster_open_with_client(&k, &c, 1, 2, RPC_PUSH_STREAM);
	for (uint32_t i = 0; i < 5; i++) {
		struct record r = cluster_push(1, i, 3, i);
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
	cluster_close_with_client(&k, &c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unary_calls_do_what_streams_do),
	    cmocka_unit_test(a_scan_pages_through_a_partition),
	    cmocka_unit_test(while_a_thread_hangs_the_status_says_so),
	};
	return cmocka_run_group_tests_name("service_calls", tests, NULL, NULL);
}
