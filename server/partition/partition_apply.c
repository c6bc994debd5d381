/* Entries to state. Reads only the entry and the state: no clock, and no configuration that may
 * differ between replicas. A push is applied from the slices that it arrived in, run by run, while
 * they are in the cache. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "server/partition/partition_internal.h"
#include "server/partition/section_values.h"

/* A section that is being applied to rows. */
struct section_apply {
	struct partition *p;
	const struct log_entry *e;
	struct partition_table *t;
	uint64_t step; /* of the table; the step that this section takes */
	struct optimizer_scalars scalars;
	struct section_values values;
	float book[CODEC_BOOK];
};

void row_meta_touch(struct row_meta *m, const struct log_entry *e)
{
	m->version = e->index;
	m->last_push_s = (uint32_t)(e->stamp_ms / 1000);
	if (m->count != UINT32_MAX)
		m->count++;
}

uint64_t push_step(const struct partition_table *t, const struct record *push)
{
	const uint32_t round = t->spec->mode.local_steps;
	if (!push->push.place)
		return t->clock.steps;
	return (push->push.place - 1u) / (round ? round : 1u);
}

void table_step(struct partition_table *t, uint64_t step, float lr)
{
	if (step + 1 < t->clock.steps)
		return;
	t->clock.steps = step + 1;
	t->clock.lr = lr;
}

/* Opens a section of a checked record. */
static void section_apply_open(struct section_apply *a, const struct section *s)
{
	const weir_status status = section_values_open(&a->values, s, a->book, NULL);
	assert(status == WEIR_OK);
	(void)status;
	a->values.clip = a->e->finding == LOG_CLIPPED;
}

/* --- Pushes to asynchronous tables */

/* Whether gradients can be used in place in the message. */
static bool is_raw(const struct section_apply *a)
{
	return a->values.coding.codec == WEIR_CODEC_FP32 && !a->values.clip;
}

static void chunk_as_it_lies(struct section_apply *a, struct row_state *state, float *value, size_t n)
{
	uint8_t straddle[sizeof(float)];
	const uint8_t *run;
	for (size_t at = 0, m; at < n; at += m) {
		m = cursor_run(&a->values.data, sizeof(float), n - at, straddle, &run);
		assert(m > 0);
		optimizer_apply(a->t->optimizer, &a->scalars, state, value, value + n, n, at, (const float *)(const void *)run, m);
	}
}

static void chunk_by_tiles(struct section_apply *a, struct row_state *state, float *value, size_t n)
{
	struct apply_scratch *x = a->p->scratch;
	for (size_t at = 0; at < n; at += CODEC_TILE) {
		section_tile_decode(&a->values, codec_tile_elements(n, at), x->tile, x->values);
		optimizer_apply(a->t->optimizer, &a->scalars, state, value, value + n, n, at, x->values, codec_tile_elements(n, at));
	}
}

/* Top-k: only the sent elements take the step. */
static void chunk_sparsely(struct section_apply *a, struct row_state *state, float *value, size_t n)
{
	struct apply_scratch *x = a->p->scratch;
	for (size_t at = 0; at < n; at += CODEC_TILE) {
		const size_t count = section_tile_sparse(&a->values, codec_tile_elements(n, at), x->tile, x->offsets, x->values);
		optimizer_apply_sparse(a->t->optimizer, &a->scalars, state, value, value + n, n, at, x->offsets, x->values, count);
	}
}

static weir_status apply_chunk(struct section_apply *a, uint64_t chunk)
{
	float *value;
	struct row_meta *meta;
	if (store_upsert(a->t->rows, &chunk, 1, &value, &meta))
		return WEIR_E_MEMORY;
	const size_t n = store_row_elements(a->t->rows, chunk);
	a->scalars.element = chunk * WEIR_CHUNK;
	const bool is_sparse = a->values.coding.codec == WEIR_CODEC_TOPK && !a->t->full_decay;
	optimizer_begin_row(a->t->optimizer, &meta->state);
	if (!optimizer_is_elementwise(a->t->optimizer)) {
		float *whole = a->p->scratch->values;
		section_row_decode(&a->values, n, a->p->scratch->tile, whole);
		optimizer_apply(a->t->optimizer, &a->scalars, &meta->state, value, value + n, n, 0, whole, n);
	} else if (is_raw(a)) {
		chunk_as_it_lies(a, &meta->state, value, n);
	} else if (is_sparse) {
		chunk_sparsely(a, &meta->state, value, n);
	} else {
		chunk_by_tiles(a, &meta->state, value, n);
	}
	row_meta_touch(meta, a->e);
	return WEIR_OK;
}

static weir_status apply_rows(struct section_apply *a, const uint64_t *keys, size_t count)
{
	struct apply_scratch *x = a->p->scratch;
	const size_t width = a->t->spec->width;
	if (store_upsert(a->t->rows, keys, count, x->rows, x->metas))
		return WEIR_E_MEMORY;
	for (size_t i = 0; i < count; i++)
		x->states[i] = &x->metas[i]->state;
	const struct optimizer_clock before = {.steps = a->step, .lr = a->scalars.lr};
	for (size_t i = 0; i < count && a->t->full_decay; i++)
		optimizer_catch_up(a->t->optimizer, &before, x->states[i], x->rows[i], x->rows[i] + width, width);
	for (size_t at = 0, m; at < count; at += m) {
		const uint8_t *run = (const uint8_t *)x->values;
		if (is_raw(a)) { /* whole rows; a row that straddles slices is assembled in x->sum */
			m = cursor_run(&a->values.data, width * sizeof(float), count - at, x->sum, &run);
		} else {
			m = WEIR_ROW_WIDTH_MAX / width < count - at ? WEIR_ROW_WIDTH_MAX / width : count - at;
			section_rows_decode(&a->values, m, width, x->tile, x->values);
		}
		assert(m > 0);
		optimizer_apply_rows(a->t->optimizer, &a->scalars, x->states + at, x->rows + at, width, (const float *)(const void *)run,
		                     m);
	}
	for (size_t i = 0; i < count; i++)
		row_meta_touch(x->metas[i], a->e);
	return WEIR_OK;
}

static weir_status apply_row_or_chunk(struct section_apply *a, uint64_t key)
{
	return a->t->spec->kind == WEIR_EMBEDDING ? apply_rows(a, &key, 1) : apply_chunk(a, key);
}

/* The same when some keys have no effect: those not admitted, and in a replay rows ahead of the
 * entry. */
static weir_status apply_some(struct section_apply *a, uint32_t table, const uint64_t *keys, size_t count)
{
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < count && !status; i++) {
		bool counts = !a->p->skip.active || !replay_skips(a->p, a->p->skip.row++);
		if (counts && row_admit(a->t, table, keys[i], a->e, &counts))
			return WEIR_E_MEMORY;
		if (!counts)
			section_row_skip(&a->values, store_row_elements(a->t->rows, keys[i]));
		else
			status = apply_row_or_chunk(a, keys[i]);
	}
	return status;
}

static void count_section(const struct partition *p, struct partition_table *t, const struct section *s)
{
	const uint64_t elements = section_elements(p, t, s);
	counter_bump(&t->counters.pushes, 1);
	counter_bump(&t->counters.push_bytes, SECTION_HEADER_BYTES + (uint64_t)s->index_bytes + s->data_bytes);
	counter_bump(&t->counters.push_plain_bytes, SECTION_HEADER_BYTES + s->rows * sizeof(uint64_t) + elements * sizeof(float));
}

static weir_status apply_section(struct partition *p, const struct log_entry *e, const struct section *s, uint32_t number)
{
	struct section_apply a = {
	    .p = p, .e = e, .t = partition_table(p, s->table), .scalars = {.lr = e->rates[number], .grad_scale = 1}};
	a.step = push_step(a.t, &e->record);
	section_apply_open(&a, s);
	struct row_keys k = row_keys_of(p, a.t, s);
	uint64_t keys[APPLY_ROWS];
	weir_status status = WEIR_OK;
	for (size_t n; !status && (n = row_keys_next(&k, keys, APPLY_ROWS)) > 0;) {
		if (p->skip.active || !rows_admitted(a.t, keys, n))
			status = apply_some(&a, s->table, keys, n);
		else if (a.t->spec->kind == WEIR_EMBEDDING)
			status = apply_rows(&a, keys, n);
		else
			for (size_t i = 0; i < n && !status; i++)
				status = apply_chunk(&a, keys[i]);
	}
	table_step(a.t, a.step, a.scalars.lr);
	return status;
}

/* *sync: the tables of the push are synchronous. */
static weir_status apply_async_sections(struct partition *p, const struct log_entry *e, bool *sync)
{
	struct cursor body = e->body;
	*sync = false;
	for (uint32_t i = 0; i < e->record.sections; i++) {
		struct section s;
		weir_status status = frame_next_section(&body, &s, NULL);
		assert(status == WEIR_OK);
		count_section(p, partition_table(p, s.table), &s);
		if (partition_table(p, s.table)->spec->mode.kind == WEIR_SYNC) {
			*sync = true;
			continue;
		}
		status = apply_section(p, e, &s, i);
		if (status)
			return status;
	}
	return WEIR_OK;
}

static void count_done(struct partition *p, const struct record *r, bool dropped)
{
	struct partition_counters *c = &p->counters;
	uint64_t hash = frame_identity_hash(r->pass, r->unit, r->batch, r->part);
	counter_bump(dropped ? &c->parts_dropped : &c->parts_applied, 1);
	counter_bump(dropped ? &c->dropped_fingerprint : &c->fingerprint, hash);
}

weir_status apply_push(struct partition *p, const struct log_entry *e)
{
	const struct record *r = &e->record;
	struct unit *u = dedup_open(&p->identity, dedup_key(r->pass, r->unit), r->attempt, r->batch + 1);
	if (!u)
		return p->failed = WEIR_E_MEMORY;
	if (!dedup_mark(u, r->batch, r->part)) {
		counter_bump(&p->counters.parts_double, 1);
		return WEIR_E_DUPLICATE;
	}
	if (e->finding != LOG_FINITE)
		counter_bump(&p->counters.nonfinite_refused, 1);
	if (e->finding == LOG_REJECTED) {
		count_done(p, r, false);
		return WEIR_E_NOT_FINITE;
	}
	bool sync;
	if (apply_async_sections(p, e, &sync))
		return p->failed = WEIR_E_MEMORY;
	if (sync && dedup_batch_step(u, r->batch) == BATCH_STEP_OPEN)
		return p->failed = steps_wait(&p->steps, r, e->index);
	count_done(p, r, sync);
	return sync ? WEIR_E_DROPPED : WEIR_OK;
}

/* --- Assignments */

static weir_status assign_row(struct section_apply *a, uint64_t key)
{
	const size_t n = store_row_elements(a->t->rows, key);
	const size_t slots = a->e->record.flags & RECORD_ASSIGN_SLOTS ? optimizer_slots(a->t->spec->optimizer.kind) : 0;
	if (replay_skips(a->p, a->p->skip.row++)) {
		section_row_skip(&a->values, n * (1 + slots));
		return WEIR_OK;
	}
	float *value;
	struct row_meta *meta;
	if (store_upsert(a->t->rows, &key, 1, &value, &meta))
		return WEIR_E_MEMORY;
	section_row_decode(&a->values, n, a->p->scratch->tile, value);
	if (a->e->record.flags & RECORD_ASSIGN_SLOTS)
		section_row_decode(&a->values, n * slots, a->p->scratch->tile, value + n);
	else
		optimizer_init_slots(&a->t->spec->optimizer, value + n, n);
	meta->state = a->t->full_decay ? optimizer_state_at(&a->t->clock) : (struct row_state){0};
	meta->version = a->e->index;
	/* Young: an assigned row is not evicted at once. */
	meta->last_push_s = (uint32_t)(a->e->stamp_ms / 1000);
	return WEIR_OK;
}

weir_status apply_assign(struct partition *p, const struct log_entry *e)
{
	struct cursor body = e->body;
	for (uint32_t i = 0; i < e->record.sections; i++) {
		struct section s;
		weir_status status = frame_next_section(&body, &s, NULL);
		assert(status == WEIR_OK);
		struct section_apply a = {.p = p, .e = e, .t = partition_table(p, s.table)};
		section_apply_open(&a, &s);
		struct row_keys k = row_keys_of(p, a.t, &s);
		uint64_t key;
		while (row_keys_next(&k, &key, 1))
			if (assign_row(&a, key))
				return p->failed = WEIR_E_MEMORY;
	}
	return WEIR_OK;
}

/* --- Units */

weir_status apply_seal(struct partition *p, const struct log_entry *e)
{
	const struct record *r = &e->record;
	return dedup_open(&p->identity, dedup_key(r->pass, r->unit), r->attempt, 0) ? WEIR_OK : (p->failed = WEIR_E_MEMORY);
}

weir_status apply_retire(struct partition *p, const struct log_entry *e)
{
	const struct record *r = &e->record;
	p->failed = dedup_retire(&p->identity, dedup_key(r->pass, r->unit), r->attempt > 0, r->retire.unit_key);
	if (!p->failed)
		steps_forget_closed(p);
	return p->failed;
}

weir_status apply_close(struct partition *p, const struct log_entry *e)
{
	return p->failed = step_close(p, e);
}

weir_status apply_evict(struct partition *p, const struct log_entry *e)
{
	return p->failed = evict_apply(p, e);
}

weir_status apply_table(struct partition *p, const struct log_entry *e)
{
	return p->failed = table_apply(p, e);
}

weir_status apply_nothing(struct partition *p, const struct log_entry *e)
{
	(void)p, (void)e;
	return WEIR_OK;
}

void partition_publish(struct partition *p)
{
	uint64_t rows = 0;
	for (uint32_t id = 0; id < p->tables_end; id++)
		if (p->tables[id])
			rows += store_table_rows(p->tables[id]->rows);
	atomic_store_explicit(&p->counters.rows, rows, memory_order_relaxed);
	atomic_store_explicit(&p->counters.units_open, p->identity.open_count, memory_order_relaxed);
	atomic_store_explicit(&p->counters.applied, p->applied, memory_order_relaxed);
	atomic_store_explicit(&p->counters.flushed, p->flushed, memory_order_relaxed);
}

weir_status partition_apply(struct partition *p, const struct log_entry *e)
{
	const struct record_row *row = record_row(e->record.kind);
	assert(e->index == p->applied + 1);
	assert(row->apply); /* the entry's kind changes state */
	const weir_status status = row->apply(p, e);
	p->applied = e->index;
	partition_publish(p);
	return status;
}
