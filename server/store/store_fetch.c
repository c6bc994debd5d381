/* Rows that come back. Keys whose rows may be below are noted, marked as pending in the row map,
 * and requested together. A request waits until there is room for its rows. This throttles the
 * records that need them while the server is out of memory. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/store_internal.h"

#define WANTS_FIRST  256u
#define ANSWERED_MAX 8u /* minimum kept: a record that asks again still finds its absent keys */

/* --- Keeping rows
 *
 * While some rows of a record come back, its other rows may leave to make room for another record.
 * With little memory the two records could take turns for ever. So one record at a time, the first
 * that has to ask again, keeps its rows: those in memory and those that come. They stay until the
 * record is tried again, and it then has all of them. */

static bool keeps(const struct store *s)
{
	return s->asks_again && !s->kept.until;
}

/* Without memory for the entry, the row may leave, and the record asks once more. */
static void keep(struct store *s, uint8_t *flags)
{
	if (*flags & ROW_KEPT)
		return;
	if (s->kept.count == s->kept.capacity) {
		const size_t capacity = s->kept.capacity ? 2 * s->kept.capacity : WANTS_FIRST;
		uint8_t **all = realloc(s->kept.flags, capacity * sizeof *all);
		if (!all)
			return;
		s->kept.flags = all;
		s->kept.capacity = capacity;
	}
	*flags |= ROW_KEPT;
	s->kept.flags[s->kept.count++] = flags;
}

static void let_go(struct store *s)
{
	for (size_t i = 0; i < s->kept.count; i++)
		*s->kept.flags[i] &= (uint8_t)~ROW_KEPT;
	s->kept.count = 0;
	s->kept.until = 0;
}

/* --- Wanting */

static weir_status reserve_wants(struct store *s, size_t extra)
{
	if (!s->noted) {
		s->noted = calloc(1, sizeof *s->noted);
		if (!s->noted)
			return WEIR_E_MEMORY;
		s->noted->store = s;
		s->noted->request.partition = s->noted->request.rows.partition = s->options.partition;
		s->noted->request.run_on = s->options.run_on;
	}
	struct cold_request *r = &s->noted->request;
	if (r->count + extra <= r->capacity)
		return WEIR_OK;
	size_t capacity = r->capacity ? 2 * r->capacity : WANTS_FIRST;
	while (capacity < r->count + extra)
		capacity *= 2;
	struct cold_want *wants = realloc(r->wants, capacity * sizeof *wants);
	if (!wants)
		return WEIR_E_MEMORY;
	r->wants = wants;
	r->capacity = capacity;
	return WEIR_OK;
}

/* Notes a key that was not in memory a moment ago. */
static weir_status note(struct store_table *t, uint64_t key)
{
	struct store *s = t->store;
	const uint64_t row = rowmap_find(rowmap_home(&t->map, key), key);
	if (is_absent(row))
		return WEIR_OK;
	s->counters.misses++;
	if (is_pending(row)) {
		if (keeps(s))
			rowmap_set(&t->map, key, ROWMAP_PENDING_KEPT);
		s->must_wait = true;
		return WEIR_OK;
	}
	if (reserve_wants(s, 1) || rowmap_insert(&t->map, key, keeps(s) ? ROWMAP_PENDING_KEPT : ROWMAP_PENDING))
		return WEIR_E_MEMORY;
	struct cold_request *r = &s->noted->request;
	r->wants[r->count++] = (struct cold_want){.table = t->id, .key = key};
	return WEIR_OK;
}

/* count <= BLOCK_ROWS */
static weir_status want_block(struct store_table *t, const uint64_t *keys, size_t count)
{
	const struct rowmap_slot *home[BLOCK_ROWS];
	uint8_t *flags[BLOCK_ROWS];
	for (size_t i = 0; i < count; i++)
		home[i] = rowmap_home(&t->map, keys[i]);
	for (size_t i = 0; i < count; i++) {
		const uint64_t row = rowmap_find(home[i], keys[i]);
		flags[i] = is_row(row) ? row_flags(t, row) : NULL;
		if (flags[i])
			__builtin_prefetch(flags[i], 1);
	}
	for (size_t i = 0; i < count; i++) {
		if (!flags[i]) {
			weir_status status = note(t, keys[i]);
			if (status)
				return status;
		} else if (!(*flags[i] & ROW_REFERENCED)) {
			*flags[i] |= ROW_REFERENCED;
		}
		if (flags[i] && keeps(t->store))
			keep(t->store, flags[i]);
		t->store->counters.hits += flags[i] != NULL;
	}
	return WEIR_OK;
}

weir_status store_want(struct store_table *t, const uint64_t *keys, size_t count)
{
	if (!t->store->below || t->spec.kind != WEIR_EMBEDDING)
		return WEIR_OK;
	for (size_t at = 0; at < count; at += BLOCK_ROWS) {
		weir_status status = want_block(t, keys + at, count - at < BLOCK_ROWS ? count - at : BLOCK_ROWS);
		if (status)
			return status;
	}
	return WEIR_OK;
}

/* --- Coming back */

static bool is_stored_stub(const struct store_table *t, size_t count)
{
	return count == ROW_META_BYTES && t->spec.kind == WEIR_EMBEDDING;
}

weir_status store_decode(const struct store_table *t, uint64_t row, uint64_t key, const uint8_t *bytes, size_t count,
                         struct row_meta *meta, float *out, weir_error *err)
{
	const uint8_t *floats;
	size_t n;
	if (row_decode(bytes, count, meta, &floats, &n) || n != row_floats(t, row, key))
		return weir_fail(err, WEIR_E_CORRUPT, "table %s: the stored row of key %llu has %zu bytes, expected %zu", t->spec.name,
		                 (unsigned long long)key, count, ROW_META_BYTES + row_floats(t, row, key) * sizeof(float));
	memcpy(out, floats, n * sizeof *out);
	return WEIR_OK;
}

static weir_status fill_row(struct store_table *t, uint64_t row, uint64_t key, const uint8_t *bytes, size_t count,
                            weir_error *err)
{
	struct row_meta meta;
	weir_status status = store_decode(t, row, key, bytes, count, &meta, row_value(t, row), err);
	if (!status)
		row_tail(t, row)->meta = meta;
	return status;
}

/* Installs the row of a pending key. */
static weir_status install(struct store_table *t, uint64_t key, const uint8_t *bytes, size_t count, weir_error *err)
{
	struct store *s = t->store;
	const uint64_t pending = rowmap_find(rowmap_home(&t->map, key), key);
	const uint64_t row = store_add_row(t, key, pending, is_stored_stub(t, count));
	if (row == ROWMAP_NONE)
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", t->spec.name);
	weir_status status = fill_row(t, row, key, bytes, count, err);
	if (status) {
		store_drop_row(t, row);
		return status;
	}
	*row_flags(t, row) |= ROW_REFERENCED | ROW_BELOW;
	if (pending == ROWMAP_PENDING_KEPT)
		keep(s, row_flags(t, row));
	s->counters.fetched++;
	return WEIR_OK;
}

/* Installs the rows that were found. Marks the other keys absent, and leaves only those in
 * r->wants. */
static weir_status install_all(struct store *s, struct cold_request *r)
{
	size_t found = 0, absent = 0;
	for (size_t i = 0; i < r->count; i++) {
		const struct cold_want *w = &r->wants[i];
		const struct row_item *item = found < r->rows.count ? &r->rows.items[found] : NULL;
		if (i + BLOCK_ROWS / 4 < r->count)
			rowmap_home(&s->tables[r->wants[i + BLOCK_ROWS / 4].table]->map, r->wants[i + BLOCK_ROWS / 4].key);
		const bool here = item && item->table == w->table && item->key == w->key;
		found += here;
		if (!here) {
			rowmap_set(&s->tables[w->table]->map, w->key, ROWMAP_ABSENT);
			r->wants[absent++] = *w;
			continue;
		}
		weir_status status = install(s->tables[w->table], w->key, r->rows.data + item->offset, item->bytes, &r->err);
		if (status)
			return status;
	}
	r->count = absent;
	return WEIR_OK;
}

/* Returns the number of consecutive wants of one table from `at` on. */
static size_t run_of(const struct cold_request *r, size_t at)
{
	size_t n = 1;
	while (at + n < r->count && r->wants[at + n].table == r->wants[at].table)
		n++;
	return n;
}

static void request_destroy(struct store_request *q)
{
	free(q->request.wants);
	row_batch_destroy(&q->request.rows);
	free(q);
}

/* The records that waited have looked, so the absent marks may be removed. */
static void forget(struct store *s, struct store_request *q)
{
	for (size_t i = 0; i < q->request.count; i++) {
		struct rowmap *m = &s->tables[q->request.wants[i].table]->map;
		const uint64_t key = q->request.wants[i].key;
		if (rowmap_find(rowmap_home(m, key), key) == ROWMAP_ABSENT)
			rowmap_remove(m, key);
	}
	request_destroy(q);
}

static void forget_until(struct store *s, uint64_t ticket)
{
	while (s->answered_count > ANSWERED_MAX && s->answered->marked_until <= ticket && !s->kept.until) {
		struct store_request *q = s->answered;
		if (!(s->answered = q->next))
			s->answered_last = &s->answered;
		s->answered_count--;
		forget(s, q);
	}
}

static void keep_answered(struct store *s, struct store_request *q)
{
	struct cold_request *r = &q->request;
	row_batch_destroy(&r->rows);
	if (r->count == 0) {
		free(r->wants);
		r->wants = NULL;
	}
	q->marked_until = s->tickets;
	q->next = NULL;
	*s->answered_last = q;
	s->answered_last = &q->next;
	s->answered_count++;
}

static void fetch_done(struct cold_request *r)
{
	struct store_request *q = (struct store_request *)(void *)r;
	struct store *s = q->store;
	const uint64_t ticket = q->ticket;
	for (size_t at = 0, n; at < r->count; at += n) {
		n = run_of(r, at);
		s->tables[r->wants[at].table]->arriving -= n;
	}
	memory_budget_release(s->options.budget, q->charged);
	weir_status status = r->status ? r->status : install_all(s, r);
	if (status && !s->closed)
		s->options.failed(s->options.arg, status, r->err.text);
	keep_answered(s, q);
	if (status || s->closed)
		return;
	s->asks_again = true;
	s->options.fetched(s->options.arg, ticket);
	s->asks_again = false;
	if (s->kept.until <= ticket)
		let_go(s);
	forget_until(s, ticket);
	store_admit(s);
}

/* --- Sending */

/* Whether there is room for the whole request. A request too large ever to fit is sent when nothing
 * else is in progress. */
static bool is_admissible(struct store *s, const struct cold_request *r)
{
	bool fits = true;
	for (size_t at = 0, n; at < r->count; at += n) {
		n = run_of(r, at);
		struct store_table *t = s->tables[r->wants[at].table];
		const bool oversize = t->slab.rows <= 2 * (n + s->kept.count) && !t->leaving && !t->arriving;
		if (oversize || store_has_room(t, n)) {
			t->wanted = 0;
			continue;
		}
		t->wanted = n;
		store_evict(t);
		fits = fits && store_has_room(t, n);
	}
	return fits;
}

static void send(struct store *s, struct store_request *q)
{
	struct cold_request *r = &q->request;
	for (size_t at = 0, n; at < r->count; at += n) {
		n = run_of(r, at);
		struct store_table *t = s->tables[r->wants[at].table];
		const uint64_t cost = slab_cost(&t->slab, t->arriving);
		t->wanted = 0;
		t->arriving += n;
		q->charged += slab_cost(&t->slab, t->arriving) - cost;
	}
	memory_budget_charge(s->options.budget, q->charged);
	r->done = fetch_done;
	cold_fetch_submit(s->options.fetch, r);
}

static void admit_again(void *arg)
{
	struct store *s = arg;
	s->admit_posted = false;
	store_admit(s);
}

void store_admit(struct store *s)
{
	s->awaits_durable = false;
	while (s->waiting && !s->closed && is_admissible(s, &s->waiting->request)) {
		struct store_request *q = s->waiting;
		if (!(s->waiting = q->next))
			s->waiting_last = &s->waiting;
		send(s, q);
	}
	/* Batches on their way to RocksDB, or to becoming durable, try again when they are done.
	 * Otherwise the clock hand has to go on. */
	if (s->waiting && !s->closed && !s->admit_posted && !s->held && !s->under_way && !s->awaits_durable) {
		s->admit_posted = true;
		callback_executor_post(&s->options.run_on, admit_again, s);
	}
}

uint64_t store_fetch(struct store *s)
{
	struct store_request *q = s->noted;
	if (!q && !s->must_wait) {
		if (!s->kept.until)
			let_go(s);
		return 0;
	}
	s->must_wait = false;
	if (q) {
		s->noted = NULL;
		q->ticket = ++s->tickets;
		q->next = NULL;
		*s->waiting_last = q;
		s->waiting_last = &q->next;
	}
	if (keeps(s))
		s->kept.until = s->tickets;
	if (q)
		store_admit(s);
	return s->tickets;
}

/* --- Replay */

void store_replay(struct store *s, uint64_t index)
{
	/* Work in progress would have to end through the loop. */
	assert(s->replays || (!s->under_way && !s->held && !s->waiting));
	s->replays = true;
	s->asks_again = true; /* keeps every requested row */
	let_go(s);
	if (store_is_tight(s))
		s->below = true;
	if (s->durable < index)
		store_set_durable(s, index);
}

void store_replayed(struct store *s)
{
	let_go(s);
	s->asks_again = false;
	s->replays = false;
}

weir_status store_fetch_now(struct store *s, weir_error *err)
{
	struct store_request *q = s->noted;
	weir_status status;
	assert(s->replays);
	s->must_wait = false; /* a key that comes twice */
	if (!q)
		return WEIR_OK;
	s->noted = NULL;
	while (!s->replay_err.status && !is_admissible(s, &q->request))
		;
	q->request.err = s->replay_err;
	status = s->replay_err.status ? s->replay_err.status : cold_request_read(s->options.cold, &q->request);
	if (!status)
		status = install_all(s, &q->request);
	if (status)
		weir_fail(err, status, "%s", q->request.err.text);
	q->ticket = ++s->tickets;
	forget_until(s, q->ticket); /* of the call before */
	keep_answered(s, q);
	return status;
}

void store_free_requests(struct store *s)
{
	free(s->kept.flags);
	if (s->noted)
		request_destroy(s->noted);
	for (struct store_request *q = s->waiting, *next; q; q = next) {
		next = q->next;
		request_destroy(q);
	}
	for (struct store_request *q = s->answered, *next; q; q = next) {
		next = q->next;
		request_destroy(q);
	}
}

/* --- Loading */

weir_status store_load(struct store *s, uint32_t table, uint64_t key, const uint8_t *bytes, size_t count, bool dirty,
                       weir_error *err)
{
	struct store_table *t = store_table(s, table);
	if (!t)
		return weir_fail(err, WEIR_E_NOT_FOUND, "a stored row of table %u, which is not registered", table);
	if (count < ROW_META_BYTES || store_row_elements(t, key) == 0)
		return weir_fail(err, WEIR_E_CORRUPT, "table %s: key %llu with a row of %zu bytes does not belong here", t->spec.name,
		                 (unsigned long long)key, count);
	uint64_t row = store_find_row(t, key);
	assert(row != ROWMAP_PENDING);
	if (is_row(row) && row_tail(t, row)->meta.version >= row_version(bytes))
		return WEIR_OK;
	const bool stub = is_stored_stub(t, count);
	if (is_row(row) && is_full(row) == stub) { /* another kind of row */
		t->store->counters.dirty -= (*row_flags(t, row) & ROW_DIRTY) != 0;
		store_drop_row(t, row);
		row = ROWMAP_NONE;
	}
	if (!is_row(row) && t->spec.kind == WEIR_EMBEDDING && s->options.cold && !store_has_room(t, 1)) {
		s->below = true;
		return WEIR_E_LIMIT;
	}
	if (!is_row(row) && (row = store_add_row(t, key, row, stub)) == ROWMAP_NONE)
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", t->spec.name);
	store_before_change(t, row);
	weir_status status = fill_row(t, row, key, bytes, count, err);
	if (!status && dirty)
		store_mark_dirty(t, row);
	else
		*row_flags(t, row) |= ROW_BELOW;
	return status;
}

void store_expect_cold(struct store *s)
{
	s->below = true;
}
