#include "server/ledger/ledger_log_internal.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "server/log/journal.h"

#define UNSEALED UINT64_MAX

struct ledger_log *ledger_log_create(const struct ledger_log_options *options, weir_error *err)
{
	struct ledger_log *l = calloc(1, sizeof *l);
	if (l)
		l->writer = record_writer_create();
	if (!l || !l->writer) {
		options->log->ops->destroy(options->log);
		free(l);
		weir_fail(err, WEIR_E_MEMORY, "ledger: out of memory");
		return NULL;
	}
	l->options = *options;
	l->applied = options->log->ops->committed(options->log); /* what the snapshot covers */
	l->end = &l->held;
	return l;
}

void ledger_log_close(struct ledger_log *l)
{
	l->closed = true;
}

void ledger_log_destroy(struct ledger_log *l)
{
	if (!l)
		return;
	assert(!l->held);
	message_release(l->refused);
	message_release(l->flush.state);
	message_release(l->base);
	record_writer_destroy(l->writer);
	l->options.log->ops->destroy(l->options.log);
	free(l);
}

void ledger_log_fail(struct ledger_log *l, const weir_error *err)
{
	l->broken = true;
	if (l->options.failed)
		l->options.failed(l->options.arg, err);
}

/* --- Entries */

/* Wraps a state as a record in a frame, so that its entry has the form of every other entry. */
static struct message *frame_state(struct ledger_log *l, const struct message *state)
{
	static const uint8_t nobody[16];
	const struct record r = {.kind = RECORD_LEDGER, .partition = FRAME_PARTITION_ALL};
	const struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = (uint32_t)state->bytes};
	record_writer_begin(l->writer, &r);
	weir_status status = record_writer_add(l->writer, &s, NULL, state->spans[0].data, false);
	weir_status ended = record_writer_end(l->writer);
	struct message *frame = record_writer_finish(l->writer, nobody, l->options.generation, NULL, NULL);
	if (!status && !ended)
		return frame;
	message_release(frame);
	return NULL;
}

struct log_entry ledger_log_entry_next(struct ledger_log *l)
{
	struct log *log = l->options.log;
	const uint64_t index = log->ops->last(log) + 1;
	/* With one copy an entry is committed at once. */
	return (struct log_entry){.epoch = l->options.replicated ? l->epoch : l->options.epoch,
	                          .index = index,
	                          .committed = l->options.replicated ? l->committed : index,
	                          .generation = l->options.generation,
	                          .stamp_ms = l->options.clock->ops->wall_ns(l->options.clock) / 1000000};
}

weir_status ledger_log_append(struct ledger_log *l, const struct log_entry *e, weir_error *err)
{
	struct log *log = l->options.log;
	weir_status status = log->ops->append(log, e, err);
	if (status)
		return status;
	if (l->options.replicated) {
		log->ops->compact(log, e->index);
		l->kept_bytes += e->record.bytes;
		l->since_bytes += e->record.bytes;
	} else {
		log->ops->release_below(log, e->index + 1);
	}
	return WEIR_OK;
}

/* Appends the ledger's changes. The ledger has them already. */
static weir_status append(struct ledger_log *l, struct message *frame, weir_error *err)
{
	struct frame_header h;
	struct log_entry e = ledger_log_entry_next(l);
	struct cursor c = cursor_at(frame);
	e.message = frame;
	assert(e.index == l->applied + 1);
	weir_status status = frame_open(&c, &h, err);
	if (!status)
		status = frame_next_record(&c, false, &e.record, &e.body, err);
	if (!status)
		status = ledger_log_append(l, &e, err);
	if (status)
		return status;
	l->applied = e.index;
	if (l->options.replicated)
		l->options.appended(l->options.arg, e.index);
	return WEIR_OK;
}

/* Appends the frame, or keeps it for later. */
static void append_or_keep(struct ledger_log *l, struct message *frame)
{
	weir_error err = {0};
	weir_status status = append(l, frame, &err);
	l->refused = NULL;
	if (status == WEIR_E_NO_SPACE || status == WEIR_E_MEMORY) {
		LOG_AT(l->options.logger, LOG_ERROR, "the ledger waits", "%s; nobody is answered until space is freed", err.text);
		l->refused = frame;
		return;
	}
	message_release(frame);
	if (status)
		ledger_log_fail(l, &err);
}

bool ledger_log_is_blocked(struct ledger_log *l)
{
	return l->refused || l->running_out;
}

/* Turns the changes into an entry. False: the previous entry could not be appended, or memory is
 * short. */
static bool log_changes(struct ledger_log *l)
{
	struct message *state = NULL, *frame;
	if (l->refused)
		append_or_keep(l, l->refused);
	if (l->refused)
		return false;
	l->running_out = ledger_export_changes(l->options.ledger, &state, NULL) != WEIR_OK;
	if (l->running_out || !state)
		return !l->running_out;
	frame = frame_state(l, state);
	message_release(state);
	if (!frame) { /* the change marks are gone: export everything next time */
		l->running_out = true;
		ledger_mark_all(l->options.ledger);
		return false;
	}
	append_or_keep(l, frame);
	return !l->refused;
}

void ledger_log_commit(struct ledger_log *l)
{
	const bool was_blocked = ledger_log_is_blocked(l);
	if (!l->recovered || (l->options.replicated && !l->serving) || !log_changes(l))
		return;
	if (was_blocked) /* nobody could renew a lease meanwhile */
		ledger_renew_all(l->options.ledger);
	for (struct held_reply *r = l->held; r; r = r->next)
		if (r->index == UNSEALED)
			r->index = l->applied;
	if (l->held && (!l->options.replicated || l->options.ack_disk))
		l->options.log->ops->sync(l->options.log);
	ledger_log_go_on(l); /* some replies need not wait */
}

/* --- Replies */

void ledger_log_reply(struct ledger_log *l, void (*send)(void *arg), void *arg)
{
	struct held_reply *r = malloc(sizeof *r);
	if (!r) { /* The caller's call must end: it ends late, never early. */
		weir_error err = {0};
		(void)weir_fail(&err, WEIR_E_MEMORY, "ledger: out of memory for a reply");
		ledger_log_fail(l, &err);
		return;
	}
	*r = (struct held_reply){.index = UNSEALED, .send = send, .arg = arg};
	*l->end = r;
	l->end = &r->next;
}

static struct held_reply *pop(struct ledger_log *l)
{
	struct held_reply *r = l->held;
	l->held = r->next;
	if (!l->held)
		l->end = &l->held;
	return r;
}

/* The last permanent index: with one copy it is on disk, else enough replicas have it. */
static uint64_t safe(const struct ledger_log *l)
{
	return l->options.replicated ? l->committed : l->options.log->ops->durable(l->options.log);
}

/* The last index that replies may speak of. */
static uint64_t tellable(const struct ledger_log *l)
{
	const bool waits = l->options.replicated && l->options.ack_disk && l->on_disks < l->committed;
	return waits ? l->on_disks : safe(l);
}

static void flush_written(struct ledger_log *l);

/* A snapshot must not be ahead of the log. Otherwise its contents could be lost and its index
 * reused for something else. */
static void flush_continue(struct ledger_log *l)
{
	if (!l->flush.running || l->flush.begun || l->closed || safe(l) < l->flush.index)
		return;
	if (l->options.writer && l->options.log->ops->durable(l->options.log) < l->flush.index)
		return;
	l->flush.begun = true;
	if (l->options.writer)
		cold_writer_submit(l->options.writer, &l->flush.write);
	else
		flush_written(l);
}

void ledger_log_go_on(struct ledger_log *l)
{
	const uint64_t index = tellable(l);
	flush_continue(l);
	while (l->held && l->held->index <= index) {
		struct held_reply *r = pop(l);
		r->send(r->arg);
		free(r);
	}
}

void ledger_log_durable(struct ledger_log *l)
{
	ledger_log_go_on(l);
}

void ledger_log_abandon(struct ledger_log *l, void (*drop)(void *arg))
{
	while (l->held) {
		struct held_reply *r = pop(l);
		drop(r->arg);
		free(r);
	}
}

/* --- Snapshots */

static void flush_end(struct ledger_log *l)
{
	void (*done)(void *arg) = l->flush.done;
	message_release(l->flush.state);
	l->flush.state = NULL;
	l->flush.running = false;
	if (done)
		done(l->flush.arg);
}

static bool written(struct ledger_log *l, const struct cold_write *w)
{
	if (w->status && w->status != WEIR_E_NO_SPACE)
		ledger_log_fail(l, &w->err);
	return w->status == WEIR_OK;
}

/* The snapshot is in its place. Later entries suffice from now on. */
static void flush_written(struct ledger_log *l)
{
	l->flushed = l->flush.index;
	l->unflushed = false;
	l->options.log->ops->truncate_below(l->options.log, l->flushed + 1);
	if (l->options.replicated) {
		message_release(l->base);
		l->base = message_retain(l->flush.state);
		l->base_index = l->flushed;
	}
	flush_end(l);
}

static void on_synced(struct cold_write *w)
{
	struct ledger_log *l = (struct ledger_log *)(void *)((char *)w - offsetof(struct ledger_log, flush.sync));
	if (written(l, w))
		flush_written(l);
	else
		flush_end(l);
}

void ledger_log_drop_flush(struct ledger_log *l)
{
	if (l->flush.running && !l->flush.begun)
		flush_end(l);
}

static void on_state_written(struct cold_write *w)
{
	struct ledger_log *l = (struct ledger_log *)(void *)((char *)w - offsetof(struct ledger_log, flush.write));
	if (written(l, w) && !l->closed)
		cold_writer_submit(l->options.writer, &l->flush.sync);
	else
		flush_end(l);
}

void ledger_log_set_unflushed(struct ledger_log *l)
{
	l->unflushed = true;
}

bool ledger_log_is_flushed(const struct ledger_log *l)
{
	return !l->unflushed && l->applied == l->flushed;
}

bool ledger_log_flush(struct ledger_log *l, void (*done)(void *arg), void *arg)
{
	struct log *log = l->options.log;
	if (l->closed || l->halted || l->flush.running || ledger_log_is_blocked(l) || ledger_log_is_flushed(l))
		return false;
	if (ledger_export_all(l->options.ledger, l->applied, &l->flush.state, NULL))
		return false;
	l->flush.running = true;
	l->flush.begun = false;
	l->flush.index = l->applied;
	l->since_bytes = 0;
	l->flush.done = done;
	l->flush.arg = arg;
	l->flush.write = (struct cold_write){.kind = COLD_WRITE_HEADER,
	                                     .partition = JOURNAL_LEDGER,
	                                     .header = l->flush.state->spans[0].data,
	                                     .header_bytes = l->flush.state->bytes,
	                                     .run_on = l->options.run_on,
	                                     .done = on_state_written};
	l->flush.sync = (struct cold_write){.kind = COLD_WRITE_FLUSH, .run_on = l->options.run_on, .done = on_synced};
	log->ops->sync(log);
	flush_continue(l);
	return true;
}

uint64_t ledger_log_backlog(const struct ledger_log *l)
{
	return l->options.backlog_bytes ? l->options.backlog_bytes : WEIR_LEDGER_LOG_BYTES;
}

/* With replicas, also due when that many bytes have come: a restart begins with the entries since
 * the last snapshot. */
static bool is_flush_due(const struct ledger_log *l, int64_t now_ms)
{
	return (l->options.flush_interval_ms && now_ms >= l->flush.next_ms) ||
	       (l->options.replicated && l->since_bytes > ledger_log_backlog(l) / 2);
}

void ledger_log_tick(struct ledger_log *l, int64_t now_ms)
{
	if (ledger_log_is_blocked(l))
		ledger_log_commit(l);
	if (is_flush_due(l, now_ms) && ledger_log_flush(l, NULL, NULL))
		l->flush.next_ms = now_ms + l->options.flush_interval_ms;
}

/* --- Recovery */

weir_status ledger_log_restore(struct ledger *ledger, const void *bytes, size_t n, uint64_t *needs, weir_error *err)
{
	uint64_t index = 0;
	weir_status status = n ? ledger_merge(ledger, bytes, n, &index, err) : WEIR_OK;
	*needs = index + 1;
	return status;
}

static weir_status merge_entry(struct ledger_log *l, const struct log_entry *e, weir_error *err)
{
	struct cursor body = e->body;
	struct section s;
	weir_status status = WEIR_OK;
	if (l->options.replicated)
		ledger_begin_epoch(l->options.ledger, e->epoch, e->index);
	if (l->options.replicated && e->record.kind == RECORD_EPOCH)
		return WEIR_OK;
	if (e->record.kind != RECORD_LEDGER)
		status = weir_fail(err, WEIR_E_CORRUPT, "ledger: entry %llu is of kind %u", (unsigned long long)e->index, e->record.kind);
	if (!status)
		status = frame_next_section(&body, &s, err);
	uint8_t *bytes = status ? NULL : malloc(s.data_bytes + 1);
	if (!status && !bytes)
		status = weir_fail(err, WEIR_E_MEMORY, "ledger: out of memory");
	if (!status)
		status = cursor_read(&s.data, bytes, s.data_bytes);
	if (!status)
		status = ledger_merge(l->options.ledger, bytes, s.data_bytes, NULL, err);
	free(bytes);
	return status;
}

weir_status ledger_log_merge_next(struct ledger_log *l, weir_error *err)
{
	struct log *log = l->options.log;
	const struct log_entry *e = log->ops->get(log, l->applied + 1);
	if (!e)
		return weir_fail(err, WEIR_E_CORRUPT, "ledger: log entry %llu follows %llu", (unsigned long long)log->ops->first(log),
		                 (unsigned long long)l->applied);
	weir_status status = merge_entry(l, e, err);
	if (status)
		return status;
	l->applied++;
	if (!l->options.replicated)
		log->ops->release_below(log, l->applied + 1);
	return WEIR_OK;
}

weir_status ledger_log_replay(struct ledger_log *l, const struct log_entry *e, weir_error *err)
{
	struct log *log = l->options.log;
	weir_status status = log_disk_restore(log, e, err);
	/* As partition_replay. */
	while (!status && log->ops->first(log) <= l->applied + 1 && l->applied < log->ops->committed(log))
		status = ledger_log_merge_next(l, err);
	return status;
}

weir_status ledger_log_replay_cut(struct ledger_log *l, const struct journal_cut *cut, weir_error *err)
{
	weir_error why = {0};
	weir_status status = log_disk_restore_cut(l->options.log, cut, &why);
	return status ? weir_fail(err, status, "ledger: %s", why.text) : WEIR_OK;
}

uint64_t ledger_log_applied(const struct ledger_log *l)
{
	return l->applied;
}

static void count_kept(struct ledger_log *l)
{
	struct log *log = l->options.log;
	for (uint64_t i = log->ops->first(log); i <= log->ops->last(log); i++)
		l->kept_bytes += log->ops->get(log, i)->record.bytes;
	l->since_bytes = l->kept_bytes;
}

void ledger_log_recovered(struct ledger_log *l)
{
	l->recovered = true;
	l->committed = l->applied;
	if (l->options.replicated) {
		count_kept(l);
		return; /* until it serves */
	}
	ledger_renew_all(l->options.ledger);
	ledger_record_changes(l->options.ledger);
}
