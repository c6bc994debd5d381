/* A loop for tests: what other threads post runs when the test says so, on the test's thread. */
#ifndef TASK_QUEUE_H
#define TASK_QUEUE_H

#include <stdbool.h>

#include "common/base/callback_executor.h"

struct task_queue;
struct task_queue *task_queue_create(void);
void task_queue_destroy(struct task_queue *q); /* drops what was not run */
struct callback_executor task_queue_executor(struct task_queue *q);
/* Runs what is there; how many. wait: for at least one. */
unsigned task_queue_run(struct task_queue *q, bool wait);

#endif
