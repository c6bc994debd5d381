/* The packed file: parsed rows, mapped into memory for reading.
 *
 * Little-endian. Every block and column begins at a multiple of 64 bytes, so that columns are used
 * in place.
 *
 *   file   +-----------------+---------+---------+-- ... --+-------------------------------+
 *          | header (64)     | block 0 | block 1 |         | index: blocks * entry (32)     |
 *          +-----------------+---------+---------+-- ... --+-------------------------------+
 *   header  0 "WEIRPACK"   8 u32 version = 3   12 u32 crc32c of bytes 16..63
 *          16 u64 identity of sources and settings   24 u64 rows   32 u64 index offset
 *          40 u32 blocks   44 u16 fields   46 u16 tasks   48 u32 dense_dim
 *          52 u32 crc32c of the index
 *          56 u64 bad lines
 *   entry   0 u64 offset of the block   8 u64 bytes of it   16 u32 rows   20 u32 flags
 *          24 u32 keys   28 u32 crc32c of the block
 *   block   labels f32[rows * tasks] | dense f32[rows * dense_dim] | keys u64[keys]
 *           | OFFSETS u32[rows * fields + 1] | VALUES f32[keys] | WEIGHTS f32[rows]
 *           | GROUPS u64[rows]
 *           (the last four only if flag 1, 2, 4, 8 is set; without OFFSETS every bag has one key)
 *
 * Versions 1 and 2 had one task and 0 at its place; version 1 had no GROUPS. Both are read too.
 *
 * Opening a file checks its header and index. The first use of a block checks its checksum and
 * offsets. */
#ifndef WEIR_PACKED_H
#define WEIR_PACKED_H

#include <stdint.h>

#include "weir/status.h"
#include "worker/data/format/rows.h"

#define PACKED_MAGIC   "WEIRPACK"
#define PACKED_VERSION 3u

struct packed_info {
	uint64_t identity, rows, bad_lines;
	uint32_t blocks, tasks, fields, dense_dim;
	bool one_hot; /* every block has one key per bag and no values */
};

struct packed_writer;
/* Writes `path`.tmp, replacing what a killed program left there. Allows one writer of a path at a
 * time; the cache's lock ensures this. Errors name the path. */
weir_status packed_writer_open(struct packed_writer **out, const char *path, uint64_t identity, struct row_shape shape,
                               weir_error *err);
weir_status packed_writer_add(struct packed_writer *w, const struct rows_view *rows, weir_error *err);
/* Completes the file and renames it into place atomically. Always frees w. */
weir_status packed_writer_commit(struct packed_writer *w, uint64_t bad_lines, weir_error *err);
void packed_writer_abandon(struct packed_writer *w); /* NULL is allowed */

struct packed;
weir_status packed_open(struct packed **out, const char *path, weir_error *err);
const struct packed_info *packed_get_info(const struct packed *p);
/* Returns the block that holds a row (row < rows), and the block's first row. */
uint32_t packed_block_of(const struct packed *p, uint64_t row, uint64_t *first_row);
/* A block's columns, in a mapping of its own: a process that reads a large file once holds only the
 * blocks that it is at. */
struct packed_block {
	struct rows_view rows;
	void *map;
	size_t map_bytes;
};
/* Thread-safe; a block may be open several times. Close it before the file. E_CORRUPT names the
 * file; E_MEMORY. On failure there is nothing to close. */
weir_status packed_block_open(struct packed_block *out, struct packed *p, uint32_t block, weir_error *err) WEIR_MUST_CHECK;
void packed_block_close(struct packed_block *b);
void packed_close(struct packed *p);

#endif
