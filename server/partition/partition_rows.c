/* Requests the rows that a record needs in memory before it is looked at, so that checking and
 * applying never wait. */
#include "server/partition/partition_internal.h"

#define WANT_KEYS 512u

weir_status rows_want(struct partition *p, const struct record *r, struct cursor body)
{
	for (uint32_t i = 0; i < r->sections; i++) {
		struct section s;
		if (frame_next_section(&body, &s, NULL))
			return WEIR_OK; /* the check of the record will report it */
		const struct partition_table *t = partition_table(p, s.table);
		if (!t || t->spec->kind != WEIR_EMBEDDING || s.index_codec == INDEX_ALL || s.flags)
			continue;
		struct row_keys k = row_keys_of(p, t, &s);
		uint64_t keys[WANT_KEYS];
		for (size_t n; (n = row_keys_next(&k, keys, WANT_KEYS)) > 0;)
			if (store_want(t->rows, keys, n))
				return WEIR_E_MEMORY;
	}
	return WEIR_OK;
}

weir_status rows_want_entry(struct partition *p, const struct log_entry *e)
{
	return e->record.kind == RECORD_CLOSE_STEP ? steps_want(p, e) : rows_want(p, &e->record, e->body);
}

bool rows_missing(struct partition *p, uint64_t *ticket)
{
	*ticket = store_fetch(p->store);
	return *ticket != 0;
}
