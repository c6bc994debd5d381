/* Encodes and decodes the columns of a block of a row file (diagram in checkpoint_file.h). Only
 * checkpoint_file_*.c use it. */
#ifndef WEIR_CHECKPOINT_COLUMNS_H
#define WEIR_CHECKPOINT_COLUMNS_H

#include <stdbool.h>

#include "server/checkpoint/checkpoint_file.h"

#define CHECKPOINT_COLUMNS 6u /* key, version, steps, accumulator, last push, count */

struct checkpoint_block { /* fields of a block's header */
	uint32_t crc, payload, rows, table, elements, slots;
};
#define CHECKPOINT_BLOCK_HEADER_BYTES 32u
#define CHECKPOINT_FILE_HEADER_BYTES  48u
#define CHECKPOINT_FILE_FOOTER_BYTES  48u
#define CHECKPOINT_FILE_MAGIC         "weirrows"
#define CHECKPOINT_FILE_END_MAGIC     "weirends"
#define CHECKPOINT_BLOCK_MAGIC        "RBLK"

static inline void put_le(uint8_t *out, uint64_t v, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		out[i] = (uint8_t)(v >> 8 * i);
}
static inline uint64_t get_le(const uint8_t *in, uint32_t bytes)
{
	uint64_t v = 0;
	for (uint32_t i = 0; i < bytes; i++)
		v |= (uint64_t)in[i] << 8 * i;
	return v;
}

/* Returns the number of rows that go into one block: at least 1. */
uint32_t checkpoint_block_rows(uint32_t elements, uint32_t slots);
/* checkpoint_values_bytes returns the bytes of `elements` numbers of one row.
 * checkpoint_payload_bytes_max returns the largest payload of a block. */
size_t checkpoint_values_bytes(enum row_precision precision, size_t elements);
size_t checkpoint_payload_bytes_max(const struct checkpoint_file_header *h, const struct checkpoint_block *b);

/* Writes the payload of rows [0, b->rows) and returns its size. */
size_t checkpoint_payload_encode(const struct checkpoint_file_header *h, const struct checkpoint_block *b,
                                 const struct checkpoint_rows *rows, uint8_t *out);
/* Reads exactly b->payload bytes into keys, metas (b->rows) and values (b->rows, elements * (1 +
 * slots)). False: not such a payload. */
bool checkpoint_payload_decode(const struct checkpoint_file_header *h, const struct checkpoint_block *b, const uint8_t *in,
                               uint64_t *keys, struct row_meta *metas, float *values);

#endif
