/* Exports the ledger's state as a message: the changed objects, or all of them. Lists are in order
 * of their ids, so that equal ledgers give equal bytes. */
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "proto/wire/wire_figures.h"
#include "server/ledger/ledger_state.h"
#include "state.pb-c.h"

/* More than enough for a pass with the most units, each with all that an open unit has. */
#define EXPORT_BYTES_MAX ((size_t)4 << 30)

/* --- Marks */

static bool list_add(struct ledger_list *list, uint32_t item)
{
	if (list->count == list->capacity) {
		uint32_t capacity = list->capacity ? 2 * list->capacity : 16;
		uint32_t *items = realloc(list->items, capacity * sizeof *items);
		if (!items)
			return false;
		list->items = items;
		list->capacity = capacity;
	}
	list->items[list->count++] = item;
	return true;
}

void ledger_mark_unit(struct ledger *l, uint32_t unit)
{
	struct ledger_unit *u = &l->units[unit];
	if (!l->changes.recorded || u->changed)
		return;
	u->changed = list_add(&l->changes.units, unit);
	l->changes.all |= !u->changed;
}

void ledger_mark_worker(struct ledger *l, struct ledger_worker *w)
{
	if (!l->changes.recorded || w->changed)
		return;
	w->changed = list_add(&l->changes.workers, w->id);
	l->changes.all |= !w->changed;
}

void ledger_mark_content(struct ledger *l, uint32_t data_unit)
{
	if (l->changes.recorded && !list_add(&l->changes.contents, data_unit))
		l->changes.all = true;
}

void ledger_unmark_units(struct ledger *l)
{
	l->changes.units.count = 0; /* the marked units are gone */
}

void ledger_mark_all(struct ledger *l)
{
	l->changes.all = true;
}

void ledger_record_changes(struct ledger *l)
{
	l->changes = (struct ledger_changes){.recorded = true,
	                                     .tables = l->tables_count,
	                                     .units = l->changes.units,
	                                     .workers = l->changes.workers,
	                                     .contents = l->changes.contents};
}

static void changes_clear(struct ledger *l)
{
	struct ledger_changes *c = &l->changes;
	for (uint32_t i = 0; i < c->units.count; i++)
		l->units[c->units.items[i]].changed = false;
	for (uint32_t i = 0; i < c->workers.count; i++)
		l->workers[c->workers.items[i]]->changed = false;
	for (uint32_t i = 0; i < l->options.servers_count; i++)
		l->marks[i].changed = false;
	c->units.count = c->workers.count = c->contents.count = 0;
	ledger_record_changes(l);
}

/* --- Objects. All that a message points to belongs to the ledger, or to the arena until the
 * message is packed. */

struct export
{
	struct ledger *l;
	struct arena *arena;
	bool failed; /* out of memory */
	Weir__V1__LedgerState state;
};

static void *take(struct export *x, size_t bytes)
{
	void *p = x->failed ? NULL : arena_alloc(x->arena, bytes ? bytes : 1);
	x->failed |= !p;
	return p;
}

static Weir__V1__PartTotals *export_totals(struct export *x, const struct totals *t)
{
	Weir__V1__PartTotals *out = take(x, sizeof *out);
	if (out)
		ledger_totals_fill(out, t, x->l->options.partitions);
	return out;
}

static Weir__V1__BatchId *export_batch(struct export *x, const struct ledger_batch *b)
{
	Weir__V1__BatchId *out = take(x, sizeof *out);
	if (!out)
		return NULL;
	weir__v1__batch_id__init(out);
	out->pass = b->pass;
	out->unit = b->unit;
	out->batch = b->batch;
	return out;
}

static void export_globals(struct export *x)
{
	struct ledger *l = x->l;
	Weir__V1__LedgerGlobals *g = x->state.globals = take(x, sizeof *g);
	if (!g)
		return;
	weir__v1__ledger_globals__init(g);
	g->has_dataset = l->has_dataset;
	g->dataset_fingerprint = l->dataset_fingerprint;
	g->dataset_rows = l->dataset_rows;
	g->units_count = l->dataset_units;
	g->parts = l->units_count - l->dataset_units;
	g->parts_committed = l->parts_committed;
	g->unit_batches = l->unit_batches;
	g->dataset_by = l->dataset_by;
	g->pass = l->pass;
	g->low = l->low;
	g->committed = l->committed;
	g->quarantined = l->quarantined;
	g->completed = l->completed;
	g->evaluated = l->evaluated;
	g->finished = l->finished;
	g->passes_done = l->passes_done;
	g->passes = l->passes;
	g->failed = l->failed;
	g->failure = l->failure;
	g->auc = l->auc;
	g->logloss = l->logloss;
	g->language = l->language;
	g->not_numbers = l->not_numbers;
	struct wire_figures *figures = take(x, sizeof *figures);
	if (figures) {
		wire_figures_fill(figures, &l->figures);
		g->n_figures = l->figures.count;
		g->figures = figures->list;
	}
	g->batches = l->batches;
	g->completed_batches = l->completed_batches;
	g->evaluated_batches = l->evaluated_batches;
	g->workers_lost = l->workers_lost;
	g->workers_stalled = l->workers_stalled;
	g->leases_expired = l->leases_expired;
	g->units_quarantined = l->units_quarantined;
	g->report = &l->report;
}

static size_t stepped_words(const struct ledger_unit *u)
{
	size_t n = u->stepped ? WEIR_UNIT_BATCHES_MAX / 64 : 0;
	while (n && !u->stepped[n - 1])
		n--;
	return n;
}

/* A unit in its initial state need not be exported. */
static bool is_untouched(const struct ledger *l, uint32_t unit)
{
	const struct ledger_unit *u = &l->units[unit];
	return u->state == UNIT_FREE && u->attempt == 0 && u->end == 0 && unit < l->dataset_units;
}

static Weir__V1__LedgerUnit *export_unit(struct export *x, uint32_t unit)
{
	struct ledger_unit *u = &x->l->units[unit];
	Weir__V1__LedgerUnit *out = take(x, sizeof *out);
	if (!out)
		return NULL;
	weir__v1__ledger_unit__init(out);
	out->unit = unit;
	out->state = u->state;
	out->attempt = u->attempt;
	out->failures = u->failures;
	out->excused = u->excused;
	out->holder = u->holder;
	out->batches = u->batches;
	out->watermark = u->watermark;
	out->totals = u->totals.count ? export_totals(x, &u->totals) : NULL;
	out->skip = u->skip;
	out->local_steps = u->local_steps;
	out->place = u->place;
	out->first = u->first;
	out->end = u->end;
	out->n_stepped = stepped_words(u);
	out->stepped = u->stepped;
	out->has_error = u->error != NULL;
	out->error = u->error ? u->error : out->error;
	return out;
}

static Weir__V1__LedgerWorker *export_worker(struct export *x, uint32_t id)
{
	struct ledger_worker *w = x->l->workers[id];
	Weir__V1__LedgerWorker *out = take(x, sizeof *out);
	if (!out)
		return NULL;
	weir__v1__ledger_worker__init(out);
	out->id = w->id;
	out->name = w->name;
	out->host = w->host;
	out->pid = w->pid;
	out->role = w->role;
	out->incarnation = w->incarnation;
	out->live = w->live;
	out->left = w->left;
	out->heard = w->heard;
	out->n_held = w->held_count;
	out->held = w->held;
	out->rows = w->rows;
	out->lease_sequence = w->lease_sequence;
	out->report_sequence = w->report_sequence;
	out->granted = w->granted;
	out->dropped = w->dropped;
	out->residual_norm = w->residual_norm;
	out->client = w->client;
	out->pid_namespace = w->pid_namespace;
	out->address = w->address;
	out->certificate = w->certificate;
	out->dropped_batch = w->dropped ? export_batch(x, &w->dropped_batch) : NULL;
	out->tells_activity = w->activity.tells;
	out->stall = w->stall.count ? take(x, sizeof *out->stall) : NULL;
	if (out->stall)
		ledger_stall_fill(out->stall, &w->stall);
	return out;
}

static void export_steps(struct export *x)
{
	struct ledger_steps *s = &x->l->steps;
	Weir__V1__LedgerSteps *out = x->state.steps = take(x, sizeof *out);
	const uint32_t count = s->open ? s->count : 0;
	Weir__V1__LedgerMember **members = take(x, count * sizeof *members);
	Weir__V1__StepClose **closes = take(x, s->closes_count * sizeof *closes);
	if (x->failed)
		return;
	weir__v1__ledger_steps__init(out);
	out->closed = s->closed;
	out->open = s->open;
	out->needed = s->open ? s->needed : 0;
	out->batches_dropped = s->batches_dropped;
	out->n_members = count;
	out->members = members;
	out->n_closes = s->closes_count;
	out->closes = closes;
	for (uint32_t i = 0; i < s->closes_count; i++)
		closes[i] = &s->closes[i]->message;
	for (uint32_t i = 0; i < count; i++) {
		Weir__V1__LedgerMember *m = members[i] = take(x, sizeof *m);
		if (!m)
			return;
		weir__v1__ledger_member__init(m);
		m->worker = s->members[i].worker;
		m->incarnation = s->members[i].incarnation;
		m->batch = export_batch(x, &s->members[i].batch);
		m->done = s->members[i].done;
		m->weight = s->members[i].weight;
	}
}

static void export_tables(struct export *x, uint32_t from)
{
	struct ledger *l = x->l;
	x->state.n_tables = l->tables_count - from;
	x->state.tables = take(x, x->state.n_tables * sizeof(Weir__V1__Table *));
	for (uint32_t i = from; i < l->tables_count && !x->failed; i++)
		x->state.tables[i - from] = &l->tables[i]->wire.table;
}

static void export_epochs(struct export *x)
{
	const struct epochs *e = &x->l->epochs;
	x->state.epochs = take(x, e->count * sizeof *x->state.epochs);
	for (uint32_t i = 0; i < e->count; i++) {
		Weir__V1__LedgerEpoch *out = take(x, sizeof *out);
		if (!out)
			return;
		weir__v1__ledger_epoch__init(out);
		out->epoch = e->starts[i].epoch;
		out->first = e->starts[i].first;
		x->state.epochs[x->state.n_epochs++] = out;
	}
}

static void export_marks(struct export *x, bool all)
{
	const struct ledger *l = x->l;
	x->state.marks = take(x, l->options.servers_count * sizeof *x->state.marks);
	for (uint32_t i = 0; i < l->options.servers_count && !x->failed; i++) {
		const struct server_mark *m = &l->marks[i];
		Weir__V1__LedgerMark *out = m->epoch && (all || m->changed) ? take(x, sizeof *out) : NULL;
		if (!out)
			continue;
		weir__v1__ledger_mark__init(out);
		out->server = i;
		out->generation = l->options.generation;
		out->epoch = m->epoch;
		out->began = m->began;
		out->position = m->position;
		x->state.marks[x->state.n_marks++] = out;
	}
}

static void export_fingerprint(struct export *x)
{
	const char *text = x->l->fingerprint;
	if (text)
		x->state.fingerprint = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

/* Exports the contents of these data units; units NULL: of all. anew: all others are unknown. */
static void export_contents(struct export *x, const uint32_t *units, uint32_t count, bool anew)
{
	struct ledger *l = x->l;
	Weir__V1__LedgerContents *out = x->state.contents = take(x, sizeof *out);
	uint32_t *ids = take(x, count * sizeof *ids);
	uint64_t *contents = take(x, count * sizeof *contents);
	if (x->failed)
		return;
	weir__v1__ledger_contents__init(out);
	out->anew = anew;
	out->unit = ids;
	out->content = contents;
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t unit = units ? units[i] : i;
		if (!l->contents[unit])
			continue;
		ids[out->n_unit++] = unit;
		contents[out->n_content++] = l->contents[unit];
	}
}

static void export_all_contents(struct export *x)
{
	if (x->l->contents)
		export_contents(x, NULL, x->l->dataset_units, true);
}

static void export_all_totals(struct export *x)
{
	x->state.has_totals = true;
	x->state.expected = export_totals(x, &x->l->expected);
	x->state.skipped = export_totals(x, &x->l->skipped);
}

/* --- Exports */

static void collect_changes(struct export *x)
{
	struct ledger_changes *c = &x->l->changes;
	x->state.units = take(x, c->units.count * sizeof(Weir__V1__LedgerUnit *));
	x->state.workers = take(x, c->workers.count * sizeof(Weir__V1__LedgerWorker *));
	for (uint32_t i = 0; i < c->units.count && !x->failed; i++)
		x->state.units[x->state.n_units++] = export_unit(x, c->units.items[i]);
	for (uint32_t i = 0; i < c->workers.count && !x->failed; i++)
		x->state.workers[x->state.n_workers++] = export_worker(x, c->workers.items[i]);
	export_tables(x, c->tables);
	if (c->globals)
		export_globals(x);
	if (c->totals)
		export_all_totals(x);
	if (c->steps)
		export_steps(x);
	if (c->marks)
		export_marks(x, false);
	if (c->fingerprint)
		export_fingerprint(x);
	if (c->contents_anew)
		export_all_contents(x);
	else if (c->contents.count)
		export_contents(x, c->contents.items, c->contents.count, false);
}

static void collect_all(struct export *x)
{
	struct ledger *l = x->l;
	const uint32_t units = l->units ? l->units_count : 0;
	x->state.units = take(x, units * sizeof(Weir__V1__LedgerUnit *));
	x->state.workers = take(x, l->workers_count * sizeof(Weir__V1__LedgerWorker *));
	for (uint32_t i = 0; i < units && !x->failed; i++)
		if (!is_untouched(l, i))
			x->state.units[x->state.n_units++] = export_unit(x, i);
	for (uint32_t i = 0; i < l->workers_count && !x->failed; i++)
		x->state.workers[x->state.n_workers++] = export_worker(x, i);
	export_tables(x, 0);
	export_globals(x);
	export_all_totals(x);
	export_steps(x);
	export_epochs(x);
	export_marks(x, true);
	export_fingerprint(x);
	export_all_contents(x);
}

static weir_status export_with(struct ledger *l, void (*collect)(struct export *x), uint64_t index, struct message **out,
                               weir_error *err)
{
	struct export x = {.l = l, .arena = arena_create(EXPORT_BYTES_MAX)};
	weir__v1__ledger_state__init(&x.state);
	x.state.index = index;
	x.failed = !x.arena;
	if (!x.failed)
		collect(&x);
	*out = x.failed ? NULL : wire_pack(&x.state.base);
	if (x.arena)
		arena_destroy(x.arena);
	return *out ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "ledger: no memory to write its state down");
}

static bool has_changes(const struct ledger *l)
{
	const struct ledger_changes *c = &l->changes;
	return c->all || c->globals || c->totals || c->steps || c->marks || c->fingerprint || c->contents_anew || c->contents.count ||
	       c->units.count || c->workers.count || c->tables != l->tables_count;
}

weir_status ledger_export_changes(struct ledger *l, struct message **out, weir_error *err)
{
	*out = NULL;
	if (!has_changes(l))
		return WEIR_OK;
	weir_status status = export_with(l, l->changes.all ? collect_all : collect_changes, 0, out, err);
	if (!status)
		changes_clear(l);
	return status;
}

weir_status ledger_export_all(struct ledger *l, uint64_t index, struct message **out, weir_error *err)
{
	return export_with(l, collect_all, index, out, err);
}
