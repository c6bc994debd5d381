/* Dense tables and the servers' memory: a table that does not fit is refused before any part of it
 * exists, with logs in memory or on disk, at every entry point. A refused table takes no memory,
 * name or id. */
#include "proto/wire/wire.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/unit/worker/client/cluster.h"

#define BUDGET (64ull << 20)
/* Chunks of 256 KiB and a little more, without optimizer state, all on one server. */
#define CHUNKS_FIT ((BUDGET >> 18) - 1)

static weir_table_spec dense_spec(const char *name, uint64_t elements, weir_init_segment *zero)
{
	*zero = (weir_init_segment){.elements = elements, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = WEIR_DENSE,
	                        .elements = elements,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .segments_count = 1,
	                        .segments = zero};
	snprintf(spec.name, sizeof spec.name, "%s", name);
	return spec;
}

static weir_status add_dense(weir_client *c, const char *name, uint64_t elements, weir_error *err)
{
	weir_init_segment zero;
	const weir_table_spec spec = dense_spec(name, elements, &zero);
	uint32_t id;
	return weir_table_register(c, &spec, &id, err);
}

static void refused(weir_client *c, const char *name, uint64_t elements)
{
	weir_error err = {0};
	assert_int_equal(add_dense(c, name, elements, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, name);
	CHECK_CONTAINS(err.text, "cluster.memory_budget, 67108864 bytes: raise it");
}

static void taken(weir_client *c, const char *name, uint64_t elements)
{
	weir_error err = {0};
	CHECK_OK(add_dense(c, name, elements, &err), err);
}

static void close_client(weir_client *c)
{
	weir_error err = {0};
	CHECK_OK(weir_close(c, &err), err);
}

/* Uses up the job's budget, to the last chunk. */
static void fill(struct cluster *c, uint64_t chunks)
{
	weir_client *w = cluster_trainer(c, "w", 1);
	refused(w, "largest", WEIR_TABLE_ELEMENTS_MAX);
	refused(w, "largest", (chunks + 1) * WEIR_CHUNK);
	taken(w, "largest", (chunks - 2) * WEIR_CHUNK); /* the refused name is free */
	refused(w, "second", 3 * WEIR_CHUNK);
	taken(w, "second", WEIR_CHUNK);
	taken(w, "third", 1000); /* one chunk too */
	refused(w, "fourth", 1);
	taken(w, "largest", (chunks - 2) * WEIR_CHUNK); /* the same request as another worker's */
	cluster_table(w, "rows", WEIR_EMBEDDING, 8, (weir_mode){WEIR_ASYNC});
	close_client(w);
}

static void in_memory(void **state)
{
	(void)state;
	struct cluster c;
	cluster_start(&c, &(struct cluster_options){.servers = 1, .partitions = 1, .memory_budget_bytes = BUDGET});
	fill(&c, CHUNKS_FIT);
	cluster_stop(&c);
}

static void on_disk_and_after_a_restart(void **state)
{
	(void)state;
	struct cluster c;
	char folder[FOLDER_BYTES];
	folder_create(folder);
	cluster_start(&c, &(struct cluster_options){.servers = 1, .partitions = 1, .memory_budget_bytes = BUDGET, .folder = folder});
	fill(&c, CHUNKS_FIT);
	cluster_restart(&c, 0);
	weir_client *w = cluster_trainer(&c, "w", 1);
	taken(w, "third", 1000);
	refused(w, "fourth", 1);
	close_client(w);
	cluster_stop(&c);
	folder_remove(folder);
}

/* Two servers have twice the memory. */
static void on_two_servers(void **state)
{
	(void)state;
	struct cluster c;
	cluster_start(&c, &(struct cluster_options){.servers = 2, .partitions = 8, .memory_budget_bytes = BUDGET});
	weir_client *w = cluster_trainer(&c, "w", 1);
	taken(w, "both", CHUNKS_FIT * 3 / 2 * WEIR_CHUNK);
	refused(w, "more", CHUNKS_FIT * 3 / 4 * WEIR_CHUNK);
	close_client(w);
	cluster_stop(&c);
}

/* But not with replicas: after a death the survivor has everything. */
static void on_two_replicas(void **state)
{
	(void)state;
	struct cluster c;
	cluster_start(&c, &(struct cluster_options){.servers = 2, .partitions = 8, .replicas = 2, .memory_budget_bytes = BUDGET});
	weir_client *w = cluster_trainer(&c, "w", 1);
	refused(w, "both", CHUNKS_FIT * 3 / 2 * WEIR_CHUNK);
	taken(w, "both", CHUNKS_FIT * 3 / 4 * WEIR_CHUNK);
	close_client(w);
	cluster_stop(&c);
}

/* A client may skip the ledger and ask a server. */
static weir_status ask_server(weir_client *c, uint32_t id, const char *name, uint64_t elements, weir_error *err)
{
	Weir__V1__RegisterTableRequest q = WEIR__V1__REGISTER_TABLE_REQUEST__INIT;
	Weir__V1__JobId job;
	weir_init_segment zero;
	struct wire_table wire;
	struct rpc_channel *channel;
	ProtobufCMessage *reply = NULL;
	const weir_table_spec spec = dense_spec(name, elements, &zero);
	assert_int_equal(wire_table_make(&wire, &spec, id), WEIR_OK);
	client_fill_job(c, &job);
	q.job = &job;
	q.table = &wire.table;
	CHECK_OK(client_channel(c, 0, &channel, err), *err);
	weir_status status =
	    client_call(c, channel, RPC_REGISTER_TABLE, &q.base, 10000, &weir__v1__register_table_reply__descriptor, &reply, err);
	wire_destroy(reply);
	wire_table_destroy(&wire);
	return status;
}

static void of_a_server_alone(const char *folder)
{
	struct cluster c;
	weir_error err = {0};
	cluster_start(&c, &(struct cluster_options){.servers = 1, .partitions = 8, .memory_budget_bytes = BUDGET, .folder = folder});
	weir_client *w = cluster_trainer(&c, "w", 1);
	for (uint32_t id = 0; id < 17; id++) { /* from 4 TiB down to 64 MiB, with their slots */
		assert_int_equal(ask_server(w, id, "huge", WEIR_TABLE_ELEMENTS_MAX >> id, &err), WEIR_E_LIMIT);
		CHECK_CONTAINS(err.text, "more than cluster.memory_budget");
	}
	close_client(w);
	if (folder)
		cluster_restart(&c, 0); /* it would not start if its tables exceeded the memory */
	w = cluster_trainer(&c, "w", 1);
	taken(w, "large", CHUNKS_FIT / 2 * WEIR_CHUNK); /* id 0: refused tables took no id */
	close_client(w);
	cluster_stop(&c);
}

static void without_the_ledger(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	of_a_server_alone(NULL);
	folder_create(folder);
	of_a_server_alone(folder);
	folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(in_memory),       cmocka_unit_test(on_disk_and_after_a_restart), cmocka_unit_test(on_two_servers),
	    cmocka_unit_test(on_two_replicas), cmocka_unit_test(without_the_ledger),
	};
	return cmocka_run_group_tests_name("table_memory", tests, NULL, NULL);
}
