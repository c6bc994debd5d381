/* Recovery: entries of the journal into a partition that has the header and some rows of its last
 * flush. A row may be newer than the header, because a flush does not stop the partition. It then
 * holds the effect of every entry up to its version, and replay skips it until there. Everything
 * else of an entry (dedup table, steps, counters, clocks) always counts, because the header is
 * exactly at its index. */
#include <stdlib.h>
#include <string.h>

#include "server/partition/partition_internal.h"
#include "server/partition/partition_state.h"

/* --- Rows that are ahead. Found for a whole entry before any of its rows changes: a key may come
 * twice. */

static weir_status skip_reserve(struct replay_skip *k, size_t rows)
{
	size_t words = (rows + 63) / 64;
	if (words <= k->capacity)
		return WEIR_OK;
	uint64_t *bits = realloc(k->bits, words * sizeof *bits);
	if (!bits)
		return WEIR_E_MEMORY;
	memset(bits + k->capacity, 0, (words - k->capacity) * sizeof *bits);
	k->bits = bits;
	k->capacity = words;
	return WEIR_OK;
}

static weir_status skip_section(struct partition *p, const struct log_entry *e, const struct section *s, size_t *row)
{
	const struct partition_table *t = partition_table(p, s->table);
	struct replay_skip *k = &p->skip;
	struct row_keys keys = row_keys_of(p, t, s);
	uint64_t key;
	if (skip_reserve(k, *row + s->rows))
		return WEIR_E_MEMORY;
	for (; row_keys_next(&keys, &key, 1); ++*row) {
		const float *value;
		const struct row_meta *meta = store_find(t->rows, key, &value);
		if (!meta || meta->version < e->index)
			continue;
		k->active = true;
		k->bits[*row / 64] |= 1ull << *row % 64;
	}
	return WEIR_OK;
}

weir_status replay_skip_find(struct partition *p, const struct log_entry *e)
{
	struct replay_skip *k = &p->skip;
	struct cursor body = e->body;
	size_t rows = 0;
	if (k->active)
		memset(k->bits, 0, k->capacity * sizeof *k->bits);
	k->active = false;
	k->row = 0;
	if (e->record.kind != RECORD_PUSH && e->record.kind != RECORD_ASSIGN)
		return WEIR_OK;
	for (uint32_t i = 0; i < e->record.sections; i++) {
		struct section s;
		weir_status status = frame_next_section(&body, &s, NULL);
		bool waits = e->record.kind == RECORD_PUSH && partition_table(p, s.table)->spec->mode.kind == WEIR_SYNC;
		if (!status && !waits)
			status = skip_section(p, e, &s, &rows);
		if (status)
			return status;
	}
	return WEIR_OK;
}

void replay_end(struct partition *p)
{
	free(p->skip.bits);
	p->skip = (struct replay_skip){0};
}

/* --- Entries */

void partition_set_log(struct partition *p, struct log *log)
{
	p->options.log = log;
}

uint64_t partition_flushed(const struct partition *p)
{
	return p->flushed;
}

bool partition_is_flushed(const struct partition *p)
{
	return !p->unflushed && p->flushed == p->applied;
}

void partition_set_unflushed(struct partition *p)
{
	p->flushed = 0;
	p->unflushed = true;
}

weir_status entry_check_tables(const struct partition *p, const struct log_entry *e, weir_error *err)
{
	bool sync;
	if (e->record.kind != RECORD_PUSH && e->record.kind != RECORD_ASSIGN && e->record.kind != RECORD_EVICT)
		return WEIR_OK;
	return check_sections(p, &e->record, e->body, &sync, err);
}

static weir_status fetch(struct partition *p, const struct log_entry *e, weir_error *err)
{
	if (!p->cold)
		return WEIR_OK;
	store_replay(p->store, e->index);
	weir_status status = rows_want_entry(p, e);
	if (status)
		return weir_fail(err, status, "partition %u: out of memory", p->options.id);
	return store_fetch_now(p->store, err);
}

/* Applies the log's next entry. */
static weir_status replay_next(struct partition *p, weir_error *err)
{
	const struct log_ops *log = p->options.log->ops;
	const struct log_entry *e = log->get(p->options.log, p->applied + 1);
	if (!e)
		return weir_fail(err, WEIR_E_CORRUPT, "partition %u: log entry %llu follows %llu", p->options.id,
		                 (unsigned long long)log->first(p->options.log), (unsigned long long)p->applied);
	weir_status status = entry_check_tables(p, e, err);
	if (!status)
		status = fetch(p, e, err);
	if (!status && replay_skip_find(p, e))
		status = weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", p->options.id);
	if (status)
		return status;
	epochs_begin(&p->epochs, e->epoch, e->index);
	(void)partition_apply(p, e); /* its outcome was reported when it was new */
	if (p->failed)
		return weir_fail(err, p->failed, "partition %u: entry %llu could not be replayed", p->options.id,
		                 (unsigned long long)e->index);
	partition_release_log(p);
	return WEIR_OK;
}

weir_status partition_replay(struct partition *p, const struct log_entry *e, weir_error *err)
{
	const struct log_ops *log = p->options.log->ops;
	const uint64_t last = log->last(p->options.log);
	const bool is_of_former = e->index > p->applied && e->epoch < epochs_now(&p->epochs);
	/* An entry of a former log. The log has begun anew since; its entries follow (durable_recover.c
	 * checks). */
	if (is_of_former)
		return WEIR_OK;
	if (e->index != last + 1)
		return weir_fail(err, WEIR_E_CORRUPT, "partition %u: log entry %llu of epoch %llu follows %llu", p->options.id,
		                 (unsigned long long)e->index, (unsigned long long)e->epoch, (unsigned long long)last);
	weir_status status = log_disk_restore(p->options.log, e, err);
	/* The header may have applied entries that wait in one of its steps. Behind a gap are also
	 * entries of a log that has begun anew since. */
	while (!status && log->first(p->options.log) <= p->applied + 1 && p->applied < log->committed(p->options.log))
		status = replay_next(p, err);
	return status;
}

weir_status partition_replay_cut(struct partition *p, const struct journal_cut *cut, weir_error *err)
{
	weir_error why = {0};
	weir_status status = log_disk_restore_cut(p->options.log, cut, &why);
	return status ? weir_fail(err, status, "partition %u: %s", p->options.id, why.text) : WEIR_OK;
}

/* Entries that are cut off the log never reached a row. */
bool partition_is_replaying(const struct partition *p)
{
	return p->applied < p->replayed && p->applied < p->options.log->ops->last(p->options.log);
}

void partition_recovered(struct partition *p)
{
	if (p->cold)
		store_replayed(p->store);
	p->replayed = p->options.log->ops->last(p->options.log);
	p->committed = p->applied;
	p->halted = false;
	if (p->applied == p->replayed)
		replay_end(p);
	partition_release_log(p);
	partition_durable(p);
	partition_publish(p);
}
