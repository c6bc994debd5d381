/* The ordered log of one partition: an entry is made durable as its place demands, then applied. log_memory.c keeps entries in
 * memory only; a RocksDB-backed one comes behind the same vtable. One owner: the partition's executor. */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

#include <stdint.h>

#include "frame.h"
#include "message.h"
#include "weir/status.h"

/* What the primary's look at a push's numbers found, so that every replica treats it alike. */
enum log_finding {
	LOG_FINITE = 0,
	LOG_REJECTED = 1, /* a NaN or infinity: nothing is applied, the identity is done */
	LOG_CLIPPED = 2   /* a NaN or infinity: such elements count as 0 */
};

/* What the primary adds to a record. Everything that applying needs and that is not in the record is here. */
struct log_entry {
	uint64_t epoch, index; /* index counts from 1 without gaps */
	uint64_t generation;
	int64_t stamp_ms; /* the primary's monotone wall clock: the only time that applying sees */
	uint32_t rates_count;
	const float *rates; /* learning rates after the schedules: PUSH (sections), CLOSE_STEP (tables by id, up to the largest) */
	uint32_t finding;   /* enum log_finding */
	struct record record;
	struct message *message; /* holds the record's bytes; the log keeps a reference until truncated */
	struct cursor body;      /* the record's sections inside message */
};

struct log;
struct log_ops {
	/* Appends e (copied, rates too); its index must be last + 1. Returns when the entry is in the log; `durable` says how far a crash is survived.
	 * E_IO: the server must stop. */
	weir_status (*append)(struct log *l, const struct log_entry *e, weir_error *err);
	const struct log_entry *(*get)(struct log *l, uint64_t index); /* NULL when truncated or not there */
	uint64_t (*first)(const struct log *l);
	uint64_t (*last)(const struct log *l);
	uint64_t (*durable)(const struct log *l);              /* last index that is as safe as this log can make it */
	void (*truncate_below)(struct log *l, uint64_t index); /* entries < index are no longer needed */
	void (*destroy)(struct log *l);
};
struct log {
	const struct log_ops *ops;
};

struct log *log_memory_create(void); /* NULL when out of memory */

#endif
