/* Snapshots as bytes: golden bytes, and frames that the reader refuses. */
#include <stdio.h>
#include <stdlib.h>

#include "common/system/disk.h"
#include "server/log/journal_format.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/snapshot/snapshot_frames.h"

static void release(struct message **frames, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		message_release(frames[i]);
}

static void init(struct snapshot_reader *r)
{
	assert_int_equal(snapshot_reader_init(r, small_uuid, SMALL_GENERATION, SMALL_PARTITION, SMALL_PARTITIONS), WEIR_OK);
}

/* Reads frames in the order of `places`. All but the last must be accepted. Returns the status of
 * the last. */
static weir_status read_in_order(struct message *const *frames, const uint32_t *places, uint32_t n, weir_error *err)
{
	struct snapshot_reader r;
	struct snapshot_frame f;
	init(&r);
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(status, WEIR_OK);
		status = snapshot_reader_take(&r, cursor_at(frames[places[i]]), &f, err);
	}
	snapshot_reader_destroy(&r);
	return status;
}

static const uint32_t in_order[SMALL_FRAMES] = {0, 1, 2, 3, 4, 5, 6, 7};

static void golden_bytes(void **state)
{
	(void)state;
	struct message *frames[SMALL_FRAMES];
	char *golden, *text = NULL;
	size_t n, at = 0;
	weir_error err = {0};
	small_frames(frames);
	for (uint32_t i = 0; i < SMALL_FRAMES; i++) {
		struct cursor c = cursor_at(frames[i]);
		text = realloc(text, at + 3 * c.left + 2);
		for (uint8_t byte; c.left;) {
			assert_int_equal(cursor_read(&c, &byte, 1), WEIR_OK);
			at += (size_t)sprintf(text + at, "%02x%c", byte, c.left % 16 ? ' ' : '\n');
		}
		at += (size_t)sprintf(text + at, "\n");
	}
	CHECK_OK(disk_read_file(disk_system(), GOLDEN_DIR "/snapshot_frames.hex", 1 << 20, &golden, &n, &err), err);
	assert_string_equal(text, golden);
	free(golden);
	free(text);
	release(frames, SMALL_FRAMES);
}

static void written_data_is_read_back(void **state)
{
	(void)state;
	struct message *frames[SMALL_FRAMES], *m;
	struct snapshot_reader r;
	struct snapshot_frame f;
	struct row_batch rows;
	struct log_entry e;
	float rates[JOURNAL_RATES_MAX];
	weir_error err = {0};
	small_frames(frames);
	init(&r);
	for (uint32_t i = 0; i < SMALL_FRAMES; i++) {
		CHECK_OK(snapshot_reader_take(&r, cursor_at(frames[i]), &f, &err), err);
		assert_int_equal(r.ended, i == SMALL_END);
		if (i == SMALL_ROWS) {
			CHECK_OK(snapshot_read_rows(&f, SMALL_PARTITION, &rows, &err), err);
			assert_true(rows.count == 2 && rows.partition == SMALL_PARTITION && rows.version_max == 9);
			assert_true(rows.items[1].key == 43 && rows.items[1].table == 1 && rows.items[1].bytes == ROW_META_BYTES + 12);
			row_batch_destroy(&rows);
		}
		if (i == SMALL_ENTRY) {
			CHECK_OK(snapshot_read_entry(&f, SMALL_PARTITION, rates, &e, &m, &err), err);
			assert_true(e.index == 9 && e.epoch == 2 && e.rates_count == 1 && rates[0] == 0.5f && e.record.push.step == 7);
			assert_int_equal(e.body.left, 12);
			message_release(m);
			assert_int_equal(snapshot_read_entry(&f, SMALL_PARTITION + 1, rates, &e, &m, &err), WEIR_E_CORRUPT);
			CHECK_CONTAINS(err.text, "a log entry of channel 1");
		}
	}
	assert_true(r.session == SMALL_SESSION && r.begin.index == 9 && r.begin.epoch == 2 && r.begin.state_bytes == 5);
	assert_int_equal(snapshot_reader_take(&r, cursor_at(frames[SMALL_END]), &f, &err), WEIR_E_CORRUPT);
	snapshot_reader_destroy(&r);
	release(frames, SMALL_FRAMES);
}

/* Two frames have valid checksums, but other content than was sent. */
static void the_end_knows_what_was_sent(void **state)
{
	(void)state;
	static const uint32_t changed[] = {SMALL_TABLE, SMALL_STATE, SMALL_ROWS, SMALL_STUBS, SMALL_ENTRY};
	for (uint32_t i = 0; i < sizeof changed / sizeof *changed; i++) {
		struct message *frames[SMALL_FRAMES];
		weir_error err = {0};
		small_frames(frames);
		struct message *other = small_changed(frames[changed[i]], 1);
		message_release(frames[changed[i]]);
		frames[changed[i]] = other;
		assert_int_equal(read_in_order(frames, in_order, SMALL_FRAMES, &err), WEIR_E_CORRUPT);
		CHECK_CONTAINS(err.text, "snapshot of partition 1, frame 7: the hash of all that was sent");
		release(frames, SMALL_FRAMES);
	}
}

static struct message *renumbered(const struct message *m, uint64_t number)
{
	struct snapshot_frame f;
	uint8_t bytes[4096];
	assert_int_equal(snapshot_read(cursor_at(m), &f, NULL), WEIR_OK);
	const size_t n = f.payload.left;
	assert_int_equal(cursor_read(&f.payload, bytes, n), WEIR_OK);
	f.number = number;
	return snapshot_make(&f, bytes, n);
}

/* Consecutive numbers do not make up for a wrong order of kinds. */
static void kinds_come_in_order(void **state)
{
	(void)state;
	static const uint32_t wrong[][SMALL_FRAMES] = {
	    /* No BEGIN. */
	    {SMALL_TABLE},
	    /* Two BEGIN. */
	    {SMALL_BEGIN, SMALL_BEGIN},
	    /* No TABLE. */
	    {SMALL_BEGIN, SMALL_STATE},
	    /* More tables than announced. */
	    {SMALL_BEGIN, SMALL_TABLE, SMALL_TABLE},
	    /* More bytes than announced. */
	    {SMALL_BEGIN, SMALL_TABLE, SMALL_STATE, SMALL_STATE},
	    /* Fewer bytes than announced. */
	    {SMALL_BEGIN, SMALL_TABLE, SMALL_STATE, SMALL_ROWS},
	    /* Rows behind entries. */
	    {SMALL_BEGIN, SMALL_TABLE, SMALL_STATE, SMALL_STATE_REST, SMALL_ENTRY, SMALL_ROWS},
	    /* More entries than announced. */
	    {SMALL_BEGIN, SMALL_TABLE, SMALL_STATE, SMALL_STATE_REST, SMALL_ENTRY, SMALL_ENTRY},
	    /* No ENTRY. */
	    {SMALL_BEGIN, SMALL_TABLE, SMALL_STATE, SMALL_STATE_REST, SMALL_ROWS, SMALL_STUBS, SMALL_END},
	};
	static const uint32_t counts[] = {1, 2, 2, 3, 4, 4, 6, 6, 7};
	struct message *frames[SMALL_FRAMES];
	small_frames(frames);
	for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct message *numbered[SMALL_FRAMES];
		weir_error err = {0};
		for (uint32_t k = 0; k < counts[i]; k++)
			numbered[k] = renumbered(frames[wrong[i][k]], k);
		assert_int_equal(read_in_order(numbered, in_order, counts[i], &err), WEIR_E_CORRUPT);
		CHECK_CONTAINS(err.text, "comes out of order");
		release(numbered, counts[i]);
	}
	release(frames, SMALL_FRAMES);
}

static void another_session_is_refused(void **state)
{
	(void)state;
	struct message *frames[SMALL_FRAMES];
	const struct snapshot_frame f = {.kind = SNAPSHOT_TABLE, .session = SMALL_SESSION + 1, .number = 1};
	weir_error err = {0};
	small_frames(frames);
	message_release(frames[SMALL_TABLE]);
	frames[SMALL_TABLE] = snapshot_make(&f, "a table", 7);
	assert_int_equal(read_in_order(frames, in_order, 2, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "it is of session 78, expected 77");
	release(frames, SMALL_FRAMES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(golden_bytes),
	    cmocka_unit_test(written_data_is_read_back),
	    cmocka_unit_test(the_end_knows_what_was_sent),
	    cmocka_unit_test(kinds_come_in_order),
	    cmocka_unit_test(another_session_is_refused),
	};
	return cmocka_run_group_tests_name("snapshot_format", tests, NULL, NULL);
}
