/* A job loses the ledger's server, repeatedly or for good, while trainers work. Every batch counts
 * once, in one step, and workers notice only a pause. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/core/layout.h"
#include "server/log/journal.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/unit/worker/client/cluster_replicas.h"
#include "tests/unit/worker/client/integer_trainer.h"

enum { SERVERS = 3, PARTITIONS = 6, TRAINERS = 2 };
enum { PASSES = 3, DEATHS = 4, UNITS_BETWEEN = PASSES * UNITS / (DEATHS + 1) };

struct scene {
	struct cluster cluster;
	char folder[FOLDER_BYTES]; /* of logs on disk; "": logs are in memory */
	struct trainer_thread trainers[TRAINERS];
};

static void scene_open(struct scene *s, uint32_t replicas, uint64_t backlog_bytes, bool on_disk, weir_mode mode)
{
	s->folder[0] = 0;
	if (on_disk)
		folder_create(s->folder);
	cluster_start(&s->cluster, &(struct cluster_options){.servers = SERVERS,
	                                                     .partitions = PARTITIONS,
	                                                     .executors = 2,
	                                                     .replicas = replicas,
	                                                     .passes = PASSES,
	                                                     .backlog_bytes = backlog_bytes,
	                                                     .folder = on_disk ? s->folder : NULL,
	                                                     .memory_budget_bytes = 256u << 20});
	threads_open(s->trainers, TRAINERS, &s->cluster, mode);
}

/* Asserts that the job is finished, every batch counted once, and no trainer was declared dead. */
static void scene_close(struct scene *s, weir_mode mode)
{
	const struct audit a = cluster_audit(&s->cluster);
	assert_int_equal(a.workers_lost, 0);
	assert_int_equal(a.leases_expired, 0);
	assert_int_equal(a.units_quarantined, 0);
	assert_audit(&s->cluster);
	if (mode.kind != WEIR_ASYNC)
		assert_int_equal(a.dropped, 0);
	threads_close(s->trainers, TRAINERS);
	cluster_stop(&s->cluster);
	if (s->folder[0])
		folder_remove(s->folder);
}

struct deaths {
	struct scene scene;
	uint32_t replicas;
	uint32_t seen[SERVERS]; /* deaths by server */
	pthread_t id;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* The lock guards these: */
	uint32_t begun, allowed; /* units: how many may begin before the next death is over */
};

static void take_turn(void *arg)
{
	struct deaths *d = arg;
	pthread_mutex_lock(&d->lock);
	const uint32_t own = d->begun++;
	pthread_cond_broadcast(&d->changed);
	while (own >= d->allowed)
		pthread_cond_wait(&d->changed, &d->lock);
	pthread_mutex_unlock(&d->lock);
}

static void let_train(struct deaths *d, uint32_t units)
{
	pthread_mutex_lock(&d->lock);
	d->allowed += units;
	pthread_cond_broadcast(&d->changed);
	while (d->begun < d->allowed)
		pthread_cond_wait(&d->changed, &d->lock);
	pthread_mutex_unlock(&d->lock);
}

static void let_train_to_the_end(struct deaths *d)
{
	pthread_mutex_lock(&d->lock);
	d->allowed = UINT32_MAX;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
}

static void *deaths_main(void *arg)
{
	struct deaths *d = arg;
	struct cluster *c = &d->scene.cluster;
	struct cluster_replica ledger;
	for (uint32_t i = 0; i < DEATHS; i++) {
		cluster_await_in_sync(c, d->replicas);
		let_train(d, UNITS_BETWEEN);
		const uint32_t server = cluster_await_primary(c, JOURNAL_LEDGER, &ledger);
		d->seen[server]++;
		cluster_kill_server(c, server);
		(void)cluster_await_primary(c, JOURNAL_LEDGER, &ledger); /* another server has it */
		cluster_start_server(c, server);
	}
	let_train_to_the_end(d);
	return NULL;
}

/* Runs outside the test's own thread, where a failure ends the process. */
static void drain(struct cluster *c, uint32_t server)
{
	struct layout_asker *asker = NULL;
	struct layout *now = calloc(1, sizeof *now);
	struct layout_plan *plan = calloc(1, sizeof *plan);
	weir_error err = {0};
	weir_status status = now && plan ? layout_open(&asker, c->rpc, "memory:0", &err) : WEIR_E_MEMORY;
	if (!status)
		status = layout_ask(asker, now, &err);
	if (!status)
		status = layout_plan_drain(plan, now, server, &err);
	if (!status)
		status = layout_carry_out(asker, plan, PATIENCE_MS, NULL, NULL, &err);
	if (status) {
		fprintf(stderr, "drain: %s\n", err.text);
		abort();
	}
	layout_close(asker);
	free(now);
	free(plan);
}

/* Server 0 is drained of everything, the ledger included, and ends for good; so does the ledger's
 * next server. */
static void *departures_main(void *arg)
{
	struct deaths *d = arg;
	struct cluster *c = &d->scene.cluster;
	struct cluster_replica ledger;
	cluster_await_in_sync(c, d->replicas);
	for (uint32_t i = 0; i < 2; i++) {
		let_train(d, UNITS_BETWEEN);
		const uint32_t server = cluster_await_primary(c, JOURNAL_LEDGER, &ledger);
		d->seen[server]++;
		if (i == 0)
			drain(c, server);
		cluster_kill_server(c, server);
	}
	let_train(d, UNITS_BETWEEN);
	let_train_to_the_end(d);
	return NULL;
}

static void train_through(struct deaths *d, uint64_t backlog_bytes, bool on_disk, weir_mode mode, void *(*happens)(void *deaths))
{
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->changed, NULL);
	scene_open(&d->scene, d->replicas, backlog_bytes, on_disk, mode);
	for (uint32_t i = 0; i < TRAINERS; i++) {
		d->scene.trainers[i].trainer.before_unit = take_turn;
		d->scene.trainers[i].trainer.before_unit_arg = d;
	}
	assert_int_equal(pthread_create(&d->id, NULL, happens, d), 0);
	threads_train(d->scene.trainers, TRAINERS);
	pthread_join(d->id, NULL);
	scene_close(&d->scene, mode);
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
}

static void train_while_the_ledger_dies(uint32_t replicas, uint64_t backlog_bytes, bool on_disk, weir_mode mode)
{
	struct deaths d = {.replicas = replicas};
	train_through(&d, backlog_bytes, on_disk, mode, deaths_main);
	/* the ledger moved at least once, and not only from server 0 */
	assert_in_range(d.seen[0], 1, DEATHS - 1);
}

static void the_ledger_outlives_its_servers(void **state)
{
	(void)state;
	for (uint32_t replicas = 2; replicas <= SERVERS; replicas++)
		train_while_the_ledger_dies(replicas, 0, true, (weir_mode){WEIR_ASYNC});
}

static void steps_outlive_the_ledgers_servers(void **state)
{
	(void)state;
	for (uint32_t replicas = 2; replicas <= SERVERS; replicas++)
		train_while_the_ledger_dies(replicas, 0, true, (weir_mode){WEIR_SYNC});
}

/* The other servers' backlogs do not reach back far enough, so a returning server gets a snapshot,
 * into an empty folder or its old one. */
static void a_server_that_was_away_gets_a_snapshot(void **state)
{
	(void)state;
	train_while_the_ledger_dies(2, 1, false, (weir_mode){WEIR_ASYNC});
	train_while_the_ledger_dies(3, 1, true, (weir_mode){WEIR_SYNC});
}

/* backlog_bytes 1: the ledger's new replica starts from a snapshot. */
static void a_drained_server_is_not_missed(void **state)
{
	(void)state;
	for (uint32_t on_disk = 0; on_disk < 2; on_disk++) {
		struct deaths d = {.replicas = 2};
		train_through(&d, on_disk ? 1 : 0, on_disk, (weir_mode){on_disk ? WEIR_ASYNC : WEIR_SYNC}, departures_main);
		assert_int_equal(d.seen[0], 1); /* server 0 had the ledger, then another one */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_ledger_outlives_its_servers),
	    cmocka_unit_test(steps_outlive_the_ledgers_servers),
	    cmocka_unit_test(a_server_that_was_away_gets_a_snapshot),
	    cmocka_unit_test(a_drained_server_is_not_missed),
	};
	return cmocka_run_group_tests_name("replicated_ledger", tests, NULL, NULL);
}
