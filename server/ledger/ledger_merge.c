/* Merges exports back into a ledger. Every number is checked before use: a snapshot may come from a
 * checkpoint that somebody else has kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire_figures.h"
#include "server/ledger/ledger_state.h"
#include "state.pb-c.h"

static weir_status corrupt(weir_error *err, const char *what, unsigned long long value)
{
	return weir_fail(err, WEIR_E_CORRUPT, "ledger state: %s %llu", what, value);
}

static weir_status no_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "ledger state: out of memory");
}

static bool copy_text(char *out, size_t size, const char *in)
{
	return snprintf(out, size, "%s", in) < (int)size;
}

static struct ledger_batch read_batch(const Weir__V1__BatchId *b)
{
	return b ? (struct ledger_batch){b->pass, b->unit, b->batch} : (struct ledger_batch){0};
}

static struct worker_stall read_stall(const Weir__V1__Stall *in)
{
	if (!in)
		return (struct worker_stall){0};
	return (struct worker_stall){.count = in->count,
	                             .since_unix_ms = in->since_unix_ms,
	                             .idle_ms = in->idle_ms,
	                             .pass = in->pass,
	                             .unit = in->unit,
	                             .units = in->units,
	                             .waits_for_data = in->waits_for_data,
	                             .now = in->now};
}

/* A state of an earlier release does not tell the number. */
static uint32_t passes_of(const Weir__V1__LedgerGlobals *g)
{
	if (g->passes || !g->has_dataset)
		return g->passes;
	return g->passes_done > g->pass ? g->passes_done : g->pass + 1;
}

static weir_status merge_globals(struct ledger *l, const Weir__V1__LedgerGlobals *g, weir_error *err)
{
	if (g->units_count > WEIR_UNITS_PER_PASS_MAX || g->has_dataset != (g->units_count > 0))
		return corrupt(err, "units in a pass", g->units_count);
	if (g->parts > WEIR_UNITS_PER_PASS_MAX - g->units_count || g->unit_batches > WEIR_UNIT_BATCHES_MAX)
		return corrupt(err, "parts of units", g->parts);
	const uint32_t units = g->units_count + g->parts;
	bool begins =
	    g->has_dataset && (!l->units || g->pass != l->pass || g->units_count != l->dataset_units || units < l->units_count);
	if (g->units_count != l->dataset_units) {
		free(l->contents); /* of another dataset */
		l->contents = NULL;
	}
	if (begins && ledger_pass_reset(l, g->units_count, g->pass))
		return no_memory(err);
	if (g->has_dataset && ledger_pass_grow(l, units))
		return no_memory(err);
	if (g->low > units || g->committed > units || g->quarantined > units - g->committed || g->parts_committed > g->committed)
		return corrupt(err, "more units closed than there are: low", g->low);
	if (!copy_text(l->dataset_by, sizeof l->dataset_by, g->dataset_by) || !copy_text(l->failure, sizeof l->failure, g->failure))
		return corrupt(err, "a text of bytes", strlen(g->failure));
	l->has_dataset = g->has_dataset;
	l->dataset_fingerprint = g->dataset_fingerprint;
	l->dataset_rows = g->dataset_rows;
	l->low = g->low;
	l->committed = g->committed;
	l->quarantined = g->quarantined;
	l->parts_committed = g->parts_committed;
	l->unit_batches = g->unit_batches;
	l->completed = g->completed;
	l->evaluated = g->evaluated;
	if (g->passes > WEIR_PASSES_MAX)
		return corrupt(err, "passes", g->passes);
	if (!l->options.passes)
		l->passes = passes_of(g);
	/* A job that was given more passes goes on. */
	l->passes_done = g->passes_done < l->passes ? 0 : g->passes_done;
	l->finished = g->finished && (!g->passes_done || l->passes_done);
	l->failed = g->failed;
	l->auc = g->auc;
	l->logloss = g->logloss;
	l->language = g->language;
	l->not_numbers = g->not_numbers;
	if (wire_figures_read(&l->figures, g->figures, g->n_figures, NULL) != WEIR_OK)
		return corrupt(err, "figures of an evaluation", g->n_figures);
	l->batches = g->batches;
	l->completed_batches = g->completed_batches;
	l->evaluated_batches = g->evaluated_batches;
	l->workers_lost = g->workers_lost;
	l->workers_stalled = g->workers_stalled;
	l->leases_expired = g->leases_expired;
	l->units_quarantined = g->units_quarantined;
	if (g->report) {
		ProtobufCMessage base = l->report.base;
		l->report = *g->report; /* numbers only */
		l->report.base = base;
	}
	return WEIR_OK;
}

static weir_status merge_totals(struct ledger *l, struct totals *t, const Weir__V1__PartTotals *in, weir_error *err)
{
	if (!in || !ledger_totals_valid(in, l->options.partitions))
		return corrupt(err, "totals of partitions", in ? in->n_count : 0);
	if (!t->count && ledger_totals_init(t, l->options.partitions))
		return no_memory(err);
	ledger_totals_set(t, in, l->options.partitions);
	return WEIR_OK;
}

static weir_status merge_stepped(struct ledger_unit *u, const Weir__V1__LedgerUnit *in, weir_error *err)
{
	const size_t words = WEIR_UNIT_BATCHES_MAX / 64;
	if (in->n_stepped > words)
		return corrupt(err, "words of batches that had their step", in->n_stepped);
	if (in->n_stepped && !u->stepped && !(u->stepped = malloc(words * sizeof *u->stepped)))
		return no_memory(err);
	if (!u->stepped)
		return WEIR_OK;
	memset(u->stepped, 0, words * sizeof *u->stepped);
	if (in->n_stepped)
		memcpy(u->stepped, in->stepped, in->n_stepped * sizeof *u->stepped);
	return WEIR_OK;
}

static weir_status merge_unit(struct ledger *l, const Weir__V1__LedgerUnit *in, weir_error *err)
{
	if (!l->units || in->unit >= l->units_count)
		return corrupt(err, "unit", in->unit);
	if (in->state > UNIT_QUARANTINED)
		return corrupt(err, "state of a unit", in->state);
	if (in->batches > WEIR_UNIT_BATCHES_MAX || in->watermark > WEIR_UNIT_BATCHES_MAX)
		return corrupt(err, "batches of a unit", in->batches);
	if (in->local_steps > WEIR_LOCAL_STEPS_MAX)
		return corrupt(err, "local steps of a unit", in->local_steps);
	if (in->place >= l->dataset_units || in->end > WEIR_UNIT_BATCHES_MAX || in->first > WEIR_UNIT_BATCHES_MAX)
		return corrupt(err, "place of a unit", in->place);
	if (in->holder >= WEIR_WORKERS_MAX)
		return corrupt(err, "holder of a unit", in->holder);
	struct ledger_unit *u = &l->units[in->unit];
	u->state = (enum unit_state)in->state;
	u->attempt = in->attempt;
	u->failures = in->failures;
	u->excused = in->excused;
	u->holder = in->holder;
	u->batches = in->batches;
	u->watermark = in->watermark;
	u->skip = in->skip;
	u->local_steps = in->local_steps;
	u->place = in->unit < l->dataset_units ? in->unit : in->place;
	u->first = in->first;
	u->end = in->end;
	free(u->error);
	u->error = in->has_error ? strdup(in->error) : NULL;
	if (in->has_error && !u->error)
		return no_memory(err);
	if (u->state == UNIT_FREE && in->unit < l->free_from)
		l->free_from = in->unit;
	if (!in->totals)
		ledger_totals_destroy(&u->totals);
	weir_status status = in->totals ? merge_totals(l, &u->totals, in->totals, err) : WEIR_OK;
	return status ? status : merge_stepped(u, in, err);
}

static weir_status merge_worker(struct ledger *l, const Weir__V1__LedgerWorker *in, weir_error *err)
{
	if (in->id > l->workers_count || in->id >= WEIR_WORKERS_MAX)
		return corrupt(err, "worker", in->id);
	if (in->n_held > WEIR_UNITS_HELD_MAX)
		return corrupt(err, "units held", in->n_held);
	if (in->role > WEIR__V1__ROLE__OBSERVER)
		return corrupt(err, "role", in->role);
	struct ledger_worker *w = in->id == l->workers_count ? ledger_worker_add(l) : l->workers[in->id];
	if (!w)
		return no_memory(err);
	if (!copy_text(w->name, sizeof w->name, in->name) || !copy_text(w->host, sizeof w->host, in->host) ||
	    !copy_text(w->address, sizeof w->address, in->address))
		return corrupt(err, "name of worker", in->id);
	w->client = in->client;
	w->pid_namespace = in->pid_namespace;
	w->certificate = in->certificate;
	w->pid = in->pid;
	w->role = in->role;
	w->incarnation = in->incarnation;
	w->live = in->live;
	w->left = in->left;
	w->heard = in->heard;
	w->held_count = (uint32_t)in->n_held;
	for (size_t i = 0; i < in->n_held; i++)
		w->held[i] = in->held[i];
	w->rows = in->rows;
	w->residual_norm = in->residual_norm;
	w->lease_sequence = in->lease_sequence;
	w->report_sequence = in->report_sequence;
	w->granted = in->granted;
	w->dropped = in->dropped;
	w->dropped_batch = read_batch(in->dropped_batch);
	w->activity.tells = in->tells_activity;
	w->stall = read_stall(in->stall);
	return WEIR_OK;
}

static weir_status merge_table(struct ledger *l, const Weir__V1__Table *in, weir_error *err)
{
	weir_table_spec spec;
	struct ledger_table *added;
	uint32_t id;
	weir_status status = wire_table_read(in, &spec, &id, err);
	if (status)
		return status;
	if (id == l->tables_count)
		return ledger_table_add(l, &spec, &added, err);
	free((void *)spec.segments); /* an entry that the snapshot covers already */
	return id < l->tables_count ? WEIR_OK : corrupt(err, "table", id);
}

static weir_status merge_members(struct ledger_steps *s, const Weir__V1__LedgerSteps *in, weir_error *err)
{
	if (in->n_members > WEIR_STEP_MEMBERS_MAX)
		return corrupt(err, "members of a step", in->n_members);
	if (in->n_members > s->capacity) {
		struct step_member *members = realloc(s->members, in->n_members * sizeof *members);
		if (!members)
			return no_memory(err);
		s->members = members;
		s->capacity = (uint32_t)in->n_members;
	}
	s->count = (uint32_t)in->n_members;
	for (uint32_t i = 0; i < s->count; i++) {
		const Weir__V1__LedgerMember *m = in->members[i];
		s->members[i] = (struct step_member){m->worker, m->incarnation, read_batch(m->batch), m->done, m->weight};
	}
	return WEIR_OK;
}

/* Rebuilds one close from the members that it names. */
static struct close_record *read_close(const Weir__V1__StepClose *in)
{
	const size_t count = in->n_included + in->n_dropped;
	struct step_member *members = calloc(count + 1, sizeof *members);
	struct close_record *c = NULL;
	for (size_t i = 0; members && i < count; i++) {
		members[i].batch = read_batch(i < in->n_included ? in->included[i] : in->dropped[i - in->n_included]);
		members[i].weight = 1;
	}
	if (members)
		c = ledger_close_make(in->step, in->rate_scale, members, (uint32_t)count, (uint32_t)in->n_included);
	/* Partitions may have applied these weights: keep every bit. */
	if (c && in->n_weights > 0 && in->n_weights == in->n_included) {
		memcpy(c->weights, in->weights, in->n_weights * sizeof *c->weights);
		c->message.n_weights = in->n_weights;
		c->message.weights = c->weights;
	}
	free(members);
	return c;
}

static weir_status merge_steps(struct ledger *l, const Weir__V1__LedgerSteps *in, weir_error *err)
{
	struct ledger_steps *s = &l->steps;
	if (in->n_closes > WEIR_STEP_CLOSES_KEPT)
		return corrupt(err, "closes of steps", in->n_closes);
	weir_status status = merge_members(s, in, err);
	if (status)
		return status;
	for (; s->closes_count; s->closes_count--)
		ledger_close_destroy(s->closes[s->closes_count - 1]);
	for (size_t i = 0; i < in->n_closes; i++) {
		const Weir__V1__StepClose *c = in->closes[i];
		if (c->n_included > WEIR_STEP_MEMBERS_MAX || c->n_dropped > WEIR_STEP_MEMBERS_MAX)
			return corrupt(err, "batches of a close", c->n_included + c->n_dropped);
		if (!(s->closes[s->closes_count] = read_close(c)))
			return no_memory(err);
		s->closes_count++;
	}
	s->closed = in->closed;
	s->open = in->open;
	s->needed = in->needed;
	s->batches_dropped = in->batches_dropped;
	return WEIR_OK;
}

static weir_status merge_epochs(struct ledger *l, const Weir__V1__LedgerState *in, weir_error *err)
{
	struct epochs epochs = {0};
	if (in->n_epochs > WEIR_EPOCHS_KEPT)
		return corrupt(err, "epochs", in->n_epochs);
	for (size_t i = 0; i < in->n_epochs; i++) {
		const struct epoch_start *before = i ? &epochs.starts[i - 1] : NULL;
		const struct epoch_start start = {in->epochs[i]->epoch, in->epochs[i]->first};
		if (start.epoch <= (before ? before->epoch : 0) || start.first < (before ? before->first : 1))
			return corrupt(err, "epochs do not rise:", start.epoch);
		epochs.starts[epochs.count++] = start;
	}
	if (in->n_epochs)
		l->epochs = epochs;
	return WEIR_OK;
}

/* Marks of an earlier generation come with a checkpoint and are skipped. */
static weir_status merge_marks(struct ledger *l, const Weir__V1__LedgerState *in, weir_error *err)
{
	for (size_t i = 0; i < in->n_marks; i++) {
		const Weir__V1__LedgerMark *m = in->marks[i];
		if (m->generation != l->options.generation)
			continue;
		if (m->server >= l->options.servers_count)
			return corrupt(err, "a mark of server", m->server);
		l->marks[m->server] = (struct server_mark){.epoch = m->epoch, .began = m->began, .position = m->position};
	}
	return WEIR_OK;
}

static weir_status merge_contents(struct ledger *l, const Weir__V1__LedgerContents *in, weir_error *err)
{
	if (in->n_unit != in->n_content || !l->has_dataset)
		return corrupt(err, "contents of data units", in->n_unit);
	if (ledger_contents_reserve(l))
		return no_memory(err);
	if (in->anew)
		memset(l->contents, 0, l->dataset_units * sizeof *l->contents);
	for (size_t i = 0; i < in->n_unit; i++) {
		if (in->unit[i] >= l->dataset_units)
			return corrupt(err, "content of data unit", in->unit[i]);
		l->contents[in->unit[i]] = in->content[i];
	}
	return WEIR_OK;
}

static bool holds(const struct ledger_worker *w, uint32_t unit)
{
	for (uint32_t i = 0; i < w->held_count; i++)
		if (w->held[i] == unit)
			return true;
	return false;
}

/* Every reference to another object must name an existing one. */
static weir_status check_references(const struct ledger *l, const Weir__V1__LedgerState *in, weir_error *err)
{
	for (size_t i = 0; i < in->n_units; i++) {
		const struct ledger_unit *u = &l->units[in->units[i]->unit];
		if (u->holder >= l->workers_count && (u->attempt || u->state == UNIT_LEASED))
			return corrupt(err, "holder of a unit", u->holder);
		if (u->state == UNIT_LEASED && !holds(l->workers[u->holder], in->units[i]->unit))
			return corrupt(err, "a unit is leased to a worker that does not hold it:", in->units[i]->unit);
	}
	for (uint32_t i = 0; i < l->workers_count; i++)
		for (uint32_t j = 0; j < l->workers[i]->held_count; j++) {
			uint32_t unit = l->workers[i]->held[j];
			if (!l->units || unit >= l->units_count || l->units[unit].state != UNIT_LEASED || l->units[unit].holder != i)
				return corrupt(err, "a worker holds a unit that is not leased to it:", unit);
		}
	for (uint32_t i = 0; i < l->steps.count; i++)
		if (l->steps.members[i].worker >= l->workers_count)
			return corrupt(err, "a step has a member that has not joined: worker", l->steps.members[i].worker);
	return WEIR_OK;
}

static weir_status merge(struct ledger *l, const Weir__V1__LedgerState *in, weir_error *err)
{
	weir_status status = in->globals ? merge_globals(l, in->globals, err) : WEIR_OK;
	if (!status && in->has_totals)
		status = merge_totals(l, &l->expected, in->expected, err);
	if (!status && in->has_totals)
		status = merge_totals(l, &l->skipped, in->skipped, err);
	for (size_t i = 0; i < in->n_units && !status; i++)
		status = merge_unit(l, in->units[i], err);
	for (size_t i = 0; i < in->n_workers && !status; i++)
		status = merge_worker(l, in->workers[i], err);
	for (size_t i = 0; i < in->n_tables && !status; i++)
		status = merge_table(l, in->tables[i], err);
	if (!status && in->steps)
		status = merge_steps(l, in->steps, err);
	if (!status)
		status = merge_epochs(l, in, err);
	if (!status)
		status = merge_marks(l, in, err);
	if (!status)
		status = ledger_fingerprint_merge(l, &in->fingerprint, err);
	if (!status && in->contents)
		status = merge_contents(l, in->contents, err);
	return status ? status : check_references(l, in, err);
}

weir_status ledger_merge(struct ledger *l, const void *bytes, size_t n, uint64_t *index, weir_error *err)
{
	ProtobufCMessage *m;
	weir_status status = wire_unpack_state(&weir__v1__ledger_state__descriptor, bytes, n, &m, err);
	if (status)
		return status;
	const Weir__V1__LedgerState *in = (const Weir__V1__LedgerState *)m;
	status = merge(l, in, err);
	if (index)
		*index = in->index;
	wire_destroy(m);
	return status;
}

void ledger_begin_epoch(struct ledger *l, uint64_t epoch, uint64_t first)
{
	epochs_begin(&l->epochs, epoch, first);
}

const struct epochs *ledger_epochs(const struct ledger *l)
{
	return &l->epochs;
}

void ledger_renew_all(struct ledger *l)
{
	int64_t now = ledger_now(l);
	for (uint32_t i = 0; i < l->workers_count; i++)
		l->workers[i]->renewed_ms = l->workers[i]->activity.moved_ms = now;
	l->evaluator_ms = l->completed_ms = now;
}
