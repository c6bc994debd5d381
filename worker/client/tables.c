/* The client's view of the table registry. */
#include <stdlib.h>
#include <string.h>

#include "client.h"

struct table *client_table(weir_client *c, uint32_t id, weir_error *err)
{
	struct table *t = id < WEIR_TABLES_MAX ? c->tables[id] : NULL;
	if (!t)
		(void)weir_fail(err, WEIR_E_NOT_FOUND, "no table has id %u: register or find it first", id);
	return t;
}

weir_status tables_learn(weir_client *c, const Weir__V1__Table *table, struct table **out, weir_error *err)
{
	weir_table_spec spec;
	uint32_t id;
	weir_status status = wire_table_read(table, &spec, &id, err);
	if (status != WEIR_OK)
		return status;
	free((void *)spec.segments);
	spec.segments = NULL;
	spec.segments_count = 0;
	if (id >= WEIR_TABLES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "table %s has id %u, the most is %u", spec.name, id, WEIR_TABLES_MAX - 1);
	if (!c->tables[id]) {
		struct table *t = calloc(1, sizeof *t);
		if (!t)
			return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec.name);
		t->id = id;
		t->spec = spec;
		c->tables[id] = t;
	}
	if (out)
		*out = c->tables[id];
	return WEIR_OK;
}

/* Every server must know a table before rows of it are asked for; who created it may have died before telling them. */
static weir_status register_everywhere(weir_client *c, Weir__V1__Table *table, struct table *t, weir_error *err)
{
	Weir__V1__RegisterTableRequest q = WEIR__V1__REGISTER_TABLE_REQUEST__INIT;
	Weir__V1__JobId job;
	weir_status status = WEIR_OK;
	client_fill_job(c, &job);
	q.job = &job;
	q.table = table;
	for (uint32_t i = 0; i < c->links_count && status == WEIR_OK && !t->registered; i++) {
		ProtobufCMessage *reply = NULL;
		status = client_call_again(c, c->links[i].channel, RPC_REGISTER_TABLE, &q.base,
		                           &weir__v1__register_table_reply__descriptor, &reply, err);
		wire_free(reply);
	}
	if (status == WEIR_OK)
		t->registered = true;
	return status;
}

static weir_status adopt(weir_client *c, Weir__V1__Table *table, uint32_t *id, weir_error *err)
{
	struct table *t = NULL;
	pthread_mutex_lock(&c->lock);
	weir_status status = tables_learn(c, table, &t, err);
	pthread_mutex_unlock(&c->lock);
	if (status == WEIR_OK)
		status = register_everywhere(c, table, t, err);
	if (status == WEIR_OK)
		*id = t->id;
	return status;
}

weir_status weir_table_register(weir_client *c, const weir_table_spec *spec, uint32_t *table, weir_error *err)
{
	Weir__V1__CreateTableRequest q = WEIR__V1__CREATE_TABLE_REQUEST__INIT;
	Weir__V1__JobId job;
	struct wire_table wire;
	ProtobufCMessage *reply = NULL;
	weir_status status = wire_table_check(spec, err);
	if (status != WEIR_OK)
		return status;
	if (wire_table_make(&wire, spec, 0) != WEIR_OK)
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
	client_fill_job(c, &job);
	q.job = &job;
	q.table = &wire.table;
	status = client_call_again(c, c->ledger, RPC_CREATE_TABLE, &q.base, &weir__v1__create_table_reply__descriptor, &reply, err);
	wire_table_free(&wire);
	if (status != WEIR_OK)
		return status;
	Weir__V1__Table *made = ((Weir__V1__CreateTableReply *)reply)->table;
	status = made ? adopt(c, made, table, err)
	              : weir_fail(err, WEIR_E_CORRUPT, "the ledger created table %s but did not describe it", spec->name);
	wire_free(reply);
	return status;
}

weir_status weir_table_find(weir_client *c, const char *name, weir_table_spec *spec, uint32_t *table, weir_error *err)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	Weir__V1__JobId job;
	ProtobufCMessage *reply = NULL;
	client_fill_job(c, &job);
	q.job = &job;
	weir_status status =
	    client_call_again(c, c->ledger, RPC_JOB_STATUS, &q.base, &weir__v1__ledger_status__descriptor, &reply, err);
	if (status != WEIR_OK)
		return status;
	const Weir__V1__LedgerStatus *r = (const Weir__V1__LedgerStatus *)reply;
	Weir__V1__Table *found = NULL;
	for (size_t i = 0; i < r->n_tables && !found; i++)
		if (strcmp(r->tables[i]->name, name) == 0)
			found = r->tables[i];
	status = found ? adopt(c, found, table, err) : weir_fail(err, WEIR_E_NOT_FOUND, "the job has no table %s", name);
	if (status == WEIR_OK)
		*spec = c->tables[*table]->spec;
	wire_free(reply);
	return status;
}
