/* Failure detectors that exchange heartbeats: one message per pair of servers and tick, detection
 * of silence, messages that a receiver refuses. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "common/system/disk.h"
#include "server/cluster/failure_detector.h"
#include "server/log/journal.h"
#include "tests/cmocka_check.h"
#include "tests/unit/proto/pieces.h"

enum { SERVERS = 3, PARTITIONS = 40, SENT_MAX = 16, GOT_MAX = HEARTBEAT_KINDS * (PARTITIONS + 1) };

/* A server with its failure detector. */
struct host {
	struct failure_detector *detector;
	struct message *sent[SENT_MAX]; /* (sent_count) */
	uint16_t to[SENT_MAX];
	uint32_t sent_count;
	struct heartbeat_item got[GOT_MAX]; /* (got_count) */
	uint32_t got_count;
	bool silent[SERVERS];
	uint32_t reports; /* calls of on_silence */
	bool answers;     /* replies to each item with an item */
};

static void on_send(void *arg, uint16_t to, struct message *m)
{
	struct host *h = arg;
	assert_true(h->sent_count < SENT_MAX);
	h->to[h->sent_count] = to;
	h->sent[h->sent_count++] = m;
}

static void on_deliver(void *arg, uint16_t partition, const struct replica_message *m)
{
	struct host *h = arg;
	assert_true(h->got_count < GOT_MAX);
	h->got[h->got_count++] = (struct heartbeat_item){.partition = partition, .message = *m};
	if (h->answers)
		failure_detector_add(h->detector, partition,
		                     &(struct replica_message){.kind = REPLICA_REFUSE, .to = m->from, .epoch = m->epoch + 1});
}

static void on_silence(void *arg, uint16_t server, bool silent)
{
	struct host *h = arg;
	assert_int_not_equal(h->silent[server], silent);
	h->silent[server] = silent;
	h->reports++;
}

static struct failure_detector_options options_of(struct host *h, uint16_t self)
{
	return (struct failure_detector_options){.uuid = "heart test",
	                                         .generation = 4,
	                                         .self = self,
	                                         .servers = SERVERS,
	                                         .partitions = PARTITIONS,
	                                         .incarnation = 10 + self,
	                                         .process_id = 0xb007 + self,
	                                         .arg = h,
	                                         .send = on_send,
	                                         .deliver = on_deliver,
	                                         .silence = on_silence};
}

static void host_start(struct host *h, uint16_t self)
{
	const struct failure_detector_options o = options_of(h, self);
	*h = (struct host){.detector = failure_detector_create(&o)};
	assert_non_null(h->detector);
}

static void drop_sent(struct host *h)
{
	for (uint32_t i = 0; i < h->sent_count; i++)
		message_release(h->sent[i]);
	h->sent_count = 0;
}

static void host_stop(struct host *h)
{
	drop_sent(h);
	failure_detector_destroy(h->detector);
}

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

static struct replica_message message_of(enum replica_message_kind kind, uint16_t from, uint16_t to, uint64_t n)
{
	struct replica_message m = {.kind = kind,
	                            .from = from,
	                            .to = to,
	                            .epoch = n,
	                            .incarnation = n + 1,
	                            .first = n + 3,
	                            .last = n + 2,
	                            .commit = n + 4,
	                            .durable = n + 5};
	m.gap = kind == REPLICA_ACK && n % 2;
	return m;
}

static void assert_message(const struct replica_message *a, const struct replica_message *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->from, b->from);
	assert_int_equal(a->to, b->to);
	assert_true(a->epoch == b->epoch && a->incarnation == b->incarnation && a->first == b->first);
	assert_true(a->last == b->last && a->commit == b->commit && a->durable == b->durable);
	assert_int_equal(a->gap, b->gap);
	assert_null(a->epochs);
}

static const enum replica_message_kind kinds[HEARTBEAT_KINDS] = {REPLICA_JOIN, REPLICA_ACK, REPLICA_REFUSE, REPLICA_APPEND};

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

static void only_small_messages_fit(void **state)
{
	(void)state;
	assert_int_equal(heartbeat_kind(&(struct replica_message){.kind = REPLICA_ESTABLISH}), 0);
	assert_int_equal(heartbeat_kind(&(struct replica_message){.kind = REPLICA_APPEND, .first = 4, .last = 4}), 0);
	for (uint32_t i = 0; i < HEARTBEAT_KINDS; i++) {
		const struct replica_message m = message_of(kinds[i], 0, 1, 5);
		assert_int_equal(heartbeat_kind(&m), i + 1);
	}
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

/* --- Starts */

/* A heartbeat from server 0 to server 1. Returns one reference. */
static struct message *beat_of(struct heartbeat_header h, const struct heartbeat_item *items)
{
	struct message *m = heartbeat_pack(&h, items);
	assert_non_null(m);
	return m;
}

static struct heartbeat_header header_of(uint64_t incarnation, uint64_t process_id)
{
	return (struct heartbeat_header){
	    .uuid = "heart test", .generation = 4, .incarnation = incarnation, .process_id = process_id, .from = 0, .to = 1};
}

static weir_status receive(struct host *h, struct message *m, weir_error *err)
{
	weir_status status = failure_detector_receive(h->detector, m, err);
	message_release(m);
	return status;
}

static void a_former_start_is_refused(void **state)
{
	(void)state;
	static struct host b;
	weir_error err = {0};
	host_start(&b, 1);
	assert_int_equal(failure_detector_get_peer(b.detector, 0).incarnation, 0);
	CHECK_OK(receive(&b, beat_of(header_of(7, 111), NULL), &err), err);
	assert_true(failure_detector_get_peer(b.detector, 0).incarnation == 7 &&
	            failure_detector_get_peer(b.detector, 0).process_id == 111);
	CHECK_OK(receive(&b, beat_of(header_of(9, 222), NULL), &err), err);
	assert_true(failure_detector_get_peer(b.detector, 0).incarnation == 9 &&
	            failure_detector_get_peer(b.detector, 0).process_id == 222);
	failure_detector_tick(b.detector);
	assert_int_equal(receive(&b, beat_of(header_of(7, 111), NULL), &err), WEIR_E_STALE);
	CHECK_CONTAINS(err.text, "server 0 in incarnation 7, it is in 9");
	assert_int_equal(heartbeat_silent(failure_detector_silences(b.detector), 0), 1);
	assert_int_equal(failure_detector_get_peer(b.detector, 0).incarnation, 9);
	host_stop(&b);
}

/* The second process started on a copy of the folder, or on an empty folder with its clock
 * behind. */
static void a_second_process_of_one_incarnation_is_refused(void **state)
{
	(void)state;
	static struct host b;
	weir_error err = {0};
	host_start(&b, 1);
	CHECK_OK(receive(&b, beat_of(header_of(7, 111), NULL), &err), err);
	failure_detector_tick(b.detector);
	assert_int_equal(receive(&b, beat_of(header_of(7, 112), NULL), &err), WEIR_E_STATE);
	CHECK_CONTAINS(err.text, "two processes are server 0 in incarnation 7");
	assert_int_equal(heartbeat_silent(failure_detector_silences(b.detector), 0), 1);
	CHECK_OK(receive(&b, beat_of(header_of(7, 111), NULL), &err), err);
	assert_int_equal(heartbeat_silent(failure_detector_silences(b.detector), 0), 0);
	host_stop(&b);
}

static void messages_for_others_are_refused(void **state)
{
	(void)state;
	const struct heartbeat_item items[] = {{.partition = 3, .message = {.kind = REPLICA_JOIN}},
	                                       {.partition = PARTITIONS, .message = {.kind = REPLICA_JOIN}}};
	struct heartbeat_header job = header_of(7, 1), generation = header_of(7, 1), to = header_of(7, 1), from = header_of(7, 1),
	                        partition = header_of(7, 1);
	job.uuid[0]++;
	generation.generation++;
	to.to = 2;
	from.from = SERVERS;
	partition.items = 2;
	const struct {
		const struct heartbeat_header *header;
		weir_status status;
		const char *says;
	} cases[] = {{&job, WEIR_E_GENERATION, "another job"},
	             {&generation, WEIR_E_GENERATION, "generation 5, not 4"},
	             {&to, WEIR_E_INVALID, "from server 0 to server 2 has come to server 1"},
	             {&from, WEIR_E_INVALID, "from server 3 to server 1"},
	             {&partition, WEIR_E_INVALID, "partition 40, the job has 40"}};
	static struct host b;
	host_start(&b, 1);
	failure_detector_tick(b.detector);
	for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		weir_error err = {0};
		assert_int_equal(receive(&b, beat_of(*cases[i].header, items), &err), cases[i].status);
		CHECK_CONTAINS(err.text, cases[i].says);
	}
	assert_int_equal(b.got_count, 0);
	assert_int_equal(failure_detector_get_peer(b.detector, 0).incarnation, 0);
	assert_int_equal(heartbeat_silent(failure_detector_silences(b.detector), 0), 1);
	host_stop(&b);
}

/* --- Bytes */

/* Returns the bytes of a heartbeat with one item of each kind. The caller frees them. */
static uint8_t *example(size_t *size)
{
	struct heartbeat_item items[HEARTBEAT_KINDS];
	struct heartbeat_header h = header_of(0x1122334455667788, 0x99aabbccddeeff00);
	for (uint32_t i = 0; i < HEARTBEAT_KINDS; i++)
		items[i] = (struct heartbeat_item){.partition = i ? (uint16_t)i : JOURNAL_LEDGER,
		                                   .message = message_of(kinds[i], 0, 1, 1000 * i + 1)};
	h.items = HEARTBEAT_KINDS;
	struct message *m = beat_of(h, items);
	*size = m->bytes;
	uint8_t *bytes = pieces_join(m);
	message_release(m);
	return bytes;
}

static void the_bytes_are_those_of_the_format(void **state)
{
	(void)state;
	size_t n, size, at = 0;
	char *golden;
	weir_error err = {0};
	uint8_t *bytes = example(&n);
	char *text = malloc(3 * n + 1);
	assert_non_null(text);
	for (size_t i = 0; i < n; i++)
		at += (size_t)sprintf(text + at, "%02x%c", bytes[i], i % 16 == 15 || i + 1 == n ? '\n' : ' ');
	CHECK_OK(disk_read_file(disk_system(), GOLDEN_DIR "/heartbeat.hex", 1 << 20, &golden, &size, &err), err);
	assert_string_equal(text, golden);
	free(golden);
	free(text);
	free(bytes);
}

static void bytes_come_in_any_pieces(void **state)
{
	(void)state;
	static struct host b;
	size_t n;
	uint8_t *bytes = example(&n);
	for (size_t cut = 1; cut <= n; cut++) {
		weir_error err = {0};
		host_start(&b, 1);
		CHECK_OK(receive(&b, pieces_of(bytes, n, cut), &err), err);
		assert_int_equal(b.got_count, HEARTBEAT_KINDS);
		for (uint32_t i = 0; i < HEARTBEAT_KINDS; i++) {
			const struct replica_message sent = message_of(kinds[i], 0, 1, 1000 * i + 1);
			assert_int_equal(b.got[i].partition, i ? i : JOURNAL_LEDGER);
			assert_message(&b.got[i].message, &sent);
		}
		host_stop(&b);
	}
	free(bytes);
}

static void repair(uint8_t *bytes, size_t n)
{
	put32(bytes + 4, 0);
	put32(bytes + 4, crc32c(0, bytes, n));
}

static void refuse(struct host *h, const uint8_t *bytes, size_t n, weir_status expected)
{
	weir_error err = {0};
	assert_int_equal(receive(h, pieces_of(bytes, n, n + 1), &err), expected);
	assert_true(err.text[0]);
	assert_int_equal(h->got_count, 0);
}

static void damaged_bytes_are_refused(void **state)
{
	(void)state;
	static struct host b;
	size_t n;
	uint8_t *bytes = example(&n);
	host_start(&b, 1);
	for (size_t i = 0; i < 8 * n; i++) {
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		refuse(&b, bytes, n, WEIR_E_CORRUPT);
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	for (size_t shorter = 0; shorter < n; shorter++)
		refuse(&b, bytes, shorter, WEIR_E_CORRUPT);
	free(bytes);
	host_stop(&b);
}

static void impossible_messages_are_refused(void **state)
{
	(void)state;
	enum { ITEM = HEARTBEAT_HEADER_BYTES, ACK = ITEM + HEARTBEAT_ITEM_BYTES, APPEND = ITEM + 3 * HEARTBEAT_ITEM_BYTES };
	const struct {
		size_t at;
		uint8_t value;
		weir_status status;
	} cases[] = {{8, HEARTBEAT_VERSION + 1, WEIR_E_VERSION},
	             {12, HEARTBEAT_KINDS + 1, WEIR_E_CORRUPT}, /* more items than the message has */
	             {12, HEARTBEAT_KINDS - 1, WEIR_E_CORRUPT},
	             {15, 0xff, WEIR_E_CORRUPT}, /* more items than the limit */
	             {56, 1, WEIR_E_CORRUPT},    /* from server 1 to itself, with items */
	             {57, 1, WEIR_E_CORRUPT},    /* from server 256 */
	             {60, 2, WEIR_E_CORRUPT},    /* an unknown flag */
	             {ITEM, 0, WEIR_E_CORRUPT},  /* partition 0xff00 */
	             {ITEM + 2, 0, WEIR_E_CORRUPT},
	             {ITEM + 2, HEARTBEAT_KINDS + 1, WEIR_E_CORRUPT},
	             {ITEM + 3, 1, WEIR_E_CORRUPT}, /* a JOIN with a gap */
	             {ACK + 3, 2, WEIR_E_CORRUPT},
	             {ACK + 4, 1, WEIR_E_CORRUPT},
	             {APPEND + 24, 1, WEIR_E_CORRUPT}}; /* an APPEND with entries */
	static struct host b;
	size_t n;
	uint8_t *bytes = example(&n);
	host_start(&b, 1);
	for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const uint8_t former = bytes[cases[i].at];
		assert_int_not_equal(former, cases[i].value);
		bytes[cases[i].at] = cases[i].value;
		repair(bytes, n);
		refuse(&b, bytes, n, cases[i].status);
		bytes[cases[i].at] = former;
	}
	memset(bytes + 40, 0, 8); /* incarnations count from 1 */
	repair(bytes, n);
	refuse(&b, bytes, n, WEIR_E_CORRUPT);
	free(bytes);
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
	    cmocka_unit_test(only_small_messages_fit),
	    cmocka_unit_test(a_server_is_silent_after_the_limit),
	    cmocka_unit_test(a_server_that_was_not_heard_yet_has_more_time),
	    cmocka_unit_test(a_server_that_does_not_hear_itself_counts_no_server),
	    cmocka_unit_test(a_pause_is_one_tick),
	    cmocka_unit_test(a_server_that_does_not_beat_counts_others),
	    cmocka_unit_test(a_former_start_is_refused),
	    cmocka_unit_test(a_second_process_of_one_incarnation_is_refused),
	    cmocka_unit_test(messages_for_others_are_refused),
	    cmocka_unit_test(the_bytes_are_those_of_the_format),
	    cmocka_unit_test(bytes_come_in_any_pieces),
	    cmocka_unit_test(damaged_bytes_are_refused),
	    cmocka_unit_test(a_server_with_a_slow_disk_reports_it),
	    cmocka_unit_test(impossible_messages_are_refused),
	};
	return cmocka_run_group_tests_name("failure_detector", tests, NULL, NULL);
}
