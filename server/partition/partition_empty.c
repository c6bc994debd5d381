/* Empties a replica that begins anew: it returns to its state at creation. The partition object,
 * its log and the work posted to its thread stay valid. */
#include <assert.h>

#include "server/partition/partition_internal.h"

void partition_halt(struct partition *p)
{
	partition_step_down(p);
	p->halted = true;
}

bool partition_is_still(const struct partition *p)
{
	return !p->flush.running && !p->eviction.busy && store_is_still(p->store);
}

static void empty_counters(struct partition *p)
{
	struct partition_counters *c = &p->counters;
	_Atomic uint64_t *const all[] = {&c->applied,
	                                 &c->parts_applied,
	                                 &c->fingerprint,
	                                 &c->parts_dropped,
	                                 &c->dropped_fingerprint,
	                                 &c->parts_double,
	                                 &c->units_open,
	                                 &c->rows,
	                                 &c->stable,
	                                 &c->flushed,
	                                 &c->stale_refused,
	                                 &c->duplicates_refused,
	                                 &c->nonfinite_refused};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		atomic_store_explicit(all[i], 0, memory_order_relaxed);
}

weir_status partition_empty(struct partition *p, weir_error *err)
{
	struct store *store = partition_new_store(p);
	assert(p->halted && partition_is_still(p) && p->options.log->ops->last(p->options.log) == 0);
	if (!store)
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", p->options.id);
	partition_free_tables(p);
	store_close(p->store);
	store_destroy(p->store);
	p->store = store;
	dedup_destroy(&p->identity);
	p->identity = (struct dedup){0};
	steps_destroy(&p->steps);
	steps_init(&p->steps);
	replay_end(p);
	p->epochs = (struct epochs){0};
	p->eviction = (struct partition_eviction){0};
	p->applied = p->committed = p->epoch = p->replayed = p->flushed = 0;
	p->fetched = p->commit_ticket = p->present = 0;
	p->unflushed = p->halted = false;
	p->failed = WEIR_OK;
	empty_counters(p);
	return WEIR_OK;
}
