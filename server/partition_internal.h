/* What the files of a partition share: partition.c (entries in, replies out), partition_check.c (is a record right?), partition_apply.c
 * (entries to rows), step.c (synchronous steps), partition_read.c (pulls and scans). Nobody else includes this. */
#ifndef WEIR_PARTITION_INTERNAL_H
#define WEIR_PARTITION_INTERNAL_H

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

struct parked {
	struct parked *next;
	uint64_t step;
	int64_t deadline_ms;
	void (*ready)(void *arg, weir_status status);
	void *arg;
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
	struct parked *parked;
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
 * (values; a pull has none). E_NOT_FOUND, E_INVALID, E_UNSUPPORTED. *sync: some table is synchronous. */
weir_status check_sections(const struct partition *p, const struct record *r, struct cursor body, bool *sync, weir_error *err);
/* Whether all values of all sections are finite. On false *table is where. The sections were checked. */
bool sections_finite(const struct record *r, struct cursor body, float *scratch, uint32_t *table);

/* --- partition_apply.c */

/* n values from a data stream; clip: those not finite become 0. */
void values_decode(struct cursor *data, weir_codec codec, size_t n, bool clip, float *out);
/* Applies an entry. What it returns is the outcome for the one who sent it; p->failed is set when memory ran out. */
weir_status partition_apply(struct partition *p, const struct log_entry *e);
void row_meta_touch(struct row_meta *m, const struct log_entry *e);
/* An entry with rows of the table has been applied at this rate. */
void table_step(struct partition_table *t, float lr);

#endif
