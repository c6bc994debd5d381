/* A partition with its log in a journal on a disk that loses unsynced writes, and its rows in
 * RocksDB under a small memory budget. Its records follow from a seed. A partition in memory that
 * applied the surviving entries is its twin. Some tables admit keys by count or chance, and evict
 * rows. */
#ifndef WEIR_TESTS_RECOVERY_FIXTURE_H
#define WEIR_TESTS_RECOVERY_FIXTURE_H

#include "state.pb-c.h"
#include "tests/cmocka_check.h"
#include "tests/manual_clock.h"
#include "tests/unit/server/node.h"
#include "tests/unit/server/random_records.h"

enum {
	ROUNDS = 4,
	STEPS_MAX = 60,
	KEYS = 400,
	ENTRIES_MAX = ROUNDS * (STEPS_MAX + 4) + 2,
	SEEDS = 8,
	POOL_BYTES = (1 << 20) + (64 << 10)
};

struct world {
	struct prng random;
	struct manual_clock clock;
	int64_t now_ns;
	struct task_queue *loop;
	struct node n;
	bool ack_disk;
	bool holds;     /* entries are committed late */
	bool follows;   /* another server is primary: no epoch begins here */
	uint32_t cuts;  /* starts that truncated entries */
	uint32_t waits; /* commits that had to fetch rows from RocksDB */
	uint64_t epoch;
	uint64_t committed;            /* the highest index reported to the partition */
	uint64_t survived;             /* the last index that the newest start kept */
	struct kept kept[ENTRIES_MAX]; /* by log index */
	uint64_t told_stable, told_for_good;
	uint64_t acknowledged, acknowledged_epoch; /* to an imaginary client, as in RESUME */
	uint32_t recoveries_with_loss;
};

/* --- Commits */

uint64_t appended(const struct world *w);

/* --- Entries */

void forget_above(struct world *w, uint64_t index);
void begin(struct world *w);
/* Waits until the cut is durable: a crash that loses the cut brings the entries back. */
void cut_above(struct world *w, uint64_t index);
void start(struct world *w);
void push_rows(struct world *w, uint16_t table, uint8_t kind);
void step(struct world *w);

/* --- Crash and comparison */

void crash_by(struct world *w, enum faulty_crash how);
Weir__V1__PartitionState *unpack_state(const struct partition *p);
void assert_equal_to_twin(struct world *w);
struct world *create(uint64_t seed, struct node_options o);
void close_world(struct world *w);
void flush(struct world *w);
struct world *open_world(bool follows);
/* Appends a push as another replica's primary sends it. */
void append_entry(struct world *w, uint64_t committed, uint64_t key);
void die_and_start(struct world *w, uint64_t applied, uint64_t tail);

#endif
