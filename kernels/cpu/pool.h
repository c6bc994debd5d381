/* A few threads that run the parts of one job together. The assignment of parts to threads is
 * fixed, so results never depend on timing. */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <stdint.h>

struct pool;
typedef void (*pool_fn)(void *arg, uint32_t part);

/* threads >= 1, including the caller's own. NULL: no threads or no memory. */
struct pool *pool_create(uint32_t threads);
void pool_destroy(struct pool *p); /* NULL is allowed */
uint32_t pool_threads(const struct pool *p);
/* Runs fn(arg, part) for part = 0 .. parts - 1 (parts <= threads), part 0 on the calling thread,
 * and returns when all are done. One caller at a time. */
void pool_run(struct pool *p, uint32_t parts, pool_fn fn, void *arg);

#endif
