/* Explores the replication protocol (server/replica/replica.h) under faults, in one thread and from
 * one seed.
 *
 * Five servers host three partitions of two or three replicas. The surroundings of the state
 * machine are simulated. Disks lose unsynced log entries. The network loses, delays, repeats and
 * reorders messages, also in one direction only. The coordinator is slow or silent, or executes
 * requests long after the caller gave up. Servers crash, stop and resume. check.c alone defines
 * correct behaviour, and workload and faults do not depend on it. The same seed gives the same
 * trace.
 *
 *   explorer.c  the event queue, one run
 *   driver.c    executes actions of replica.h
 *   faults.c    faults, pushes, moves
 *   node.c      a server: its copies of partitions, crash and restart
 *   net.c       messages
 *   coord.c     the coordinator's records
 *   check.c     the invariants */
#ifndef WEIR_TESTS_REPLICA_EXPLORER_H
#define WEIR_TESTS_REPLICA_EXPLORER_H

#include <stdio.h>

#include "common/base/prng.h"
#include "server/replica/replica.h"

#define NODES       5u
#define PARTITIONS  3u
#define LOG_ENTRIES 8192u /* maximum per partition and run */
#define TICK_US     100000

struct entry {
	uint64_t epoch, value;
};

/* A partition's files on a node. */
struct disk_copy {
	struct entry log[LOG_ENTRIES + 1]; /* entries first..last, by index */
	uint64_t first, last, durable;
	uint64_t base, base_state; /* header and rows: the state after applying everything up to base */
	struct epochs base_epochs;
	uint64_t promised;
	bool lossy; /* the last crash may have lost the log's end */
};

/* One replica of a partition on a node. */
struct copy {
	bool hosted;
	struct disk_copy disk;
	struct replica *replica; /* NULL while the node is down */
	uint64_t applied, state;
	uint64_t cuts; /* number of times the log's end was cut off */
	bool serving;
	uint64_t begun; /* last epoch that it began as primary */
	struct replica_actions actions;
};

struct node {
	bool up;
	uint64_t life;                    /* incarnation */
	int64_t paused_until, full_until; /* its process stands still; its disk is full */
	struct heartbeat heartbeat;
	struct copy copies[PARTITIONS];
};

enum event_kind {
	EVENT_TICK,
	EVENT_MESSAGE,
	EVENT_HEARTBEAT,
	EVENT_PROMISED,
	EVENT_SYNCED,
	EVENT_COORD,       /* a request reaches the coordinator */
	EVENT_COORD_REPLY, /* the answer, or the caller's timeout */
	EVENT_WATCH,
	EVENT_SNAPSHOT,
	EVENT_SNAPSHOT_ENDED,
	EVENT_PUSH,
	EVENT_FAULT,
	EVENT_START,
	EVENT_CRASH
};

struct wire {
	struct replica_message message;
	struct epochs *epochs;
	struct entry *entries; /* first..last */
};

struct snapshot {
	uint64_t epoch, last, state;
	struct epochs epochs;
};

struct event {
	int64_t at_us;
	uint64_t sequence;
	enum event_kind kind;
	uint16_t node, peer;
	uint64_t life; /* life of the node; 0: any */
	uint32_t partition;
	uint64_t generation; /* generation of the partition */
	uint64_t a, b;
	bool flag;
	struct replica_record record;
	void *payload; /* freed with the event: message or snapshot */
};

/* The seed's behaviour. Each kind of fault is on or off, so that runs differ. */
struct mood {
	double loss, repeat, crash, machine_crash, crash_again, pause, cut, coord_silent, coord_lost, coord_late, snapshot_loss,
	    disk_full, move, host;
	double spite; /* chance of faults at the worst moments */
	int64_t delay_us, delay_rare_us, coord_us, sync_us;
	/* Number of servers that crash, stop and lose links, and the first of them. */
	uint32_t struck, struck_from;
	uint16_t frail; /* the server that crashes most; NODES: none */
	uint32_t burst; /* maximum number of pushes at once */
	bool memory_log, sync_store;
	uint32_t replicas[PARTITIONS], min_isr[PARTITIONS];
};

/* The checkers' view of partitions, private to check.c. */
struct history;

struct partition_sim {
	struct replica_record record; /* as the coordinator has it */
	uint64_t generation;
	uint64_t next_value;
	bool lost;
	uint32_t rewinds;
};

struct sim {
	uint64_t seed, trace, sequence, events;
	uint32_t kinds; /* kinds of faults that it may meet: FAULT_KINDS bits */
	int64_t now_us, heal_us, end_us;
	bool healed, verbose;
	struct prng random;
	struct mood mood;
	struct event *heap;
	uint32_t heap_count, heap_capacity;
	struct node nodes[NODES];
	struct partition_sim partitions[PARTITIONS];
	struct history *history;
	bool cut[NODES][NODES]; /* [from][to] */
	bool coord_cut[NODES];
	int64_t held_until[NODES][NODES]; /* nothing arrives before this time */
	int64_t coord_silent_until;
	struct {
		uint64_t pushes, acked, commits, begins, crashes, losses, snapshots, truncations, moves, rewinds, messages;
	} count;
	char failure[512]; /* "" without a violation */
};

/* --- explorer.c */

struct event *sim_schedule(struct sim *s, int64_t delay_us, enum event_kind kind, uint16_t node);
bool sim_chance(struct sim *s, double p);
int64_t sim_between(struct sim *s, int64_t low, int64_t high);
void sim_trace(struct sim *s, uint64_t a, uint64_t b, uint64_t c);
void sim_note(struct sim *s, const char *format, ...) WEIR_PRINTF(2, 3); /* with --trace */
/* Returns false after a violation; s->failure describes it. */
bool sim_run(struct sim *s, uint64_t seed, bool verbose);

/* --- node.c */

void node_start(struct sim *s, uint16_t node);
void node_crash(struct sim *s, uint16_t node, bool machine);
void node_host(struct sim *s, uint16_t node, uint32_t partition);
void node_tick(struct sim *s, uint16_t node);
/* Discards the partition everywhere: a new generation begins. */
void partition_rewind(struct sim *s, uint32_t partition);

/* --- driver.c */

void driver_run(struct sim *s, uint16_t node, uint32_t partition, const struct wire *w);
/* Pushes `count` entries, stored together. */
void driver_push(struct sim *s, uint16_t node, uint32_t partition, uint32_t count);
void driver_synced(struct sim *s, uint16_t node, uint32_t partition, uint64_t index);
void driver_snapshot(struct sim *s, const struct event *e);
void driver_flush(struct sim *s, uint16_t node, uint32_t partition);

/* --- net.c */

void net_send(struct sim *s, uint16_t from, uint16_t to, uint32_t partition, const struct replica_message *m,
              const struct entry *log);
void net_heartbeats(struct sim *s, uint16_t node);
void net_snapshot(struct sim *s, uint16_t from, uint16_t to, uint32_t partition);
void wire_release(struct wire *w);

/* --- coord.c */

void coord_ask(struct sim *s, uint16_t node, uint32_t partition, bool change, const struct replica_record *record);
void coord_on_request(struct sim *s, const struct event *e);
void coord_on_reply(struct sim *s, const struct event *e);
void coord_tell(struct sim *s, uint32_t partition);

/* --- faults.c */

void faults_choose(struct sim *s);
#define FAULT_KINDS 18u
void faults_step(struct sim *s);
void faults_heal(struct sim *s);
void faults_start(struct sim *s, uint16_t node);
void faults_crash(struct sim *s, uint16_t node);
void faults_push(struct sim *s);
/* Faults at the worst moments: a server is about to join the ISR; a primary and its follower have
 * compared their logs. */
bool faults_at_growth(struct sim *s, uint16_t added);
void faults_at_establish(struct sim *s, uint16_t primary, uint16_t follower);

/* --- check.c */

struct history *history_create(void);
void history_destroy(struct history *h);
void sim_fail(struct sim *s, const char *format, ...) WEIR_PRINTF(2, 3);
void check_rewound(struct sim *s, uint32_t partition);
/* Call before its log is dropped. */
void check_reset(struct sim *s, uint16_t node, uint32_t partition);
/* Call after any change of a log. */
void check_stored(struct sim *s, uint16_t node, uint32_t partition);
/* Call before the entry is applied. */
void check_commit(struct sim *s, uint16_t node, uint32_t partition, uint64_t to);
void check_acknowledged(struct sim *s, uint32_t partition, uint64_t index, uint64_t value);
void check_begin(struct sim *s, uint16_t node, uint32_t partition, uint64_t epoch);
void check_sent(struct sim *s, uint16_t node, uint32_t partition, const struct replica_message *m);
void check_record(struct sim *s, uint32_t partition, const struct replica_record *before);
void check_lost(struct sim *s, uint16_t node, uint32_t partition);
void check_crashed(struct sim *s, uint32_t partition); /* the end of a log may be lost */
void check_healed(struct sim *s);
void check_end(struct sim *s);
uint64_t check_fold(uint64_t state, uint64_t index, uint64_t value);

#endif
