/* The bytes of the coordinator's records, and of their keys. */
#include "tests/cmocka_check.h"
#include "tests/unit/server/coord/coord_records_world.h"

/* --- Bytes */

static void a_record_is_these_bytes(void **state)
{
	(void)state;
	static const uint8_t uuid[16] = {0, 1, 2, 0xab};
	static const uint8_t bytes[] = {0x08, 1, 0x10, 0xac, 2, 0x18, 1, 0x22, 2, 0, 1, 0x28, 1};
	char prefix[WEIR_COORD_KEY_BYTES_MAX], key[WEIR_COORD_KEY_BYTES_MAX];
	struct replica_record read;
	const struct replica_record r = record_of(9, 300, 1);
	weir_error err = {0};
	coord_records_prefix(uuid, 3, prefix);
	coord_records_key(prefix, COORD_RECORDS_PARTITION, 12, key);
	assert_string_equal(key, "/weir/000102ab000000000000000000000000/3/partition/12");
	struct message *m = coord_records_pack(&r);
	assert_int_equal(m->bytes, sizeof bytes);
	assert_memory_equal(m->spans[0].data, bytes, sizeof bytes);
	message_release(m);
	CHECK_OK(coord_records_unpack(bytes, sizeof bytes, 9, &read, &err), err);
	assert_true(read.revision == 9 && read.epoch == 300 && read.primary == 1 && read.min_isr == 1);
	assert_true(member_set_equal(&read.isr, &r.isr));
}

static void keys_of_other_kinds_are_told_apart(void **state)
{
	(void)state;
	enum coord_records_kind kind;
	uint16_t id;
	assert_true(coord_records_key_read("/a/", "/a/partition/63", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_PARTITION && id == 63);
	assert_true(coord_records_key_read("/a/", "/a/partition/65535", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_PARTITION && id == LEDGER);
	assert_true(coord_records_key_read("/a/", "/a/hosts/7", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_HOSTS && id == 7);
	assert_true(coord_records_key_read("/a/", "/a/server/255", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_SERVER && id == 255);
	assert_true(coord_records_key_read("/a/", "/a/start/255", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_START && id == 255);
	assert_true(coord_records_key_read("/a/", "/a/next", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_NEXT && id == 0);
	static const char *const others[] = {"/a/partition/64",
	                                     "/a/partition/065",
	                                     "/a/partition/",
	                                     "/a/partition/x",
	                                     "/a/partition/1x",
	                                     "/b/partition/1",
	                                     "/a/partition/-1",
	                                     "/a/partition/65536",
	                                     "/a/partition/ 1",
	                                     "/a/hosts/64",
	                                     "/a/server/256",
	                                     "/a/start/256",
	                                     "/a/",
	                                     "/a/partition/1/2",
	                                     "/a/partitions/1",
	                                     "/a/generation",
	                                     "/a/next/",
	                                     "/a/next0",
	                                     "/a/next/1"};
	for (uint32_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_false(coord_records_key_read("/a/", others[i], 64, &kind, &id));
}

static void an_assignment_is_these_bytes(void **state)
{
	(void)state;
	static const uint8_t bytes[] = {0x08, 1, 0x12, 2, 1, 3, 0x18, 3, 0x20, 0xac, 2}, elsewhere[] = {0x08, 1, 0x12, 1, 1, 0x18, 3},
	                     none[] = {0x08, 1, 0x18, 3}, newer[] = {0x08, 2, 0x12, 1, 1};
	const struct assignment r = hosts_of(0, 1, 3);
	struct assignment read;
	weir_error err = {0};
	struct message *m = coord_records_pack_assignment(&r);
	assert_int_equal(m->bytes, sizeof bytes);
	assert_memory_equal(m->spans[0].data, bytes, sizeof bytes);
	message_release(m);
	CHECK_OK(coord_records_unpack_assignment(bytes, sizeof bytes, 9, &read, &err), err);
	assert_true(read.revision == 9 && read.epoch == 300 && read.primary == 3 && member_set_equal(&read.hosts, &r.hosts));
	assert_int_equal(coord_records_unpack_assignment(elsewhere, sizeof elsewhere, 1, &read, NULL), WEIR_E_CORRUPT);
	assert_int_equal(coord_records_unpack_assignment(none, sizeof none, 1, &read, NULL), WEIR_E_CORRUPT);
	assert_int_equal(coord_records_unpack_assignment(newer, sizeof newer, 1, &read, NULL), WEIR_E_VERSION);
}

static void assert_refused(struct replica_record r, weir_status expected)
{
	struct message *m = coord_records_pack(&r);
	struct replica_record read;
	assert_int_equal(coord_records_unpack(m->spans[0].data, m->bytes, 1, &read, NULL), expected);
	message_release(m);
}

static void impossible_records_are_refused(void **state)
{
	(void)state;
	static const uint8_t newer[] = {0x08, 2}, cut[] = {0x08};
	struct replica_record r = record_of(1, 1, 0), read;
	assert_int_equal(coord_records_unpack(newer, sizeof newer, 1, &read, NULL), WEIR_E_VERSION);
	assert_int_equal(coord_records_unpack(cut, sizeof cut, 1, &read, NULL), WEIR_E_CORRUPT);
	assert_int_equal(coord_records_unpack("", 0, 1, &read, NULL), WEIR_E_CORRUPT);
	assert_refused(record_of(1, 1, 2), WEIR_E_CORRUPT); /* the primary is not in sync */
	assert_refused(record_of(1, 1ull << 32, 0), WEIR_E_CORRUPT);
	r.min_isr = 0;
	assert_refused(r, WEIR_E_CORRUPT);
	r = record_of(1, 1, 0);
	r.isr.ids[1] = 0; /* a duplicate */
	assert_refused(r, WEIR_E_CORRUPT);
	r.isr.ids[1] = WEIR_SERVERS_MAX;
	assert_refused(r, WEIR_E_CORRUPT);
	r.isr.count = 0;
	assert_refused(r, WEIR_E_CORRUPT);
}

static void the_next_generation_is_these_bytes(void **state)
{
	(void)state;
	static const uint8_t uuid[16] = {0xab},
	                     bytes[] = {0x08, 1, 0x10, 8, 0x1a, 2, 'c', 'k', 0x20, 0xac, 2, 0x2a, 4, 'l', 'o', 's', 't'},
	                     newer[] = {0x08, 2, 0x10, 8, 0x1a, 2, 'c', 'k'}, nothing[] = {0x08, 1, 0x10, 8};
	char prefix[WEIR_COORD_KEY_BYTES_MAX], key[WEIR_COORD_KEY_BYTES_MAX];
	const struct rewind_record r = next_of(8, "ck");
	struct rewind_record read;
	weir_error err = {0};
	coord_records_prefix(uuid, 7, prefix);
	coord_records_key(prefix, COORD_RECORDS_NEXT, 0, key);
	assert_string_equal(key, "/weir/ab000000000000000000000000000000/7/next");
	struct message *m = coord_records_pack_next(&r);
	assert_int_equal(m->bytes, sizeof bytes);
	assert_memory_equal(m->spans[0].data, bytes, sizeof bytes);
	message_release(m);
	CHECK_OK(coord_records_unpack_next(bytes, sizeof bytes, 7, &read, &err), err);
	assert_true(same_next(&read, &r));
	assert_int_equal(coord_records_unpack_next(bytes, sizeof bytes, 8, &read, &err),
	                 WEIR_E_CORRUPT); /* generation 8 cannot follow itself */
	assert_int_equal(coord_records_unpack_next(nothing, sizeof nothing, 7, &read, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "generation 8 cannot follow generation 7");
	assert_int_equal(coord_records_unpack_next(newer, sizeof newer, 7, &read, &err), WEIR_E_VERSION);
	assert_int_equal(coord_records_unpack_next(bytes, 5, 7, &read, &err), WEIR_E_CORRUPT);
}

/* --- Marks */

static void a_mark_is_these_bytes(void **state)
{
	(void)state;
	static const uint8_t uuid[16] = {0xab}, bytes[] = {0x08, 1, 0x10, 2, 0x18, 5, 0x20, 0xac, 2},
	                     newer[] = {0x08, 2, 0x10, 2, 0x18, 5};
	char key[WEIR_COORD_KEY_BYTES_MAX];
	const struct mark some = {.generation = 2, .epoch = 5, .position = 300};
	struct mark read;
	weir_error err = {0};
	coord_records_mark_key(uuid, 17, key);
	assert_string_equal(key, "/weir/ab000000000000000000000000000000/mark/17");
	struct message *m = coord_records_pack_mark(&some);
	assert_int_equal(m->bytes, sizeof bytes);
	assert_memory_equal(m->spans[0].data, bytes, sizeof bytes);
	message_release(m);
	CHECK_OK(coord_records_unpack_mark(bytes, sizeof bytes, &read, &err), err);
	assert_true(read.generation == 2 && read.epoch == 5 && read.position == 300);
	assert_int_equal(coord_records_unpack_mark(newer, sizeof newer, &read, &err), WEIR_E_VERSION);
	assert_int_equal(coord_records_unpack_mark(bytes, 1, &read, &err), WEIR_E_CORRUPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_record_is_these_bytes),
	    cmocka_unit_test(a_mark_is_these_bytes),
	    cmocka_unit_test(keys_of_other_kinds_are_told_apart),
	    cmocka_unit_test(an_assignment_is_these_bytes),
	    cmocka_unit_test(impossible_records_are_refused),
	    cmocka_unit_test(the_next_generation_is_these_bytes),
	};
	return cmocka_run_group_tests_name("coord_records_format", tests, NULL, NULL);
}
