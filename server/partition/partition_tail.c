/* The tail: log entries that are not applied, because they are not committed or their rows are not
 * in memory. The partition's state lacks their effect, so decisions based on it also look here.
 * Users of the state alone (pulls, flushes, replay) never do.
 *
 * The rule: if applying the tail would change a record's answer, the record waits for the last
 * entry that would, and is then looked at again. So it gets the answer of a record that comes
 * later, and nothing is decided here. With one copy the tail is empty whenever a record comes.
 * Otherwise it is searched: a few entries usually, WEIR_TAIL_ENTRIES_MAX while an in-sync replica
 * stalls. */
#include <assert.h>

#include "server/partition/partition_internal.h"

/* --- The dedup table */

static bool retires(const struct record *retire, const struct record *r)
{
	const uint64_t key = dedup_key(r->pass, r->unit);
	return key < dedup_key(retire->pass, retire->unit) || (retire->attempt > 0 && retire->retire.unit_key == key);
}

/* Whether e changes the verdict of dedup_check on a push or seal r: STALE, DUPLICATE,
 * DROPPED. */
bool tail_decides_identity(const struct record *e, const struct record *r)
{
	if (e->kind == RECORD_RETIRE)
		return retires(e, r);
	if (e->kind == RECORD_CLOSE_STEP)
		return r->kind == RECORD_PUSH && r->push.step > 0;
	if ((e->kind != RECORD_PUSH && e->kind != RECORD_SEAL) || e->pass != r->pass || e->unit != r->unit)
		return false;
	return e->attempt > r->attempt ||
	       (e->kind == r->kind && (e->kind == RECORD_SEAL || (e->batch == r->batch && e->part == r->part)));
}

bool tail_is_of_kind(const struct record *e, const struct record *r)
{
	return e->kind == r->kind;
}

static uint64_t last_that_decides(const struct partition *p, const struct record *r, uint64_t last)
{
	struct log *log = p->options.log;
	const struct record_row *row = record_row(r->kind);
	for (uint64_t i = last; row->waits_for && i > p->applied; i--)
		if (row->waits_for(&log->ops->get(log, i)->record, r))
			return i;
	return 0;
}

/* For a push or a seal. One that is stale or of a closed unit stays so. While the tail may open all
 * remaining units, a record that would open a unit waits for the whole tail. */
static uint64_t last_of_unit(const struct partition *p, const struct record *r, uint64_t last)
{
	const struct dedup *d = &p->identity;
	const uint64_t key = dedup_key(r->pass, r->unit);
	const struct unit *u = dedup_find(d, key);
	if (dedup_is_closed(d, key) || (u && r->attempt < u->attempt))
		return 0;
	if (!u && d->open_count + (last - p->applied) >= WEIR_UNITS_OPEN_MAX)
		return last;
	return last_that_decides(p, r, last);
}

/* Whether the entry at index that was reported in `epoch` is in the tail. The epoch has begun in
 * this log, because replies of an epoch come only after its first entry is committed. So the entry
 * is here, unless a later epoch has put another one there; then it is lost for good. */
static bool tail_holds(const struct partition *p, uint64_t epoch, uint64_t index, uint64_t last)
{
	struct log *log = p->options.log;
	return index > p->applied && index <= last && log->ops->get(log, index)->epoch <= epoch;
}

uint64_t tail_decides(const struct partition *p, const struct record *r)
{
	const uint64_t last = p->options.log->ops->last(p->options.log);
	if (last <= p->applied)
		return 0;
	if (r->kind == RECORD_RESUME)
		return tail_holds(p, r->resume.epoch, r->resume.index, last) ? r->resume.index : 0;
	if (last - p->applied >= WEIR_TAIL_ENTRIES_MAX) /* not one by one */
		return p->applied + WEIR_TAIL_ENTRIES_MAX / 2;
	return r->kind == RECORD_PUSH || r->kind == RECORD_SEAL ? last_of_unit(p, r, last) : last_that_decides(p, r, last);
}
