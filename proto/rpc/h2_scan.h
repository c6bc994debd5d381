/* Scans the HTTP/2 frames of a client, without their contents, to protect a server from costly
 * ones.
 *
 * A frame (RFC 9113, section 4.1), after a preface of 24 bytes:
 *
 *     0  payload bytes  u24      3  kind  u8      4  flags  u8      5  stream  u32      9  payload
 *
 * gRPC applies its own limits only to complete header blocks, so a block that never completes fills
 * the memory. gRPC also does not count frames that cost it more than their sender: calls that are
 * begun and reset at once (CVE-2023-44487), pings and settings that it must answer, empty frames.
 * This scan limits the rate of each kind, far above the rates of gRPC's clients, and the length of
 * a header block. */
#ifndef WEIR_H2_SCAN_H
#define WEIR_H2_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define H2_HEADER_BYTES  9u
#define H2_PREFACE_BYTES 24u

/* X(NAME, "name", frames per second). SMALL is DATA of less than H2_DATA_SMALL bytes; OTHER is a
 * kind that RFC 9113 does not define. */
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
	uint32_t preface;               /* received bytes of the preface */
	uint32_t header;                /* received bytes of the current frame's header */
	uint8_t bytes[H2_HEADER_BYTES]; /* those bytes */
	uint32_t payload;               /* bytes of the current frame still to come */
	bool in_block;                  /* a header block is incomplete */
	uint32_t block;                 /* its bytes so far, with frame headers */
	uint64_t blocks;                /* complete header blocks */
	float spent[H2_KINDS];          /* frames beyond the rate so far */
	int64_t at_ns;
};

/* Scans the bytes received next. False: cut the connection; *why gives the reason and is static. */
bool h2_scan_take(struct h2_scan *s, const void *data, size_t bytes, int64_t now_ns, const char **why);

#endif
