/* Searches the rows below memory for rows that a table's eviction rule has expired. One background
 * thread examines a slice of rows per request. */
#ifndef WEIR_COLD_SWEEP_H
#define WEIR_COLD_SWEEP_H

#include "common/base/callback_executor.h"
#include "server/store/cold.h"
#include "weir/table.h"

struct cold_sweep;

/* The caller owns a request and must not touch it while it is in progress. */
struct cold_sweep_request {
	uint32_t partition, table;
	uint64_t from; /* the first key to examine */
	weir_eviction rule;
	uint32_t now_s;
	uint64_t *keys; /* (WEIR_EVICT_KEYS_MAX) keys whose stored row is expired */
	size_t count;
	bool end;      /* no more rows; otherwise `next` is set */
	uint64_t next; /* the key at which to continue */
	struct callback_executor run_on;
	void (*done)(struct cold_sweep_request *r); /* runs with status, err and the results set */
	weir_status status;
	weir_error err;
	struct cold_sweep_request *following; /* owned by the service */
};

struct cold_sweep *cold_sweep_create(struct cold *cold, weir_error *err);
void cold_sweep_submit(struct cold_sweep *s, struct cold_sweep_request *r); /* from any thread */
/* Answers all queued requests and joins the thread. When it returns, every `done` has been posted.
 * NULL is allowed. */
void cold_sweep_destroy(struct cold_sweep *s);

#endif
