/* The bytes of a token file, shared by token_file_write.c and token_file.c. */
#ifndef WEIR_TOKEN_FILE_FORMAT_H
#define WEIR_TOKEN_FILE_FORMAT_H

#include "common/base/crc32c.h"
#include "worker/data/tokens/token_file.h"

#define TOKEN_FILE_ALIGNMENT 64u
#define TOKEN_FILE_MASKED    1u

struct token_file_header {
	char magic[8];
	uint32_t version, crc;
	uint8_t fingerprint[16];
	uint64_t tokens, documents;
	uint32_t vocabulary, width, flags, eos;
	uint64_t ends_at, counted_at, checksums_at;
	uint32_t checksums, checksums_crc;
	uint64_t counted, identity, bad_records, replaced;
};
_Static_assert(sizeof(struct token_file_header) == 128, "the header is 128 bytes in the file");

static inline uint32_t token_file_header_crc(const struct token_file_header *h)
{
	return crc32c(0, (const uint8_t *)h + 16, sizeof *h - 16);
}

static inline uint64_t token_file_aligned(uint64_t bytes)
{
	return (bytes + TOKEN_FILE_ALIGNMENT - 1) & ~(uint64_t)(TOKEN_FILE_ALIGNMENT - 1);
}

static inline struct token_file_info token_file_info_of(const struct token_file_header *h)
{
	struct token_file_info i = {.vocabulary = h->vocabulary,
	                            .eos = h->eos,
	                            .masked = (h->flags & TOKEN_FILE_MASKED) != 0,
	                            .identity = h->identity,
	                            .tokens = h->tokens,
	                            .documents = h->documents,
	                            .counted = h->counted,
	                            .bad_records = h->bad_records,
	                            .replaced = h->replaced};
	for (uint32_t b = 0; b < sizeof i.fingerprint; b++)
		i.fingerprint[b] = h->fingerprint[b];
	return i;
}

#endif
