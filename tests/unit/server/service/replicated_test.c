/* Servers with replicated partitions. Pushes of integers go on while servers die and come back. At
 * the end every push with a reply counts exactly once. */
#include <stdlib.h>

#include "common/base/key_partition.h"
#include "server/cluster/heartbeat_loop.h"
#include "server/cluster/placement.h"
#include "server/cluster/roles.h"
#include "server/partition/partition_state.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/server/world_fixture.h"

enum { REPLICAS = 2, BATCHES = 60, KEYS = WORLD_KEYS };

/* --- Reading the result */

/* Pulls from one server. E_MOVED: asks the next server from then on. */
static weir_status try_pull(struct world *w, uint32_t *server, uint32_t partition, uint64_t key, float *value)
{
	struct client c;
	const struct record r = {.kind = RECORD_PULL, .partition = (uint16_t)partition, .request_id = 1};
	client_open(&c, w->rpc, cluster_address(*server), RPC_PULL_STREAM);
	client_send(&c, cluster_frame(&r, CLUSTER_ASYNC, key, 0, false));
	client_wait(&c, 1);
	const struct answer *a = client_answer(&c, 1, partition);
	const weir_status status = (weir_status)a->record.status;
	if (!status) {
		assert_int_equal(a->bytes, CLUSTER_WIDTH * sizeof *value);
		memcpy(value, a->data, sizeof *value);
	}
	if (status == WEIR_E_MOVED)
		*server = world_other_host(w, partition, *server);
	client_close(&c);
	return status;
}

/* A busy machine may move a partition at any time, so a pull may take several attempts. */
static float pull(struct world *w, uint32_t partition, uint64_t key)
{
	uint32_t *server = &w->attempts[partition].server;
	weir_status status;
	float value = 0;
	if (!w->servers[*server])
		*server = world_other_host(w, partition, *server);
	AWAIT((status = try_pull(w, server, partition, key, &value)) != WEIR_E_MOVED, "partition %u has no primary", partition);
	assert_int_equal(status, WEIR_OK);
	return value;
}

/* The state and rows of a replica, copied on its own thread. */
struct copy {
	struct partition *partition;
	uint64_t applied;
	struct message *state;
	float rows[KEYS + 1]; /* and the first element of its first chunk */
};

static void take_copy(void *arg)
{
	struct copy *c = arg;
	const struct store_table *t = store_table(partition_store(c->partition), CLUSTER_ASYNC);
	c->applied = partition_applied(c->partition);
	c->state = partition_state_export(c->partition);
	for (uint32_t i = 0; i < KEYS; i++) {
		const float *row;
		c->rows[i] = store_find(t, cluster_key(CLUSTER_ASYNC, partition_id(c->partition), i), &row) ? row[0] : 0;
	}
	const struct store_table *chunks = store_table(partition_store(c->partition), CLUSTER_DENSE);
	const float *row;
	c->rows[KEYS] = chunks && store_find(chunks, world_first_chunk(partition_id(c->partition)), &row) ? row[0] : 0;
}

static void copy_replica(struct world *w, uint32_t partition, uint32_t i, struct copy *c)
{
	struct server *s = w->servers[placement_replica(partition, i, WORLD_SERVERS)];
	*c = (struct copy){.partition = s->partitions[partition]};
	on_loop(server_executor(s, partition)->loop, take_copy, c);
}

/* Of a running server. */
static void check_chunks(struct world *w, float sum)
{
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		for (uint32_t i = 0; i < w->setting.replicas && w->setting.dense; i++) {
			struct copy c;
			if (!w->servers[placement_replica(p, i, WORLD_SERVERS)])
				continue;
			copy_replica(w, p, i, &c);
			message_release(c.state);
			assert_true(c.rows[KEYS] == sum);
		}
}

/* In every partition with a running replica. */
static void check_all(struct world *w)
{
	const uint32_t alive = world_count_alive(w);
	const struct world_totals t = world_await_in_sync(w, alive);
	float sums[KEYS] = {0}, dense = 0;
	uint64_t fingerprint = 0;
	for (uint32_t batch = 0; batch < w->batches; batch++) {
		*(world_is_dense(w, batch) ? &dense : &sums[batch % KEYS]) -= world_gradient(batch);
		fingerprint += alive * frame_identity_hash(1, 0, batch, 0);
	}
	assert_int_equal(t.partitions, alive);
	assert_int_equal(t.parts, (uint64_t)alive * w->batches);
	assert_int_equal(t.fingerprint, fingerprint);
	assert_int_equal(t.twice, 0);
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		for (uint32_t i = 0; i < KEYS && world_is_alive(w, p); i++)
			assert_true(pull(w, p, cluster_key(CLUSTER_ASYNC, p, i)) == sums[i]);
	check_chunks(w, dense);
}

/* False: one of the replicas still lags. */
static bool compare_replicas(struct world *w, uint32_t partition)
{
	struct copy a, b;
	copy_replica(w, partition, 0, &a);
	copy_replica(w, partition, 1, &b);
	const bool level = a.applied == b.applied;
	if (level) {
		assert_int_equal(a.state->bytes, b.state->bytes);
		assert_memory_equal(a.state->spans[0].data, b.state->spans[0].data, a.state->bytes);
		if (!w->setting.memory_bytes) /* otherwise a row may be in RocksDB */
			assert_memory_equal(a.rows, b.rows, sizeof a.rows);
	}
	message_release(a.state);
	message_release(b.state);
	return level;
}

static void check_replicas_are_equal(struct world *w)
{
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		AWAIT(compare_replicas(w, p), "partition %u: its replicas have not applied the same", p);
}

static uint32_t count_primaries(struct world *w, uint32_t server)
{
	struct world_totals t = {0};
	world_add_status(w, server, &t);
	return t.partitions;
}

static void await_no_primary(struct world *w, uint32_t server)
{
	uint32_t count;
	AWAIT((count = count_primaries(w, server)) == 0, "server %u is still primary of %u partitions", server, count);
}

/* --- Tests */

static void every_push_counts_once_whoever_dies(uint32_t executors)
{
	struct world *w = world_open(&(struct world_setting){.executors = executors, .replicas = REPLICAS});
	world_push_batches(w, BATCHES);
	(void)world_await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	check_replicas_are_equal(w);
	world_push_batch(w, 2);
	world_push_batches(w, BATCHES);
	check_all(w);
	world_close(w);
}

static void with_one_executor(void **state)
{
	(void)state;
	every_push_counts_once_whoever_dies(1);
}

static void with_several_executors(void **state)
{
	(void)state;
	every_push_counts_once_whoever_dies(3);
}

/* The server runs, takes records, and reaches all others. Only its heartbeats have stopped. */
static void a_server_taken_for_dead_is_no_longer_primary(void **state)
{
	(void)state;
	struct world *w = world_open(&(struct world_setting){.executors = 2, .replicas = REPLICAS});
	world_push_batches(w, BATCHES);
	(void)world_await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	heartbeat_loop_hush(w->servers[1]->detector);
	await_no_primary(w, 1);
	world_push_batches(w, BATCHES);
	check_all(w);
	world_close(w);
}

static bool is_ready(struct world *w, uint32_t server)
{
	Grpc__Health__V1__HealthCheckRequest q = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	ProtobufCMessage *m;
	weir_error err = {0};
	q.service = (char[]){"ready"};
	assert_int_equal(client_call(&w->clients[server], RPC_HEALTH_CHECK, &q.base,
	                             &grpc__health__v1__health_check_response__descriptor, &m, &err),
	                 WEIR_OK);
	const bool is = ((const Grpc__Health__V1__HealthCheckResponse *)m)->status ==
	                GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
	wire_destroy(m);
	return is;
}

/* Catching up is slow here. */
static void a_replica_out_of_sync_is_not_ready(void **state)
{
	(void)state;
	const struct world_setting setting = {
	    .executors = 2, .replicas = REPLICAS, .backlog_bytes = 1, .catch_up_bytes_per_s = 4 << 20, .dense = true};
	struct world *w = world_open(&setting);
	world_push_batches(w, BATCHES);
	(void)world_await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	for (uint32_t i = 0; i < WORLD_SERVERS; i++)
		AWAIT(is_ready(w, i), "server %u is in sync, and not ready", i);
	world_push_batch(w, 1);
	world_lose_disk(w, 1);
	assert_true(is_ready(w, 0));
	world_restart(w, 1);
	assert_false(is_ready(w, 1));
	AWAIT(is_ready(w, 1), "it does not become ready");
	assert_int_equal(world_totals(w).in_sync, REPLICAS * CLUSTER_PARTITIONS);
	check_all(w);
	world_close(w);
}

/* The server runs and stays in sync. */
static void a_server_that_leaves_hands_over(void **state)
{
	(void)state;
	struct world *w = world_open(&(struct world_setting){.executors = 2, .replicas = REPLICAS});
	world_push_batches(w, BATCHES);
	(void)world_await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	assert_int_not_equal(count_primaries(w, 1), 0);
	AWAIT(is_ready(w, 1), "it does not become ready");
	server_hand_over(w->servers[1], WEIR_HAND_OVER_MS);
	assert_false(is_ready(w, 1));
	await_no_primary(w, 1);
	world_push_batches(w, BATCHES);
	(void)world_await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	check_all(w);
	world_close(w);
}

/* Each role moves once and stays at its new server. */
static void servers_that_leave_together_end(void **state)
{
	(void)state;
	struct world *w = world_open(&(struct world_setting){.executors = 2, .replicas = REPLICAS});
	(void)world_await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	for (uint32_t i = 0; i < WORLD_SERVERS; i++)
		placement_leave(roles_placement(w->servers[i]));
	for (uint32_t i = 0; i < WORLD_SERVERS; i++)
		AWAIT(!placement_is_leaving(roles_placement(w->servers[i])), "server %u passes roles on and on", i);
	world_push_batches(w, BATCHES);
	check_all(w);
	world_close(w);
}

static void each_server_dies_and_takes_over_again(bool on_disk)
{
	struct world *w = world_open(&(struct world_setting){.executors = 2, .on_disk = on_disk, .replicas = REPLICAS});
	world_push_batches(w, BATCHES);
	for (uint32_t dies = 0; dies < WORLD_SERVERS; dies++) {
		(void)world_await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
		world_push_batch(w, dies);
		world_push_batches(w, BATCHES / 4);
		world_restart(w, dies);
		world_push_batches(w, BATCHES / 4);
	}
	(void)world_await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	check_replicas_are_equal(w);
	check_all(w);
	world_close(w);
}

/* The server has only its vote store. */
static void a_server_without_its_log_is_brought_up(void **state)
{
	(void)state;
	each_server_dies_and_takes_over_again(false);
}

/* The log may end with uncommitted entries. */
static void a_server_with_its_log_goes_on_from_it(void **state)
{
	(void)state;
	each_server_dies_and_takes_over_again(true);
}

/* --- Snapshots */

/* The state of a replica, read on its own thread. */
struct look {
	struct partition *partition;
	uint64_t first, durable; /* of its log */
	uint64_t rows;
};

static void look(void *arg)
{
	struct look *l = arg;
	struct log *log = partition_log(l->partition);
	struct store_counters counters;
	store_get_counters(partition_store(l->partition), &counters);
	l->first = log->ops->first(log);
	l->durable = log->ops->durable(log);
	l->rows = counters.rows;
}

static struct look look_at(struct server *s, uint32_t partition)
{
	struct look l = {.partition = s->partitions[partition]};
	on_loop(server_executor(s, partition)->loop, look, &l);
	return l;
}

/* Otherwise nothing would be written to disk for an hour. */
static void on_disk_pushes_are_answered_from_all_disks(void **state)
{
	(void)state;
	struct world *w = world_open(&(struct world_setting){
	    .executors = 2, .on_disk = true, .replicas = REPLICAS, .ack = PARTITION_ACK_DISK, .fsync_interval_ms = 3600000});
	do {
		(void)world_await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
		world_push_batches(w, BATCHES);
	} while (world_totals(w).in_sync <
	         /* A busy machine may drop a replica. */
	         REPLICAS * CLUSTER_PARTITIONS);
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		for (uint32_t i = 0; i < REPLICAS; i++)
			assert_true(look_at(w->servers[placement_replica(p, i, WORLD_SERVERS)], p).durable >= w->batches);
	check_all(w);
	world_close(w);
}

/* Waits until the beginning of every log is gone, so an empty replica needs a snapshot. */
static void await_trimmed(struct world *w)
{
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		for (uint32_t i = 0; i < WORLD_SERVERS; i++)
			if (w->servers[i] && world_is_host(w, p, i))
				AWAIT(look_at(w->servers[i], p).first > 1, "partition %u of server %u still has its first entry", p, i);
}

/* A server loses its data and is away until the logs no longer reach back. Later it is the only one
 * left. */
static void who_lost_everything_is_brought_up(const struct world_setting *setting, uint32_t lost)
{
	struct world *w = world_open(setting);
	world_push_batches(w, BATCHES);
	(void)world_await_in_sync(w, setting->replicas * CLUSTER_PARTITIONS);
	world_push_batch(w, lost);
	world_lose_disk(w, lost);
	world_push_batches(w, BATCHES / 2);
	await_trimmed(w);
	world_restart(w, lost);
	world_push_batches(w, BATCHES / 2);
	(void)world_await_in_sync(w, setting->replicas * CLUSTER_PARTITIONS);
	check_replicas_are_equal(w);
	for (uint32_t i = 0; i < WORLD_SERVERS; i++)
		if (i != lost)
			world_kill(w, i);
	check_all(w);
	world_close(w);
}

static void by_a_snapshot_of_two_replicas(void **state)
{
	(void)state;
	for (uint32_t lost = 0; lost < WORLD_SERVERS; lost++)
		who_lost_everything_is_brought_up(&(struct world_setting){.executors = 2, .replicas = 2, .backlog_bytes = 1}, lost);
}

static void by_a_snapshot_of_three_replicas(void **state)
{
	(void)state;
	who_lost_everything_is_brought_up(&(struct world_setting){.executors = 2, .replicas = 3, .min_isr = 1, .backlog_bytes = 1},
	                                  1);
}

static void by_a_snapshot_to_its_disk(void **state)
{
	(void)state;
	who_lost_everything_is_brought_up(
	    &(struct world_setting){.executors = 2, .on_disk = true, .replicas = 2, .min_isr = 1, .backlog_bytes = 1}, 2);
}

static void by_a_snapshot_of_rows_below_memory(void **state)
{
	(void)state;
	who_lost_everything_is_brought_up(
	    &(struct world_setting){
	        .executors = 2, .on_disk = true, .replicas = 3, .min_isr = 1, .memory_bytes = 1 << 20, .backlog_bytes = 1},
	    0);
}

static uint64_t count_rows(struct world *w, uint32_t server)
{
	uint64_t rows = 0;
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		if (world_is_host(w, p, server))
			rows += look_at(w->servers[server], p).rows;
	return rows;
}

/* Waits until a server that lost its data has rows_min rows, of all its replicas. */
static void await_rows(struct world *w, uint32_t server, uint64_t rows_min)
{
	uint64_t rows;
	AWAIT((rows = count_rows(w, server)) >= rows_min, "server %u has %llu rows", server, (unsigned long long)rows);
}

/* During a snapshot its receiver or its sender dies. */
static void a_snapshot_is_cut_short(const struct world_setting *setting, uint32_t first, uint32_t last)
{
	static const struct {
		uint32_t lost, dies;
		uint64_t rows; /* rows received at that time, of 40 */
	} cuts[] = {{0, 0, 0}, {1, 1, 3}, {2, 2, 15}, {0, 0, 30}, {1, 2, 0}, {2, 0, 4}, {0, 1, 20}};
	struct world *w = world_open(setting);
	world_push_batches(w, BATCHES);
	for (uint32_t i = first; i <= last; i++) {
		(void)world_await_in_sync(w, setting->replicas * CLUSTER_PARTITIONS);
		world_push_batch(w, cuts[i].lost);
		world_lose_disk(w, cuts[i].lost);
		world_push_batches(w, 5);
		await_trimmed(w);
		world_restart(w, cuts[i].lost);
		await_rows(w, cuts[i].lost, cuts[i].rows);
		world_push_batch(w, cuts[i].dies);
		world_push_batches(w, 5);
		world_restart(w, cuts[i].dies);
		world_push_batches(w, 5);
	}
	(void)world_await_in_sync(w, setting->replicas * CLUSTER_PARTITIONS);
	check_replicas_are_equal(w);
	world_kill(w, 1);
	world_kill(w, 2);
	check_all(w);
	world_close(w);
}

static void in_memory_a_snapshot_may_be_cut_short(void **state)
{
	(void)state;
	a_snapshot_is_cut_short(
	    &(struct world_setting){
	        .executors = 2, .replicas = 3, .min_isr = 1, .backlog_bytes = 1, .catch_up_bytes_per_s = 4 << 20, .dense = true},
	    0, 3);
}

static void on_disk_a_snapshot_may_be_cut_short(void **state)
{
	(void)state;
	a_snapshot_is_cut_short(&(struct world_setting){.executors = 2,
	                                                .on_disk = true,
	                                                .replicas = 3,
	                                                .min_isr = 1,
	                                                .backlog_bytes = 1,
	                                                .catch_up_bytes_per_s = 4 << 20,
	                                                .dense = true},
	                        3, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(with_one_executor),
	    cmocka_unit_test(with_several_executors),
	    cmocka_unit_test(a_server_taken_for_dead_is_no_longer_primary),
	    cmocka_unit_test(a_replica_out_of_sync_is_not_ready),
	    cmocka_unit_test(a_server_that_leaves_hands_over),
	    cmocka_unit_test(servers_that_leave_together_end),
	    cmocka_unit_test(a_server_without_its_log_is_brought_up),
	    cmocka_unit_test(a_server_with_its_log_goes_on_from_it),
	    cmocka_unit_test(on_disk_pushes_are_answered_from_all_disks),
	    cmocka_unit_test(by_a_snapshot_of_two_replicas),
	    cmocka_unit_test(by_a_snapshot_of_three_replicas),
	    cmocka_unit_test(by_a_snapshot_to_its_disk),
	    cmocka_unit_test(by_a_snapshot_of_rows_below_memory),
	    cmocka_unit_test(in_memory_a_snapshot_may_be_cut_short),
	    cmocka_unit_test(on_disk_a_snapshot_may_be_cut_short),
	};
	return cmocka_run_group_tests_name("replicated", tests, NULL, NULL);
}
