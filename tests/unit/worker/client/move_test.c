/* Partitions and the ledger move between servers while clients push integers. Nothing is lost or
 * counted twice, and a move is only a pause, whoever dies during it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/layout.h"
#include "common/base/key_partition.h"
#include "proto/coord/coord_memory.h"
#include "server/ledger/ledger_log.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/server/folder.h"
#include "tests/unit/worker/client/integer_trainer.h"

enum {
	SERVERS = 3,
	PARTITIONS = 6,
	REPLICAS = 2,
	MOVES = 12,
	KEYS_PUSHED = 24,
	PUSHES_MAX = 400000,
	UNIT_PUSHES = 100,
	SOME_PUSHES = 50,
	QUIET_MS = 60000
};

/* --- Pushing, one batch at a time */

struct push {
	int64_t from_ns, to_ns;
};

struct pusher {
	weir_client *client;
	uint32_t table;
	pthread_t id;
	struct push *pushes; /* (PUSHES_MAX) */
	float sum;           /* pushed to every key */
	weir_error err;
	pthread_mutex_t lock;
	pthread_cond_t pushed;
	/* The lock guards these: */
	uint32_t count; /* of `pushes` */
	bool stop, ended;
	weir_status status;
};

struct world {
	struct cluster cluster;
	struct layout_asker *asker;
	struct layout layout;
	struct layout_plan plan;
	struct pusher pusher;
};

static int64_t now_ns(void)
{
	return clock_ns(clock_system());
}

static uint32_t pushes_so_far(struct pusher *p)
{
	pthread_mutex_lock(&p->lock);
	const uint32_t count = p->count;
	pthread_mutex_unlock(&p->lock);
	return count;
}

static weir_status push_one(struct pusher *p, const weir_unit *u, uint32_t batch)
{
	uint64_t keys[KEYS_PUSHED];
	float add[KEYS_PUSHED * WIDTH];
	const weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	const float value = (float)(batch % 3 + 1);
	struct push *at = &p->pushes[pushes_so_far(p)];
	weir_ticket ticket;
	for (uint32_t i = 0; i < KEYS_PUSHED; i++)
		keys[i] = i;
	for (uint32_t i = 0; i < KEYS_PUSHED * WIDTH; i++)
		add[i] = -value;
	const weir_push_item item = {.table = p->table, .keys = keys, .rows = KEYS_PUSHED, .values = add};
	at->from_ns = now_ns();
	weir_status status = weir_push(p->client, &id, &item, 1, NULL, NULL, NULL, &ticket, &p->err);
	if (!status)
		status = weir_wait(p->client, ticket, PATIENCE_MS, &p->err);
	at->to_ns = now_ns();
	p->sum += value;
	pthread_mutex_lock(&p->lock);
	p->count++;
	pthread_cond_signal(&p->pushed);
	pthread_mutex_unlock(&p->lock);
	return status;
}

static bool goes_on(struct pusher *p)
{
	pthread_mutex_lock(&p->lock);
	const bool on = !p->stop && p->count < PUSHES_MAX;
	pthread_mutex_unlock(&p->lock);
	return on;
}

static weir_status push_units(struct pusher *p)
{
	weir_status status = WEIR_OK;
	while (!status && goes_on(p)) {
		weir_unit u = {0};
		status = weir_unit_lease(p->client, &u, PATIENCE_MS, &p->err);
		if (!status)
			status = weir_unit_begin(p->client, &u, UNIT_PUSHES, &p->err);
		uint32_t batch = 0;
		while (!status && goes_on(p) && batch < UNIT_PUSHES)
			status = push_one(p, &u, batch++);
		if (!status && batch == UNIT_PUSHES)
			status = weir_unit_commit(p->client, &u, &p->err);
	}
	return status;
}

static void *pusher_main(void *arg)
{
	struct pusher *p = arg;
	const weir_status status = push_units(p);
	pthread_mutex_lock(&p->lock);
	p->status = status;
	p->ended = true;
	pthread_cond_signal(&p->pushed);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void start_pushing(struct world *w)
{
	struct pusher *p = &w->pusher;
	p->client = cluster_trainer(&w->cluster, "pusher", PUSHES_MAX / UNIT_PUSHES + 1);
	p->table = cluster_table(p->client, "rows", WEIR_EMBEDDING, WIDTH, (weir_mode){WEIR_ASYNC});
	p->pushes = malloc(PUSHES_MAX * sizeof *p->pushes);
	assert_non_null(p->pushes);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->pushed, NULL);
	assert_int_equal(pthread_create(&p->id, NULL, pusher_main, p), 0);
}

/* Waits for a few more pushes, so that every move has pushes after it. */
static void await_pushes(struct world *w, uint32_t count)
{
	struct pusher *p = &w->pusher;
	pthread_mutex_lock(&p->lock);
	const uint32_t enough = p->count + count;
	while (p->count < enough && !p->ended)
		pthread_cond_wait(&p->pushed, &p->lock);
	if (p->count < enough)
		fail_msg("%u pushes instead of %u: %s: %s", p->count, enough, weir_status_name(p->status), p->err.text);
	pthread_mutex_unlock(&p->lock);
}

/* Asserts that all pushes were answered and that every key has their sum, once. */
static void stop_pushing(struct world *w)
{
	struct pusher *p = &w->pusher;
	uint64_t keys[KEYS_PUSHED];
	float rows[KEYS_PUSHED * WIDTH];
	weir_ticket ticket;
	weir_error err = {0};
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->id, NULL);
	assert_ok(p->status, &p->err);
	for (uint32_t i = 0; i < KEYS_PUSHED; i++)
		keys[i] = i;
	weir_pull_item pull = {.table = p->table, .keys = keys, .rows = KEYS_PUSHED, .values = rows};
	assert_ok(weir_pull(p->client, NULL, &pull, 1, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(p->client, ticket, PATIENCE_MS, &err), &err);
	for (uint32_t i = 0; i < KEYS_PUSHED * WIDTH; i++)
		assert_true(rows[i] == p->sum);
	const struct audit a = cluster_audit(&w->cluster);
	assert_int_equal(a.twice, 0);
	assert_int_equal(a.applied, (uint64_t)PARTITIONS * p->count);
	assert_int_equal(a.workers_lost, 0);
	weir_abandon(p->client);
	pthread_cond_destroy(&p->pushed);
	pthread_mutex_destroy(&p->lock);
	free(p->pushes);
}

/* --- The job */

static const struct layout *look(struct world *w)
{
	weir_error err = {0};
	CHECK_OK(layout_ask(w->asker, &w->layout, &err), err);
	return &w->layout;
}

/* Partition i's layout; the ledger follows the partitions. */
static const struct layout_partition *look_at(struct world *w, uint32_t i)
{
	return layout_get(look(w), i < PARTITIONS ? i : LAYOUT_LEDGER);
}

static bool is_whole(const struct layout_partition *p)
{
	return p->primary != MEMBER_NONE && member_set_equal(&p->in_sync, &p->hosts);
}

static bool are_whole(const struct layout *l)
{
	bool whole = is_whole(&l->ledger);
	for (uint32_t p = 0; p < l->partitions_count; p++)
		whole &= is_whole(&l->partitions[p]);
	return whole;
}

/* Waits until every partition and the ledger have a primary and all replicas in sync. */
static void await_whole(struct world *w)
{
	AWAIT(are_whole(look(w)), "some partition has no primary, or not all its replicas");
}

static void await_life(struct world *w, uint32_t server, bool lives)
{
	AWAIT(look(w)->lives[server] == lives, "server %u %s", server, lives ? "does not live" : "still lives");
}

static void start_server(struct world *w, uint32_t server)
{
	cluster_start_server(&w->cluster, server);
	await_life(w, server, true);
}

/* All replicas are in sync and have pushes. */
static struct world *open_world(uint32_t executors, const char *folder)
{
	struct world *w = calloc(1, sizeof *w);
	weir_error err = {0};
	assert_non_null(w);
	cluster_start(&w->cluster, &(struct cluster_options){.servers = SERVERS,
	                                                     .partitions = PARTITIONS,
	                                                     .executors = executors,
	                                                     .passes = 1,
	                                                     .replicas = REPLICAS,
	                                                     .folder = folder,
	                                                     .memory_budget_bytes = folder ? 256u << 20 : 0});
	CHECK_OK(layout_open(&w->asker, w->cluster.rpc, "memory:0", &err), err);
	start_pushing(w);
	await_whole(w);
	await_pushes(w, SOME_PUSHES);
	return w;
}

static void close_world(struct world *w)
{
	stop_pushing(w);
	layout_close(w->asker);
	cluster_stop(&w->cluster);
	free(w);
}

static void carry_out(struct world *w)
{
	weir_error err = {0};
	CHECK_OK(layout_carry_out(w->asker, &w->plan, QUIET_MS, NULL, NULL, &err), err);
}

static void rebalance(struct world *w)
{
	weir_error err = {0};
	CHECK_OK(layout_ask_all(w->asker, &w->layout, QUIET_MS, NULL, NULL, &err), err);
	CHECK_OK(layout_plan_rebalance(&w->plan, &w->layout, &err), err);
	carry_out(w);
}

static void move(struct world *w, uint32_t partition, uint32_t to)
{
	weir_error err = {0};
	CHECK_OK(layout_plan_move(&w->plan, look(w), partition, to, &err), err);
	carry_out(w);
}

struct holding {
	struct executor *executor;
	uint32_t partitions; /* with entries in their logs */
};

static void count_here(void *arg)
{
	struct holding *h = arg;
	struct server *s = h->executor->server;
	for (uint32_t p = 0; p < s->options.partitions; p++) {
		struct log *log = s->partitions[p] && server_executor(s, p) == h->executor ? partition_log(s->partitions[p]) : NULL;
		h->partitions += log && log->ops->last(log) > 0;
	}
}

/* Counts the partitions on a server. It may not have deleted the moved ones yet. */
static uint32_t partitions_held(struct server *s)
{
	struct holding h = {.partitions = 0};
	for (uint32_t i = 0; i < s->options.executors; i++) {
		h.executor = &s->executors[i];
		on_loop(h.executor->loop, count_here, &h);
	}
	return h.partitions;
}

static void await_held(struct server *s, uint32_t partitions)
{
	uint32_t held;
	AWAIT((held = partitions_held(s)) == partitions, "%s has %u partitions, not %u", s->name, held, partitions);
}

static void drain(struct world *w, uint32_t server)
{
	weir_error err = {0};
	CHECK_OK(layout_plan_drain(&w->plan, look(w), server, &err), err);
	carry_out(w);
	await_held(w->cluster.servers[server], 0);
}

/* A server without a replica of the partition. */
static uint32_t absent(const struct layout *l, uint32_t partition)
{
	uint32_t server = 0;
	while (member_set_has(&layout_get(l, partition)->hosts, (uint16_t)server))
		server++;
	return server;
}

/* --- Cost of a move */

static int by_size(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* The slowest push in flight between the two times. */
static int64_t slowest(struct pusher *p, int64_t from_ns, int64_t to_ns)
{
	const uint32_t count = pushes_so_far(p);
	int64_t worst = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct push *x = &p->pushes[i];
		if (x->from_ns <= to_ns && x->to_ns >= from_ns && x->to_ns - x->from_ns > worst)
			worst = x->to_ns - x->from_ns;
	}
	return worst;
}

static void print_times(const char *what, int64_t *ns, uint32_t count)
{
	qsort(ns, count, sizeof *ns, by_size);
	printf("%s of %u moves: p50 %.1f ms, p99 %.1f ms, worst %.1f ms\n", what, count, (double)ns[count / 2] / 1e6,
	       (double)ns[count * 99 / 100] / 1e6, (double)ns[count - 1] / 1e6);
}

/* --- Tests */

/* Each partition moves to the server without a replica of it, again and again. */
static void partitions_move_while_they_are_pushed_into(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	int64_t pauses[MOVES], whole[MOVES];
	for (uint32_t i = 0; i < MOVES; i++) {
		const uint32_t to = absent(look(w), i % PARTITIONS);
		const int64_t from_ns = now_ns();
		move(w, i % PARTITIONS, to);
		whole[i] = now_ns() - from_ns;
		await_pushes(w, 3);
		pauses[i] = slowest(&w->pusher, from_ns, now_ns());
	}
	print_times("longest push", pauses, MOVES);
	print_times("all", whole, MOVES);
	/* a generous bound for a busy machine */
	assert_true(pauses[MOVES - 1] < (int64_t)10000 * 1000000);
	close_world(w);
}

static void a_role_moves_between_replicas(void **state)
{
	(void)state;
	struct world *w = open_world(1, NULL);
	for (uint32_t i = 0; i < 8; i++) {
		const struct layout_partition p = look(w)->partitions[0];
		const uint16_t other = p.hosts.ids[p.hosts.ids[0] == p.primary];
		move(w, 0, other);
		assert_int_equal(look(w)->partitions[0].primary, other);
		assert_true(member_set_equal(&w->layout.partitions[0].hosts, &p.hosts));
	}
	close_world(w);
}

static void a_drained_server_has_nothing(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	drain(w, 2);
	await_pushes(w, SOME_PUSHES);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		assert_false(member_set_has(&look(w)->partitions[p].in_sync, 2));
	rebalance(w);
	await_held(w->cluster.servers[2], REPLICAS * PARTITIONS / SERVERS);
	await_pushes(w, SOME_PUSHES);
	close_world(w);
}

/* It knows only the other servers, and gets its tables and its share from them. */
static void an_added_server_takes_its_share(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	start_server(w, SERVERS);
	rebalance(w);
	await_held(w->cluster.servers[SERVERS], REPLICAS * PARTITIONS / (SERVERS + 1));
	await_pushes(w, SOME_PUSHES);
	uint32_t primaries = 0;
	for (uint32_t p = 0; p < PARTITIONS; p++)
		primaries += look(w)->partitions[p].primary == SERVERS;
	assert_true(primaries > 0);
	assert_int_equal(cluster_audit(&w->cluster).servers, SERVERS + 1); /* the audit includes it */
	close_world(w);
}

struct ledger_look {
	struct server *server;
	bool is_here;
};

static void look_at_ledger(void *arg)
{
	struct ledger_look *x = arg;
	struct log *log = ledger_log_entries(x->server->ledger_log);
	x->is_here = log->ops->last(log) > 0;
}

/* Returns true if the server has any part of the ledger. */
static bool ledger_is_here(struct server *s)
{
	struct ledger_look x = {.server = s};
	on_loop(s->ledger_loop, look_at_ledger, &x);
	return x.is_here;
}

static void await_ledger(struct server *s, bool is_here)
{
	AWAIT(ledger_is_here(s) == is_here, "%s has %s of the ledger", s->name, is_here ? "nothing" : "something");
}

/* To a replica, to servers without one, to an added one, and back. Each deletes its copy once the
 * ledger has moved on. */
static void the_ledger_moves(void **state)
{
	(void)state;
	static const uint16_t way[] = {1, 2, 0, SERVERS, 1, 0};
	struct world *w = open_world(2, NULL);
	start_server(w, SERVERS);
	for (uint32_t i = 0; i < sizeof way / sizeof *way; i++) {
		move(w, LAYOUT_LEDGER, way[i]);
		assert_int_equal(look(w)->ledger.primary, way[i]);
		for (uint16_t server = 0; server <= SERVERS; server++)
			await_ledger(w->cluster.servers[server], member_set_has(&w->layout.ledger.hosts, server));
		await_pushes(w, 2 * UNIT_PUSHES); /* units are committed and leased */
	}
	rebalance(w);
	assert_int_equal(look(w)->ledger.primary, 0); /* the primary stays */
	close_world(w);
}

/* --- Deaths during moves */

enum { ROUNDS = 4, STEP_MS = 100 }; /* each round kills a little later */
enum { SILENT_MS = 1500 };          /* longer than servers wait for the coordinator's answer */

/* Begins the move and watches it for `ms`; it may be done by then. */
static void begin_move(struct world *w, uint32_t partition, uint32_t to, uint32_t ms)
{
	weir_error err = {0};
	CHECK_OK(layout_plan_move(&w->plan, look(w), partition, to, &err), err);
	const weir_status status = layout_carry_out(w->asker, &w->plan, ms, NULL, NULL, &err);
	if (status && status != WEIR_E_TIMEOUT)
		fail_msg("partition %u to server %u: %s", partition, to, err.text);
}

/* The victim dies after `ms` and restarts; after the move if it is not its target. */
static void move_meanwhile_kill(struct world *w, uint32_t partition, uint32_t to, uint32_t ms, uint32_t victim)
{
	begin_move(w, partition, to, ms);
	cluster_kill_server(&w->cluster, victim);
	if (victim != to)
		carry_out(w);
	cluster_start_server(&w->cluster, victim);
	carry_out(w);
	await_whole(w);
}

/* Chooses a partition with primary `from`, and a target without a replica of it: `to`, unless that
 * is MEMBER_NONE. */
static bool choose(struct world *w, uint32_t from, uint32_t to, uint32_t *partition, uint32_t *target)
{
	const struct layout *l = look(w);
	for (*partition = 0; *partition < l->partitions_count; (*partition)++) {
		const struct layout_partition *p = &l->partitions[*partition];
		for (*target = 0; *target < SERVERS; (*target)++)
			if ((p->primary == from || from == MEMBER_NONE) && (*target == to || to == MEMBER_NONE) &&
			    !member_set_has(&p->hosts, (uint16_t)*target))
				return true;
	}
	return false;
}

/* Server 1 is the source or the target of the moves, and dies a little later in each. Server 0 has
 * the ledger. */
static void moves_outlive(struct world *w, bool source)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t partition, to;
		rebalance(w);
		if (!choose(w, source ? 1 : MEMBER_NONE, source ? MEMBER_NONE : 1, &partition, &to))
			fail_msg("round %u: no partition can be moved %s server 1", i, source ? "from" : "to");
		move_meanwhile_kill(w, partition, to, 1 + i * STEP_MS, 1);
		await_pushes(w, 5);
	}
}

static void moves_outlive_their_source(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	moves_outlive(w, true);
	close_world(w);
}

static void moves_outlive_their_target(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	moves_outlive(w, false);
	close_world(w);
}

/* After a restart the server has partitions that moved to it, and none that moved away. */
static void moved_partitions_are_on_disk(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	folder_create(folder);
	struct world *w = open_world(2, folder);
	moves_outlive(w, false);
	moves_outlive(w, true);
	close_world(w);
	folder_remove(folder);
}

/* The ledger moves to a server without a replica; that server or the source dies on the way.
 * Nothing is lost, on disk either. */
static void moves_of_the_ledger_outlive(const char *folder, bool source)
{
	struct world *w = open_world(1, folder);
	for (uint32_t i = 0; i < ROUNDS / 2; i++) {
		const uint32_t from = look(w)->ledger.primary, to = absent(look(w), LAYOUT_LEDGER);
		move_meanwhile_kill(w, LAYOUT_LEDGER, to, 1 + i * STEP_MS, source ? from : to);
		await_ledger(w->cluster.servers[from], member_set_has(&look(w)->ledger.hosts, (uint16_t)from));
		await_pushes(w, UNIT_PUSHES);
	}
	close_world(w);
}

static void moves_of_the_ledger_outlive_servers(void **state)
{
	(void)state;
	moves_of_the_ledger_outlive(NULL, true);
	moves_of_the_ledger_outlive(NULL, false);
}

static void the_moved_ledger_is_on_disk(void **state)
{
	(void)state;
	for (uint32_t source = 0; source < 2; source++) {
		char folder[FOLDER_BYTES];
		folder_create(folder);
		moves_of_the_ledger_outlive(folder, source);
		folder_remove(folder);
	}
}

/* A drained server may end for good; then another may die, and a returning one takes its share. */
static void the_first_server_is_not_missed(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	drain(w, 0);
	await_ledger(w->cluster.servers[0], false);
	cluster_kill_server(&w->cluster, 0);
	await_pushes(w, UNIT_PUSHES);
	cluster_kill_server(&w->cluster, 1);
	await_pushes(w, UNIT_PUSHES);
	start_server(w, 0);
	await_life(w, 1, false);
	rebalance(w);
	for (uint32_t i = 0; i <= PARTITIONS; i++) {
		const struct layout_partition *p = look_at(w, i);
		assert_true(member_set_has(&p->in_sync, 0) && !member_set_has(&p->hosts, 1));
	}
	cluster_start_server(&w->cluster, 1);
	rebalance(w);
	await_whole(w);
	close_world(w);
}

/* The living servers take over its replicas at once. A returning server gets a share. */
static void a_server_that_is_gone_is_replaced(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	cluster_kill_server(&w->cluster, 1);
	rebalance(w);
	assert_int_equal(w->plan.left_count, 0);
	await_whole(w);
	for (uint32_t i = 0; i <= PARTITIONS; i++) {
		const struct layout_partition *p = look_at(w, i);
		assert_true(p->hosts.count == REPLICAS && !member_set_has(&p->hosts, 1));
	}
	await_pushes(w, SOME_PUSHES);
	/* no server is left to take its place, so there is nothing to wait for */
	cluster_kill_server(&w->cluster, 2);
	rebalance(w);
	assert_true(w->plan.count == 0 && w->plan.left_count == PARTITIONS + 1 && !w->plan.left[0].is_lost);
	cluster_start_server(&w->cluster, 1);
	cluster_start_server(&w->cluster, 2);
	await_life(w, 1, true);
	await_life(w, 2, true);
	await_whole(w);
	rebalance(w);
	await_held(w->cluster.servers[1], REPLICAS * PARTITIONS / SERVERS);
	await_pushes(w, SOME_PUSHES);
	close_world(w);
}

/* Meanwhile requests of servers reach their deadlines. */
static bool time_has_come(struct coord_memory *m, int64_t ns)
{
	coord_memory_run(m);
	return now_ns() >= ns;
}

static void moves_outlive_a_silent_coordinator(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t partition, to;
		assert_true(choose(w, MEMBER_NONE, MEMBER_NONE, &partition, &to));
		begin_move(w, (partition + i) % PARTITIONS, to, 1 + i * STEP_MS);
		coord_memory_down(w->cluster.coordinator, true);
		const int64_t end_ns = deadline_after_ms(SILENT_MS);
		AWAIT(time_has_come(w->cluster.coordinator, end_ns), "time stands still");
		coord_memory_down(w->cluster.coordinator, false);
		coord_memory_run(w->cluster.coordinator);
		carry_out(w);
		await_whole(w);
	}
	close_world(w);
}

struct late {
	struct world *world;
	uint32_t times;
};

/* The coordinator returns once its absence has been reported. */
static void bring_back(void *arg, const char *why)
{
	struct late *x = arg;
	assert_true(why[0]);
	assert_true(x->times);
	x->times--;
	coord_memory_down(x->world->cluster.coordinator, false);
	coord_memory_run(x->world->cluster.coordinator);
}

static void an_absent_coordinator_is_told_of_once(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	struct late x = {.world = w, .times = 1};
	uint32_t partition, to;
	assert_true(choose(w, MEMBER_NONE, MEMBER_NONE, &partition, &to));
	layout_when_late(w->asker, bring_back, &x);
	coord_memory_down(w->cluster.coordinator, true);
	move(w, partition, to);
	assert_int_equal(x.times, 0);
	await_whole(w);
	close_world(w);
}

/* --- A drain with interference */

struct giver {
	struct world *world;
	uint32_t to, times;
};

/* Another operator places a partition on the server after the drain has moved the last one away. */
static void give_back(void *arg, const struct layout_goal *g, uint32_t left)
{
	struct giver *x = arg;
	(void)g;
	if (left || !x->times)
		return;
	x->times--;
	move(x->world, 0, x->to);
}

static void a_drain_goes_on_with_what_comes_back(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	struct giver x = {.world = w, .to = 1, .times = 2};
	weir_error err = {0};
	CHECK_OK(layout_drain(w->asker, look(w), 1, QUIET_MS, give_back, &x, &err), err);
	assert_int_equal(x.times, 0);
	await_held(w->cluster.servers[1], 0);
	close_world(w);
}

static void a_drain_that_is_always_undone_says_so(void **state)
{
	(void)state;
	struct world *w = open_world(2, NULL);
	struct giver x = {.world = w, .to = 1, .times = LAYOUT_DRAINS_MAX};
	weir_error err = {0};
	assert_int_equal(layout_drain(w->asker, look(w), 1, QUIET_MS, give_back, &x, &err), WEIR_E_STATE);
	assert_non_null(strstr(err.text, "server 1 has partition 0: moved away 5 times, and given back; wait for the end of"));
	assert_int_equal(x.times, 0);
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(partitions_move_while_they_are_pushed_into),
	    cmocka_unit_test(a_role_moves_between_replicas),
	    cmocka_unit_test(a_drained_server_has_nothing),
	    cmocka_unit_test(an_added_server_takes_its_share),
	    cmocka_unit_test(the_ledger_moves),
	    cmocka_unit_test(moves_outlive_their_source),
	    cmocka_unit_test(moves_outlive_their_target),
	    cmocka_unit_test(moves_outlive_a_silent_coordinator),
	    cmocka_unit_test(moved_partitions_are_on_disk),
	    cmocka_unit_test(moves_of_the_ledger_outlive_servers),
	    cmocka_unit_test(the_moved_ledger_is_on_disk),
	    cmocka_unit_test(the_first_server_is_not_missed),
	    cmocka_unit_test(a_server_that_is_gone_is_replaced),
	    cmocka_unit_test(an_absent_coordinator_is_told_of_once),
	    cmocka_unit_test(a_drain_goes_on_with_what_comes_back),
	    cmocka_unit_test(a_drain_that_is_always_undone_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
