/* A primary, step by step: its commits, the members in sync, moves, snapshots. The explorer
 * (tests/sim/replica) tests the whole protocol. */
#include "tests/cmocka_check.h"

#include "tests/unit/server/replica/replica_steps.h"

/* A learner joins, and its heartbeat is heard. */
static void join(struct fixture *f, uint16_t from)
{
	receive(f, (struct replica_message){.kind = REPLICA_JOIN, .from = from, .incarnation = 1});
	heartbeat_heard(&f->heartbeat, from);
	tick(f);
}

/* --- A primary */

static void an_entry_is_committed_when_all_in_sync_have_it(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_batch b;
	become_primary(&f, 1);
	assert_null(find(&f, REPLICA_DO_COMMIT));
	assert_false(replica_batch(f.r, 2, &b)); /* the logs are not compared yet */
	acknowledge(&f, 2, 1, 0);
	assert_true(replica_batch(f.r, 2, &b));
	assert_int_equal(b.first, 1);
	assert_int_equal(b.last, 1);
	assert_false(replica_serves(f.r));
	acknowledge(&f, 2, 1, 1);
	assert_int_equal(find(&f, REPLICA_DO_COMMIT)->last, 1);
	assert_non_null(find(&f, REPLICA_DO_SERVE));
	assert_true(replica_serves(f.r));
	assert_int_equal(replica_stable(f.r), 1);
	replica_destroy(f.r);
}

/* With `ack: disk`, no other message may report that the entry is on disk. */
static void a_missing_report_of_durable_entries_is_asked_for_again(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	replica_durable(f.r, 1, &f.out);
	acknowledge(&f, 2, 1, 1);
	receive(&f, (struct replica_message){.kind = REPLICA_ACK, .from = 2, .epoch = 1, .incarnation = 1, .last = 1, .commit = 1});
	heartbeat_heard(&f.heartbeat, 2);
	for (uint32_t i = 0; i < options.retry_ticks; i++)
		tick(&f);
	assert_non_null(sent(&f, REPLICA_ESTABLISH, 2));
	assert_int_equal(replica_on_disks(f.r), 0);
	receive(&f, (struct replica_message){
	                .kind = REPLICA_ACK, .from = 2, .epoch = 1, .incarnation = 1, .last = 1, .commit = 1, .durable = 1});
	assert_int_equal(replica_on_disks(f.r), 1);
	for (uint32_t i = 0; i < 2 * options.retry_ticks; i++) {
		tick(&f);
		assert_null(sent(&f, REPLICA_ESTABLISH, 2));
	}
	replica_destroy(f.r);
}

static void acknowledgements_of_a_former_incarnation_do_not_count(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	receive(&f, (struct replica_message){.kind = REPLICA_JOIN, .from = 2, .incarnation = 7});
	assert_int_equal(sent(&f, REPLICA_ESTABLISH, 2)->incarnation, 7);
	acknowledge(&f, 2, 6, 1);
	assert_int_equal(replica_commit(f.r), 0);
	acknowledge(&f, 2, 7, 1);
	assert_int_equal(replica_commit(f.r), 1);
	replica_destroy(f.r);
}

static void a_silent_member_leaves_before_commits_go_on(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	for (uint32_t i = heartbeat_silent(&f.heartbeat, 2); i < options.silent_ticks; i++) {
		assert_null(find(&f, REPLICA_DO_CHANGE));
		tick(&f);
	}
	assert_non_null(find(&f, REPLICA_DO_READ)); /* it reads the record again first */
	read_record(&f, record_of(2, 1, SELF, 1, 1 << 1 | 1 << 2));
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.isr.count, 1);
	assert_int_equal(replica_commit(f.r), 0);
	change(&f);
	assert_int_equal(replica_commit(f.r), 1);
	assert_int_equal(replica_stable(f.r), 0); /* one replica has it, and not on disk */
	replica_durable(f.r, 1, &f.out);
	assert_int_equal(replica_stable(f.r), 1);
	replica_destroy(f.r);
}

/* A slow member answers and is heard. Commits should still not wait for its disk. */
static void a_slow_member_leaves_and_comes_back_once_it_is_fast(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	f.heartbeat.slow[2] = true;
	heartbeat_heard(&f.heartbeat, 2);
	tick(&f);
	assert_non_null(find(&f, REPLICA_DO_READ)); /* it reads the record again first */
	read_record(&f, record_of(2, 1, SELF, 1, 1 << 1 | 1 << 2));
	assert_false(member_set_has(&find(&f, REPLICA_DO_CHANGE)->record.isr, 2));
	change(&f);
	replica_stored(f.r, 1, 2, &f.out);
	assert_int_equal(replica_commit(f.r), 2); /* without the slow member */
	for (uint32_t i = 0; i < 3; i++) {
		join(&f, 2);
		acknowledge(&f, 2, 1, 2);
		assert_null(find(&f, REPLICA_DO_CHANGE));
	}
	f.heartbeat.slow[2] = false;
	heartbeat_heard(&f.heartbeat, 2);
	tick(&f);
	assert_true(member_set_has(&find(&f, REPLICA_DO_CHANGE)->record.isr, 2));
	replica_destroy(f.r);
}

static void a_slow_member_stays_where_min_isr_needs_it(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 2);
	acknowledge(&f, 2, 1, 1);
	f.heartbeat.slow[2] = f.heartbeat.slow[SELF] = true;
	for (uint32_t i = 0; i < options.stall_ticks / 2; i++) {
		heartbeat_heard(&f.heartbeat, 2);
		tick(&f);
		assert_null(find(&f, REPLICA_DO_CHANGE));
		assert_null(find(&f, REPLICA_DO_PAUSE));
	}
	replica_destroy(f.r);
}

/* The primary took over with less than min_isr in sync. Only a slow learner can make up for it. */
static void a_slow_learner_is_let_in_where_min_isr_needs_it(void **state)
{
	(void)state;
	struct fixture f;
	become_primary_of(&f, 2, 1 << 1);
	f.heartbeat.slow[2] = true;
	join(&f, 2);
	acknowledge(&f, 2, 1, 1);
	assert_true(member_set_has(&find(&f, REPLICA_DO_CHANGE)->record.isr, 2));
	change(&f);
	assert_int_equal(replica_commit(f.r), 1);
	assert_true(replica_serves(f.r));
	replica_destroy(f.r);
}

static void a_slow_primary_gives_way(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	/* It does not give way to another slow server. */
	f.heartbeat.slow[SELF] = f.heartbeat.slow[2] = true;
	heartbeat_heard(&f.heartbeat, 2);
	tick(&f);
	assert_null(find(&f, REPLICA_DO_PAUSE));
	replica_destroy(f.r);
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	f.heartbeat.slow[SELF] = true;
	heartbeat_heard(&f.heartbeat, 2);
	tick(&f);
	assert_non_null(find(&f, REPLICA_DO_PAUSE));
	const struct replica_action *change = find(&f, REPLICA_DO_CHANGE);
	assert_int_equal(change->record.primary, 2);
	assert_int_equal(change->record.epoch, 2);
	replica_destroy(f.r);
}

/* A primary that is cut off from all others may still reach the coordinator. */
static void a_primary_that_hears_nobody_proposes_nothing(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	for (uint32_t i = 0; i < 3 * options.stall_ticks; i++) {
		tick(&f);
		assert_null(find(&f, REPLICA_DO_CHANGE));
		if (!find(&f, REPLICA_DO_READ))
			continue;
		f.out.count = 0;
		replica_read(f.r, NULL, &f.out);
		assert_null(find(&f, REPLICA_DO_CHANGE));
	}
	replica_destroy(f.r);
}

static void the_primary_does_not_shrink_below_min_isr(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 2);
	for (uint32_t i = 0; i < 3 * options.stall_ticks; i++) {
		tick(&f);
		assert_null(find(&f, REPLICA_DO_CHANGE));
	}
	replica_destroy(f.r);
}

static void commits_wait_for_a_learner_before_it_is_proposed(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	join(&f, 3);
	acknowledge(&f, 3, 1, 0);
	assert_null(find(&f, REPLICA_DO_CHANGE)); /* close enough to count, not to be in sync */
	replica_stored(f.r, 1, 2, &f.out);
	acknowledge(&f, 2, 1, 2);
	assert_int_equal(replica_commit(f.r), 1);
	acknowledge(&f, 3, 1, 2);
	assert_int_equal(replica_commit(f.r), 2);
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.isr.count, 3);
	replica_destroy(f.r);
}

/* The member restarted, its log may be shorter, and its JOIN is late. Its earlier acknowledgements
 * do not count. */
static void a_member_that_left_is_compared_anew(void **state)
{
	(void)state;
	struct fixture f;
	const struct replica_record without = record_of(9, 1, SELF, 1, 1 << SELF);
	bool asked = false;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	f.out.count = 0;
	replica_learn(f.r, &without, &f.out);
	for (uint32_t i = 0; i < options.silent_ticks; i++) {
		heartbeat_heard(&f.heartbeat, 2);
		tick(&f);
		assert_null(find(&f, REPLICA_DO_CHANGE));
		asked |= sent(&f, REPLICA_ESTABLISH, 2) != NULL;
	}
	assert_true(asked);
	acknowledge(&f, 2, 2, 1);
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.isr.count, 2);
	replica_destroy(f.r);
}

static void a_learner_without_heartbeats_is_not_let_in(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	for (uint32_t i = 0; i < options.silent_ticks; i++) {
		heartbeat_heard(&f.heartbeat, 2);
		acknowledge(&f, 2, 1, 1);
		tick(&f);
	}
	for (uint32_t i = 0; i < 3; i++) {
		receive(&f, (struct replica_message){.kind = REPLICA_JOIN, .from = 3, .incarnation = 1});
		acknowledge(&f, 3, 1, 1);
		assert_null(find(&f, REPLICA_DO_CHANGE));
		heartbeat_heard(&f.heartbeat, 2);
		tick(&f);
		assert_null(find(&f, REPLICA_DO_CHANGE));
	}
	receive(&f, (struct replica_message){.kind = REPLICA_JOIN, .from = 3, .incarnation = 1});
	acknowledge(&f, 3, 1, 1);
	heartbeat_heard(&f.heartbeat, 3);
	tick(&f); /* the learner has no more news */
	assert_true(member_set_has(&find(&f, REPLICA_DO_CHANGE)->record.isr, 3));
	replica_destroy(f.r);
}

static void a_change_of_unknown_outcome_counts_every_member(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	join(&f, 3);
	acknowledge(&f, 3, 1, 1);
	assert_non_null(find(&f, REPLICA_DO_CHANGE));
	replica_changed(f.r, NULL, &f.out);
	for (uint32_t i = 0; i < 2 * options.silent_ticks; i++) {
		heartbeat_heard(&f.heartbeat, 2);
		tick(&f);
	}
	replica_stored(f.r, 1, 2, &f.out);
	acknowledge(&f, 2, 1, 2);
	assert_int_equal(replica_commit(f.r), 1); /* 3 is silent, and may be in sync already */
	replica_destroy(f.r);
}

static void a_silent_member_of_a_change_of_unknown_outcome_is_ruled_out(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	join(&f, 3);
	acknowledge(&f, 3, 1, 1);
	f.out.count = 0;
	replica_changed(f.r, NULL, &f.out);
	replica_stored(f.r, 1, 2, &f.out);
	acknowledge(&f, 2, 1, 2);
	/* The primary asks for the record, and 3 falls silent. */
	for (uint32_t i = 0; i < options.silent_ticks; i++) {
		heartbeat_heard(&f.heartbeat, 2);
		tick(&f);
	}
	/* The change failed, or is still in progress. */
	read_record(&f, record_of(2, 1, SELF, 1, 1 << 1 | 1 << 2));
	assert_int_equal(replica_commit(f.r), 1);
	const struct replica_record *same = &find(&f, REPLICA_DO_CHANGE)->record;
	assert_int_equal(same->revision, 2);
	assert_int_equal(same->isr.count, 2);
	assert_false(member_set_has(&same->isr, 3));
	change(&f);
	tick(&f);
	assert_int_equal(replica_commit(f.r), 2);
	replica_destroy(f.r);
}

static void a_move_waits_until_all_entries_are_committed(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	replica_stored(f.r, 1, 2, &f.out);
	f.out.count = 0;
	assert_int_equal(replica_move(f.r, 3, &f.out), WEIR_E_STATE);
	assert_int_equal(replica_move(f.r, 2, &f.out), WEIR_OK);
	assert_non_null(find(&f, REPLICA_DO_PAUSE));
	assert_null(find(&f, REPLICA_DO_CHANGE));
	assert_false(replica_serves(f.r));
	acknowledge(&f, 2, 1, 2);
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.primary, 2);
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.epoch, 2);
	change(&f);
	assert_non_null(find(&f, REPLICA_DO_STEP_DOWN));
	assert_false(replica_is_primary(f.r));
	replica_destroy(f.r);
}

/* Otherwise entries would never commit, and the move would never end. */
static void a_move_waits_for_the_member_that_completes_min_isr(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 2);
	acknowledge(&f, 2, 1, 1);
	struct replica_record n = record_of(3, 1, SELF, 3, 1 << 1 | 1 << 2); /* a third one has left */
	f.out.count = 0;
	replica_learn(f.r, &n, &f.out);
	replica_stored(f.r, 1, 2, &f.out);
	acknowledge(&f, 2, 1, 2);
	assert_int_equal(replica_commit(f.r), 1);
	assert_int_equal(replica_move(f.r, 2, &f.out), WEIR_OK);
	join(&f, 0);
	acknowledge(&f, 0, 1, 2);
	assert_non_null(find(&f, REPLICA_DO_CHANGE));
	n = find(&f, REPLICA_DO_CHANGE)->record;
	assert_int_equal(n.isr.count, 3);
	assert_int_equal(n.primary, SELF);
	change(&f);
	assert_int_equal(replica_commit(f.r), 2);
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.primary, 2);
	replica_destroy(f.r);
}

/* Member 0 joins as a learner. The log no longer has its next entry. */
static void teach(struct fixture *f)
{
	become_primary(f, 1);
	acknowledge(f, 2, 7, 1);
	for (uint64_t i = 2; i <= 3; i++) {
		f->out.count = 0;
		replica_stored(f->r, 1, i, &f->out);
		acknowledge(f, 2, 7, i);
	}
	replica_trimmed(f->r, 3);
	receive(f, (struct replica_message){.kind = REPLICA_JOIN, .from = 0, .incarnation = 5});
	acknowledge(f, 0, 5, 0);
}

/* However few entries the learner lacks. The primary remembers it while the snapshot is sent. */
static void commits_do_not_wait_for_a_member_that_needs_a_snapshot(void **state)
{
	(void)state;
	struct fixture f;
	teach(&f);
	assert_int_equal(find(&f, REPLICA_DO_SNAPSHOT)->member, 0);
	assert_int_equal(replica_incarnation_of(f.r, 0), 5);
	f.out.count = 0;
	replica_stored(f.r, 1, 4, &f.out);
	acknowledge(&f, 2, 7, 4);
	assert_int_equal(find(&f, REPLICA_DO_COMMIT)->last, 4);
	for (uint32_t i = 0; i < 3 * options.stall_ticks; i++) {
		heartbeat_heard(&f.heartbeat, 0);
		heartbeat_heard(&f.heartbeat, 2);
		tick(&f);
		assert_null(find(&f, REPLICA_DO_SNAPSHOT));
		assert_null(sent(&f, REPLICA_ESTABLISH, 0));
	}
	f.out.count = 0;
	replica_offer(f.r, 0, 77, 3, &f.out);
	const struct replica_message *offer = sent(&f, REPLICA_OFFER, 0);
	assert_true(offer->session == 77 && offer->first == 3 && offer->last == 3 && offer->epoch == 1 && offer->incarnation == 5);
	replica_destroy(f.r);
}

static void a_silent_member_is_not_heard(void **state)
{
	(void)state;
	struct fixture f;
	teach(&f);
	assert_true(replica_hears(f.r, 2));
	assert_false(replica_hears(f.r, 3)); /* unknown */
	for (uint32_t i = 0; i < options.silent_ticks; i++) {
		heartbeat_heard(&f.heartbeat, 0);
		tick(&f);
	}
	assert_false(replica_hears(f.r, 2)); /* still in sync */
	assert_true(replica_hears(f.r, 0));
	replica_destroy(f.r);
}

static void entries_behind_a_snapshot_are_shipped(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_batch b;
	teach(&f);
	assert_false(replica_batch(f.r, 0, &b));
	/* The learner with a snapshot in progress needs no entries. */
	assert_int_equal(replica_needs(f.r), 4);
	acknowledge(&f, 0, 5, 2);
	assert_true(replica_batch(f.r, 0, &b)); /* the snapshot's session may still be open */
	assert_int_equal(b.first, 3);
	assert_int_equal(replica_needs(f.r), 3);
	f.out.count = 0;
	replica_snapshot_ended(f.r, 0, &f.out);
	assert_true(replica_batch(f.r, 0, &b));
	replica_destroy(f.r);
}

static void a_useless_snapshot_is_begun_again(void **state)
{
	(void)state;
	struct fixture f;
	teach(&f);
	f.out.count = 0;
	replica_snapshot_ended(f.r, 0, &f.out);
	assert_null(find(&f, REPLICA_DO_SNAPSHOT));
	heartbeat_heard(&f.heartbeat, 0);
	heartbeat_heard(&f.heartbeat, 2);
	tick(&f);
	assert_int_equal(find(&f, REPLICA_DO_SNAPSHOT)->member, 0);
	receive(&f, (struct replica_message){.kind = REPLICA_JOIN, .from = 0, .incarnation = 6});
	acknowledge(&f, 0, 6, 0); /* the former snapshot was for another incarnation */
	assert_int_equal(find(&f, REPLICA_DO_SNAPSHOT)->member, 0);
	assert_int_equal(replica_incarnation_of(f.r, 0), 6);
	replica_destroy(f.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_entry_is_committed_when_all_in_sync_have_it),
	    cmocka_unit_test(a_missing_report_of_durable_entries_is_asked_for_again),
	    cmocka_unit_test(acknowledgements_of_a_former_incarnation_do_not_count),
	    cmocka_unit_test(a_silent_member_leaves_before_commits_go_on),
	    cmocka_unit_test(a_slow_member_leaves_and_comes_back_once_it_is_fast),
	    cmocka_unit_test(a_slow_member_stays_where_min_isr_needs_it),
	    cmocka_unit_test(a_slow_learner_is_let_in_where_min_isr_needs_it),
	    cmocka_unit_test(a_slow_primary_gives_way),
	    cmocka_unit_test(a_primary_that_hears_nobody_proposes_nothing),
	    cmocka_unit_test(the_primary_does_not_shrink_below_min_isr),
	    cmocka_unit_test(commits_wait_for_a_learner_before_it_is_proposed),
	    cmocka_unit_test(a_member_that_left_is_compared_anew),
	    cmocka_unit_test(a_learner_without_heartbeats_is_not_let_in),
	    cmocka_unit_test(a_change_of_unknown_outcome_counts_every_member),
	    cmocka_unit_test(a_silent_member_of_a_change_of_unknown_outcome_is_ruled_out),
	    cmocka_unit_test(a_move_waits_until_all_entries_are_committed),
	    cmocka_unit_test(a_move_waits_for_the_member_that_completes_min_isr),
	    cmocka_unit_test(commits_do_not_wait_for_a_member_that_needs_a_snapshot),
	    cmocka_unit_test(a_silent_member_is_not_heard),
	    cmocka_unit_test(entries_behind_a_snapshot_are_shipped),
	    cmocka_unit_test(a_useless_snapshot_is_begun_again),
	};
	return cmocka_run_group_tests_name("replica", tests, NULL, NULL);
}
