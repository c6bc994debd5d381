/* Waiting on a condition variable, but not for ever. Deadlines are moments of clock_system()'s monotonic clock, so a stepped wall clock neither hangs nor
 * wakes anyone. */
#ifndef WEIR_DEADLINE_H
#define WEIR_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_NEVER INT64_MAX

/* Negative, or beyond what the clock can count: DEADLINE_NEVER. */
int64_t deadline_after_ns(int64_t ns); /* so long from now */
int64_t deadline_after_ms(int64_t ms);
int64_t deadline_at_ms(int64_t ms); /* a moment of clock_ms */

/* A condition variable for deadline_wait. */
void deadline_cond_init(pthread_cond_t *cond);
/* As pthread_cond_wait: the caller has the lock, and looks again at what it waits for. False: the deadline has passed. */
bool deadline_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns);

#endif
