/* Runs a test's tasks on a loop's thread, which owns the loop's state. */
#ifndef WEIR_TESTS_ON_LOOP_H
#define WEIR_TESTS_ON_LOOP_H

#include <semaphore.h>

struct rpc_loop;

/* Runs the task there and returns after it. Not to be called from the loop itself. */
void on_loop(struct rpc_loop *loop, void (*run)(void *arg), void *arg);

/* A loop that is blocked from hold to release. */
struct held_loop {
	sem_t held, released, gone;
};
void held_loop_hold(struct held_loop *h, struct rpc_loop *loop);
void held_loop_release(struct held_loop *h);

#endif
