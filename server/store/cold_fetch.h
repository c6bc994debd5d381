/* Reads rows back from RocksDB outside the partitions' threads. Each reader thread serves its share
 * of the partitions, so the requests of one partition are answered in order. */
#ifndef WEIR_COLD_FETCH_H
#define WEIR_COLD_FETCH_H

#include "common/base/callback_executor.h"
#include "server/store/cold.h"

struct cold_fetch;

/* Keys of one partition. The caller owns a request and must not touch it while it is in
 * progress. */
struct cold_want {
	uint32_t table;
	uint64_t key;
};
struct cold_request {
	uint32_t partition;
	size_t count, capacity;
	struct cold_want *wants; /* (count) distinct; the reader sorts them */
	struct row_batch rows;   /* the rows found, by (table, key) */
	struct callback_executor run_on;
	void (*done)(struct cold_request *r); /* runs with status and err set */
	weir_status status;
	weir_error err;
	struct cold_request *next; /* owned by the service */
};

struct cold_fetch *cold_fetch_create(struct cold *cold, uint32_t threads, weir_error *err);
/* Sorts r->wants and fills r->rows, as a reader does, on the caller's thread. */
weir_status cold_request_read(struct cold *cold, struct cold_request *r) WEIR_MUST_CHECK;
void cold_fetch_submit(struct cold_fetch *f, struct cold_request *r); /* from any thread */
/* Answers all queued requests and joins the threads. When it returns, every `done` has been posted.
 * NULL is allowed. */
void cold_fetch_destroy(struct cold_fetch *f);

#endif
