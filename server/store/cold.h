/* What lies below the rows in memory: one RocksDB per server (cold.c alone includes it). Keys, big-endian, so that a
 * partition, and a table in it, is one range in the order of its keys:
 *
 *   partition u16 | kind u8 (0 row, 1 header) | table u16 | row key u64
 *
 * One column family and no log of its own (the journal is the log): after a crash RocksDB holds a prefix of what was written, at least
 * up to the last cold_flush. Writers must be one thread (cold_writer.h); everything else may be called from any.
 *
 * Errors: E_NO_SPACE (the disk is full, or its user's quota; nothing of the call was written, try
 * again), E_CORRUPT (a checksum failed; the text names the file; no byte of it is ever handed out),
 * E_IO (final: the server must stop).
 *
 * RocksDB ends the process when it goes on writing a file after a write to it has failed: SIGABRT, an
 * assertion of its own, on a thread of its own whose name begins with COLD_THREADS. So cold.c looks
 * for space before each write and flush. A disk that fills in between still ends the process. */
#ifndef WEIR_COLD_H
#define WEIR_COLD_H

#include <stdint.h>

#include "server/store/row_batch.h"
#include "weir/status.h"

struct cold;
struct cold_options {
	const char *path;      /* its folder, created when absent */
	uint64_t memory_bytes; /* for memtables; small values are rounded up */
	uint32_t threads;      /* background: flushes, compactions; 0: 3 */
	uint64_t spare_bytes;  /* of the disk: with less beside room for its files once more it counts as full; 0: COLD_SPARE_BYTES */
	bool read_only;        /* for tools that look */
};

/* What RocksDB may need for what it has accepted (flushes and compactions under way): it does not survive a disk that is really full, so it never sees
 * one. Whoever else writes to the same disk should leave this much too. */
#define COLD_SPARE_BYTES (512u << 20)
#define COLD_THREADS     "rocksdb:"

weir_status cold_open(struct cold **out, const struct cold_options *options, weir_error *err) WEIR_MUST_CHECK;
void cold_close(struct cold *c); /* Needs: no scans, snapshots or calls in progress. Does not flush. NULL is allowed */

/* Writes the rows of b, removals too, and sorts it. */
weir_status cold_write(struct cold *c, struct row_batch *b, weir_error *err) WEIR_MUST_CHECK;
/* The header of a partition (any bytes), and its removal when data is NULL. */
weir_status cold_put_header(struct cold *c, uint32_t partition, const void *data, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
/* *out is malloc'ed. E_NOT_FOUND when there is none. */
weir_status cold_get_header(struct cold *c, uint32_t partition, uint8_t **out, size_t *bytes, weir_error *err) WEIR_MUST_CHECK;
/* Everything written so far is on disk, fsynced, when it returns OK. */
weir_status cold_flush(struct cold *c, weir_error *err) WEIR_MUST_CHECK;
/* Every row and the header of a partition are gone (a restore over an old folder, a partition that moved away). */
weir_status cold_remove_partition(struct cold *c, uint32_t partition, weir_error *err) WEIR_MUST_CHECK;
/* The same, and its header is this one from then on, none when it is NULL: a crash finds both or neither. */
weir_status cold_empty_partition(struct cold *c, uint32_t partition, const void *header, size_t bytes,
                                 weir_error *err) WEIR_MUST_CHECK;

/* Adds to `out` the rows of these keys that are stored. keys ascend and are distinct. */
weir_status cold_read(struct cold *c, uint32_t partition, uint32_t table, const uint64_t *keys, size_t count,
                      struct row_batch *out, weir_error *err) WEIR_MUST_CHECK;

/* A fixed view of everything written before. */
struct cold_snapshot;
struct cold_snapshot *cold_snapshot_create(struct cold *c); /* NULL when out of memory */
void cold_snapshot_destroy(struct cold_snapshot *s);        /* NULL is allowed */

/* The rows of a partition in the order of (table, key); of one table, from key `first` on. */
#define COLD_TABLES_ALL UINT32_MAX
struct cold_row {
	uint32_t table;
	uint64_t key;
	const uint8_t *bytes; /* row_decode; valid until the next call */
	size_t count;
};
struct cold_scan;
weir_status cold_scan_create(struct cold_scan **out, struct cold *c,
                             const struct cold_snapshot *snapshot /* NULL: as it is now */, uint32_t partition,
                             uint32_t table /* or COLD_TABLES_ALL */, weir_error *err) WEIR_MUST_CHECK;
/* The next row will be the first whose key is not below `key`: of a scan of one table, before its first row. */
void cold_scan_seek(struct cold_scan *s, uint64_t key);
/* E_NOT_FOUND at the end. */
weir_status cold_scan_next(struct cold_scan *s, struct cold_row *out, weir_error *err) WEIR_MUST_CHECK;
void cold_scan_destroy(struct cold_scan *s); /* NULL is allowed */

/* Bytes in memory, for the budget, and on disk. */
struct cold_usage {
	uint64_t memtables, cache, readers; /* readers: indexes and filters of open files */
	uint64_t files_bytes;
	uint64_t keys; /* about */
};
void cold_usage(struct cold *c, struct cold_usage *out);
/* What it may occupy: memtables and cache at their largest, and the indexes and filters there are now. */
uint64_t cold_memory(struct cold *c);
/* Deletes the folder of one that is closed. Errors are passed over: what is left is in the way of nobody. */
void cold_destroy(const char *path);

#endif
