/* The only thread of a server that writes to RocksDB.
 *
 * The queue is first in, first out: a later version of a row is written later, and a header is
 * written after the rows that it describes. Flushes that wait at the same time become one flush,
 * behind all items queued with them.
 *
 * On a full disk the writer retries the batch until there is room, and everything behind it waits.
 * If the server stops meanwhile, the batch and everything behind it are answered with E_NO_SPACE.
 * Any other error is final in the same way: everything behind it gets that error. */
#ifndef WEIR_COLD_WRITER_H
#define WEIR_COLD_WRITER_H

#include "common/base/callback_executor.h"
#include "common/system/logger.h"
#include "server/store/cold.h"

struct cold_writer;
struct cold_writer_options {
	struct cold *cold;
	/* May be NULL; reports when the disk becomes full and when it has room again. */
	struct logger *logger;
	uint32_t retry_ms; /* between retries on a full disk; 0: 1000 */
	/* Returns whether the server is stopping; the writer then stops retrying on a full disk. Called
	 * by the writing thread between retries. May be NULL. */
	bool (*stopping)(void *arg);
	void *arg;
};

/* EMPTY: cold_empty_partition. */
enum cold_write_kind { COLD_WRITE_ROWS, COLD_WRITE_HEADER, COLD_WRITE_EMPTY, COLD_WRITE_FLUSH };
/* The caller owns an item and must not touch it while it is in progress. done runs on `run_on`
 * once the item is in RocksDB (FLUSH: on disk) or can never be. */
struct cold_write {
	enum cold_write_kind kind;
	struct row_batch rows; /* ROWS */
	uint32_t partition;    /* HEADER, EMPTY */
	const void *header;    /* HEADER, EMPTY */
	size_t header_bytes;
	struct callback_executor run_on;
	/* Runs with status and err set; err.text describes the failure and its place. */
	void (*done)(struct cold_write *w);
	weir_status status;
	weir_error err;
	struct cold_write *next; /* owned by the writer */
};

struct cold_writer *cold_writer_create(const struct cold_writer_options *options, weir_error *err);
/* From any thread. The items of one thread are written in the order submitted. */
void cold_writer_submit(struct cold_writer *w, struct cold_write *item);
/* Writes the item on the caller's thread, with the same retries; does not call done. For recovery,
 * while nothing is queued or submitted. */
weir_status cold_writer_write_now(struct cold_writer *w, struct cold_write *item);
/* Whether a full disk blocks the writer now, or made it give up. From any thread. */
bool cold_writer_is_stuck(const struct cold_writer *w);
/* Writes the queued items (on a full disk: answers them with E_NO_SPACE) and joins the thread. When
 * it returns, every `done` has been posted. NULL is allowed. */
void cold_writer_destroy(struct cold_writer *w);

#endif
