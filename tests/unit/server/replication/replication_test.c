/* The driver of replicas, with coord_records and the vote store. Members elect a primary, commit,
 * and go on when one dies. A coordinator's answer that is lost, late or stale never makes two
 * primaries. A full disk only delays. The explorer (tests/sim/replica) tests the protocol
 * itself. */
#include "tests/cmocka_check.h"

#include "tests/unit/server/replication/replication_world.h"

#define FAULT_SEEDS 200u

static void push(struct world *w, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_true(member_push(world_primary(w)));
}

static struct world *three_that_serve(uint16_t min_isr)
{
	struct world *w = world_create(3, min_isr, 1);
	start_all(w);
	world_until(w, one_serves, "a primary");
	return w;
}

/* --- Several members */

static void three_members_reach_a_primary_and_commit(void **state)
{
	(void)state;
	struct world *w = three_that_serve(2);
	push(w, 100);
	assert_int_equal(w->acknowledged, 0); /* the others do not have the entries yet */
	world_until(w, all_are_equal, "equal logs");
	assert_int_equal(w->acknowledged, 100);
	assert_int_equal(w->committed, 101); /* and the epoch's first entry */
	assert_int_equal(w->begun_count, 1);
	world_destroy(w);
}

static void the_log_goes_on_when_the_primary_dies(void **state)
{
	(void)state;
	struct world *w = three_that_serve(1);
	push(w, 50);
	world_until(w, all_are_equal, "equal logs");
	for (uint32_t round = 0; round < 6; round++) {
		struct member *p = world_primary(w);
		push(w, 20); /* some may be in progress */
		world_run(w, round);
		member_crash(w, p->id, round % 2);
		world_until(w, one_serves, "another primary");
		assert_ptr_not_equal(world_primary(w), p);
		push(w, 10);
		member_start(w, p->id);
		world_until(w, all_are_in_sync, "all in sync");
	}
	world_until(w, all_are_equal, "equal logs");
	assert_true(w->acknowledged >= 50 + 6 * 10);
	assert_int_equal(w->begun_count, 7);
	assert_int_equal(w->lost, 0);
	world_destroy(w);
}

static bool another_serves(struct world *w)
{
	return w->begun_count == 2 && one_serves(w);
}

static void a_primary_that_is_cut_off_commits_nothing(void **state)
{
	(void)state;
	struct world *w = three_that_serve(2);
	struct member *p = world_primary(w);
	const uint64_t before = w->acknowledged;
	for (uint16_t i = 0; i < 3; i++)
		w->cut[p->id][i] = w->cut[i][p->id] = true;
	coord_memory_cut(p->coord, true);
	for (uint32_t i = 0; i < 10; i++)
		assert_true(member_push(p));
	world_until(w, another_serves, "another primary");
	assert_int_equal(w->acknowledged, before);
	assert_true(p->serves); /* it does not know yet */
	push(w, 10);
	world_run(w, 2000);
	assert_int_equal(w->acknowledged, before + 10);
	heal(w);
	world_until(w, all_are_equal, "equal logs");
	assert_false(p->serves);
	world_destroy(w);
}

static bool all_follow_epoch_two(struct world *w)
{
	for (uint16_t i = 0; i < 3; i++)
		if (w->members[i].up && replica_epoch(replication_replica(w->members[i].x)) != 2)
			return false;
	return true;
}

/* The answer to the change that elects a primary is lost. The member finds out by reading. */
static void a_change_whose_answer_is_lost_counts_once(void **state)
{
	(void)state;
	struct world *w = three_that_serve(1);
	struct member *p = world_primary(w);
	member_crash(w, p->id, false);
	for (uint16_t i = 0; i < 3; i++)
		if (i != p->id) {
			coord_memory_delay(w->members[i].coord, 999); /* reads work */
			coord_memory_freeze(w->members[i].coord, true);
		}
	world_run(w, 1000); /* both have read */
	for (uint16_t i = 0; i < 3; i++)
		if (i != p->id)
			coord_memory_delay(w->members[i].coord, 5000);
	world_run(w, 3000); /* both have proposed themselves and got no answer */
	assert_int_equal(w->begun_count, 1);
	for (uint16_t i = 0; i < 3; i++)
		if (i != p->id)
			coord_memory_delay(w->members[i].coord, 0);
	world_until(w, all_follow_epoch_two, "the second epoch");
	assert_int_equal(w->begun_count, 2);
	world_until(w, one_serves, "a primary");
	push(w, 1);
	world_until(w, all_are_equal, "equal logs");
	world_destroy(w);
}

/* --- One member */

static void a_single_copy_begins_an_epoch_at_every_start(void **state)
{
	(void)state;
	struct world *w = world_create(1, 1, 1);
	for (uint64_t epoch = 1; epoch < 6; epoch++) {
		start_all(w);
		world_until(w, one_serves, "a primary");
		assert_int_equal(w->members[0].epoch, epoch);
		push(w, 3);
		assert_int_equal(w->acknowledged, 3 * epoch); /* at once */
		member_crash(w, 0, epoch % 2);
	}
	world_destroy(w);
}

/* The coordinator forgets everything, as one in this process does. */
static void a_record_that_is_new_is_no_older_than_what_was_promised(void **state)
{
	(void)state;
	struct world *w = world_create(1, 1, 1);
	for (uint64_t epoch = 1; epoch < 4; epoch++) {
		start_all(w);
		world_until(w, one_serves, "a primary");
		assert_int_equal(w->members[0].epoch, epoch);
		member_crash(w, 0, false);
		coord_memory_destroy(w->coordinator);
		w->coordinator = coord_memory_create(&w->clock.base);
	}
	world_destroy(w);
}

static void an_answer_may_bring_the_next_record(void **state)
{
	(void)state;
	struct world *w = world_create(1, 1, 1);
	start_all(w);
	world_until(w, one_serves, "a primary");
	w->members[0].chain = 1000;
	push(w, 1);
	assert_int_equal(w->acknowledged, 1001);
	assert_int_equal(w->members[0].committed, w->members[0].last);
	world_destroy(w);
}

/* --- Faults of the disk */

static void a_full_disk_is_waited_for(void **state)
{
	(void)state;
	struct world *w = three_that_serve(1);
	world_until(w, all_are_equal, "equal logs");
	struct member *p = world_primary(w), *q = &w->members[(p->id + 1) % 3];
	q->full = true;
	push(w, 20);
	world_run(w, 300);
	assert_true(q->refusals > 0);
	assert_int_equal(w->acknowledged, 0);
	q->full = false;
	world_until(w, all_are_equal, "equal logs");
	assert_int_equal(w->acknowledged, 20);
	world_destroy(w);
}

/* Otherwise another crash would leave a member in sync that does not know that it is whole. */
static void a_whole_replica_gets_in_sync_once_its_vote_is_on_disk(void **state)
{
	(void)state;
	struct world *w = three_that_serve(1);
	struct member *m = &w->members[(world_primary(w)->id + 1) % 3];
	push(w, 10);
	world_until(w, all_are_in_sync, "all in sync");
	member_crash(w, m->id, true);
	world_run(w, 2000);
	member_start(w, m->id);
	faulty_disk_full_at(m->disk, faulty_disk_steps(m->disk) + 1);
	world_run(w, 3000);
	assert_false(all_are_in_sync(w));
	faulty_disk_make_room(m->disk);
	world_until(w, all_are_in_sync, "all in sync");
	member_crash(w, m->id, false);
	member_start(w, m->id);
	assert_true(vote_store_found(m->votes, PARTITION).whole);
	world_destroy(w);
}

/* The former primary has entries that only it has. On a full disk it can neither truncate them nor
 * promise, so it takes part in nothing until there is space. */
static void the_end_of_a_log_is_cut_off_once_there_is_space(void **state)
{
	(void)state;
	struct world *w = three_that_serve(1);
	world_until(w, all_are_equal, "equal logs");
	struct member *p = world_primary(w);
	for (uint16_t i = 0; i < 3; i++)
		w->cut[p->id][i] = w->cut[i][p->id] = true;
	coord_memory_cut(p->coord, true);
	push(w, 5);
	world_until(w, another_serves, "another primary");
	push(w, 5);
	p->full = true;
	faulty_disk_full_at(p->disk, faulty_disk_steps(p->disk) + 1);
	memset(w->cut, 0, sizeof w->cut);
	coord_memory_cut(p->coord, false);
	world_run(w, 2000);
	assert_int_equal(p->refusals, 0); /* it has not promised yet */
	faulty_disk_make_room(p->disk);
	world_run(w, 3000);
	assert_true(p->refusals > 1);
	assert_int_equal(p->last, 6);
	assert_int_equal(w->acknowledged, 5);
	p->full = false;
	world_until(w, all_are_equal, "equal logs");
	assert_int_equal(p->last, 7);
	world_destroy(w);
}

/* --- All faults */

static void a_fault(struct world *w)
{
	struct member *m = &w->members[prng_below(&w->random, 3)];
	const bool on = prng_below(&w->random, 2);
	switch (prng_below(&w->random, 10)) {
	case 0:
		if (m->up)
			member_crash(w, m->id, prng_below(&w->random, 3) == 0);
		break;
	case 1:
		if (!m->up)
			member_start(w, m->id);
		break;
	case 2:
		w->cut[m->id][prng_below(&w->random, 3)] = on;
		break;
	case 3:
		if (m->up)
			coord_memory_cut(m->coord, on);
		break;
	case 4:
		if (m->up)
			/* Some delays exceed the timeout. */
			coord_memory_delay(m->coord, (uint32_t)prng_below(&w->random, 1600));
		break;
	case 5:
		if (m->up)
			coord_memory_freeze(m->coord, on);
		break;
	case 6:
		if (m->up)
			coord_memory_expire(m->coord);
		break;
	case 7:
		coord_memory_down(w->coordinator, on);
		break;
	case 8:
		m->full = on;
		if (on)
			faulty_disk_full_at(m->disk, faulty_disk_steps(m->disk) + 1);
		else
			faulty_disk_make_room(m->disk);
		break;
	default:
		w->loss = on ? 0.2 : 0;
		w->delay_ms = on ? 150 : 2;
	}
}

static void push_somewhere(struct world *w)
{
	for (uint16_t i = 0; i < 3; i++)
		for (uint64_t n = prng_below(&w->random, 5); n > 0; n--)
			(void)member_push(&w->members[i]); /* every member that takes itself for primary */
}

static bool one_serves_or_it_is_lost(struct world *w)
{
	return w->lost || one_serves(w);
}

static bool all_are_equal_or_it_is_lost(struct world *w)
{
	return w->lost || all_are_equal(w);
}

struct outcome {
	uint32_t begun, lost; /* epochs; runs that lost the last full log with its machine */
	uint64_t acknowledged;
};

static void run_faults(uint64_t seed, struct outcome *total)
{
	struct world *w = world_create(3, 1 + seed % 2, seed);
	start_all(w);
	world_until(w, one_serves, "a primary");
	for (uint32_t round = 0; round < 300 && !w->lost; round++) {
		if (prng_below(&w->random, 3) == 0)
			a_fault(w);
		push_somewhere(w);
		world_run(w, 5 * (1 + (int64_t)prng_below(&w->random, 40)));
	}
	heal(w);
	do
		world_until(w, one_serves_or_it_is_lost, "a primary");
	while (!w->lost && !member_push(world_primary(w)));
	world_until(w, all_are_equal_or_it_is_lost, "equal logs");
	total->begun += w->begun_count;
	total->lost += w->lost > 0;
	total->acknowledged += w->acknowledged;
	world_destroy(w);
}

static void no_fault_makes_two_histories(void **state)
{
	(void)state;
	struct outcome total = {0};
	for (uint64_t seed = 1; seed <= FAULT_SEEDS; seed++)
		run_faults(seed, &total);
	assert_in_range(total.begun, 2 * FAULT_SEEDS, UINT32_MAX);
	assert_in_range(total.lost, 0, FAULT_SEEDS / 2);
	assert_in_range(total.acknowledged, 100 * FAULT_SEEDS, UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(three_members_reach_a_primary_and_commit),
	                                   cmocka_unit_test(the_log_goes_on_when_the_primary_dies),
	                                   cmocka_unit_test(a_primary_that_is_cut_off_commits_nothing),
	                                   cmocka_unit_test(a_change_whose_answer_is_lost_counts_once),
	                                   cmocka_unit_test(a_single_copy_begins_an_epoch_at_every_start),
	                                   cmocka_unit_test(a_record_that_is_new_is_no_older_than_what_was_promised),
	                                   cmocka_unit_test(an_answer_may_bring_the_next_record),
	                                   cmocka_unit_test(a_full_disk_is_waited_for),
	                                   cmocka_unit_test(a_whole_replica_gets_in_sync_once_its_vote_is_on_disk),
	                                   cmocka_unit_test(the_end_of_a_log_is_cut_off_once_there_is_space),
	                                   cmocka_unit_test(no_fault_makes_two_histories)};
	return cmocka_run_group_tests_name("replication", tests, NULL, NULL);
}
