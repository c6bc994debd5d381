/* LZ4 of a section's streams (SECTION_LZ4_INDEX, SECTION_LZ4_DATA; frame.h has the bytes). Only a push from a client to a server comes so: the server makes it what
 * it would have been before it looks at it, so that logs, replicas and recovery know nothing of it. */
#ifndef WEIR_SECTION_LZ4_H
#define WEIR_SECTION_LZ4_H

#include "proto/frame/frame.h"

#define SECTION_LZ4_HEADER 4u
/* A block of LZ4 is never more than so many times itself. */
#define SECTION_LZ4_TIMES_MAX 255u

/* in (n, at least 1) as a packed stream: its bytes, or 0 where they are more than `capacity`. out (capacity). */
size_t section_lz4_pack(const void *in, size_t n, uint8_t *out, size_t capacity);

bool record_is_packed(const struct record *r, struct cursor body);
/* A record with packed streams, without them: *out its header, *m its sections, owned by the caller. All sizes are checked before memory is taken: the whole
 * is what a frame can carry. E_CORRUPT, E_LIMIT, E_MEMORY, and the errors of frame_next_section. */
weir_status record_unpack(const struct record *r, struct cursor body, struct record *out, struct message **m,
                          weir_error *err) WEIR_MUST_CHECK;

#endif
