/* Shared by the files of the world only. */
#ifndef WEIR_SIM_WORLD_INTERNAL_H
#define WEIR_SIM_WORLD_INTERNAL_H

#include <time.h>

#include "tests/sim/world/world.h"

struct thread;

struct node {
	char name[32];
	uint32_t index;
	uint64_t life;
	bool up, paused, off; /* off: the machine is off */
	struct prng entropy;
	/* Its clocks. Monotonic time is mono_ns at world time since_ns, and runs faster by ppm. Wall
	 * time is monotonic time plus wall_offset_ns. */
	int64_t since_ns, mono_ns, ppm, wall_offset_ns;
};

/* --- world.c */
struct prng *world_random(void);
bool world_step(void); /* runs the next event; false: there was none */
double world_preempt(void);
double world_spurious(void);

/* --- node.c */
void nodes_begin(void);
void nodes_end(void); /* kills all nodes */
int64_t node_clock(const struct node *n, clockid_t id);
/* World time at which the node's clock reaches ns at its present speed. */
int64_t node_clock_reaches(const struct node *n, clockid_t id, int64_t ns);
uint64_t node_entropy(struct node *n);
uint32_t node_pid(const struct node *n); /* pid of its process */
bool node_runs(uint32_t pid);            /* whether the pid is a running process of a node */

/* --- thread.c */
void threads_begin(void);
void threads_end(void);
struct thread *thread_create(struct node *n, void *(*fn)(void *arg), void *arg);
struct thread *thread_current(void);
struct thread *thread_find(uint64_t id); /* NULL: it has ended or was killed */
uint64_t thread_id(const struct thread *t);
struct node *thread_node(const struct thread *t);
bool thread_may_be_interrupted(const struct thread *t);
/* The current thread waits for `object` until it is woken, or until world time until_ns (< 0: for
 * ever). Returns false on timeout. */
bool thread_wait(const void *object, int64_t until_ns);
/* Wakes all threads that wait for object, or a random one. */
void threads_wake(const void *object, bool all);
bool thread_join(uint64_t id, void **result); /* false: unknown thread */
/* Lets other threads run first. */
void thread_yield(void);
void threads_kill(struct node *n);
/* Runs threads and events until `done`. */
void threads_run(const bool *done);
struct node *heap_owner(void); /* the node whose process allocates now; NULL: the world */

#endif
