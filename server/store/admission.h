/* Which keys of an embedding table get a row, and which rows go again: the rules, as pure integer functions of what an entry and a row say. When they are
 * asked is in partition_evict.c and, for what a push finds, in partition_admit.c. */
#ifndef WEIR_LIFECYCLE_H
#define WEIR_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/row_batch.h"
#include "weir/table.h"

/* Whether the push of log entry `index` to a key without a row admits it: with the table's probability, drawn from (seed, table, key, index). */
bool lifecycle_draw(const weir_table_spec *spec, uint32_t table, uint64_t key, uint64_t index);

/* Whether the table evicts at all. */
static inline bool lifecycle_evicts(const weir_eviction *rule)
{
	return rule->ttl_s > 0 || rule->min_score > 0;
}
/* Pushes, halved for every half-life since the last one. */
uint32_t lifecycle_score(uint32_t pushes, uint32_t idle_s, uint32_t half_life_s);
/* Whether a row goes at `now_s` (of the clock that stamps entries; it may have been set back). */
bool lifecycle_expired(const weir_eviction *rule, const struct row_meta *m, uint32_t now_s);
/* How long to wait between two looks at the rows of a table that evicts: a share of the time its rule speaks of. */
int64_t lifecycle_round_ms(const weir_eviction *rule);

#endif
