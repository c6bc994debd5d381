/* The client's view of the table registry. */
#include <stdlib.h>
#include <string.h>

#include "worker/client/api_struct.h"
#include "worker/client/client.h"
#include "worker/client/coder.h"
#include "worker/client/pulled_base.h"
#include "worker/client/row_sparsifier.h"

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

/* A part of a table, made when first needed. Lock-free: a callback may be the first to need it, and
 * the holder of `coding` may be waiting for the loop. If another thread was first, its part is
 * used. */
#define TABLE_PART(get, part, member)                                                        \
	struct part *get(weir_client *c, uint32_t id, weir_error *err)                           \
	{                                                                                        \
		struct table *t = c->tables[id];                                                     \
		struct part *there = t->member, *made = there ? NULL : part##_create(&t->spec, err); \
		if (made && !atomic_compare_exchange_strong(&t->member, &there, made))               \
			part##_destroy(made);                                                            \
		else if (made)                                                                       \
			there = made;                                                                    \
		return there;                                                                        \
	}
TABLE_PART(tables_coder, coder, coder)
TABLE_PART(tables_kept, row_sparsifier, kept)
TABLE_PART(tables_held, pulled_base, held)

void tables_note_compression(weir_client *c)
{
	pthread_mutex_lock(&c->lock);
	for (uint32_t id = 0; id < WEIR_TABLES_MAX; id++) {
		struct table *t = c->tables[id];
		weir_encoder_stats s;
		if (!t || (!t->coder && !t->kept))
			continue;
		if (t->coder)
			t->coder->encoder.stats(t->coder->encoder.arg, &s);
		else
			row_sparsifier_get_stats(t->kept, &s);
		c->report.energy_sent += s.error_sum - t->told.error_sum;
		c->report.energy_measured += s.measured - t->told.measured;
		t->told = s;
	}
	pthread_mutex_unlock(&c->lock);
}

void tables_forget_residuals(weir_client *c)
{
	pthread_mutex_lock(&c->coding);
	for (uint32_t i = 0; i < WEIR_TABLES_MAX; i++) {
		struct table *t = c->tables[i];
		if (t && t->coder)
			t->coder->encoder.forget(t->coder->encoder.arg);
		if (t && t->kept)
			row_sparsifier_forget(t->kept);
	}
	tables_note_compression(c);
	pthread_mutex_unlock(&c->coding);
}

void tables_destroy(weir_client *c)
{
	for (uint32_t i = 0; i < WEIR_TABLES_MAX; i++) {
		if (!c->tables[i])
			continue;
		coder_destroy(c->tables[i]->coder);
		row_sparsifier_destroy(c->tables[i]->kept);
		pulled_base_destroy(c->tables[i]->held);
		free(c->tables[i]);
	}
}

weir_status weir_table_encoder(weir_client *c, uint32_t table, const weir_encoder *encoder, weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	struct table *t = client_table(c, table, err);
	pthread_mutex_unlock(&c->lock);
	if (!t)
		return WEIR_E_NOT_FOUND;
	if (!compressor_is_needed(&t->spec))
		return weir_fail(err, WEIR_E_INVALID,
		                 "table %s: an encoder is for dense tables with another push codec than fp32 and bf16", t->spec.name);
	struct coder *none = NULL, *made = coder_of(encoder, &t->spec, err);
	if (!made)
		return err ? err->status : WEIR_E_INVALID;
	if (atomic_compare_exchange_strong(&t->coder, &none, made))
		return WEIR_OK;
	coder_destroy(made);
	return weir_fail(err, WEIR_E_STATE, "table %s: its encoder must come before the first push to it, and once", t->spec.name);
}

/* --- Every partition must know a table before anyone asks for its rows; its creator may have died
 * before telling them */

struct registration {
	weir_client *client;
	Weir__V1__RegisterTableRequest request;
	bool *known; /* (partitions) */
	bool *asked; /* (servers) in this round */
};

static weir_status note_known(struct registration *g, const Weir__V1__RegisterTableReply *reply, weir_error *err)
{
	for (size_t i = 0; i < reply->n_partitions; i++) {
		if (reply->partitions[i] >= g->client->partitions)
			return weir_fail(err, WEIR_E_CORRUPT, "a table is registered with partition %u; the job has %u", reply->partitions[i],
			                 g->client->partitions);
		g->known[reply->partitions[i]] = true;
	}
	return WEIR_OK;
}

static weir_status register_with(struct registration *g, uint32_t server, weir_error *err)
{
	weir_client *c = g->client;
	ProtobufCMessage *reply = NULL;
	struct rpc_channel *channel;
	const uint32_t timeout_ms = c->patience_ms < WEIR_CONTROL_TIMEOUT_MS ? c->patience_ms : WEIR_CONTROL_TIMEOUT_MS;
	weir_status status = client_channel(c, server, &channel, err);
	if (!status)
		status = client_call(c, channel, RPC_REGISTER_TABLE, &g->request.base, timeout_ms,
		                     &weir__v1__register_table_reply__descriptor, &reply, err);
	if (!status)
		status = note_known(g, (const Weir__V1__RegisterTableReply *)reply, err);
	wire_destroy(reply);
	return status;
}

/* The server may come back, or its partitions may move. */
static bool may_pass(weir_status status)
{
	return status == WEIR_E_UNAVAILABLE || status == WEIR_E_TIMEOUT || status == WEIR_E_MOVED;
}

/* Asks each server once that, by the map, has a partition which does not know the table. *waits:
 * such a partition is left, and *err says why. */
static weir_status register_round(struct registration *g, bool *waits, weir_error *err)
{
	weir_client *c = g->client;
	*waits = false;
	memset(g->asked, 0, WEIR_SERVERS_MAX * sizeof *g->asked);
	for (uint32_t p = 0; p < c->partitions; p++) {
		const uint32_t server = map_server(c, p);
		if (g->known[p])
			continue;
		weir_error why = {0};
		weir_status status = g->asked[server] ? WEIR_OK : register_with(g, server, &why);
		if (status && !may_pass(status))
			return weir_fail(err, status, "%s", why.text);
		g->asked[server] = true;
		if (status)
			*err = why;
		else if (!g->known[p] && !*waits)
			weir_fail(err, WEIR_E_UNAVAILABLE, "no server has taken a table for partition %u: it is waited for", p);
		*waits |= !g->known[p];
	}
	return WEIR_OK;
}

static weir_status register_all(struct registration *g, weir_error *err)
{
	weir_client *c = g->client;
	struct tries tries = {.end_ms = client_now(c) + c->patience_ms};
	weir_error own = {0}, *why = err ? err : &own;
	for (bool waits;;) {
		weir_status status = register_round(g, &waits, why);
		if (status || !waits)
			return status;
		if (why->status == WEIR_E_TIMEOUT) /* it can be reached, and waits for space on its disk */
			tries.end_ms = client_now(c) + c->patience_ms;
		rpc_loop_post(c->loop, map_ask, c);
		status = why->status;
		if (client_try_again(c, &tries, false, why))
			continue;
		pthread_mutex_lock(&c->lock);
		weir_status stale = client_usable(c, why); /* stale: the request has no meaning any more */
		pthread_mutex_unlock(&c->lock);
		return stale ? stale : status;
	}
}

static weir_status register_everywhere(weir_client *c, Weir__V1__Table *table, struct table *t, weir_error *err)
{
	struct registration g = {.client = c, .request = WEIR__V1__REGISTER_TABLE_REQUEST__INIT};
	Weir__V1__JobId job;
	if (t->registered)
		return WEIR_OK;
	client_fill_job(c, &job);
	g.request.job = &job;
	g.request.table = table;
	g.known = calloc(c->partitions, sizeof *g.known);
	g.asked = calloc(WEIR_SERVERS_MAX, sizeof *g.asked);
	weir_status status =
	    g.known && g.asked ? register_all(&g, err) : weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", table->name);
	free(g.known);
	free(g.asked);
	t->registered = status == WEIR_OK;
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

static weir_status register_table(weir_client *c, const weir_table_spec *spec, uint32_t *table, weir_error *err)
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
	status = ledger_call_again(c, RPC_CREATE_TABLE, &q.base, &weir__v1__create_table_reply__descriptor, &reply, err);
	wire_table_destroy(&wire);
	if (status != WEIR_OK)
		return status;
	Weir__V1__Table *made = ((Weir__V1__CreateTableReply *)reply)->table;
	status = made ? adopt(c, made, table, err)
	              : weir_fail(err, WEIR_E_CORRUPT, "the ledger created table %s but did not describe it", spec->name);
	wire_destroy(reply);
	return status;
}

weir_status weir_table_register(weir_client *c, const weir_table_spec *in, uint32_t *table, weir_error *err)
{
	weir_table_spec spec;
	weir_status status = api_struct_read(API_weir_table_spec, &spec, in, err);
	const weir_init_segment zero = {.elements = spec.kind == WEIR_DENSE ? spec.elements : spec.width};
	if (spec.segments_count == 0) {
		spec.segments = &zero;
		spec.segments_count = 1;
	}
	return status == WEIR_OK ? register_table(c, &spec, table, err) : status;
}

/* --- Finding */

static weir_status ask_tables(weir_client *c, ProtobufCMessage **reply, weir_error *err)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	Weir__V1__JobId job;
	client_fill_job(c, &job);
	q.job = &job;
	return ledger_call_again(c, RPC_JOB_STATUS, &q.base, &weir__v1__ledger_status__descriptor, reply, err);
}

weir_status weir_table_find(weir_client *c, const char *name, weir_table_spec *spec, uint32_t *table, weir_error *err)
{
	ProtobufCMessage *reply = NULL;
	weir_status status = api_struct_check(API_weir_table_spec, spec, err);
	if (status == WEIR_OK)
		status = ask_tables(c, &reply, err);
	if (status != WEIR_OK)
		return status;
	const Weir__V1__LedgerStatus *r = (const Weir__V1__LedgerStatus *)reply;
	Weir__V1__Table *found = NULL;
	for (size_t i = 0; i < r->n_tables && !found; i++)
		if (strcmp(r->tables[i]->name, name) == 0)
			found = r->tables[i];
	status = found ? adopt(c, found, table, err) : weir_fail(err, WEIR_E_NOT_FOUND, "the job has no table %s", name);
	if (status == WEIR_OK)
		api_struct_write(API_weir_table_spec, spec, &c->tables[*table]->spec);
	wire_destroy(reply);
	return status;
}

weir_status weir_tables(weir_client *c, weir_table_spec *specs, uint32_t *ids, size_t room, size_t *count, weir_error *err)
{
	ProtobufCMessage *reply = NULL;
	weir_status status = specs && room ? api_struct_check(API_weir_table_spec, specs, err) : WEIR_OK;
	if (status == WEIR_OK)
		status = ask_tables(c, &reply, err);
	if (status != WEIR_OK)
		return status;
	const Weir__V1__LedgerStatus *r = (const Weir__V1__LedgerStatus *)reply;
	const size_t bytes = specs && room ? api_struct_bytes(API_weir_table_spec, specs) : 0;
	for (size_t i = 0; i < r->n_tables && i < room && status == WEIR_OK; i++) {
		uint32_t id = 0;
		status = adopt(c, r->tables[i], &id, err);
		if (status == WEIR_OK && specs) {
			void *out = (char *)specs + i * bytes;
			memcpy(out, &bytes, sizeof bytes);
			api_struct_write(API_weir_table_spec, out, &c->tables[id]->spec);
		}
		if (status == WEIR_OK && ids)
			ids[i] = id;
	}
	*count = r->n_tables;
	wire_destroy(reply);
	return status;
}
