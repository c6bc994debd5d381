/* A follower, step by step: appends, cuts of its log, offers of snapshots, and refusals. */
#include "tests/cmocka_check.h"

#include "tests/unit/server/replica/replica_steps.h"

/* --- A follower of server 2 in epoch 4 */

static void follow(struct fixture *f, const struct replica_found *found)
{
	start(f, found);
	tick(f);
	read_record(f, record_of(9, 4, 2, 1, 1 << 1 | 1 << 2));
	struct epochs primary = {0};
	epochs_begin(&primary, 1, 1);
	epochs_begin(&primary, 4, 6);
	const struct replica_message establish = {
	    .kind = REPLICA_ESTABLISH, .from = 2, .epoch = 4, .incarnation = 3, .commit = 5, .epochs = &primary};
	receive(f, establish);
	assert_int_equal(find(f, REPLICA_DO_PROMISE)->epoch, 4);
	assert_null(sent(f, REPLICA_ACK, 2)); /* not before the promise is on disk */
	f->out.count = 0;
	replica_promised(f->r, 4, &f->out);
	assert_int_equal(sent(f, REPLICA_JOIN, 2)->incarnation, 3);
	receive(f, establish);
}

static void a_tail_that_differs_is_cut_off(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(8);
	follow(&f, &found);
	assert_int_equal(find(&f, REPLICA_DO_TRUNCATE)->last, 5);
	assert_int_equal(sent(&f, REPLICA_ACK, 2)->last, 5);
	assert_int_equal(find(&f, REPLICA_DO_COMMIT)->last, 5);
	replica_destroy(f.r);
}

static void appends_are_stored_in_order_and_acknowledged(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(5);
	follow(&f, &found);
	struct replica_message append = {
	    .kind = REPLICA_APPEND, .from = 2, .epoch = 4, .incarnation = 3, .first = 8, .last = 9, .commit = 7};
	receive(&f, append);
	assert_null(find(&f, REPLICA_DO_STORE));
	assert_true(sent(&f, REPLICA_ACK, 2)->gap);
	append.first = 5;
	receive(&f, append);
	assert_int_equal(find(&f, REPLICA_DO_STORE)->first, 6);
	f.out.count = 0;
	replica_stored(f.r, 4, 9, &f.out);
	assert_int_equal(find(&f, REPLICA_DO_COMMIT)->last, 7);
	assert_int_equal(sent(&f, REPLICA_ACK, 2)->last, 9);
	replica_destroy(f.r);
}

static void a_lower_epoch_is_refused(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(5);
	follow(&f, &found);
	receive(&f, (struct replica_message){
	                .kind = REPLICA_APPEND, .from = 0, .epoch = 3, .incarnation = 3, .first = 6, .last = 6, .commit = 6});
	assert_int_equal(sent(&f, REPLICA_REFUSE, 0)->epoch, 4);
	assert_null(find(&f, REPLICA_DO_STORE));
	replica_destroy(f.r);
}

static void only_a_useful_offer_is_taken(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(5);
	const struct replica_message good = {
	    .kind = REPLICA_OFFER, .from = 2, .epoch = 4, .incarnation = 3, .session = 77, .first = 7, .last = 20};
	struct replica_message offer = good;
	follow(&f, &found);
	receive(&f, offer);
	const struct replica_action *a = find(&f, REPLICA_DO_FETCH);
	assert_true(a->member == 2 && a->message.session == 77 && a->message.epoch == 4);
	offer.last = 5; /* the log has these entries */
	receive(&f, offer);
	assert_null(find(&f, REPLICA_DO_FETCH));
	offer = good;
	offer.epoch = 3;
	receive(&f, offer);
	assert_null(find(&f, REPLICA_DO_FETCH));
	offer = good;
	offer.first = 6; /* the snapshot's log starts behind ours */
	receive(&f, offer);
	assert_null(find(&f, REPLICA_DO_FETCH));
	offer = good;
	offer.incarnation = 2; /* for the former incarnation */
	receive(&f, offer);
	assert_null(find(&f, REPLICA_DO_FETCH));
	replica_destroy(f.r);
}

static void a_wrong_follower_leaves_and_begins_anew(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(5);
	struct replica_message rebuild = {.kind = REPLICA_REBUILD, .from = 2, .epoch = 4, .incarnation = 2};
	follow(&f, &found);
	receive(&f, rebuild); /* for the former incarnation */
	assert_null(find(&f, REPLICA_DO_READ));
	rebuild.incarnation = options.incarnation;
	receive(&f, rebuild);
	assert_null(find(&f, REPLICA_DO_RESET));
	assert_non_null(find(&f, REPLICA_DO_READ));
	receive(&f, (struct replica_message){
	                .kind = REPLICA_APPEND, .from = 2, .epoch = 4, .incarnation = 3, .first = 6, .last = 6, .commit = 5});
	/* No acknowledgement, so it counts for no commit. */
	assert_null(sent(&f, REPLICA_ACK, 2));
	read_record(&f, record_of(9, 4, 2, 1, 1 << 1 | 1 << 2));
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.isr.count, 1);
	change(&f);
	assert_non_null(find(&f, REPLICA_DO_RESET));
	tick(&f);
	assert_int_equal(sent(&f, REPLICA_JOIN, 2)->incarnation, options.incarnation + 1);
	replica_destroy(f.r);
}

static void a_replica_that_begins_anew_is_whole_once_it_caught_up(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(5);
	struct epochs epochs = {0};
	follow(&f, &found);
	receive(&f, (struct replica_message){
	                .kind = REPLICA_APPEND, .from = 2, .epoch = 4, .incarnation = 3, .first = 21, .last = 20, .commit = 20});
	assert_true(replica_is_whole(f.r));
	f.out.count = 0;
	replica_start_over(f.r, &f.out);
	assert_non_null(find(&f, REPLICA_DO_RESET));
	assert_false(replica_is_whole(f.r));
	assert_true(replica_takes_snapshot(f.r, 4, 19));
	epochs_begin(&epochs, 1, 1);
	epochs_begin(&epochs, 4, 6);
	f.out.count = 0;
	replica_installed(f.r, 4, 18, 19, 18, &epochs, &f.out);
	assert_int_equal(replica_commit(f.r), 19); /* as the primary had reported */
	assert_int_equal(sent(&f, REPLICA_ACK, 2)->last, 19);
	assert_false(replica_is_whole(f.r)); /* entry 20 may have been acknowledged */
	receive(&f, (struct replica_message){
	                .kind = REPLICA_APPEND, .from = 2, .epoch = 4, .incarnation = 3, .first = 20, .last = 20, .commit = 20});
	f.out.count = 0;
	replica_stored(f.r, 4, 20, &f.out);
	assert_true(replica_is_whole(f.r));
	replica_destroy(f.r);
}

/* Its primary learned of the commit late, or forgot it in a restart. */
static void a_replica_without_the_entries_of_former_epochs_is_not_whole(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(4);
	struct epochs primary = {0};
	epochs_begin(&primary, 1, 1);
	epochs_begin(&primary, 4, 6);
	found.whole = false;
	found.promised = 4;
	start(&f, &found);
	tick(&f);
	read_record(&f, record_of(9, 4, 2, 1, 1 << 2));
	receive(&f, (struct replica_message){
	                .kind = REPLICA_ESTABLISH, .from = 2, .epoch = 4, .incarnation = 3, .commit = 3, .epochs = &primary});
	assert_int_equal(sent(&f, REPLICA_ACK, 2)->last, 4);
	assert_int_equal(replica_commit(f.r), 3);
	assert_false(replica_is_whole(f.r)); /* entry 5 may have been acknowledged */
	const struct replica_record late = record_of(10, 4, 2, 1, 1 << SELF | 1 << 2);
	f.out.count = 0;
	replica_learn(f.r, &late, &f.out); /* the primary's request for the former incarnation */
	read_record(&f, late);
	assert_false(member_set_has(&find(&f, REPLICA_DO_CHANGE)->record.isr, SELF));
	replica_destroy(f.r);
}

/* A log that is to be discarded is emptied in the background. It may still report that entries are
 * durable. */
static void a_log_to_be_discarded_reports_nothing_durable(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(5);
	follow(&f, &found);
	replica_start_over(f.r, &f.out);
	f.out.count = 0;
	replica_durable(f.r, 5, &f.out);
	assert_null(sent(&f, REPLICA_ACK, 2));
	replica_destroy(f.r);
}

static void only_ticks_that_ran_depose_a_primary(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(5);
	follow(&f, &found);
	for (uint32_t i = 0; i < 100; i++) { /* any time may pass between two ticks */
		heartbeat_heard(&f.heartbeat, 2);
		for (uint32_t k = 1; k < options.silent_ticks; k++) {
			tick(&f);
			assert_null(find(&f, REPLICA_DO_READ));
		}
	}
	tick(&f);
	assert_non_null(find(&f, REPLICA_DO_READ)); /* it reads the record again first */
	read_record(&f, record_of(9, 4, 2, 1, 1 << 1 | 1 << 2));
	const struct replica_action *a = find(&f, REPLICA_DO_CHANGE);
	assert_int_equal(a->record.primary, SELF);
	assert_int_equal(a->record.epoch, 5);
	assert_false(member_set_has(&a->record.isr, 2));
	replica_destroy(f.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_wrong_follower_leaves_and_begins_anew),
	    cmocka_unit_test(only_a_useful_offer_is_taken),
	    cmocka_unit_test(a_replica_that_begins_anew_is_whole_once_it_caught_up),
	    cmocka_unit_test(a_replica_without_the_entries_of_former_epochs_is_not_whole),
	    cmocka_unit_test(a_tail_that_differs_is_cut_off),
	    cmocka_unit_test(appends_are_stored_in_order_and_acknowledged),
	    cmocka_unit_test(a_lower_epoch_is_refused),
	    cmocka_unit_test(a_log_to_be_discarded_reports_nothing_durable),
	    cmocka_unit_test(only_ticks_that_ran_depose_a_primary),
	};
	return cmocka_run_group_tests_name("replica_follow", tests, NULL, NULL);
}
