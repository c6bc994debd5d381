/* A server starts on a folder with the unfinished snapshot of one partition. That partition starts
 * anew, the others keep their data. */
#include <stdio.h>
#include <stdlib.h>

#include "common/system/disk.h"
#include "server/store/cold.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/unit/server/service/service_fixture.h"

enum { UNFINISHED = 3 };

struct world {
	char folder[FOLDER_BYTES];
	struct cluster k;
	struct client push, pull;
	uint64_t pushes, id;
};

static void start(struct world *w)
{
	const struct durable_options durable = {.disk = disk_system(),
	                                        .journal_segment_bytes = 4 << 20,
	                                        .path = w->folder,
	                                        .fsync_interval_ms = 10,
	                                        .flush_interval_ms = 1000000,
	                                        .failed = check_no_error};
	struct server_options o = {.rpc = rpc_memory_create(NULL),
	                           .clock = clock_system(),
	                           .memory_budget_bytes = 256u << 20,
	                           .name = "server-0",
	                           .listen = cluster_address(0),
	                           .generation = RECORDS_GENERATION,
	                           .process_id = 1,
	                           .servers = 1,
	                           .partitions = CLUSTER_PARTITIONS,
	                           .executors = 2,
	                           .durable = &durable};
	weir_error err = {0};
	memcpy(o.uuid, records_uuid, 16);
	w->k = (struct cluster){.rpc = o.rpc, .count = 1};
	CHECK_OK(server_create(&w->k.servers[0], &o, &err), err);
	client_open(&w->push, w->k.rpc, cluster_address(0), RPC_PUSH_STREAM);
	client_open(&w->pull, w->k.rpc, cluster_address(0), RPC_PULL_STREAM);
	w->pushes = 0;
}

static void stop(struct world *w)
{
	client_close(&w->push);
	client_close(&w->pull);
	cluster_close(&w->k);
}

/* Adds 1 to a row of every partition. */
static void push_all(struct world *w, uint32_t batch)
{
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++) {
		const struct record r = {.kind = RECORD_PUSH,
		                         .partition = (uint16_t)p,
		                         .request_id = w->id++,
		                         .pass = 1,
		                         .unit = 1,
		                         .attempt = 1,
		                         .batch = batch};
		client_send(&w->push, cluster_frame(&r, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, p, 0), -1, true));
		client_wait(&w->push, (uint32_t)++w->pushes);
		assert_int_equal(client_answer(&w->push, r.request_id, p)->record.status, WEIR_OK);
	}
}

static void expect(struct world *w, float others, float unfinished)
{
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++) {
		const float value = cluster_pull_one(&w->pull, p, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, p, 0), w->id++);
		assert_true(value == (p == UNFINISHED ? unfinished : others));
	}
}

/* Leaves the folder of a server that died while it received a snapshot. */
static void begin_snapshot(const struct world *w)
{
	char path[FOLDER_BYTES + 8];
	struct cold *cold;
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/db", w->folder);
	CHECK_OK(cold_open(&cold, &(struct cold_options){.path = path}, &err), err);
	CHECK_OK(cold_empty_partition(cold, UNFINISHED, "weirfill", 8, &err), err);
	CHECK_OK(cold_flush(cold, &err), err);
	cold_close(cold);
}

static void an_unfinished_partition_begins_anew(void **state)
{
	(void)state;
	struct world w = {0};
	folder_create(w.folder);
	start(&w);
	cluster_register(&w.push);
	push_all(&w, 0);
	push_all(&w, 1);
	stop(&w); /* flushes everything */
	start(&w);
	expect(&w, 2, 2);
	push_all(&w, 2);
	stop(&w);
	begin_snapshot(&w);
	start(&w);
	expect(&w, 3, 0);
	push_all(&w, 3);
	stop(&w);
	start(&w);
	expect(&w, 4, 1);
	stop(&w);
	folder_remove(w.folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_unfinished_partition_begins_anew),
	};
	return cmocka_run_group_tests_name("unfinished", tests, NULL, NULL);
}
