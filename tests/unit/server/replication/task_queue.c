#include "tests/unit/server/replication/task_queue.h"

#include <pthread.h>
#include <stdlib.h>

struct task {
	struct task *next;
	void (*run)(void *arg);
	void *arg;
};
struct task_queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct task *first, **last;
};

struct task_queue *task_queue_create(void)
{
	struct task_queue *q = calloc(1, sizeof *q);
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
	q->last = &q->first;
	return q;
}

static struct task *take_all(struct task_queue *q, bool wait)
{
	pthread_mutex_lock(&q->lock);
	while (wait && !q->first)
		pthread_cond_wait(&q->changed, &q->lock);
	struct task *t = q->first;
	q->first = NULL;
	q->last = &q->first;
	pthread_mutex_unlock(&q->lock);
	return t;
}

unsigned task_queue_run(struct task_queue *q, bool wait)
{
	unsigned n = 0;
	for (struct task *t = take_all(q, wait), *next; t; t = next, n++) {
		next = t->next;
		t->run(t->arg);
		free(t);
	}
	return n;
}

void task_queue_destroy(struct task_queue *q)
{
	for (struct task *t = take_all(q, false), *next; t; t = next) {
		next = t->next;
		free(t);
	}
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->changed);
	free(q);
}

static void post(void *to, void (*run)(void *arg), void *arg)
{
	struct task_queue *q = to;
	struct task *t = malloc(sizeof *t);
	*t = (struct task){.run = run, .arg = arg};
	pthread_mutex_lock(&q->lock);
	*q->last = t;
	q->last = &t->next;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

struct callback_executor task_queue_executor(struct task_queue *q)
{
	return (struct callback_executor){.post = post, .to = q};
}
