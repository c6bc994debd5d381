/* Reads rows back from RocksDB, off the partitions' threads: reader threads, each with its share of the partitions, so that one partition's requests are
 * answered in their order. */
#ifndef WEIR_COLD_FETCH_H
#define WEIR_COLD_FETCH_H

#include "common/base/callback_executor.h"
#include "server/store/cold.h"

struct cold_fetch;

/* Keys of one partition. The caller's, untouched while under way. */
struct cold_want {
	uint32_t table;
	uint64_t key;
};
struct cold_request {
	uint32_t partition;
	size_t count, capacity;
	struct cold_want *wants; /* (count) distinct; sorted by the reader */
	struct row_batch rows;   /* those found, by (table, key) */
	struct poster poster;
	void (*done)(struct cold_request *r); /* status, err */
	weir_status status;
	weir_error err;
	struct cold_request *next; /* the service's */
};

struct cold_fetch *cold_fetch_create(struct cold *cold, uint32_t threads, weir_error *err);
/* What a reader does: sorts r->wants and fills r->rows. On the caller's thread. */
weir_status cold_request_read(struct cold *cold, struct cold_request *r) WEIR_MUST_CHECK;
void cold_fetch_submit(struct cold_fetch *f, struct cold_request *r); /* from any thread */
/* Answers what is queued, joins the threads. Every done has been posted when it returns. NULL is allowed. */
void cold_fetch_destroy(struct cold_fetch *f);

#endif
