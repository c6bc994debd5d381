/* Reads text files as chunks of whole lines: plain, gzip, LZ4 frame or zstd, recognised by their
 * first bytes.
 *
 * A UTF-8 byte order mark at the beginning is not part of the text. As in gunzip, gzip members may
 * follow one another, and trailing bytes that are not a member are ignored. This is the only user
 * of zlib, of zstd and of LZ4 frames. */
#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

enum text_kind {
	TEXT_PLAIN,
	TEXT_GZIP,
	TEXT_LZ4,
	TEXT_ZSTD,
	TEXT_PARQUET, /* no text: table_file.h reads it, and the next one */
	TEXT_ARROW
};

#define TEXT_CHUNK_BYTES (512u << 10) /* per read */

struct text_chunk {
	/* (size) whole lines, of which the last one may lack a newline; PARSE_SLACK zeroed bytes
	 * follow. */
	char *data;
	size_t size, capacity;
};
void text_chunk_destroy(struct text_chunk *c);

/* Errors name the path. E_UNSUPPORTED: the first bytes belong to another kind of file, such as
 * another compression. */
weir_status text_kind_of(const char *path, enum text_kind *out, weir_error *err);

struct text;
/* Selects the lines that begin in bytes [begin, end) of a plain file; end UINT64_MAX selects all. A
 * compressed file is read whole: begin must be 0. */
weir_status text_open(struct text **out, const char *path, uint64_t begin, uint64_t end, weir_error *err);
/* Makes rows of CSV the lines: a newline inside quotes ends no line. Call it before the first read.
 * A range of a file with quotes must begin and end where rows begin. */
struct csv_marks;
void text_set_csv(struct text *t, struct csv_marks marks);
/* Reads the next lines, about TEXT_CHUNK_BYTES; size 0 at the end. E_CORRUPT: the compressed data
 * are damaged or truncated. E_LIMIT: a line is longer than a chunk. One thread at a time. */
weir_status text_next(struct text *t, struct text_chunk *out, weir_error *err);
/* Reads the next n bytes, regardless of lines; fewer only at the end. Read a file either by lines
 * or by bytes. */
weir_status text_next_bytes(struct text *t, void *out, size_t n, size_t *got, weir_error *err);
/* Returns whether bytes other than zeros followed the compressed data. Call it at the end. */
bool text_has_garbage(const struct text *t);
/* Returns the size of the byte order mark, 0 or 3. Call it after the first read. */
size_t text_mark_bytes(const struct text *t);
void text_close(struct text *t);

/* Returns the size of the byte order mark at the beginning of a text: 0 or 3. */
size_t text_mark_of(const void *data, size_t n);

/* Returns the IEEE CRC-32 of a line, as in zlib. It decides the line's split. */
uint32_t text_crc32(const char *data, size_t n);

#endif
