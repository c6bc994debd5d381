/* Packs and unpacks control messages, and the envelope of bulk frames. protobuf-c has no limits (a
 * few bytes can become many times their size on the heap), so its allocations are capped by the
 * input's size. */
#include "proto/wire/wire.h"

#include <assert.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "proto/wire/wire_limits.h"

#define DATA_FRAME_TAG   0x0au /* field 1, length-delimited */
#define VARINT_BYTES_MAX 10u

struct message *wire_pack(const ProtobufCMessage *m)
{
	uint8_t *data;
	struct message *out = message_alloc(protobuf_c_message_get_packed_size(m), &data);
	if (out)
		protobuf_c_message_pack(m, data);
	return out;
}

struct allowance {
	size_t left;
	weir_status status; /* reason of a refused allocation */
};

static void *capped_alloc(void *data, size_t size)
{
	struct allowance *a = data;
	void *p = size <= a->left ? malloc(size) : NULL;
	if (!p) {
		a->status = size <= a->left ? WEIR_E_MEMORY : WEIR_E_LIMIT;
		return NULL;
	}
	size_t usable = malloc_usable_size(p);
	a->left -= usable < a->left ? usable : a->left;
	return p;
}

static void capped_free(void *data, void *p)
{
	((struct allowance *)data)->left += p ? malloc_usable_size(p) : 0;
	free(p);
}

/* Returns the message's bytes in one run: its own memory, or a copy in *copy, which the caller
 * frees. */
static const uint8_t *contiguous(const struct message *in, uint8_t **copy)
{
	static const uint8_t nothing;
	*copy = NULL;
	if (in->bytes == 0)
		return &nothing;
	if (in->count == 1)
		return in->spans[0].data;
	uint8_t *p = *copy = malloc(in->bytes);
	for (uint32_t i = 0; p && i < in->count; i++) {
		memcpy(p, in->spans[i].data, in->spans[i].size);
		p += in->spans[i].size;
	}
	return *copy;
}

static weir_status unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t n, size_t heap_factor,
                          ProtobufCMessage **out, weir_error *err)
{
	size_t heap_max = n * heap_factor + WEIR_CONTROL_HEAP_FLOOR;
	struct allowance allowance = {.left = heap_max};
	ProtobufCAllocator allocator = {.alloc = capped_alloc, .free = capped_free, .allocator_data = &allowance};
	*out = protobuf_c_message_unpack(type, &allocator, n, bytes);
	if (*out)
		return WEIR_OK;
	if (allowance.status == WEIR_E_LIMIT)
		return weir_fail(err, WEIR_E_LIMIT, "%s: %zu bytes that need more than %zu bytes of memory", type->name, n, heap_max);
	if (allowance.status)
		return weir_fail(err, allowance.status, "%s: out of memory", type->name);
	return weir_fail(err, WEIR_E_CORRUPT, "%s: %zu bytes that do not parse", type->name, n);
}

weir_status wire_unpack_state(const ProtobufCMessageDescriptor *type, const void *bytes, size_t n, ProtobufCMessage **out,
                              weir_error *err)
{
	return unpack(type, bytes, n, WEIR_STATE_HEAP_FACTOR, out, err);
}

weir_status wire_unpack(const ProtobufCMessageDescriptor *type, const struct message *in, ProtobufCMessage **out, weir_error *err)
{
	*out = NULL;
	if (in->bytes > wire_bytes_max(type))
		return weir_fail(err, WEIR_E_LIMIT, "%s: %zu bytes, at most %zu", type->name, in->bytes, wire_bytes_max(type));
	uint8_t *copy;
	const uint8_t *bytes = contiguous(in, &copy);
	if (!bytes)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", type->name);
	weir_status status = unpack(type, bytes, in->bytes, WEIR_CONTROL_HEAP_FACTOR, out, err);
	free(copy);
	if (!status)
		status = wire_check_limits(*out, err);
	if (status) {
		wire_destroy(*out);
		*out = NULL;
	}
	return status;
}

void wire_destroy(ProtobufCMessage *m)
{
	if (m)
		protobuf_c_message_free_unpacked(m, NULL); /* capped_alloc uses malloc */
}

struct envelope {
	struct message *frame;
	uint8_t header[1 + VARINT_BYTES_MAX];
};

static void envelope_release(struct message *m)
{
	struct envelope *e = m->owner;
	message_release(e->frame);
	free(e);
}

struct message *wire_wrap_frame(struct message *frame)
{
	struct message *m = NULL;
	struct envelope *e = malloc(sizeof *e);
	struct span *spans = malloc((frame->count + 1ull) * sizeof *spans);
	if (e && spans) {
		e->frame = frame;
		uint32_t n = 0;
		e->header[n++] = DATA_FRAME_TAG;
		size_t v = frame->bytes;
		for (; v >= 0x80; v >>= 7)
			e->header[n++] = (uint8_t)(v | 0x80);
		e->header[n++] = (uint8_t)v;
		spans[0] = (struct span){e->header, n};
		memcpy(spans + 1, frame->spans, frame->count * sizeof *spans);
		m = message_create(spans, frame->count + 1, envelope_release, e);
	}
	free(spans);
	if (!m) {
		free(e);
		message_release(frame);
	}
	return m;
}

weir_status wire_unwrap_frame(const struct message *in, struct cursor *frame, weir_error *err)
{
	struct cursor c = cursor_at(in);
	uint8_t byte;
	if (in->bytes > WEIR_MESSAGE_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "weir.v1.Data: %zu bytes, at most %u", in->bytes, WEIR_MESSAGE_BYTES_MAX);
	if (cursor_read(&c, &byte, 1))
		return weir_fail(err, WEIR_E_CORRUPT, "weir.v1.Data: empty");
	if (byte != DATA_FRAME_TAG)
		return weir_fail(err, WEIR_E_CORRUPT, "weir.v1.Data: tag 0x%02x, expected 0x%02x (bytes frame = 1)", byte,
		                 DATA_FRAME_TAG);
	uint64_t length = 0;
	for (uint32_t i = 0;; i++) {
		if (i == VARINT_BYTES_MAX || cursor_read(&c, &byte, 1))
			return weir_fail(err, WEIR_E_CORRUPT, "weir.v1.Data.frame: its length is cut off");
		length |= i < 9 ? (uint64_t)(byte & 0x7f) << (7 * i) : 0;
		if (!(byte & 0x80))
			break;
	}
	if (length != c.left)
		return weir_fail(err, WEIR_E_CORRUPT, "weir.v1.Data.frame: %llu bytes announced, %zu follow", (unsigned long long)length,
		                 c.left);
	*frame = c;
	return WEIR_OK;
}
