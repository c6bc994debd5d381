/* A job with replicas loses servers while trainers work: every batch counts once, and workers
 * notice only a pause. */
#include <semaphore.h>
#include <stdatomic.h>

#include "common/base/key_partition.h"
#include "server/cluster/roles.h"
#include "server/replication/replication.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/rounds.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/worker/client/cluster_replicas.h"
#include "tests/unit/worker/client/integer_trainer.h"

enum { SERVERS = 3, PARTITIONS = 6, TRAINERS = 2, STALENESS_MS = 2000 };
/* a quarter of the job's bytes */
#define ENOUGH_BYTES ((uint64_t)UNITS * BATCHES * DENSE * sizeof(float) / 4)

struct killer {
	struct cluster *cluster;
	uint32_t server;
	pthread_t id;
};

/* Kills servers in the middle of the job. */
static void *killer_main(void *arg)
{
	const struct killer *k = arg;
	AWAIT(cluster_bytes_pushed(k->cluster) >= ENOUGH_BYTES, "nobody pushes");
	cluster_kill_server(k->cluster, k->server);
	return NULL;
}

/* options: without the common ones. A server that dies before replicas are in sync takes its
 * partitions with it. */
static void servers_open(struct cluster *c, struct cluster_options options)
{
	options.servers = SERVERS;
	options.partitions = PARTITIONS;
	options.executors = 2;
	cluster_start(c, &options);
	cluster_await_in_sync(c, options.replicas);
}

/* Pulls answered by replicas that are not primary. */
static uint64_t reads_elsewhere(const struct cluster *c, uint32_t table)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < SERVERS; i++)
		for (uint32_t p = 0; c->servers[i] && p < c->partitions; p++) {
			const struct partition *here = c->servers[i]->partitions[p];
			if (here && placement_server(p, SERVERS) != i)
				sum += atomic_load(&partition_table_get_counters(here, table)->pulls);
		}
	return sum;
}

static void train_while_a_server_dies(uint32_t server, struct cluster_options options, weir_mode mode)
{
	struct cluster c;
	struct trainer_thread trainers[TRAINERS];
	struct killer killer = {.cluster = &c, .server = server};
	servers_open(&c, options);
	threads_open(trainers, TRAINERS, &c, mode);
	assert_int_equal(pthread_create(&killer.id, NULL, killer_main, &killer), 0);
	threads_train(trainers, TRAINERS);
	pthread_join(killer.id, NULL);
	assert_int_equal(cluster_audit(&c).workers_lost, 0);
	assert_audit(&c);
	if (mode.kind == WEIR_ASYNC)
		assert_sums(&trainers[0].trainer);
	else
		assert_int_equal(cluster_audit(&c).dropped, 0);
	threads_close(trainers, TRAINERS);
	cluster_stop(&c);
}

/* The first server also has the ledger. */
static void asynchronous_pushes_outlive_their_server(void **state)
{
	(void)state;
	for (uint32_t server = 0; server < rounds(SERVERS); server++)
		train_while_a_server_dies(server, (struct cluster_options){.replicas = 2}, (weir_mode){WEIR_ASYNC});
}

static void steps_outlive_a_server(void **state)
{
	(void)state;
	for (uint32_t server = 0; server < rounds(2); server++)
		train_while_a_server_dies(server, (struct cluster_options){.replicas = 2}, (weir_mode){WEIR_SYNC});
}

static void three_replicas_outlive_a_server(void **state)
{
	(void)state;
	train_while_a_server_dies(2, (struct cluster_options){.replicas = 3}, (weir_mode){WEIR_ASYNC});
}

/* The other servers have its partitions, or soon will. */
static void tables_are_registered_while_a_server_is_dead(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer_thread trainers[TRAINERS];
	servers_open(&c, (struct cluster_options){.replicas = 2});
	cluster_kill_server(&c, 1);
	threads_open(trainers, TRAINERS, &c, (weir_mode){WEIR_ASYNC});
	threads_train(trainers, TRAINERS);
	assert_audit(&c);
	assert_sums(&trainers[0].trainer);
	threads_close(trainers, TRAINERS);
	cluster_stop(&c);
}

/* --- State that only a primary has */

static void stop_replication(void *arg)
{
	const struct executor *e = arg;
	struct server *s = e->server;
	for (uint16_t p = 0; p < s->options.partitions; p++)
		if (roles_replication(s, p) && server_executor(s, p) == e)
			replication_stop(roles_replication(s, p));
}

/* The server ships and commits nothing from here on, but its heartbeats continue. */
static void cut_off(struct server *s)
{
	for (uint32_t i = 0; i < s->options.executors; i++)
		on_loop(s->executors[i].loop, stop_replication, &s->executors[i]);
}

static uint64_t pushes_in_flight(weir_client *c)
{
	weir_stats stats = {0};
	weir_get_stats(c, &stats);
	return stats.pushes_in_flight;
}

static void await_pushes(weir_client *c)
{
	AWAIT(pushes_in_flight(c) == 0, "%llu pushes are in flight", (unsigned long long)pushes_in_flight(c));
}

/* A push is answered when only its primary has it, and is lost when the primary dies. */
static void what_a_primary_alone_had_is_done_again(struct cluster_options options)
{
	enum { PRIMARY = 1 };
	struct cluster c;
	struct trainer t;
	weir_unit u;
	weir_error err = {0};
	weir_status status = WEIR_OK;
	options.ack = PARTITION_ACK_PRIMARY;
	servers_open(&c, options);
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	trainer_lease(&t, &u);
	assert_ok(run_batch(&t, &u, 0, &err), &err);
	await_pushes(t.client);
	cut_off(c.servers[PRIMARY]);
	assert_ok(push_batch(&t, &u, 1, &err), &err);
	await_pushes(t.client);
	cluster_kill_server(&c, PRIMARY);
	for (uint32_t batch = 2; batch < BATCHES && !status; batch++)
		status = push_batch(&t, &u, batch, &err);
	if (!status)
		status = weir_unit_commit(t.client, &u, &err);
	assert_int_equal(status, WEIR_E_STALE);
	assert_ok(weir_rejoin(t.client, &err), &err);
	finish_by(&t, &c);
	assert_sums(&t);
	trainer_close(&t);
	cluster_stop(&c);
}

static void pushes_answered_by_a_primary_alone_are_done_again(void **state)
{
	(void)state;
	what_a_primary_alone_had_is_done_again((struct cluster_options){.replicas = 2});
	what_a_primary_alone_had_is_done_again((struct cluster_options){.replicas = 3});
}

static void pushes_that_were_sent_are_done_again(void **state)
{
	(void)state;
	what_a_primary_alone_had_is_done_again((struct cluster_options){.replicas = 2, .ack_sent = true});
}

/* --- Reads */

static void reads_from_all_replicas_outlive_a_server(void **state)
{
	(void)state;
	train_while_a_server_dies(1, (struct cluster_options){.replicas = 2, .read_staleness_ms = STALENESS_MS},
	                          (weir_mode){WEIR_ASYNC});
	train_while_a_server_dies(2, (struct cluster_options){.replicas = 3, .read_staleness_ms = STALENESS_MS},
	                          (weir_mode){WEIR_SYNC});
}

/* Reads value 0 of a row. */
static float read_row(struct trainer *t, uint64_t key)
{
	float row[WIDTH];
	const weir_pull_item item = {.table = t->embedding, .keys = &key, .rows = 1, .values = row};
	weir_ticket ticket;
	weir_error err = {0};
	assert_ok(weir_pull(t->client, NULL, &item, 1, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(t->client, ticket, PATIENCE_MS, &err), &err);
	return row[0];
}

/* A key of the embedding table in a partition that starts with its primary on this server. */
static uint64_t key_at(const struct trainer *t, uint32_t server)
{
	uint64_t key = 0;
	while (placement_server(placement_embedding(t->embedding, key, PARTITIONS), SERVERS) != server)
		key++;
	return key;
}

/* Each batch changes a row by 1. The row is read at once, from each replica in turn, while its
 * primary dies. */
static void a_client_reads_its_own_pushes_everywhere(void **state)
{
	(void)state;
	enum { READS = 4, PRIMARY = 1 };
	struct cluster c;
	struct trainer t;
	weir_unit u;
	weir_error err = {0};
	float expected = 0;
	servers_open(&c, (struct cluster_options){.replicas = SERVERS, .read_staleness_ms = STALENESS_MS});
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	const uint64_t key = key_at(&t, PRIMARY);
	for (uint32_t unit = 0; unit < UNITS; unit++) {
		/* replicas are in sync and their streams are open */
		while (reads_elsewhere(&c, t.embedding) <= unit)
			(void)read_row(&t, key);
		trainer_lease(&t, &u);
		for (uint32_t batch = 0; batch < BATCHES; batch++) {
			const float add[WIDTH] = {-1};
			const weir_batch id = {.pass = u.pass, .unit = u.unit, .batch = batch, .attempt = u.attempt};
			const weir_push_item item = {.table = t.embedding, .keys = &key, .rows = 1, .values = add};
			weir_ticket ticket;
			assert_ok(weir_push(t.client, &id, &item, 1, NULL, NULL, NULL, &ticket, &err), &err);
			if (unit == UNITS / 2 && batch == BATCHES / 2)
				cluster_kill_server(&c, PRIMARY);
			assert_ok(weir_wait(t.client, ticket, PATIENCE_MS, &err), &err);
			expected++;
			for (uint32_t i = 0; i < READS; i++)
				assert_true(read_row(&t, key) == expected);
		}
		assert_ok(weir_unit_commit(t.client, &u, &err), &err);
	}
	trainer_close(&t);
	cluster_stop(&c);
}

/* The number of pulls of the partition that this server has answered as a replica. */
static uint64_t reads_at(const struct cluster *c, uint32_t server, uint32_t partition, uint32_t table)
{
	return atomic_load(&partition_table_get_counters(c->servers[server]->partitions[partition], table)->pulls);
}

static void stand_still(void *arg)
{
	while (sem_wait(arg) != 0)
		;
}

/* A replica hangs with reads to answer, and its heartbeats continue: the reads go to the
 * primary. */
static void a_replica_that_does_not_answer_leaves_reads_to_the_primary(void **state)
{
	(void)state;
	enum { SLOW = 1 };
	struct cluster c;
	struct trainer t;
	weir_stats stats = {0};
	sem_t go;
	servers_open(&c, (struct cluster_options){.replicas = SERVERS, .read_staleness_ms = STALENESS_MS});
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	const uint64_t key = key_at(&t, 0);
	const uint32_t partition = placement_embedding(t.embedding, key, PARTITIONS);
	while (!reads_at(&c, SLOW, partition, t.embedding))
		(void)read_row(&t, key);
	weir_get_stats(t.client, &stats);
	const uint64_t before = stats.reads_returned;
	const struct server *slow = c.servers[SLOW];
	sem_init(&go, 0, 0);
	for (uint32_t i = 0; i < slow->options.executors; i++)
		rpc_loop_post(slow->loops[i], stand_still, &go);
	do {
		(void)read_row(&t, key);
		weir_get_stats(t.client, &stats);
	} while (stats.reads_returned == before);
	for (uint32_t i = 0; i < slow->options.executors; i++)
		sem_post(&go);
	trainer_close(&t);
	cluster_stop(&c);
	sem_destroy(&go);
}

/* A restarted replica has rows on disk only, and reads them there. */
static void rows_below_memory_are_read_from_replicas(void **state)
{
	(void)state;
	enum { RESTARTED = 1 };
	struct cluster c;
	struct trainer t, reader;
	char folder[FOLDER_BYTES];
	folder_create(folder);
	servers_open(&c, (struct cluster_options){.replicas = 2,
	                                          .folder = folder,
	                                          .memory_budget_bytes = 256u << 20,
	                                          .rows_at_start = 1,
	                                          .read_staleness_ms = STALENESS_MS});
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	finish_by(&t, &c);
	trainer_close(&t);
	AWAIT(cluster_audit(&c).unflushed == 0, "entries are not flushed"); /* the restart would apply them, in memory */
	const uint64_t resident = cluster_audit(&c).resident_rows;
	cluster_restart(&c, RESTARTED);
	assert_true(cluster_audit(&c).resident_rows < resident - KEY_SPACE / SERVERS);
	trainer_open(&reader, &c, "reader", (weir_mode){WEIR_ASYNC});
	const uint32_t partition = 0; /* its replicas start on servers 0 and 1 */
	while (reads_at(&c, RESTARTED, partition, reader.embedding) < 10)
		assert_sums(&reader);
	trainer_close(&reader);
	cluster_stop(&c);
	folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(asynchronous_pushes_outlive_their_server),
	    cmocka_unit_test(steps_outlive_a_server),
	    cmocka_unit_test(three_replicas_outlive_a_server),
	    cmocka_unit_test(tables_are_registered_while_a_server_is_dead),
	    cmocka_unit_test(pushes_answered_by_a_primary_alone_are_done_again),
	    cmocka_unit_test(pushes_that_were_sent_are_done_again),
	    cmocka_unit_test(reads_from_all_replicas_outlive_a_server),
	    cmocka_unit_test(a_client_reads_its_own_pushes_everywhere),
	    cmocka_unit_test(a_replica_that_does_not_answer_leaves_reads_to_the_primary),
	    cmocka_unit_test(rows_below_memory_are_read_from_replicas),
	};
	return cmocka_run_group_tests_name("replicated_job", tests, NULL, NULL);
}
