/* Names of workers: a newcomer with a taken name waits exactly until the holder must be dead. All
 * clients are in this process, so every pid is alive and only silence shows a death. */
#include <pthread.h>
#include <stdio.h>

#include "tests/cmocka_check.h"

#include "tests/folder.h"
#include "tests/unit/worker/client/integer_trainer.h"

static const weir_mode asynchronous = {WEIR_ASYNC};

struct newcomer {
	pthread_t id;
	struct cluster *cluster;
	const char *name;
	weir_role role;
	weir_client *client;
	weir_status status;
	weir_error err;
};

static weir_status newcomer_open(struct newcomer *n)
{
	const weir_options options = {.ledger = "memory:0",
	                              .name = n->name,
	                              .role = n->role,
	                              .dataset_fingerprint = 77,
	                              .dataset_units = UNITS,
	                              .connect_timeout_ms = PATIENCE_MS};
	return n->status = client_open(&n->client, &options, n->cluster->rpc, &n->err);
}

static void *newcomer_main(void *arg)
{
	(void)newcomer_open(arg);
	return NULL;
}

static void a_live_worker_keeps_its_name(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	cluster_start(&c, &(struct cluster_options){0});
	trainer_open(&t, &c, "worker", asynchronous);
	struct newcomer n = {.cluster = &c, .name = "worker"};
	assert_int_equal(newcomer_open(&n), WEIR_E_EXISTS);
	CHECK_CONTAINS(n.err.text, "a live worker has this name, pid");
	finish_by(&t, &c);
	assert_sums(&t);
	assert_int_equal(cluster_audit(&c).workers_lost, 0);
	trainer_close(&t);
	cluster_stop(&c);
}

/* The ledger's server and a worker die together and both return; the worker joins first. The
 * ledger's own downtime does not count as the holder's silence. */
static void a_ledger_that_comes_back_has_not_heard_from_the_dead(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	char folder[FOLDER_BYTES];
	folder_create(folder);
	cluster_start(&c, &(struct cluster_options){.servers = 1, .folder = folder, .memory_budget_bytes = 256u << 20});
	trainer_open(&t, &c, "worker", asynchronous);
	trainer_abandon(&t);
	cluster_kill_server(&c, 0);
	struct newcomer n = {.cluster = &c, .name = "worker"};
	const int64_t began_ms = clock_ms(clock_system());
	pthread_create(&n.id, NULL, newcomer_main, &n);
	while (clock_ms(clock_system()) < began_ms + WEIR_PROGRESS_INTERVAL_MS + 200)
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	cluster_start_server(&c, 0);
	pthread_join(n.id, NULL);
	CHECK_OK(n.status, n.err);
	CHECK_OK(weir_close(n.client, &n.err), n.err);
	cluster_stop(&c);
	folder_remove(folder);
}

/* A client in another language may send no pid. */
static void a_dead_holder_without_a_pid_is_waited_for(void **state)
{
	(void)state;
	struct cluster c;
	Weir__V1__JoinRequest q = WEIR__V1__JOIN_REQUEST__INIT;
	Weir__V1__Dataset dataset = WEIR__V1__DATASET__INIT;
	struct rpc_channel *channel;
	struct message *answer;
	weir_error err = {0};
	cluster_start(&c, &(struct cluster_options){0});
	struct rpc_loop *loop = rpc_loop_create(c.rpc, "another language", &err);
	assert_non_null(loop);
	CHECK_OK(rpc_channel_open(&channel, c.rpc, loop, "memory:0", &err), err);
	dataset.fingerprint = 77;
	dataset.units = UNITS;
	q.wire_version = FRAME_VERSION;
	q.name = (char *)(uintptr_t) "worker";
	q.dataset = &dataset;
	CHECK_OK(rpc_call_wait(channel, RPC_JOIN, wire_pack(&q.base), PATIENCE_MS, &answer, &err), err);
	message_release(answer);
	struct newcomer n = {.cluster = &c, .name = "worker"};
	CHECK_OK(newcomer_open(&n), n.err);
	CHECK_OK(weir_close(n.client, &n.err), n.err);
	rpc_channel_close(channel);
	rpc_loop_destroy(loop);
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_live_worker_keeps_its_name),
	    cmocka_unit_test(a_ledger_that_comes_back_has_not_heard_from_the_dead),
	    cmocka_unit_test(a_dead_holder_without_a_pid_is_waited_for),
	};
	return cmocka_run_group_tests_name("client_join", tests, NULL, NULL);
}
