#include "tests/unit/server/world_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "common/system/disk.h"
#include "proto/coord/coord_memory.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/faulty_disk.h"

/* --- Servers */

static weir_status open_session(void *arg, struct coord **out, const struct callback_executor *session,
                                const struct coord_options *options, weir_error *err)
{
	return coord_memory_open(out, ((struct world *)arg)->coordinator, session, options, err);
}

void world_start(struct world *w, uint32_t i)
{
	const char *addresses[WORLD_SERVERS];
	char name[32];
	weir_error err = {0};
	char path[FOLDER_BYTES + sizeof name];
	const bool on_disk = w->setting.on_disk;
	const struct promising_options promising = {
	    .disk = faulty_disk_interface(w->disks[i]), .path = "folder", .machine_boot = {1}, .failed = check_no_error};
	const struct durable_options durable = {.disk = disk_system(),
	                                        .journal_segment_bytes = 4 << 20,
	                                        .path = path,
	                                        .machine_boot = {1},
	                                        .fsync_interval_ms = w->setting.fsync_interval_ms ? w->setting.fsync_interval_ms : 5,
	                                        .flush_interval_ms = 20,
	                                        .failed = check_no_error};
	const struct coordinator_options coordinator = {.open = open_session, .arg = w};
	for (uint32_t j = 0; j < WORLD_SERVERS; j++)
		addresses[j] = cluster_address(j);
	snprintf(name, sizeof name, "server-%u", i);
	snprintf(path, sizeof path, "%s/%s", w->folder, name);
	struct server_options o = {.rpc = w->rpc,
	                           .clock = clock_system(),
	                           .logger = w->logger,
	                           .name = name,
	                           .listen = cluster_address(i),
	                           .generation = RECORDS_GENERATION,
	                           .process_id = ++w->boots,
	                           .index = i,
	                           .servers = WORLD_SERVERS,
	                           .partitions = CLUSTER_PARTITIONS,
	                           .replicas = w->setting.replicas,
	                           .min_isr = w->setting.min_isr,
	                           .ack = w->setting.ack,
	                           .backlog_bytes = w->setting.backlog_bytes,
	                           .catch_up_bytes_per_s = w->setting.catch_up_bytes_per_s,
	                           .scrub_interval_ms = w->setting.scrub_interval_ms,
	                           .memory_budget_bytes = w->setting.memory_bytes ? w->setting.memory_bytes : 256u << 20,
	                           .coordinator = &coordinator,
	                           .addresses = addresses,
	                           .executors = w->setting.executors,
	                           .durable = on_disk ? &durable : NULL,
	                           .promising = on_disk ? NULL : &promising};
	memcpy(o.uuid, records_uuid, 16);
	CHECK_OK(server_create(&w->servers[i], &o, &err), err);
	client_open(&w->clients[i], w->rpc, cluster_address(i), RPC_PUSH_STREAM);
}

void world_kill(struct world *w, uint32_t i)
{
	server_destroy(w->servers[i]);
	w->servers[i] = NULL;
	(void)client_wait_closed(&w->clients[i]);
}

void world_lose_disk(struct world *w, uint32_t i)
{
	char path[FOLDER_BYTES + 32];
	snprintf(path, sizeof path, "%s/server-%u", w->folder, i);
	if (w->setting.on_disk)
		folder_remove(path);
	faulty_disk_destroy(w->disks[i]);
	w->disks[i] = faulty_disk_create();
}

void world_restart(struct world *w, uint32_t i)
{
	client_close(&w->clients[i]);
	world_start(w, i);
}

/* Registers the tables with the partitions that servers are primaries of. Returns those
 * partitions. */
static uint32_t register_with_primaries(struct world *w)
{
	uint32_t known = 0;
	for (uint32_t i = 0; i < WORLD_SERVERS; i++)
		known |= w->setting.memory_bytes ? cluster_register_embeddings(&w->clients[i]) : cluster_register(&w->clients[i]);
	return known;
}

/* Registers the tables with each partition's primary. Servers that start later learn them from
 * others. */
static void register_tables(struct world *w)
{
	uint32_t known = 0;
	AWAIT((known |= register_with_primaries(w)) == (1u << CLUSTER_PARTITIONS) - 1,
	      "of the partitions only %03x have their tables", known);
}

struct world *world_open(const struct world_setting *setting)
{
	struct world *w = malloc(sizeof *w);
	*w = (struct world){.rpc = rpc_memory_create(NULL), .coordinator = coord_memory_create(clock_system()), .setting = *setting};
	w->setting.keys = setting->keys ? setting->keys : WORLD_KEYS;
	w->lines = tmpfile();
	w->logger = logger_create(&(struct logger_options){.out = w->lines, .level = LOG_ERROR, .who = "servers"});
	if (setting->on_disk)
		folder_create(w->folder);
	for (uint32_t i = 0; i < WORLD_SERVERS; i++) {
		w->disks[i] = faulty_disk_create();
		world_start(w, i);
	}
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		w->attempts[p].server = placement_server(p, WORLD_SERVERS);
	register_tables(w);
	return w;
}

void world_close(struct world *w)
{
	for (uint32_t i = 0; i < WORLD_SERVERS; i++) {
		client_close(&w->clients[i]);
		server_destroy(w->servers[i]);
		faulty_disk_destroy(w->disks[i]);
	}
	coord_memory_destroy(w->coordinator);
	rpc_destroy(w->rpc);
	logger_destroy(w->logger);
	fclose(w->lines);
	if (w->setting.on_disk)
		folder_remove(w->folder);
	free(w);
}

/* --- Pushes */

float world_gradient(uint32_t batch)
{
	return -(float)(batch % 7 + 1);
}

bool world_is_dense(const struct world *w, uint32_t batch)
{
	return w->setting.dense && batch % 16 == 0;
}

uint64_t world_first_chunk(uint32_t partition)
{
	uint64_t chunk = 0;
	while (placement_dense(CLUSTER_DENSE, chunk, CLUSTER_PARTITIONS) != partition)
		chunk++;
	return chunk;
}

static struct message *dense_frame(const struct record *r, uint64_t chunk, float v)
{
	float *values = malloc(WEIR_CHUNK * sizeof *values);
	for (uint32_t i = 0; i < WEIR_CHUNK; i++)
		values[i] = v;
	const struct rows rows = {
	    .table = CLUSTER_DENSE, .width = WEIR_CHUNK, .count = 1, .keys = &chunk, .values = values, .values_count = WEIR_CHUNK};
	struct record_writer *writer = record_writer_create();
	records_add(writer, r, &rows, 1);
	struct message *frame = records_finish(writer);
	record_writer_destroy(writer);
	free(values);
	return frame;
}

static void send_push(struct world *w, uint32_t partition)
{
	struct attempt *a = &w->attempts[partition];
	const struct record r = {.kind = RECORD_PUSH,
	                         .partition = (uint16_t)partition,
	                         .request_id = a->id = ++w->requests,
	                         .pass = 1,
	                         .attempt = 1,
	                         .batch = w->batches};
	const uint64_t key = cluster_key(CLUSTER_ASYNC, partition, w->batches % w->setting.keys);
	const float g = world_gradient(w->batches);
	client_send(&w->clients[a->server], world_is_dense(w, w->batches) ? dense_frame(&r, world_first_chunk(partition), g)
	                                                                  : cluster_frame(&r, CLUSTER_ASYNC, key, g, true));
}

/* Waits for the reply to a request. E_UNAVAILABLE: the stream closed. */
static weir_status await_status(struct client *c, uint64_t id)
{
	weir_status status = WEIR_E_UNAVAILABLE;
	bool found = false;
	pthread_mutex_lock(&c->lock);
	while (!found) {
		for (uint32_t i = c->answers_count; i-- > 0 && !found;) {
			found = c->answers[i].record.request_id == id;
			if (found)
				status = (weir_status)c->answers[i].record.status;
		}
		if (found || c->closed)
			break;
		pthread_cond_wait(&c->changed, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return status;
}

bool world_is_host(const struct world *w, uint32_t partition, uint32_t server)
{
	bool here = false;
	for (uint32_t i = 0; i < w->setting.replicas; i++)
		here |= placement_replica(partition, i, WORLD_SERVERS) == server;
	return here;
}

uint32_t world_other_host(const struct world *w, uint32_t partition, uint32_t server)
{
	for (uint32_t i = 1; i < WORLD_SERVERS; i++) {
		const uint32_t other = (server + i) % WORLD_SERVERS;
		if (w->servers[other] && world_is_host(w, partition, other))
			return other;
	}
	return server;
}

/* Returns whether an attempt succeeded. Otherwise the next attempt goes to the other server. */
static bool settle(struct world *w, uint32_t partition)
{
	struct attempt *a = &w->attempts[partition];
	const weir_status status = await_status(&w->clients[a->server], a->id);
	if (status == WEIR_OK || status == WEIR_E_DUPLICATE)
		return true;
	if (status != WEIR_E_MOVED && status != WEIR_E_UNAVAILABLE)
		fail_msg("partition %u, batch %u: %s", partition, w->batches, weir_status_name(status));
	a->server = world_other_host(w, partition, a->server);
	return false;
}

/* Repeats the pushes that are not done. Returns their number. */
static uint32_t settle_all(struct world *w)
{
	uint32_t waiting = 0;
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++) {
		struct attempt *a = &w->attempts[p];
		a->waits = a->waits && !settle(w, p);
		waiting += a->waits;
	}
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		if (w->attempts[p].waits)
			send_push(w, p);
	return waiting;
}

void world_push_batch(struct world *w, uint32_t kill)
{
	uint32_t waiting;
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++) {
		w->attempts[p].waits = true;
		send_push(w, p);
	}
	if (kill < WORLD_SERVERS)
		world_kill(w, kill);
	AWAIT((waiting = settle_all(w)) == 0, "batch %u: %u partitions have no primary", w->batches, waiting);
	w->batches++;
}

void world_push_batches(struct world *w, uint32_t count)
{
	while (count-- > 0)
		world_push_batch(w, WORLD_SERVERS);
}

/* --- Inspection */

void world_add_status(struct world *w, uint32_t server, struct world_totals *t)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m;
	weir_error err = {0};
	CHECK_OK(client_call(&w->clients[server], RPC_STATUS, &q.base, &weir__v1__server_status__descriptor, &m, &err), err);
	const Weir__V1__ServerStatus *s = (const Weir__V1__ServerStatus *)m;
	t->partitions += (uint32_t)s->n_partitions;
	for (size_t i = 0; i < s->n_partitions; i++) {
		t->in_sync += s->partitions[i]->in_sync;
		t->parts += s->partitions[i]->parts_applied;
		t->fingerprint += s->partitions[i]->fingerprint;
		t->twice += s->partitions[i]->parts_double;
		t->scrubs += s->partitions[i]->scrubs;
		t->differ += s->partitions[i]->scrubs_differ;
		t->primary[s->partitions[i]->id] = server;
	}
	wire_destroy(m);
}

struct world_totals world_totals(struct world *w)
{
	struct world_totals t = {0};
	for (uint32_t i = 0; i < WORLD_SERVERS; i++)
		if (w->servers[i])
			world_add_status(w, i, &t);
	return t;
}

bool world_is_alive(const struct world *w, uint32_t partition)
{
	bool alive = false;
	for (uint32_t i = 0; i < WORLD_SERVERS; i++)
		alive |= w->servers[i] && world_is_host(w, partition, i);
	return alive;
}

uint32_t world_count_alive(const struct world *w)
{
	uint32_t count = 0;
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		count += world_is_alive(w, p);
	return count;
}

struct world_totals world_await_in_sync(struct world *w, uint32_t replicas_min)
{
	struct world_totals t;
	AWAIT((t = world_totals(w)).partitions == world_count_alive(w) && t.in_sync >= replicas_min,
	      "%u replicas of %u partitions are in sync", t.in_sync, t.partitions);
	return t;
}
