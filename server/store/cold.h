/* The rows below memory: one RocksDB per server. Only cold.c includes RocksDB. Keys are big-endian,
 * so the keys of a partition, and of a table in it, form one range:
 *
 *   partition u16 | kind u8 (0 row, 1 header) | table u16 | row key u64
 *
 * There is one column family and no write-ahead log (the journal is the log). After a crash RocksDB
 * holds a prefix of the writes, at least up to the last cold_flush. Only one thread may write
 * (cold_writer.h); any thread may call the other functions.
 *
 * Errors: E_NO_SPACE (the disk or its user's quota is full; the call wrote nothing; try again),
 * E_CORRUPT (a checksum failed; the text names the file; no byte of it is ever returned), E_IO
 * (final: the server must stop).
 *
 * RocksDB ends the process when it continues writing a file after a failed write: an assertion in
 * one of its own threads raises SIGABRT. The name of that thread begins with COLD_THREADS. So
 * cold.c checks for space before each write and flush. A disk that fills up in between still ends
 * the process. */
#ifndef WEIR_COLD_H
#define WEIR_COLD_H

#include <stdint.h>

#include "server/store/row_batch.h"
#include "weir/status.h"

struct cold;
struct cold_options {
	const char *path;      /* folder of the database; created if absent */
	uint64_t memory_bytes; /* for memtables; small values are rounded up */
	uint32_t threads;      /* background threads for flushes and compactions; 0: 3 */
	/* Bytes. The disk counts as full when its free space is below this plus the size of the live
	 * files. 0: COLD_SPARE_BYTES. */
	uint64_t spare_bytes;
	bool read_only; /* for tools that only read */
};

/* The space that RocksDB may need for data that it has accepted (flushes and compactions in
 * progress). RocksDB does not survive a full disk, so this much stays free. Other programs that
 * write to the same disk should also leave this much free. */
#define COLD_SPARE_BYTES (512u << 20)
#define COLD_THREADS     "rocksdb:"

weir_status cold_open(struct cold **out, const struct cold_options *options, weir_error *err) WEIR_MUST_CHECK;
/* Call it only after all scans, snapshots and calls have ended. It does not flush. NULL is
 * allowed. */
void cold_close(struct cold *c);

/* Writes the rows of b, including removals. Sorts b. */
weir_status cold_write(struct cold *c, struct row_batch *b, weir_error *err) WEIR_MUST_CHECK;
/* Writes the header of a partition (any bytes). NULL data removes it. */
weir_status cold_put_header(struct cold *c, uint32_t partition, const void *data, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
/* *out is malloc'ed. E_NOT_FOUND: the partition has no header. */
weir_status cold_get_header(struct cold *c, uint32_t partition, uint8_t **out, size_t *bytes, weir_error *err) WEIR_MUST_CHECK;
/* On WEIR_OK everything written before the call is on disk, fsynced. */
weir_status cold_flush(struct cold *c, weir_error *err) WEIR_MUST_CHECK;
/* Removes every row and the header of a partition (for a restore over an old folder, or a partition
 * that moved away). */
weir_status cold_remove_partition(struct cold *c, uint32_t partition, weir_error *err) WEIR_MUST_CHECK;
/* Removes every row of a partition and replaces its header, in one atomic write. NULL removes the
 * header. */
weir_status cold_empty_partition(struct cold *c, uint32_t partition, const void *header, size_t bytes,
                                 weir_error *err) WEIR_MUST_CHECK;

/* Adds to `out` the stored rows of these keys. Keys must ascend and be distinct. */
weir_status cold_read(struct cold *c, uint32_t partition, uint32_t table, const uint64_t *keys, size_t count,
                      struct row_batch *out, weir_error *err) WEIR_MUST_CHECK;

/* A fixed view of everything written before its creation. */
struct cold_snapshot;
struct cold_snapshot *cold_snapshot_create(struct cold *c); /* NULL: out of memory */
void cold_snapshot_destroy(struct cold_snapshot *s);        /* NULL is allowed */

/* Scans the rows of a partition, or of one of its tables, in the order of (table, key). */
#define COLD_TABLES_ALL UINT32_MAX
struct cold_row {
	uint32_t table;
	uint64_t key;
	const uint8_t *bytes; /* input of row_decode; valid until the next call */
	size_t count;
};
struct cold_scan;
/* snapshot NULL: scans the current state. table: a table id or COLD_TABLES_ALL. */
weir_status cold_scan_create(struct cold_scan **out, struct cold *c, const struct cold_snapshot *snapshot, uint32_t partition,
                             uint32_t table, weir_error *err) WEIR_MUST_CHECK;
/* Makes the next row the first whose key is at least `key`. Only for a scan of one table, before
 * its first row. */
void cold_scan_seek(struct cold_scan *s, uint64_t key);
/* E_NOT_FOUND: no more rows. */
weir_status cold_scan_next(struct cold_scan *s, struct cold_row *out, weir_error *err) WEIR_MUST_CHECK;
void cold_scan_destroy(struct cold_scan *s); /* NULL is allowed */

/* Bytes in memory (for the memory budget) and on disk. */
struct cold_usage {
	uint64_t memtables, cache, readers; /* readers: indexes and filters of open files */
	uint64_t files_bytes;
	uint64_t keys; /* approximate */
};
void cold_usage(struct cold *c, struct cold_usage *out);
/* Returns the most memory it may use: memtables and cache at their largest, plus the current
 * indexes and filters. */
uint64_t cold_memory(struct cold *c);
/* Deletes the folder of a closed database. Ignores errors: leftover files do no harm. */
void cold_destroy(const char *path);

#endif
