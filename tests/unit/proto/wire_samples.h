/* Control messages as bytes, written from descriptors by an independent encoder: protobuf-c must
 * parse them and write them back alike. */
#ifndef WIRE_SAMPLES_H
#define WIRE_SAMPLES_H

#include "proto/wire/wire.h"

/* Every message that is a request or a reply. */
/* clang-format off */
#define CONTROL_MESSAGE_MAP(X) \
	X(weir__v1__create_table_request) X(weir__v1__create_table_reply) X(weir__v1__register_table_request) X(weir__v1__register_table_reply) \
	X(weir__v1__join_request) X(weir__v1__join_reply) X(weir__v1__lease_request) X(weir__v1__lease_reply) X(weir__v1__progress_request) \
	X(weir__v1__progress_reply) X(weir__v1__step_request) X(weir__v1__step_reply) X(weir__v1__commit_request) X(weir__v1__commit_reply) \
	X(weir__v1__gate_request) X(weir__v1__gate_reply) X(weir__v1__leave_request) X(weir__v1__leave_reply) X(weir__v1__scan_request) \
	X(weir__v1__status_request) X(weir__v1__server_status) X(weir__v1__ledger_status) X(grpc__health__v1__health_check_request) \
	X(grpc__health__v1__health_check_response) X(weir__v1__checkpoint_request) X(weir__v1__checkpoint_reply) \
	X(weir__v1__checkpoint_begin_request) X(weir__v1__checkpoint_begin_reply) X(weir__v1__checkpoint_poll_request) \
	X(weir__v1__checkpoint_poll_reply) X(weir__v1__map_request) X(weir__v1__map_reply) X(weir__v1__scrub_request) X(weir__v1__scrub_reply) \
	X(weir__v1__layout_request) X(weir__v1__layout_reply) X(weir__v1__place_request) X(weir__v1__place_reply)
/* clang-format on */

const ProtobufCMessageDescriptor *sample_type(uint32_t i); /* NULL after the last */

struct bytes {
	uint8_t *data;
	size_t size, capacity;
};
void bytes_put(struct bytes *b, const void *data, size_t n);
void bytes_varint(struct bytes *b, uint64_t v);
/* Every field of the message and of nested ones, canonical (proto3: by number, no zeros, packed
 * scalars). `seed` chooses values; strings have `text` bytes; repeated fields have `count`
 * elements, or at most 3 in nested messages. */
void sample_message(struct bytes *b, const ProtobufCMessageDescriptor *d, uint64_t seed, size_t text, size_t count);
/* Only this field. */
void sample_field(struct bytes *b, const ProtobufCFieldDescriptor *f, uint64_t seed, size_t text, size_t count);

#endif
