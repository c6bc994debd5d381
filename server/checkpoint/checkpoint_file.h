/* The row file of a checkpoint: rows of one partition, in columns, in blocks of one table each.
 * Little-endian.
 *
 *   file     header (48) | block ... | footer (48)
 *
 *   header    0  magic "weirrows"        8 bytes
 *             8  version                 u16   CHECKPOINT_FILE_VERSION
 *            10  partition               u16
 *            12  value precision         u8    enum row_precision
 *            13  slot precision          u8
 *            14  zero                    u16
 *            16  generation              u64
 *            24  index                   u64   the rows contain every entry up to it, none behind
 *            32  base                    u64   only rows with a version above it; 0: all rows
 *            40  zero                    u32
 *            44  crc32c of the 44 bytes above
 *
 *   block     0  magic "RBLK"            u32
 *             4  crc32c of all that follows in the block
 *             8  payload bytes           u32
 *            12  rows                    u32   1 to CHECKPOINT_BLOCK_ROWS_MAX
 *            16  table                   u32
 *            20  elements of a value     u32   0: stubs, rows that have no value yet
 *            24  slots                   u32   floats per element behind it
 *            28  zero                    u32
 *            32  payload: columns        key, version, steps, accumulator (its bits), last push,
 *                                        count; then values, then slots
 *
 *   column        least value            u64
 *                 width                  u8    0 to 8
 *                 value - least          width bytes for each row
 *   values        fp32, bf16: elements of row 0, of row 1, ...
 *                 int8: for each row its scales (f32 for every CHECKPOINT_QUANT_GROUP elements),
 *                 then its elements
 *   slots         the same with elements * slots
 *
 *   footer    0  magic "weirends"        8 bytes
 *             8  rows                    u64
 *            16  blocks                  u64
 *            24  xxh3-128 of all bytes before the footer   16 bytes, canonical order
 *            40  zero                    u32
 *            44  crc32c of the 44 bytes above
 *
 * For any input bytes, reading ends either with rows that were written or with an error that names
 * the file: E_CORRUPT (damaged, cut short) or E_VERSION (of a newer Weir). Sizes are checked before
 * memory is allocated. */
#ifndef WEIR_CHECKPOINT_FILE_H
#define WEIR_CHECKPOINT_FILE_H

#include <stdint.h>

#include "common/web/blob.h"
#include "server/store/row_batch.h"

#define CHECKPOINT_FILE_VERSION   1u
#define CHECKPOINT_BLOCK_ROWS_MAX 8192u
/* Bytes of fp32 that the writer puts into a block, unless a single row is larger. */
#define CHECKPOINT_BLOCK_BYTES (1u << 20)
#define CHECKPOINT_QUANT_GROUP 256u /* elements per scale */
#define CHECKPOINT_HASH_BYTES  16u

enum row_precision { ROWS_FP32 = 0, ROWS_BF16 = 1, ROWS_INT8 = 2 };

/* Rows of one table. */
struct checkpoint_rows {
	uint32_t table, elements, slots;
	uint32_t count;
	const uint64_t *keys;         /* (count) */
	const struct row_meta *metas; /* (count) */
	/* (count, elements * (1 + slots)): value, then slots, as in the store. */
	const float *rows;
};

struct checkpoint_file_header {
	uint32_t partition;
	enum row_precision values, slots; /* slots: not int8, which rounds small second moments to 0 */
	uint64_t generation, index, base;
};

/* The facts of a file that a manifest records. */
struct checkpoint_file_info {
	uint64_t bytes, rows;
	uint8_t hash[CHECKPOINT_HASH_BYTES]; /* xxh3-128 of the whole file */
};

/* --- Writing, through a blob writer. */
struct checkpoint_file_writer;
weir_status checkpoint_file_create(struct checkpoint_file_writer **out, struct blob_store *store, const char *name,
                                   const struct checkpoint_file_header *header, weir_error *err);
/* Adds any number of rows; the writer splits them into blocks. */
weir_status checkpoint_file_add(struct checkpoint_file_writer *w, const struct checkpoint_rows *rows, weir_error *err);
/* Writes the footer and publishes the file. Frees w, also on failure. */
weir_status checkpoint_file_commit(struct checkpoint_file_writer *w, struct checkpoint_file_info *info, weir_error *err);
void checkpoint_file_abandon(struct checkpoint_file_writer *w); /* NULL is allowed */

/* --- Reading, from front to back. */
typedef weir_status (*checkpoint_read_fn)(void *arg, uint64_t offset, void *out, size_t bytes, size_t *got, weir_error *err);
struct checkpoint_file_reader;
/* Reads and checks the header. name: for errors. read: returns the file's bytes. expected: the
 * facts in the manifest; NULL: unknown. */
weir_status checkpoint_file_open(struct checkpoint_file_reader **out, const char *name, checkpoint_read_fn read, void *arg,
                                 const struct checkpoint_file_info *expected, weir_error *err);
const struct checkpoint_file_header *checkpoint_file_get_header(const struct checkpoint_file_reader *r);
/* Returns the rows of the next block, in fp32; valid until the next call. count 0: the end of the
 * file; the footer, the checksum of the whole file and `expected` match. */
weir_status checkpoint_file_next(struct checkpoint_file_reader *r, struct checkpoint_rows *rows, weir_error *err);
void checkpoint_file_close(struct checkpoint_file_reader *r); /* NULL is allowed */

#endif
