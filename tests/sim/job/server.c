/* A server's process: does the work of weir-server's main over the simulated disk and network. */
#include "server/service/server.h"

#include "common/base/key_partition.h"
#include "server/log/journal_internal.h"
#include "server/partition/partition.h"
#include "server/service/durable.h"
#include "tests/sim/coord/coord_sim.h"
#include "tests/sim/job/job.h"

enum { LEASE_MS = 6000, PATIENCE_MS = 30000, SEGMENT_BYTES = 1 << 15, BUDGET_BYTES = 64 << 20 };

/* --- Journals of running servers */

static const struct journal *journals[SERVERS_MAX];

weir_status __real_journal_open(struct journal **out, const struct journal_options *options, weir_error *err);
weir_status __wrap_journal_open(struct journal **out, const struct journal_options *options, weir_error *err);
weir_status __wrap_journal_open(struct journal **out, const struct journal_options *options, weir_error *err)
{
	uint32_t index;
	weir_status status = __real_journal_open(out, options, err);
	if (!status && sscanf(options->holder, "server-%u", &index) == 1 && index < SERVERS_MAX)
		journals[index] = *out;
	return status;
}

struct mark actor_written(const struct actor *a)
{
	struct mark m = durable_mark(a->server);
	m.position = journals[a->index]->end;
	return m;
}

/* --- The process */

static void on_storage_failed(void *arg, const weir_error *err)
{
	actor_exit(arg, err->text);
}

static weir_status open_session(void *arg, struct coord **out, const struct callback_executor *session,
                                const struct coord_options *options, weir_error *err)
{
	(void)arg;
	return coord_sim_open(out, session, options, err);
}

/* As incarnation_take does with a coordinator that answers. */
static uint64_t take_incarnation(struct actor *a)
{
	const uint64_t wall_ms = (uint64_t)(clock_system()->ops->wall_ns(clock_system()) / 1000000);
	a->incarnation = a->incarnation < wall_ms ? wall_ms : a->incarnation + 1;
	return a->incarnation;
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
	                                      .progress_timeout_ms = PROGRESS_TIMEOUT_MS,
	                                      .patience_ms = PATIENCE_MS,
	                                      .passes = job->passes,
	                                      .workers = job->trainers,
	                                      .partitions = PARTITIONS,
	                                      .servers_count = job->servers,
	                                      .allow_skip = UNITS,
	                                      .read_staleness_ms = job->read_staleness_ms,
	                                      .read_staleness_entries = job->read_staleness_entries,
	                                      .seed = 5,
	                                      .shuffle = true,
	                                      .servers = job->addresses,
	                                      .partition_server = placed};
	const struct durable_options durable = {.disk = a->disk ? disk_sim_interface(a->disk) : NULL,
	                                        .path = "data",
	                                        .machine_boot = {(uint8_t)(a->index + 1), (uint8_t)(a->boots + 1)},
	                                        .fsync_interval_ms = job->fsync_ms,
	                                        .flush_interval_ms = job->flush_ms,
	                                        .journal_segment_bytes = SEGMENT_BYTES,
	                                        .known = records_mark(a),
	                                        .mark_disk = a->mark_disk ? disk_sim_interface(a->mark_disk) : NULL,
	                                        .mark_path = a->mark_disk ? MARK_PATH : NULL,
	                                        .failed = on_storage_failed,
	                                        .arg = a};
	const struct promising_options promising = {.disk = durable.disk,
	                                            .path = "data",
	                                            .machine_boot = {durable.machine_boot[0], durable.machine_boot[1]},
	                                            .failed = on_storage_failed,
	                                            .arg = a};
	const struct coordinator_options coordinator = {.open = open_session};
	const bool replicated = job->replicas > 1;
	const struct server_options options = {.rpc = rpc,
	                                       .memory_budget_bytes = BUDGET_BYTES,
	                                       .clock = clock_system(),
	                                       .name = a->name,
	                                       .listen = a->address,
	                                       .generation = 1,
	                                       .index = a->index,
	                                       .servers = job->servers,
	                                       .partitions = PARTITIONS,
	                                       .addresses = job->addresses,
	                                       .ack = job->ack,
	                                       .executors = job->executors,
	                                       .process_id = (uint64_t)world_between(1, INT64_MAX),
	                                       .replicas = job->replicas,
	                                       .min_isr = job->min_isr,
	                                       .backlog_bytes = job->backlog_bytes,
	                                       .catch_up_bytes_per_s = job->catch_up_bytes_per_s,
	                                       .coordinator = replicated ? &coordinator : NULL,
	                                       .incarnation_least = replicated ? take_incarnation(a) : 0,
	                                       .durable = job->durable ? &durable : NULL,
	                                       .promising = replicated && !job->durable ? &promising : NULL,
	                                       .ledger = replicated || a->index == 0 ? &ledger : NULL};
	return server_create(&a->server, &options, err);
}

void server_main(void *actor)
{
	struct actor *a = actor;
	weir_error err = {0};
	struct rpc *rpc = rpc_sim_create(NULL);
	a->server = NULL;
	weir_status status = start(a, rpc, &err);
	if (status == WEIR_E_STALE && !a->is_old)
		job_fail(a->job, "%s: its folder is refused, and is not old: %s", a->name, err.text);
	a->refused = status == WEIR_E_STALE;
	if (status == WEIR_E_CORRUPT)
		job_fail(a->job, "%s: its own folder is corrupt: %s", a->name, err.text);
	if (status)
		actor_exit(a, err.text);
	a->serves = node_life(a->node);
	world_note("serves");
}
