/* The bytes of a heartbeat, and heartbeats that a receiver refuses. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "common/system/disk.h"
#include "server/log/journal.h"
#include "tests/unit/proto/pieces.h"
#include "tests/unit/server/cluster/detector_hosts.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_small_messages_fit),
	    cmocka_unit_test(a_former_start_is_refused),
	    cmocka_unit_test(a_second_process_of_one_incarnation_is_refused),
	    cmocka_unit_test(messages_for_others_are_refused),
	    cmocka_unit_test(the_bytes_are_those_of_the_format),
	    cmocka_unit_test(bytes_come_in_any_pieces),
	    cmocka_unit_test(damaged_bytes_are_refused),
	    cmocka_unit_test(impossible_messages_are_refused),
	};
	return cmocka_run_group_tests_name("heartbeat_message", tests, NULL, NULL);
}
