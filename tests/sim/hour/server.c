/* A server's process: does the work of weir-server's main. Its log is in memory, its votes are on a
 * simulated disk, and work takes time. */
#include "server/service/server.h"

#include <stdio.h>

#include "common/base/key_partition.h"
#include "server/partition/partition.h"
#include "server/partition/partition_internal.h"
#include "tests/sim/coord/coord_sim.h"
#include "tests/sim/hour/hour.h"

enum { EXECUTORS = 2 };

static struct costs costs; /* equal for all servers, set before any starts */

/* --- Work that takes time on the partition's executor (-Wl,--wrap) */

weir_status __real_partition_apply(struct partition *p, const struct log_entry *e);
weir_status __wrap_partition_apply(struct partition *p, const struct log_entry *e);
void __real_partition_pull(struct partition *p, const struct record *r, const struct cursor *body, struct record_writer *w);
void __wrap_partition_pull(struct partition *p, const struct record *r, const struct cursor *body, struct record_writer *w);

weir_status __wrap_partition_apply(struct partition *p, const struct log_entry *e)
{
	if (e->record.kind == RECORD_PUSH)
		thread_sleep(costs.push_ns);
	return __real_partition_apply(p, e);
}

void __wrap_partition_pull(struct partition *p, const struct record *r, const struct cursor *body, struct record_writer *w)
{
	thread_sleep(costs.pull_ns);
	__real_partition_pull(p, r, body, w);
}

/* --- The process */

static void on_storage_failed(void *arg, const weir_error *err)
{
	const struct machine *m = arg;
	hour_fail(m->hour, "%s: %s", m->name, err->text);
}

static weir_status open_session(void *arg, struct coord **out, const struct callback_executor *session,
                                const struct coord_options *options, weir_error *err)
{
	(void)arg;
	return coord_sim_open(out, session, options, err);
}

/* The rate at which a server's share of all data is sent within copy_ns. */
static uint64_t copy_bytes_per_s(const struct costs *c)
{
	const uint64_t bytes = (KEY_SPACE * WIDTH + DENSE) * sizeof(float) * REPLICAS / SERVERS;
	return (uint64_t)((double)bytes / ((double)c->copy_ns * 1e-9)) + 1;
}

static weir_status start(struct machine *m, weir_error *err)
{
	struct server *server;
	char folder[32];
	uint32_t placed[PARTITIONS];
	for (uint32_t p = 0; p < PARTITIONS; p++)
		placed[p] = placement_server(p, SERVERS);
	/* A replacement begins with an empty folder. */
	snprintf(folder, sizeof folder, "data-%u", m->life);
	const struct ledger_options ledger = {.clock = clock_system(),
	                                      .entropy = entropy_system(),
	                                      .generation = 1,
	                                      .lease_ms = WEIR_LEASE_TERM_MS,
	                                      .patience_ms = WEIR_SERVER_PATIENCE_MS,
	                                      .passes = 1,
	                                      .partitions = PARTITIONS,
	                                      .servers_count = SERVERS,
	                                      .seed = 5,
	                                      .shuffle = true,
	                                      .servers = m->hour->addresses,
	                                      .partition_server = placed};
	const struct promising_options promising = {.disk = disk_sim_interface(m->disk),
	                                            .path = folder,
	                                            .machine_boot = {(uint8_t)(m->index + 1), (uint8_t)(m->life + 1)},
	                                            .failed = on_storage_failed,
	                                            .arg = m};
	const struct coordinator_options coordinator = {.open = open_session};
	const struct server_options options = {.rpc = rpc_sim_create(NULL),
	                                       .clock = clock_system(),
	                                       .name = m->name,
	                                       .listen = m->address,
	                                       .generation = 1,
	                                       .index = m->index,
	                                       .servers = SERVERS,
	                                       .partitions = PARTITIONS,
	                                       .addresses = m->hour->addresses,
	                                       .ack = PARTITION_ACK_REPLICAS,
	                                       .executors = EXECUTORS,
	                                       .process_id = (uint64_t)world_between(1, INT64_MAX),
	                                       .replicas = REPLICAS,
	                                       .catch_up_bytes_per_s = copy_bytes_per_s(&m->hour->costs),
	                                       .coordinator = &coordinator,
	                                       .promising = &promising,
	                                       .ledger = &ledger};
	return server_create(&server, &options, err);
}

void server_main(void *machine)
{
	struct machine *m = machine;
	weir_error err = {0};
	costs = m->hour->costs;
	if (start(m, &err))
		hour_fail(m->hour, "%s: %s", m->name, err.text);
}
