/* A replica whose log may lack entries, after a restart or a fault: it leaves, begins anew, or is
 * lost. */
#include "tests/cmocka_check.h"

#include "tests/unit/server/replica/replica_steps.h"

static void a_member_is_told_to_begin_anew(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	f.out.count = 0;
	/* Its log is not compared yet. */
	assert_int_equal(replica_rebuild(f.r, 2, &f.out), WEIR_E_STATE);
	acknowledge(&f, 2, 9, 1);
	f.out.count = 0;
	assert_int_equal(replica_rebuild(f.r, 3, &f.out), WEIR_E_STATE);
	assert_int_equal(replica_rebuild(f.r, 2, &f.out), WEIR_OK);
	const struct replica_message *m = sent(&f, REPLICA_REBUILD, 2);
	assert_true(m->epoch == 1 && m->incarnation == 9);
	replica_destroy(f.r);
}

static void a_wrong_primary_leaves_and_begins_anew(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	f.out.count = 0;
	assert_int_equal(replica_rebuild(f.r, SELF, &f.out), WEIR_OK);
	assert_non_null(find(&f, REPLICA_DO_STEP_DOWN));
	assert_null(find(&f, REPLICA_DO_RESET)); /* not while it may be the last one with the entries */
	assert_non_null(find(&f, REPLICA_DO_READ));
	read_record(&f, record_of(3, 1, SELF, 1, 1 << 1 | 1 << 2));
	const struct replica_record n = find(&f, REPLICA_DO_CHANGE)->record;
	assert_true(n.primary == MEMBER_NONE && n.isr.count == 1 && n.isr.ids[0] == 2);
	change(&f);
	assert_non_null(find(&f, REPLICA_DO_RESET));
	assert_false(replica_is_whole(f.r));
	const struct replica_record other = record_of(5, 2, 2, 1, 1 << 2);
	replica_learn(f.r, &other, &f.out);
	tick(&f);
	assert_int_equal(sent(&f, REPLICA_JOIN, 2)->incarnation, options.incarnation + 1);
	replica_destroy(f.r);
}

static void a_primary_alone_in_sync_stays(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	f.out.count = 0;
	assert_int_equal(replica_rebuild(f.r, SELF, &f.out), WEIR_OK);
	read_record(&f, record_of(3, 1, SELF, 1, 1 << 1)); /* the other one has left */
	assert_null(find(&f, REPLICA_DO_LOST));
	assert_true(replica_is_whole(f.r));
	tick(&f);
	assert_non_null(find(&f, REPLICA_DO_READ));
	read_record(&f, record_of(3, 1, SELF, 1, 1 << 1));
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.primary, SELF);
	replica_destroy(f.r);
}

static void a_primary_that_lost_entries_leaves(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	f.out.count = 0;
	replica_distrust(f.r, &f.out);
	assert_non_null(find(&f, REPLICA_DO_STEP_DOWN));
	assert_false(replica_is_whole(f.r));
	read_record(&f, record_of(3, 1, SELF, 1, 1 << 1 | 1 << 2));
	const struct replica_record n = find(&f, REPLICA_DO_CHANGE)->record;
	assert_true(n.primary == MEMBER_NONE && n.isr.count == 1 && n.isr.ids[0] == 2);
	change(&f);
	assert_non_null(find(&f, REPLICA_DO_RESET));
	replica_destroy(f.r);
}

static void the_last_member_that_lost_entries_is_lost(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	f.out.count = 0;
	replica_distrust(f.r, &f.out);
	read_record(&f, record_of(3, 1, SELF, 1, 1 << 1)); /* the other one has left */
	assert_non_null(find(&f, REPLICA_DO_LOST));
	replica_destroy(f.r);
}

/* --- After a restart that may have lost the log's end */

static void a_replica_that_is_not_whole_leaves_before_it_answers(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(4);
	struct epochs primary = {0};
	epochs_begin(&primary, 1, 1);
	found.whole = false;
	found.promised = 1;
	start(&f, &found);
	receive(&f, (struct replica_message){
	                .kind = REPLICA_ESTABLISH, .from = 2, .epoch = 1, .incarnation = 3, .commit = 4, .epochs = &primary});
	assert_null(sent(&f, REPLICA_ACK, 2));
	assert_non_null(find(&f, REPLICA_DO_READ));
	read_record(&f, record_of(9, 1, SELF, 1, 1 << 1 | 1 << 2));
	const struct replica_action *a = find(&f, REPLICA_DO_CHANGE);
	assert_int_equal(a->record.primary, MEMBER_NONE);
	assert_int_equal(a->record.epoch, 1);
	assert_false(member_set_has(&a->record.isr, SELF));
	replica_destroy(f.r);
}

/* The folder may be lost or late. The replica cannot tell which. */
static void an_empty_log_is_whole_only_before_the_first_primary(void **state)
{
	(void)state;
	struct fixture f;
	start(&f, &(struct replica_found){0});
	tick(&f);
	read_record(&f, record_of(1, 0, 2, 1, 1 << SELF | 1 << 2));
	assert_true(replica_is_whole(f.r));
	assert_null(find(&f, REPLICA_DO_CHANGE));
	replica_destroy(f.r);
	start(&f, &(struct replica_found){0});
	tick(&f);
	read_record(&f, record_of(4, 1, SELF, 1, 1 << SELF | 1 << 2));
	const struct replica_action *a = find(&f, REPLICA_DO_CHANGE);
	assert_non_null(a);
	assert_false(member_set_has(&a->record.isr, SELF));
	assert_int_equal(a->record.primary, MEMBER_NONE);
	replica_destroy(f.r);
}

static void the_last_member_in_sync_that_is_not_whole_is_a_loss(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(4);
	const struct replica_record alone = record_of(9, 1, SELF, 1, 1 << 1);
	found.whole = false;
	start(&f, &found);
	tick(&f);
	read_record(&f, alone);
	/* Its former process may have asked to add another member. */
	assert_null(find(&f, REPLICA_DO_LOST));
	assert_memory_equal(&find(&f, REPLICA_DO_CHANGE)->record, &alone, sizeof alone);
	change(&f);
	read_record(&f, record_of(10, 1, SELF, 1, 1 << 1));
	assert_non_null(find(&f, REPLICA_DO_LOST));
	assert_null(find(&f, REPLICA_DO_CHANGE));
	tick(&f);
	assert_int_equal(f.out.count, 0);
	replica_destroy(f.r);
}

static void a_member_that_joined_meanwhile_has_all_entries(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(4);
	const struct replica_record both = record_of(10, 1, SELF, 1, 1 << 1 | 1 << 2);
	found.whole = false;
	start(&f, &found);
	tick(&f);
	read_record(&f, record_of(9, 1, SELF, 1, 1 << 1));
	f.out.count = 0;
	replica_changed(f.r, &both, &f.out); /* on request of the former process */
	read_record(&f, both);
	assert_null(find(&f, REPLICA_DO_LOST));
	const struct replica_record *next = &find(&f, REPLICA_DO_CHANGE)->record;
	assert_int_equal(next->primary, MEMBER_NONE);
	assert_int_equal(next->isr.count, 1);
	assert_int_equal(next->isr.ids[0], 2);
	replica_destroy(f.r);
}

static void a_replica_alone_goes_on_with_its_log(void **state)
{
	(void)state;
	struct replica_options alone = options;
	struct replica_found found = found_log(4);
	struct fixture f = {0};
	alone.alone = true;
	found.whole = false;
	f.r = replica_create(&alone, &found);
	assert_non_null(f.r);
	tick(&f);
	read_record(&f, record_of(9, 1, SELF, 1, 1 << 1));
	/* Promises of epoch 1 may be lost. */
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.epoch, 2);
	change(&f);
	f.out.count = 0;
	replica_promised(f.r, 2, &f.out);
	assert_int_equal(find(&f, REPLICA_DO_BEGIN)->epoch, 2);
	f.out.count = 0;
	replica_stored(f.r, 2, 5, &f.out);
	assert_int_equal(find(&f, REPLICA_DO_COMMIT)->last, 5);
	assert_true(replica_serves(f.r));
	replica_destroy(f.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_member_is_told_to_begin_anew),
	    cmocka_unit_test(a_wrong_primary_leaves_and_begins_anew),
	    cmocka_unit_test(a_primary_alone_in_sync_stays),
	    cmocka_unit_test(a_primary_that_lost_entries_leaves),
	    cmocka_unit_test(the_last_member_that_lost_entries_is_lost),
	    cmocka_unit_test(a_replica_that_is_not_whole_leaves_before_it_answers),
	    cmocka_unit_test(an_empty_log_is_whole_only_before_the_first_primary),
	    cmocka_unit_test(the_last_member_in_sync_that_is_not_whole_is_a_loss),
	    cmocka_unit_test(a_member_that_joined_meanwhile_has_all_entries),
	    cmocka_unit_test(a_replica_alone_goes_on_with_its_log),
	};
	return cmocka_run_group_tests_name("replica_whole", tests, NULL, NULL);
}
