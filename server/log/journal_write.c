/* Writes segments, and the entries and cuts in them.
 *
 * A segment is created under a temporary name. Its space is reserved and its header synced before
 * it is renamed, so a segment that has its final name is complete. Before that, the previous
 * segment is truncated to its end and synced, so everything before a segment is durable. Every
 * start of the server begins a new segment: nothing is ever written over bytes that a crash
 * left. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "server/log/journal_internal.h"

#define SPANS_AT_ONCE 512u /* spans of one entry; a body in more pieces is copied into one */

_Static_assert(JOURNAL_MARK >= WEIR_PARTITIONS_MAX && JOURNAL_MARK != JOURNAL_LEDGER, "marks have a channel of their own");
_Static_assert(JOURNAL_CUT >= WEIR_PARTITIONS_MAX && JOURNAL_CUT != JOURNAL_LEDGER && JOURNAL_CUT != JOURNAL_MARK,
               "and so have cuts");

weir_status journal_fail(struct journal *j, const weir_error *err)
{
	if (j->failure.status == WEIR_OK)
		j->failure = *err;
	pthread_cond_signal(&j->work);
	pthread_cond_broadcast(&j->progress);
	return err->status;
}

/* Removes the bytes that a write on a full disk left. */
static weir_status unwrite(struct journal *j, weir_error *err)
{
	const struct journal_segment *s = &j->segments[j->count - 1];
	weir_error full = *err;
	weir_status status = j->file->disk->ops->truncate(j->file, j->end - s->start, err);
	return status == WEIR_OK ? weir_fail(err, full.status, "%s", full.text) : status;
}

weir_status journal_write(struct journal *j, const struct span *spans, uint32_t count, weir_error *err)
{
	const struct journal_segment *s = &j->segments[j->count - 1];
	weir_error why = {0};
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < count; i++)
		bytes += spans[i].size;
	weir_status status = j->file->disk->ops->write_spans(j->file, j->end - s->start, spans, count, &why);
	if (status == WEIR_OK) {
		j->end += bytes;
		return WEIR_OK;
	}
	if (status == WEIR_E_NO_SPACE)
		status = unwrite(j, &why);
	if (status != WEIR_E_NO_SPACE)
		journal_fail(j, &why);
	return weir_fail(err, status, "%s", why.text);
}

weir_status journal_mark(struct journal *j, weir_error *err)
{
	if (!j->file || j->synced < j->entries_end || j->witnessed >= j->entries_end ||
	    j->end + JOURNAL_ENTRY_HEADER_BYTES > j->limit)
		return WEIR_OK;
	uint8_t bytes[JOURNAL_ENTRY_HEADER_BYTES];
	struct journal_entry_header h = {.bytes = sizeof bytes, .position = j->end, .durable = j->synced, .channel = JOURNAL_MARK};
	struct span span = {bytes, sizeof bytes};
	journal_put_entry(bytes, &h);
	weir_status status = journal_write(j, &span, 1, err);
	if (status == WEIR_OK)
		j->witnessed = h.durable;
	return status == WEIR_E_NO_SPACE ? WEIR_OK : status; /* without space the journal has no mark */
}

weir_status journal_seal(struct journal *j, weir_error *err)
{
	struct journal_segment *s = &j->segments[j->count - 1];
	const struct disk_ops *ops = j->file->disk->ops;
	weir_status status = journal_close_segment(s, j->end, &j->last, err);
	if (status != WEIR_OK)
		return status;
	weir_error why = {0};
	status = ops->truncate(j->file, j->end - s->start, &why);
	if (status == WEIR_OK)
		status = ops->sync(j->file, &why);
	if (status != WEIR_OK) {
		weir_fail(err, status, "%s", why.text);
		return journal_fail(j, &why);
	}
	j->stats.syncs++;
	ops->close(j->file);
	j->file = NULL;
	j->synced = j->end;
	j->stable = j->last;
	pthread_cond_signal(&j->work); /* to tell */
	return WEIR_OK;
}

/* Creates the file of a segment under its temporary name: reserves space, writes the header,
 * syncs. */
static weir_status prepare(struct journal *j, const char *path, uint64_t number, uint64_t bytes, weir_error *err)
{
	struct disk *disk = j->options.disk;
	struct journal_segment_header h = {.number = number, .start = j->end};
	uint8_t header[JOURNAL_SEGMENT_HEADER_BYTES];
	struct disk_file *f;
	memcpy(h.id, j->options.id, sizeof h.id);
	journal_put_segment(header, &h);
	weir_status status = disk->ops->open(disk, path, true, &f, err);
	if (status != WEIR_OK)
		return status;
	status = disk->ops->truncate(f, 0, err);
	if (status == WEIR_OK)
		status = disk->ops->allocate(f, bytes, err);
	if (status == WEIR_OK)
		status = disk->ops->write_at(f, 0, header, sizeof header, err);
	if (status == WEIR_OK)
		status = disk->ops->sync(f, err);
	disk->ops->close(f);
	return status;
}

static weir_status refuse_full(struct journal *j, uint64_t bytes, const char *why, weir_error *err)
{
	struct disk *disk = j->options.disk;
	uint64_t free_bytes = 0;
	(void)disk->ops->free_space(disk, j->options.directory, &free_bytes, NULL);
	j->stats.full++;
	return weir_fail(err, WEIR_E_NO_SPACE,
	                 "%s; %" PRIu64 " bytes are free, the log needs %" PRIu64 " for its next segment: make room, then it goes on",
	                 why, free_bytes, bytes);
}

weir_status journal_begin(struct journal *j, uint64_t bytes, weir_error *err)
{
	struct disk *disk = j->options.disk;
	uint64_t number = j->count ? j->segments[j->count - 1].number + 1 : 1;
	char path[WEIR_PATH_BYTES_MAX], temporary[WEIR_PATH_BYTES_MAX];
	weir_error why = {0};
	journal_segment_path(j, number, path);
	snprintf(temporary, sizeof temporary, "%.*s.tmp", (int)sizeof temporary - 5, path);
	weir_status status = journal_add_segment(j, number, j->end, err);
	if (status != WEIR_OK)
		return status;
	status = prepare(j, temporary, number, bytes, &why);
	if (status == WEIR_OK)
		status = disk->ops->rename(disk, temporary, path, &why);
	else
		(void)disk->ops->remove(disk, temporary, NULL);
	if (status == WEIR_OK)
		status = disk->ops->open(disk, path, false, &j->file, &why);
	if (status != WEIR_OK) {
		j->count--;
		if (status == WEIR_E_NO_SPACE)
			return refuse_full(j, bytes, why.text, err);
		weir_fail(err, status, "%s", why.text);
		return journal_fail(j, &why);
	}
	j->limit = j->end + bytes;
	j->end += JOURNAL_SEGMENT_HEADER_BYTES;
	j->entries_end = j->synced = j->witnessed = j->end;
	return WEIR_OK;
}

/* Begins a segment with room for an entry of `bytes` and a mark behind it. Makes the next segment
 * larger. */
static weir_status begin_larger(struct journal *j, uint64_t bytes, weir_error *err)
{
	const uint64_t least = JOURNAL_SEGMENT_HEADER_BYTES + bytes + JOURNAL_ENTRY_HEADER_BYTES;
	weir_status status = journal_begin(j, j->next_bytes > least ? j->next_bytes : least, err);
	if (status == WEIR_OK)
		j->next_bytes = 2 * j->next_bytes < j->options.segment_bytes ? 2 * j->next_bytes : j->options.segment_bytes;
	return status;
}

/* Makes sure that the current segment has room for an entry of `bytes` and a mark behind it. */
static weir_status make_room(struct journal *j, uint64_t bytes, weir_error *err)
{
	for (;;) {
		weir_status status = WEIR_OK;
		if (j->failure.status != WEIR_OK)
			return weir_fail(err, j->failure.status, "the journal has failed: %s", j->failure.text);
		if (j->file && j->end + bytes + JOURNAL_ENTRY_HEADER_BYTES <= j->limit)
			return WEIR_OK;
		if (!j->file)
			status = begin_larger(j, bytes, err);
		else if (j->syncing)
			pthread_cond_wait(&j->progress, &j->lock);
		else
			status = journal_seal(j, err);
		if (status != WEIR_OK)
			return status;
	}
}

weir_status journal_turn(struct journal *j, weir_error *err)
{
	pthread_mutex_lock(&j->lock);
	while (j->file && j->syncing)
		pthread_cond_wait(&j->progress, &j->lock);
	weir_status status = j->file && j->failure.status == WEIR_OK ? journal_seal(j, err) : WEIR_OK;
	j->next_bytes = j->first_bytes;
	pthread_mutex_unlock(&j->lock);
	return status;
}

/* --- Entries */

/* An entry's payload as a list of spans. */
struct payload {
	struct span spans[SPANS_AT_ONCE]; /* the first is the header's */
	uint32_t count;
	bool crc_known;
	uint32_t crc;
	uint8_t record[RECORD_HEADER_BYTES];
	uint8_t *flat; /* copy of a body in too many pieces; malloc'ed */
};

static void add_span(struct payload *p, const void *data, size_t bytes)
{
	if (bytes == 0)
		return;
	assert(p->count < SPANS_AT_ONCE);
	p->spans[p->count++] = (struct span){data, bytes};
	if (!p->crc_known)
		p->crc = crc32c(p->crc, data, bytes);
}

static weir_status add_body(struct payload *p, struct cursor body, weir_error *err)
{
	const uint8_t *run;
	struct cursor c = body;
	uint32_t pieces = 0;
	while (c.left > 0) {
		cursor_run(&c, 1, c.left, NULL, &run);
		pieces++;
	}
	if (pieces > SPANS_AT_ONCE - p->count - 1) {
		p->flat = malloc(body.left);
		if (!p->flat)
			return weir_fail(err, WEIR_E_MEMORY, "journal: out of memory for %zu bytes", body.left);
		size_t bytes = body.left;
		weir_status status = cursor_read(&body, p->flat, bytes);
		assert(status == WEIR_OK);
		add_span(p, p->flat, bytes);
		return WEIR_OK;
	}
	for (size_t n; body.left > 0;) {
		n = cursor_run(&body, 1, body.left, NULL, &run);
		add_span(p, run, n);
	}
	return WEIR_OK;
}

static weir_status gather(struct payload *p, const struct log_entry *e, uint32_t entry_bytes, weir_error *err)
{
	static const uint8_t zeros[8] = {0};
	p->count = 1;
	p->crc_known = e->has_payload_crc;
	p->crc = p->crc_known ? e->payload_crc : 0;
	p->flat = NULL;
	frame_put_record(p->record, &e->record);
	add_span(p, e->rates, 4 * (size_t)e->rates_count);
	add_span(p, p->record, sizeof p->record);
	size_t unpadded = JOURNAL_ENTRY_HEADER_BYTES + 4 * (size_t)e->rates_count + sizeof p->record + e->body.left;
	weir_status status = add_body(p, e->body, err);
	if (status == WEIR_OK)
		add_span(p, zeros, entry_bytes - unpadded);
	return status;
}

/* With lock: completes the header and writes it as the first span; the other spans hold the
 * payload. */
static weir_status write_with_header(struct journal *j, struct journal_entry_header *h, struct span *spans, uint32_t count,
                                     weir_error *err)
{
	uint8_t header[JOURNAL_ENTRY_HEADER_BYTES];
	weir_status status = make_room(j, h->bytes, err);
	if (status != WEIR_OK)
		return status;
	h->position = j->end;
	h->durable = j->synced;
	journal_put_entry(header, h);
	spans[0] = (struct span){header, sizeof header};
	bool was_clean = j->end == j->synced;
	status = journal_write(j, spans, count, err);
	if (status != WEIR_OK) {
		j->stats.full += status == WEIR_E_NO_SPACE;
		return status;
	}
	j->entries_end = j->end;
	j->witnessed = h->durable;
	if (was_clean && j->options.sync_interval_ms)
		pthread_cond_signal(&j->work); /* the interval begins */
	return WEIR_OK;
}

static weir_status write_entry(struct journal *j, struct journal_entry_header *h, struct payload *p, weir_error *err)
{
	uint64_t *last = &j->last.of[journal_slot(h->channel)];
	assert(h->index == *last + 1);
	h->payload_crc = p->crc;
	weir_status status = write_with_header(j, h, p->spans, p->count, err);
	if (status != WEIR_OK)
		return status;
	*last = h->index;
	j->stats.appends++;
	j->stats.appended_bytes += h->bytes;
	return WEIR_OK;
}

weir_status journal_append(struct journal *j, uint16_t channel, struct log_entry *e, weir_error *err)
{
	struct journal_entry_header h;
	struct payload p;
	assert(j->replayed && (channel < WEIR_PARTITIONS_MAX || channel == JOURNAL_LEDGER));
	weir_status status = journal_describe(e, channel, &h, err);
	if (status == WEIR_OK)
		status = gather(&p, e, h.bytes, err);
	else
		p.flat = NULL;
	if (status == WEIR_OK) {
		e->has_payload_crc = true;
		e->payload_crc = p.crc;
		pthread_mutex_lock(&j->lock);
		status = write_entry(j, &h, &p, err);
		pthread_mutex_unlock(&j->lock);
	}
	free(p.flat);
	return status;
}

/* --- Cuts */

uint64_t journal_restating_bytes(const struct journal *j)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < JOURNAL_CHANNELS; i++)
		bytes += j->last.of[i] > 0 ? JOURNAL_ENTRY_HEADER_BYTES : 0;
	return bytes;
}

weir_status journal_restate(struct journal *j, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < JOURNAL_CHANNELS && !status; i++) {
		struct journal_entry_header h;
		struct span header;
		if (j->last.of[i] == 0)
			continue;
		journal_describe_cut(journal_channel_of(i), (struct journal_cut){.next = j->last.of[i] + 1}, &h);
		status = write_with_header(j, &h, &header, 1, err);
	}
	return status;
}

static void no_more_than(uint64_t *index, uint64_t most)
{
	if (*index > most)
		*index = most;
}

/* Ends the channel at `last`; entries up to `still` remain durable. An fsync in progress covers
 * nothing behind `still`, because it began before the cut. */
static void go_back(struct journal *j, uint32_t slot, uint64_t last, uint64_t still)
{
	_Atomic uint64_t *durable = &j->watchers[slot].durable;
	j->last.of[slot] = last;
	no_more_than(&j->stable.of[slot], still);
	no_more_than(&j->syncing_last.of[slot], still);
	if (atomic_load_explicit(durable, memory_order_relaxed) > still)
		atomic_store_explicit(durable, still, memory_order_release);
}

weir_status journal_cut(struct journal *j, uint16_t channel, struct journal_cut cut, weir_error *err)
{
	const uint32_t slot = journal_slot(channel);
	struct journal_entry_header h;
	struct span header;
	assert(j->replayed && (channel < WEIR_PARTITIONS_MAX || channel == JOURNAL_LEDGER));
	journal_describe_cut(channel, cut, &h);
	pthread_mutex_lock(&j->lock);
	assert(cut.next > 0 && (cut.restart || cut.next <= j->last.of[slot] + 1));
	weir_status status = write_with_header(j, &h, &header, 1, err);
	if (status == WEIR_OK) {
		go_back(j, slot, cut.next - 1, cut.restart ? 0 : cut.next - 1);
		if (cut.restart)
			j->restarted.of[slot] = h.position;
		if (cut.restart || j->needed.of[slot] > cut.next)
			j->needed.of[slot] = cut.next;
	}
	pthread_mutex_unlock(&j->lock);
	return status;
}
