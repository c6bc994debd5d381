#include "tests/unit/on_loop.h"

#include <assert.h>

#include "proto/rpc/rpc.h"

static void await(sem_t *s)
{
	while (sem_wait(s) != 0) /* a signal interrupts the wait */
		;
}

struct task {
	void (*run)(void *arg);
	void *arg;
	sem_t done;
};

static void run_task(void *arg)
{
	struct task *t = arg;
	t->run(t->arg);
	sem_post(&t->done);
}

void on_loop(struct rpc_loop *loop, void (*run)(void *arg), void *arg)
{
	struct task t = {.run = run, .arg = arg};
	assert(!rpc_loop_is_current(loop));
	sem_init(&t.done, 0, 0);
	rpc_loop_post(loop, run_task, &t);
	await(&t.done);
	sem_destroy(&t.done);
}

static void stand_still(void *arg)
{
	struct held_loop *h = arg;
	sem_post(&h->held);
	await(&h->released);
	sem_post(&h->gone);
}

void held_loop_hold(struct held_loop *h, struct rpc_loop *loop)
{
	sem_init(&h->held, 0, 0);
	sem_init(&h->released, 0, 0);
	sem_init(&h->gone, 0, 0);
	rpc_loop_post(loop, stand_still, h);
	await(&h->held);
}

void held_loop_release(struct held_loop *h)
{
	sem_post(&h->released);
	await(&h->gone);
	sem_destroy(&h->held);
	sem_destroy(&h->released);
	sem_destroy(&h->gone);
}
