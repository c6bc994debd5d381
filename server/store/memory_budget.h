/* The memory budget of a server: one counter that every owner of rows charges, from any thread. It
 * never refuses a charge. While the budget is full, a store evicts rows and reads none back. */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pool {
	_Atomic uint64_t used;
	/* Bytes of rows that never leave memory, whether stored yet or not. */
	_Atomic uint64_t promised;
	uint64_t limit; /* bytes; 0: no budget */
};

static inline void pool_charge(struct pool *p, uint64_t bytes)
{
	if (p)
		atomic_fetch_add_explicit(&p->used, bytes, memory_order_relaxed);
}
static inline void pool_release(struct pool *p, uint64_t bytes)
{
	if (p)
		atomic_fetch_sub_explicit(&p->used, bytes, memory_order_relaxed);
}
static inline uint64_t pool_used(const struct pool *p)
{
	return p ? atomic_load_explicit(&p->used, memory_order_relaxed) : 0;
}
/* Whether `bytes` more fit. Always true if p is NULL. */
static inline bool pool_fits(const struct pool *p, uint64_t bytes)
{
	return !p || p->limit == 0 || pool_used(p) + bytes <= p->limit;
}
/* Reserves room for rows that will never leave memory. Returns false, and reserves nothing, if
 * these rows and those promised before cannot all fit. */
static inline bool pool_promise(struct pool *p, uint64_t bytes)
{
	if (!p || p->limit == 0)
		return true;
	if (atomic_fetch_add_explicit(&p->promised, bytes, memory_order_relaxed) + bytes <= p->limit)
		return true;
	atomic_fetch_sub_explicit(&p->promised, bytes, memory_order_relaxed);
	return false;
}
/* Whether pool_promise would succeed now. */
static inline bool pool_may_promise(const struct pool *p, uint64_t bytes)
{
	return !p || p->limit == 0 || atomic_load_explicit(&p->promised, memory_order_relaxed) + bytes <= p->limit;
}
/* Returns promised bytes, for example when a partition leaves the server. */
static inline void pool_take_back(struct pool *p, uint64_t bytes)
{
	if (p && p->limit)
		atomic_fetch_sub_explicit(&p->promised, bytes, memory_order_relaxed);
}

#endif
