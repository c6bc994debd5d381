/* One replica, step by step: its actions and its refusals. The explorer (tests/sim/replica) tests
 * the whole protocol. */
#include "tests/cmocka_check.h"

#include "server/replica/replica.h"

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

/* The coordinator's answer to a read. */
static void read_record(struct fixture *f, struct replica_record n)
{
	f->out.count = 0;
	replica_read(f->r, &n, &f->out);
}

/* The coordinator accepts the proposed record. */
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

/* Primary of epoch 1 with the members of `isr` (bits) in sync. Its first entry is stored. */
static void become_primary_of(struct fixture *f, uint16_t min_isr, uint16_t isr)
{
	start(f, &(struct replica_found){.whole = true});
	tick(f);
	assert_non_null(find(f, REPLICA_DO_READ));
	read_record(f, record_of(1, 0, MEMBER_NONE, min_isr, isr));
	change(f);
	assert_int_equal(find(f, REPLICA_DO_PROMISE)->epoch, 1);
	assert_false(replica_is_primary(f->r));
	f->out.count = 0;
	replica_promised(f->r, 1, &f->out);
	assert_int_equal(find(f, REPLICA_DO_BEGIN)->epoch, 1);
	assert_int_equal(!!sent(f, REPLICA_ESTABLISH, 2), !!(isr & 1 << 2));
	f->out.count = 0;
	replica_stored(f->r, 1, 1, &f->out);
}

/* With member 2 in sync. */
static void become_primary(struct fixture *f, uint16_t min_isr)
{
	become_primary_of(f, min_isr, 1 << 1 | 1 << 2);
}

static void acknowledge(struct fixture *f, uint16_t from, uint64_t incarnation, uint64_t last)
{
	receive(f, (struct replica_message){.kind = REPLICA_ACK, .from = from, .epoch = 1, .incarnation = incarnation, .last = last});
}

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
static void what_is_on_disk_is_asked_for_again(void **state)
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
static void a_slow_member_leaves_and_comes_back_when_it_is_well(void **state)
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
static void who_hears_nobody_proposes_nothing(void **state)
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
static void who_has_left_is_compared_anew(void **state)
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

static void a_learner_without_a_heart_is_not_let_in(void **state)
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

static void a_change_that_nobody_knows_about_keeps_all_counted(void **state)
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

static void who_holds_up_commits_by_a_change_that_nobody_knows_about_is_ruled_out(void **state)
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

/* Otherwise entries would never commit, and the move would never end. */
static void a_move_waits_for_who_brings_enough_in_sync(void **state)
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
static void who_needs_a_snapshot_is_not_waited_for(void **state)
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

static void who_is_silent_is_not_heard(void **state)
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

static void what_a_snapshot_brought_is_shipped_behind(void **state)
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

static void a_snapshot_that_ends_without_use_is_begun_again(void **state)
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

static void a_primary_that_has_less_than_it_had_leaves(void **state)
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

static void the_last_one_that_has_less_than_it_had_is_lost(void **state)
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

static void only_an_offer_of_use_is_taken(void **state)
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

static void what_begins_anew_is_whole_when_it_is_brought_up(void **state)
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
static void who_lacks_what_former_epochs_left_is_not_whole(void **state)
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
static void what_is_to_go_is_not_on_disk(void **state)
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

/* The folder may be lost or late. The replica cannot tell which. */
static void an_empty_log_is_a_full_one_only_where_there_was_no_primary(void **state)
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

static void the_last_in_sync_that_is_not_whole_is_a_loss(void **state)
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

static void another_that_got_in_sync_meanwhile_has_it_all(void **state)
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
	    cmocka_unit_test(a_primary_that_has_less_than_it_had_leaves),
	    cmocka_unit_test(the_last_one_that_has_less_than_it_had_is_lost),
	    cmocka_unit_test(a_wrong_follower_leaves_and_begins_anew),
	    cmocka_unit_test(an_entry_is_committed_when_all_in_sync_have_it),
	    cmocka_unit_test(what_is_on_disk_is_asked_for_again),
	    cmocka_unit_test(acknowledgements_of_a_former_incarnation_do_not_count),
	    cmocka_unit_test(a_silent_member_leaves_before_commits_go_on),
	    cmocka_unit_test(a_slow_member_leaves_and_comes_back_when_it_is_well),
	    cmocka_unit_test(a_slow_member_stays_where_min_isr_needs_it),
	    cmocka_unit_test(a_slow_learner_is_let_in_where_min_isr_needs_it),
	    cmocka_unit_test(a_slow_primary_gives_way),
	    cmocka_unit_test(who_hears_nobody_proposes_nothing),
	    cmocka_unit_test(the_primary_does_not_shrink_below_min_isr),
	    cmocka_unit_test(commits_wait_for_a_learner_before_it_is_proposed),
	    cmocka_unit_test(who_has_left_is_compared_anew),
	    cmocka_unit_test(a_learner_without_a_heart_is_not_let_in),
	    cmocka_unit_test(a_change_that_nobody_knows_about_keeps_all_counted),
	    cmocka_unit_test(who_holds_up_commits_by_a_change_that_nobody_knows_about_is_ruled_out),
	    cmocka_unit_test(a_move_waits_for_all_to_be_committed),
	    cmocka_unit_test(a_move_waits_for_who_brings_enough_in_sync),
	    cmocka_unit_test(who_needs_a_snapshot_is_not_waited_for),
	    cmocka_unit_test(who_is_silent_is_not_heard),
	    cmocka_unit_test(what_a_snapshot_brought_is_shipped_behind),
	    cmocka_unit_test(a_snapshot_that_ends_without_use_is_begun_again),
	    cmocka_unit_test(only_an_offer_of_use_is_taken),
	    cmocka_unit_test(what_begins_anew_is_whole_when_it_is_brought_up),
	    cmocka_unit_test(who_lacks_what_former_epochs_left_is_not_whole),
	    cmocka_unit_test(the_end_that_differs_is_cut_off),
	    cmocka_unit_test(appends_are_stored_in_order_and_acknowledged),
	    cmocka_unit_test(a_lower_epoch_is_refused),
	    cmocka_unit_test(what_is_to_go_is_not_on_disk),
	    cmocka_unit_test(only_ticks_that_ran_depose_a_primary),
	    cmocka_unit_test(not_whole_leaves_before_it_says_anything),
	    cmocka_unit_test(an_empty_log_is_a_full_one_only_where_there_was_no_primary),
	    cmocka_unit_test(the_last_in_sync_that_is_not_whole_is_a_loss),
	    cmocka_unit_test(another_that_got_in_sync_meanwhile_has_it_all),
	    cmocka_unit_test(alone_goes_on_with_what_it_has),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
