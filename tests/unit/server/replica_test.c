/* One replica, step by step: what it asks for, and what it refuses. That it all holds together is the explorer's (tests/sim/replica). */
#include "cmocka_check.h"

#include "replica.h"

#define SELF 1

struct fixture {
	struct replica *r;
	struct heartbeat heartbeat;
	struct replica_actions out;
};

static const struct replica_options options = {
    .self = SELF, .incarnation = 3, .silent_ticks = 5, .stall_ticks = 10, .retry_ticks = 2, .grow_lag = 4};

static struct replica_record record_of(uint64_t revision, uint64_t epoch, uint16_t primary, uint16_t min_isr, uint16_t members)
{
	struct replica_record n = {.revision = revision, .epoch = epoch, .primary = primary, .min_isr = min_isr};
	for (uint16_t i = 0; i < 16; i++)
		if (members >> i & 1)
			member_set_add(&n.isr, i);
	return n;
}

static void start(struct fixture *f, const struct replica_found *found)
{
	*f = (struct fixture){.r = replica_create(&options, found)};
	assert_non_null(f->r);
}

static const struct replica_action *find(const struct fixture *f, enum replica_action_kind kind)
{
	for (uint32_t i = 0; i < f->out.count; i++)
		if (f->out.list[i].kind == kind)
			return &f->out.list[i];
	return NULL;
}

static const struct replica_message *sent(const struct fixture *f, enum replica_message_kind kind, uint16_t to)
{
	for (uint32_t i = 0; i < f->out.count; i++)
		if (f->out.list[i].kind == REPLICA_DO_SEND && f->out.list[i].message.kind == kind && f->out.list[i].member == to)
			return &f->out.list[i].message;
	return NULL;
}

static void tick(struct fixture *f)
{
	f->out.count = 0;
	heartbeat_tick(&f->heartbeat);
	replica_tick(f->r, &f->heartbeat, &f->out);
}

/* The coordinator has answered. */
static void read_record(struct fixture *f, struct replica_record n)
{
	f->out.count = 0;
	replica_read(f->r, &n, &f->out);
}

/* The proposed record has come to pass. */
static void change(struct fixture *f)
{
	struct replica_record n = find(f, REPLICA_DO_CHANGE)->record;
	n.revision++;
	f->out.count = 0;
	replica_changed(f->r, &n, &f->out);
}

static void receive(struct fixture *f, struct replica_message m)
{
	m.to = SELF;
	f->out.count = 0;
	replica_receive(f->r, &m, &f->out);
}

/* Primary of epoch 1 with member 2 in sync, its first entry stored. */
static void become_primary(struct fixture *f, uint16_t min_isr)
{
	start(f, &(struct replica_found){.whole = true});
	tick(f);
	assert_non_null(find(f, REPLICA_DO_READ));
	read_record(f, record_of(1, 0, MEMBER_NONE, min_isr, 1 << 1 | 1 << 2));
	change(f);
	assert_int_equal(find(f, REPLICA_DO_PROMISE)->epoch, 1);
	assert_false(replica_is_primary(f->r));
	f->out.count = 0;
	replica_promised(f->r, 1, &f->out);
	assert_int_equal(find(f, REPLICA_DO_BEGIN)->epoch, 1);
	assert_non_null(sent(f, REPLICA_ESTABLISH, 2));
	f->out.count = 0;
	replica_stored(f->r, 1, 1, &f->out);
}

static void acknowledge(struct fixture *f, uint16_t from, uint64_t incarnation, uint64_t last)
{
	receive(f, (struct replica_message){.kind = REPLICA_ACK, .from = from, .epoch = 1, .incarnation = incarnation, .last = last});
}

/* --- A primary */

static void an_entry_is_committed_when_all_in_sync_have_it(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_batch b;
	become_primary(&f, 1);
	assert_null(find(&f, REPLICA_DO_COMMIT));
	assert_false(replica_batch(f.r, 2, &b)); /* logs are not compared yet */
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
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.isr.count, 1);
	assert_int_equal(replica_commit(f.r), 0);
	change(&f);
	assert_int_equal(replica_commit(f.r), 1);
	assert_int_equal(replica_stable(f.r), 0); /* one replica holds it, and not on disk */
	replica_durable(f.r, 1, &f.out);
	assert_int_equal(replica_stable(f.r), 1);
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
	receive(&f, (struct replica_message){.kind = REPLICA_JOIN, .from = 3, .incarnation = 1});
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

static void a_change_that_nobody_knows_about_keeps_all_counted(void **state)
{
	(void)state;
	struct fixture f;
	become_primary(&f, 1);
	acknowledge(&f, 2, 1, 1);
	receive(&f, (struct replica_message){.kind = REPLICA_JOIN, .from = 3, .incarnation = 1});
	acknowledge(&f, 3, 1, 1);
	assert_non_null(find(&f, REPLICA_DO_CHANGE));
	replica_changed(f.r, NULL, &f.out);
	for (uint32_t i = 0; i < 2 * options.silent_ticks; i++) {
		heartbeat_heard(&f.heartbeat, 2);
		tick(&f);
	}
	replica_stored(f.r, 1, 2, &f.out);
	acknowledge(&f, 2, 1, 2);
	assert_int_equal(replica_commit(f.r), 1); /* 3 is silent, and may be in sync by now */
	replica_destroy(f.r);
}

static void a_move_waits_for_all_to_be_committed(void **state)
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

static struct replica_found found_log(uint64_t last)
{
	struct replica_found found = {.first = 1, .last = last, .durable = last, .applied = 2, .whole = true};
	epochs_begin(&found.epochs, 1, 1);
	return found;
}

static void the_end_that_differs_is_cut_off(void **state)
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

static void only_ticks_that_ran_depose_a_primary(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(5);
	follow(&f, &found);
	for (uint32_t i = 0; i < 100; i++) { /* a minute may pass between two of them */
		heartbeat_heard(&f.heartbeat, 2);
		for (uint32_t k = 1; k < options.silent_ticks; k++) {
			tick(&f);
			assert_null(find(&f, REPLICA_DO_READ));
		}
	}
	tick(&f);
	assert_non_null(find(&f, REPLICA_DO_READ)); /* first it looks again */
	read_record(&f, record_of(9, 4, 2, 1, 1 << 1 | 1 << 2));
	const struct replica_action *a = find(&f, REPLICA_DO_CHANGE);
	assert_int_equal(a->record.primary, SELF);
	assert_int_equal(a->record.epoch, 5);
	assert_false(member_set_has(&a->record.isr, 2));
	replica_destroy(f.r);
}

/* --- After a restart that may have lost the log's end */

static void not_whole_leaves_before_it_says_anything(void **state)
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

static void the_last_in_sync_that_is_not_whole_is_a_loss(void **state)
{
	(void)state;
	struct fixture f;
	struct replica_found found = found_log(4);
	found.whole = false;
	start(&f, &found);
	tick(&f);
	read_record(&f, record_of(9, 1, SELF, 1, 1 << 1));
	assert_non_null(find(&f, REPLICA_DO_LOST));
	assert_null(find(&f, REPLICA_DO_CHANGE));
	tick(&f);
	assert_int_equal(f.out.count, 0);
	replica_destroy(f.r);
}

static void alone_goes_on_with_what_it_has(void **state)
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
	assert_int_equal(find(&f, REPLICA_DO_CHANGE)->record.epoch, 2); /* what was said in epoch 1 may be lost */
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
	    cmocka_unit_test(an_entry_is_committed_when_all_in_sync_have_it),
	    cmocka_unit_test(acknowledgements_of_a_former_incarnation_do_not_count),
	    cmocka_unit_test(a_silent_member_leaves_before_commits_go_on),
	    cmocka_unit_test(the_primary_does_not_shrink_below_min_isr),
	    cmocka_unit_test(commits_wait_for_a_learner_before_it_is_proposed),
	    cmocka_unit_test(a_change_that_nobody_knows_about_keeps_all_counted),
	    cmocka_unit_test(a_move_waits_for_all_to_be_committed),
	    cmocka_unit_test(the_end_that_differs_is_cut_off),
	    cmocka_unit_test(appends_are_stored_in_order_and_acknowledged),
	    cmocka_unit_test(a_lower_epoch_is_refused),
	    cmocka_unit_test(only_ticks_that_ran_depose_a_primary),
	    cmocka_unit_test(not_whole_leaves_before_it_says_anything),
	    cmocka_unit_test(the_last_in_sync_that_is_not_whole_is_a_loss),
	    cmocka_unit_test(alone_goes_on_with_what_it_has),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
