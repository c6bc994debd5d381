/* Data{frame}: the envelope as protobuf writes it, around a frame that is not copied. */
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "common/base/limits.h"
#include "proto/wire/wire.h"
#include "tests/unit/proto/pieces.h"

static uint32_t released;
static void count_release(struct message *m)
{
	free(m->owner);
	released++;
}

static uint8_t *pattern(size_t n)
{
	uint8_t *p = malloc(n ? n : 1);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8));
	return p;
}

/* A frame of two spans that counts its release. */
static struct message *frame_of(size_t n)
{
	uint8_t *p = pattern(n);
	const struct span spans[] = {{p, n / 3}, {p + n / 3, n - n / 3}};
	return message_create(spans, 2, count_release, p);
}

static const size_t sizes[] = {0, 1, 127, 128, 16383, 16384, 2097151, 2097152, WEIR_MESSAGE_BYTES_MAX - 5};
#define SIZES (sizeof sizes / sizeof *sizes)

static void wrapping_copies_nothing_and_protobuf_agrees(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct message *frame = frame_of(sizes[i]);
		const uint8_t *first = frame->spans[0].data, *second = frame->spans[1].data;
		uint8_t *expected = pattern(sizes[i]);
		Weir__V1__Data data = WEIR__V1__DATA__INIT;
		data.frame = (ProtobufCBinaryData){sizes[i], expected};
		released = 0;
		struct message *m = wire_wrap_frame(frame), *packed = wire_pack(&data.base);
		assert_int_equal(m->count, 3);
		assert_ptr_equal(m->spans[1].data, first);
		assert_ptr_equal(m->spans[2].data, second);
		uint8_t *bytes = pieces_join(m);
		if (sizes[i]) { /* proto3 omits an empty field; we write it with size 0 */
			assert_int_equal(m->bytes, packed->bytes);
			assert_memory_equal(bytes, packed->spans[0].data, m->bytes);
		} else {
			assert_int_equal(m->bytes, 2);
		}
		assert_int_equal(released, 0);
		message_release(m);
		assert_int_equal(released, 1);
		message_release(packed);
		free(bytes);
		free(expected);
	}
}

static void check_inside(const struct message *m, const uint8_t *expected, size_t n)
{
	struct cursor c;
	weir_error err = {0};
	uint8_t *got = malloc(n ? n : 1);
	CHECK_OK(wire_unwrap_frame(m, &c, &err), err);
	assert_int_equal(c.left, n);
	assert_int_equal(cursor_read(&c, got, n), WEIR_OK);
	assert_memory_equal(got, expected, n);
	free(got);
}

static void the_frame_is_found_however_it_is_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct message *m = wire_wrap_frame(frame_of(sizes[i]));
		uint8_t *expected = pattern(sizes[i]), *bytes = pieces_join(m);
		check_inside(m, expected, sizes[i]);
		for (size_t cut = 1; cut <= 9 && sizes[i] < 100000; cut++) {
			struct message *p = pieces_of(bytes, m->bytes, cut);
			check_inside(p, expected, sizes[i]);
			message_release(p);
		}
		/* One cut at every place, with an empty span between. */
		for (size_t at = 0; at <= m->bytes && sizes[i] < 1000; at++) {
			const struct span spans[] = {{bytes, at}, {bytes + at, 0}, {bytes + at, m->bytes - at}};
			struct message *p = message_create(spans, 3, NULL, NULL);
			check_inside(p, expected, sizes[i]);
			message_release(p);
		}
		free(expected);
		free(bytes);
		message_release(m);
	}
}

static void refused(const void *bytes, size_t n, weir_status status, const char *why)
{
	for (size_t cut = 1; cut <= 16; cut += 5) {
		struct message *m = pieces_of(bytes, n, cut);
		struct cursor c;
		weir_error err = {0};
		assert_int_equal(wire_unwrap_frame(m, &c, &err), status);
		CHECK_CONTAINS(err.text, why);
		message_release(m);
	}
}

static void damage_is_refused(void **state)
{
	(void)state;
	refused("", 0, WEIR_E_CORRUPT, "empty");
	refused("\x12\x01x", 3, WEIR_E_CORRUPT, "tag 0x12, expected 0x0a");
	refused("\x08\x01", 2, WEIR_E_CORRUPT, "tag 0x08");
	refused("\x0a", 1, WEIR_E_CORRUPT, "length is cut off");
	refused("\x0a\x80", 2, WEIR_E_CORRUPT, "length is cut off");
	refused("\x0a\x05pack", 6, WEIR_E_CORRUPT, "5 bytes announced, 4 follow");
	refused("\x0a\x03pack", 6, WEIR_E_CORRUPT, "3 bytes announced, 4 follow");
	refused("\x0a\x00\x0a\x00", 4, WEIR_E_CORRUPT, "0 bytes announced, 2 follow");
	refused("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", 12, WEIR_E_CORRUPT, "9223372036854775807 bytes announced");
	refused("\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12, WEIR_E_CORRUPT, "length is cut off");
	refused("\x0a\xff\xff\xff\xff\x0f", 6, WEIR_E_CORRUPT, "4294967295 bytes announced, 0 follow");
}

static void every_truncation_is_refused(void **state)
{
	(void)state;
	struct message *m = wire_wrap_frame(frame_of(300));
	uint8_t *bytes = pieces_join(m);
	for (size_t n = 0; n < m->bytes; n++)
		refused(bytes, n, WEIR_E_CORRUPT, "weir.v1.Data");
	free(bytes);
	message_release(m);
}

static void a_message_beyond_the_limit_is_refused(void **state)
{
	(void)state;
	struct message *m = wire_wrap_frame(frame_of(WEIR_MESSAGE_BYTES_MAX - 4));
	struct cursor c;
	weir_error err = {0};
	assert_int_equal(m->bytes, WEIR_MESSAGE_BYTES_MAX + 1);
	assert_int_equal(wire_unwrap_frame(m, &c, &err), WEIR_E_LIMIT);
	assert_string_equal(err.text, "weir.v1.Data: 4194305 bytes, at most 4194304");
	message_release(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wrapping_copies_nothing_and_protobuf_agrees),
	    cmocka_unit_test(the_frame_is_found_however_it_is_cut),
	    cmocka_unit_test(damage_is_refused),
	    cmocka_unit_test(every_truncation_is_refused),
	    cmocka_unit_test(a_message_beyond_the_limit_is_refused),
	};
	return cmocka_run_group_tests_name("wire_envelope", tests, NULL, NULL);
}
