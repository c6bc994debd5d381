/* Pulls of changes from a partition: who gets differences, who gets values, and which requests are
 * refused. */
#include <math.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "common/base/little_endian.h"
#include "kernels/codec.h"
#include "tests/unit/server/partition/partition_fixture.h"

enum { CODED = 7, CODED_ROWS = 8, CHUNKS = 3, LAST = 500, ELEMENTS = 2 * WEIR_CHUNK + LAST, WIDTH = 300 };

static void open_world(struct fixture *f, weir_codec codec)
{
	const weir_init_segment dense = {.elements = ELEMENTS, .kind = WEIR_INIT_CONSTANT, .a = 0.5f},
	                        row = {.elements = WIDTH, .kind = WEIR_INIT_ZERO};
	const weir_table_spec coded = {.name = "coded",
	                               .kind = WEIR_DENSE,
	                               .elements = ELEMENTS,
	                               .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                               .pull = {.codec = codec, .every = 1},
	                               .segments_count = 1,
	                               .segments = &dense};
	const weir_table_spec rows = {.name = "rows",
	                              .width = WIDTH,
	                              .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                              .pull = {.codec = WEIR_CODEC_INT8},
	                              .segments_count = 1,
	                              .segments = &row};
	weir_error err = {0};
	fixture_open(f, &(struct fixture_options){.optimizer = WEIR_OPT_SGD, .not_finite = PARTITION_ACCEPT});
	CHECK_OK(partition_add_table(f->p, CODED, &coded, &err), err);
	CHECK_OK(partition_add_table(f->p, CODED_ROWS, &rows, &err), err);
}

/* Pushes 1 to every element of chunk 0. */
static void push_chunk(struct fixture *f, uint32_t batch)
{
	static float minus_one[WEIR_CHUNK];
	const uint64_t chunk = 0;
	for (size_t i = 0; i < WEIR_CHUNK; i++)
		minus_one[i] = -1;
	const struct rows rows = {
	    .table = CODED, .width = WEIR_CHUNK, .count = 1, .keys = &chunk, .values = minus_one, .values_count = WEIR_CHUNK};
	const struct record r = push_record(1, 1, batch, 0, 0);
	assert_int_equal(fixture_push(f, &r, &rows, 1), WEIR_OK);
}

struct asked {
	uint16_t table;
	weir_codec codec;
	uint32_t width;
	uint64_t keys[8];
	uint64_t held[8][2]; /* origin, version */
	uint32_t count;
	uint32_t held_bytes;
};

/* A record of one section. The caller frees it. */
struct answer {
	struct message *whole;
	struct record record;
	struct section section;
};

static struct answer pull(struct fixture *f, const struct asked *a)
{
	uint8_t held[8 * PULL_HELD_BYTES];
	const struct record r = {.kind = RECORD_PULL, .request_id = 5};
	const struct section s = {.table = a->table,
	                          .codec = (uint8_t)a->codec,
	                          .index_codec = INDEX_RAW,
	                          .rows = a->count,
	                          .width = a->width,
	                          .index_bytes = a->count * 8,
	                          .data_bytes = a->held_bytes};
	struct answer out = {0};
	struct frame_header h;
	weir_error err = {0};
	for (uint32_t i = 0; i < a->count; i++) {
		put64(held + i * PULL_HELD_BYTES, a->held[i][0]);
		put64(held + i * PULL_HELD_BYTES + 8, a->held[i][1]);
	}
	struct record_writer *w = record_writer_create();
	record_writer_begin(w, &r);
	assert_int_equal(record_writer_add(w, &s, a->keys, held, false), WEIR_OK);
	assert_int_equal(record_writer_end(w), WEIR_OK);
	struct message *whole = records_finish(w), *asked = records_slice(whole, 61);
	struct cursor c = cursor_at(asked), body;
	struct record request;
	CHECK_OK(frame_open(&c, &h, &err), err);
	CHECK_OK(frame_next_record(&c, true, &request, &body, &err), err);
	partition_pull(f->p, &request, &body, w);
	out.whole = records_finish(w);
	c = cursor_at(out.whole);
	CHECK_OK(frame_open(&c, &h, &err), err);
	CHECK_OK(frame_next_record(&c, true, &out.record, &body, &err), err);
	CHECK_OK(frame_next_section(&body, &out.section, &err), err);
	message_release(whole);
	message_release(asked);
	record_writer_destroy(w);
	return out;
}

static struct asked of_chunks(uint32_t count)
{
	struct asked a = {
	    .table = CODED, .codec = WEIR_CODEC_INT8, .width = WEIR_CHUNK, .count = count, .held_bytes = count * PULL_HELD_BYTES};
	for (uint32_t i = 0; i < count; i++)
		a.keys[i] = i;
	return a;
}

struct part {
	uint64_t version;
	uint32_t bytes, differences;
};

static struct part next_part(struct answer *a, float *first)
{
	uint8_t header[DIFFERENCES_HEADER_BYTES], some[4] = {0};
	assert_int_equal(cursor_read(&a->section.data, header, sizeof header), WEIR_OK);
	const struct part p = {get64(header), get32(header + 8), get32(header + 12)};
	struct cursor body = cursor_take(&a->section.data, p.bytes);
	if (p.bytes)
		assert_int_equal(cursor_read(&body, some, sizeof some), WEIR_OK);
	memcpy(first, some, sizeof some);
	return p;
}

static void a_client_with_a_version_gets_the_difference(void **state)
{
	(void)state;
	struct fixture f;
	float first;
	open_world(&f, WEIR_CODEC_INT8);
	struct asked q = of_chunks(CHUNKS);
	struct answer a = pull(&f, &q);
	assert_int_equal(a.record.status, WEIR_OK);
	assert_int_equal(a.section.codec, WEIR_CODEC_INT8);
	assert_int_equal(a.section.rows, CHUNKS);
	const uint64_t origin = a.section.aux;
	assert_true(origin != 0);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		const struct part p = next_part(&a, &first);
		assert_int_equal(p.version, 1);
		assert_int_equal(p.differences, 0);
		assert_int_equal(p.bytes, (i == CHUNKS - 1 ? LAST : WEIR_CHUNK) * sizeof(float));
		assert_true(first == 0.5f);
		q.held[i][0] = origin;
		q.held[i][1] = 1;
	}
	assert_int_equal(a.section.data.left, 0);
	message_release(a.whole);
	push_chunk(&f, 0);
	a = pull(&f, &q);
	assert_int_equal(a.section.aux, origin);
	struct part p = next_part(&a, &first);
	assert_int_equal(p.version, 2);
	assert_int_equal(p.differences, 1);
	assert_int_equal(p.bytes, DIFFERENCE_LENGTH_BYTES + codec_bytes(WEIR_CODEC_INT8, WEIR_CHUNK));
	for (uint32_t i = 1; i < CHUNKS; i++) {
		p = next_part(&a, &first);
		assert_int_equal(p.version, 1);
		assert_int_equal(p.bytes, 0);
	}
	message_release(a.whole);
	q.held[0][0] = origin + 1; /* of a delta base that is gone */
	a = pull(&f, &q);
	p = next_part(&a, &first);
	assert_int_equal(p.version, 2);
	assert_int_equal(p.bytes, WEIR_CHUNK * sizeof(float));
	message_release(a.whole);
	const struct partition_table_counters *c = partition_table_get_counters(f.p, CODED);
	const uint64_t plain = 3 * (SECTION_HEADER_BYTES + CHUNKS * 8 + ELEMENTS * sizeof(float)),
	               asked = 3 * CHUNKS * PULL_HELD_BYTES;
	assert_int_equal(c->pull_plain_bytes, plain);
	assert_int_equal(c->pull_bytes, 3 * (SECTION_HEADER_BYTES + CHUNKS * 8 + CHUNKS * DIFFERENCES_HEADER_BYTES) + asked +
	                                    ELEMENTS * sizeof(float) + WEIR_CHUNK * sizeof(float) + DIFFERENCE_LENGTH_BYTES +
	                                    codec_bytes(WEIR_CODEC_INT8, WEIR_CHUNK));
	fixture_close(&f);
}

static void a_request_for_values_gets_values(void **state)
{
	(void)state;
	struct fixture f;
	float value;
	open_world(&f, WEIR_CODEC_INT8);
	struct asked q = of_chunks(1);
	struct answer a = pull(&f, &q); /* now a reader holds these values */
	message_release(a.whole);
	push_chunk(&f, 0);
	q.codec = WEIR_CODEC_FP32;
	q.held_bytes = 0;
	a = pull(&f, &q);
	assert_int_equal(a.section.codec, WEIR_CODEC_FP32);
	assert_int_equal(a.section.aux, 0);
	assert_int_equal(a.section.data_bytes, WEIR_CHUNK * sizeof(float));
	assert_int_equal(cursor_read(&a.section.data, &value, sizeof value), WEIR_OK);
	assert_true(value == 1.5f);
	message_release(a.whole);
	fixture_close(&f);
}

/* The version made for the second request does not change the plan for the first. */
static void a_chunk_that_is_asked_for_twice_is_answered_twice(void **state)
{
	(void)state;
	struct fixture f;
	float first;
	open_world(&f, WEIR_CODEC_INT8);
	struct asked q = of_chunks(4);
	memset(q.keys, 0, sizeof q.keys);
	struct answer a = pull(&f, &q);
	const uint64_t origin = a.section.aux;
	message_release(a.whole);
	push_chunk(&f, 0);
	for (uint32_t round = 1; round < 4; round++) {
		for (uint32_t i = 0; i < q.count; i++) {
			q.held[i][0] = origin;
			q.held[i][1] = i % 2 ? round : 1;
		}
		a = pull(&f, &q);
		assert_int_equal(a.record.status, WEIR_OK);
		for (uint32_t i = 0; i < q.count; i++)
			assert_true(next_part(&a, &first).version > round);
		assert_int_equal(a.section.data.left, 0);
		message_release(a.whole);
		push_chunk(&f, round);
	}
	fixture_close(&f);
}

static void refused(struct fixture *f, const struct asked *q, weir_status status, const char *why)
{
	char text[256] = "";
	struct answer a = pull(f, q);
	assert_int_equal(a.record.status, status);
	assert_true(a.section.data_bytes < sizeof text);
	assert_int_equal(cursor_read(&a.section.data, text, a.section.data_bytes), WEIR_OK);
	CHECK_CONTAINS(text, why);
	message_release(a.whole);
}

static void wrong_requests_are_refused(void **state)
{
	(void)state;
	struct fixture f;
	open_world(&f, WEIR_CODEC_INT8);
	struct asked q = of_chunks(2);
	q.held_bytes = PULL_HELD_BYTES;
	refused(&f, &q, WEIR_E_INVALID, "16 bytes say what is held of 2 rows, expected 32");
	q.held_bytes = 0;
	refused(&f, &q, WEIR_E_INVALID, "0 bytes say what is held");
	q = of_chunks(2);
	q.codec = WEIR_CODEC_FP32;
	refused(&f, &q, WEIR_E_INVALID, "expected 0");
	q.codec = WEIR_CODEC_TOPK;
	refused(&f, &q, WEIR_E_UNSUPPORTED, "its pulls are coded as int8 or fp32, asked was codec 8");
	q = of_chunks(1);
	q.keys[0] = CHUNKS;
	refused(&f, &q, WEIR_E_NOT_FOUND, "row 3 does not live");
	fixture_close(&f);
}

static void a_replica_that_is_not_primary_sends_values(void **state)
{
	(void)state;
	struct fixture f;
	float first;
	open_world(&f, WEIR_CODEC_INT8);
	struct asked q = of_chunks(1);
	struct answer a = pull(&f, &q);
	const uint64_t origin = a.section.aux;
	message_release(a.whole);
	partition_step_down(f.p);
	a = pull(&f, &q);
	assert_int_equal(a.section.codec, WEIR_CODEC_FP32);
	assert_int_equal(a.section.data_bytes, WEIR_CHUNK * sizeof(float));
	message_release(a.whole);
	partition_serve(f.p); /* primary again: the versions from before are void */
	q.held[0][0] = origin;
	q.held[0][1] = 1;
	a = pull(&f, &q);
	assert_int_equal(a.section.codec, WEIR_CODEC_INT8);
	assert_true(a.section.aux != origin);
	const struct part p = next_part(&a, &first);
	assert_int_equal(p.bytes, WEIR_CHUNK * sizeof(float));
	message_release(a.whole);
	fixture_close(&f);
}

static void rows_come_as_int8(void **state)
{
	(void)state;
	enum { ROWS = 3 };
	struct fixture f;
	const uint64_t keys[ROWS] = {4, 9, 12};
	float values[ROWS * WIDTH], got[WIDTH];
	uint8_t coded[2 * WIDTH];
	const size_t row_bytes = codec_bytes(WEIR_CODEC_INT8, WIDTH);
	open_world(&f, WEIR_CODEC_INT8);
	for (uint32_t i = 0; i < ROWS * WIDTH; i++)
		values[i] = (float)((int)i % 200 - 100);
	values[WIDTH + 5] = NAN;
	const struct rows rows = {
	    .table = CODED_ROWS, .width = WIDTH, .count = ROWS, .keys = keys, .values = values, .values_count = ROWS * WIDTH};
	const struct record r = push_record(1, 1, 0, 0, 0);
	assert_int_equal(fixture_push(&f, &r, &rows, 1), WEIR_OK);
	struct asked q = {.table = CODED_ROWS, .codec = WEIR_CODEC_INT8, .width = WIDTH, .count = ROWS};
	memcpy(q.keys, keys, sizeof keys);
	struct answer a = pull(&f, &q);
	assert_int_equal(a.section.codec, WEIR_CODEC_INT8);
	assert_int_equal(a.section.data_bytes, ROWS * row_bytes);
	for (uint32_t i = 0; i < ROWS; i++) {
		assert_int_equal(cursor_read(&a.section.data, coded, row_bytes), WEIR_OK);
		codec_decode(&(struct coding){.codec = WEIR_CODEC_INT8}, coded, WIDTH, got);
		for (uint32_t e = 0; e < WIDTH; e++)
			if (i == 1 ? !isnan(got[e]) : fabsf(got[e] + values[i * WIDTH + e]) > 0.5f)
				fail_msg("row %u, element %u: %g, expected %g", i, e, (double)got[e], (double)-values[i * WIDTH + e]);
	}
	message_release(a.whole);
	q.codec = WEIR_CODEC_FP32;
	a = pull(&f, &q);
	assert_int_equal(a.section.data_bytes, ROWS * WIDTH * sizeof(float));
	assert_int_equal(cursor_skip(&a.section.data, 2 * WIDTH * sizeof(float)), WEIR_OK);
	assert_int_equal(cursor_read(&a.section.data, got, sizeof got), WEIR_OK);
	for (uint32_t e = 0; e < WIDTH; e++)
		assert_true(got[e] == -values[2 * WIDTH + e]);
	message_release(a.whole);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_client_with_a_version_gets_the_difference),       cmocka_unit_test(a_request_for_values_gets_values),
	    cmocka_unit_test(a_chunk_that_is_asked_for_twice_is_answered_twice), cmocka_unit_test(wrong_requests_are_refused),
	    cmocka_unit_test(a_replica_that_is_not_primary_sends_values),        cmocka_unit_test(rows_come_as_int8),
	};
	return cmocka_run_group_tests_name("partition_differences", tests, NULL, NULL);
}
