#include "server/store/admission.h"

#include "common/base/hash.h"
#include "common/base/limits.h"

#define ROUND_SHARE 8u /* of the time to live, or of the half-life */

bool admission_draw(const weir_table_spec *spec, uint32_t table, uint64_t key, uint64_t index)
{
	const uint64_t below = (uint64_t)((double)spec->admission.probability * 0x1p32);
	return hash_u64(hash_u64(hash_u64(spec->seed + table) ^ key) + index) >> 32 < below;
}

uint32_t eviction_score(uint32_t pushes, uint32_t idle_s, uint32_t half_life_s)
{
	const uint32_t halvings = idle_s / half_life_s;
	return halvings < 32 ? pushes >> halvings : 0;
}

bool eviction_expired(const weir_eviction *rule, const struct row_meta *m, uint32_t now_s)
{
	const uint32_t idle_s = now_s > m->last_push_s ? now_s - m->last_push_s : 0;
	if (rule->ttl_s && idle_s >= rule->ttl_s)
		return true;
	return rule->min_score && idle_s >= rule->half_life_s &&
	       eviction_score(m->count, idle_s, rule->half_life_s) < rule->min_score;
}

int64_t eviction_round_ms(const weir_eviction *rule)
{
	uint32_t seconds = rule->ttl_s ? rule->ttl_s : rule->half_life_s;
	if (rule->min_score && rule->half_life_s < seconds)
		seconds = rule->half_life_s;
	const int64_t ms = (int64_t)seconds * 1000 / ROUND_SHARE;
	return ms < WEIR_EVICT_ROUND_MS_MIN ? WEIR_EVICT_ROUND_MS_MIN : ms > WEIR_EVICT_ROUND_MS_MAX ? WEIR_EVICT_ROUND_MS_MAX : ms;
}
