/* A job in a simulated world: production servers and the production client in processes of their own, trainers that push whole numbers under SGD with rate 1,
 * and everything that can go wrong. Every element's final value says how often each batch was applied; what it must be is computed apart. Partitions have one copy,
 * or replicas on several servers, which share a coordinator (coord_sim.h).
 *
 *   job.c        one run: the cast, the faults, the end        check.c       what must hold at the end
 *   server.c     a server's process                            invariants.c  what must hold at every moment of partitions with replicas
 *   operator.c   who moves partitions
 *   trainer.c    a trainer's                                   settled.c     that they have primaries and all their replicas again
 *   faults.c     what goes wrong, for a while                  records.c     what the coordinator says of them, and whose loss they survive */
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

/* The kinds of faults; a seed has some of them. */
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
	uint32_t index; /* among servers, or among trainers */
	bool is_server, finished;
	bool gone;                  /* for good */
	uint32_t boots;             /* of its machine */
	uint64_t incarnation;       /* that the coordinator gave out last */
	struct server *server;      /* of its process, once it serves */
	uint64_t serves;            /* the life of the node in which it does */
	struct disk_sim *disk;      /* a server's, where something is on disk */
	struct disk_sim *mark_disk; /* another, for its mark; NULL: it keeps none */
	struct mark copied;         /* how far `disk` was when it was copied; generation 0: never */
	bool is_old;                /* that copy is in its place, and its mark says so */
	bool refused;               /* and the server has said so */
	char name[32], address[32];
	weir_error end; /* why its process ended by itself */
};

/* In the world's memory: no process owns it. */
struct job {
	uint32_t servers, trainers, passes, executors;
	uint32_t replicas, min_isr;
	uint64_t backlog_bytes, catch_up_bytes_per_s;
	struct node *coordinator; /* NULL: there is one copy of everything */
	bool durable;
	weir_mode mode;             /* of the dense table */
	weir_pull_coding pull;      /* alike. Differences of small whole numbers are exact as bf16 */
	int64_t compute_ns;         /* for a batch: at most */
	uint32_t stall_every;       /* one in so many batches hangs for a while; 0: none */
	uint32_t ack;               /* enum partition_ack */
	uint32_t read_staleness_ms; /* 0: only primaries are read */
	uint64_t read_staleness_entries;
	uint32_t fsync_ms, flush_ms;
	uint32_t faults;             /* bits */
	uint32_t lasting;            /* faults under way, and processes that will be back */
	int64_t pause_ns;            /* between them: at most */
	int64_t heal_ns;             /* when there are no more new ones */
	int64_t healed_ns;           /* when all were over */
	int64_t settled_ns;          /* when every partition was last seen with a primary and all its replicas */
	int64_t slowest_ns;          /* the longest time without progress since healed_ns */
	struct actor cast[CAST_MAX]; /* servers first */
	uint32_t cast_count;
	const char *addresses[SERVERS_MAX];
	char ledger[SERVERS_MAX * 32]; /* where trainers look for it: of several servers, where it has replicas */
	uint32_t done[FAULTS];         /* how often each was committed */
	uint64_t failovers;            /* a partition has got another primary */
	uint64_t starts, pushes;       /* of processes; of batches that a trainer saw acknowledged */
	uint64_t computed, stalls;     /* batches so far; those that stood still, */
	uint64_t stalled;              /* for which a trainer was taken for dead */
	uint64_t reads, moves;         /* pulls that another replica than the primary answered; requests to move a partition */
	bool is_lost;        /* it has to begin anew: nothing was ever committed in some partition, and no full log is left there */
	bool checked, exact; /* the end was; the sums were part of it */
	char failure[WEIR_ERROR_TEXT_BYTES]; /* "": none */
};

/* What a run came to. */
struct result {
	uint64_t seed, hash, events;
	int64_t took_ns, slowest_ns;
	uint32_t faults, done[FAULTS], replicas;
	bool durable, synchronous, is_lost, exact;
	uint64_t starts, pushes, stalls, noticed, reads, moves, packets, stalled, early, resets, silences, failovers;
	char failure[WEIR_ERROR_TEXT_BYTES];
};
void job_run(struct result *out, uint64_t seed, bool verbose);

/* The first failure is kept. */
void job_fail(struct job *job, const char *format, ...) WEIR_PRINTF(2, 3);

/* First threads of processes; arg is an actor. */
void server_main(void *actor);
void trainer_main(void *actor);
/* The same of a process that asks for partitions to be moved, job->moves of them; nobody waits for it. arg: the job. */
void operator_main(void *job);
/* On one of its threads: the process ends, and is started again after a while. Does not return. */
_Noreturn void actor_exit(struct actor *a, const char *why);
/* Kills it; unless everything is over it is started again. Not on its own threads. */
void actor_kill(struct actor *a, enum node_death how);

/* What batch `batch` of a unit does: its keys (KEYS, distinct), and what it adds to each of their elements and to every dense one. */
void batch_keys(uint32_t data_unit, uint32_t batch, uint64_t *keys);
float batch_value(uint32_t data_unit, uint32_t batch);

/* On a thread of its own: commits faults until job->heal_ns; returns when all of them are over. */
void faults_run(struct job *job);

/* Once all trainers have finished, in a process of its own. */
void check_main(void *job);

/* --- Partitions with replicas */

struct actor *job_server(struct job *job, uint32_t index); /* its actor */
/* Its server, while its process is there and serves; else NULL. */
struct server *actor_server(const struct actor *a);
/* How far what is on its disk goes at most, synced or not. Its server is there. */
struct mark actor_written(const struct actor *a);
/* How far its disk is known to have been: its own mark, or the coordinator's. */
struct mark actor_mark(const struct actor *a);
/* Its disk is old, and it was refused: the newest copy is put back or, where others have all
 * that it had, an empty one. The node is down. */
void actor_mend_disk(struct actor *a);

#define MARK_PATH "marks/server.mark" /* on an actor's mark_disk */

void records_begin(struct job *job); /* behind coord_sim_begin */
/* What the coordinator says now, of a partition or of the ledger (PARTITIONS); NULL: nothing as yet. */
const struct replica_record *records_get(uint32_t partition);
const struct assignment *records_wanted(uint32_t partition); /* who is to have it; not of the ledger */
struct mark records_mark(const struct actor *server);        /* generation 0: none as yet */
/* Since when the server has been in sync; INT64_MAX: it is not. */
int64_t records_in_sync_since(uint32_t partition, uint16_t server);
void records_heard(uint32_t partition, uint16_t server); /* its process has told others what it has */
void records_lost_log(const struct actor *server);       /* the end of its log may be gone, or all of it */
/* Whether, if its log were lost now, each of its partitions would have everything in another replica that may become primary. */
bool records_survive(const struct job *job, const struct actor *server);

/* Whether each of its partitions has enough others in sync to go on without it for ever. */
bool records_spare(const struct actor *server);

void invariants_begin(struct job *job);
void invariants_end(void);
void invariants_lost_disk(const struct actor *server); /* and all that it had promised */
/* Those that can be looked at any time, on the main thread. */
void invariants_look(struct job *job);
void invariants_compare(struct job *job);          /* at the end: replicas are equal */
uint64_t invariants_committed(uint32_t partition); /* how many entries */

/* Whether each partition and the ledger have a primary that serves, and all the replicas that can be are in sync and level. still: nothing comes any more, and what
 * is committed is on all their disks. If not: what is missing. */
bool settled_all(struct job *job, bool still, char *why, size_t bytes);
void settled_tell(struct job *job); /* notes it all */

#endif
