#include "tests/unit/worker/client/cluster.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "common/system/disk.h"
#include "proto/coord/coord_memory.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/unit/faulty_disk.h"

static void on_failed(void *arg, const weir_error *err)
{
	(void)arg;
	fprintf(stderr, "storage failed: %s\n", err->text);
	abort();
}

static weir_status open_session(void *cluster, struct coord **out, const struct callback_executor *session,
                                const struct coord_options *options, weir_error *err)
{
	return coord_memory_open(out, ((struct cluster *)cluster)->coordinator, session, options, err);
}

static bool has_votes(const struct cluster *c)
{
	return c->options.replicas > 1 && !c->options.folder;
}

void cluster_start_server(struct cluster *c, uint32_t i)
{
	static const char *const addresses[CLUSTER_SERVERS_MAX] = {"memory:0", "memory:1", "memory:2", "memory:3"};
	const struct cluster_options *options = &c->options;
	uint32_t placed[WEIR_PARTITIONS_MAX];
	char path[128];
	weir_error err = {0};
	for (uint32_t p = 0; p < c->partitions; p++)
		placed[p] = placement_server(p, c->servers_count);
	const struct ledger_options ledger = {.clock = clock_system(),
	                                      .entropy = entropy_system(),
	                                      .generation = options->generation ? options->generation : 1,
	                                      .lease_ms = options->lease_ms ? options->lease_ms : 60000,
	                                      .progress_timeout_ms = options->progress_timeout_ms,
	                                      .ack_sent = options->ack_sent,
	                                      .read_staleness_ms = options->read_staleness_ms,
	                                      .read_staleness_entries = options->read_staleness_entries,
	                                      .passes = options->passes ? options->passes : 1,
	                                      .partitions = c->partitions,
	                                      .servers_count = c->servers_count,
	                                      .allow_skip = options->allow_skip,
	                                      .patience_ms = options->replicas > 1 ? WEIR_SERVER_PATIENCE_MS : 0,
	                                      .rate_rule = options->rate_rule,
	                                      .workers = options->workers,
	                                      .seed = 5,
	                                      .shuffle = true,
	                                      .servers = addresses,
	                                      .partition_server = placed};
	const struct durable_options durable = {.disk = disk_system(),
	                                        .journal_segment_bytes = 4 << 20,
	                                        .path = path,
	                                        .rows_at_start = options->rows_at_start,
	                                        .fsync_interval_ms = 5,
	                                        .flush_interval_ms = 20,
	                                        .failed = on_failed};
	const struct promising_options promising = {.disk = has_votes(c) ? faulty_disk_interface(c->votes[i]) : NULL,
	                                            .path = "folder",
	                                            .machine_boot = {1},
	                                            .failed = on_failed};
	const struct coordinator_options coordinator = {.open = open_session, .arg = c};
	c->added = i < c->servers_count ? c->added : i + 1 - c->servers_count;
	if (options->folder)
		snprintf(path, sizeof path, "%s/server-%u", options->folder, i);
	const struct server_options o = {.rpc = c->rpc,
	                                 .clock = clock_system(),
	                                 .memory_budget_bytes = options->memory_budget_bytes,
	                                 .name = addresses[i],
	                                 .listen = addresses[i],
	                                 .generation = ledger.generation,
	                                 .process_id = 0xb007000000000000 + ++c->boots,
	                                 .index = i,
	                                 .servers = c->servers_count,
	                                 .partitions = c->partitions,
	                                 .replicas = options->replicas,
	                                 .backlog_bytes = options->backlog_bytes,
	                                 .ack = options->ack,
	                                 .coordinator = c->coordinator ? &coordinator : NULL,
	                                 .promising = has_votes(c) ? &promising : NULL,
	                                 .addresses = addresses,
	                                 .executors = options->executors ? options->executors : 1,
	                                 .durable = options->folder ? &durable : NULL,
	                                 .checkpoint = options->checkpoint,
	                                 .restore = options->restore,
	                                 .rewound = options->rewound,
	                                 .succeeded = options->succeeded,
	                                 .succeeded_arg = options->succeeded_arg,
	                                 .ledger = &ledger};
	if (server_create(&c->servers[i], &o, &err) != WEIR_OK) {
		fprintf(stderr, "server %u: %s\n", i, err.text);
		abort();
	}
}

void cluster_start(struct cluster *c, const struct cluster_options *options)
{
	*c = (struct cluster){.options = *options,
	                      .rpc = rpc_memory_create(NULL),
	                      .servers_count = options->servers ? options->servers : 2,
	                      .partitions = options->partitions ? options->partitions : 8};
	c->coordinator = options->replicas > 1 ? coord_memory_create(clock_system()) : NULL;
	for (uint32_t i = 0; i < CLUSTER_SERVERS_MAX; i++)
		c->votes[i] = has_votes(c) ? faulty_disk_create() : NULL;
	for (uint32_t i = 0; i < c->servers_count; i++)
		cluster_start_server(c, i);
}

void cluster_kill_server(struct cluster *c, uint32_t i)
{
	server_destroy(c->servers[i]);
	c->servers[i] = NULL;
}

void cluster_lose_votes(struct cluster *c, uint32_t i)
{
	faulty_disk_destroy(c->votes[i]);
	c->votes[i] = faulty_disk_create();
}

void cluster_restart(struct cluster *c, uint32_t i)
{
	server_destroy(c->servers[i]);
	cluster_start_server(c, i);
}

void cluster_stop(struct cluster *c)
{
	for (uint32_t i = 0; i < c->servers_count + c->added; i++)
		server_destroy(c->servers[i]);
	for (uint32_t i = 0; i < CLUSTER_SERVERS_MAX; i++)
		if (c->votes[i])
			faulty_disk_destroy(c->votes[i]);
	if (c->coordinator)
		coord_memory_destroy(c->coordinator);
	rpc_destroy(c->rpc);
}

static void print_log(void *arg, weir_log_level level, const char *line)
{
	fprintf(stderr, "%s %d: %s\n", (const char *)arg, (int)level, line);
}

weir_client *cluster_trainer(struct cluster *c, const char *name, uint32_t units)
{
	weir_client *client = NULL;
	weir_error err = {0};
	weir_options o = {.ledger = c->options.replicas > 1 ? "memory:0,memory:1,memory:2" : "memory:0",
	                  .name = name,
	                  .role = WEIR_TRAINER,
	                  .dataset_fingerprint = 77,
	                  .dataset_units = units,
	                  .log = print_log,
	                  .log_arg = (void *)name};
	if (client_open(&client, &o, c->rpc, &err) != WEIR_OK) {
		fprintf(stderr, "%s: %s\n", name, err.text);
		abort();
	}
	return client;
}

static ProtobufCMessage *ask_as(weir_client *client, enum rpc_method method, const ProtobufCMessage *q,
                                const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *reply = NULL;
	weir_error err = {0};
	if (ledger_call_patiently(client, method, q, 60000, type, &reply, &err) != WEIR_OK) {
		fprintf(stderr, "%s as %s: %s\n", rpc_method_name(method), client->name, err.text);
		abort();
	}
	return reply;
}

void cluster_displace(weir_client *trainer)
{
	Weir__V1__JoinRequest join = WEIR__V1__JOIN_REQUEST__INIT;
	Weir__V1__LeaveRequest leave = WEIR__V1__LEAVE_REQUEST__INIT;
	Weir__V1__Dataset dataset = WEIR__V1__DATASET__INIT;
	dataset.fingerprint = trainer->options.dataset_fingerprint;
	dataset.units = trainer->options.dataset_units;
	join.wire_version = FRAME_VERSION;
	join.name = trainer->name;
	join.client = trainer->token; /* a name may change hands at once between joins of one client */
	join.dataset = &dataset;
	ProtobufCMessage *joined = ask_as(trainer, RPC_JOIN, &join.base, &weir__v1__join_reply__descriptor);
	const Weir__V1__JoinReply *r = (const Weir__V1__JoinReply *)joined;
	leave.job = r->job;
	leave.worker = r->worker;
	leave.incarnation = r->incarnation;
	wire_destroy(ask_as(trainer, RPC_LEAVE, &leave.base, &weir__v1__leave_reply__descriptor));
	wire_destroy(joined);
}

uint32_t cluster_table(weir_client *client, const char *name, weir_table_kind kind, uint64_t size, weir_mode mode)
{
	weir_init_segment zero = {.elements = size, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = kind,
	                        .width = kind == WEIR_EMBEDDING ? (uint32_t)size : 0,
	                        .elements = kind == WEIR_DENSE ? size : 0,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .mode = mode,
	                        .segments_count = 1,
	                        .segments = &zero};
	snprintf(spec.name, sizeof spec.name, "%s", name);
	uint32_t id = 0;
	weir_error err = {0};
	if (weir_table_register(client, &spec, &id, &err) != WEIR_OK) {
		fprintf(stderr, "table %s: %s\n", name, err.text);
		abort();
	}
	return id;
}

/* NULL for E_MOVED. */
static ProtobufCMessage *ask(struct cluster *c, struct rpc_loop *loop, const char *address, enum rpc_method method,
                             const ProtobufCMessageDescriptor *type)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	struct rpc_channel *channel = NULL;
	struct message *answer = NULL;
	ProtobufCMessage *reply = NULL;
	weir_error err = {0};
	weir_status status = rpc_channel_open(&channel, c->rpc, loop, address, &err);
	assert(status == WEIR_OK);
	status = rpc_call_wait(channel, method, wire_pack(&q.base), 60000, &answer, &err);
	if (status == WEIR_OK)
		status = wire_unpack(type, answer, &reply, &err);
	if (status != WEIR_OK && status != WEIR_E_MOVED) {
		fprintf(stderr, "status of %s: %s\n", address, err.text);
		abort();
	}
	message_release(answer);
	rpc_channel_close(channel);
	return reply;
}

/* Asks the server that has the ledger; NULL if none does. */
static ProtobufCMessage *ask_ledger(struct cluster *c, struct rpc_loop *loop)
{
	ProtobufCMessage *m = NULL;
	for (uint32_t i = 0; i < c->servers_count && !m; i++)
		if (c->servers[i])
			m = ask(c, loop, server_address(c->servers[i]), RPC_JOB_STATUS, &weir__v1__ledger_status__descriptor);
	return m;
}

struct audit cluster_audit(struct cluster *c)
{
	struct audit a = {0};
	weir_error err = {0};
	struct rpc_loop *loop = rpc_loop_create(c->rpc, "audit", &err);
	ProtobufCMessage *m;
	AWAIT(m = ask_ledger(c, loop), "no server has the ledger");
	const Weir__V1__LedgerStatus *l = (const Weir__V1__LedgerStatus *)m;
	for (size_t p = 0; p < l->expected->n_count; p++) {
		a.expected += l->expected->count[p];
		a.skipped += l->skipped->count[p];
		a.expected_fingerprint += l->expected->fingerprint[p] + l->skipped->fingerprint[p];
	}
	a.workers_lost = l->workers_lost;
	a.workers_stalled = l->workers_stalled;
	a.leases_expired = l->leases_expired;
	a.committed = l->committed;
	a.units_quarantined = l->units_quarantined;
	a.steps_closed = l->steps_closed;
	a.batches_dropped = l->batches_dropped;
	a.finished = l->state == WEIR__V1__LEASE_STATE__FINISHED;
	a.servers = (uint32_t)l->n_servers;
	wire_destroy(m);
	for (uint32_t i = 0; i < c->servers_count + c->added; i++) {
		if (!c->servers[i])
			continue;
		m = ask(c, loop, server_address(c->servers[i]), RPC_STATUS, &weir__v1__server_status__descriptor);
		const Weir__V1__ServerStatus *s = (const Weir__V1__ServerStatus *)m;
		for (size_t p = 0; p < s->n_partitions; p++) {
			a.applied += s->partitions[p]->parts_applied;
			a.applied_fingerprint += s->partitions[p]->fingerprint;
			a.dropped += s->partitions[p]->parts_dropped;
			a.dropped_fingerprint += s->partitions[p]->dropped_fingerprint;
			a.twice += s->partitions[p]->parts_double;
		}
		a.duplicates += s->duplicates_refused;
		a.resident_rows += s->durable ? s->durable->resident_rows : 0;
		a.unflushed += s->durable ? s->durable->flush_lag_entries : 0;
		wire_destroy(m);
	}
	rpc_loop_destroy(loop);
	return a;
}

uint64_t cluster_bytes_pushed(const struct cluster *c)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < c->servers_count; i++)
		sum += atomic_load(&c->servers[i]->bytes_pushed);
	return sum;
}
