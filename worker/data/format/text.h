/* Text files read as chunks of whole lines: plain, gzip or LZ4 frame, told by their first bytes.
 * A byte order mark of UTF-8 at the beginning is not part of the text. gzip is read as gunzip
 * reads it: members one behind another, and what follows them and is none is ignored. The only
 * user of zlib and of LZ4's frames. */
#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

enum text_kind { TEXT_PLAIN, TEXT_GZIP, TEXT_LZ4 };

#define TEXT_CHUNK_BYTES (512u << 10) /* read at once */

struct text_chunk {
	char *data; /* (size), whole lines, the last one perhaps without a newline; PARSE_SLACK zeroed bytes follow */
	size_t size, capacity;
};
void text_chunk_free(struct text_chunk *c);

/* Errors name the path. E_UNSUPPORTED: it begins as a file that is no text, such as one of
 * another compression. */
weir_status text_kind_of(const char *path, enum text_kind *out, weir_error *err);

struct text;
/* The lines that begin in bytes [begin, end) of a plain file (end UINT64_MAX: all); of a compressed file, all: begin must be 0. */
weir_status text_open(struct text **out, const char *path, uint64_t begin, uint64_t end, weir_error *err);
/* The next lines, about TEXT_CHUNK_BYTES; size 0 at the end. E_CORRUPT for damaged or truncated compression, E_LIMIT for a line that no chunk
 * holds. One thread at a time. */
weir_status text_next(struct text *t, struct text_chunk *out, weir_error *err);
/* The next n bytes, whatever lines they are of; fewer at the end only. Of one file either lines are read or bytes. */
weir_status text_next_bytes(struct text *t, void *out, size_t n, size_t *got, weir_error *err);
/* Whether bytes other than zeros followed the compressed data, once all is read. */
bool text_has_garbage(const struct text *t);
/* Bytes of the mark at the beginning, 0 or 3, once something is read. */
size_t text_mark_bytes(const struct text *t);
void text_close(struct text *t);

/* Bytes of the mark that a text begins with: 0 or 3. */
size_t text_mark_of(const void *data, size_t n);

/* IEEE CRC-32 as in zlib, of a line: decides its split. */
uint32_t text_crc32(const char *data, size_t n);

#endif
