#include "tests/unit/proto/wire_samples.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"

#define INNER_COUNT_MAX 3u

const ProtobufCMessageDescriptor *sample_type(uint32_t i)
{
	static const ProtobufCMessageDescriptor *const types[] = {
#define CONTROL_MESSAGE_ROW(name) &name##__descriptor,
	    CONTROL_MESSAGE_MAP(CONTROL_MESSAGE_ROW)
#undef CONTROL_MESSAGE_ROW
	};
	return i < sizeof types / sizeof *types ? types[i] : NULL;
}

void bytes_put(struct bytes *b, const void *data, size_t n)
{
	if (b->size + n > b->capacity) {
		b->capacity = 2 * (b->size + n) + 64;
		b->data = realloc(b->data, b->capacity);
		assert(b->data);
	}
	if (n)
		memcpy(b->data + b->size, data, n);
	b->size += n;
}

void bytes_varint(struct bytes *b, uint64_t v)
{
	uint8_t out[10];
	size_t n = 0;
	for (; v >= 0x80; v >>= 7)
		out[n++] = (uint8_t)(v | 0x80);
	out[n++] = (uint8_t)v;
	bytes_put(b, out, n);
}

enum wire_type { VARINT = 0, FIXED_64 = 1, DELIMITED = 2, FIXED_32 = 5 };

static enum wire_type wire_type_of(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return DELIMITED;
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return FIXED_64;
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		return FIXED_32;
	default:
		return VARINT;
	}
}

/* A nonzero scalar; a finite number for floating-point fields. */
static void scalar(struct bytes *b, const ProtobufCFieldDescriptor *f, uint64_t h)
{
	float f32 = 0.5f + (float)(h & 0xffff);
	double f64 = 0.25 + (double)(h & 0xffffff);
	if (f->type == PROTOBUF_C_TYPE_FLOAT)
		bytes_put(b, &f32, 4);
	else if (f->type == PROTOBUF_C_TYPE_DOUBLE)
		bytes_put(b, &f64, 8);
	else if (wire_type_of(f) == FIXED_64)
		bytes_put(b, &(uint64_t){h | 1}, 8);
	else if (wire_type_of(f) == FIXED_32)
		bytes_put(b, &(uint32_t){(uint32_t)h | 1}, 4);
	else if (f->type == PROTOBUF_C_TYPE_BOOL || f->type == PROTOBUF_C_TYPE_ENUM)
		bytes_varint(b, 1);
	else
		bytes_varint(b, f->type == PROTOBUF_C_TYPE_UINT32 ? (uint32_t)h | 1 : h | 1);
}

/* The bytes after a field's tag and length. */
static void delimited(struct bytes *b, const ProtobufCFieldDescriptor *f, uint64_t seed, size_t text, size_t count)
{
	struct bytes inner = {0};
	if (f->type == PROTOBUF_C_TYPE_MESSAGE)
		sample_message(&inner, f->descriptor, seed, text, count < INNER_COUNT_MAX ? count : INNER_COUNT_MAX);
	else
		for (size_t i = 0; i < text; i++)
			bytes_put(&inner, &(uint8_t){(uint8_t)('a' + hash_u64(seed + i) % 26)}, 1);
	bytes_varint(b, inner.size);
	bytes_put(b, inner.data, inner.size);
	free(inner.data);
}

void sample_field(struct bytes *b, const ProtobufCFieldDescriptor *f, uint64_t seed, size_t text, size_t count)
{
	uint64_t h = hash_u64(seed * 1000 + f->id);
	enum wire_type type = wire_type_of(f);
	size_t n = f->label == PROTOBUF_C_LABEL_REPEATED ? count : 1;
	if (f->label == PROTOBUF_C_LABEL_REPEATED && type != DELIMITED && n) {
		struct bytes packed = {0};
		for (size_t i = 0; i < n; i++)
			scalar(&packed, f, hash_u64(h + i));
		bytes_varint(b, (uint64_t)f->id << 3 | DELIMITED);
		bytes_varint(b, packed.size);
		bytes_put(b, packed.data, packed.size);
		free(packed.data);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		bytes_varint(b, (uint64_t)f->id << 3 | type);
		if (type == DELIMITED)
			delimited(b, f, h + i, text, count);
		else
			scalar(b, f, h);
	}
}

void sample_message(struct bytes *b, const ProtobufCMessageDescriptor *d, uint64_t seed, size_t text, size_t count)
{
	for (unsigned i = 0; i < d->n_fields; i++)
		sample_field(b, &d->fields[i], seed, text, count);
}
