/* Waiting on a condition variable with a deadline. Deadlines are times of clock_system()'s
 * monotonic clock, so a step of the wall clock neither hangs nor wakes a waiter. */
#ifndef WEIR_DEADLINE_H
#define WEIR_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_NEVER INT64_MAX

/* These return DEADLINE_NEVER for a negative argument, or for one beyond the range of the clock. */
int64_t deadline_after_ns(int64_t ns); /* this long from now */
int64_t deadline_after_ms(int64_t ms);
int64_t deadline_at_ms(int64_t ms); /* a time of clock_ms */

/* A condition variable for deadline_wait. */
void deadline_cond_init(pthread_cond_t *cond);
/* Waits as pthread_cond_wait does: the caller holds the lock, and checks its condition again
 * afterwards. False: the deadline passed. */
bool deadline_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns);

#endif
