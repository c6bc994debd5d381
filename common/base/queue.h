/* A bounded multi-producer multi-consumer queue of pointers, blocking, closable. */
#ifndef WEIR_QUEUE_H
#define WEIR_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct queue;
struct queue *queue_create(size_t capacity);
/* E_CLOSED after queue_close; E_TIMEOUT when full for timeout_ms (< 0: for ever, 0: do not wait). */
weir_status queue_push(struct queue *q, void *item, int64_t timeout_ms) WEIR_MUST_CHECK;
/* E_CLOSED when closed and empty; E_TIMEOUT. */
weir_status queue_pop(struct queue *q, void **item, int64_t timeout_ms) WEIR_MUST_CHECK;
size_t queue_length(struct queue *q);
void queue_close(struct queue *q);   /* wakes everyone; what is queued can still be popped */
void queue_destroy(struct queue *q); /* needs: nobody waits in it */

#endif
