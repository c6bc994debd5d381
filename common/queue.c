/* A ring under one mutex, with a condition for each side. Time-outs are measured on CLOCK_MONOTONIC, so a stepped wall clock
 * neither hangs nor wakes anyone. */
#include "queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

struct queue {
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t not_empty, not_full;
	bool closed;
	size_t capacity, head, length;
	void *items[]; /* (capacity) */
};

static void cond_init_monotonic(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

static struct timespec deadline_after(int64_t timeout_ms)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += timeout_ms / 1000;
	t.tv_nsec += timeout_ms % 1000 * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

/* Waits once on `cond`; false when the deadline has passed. timeout_ms < 0: no deadline; 0: does not wait. */
static bool wait_once(struct queue *q, pthread_cond_t *cond, int64_t timeout_ms, const struct timespec *deadline)
{
	if (timeout_ms == 0)
		return false;
	if (timeout_ms < 0)
		return pthread_cond_wait(cond, &q->lock) == 0;
	return pthread_cond_timedwait(cond, &q->lock, deadline) != ETIMEDOUT;
}

struct queue *queue_create(size_t capacity)
{
	assert(capacity > 0);
	struct queue *q = NULL;
	if (capacity <= (SIZE_MAX - sizeof *q) / sizeof(void *))
		q = malloc(sizeof *q + capacity * sizeof(void *));
	if (!q)
		return NULL;
	pthread_mutex_init(&q->lock, NULL);
	cond_init_monotonic(&q->not_empty);
	cond_init_monotonic(&q->not_full);
	q->closed = false;
	q->capacity = capacity;
	q->head = q->length = 0;
	return q;
}

weir_status queue_push(struct queue *q, void *item, int64_t timeout_ms)
{
	struct timespec deadline = timeout_ms > 0 ? deadline_after(timeout_ms) : (struct timespec){0};
	weir_status status = WEIR_OK;
	pthread_mutex_lock(&q->lock);
	while (!q->closed && q->length == q->capacity && wait_once(q, &q->not_full, timeout_ms, &deadline))
		;
	if (q->closed) {
		status = WEIR_E_CLOSED;
	} else if (q->length == q->capacity) {
		status = WEIR_E_TIMEOUT;
	} else {
		size_t tail = q->head + q->length;
		q->items[tail < q->capacity ? tail : tail - q->capacity] = item;
		q->length++;
		pthread_cond_signal(&q->not_empty);
	}
	pthread_mutex_unlock(&q->lock);
	return status;
}

weir_status queue_pop(struct queue *q, void **item, int64_t timeout_ms)
{
	struct timespec deadline = timeout_ms > 0 ? deadline_after(timeout_ms) : (struct timespec){0};
	weir_status status = WEIR_OK;
	pthread_mutex_lock(&q->lock);
	while (!q->closed && q->length == 0 && wait_once(q, &q->not_empty, timeout_ms, &deadline))
		;
	if (q->length > 0) {
		*item = q->items[q->head];
		q->head = q->head + 1 < q->capacity ? q->head + 1 : 0;
		q->length--;
		pthread_cond_signal(&q->not_full);
	} else {
		status = q->closed ? WEIR_E_CLOSED : WEIR_E_TIMEOUT;
	}
	pthread_mutex_unlock(&q->lock);
	return status;
}

size_t queue_length(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	size_t length = q->length;
	pthread_mutex_unlock(&q->lock);
	return length;
}

void queue_close(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->not_empty);
	pthread_cond_broadcast(&q->not_full);
	pthread_mutex_unlock(&q->lock);
}

void queue_destroy(struct queue *q)
{
	if (!q)
		return;
	pthread_cond_destroy(&q->not_empty);
	pthread_cond_destroy(&q->not_full);
	pthread_mutex_destroy(&q->lock);
	free(q);
}
