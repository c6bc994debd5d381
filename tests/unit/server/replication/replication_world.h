/* Members of one partition in one thread, each with the production driver, authority and promises: over simulated time, a coordinator in memory, a network that
 * loses and delays, logs in memory that survive their members' ends. What must hold is checked as it happens. Same seed, same run. */
#ifndef REPLICATION_WORLD_H
#define REPLICATION_WORLD_H

#include "common/base/prng.h"
#include "proto/coord/coord_memory.h"
#include "server/replication/replication.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/replication/task_queue.h"

enum { MEMBERS_MAX = 3, ENTRIES_MAX = 8192, EPOCHS_MAX = 1024, WIRES_MAX = 4096, BATCH_ENTRIES = 8, PARTITION = 5 };
#define TICK_MS 100

struct member {
	struct world *world;
	uint16_t id;
	bool up, machine_lost; /* machine_lost: by the crash before */
	/* What its folder has. */
	struct faulty_disk *disk;
	struct log_entry log[ENTRIES_MAX + 1]; /* by index; the value pushed is record.request_id */
	uint64_t last, durable;
	uint32_t boots;
	/* Its process. */
	struct task_queue *loop;
	struct coord *coord; /* of the authority */
	struct coord_records *records;
	struct vote_store *votes;
	struct replication *x;
	struct heartbeat heartbeat;
	uint64_t committed, epoch, beginning; /* epoch that it began; that it shall begin when there is space */
	bool serves, ships;
	uint32_t sessions, chain; /* opened; records that are yet to follow each other's answers */
	/* Faults. */
	bool full;
	uint32_t refusals; /* of a full disk */
};

struct wire {
	int64_t due_ms;
	struct replica_message message;
	struct epochs epochs;
	struct log_entry entries[BATCH_ENTRIES];
};

struct world {
	struct prng random;
	struct clock clock;
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
	/* What has happened. */
	struct log_entry content[ENTRIES_MAX + 1]; /* of what was committed, by index */
	uint64_t committed, pushed, acknowledged, begun[EPOCHS_MAX];
	bool was_acknowledged[ENTRIES_MAX + 1]; /* by index */
	uint32_t begun_count, lost;
};

struct world *world_create(uint32_t members, uint16_t min_isr, uint64_t seed); /* nobody is up */
void world_destroy(struct world *w);
void member_start(struct world *w, uint16_t id);
void member_crash(struct world *w, uint16_t id, bool machine);
void start_all(struct world *w);
/* A record comes to the member; whether its log has it now. */
bool member_push(struct member *m);

void world_run(struct world *w, int64_t ms);
/* Until it holds, at most 20 s of the world's time; then the test fails. */
void world_until(struct world *w, bool (*holds)(struct world *w), const char *what);
struct member *world_primary(struct world *w); /* the one that serves in the newest epoch begun; NULL: nobody does */
bool one_serves(struct world *w);
/* One serves, all that are up have the same log, and all of it is committed. */
bool all_are_equal(struct world *w);
bool all_are_in_sync(struct world *w); /* by the record */
void heal(struct world *w);

#endif
