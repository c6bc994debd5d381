/* Clients of a partition that has moved, and the partition map that servers report. */

#include "common/base/key_partition.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/service/service_fixture.h"

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
	struct record parked = {.kind = RECORD_PULL, .partition = 5, .request_id = 1, .pull.step_least = 1},
	              r = cluster_push(1, 0, 5, 2);
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
	cluster_open_with_client(&k, &c, 2, 1, RPC_PUSH_STREAM);
	Weir__V1__JobId job = cluster_job(RECORDS_GENERATION);
	Weir__V1__ScanRequest q = WEIR__V1__SCAN_REQUEST__INIT;
	weir_error err = {0};
	q.job = &job;
	q.table = CLUSTER_ASYNC;
	q.partition = 2; /* on the other server */
	assert_int_equal(client_call(&c, RPC_SCAN, &q.base, NULL, NULL, &err), WEIR_E_MOVED);
	q.partition = CLUSTER_PARTITIONS;
	assert_int_equal(client_call(&c, RPC_SCAN, &q.base, NULL, NULL, &err), WEIR_E_NOT_FOUND);
	cluster_close_with_client(&k, &c);
}

static void every_server_tells_where_partitions_are(void **state)
{
	(void)state;
	struct cluster k;
	struct client c;
	cluster_open_with_client(&k, &c, 2, 1, RPC_PUSH_STREAM);
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
	wire_destroy(m);
	q.job = &other;
	assert_int_equal(client_call(&c, RPC_MAP, &q.base, NULL, NULL, &err), WEIR_E_GENERATION);
	cluster_close_with_client(&k, &c);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_moved_partition_sends_its_clients_on_from_its_executor),
	    cmocka_unit_test(a_moved_partition_sends_its_clients_on_from_another_executor),
	    cmocka_unit_test(a_partition_that_has_moved_is_not_scanned),
	    cmocka_unit_test(every_server_tells_where_partitions_are),
	    cmocka_unit_test(a_servers_map_does_not_go_back),
	};
	return cmocka_run_group_tests_name("service_moved", tests, NULL, NULL);
}
