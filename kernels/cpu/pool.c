/* Each worker sleeps on a semaphore of its own and posts to a common one after its part. Both sides
 * spin for a few microseconds before they sleep: ops follow each other closely, and a sleep costs
 * more than that. */
#include "kernels/cpu/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>

#define LOOKS_BEFORE_SLEEP 300

struct worker {
	struct pool *pool;
	pthread_t thread;
	sem_t start;
	uint32_t part;
};

struct pool {
	uint32_t threads, started; /* started: running workers, of threads - 1 */
	pool_fn fn;                /* of the present job; NULL ends a worker */
	void *arg;
	sem_t done;
	struct worker workers[]; /* (threads - 1); worker i runs part i + 1 */
};

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static void wait_for(sem_t *s)
{
	for (int i = 0; i < LOOKS_BEFORE_SLEEP; i++) {
		if (sem_trywait(s) == 0)
			return;
		relax();
	}
	while (sem_wait(s) != 0)
		assert(errno == EINTR);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	for (;;) {
		wait_for(&w->start);
		if (!w->pool->fn)
			return NULL;
		w->pool->fn(w->pool->arg, w->part);
		sem_post(&w->pool->done);
	}
}

struct pool *pool_create(uint32_t threads)
{
	assert(threads >= 1);
	struct pool *p = calloc(1, sizeof *p + (threads - 1) * sizeof *p->workers);
	if (!p)
		return NULL;
	p->threads = threads;
	sem_init(&p->done, 0, 0);
	for (; p->started < threads - 1; p->started++) {
		struct worker *w = &p->workers[p->started];
		w->pool = p;
		w->part = p->started + 1;
		sem_init(&w->start, 0, 0);
		if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
			sem_destroy(&w->start);
			pool_destroy(p);
			return NULL;
		}
	}
	return p;
}

void pool_destroy(struct pool *p)
{
	if (!p)
		return;
	p->fn = NULL;
	for (uint32_t i = 0; i < p->started; i++) {
		sem_post(&p->workers[i].start);
		pthread_join(p->workers[i].thread, NULL);
		sem_destroy(&p->workers[i].start);
	}
	sem_destroy(&p->done);
	free(p);
}

uint32_t pool_threads(const struct pool *p)
{
	return p->threads;
}

void pool_run(struct pool *p, uint32_t parts, pool_fn fn, void *arg)
{
	assert(parts <= p->threads && fn);
	p->fn = fn;
	p->arg = arg;
	for (uint32_t i = 1; i < parts; i++)
		sem_post(&p->workers[i - 1].start);
	if (parts > 0)
		fn(arg, 0);
	for (uint32_t i = 1; i < parts; i++)
		wait_for(&p->done);
}
