/* Applies committed entries in the log's order, and answers their records. The same on every
 * replica; a replica that is not primary has nobody to answer. An entry whose rows are below memory
 * holds up later entries until they are loaded. That is rare, because its rows were in memory when
 * its record became an entry. With one copy it never happens. */
#include <assert.h>
#include <stdio.h>

#include "proto/frame/frame_trace.h"
#include "server/partition/partition_internal.h"

/* Whether the rows that the entry changes are in memory. If not, rows_fetched continues once they
 * are; or the next tick, if there was no memory to request them. */
static bool has_rows(struct partition *p, const struct log_entry *e)
{
	if (!p->cold || e->index == p->present)
		return true;
	if (p->commit_ticket > p->fetched)
		return false;
	const weir_status status = rows_want_entry(p, e);
	if (status)
		LOG_AT(p->options.logger, LOG_WARN, "no memory to ask for rows", "partition=%u", p->options.id);
	return !rows_missing(p, &p->commit_ticket) && !status;
}

/* Nothing is applied any more. */
static void stop(struct partition *p, uint64_t index)
{
	char why[64];
	LOG_AT(p->options.logger, LOG_ERROR, "partition stopped", "partition=%u entry=%llu reason=%s", p->options.id,
	       (unsigned long long)index, weir_status_name(p->failed));
	snprintf(why, sizeof why, "entry %llu could not be applied", (unsigned long long)index);
	submissions_end(p, STATE_LOGGED, p->failed, why);
}

/* The record that has become this entry; NULL: nobody waits for it. */
static struct submission *take_waiting(struct partition *p, uint64_t index)
{
	const struct submission *first = submission_first(p, STATE_LOGGED);
	return first && first->index == index ? submission_pop(p, STATE_LOGGED) : NULL;
}

static weir_status apply(struct partition *p, const struct log_entry *e)
{
	struct trace *trace = p->options.trace;
	const int64_t begun_ns = e->record.kind == RECORD_PUSH ? trace_begin(trace) : 0;
	const struct submission *s = submission_first(p, STATE_LOGGED);
	if (begun_ns && s && s->index == e->index && s->begun_ns && p->options.replicated) {
		const struct trace_what waited = frame_trace(TRACE_REPLICATE, &e->record);
		trace_record(trace, s->begun_ns, begun_ns, &waited);
	}
	const struct trace_what what = frame_trace(p->moved ? TRACE_APPLY_COPY : TRACE_APPLY, &e->record);
	const weir_status status = partition_apply(p, e);
	trace_end(trace, begun_ns, &what);
	return status;
}

/* Callbacks here may submit and commit, so the partition's state is complete before each of
 * them. */
static void commit_entry(struct partition *p, const struct log_entry *e)
{
	const struct partition_host *host = &p->options.host;
	const uint64_t index = e->index;
	const bool closes_step = e->record.kind == RECORD_CLOSE_STEP;
	epochs_begin(&p->epochs, e->epoch, index);
	if (index <= p->replayed && replay_skip_find(p, e))
		p->failed = WEIR_E_MEMORY;
	const weir_status outcome = p->failed ? p->failed : apply(p, e);
	if (p->failed) {
		stop(p, index);
		return;
	}
	if (index == p->replayed)
		replay_end(p);
	if (e->record.kind == RECORD_SCRUB && host->ops && host->ops->scrub)
		host->ops->scrub(host->arg, e, index >= p->replayed);
	partition_release_log(p); /* may release e */
	struct submission *s = take_waiting(p, index);
	if (closes_step)
		parked_wake(p, INT64_MIN);
	if (s) {
		s->reply.status = outcome;
		submission_answer(s);
	}
	if (p->cold)
		store_balance(p->store);
}

void commit_continue(struct partition *p)
{
	struct log *log = p->options.log;
	while (p->applied < p->committed && !p->failed && !p->halted) {
		const struct log_entry *e = log->ops->get(log, p->applied + 1);
		if (!has_rows(p, e))
			break;
		commit_entry(p, e);
	}
	if (submission_first(p, STATE_BEHIND))
		submissions_check_again(p, STATE_BEHIND);
	if (p->parked_behind) {
		p->parked_behind = false; /* pulls that still wait set it again */
		parked_wake(p, INT64_MIN);
	}
}

void partition_commit_to(struct partition *p, uint64_t index)
{
	assert(index <= p->options.log->ops->last(p->options.log));
	if (index > p->committed)
		p->committed = index;
	commit_continue(p);
}
