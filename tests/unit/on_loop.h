/* What belongs to a loop is looked at, and changed, by tasks on that loop's thread. */
#ifndef WEIR_TESTS_ON_LOOP_H
#define WEIR_TESTS_ON_LOOP_H

#include <semaphore.h>

struct rpc_loop;

/* Runs it there; returns once it has run. Not from the loop itself. */
void on_loop(struct rpc_loop *loop, void (*run)(void *arg), void *arg);

/* A loop that stands still from hold to release. */
struct held_loop {
	sem_t held, released, gone;
};
void held_loop_hold(struct held_loop *h, struct rpc_loop *loop);
void held_loop_release(struct held_loop *h);

#endif
