/* The columns of a row file's block (diagram in checkpoint_file.h), to bytes and back. Used by checkpoint_file_*.c alone. */
#ifndef WEIR_CHECKPOINT_COLUMNS_H
#define WEIR_CHECKPOINT_COLUMNS_H

#include <stdbool.h>

#include "server/checkpoint/checkpoint_file.h"

#define CHECKPOINT_COLUMNS 6u /* key, version, steps, accumulator, last push, count */

struct checkpoint_block { /* what a block's header says */
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

/* Rows that go into one block: 1 or more. */
uint32_t checkpoint_block_rows(uint32_t elements, uint32_t slots);
/* Bytes of `elements` numbers of one row; and what a block's payload has at most. */
size_t checkpoint_values_bytes(enum row_precision precision, size_t elements);
size_t checkpoint_payload_bytes_max(const struct checkpoint_file_header *h, const struct checkpoint_block *b);

/* Writes the payload of rows [0, b->rows) and returns its size. */
size_t checkpoint_payload_encode(const struct checkpoint_file_header *h, const struct checkpoint_block *b,
                                 const struct checkpoint_rows *rows, uint8_t *out);
/* Reads exactly b->payload bytes into keys, metas (b->rows) and values (b->rows, elements * (1 + slots)). False: not such a payload. */
bool checkpoint_payload_decode(const struct checkpoint_file_header *h, const struct checkpoint_block *b, const uint8_t *in,
                               uint64_t *keys, struct row_meta *metas, float *values);

#endif
