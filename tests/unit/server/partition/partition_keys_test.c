/* Coded keys in a partition: same effect as raw keys. Damaged codes are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "proto/frame/section_keys.h"
#include "tests/unit/server/partition/partition_fixture.h"

enum { ROWS = 1500 };
static const struct fixture_options momentum = {.optimizer = WEIR_OPT_MOMENTUM};

struct sent {
	uint64_t keys[ROWS];
	float values[ROWS * ROW_WIDTH];
	struct rows rows;
};

/* Draws rows with keys that can be coded. */
static void draw(struct prng *r, uint16_t table, uint64_t gap_max, struct sent *s)
{
	uint64_t key = prng_below(r, 100);
	for (uint32_t i = 0; i < ROWS; i++, key += 1 + prng_below(r, gap_max))
		s->keys[i] = key;
	for (uint32_t i = 0; i < ROWS * ROW_WIDTH; i++)
		s->values[i] = prng_normal(r);
	s->rows = (struct rows){.table = table,
	                        .width = ROW_WIDTH,
	                        .count = ROWS,
	                        .keys = s->keys,
	                        .values = s->values,
	                        .values_count = ROWS * ROW_WIDTH};
}

static struct section first_section(const struct built *b)
{
	struct cursor body = b->body;
	struct section s;
	assert_int_equal(frame_next_section(&body, &s, NULL), WEIR_OK);
	return s;
}

/* Pushes a record to both partitions, with coded keys to the first and raw keys to the second. */
static weir_status push_both(struct fixture f[2], const struct record *r, struct sent *s)
{
	weir_status status[2];
	for (uint32_t i = 0; i < 2; i++) {
		s->rows.raw = i == 1;
		struct built b = records_build(r, &s->rows, 1);
		assert_int_equal(first_section(&b).index_codec, i == 0 ? INDEX_ELIAS_FANO : INDEX_RAW);
		status[i] = fixture_submit(&f[i], &b);
		records_free(&b);
	}
	assert_int_equal(status[0], status[1]);
	return status[0];
}

static void coded_keys_do_what_raw_ones_do(void **state)
{
	(void)state;
	static struct sent s;
	struct fixture f[2];
	struct prng r;
	prng_seed(&r, 1);
	for (uint32_t i = 0; i < 2; i++)
		fixture_open(&f[i], &momentum);
	for (uint32_t step = 1; step <= 6; step++) {
		const uint64_t gap = step % 2 ? 3 : 1ull << 40;
		draw(&r, ASYNC_ROWS, gap, &s);
		const struct record push = push_record(1, 1, step, 0, 0);
		assert_int_equal(push_both(f, &push, &s), WEIR_OK);
		draw(&r, SYNC_ROWS, gap, &s);
		const struct record waits = push_record(1, 1, step, 1, step);
		assert_int_equal(push_both(f, &waits, &s), WEIR_OK);
		draw(&r, ASYNC_ROWS, gap, &s);
		assert_int_equal(push_both(f, &(struct record){.kind = RECORD_ASSIGN}, &s), WEIR_OK);
		const uint32_t ids[1][3] = {{1, 1, step}};
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(fixture_close_step(&f[i], step, ids, 1, 0), WEIR_OK);
	}
	assert_true(partition_get_counters(f[0].p)->rows > 2 * ROWS);
	assert_int_equal(fixture_hash(&f[0]), fixture_hash(&f[1]));
	fixture_close(&f[0]);
	fixture_close(&f[1]);
}

/* Pulls the values of ROWS rows. */
static void pull(struct fixture *f, const struct sent *s, bool raw, float *out)
{
	const struct rows asked = {.table = ASYNC_ROWS, .width = ROW_WIDTH, .count = ROWS, .keys = s->keys, .raw = raw};
	struct built b = records_build(&(struct record){.kind = RECORD_PULL}, &asked, 1);
	assert_int_equal(first_section(&b).index_codec, raw ? INDEX_RAW : INDEX_ELIAS_FANO);
	struct record_writer *w = record_writer_create();
	partition_pull(f->p, &b.record, &b.body, w);
	struct message *m = records_finish(w);
	record_writer_destroy(w);
	struct cursor c = cursor_at(m), body;
	struct frame_header h;
	struct record reply;
	struct section answer;
	assert_int_equal(frame_open(&c, &h, NULL), WEIR_OK);
	assert_int_equal(frame_next_record(&c, true, &reply, &body, NULL), WEIR_OK);
	assert_int_equal(reply.status, WEIR_OK);
	assert_int_equal(frame_next_section(&body, &answer, NULL), WEIR_OK);
	assert_int_equal(answer.rows, ROWS);
	assert_int_equal(cursor_read(&answer.data, out, ROWS * ROW_WIDTH * sizeof *out), WEIR_OK);
	message_release(m);
	records_free(&b);
}

static void a_pull_of_coded_keys_answers_in_their_order(void **state)
{
	(void)state;
	static struct sent s;
	static float coded[ROWS * ROW_WIDTH], raw[ROWS * ROW_WIDTH];
	struct fixture f;
	struct prng r;
	prng_seed(&r, 2);
	fixture_open(&f, &momentum);
	draw(&r, ASYNC_ROWS, 1000, &s);
	assert_int_equal(fixture_push(&f, &(struct record){.kind = RECORD_ASSIGN}, &s.rows, 1), WEIR_OK);
	pull(&f, &s, false, coded);
	pull(&f, &s, true, raw);
	assert_memory_equal(coded, s.values, sizeof coded);
	assert_memory_equal(raw, s.values, sizeof raw);
	fixture_close(&f);
}

/* Submits a record of 8 rows with these key bytes. */
static weir_status submit_index(struct fixture *f, const struct record *r, uint16_t table, uint8_t codec, const void *index,
                                uint32_t bytes)
{
	static const float zeros[8 * ROW_WIDTH];
	const struct section s = {.table = table,
	                          .codec = WEIR_CODEC_FP32,
	                          .index_codec = codec,
	                          .rows = 8,
	                          .width = table == ASYNC_DENSE ? WEIR_CHUNK : ROW_WIDTH,
	                          .index_bytes = bytes,
	                          .data_bytes = sizeof zeros};
	struct record_writer *w = record_writer_create();
	record_writer_begin(w, r);
	assert_int_equal(record_writer_add(w, &s, index, zeros, false), WEIR_OK);
	assert_int_equal(record_writer_end(w), WEIR_OK);
	struct built b = {.frame = records_finish(w)};
	struct cursor c = cursor_at(b.frame);
	struct frame_header h;
	record_writer_destroy(w);
	assert_int_equal(frame_open(&c, &h, NULL), WEIR_OK);
	assert_int_equal(frame_next_record(&c, true, &b.record, &b.body, NULL), WEIR_OK);
	weir_status status = fixture_submit(f, &b);
	records_free(&b);
	return status;
}

static void damaged_keys_are_refused(void **state)
{
	(void)state;
	static const uint8_t good[] = {0x11, 103, 43, 0x84, 0xe3, 0, 0, 0x6b, 0x05, 0x02, 0};
	struct fixture f;
	uint32_t refused = 0;
	fixture_open(&f, &momentum);
	for (uint32_t bit = 0; bit < 8 * sizeof good; bit++) {
		uint8_t bad[sizeof good];
		const struct record push = push_record(1, 1, bit, 0, 0);
		const uint64_t applied = partition_applied(f.p);
		memcpy(bad, good, sizeof bad);
		bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
		const weir_status status = submit_index(&f, &push, ASYNC_ROWS, INDEX_ELIAS_FANO, bad, sizeof bad);
		assert_true(status == WEIR_OK || status == WEIR_E_CORRUPT);
		assert_int_equal(partition_applied(f.p), applied + (status == WEIR_OK));
		if (status) {
			assert_non_null(strstr(f.text, "table async_rows: section index: 11 bytes are not 8 coded keys"));
			refused++;
		}
	}
	/* Some changes give valid keys, such as another base. */
	assert_in_range(refused, 50, 8 * sizeof good - 1);
	const struct record push = push_record(2, 1, 0, 0, 0);
	assert_int_equal(submit_index(&f, &push, ASYNC_ROWS, INDEX_ELIAS_FANO, good, sizeof good - 1), WEIR_E_CORRUPT);
	assert_int_equal(submit_index(&f, &push, ASYNC_ROWS, INDEX_DELTA, good, sizeof good), WEIR_E_UNSUPPORTED);
	assert_int_equal(submit_index(&f, &push, ASYNC_ROWS, INDEX_ALL, NULL, 0), WEIR_E_UNSUPPORTED);
	assert_int_equal(submit_index(&f, &push, ASYNC_DENSE, INDEX_ELIAS_FANO, good, sizeof good), WEIR_E_NOT_FOUND);
	assert_int_equal(submit_index(&f, &push, ASYNC_ROWS, INDEX_ELIAS_FANO, good, sizeof good), WEIR_OK);
	fixture_close(&f);
}

/* --- Duplicate keys */

static struct rows rows_of(uint16_t table, const uint64_t *keys, uint32_t count)
{
	static const float zeros[ROWS * ROW_WIDTH];
	return (struct rows){.table = table,
	                     .width = ROW_WIDTH,
	                     .count = count,
	                     .keys = keys,
	                     .values = zeros,
	                     .values_count = (size_t)count * ROW_WIDTH};
}

/* The error names the table and the key. The record changes nothing. */
static void refused(struct fixture *f, const struct record *r, const struct rows *rows, uint32_t sections, uint64_t key,
                    const char *says)
{
	char expected[128];
	const uint64_t applied = partition_applied(f->p);
	assert_int_equal(fixture_push(f, r, rows, sections), WEIR_E_INVALID);
	snprintf(expected, sizeof expected, "table async_rows: key %llu is there twice: %s", (unsigned long long)key, says);
	assert_non_null(strstr(f->text, expected));
	assert_int_equal(partition_applied(f->p), applied);
}

static void a_key_that_comes_twice_is_refused_by_name(void **state)
{
	(void)state;
	static uint64_t keys[ROWS];
	static const char add[] = "add its gradients up, and push them once";
	static const uint32_t places[][2] = {{0, 1}, {511, 512}, {0, ROWS - 1}, {600, 1400}};
	struct fixture f;
	fixture_open(&f, &momentum);
	const struct record first = push_record(1, 1, 0, 0, 0), second = push_record(1, 1, 1, 0, 0);
	/* With rising keys apart from the duplicate, and with unsorted keys. */
	for (uint32_t order = 0; order < 2; order++)
		for (uint32_t i = 0; i < sizeof places / sizeof *places; i++) {
			for (uint32_t k = 0; k < ROWS; k++)
				keys[k] = order == 0 ? 1 + k : (k * 7919ull) % 100003;
			keys[places[i][1]] = keys[places[i][0]];
			const struct rows rows = rows_of(ASYNC_ROWS, keys, ROWS);
			refused(&f, &first, &rows, 1, keys[places[i][0]], add);
			refused(&f, &(struct record){.kind = RECORD_ASSIGN}, &rows, 1, keys[places[i][0]], "assign it once");
		}
	const uint64_t rising[] = {3, 5, 9}, mixed[] = {8, 3, 7}, distinct[] = {12, 0, 11, UINT64_MAX};
	const struct rows apart[] = {rows_of(ASYNC_ROWS, rising, 3), rows_of(ASYNC_ROWS, mixed, 3)};
	refused(&f, &first, apart, 2, 3, add);
	const struct rows well[] = {rows_of(ASYNC_ROWS, mixed, 3), rows_of(ASYNC_ROWS, distinct, 4)};
	assert_int_equal(fixture_push(&f, &first, well, 2), WEIR_OK);
	assert_int_equal(partition_get_counters(f.p)->rows, 7);
	for (uint32_t k = 0; k < ROWS; k++)
		keys[k] = (k * 7919ull) % 100003;
	const struct rows many = rows_of(ASYNC_ROWS, keys, ROWS);
	assert_int_equal(fixture_push(&f, &second, &many, 1), WEIR_OK);
	fixture_close(&f);
}

static void a_key_may_come_in_two_tables(void **state)
{
	(void)state;
	const uint64_t keys[] = {9, 2, 5};
	struct fixture f;
	fixture_open(&f, &momentum);
	const struct rows both[] = {rows_of(ASYNC_ROWS, keys, 3), rows_of(SYNC_ROWS, keys, 3)};
	assert_int_equal(fixture_push(&f, &(struct record){.kind = RECORD_ASSIGN}, both, 2), WEIR_OK);
	assert_int_equal(partition_get_counters(f.p)->rows, 6);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(coded_keys_do_what_raw_ones_do), cmocka_unit_test(a_pull_of_coded_keys_answers_in_their_order),
	    cmocka_unit_test(damaged_keys_are_refused),       cmocka_unit_test(a_key_that_comes_twice_is_refused_by_name),
	    cmocka_unit_test(a_key_may_come_in_two_tables),
	};
	return cmocka_run_group_tests_name("partition_keys", tests, NULL, NULL);
}
