#include "server/partition/step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/partition/partition_internal.h"
#include "server/partition/section_values.h"

void steps_init(struct steps *s)
{
	*s = (struct steps){.lowest = UINT64_MAX};
}
void steps_destroy(struct steps *s)
{
	free(s->waiting);
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_batch(const struct batch_id *a, const struct batch_id *b)
{
	int order = compare_u64(dedup_key(a->pass, a->unit), dedup_key(b->pass, b->unit));
	return order ? order : compare_u64(a->batch, b->batch);
}

/* The first position that is not before (id, part). */
static uint32_t position(const struct steps *s, const struct batch_id *id, uint32_t part)
{
	uint32_t low = 0, high = s->count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const struct waiting *w = &s->waiting[mid];
		int order = compare_batch(&w->id, id);
		if (order < 0 || (order == 0 && w->part < part))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

weir_status steps_wait(struct steps *s, const struct record *push, uint64_t index)
{
	if (s->count == s->capacity) {
		uint32_t capacity = s->capacity ? s->capacity * 2 : 16;
		struct waiting *waiting = realloc(s->waiting, capacity * sizeof *waiting);
		if (!waiting)
			return WEIR_E_MEMORY;
		s->waiting = waiting;
		s->capacity = capacity;
	}
	struct waiting w = {.id = {push->pass, push->unit, push->batch}, .part = push->part, .index = index};
	uint32_t at = position(s, &w.id, w.part);
	memmove(s->waiting + at + 1, s->waiting + at, (s->count - at) * sizeof w);
	s->waiting[at] = w;
	s->count++;
	if (index < s->lowest)
		s->lowest = index;
	return WEIR_OK;
}

/* The waiting parts of a batch: [*first, returned value). */
static uint32_t parts_of(const struct steps *s, const struct batch_id *id, uint32_t *first)
{
	*first = position(s, id, 0);
	return position(s, id, WEIR_BATCH_PARTS_MAX);
}

static void remove_batch(struct steps *s, const struct batch_id *id)
{
	uint32_t first, end = parts_of(s, id, &first);
	if (first == end)
		return;
	memmove(s->waiting + first, s->waiting + end, (s->count - end) * sizeof *s->waiting);
	s->count -= end - first;
	s->lowest = UINT64_MAX;
	for (uint32_t i = 0; i < s->count; i++)
		if (s->waiting[i].index < s->lowest)
			s->lowest = s->waiting[i].index;
}

/* Reads the bytes at `at` in the data of a checked close. */
static void read_close(const struct log_entry *close, size_t at, void *out, size_t bytes)
{
	struct cursor body = close->body;
	struct section s;
	weir_status status = frame_next_section(&body, &s, NULL);
	assert(status == WEIR_OK && at + bytes <= s.data.left);
	status = cursor_skip(&s.data, at);
	if (!status)
		status = cursor_read(&s.data, out, bytes);
	assert(status == WEIR_OK);
}

struct batch_id step_batch(const struct log_entry *close, uint32_t i)
{
	struct batch_id id;
	read_close(close, (size_t)i * BATCH_ID_BYTES, &id, BATCH_ID_BYTES);
	return id;
}

uint32_t step_ids(const struct record *close, uint32_t data_bytes, uint32_t *rest)
{
	const uint64_t weights = close->flags & RECORD_CLOSE_WEIGHTS ? close->close.included * (uint64_t)sizeof(float) : 0;
	const uint32_t ids_bytes = weights < data_bytes ? data_bytes - (uint32_t)weights : 0;
	*rest = ids_bytes % BATCH_ID_BYTES;
	return ids_bytes / BATCH_ID_BYTES;
}

static uint32_t ids_count(const struct log_entry *e)
{
	struct cursor body = e->body;
	struct section s;
	uint32_t rest;
	weir_status status = frame_next_section(&body, &s, NULL);
	assert(status == WEIR_OK);
	return step_ids(&e->record, s.data_bytes, &rest);
}

float step_weight(const struct log_entry *close, uint32_t i)
{
	float weight = 1;
	if (close->record.flags & RECORD_CLOSE_WEIGHTS)
		read_close(close, (size_t)ids_count(close) * BATCH_ID_BYTES + i * sizeof weight, &weight, sizeof weight);
	return weight;
}

/* --- Reduction */

/* The gradient of one batch for one row. */
struct touch {
	struct partition_table *t;
	uint32_t table, order; /* order: its place in the sum */
	float weight;          /* of its batch */
	uint64_t key;
	struct section_values values; /* at the row */
};

struct touches {
	struct touch *items;
	size_t count, capacity;
	struct book {
		struct book *next;
		float values[CODEC_BOOK];
	} * books; /* of the sections that have a code book */
};

static weir_status touches_add(struct touches *l, const struct touch *t)
{
	if (l->count == l->capacity) {
		size_t capacity = l->capacity ? l->capacity * 2 : 256;
		struct touch *items = realloc(l->items, capacity * sizeof *items);
		if (!items)
			return WEIR_E_MEMORY;
		l->items = items;
		l->capacity = capacity;
	}
	l->items[l->count++] = *t;
	return WEIR_OK;
}

static void touches_destroy(struct touches *l)
{
	for (struct book *b; (b = l->books);) {
		l->books = b->next;
		free(b);
	}
	free(l->items);
}

static weir_status collect_section(const struct partition *p, const struct log_entry *e, const struct section *s, uint32_t order,
                                   float weight, struct touches *l)
{
	struct partition_table *t = partition_table(p, s->table);
	struct row_keys k = row_keys_of(p, t, s);
	struct touch touch = {.t = t, .table = s->table, .order = order, .weight = weight};
	struct book *book = calloc(1, sizeof *book);
	if (!book)
		return WEIR_E_MEMORY;
	book->next = l->books;
	l->books = book;
	struct section_values values;
	weir_status status = section_values_open(&values, s, book->values, NULL);
	assert(status == WEIR_OK);
	values.clip = e->finding == LOG_CLIPPED;
	while (!status && row_keys_next(&k, &touch.key, 1)) {
		touch.values = values;
		section_row_skip(&values, store_row_elements(t->rows, touch.key));
		status = touches_add(l, &touch);
	}
	return status;
}

/* Collects the synchronous rows of one waiting entry. */
static weir_status collect_entry(const struct partition *p, uint64_t index, uint32_t order, float weight, struct touches *l)
{
	const struct log_entry *e = p->options.log->ops->get(p->options.log, index);
	assert(e && e->record.kind == RECORD_PUSH);
	struct cursor body = e->body;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < e->record.sections && !status; i++) {
		struct section s;
		status = frame_next_section(&body, &s, NULL);
		assert(status == WEIR_OK);
		if (partition_table(p, s.table)->spec->mode.kind == WEIR_SYNC)
			status = collect_section(p, e, &s, order, weight, l);
	}
	return status;
}

static int compare_touches(const void *a, const void *b)
{
	const struct touch *x = a, *y = b;
	int order = compare_u64(x->table, y->table);
	if (!order)
		order = compare_u64(x->key, y->key);
	return order ? order : compare_u64(x->order, y->order);
}

/* In a replay: the row was flushed after this close. */
static bool is_ahead(const struct partition_table *t, uint64_t key, const struct log_entry *e)
{
	const float *row;
	const struct row_meta *meta = store_find(t->rows, key, &row);
	return meta && meta->version >= e->index;
}

static void weigh(float *x, size_t n, float weight)
{
	for (size_t i = 0; i < n && weight != 1; i++)
		x[i] *= weight;
}

/* Takes one optimizer step with the mean of a row's gradients, touches[0..n), summed in their
 * order. */
static weir_status apply_group(struct partition *p, const struct log_entry *e, struct touch *touches, size_t n)
{
	struct partition_table *t = touches->t;
	float *value, *sum = p->scratch->sum, *next = p->scratch->values;
	struct row_meta *meta;
	bool admitted;
	if (is_ahead(t, touches->key, e))
		return WEIR_OK;
	if (row_admit(t, touches->table, touches->key, e, &admitted))
		return WEIR_E_MEMORY;
	if (!admitted)
		return WEIR_OK;
	if (store_upsert(t->rows, &touches->key, 1, &value, &meta))
		return WEIR_E_MEMORY;
	const size_t width = store_row_elements(t->rows, touches->key);
	section_row_decode(&touches->values, width, p->scratch->tile, sum);
	weigh(sum, width, touches->weight);
	for (size_t i = 1; i < n; i++) {
		section_row_decode(&touches[i].values, width, p->scratch->tile, next);
		weigh(next, width, touches[i].weight);
		for (size_t j = 0; j < width; j++)
			sum[j] += next[j];
	}
	struct optimizer_scalars scalars = {.lr = e->rates[touches->table], .grad_scale = 1.0f / (float)e->record.close.included};
	if (t->spec->kind == WEIR_DENSE)
		scalars.element = touches->key * WEIR_CHUNK;
	if (t->full_decay)
		optimizer_catch_up(t->optimizer, &t->clock, &meta->state, value, value + width, width);
	optimizer_begin_row(t->optimizer, &meta->state);
	optimizer_apply(t->optimizer, &scalars, &meta->state, value, value + width, width, 0, sum, width);
	row_meta_touch(meta, e);
	return WEIR_OK;
}

static weir_status apply_touches(struct partition *p, const struct log_entry *e, struct touches *l)
{
	if (l->count > 1)
		qsort(l->items, l->count, sizeof *l->items, compare_touches);
	for (size_t first = 0, end; first < l->count; first = end) {
		struct touch *t = &l->items[first];
		for (end = first + 1; end < l->count && l->items[end].table == t->table && l->items[end].key == t->key;)
			end++;
		if (apply_group(p, e, t, end - first))
			return WEIR_E_MEMORY;
	}
	return WEIR_OK;
}

static weir_status reduce(struct partition *p, const struct log_entry *e)
{
	struct touches l = {0};
	uint32_t order = 0;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < e->record.close.included && !status; i++) {
		struct batch_id id = step_batch(e, i);
		const float weight = step_weight(e, i);
		uint32_t at, end = parts_of(&p->steps, &id, &at);
		for (; at < end && !status && weight > 0; at++)
			status = collect_entry(p, p->steps.waiting[at].index, order++, weight, &l);
	}
	if (!status)
		status = apply_touches(p, e, &l);
	touches_destroy(&l);
	return status;
}

/* Requests the embedding rows of one waiting entry. */
static weir_status want_entry(struct partition *p, uint64_t index)
{
	const struct log_entry *e = p->options.log->ops->get(p->options.log, index);
	assert(e && e->record.kind == RECORD_PUSH);
	return rows_want(p, &e->record, e->body);
}

weir_status steps_want(struct partition *p, const struct log_entry *close)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < close->record.close.included && !status; i++) {
		struct batch_id id = step_batch(close, i);
		uint32_t at, end = parts_of(&p->steps, &id, &at);
		for (; at < end && !status; at++)
			status = want_entry(p, p->steps.waiting[at].index);
	}
	return status;
}

/* --- Closing */

/* Removes a batch's waiting parts, which are applied or dropped. */
static void finish_batch(struct partition *p, const struct batch_id *id, bool dropped)
{
	struct partition_counters *c = &p->counters;
	uint32_t at, end = parts_of(&p->steps, id, &at);
	for (; at < end; at++) {
		uint64_t hash = frame_identity_hash(id->pass, id->unit, id->batch, p->steps.waiting[at].part);
		counter_bump(dropped ? &c->parts_dropped : &c->parts_applied, 1);
		counter_bump(dropped ? &c->dropped_fingerprint : &c->fingerprint, hash);
	}
	remove_batch(&p->steps, id);
}

/* Records that a batch has had its step, for parts that come late. */
static weir_status remember_step(struct partition *p, const struct batch_id *id, bool dropped)
{
	uint64_t key = dedup_key(id->pass, id->unit);
	if (dedup_is_closed(&p->identity, key))
		return WEIR_OK;
	struct unit *u = dedup_open(&p->identity, key, 0, id->batch + 1);
	if (!u)
		return WEIR_E_MEMORY;
	u->steps[id->batch] = dropped ? BATCH_STEP_DROPPED : BATCH_STEP_INCLUDED;
	return WEIR_OK;
}

void steps_forget_closed(struct partition *p)
{
	for (uint32_t i = p->steps.count; i-- > 0;) {
		/* Finishing a batch removes all its parts, which are contiguous and end at i. */
		struct batch_id id = p->steps.waiting[i].id;
		if (!dedup_is_closed(&p->identity, dedup_key(id.pass, id.unit)))
			continue;
		uint32_t first;
		(void)parts_of(&p->steps, &id, &first);
		finish_batch(p, &id, true);
		i = first;
	}
}

static bool has_step_of_each_batch(const struct partition *p)
{
	for (uint32_t id = 0; id < p->tables_end; id++)
		if (p->tables[id] && p->tables[id]->spec->mode.kind == WEIR_SYNC && !p->tables[id]->spec->mode.local_steps)
			return true;
	return false;
}

uint64_t step_of_table(const struct partition *p, const struct partition_table *t, uint64_t number)
{
	const weir_mode *mode = &t->spec->mode;
	if (!mode->local_steps)
		return number - 1;
	const uint32_t pushes = mode->fragments ? mode->fragments : 1;
	return (number - 1) / (has_step_of_each_batch(p) ? mode->local_steps : pushes);
}

/* Every synchronous table takes the step, even if none of its rows here was pushed. */
static void take_step(struct partition *p, const struct log_entry *e)
{
	for (uint32_t id = 0; id < p->tables_end && id < e->rates_count; id++) {
		struct partition_table *t = p->tables[id];
		if (t && t->spec->mode.kind == WEIR_SYNC)
			table_step(t, step_of_table(p, t, e->record.close.step), e->rates[id]);
	}
}

weir_status step_close(struct partition *p, const struct log_entry *e)
{
	assert(e->record.close.step == p->steps.closed + 1);
	weir_status status = reduce(p, e);
	take_step(p, e);
	for (uint32_t i = 0, n = ids_count(e); i < n && !status; i++) {
		struct batch_id id = step_batch(e, i);
		bool dropped = i >= e->record.close.included;
		finish_batch(p, &id, dropped);
		status = remember_step(p, &id, dropped);
	}
	p->steps.closed = e->record.close.step;
	return status;
}
