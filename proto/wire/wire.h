/* Control messages: protobuf-c behind one file. Only wire.c uses allocation and packing of the
 * generated code. It unpacks with an allocator capped by its input (WEIR_CONTROL_HEAP_FACTOR and
 * _FLOOR), checks every repeated field and string against limits.h, and converts tables between
 * their public and their wire form. Other files include this header for the generated structs. */
#ifndef WEIR_WIRE_H
#define WEIR_WIRE_H

#include "common/base/message.h"
#include "health.pb-c.h"
#include "weir.pb-c.h"
#include "weir/table.h"

/* Packs a message. NULL when out of memory. */
struct message *wire_pack(const ProtobufCMessage *m);
/* Unpacks and checks; free *out with wire_destroy. E_CORRUPT or E_LIMIT, with a text that names the
 * message and field. */
weir_status wire_unpack(const ProtobufCMessageDescriptor *type, const struct message *in, ProtobufCMessage **out,
                        weir_error *err) WEIR_MUST_CHECK;
/* Like wire_unpack, for bytes that a Weir process has written for itself (state.proto): of any
 * size, with memory capped at WEIR_STATE_HEAP_FACTOR times that. The reader checks the fields. */
weir_status wire_unpack_state(const ProtobufCMessageDescriptor *type, const void *bytes, size_t n, ProtobufCMessage **out,
                              weir_error *err) WEIR_MUST_CHECK;
void wire_destroy(ProtobufCMessage *m);

/* Data{frame}: wrap packs a frame message without copying (and takes it over); unwrap finds the
 * frame in a received one. */
struct message *wire_wrap_frame(struct message *frame);
weir_status wire_unwrap_frame(const struct message *in, struct cursor *frame, weir_error *err) WEIR_MUST_CHECK;

/* A table in wire form. `table` points into the other fields. */
struct wire_table {
	Weir__V1__Table table;
	Weir__V1__Optimizer optimizer;
	Weir__V1__Schedule schedule;
	Weir__V1__InitSegment *segments;
	Weir__V1__InitSegment **segment_list;
};
weir_status wire_table_make(struct wire_table *out, const weir_table_spec *spec, uint32_t id);
void wire_table_destroy(struct wire_table *t);
/* Checks every field (names, ranges, kinds) and fills *spec. spec->segments is malloc'ed: free
 * it. */
weir_status wire_table_read(const Weir__V1__Table *in, weir_table_spec *spec, uint32_t *id, weir_error *err) WEIR_MUST_CHECK;
/* Whether two descriptions are the same table; if not, *first is their first difference. */
struct wire_table_difference {
	const char *field; /* such as "optimizer.lr"; "" if they are equal */
	double a, b;       /* both values; 0 for names */
};
bool wire_table_equal(const weir_table_spec *a, const weir_table_spec *b, struct wire_table_difference *first);
weir_status wire_table_check(const weir_table_spec *spec, weir_error *err) WEIR_MUST_CHECK;

#endif
