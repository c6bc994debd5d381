/* Servers whose replicas compare what they have: equal ones are found equal whatever dies meanwhile, and one with a wrong value is found, named and mended. */
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#include "cmocka_check.h"
#include "coord_memory.h"
#include "disk.h"
#include "faulty_disk.h"
#include "folder.h"
#include "placement.h"
#include "server_internal.h"
#include "service_fixture.h"

enum { SERVERS = 3, KEYS = 40, PATIENCE_S = 60, LINE_BYTES = 512 };

struct setting {
	uint32_t replicas;
	bool on_disk;
	uint32_t interval_ms;
	uint64_t backlog_bytes; /* as in server_options */
};

struct world {
	struct rpc *rpc;
	struct coord_memory *coordinator;
	FILE *lines; /* of all servers' logs, errors alone */
	struct logger *logger;
	char folder[FOLDER_BYTES];
	struct faulty_disk *disks[SERVERS];
	struct server *servers[SERVERS]; /* NULL: dead */
	struct client clients[SERVERS];  /* of the living */
	struct setting setting;
	uint32_t boots, batches;
	uint32_t primary[CLUSTER_PARTITIONS]; /* as far as is known */
	uint64_t requests;
};

static bool is_late(time_t until)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	return t.tv_sec > until;
}

static time_t deadline(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + PATIENCE_S;
}

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
	char name[32], path[FOLDER_BYTES + sizeof name];
	weir_error err = {0};
	const struct promising_options promising = {
	    .disk = faulty_disk_interface(w->disks[i]), .path = "folder", .machine_boot = {1}, .failed = on_failed};
	const struct durable_options durable = {.disk = disk_system(),
	                                        .path = path,
	                                        .machine_boot = {1},
	                                        .memory_budget_bytes = 256u << 20,
	                                        .fsync_interval_ms = 5,
	                                        .flush_interval_ms = 20,
	                                        .failed = on_failed};
	const struct coordinator_options coordinator = {.open = open_session, .arg = w};
	for (uint32_t j = 0; j < SERVERS; j++)
		addresses[j] = cluster_address(j);
	snprintf(name, sizeof name, "server-%u", i);
	snprintf(path, sizeof path, "%s/%s", w->folder, name);
	struct server_options o = {.rpc = w->rpc,
	                           .clock = clock_system(),
	                           .logger = w->logger,
	                           .name = name,
	                           .listen = cluster_address(i),
	                           .generation = RECORDS_GENERATION,
	                           .boot = ++w->boots,
	                           .index = i,
	                           .servers = SERVERS,
	                           .partitions = CLUSTER_PARTITIONS,
	                           .replicas = w->setting.replicas,
	                           .backlog_bytes = w->setting.backlog_bytes,
	                           .scrub_interval_ms = w->setting.interval_ms,
	                           .coordinator = &coordinator,
	                           .addresses = addresses,
	                           .executors = 2,
	                           .durable = w->setting.on_disk ? &durable : NULL,
	                           .promising = w->setting.on_disk ? NULL : &promising};
	memcpy(o.uuid, records_uuid, 16);
	CHECK_OK(server_create(&w->servers[i], &o, &err), err);
	client_open(&w->clients[i], w->rpc, cluster_address(i), RPC_PUSH_STREAM);
}

static void kill_server(struct world *w, uint32_t i)
{
	server_destroy(w->servers[i]);
	w->servers[i] = NULL;
	(void)client_wait_closed(&w->clients[i]);
	client_close(&w->clients[i]);
}

/* With every partition, at whichever server is its primary. Who is started later learns of them from the others. */
static void register_tables(struct world *w)
{
	const time_t until = deadline();
	for (uint32_t known = 0; known != (1u << CLUSTER_PARTITIONS) - 1;) {
		for (uint32_t i = 0; i < SERVERS; i++)
			known |= cluster_register(&w->clients[i]);
		if (deadline() > until + PATIENCE_S)
			fail_msg("of the partitions only %03x have their tables", known);
	}
}

static struct world *open_world(const struct setting *setting)
{
	struct world *w = calloc(1, sizeof *w);
	w->rpc = rpc_memory_create(NULL);
	w->coordinator = coord_memory_create(clock_system());
	w->setting = *setting;
	w->lines = tmpfile();
	w->logger = logger_create(&(struct logger_options){.out = w->lines, .level = LOG_ERROR, .who = "servers"});
	if (setting->on_disk)
		folder_create(w->folder);
	for (uint32_t i = 0; i < SERVERS; i++) {
		w->disks[i] = faulty_disk_create();
		start_server(w, i);
	}
	register_tables(w);
	for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
		w->primary[p] = placement_server(p, SERVERS);
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
	logger_destroy(w->logger);
	fclose(w->lines);
	if (w->setting.on_disk)
		folder_remove(w->folder);
	free(w);
}

/* --- Pushes */

static weir_status await_status(struct client *c, uint64_t id)
{
	weir_status status = WEIR_E_UNAVAILABLE;
	bool found = false;
	pthread_mutex_lock(&c->lock);
	while (!found) {
		for (uint32_t i = c->answers_count; i-- > 0 && !found;)
			if ((found = c->answers[i].record.request_id == id))
				status = (weir_status)c->answers[i].record.status;
		if (found || c->closed)
			break;
		pthread_cond_wait(&c->changed, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return status;
}

/* Whether it is there, now or since before. */
static bool try_push(struct world *w, uint32_t partition)
{
	struct client *c = &w->clients[w->primary[partition]];
	const struct record r = {.kind = RECORD_PUSH,
	                         .partition = (uint16_t)partition,
	                         .request_id = ++w->requests,
	                         .pass = 1,
	                         .attempt = 1,
	                         .unit = w->batches / 100,
	                         .batch = w->batches % 100};
	if (!w->servers[w->primary[partition]])
		return false;
	client_send(c, cluster_frame(&r, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, partition, w->batches % KEYS),
	                             (float)(w->batches % 7), true));
	const weir_status status = await_status(c, w->requests);
	if (status && status != WEIR_E_DUPLICATE && status != WEIR_E_MOVED)
		fail_msg("partition %u, batch %u: %s", partition, w->batches, weir_status_name(status));
	return !status || status == WEIR_E_DUPLICATE;
}

static void push_until_done(struct world *w, uint32_t partition)
{
	const time_t until = deadline();
	while (!try_push(w, partition)) {
		w->primary[partition] = (w->primary[partition] + 1) % SERVERS;
		if (is_late(until))
			fail_msg("partition %u has no primary", partition);
	}
}

static void push_batches(struct world *w, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++, w->batches++)
		for (uint32_t p = 0; p < CLUSTER_PARTITIONS; p++)
			push_until_done(w, p);
}

/* --- What the servers say */

struct totals {
	uint32_t partitions, in_sync;
	uint64_t scrubs, differ;
	uint32_t primary[CLUSTER_PARTITIONS];
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
		t->scrubs += s->partitions[i]->scrubs;
		t->differ += s->partitions[i]->scrubs_differ;
		t->primary[s->partitions[i]->id] = server;
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

static struct totals await_in_sync(struct world *w)
{
	const time_t until = deadline();
	struct totals t = totals(w);
	while (t.partitions != CLUSTER_PARTITIONS || t.in_sync != w->setting.replicas * CLUSTER_PARTITIONS) {
		if (is_late(until))
			fail_msg("%u replicas of %u partitions are in sync", t.in_sync, t.partitions);
		t = totals(w);
	}
	return t;
}

/* --- Scrubs on command */

struct result {
	uint32_t compared, differ, replicas; /* partitions; replicas that answered */
};

static void add_scrub(struct world *w, uint32_t server, struct result *out)
{
	Weir__V1__ScrubRequest q = WEIR__V1__SCRUB_REQUEST__INIT;
	ProtobufCMessage *m;
	weir_error err = {0};
	CHECK_OK(client_call(&w->clients[server], RPC_SCRUB, &q.base, &weir__v1__scrub_reply__descriptor, &m, &err), err);
	const Weir__V1__ScrubReply *s = (const Weir__V1__ScrubReply *)m;
	for (size_t i = 0; i < s->n_partitions; i++) {
		const Weir__V1__PartitionScrub *p = s->partitions[i];
		bool differ = false;
		for (size_t j = 1; j < p->n_replicas; j++)
			differ |= p->replicas[j]->rows != p->replicas[0]->rows || p->replicas[j]->state != p->replicas[0]->state;
		out->compared += p->n_replicas > 1;
		out->differ += differ;
		out->replicas += (uint32_t)p->n_replicas;
	}
	wire_free(m);
}

static struct result scrub_all(struct world *w)
{
	struct result r = {0};
	for (uint32_t i = 0; i < SERVERS; i++)
		if (w->servers[i])
			add_scrub(w, i, &r);
	return r;
}

/* Of all partitions and replicas: some may just be moving. */
static struct result await_scrub(struct world *w)
{
	const time_t until = deadline();
	struct result r = scrub_all(w);
	while (r.replicas != w->setting.replicas * CLUSTER_PARTITIONS) {
		if (is_late(until))
			fail_msg("%u replicas of %u partitions have said what they have", r.replicas, r.compared);
		(void)await_in_sync(w);
		r = scrub_all(w);
	}
	return r;
}

/* --- Wrong values */

struct poke {
	struct partition *partition;
	sem_t done;
};

static void poke_now(void *arg)
{
	struct poke *k = arg;
	struct store_table *t = store_table(partition_store(k->partition), CLUSTER_ASYNC);
	const uint64_t key = cluster_key(CLUSTER_ASYNC, partition_id(k->partition), 1);
	float *row;
	struct row_meta *meta;
	assert_int_equal(store_upsert(t, &key, 1, &row, &meta), WEIR_OK);
	row[3] += 1;
	sem_post(&k->done);
}

/* One value of one row, behind everybody's back. */
static void spoil(struct world *w, uint32_t server, uint32_t partition)
{
	struct server *s = w->servers[server];
	struct poke k = {.partition = s->partitions[partition]};
	sem_init(&k.done, 0, 0);
	rpc_loop_post(server_executor(s, partition)->loop, poke_now, &k);
	while (sem_wait(&k.done) != 0)
		;
	sem_destroy(&k.done);
}

/* Whether some line has all of these. */
static bool find_line(struct world *w, const char *a, const char *b, const char *c, char line[LINE_BYTES])
{
	bool found = false;
	rewind(w->lines);
	while (!found && fgets(line, LINE_BYTES, w->lines))
		found = strstr(line, a) && strstr(line, b) && strstr(line, c);
	return found;
}

static bool has_line(struct world *w, const char *a, const char *b, const char *c)
{
	char line[LINE_BYTES];
	return find_line(w, a, b, c, line);
}

static void check_line(struct world *w, uint32_t partition, uint32_t server)
{
	char which[32], who[32];
	snprintf(which, sizeof which, "partition=%u ", partition);
	snprintf(who, sizeof who, "server=%u ", server);
	if (!has_line(w, "replicas differ", which, who) || !has_line(w, "what=rows", which, who))
		fail_msg("no line names partition %u and server %u", partition, server);
}

/* By and by, or because somebody asks. */
static void await_differ(struct world *w)
{
	const time_t until = deadline();
	while (w->setting.interval_ms ? totals(w).differ == 0 : scrub_all(w).differ == 0)
		if (is_late(until))
			fail_msg("not found in %u comparisons", (unsigned)totals(w).scrubs);
}

static void await_mended(struct world *w)
{
	const time_t until = deadline();
	do {
		(void)await_in_sync(w);
		if (is_late(until))
			fail_msg("replicas still differ");
	} while (await_scrub(w).differ);
}

/* --- Tests */

static void equal_replicas_are_found_equal(uint32_t replicas, bool on_disk)
{
	struct world *w = open_world(&(struct setting){.replicas = replicas, .on_disk = on_disk});
	push_batches(w, 100);
	(void)await_in_sync(w);
	const struct result r = await_scrub(w);
	assert_int_equal(r.compared, CLUSTER_PARTITIONS);
	assert_int_equal(r.differ, 0);
	assert_int_equal(totals(w).differ, 0);
	close_world(w);
}

static void two_equal_replicas(void **state)
{
	(void)state;
	equal_replicas_are_found_equal(2, false);
}

static void three_equal_replicas_on_disk(void **state)
{
	(void)state;
	equal_replicas_are_found_equal(3, true);
}

static void a_wrong_value_is_found_and_mended(const struct setting *setting, uint32_t replica)
{
	struct world *w = open_world(setting);
	const uint32_t partition = 4;
	push_batches(w, 60);
	struct totals t = await_in_sync(w);
	const uint32_t server = (t.primary[partition] + replica) % SERVERS; /* a host of it, as placement.h has them */
	spoil(w, server, partition);
	await_differ(w);
	check_line(w, partition, replica ? server : (server + 1) % SERVERS);
	push_batches(w, 60);
	await_mended(w);
	close_world(w);
}

static void of_a_follower_of_two(void **state)
{
	(void)state;
	a_wrong_value_is_found_and_mended(&(struct setting){.replicas = 2, .backlog_bytes = 1}, 1);
}

static void of_a_follower_of_two_by_and_by(void **state)
{
	(void)state;
	a_wrong_value_is_found_and_mended(&(struct setting){.replicas = 2, .backlog_bytes = 1, .interval_ms = 50}, 1);
}

static void of_a_follower_of_three_on_disk(void **state)
{
	(void)state;
	a_wrong_value_is_found_and_mended(&(struct setting){.replicas = 3, .on_disk = true, .backlog_bytes = 1}, 2);
}

static void of_the_primary_of_three(void **state)
{
	(void)state;
	a_wrong_value_is_found_and_mended(&(struct setting){.replicas = 3, .backlog_bytes = 1}, 0);
}

static void nothing_is_found_where_nothing_is_wrong(void **state)
{
	(void)state;
	struct world *w = open_world(&(struct setting){.replicas = 3, .on_disk = true, .interval_ms = 200});
	for (uint32_t dies = 0; dies < SERVERS; dies++) {
		push_batches(w, 60);
		kill_server(w, dies);
		push_batches(w, 60);
		start_server(w, dies);
		push_batches(w, 60);
		(void)await_in_sync(w);
	}
	const struct totals t = totals(w);
	assert_int_equal(await_scrub(w).differ, 0);
	assert_true(t.scrubs > 0);
	assert_int_equal(t.differ, 0);
	char line[LINE_BYTES];
	if (find_line(w, "replicas differ", "", "", line))
		fail_msg("%s", line);
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_equal_replicas),
	    cmocka_unit_test(three_equal_replicas_on_disk),
	    cmocka_unit_test(of_a_follower_of_two),
	    cmocka_unit_test(of_a_follower_of_two_by_and_by),
	    cmocka_unit_test(of_a_follower_of_three_on_disk),
	    cmocka_unit_test(of_the_primary_of_three),
	    cmocka_unit_test(nothing_is_found_where_nothing_is_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
