/* Control messages and envelopes from a stranger. An accepted message is packed again and then read
 * alike. Accepted table descriptors can be built.
 *
 * Input: u8 message (beyond the last: the envelope), u8 bytes per span, the message. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "proto/wire/wire.h"
#include "tests/unit/proto/pieces.h"
#include "tests/unit/proto/wire_samples.h"

#define KINDS 33u /* sample_type's and the envelope */

static void check_table(const Weir__V1__Table *in)
{
	weir_table_spec spec, again;
	uint32_t id, id_again;
	struct wire_table made;
	struct wire_table_difference first;
	weir_error err = {0};
	if (!in)
		return;
	if (wire_table_read(in, &spec, &id, &err)) {
		assert(err.text[0]);
		return;
	}
	assert(wire_table_make(&made, &spec, id) == WEIR_OK);
	assert(wire_table_read(&made.table, &again, &id_again, &err) == WEIR_OK);
	assert(id == id_again && wire_table_equal(&spec, &again, &first));
	wire_table_destroy(&made);
	free((void *)(uintptr_t)spec.segments);
	free((void *)(uintptr_t)again.segments);
}

static void check_tables(const ProtobufCMessage *m)
{
	if (m->descriptor == &weir__v1__create_table_request__descriptor)
		check_table(((const Weir__V1__CreateTableRequest *)(const void *)m)->table);
	if (m->descriptor == &weir__v1__create_table_reply__descriptor)
		check_table(((const Weir__V1__CreateTableReply *)(const void *)m)->table);
	if (m->descriptor == &weir__v1__register_table_request__descriptor)
		check_table(((const Weir__V1__RegisterTableRequest *)(const void *)m)->table);
}

static void check_message(const ProtobufCMessageDescriptor *d, const struct message *in)
{
	ProtobufCMessage *m, *again;
	weir_error err = {0};
	if (wire_unpack(d, in, &m, &err)) {
		assert(!m && err.text[0]);
		return;
	}
	check_tables(m);
	struct message *packed = wire_pack(m);
	assert(packed);
	/* The packed message may be refused: a shorter message may take less memory, and protobuf-c
	 * keeps a field 0 that it does not read. */
	if (wire_unpack(d, packed, &again, &err) == WEIR_OK) {
		struct message *last = wire_pack(again);
		assert(last->bytes == packed->bytes && memcmp(last->spans[0].data, packed->spans[0].data, last->bytes) == 0);
		message_release(last);
		wire_destroy(again);
	}
	message_release(packed);
	wire_destroy(m);
}

static void check_envelope(const struct message *in)
{
	struct cursor frame;
	weir_error err = {0};
	if (wire_unwrap_frame(in, &frame, &err)) {
		assert(err.text[0]);
		return;
	}
	uint8_t *bytes = malloc(frame.left + 1);
	size_t n = frame.left;
	assert(bytes && n < in->bytes && cursor_read(&frame, bytes, n) == WEIR_OK);
	struct message *again = wire_wrap_frame(message_copy(bytes, n));
	/* The input may have lengths in more bytes than needed. */
	assert(again && again->bytes <= in->bytes);
	message_release(again);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	struct message *in = pieces_of(data + 2, size - 2, data[1] ? data[1] : size);
	const ProtobufCMessageDescriptor *d = sample_type(data[0] % KINDS);
	if (d)
		check_message(d, in);
	else
		check_envelope(in);
	message_release(in);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	const ProtobufCMessageDescriptor *d = sample_type(i / 2);
	struct bytes b = {0};
	if (i >= 2 * KINDS)
		return NULL;
	bytes_put(&b, &(uint8_t){(uint8_t)(i / 2)}, 1);
	bytes_put(&b, &(uint8_t){(uint8_t)(i * 9)}, 1);
	if (d)
		sample_message(&b, d, i, i % 2 ? 20 : 3, i % 2 ? 1 : 3);
	else
		bytes_put(&b,
		          "\x0a\x05"
		          "frame",
		          7);
	*size = b.size;
	return b.data;
}
