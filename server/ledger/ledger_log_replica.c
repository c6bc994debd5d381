/* The ledger's log with replicas on other servers. The primary's ledger is ahead of the committed
 * entries: it has decided, but has told nobody yet. Every other ledger is the committed state.
 *
 * A former primary may have decided otherwise than its successors. Its ledger is thrown away and
 * rebuilt from the last snapshot and the committed entries behind it, which are kept in memory. */
#include <assert.h>
#include <stdio.h>

#include "server/ledger/ledger_log_internal.h"
#include "server/log/journal.h"

void ledger_log_set_base(struct ledger_log *l, struct message *state)
{
	message_release(l->base);
	l->base = state;
	l->base_index = l->applied;
}

void ledger_log_find(const struct ledger_log *l, struct replica_found *found)
{
	struct log *log = l->options.log;
	const uint64_t last = log->ops->last(log);
	*found = (struct replica_found){.epochs = *ledger_epochs(l->options.ledger),
	                                .first = log->ops->first(log),
	                                .last = last,
	                                .durable = log->ops->durable(log),
	                                .applied = l->applied};
	for (uint64_t i = l->applied + 1; i <= last; i++)
		epochs_begin(&found->epochs, log->ops->get(log, i)->epoch, i);
}

/* --- Entries */

static bool is_final(weir_status status)
{
	return status != WEIR_E_NO_SPACE && status != WEIR_E_MEMORY;
}

weir_status ledger_log_take(struct ledger_log *l, const struct log_entry *e, weir_error *err)
{
	weir_error why = {0};
	weir_status status = WEIR_OK;
	if (e->record.kind != RECORD_LEDGER && e->record.kind != RECORD_EPOCH)
		status = weir_fail(&why, WEIR_E_INVALID, "entry %llu is of kind %u", (unsigned long long)e->index, e->record.kind);
	if (!status)
		status = ledger_log_append(l, e, &why);
	if (!status && l->options.ack_disk)
		l->options.log->ops->sync(l->options.log);
	if (status == WEIR_E_IO)
		ledger_log_fail(l, &why);
	return status ? weir_fail(err, status, "ledger: %s", why.text) : WEIR_OK;
}

void ledger_log_commit_to(struct ledger_log *l, uint64_t index)
{
	weir_error err = {0};
	assert(index <= l->options.log->ops->last(l->options.log));
	if (index > l->committed)
		l->committed = index;
	while (l->applied < l->committed && !l->broken)
		if (ledger_log_merge_next(l, &err))
			ledger_log_fail(l, &err);
	if (!l->broken)
		ledger_log_go_on(l);
}

const struct log_entry *ledger_log_entry(struct ledger_log *l, uint64_t index)
{
	return l->options.log->ops->get(l->options.log, index);
}

uint64_t ledger_log_durable_index(const struct ledger_log *l)
{
	return l->options.log->ops->durable(l->options.log);
}

static uint64_t bytes_of(struct ledger_log *l, uint64_t index)
{
	return ledger_log_entry(l, index)->record.bytes;
}

uint64_t ledger_log_trim(struct ledger_log *l, uint64_t owed)
{
	struct log *log = l->options.log;
	uint64_t first = log->ops->first(log);
	while (l->kept_bytes > ledger_log_backlog(l) && first <= l->base_index && first < owed)
		l->kept_bytes -= bytes_of(l, first++);
	log->ops->release_below(log, first);
	return first;
}

/* --- Roles */

static void begin(struct ledger_log *l)
{
	struct log_entry e = ledger_log_entry_next(l);
	weir_error err = {0};
	e.record = (struct record){.kind = RECORD_EPOCH, .bytes = RECORD_HEADER_BYTES, .partition = JOURNAL_LEDGER};
	const weir_status status = ledger_log_append(l, &e, &err);
	l->beginning = status != WEIR_OK;
	if (!status)
		l->options.appended(l->options.arg, e.index);
	else if (is_final(status))
		ledger_log_fail(l, &err);
	else
		LOG_AT(l->options.logger, LOG_ERROR, "the ledger waits", "%s; it has no primary until space is freed", err.text);
}

void ledger_log_begin(struct ledger_log *l, uint64_t epoch)
{
	assert(epoch > l->epoch && !l->serving);
	l->epoch = epoch;
	begin(l);
}

void ledger_log_begin_again(struct ledger_log *l)
{
	if (l->beginning && !l->broken)
		begin(l);
}

void ledger_log_serve(struct ledger_log *l)
{
	if (l->serving || l->broken)
		return;
	assert(l->applied == l->options.log->ops->last(l->options.log));
	ledger_renew_all(l->options.ledger);
	ledger_record_changes(l->options.ledger);
	l->serving = true;
}

void ledger_log_on_disks(struct ledger_log *l, uint64_t index)
{
	l->on_disks = index;
	if (!l->broken)
		ledger_log_go_on(l);
}

bool ledger_log_serves(const struct ledger_log *l)
{
	return l->serving && !l->broken;
}

/* Rebuilds the ledger as of the last committed entry. */
static weir_status make_anew(struct ledger_log *l, weir_error *err)
{
	struct ledger *old = l->options.ledger;
	weir_status status = ledger_create_like(&l->options.ledger, old, err);
	if (status)
		return status;
	ledger_destroy(old);
	l->applied = l->base_index;
	if (l->base)
		status = ledger_merge(l->options.ledger, l->base->spans[0].data, l->base->bytes, NULL, err);
	while (!status && l->applied < l->committed)
		status = ledger_log_merge_next(l, err);
	return status;
}

struct ledger *ledger_log_step_down(struct ledger_log *l, void (*drop)(void *arg))
{
	weir_error err = {0};
	const bool served = l->serving;
	l->serving = l->beginning = false;
	l->on_disks = 0;
	if (served && !l->broken) {
		/* Answers the polls parked in the ledger; their replies now wait here. */
		ledger_close(l->options.ledger);
		message_release(l->refused);
		l->refused = NULL;
		l->running_out = false;
		if (l->flush.index > l->committed)
			ledger_log_drop_flush(l);
		if (make_anew(l, &err))
			ledger_log_fail(l, &err);
	}
	ledger_log_abandon(l, drop);
	return l->options.ledger;
}

/* --- Snapshots */

struct message *ledger_log_base(const struct ledger_log *l, uint64_t *index)
{
	*index = l->base_index;
	return l->base ? message_retain(l->base) : NULL;
}

struct log *ledger_log_entries(struct ledger_log *l)
{
	return l->options.log;
}

struct ledger *ledger_log_ledger(const struct ledger_log *l)
{
	return l->options.ledger;
}

void ledger_log_halt(struct ledger_log *l)
{
	assert(!l->serving);
	l->halted = true;
	ledger_log_drop_flush(l);
}

bool ledger_log_is_still(const struct ledger_log *l)
{
	return l->halted && !l->flush.running;
}

weir_status ledger_log_renew(struct ledger_log *l, struct message *state, uint64_t index, weir_error *err)
{
	assert(!l->serving && !l->held && l->options.log->ops->last(l->options.log) == index);
	l->halted = false;
	l->unflushed = false;
	l->committed = l->flushed = index;
	l->kept_bytes = l->since_bytes = 0;
	message_release(l->base);
	l->base = state;
	l->base_index = index;
	return make_anew(l, err);
}

/* --- The end of the log */

weir_status ledger_log_truncate(struct ledger_log *l, uint64_t last, weir_error *err)
{
	struct log *log = l->options.log;
	weir_error why = {0};
	assert(!l->serving && last >= l->committed);
	const uint64_t end = log->ops->last(log);
	uint64_t bytes = 0;
	for (uint64_t i = last + 1; i <= end; i++)
		bytes += bytes_of(l, i);
	weir_status status = log->ops->truncate_above(log, last, &why);
	if (!status)
		l->kept_bytes -= bytes;
	else if (is_final(status))
		ledger_log_fail(l, &why);
	return status ? weir_fail(err, status, "ledger: %s", why.text) : WEIR_OK;
}
