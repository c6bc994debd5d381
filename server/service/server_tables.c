/* The tables of a server. A table is checked before anything of it is here. A dense table that does
 * not fit the memory of all its partitions is refused as a whole, by the first partition that
 * receives it. It is not stored in the folder, because the next start would not have room for it
 * either. */
#include "server/service/durable.h"
#include "server/service/server_internal.h"
#include "server/store/store.h"

static uint64_t dense_bytes(const struct server *s, uint32_t id, const weir_table_spec *spec)
{
	uint64_t bytes = 0;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p])
			bytes += store_dense_bytes(id, spec, p, s->options.partitions);
	return bytes;
}

weir_status server_keep_table(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err)
{
	if (id > WEIR_TABLES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "table %s: id %u, at most %u", spec->name, id, WEIR_TABLES_MAX);
	const bool is_new = !atomic_load(&s->has_table[id]);
	const uint64_t bytes = is_new ? dense_bytes(s, id, spec) : 0;
	if (!memory_budget_may_promise(&s->budget, bytes))
		return weir_fail(
		    err, WEIR_E_LIMIT,
		    "table %s: its dense rows, with optimizer state and what coded pulls need, would take %llu bytes of this server's "
		    "memory; with those of other tables they are more than cluster.memory_budget, %llu bytes: raise it, or use "
		    "more servers",
		    spec->name, (unsigned long long)bytes, (unsigned long long)s->budget.limit);
	weir_status status = s->durable ? durable_add_table(s, id, spec, err) : WEIR_OK;
	if (!status)
		atomic_store(&s->has_table[id], true);
	return status;
}

void server_note_tables(struct server *s)
{
	for (uint32_t p = 0; p < s->options.partitions; p++)
		for (uint32_t id = 0; s->partitions[p] && id <= WEIR_TABLES_MAX; id++)
			if (store_table(partition_store(s->partitions[p]), id))
				atomic_store(&s->has_table[id], true);
}
