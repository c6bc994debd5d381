/* Admission and eviction rules of embedding tables: which keys get a row, and which rows are
 * removed. The rules are pure integer functions of the contents of a log entry and a row.
 * partition_evict.c applies the eviction rules; partition_admit.c applies the admission rules to
 * the keys of a push. */
#ifndef WEIR_ADMISSION_H
#define WEIR_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/row_batch.h"
#include "weir/table.h"

/* Returns whether the push of log entry `index` admits a key that has no row. The table's admission
 * probability decides; the draw is from (seed, table, key, index). */
bool admission_draw(const weir_table_spec *spec, uint32_t table, uint64_t key, uint64_t index);

/* Whether the table evicts at all. */
static inline bool eviction_is_set(const weir_eviction *rule)
{
	return rule->ttl_s > 0 || rule->min_score > 0;
}
/* Returns the push count, halved once for every half-life since the last push. */
uint32_t eviction_score(uint32_t pushes, uint32_t idle_s, uint32_t half_life_s);
/* Whether a row is expired at `now_s`, a time of the clock that stamps entries. That clock may have
 * been set back. */
bool eviction_expired(const weir_eviction *rule, const struct row_meta *m, uint32_t now_s);
/* Returns the time between two passes over the rows of a table that evicts: a share of the time to
 * live or the half-life of its rule. */
int64_t eviction_round_ms(const weir_eviction *rule);

#endif
