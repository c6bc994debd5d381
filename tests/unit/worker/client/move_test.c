/* Partitions and the ledger move between servers while clients push integers. Nothing is lost or
 * counted twice, and a move is only a pause. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ledger/ledger_log.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/worker/client/move_fixture.h"

/* Partition i's layout; the ledger follows the partitions. */
static const struct layout_partition *look_at(struct world *w, uint32_t i)
{
	return layout_get(look(w), i < PARTITIONS ? i : LAYOUT_LEDGER);
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
		const int64_t from_ns = clock_ns(clock_system());
		move(w, i % PARTITIONS, to);
		whole[i] = clock_ns(clock_system()) - from_ns;
		await_pushes(w, 3);
		pauses[i] = slowest(&w->pusher, from_ns, clock_ns(clock_system()));
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
	    cmocka_unit_test(the_first_server_is_not_missed),
	    cmocka_unit_test(a_server_that_is_gone_is_replaced),
	    cmocka_unit_test(a_drain_goes_on_with_what_comes_back),
	    cmocka_unit_test(a_drain_that_is_always_undone_says_so),
	};
	return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
