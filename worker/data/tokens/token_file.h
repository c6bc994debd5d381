/* The token file: documents as token ids, mapped into memory to read. `weir tokenize` writes it, and so does the cache of data.format tokens.
 *
 * Little-endian; every section begins at a multiple of 64 bytes, zeros between them.
 *
 *   file   +--------------+--------------------------+---------------------+-----------------------+-------------------+
 *          | header (128) | tokens u16 or u32[tokens]| ends u64[documents] | counted, a bit a token| checksums u32[..] |
 *          +--------------+--------------------------+---------------------+-----------------------+-------------------+
 *   header  0 "WEIRTOKS"   8 u32 version = 1   12 u32 crc32c of bytes 16..127   16 u8[16] fingerprint of the tokenizer   32 u64 tokens   40 u64 documents
 *          48 u32 vocabulary   52 u32 bytes of a token, 2 or 4   56 u32 flags, 1: there are bits   60 u32 eos, 0xffffffff: none   64 u64 offset of ends
 *          72 u64 offset of the bits   80 u64 offset of the checksums   88 u32 checksums   92 u32 crc32c of them   96 u64 tokens that count
 *          104 u64 identity of sources and settings, 0: none   112 u64 bad records left out   120 u64 U+FFFD put for invalid UTF-8
 *   ends    where each document ends, in tokens: document d is [ends[d - 1], ends[d]). None is empty; the last ends with the tokens.
 *   counted bit i % 8 of byte i / 8: whether token i counts in the loss, where it is what is predicted. Without the section all do.
 *   checksum k is the crc32c of bytes 128 + k MiB to 128 + (k + 1) MiB, the last one to where the checksums begin.
 *
 * Header, checksums' checksum and ends are checked when the file is opened, the rest when it is first read. */
#ifndef WEIR_TOKEN_FILE_H
#define WEIR_TOKEN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"

#define TOKEN_FILE_MAGIC   "WEIRTOKS"
#define TOKEN_FILE_VERSION 1u
#define TOKEN_FILE_BLOCK   (1u << 20) /* bytes under one checksum */
#define TOKEN_FILE_NO_EOS  UINT32_MAX

struct token_file_info {
	uint8_t fingerprint[16];
	uint32_t vocabulary;
	uint32_t eos; /* TOKEN_FILE_NO_EOS: none */
	uint64_t identity;
	/* The rest is the writer's own. */
	bool masked; /* not all tokens count */
	uint64_t tokens, documents, counted, bad_records, replaced;
};

/* --- Writing. One thread. */

struct token_writer;
/* Writes `path` as `path`.tmp: one writer of a path at a time. Errors name the path. */
weir_status token_writer_open(struct token_writer **out, const char *path, const struct token_file_info *info, weir_error *err);
/* A document of at least one token. counts (count): whether each counts; NULL: all do. */
weir_status token_writer_add(struct token_writer *w, const uint32_t *ids, const uint8_t *counts, uint64_t count, weir_error *err);
/* Completes the file and puts it in place atomically. Frees w in any case. */
weir_status token_writer_commit(struct token_writer *w, uint64_t bad_records, uint64_t replaced_bytes,
                                struct token_file_info *info, weir_error *err);
void token_writer_abandon(struct token_writer *w); /* NULL is allowed */

/* --- Reading. Any number of threads. */

struct token_file;
/* Whether a file begins as a token file does. */
bool token_file_begins(const char *path);
/* E_CORRUPT and E_VERSION name the file. */
weir_status token_file_open(struct token_file **out, const char *path, weir_error *err);
const struct token_file_info *token_file_get_info(const struct token_file *f);
const char *token_file_path(const struct token_file *f);
/* Where a document ends. */
uint64_t token_file_end(const struct token_file *f, uint64_t document);
/* Tokens [first, first + count), which the file has. counts: NULL, or gets for each whether it counts. E_CORRUPT names the file. */
weir_status token_file_read(struct token_file *f, uint64_t first, uint64_t count, uint32_t *ids, uint8_t *counts,
                            weir_error *err);
void token_file_close(struct token_file *f); /* NULL is allowed */

#endif
