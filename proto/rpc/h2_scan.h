/* A look at the frames of HTTP/2 that a client sends, without their contents: whether a server can
 * afford them.
 *
 * A frame (RFC 9113, section 4.1):
 *
 *     0  payload bytes  u24      3  kind  u8      4  flags  u8      5  stream  u32      9  payload
 *
 * behind a preface of 24 bytes. gRPC's own limits begin when a header block is complete: one that
 * never is fills the memory. Nor does gRPC count frames that cost it more than their sender: calls
 * that are begun and reset at once (CVE-2023-44487), pings and settings that it must answer, frames
 * that say nothing. Here each kind has a rate, far beyond what gRPC's clients send, and a header
 * block has a length. */
#ifndef WEIR_H2_SCAN_H
#define WEIR_H2_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define H2_HEADER_BYTES  9u
#define H2_PREFACE_BYTES 24u

/* X(NAME, "name", frames a second). Kinds of their own: DATA that has less than H2_DATA_SMALL
 * bytes, and what RFC 9113 does not know. */
#define H2_DATA_SMALL 64u
#define H2_KIND_MAP(X)                          \
	X(DATA, "DATA", UINT32_MAX)                 \
	X(HEADERS, "HEADERS", 60000)                \
	X(PRIORITY, "PRIORITY", 100)                \
	X(RESET, "RST_STREAM", 500)                 \
	X(SETTINGS, "SETTINGS", 20)                 \
	X(PROMISE, "PUSH_PROMISE", 1)               \
	X(PING, "PING", 100)                        \
	X(GOAWAY, "GOAWAY", 10)                     \
	X(WINDOW, "WINDOW_UPDATE", 60000)           \
	X(CONTINUATION, "CONTINUATION", UINT32_MAX) \
	X(SMALL, "DATA of next to nothing", 60000)  \
	X(OTHER, "frames of an unknown kind", 100)
enum h2_kind {
#define H2_KIND_ENUM(name, text, rate) H2_##name,
	H2_KIND_MAP(H2_KIND_ENUM)
#undef H2_KIND_ENUM
	    H2_KINDS
};

/* Zero-initialise. */
struct h2_scan {
	uint32_t preface;               /* bytes of it that have come */
	uint32_t header;                /* bytes of the present frame's header that have come */
	uint8_t bytes[H2_HEADER_BYTES]; /* them */
	uint32_t payload;               /* bytes of the present frame that are still to come */
	bool in_block;                  /* a header block is not complete */
	uint32_t block;                 /* bytes of it, frames' headers included */
	uint64_t blocks;                /* that were complete */
	float spent[H2_KINDS];          /* frames beyond the rate so far */
	int64_t at_ns;
};

/* What was received next. False: the connection is not to go on; *why says why, and is static. */
bool h2_scan_take(struct h2_scan *s, const void *data, size_t bytes, int64_t now_ns, const char **why);

#endif
