/* A world of machines in one thread and from one seed: simulated time, an order of events that the seed decides, and nodes whose processes run production
 * code as it is. Where that code asks the system for a thread, a lock, the time or entropy, the linker hands it this world's (seams.c): a simulated
 * thread is a stack that is switched to. One runs at a time, until it waits; which one is next is the seed's choice. No time passes while any can run.
 *
 *   world.c    the queue of events, time, the trace           node.c     machines: clocks, life and death
 *   thread.c   simulated threads and what they wait for       seams.c    pthreads, clocks and entropy as production code calls them
 *   heap.c     memory that dies with its process
 *
 * There is one world at a time. Code runs either on a simulated thread, of a node, or in an event: then it belongs to no node and must not wait.
 * What the world's own code allocates (world_alloc) outlives nodes and goes with the world. */
#ifndef WEIR_SIM_WORLD_H
#define WEIR_SIM_WORLD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/prng.h"
#include "weir/status.h"

#define SIM_MS 1000000ll /* of nanoseconds, in which all simulated time is */
#define SIM_S  1000000000ll

struct world_options {
	uint64_t seed;
	bool verbose;    /* notes go to stderr */
	double preempt;  /* how likely a thread that takes a lock lets another go first */
	double spurious; /* how likely a wait for a condition ends for no reason */
};
/* Runs fn(arg) as the only thread of a node "main", with everything that it starts, until it returns; then all is gone. Returns the trace's hash: the
 * same seed, the same hash. Ends the process with a word about it when nothing can ever run again. */
uint64_t world_run(const struct world_options *options, void (*fn)(void *arg), void *arg);

/* --- world.c */
int64_t world_now(void); /* since the world began; no node's clock */
uint64_t world_seed(void);
bool world_chance(double p);
int64_t world_between(int64_t low, int64_t high);
/* fn(arg) runs in delay_ns, of no node. */
void world_after(int64_t delay_ns, void (*fn)(void *arg), void *arg);
/* Something observable happened: it goes into the trace's hash. */
void world_trace(uint64_t kind, uint64_t a, uint64_t b);
void world_note(const char *format, ...) WEIR_PRINTF(1, 2); /* with options.verbose */
uint64_t world_events(void);                                /* that ran so far */
_Noreturn void world_stop(const char *format, ...)
    WEIR_PRINTF(1, 2);           /* a world that makes no sense: ends the process, naming the seed */
void *world_alloc(size_t bytes); /* zeroed; never NULL */
void world_free(void *p);

/* --- node.c */
struct node;
struct node *node_create(const char *name); /* without a process; copied */
const char *node_name(const struct node *n);
uint32_t node_index(const struct node *n); /* from 0, in the order of creation */
/* A process: fn(arg) is its first thread. Needs: none is running. It ends by node_kill only. */
void node_start(struct node *n, void (*fn)(void *arg), void *arg);
enum node_death {
	DEATH_PROCESS, /* kill -9: its peers are told by its machine, and what it wrote to files is there */
	DEATH_MACHINE  /* power: no word to anybody, and what was not synced is lost */
};
/* All its threads stop where they are, its memory is gone. Not from one of its own threads. */
void node_kill(struct node *n, enum node_death how);
bool node_is_up(const struct node *n);
bool node_answers(const struct node *n);  /* its machine is on, whether or not the process is there */
uint64_t node_life(const struct node *n); /* how many processes it has had */
void node_pause(struct node *n);          /* SIGSTOP */
void node_resume(struct node *n);         /* SIGCONT */
bool node_is_paused(const struct node *n);
/* Its clocks run by so many parts per million faster; its wall clock jumps. */
void node_skew(struct node *n, int64_t ppm);
void node_jump(struct node *n, int64_t wall_ns);
struct node *node_current(void); /* whose thread runs; NULL in an event */
/* From now on fn(arg, n, how) runs when any node dies, the last one to watch first. */
void node_watch_deaths(void (*fn)(void *arg, struct node *n, enum node_death how), void *arg);

/* --- thread.c */
/* Lets the current thread sleep. */
void thread_sleep(int64_t ns);
/* Between these the current thread acts for its machine: it is not interrupted, must not wait, and what it allocates is the world's. They nest. */
void machine_enter(void);
void machine_leave(void);
/* In an event: what is allocated until machine_for(NULL) is that node's process's. */
void machine_for(struct node *n);

#endif
