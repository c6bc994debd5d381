/* The memory budget of a server: one counter that every owner of rows charges, from any thread. It
 * never refuses a charge. While the budget is full, a store evicts rows and reads none back. */
#ifndef WEIR_MEMORY_BUDGET_H
#define WEIR_MEMORY_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct memory_budget {
	_Atomic uint64_t used;
	/* Bytes of rows that never leave memory, whether stored yet or not. */
	_Atomic uint64_t promised;
	uint64_t limit; /* bytes; 0: no budget */
};

static inline void memory_budget_charge(struct memory_budget *p, uint64_t bytes)
{
	if (p)
		atomic_fetch_add_explicit(&p->used, bytes, memory_order_relaxed);
}
static inline void memory_budget_release(struct memory_budget *p, uint64_t bytes)
{
	if (p)
		atomic_fetch_sub_explicit(&p->used, bytes, memory_order_relaxed);
}
static inline uint64_t memory_budget_used(const struct memory_budget *p)
{
	return p ? atomic_load_explicit(&p->used, memory_order_relaxed) : 0;
}
/* Whether `bytes` more fit. Always true if p is NULL. */
static inline bool memory_budget_fits(const struct memory_budget *p, uint64_t bytes)
{
	return !p || p->limit == 0 || memory_budget_used(p) + bytes <= p->limit;
}
/* Reserves room for rows that will never leave memory. Returns false, and reserves nothing, if
 * these rows and those promised before cannot all fit. */
static inline bool memory_budget_promise(struct memory_budget *p, uint64_t bytes)
{
	if (!p || p->limit == 0)
		return true;
	if (atomic_fetch_add_explicit(&p->promised, bytes, memory_order_relaxed) + bytes <= p->limit)
		return true;
	atomic_fetch_sub_explicit(&p->promised, bytes, memory_order_relaxed);
	return false;
}
/* Whether memory_budget_promise would succeed now. */
static inline bool memory_budget_may_promise(const struct memory_budget *p, uint64_t bytes)
{
	return !p || p->limit == 0 || atomic_load_explicit(&p->promised, memory_order_relaxed) + bytes <= p->limit;
}
/* Returns promised bytes, for example when a partition leaves the server. */
static inline void memory_budget_take_back(struct memory_budget *p, uint64_t bytes)
{
	if (p && p->limit)
		atomic_fetch_sub_explicit(&p->promised, bytes, memory_order_relaxed);
}

#endif
