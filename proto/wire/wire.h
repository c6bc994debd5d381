/* Control messages: protobuf-c behind one file. wire.c is the only user of allocation and
 * packing of the generated code: it unpacks with an allocator capped by its input
 * (WEIR_CONTROL_HEAP_FACTOR and _FLOOR), checks every repeated field and string against
 * limits.h, and converts tables between their public and their wire form. Others include this
 * for the generated structs. */
#ifndef WEIR_WIRE_H
#define WEIR_WIRE_H

#include "common/base/message.h"
#include "health.pb-c.h"
#include "weir.pb-c.h"
#include "weir/table.h"

/* Packs a message. NULL when out of memory. */
struct message *wire_pack(const ProtobufCMessage *m);
/* Unpacks and checks; *out is freed with wire_free. E_CORRUPT or E_LIMIT with a text naming the message and field. */
weir_status wire_unpack(const ProtobufCMessageDescriptor *type, const struct message *in, ProtobufCMessage **out,
                        weir_error *err) WEIR_MUST_CHECK;
/* The same for what we have written ourselves (state.proto): of any size, its memory capped at WEIR_STATE_HEAP_FACTOR times that, its fields checked by whoever reads them. */
weir_status wire_unpack_state(const ProtobufCMessageDescriptor *type, const void *bytes, size_t n, ProtobufCMessage **out,
                              weir_error *err) WEIR_MUST_CHECK;
void wire_free(ProtobufCMessage *m);

/* Data{frame}: wraps a frame message without copying (takes it over), and finds the frame inside a received one. */
struct message *wire_wrap_frame(struct message *frame);
weir_status wire_unwrap_frame(const struct message *in, struct cursor *frame, weir_error *err) WEIR_MUST_CHECK;

/* A table in wire form points into *scratch. */
struct wire_table {
	Weir__V1__Table table;
	Weir__V1__Optimizer optimizer;
	Weir__V1__Schedule schedule;
	Weir__V1__InitSegment *segments;
	Weir__V1__InitSegment **segment_list;
};
weir_status wire_table_make(struct wire_table *out, const weir_table_spec *spec, uint32_t id);
void wire_table_free(struct wire_table *t);
/* Checks every field (names, ranges, kinds) and fills *spec; spec->segments is malloc'ed: free it. */
weir_status wire_table_read(const Weir__V1__Table *in, weir_table_spec *spec, uint32_t *id, weir_error *err) WEIR_MUST_CHECK;
/* Whether two descriptions are the same table; if not, *first is where they differ first. */
struct wire_table_difference {
	const char *field; /* "optimizer.lr"; "" when they are equal */
	double a, b;       /* its values; names have none */
};
bool wire_table_equal(const weir_table_spec *a, const weir_table_spec *b, struct wire_table_difference *first);
weir_status wire_table_check(const weir_table_spec *spec, weir_error *err) WEIR_MUST_CHECK;

#endif
