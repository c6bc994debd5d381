#include "tests/unit/worker/client/partition_copy.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/partition/partition_internal.h"
#include "server/partition/partition_state.h"

static void check(weir_status status, const weir_error *err)
{
	if (status == WEIR_OK)
		return;
	fprintf(stderr, "partition: %s: %s\n", weir_status_name(status), err->text);
	abort();
}

static void load_rows(void *arg, struct row_batch batch)
{
	struct partition *copy = arg;
	weir_error err = {0};
	for (size_t i = 0; i < batch.count; i++)
		check(store_load(partition_store(copy), batch.items[i].table, batch.items[i].key, batch.data + batch.items[i].offset,
		                 batch.items[i].bytes, true, &err),
		      &err);
	row_batch_destroy(&batch);
}

static void copy_rows(struct partition *from, struct partition *to)
{
	weir_error err = {0};
	struct store_snapshot *snapshot;
	struct cold_snapshot *cold = NULL;
	bool more = true;
	const struct store_snapshot_options options = {.emit = load_rows, .arg = to};
	check(store_snapshot_begin(&snapshot, partition_store(from), &options, &cold, &err), &err);
	while (more)
		check(store_snapshot_next(snapshot, 4096, &more), &err);
}

static void copy_tables(struct partition *from, struct partition *to)
{
	weir_error err = {0};
	for (uint32_t id = 0; id < from->tables_end; id++)
		if (from->tables[id])
			check(partition_add_table(to, id, from->tables[id]->spec, &err), &err);
}

/* The entries of pushes that wait in an open step. */
static struct log *copy_log(const struct partition *from)
{
	struct log *log = log_memory_create(), *source = from->options.log;
	weir_error err = {0};
	const uint64_t needs = partition_state_needs(from);
	check(log->ops->restart(log, needs, &err), &err);
	for (uint64_t i = needs; i <= from->applied; i++)
		check(log->ops->append(log, source->ops->get(source, i), &err), &err);
	return log;
}

struct partition *partition_copy(struct partition *from, uint64_t epoch)
{
	struct partition_options options = from->options;
	struct store_options store = *options.store;
	weir_error err = {0};
	store.budget = NULL; /* the copy outlives the server that this partition is of */
	store.descriptors = NULL;
	options.store = &store;
	options.trace = NULL;
	options.log = NULL;
	options.host = (struct partition_host){0}; /* everything in its log is committed */
	struct message *state = partition_state_export(from);
	struct partition *to = partition_create(&options, &err);
	assert(state && to);
	copy_tables(from, to);
	check(partition_state_import(to, state->spans[0].data, state->bytes, &err), &err);
	copy_rows(from, to);
	partition_set_log(to, copy_log(from));
	partition_recovered(to);
	partition_begin(to, epoch);
	message_release(state);
	return to;
}
