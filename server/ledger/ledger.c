/* The ledger's life, its clock tick and its status report. See ledger.h for its purpose and
 * ledger_state.h for its state. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire_figures.h"
#include "server/ledger/ledger_state.h"

int64_t ledger_now(const struct ledger *l)
{
	return clock_ms(l->options.clock);
}

static bool job_matches(const struct ledger *l, const Weir__V1__JobId *job)
{
	return job && job->uuid.len == sizeof l->options.uuid && memcmp(job->uuid.data, l->options.uuid, job->uuid.len) == 0 &&
	       job->generation == l->options.generation;
}

weir_status ledger_check_job(const struct ledger *l, const Weir__V1__JobId *job, weir_error *err)
{
	const struct ledger_options *o = &l->options;
	if (job_matches(l, job))
		return WEIR_OK;
	if (job && job->uuid.len == sizeof o->uuid && memcmp(job->uuid.data, o->uuid, job->uuid.len) == 0 &&
	    job->generation > o->generation) /* this server is behind, not the caller */
		return weir_fail(err, WEIR_E_UNAVAILABLE, "the ledger here is still of generation %llu of the job, not %llu",
		                 (unsigned long long)o->generation, (unsigned long long)job->generation);
	return weir_fail(err, WEIR_E_GENERATION, "the request is of another job, or of another generation of this one; now is %llu",
	                 (unsigned long long)o->generation);
}

void ledger_fill_job(struct ledger *l, Weir__V1__JobId *out)
{
	weir__v1__job_id__init(out);
	out->uuid.data = l->options.uuid;
	out->uuid.len = sizeof l->options.uuid;
	out->generation = l->options.generation;
}

void ledger_fill_status(Weir__V1__Status *out, weir_status status, const char *text)
{
	weir__v1__status__init(out);
	out->code = status;
	out->text = (char *)text;
}

Weir__V1__UnitMark ledger_closed_low(const struct ledger *l)
{
	Weir__V1__UnitMark mark = WEIR__V1__UNIT_MARK__INIT;
	bool through = l->units_count > 0 && l->low == l->units_count;
	mark.pass = through ? l->pass + 1 : l->pass;
	mark.unit = through ? 0 : l->low;
	return mark;
}

weir_status ledger_totals_init(struct totals *t, uint32_t partitions)
{
	t->count = calloc(partitions, sizeof *t->count);
	t->fingerprint = calloc(partitions, sizeof *t->fingerprint);
	if (t->count && t->fingerprint)
		return WEIR_OK;
	ledger_totals_destroy(t);
	return WEIR_E_MEMORY;
}

void ledger_totals_destroy(struct totals *t)
{
	free(t->count);
	free(t->fingerprint);
	*t = (struct totals){0};
}

/* An empty message means zeros. */
bool ledger_totals_valid(const Weir__V1__PartTotals *in, uint32_t partitions)
{
	return !in || (in->n_count == in->n_fingerprint && (in->n_count == 0 || in->n_count == partitions));
}

void ledger_totals_add(struct totals *t, const Weir__V1__PartTotals *in, uint32_t partitions)
{
	for (uint32_t p = 0; in && in->n_count && p < partitions; p++) {
		t->count[p] += in->count[p];
		t->fingerprint[p] += in->fingerprint[p];
	}
}

void ledger_totals_set(struct totals *t, const Weir__V1__PartTotals *in, uint32_t partitions)
{
	memset(t->count, 0, partitions * sizeof *t->count);
	memset(t->fingerprint, 0, partitions * sizeof *t->fingerprint);
	ledger_totals_add(t, in, partitions);
}

void ledger_totals_fill(Weir__V1__PartTotals *out, const struct totals *t, uint32_t partitions)
{
	weir__v1__part_totals__init(out);
	out->n_count = out->n_fingerprint = t->count ? partitions : 0;
	out->count = t->count;
	out->fingerprint = t->fingerprint;
}

static weir_status copy_placement(struct ledger *l, const struct ledger_options *o)
{
	l->servers = calloc(o->servers_count, sizeof *l->servers);
	l->partition_server = calloc(o->partitions, sizeof *l->partition_server);
	if (!l->servers || !l->partition_server)
		return WEIR_E_MEMORY;
	for (uint32_t i = 0; i < o->servers_count; i++)
		if (!(l->servers[i] = strdup(o->servers[i])))
			return WEIR_E_MEMORY;
	memcpy(l->partition_server, o->partition_server, o->partitions * sizeof *l->partition_server);
	l->marks = calloc(o->servers_count, sizeof *l->marks);
	if (!l->marks)
		return WEIR_E_MEMORY;
	l->options.servers = (const char *const *)l->servers;
	l->options.partition_server = l->partition_server;
	if (o->process_id) {
		l->process_ids = calloc(o->servers_count, sizeof *l->process_ids);
		if (!l->process_ids)
			return WEIR_E_MEMORY;
		l->process_ids[0] = o->process_id;
	}
	weir_status status = ledger_totals_init(&l->expected, o->partitions);
	return status ? status : ledger_totals_init(&l->skipped, o->partitions);
}

weir_status ledger_create(struct ledger **out, const struct ledger_options *options, weir_error *err)
{
	assert(options->clock && options->entropy);
	if (!options->lease_ms)
		return weir_fail(err, WEIR_E_INVALID, "ledger: lease_ms must be at least 1");
	if (options->rate_rule != LEDGER_RATE_AS_IT_IS && !options->workers)
		return weir_fail(err, WEIR_E_INVALID,
		                 "ledger: learning rates that go with the workers need to know how many they are meant for");
	if (!options->partitions || options->partitions > WEIR_PARTITIONS_MAX || !options->servers_count ||
	    options->servers_count > WEIR_SERVERS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "ledger: %u partitions on %u servers (at most %u on %u)", options->partitions,
		                 options->servers_count, WEIR_PARTITIONS_MAX, WEIR_SERVERS_MAX);
	struct ledger *l = calloc(1, sizeof *l);
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "ledger: out of memory");
	l->options = *options;
	l->passes = options->passes;
	weir__v1__worker_report__init(&l->report);
	l->evaluator_ms = ledger_now(l);
	if (copy_placement(l, options) != WEIR_OK) {
		ledger_destroy(l);
		return weir_fail(err, WEIR_E_MEMORY, "ledger: out of memory");
	}
	*out = l;
	return WEIR_OK;
}

weir_status ledger_create_like(struct ledger **out, const struct ledger *other, weir_error *err)
{
	return ledger_create(out, &other->options, err);
}

static void close_polls(struct ledger *l, struct ledger_worker *w)
{
	const weir_status status = l->changes.recorded ? WEIR_E_UNAVAILABLE : WEIR_E_STALE;
	ledger_steps_answer(l, w, status, "the ledger is shutting down");
	ledger_clocks_forget(w, status, "the ledger is shutting down");
}

void ledger_close(struct ledger *l)
{
	for (uint32_t i = 0; i < l->workers_count; i++)
		close_polls(l, l->workers[i]);
}

void ledger_destroy(struct ledger *l)
{
	if (!l)
		return;
	ledger_close(l);
	for (uint32_t i = 0; i < l->workers_count; i++)
		free(l->workers[i]);
	free(l->workers);
	ledger_steps_destroy(l);
	ledger_tables_destroy(l);
	ledger_pass_destroy(l);
	ledger_totals_destroy(&l->expected);
	ledger_totals_destroy(&l->skipped);
	free(l->changes.units.items);
	free(l->changes.workers.items);
	free(l->changes.contents.items);
	free(l->fingerprint);
	free(l->contents);
	for (uint32_t i = 0; l->servers && i < l->options.servers_count; i++)
		free(l->servers[i]);
	free(l->servers);
	free(l->partition_server);
	free(l->process_ids);
	free(l->marks);
	free(l);
}

void ledger_tick(struct ledger *l)
{
	int64_t now = ledger_now(l);
	for (uint32_t i = 0; i < l->workers_count; i++) {
		struct ledger_worker *w = l->workers[i];
		if (w->live && now - w->renewed_ms > l->options.lease_ms) {
			l->leases_expired += w->held_count;
			ledger_worker_end(l, w, false, "its lease expired");
		}
		if (w->live && w->role == WEIR__V1__ROLE__EVALUATOR)
			l->evaluator_ms = now;
	}
	ledger_idle_tick(l);
	ledger_pass_advance(l);
	ledger_steps_advance(l);
}

static Weir__V1__LeaseState job_state(const struct ledger *l)
{
	if (l->failed)
		return WEIR__V1__LEASE_STATE__FAILED;
	if (l->finished)
		return WEIR__V1__LEASE_STATE__FINISHED;
	bool waits = l->units_count == 0 || l->committed + l->quarantined == l->units_count;
	return waits ? WEIR__V1__LEASE_STATE__WAIT : WEIR__V1__LEASE_STATE__UNIT;
}

static void fill_worker(const struct ledger *l, Weir__V1__WorkerStatus *out, Weir__V1__Stall *stall,
                        const struct ledger_worker *w)
{
	weir__v1__worker_status__init(out);
	out->id = w->id;
	out->name = (char *)w->name;
	out->host = (char *)w->host;
	out->pid = w->pid;
	out->role = w->role;
	out->live = w->live;
	out->left = w->left;
	out->rows = w->rows;
	out->silent_ms = (uint64_t)(ledger_now(l) - w->renewed_ms);
	out->units_held = w->held_count;
	out->residual_norm = w->residual_norm;
	out->idle_ms = ledger_idle_ms(l, w);
	out->idle_limit_ms = ledger_idle_limit_ms(l, w);
	out->waits_for_data = w->live && w->activity.waits_for_data;
	if (w->stall.count) {
		ledger_stall_fill(stall, &w->stall);
		out->stall = stall;
	}
	if (l->workers_count > WEIR_STATUS_HISTOGRAMS_MAX)
		return;
	out->staleness = (uint64_t *)(uintptr_t)w->staleness; /* packing only reads it */
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (w->staleness[i])
			out->n_staleness = i + 1;
}

void ledger_status(struct ledger *l, const Weir__V1__StatusRequest *q, ledger_reply_fn reply, void *arg)
{
	Weir__V1__LedgerStatus r = WEIR__V1__LEDGER_STATUS__INIT;
	Weir__V1__Status status;
	ledger_fill_status(&status, WEIR_OK, "");
	r.status = &status;
	weir_error err = {0};
	if (q->job && q->job->uuid.len && ledger_check_job(l, q->job, &err)) {
		ledger_fill_status(&status, err.status, err.text);
		reply(arg, &r.base);
		return;
	}
	Weir__V1__JobId job;
	ledger_fill_job(l, &job);
	r.job = &job;
	r.state = job_state(l);
	r.pass = l->pass;
	r.passes = l->passes;
	r.units = l->dataset_units;
	/* A unit that was cut counts with its first part. */
	r.committed = l->committed - l->parts_committed;
	Weir__V1__WorkerStatus *workers = calloc(l->workers_count + 1u, sizeof *workers);
	Weir__V1__WorkerStatus **worker_list = calloc(l->workers_count + 1u, sizeof *worker_list);
	Weir__V1__Stall *stalls = calloc(l->workers_count + 1u, sizeof *stalls);
	Weir__V1__Table **table_list = calloc(l->tables_count + 1u, sizeof *table_list);
	if (workers && worker_list && stalls && table_list) {
		for (uint32_t i = 0; i < l->workers_count; i++) {
			if (!l->workers[i]->live && l->workers[i]->role == WEIR__V1__ROLE__OBSERVER)
				continue;
			fill_worker(l, &workers[r.n_workers], &stalls[r.n_workers], l->workers[i]);
			worker_list[r.n_workers] = &workers[r.n_workers];
			r.n_workers++;
		}
		for (uint32_t i = 0; i < l->tables_count; i++)
			table_list[i] = &l->tables[i]->wire.table;
		r.workers = worker_list;
		r.n_tables = l->tables_count;
		r.tables = table_list;
	} else {
		ledger_fill_status(&status, WEIR_E_MEMORY, "out of memory");
	}
	Weir__V1__PartTotals expected, skipped;
	ledger_totals_fill(&expected, &l->expected, l->options.partitions);
	ledger_totals_fill(&skipped, &l->skipped, l->options.partitions);
	r.expected = &expected;
	r.skipped = &skipped;
	Weir__V1__WorkerReport totals = l->report;
	for (uint32_t i = 0; i < l->workers_count; i++)
		totals.residual_norm = hypot(totals.residual_norm, l->workers[i]->residual_norm);
	r.totals = &totals;
	r.rows_per_s = ledger_workers_holding(l) ? l->speed.per_second : 0;
	r.rows_still_ms = l->rows_ms ? (uint64_t)(ledger_now(l) - l->rows_ms) : 0;
	r.workers_lost = l->workers_lost;
	r.workers_stalled = l->workers_stalled;
	r.leases_expired = l->leases_expired;
	r.units_quarantined = l->units_quarantined;
	r.steps_closed = l->steps.closed;
	r.batches_dropped = l->steps.batches_dropped;
	r.dataset_rows = l->dataset_rows;
	r.auc = l->auc;
	r.logloss = l->logloss;
	r.language = l->language;
	r.not_numbers = l->not_numbers;
	struct wire_figures figures;
	wire_figures_fill(&figures, &l->figures);
	r.n_figures = l->figures.count;
	r.figures = figures.list;
	r.evaluated_batches = l->evaluated_batches;
	r.n_servers = l->options.servers_count;
	r.servers = l->servers;
	r.n_partition_server = l->options.partitions;
	r.partition_server = l->partition_server;
	r.failure = l->failure;
	reply(arg, &r.base);
	free(workers);
	free(worker_list);
	free(stalls);
	free(table_list);
}
