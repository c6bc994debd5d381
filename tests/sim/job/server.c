/* A server's process: what weir-server's main does, over the simulated disk and network. */
#include "server.h"

#include "job.h"
#include "placement.h"

enum { LEASE_MS = 6000, PATIENCE_MS = 30000, SEGMENT_BYTES = 1 << 15, BUDGET_BYTES = 64 << 20 };

static void on_storage_failed(void *arg, const weir_error *err)
{
	actor_exit(arg, err->text);
}

static weir_status start(struct actor *a, struct rpc *rpc, weir_error *err)
{
	const struct job *job = a->job;
	uint32_t placed[PARTITIONS];
	for (uint32_t p = 0; p < PARTITIONS; p++)
		placed[p] = placement_server(p, job->servers);
	const struct ledger_options ledger = {.clock = clock_system(),
	                                      .entropy = entropy_system(),
	                                      .generation = 1,
	                                      .lease_ms = LEASE_MS,
	                                      .patience_ms = PATIENCE_MS,
	                                      .passes = job->passes,
	                                      .partitions = PARTITIONS,
	                                      .servers_count = job->servers,
	                                      .allow_skip = UNITS,
	                                      .seed = 5,
	                                      .shuffle = true,
	                                      .servers = job->addresses,
	                                      .partition_server = placed};
	const struct durable_options durable = {.disk = a->disk ? disk_sim_interface(a->disk) : NULL,
	                                        .path = "data",
	                                        .memory_budget_bytes = BUDGET_BYTES,
	                                        .fsync_interval_ms = job->fsync_ms,
	                                        .flush_interval_ms = job->flush_ms,
	                                        .journal_segment_bytes = SEGMENT_BYTES,
	                                        .ack_disk = job->ack_disk,
	                                        .failed = on_storage_failed,
	                                        .arg = a};
	const struct server_options options = {.rpc = rpc,
	                                       .clock = clock_system(),
	                                       .name = a->name,
	                                       .listen = a->address,
	                                       .generation = 1,
	                                       .index = a->index,
	                                       .servers = job->servers,
	                                       .partitions = PARTITIONS,
	                                       .executors = job->executors,
	                                       .durable = job->durable ? &durable : NULL,
	                                       .ledger = a->index == 0 ? &ledger : NULL};
	struct server *server;
	return server_create(&server, &options, err);
}

void server_main(void *actor)
{
	struct actor *a = actor;
	weir_error err = {0};
	struct rpc *rpc = rpc_sim_create(NULL);
	weir_status status = start(a, rpc, &err);
	if (status == WEIR_E_CORRUPT)
		job_fail(a->job, "%s: its own folder is corrupt: %s", a->name, err.text);
	if (status)
		actor_exit(a, err.text);
	world_note("serves");
}
