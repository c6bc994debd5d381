/* What the files of a partition share: partition.c (entries in, replies out), partition_check.c (is a record right?), partition_apply.c
 * (entries to rows), partition_admit.c and partition_evict.c (which rows there are), step.c (synchronous steps), partition_read.c (pulls and scans). Nobody else includes this. */
#ifndef WEIR_PARTITION_INTERNAL_H
#define WEIR_PARTITION_INTERNAL_H

#include "cold_sweep.h"
#include "epochs.h"
#include "identity.h"
#include "partition.h"
#include "step.h"

#define APPLY_ROWS 256u /* embedding rows looked up and applied together */

struct partition_table {
	struct store_table *rows;
	const weir_table_spec *spec;
	const struct optimizer *optimizer;
	bool full_decay;              /* rows that a push leaves out take its step too: optimizer_catch_up */
	struct optimizer_clock clock; /* state: counts the applied entries that brought rows of this table */
	struct histogram staleness;
	struct partition_table_counters counters;
};

/* Memory that applying works in, allocated once. */
struct apply_scratch {
	uint64_t keys[APPLY_ROWS];
	float *rows[APPLY_ROWS];
	struct row_meta *metas[APPLY_ROWS];
	struct row_state *states[APPLY_ROWS];
	float values[WEIR_ROW_WIDTH_MAX];
	float sum[WEIR_ROW_WIDTH_MAX];
	float row[(1 + WEIR_OPTIMIZER_SLOTS_MAX) * WEIR_ROW_WIDTH_MAX];
};

/* A record on its way through. */
struct submission {
	struct submission *next; /* while it waits */
	struct partition *p;
	const struct record *r;
	const struct cursor *body;
	struct message *message;
	partition_reply_fn on_reply;
	void *arg;
	uint64_t ticket;   /* the rows it waits for; 0: none */
	bool no_space;     /* it found the disk full */
	uint64_t survives; /* the reply waits until this log index is durable */
	struct partition_reply reply;
	weir_error err;
};

struct submissions { /* first in, first out */
	struct submission *first, **end;
};

/* A pull that waits for its step or its rows. */
struct parked {
	struct parked *next;
	const struct record *r;
	const struct cursor *body;
	uint64_t ticket; /* 0: of the step alone */
	int64_t deadline_ms;
	void (*ready)(void *arg, weir_status status);
	void *arg;
};

/* A reply that waits until what it says is durable, with copies of what it points to. */
struct deferred_reply;

/* One flush at a time: rows, then the header, then a sync. */
struct partition_flush_state {
	bool running, begun;   /* begun: the log is durable up to index, rows are being written */
	uint64_t index, needs; /* of the header: applied, and the first log entry that recovery from it needs */
	struct message *header;
	struct cold_write header_write, sync_write;
	int64_t next_ms;
	void (*done)(void *arg);
	void *arg;
};

/* The look for rows to evict: where it is. */
struct partition_eviction {
	bool busy;  /* a look below, or candidates, are under way */
	bool below; /* memory has been looked through, in this round */
	uint32_t table;
	uint64_t cursor; /* of store_look; below: a key */
	int64_t next_ms; /* of the next round */
	struct cold_sweep_request request;
	uint64_t keys[WEIR_EVICT_KEYS_MAX];
};

/* Rows of the entry being replayed that hold its effect already: bit i is the i-th row of its sections. NULL bits: none does. */
struct replay_skip {
	uint64_t *bits;
	size_t capacity; /* words */
	size_t row;      /* next one to be applied */
	bool active;
};

struct partition {
	struct partition_options options;
	struct store *store;
	struct identity identity;
	struct steps steps;
	struct partition_table *tables[WEIR_TABLES_MAX + 1];
	uint32_t tables_end; /* largest table id + 1 */
	uint64_t applied;    /* index of the last applied entry */
	weir_status failed;  /* an entry could not be applied: nothing is accepted any more */
	struct apply_scratch *scratch;
	struct epochs epochs;
	struct store_options store_options; /* options.store points here */
	bool cold, closed;                  /* rows may be below memory; no longer */
	struct replay_skip skip;
	uint64_t fetched;                      /* tickets up to here are served */
	struct parked *parked;                 /* pulls */
	struct submissions unfetched, blocked; /* that wait for rows; for space on the disk */
	struct deferred_reply *deferred, **deferred_end;
	uint64_t flushed; /* log index that the last complete flush covers */
	bool unflushed;   /* there was none: not even what it began with is in RocksDB */
	struct partition_flush_state flush;
	struct partition_eviction eviction;
	struct partition_counters counters;
};

/* One writer, many readers: no locked instruction needed. */
static inline void counter_bump(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline struct partition_table *partition_table(const struct partition *p, uint32_t id)
{
	return id < p->tables_end ? p->tables[id] : NULL;
}

/* --- partition_check.c */

/* The row keys of a section, in order, whatever its index codec. */
struct row_keys {
	struct cursor index;
	uint64_t chunk, stride; /* INDEX_ALL: the next chunk */
	uint32_t left;
	bool all;
};
struct row_keys row_keys_of(const struct partition *p, const struct partition_table *t, const struct section *s);
size_t row_keys_next(struct row_keys *k, uint64_t *keys, size_t max);

/* Checks every section: known table, its width, supported codecs, keys that live here, and data of the right size
 * (values; a pull has none). E_NOT_FOUND, E_INVALID, E_UNSUPPORTED. *sync: some table is synchronous; of a push all are or none. */
weir_status check_sections(const struct partition *p, const struct record *r, struct cursor body, bool *sync, weir_error *err);
/* Whether all values of all sections are finite. On false *table is where. The sections were checked. */
bool sections_finite(const struct record *r, struct cursor body, float *scratch, uint32_t *table);

/* --- partition_apply.c */

/* n values from a data stream; clip: those not finite become 0. */
void values_decode(struct cursor *data, weir_codec codec, size_t n, bool clip, float *out);
/* Applies an entry. What it returns is the outcome for the one who sent it; p->failed is set when memory ran out. */
weir_status partition_apply(struct partition *p, const struct log_entry *e);
void partition_publish(struct partition *p); /* into the counters of the status report */
void row_meta_touch(struct row_meta *m, const struct log_entry *e);
/* An entry with rows of the table has been applied at this rate. */
void table_step(struct partition_table *t, float lr);

/* --- partition_admit.c */

/* Whether pushes to all of these keys have effect already. */
bool rows_admitted(const struct partition_table *t, const uint64_t *keys, size_t count);
/* Whether the entry's push to the key has effect; one that has not is counted. E_MEMORY. */
weir_status row_admit(struct partition_table *t, uint32_t table, uint64_t key, const struct log_entry *e,
                      bool *admitted) WEIR_MUST_CHECK;

/* --- partition_evict.c */

weir_status submit_evict(struct submission *s);
weir_status evict_apply(struct partition *p, const struct log_entry *e) WEIR_MUST_CHECK; /* E_MEMORY */
void evict_tick(struct partition *p, int64_t now_ms);

/* --- partition.c */

/* Logs the record with these rates and applies it. */
weir_status submission_commit(struct submission *s, uint32_t finding, const float *rates, uint32_t rates_count);

/* --- partition_rows.c: rows that a record needs in memory */

/* Asks for the embedding rows that a record's sections name, as far as they can be read. E_MEMORY. */
weir_status rows_want(struct partition *p, const struct record *r, struct cursor body) WEIR_MUST_CHECK;
/* Sends for what was wanted; whether the caller must wait for *ticket. */
bool rows_missing(struct partition *p, uint64_t *ticket);

/* --- partition_wait.c */

void submissions_add(struct submissions *l, struct submission *s); /* copied */
/* Runs a record: it is answered, or waits. */
void submission_run(struct submission *s);
/* Replies, now or once s->survives is durable. */
void submission_answer(struct submission *s);
void parked_wake(struct partition *p, int64_t now_ms);
void rows_fetched(void *arg, uint64_t ticket); /* store_options.fetched */

/* --- partition_flush.c: the log is durable up to `durable` */
void flush_continue(struct partition *p, uint64_t durable);

/* --- partition_replay.c */

static inline bool replay_skips(const struct partition *p, size_t row)
{
	return p->skip.active && (p->skip.bits[row / 64] >> row % 64 & 1);
}

#endif
