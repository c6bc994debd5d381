/* Eviction: the search for expired rows, the decision, and the entry that records it.
 *
 *   search (a slice of memory, or of the rows below)
 *     -> record with candidates: their rows are fetched, and each is checked again
 *     -> entry EVICT with the keys of the evicted rows
 *     -> applied: the rows are removed
 *
 * The clock matters only until the entry exists: applying it removes the listed keys as of its
 * stamp. One set of candidates is under way at a time. The next search waits until its entry is
 * durable. That and the tick are the only pacing. */
#include <assert.h>
#include <stdlib.h>

#include "server/partition/partition_internal.h"
#include "server/store/admission.h"
#include "server/store/cold_sweep.h"

#define LOOK_ROWS 512u /* of one page */

/* --- Records with keys */

struct evict_frame {
	struct message *frame;
	struct record record;
	struct cursor body;
};

static weir_status frame_keys(struct partition *p, uint32_t table, const uint64_t *keys, size_t count, struct evict_frame *out)
{
	static const uint8_t nobody[16];
	const struct record r = {.kind = RECORD_EVICT, .partition = (uint16_t)p->options.id};
	const struct section s = {.table = (uint16_t)table,
	                          .codec = WEIR_CODEC_FP32,
	                          .index_codec = INDEX_RAW,
	                          .rows = (uint32_t)count,
	                          .width = partition_table(p, table)->spec->width,
	                          .index_bytes = (uint32_t)(count * sizeof *keys)};
	struct record_writer *w = record_writer_create();
	struct frame_header h;
	if (!w)
		return WEIR_E_MEMORY;
	record_writer_begin(w, &r);
	weir_status status = record_writer_add(w, &s, keys, NULL, false);
	weir_status ended = record_writer_end(w);
	out->frame = record_writer_finish(w, nobody, p->options.generation, NULL, NULL);
	record_writer_destroy(w);
	struct cursor c = cursor_at(out->frame);
	if (!status)
		status = ended;
	if (!status)
		status = frame_open(&c, &h, NULL);
	if (!status)
		status = frame_next_record(&c, false, &out->record, &out->body, NULL);
	if (status)
		message_release(out->frame);
	return status;
}

/* --- The entry */

/* The record's keys whose rows are expired now, at most `max`. Returns how many; *table: their
 * table. */
static size_t still_expired(struct partition *p, const struct submission *s, uint32_t *table, uint64_t *keys, size_t max)
{
	const uint32_t now_s = (uint32_t)(p->options.clock->ops->wall_ns(p->options.clock) / 1000000000);
	struct cursor body = *s->body;
	struct section section;
	weir_status status = frame_next_section(&body, &section, NULL);
	assert(status == WEIR_OK);
	const struct partition_table *t = partition_table(p, section.table);
	struct row_keys k = row_keys_of(p, t, &section);
	size_t n = 0;
	*table = section.table;
	while (n < max && row_keys_next(&k, &keys[n], 1)) {
		const float *row;
		const struct row_meta *meta = store_find(t->rows, keys[n], &row);
		n += meta && eviction_expired(&t->spec->eviction, meta, now_s);
	}
	return n;
}

static weir_status check(const struct submission *s, weir_error *err)
{
	bool sync;
	struct section section;
	struct cursor body = *s->body;
	weir_status status = check_sections(s->p, s->r, *s->body, &sync, err);
	if (status)
		return status;
	if (s->r->sections != 1 || frame_next_section(&body, &section, NULL) ||
	    partition_table(s->p, section.table)->spec->kind != WEIR_EMBEDDING)
		return weir_fail(err, WEIR_E_INVALID, "partition %u: an eviction is of one embedding table", s->p->options.id);
	return WEIR_OK;
}

weir_status submit_evict(struct submission *s, struct log_entry *e)
{
	uint64_t keys[WEIR_EVICT_KEYS_MAX];
	uint32_t table;
	struct evict_frame f;
	weir_status status = check(s, &s->err);
	if (status)
		return status;
	const size_t count = still_expired(s->p, s, &table, keys, WEIR_EVICT_KEYS_MAX);
	if (count == 0)
		return WEIR_OK;
	if (frame_keys(s->p, table, keys, count, &f))
		return weir_fail(&s->err, WEIR_E_MEMORY, "partition %u: out of memory", s->p->options.id);
	s->made = f.frame;
	status = submission_enter(s, e);
	e->record = f.record;
	e->body = f.body;
	e->message = f.frame;
	return status;
}

/* Removes the keys whose rows are expired at the entry's stamp: a push may have come between the
 * search and the entry. In a replay, a row ahead of the entry was pushed after it, and stays. */
static weir_status evict_section(struct partition *p, const struct log_entry *e, const struct section *s)
{
	struct partition_table *t = partition_table(p, s->table);
	struct row_keys k = row_keys_of(p, t, s);
	uint64_t keys[LOOK_ROWS];
	weir_status status = WEIR_OK;
	for (size_t n; !status && (n = row_keys_next(&k, keys, LOOK_ROWS)) > 0;) {
		size_t going = 0;
		for (size_t i = 0; i < n; i++) {
			const float *row;
			const struct row_meta *meta = store_find(t->rows, keys[i], &row);
			if (meta && meta->version < e->index && eviction_expired(&t->spec->eviction, meta, (uint32_t)(e->stamp_ms / 1000)))
				keys[going++] = keys[i];
		}
		status = going ? store_remove(t->rows, keys, going, e->index) : WEIR_OK;
		counter_bump(&t->counters.evicted, going);
	}
	return status;
}

weir_status evict_apply(struct partition *p, const struct log_entry *e)
{
	struct cursor body = e->body;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < e->record.sections && !status; i++) {
		struct section s;
		status = frame_next_section(&body, &s, NULL);
		assert(status == WEIR_OK);
		status = evict_section(p, e, &s);
	}
	return status;
}

/* --- Candidates */

struct candidates {
	struct partition *p;
	struct evict_frame f;
};

static void on_reply(void *arg, const struct partition_reply *reply)
{
	struct candidates *c = arg;
	(void)reply; /* refused candidates are found again */
	c->p->eviction.busy = false;
	message_release(c->f.frame);
	free(c);
}

static void submit(struct partition *p, uint32_t table, const uint64_t *keys, size_t count)
{
	struct candidates *c = count ? malloc(sizeof *c) : NULL;
	if (!c)
		return;
	c->p = p;
	if (frame_keys(p, table, keys, count, &c->f)) {
		free(c);
		return;
	}
	p->eviction.busy = true;
	partition_submit(p, &c->f.record, &c->f.body, c->f.frame, on_reply, c);
}

/* --- The search */

static uint32_t now_s(const struct partition *p)
{
	return (uint32_t)(p->options.clock->ops->wall_ns(p->options.clock) / 1000000000);
}

static void next_table(struct partition_eviction *v)
{
	v->table++;
	v->cursor = 0;
}

static void look_in_memory(struct partition *p)
{
	struct partition_eviction *v = &p->eviction;
	const struct partition_table *t = p->tables[v->table];
	const uint32_t table = v->table, now = now_s(p);
	uint64_t found[WEIR_EVICT_KEYS_MAX], keys[LOOK_ROWS];
	struct row_meta metas[LOOK_ROWS];
	size_t count = 0;
	for (uint32_t looks = 0; looks < WEIR_EVICT_LOOKS && count < WEIR_EVICT_KEYS_MAX;) {
		const size_t room = WEIR_EVICT_KEYS_MAX - count, max = room < LOOK_ROWS ? room : LOOK_ROWS;
		const size_t n = store_look(t->rows, &v->cursor, max, keys, metas);
		for (size_t i = 0; i < n; i++)
			if (eviction_expired(&t->spec->eviction, &metas[i], now))
				found[count++] = keys[i];
		looks += (uint32_t)max;
		if (v->cursor == 0) {
			next_table(v);
			break;
		}
	}
	submit(p, table, found, count);
}

static void on_swept(struct cold_sweep_request *r)
{
	struct partition_eviction *v =
	    (struct partition_eviction *)(void *)((char *)r - offsetof(struct partition_eviction, request));
	struct partition *p = (struct partition *)(void *)((char *)v - offsetof(struct partition, eviction));
	v->busy = false;
	if (p->closed)
		return;
	if (r->status) {
		host_fail(p, &r->err);
		return;
	}
	v->cursor = r->next;
	if (r->end)
		next_table(v);
	submit(p, r->table, r->keys, r->count);
}

static void look_below(struct partition *p)
{
	struct partition_eviction *v = &p->eviction;
	v->busy = true;
	v->request = (struct cold_sweep_request){.partition = p->options.id,
	                                         .table = v->table,
	                                         .from = v->cursor,
	                                         .rule = p->tables[v->table]->spec->eviction,
	                                         .now_s = now_s(p),
	                                         .keys = v->keys,
	                                         .run_on = p->options.store->run_on,
	                                         .done = on_swept};
	cold_sweep_submit(p->options.store->sweep, &v->request);
}

/* Moves on to a table with an eviction rule. False: no more in this round. */
static bool find_table(struct partition *p)
{
	struct partition_eviction *v = &p->eviction;
	for (;; next_table(v)) {
		if (v->table >= p->tables_end && (v->below || !p->cold || !p->options.store->sweep))
			return false;
		if (v->table >= p->tables_end) {
			v->below = true;
			v->table = 0;
		}
		const struct partition_table *t = partition_table(p, v->table);
		if (t && eviction_is_set(&t->spec->eviction))
			return true;
	}
}

/* Time between rounds, in ms; 0: no table evicts, and rounds cost nothing. */
static int64_t round_ms(const struct partition *p)
{
	int64_t ms = 0;
	for (uint32_t id = 0; id < p->tables_end; id++)
		if (p->tables[id] && eviction_is_set(&p->tables[id]->spec->eviction)) {
			const int64_t own = eviction_round_ms(&p->tables[id]->spec->eviction);
			ms = ms == 0 || own < ms ? own : ms;
		}
	return ms;
}

void evict_tick(struct partition *p, int64_t now_ms)
{
	struct partition_eviction *v = &p->eviction;
	if (v->busy || p->closed || p->failed || p->moved || now_ms < v->next_ms)
		return;
	if (!find_table(p)) {
		v->next_ms = now_ms + round_ms(p);
		v->table = 0;
		v->cursor = 0;
		v->below = false;
	} else if (v->below) {
		look_below(p);
	} else {
		look_in_memory(p);
	}
}
