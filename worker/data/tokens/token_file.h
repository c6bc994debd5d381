/* The token file: documents as token ids, mapped into memory for reading. `weir tokenize` writes
 * it, and so does the cache of data.format tokens.
 *
 * Little-endian. Every section begins at a multiple of 64 bytes, with zeros between sections.
 *
 *   file    +--------------+---------------------------+---------------------+
 *           | header (128) | tokens u16 or u32[tokens] | ends u64[documents] |
 *           +--------------+---------------------------+---------------------+
 *           | counted, a bit a token | checksums u32[..] |
 *           +------------------------+-------------------+
 *   header  0 "WEIRTOKS"   8 u32 version = 1   12 u32 crc32c of bytes 16..127
 *           16 u8[16] fingerprint of the tokenizer   32 u64 tokens   40 u64 documents
 *           48 u32 vocabulary   52 u32 bytes of a token, 2 or 4   56 u32 flags, 1: there are bits
 *           60 u32 eos, 0xffffffff: none   64 u64 offset of ends   72 u64 offset of the bits
 *           80 u64 offset of the checksums   88 u32 checksums   92 u32 crc32c of them
 *           96 u64 tokens that count   104 u64 identity of sources and settings, 0: none
 *           112 u64 bad records left out   120 u64 U+FFFD put for invalid UTF-8
 *   ends    where each document ends, in tokens: document d is [ends[d - 1], ends[d]).
 *           No document is empty; the last one ends with the tokens.
 *   counted bit i % 8 of byte i / 8: whether token i counts in the loss as a target.
 *           Without this section all tokens count.
 *   checksum k is the crc32c of bytes 128 + k MiB to 128 + (k + 1) MiB, the last one up to
 *           where the checksums begin.
 *
 * Opening a file checks the header, the checksums' checksum and ends. The first read of a block
 * checks the rest. */
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
	/* The writer sets the rest itself. */
	bool masked; /* some tokens do not count */
	uint64_t tokens, documents, counted, bad_records, replaced;
};

/* --- Writing, by one thread */

struct token_writer;
/* Writes `path`.tmp. Allows one writer of a path at a time. Errors name the path. */
weir_status token_writer_open(struct token_writer **out, const char *path, const struct token_file_info *info, weir_error *err);
/* Adds a document of at least one token. counts (count): whether each counts; NULL: all do. */
weir_status token_writer_add(struct token_writer *w, const uint32_t *ids, const uint8_t *counts, uint64_t count, weir_error *err);
/* Completes the file and renames it into place atomically. Always frees w. */
weir_status token_writer_commit(struct token_writer *w, uint64_t bad_records, uint64_t replaced_bytes,
                                struct token_file_info *info, weir_error *err);
void token_writer_abandon(struct token_writer *w); /* NULL is allowed */

/* --- Reading, by any number of threads */

struct token_file;
/* Returns whether a file begins like a token file. */
bool token_file_begins(const char *path);
/* E_CORRUPT and E_VERSION name the file. */
weir_status token_file_open(struct token_file **out, const char *path, weir_error *err);
const struct token_file_info *token_file_get_info(const struct token_file *f);
const char *token_file_path(const struct token_file *f);
/* Returns where a document ends, in tokens. */
uint64_t token_file_end(const struct token_file *f, uint64_t document);
/* Reads tokens [first, first + count), which must exist. counts: NULL, or receives whether each
 * token counts. E_CORRUPT names the file. */
weir_status token_file_read(struct token_file *f, uint64_t first, uint64_t count, uint32_t *ids, uint8_t *counts,
                            weir_error *err);
void token_file_close(struct token_file *f); /* NULL is allowed */

#endif
