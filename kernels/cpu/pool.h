/* A few threads that run the parts of one job together. Which thread does which part is fixed, so that results never depend on
 * timing. */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <stdint.h>

struct pool;
typedef void (*pool_fn)(void *arg, uint32_t part);

/* threads >= 1, the caller's own included. NULL when threads or memory cannot be had. */
struct pool *pool_create(uint32_t threads);
void pool_destroy(struct pool *p); /* NULL is allowed */
uint32_t pool_threads(const struct pool *p);
/* Runs fn(arg, part) for part = 0 .. parts - 1 (parts <= threads), part 0 on the calling thread, and returns when all are done.
 * One caller at a time. */
void pool_run(struct pool *p, uint32_t parts, pool_fn fn, void *arg);

#endif
