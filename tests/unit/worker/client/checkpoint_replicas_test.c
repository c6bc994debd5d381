/* Checkpoints of an integer job with replicas of ledger and partitions. Servers die and the ledger
 * moves meanwhile; restored jobs have replicas or not, and one server then loses its data. Every
 * batch counts once. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "server/cluster/roles.h"
#include "server/log/journal.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/worker/client/checkpoint_fixture.h"
#include "tests/unit/worker/client/cluster_replicas.h"

enum { SERVERS = 3, PARTITIONS = 6 };

/* --- A job */

struct scene {
	struct cluster cluster;
	char folder[FOLDER_BYTES]; /* of logs on disk; "": logs are in memory */
};

static void scene_open(struct scene *s, const struct place *place, uint32_t replicas, bool on_disk, const char *restore)
{
	s->folder[0] = 0;
	if (on_disk)
		folder_create(s->folder);
	cluster_start(&s->cluster, &(struct cluster_options){.servers = SERVERS,
	                                                     .partitions = PARTITIONS,
	                                                     .executors = 2,
	                                                     .lease_ms = 2001,
	                                                     .replicas = replicas,
	                                                     .folder = on_disk ? s->folder : NULL,
	                                                     .memory_budget_bytes = 256u << 20,
	                                                     .checkpoint = &place->options,
	                                                     .generation = restore ? 2 : 1,
	                                                     .restore = restore});
}

static void scene_close(struct scene *s)
{
	cluster_stop(&s->cluster);
	if (s->folder[0])
		folder_remove(s->folder);
}

/* --- Moving the ledger */

struct handover {
	struct server *server;
	uint16_t to;
	bool begun;
};

static void hand_over(void *arg)
{
	struct handover *h = arg;
	struct replication *x = roles_replication(h->server, JOURNAL_LEDGER);
	h->begun = x && replica_serves(replication_replica(x)) && replication_move(x, h->to) == WEIR_OK;
}

static bool begin_handover(struct server *s, uint16_t to)
{
	struct handover h = {.server = s, .to = to};
	on_loop(s->ledger_loop, hand_over, &h);
	return h.begun;
}

/* --- Restoring */

static void finish_restored(const struct place *place, const char *name, uint32_t replicas, bool on_disk, bool loses)
{
	struct scene s;
	struct trainer t;
	weir_error err = {0};
	scene_open(&s, place, replicas, on_disk, name);
	trainer_open(&t, &s.cluster, "mortal", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, 8, &err), &err);
	trainer_abandon(&t);
	trainer_open(&t, &s.cluster, "survivor", (weir_mode){WEIR_ASYNC});
	if (loses) {
		char path[FOLDER_BYTES + 32];
		cluster_await_in_sync(&s.cluster, replicas);
		cluster_kill_server(&s.cluster, 1);
		cluster_await_dropped(&s.cluster, 1);
		snprintf(path, sizeof path, "%s/server-1", s.folder);
		folder_remove(path);
		cluster_start_server(&s.cluster, 1);
		cluster_await_in_sync(&s.cluster, replicas);
		cluster_kill_server(&s.cluster, 0); /* the other servers have the restored data */
	}
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	assert_sums(&t);
	assert_audit(&s.cluster);
	trainer_close(&t);
	scene_close(&s);
}

static void moments_of_a_job_whose_servers_die(bool on_disk)
{
	struct place place;
	struct scene s;
	struct trainer_thread t[2];
	struct taker taker = {.count = 0};
	struct cluster_replica r;
	pthread_t thread;
	place_make(&place);
	scene_open(&s, &place, 2, on_disk, NULL);
	threads_open(t, 2, &s.cluster, (weir_mode){WEIR_ASYNC});
	asker_open(&taker.asker, &s.cluster);
	cluster_await_in_sync(&s.cluster, 2);
	assert_int_equal(pthread_create(&thread, NULL, take_again_and_again, &taker), 0);
	const uint32_t victim = cluster_await_primary(&s.cluster, JOURNAL_LEDGER, &r);
	cluster_kill_server(&s.cluster, victim);
	threads_train(t, 2);
	cluster_start_server(&s.cluster, victim);
	pthread_join(thread, NULL);
	assert_int_equal(taker.count, CHECKPOINTS_MAX);
	assert_sums(&t[0].trainer);
	assert_audit(&s.cluster);
	threads_close(t, 2);
	asker_close(&taker.asker);
	scene_close(&s);
	finish_restored(&place, taker.names[0], 2, true, true);
	finish_restored(&place, taker.names[1], 3, false, false);
	finish_restored(&place, taker.names[2], 1, on_disk, false);
	place_remove(&place);
}

static void with_logs_on_disk_any_moment_restores(void **state)
{
	(void)state;
	moments_of_a_job_whose_servers_die(true);
}

static void with_logs_in_memory_any_moment_restores(void **state)
{
	(void)state;
	moments_of_a_job_whose_servers_die(false);
}

/* --- The ledger moves */

/* The number of files whose names contain `part`, of checkpoints or their files. */
static uint32_t count_files(const struct place *place, const char *part)
{
	uint32_t count = 0;
	char path[FOLDER_BYTES + 300];
	DIR *top = opendir(place->folder);
	for (struct dirent *e; top && (e = readdir(top));) {
		count += strstr(e->d_name, part) != NULL;
		if (strncmp(e->d_name, "files-", 6) != 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", place->folder, e->d_name);
		DIR *files = opendir(path);
		for (struct dirent *f; files && (f = readdir(files));)
			count += strstr(f->d_name, part) != NULL;
		closedir(files);
	}
	closedir(top);
	return count;
}

static void a_server_that_lost_the_ledger_publishes_nothing(void **state)
{
	(void)state;
	struct place place;
	struct scene s;
	struct trainer t;
	struct asker a;
	struct cluster_replica r;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error err = {0};
	place_make(&place);
	place.options.bytes_per_s = 128 << 10; /* slow, so that the ledger moves meanwhile */
	scene_open(&s, &place, 2, false, NULL);
	trainer_open(&t, &s.cluster, "worker", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, 15, &err), &err);
	trainer_abandon(&t);
	cluster_await_in_sync(&s.cluster, 2);
	asker_open(&a, &s.cluster);
	asker_begin(&a);
	AWAIT(count_files(&place, ".header") > 0, "the checkpoint has not begun");
	const uint32_t from = cluster_await_primary(&s.cluster, JOURNAL_LEDGER, &r);
	AWAIT(begin_handover(s.cluster.servers[from], (uint16_t)(1 - from)), "server %u keeps the ledger", from);
	AWAIT(cluster_await_primary(&s.cluster, JOURNAL_LEDGER, &r) != from, "server %u still has the ledger", from);
	assert_int_equal(count_files(&place, ".json"), 0);
	asker_take(&a, name); /* a checkpoint of the new ledger */
	assert_int_equal(count_files(&place, ".json"), 1);
	/* the former ledger's unfinished checkpoint is removed */
	assert_int_equal(count_files(&place, "ck-"), count_files(&place, name));
	asker_close(&a);
	scene_close(&s);
	finish_restored(&place, name, 2, false, false);
	place_remove(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(with_logs_on_disk_any_moment_restores),
	    cmocka_unit_test(with_logs_in_memory_any_moment_restores),
	    cmocka_unit_test(a_server_that_lost_the_ledger_publishes_nothing),
	};
	return cmocka_run_group_tests_name("checkpoint_replicas", tests, NULL, NULL);
}
