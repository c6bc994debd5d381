#include "tests/crash/scenario.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "common/base/prng.h"
#include "common/system/disk.h"
#include "common/system/logger.h"
#include "server/ledger/ledger_log.h"
#include "server/partition/partition_state.h"
#include "server/service/server_internal.h"
#include "state.pb-c.h"

#define MEMORY_BUDGET ((3u << 20) + (64u << 10)) /* RocksDB's minimum, and a few rows */
#define SEGMENT_BYTES (8u << 10)
#define WAIT_MS       20000

/* --- The job */

void batch_keys(uint32_t pass, uint32_t unit, uint32_t batch, uint64_t *keys)
{
	for (uint64_t i = 0; i < KEYS; i++)
		keys[i] = prng_permute(prng_mix(pass + 1, unit, batch), KEY_SPACE, i);
}

float batch_value(uint32_t pass, uint32_t unit, uint32_t batch)
{
	return (float)(1 + prng_mix(pass + 11, unit, batch) % 1000);
}

weir_status job_start(struct job *j, const struct job_options *options, weir_error *err)
{
	static const char *const addresses[] = {"memory:0"};
	static const uint32_t placed[PARTITIONS] = {0};
	*j = (struct job){.rpc = rpc_memory_create(NULL), .trained = options->cached ? 2 : 3};
	struct ledger_options ledger = {.clock = clock_system(),
	                                .entropy = entropy_system(),
	                                .generation = 1,
	                                .lease_ms = 60000,
	                                .passes = PASSES,
	                                .partitions = PARTITIONS,
	                                .servers_count = 1,
	                                .servers = addresses,
	                                .partition_server = placed};
	struct durable_options durable = {.disk = disk_system(),
	                                  .path = options->folder,
	                                  .machine_boot = {options->machine_boot},
	                                  .fsync_interval_ms = options->cached ? 0 : 5,
	                                  .journal_segment_bytes = SEGMENT_BYTES,
	                                  .failed = options->failed};
	struct server_options o = {.rpc = j->rpc,
	                           .clock = clock_system(),
	                           .memory_budget_bytes = MEMORY_BUDGET,
	                           .name = "server-0",
	                           .listen = addresses[0],
	                           .uuid = {7},
	                           .generation = 1,
	                           .servers = 1,
	                           .partitions = PARTITIONS,
	                           .ack = options->cached ? PARTITION_ACK_REPLICAS : PARTITION_ACK_DISK,
	                           .addresses = addresses,
	                           .executors = 1,
	                           .durable = &durable,
	                           .ledger = &ledger};
	memcpy(ledger.uuid, o.uuid, sizeof ledger.uuid);
	return server_create(&j->server, &o, err);
}

static weir_status add_table(struct job *j, const char *name, weir_table_kind kind, weir_mode_kind mode, uint32_t *id,
                             weir_error *err)
{
	weir_init_segment zero = {.elements = kind == WEIR_DENSE ? DENSE : WIDTH, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = kind,
	                        .width = kind == WEIR_EMBEDDING ? WIDTH : 0,
	                        .elements = kind == WEIR_DENSE ? DENSE : 0,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .mode = {mode},
	                        .segments_count = 1,
	                        .segments = &zero};
	snprintf(spec.name, sizeof spec.name, "%s", name);
	return weir_table_register(j->client, &spec, id, err);
}

weir_status job_join(struct job *j, weir_error *err)
{
	weir_options o = {
	    .ledger = "memory:0", .name = "worker", .role = WEIR_TRAINER, .dataset_fingerprint = 77, .dataset_units = UNITS};
	weir_status status = client_open(&j->client, &o, j->rpc, err);
	if (!status)
		status = add_table(j, "rows", WEIR_EMBEDDING, WEIR_ASYNC, &j->rows, err);
	if (!status)
		status = add_table(j, "dense", WEIR_DENSE, WEIR_ASYNC, &j->dense, err);
	return status ? status : add_table(j, "stepped", WEIR_DENSE, WEIR_SYNC, &j->stepped, err);
}

void job_stop(struct job *j)
{
	if (j->client)
		weir_abandon(j->client);
	server_destroy(j->server);
	rpc_destroy(j->rpc);
}

/* --- Calls on the server's loops */

struct visit {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t left;
	struct server *server;
	uint32_t partition;
	struct message *state;
	uint64_t dropped;
};

static void visit_end(void *arg)
{
	struct visit *v = arg;
	pthread_mutex_lock(&v->lock);
	v->left--;
	pthread_cond_signal(&v->changed);
	pthread_mutex_unlock(&v->lock);
}

static void visit_wait(struct visit *v)
{
	pthread_mutex_lock(&v->lock);
	while (v->left)
		pthread_cond_wait(&v->changed, &v->lock);
	pthread_mutex_unlock(&v->lock);
}

static void flush_partitions(void *arg)
{
	struct visit *v = arg;
	for (uint32_t p = 0; p < PARTITIONS; p++)
		if (!partition_flush(v->server->partitions[p], visit_end, v))
			visit_end(v);
}

static void flush_ledger(void *arg)
{
	struct visit *v = arg;
	if (!ledger_log_flush(v->server->ledger_log, visit_end, v))
		visit_end(v);
}

/* Posts `run`; visit_wait waits for `count` calls of visit_end. */
static void visit_begin(struct visit *v, struct server *s, struct rpc_loop *loop, void (*run)(void *arg), uint32_t count)
{
	*v = (struct visit){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .server = s, .left = count};
	rpc_loop_post(loop, run, v);
}

static void count_dropped(void *arg)
{
	struct visit *v = arg;
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		struct store_counters c;
		store_get_counters(partition_store(v->server->partitions[p]), &c);
		v->dropped += c.dropped;
	}
	visit_end(v);
}

uint64_t job_rows_dropped(struct job *j)
{
	struct visit v;
	visit_begin(&v, j->server, j->server->executors[0].loop, count_dropped, 1);
	visit_wait(&v);
	return v.dropped;
}

static void export_state(void *arg)
{
	struct visit *v = arg;
	v->state = partition_state_export(v->server->partitions[v->partition]);
	visit_end(v);
}

/* --- Training */

static weir_status push_batch(struct job *j, const weir_unit *u, uint32_t batch, bool wait, weir_error *err)
{
	uint64_t keys[KEYS];
	float rows[KEYS * WIDTH], dense[DENSE], stepped[DENSE];
	weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	weir_ticket ticket;
	batch_keys(u->pass, u->unit, batch, keys);
	weir_pull_item pull[] = {{.table = j->rows, .keys = keys, .rows = KEYS, .values = rows},
	                         {.table = j->dense, .values = dense},
	                         {.table = j->stepped, .values = stepped}};
	weir_status status = weir_pull(j->client, &id, pull, j->trained, NULL, NULL, &ticket, err);
	if (!status)
		status = weir_wait(j->client, ticket, WAIT_MS, err);
	if (status)
		return status;
	for (uint32_t i = 0; i < KEYS * WIDTH; i++)
		rows[i] = -batch_value(u->pass, u->unit, batch);
	for (uint32_t i = 0; i < DENSE; i++)
		dense[i] = stepped[i] = -batch_value(u->pass, u->unit, batch);
	weir_push_item push[] = {{.table = j->rows, .keys = keys, .rows = KEYS, .values = rows},
	                         {.table = j->dense, .values = dense},
	                         {.table = j->stepped, .values = stepped}};
	status = weir_push(j->client, &id, push, j->trained, &(weir_push_options){.copy = 1}, NULL, NULL, &ticket, err);
	return status || !wait ? status : weir_wait(j->client, ticket, WAIT_MS, err);
}

static weir_status train_unit(struct job *j, const weir_unit *u, const struct job_events *e, uint32_t *pushes, weir_error *err)
{
	struct visit flush;
	weir_status status = weir_unit_begin(j->client, u, BATCHES, err);
	if (e->flush)
		visit_begin(&flush, j->server, j->server->executors[0].loop, flush_partitions, PARTITIONS);
	for (uint32_t b = u->watermark; b < BATCHES && !status; b++) {
		const bool last = ++*pushes == e->pushes;
		status = push_batch(j, u, b, !last, err);
		if (!status && last)
			status = WEIR_E_CANCELLED;
		if (!status && e->acknowledged)
			e->acknowledged(e->arg, u->pass, u->unit, b);
	}
	if (e->flush)
		visit_wait(&flush);
	if (!status)
		status = weir_unit_commit(j->client, u, err);
	if (!status && e->committed)
		e->committed(e->arg, u->pass, u->unit);
	if (!status && e->flush) { /* makes all of the ledger's log durable, as a snapshot needs it */
		visit_begin(&flush, j->server, j->server->ledger_loop, flush_ledger, 1);
		visit_wait(&flush);
	}
	return status;
}

weir_status job_train(struct job *j, const struct job_events *events, weir_error *err)
{
	uint32_t pushes = 0;
	for (;;) {
		weir_unit u;
		weir_status status = weir_unit_lease(j->client, &u, WAIT_MS, err);
		if (status || u.state == WEIR_UNIT_FINISHED)
			return status;
		if (events->leased)
			events->leased(events->arg, u.pass, u.unit);
		status = train_unit(j, &u, events, &pushes, err);
		if (status)
			return status;
	}
}

/* --- Reading values */

weir_status job_read(struct job *j, struct job_values *out, weir_error *err)
{
	uint64_t keys[KEY_SPACE];
	weir_ticket ticket;
	for (uint64_t k = 0; k < KEY_SPACE; k++)
		keys[k] = k;
	weir_pull_item pull[] = {{.table = j->rows, .keys = keys, .rows = KEY_SPACE, .values = out->rows[0]},
	                         {.table = j->dense, .values = out->dense},
	                         {.table = j->stepped, .values = out->stepped}};
	weir_status status = weir_pull(j->client, NULL, pull, 3, NULL, NULL, &ticket, err);
	return status ? status : weir_wait(j->client, ticket, WAIT_MS, err);
}

#define PART_ASYNC (1u << 0) /* libweir's parts of a batch in this job */
#define PART_SYNC  (1u << 1)

static void set_batch(struct job_applied *a, uint64_t key, uint32_t batch, uint64_t parts)
{
	uint32_t pass = (uint32_t)(key >> 32), unit = (uint32_t)key;
	if (pass >= PASSES || unit >= UNITS || batch >= BATCHES || parts & ~(uint64_t)(PART_ASYNC | PART_SYNC)) {
		fprintf(stderr, "a partition knows of batch %u %u %u, parts %llx, which never was\n", pass, unit, batch,
		        (unsigned long long)parts);
		abort();
	}
	a->known[pass][unit][batch] = parts & PART_ASYNC;
	a->stepped[pass][unit][batch] = parts & PART_SYNC;
}

/* A closed unit was applied completely, as this job leaves no batch out. */
static void set_closed(struct job_applied *a, uint64_t key)
{
	for (uint32_t b = 0; b < BATCHES; b++)
		set_batch(a, key, b, PART_ASYNC | PART_SYNC);
}

static void take_state(const Weir__V1__PartitionState *s, struct job_applied *a)
{
	*a = (struct job_applied){.index = s->index, .parts_double = s->parts_double};
	for (uint64_t pass = 0; pass < PASSES; pass++)
		for (uint64_t unit = 0; unit < UNITS; unit++)
			if ((pass << 32 | unit) < s->dedup_low)
				set_closed(a, pass << 32 | unit);
	for (size_t i = 0; i < s->n_dedup_closed; i++)
		set_closed(a, s->dedup_closed[i]);
	for (size_t i = 0; i < s->n_units; i++)
		for (uint32_t b = 0; b < s->units[i]->n_parts; b++)
			if (s->units[i]->parts[b])
				set_batch(a, s->units[i]->key, b, s->units[i]->parts[b]);
	for (size_t i = 0; i < s->n_waiting; i++) {
		const Weir__V1__BatchId *id = s->waiting[i]->batch;
		a->waiting[id->pass][id->unit][id->batch] = true;
		a->stepped[id->pass][id->unit][id->batch] = false;
	}
}

uint32_t job_step_partition(const struct job *j)
{
	return placement_dense(j->stepped, 0, PARTITIONS);
}

void job_applied(struct job *j, uint32_t partition, struct job_applied *out)
{
	struct visit v = {.lock = PTHREAD_MUTEX_INITIALIZER,
	                  .changed = PTHREAD_COND_INITIALIZER,
	                  .server = j->server,
	                  .partition = partition,
	                  .left = 1};
	ProtobufCMessage *m = NULL;
	weir_error err = {0};
	rpc_loop_post(j->server->executors[0].loop, export_state, &v);
	visit_wait(&v);
	if (!v.state || wire_unpack_state(&weir__v1__partition_state__descriptor, v.state->spans[0].data, v.state->bytes, &m, &err)) {
		fprintf(stderr, "partition %u: %s\n", partition, err.text);
		abort();
	}
	take_state((const Weir__V1__PartitionState *)m, out);
	message_release(v.state);
	wire_destroy(m);
}

static void add_batch(const struct job *j, const struct job_applied *applied, uint32_t pass, uint32_t unit, uint32_t batch,
                      struct job_values *out)
{
	const float value = batch_value(pass, unit, batch);
	uint64_t keys[KEYS];
	batch_keys(pass, unit, batch, keys);
	for (uint32_t i = 0; i < KEYS; i++)
		if (applied[placement_embedding(j->rows, keys[i], PARTITIONS)].known[pass][unit][batch])
			for (uint32_t w = 0; w < WIDTH; w++)
				out->rows[keys[i]][w] += value;
	for (uint32_t i = 0; i < DENSE; i++) {
		if (applied[placement_dense(j->dense, 0, PARTITIONS)].known[pass][unit][batch])
			out->dense[i] += value;
		if (applied[job_step_partition(j)].stepped[pass][unit][batch])
			out->stepped[i] += value;
	}
}

void job_expected(const struct job *j, const struct job_applied applied[PARTITIONS], struct job_values *out)
{
	memset(out, 0, sizeof *out);
	for (uint32_t pass = 0; pass < PASSES; pass++)
		for (uint32_t unit = 0; unit < UNITS; unit++)
			for (uint32_t batch = 0; batch < BATCHES; batch++)
				add_batch(j, applied, pass, unit, batch, out);
}
