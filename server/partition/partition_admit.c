/* Admission: a push finds a row, or a key that has to be admitted first. It depends only on the
 * entry and the partition's state, so every replica and every replay admits the same keys at the
 * same entries. */
#include "server/partition/partition_internal.h"
#include "server/store/admission.h"

bool rows_admitted(const struct partition_table *t, const uint64_t *keys, size_t count)
{
	const float *row = NULL;
	if (t->spec->admission.kind == WEIR_ADMIT_NONE)
		return true;
	for (size_t i = 0; i < count; i++)
		if (!store_find(t->rows, keys[i], &row) || !row)
			return false;
	return true;
}

/* Counts a push that does not admit its key yet. */
static weir_status count_push(struct partition_table *t, uint64_t key, const struct log_entry *e)
{
	struct row_meta *meta;
	if (store_upsert_stub(t->rows, key, &meta))
		return WEIR_E_MEMORY;
	row_meta_touch(meta, e);
	return WEIR_OK;
}

weir_status row_admit(struct partition_table *t, uint32_t table, uint64_t key, const struct log_entry *e, bool *admitted)
{
	const weir_admission *rule = &t->spec->admission;
	const float *row = NULL;
	*admitted = true;
	if (rule->kind == WEIR_ADMIT_NONE)
		return WEIR_OK;
	const struct row_meta *meta = store_find(t->rows, key, &row);
	if (row)
		return WEIR_OK;
	if (rule->kind == WEIR_ADMIT_COUNT)
		*admitted = (meta ? meta->count : 0) + 1 >= rule->count;
	else
		*admitted = admission_draw(t->spec, table, key, e->index);
	if (*admitted)
		return WEIR_OK;
	counter_bump(&t->counters.unadmitted, 1);
	return rule->kind == WEIR_ADMIT_COUNT ? count_push(t, key, e) : WEIR_OK;
}
