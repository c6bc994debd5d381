/* A loop for tests. Work that other threads post runs on the test's thread, when the test says
 * so. */
#ifndef TASK_QUEUE_H
#define TASK_QUEUE_H

#include <stdbool.h>

#include "common/base/callback_executor.h"

struct task_queue;
struct task_queue *task_queue_create(void);
void task_queue_destroy(struct task_queue *q); /* drops work that did not run */
struct callback_executor task_queue_executor(struct task_queue *q);
/* Runs the posted work and returns its amount. wait: waits until there is some. */
unsigned task_queue_run(struct task_queue *q, bool wait);

#endif
