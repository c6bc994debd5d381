/* Encodes and decodes the dedup table, steps, epochs and counters of a partition. Equal partitions
 * give equal bytes. Input is checked before use: a header may come from a checkpoint that was
 * stored elsewhere. */
#include "server/partition/partition_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "proto/wire/wire.h"
#include "server/partition/partition_internal.h"
#include "state.pb-c.h"

/* Room for WEIR_UNITS_OPEN_MAX units of WEIR_UNIT_BATCHES_MAX batches, and their descriptions. */
#define STATE_BYTES_MAX ((size_t)1 << 32)

/* --- Export */

struct export
{
	const struct partition *p;
	struct arena *arena;
	bool failed; /* out of memory */
	Weir__V1__PartitionState state;
};

static void *take(struct export *x, size_t bytes)
{
	void *out = x->failed ? NULL : arena_alloc(x->arena, bytes ? bytes : 1);
	x->failed |= !out;
	return out;
}

/* A list of n messages, each of `bytes` bytes. */
static void *take_list(struct export *x, size_t n, size_t bytes)
{
	void **list = take(x, n * sizeof *list);
	for (size_t i = 0; i < n && !x->failed; i++)
		list[i] = take(x, bytes);
	return x->failed ? NULL : list;
}

static void export_epochs(struct export *x)
{
	const struct epochs *e = &x->p->epochs;
	x->state.n_epochs = e->count;
	x->state.epochs = take_list(x, e->count, sizeof(Weir__V1__EpochStart));
	for (uint32_t i = 0; i < e->count && !x->failed; i++) {
		weir__v1__epoch_start__init(x->state.epochs[i]);
		x->state.epochs[i]->epoch = e->starts[i].epoch;
		x->state.epochs[i]->first = e->starts[i].first;
	}
}

static void export_identity(struct export *x)
{
	const struct dedup *d = &x->p->identity;
	x->state.dedup_low = d->low;
	x->state.n_dedup_closed = d->closed_count;
	x->state.dedup_closed = d->closed;
	x->state.n_units = d->open_count;
	x->state.units = take_list(x, d->open_count, sizeof(Weir__V1__UnitState));
	for (uint32_t i = 0; i < d->open_count && !x->failed; i++) {
		Weir__V1__UnitState *u = x->state.units[i];
		weir__v1__unit_state__init(u);
		u->key = d->open[i]->key;
		u->attempt = d->open[i]->attempt;
		u->n_parts = d->open[i]->batches;
		u->parts = d->open[i]->parts;
		u->steps = (ProtobufCBinaryData){.len = d->open[i]->batches, .data = d->open[i]->steps};
	}
}

static void export_steps(struct export *x)
{
	const struct steps *s = &x->p->steps;
	x->state.steps_closed = s->closed;
	x->state.n_waiting = s->count;
	x->state.waiting = take_list(x, s->count, sizeof(Weir__V1__WaitingPart));
	Weir__V1__BatchId *ids = take(x, s->count * sizeof *ids);
	for (uint32_t i = 0; i < s->count && !x->failed; i++) {
		Weir__V1__WaitingPart *w = x->state.waiting[i];
		weir__v1__waiting_part__init(w);
		weir__v1__batch_id__init(&ids[i]);
		ids[i].pass = s->waiting[i].id.pass;
		ids[i].unit = s->waiting[i].id.unit;
		ids[i].batch = s->waiting[i].id.batch;
		w->batch = &ids[i];
		w->part = s->waiting[i].part;
		w->index = s->waiting[i].index;
	}
}

/* A table is known once its entry is in the log. It belongs to the state only when an applied entry
 * has changed it. */
static bool is_touched(const struct partition_table *t)
{
	return t->clock.steps || atomic_load_explicit(&t->counters.pushes, memory_order_relaxed);
}

static void export_tables(struct export *x)
{
	const struct partition *p = x->p;
	x->state.tables = take_list(x, p->tables_end, sizeof(Weir__V1__TableState));
	for (uint32_t id = 0; id < p->tables_end && !x->failed; id++) {
		const struct partition_table *t = p->tables[id];
		if (!t || !is_touched(t))
			continue;
		Weir__V1__TableState *out = x->state.tables[x->state.n_tables++];
		weir__v1__table_state__init(out);
		out->id = id;
		out->steps = t->clock.steps;
		out->lr = t->clock.lr;
		out->pushes = atomic_load_explicit(&t->counters.pushes, memory_order_relaxed);
	}
}

/* X(counter) for each counter that is a function of the log. */
#define STATE_COUNTER_MAP(X) \
	X(parts_applied) X(fingerprint) X(parts_dropped) X(dropped_fingerprint) X(parts_double) X(nonfinite_refused)

struct message *partition_state_export(const struct partition *p)
{
	struct export x = {.p = p, .arena = arena_create(STATE_BYTES_MAX)};
	weir__v1__partition_state__init(&x.state);
	x.failed = !x.arena;
	x.state.index = p->applied;
	export_epochs(&x);
	export_identity(&x);
	export_steps(&x);
	export_tables(&x);
#define STATE_COUNTER_EXPORT(name) x.state.name = atomic_load_explicit(&p->counters.name, memory_order_relaxed);
	STATE_COUNTER_MAP(STATE_COUNTER_EXPORT)
#undef STATE_COUNTER_EXPORT
	struct message *m = x.failed ? NULL : wire_pack(&x.state.base);
	if (x.arena)
		arena_destroy(x.arena);
	return m;
}

/* --- Import */

static weir_status corrupt(const struct partition *p, weir_error *err, const char *what, unsigned long long value)
{
	return weir_fail(err, WEIR_E_CORRUPT, "header of partition %u: %s %llu", p->options.id, what, value);
}

static weir_status no_memory(const struct partition *p, weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "header of partition %u: out of memory", p->options.id);
}

static weir_status import_epochs(struct partition *p, const Weir__V1__PartitionState *in, weir_error *err)
{
	for (size_t i = 0; i < in->n_epochs; i++) {
		const Weir__V1__EpochStart *e = in->epochs[i];
		if (i && (e->epoch <= in->epochs[i - 1]->epoch || e->first < in->epochs[i - 1]->first))
			return corrupt(p, err, "epochs that do not rise:", e->epoch);
		epochs_begin(&p->epochs, e->epoch, e->first);
	}
	return WEIR_OK;
}

static weir_status import_closed(struct partition *p, const Weir__V1__PartitionState *in, weir_error *err)
{
	struct dedup *d = &p->identity;
	const size_t n = in->n_dedup_closed;
	if (n > WEIR_UNITS_OPEN_MAX)
		return corrupt(p, err, "closed units above the low-water mark:", n);
	for (size_t i = 0; i < n; i++)
		if (in->dedup_closed[i] < (i ? in->dedup_closed[i - 1] + 1 : in->dedup_low))
			return corrupt(p, err, "closed units that do not rise:", in->dedup_closed[i]);
	d->low = in->dedup_low;
	if (n == 0)
		return WEIR_OK;
	d->closed = malloc(n * sizeof *d->closed);
	if (!d->closed)
		return no_memory(p, err);
	memcpy(d->closed, in->dedup_closed, n * sizeof *d->closed);
	d->closed_count = d->closed_capacity = (uint32_t)n;
	return WEIR_OK;
}

static weir_status import_unit(struct partition *p, const Weir__V1__UnitState *in, weir_error *err)
{
	if (in->n_parts > WEIR_UNIT_BATCHES_MAX || in->steps.len != in->n_parts)
		return corrupt(p, err, "batches of a unit:", in->n_parts);
	if (dedup_is_closed(&p->identity, in->key) || dedup_find(&p->identity, in->key))
		return corrupt(p, err, "a unit that is there twice:", in->key);
	for (size_t i = 0; i < in->steps.len; i++)
		if (in->steps.data[i] > BATCH_STEP_DROPPED)
			return corrupt(p, err, "step of a batch:", in->steps.data[i]);
	struct unit *u = dedup_open(&p->identity, in->key, in->attempt, (uint32_t)in->n_parts);
	if (!u)
		return no_memory(p, err);
	if (in->n_parts) {
		memcpy(u->parts, in->parts, in->n_parts * sizeof *u->parts);
		memcpy(u->steps, in->steps.data, in->n_parts);
	}
	return WEIR_OK;
}

static weir_status import_waiting(struct partition *p, const Weir__V1__WaitingPart *in, weir_error *err)
{
	if (!in->batch || in->batch->batch >= WEIR_UNIT_BATCHES_MAX || in->part >= WEIR_BATCH_PARTS_MAX)
		return corrupt(p, err, "a waiting part:", in->part);
	if (in->index == 0 || in->index > p->applied)
		return corrupt(p, err, "log index of a waiting part:", in->index);
	const struct record push = {
	    .pass = in->batch->pass, .unit = in->batch->unit, .batch = in->batch->batch, .part = (uint16_t)in->part};
	return steps_wait(&p->steps, &push, in->index) ? no_memory(p, err) : WEIR_OK;
}

static weir_status import_table(struct partition *p, const Weir__V1__TableState *in, weir_error *err)
{
	struct partition_table *t = partition_table(p, in->id);
	if (!t)
		return corrupt(p, err, "a table that is not registered:", in->id);
	t->clock.steps = in->steps;
	t->clock.lr = in->lr;
	atomic_store_explicit(&t->counters.pushes, in->pushes, memory_order_relaxed);
	return WEIR_OK;
}

static weir_status import(struct partition *p, const Weir__V1__PartitionState *in, weir_error *err)
{
	p->applied = p->flushed = in->index;
	weir_status status = import_epochs(p, in, err);
	if (!status && in->n_units > WEIR_UNITS_OPEN_MAX)
		status = corrupt(p, err, "open units:", in->n_units);
	if (!status)
		status = import_closed(p, in, err);
	for (size_t i = 0; i < in->n_units && !status; i++)
		status = import_unit(p, in->units[i], err);
	p->steps.closed = in->steps_closed;
	for (size_t i = 0; i < in->n_waiting && !status; i++)
		status = import_waiting(p, in->waiting[i], err);
	for (size_t i = 0; i < in->n_tables && !status; i++)
		status = import_table(p, in->tables[i], err);
#define STATE_COUNTER_IMPORT(name) atomic_store_explicit(&p->counters.name, in->name, memory_order_relaxed);
	STATE_COUNTER_MAP(STATE_COUNTER_IMPORT)
#undef STATE_COUNTER_IMPORT
	return status;
}

weir_status partition_state_import(struct partition *p, const void *bytes, size_t n, weir_error *err)
{
	ProtobufCMessage *m;
	weir_status status = wire_unpack_state(&weir__v1__partition_state__descriptor, bytes, n, &m, err);
	if (status)
		return status;
	status = import(p, (const Weir__V1__PartitionState *)m, err);
	wire_destroy(m);
	if (!status)
		partition_publish(p);
	return status;
}

uint64_t partition_state_needs(const struct partition *p)
{
	return p->steps.lowest < p->applied + 1 ? p->steps.lowest : p->applied + 1;
}
