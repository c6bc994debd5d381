/* A store under a memory budget, over a real RocksDB, and its model: an array of rows. Records,
 * flushes and snapshots change both. */
#ifndef WEIR_TESTS_STORE_MODEL_H
#define WEIR_TESTS_STORE_MODEL_H

#include "common/base/prng.h"
#include "server/store/store_internal.h"
#include "tests/folder.h"
#include "tests/unit/server/replication/task_queue.h"

#define TABLES      2u
#define KEYS        900u
#define WIDTH       5u
#define FLOATS      (2 * WIDTH) /* value and Adagrad's accumulator */
#define RECORD_MAX  32u
#define BUDGET_ROWS 300u /* of both tables together */
#define ROW_BYTES   97u  /* 64 for value and slots, then tail and flags */

struct model_row {
	bool stored, stub; /* stub: the row has its initial value */
	struct row_meta meta;
	float row[FLOATS];
};
typedef struct model_row model[TABLES][KEYS];

enum record_kind { PULL, PUSH, COUNT, REMOVE };

struct record {
	struct record *next;
	enum record_kind kind;
	uint32_t table;
	size_t count;
	uint64_t ids[RECORD_MAX]; /* distinct */
	uint64_t ticket;
};

struct view {
	struct store_snapshot *snapshot; /* NULL: no snapshot is in progress */
	uint64_t floor;
	struct cold_snapshot *below;
	model expected, emitted;
	bool removed[TABLES][KEYS];
};

struct world {
	struct prng prng;
	struct task_queue *loop;
	char folder[FOLDER_BYTES];
	struct memory_budget pool;
	struct cold *cold;
	struct cold_writer *writer;
	struct cold_fetch *fetch;
	struct store *store;
	struct store_table *tables[TABLES];
	model rows;
	struct record *parked, **parked_last;
	uint64_t index, durable; /* of the log */
	/* A flush. */
	struct cold_write header;
	/* Index in the header; the same for the last header in RocksDB. */
	uint64_t header_index, header_at;
	bool flushing;
	struct view views[STORE_SNAPSHOTS_MAX];
	/* A scan of table 0: rows stored since its first page, and rows found. */
	struct prng scan_prng; /* its own, so that other operations do not depend on it */
	bool scanning, kept[KEYS], met[KEYS];
	struct store_place place;
	weir_status failed;
	uint32_t asked; /* calls of the writer's stop callback */
};

uint64_t key_of(uint64_t id);
void add_table(struct store *s, uint32_t id, struct store_table **out);

/* --- Records */

void check_values(struct world *w, const struct record *r);
void push(struct world *w, const struct record *r);
/* False: the record waits. */
bool try_record(struct world *w, struct record *r);
void park(struct world *w, struct record *r);
void submit(struct world *w, struct record *r);
void fetched(void *arg, uint64_t ticket);
void failed(void *arg, weir_status status, const char *text);
void begin_flush(struct world *w);

/* --- Snapshots */

uint64_t id_of(uint64_t key);
void take(struct view *v, uint32_t table, uint64_t key, const uint8_t *bytes, size_t count);
void emit(void *arg, struct row_batch b);
void begin_snapshot(struct world *w, struct view *v, const struct store_snapshot_options *o);
void forget_snapshot(struct view *v);
void services_start(struct world *w, bool full);
void store_start(struct world *w);
void world_start_on(struct world *w, uint64_t seed, bool full);
void world_start(struct world *w, uint64_t seed);
void world_stop(struct world *w);
void world_free(struct world *w);
void set_durable(struct world *w, uint64_t index);
void settle(struct world *w);
/* Requests the rows as the replay of the next entry does. */
void replay_wants(struct world *w, const struct record *r);
void apply(struct world *w, struct record *r);

#endif
