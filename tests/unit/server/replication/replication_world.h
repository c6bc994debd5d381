/* Members of one partition in one thread. Each has the production driver, coord_records and vote
 * store, over simulated time, a coordinator in memory, a network that loses and delays messages,
 * and logs in memory that survive the process. Invariants are checked at every step. The same seed
 * gives the same run. */
#ifndef REPLICATION_WORLD_H
#define REPLICATION_WORLD_H

#include "common/base/prng.h"
#include "proto/coord/coord_memory.h"
#include "server/replication/replication.h"
#include "tests/manual_clock.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/replication/task_queue.h"

enum { MEMBERS_MAX = 3, ENTRIES_MAX = 8192, EPOCHS_MAX = 1024, WIRES_MAX = 4096, BATCH_ENTRIES = 8, PARTITION = 5 };
#define TICK_MS 100

struct member {
	struct world *world;
	uint16_t id;
	bool up, machine_lost; /* machine_lost: in the last crash */
	/* Its folder. */
	struct faulty_disk *disk;
	struct log_entry log[ENTRIES_MAX + 1]; /* by index; the value pushed is record.request_id */
	uint64_t last, durable;
	uint32_t boots;
	/* Its process. */
	struct task_queue *loop;
	struct coord *coord; /* the session of records */
	struct coord_records *records;
	struct vote_store *votes;
	struct replication *x;
	struct heartbeat heartbeat;
	/* epoch: begun; beginning: epoch to begin when the disk has space. */
	uint64_t committed, epoch, beginning;
	bool serves, ships;
	uint32_t sessions, chain; /* sessions opened; records that still follow one another's replies */
	/* Faults. */
	bool full;
	uint32_t refusals; /* by the full disk */
};

struct wire {
	int64_t due_ms;
	struct replica_message message;
	struct epochs epochs;
	struct log_entry entries[BATCH_ENTRIES];
};

struct world {
	struct prng random;
	struct manual_clock clock;
	int64_t now_ms, tick_ms;
	uint32_t members_count;
	uint16_t min_isr;
	bool alone;
	struct coord_memory *coordinator;
	struct member members[MEMBERS_MAX];
	struct wire *wires; /* (wires_count) */
	uint32_t wires_count;
	/* Faults. */
	double loss;
	int64_t delay_ms;
	bool cut[MEMBERS_MAX][MEMBERS_MAX]; /* from, to */
	/* Results. */
	struct log_entry content[ENTRIES_MAX + 1]; /* committed entries, by index */
	uint64_t committed, pushed, acknowledged, begun[EPOCHS_MAX];
	bool was_acknowledged[ENTRIES_MAX + 1]; /* by index */
	uint32_t begun_count, lost;
};

struct world *world_create(uint32_t members, uint16_t min_isr, uint64_t seed); /* no member is up */
void world_destroy(struct world *w);
void member_start(struct world *w, uint16_t id);
void member_crash(struct world *w, uint16_t id, bool machine);
void start_all(struct world *w);
/* Pushes a record to the member. Returns whether its log has it. */
bool member_push(struct member *m);

void world_run(struct world *w, int64_t ms);
/* Runs until the condition holds. Fails after 20 s of simulated time. */
void world_until(struct world *w, bool (*holds)(struct world *w), const char *what);
struct member *world_primary(struct world *w); /* serves in the newest epoch; NULL: none */
bool one_serves(struct world *w);
/* A primary serves, all running members have the same log, and all of it is committed. */
bool all_are_equal(struct world *w);
bool all_are_in_sync(struct world *w); /* as the record says */
void heal(struct world *w);

#endif
