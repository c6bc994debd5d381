#include "tests/unit/server/records.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/codec.h"
#include "proto/frame/section_keys.h"

const uint8_t records_uuid[16] = "test-job-uuid-16";

void records_add(struct record_writer *w, const struct record *r, const struct rows *sections, uint32_t count)
{
	record_writer_begin(w, r);
	for (uint32_t i = 0; i < count; i++) {
		const struct rows *x = &sections[i];
		struct section s = {.table = x->table,
		                    .codec = (uint8_t)x->codec,
		                    .index_codec = INDEX_RAW,
		                    .rows = x->count,
		                    .width = x->width,
		                    .index_bytes = x->count * 8,
		                    .data_bytes = x->values ? (uint32_t)codec_bytes(x->codec, x->values_count) : 0};
		uint8_t *encoded = malloc(s.data_bytes + 1);
		if (x->values)
			codec_encode(&(struct coding){.codec = x->codec}, x->values, NULL, x->values_count, encoded);
		if (!x->raw)
			section_keys_plan(&s, x->keys);
		uint8_t *index = malloc(s.index_bytes + 1);
		section_keys_write(&s, x->keys, index);
		assert_int_equal(record_writer_add(w, &s, index, encoded, false), WEIR_OK);
		free(index);
		free(encoded);
	}
	assert_int_equal(record_writer_end(w), WEIR_OK);
}

void records_add_bytes(struct record_writer *w, const struct record *r, const void *data, uint32_t bytes)
{
	struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = bytes};
	record_writer_begin(w, r);
	assert_int_equal(record_writer_add(w, &s, NULL, data, false), WEIR_OK);
	assert_int_equal(record_writer_end(w), WEIR_OK);
}

struct message *records_finish(struct record_writer *w)
{
	struct message *m = record_writer_finish(w, records_uuid, RECORDS_GENERATION, NULL, NULL);
	assert_non_null(m);
	return m;
}

static struct built parse(struct message *frame)
{
	struct built b = {.frame = frame};
	struct cursor c = cursor_at(frame);
	struct frame_header h;
	weir_error err = {0};
	assert_int_equal(frame_open(&c, &h, &err), WEIR_OK);
	assert_int_equal(frame_next_record(&c, true, &b.record, &b.body, &err), WEIR_OK);
	return b;
}

static struct built finish(struct record_writer *w)
{
	struct message *whole = records_finish(w), *sliced = records_slice(whole, 1021);
	record_writer_destroy(w);
	message_release(whole);
	return parse(sliced);
}

struct built records_build(const struct record *r, const struct rows *sections, uint32_t count)
{
	struct record_writer *w = record_writer_create();
	records_add(w, r, sections, count);
	return finish(w);
}

struct built records_build_close(uint64_t step, const uint32_t (*ids)[3], uint32_t included, uint32_t dropped)
{
	struct record_writer *w = record_writer_create();
	struct record r = {
	    .kind = RECORD_CLOSE_STEP, .partition = FRAME_PARTITION_ALL, .close = {.step = step, .included = included}};
	records_add_bytes(w, &r, ids, (included + dropped) * 12);
	return finish(w);
}

struct built records_build_weighed(uint64_t step, const uint32_t (*ids)[3], const float *weights, uint32_t included,
                                   uint32_t dropped)
{
	struct record_writer *w = record_writer_create();
	struct record r = {.kind = RECORD_CLOSE_STEP,
	                   .flags = RECORD_CLOSE_WEIGHTS,
	                   .partition = FRAME_PARTITION_ALL,
	                   .close = {.step = step, .included = included}};
	uint8_t data[1024];
	const uint32_t ids_bytes = (included + dropped) * 12, bytes = ids_bytes + included * (uint32_t)sizeof *weights;
	assert(bytes <= sizeof data);
	memcpy(data, ids, ids_bytes);
	memcpy(data + ids_bytes, weights, bytes - ids_bytes);
	records_add_bytes(w, &r, data, bytes);
	return finish(w);
}

void records_free(struct built *b)
{
	message_release(b->frame);
	b->frame = NULL;
}

static void slices_release(struct message *m)
{
	free(m->owner);
}

struct message *records_slice(const struct message *m, size_t slice)
{
	size_t count = (m->bytes + slice - 1) / slice, stride = slice + 3 + (slice & 1);
	uint8_t *memory = malloc(count * stride + 1);
	struct span *spans = malloc(count * sizeof *spans);
	struct cursor c = cursor_at(m);
	for (size_t i = 0; i < count; i++) {
		size_t n = c.left < slice ? c.left : slice;
		uint8_t *at = memory + 1 + i * stride;
		assert_int_equal(cursor_read(&c, at, n), WEIR_OK);
		spans[i] = (struct span){at, n};
	}
	struct message *out = message_create(spans, (uint32_t)count, slices_release, memory);
	assert_non_null(out);
	free(spans);
	return out;
}
