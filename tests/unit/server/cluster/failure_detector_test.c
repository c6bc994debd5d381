/* Failure detectors that exchange heartbeats: one message per pair of servers and tick, detection
 * of silence. */
#include "server/log/journal.h"
#include "tests/unit/server/cluster/detector_hosts.h"

static void receive_well(struct host *h, const struct message *m)
{
	weir_error err = {0};
	CHECK_OK(failure_detector_receive(h->detector, m, &err), err);
}

/* Beats once. Returns the heartbeat from `h` to `to`, as one reference. */
static struct message *beat_to(struct host *h, uint16_t to)
{
	struct message *found = NULL;
	failure_detector_beat(h->detector);
	assert_int_equal(h->sent_count, SERVERS);
	for (uint32_t i = 0; i < h->sent_count; i++)
		if (h->to[i] == to)
			found = message_retain(h->sent[i]);
	drop_sent(h);
	assert_non_null(found);
	return found;
}

static void carry(struct host *from, struct host *to, uint16_t server)
{
	struct message *m = beat_to(from, server);
	receive_well(to, m);
	message_release(m);
}

/* --- One message for all */

static void all_partitions_share_one_message(void **state)
{
	(void)state;
	static struct host a, b;
	host_start(&a, 0);
	host_start(&b, 1);
	for (uint32_t i = 0; i < GOT_MAX; i++) {
		const uint32_t p = i / HEARTBEAT_KINDS;
		const struct replica_message m = message_of(kinds[i % HEARTBEAT_KINDS], 0, 1, 100 * i);
		failure_detector_add(a.detector, p == PARTITIONS ? JOURNAL_LEDGER : (uint16_t)p, &m);
	}
	struct message *m = beat_to(&a, 1);
	assert_int_equal(m->bytes, HEARTBEAT_HEADER_BYTES + GOT_MAX * HEARTBEAT_ITEM_BYTES);
	receive_well(&b, m);
	message_release(m);
	assert_int_equal(b.got_count, GOT_MAX);
	for (uint32_t i = 0; i < GOT_MAX; i++) {
		const uint32_t p = i / HEARTBEAT_KINDS;
		const struct replica_message sent = message_of(kinds[i % HEARTBEAT_KINDS], 0, 1, 100 * i);
		assert_int_equal(b.got[i].partition, p == PARTITIONS ? JOURNAL_LEDGER : p);
		assert_message(&b.got[i].message, &sent);
	}
	m = beat_to(&a, 1); /* an item is sent once */
	assert_int_equal(m->bytes, HEARTBEAT_HEADER_BYTES);
	receive_well(&b, m);
	message_release(m);
	assert_int_equal(b.got_count, GOT_MAX);
	host_stop(&a);
	host_stop(&b);
}

static void the_newest_of_a_kind_is_sent(void **state)
{
	(void)state;
	static struct host a, b;
	host_start(&a, 0);
	host_start(&b, 1);
	struct replica_message m = {.kind = REPLICA_ACK, .to = 1, .epoch = 3, .last = 7, .gap = true};
	failure_detector_add(a.detector, 5, &m);
	m.to = 2;
	failure_detector_add(a.detector, 5, &m); /* for another server */
	m = (struct replica_message){.kind = REPLICA_ACK, .to = 1, .epoch = 3, .last = 9};
	failure_detector_add(a.detector, 5, &m);
	carry(&a, &b, 1);
	assert_int_equal(b.got_count, 1);
	assert_int_equal(b.got[0].message.last, 9);
	assert_true(b.got[0].message.gap); /* the gap of the replaced ACK remains */
	failure_detector_add(a.detector, 5, &m);
	carry(&a, &b, 1);
	assert_int_equal(b.got_count, 2);
	assert_false(b.got[1].message.gap);
	m.gap = true;
	failure_detector_add(a.detector, 5, &m);
	m = (struct replica_message){.kind = REPLICA_ACK, .to = 1, .epoch = 4, .last = 2};
	failure_detector_add(a.detector, 5, &m);
	carry(&a, &b, 1);
	assert_int_equal(b.got_count, 3);
	assert_int_equal(b.got[2].message.epoch, 4);
	assert_false(b.got[2].message.gap); /* the gap belonged to epoch 3 */
	host_stop(&a);
	host_stop(&b);
}

static void an_answer_goes_with_the_next_beat(void **state)
{
	(void)state;
	static struct host a, b;
	host_start(&a, 0);
	host_start(&b, 1);
	b.answers = true;
	for (uint16_t p = 0; p < PARTITIONS; p++) {
		const struct replica_message m = message_of(REPLICA_JOIN, 0, 1, p);
		failure_detector_add(a.detector, p, &m);
	}
	carry(&a, &b, 1);
	carry(&b, &a, 0);
	assert_int_equal(a.got_count, PARTITIONS);
	for (uint16_t p = 0; p < PARTITIONS; p++) {
		assert_int_equal(a.got[p].partition, p);
		assert_int_equal(a.got[p].message.kind, REPLICA_REFUSE);
		assert_int_equal(a.got[p].message.epoch, p + 1);
	}
	host_stop(&a);
	host_stop(&b);
}

/* --- Silence */

static void a_server_is_silent_after_the_limit(void **state)
{
	(void)state;
	static struct host a, b;
	host_start(&a, 0);
	host_start(&b, 1);
	for (uint32_t i = 1; i < WEIR_HEARTBEAT_SILENT_TICKS; i++)
		failure_detector_tick(b.detector);
	assert_int_equal(b.reports, 0);
	carry(&a, &b, 1); /* server 0 is heard in time */
	failure_detector_tick(b.detector);
	assert_true(!b.silent[0] && b.silent[2] && !b.silent[1]);
	for (uint32_t i = 2; i < WEIR_HEARTBEAT_SILENT_TICKS; i++)
		failure_detector_tick(b.detector);
	assert_int_equal(b.reports, 1);
	failure_detector_tick(b.detector);
	assert_true(b.silent[0] && b.reports == 2);
	failure_detector_tick(b.detector); /* reports once */
	assert_int_equal(b.reports, 2);
	assert_int_equal(heartbeat_silent(failure_detector_silences(b.detector), 0), WEIR_HEARTBEAT_SILENT_TICKS + 1);
	carry(&a, &b, 1);
	assert_true(!b.silent[0] && b.reports == 3);
	assert_int_equal(heartbeat_silent(failure_detector_silences(b.detector), 0), 0);
	failure_detector_heard(b.detector, 2); /* over another stream */
	assert_true(!b.silent[2] && b.reports == 4);
	host_stop(&a);
	host_stop(&b);
}

/* A server not heard yet may have to find this server after a restart. So it has more time than one
 * that was heard. */
static void a_server_that_was_not_heard_yet_has_more_time(void **state)
{
	(void)state;
	enum { FIRST_TICKS = 3 * WEIR_HEARTBEAT_SILENT_TICKS };
	struct host a, b;
	host_start(&b, 1);
	struct failure_detector_options o = options_of(&a, 0);
	o.first_ticks = FIRST_TICKS;
	a = (struct host){.detector = failure_detector_create(&o)};
	assert_non_null(a.detector);
	carry(&b, &a, 0);
	for (uint32_t i = 1; i < FIRST_TICKS; i++) {
		failure_detector_tick(a.detector);
		assert_int_equal(a.silent[1], i >= WEIR_HEARTBEAT_SILENT_TICKS);
		assert_false(a.silent[2]);
	}
	failure_detector_tick(a.detector);
	assert_true(a.silent[2]);
	carry(&b, &a, 0);
	assert_false(a.silent[1]);
	host_stop(&a);
	host_stop(&b);
}

/* A process that was stopped misses one tick. The others' heartbeats wait in its sockets and arrive
 * next to that tick. */
static void a_pause_is_one_tick(void **state)
{
	(void)state;
	static struct host a, b;
	host_start(&a, 0);
	host_start(&b, 1);
	for (uint32_t i = 0; i < 100; i++) {
		failure_detector_tick(a.detector);
		carry(&a, &b, 1);
	}
	failure_detector_tick(b.detector);
	assert_int_equal(b.reports, 0);
	host_stop(&a);
	host_stop(&b);
}

/* The ticks come in time, but the server's own heartbeats are late, and so may be those of
 * others. */
static void a_server_that_does_not_hear_itself_counts_no_server(void **state)
{
	(void)state;
	static struct host b;
	host_start(&b, 1);
	for (uint32_t i = 1; i < WEIR_HEARTBEAT_SILENT_TICKS; i++) {
		carry(&b, &b, 1);
		failure_detector_tick(b.detector);
	}
	carry(&b, &b, 1);
	carry(&b, &b, 1);
	assert_int_equal(b.reports, 0);
	failure_detector_tick(b.detector);
	assert_true(b.silent[0] && b.silent[2] && b.reports == 2);
	failure_detector_heard(b.detector, 0);
	for (uint32_t i = 0; i < 10 * WEIR_HEARTBEAT_SILENT_TICKS; i++)
		failure_detector_tick(b.detector);
	assert_true(!b.silent[0] && b.reports == 3);
	assert_int_equal(heartbeat_silent(failure_detector_silences(b.detector), 0), 0);
	failure_detector_lost_itself(b.detector); /* the path to itself is lost: ticks count */
	for (uint32_t i = 0; i < WEIR_HEARTBEAT_SILENT_TICKS; i++)
		failure_detector_tick(b.detector);
	assert_true(b.silent[0] && !b.silent[1] && b.reports == 4);
	host_stop(&b);
}

static void a_server_that_does_not_beat_counts_others(void **state)
{
	(void)state;
	static struct host a, b;
	host_start(&a, 0);
	host_start(&b, 1);
	for (uint32_t i = 0; i < WEIR_HEARTBEAT_SILENT_TICKS; i++) {
		failure_detector_tick(a.detector);
		failure_detector_tick(b.detector);
		carry(&a, &b, 1); /* b is stuck and sends no heartbeat */
	}
	assert_true(a.silent[1] && !b.silent[0]);
	host_stop(&a);
	host_stop(&b);
}

static void a_server_with_a_slow_disk_reports_it(void **state)
{
	(void)state;
	struct host a, b;
	host_start(&a, 0);
	host_start(&b, 1);
	for (uint32_t slow = 2; slow-- > 0;) {
		failure_detector_say_slow(a.detector, slow);
		carry(&a, &b, 1);
		assert_int_equal(failure_detector_silences(b.detector)->slow[0], slow);
		assert_false(failure_detector_silences(b.detector)->slow[1] || failure_detector_silences(b.detector)->slow[2]);
	}
	host_stop(&a);
	host_stop(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_partitions_share_one_message),
	    cmocka_unit_test(the_newest_of_a_kind_is_sent),
	    cmocka_unit_test(an_answer_goes_with_the_next_beat),
	    cmocka_unit_test(a_server_is_silent_after_the_limit),
	    cmocka_unit_test(a_server_that_was_not_heard_yet_has_more_time),
	    cmocka_unit_test(a_server_that_does_not_hear_itself_counts_no_server),
	    cmocka_unit_test(a_pause_is_one_tick),
	    cmocka_unit_test(a_server_that_does_not_beat_counts_others),
	    cmocka_unit_test(a_server_with_a_slow_disk_reports_it),
	};
	return cmocka_run_group_tests_name("failure_detector", tests, NULL, NULL);
}
