/* The bytes of a lane, little-endian. A lane is one connection that carries one stream.
 *
 * First a greeting of 32 bytes, from the client and then from the server:
 *   0  u32 magic 0x314e4c57 ("WLN1")   4 u32 version = 1   8 16 bytes token
 *   24 u32 0                           28 u32 crc32c of the 28 bytes before
 * The client has the token from the server's answer to Lane, over gRPC (rpc_grpc_lane.c). It opens
 * one lane, once, for the method and the role of that call. The server repeats it.
 *
 * Then frames, both ways: a header of 16 bytes, and a payload.
 *   0  u32 kind   4 u32 bytes of payload   8 u32 value   12 u32 crc32c of the 12 bytes before
 *   DATA    a message of the stream, at most WEIR_MESSAGE_BYTES_MAX
 *   BEAT    no payload. A side that has sent nothing for WEIR_KEEPALIVE_MS sends one
 *   END     no payload. The client sends no more messages
 *   STATUS  value: a weir_status; payload: a text of at most LANE_TEXT_BYTES_MAX. From the server:
 *           the stream has ended
 *
 * The payload has no checksum here: the frames in it have their own (proto/frame/frame.h). */
#ifndef WEIR_LANE_WIRE_H
#define WEIR_LANE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "weir/status.h"

#define LANE_VERSION        1u
#define LANE_TOKEN_BYTES    16u
#define LANE_GREETING_BYTES 32u
#define LANE_HEADER_BYTES   16u
#define LANE_TEXT_BYTES_MAX (WEIR_ERROR_TEXT_BYTES - 1u)

enum lane_kind { LANE_DATA = 1, LANE_BEAT, LANE_END, LANE_STATUS };

struct lane_header {
	uint32_t kind, bytes, value;
};

void lane_put_greeting(uint8_t out[LANE_GREETING_BYTES], const uint8_t token[LANE_TOKEN_BYTES]);
/* E_CORRUPT, E_VERSION */
weir_status lane_get_greeting(const uint8_t in[LANE_GREETING_BYTES], uint8_t token[LANE_TOKEN_BYTES],
                              weir_error *err) WEIR_MUST_CHECK;
void lane_put_header(uint8_t out[LANE_HEADER_BYTES], const struct lane_header *h);
/* from_server: it may send a STATUS, but no END. E_CORRUPT, E_LIMIT: the text names the field. */
weir_status lane_get_header(const uint8_t in[LANE_HEADER_BYTES], bool from_server, struct lane_header *out,
                            weir_error *err) WEIR_MUST_CHECK;

#endif
