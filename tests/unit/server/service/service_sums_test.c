/* Several clients, executors and servers at once sum integers exactly. */
#include <string.h>

#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/service/service_fixture.h"

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
			struct record r = cluster_push(p->number, batch, part, batch * CLUSTER_PARTITIONS + part);
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
			(void)cluster_pull_one(&pull, batch % CLUSTER_PARTITIONS, CLUSTER_ASYNC,
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
	cluster_open_with_client(&k, &c, 1, executors, RPC_PULL_STREAM);
	struct pusher pushers[PUSHERS];
	for (uint32_t i = 0; i < PUSHERS; i++) {
		pushers[i] = (struct pusher){.cluster = &k, .number = i};
		assert_int_equal(pthread_create(&pushers[i].thread, NULL, push_integers, &pushers[i]), 0);
	}
	for (uint32_t i = 0; i < PUSHERS; i++)
		pthread_join(pushers[i].thread, NULL);
	for (uint32_t part = 0; part < CLUSTER_PARTITIONS; part++)
		for (uint32_t i = 0; i < 3; i++)
			assert_true(cluster_pull_one(&c, part, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, part, i), 1000 + part * 3 + i) ==
			            BATCHES / 3 * (1 + 2 + 3 + 4));
	ProtobufCMessage *m = cluster_status(&c);
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
	wire_destroy(m);
	cluster_close_with_client(&k, &c);
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
		struct record r = cluster_push(1, 0, i + 5, 1);
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
	wire_destroy(m);
	assert_int_equal(client_call(&c[1], RPC_JOIN, &join.base, NULL, NULL, &err), WEIR_E_NOT_FOUND);
	assert_non_null(strstr(err.text, "server 0"));
	for (uint32_t i = 0; i < 5; i++) {
		client_wait(&c[i], 1);
		assert_int_equal(client_answer(&c[i], 1, i + 5)->record.status, WEIR_OK);
		m = cluster_status(&c[i]);
		assert_int_equal(((const Weir__V1__ServerStatus *)m)->n_partitions, 2);
		assert_int_equal(((const Weir__V1__ServerStatus *)m)->connections, 1);
		assert_int_equal(((const Weir__V1__ServerStatus *)m)->process_id, cluster_process_id(i));
		wire_destroy(m);
		client_close(&c[i]);
	}
	cluster_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(integers_sum_up_with_one_executor),
	    cmocka_unit_test(integers_sum_up_with_three_executors),
	    cmocka_unit_test(five_servers_live_in_one_process),
	};
	return cmocka_run_group_tests_name("service_sums", tests, NULL, NULL);
}
