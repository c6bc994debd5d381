/* A job in a simulated world: production servers and the production client in processes of their own, trainers that push whole numbers under SGD with rate 1,
 * and everything that can go wrong. Every element's final value says how often each batch was applied; what it must be is computed apart.
 *
 *   job.c      one run: the cast, the faults, the end      server.c   a server's process        trainer.c   a trainer's
 *   faults.c   what goes wrong, for a while                check.c    what must hold at the end */
#ifndef WEIR_SIM_JOB_H
#define WEIR_SIM_JOB_H

#include <stdio.h>

#include "disk_sim.h"
#include "network.h"
#include "weir/weir.h"

enum {
	SERVERS_MAX = 3,
	TRAINERS_MAX = 3,
	CAST_MAX = SERVERS_MAX + TRAINERS_MAX,
	PARTITIONS = 6,
	UNITS = 6,
	BATCHES = 5,
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
	X(JUMP, "a wall clock jumps")

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
	struct disk_sim *disk; /* a server's, where logs are on disk */
	char name[32], address[32];
	weir_error end; /* why its process ended by itself */
};

/* In the world's memory: no process owns it. */
struct job {
	uint32_t servers, trainers, passes, executors;
	bool durable, ack_disk, synchronous;
	uint32_t fsync_ms, flush_ms;
	uint32_t faults;             /* bits */
	int64_t heal_ns;             /* when they end */
	struct actor cast[CAST_MAX]; /* servers first */
	uint32_t cast_count;
	const char *addresses[SERVERS_MAX];
	uint32_t done[FAULTS];               /* how often each was committed */
	uint64_t starts, pushes;             /* of processes; of batches that a trainer saw acknowledged */
	bool checked, exact;                 /* the end was; the sums were part of it */
	char failure[WEIR_ERROR_TEXT_BYTES]; /* "": none */
};

/* What a run came to. */
struct result {
	uint64_t seed, hash, events;
	int64_t took_ns;
	uint32_t faults, done[FAULTS];
	bool durable, exact;
	uint64_t starts, pushes, packets, stalled, early, resets, silences;
	char failure[WEIR_ERROR_TEXT_BYTES];
};
void job_run(struct result *out, uint64_t seed, bool verbose);

/* The first failure is kept. */
void job_fail(struct job *job, const char *format, ...) WEIR_PRINTF(2, 3);

/* First threads of processes; arg is an actor. */
void server_main(void *actor);
void trainer_main(void *actor);
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

#endif
