/* The table registry: a name has one id and one description for the life of the job. */
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "server/ledger/ledger_state.h"
#include "server/store/store.h"

bool ledger_tables_keep_back(const struct ledger *l)
{
	bool any = false;
	for (uint32_t i = 0; i < l->tables_count; i++)
		any |= l->tables[i]->spec.push.feedback || l->tables[i]->spec.push.rows > 0;
	return any;
}

uint32_t ledger_tables_backup(const struct ledger *l)
{
	uint32_t backup = 0;
	for (uint32_t i = 0; i < l->tables_count; i++) {
		const weir_mode *mode = &l->tables[i]->spec.mode;
		if (mode->kind == WEIR_SYNC && mode->backup > backup)
			backup = mode->backup;
	}
	return backup;
}

uint32_t ledger_tables_bound(const struct ledger *l)
{
	uint32_t bound = UINT32_MAX;
	for (uint32_t i = 0; i < l->tables_count; i++) {
		const weir_mode *mode = &l->tables[i]->spec.mode;
		if (mode->kind == WEIR_SSP && mode->bound < bound)
			bound = mode->bound;
	}
	return bound;
}

uint32_t ledger_tables_local_steps(const struct ledger *l, bool *by_speed)
{
	uint32_t steps = 0;
	*by_speed = false;
	for (uint32_t i = 0; i < l->tables_count; i++) {
		const weir_mode *mode = &l->tables[i]->spec.mode;
		steps = mode->local_steps > steps ? mode->local_steps : steps;
		*by_speed |= mode->local_speed;
	}
	return steps;
}

bool ledger_tables_in_step(const struct ledger *l)
{
	for (uint32_t i = 0; i < l->tables_count; i++)
		if (l->tables[i]->spec.mode.kind == WEIR_SYNC || l->tables[i]->spec.mode.local_steps > 0)
			return true;
	return false;
}

bool ledger_tables_synchronous(const struct ledger *l)
{
	for (uint32_t i = 0; i < l->tables_count; i++)
		if (l->tables[i]->spec.mode.kind == WEIR_SYNC)
			return true;
	return false;
}

static void table_destroy(struct ledger_table *t)
{
	wire_table_destroy(&t->wire);
	free((void *)t->spec.segments);
	free(t);
}

void ledger_tables_destroy(struct ledger *l)
{
	for (uint32_t i = 0; i < l->tables_count; i++)
		table_destroy(l->tables[i]);
	free(l->tables);
}

/* Adds the bytes that a dense table takes of each server's memory under the initial placement. */
static void add_dense_bytes(const struct ledger *l, uint32_t id, const weir_table_spec *spec, uint64_t bytes[WEIR_SERVERS_MAX])
{
	const struct ledger_options *o = &l->options;
	for (uint32_t p = 0; p < o->partitions && spec->kind == WEIR_DENSE; p++) {
		const uint64_t here = store_dense_bytes(id, spec, p, o->partitions);
		for (uint32_t i = 0; i < (o->replicas ? o->replicas : 1); i++)
			bytes[placement_replica(p, i, o->servers_count)] += here;
	}
}

/* Refuses a table that no server could keep before it gets a name and an id, which stay for the
 * life of the job. */
static weir_status check_memory(const struct ledger *l, const weir_table_spec *spec, weir_error *err)
{
	const uint64_t budget = l->options.memory_budget_bytes;
	uint64_t bytes[WEIR_SERVERS_MAX] = {0};
	add_dense_bytes(l, l->tables_count, spec, bytes);
	for (uint32_t i = 0; i < l->options.servers_count && budget; i++)
		if (l->dense_bytes[i] + bytes[i] > budget)
			return weir_fail(
			    err, WEIR_E_LIMIT,
			    "table %s: its dense rows stay in memory, with optimizer state and what coded pulls need: %llu bytes of server "
			    "%u's; with the %llu of other tables they are more than cluster.memory_budget, %llu bytes: raise it, or use "
			    "more servers",
			    spec->name, (unsigned long long)bytes[i], i, (unsigned long long)l->dense_bytes[i], (unsigned long long)budget);
	return WEIR_OK;
}

static uint32_t segments_count(const struct ledger *l)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->tables_count; i++)
		n += l->tables[i]->spec.segments_count;
	return n;
}

weir_status ledger_table_add(struct ledger *l, const weir_table_spec *spec, struct ledger_table **out, weir_error *err)
{
	struct ledger_table **grown = NULL;
	struct ledger_table *t = NULL;
	weir_status status = WEIR_E_MEMORY;
	if (l->tables_count == WEIR_TABLES_MAX)
		status = weir_fail(err, WEIR_E_LIMIT, "table %s: the job has %u tables already, the most there may be", spec->name,
		                   l->tables_count);
	else if (segments_count(l) + spec->segments_count > WEIR_SEGMENTS_MAX)
		status = weir_fail(err, WEIR_E_LIMIT,
		                   "table %s: its %u initialiser segments and the %u of the job's other tables are more than %u",
		                   spec->name, spec->segments_count, segments_count(l), WEIR_SEGMENTS_MAX);
	else if ((grown = realloc(l->tables, (l->tables_count + 1) * sizeof *grown)) && (t = calloc(1, sizeof *t))) {
		l->tables = grown;
		t->id = l->tables_count;
		t->spec = *spec;
		status = wire_table_make(&t->wire, &t->spec, t->id);
	} else if (grown) {
		l->tables = grown;
	}
	if (status != WEIR_OK) {
		free(t);
		free((void *)spec->segments);
		return status == WEIR_E_MEMORY ? weir_fail(err, status, "table %s: out of memory", spec->name) : status;
	}
	add_dense_bytes(l, t->id, &t->spec, l->dense_bytes);
	l->tables[l->tables_count++] = t;
	*out = t;
	LOG_AT(l->options.logger, LOG_INFO, "table created", "name=%s id=%u", t->spec.name, t->id);
	return WEIR_OK;
}

static weir_status create_table(struct ledger *l, const Weir__V1__CreateTableRequest *q, struct ledger_table **out,
                                weir_error *err)
{
	weir_table_spec spec;
	uint32_t id;
	weir_status status = ledger_check_job(l, q->job, err);
	if (!status && !q->table)
		status = weir_fail(err, WEIR_E_INVALID, "the request describes no table");
	if (!status)
		status = wire_table_read(q->table, &spec, &id, err);
	if (status != WEIR_OK)
		return status;
	for (uint32_t i = 0; i < l->tables_count; i++) {
		struct wire_table_difference first;
		if (strcmp(l->tables[i]->spec.name, spec.name) != 0)
			continue;
		bool equal = wire_table_equal(&l->tables[i]->spec, &spec, &first);
		free((void *)spec.segments);
		*out = l->tables[i];
		return equal ? WEIR_OK
		             : weir_fail(err, WEIR_E_EXISTS,
		                         "table %s exists with %s %.9g, not %.9g: use another name or the same description", spec.name,
		                         first.field, first.a, first.b);
	}
	for (uint32_t i = 0; i < l->tables_count; i++)
		if (!weir_modes_agree(&l->tables[i]->spec.mode, &spec.mode)) {
			free((void *)spec.segments);
			return weir_fail(
			    err, WEIR_E_INVALID,
			    "table %s makes batches wait in another way than table %s: workers would wait for each other for ever; "
			    "make one of them asynchronous, or both alike",
			    spec.name, l->tables[i]->spec.name);
		}
	status = check_memory(l, &spec, err);
	if (status) {
		free((void *)spec.segments);
		return status;
	}
	return ledger_table_add(l, &spec, out, err);
}

void ledger_create_table(struct ledger *l, const Weir__V1__CreateTableRequest *q, ledger_reply_fn reply, void *arg)
{
	Weir__V1__CreateTableReply r = WEIR__V1__CREATE_TABLE_REPLY__INIT;
	Weir__V1__Status status;
	weir_error err = {0};
	struct ledger_table *t = NULL;
	weir_status code = create_table(l, q, &t, &err);
	ledger_fill_status(&status, code, err.text);
	r.status = &status;
	r.table = t ? &t->wire.table : NULL;
	reply(arg, &r.base);
}
