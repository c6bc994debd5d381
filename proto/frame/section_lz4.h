/* LZ4 compression of a section's streams (SECTION_LZ4_INDEX, SECTION_LZ4_DATA; frame.h has the
 * bytes). Only a push from a client to a server uses it. The server decompresses it first, so logs,
 * replicas and recovery never see it. */
#ifndef WEIR_SECTION_LZ4_H
#define WEIR_SECTION_LZ4_H

#include "proto/frame/frame.h"

#define SECTION_LZ4_HEADER 4u
/* An LZ4 block decompresses to at most this many times its size. */
#define SECTION_LZ4_TIMES_MAX 255u

/* Compresses in (n, at least 1) to a stream: returns its bytes, or 0 if they exceed `capacity`. out
 * (capacity). */
size_t section_lz4_pack(const void *in, size_t n, uint8_t *out, size_t capacity);

bool record_is_packed(const struct record *r, struct cursor body);
/* Decompresses a record: *out is its header, *m its sections, owned by the caller. All sizes are
 * checked before memory is allocated: the result fits in a frame. E_CORRUPT, E_LIMIT, E_MEMORY, and
 * the errors of frame_next_section. */
weir_status record_unpack(const struct record *r, struct cursor body, struct record *out, struct message **m,
                          weir_error *err) WEIR_MUST_CHECK;

#endif
