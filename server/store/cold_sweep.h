/* Looks through rows below memory for those that a table's eviction rule names: a thread in the background, a slice of rows for every request. */
#ifndef WEIR_COLD_SWEEP_H
#define WEIR_COLD_SWEEP_H

#include "common/base/callback_executor.h"
#include "server/store/cold.h"
#include "weir/table.h"

struct cold_sweep;

/* The caller's, untouched while under way. */
struct cold_sweep_request {
	uint32_t partition, table;
	uint64_t from; /* the first key to look at */
	weir_eviction rule;
	uint32_t now_s;
	uint64_t *keys; /* (WEIR_EVICT_KEYS_MAX) those whose stored row is expired */
	size_t count;
	bool end;      /* there are no more rows; else */
	uint64_t next; /* where to go on */
	struct poster poster;
	void (*done)(struct cold_sweep_request *r); /* status, err and what was found are set */
	weir_status status;
	weir_error err;
	struct cold_sweep_request *following; /* the service's */
};

struct cold_sweep *cold_sweep_create(struct cold *cold, weir_error *err);
void cold_sweep_submit(struct cold_sweep *s, struct cold_sweep_request *r); /* from any thread */
/* Answers what is queued, joins the thread. Every done has been posted when it returns. NULL is allowed. */
void cold_sweep_destroy(struct cold_sweep *s);

#endif
