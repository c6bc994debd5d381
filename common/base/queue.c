/* A ring under one mutex, with one condition variable for each side. */
#include "common/base/queue.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/deadline.h"

struct queue {
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t not_empty, not_full;
	bool closed;
	size_t capacity, head, length;
	void *items[]; /* (capacity) */
};

struct queue *queue_create(size_t capacity)
{
	assert(capacity > 0);
	struct queue *q = NULL;
	if (capacity <= (SIZE_MAX - sizeof *q) / sizeof(void *))
		q = malloc(sizeof *q + capacity * sizeof(void *));
	if (!q)
		return NULL;
	pthread_mutex_init(&q->lock, NULL);
	deadline_cond_init(&q->not_empty);
	deadline_cond_init(&q->not_full);
	q->closed = false;
	q->capacity = capacity;
	q->head = q->length = 0;
	return q;
}

weir_status queue_push(struct queue *q, void *item, int64_t timeout_ms)
{
	const int64_t deadline_ns = deadline_after_ms(timeout_ms);
	weir_status status = WEIR_OK;
	pthread_mutex_lock(&q->lock);
	while (!q->closed && q->length == q->capacity && timeout_ms != 0 && deadline_wait(&q->not_full, &q->lock, deadline_ns))
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
	const int64_t deadline_ns = deadline_after_ms(timeout_ms);
	weir_status status = WEIR_OK;
	pthread_mutex_lock(&q->lock);
	while (!q->closed && q->length == 0 && timeout_ms != 0 && deadline_wait(&q->not_empty, &q->lock, deadline_ns))
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
