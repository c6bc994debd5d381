/* A world of machines in one thread and from one seed: simulated time, an order of events that the
 * seed decides, and nodes whose processes run unchanged production code. When that code asks the
 * system for a thread, a lock, the time or entropy, the linker routes the call to this world
 * (seams.c). A simulated thread is a stack. One thread runs at a time, until it waits; the seed
 * chooses the next one. Time stands still while any thread can run.
 *
 *   world.c    the queue of events, time, the trace
 *   thread.c   simulated threads and the objects they wait for
 *   heap.c     memory that dies with its process
 *   node.c     machines: clocks, life and death
 *   seams.c    pthreads, clocks and entropy as production code calls them
 *
 * Only one world exists at a time. Code runs on a simulated thread of a node, or in an event. An
 * event belongs to no node and must not wait. Memory from world_alloc outlives nodes and goes with
 * the world. */
#ifndef WEIR_SIM_WORLD_H
#define WEIR_SIM_WORLD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/prng.h"
#include "weir/status.h"

#define SIM_MS 1000000ll /* in nanoseconds, the unit of all simulated time */
#define SIM_S  1000000000ll

struct world_options {
	uint64_t seed;
	bool verbose;    /* prints notes to stderr */
	double preempt;  /* chance that a thread lets another one run before it takes a lock */
	double spurious; /* chance that a wait for a condition ends spuriously */
};
/* Runs fn(arg) as the first thread of a node "main". When it returns, the world and all that was
 * started ends. Returns the hash of the trace; the same seed gives the same hash. If nothing can
 * ever run again, prints that and ends the process. */
uint64_t world_run(const struct world_options *options, void (*fn)(void *arg), void *arg);

/* --- world.c */
int64_t world_now(void); /* since the world began; differs from any node's clock */
uint64_t world_seed(void);
bool world_chance(double p);
int64_t world_between(int64_t low, int64_t high);
/* Runs fn(arg) in delay_ns, in an event. */
void world_after(int64_t delay_ns, void (*fn)(void *arg), void *arg);
/* Adds an observable fact to the hash of the trace. */
void world_trace(uint64_t kind, uint64_t a, uint64_t b);
void world_note(const char *format, ...) WEIR_PRINTF(1, 2); /* printed with options.verbose */
uint64_t world_events(void);                                /* number of events so far */
_Noreturn void world_stop(const char *format, ...)
    WEIR_PRINTF(1, 2);           /* for a broken world: ends the process and prints the seed */
void *world_alloc(size_t bytes); /* zeroed; never NULL */
void world_free(void *p);

/* --- node.c */
struct node;
struct node *node_create(const char *name); /* without a process; copies the name */
const char *node_name(const struct node *n);
uint32_t node_index(const struct node *n); /* from 0, in the order of creation */
/* Starts a process with fn(arg) as its first thread. The node must have none. Only node_kill ends
 * it. */
void node_start(struct node *n, void (*fn)(void *arg), void *arg);
enum node_death {
	DEATH_PROCESS, /* kill -9: the machine tells peers, and written files survive */
	DEATH_MACHINE  /* power loss: peers hear nothing, and unsynced data is lost */
};
/* Stops all threads where they are and frees their memory. Not to be called from one of them. */
void node_kill(struct node *n, enum node_death how);
bool node_is_up(const struct node *n);
bool node_answers(const struct node *n);  /* the machine is on, with or without a process */
uint64_t node_life(const struct node *n); /* number of processes so far */
void node_pause(struct node *n);          /* SIGSTOP */
void node_resume(struct node *n);         /* SIGCONT */
bool node_is_paused(const struct node *n);
/* Lets its clocks run faster by ppm, or its wall clock jump. */
void node_skew(struct node *n, int64_t ppm);
void node_jump(struct node *n, int64_t wall_ns);
struct node *node_current(void); /* node of the current thread; NULL in an event */
/* Runs fn(arg, n, how) whenever a node dies. The latest watcher runs first. */
void node_watch_deaths(void (*fn)(void *arg, struct node *n, enum node_death how), void *arg);

/* --- thread.c */
/* The current thread sleeps. */
void thread_sleep(int64_t ns);
/* Between these two the current thread acts for its machine. It is not interrupted, must not wait,
 * and allocates the world's memory. Calls nest. */
void machine_enter(void);
void machine_leave(void);
/* In an event: allocations until machine_for(NULL) belong to that node's process. */
void machine_for(struct node *n);

#endif
