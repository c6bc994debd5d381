/* The bulk frame: golden bytes, round trips through any cut into spans, and every kind of
 * damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/crc32c.h"
#include "proto/frame/frame.h"
#include "tests/unit/proto/golden_frames.h"
#include "tests/unit/proto/pieces.h"

/* A hash of everything in a frame: equal frames have equal hashes. Stops at the first failure. */
static weir_status parse(const struct message *m, uint32_t *digest, weir_error *err)
{
	struct cursor c = cursor_at(m);
	struct frame_header h;
	weir_status status = frame_open(&c, &h, err);
	*digest = 0;
	if (status)
		return status;
	*digest = crc32c(crc32c(0, &h.records, sizeof h.records), &h.generation, sizeof h.generation);
	for (uint32_t i = 0; i < h.records; i++) {
		struct record r;
		struct cursor body;
		if ((status = frame_next_record(&c, true, &r, &body, err)))
			return status;
		*digest = crc32c(*digest, &r.request_id, sizeof r.request_id);
		for (uint32_t j = 0; j < r.sections; j++) {
			struct section s;
			if ((status = frame_next_section(&body, &s, err)))
				return status;
			*digest = crc32c(*digest, &s.rows, sizeof s.rows);
			*digest = cursor_crc32c(&s.index, s.index.left, *digest);
			*digest = cursor_crc32c(&s.data, s.data.left, *digest);
		}
		assert_int_equal(body.left, 0);
	}
	if (c.left)
		return weir_fail(err, WEIR_E_CORRUPT, "bytes behind the last record");
	return WEIR_OK;
}

static void golden_bytes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < GOLDEN_FRAMES; i++) {
		struct message *m = golden_build(i);
		uint8_t *bytes = pieces_join(m), *expected;
		size_t expected_bytes = golden_read(i, &expected);
		assert_int_equal(m->bytes, expected_bytes);
		assert_memory_equal(bytes, expected, expected_bytes);
		weir_error err = {0};
		uint32_t digest;
		assert_int_equal(parse(m, &digest, &err), WEIR_OK);
		free(bytes);
		free(expected);
		message_release(m);
	}
}

static void push_fields_come_back(void **state)
{
	(void)state;
	struct message *m = golden_build(0);
	struct cursor c = cursor_at(m), body;
	struct frame_header h;
	struct record r;
	struct section s;
	weir_error err = {0};
	assert_int_equal(frame_open(&c, &h, &err), WEIR_OK);
	assert_int_equal(h.records, 1);
	assert_int_equal(h.generation, 3);
	assert_int_equal(h.uuid[15], 0x5f);
	assert_int_equal(frame_next_record(&c, true, &r, &body, &err), WEIR_OK);
	assert_int_equal(r.kind, RECORD_PUSH);
	assert_int_equal(r.partition, 7);
	assert_int_equal(r.sections, 2);
	assert_int_equal(r.part, 1);
	assert_int_equal(r.request_id, 0x1122334455667788);
	assert_int_equal(r.pass, 1);
	assert_int_equal(r.unit, 2);
	assert_int_equal(r.attempt, 3);
	assert_int_equal(r.batch, 4);
	assert_int_equal(r.push.applied, 99);
	assert_int_equal(r.push.step, 5);
	assert_int_equal(frame_next_section(&body, &s, &err), WEIR_OK);
	assert_int_equal(s.table, 2);
	assert_int_equal(s.codec, WEIR_CODEC_FP32);
	assert_int_equal(s.rows, 3);
	assert_int_equal(s.width, 3);
	assert_int_equal(s.index.left, 24);
	assert_int_equal(s.data.left, 36);
	float values[9];
	assert_int_equal(cursor_read(&s.data, values, sizeof values), WEIR_OK);
	assert_true(values[0] == 0.5f && values[8] == 4.5f);
	assert_int_equal(frame_next_section(&body, &s, &err), WEIR_OK);
	assert_int_equal(s.codec, WEIR_CODEC_BF16);
	assert_int_equal(s.data.left, 6);
	assert_int_equal(s.aux, 0xaabb);
	assert_int_equal(c.left, 0);
	message_release(m);
}

static void any_cut_parses_alike(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < GOLDEN_FRAMES; i++) {
		struct message *m = golden_build(i);
		uint8_t *bytes = pieces_join(m);
		uint32_t whole, digest;
		assert_int_equal(parse(m, &whole, NULL), WEIR_OK);
		for (size_t cut = 1; cut <= 100; cut++) {
			struct message *p = pieces_of(bytes, m->bytes, cut);
			weir_error err = {0};
			assert_int_equal(parse(p, &digest, &err), WEIR_OK);
			assert_int_equal(digest, whole);
			message_release(p);
		}
		free(bytes);
		message_release(m);
	}
}

static void truncation_at_every_byte(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < GOLDEN_FRAMES; i++) {
		struct message *m = golden_build(i);
		uint8_t *bytes = pieces_join(m);
		for (size_t n = 0; n < m->bytes; n++) {
			struct message *p = pieces_of(bytes, n, 33);
			weir_error err = {0};
			uint32_t digest;
			assert_int_equal(parse(p, &digest, &err), WEIR_E_CORRUPT);
			assert_true(strlen(err.text) > 0);
			message_release(p);
		}
		free(bytes);
		message_release(m);
	}
}

static void corruption_of_every_byte(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < GOLDEN_FRAMES; i++) {
		struct message *m = golden_build(i);
		uint8_t *bytes = pieces_join(m);
		for (size_t n = 0; n < m->bytes; n++)
			for (unsigned bit = 0; bit < 8; bit++) {
				bytes[n] ^= (uint8_t)(1u << bit);
				struct message *p = pieces_of(bytes, m->bytes, 64);
				weir_error err = {0};
				uint32_t digest;
				weir_status status = parse(p, &digest, &err);
				assert_true(status == WEIR_E_CORRUPT || status == WEIR_E_VERSION || status == WEIR_E_LIMIT);
				assert_true(strlen(err.text) > 0);
				message_release(p);
				bytes[n] ^= (uint8_t)(1u << bit);
			}
		free(bytes);
		message_release(m);
	}
}

/* Replaces 32-bit words of the record or section headers with hostile ones, with and without a
 * corrected crc. */
static void hostile_sizes(void **state)
{
	(void)state;
	static const uint32_t hostile[] = {0, 1, 7, 63, 64, 65, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff};
	struct message *m = golden_build(0);
	for (size_t at = FRAME_HEADER_BYTES; at + 4 <= m->bytes; at += 4)
		for (size_t k = 0; k < sizeof hostile / sizeof *hostile; k++) {
			uint8_t *bytes = pieces_join(m);
			memcpy(bytes + at, &hostile[k], 4);
			if (at != FRAME_HEADER_BYTES + 4) {
				uint32_t zero = 0, crc;
				memcpy(bytes + FRAME_HEADER_BYTES + 4, &zero, 4);
				crc = crc32c(0, bytes + FRAME_HEADER_BYTES, m->bytes - FRAME_HEADER_BYTES);
				memcpy(bytes + FRAME_HEADER_BYTES + 4, &crc, 4);
			}
			struct message *p = pieces_of(bytes, m->bytes, 40);
			weir_error err = {0};
			uint32_t digest;
			weir_status status = parse(p, &digest, &err);
			assert_true(status == WEIR_OK || strlen(err.text) > 0);
			/* Any wrong record size or stream size must be refused. */
			size_t record = FRAME_HEADER_BYTES, section = record + RECORD_HEADER_BYTES;
			if (at == record || at == section + 16 || at == section + 20)
				assert_int_not_equal(status, WEIR_OK);
			message_release(p);
			free(bytes);
		}
	message_release(m);
}

static void bad_crc_leaves_the_next_record_readable(void **state)
{
	(void)state;
	struct message *m = golden_build(GOLDEN_REPLIES);
	uint8_t *bytes = pieces_join(m);
	bytes[FRAME_HEADER_BYTES + 40] ^= 1; /* field a of the first record */
	struct message *p = pieces_of(bytes, m->bytes, 64);
	struct cursor c = cursor_at(p), body;
	struct frame_header h;
	struct record r;
	weir_error err = {0};
	assert_int_equal(frame_open(&c, &h, &err), WEIR_OK);
	assert_true(h.records > 1);
	assert_int_equal(frame_next_record(&c, true, &r, &body, &err), WEIR_E_CORRUPT);
	assert_non_null(strstr(err.text, "crc"));
	assert_int_not_equal(r.bytes, 0);
	for (uint32_t i = 1; i < h.records; i++)
		assert_int_equal(frame_next_record(&c, true, &r, &body, &err), WEIR_OK);
	assert_int_equal(c.left, 0);
	message_release(p);
	message_release(m);
	free(bytes);
}

static uint32_t released;
static void count_release(struct message *m)
{
	assert_ptr_equal(m->owner, &released);
	released++;
}

static void writer_borrows_and_releases(void **state)
{
	(void)state;
	static float values[65536];
	for (uint32_t i = 0; i < 65536; i++)
		values[i] = (float)i;
	struct record_writer *w = record_writer_create();
	uint64_t keys[1] = {5};
	struct section s = {.table = 1, .rows = 1, .width = 65536, .index_bytes = 8, .data_bytes = sizeof values};
	for (uint32_t round = 0; round < 3; round++) {
		struct record r = {.kind = RECORD_PUSH, .request_id = round};
		record_writer_begin(w, &r);
		assert_int_equal(record_writer_add(w, &s, keys, values, true), WEIR_OK);
		assert_int_equal(record_writer_end(w), WEIR_OK);
		uint8_t uuid[16] = {0};
		released = 0;
		struct message *m = record_writer_finish(w, uuid, 1, count_release, &released);
		assert_non_null(m);
		assert_int_equal(m->count, 2);
		assert_ptr_equal(m->spans[1].data, values);
		uint32_t digest;
		weir_error err = {0};
		assert_int_equal(parse(m, &digest, &err), WEIR_OK);
		message_release(m);
		assert_int_equal(released, 1);
		assert_int_equal(record_writer_bytes(w), 0);
	}
	record_writer_destroy(w);
}

/* The writer reads the data for the checksum, or takes a given one: equal bytes, for long, odd, and
 * too short runs to borrow. */
static void writer_lend_equals_borrow(void **state)
{
	(void)state;
	static const uint32_t lengths[] = {4096, 0, 4092, 12, 8 * 1024, 513};
	static uint8_t data[8 * 1024];
	uint8_t uuid[16] = {1};
	uint64_t key = 7;
	for (uint32_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	struct record r = {.kind = RECORD_PUSH};
	struct record_writer *w = record_writer_create();
	struct message *m[2];
	for (int lend = 0; lend < 2; lend++) {
		for (int i = 0; i < 3; i++) {
			record_writer_begin(w, &r);
			for (uint32_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
				struct section s = {.table = 1, .rows = 1, .width = 65536, .index_bytes = 8, .data_bytes = lengths[j]};
				assert_int_equal(lend ? record_writer_lend(w, &s, &key, data, crc32c(0, data, lengths[j]))
				                      : record_writer_add(w, &s, &key, data, true),
				                 WEIR_OK);
			}
			assert_int_equal(record_writer_end(w), WEIR_OK);
		}
		m[lend] = record_writer_finish(w, uuid, 2, NULL, NULL);
	}
	uint8_t *a = pieces_join(m[0]), *b = pieces_join(m[1]);
	assert_int_equal(m[0]->bytes, m[1]->bytes);
	assert_memory_equal(a, b, m[0]->bytes);
	free(a);
	free(b);
	message_release(m[0]);
	message_release(m[1]);
	record_writer_destroy(w);
}

/* A section of a copied head and borrowed runs has the bytes of the same section in one piece. The
 * writer reads only the bytes before crc_from. */
static void writer_lend_pieces_equals_add(void **state)
{
	(void)state;
	enum { HEAD = 100, CRC_FROM = 60 };
	static const size_t tails[] = {5000, 0, 36, 8 * 1024 - HEAD}, cuts[] = {20000, 512, 511, 7};
	static uint8_t data[8 * 1024];
	uint8_t uuid[16] = {1};
	for (uint32_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	struct record r = {.kind = RECORD_PUSH};
	struct record_writer *w = record_writer_create();
	for (uint32_t cut = 0; cut < 4; cut++) {
		struct message *m[2], *tail[4];
		for (int pieces = 0; pieces < 2; pieces++) {
			record_writer_begin(w, &r);
			for (uint32_t i = 0; i < 4; i++) {
				struct section s = {.table = 1, .index_codec = INDEX_ALL, .data_bytes = (uint32_t)(HEAD + tails[i] + 7) / 8 * 8};
				uint8_t whole[sizeof data] = {0};
				memcpy(whole, data, HEAD + tails[i]);
				if (!pieces) {
					assert_int_equal(record_writer_add(w, &s, NULL, whole, false), WEIR_OK);
					continue;
				}
				tail[i] = pieces_of(data + HEAD, tails[i], cuts[cut]);
				const uint32_t crc = crc32c(0, whole + CRC_FROM, s.data_bytes - CRC_FROM);
				assert_int_equal(record_writer_lend_pieces(w, &s, data, HEAD, cursor_at(tail[i]), CRC_FROM, crc), WEIR_OK);
			}
			assert_int_equal(record_writer_end(w), WEIR_OK);
			m[pieces] = record_writer_finish(w, uuid, 2, NULL, NULL);
		}
		uint8_t *a = pieces_join(m[0]), *b = pieces_join(m[1]);
		assert_int_equal(m[0]->bytes, m[1]->bytes);
		assert_memory_equal(a, b, m[0]->bytes);
		free(a);
		free(b);
		message_release(m[0]);
		message_release(m[1]);
		for (uint32_t i = 0; i < 4; i++)
			message_release(tail[i]);
	}
	record_writer_destroy(w);
}

/* The writer uses the given checksum: the reader detects a wrong one. */
static void writer_trusts_what_is_lent(void **state)
{
	(void)state;
	static uint8_t data[4096];
	uint8_t uuid[16] = {0};
	struct section s = {.rows = 1, .width = 1024, .data_bytes = sizeof data};
	struct record r = {.kind = RECORD_PUSH};
	struct record_writer *w = record_writer_create();
	record_writer_begin(w, &r);
	assert_int_equal(record_writer_lend(w, &s, NULL, data, crc32c(0, data, sizeof data) ^ 1), WEIR_OK);
	assert_int_equal(record_writer_end(w), WEIR_OK);
	struct message *m = record_writer_finish(w, uuid, 0, NULL, NULL);
	uint32_t digest;
	weir_error err = {0};
	assert_int_equal(parse(m, &digest, &err), WEIR_E_CORRUPT);
	message_release(m);
	record_writer_destroy(w);
}

static void writer_reserve_equals_add(void **state)
{
	(void)state;
	uint8_t uuid[16] = {1}, data[13], *index_place, *data_place;
	uint64_t keys[3] = {1, 2, 3};
	memset(data, 0xab, sizeof data);
	struct section s = {.table = 4, .codec = WEIR_CODEC_INT8, .rows = 3, .width = 4, .index_bytes = 24, .data_bytes = 13};
	struct record r = {.kind = RECORD_ASSIGN};
	struct record_writer *w = record_writer_create();
	struct message *m[2];
	for (int reserve = 0; reserve < 2; reserve++) {
		for (int i = 0; i < 5; i++) {
			record_writer_begin(w, &r);
			if (reserve) {
				assert_int_equal(record_writer_reserve(w, &s, &index_place, &data_place), WEIR_OK);
				memcpy(index_place, keys, 24);
				memcpy(data_place, data, 13);
			} else {
				assert_int_equal(record_writer_add(w, &s, keys, data, false), WEIR_OK);
			}
			assert_int_equal(record_writer_end(w), WEIR_OK);
		}
		assert_int_equal(record_writer_records(w), 5);
		m[reserve] = record_writer_finish(w, uuid, 2, NULL, NULL);
	}
	uint8_t *a = pieces_join(m[0]), *b = pieces_join(m[1]);
	assert_int_equal(m[0]->bytes, m[1]->bytes);
	assert_int_equal(m[0]->count, 1);
	assert_memory_equal(a, b, m[0]->bytes);
	free(a);
	free(b);
	message_release(m[0]);
	message_release(m[1]);
	record_writer_destroy(w);
}

/* The bytes of record i of a frame, in one run. */
static uint8_t *record_bytes(const struct message *m, uint32_t i, size_t *bytes)
{
	struct cursor c = cursor_at(m), body;
	struct frame_header h;
	struct record r;
	assert_int_equal(frame_open(&c, &h, NULL), WEIR_OK);
	for (;; i--) {
		struct cursor at = c;
		assert_int_equal(frame_next_record(&c, true, &r, &body, NULL), WEIR_OK);
		if (i)
			continue;
		uint8_t *out = malloc(r.bytes);
		assert_int_equal(cursor_read(&at, out, r.bytes), WEIR_OK);
		*bytes = r.bytes;
		return out;
	}
}

/* A cut frame keeps any of its records, in any spans, and holds references to borrowed bytes. */
static void a_cut_frame_has_the_same_records(void **state)
{
	(void)state;
	static float values[4096];
	enum { RECORDS = 5 };
	const uint64_t keys[2] = {5, 6};
	const uint8_t uuid[16] = {9, 9};
	struct record_writer *w = record_writer_create();
	/* small records share a span; a large one's values have their own */
	for (uint32_t i = 0; i < RECORDS; i++) {
		const uint32_t bytes = i % 2 ? sizeof values : 8;
		struct section s = {.table = 1, .rows = 2, .width = 1, .index_bytes = 16, .data_bytes = bytes};
		record_writer_begin(w, &(struct record){.kind = RECORD_PUSH, .partition = (uint16_t)i, .request_id = i + 1});
		assert_int_equal(record_writer_add(w, &s, keys, values, true), WEIR_OK);
		assert_int_equal(record_writer_end(w), WEIR_OK);
	}
	released = 0;
	struct message *m = record_writer_finish(w, uuid, 3, count_release, &released);
	for (uint32_t chosen = 1; chosen < 1u << RECORDS; chosen++) {
		bool keep[RECORDS];
		for (uint32_t i = 0; i < RECORDS; i++)
			keep[i] = chosen >> i & 1;
		struct message *cut = frame_cut(m, keep);
		struct cursor c = cursor_at(cut);
		struct frame_header h;
		weir_error err = {0};
		assert_int_equal(frame_open(&c, &h, &err), WEIR_OK);
		assert_int_equal(h.records, __builtin_popcount(chosen));
		assert_int_equal(h.generation, 3);
		assert_memory_equal(h.uuid, uuid, 16);
		for (uint32_t i = 0, at = 0; i < RECORDS; i++) {
			size_t bytes, as;
			if (!keep[i])
				continue;
			uint8_t *was = record_bytes(m, i, &bytes), *is = record_bytes(cut, at++, &as);
			assert_int_equal(as, bytes);
			assert_memory_equal(is, was, bytes);
			free(was);
			free(is);
		}
		message_release(cut);
	}
	const bool last[RECORDS] = {[RECORDS - 1] = true};
	struct message *cut = frame_cut(m, last);
	message_release(m);
	assert_int_equal(released, 0);
	message_release(cut);
	assert_int_equal(released, 1);
	record_writer_destroy(w);
}

static void writer_refuses_and_recovers(void **state)
{
	(void)state;
	static uint8_t big[WEIR_MESSAGE_BYTES_MAX];
	uint8_t uuid[16] = {0};
	struct record_writer *w = record_writer_create();
	struct record r = {.kind = RECORD_PUSH_REPLY};
	struct section s = {.index_codec = INDEX_ALL, .data_bytes = sizeof big};
	record_writer_begin(w, &r);
	assert_int_equal(record_writer_end(w), WEIR_OK);
	size_t before = record_writer_bytes(w);
	record_writer_begin(w, &r);
	assert_int_equal(record_writer_add(w, &s, NULL, big, true), WEIR_E_LIMIT);
	assert_int_equal(record_writer_end(w), WEIR_E_LIMIT);
	assert_int_equal(record_writer_bytes(w), before);
	for (uint32_t i = 1; i < WEIR_FRAME_RECORDS_MAX; i++) {
		record_writer_begin(w, &r);
		assert_int_equal(record_writer_end(w), WEIR_OK);
	}
	record_writer_begin(w, &r);
	assert_int_equal(record_writer_end(w), WEIR_E_LIMIT);
	struct message *m = record_writer_finish(w, uuid, 0, NULL, NULL);
	weir_error err = {0};
	uint32_t digest;
	assert_int_equal(parse(m, &digest, &err), WEIR_OK);
	message_release(m);
	record_writer_destroy(w);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void identity_hashes_differ(void **state)
{
	(void)state;
	enum { N = 8 * 16 * 64 * 16 };
	uint64_t *h = malloc(N * sizeof *h);
	size_t n = 0;
	for (uint32_t pass = 0; pass < 8; pass++)
		for (uint32_t unit = 0; unit < 16; unit++)
			for (uint32_t batch = 0; batch < 64; batch++)
				for (uint32_t part = 0; part < 16; part++)
					h[n++] = frame_identity_hash(pass, unit, batch, part);
	assert_int_equal(n, N);
	qsort(h, n, sizeof *h, compare_u64);
	for (size_t i = 1; i < n; i++)
		assert_int_not_equal(h[i - 1], h[i]);
	free(h);
	assert_int_equal(frame_identity_hash(1, 2, 3, 4), frame_identity_hash(1, 2, 3, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(golden_bytes),
	    cmocka_unit_test(push_fields_come_back),
	    cmocka_unit_test(any_cut_parses_alike),
	    cmocka_unit_test(truncation_at_every_byte),
	    cmocka_unit_test(corruption_of_every_byte),
	    cmocka_unit_test(hostile_sizes),
	    cmocka_unit_test(bad_crc_leaves_the_next_record_readable),
	    cmocka_unit_test(writer_borrows_and_releases),
	    cmocka_unit_test(writer_lend_equals_borrow),
	    cmocka_unit_test(writer_lend_pieces_equals_add),
	    cmocka_unit_test(writer_trusts_what_is_lent),
	    cmocka_unit_test(writer_reserve_equals_add),
	    cmocka_unit_test(a_cut_frame_has_the_same_records),
	    cmocka_unit_test(writer_refuses_and_recovers),
	    cmocka_unit_test(identity_hashes_differ),
	};
	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
