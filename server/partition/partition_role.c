/* Roles: appending to the log, and entries that were never committed. A primary's epoch begins with
 * an entry. So the start of each epoch is a function of the log, equal on every replica and after
 * every recovery. An epoch whose first entry was lost with the log's end has not begun.
 *
 * Entries that the next primary does not have are cut off. They were never applied, so only the log
 * and the requests that wait for them know of them. */
#include <assert.h>

#include "proto/frame/frame_trace.h"
#include "server/partition/partition_internal.h"

/* --- Epochs */

void epoch_continue(struct partition *p)
{
	struct log *log = p->options.log;
	weir_error err = {0};
	struct log_entry e = {.record = {.kind = RECORD_EPOCH, .bytes = RECORD_HEADER_BYTES, .partition = (uint16_t)p->options.id}};
	if (!p->beginning)
		return;
	entry_place(p, &e);
	weir_status status = log->ops->append(log, &e, &err);
	if (status == WEIR_E_NO_SPACE)
		note_full_disk(p, &err);
	else if (status == WEIR_E_MEMORY)
		LOG_AT(p->options.logger, LOG_WARN, "no memory to begin an epoch", "partition=%u", p->options.id);
	else if (status)
		host_fail(p, &err);
	if (status)
		return;
	p->beginning = false;
	entry_appended(p, e.index);
}

void partition_begin(struct partition *p, uint64_t epoch)
{
	assert(epoch > p->epoch && epoch > epochs_now(&p->epochs));
	p->epoch = epoch;
	p->beginning = true;
	epoch_continue(p);
}

uint64_t partition_scrub(struct partition *p, uint32_t slice, uint32_t slices)
{
	struct log *log = p->options.log;
	weir_error err = {0};
	struct log_entry e = {
	    .record = {
	        .kind = RECORD_SCRUB, .bytes = RECORD_HEADER_BYTES, .partition = (uint16_t)p->options.id, .scrub = {slice, slices}}};
	if (p->failed || p->moved || role_holds_records(p) || submission_first(p, STATE_HELD))
		return 0;
	entry_place(p, &e);
	const weir_status status = log->ops->append(log, &e, &err);
	if (status == WEIR_E_IO)
		host_fail(p, &err);
	if (status)
		return 0;
	entry_appended(p, e.index);
	return e.index;
}

void partition_find(const struct partition *p, struct replica_found *found)
{
	struct log *log = p->options.log;
	const uint64_t last = log->ops->last(log);
	*found = (struct replica_found){.epochs = p->epochs,
	                                .first = log->ops->first(log),
	                                .last = last,
	                                .durable = log->ops->durable(log),
	                                .applied = p->applied};
	for (uint64_t i = p->applied + 1; i <= last; i++)
		epochs_begin(&found->epochs, log->ops->get(log, i)->epoch, i);
}

uint64_t partition_durable_index(const struct partition *p)
{
	return p->options.log->ops->durable(p->options.log);
}

/* --- Roles */

bool role_holds_records(const struct partition *p)
{
	return p->beginning || p->paused;
}

void partition_serve(struct partition *p)
{
	p->moved = p->paused = p->following.on = false;
	if (submission_first(p, STATE_HELD))
		held_check_again(p);
}

void partition_pause(struct partition *p)
{
	p->paused = true;
}

void partition_step_down(struct partition *p)
{
	p->moved = true;
	p->beginning = p->paused = p->following.on = false;
	submissions_end(p, STATE_LOGGED, WEIR_E_MOVED, PARTITION_MOVED);
	submissions_end(p, STATE_BEHIND, WEIR_E_MOVED, PARTITION_MOVED);
	submissions_end(p, STATE_UNFETCHED, WEIR_E_MOVED, PARTITION_MOVED);
	submissions_end(p, STATE_HELD, WEIR_E_MOVED, PARTITION_MOVED);
	replies_end(p, WEIR_E_MOVED);
	parked_wake(p, INT64_MIN);
	atomic_store_explicit(&p->counters.disk_full, false, memory_order_relaxed);
	references_drop(p);
}

/* --- The end of the log */

weir_status partition_take(struct partition *p, const struct log_entry *e, weir_error *err)
{
	struct log *log = p->options.log;
	weir_error why = {0};
	const bool brings_table = e->record.kind == RECORD_TABLE;
	const int64_t begun_ns = e->record.kind == RECORD_PUSH ? trace_begin(p->options.trace) : 0;
	weir_status status = brings_table ? table_take(p, e, &why) : entry_check_tables(p, e, &why);
	if (!status)
		status = log->ops->append(log, e, &why);
	if (!status && p->options.ack == PARTITION_ACK_DISK)
		log->ops->sync(log);
	if (status == WEIR_E_IO)
		host_fail(p, &why);
	const struct trace_what what = frame_trace(TRACE_TAKE, &e->record);
	trace_end(p->options.trace, begun_ns, &what);
	return status ? weir_fail(err, status, "partition %u: %s", p->options.id, why.text) : WEIR_OK;
}

/* Flushed entries are committed, so no row is ahead of the entries that replace those cut off. */
static void forget_replayed_above(struct partition *p, uint64_t index)
{
	if (p->replayed <= index)
		return;
	p->replayed = index;
	if (p->applied == index)
		replay_end(p);
}

weir_status partition_truncate(struct partition *p, uint64_t index, weir_error *err)
{
	struct log *log = p->options.log;
	weir_error why = {0};
	assert(index >= p->committed);
	partition_step_down(p);
	weir_status status = log->ops->truncate_above(log, index, &why);
	if (status == WEIR_E_IO)
		host_fail(p, &why);
	if (status)
		return weir_fail(err, status, "partition %u: %s", p->options.id, why.text);
	forget_replayed_above(p, index);
	partition_durable(p); /* the durable index may have gone back */
	return WEIR_OK;
}
