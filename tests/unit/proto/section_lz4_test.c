/* Packed streams: round trips for any cut, and refusal of other bytes. */
#include "proto/frame/section_lz4.h"

#include <stdlib.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/unit/proto/pieces.h"

enum { ROWS = 100, WIDTH = 64, INDEX_BYTES = ROWS * 8, DATA_BYTES = ROWS * WIDTH * 4 };

struct sent {
	uint64_t keys[ROWS];
	float values[ROWS * WIDTH];
	uint8_t bytes[2 * (SECTION_HEADER_BYTES + INDEX_BYTES + DATA_BYTES) + 64];
	size_t size;
	struct record r;
};

static void put(struct sent *s, const struct section *h, const void *index, const void *data)
{
	frame_put_section(s->bytes + s->size, h);
	s->size += SECTION_HEADER_BYTES;
	const void *streams[2] = {index, data};
	const uint32_t sizes[2] = {h->index_bytes, h->data_bytes};
	for (int i = 0; i < 2; i++) {
		const size_t padded = (sizes[i] + 7u) / 8 * 8;
		memset(s->bytes + s->size, 0, padded);
		memcpy(s->bytes + s->size, streams[i], sizes[i]);
		s->size += padded;
	}
	s->r.sections++;
	s->r.bytes = (uint32_t)(RECORD_HEADER_BYTES + s->size);
}

/* Writes a section with packed streams, as the flags say, and an unpacked one. One element of ten
 * is nonzero. */
static void send(struct sent *s, uint16_t flags)
{
	struct prng random;
	uint8_t index[INDEX_BYTES + 64], data[DATA_BYTES + 64];
	prng_seed(&random, 3);
	memset(s, 0, sizeof *s);
	s->r = (struct record){.kind = RECORD_PUSH, .partition = 1, .request_id = 5, .crc = 77};
	for (uint32_t i = 0; i < ROWS; i++)
		s->keys[i] = 1000 + i;
	for (uint32_t i = 0; i < ROWS * WIDTH; i++)
		s->values[i] = prng_below(&random, 10) == 0 ? (float)prng_normal(&random) : 0;
	struct section h = {.table = 2,
	                    .codec = WEIR_CODEC_FP32,
	                    .flags = flags,
	                    .rows = ROWS,
	                    .width = WIDTH,
	                    .index_bytes = INDEX_BYTES,
	                    .data_bytes = DATA_BYTES};
	if (flags & SECTION_LZ4_INDEX)
		h.index_bytes = (uint32_t)section_lz4_pack(s->keys, INDEX_BYTES, index, sizeof index);
	if (flags & SECTION_LZ4_DATA)
		h.data_bytes = (uint32_t)section_lz4_pack(s->values, DATA_BYTES, data, sizeof data);
	assert_true(h.index_bytes > 0 && h.data_bytes > 0);
	put(s, &h, flags & SECTION_LZ4_INDEX ? (void *)index : s->keys, flags & SECTION_LZ4_DATA ? (void *)data : s->values);
	put(s, &(struct section){.table = 3, .rows = 1, .width = 3, .index_bytes = 8, .data_bytes = 12}, s->keys, s->values);
}

/* Unpacks slices of `cut` bytes. */
static weir_status unpack(const struct sent *s, size_t cut, struct record *out, struct message **m, weir_error *err)
{
	struct message *in = pieces_of(s->bytes, s->size, cut);
	weir_status status = record_unpack(&s->r, cursor_at(in), out, m, err);
	message_release(in);
	return status;
}

static void packed_data_comes_out_unchanged(void **state)
{
	(void)state;
	static struct sent packed, plain;
	static const size_t cuts[] = {1, 7, 1000, sizeof packed.bytes};
	send(&plain, 0);
	for (uint16_t flags = 0; flags <= (SECTION_LZ4_INDEX | SECTION_LZ4_DATA); flags++)
		for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
			struct record out;
			struct message *m;
			weir_error err = {0};
			send(&packed, flags);
			struct message *in = pieces_of(packed.bytes, packed.size, cuts[i]);
			assert_int_equal(record_is_packed(&packed.r, cursor_at(in)), flags != 0);
			message_release(in);
			CHECK_OK(unpack(&packed, cuts[i], &out, &m, &err), err);
			assert_int_equal(m->bytes, plain.size);
			assert_memory_equal(m->spans[0].data, plain.bytes, plain.size);
			assert_int_equal(out.bytes, plain.r.bytes);
			assert_int_equal(out.request_id, 5);
			assert_int_equal(out.sections, 2);
			message_release(m);
		}
	send(&packed, SECTION_LZ4_DATA);
	assert_in_range(packed.size, 1, plain.size / 2);
}

/* A block by hand: 64 zeros are one literal, a copy of 58 from one back, and the five literals that
 * must end a block. */
static void the_bytes_are_those_of_lz4(void **state)
{
	(void)state;
	static const uint8_t stream[] = {64, 0, 0, 0, 0x1f, 0, 1, 0, 39, 0x50, 0, 0, 0, 0, 0}, zeros[64];
	static struct sent s;
	const uint64_t key = 9;
	struct record out;
	struct message *m;
	weir_error err = {0};
	memset(&s, 0, sizeof s);
	put(&s, &(struct section){.flags = SECTION_LZ4_DATA, .rows = 1, .width = 16, .index_bytes = 8, .data_bytes = sizeof stream},
	    &key, stream);
	CHECK_OK(unpack(&s, 1000, &out, &m, &err), err);
	assert_int_equal(m->bytes, SECTION_HEADER_BYTES + 8 + 64);
	assert_memory_equal(m->spans[0].data + SECTION_HEADER_BYTES + 8, zeros, 64);
	message_release(m);
}

static void incompressible_data_is_not_packed(void **state)
{
	(void)state;
	uint8_t noise[5000], out[6000];
	struct prng random;
	prng_seed(&random, 4);
	for (size_t i = 0; i < sizeof noise; i++)
		noise[i] = (uint8_t)prng_below(&random, 256);
	assert_int_equal(section_lz4_pack(noise, sizeof noise, out, sizeof noise), 0);
	assert_true(section_lz4_pack(noise, sizeof noise, out, sizeof out) > sizeof noise);
	assert_int_equal(section_lz4_pack(noise, sizeof noise, out, SECTION_LZ4_HEADER), 0);
}

static void refused(const struct sent *s, weir_status status, const char *why)
{
	struct record out;
	struct message *m = NULL;
	weir_error err = {0};
	assert_int_equal(unpack(s, 1000, &out, &m, &err), status);
	if (!strstr(err.text, why))
		fail_msg("'%s', expected '%s' in it", err.text, why);
	assert_null(m);
}

static void damage_is_refused(void **state)
{
	(void)state;
	static struct sent s;
	uint8_t *const length = s.bytes + SECTION_HEADER_BYTES + INDEX_BYTES;
	send(&s, SECTION_LZ4_DATA);
	length[0]++; /* one byte too many */
	refused(&s, WEIR_E_CORRUPT, "are not 25601 packed ones");
	length[0] = 0xff;
	length[1]--;
	refused(&s, WEIR_E_CORRUPT, "are not 25599 packed ones");
	send(&s, SECTION_LZ4_DATA);
	for (size_t i = 4; i < 40; i++)
		length[i] ^= 0xff; /* the block */
	refused(&s, WEIR_E_CORRUPT, "packed ones");
	send(&s, SECTION_LZ4_DATA);
	length[3] = 0xff; /* more than LZ4 can pack into the block: refused before any allocation */
	refused(&s, WEIR_E_CORRUPT, "cannot be 427");
	memset(length, 0, 4);
	refused(&s, WEIR_E_CORRUPT, "cannot be 0");
	memset(&s, 0, sizeof s);
	put(&s, &(struct section){.flags = SECTION_LZ4_DATA, .data_bytes = 3}, "", "abc");
	refused(&s, WEIR_E_CORRUPT, "a stream of 3 bytes");
	memset(&s, 0, sizeof s);
	put(&s, &(struct section){.index_codec = INDEX_ALL, .flags = SECTION_LZ4_INDEX}, "", "");
	refused(&s, WEIR_E_CORRUPT, "a stream of 0 bytes");
}

/* Sections that are small when packed and exceed a frame together. */
static void a_record_is_no_more_than_a_frame_carries(void **state)
{
	(void)state;
	static struct sent s;
	static uint8_t zeros[1 << 20], packed[8192];
	const size_t bytes = section_lz4_pack(zeros, sizeof zeros, packed, sizeof packed);
	assert_in_range(bytes, 1, sizeof packed);
	memset(&s, 0, sizeof s);
	for (int i = 0; i < 4; i++)
		put(&s, &(struct section){.flags = SECTION_LZ4_DATA, .data_bytes = (uint32_t)bytes}, "", packed);
	refused(&s, WEIR_E_LIMIT, "the first 4 of 4 sections");
	s.size -= SECTION_HEADER_BYTES + (bytes + 7) / 8 * 8;
	s.r.sections--;
	struct record out;
	struct message *m;
	weir_error err = {0};
	CHECK_OK(unpack(&s, 1000, &out, &m, &err), err);
	assert_int_equal(m->bytes, 3 * (SECTION_HEADER_BYTES + sizeof zeros));
	message_release(m);
	memset(packed, 0xff, 4);
	memset(&s, 0, sizeof s);
	packed[3] = 0;
	packed[2] = 0x7f;
	for (int i = 0; i < 2; i++)
		put(&s, &(struct section){.flags = SECTION_LZ4_DATA, .data_bytes = i ? 100 : sizeof packed}, "", packed);
	refused(&s, WEIR_E_CORRUPT, "cannot be");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(packed_data_comes_out_unchanged),          cmocka_unit_test(the_bytes_are_those_of_lz4),
	    cmocka_unit_test(incompressible_data_is_not_packed),        cmocka_unit_test(damage_is_refused),
	    cmocka_unit_test(a_record_is_no_more_than_a_frame_carries),
	};
	return cmocka_run_group_tests_name("section_lz4", tests, NULL, NULL);
}
