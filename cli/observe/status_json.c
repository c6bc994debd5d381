/* Writes the output of `weir status --json`. */
#include "cli/observe/status_json.h"

#include "cli/core/overview_json.h"
#include "cli/observe/report.h"

static struct json *server_item(const struct overview_server *v)
{
	struct json *item = json_create();
	json_set_text(item, "address", v->address);
	json_set_bool(item, "answered", v->answered);
	json_set_count(item, "pid", v->pid);
	json_set_count(item, "uptime_ms", v->uptime_ms);
	json_set_bool(item, "draining", v->draining);
	json_set_text(item, "stuck", v->stuck);
	json_set_count(item, "stuck_ms", v->stuck_ms);
	if (!v->durable)
		return item;
	json_set_count(item, "durable.recovery_ms", v->recovery_ms);
	json_set_count(item, "durable.replayed_entries", v->replayed_entries);
	json_set_count(item, "durable.journal_bytes", v->journal_bytes);
	json_set_count(item, "durable.flush_lag_entries", v->flush_lag);
	json_set_bool(item, "durable.disk_full", v->disk_full);
	json_set_bool(item, "durable.disk_slow", v->disk_slow);
	json_set_count(item, "durable.sync_ms", v->sync_ms);
	json_set_count(item, "durable.resident_rows", v->resident_rows);
	json_set_count(item, "durable.cold_rows", v->cold_rows);
	json_set_count(item, "durable.hits", v->hits);
	json_set_count(item, "durable.misses", v->misses);
	json_set_count(item, "durable.memory_bytes", v->memory_bytes);
	json_set_count(item, "durable.budget_bytes", v->budget_bytes);
	return item;
}

static struct json *worker_item(const struct overview_worker *w)
{
	struct json *item = json_create();
	overview_put_worker(item, w);
	json_set_text(item, "host", w->host);
	json_set_count(item, "pid", w->pid);
	json_set_bool(item, "evaluator", w->evaluator);
	json_set_bool(item, "live", w->live);
	json_set_bool(item, "left", w->left);
	json_set_count(item, "units_held", w->units_held);
	json_set_real(item, "residual_norm", w->residual_norm);
	json_set_count(item, "idle_ms", w->idle_ms);
	json_set_count(item, "idle_limit_ms", w->idle_limit_ms);
	json_set_bool(item, "waits_for_data", w->waits_for_data);
	overview_put_stall(item, w);
	return item;
}

static struct json *table_item(const struct overview_table *t)
{
	struct json *item = json_create();
	overview_put_table(item, t);
	json_set_count(item, "rows", t->rows);
	json_set_count(item, "rows_stub", t->rows_stub);
	json_set_count(item, "bytes", t->bytes);
	json_set_count(item, "pushes_unadmitted", t->pushes_unadmitted);
	json_set_count(item, "pulls", t->pulls);
	json_set_count(item, "rows_evicted", t->rows_evicted);
	return item;
}

static void put_in_sync(struct json *item, const uint32_t *servers, uint32_t count)
{
	json_set_empty_list(item, "in_sync");
	for (uint32_t i = 0; i < count; i++) {
		struct json *server = json_create();
		json_set_count(server, "server", servers[i]);
		json_append(item, "in_sync", server);
	}
}

static struct json *ledger_item(const struct overview *s)
{
	struct json *item = json_create();
	json_set_count(item, "server", s->ledger.server);
	json_set_count(item, "epoch", s->ledger.epoch);
	put_in_sync(item, s->ledger.in_sync, s->ledger.in_sync_count);
	return item;
}

static struct json *partition_item(const struct overview *s, uint32_t id)
{
	const struct overview_partition *p = &s->partitions[id];
	struct json *item = json_create();
	json_set_count(item, "id", id);
	json_set_bool(item, "reported", p->reported);
	if (!p->reported) {
		json_set_empty_list(item, "in_sync");
		return item;
	}
	json_set_count(item, "primary", p->primary);
	json_set_count(item, "epoch", p->epoch);
	put_in_sync(item, p->in_sync, p->in_sync_count);
	return item;
}

static void put_lists(struct json *j, const struct overview *s)
{
	json_set_count(j, "generation", s->generation);
	json_set_text(j, "checkpoint", s->checkpoint);
	json_set_text(j, "rewound", s->rewound);
	json_set_text(j, "lost", s->lost);
	json_set_object(j, "ledger", ledger_item(s));
	json_set_empty_list(j, "partitions");
	for (uint32_t i = 0; i < s->partitions_count; i++)
		json_append(j, "partitions", partition_item(s, i));
	json_set_empty_list(j, "servers");
	for (uint32_t i = 0; i < s->servers_count; i++)
		json_append(j, "servers", server_item(&s->servers[i]));
	json_set_empty_list(j, "workers");
	for (uint32_t i = 0; i < s->workers_count; i++)
		json_append(j, "workers", worker_item(&s->workers[i]));
	json_set_empty_list(j, "tables");
	for (uint32_t i = 0; i < s->tables_count; i++)
		json_append(j, "tables", table_item(&s->tables[i]));
}

static struct json *figures_json(const struct figures *f)
{
	struct json *j = json_create();
	for (uint32_t i = 0; i < f->count; i++)
		json_set_real(j, f->items[i].name, f->items[i].value);
	return j;
}

struct json *status_json(const struct overview *s)
{
	struct json *j = json_create();
	if (!j)
		return NULL;
	json_set_text(j, "state", overview_state_name(s->state));
	json_set_text(j, "failure", s->failure);
	json_set_count(j, "pass", s->pass + 1u);
	json_set_count(j, "passes", s->passes);
	json_set_count(j, "units", s->units);
	json_set_count(j, "committed", s->committed);
	json_set_count(j, "replicas", s->replicas);
	overview_put_totals(j, s);
	if (s->rows_per_s > 0)
		overview_put_speed(j, s, s->rows_per_s, s->workers_live);
	const enum report_of of = s->row_tokens ? REPORT_TOKENS : s->language ? REPORT_TEXT : REPORT_CLICKS;
	if (s->evaluated_batches) {
		report_put_quality(j, of, s->auc, s->logloss);
		json_set_count(j, "not_numbers", s->not_numbers);
		json_set_object(j, "figures", figures_json(&s->figures));
	}
	json_set_count(j, "scrubs.compared", s->scrubs);
	json_set_count(j, "scrubs.differed", s->scrubs_differ);
	json_set_count(j, "corrupt_refused", s->corrupt_refused);
	json_set_count(j, "nonfinite_refused", s->nonfinite_refused);
	json_set_count(j, "workers_lost", s->workers_lost);
	json_set_count(j, "workers_stalled", s->workers_stalled);
	put_lists(j, s);
	return j;
}

weir_status status_json_print(const struct overview *s, FILE *out, weir_error *err)
{
	struct json *j = status_json(s);
	const weir_status status = j ? json_print(j, out, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for the status");
	json_destroy(j);
	return status;
}
