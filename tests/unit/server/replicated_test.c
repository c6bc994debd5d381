/* Servers whose partitions have replicas on one another, over the in-memory transport: pushes of integers while servers die and come back; at the end every one that
 * was answered is there, once. */
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#include "cmocka_check.h"
#include "coord_memory.h"
#include "disk.h"
#include "faulty_disk.h"
#include "folder.h"
#include "heart_loop.h"
#include "partition_state.h"
#include "placement.h"
#include "server_internal.h"
#include "service_fixture.h"

enum { SERVERS = 3, REPLICAS = 2, BATCHES = 60, KEYS = 3, PATIENCE_S = 30 };

/* Of the servers; zeros: logs in memory, and of everything as much as there is. */
struct setting {
	uint32_t executors;
	bool on_disk;
	uint32_t replicas, min_isr;
	uint64_t memory_bytes;  /* on disk: 0: all rows stay in memory */
	uint64_t backlog_bytes; /* as in server_options */
	uint64_t catch_up_bytes_per_s;
	uint32_t ack;               /* as in server_options */
	uint32_t fsync_interval_ms; /* 0: 5 */
	bool dense;                 /* some batches go to the dense table: much to send */
};

/* A push on its way: to which server, under which request id. */
struct attempt {
	uint32_t server;
	uint64_t id;
	bool waits;
};

struct world {
	struct rpc *rpc;
	struct coord_memory *coordinator;
	char folder[FOLDER_BYTES];          /* with logs on disk; "": they are in memory, and */
	struct faulty_disk *disks[SERVERS]; /* promises here */
	struct server *servers[SERVERS];    /* NULL: dead */
	struct client clients[SERVERS];     /* of the living */
	struct setting setting;
	uint32_t boots;
	uint64_t requests;
	struct attempt attempts[CLUSTER_PARTITIONS];
	uint32_t batches;
};

/* --- Servers */

static weir_status open_session(void *arg, struct coord **out, const struct poster *session, const struct coord_options *options,
                                weir_error *err)
{
	return coord_memory_open(out, ((struct world *)arg)->coordinator, session, options, err);
}

static void on_failed(void *arg, const weir_error *err)
{
	(void)arg;
	fail_msg("%s", err->text);
}

static void start_server(struct world *w, uint32_t i)
{
	const char *addresses[SERVERS];
	char name[32];
	weir_error err = {0};
	char path[FOLDER_BYTES + sizeof name];
	const bool on_disk = w->setting.on_disk;
	const struct promising_options promising = {
	    .disk = faulty_disk_interface(w->disks[i]), .path = "folder", .machine_boot = {1}, .failed = on_failed};
	const struct durable_options durable = {.disk = disk_system(),
	                                        .path = path,
	                                        .machine_boot = {1},
	                                        .memory_budget_bytes = w->setting.memory_bytes ? w->setting.memory_bytes : 256u << 20,
	                                        .fsync_interval_ms = w->setting.fsync_interval_ms ? w->setting.fsync_interval_ms : 5,
	                                        .flush_interval_ms = 20,
	                                        .failed = on_failed};
	const struct coordinator_options coordinator = {.open = open_session, .arg = w};
	for (uint32_t j = 0; j < SERVERS; j++)
		addresses[j] = cluster_address(j);
	snprintf(name, sizeof name, "server-%u", i);
	snprintf(path, sizeof path, "%s/%s", w->folder, name);
	struct server_options o = {.rpc = w->rpc,
	                           .clock = clock_system(),
	                           .name = name,
	                           .listen = cluster_address(i),
	                           .generation = RECORDS_GENERATION,
	                           .boot = ++w->boots,
	                           .index = i,
	                           .servers = SERVERS,
	                           .partitions = CLUSTER_PARTITIONS,
	                           .replicas = w->setting.replicas,
	                           .min_isr = w->setting.min_isr,
	                           .ack = w->setting.ack,
	                           .backlog_bytes = w->setting.backlog_bytes,
	                           .catch_up_bytes_per_s = w->setting.catch_up_bytes_per_s,
	                           .coordinator = &coordinator,
	                           .addresses = addresses,
	                           .executors = w->setting.executors,
	                           .durable = on_disk ? &durable : NULL,
	                           .promising = on_disk ? NULL : &promising};
	memcpy(o.uuid, records_uuid, 16);
	CHECK_OK(server_create(&w->servers[i], &o, &err), err);
	client_open(&w->clients[i], w->rpc, cluster_address(i), RPC_PUSH_STREAM);
}

static void kill_server(struct world *w, uint32_t i)
{
	server_destroy(w->servers[i]);
	w->servers[i] = NULL;
	(void)client_wait_closed(&w->clients[i]);
}

/* What a dead one had, on whatever. */
static void lose_disk(struct world *w, uint32_t i)
{
	char path[FOLDER_BYTES + 32];
	snprintf(path, sizeof path, "%s/server-%u", w->folder, i);
	if (w->setting.on_disk)
		folder_remove(path);
	faulty_disk_destroy(w->disks[i]);
	w->disks[i] = faulty_disk_create();
}

static void restart_server(struct world *w, uint32_t i)
{
	client_close(&w->clients[i]);
	start_server(w, i);
}

static time_t now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* With every partition, at whichever server is its primary. Who is started later learns of them from the others. */
static void register_tables(struct world *w)
{
	const time_t until = now_s() + PATIENCE_S;
	for (uint32_t known = 0; known != (1u << CLUSTER_PARTITIONS) - 1;) {
		for (uint32_t i = 0; i < SERVERS; i++)
			known |= w->setting.memory_bytes ? cluster_register_embeddings(&w->clients[i]) : cluster_register(&w->clients[i]);
		if (now_s() > until)
			fail_msg("of the partitions only %03x have their tables", known);
	}
}

static struct world *open_world(const struct setting *setting)
{
	struct world *w = malloc(sizeof *w);
	*w = (struct world){.rpc = rpc_memory_create(NULL), .coordinator = coord_memory_create(clock_system()), .setting = *setting};
	if (setting->on_disk)
		folder_create(w->folder);
	for (uint32_t i = 0; i < SERVERS; i++) {
		w->disks[i] = faulty_disk_create();
		start_server(w, i);
	}
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		w->attempts[p].server = placement_server(p, SERVERS);
	register_tables(w);
	return w;
}

static void close_world(struct world *w)
{
	for (uint32_t i = 0; i < SERVERS; i++) {
		client_close(&w->clients[i]);
		server_destroy(w->servers[i]);
		faulty_disk_destroy(w->disks[i]);
	}
	coord_memory_destroy(w->coordinator);
	rpc_destroy(w->rpc);
	if (w->setting.on_disk)
		folder_remove(w->folder);
	free(w);
}

/* --- Pushes */

static float gradient(uint32_t batch)
{
	return -(float)(batch % 7 + 1);
}

static bool is_dense(const struct world *w, uint32_t batch)
{
	return w->setting.dense && batch % 16 == 0;
}

static uint64_t first_chunk(uint32_t partition)
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
	const uint64_t key = cluster_key(CLUSTER_ASYNC, partition, w->batches % KEYS);
	const float g = gradient(w->batches);
	client_send(&w->clients[a->server], is_dense(w, w->batches) ? dense_frame(&r, first_chunk(partition), g)
	                                                            : cluster_frame(&r, CLUSTER_ASYNC, key, g, true));
}

/* The answer to a request; E_UNAVAILABLE: none will come. */
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

static bool is_host(const struct world *w, uint32_t partition, uint32_t server)
{
	bool here = false;
	for (uint32_t i = 0; i < w->setting.replicas; i++)
		here |= placement_replica(partition, i, SERVERS) == server;
	return here;
}

/* The next one that lives. */
static uint32_t other_host(const struct world *w, uint32_t partition, uint32_t server)
{
	for (uint32_t i = 1; i < SERVERS; i++) {
		const uint32_t other = (server + i) % SERVERS;
		if (w->servers[other] && is_host(w, partition, other))
			return other;
	}
	return server;
}

/* Whether it is done, whichever attempt did it; else it is the other host's turn. */
static bool settle(struct world *w, uint32_t partition)
{
	struct attempt *a = &w->attempts[partition];
	const weir_status status = await_status(&w->clients[a->server], a->id);
	if (status == WEIR_OK || status == WEIR_E_DUPLICATE)
		return true;
	if (status != WEIR_E_MOVED && status != WEIR_E_UNAVAILABLE)
		fail_msg("partition %u, batch %u: %s", partition, w->batches, weir_status_name(status));
	a->server = other_host(w, partition, a->server);
	return false;
}

/* A batch into every partition. kill: a server that dies while it is under way; SERVERS: none. */
static void push_batch(struct world *w, uint32_t kill)
{
	const time_t until = now_s() + PATIENCE_S;
	uint32_t waiting = CLUSTER_PARTITIONS;
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++) {
		w->attempts[p].waits = true;
		send_push(w, p);
	}
	if (kill < SERVERS)
		kill_server(w, kill);
	while (waiting > 0) {
		for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++) {
			if (!w->attempts[p].waits)
				continue;
			w->attempts[p].waits = !settle(w, p);
			waiting -= !w->attempts[p].waits;
		}
		if (now_s() > until)
			fail_msg("batch %u: %u partitions have no primary", w->batches, waiting);
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
		for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
			if (w->attempts[p].waits)
				send_push(w, p);
	}
	w->batches++;
}

static void push_batches(struct world *w, uint32_t count)
{
	while (count-- > 0)
		push_batch(w, SERVERS);
}

/* --- What is there */

struct totals {
	uint32_t partitions, in_sync;
	uint64_t parts, fingerprint, twice;
};

static void add_status(struct world *w, uint32_t server, struct totals *t)
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
	}
	wire_free(m);
}

static struct totals totals(struct world *w)
{
	struct totals t = {0};
	for (uint32_t i = 0; i < SERVERS; i++)
		if (w->servers[i])
			add_status(w, i, &t);
	return t;
}

/* Whether a partition has a replica that lives. */
static bool is_alive(const struct world *w, uint32_t partition)
{
	bool alive = false;
	for (uint32_t i = 0; i < SERVERS; i++)
		alive |= w->servers[i] && is_host(w, partition, i);
	return alive;
}

static uint32_t count_alive(const struct world *w)
{
	uint32_t count = 0;
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		count += is_alive(w, p);
	return count;
}

/* Once each partition has one primary, and so many replicas of all together are in sync. */
static struct totals await_in_sync(struct world *w, uint32_t replicas_min)
{
	const time_t until = now_s() + PATIENCE_S;
	struct totals t = totals(w);
	while (t.partitions != count_alive(w) || t.in_sync < replicas_min) {
		if (now_s() > until)
			fail_msg("%u replicas of %u partitions are in sync", t.in_sync, t.partitions);
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
		t = totals(w);
	}
	return t;
}

/* From one server; E_MOVED: another has the partition. */
static weir_status try_pull(struct world *w, uint32_t server, uint32_t partition, uint64_t key, float *value)
{
	struct client c;
	const struct record r = {.kind = RECORD_PULL, .partition = (uint16_t)partition, .request_id = 1};
	client_open(&c, w->rpc, cluster_address(server), RPC_PULL_STREAM);
	client_send(&c, cluster_frame(&r, CLUSTER_ASYNC, key, 0, false));
	client_wait(&c, 1);
	const struct answer *a = client_answer(&c, 1, partition);
	const weir_status status = (weir_status)a->record.status;
	if (!status) {
		assert_int_equal(a->bytes, CLUSTER_WIDTH * sizeof *value);
		memcpy(value, a->data, sizeof *value);
	}
	client_close(&c);
	return status;
}

/* A busy machine may move a partition at any time. */
static float pull(struct world *w, uint32_t partition, uint64_t key)
{
	const time_t until = now_s() + PATIENCE_S;
	uint32_t *server = &w->attempts[partition].server;
	weir_status status;
	float value = 0;
	if (!w->servers[*server])
		*server = other_host(w, partition, *server);
	while ((status = try_pull(w, *server, partition, key, &value)) == WEIR_E_MOVED && now_s() < until)
		*server = other_host(w, partition, *server);
	assert_int_equal(status, WEIR_OK);
	return value;
}

/* A replica's state and rows, taken on its own thread. */
struct copy {
	struct partition *partition;
	uint64_t applied;
	struct message *state;
	float rows[KEYS + 1]; /* and the first element of its first chunk */
	sem_t taken;
};

static void take_copy(void *arg)
{
	struct copy *c = arg;
	const struct store_table *t = store_table(partition_store(c->partition), CLUSTER_ASYNC);
	c->applied = partition_applied(c->partition);
	c->state = partition_state_export(c->partition);
	for (uint32_t i = 0; i < KEYS; i++) {
		const float *row;
		c->rows[i] = store_find(t, cluster_key(CLUSTER_ASYNC, partition_id(c->partition), i), &row) ? row[0] : 0;
	}
	const struct store_table *chunks = store_table(partition_store(c->partition), CLUSTER_DENSE);
	const float *row;
	c->rows[KEYS] = chunks && store_find(chunks, first_chunk(partition_id(c->partition)), &row) ? row[0] : 0;
	sem_post(&c->taken);
}

static void copy_replica(struct world *w, uint32_t partition, uint32_t i, struct copy *c)
{
	struct server *s = w->servers[placement_replica(partition, i, SERVERS)];
	*c = (struct copy){.partition = s->partitions[partition]};
	sem_init(&c->taken, 0, 0);
	rpc_loop_post(server_executor(s, partition)->loop, take_copy, c);
	while (sem_wait(&c->taken) != 0)
		;
	sem_destroy(&c->taken);
}

/* Of one that lives. */
static void check_chunks(struct world *w, float sum)
{
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		for (uint32_t i = 0; i < w->setting.replicas && w->setting.dense; i++) {
			struct copy c;
			if (!w->servers[placement_replica(p, i, SERVERS)])
				continue;
			copy_replica(w, p, i, &c);
			message_release(c.state);
			assert_true(c.rows[KEYS] == sum);
		}
}

/* In every partition that has a replica still. */
static void check_all(struct world *w)
{
	const uint32_t alive = count_alive(w);
	const struct totals t = await_in_sync(w, alive);
	float sums[KEYS] = {0}, dense = 0;
	uint64_t fingerprint = 0;
	for (uint32_t batch = 0; batch < w->batches; batch++) {
		*(is_dense(w, batch) ? &dense : &sums[batch % KEYS]) -= gradient(batch);
		fingerprint += alive * frame_identity_hash(1, 0, batch, 0);
	}
	assert_int_equal(t.partitions, alive);
	assert_int_equal(t.parts, (uint64_t)alive * w->batches);
	assert_int_equal(t.fingerprint, fingerprint);
	assert_int_equal(t.twice, 0);
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		for (uint32_t i = 0; i < KEYS && is_alive(w, p); i++)
			assert_true(pull(w, p, cluster_key(CLUSTER_ASYNC, p, i)) == sums[i]);
	check_chunks(w, dense);
}

/* False: one of them has not applied as much as the other, as yet. */
static bool compare_replicas(struct world *w, uint32_t partition)
{
	struct copy a, b;
	copy_replica(w, partition, 0, &a);
	copy_replica(w, partition, 1, &b);
	const bool level = a.applied == b.applied;
	if (level) {
		assert_int_equal(a.state->bytes, b.state->bytes);
		assert_memory_equal(a.state->spans[0].data, b.state->spans[0].data, a.state->bytes);
		if (!w->setting.memory_bytes) /* else a row may be below on one of them */
			assert_memory_equal(a.rows, b.rows, sizeof a.rows);
	}
	message_release(a.state);
	message_release(b.state);
	return level;
}

/* Equal logs give equal bytes. */
static void check_replicas_are_equal(struct world *w)
{
	const time_t until = now_s() + PATIENCE_S;
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		while (!compare_replicas(w, p))
			if (now_s() > until)
				fail_msg("partition %u: its replicas have not applied the same", p);
}

static void await_no_primary(struct world *w, uint32_t server)
{
	const time_t until = now_s() + PATIENCE_S;
	struct totals t;
	do {
		t = (struct totals){0};
		add_status(w, server, &t);
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
		if (now_s() > until)
			fail_msg("server %u is still primary of %u partitions", server, t.partitions);
	} while (t.partitions > 0);
}

/* --- Tests */

static void every_push_counts_once_whoever_dies(uint32_t executors)
{
	struct world *w = open_world(&(struct setting){.executors = executors, .replicas = REPLICAS});
	push_batches(w, BATCHES);
	(void)await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	check_replicas_are_equal(w);
	push_batch(w, 2);
	push_batches(w, BATCHES);
	check_all(w);
	close_world(w);
}

static void with_one_executor(void **state)
{
	(void)state;
	every_push_counts_once_whoever_dies(1);
}

static void with_several_executors(void **state)
{
	(void)state;
	every_push_counts_once_whoever_dies(3);
}

/* It lives, takes records, and reaches everybody; only its heart has stopped. */
static void who_is_taken_for_dead_is_primary_no_more(void **state)
{
	(void)state;
	struct world *w = open_world(&(struct setting){.executors = 2, .replicas = REPLICAS});
	push_batches(w, BATCHES);
	(void)await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	heart_loop_hush(w->servers[1]->heart);
	await_no_primary(w, 1);
	push_batches(w, BATCHES);
	check_all(w);
	close_world(w);
}

static void each_server_dies_and_takes_over_again(bool on_disk)
{
	struct world *w = open_world(&(struct setting){.executors = 2, .on_disk = on_disk, .replicas = REPLICAS});
	push_batches(w, BATCHES);
	for (uint32_t dies = 0; dies < SERVERS; dies++) {
		(void)await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
		push_batch(w, dies);
		push_batches(w, BATCHES / 4);
		restart_server(w, dies);
		push_batches(w, BATCHES / 4);
	}
	(void)await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
	check_replicas_are_equal(w);
	check_all(w);
	close_world(w);
}

/* With nothing but what it has promised. */
static void a_server_without_its_log_is_brought_up(void **state)
{
	(void)state;
	each_server_dies_and_takes_over_again(false);
}

/* Which may have an end that nobody committed. */
static void a_server_with_its_log_goes_on_from_it(void **state)
{
	(void)state;
	each_server_dies_and_takes_over_again(true);
}

/* --- Snapshots */

/* A replica, looked at on its own thread. */
struct look {
	struct partition *partition;
	uint64_t first, durable; /* of its log */
	uint64_t rows;
	sem_t looked;
};

static void look(void *arg)
{
	struct look *l = arg;
	struct log *log = partition_log(l->partition);
	struct store_counters counters;
	store_get_counters(partition_store(l->partition), &counters);
	l->first = log->ops->first(log);
	l->durable = log->ops->durable(log);
	l->rows = counters.rows;
	sem_post(&l->looked);
}

static struct look look_at(struct server *s, uint32_t partition)
{
	struct look l = {.partition = s->partitions[partition]};
	sem_init(&l.looked, 0, 0);
	rpc_loop_post(server_executor(s, partition)->loop, look, &l);
	while (sem_wait(&l.looked) != 0)
		;
	sem_destroy(&l.looked);
	return l;
}

/* Though nothing else would write them there for an hour. */
static void on_disk_pushes_are_answered_from_all_disks(void **state)
{
	(void)state;
	struct world *w = open_world(&(struct setting){
	    .executors = 2, .on_disk = true, .replicas = REPLICAS, .ack = PARTITION_ACK_DISK, .fsync_interval_ms = 3600000});
	do {
		(void)await_in_sync(w, REPLICAS * CLUSTER_PARTITIONS);
		push_batches(w, BATCHES);
	} while (totals(w).in_sync < REPLICAS * CLUSTER_PARTITIONS); /* on a busy machine one may have been left out meanwhile */
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		for (uint32_t i = 0; i < REPLICAS; i++)
			assert_true(look_at(w->servers[placement_replica(p, i, SERVERS)], p).durable >= w->batches);
	check_all(w);
	close_world(w);
}

/* Nobody has the beginning of a log any more: who has nothing needs a snapshot. */
static void await_trimmed(struct world *w)
{
	const time_t until = now_s() + PATIENCE_S;
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		for (uint32_t i = 0; i < SERVERS; i++)
			while (w->servers[i] && is_host(w, p, i) && look_at(w->servers[i], p).first == 1) {
				nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
				if (now_s() > until)
					fail_msg("partition %u of server %u still has its first entry", p, i);
			}
}

/* A server loses everything, for so long that it is of no use to send it the log; and is then the only one left. */
static void who_lost_everything_is_brought_up(const struct setting *setting, uint32_t lost)
{
	struct world *w = open_world(setting);
	push_batches(w, BATCHES);
	(void)await_in_sync(w, setting->replicas * CLUSTER_PARTITIONS);
	push_batch(w, lost);
	lose_disk(w, lost);
	push_batches(w, BATCHES / 2);
	await_trimmed(w);
	restart_server(w, lost);
	push_batches(w, BATCHES / 2);
	(void)await_in_sync(w, setting->replicas * CLUSTER_PARTITIONS);
	check_replicas_are_equal(w);
	for (uint32_t i = 0; i < SERVERS; i++)
		if (i != lost)
			kill_server(w, i);
	check_all(w);
	close_world(w);
}

static void by_a_snapshot_of_two_replicas(void **state)
{
	(void)state;
	for (uint32_t lost = 0; lost < SERVERS; lost++)
		who_lost_everything_is_brought_up(&(struct setting){.executors = 2, .replicas = 2, .backlog_bytes = 1}, lost);
}

static void by_a_snapshot_of_three_replicas(void **state)
{
	(void)state;
	who_lost_everything_is_brought_up(&(struct setting){.executors = 2, .replicas = 3, .min_isr = 1, .backlog_bytes = 1}, 1);
}

static void by_a_snapshot_to_its_disk(void **state)
{
	(void)state;
	who_lost_everything_is_brought_up(
	    &(struct setting){.executors = 2, .on_disk = true, .replicas = 2, .min_isr = 1, .backlog_bytes = 1}, 2);
}

static void by_a_snapshot_of_rows_below_memory(void **state)
{
	(void)state;
	who_lost_everything_is_brought_up(
	    &(struct setting){
	        .executors = 2, .on_disk = true, .replicas = 3, .min_isr = 1, .memory_bytes = 1 << 20, .backlog_bytes = 1},
	    0);
}

/* A server that has lost everything has so many rows again, of all that it is to have. */
static void await_rows(struct world *w, uint32_t server, uint64_t rows_min)
{
	const time_t until = now_s() + PATIENCE_S;
	for (uint64_t rows = 0; rows < rows_min;) {
		rows = 0;
		for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
			if (is_host(w, p, server))
				rows += look_at(w->servers[server], p).rows;
		if (now_s() > until)
			fail_msg("server %u has %llu rows", server, (unsigned long long)rows);
	}
}

/* Who is brought up dies in the midst of it, or whoever sends it what it needs. */
static void a_snapshot_is_cut_short(const struct setting *setting)
{
	static const struct {
		uint32_t lost, dies;
		uint64_t rows; /* that it has then; of 40 */
	} cuts[] = {{0, 0, 0}, {1, 1, 3}, {2, 2, 15}, {0, 0, 30}, {1, 2, 0}, {2, 0, 4}, {0, 1, 20}};
	struct world *w = open_world(setting);
	push_batches(w, BATCHES);
	for (uint32_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
		(void)await_in_sync(w, setting->replicas * CLUSTER_PARTITIONS);
		push_batch(w, cuts[i].lost);
		lose_disk(w, cuts[i].lost);
		push_batches(w, 5);
		await_trimmed(w);
		restart_server(w, cuts[i].lost);
		await_rows(w, cuts[i].lost, cuts[i].rows);
		push_batch(w, cuts[i].dies);
		push_batches(w, 5);
		restart_server(w, cuts[i].dies);
		push_batches(w, 5);
	}
	(void)await_in_sync(w, setting->replicas * CLUSTER_PARTITIONS);
	check_replicas_are_equal(w);
	kill_server(w, 1);
	kill_server(w, 2);
	check_all(w);
	close_world(w);
}

static void in_memory_a_snapshot_may_be_cut_short(void **state)
{
	(void)state;
	a_snapshot_is_cut_short(&(struct setting){
	    .executors = 2, .replicas = 3, .min_isr = 1, .backlog_bytes = 1, .catch_up_bytes_per_s = 4 << 20, .dense = true});
}

static void on_disk_a_snapshot_may_be_cut_short(void **state)
{
	(void)state;
	a_snapshot_is_cut_short(&(struct setting){.executors = 2,
	                                          .on_disk = true,
	                                          .replicas = 3,
	                                          .min_isr = 1,
	                                          .backlog_bytes = 1,
	                                          .catch_up_bytes_per_s = 4 << 20,
	                                          .dense = true});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(with_one_executor),
	    cmocka_unit_test(with_several_executors),
	    cmocka_unit_test(who_is_taken_for_dead_is_primary_no_more),
	    cmocka_unit_test(a_server_without_its_log_is_brought_up),
	    cmocka_unit_test(a_server_with_its_log_goes_on_from_it),
	    cmocka_unit_test(on_disk_pushes_are_answered_from_all_disks),
	    cmocka_unit_test(by_a_snapshot_of_two_replicas),
	    cmocka_unit_test(by_a_snapshot_of_three_replicas),
	    cmocka_unit_test(by_a_snapshot_to_its_disk),
	    cmocka_unit_test(by_a_snapshot_of_rows_below_memory),
	    cmocka_unit_test(in_memory_a_snapshot_may_be_cut_short),
	    cmocka_unit_test(on_disk_a_snapshot_may_be_cut_short),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
