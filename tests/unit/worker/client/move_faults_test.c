/* Moves during which a server dies, or the coordinator is silent. */
#include "proto/coord/coord_memory.h"
#include "server/ledger/ledger_log.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/unit/worker/client/move_fixture.h"

/* --- Deaths during moves */

enum { ROUNDS = 4, STEP_MS = 100 }; /* each round kills a little later */

enum { SILENT_MS = 1500 }; /* longer than servers wait for the coordinator's answer */

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

/* Meanwhile requests of servers reach their deadlines. */
static bool time_has_come(struct coord_memory *m, int64_t ns)
{
	coord_memory_run(m);
	return clock_ns(clock_system()) >= ns;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(moves_outlive_their_source),
	    cmocka_unit_test(moves_outlive_their_target),
	    cmocka_unit_test(moves_outlive_a_silent_coordinator),
	    cmocka_unit_test(moved_partitions_are_on_disk),
	    cmocka_unit_test(moves_of_the_ledger_outlive_servers),
	    cmocka_unit_test(the_moved_ledger_is_on_disk),
	    cmocka_unit_test(an_absent_coordinator_is_told_of_once),
	};
	return cmocka_run_group_tests_name("move_faults", tests, NULL, NULL);
}
