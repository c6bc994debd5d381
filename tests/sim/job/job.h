/* A job in a simulated world. Production servers and the production client run in processes of
 * their own. Trainers push whole numbers under SGD with rate 1, and any fault may occur. The final
 * value of an element shows how often each batch was applied; the checks compute the expected value
 * separately. Partitions have one copy, or replicas on several servers, which share a coordinator
 * (coord_sim.h).
 *
 *   job.c        one run: cast, faults, end
 *   server.c     a server's process
 *   trainer.c    a trainer's process
 *   operator.c   a process that moves partitions
 *   faults.c     injects faults
 *   check.c      checks at the end
 *   invariants.c checks at every moment, for replicated partitions
 *   settled.c    checks that partitions have a primary and all replicas again
 *   records.c    the coordinator's records, and which losses they survive */
#ifndef WEIR_SIM_JOB_H
#define WEIR_SIM_JOB_H

#include <stdio.h>

#include "server/records/assignment.h"
#include "server/records/mark.h"
#include "server/replica/replica.h"
#include "tests/sim/disk/disk_sim.h"
#include "tests/sim/net/network.h"
#include "weir/weir.h"

enum {
	SERVERS_MAX = 5,
	SIM_REPLICAS_MAX = 3,
	TRAINERS_MAX = 3,
	CAST_MAX = SERVERS_MAX + TRAINERS_MAX,
	PARTITIONS = 6,
	UNITS = 6,
	BATCHES = 5,
	PROGRESS_TIMEOUT_MS = 2000,
	KEYS = 12,
	KEY_SPACE = 60,
	WIDTH = 2,
	DENSE = 300
};

/* Kinds of faults. A seed enables some of them. */
#define SIM_FAULT_MAP(X)                                           \
	X(CUT, "a way is cut, in one direction")                       \
	X(PART, "a way is cut, in both directions")                    \
	X(ISOLATE, "a node is cut off from all, and rejoins in parts") \
	X(RESET, "connections are reset")                              \
	X(STOP, "a process is stopped for a while")                    \
	X(KILL_TRAINER, "kill -9 of a trainer")                        \
	X(KILL_SERVER, "kill -9 of a server")                          \
	X(POWER, "a server's machine loses power")                     \
	X(FULL, "a disk is full for a while")                          \
	X(SKEW, "clocks run too fast or too slow")                     \
	X(JUMP, "a wall clock jumps")                                  \
	X(LOSE_SERVER, "a server is gone for good")                    \
	X(COORD_DOWN, "the coordinator is down")                       \
	X(COORD_CUT, "a server is cut off from the coordinator")       \
	X(STALE, "a server's watches hear nothing")                    \
	X(LEASE, "a server's lease is lost")                           \
	X(ASTRAY, "a machine loses power, and writes go astray")       \
	X(LOSE_DISK, "a server's disk is lost, and it has a new one")  \
	X(GO_BACK, "a server's disk goes back in time")                \
	X(MOVE, "a partition's hosts or primary are to be others")

enum fault {
#define SIM_FAULT_ENUM(name, text) FAULT_##name,
	SIM_FAULT_MAP(SIM_FAULT_ENUM) FAULTS
#undef SIM_FAULT_ENUM
};

struct actor {
	struct job *job;
	struct node *node;
	uint32_t index; /* index among servers or among trainers */
	bool is_server, finished;
	bool gone;                  /* removed for good */
	uint32_t boots;             /* starts of its machine */
	uint64_t incarnation;       /* the last one that the coordinator gave out */
	struct server *server;      /* server of its process, once it serves */
	uint64_t serves;            /* life of the node in which it serves */
	struct disk_sim *disk;      /* servers with data on disk only */
	struct disk_sim *mark_disk; /* disk of its mark; NULL: it keeps none */
	struct mark copied;         /* how far `disk` was when copied; generation 0: never copied */
	bool is_old;                /* the copy is in place, and the mark tells */
	bool refused;               /* and the server refused to start */
	char name[32], address[32];
	weir_error end; /* reason why its process ended by itself */
};

/* In the world's memory; no process owns it. */
struct job {
	uint32_t servers, trainers, passes, executors;
	uint32_t replicas, min_isr;
	uint64_t backlog_bytes, catch_up_bytes_per_s;
	struct node *coordinator; /* NULL: partitions have one copy */
	bool durable;
	weir_mode mode;             /* mode of the dense table */
	weir_pull_coding pull;      /* differences of small whole numbers are exact as bf16 */
	int64_t compute_ns;         /* maximum, per batch */
	uint32_t stall_every;       /* one in this many batches hangs for a while; 0: none */
	uint32_t ack;               /* enum partition_ack */
	uint32_t read_staleness_ms; /* 0: only primaries answer reads */
	uint64_t read_staleness_entries;
	uint32_t fsync_ms, flush_ms;
	uint32_t faults;   /* bits */
	uint32_t lasting;  /* current faults, and processes that will restart */
	int64_t pause_ns;  /* maximum time between faults */
	int64_t heal_ns;   /* time after which no fault begins */
	int64_t healed_ns; /* time at which the last fault ended */
	/* Time at which every partition was last seen with a primary and all replicas. */
	int64_t settled_ns;
	int64_t slowest_ns;          /* longest time without progress since healed_ns */
	struct actor cast[CAST_MAX]; /* servers first */
	uint32_t cast_count;
	const char *addresses[SERVERS_MAX];
	/* Addresses where trainers look for the ledger: all servers, if replicated. */
	char ledger[SERVERS_MAX * 32];
	uint32_t done[FAULTS]; /* number of faults of each kind */
	uint64_t failovers;    /* changes of a partition's primary */
	/* Starts of processes; batches whose push a trainer saw acknowledged. */
	uint64_t starts, pushes;
	uint64_t computed, stalls; /* computed batches; of these, batches that hung, */
	uint64_t stalled;          /* and batches whose trainer was declared dead */
	/* Pulls answered by another replica than the primary; requests to move a partition. */
	uint64_t reads, moves;
	/* It must start over: a partition has no committed entry and no whole log left. */
	bool is_lost;
	bool checked, exact;                 /* the final checks ran; they included the sums */
	char failure[WEIR_ERROR_TEXT_BYTES]; /* "" without a failure */
};

/* Outcome of a run. */
struct result {
	uint64_t seed, hash, events;
	int64_t took_ns, slowest_ns;
	uint32_t faults, done[FAULTS], replicas;
	bool durable, synchronous, is_lost, exact;
	uint64_t starts, pushes, stalls, noticed, reads, moves, packets, stalled, early, resets, silences, failovers;
	char failure[WEIR_ERROR_TEXT_BYTES];
};
void job_run(struct result *out, uint64_t seed, bool verbose);

/* Keeps the first failure. */
void job_fail(struct job *job, const char *format, ...) WEIR_PRINTF(2, 3);

/* First threads of processes; arg is an actor. */
void server_main(void *actor);
void trainer_main(void *actor);
/* First thread of a process that asks for job->moves moves of partitions and waits for none of
 * them. arg: the job. */
void operator_main(void *job);
/* Called on one of the actor's threads: ends the process, which restarts later. Does not return. */
_Noreturn void actor_exit(struct actor *a, const char *why);
/* Kills the actor. It restarts unless the run is over. Not to be called on its own threads. */
void actor_kill(struct actor *a, enum node_death how);

/* Injects faults until job->heal_ns on a thread of its own; returns when all have ended. */
void faults_run(struct job *job);

/* Runs in a process of its own after all trainers have finished. */
void check_main(void *job);

/* --- Partitions with replicas */

struct actor *job_server(struct job *job, uint32_t index); /* the server's actor */
/* The actor's server while its process serves, else NULL. */
struct server *actor_server(const struct actor *a);
/* The furthest state that its disk may have, synced or not. Its server must run. */
struct mark actor_written(const struct actor *a);
/* The furthest state that its disk is known to have had: by its own mark, or by the
 * coordinator's. */
struct mark actor_mark(const struct actor *a);
/* Repairs an old disk that was refused. Puts the newest copy back or, if others have all of its
 * data, an empty disk. The node must be down. */
void actor_mend_disk(struct actor *a);

#define MARK_PATH "marks/server.mark" /* on an actor's mark_disk */

void records_begin(struct job *job); /* call before coord_sim_begin */
/* The coordinator's current record of a partition or of the ledger (PARTITIONS). NULL before the
 * first. */
const struct replica_record *records_get(uint32_t partition);
/* The assignment; the ledger has none. */
const struct assignment *records_wanted(uint32_t partition);
struct mark records_mark(const struct actor *server); /* generation 0: none yet */
/* The time since which the server is in sync; INT64_MAX: it is not. */
int64_t records_in_sync_since(uint32_t partition, uint16_t server);
void records_heard(uint32_t partition, uint16_t server); /* its process told others what it has */
/* The end of its log, or all of it, may be lost. */
void records_lost_log(const struct actor *server);
/* Whether, if the server lost its log now, each of its partitions would have another complete
 * replica that may become primary. */
bool records_survive(const struct job *job, const struct actor *server);

/* Whether each of its partitions has enough other in-sync replicas to continue without it for
 * good. */
bool records_spare(const struct actor *server);

void invariants_begin(struct job *job);
void invariants_end(void);
void invariants_lost_disk(const struct actor *server); /* with its votes */
/* Checks that may run at any time, on the main thread. */
void invariants_look(struct job *job);
void invariants_compare(struct job *job);          /* at the end: replicas are equal */
uint64_t invariants_committed(uint32_t partition); /* number of entries */

/* Whether each partition and the ledger have a primary that serves, with all possible replicas in
 * sync and level. still: no requests arrive, and all committed entries are on all disks. On false,
 * `why` says what is missing. */
bool settled_all(struct job *job, bool still, char *why, size_t bytes);
void settled_tell(struct job *job); /* prints all of it */

#endif
