/* Recovery: reads every entry in order, finds the end of the journal, and decides whether that end
 * is a torn tail or damage.
 *
 * A segment is synced as a whole before the next one begins, so every segment except the last must
 * be readable to its end. In the last segment the first bad entry ends the journal, unless an entry
 * header behind it records that the journal was durable beyond that point when the header was
 * written. Then the bad entry had been durable and is damaged. (A log that is cut at any bad
 * checksum loses acknowledged entries to a flipped bit. A log that is refused at any bad checksum
 * loses its server to every power cut. The positions tell the two cases apart.) A log that lost its
 * end has no such header. Only a record elsewhere of its durable position (mark.h) can tell that
 * end from a torn tail.
 *
 * The last segment is synced, and its cached pages are dropped, before it is read: an fsync that
 * failed in the previous process may have left pages in the cache that the device does not have. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/log/journal_internal.h"

/* --- A moving window of the file; entries are handed over in place, without a copy */

struct reader {
	struct disk_file *file;
	uint64_t size;          /* of the file */
	struct message *window; /* bytes [at, at + window->bytes) of the file; NULL: none yet */
	uint64_t at;
};

/* Returns a cursor over bytes [offset, offset + n) of the file, borrowed from r->window. The file
 * must contain these bytes. */
static weir_status reader_look(struct reader *r, uint64_t offset, size_t n, struct cursor *out, weir_error *err)
{
	assert(offset + n <= r->size);
	if (!r->window || offset < r->at || offset + n > r->at + r->window->bytes) {
		uint64_t left = r->size - offset;
		size_t bytes = n > JOURNAL_READ_BYTES ? n : JOURNAL_READ_BYTES, got = 0;
		uint8_t *data;
		if (bytes > left)
			bytes = (size_t)left;
		message_release(r->window);
		r->window = message_alloc(bytes, &data);
		r->at = offset;
		if (!r->window)
			return weir_fail(err, WEIR_E_MEMORY, "journal: out of memory for %zu bytes", bytes);
		weir_status status = r->file->disk->ops->read_at(r->file, offset, data, bytes, &got, err);
		if (status != WEIR_OK)
			return status;
		if (got != bytes)
			return weir_fail(err, WEIR_E_IO, "journal: the file ends at %" PRIu64 " while it is read, it had %" PRIu64 " bytes",
			                 offset + got, r->size);
	}
	*out = cursor_at(r->window);
	(void)cursor_take(out, (size_t)(offset - r->at));
	out->left = n;
	return WEIR_OK;
}

/* --- The replay */

struct replay {
	struct journal *j;
	struct journal_channel *channels; /* (count) the caller's */
	uint32_t count;
	struct journal_channel *by_slot[JOURNAL_CHANNELS]; /* NULL: not a channel of this server */
	/* By slot: the first index in the journal, if earlier ones are needed but missing; 0: none is
	 * missing. */
	uint64_t begins[JOURNAL_CHANNELS];
	const struct journal_reader *to; /* receives entries and cuts */
	struct reader reader;
	const struct journal_segment *segment; /* being read */
	float rates[JOURNAL_RATES_MAX];
};

static weir_status damaged(const struct replay *r, uint64_t offset, weir_error *err, const char *format, ...) WEIR_PRINTF(4, 5);
static weir_status damaged(const struct replay *r, uint64_t offset, weir_error *err, const char *format, ...)
{
	char path[WEIR_PATH_BYTES_MAX], what[WEIR_ERROR_TEXT_BYTES];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	journal_segment_path(r->j, r->segment->number, path);
	return weir_fail(err, WEIR_E_CORRUPT, "%s is damaged at byte %" PRIu64 ": %s. Nothing was changed: restore a checkpoint",
	                 path, offset, what);
}

/* "partition 3's entry 17" */
static const char *name_entry(uint16_t channel, uint64_t index, char out[64])
{
	if (channel == JOURNAL_LEDGER)
		snprintf(out, 64, "the ledger's entry %" PRIu64, index);
	else
		snprintf(out, 64, "partition %u's entry %" PRIu64, channel, index);
	return out;
}

/* The same for the subject of a header. */
static const char *name_header(const struct journal_entry_header *h, char out[64])
{
	uint16_t channel;
	if (h->channel == JOURNAL_MARK)
		return "a mark";
	if (h->channel != JOURNAL_CUT)
		return name_entry(h->channel, h->index, out);
	const struct journal_cut cut = journal_get_cut(h, &channel);
	if (channel == JOURNAL_LEDGER)
		snprintf(out, 64, "the ledger's cut to entry %" PRIu64, cut.next);
	else
		snprintf(out, 64, "partition %u's cut to entry %" PRIu64, channel, cut.next);
	return out;
}

/* The kind of entry at an offset. */
enum found { FOUND_ENTRY, FOUND_MARK, FOUND_CUT, FOUND_NOTHING };

struct found_entry {
	struct journal_entry_header h;
	bool header_good;
	struct log_entry e; /* FOUND_ENTRY: in the reader's window */
	weir_error why;     /* FOUND_NOTHING */
};

static weir_status look_at(struct replay *r, uint64_t offset, enum found *kind, struct found_entry *f, weir_error *err)
{
	uint8_t header[JOURNAL_ENTRY_HEADER_BYTES];
	uint64_t left = r->reader.size - offset;
	struct cursor c;
	*kind = FOUND_NOTHING;
	f->header_good = false;
	if (left < sizeof header) {
		weir_fail(&f->why, WEIR_E_CORRUPT, "%" PRIu64 " bytes, an entry's header has %zu", left, sizeof header);
		return WEIR_OK;
	}
	weir_status status = reader_look(&r->reader, offset, sizeof header, &c, err);
	if (status != WEIR_OK)
		return status;
	status = cursor_read(&c, header, sizeof header);
	assert(status == WEIR_OK);
	if (journal_get_entry(header, r->segment->version, &f->h, &f->why) != WEIR_OK)
		return WEIR_OK;
	if (f->h.position != r->segment->start + offset || f->h.durable > f->h.position) {
		weir_fail(&f->why, WEIR_E_CORRUPT,
		          "an entry of another place (position %" PRIu64 ", durable %" PRIu64 ", expected position %" PRIu64 ")",
		          f->h.position, f->h.durable, r->segment->start + offset);
		return WEIR_OK;
	}
	f->header_good = true;
	if (f->h.channel == JOURNAL_MARK || f->h.channel == JOURNAL_CUT) {
		*kind = f->h.channel == JOURNAL_MARK ? FOUND_MARK : FOUND_CUT;
		return WEIR_OK;
	}
	if (f->h.bytes > left) {
		weir_fail(&f->why, WEIR_E_CORRUPT, "an entry of %u bytes, %" PRIu64 " are left", f->h.bytes, left);
		return WEIR_OK;
	}
	status = reader_look(&r->reader, offset, f->h.bytes, &c, err);
	if (status != WEIR_OK)
		return status;
	(void)cursor_take(&c, JOURNAL_ENTRY_HEADER_BYTES);
	if (journal_get_payload(c, &f->h, r->rates, &f->e, &f->why) == WEIR_OK)
		*kind = FOUND_ENTRY;
	return WEIR_OK;
}

/* Whether the entry or cut is void. */
static bool is_void(const struct journal_channel *c, const struct found_entry *f)
{
	return c->is_void || f->h.position < c->from;
}

/* Checks that the entries of a channel follow each other, and hands over those that are needed. If
 * the first needed entries are missing, no entry is handed over. Either a later restart voids the
 * entries here (no reader needed the missing ones, so their segments were deleted), or the journal
 * is damaged, which is reported at the end. */
static weir_status take(struct replay *r, uint64_t offset, const struct found_entry *f, weir_error *err)
{
	char name[64];
	uint16_t channel = f->h.channel;
	if (channel >= WEIR_PARTITIONS_MAX && channel != JOURNAL_LEDGER)
		return damaged(r, offset, err, "channel %u is not one", channel);
	uint32_t slot = journal_slot(channel);
	const struct journal_channel *c = r->by_slot[slot];
	uint64_t *last = &r->j->last.of[slot];
	if (!c)
		return damaged(r, offset, err, "%s is not of this server", name_entry(channel, f->h.index, name));
	if (*last == 0 && f->h.index > c->first)
		r->begins[slot] = f->h.index;
	if (*last > 0 && f->h.index != *last + 1)
		return damaged(r, offset, err, "%s follows %" PRIu64, name_entry(channel, f->h.index, name), *last);
	*last = f->h.index;
	return f->h.index < c->first || r->begins[slot] || is_void(c, f) ? WEIR_OK : r->to->entry(r->to->ctx, channel, &f->e, err);
}

/* A cut lowers the channel's last index; a restart sets it to any value. */
static weir_status take_cut(struct replay *r, uint64_t offset, const struct found_entry *f, weir_error *err)
{
	char name[64];
	uint16_t channel;
	struct journal_cut cut = journal_get_cut(&f->h, &channel);
	uint32_t slot = journal_slot(channel);
	struct journal_channel *c = r->by_slot[slot];
	uint64_t *last = &r->j->last.of[slot];
	if (!c)
		return damaged(r, offset, err, "%s is not of this server", name_header(&f->h, name));
	if (cut.restart || cut.next <= c->first)
		r->begins[slot] = 0;
	else if (*last == 0)
		r->begins[slot] = cut.next;
	if (!cut.restart && *last > 0 && cut.next > *last + 1)
		return damaged(r, offset, err, "%s follows %" PRIu64, name_header(&f->h, name), *last);
	*last = cut.next - 1;
	if (cut.restart)
		r->j->restarted.of[slot] = f->h.position;
	c->restarted |= cut.restart;
	if (cut.next < c->first)
		cut.next = c->first;
	return is_void(c, f) ? WEIR_OK : r->to->cut(r->to->ctx, channel, &cut, err);
}

/* --- The end of the last segment */

/* Searches bytes [at, at + n) of the file for a header which records that the journal was durable
 * beyond position `bad`. */
static uint64_t find_in(const struct replay *r, const uint8_t *bytes, uint64_t at, size_t n, uint64_t bad,
                        struct journal_entry_header *h)
{
	for (size_t i = 0; i + JOURNAL_ENTRY_HEADER_BYTES <= n; i += 8)
		if (journal_get_entry(bytes + i, r->segment->version, h, NULL) == WEIR_OK && h->position == r->segment->start + at + i &&
		    h->durable > bad)
			return at + i;
	return 0;
}

/* Searches for such a header behind the bad entry at `offset`. *proof: its offset; 0: none. */
static weir_status find_proof(struct replay *r, uint64_t offset, uint64_t *proof, struct journal_entry_header *h, weir_error *err)
{
	uint8_t *block = malloc(JOURNAL_READ_BYTES);
	if (!block)
		return weir_fail(err, WEIR_E_MEMORY, "journal: out of memory for %u bytes", JOURNAL_READ_BYTES);
	weir_status status = WEIR_OK;
	size_t got = JOURNAL_READ_BYTES;
	*proof = 0;
	for (uint64_t at = offset + 8; got == JOURNAL_READ_BYTES && !*proof && status == WEIR_OK;
	     at += JOURNAL_READ_BYTES - JOURNAL_ENTRY_HEADER_BYTES) { /* blocks overlap by a header */
		status = r->reader.file->disk->ops->read_at(r->reader.file, at, block, JOURNAL_READ_BYTES, &got, err);
		if (status == WEIR_OK)
			*proof = find_in(r, block, at, got, r->segment->start + offset, h);
	}
	free(block);
	return status;
}

/* The last segment ends at `offset`, at the bad entry f. Decides between a torn tail (OK) and
 * damage. */
static weir_status judge_end(struct replay *r, uint64_t offset, const struct found_entry *f, weir_error *err)
{
	struct journal_entry_header later;
	uint64_t proof = 0;
	char bad[64] = "an entry", good[64];
	weir_status status = find_proof(r, offset, &proof, &later, err);
	if (status != WEIR_OK || !proof)
		return status;
	if (f->header_good)
		name_entry(f->h.channel, f->h.index, bad);
	return damaged(r, offset, err, "%s was durable, says %s at byte %" PRIu64 ", and cannot be read: %s", bad,
	               name_header(&later, good), proof, f->why.text);
}

/* Reads the open segment. *end: offset behind its last entry. */
static weir_status read_entries(struct replay *r, bool last, uint64_t *end, weir_error *err)
{
	uint64_t offset = JOURNAL_SEGMENT_HEADER_BYTES;
	struct found_entry f = {0};
	for (weir_status status; offset < r->reader.size; offset += f.h.bytes) {
		enum found kind;
		status = look_at(r, offset, &kind, &f, err);
		if (status == WEIR_OK && kind == FOUND_ENTRY)
			status = take(r, offset, &f, err);
		else if (status == WEIR_OK && kind == FOUND_CUT)
			status = take_cut(r, offset, &f, err);
		if (status != WEIR_OK)
			return status;
		if (kind != FOUND_NOTHING)
			continue;
		char name[64] = "an entry";
		if (!last)
			return damaged(r, offset, err, "%s cannot be read: %s",
			               f.header_good ? name_entry(f.h.channel, f.h.index, name) : name, f.why.text);
		*end = offset;
		return judge_end(r, offset, &f, err);
	}
	*end = offset;
	return WEIR_OK;
}

/* --- The channels, after all entries are read */

static weir_status missing(const struct replay *r, const struct journal_channel *c, uint64_t from, uint64_t to, weir_error *err)
{
	char name[64];
	return weir_fail(err, WEIR_E_CORRUPT,
	                 "journal %s is damaged: %s up to %" PRIu64
	                 " are missing, and were durable. Nothing was changed: restore a checkpoint",
	                 r->j->options.directory, name_entry(c->channel, from, name), to);
}

static weir_status begins_late(const struct replay *r, const struct journal_channel *c, weir_error *err)
{
	char name[64];
	return weir_fail(
	    err, WEIR_E_CORRUPT,
	    "journal %s is damaged, or the database beside it: the journal begins with %s, the database ends before %" PRIu64
	    ". Nothing was changed: restore a checkpoint",
	    r->j->options.directory, name_entry(c->channel, r->begins[journal_slot(c->channel)], name), c->first);
}

/* end: position behind the last entry. */
static weir_status check_end(const struct replay *r, uint64_t end, weir_error *err)
{
	const struct journal_options *o = &r->j->options;
	if (end >= o->durable_known)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_STALE, "its log ends at position %" PRIu64 ", and was on disk up to %" PRIu64, end,
	                 o->durable_known);
}

/* Entries that flushes show to have been durable must all be in the journal, or all be truncated
 * away. */
static weir_status check_channels(const struct replay *r, weir_error *err)
{
	for (uint32_t i = 0; i < r->count; i++) {
		const struct journal_channel *c = &r->channels[i];
		uint64_t last = r->j->last.of[journal_slot(c->channel)];
		uint64_t known = c->flushed > c->first - 1 ? c->flushed : c->first - 1;
		if (c->is_void)
			continue;
		if (r->begins[journal_slot(c->channel)])
			return begins_late(r, c, err);
		if (c->restarted)
			continue;
		if (last == 0 && c->first <= c->flushed)
			return missing(r, c, c->first, c->flushed, err);
		if (last > 0 && last < known)
			return missing(r, c, last + 1, known, err);
	}
	return WEIR_OK;
}

static void take_over(struct replay *r)
{
	struct journal *j = r->j;
	for (uint32_t i = 0; i < r->count; i++) {
		struct journal_channel *c = &r->channels[i];
		uint32_t slot = journal_slot(c->channel);
		if (j->last.of[slot] == 0 && !c->restarted)
			j->last.of[slot] = c->flushed > c->first - 1 ? c->flushed : c->first - 1;
		c->last = j->last.of[slot];
		j->needed.of[slot] = c->first;
		atomic_store(&j->watchers[slot].durable, c->last);
	}
	j->stable = j->last;
	j->end = j->count ? j->segments[j->count - 1].end : 0;
	j->entries_end = j->synced = j->told = j->end;
	j->replayed = true;
}

/* Removes everything behind the end, durably. The rest is durable already. */
static weir_status settle(struct replay *r, uint64_t end, weir_error *err)
{
	const struct disk_ops *ops = r->reader.file->disk->ops;
	if (end == r->reader.size)
		return WEIR_OK; /* synced before it was read */
	weir_status status = ops->truncate(r->reader.file, end, err);
	return status == WEIR_OK ? ops->sync(r->reader.file, err) : status;
}

/* Reads a segment, records the position behind its last entry in s, and closes its file. */
static weir_status read_segment(struct replay *r, struct journal_segment *s, bool last, weir_error *err)
{
	struct disk *disk = r->j->options.disk;
	char path[WEIR_PATH_BYTES_MAX];
	uint64_t end = 0;
	journal_segment_path(r->j, s->number, path);
	r->segment = s;
	r->reader = (struct reader){0};
	weir_status status = disk->ops->open(disk, path, false, &r->reader.file, err);
	if (status != WEIR_OK)
		return status;
	if (last) {
		status = disk->ops->sync(r->reader.file, err);
		disk->ops->drop_cache(r->reader.file);
	}
	if (status == WEIR_OK)
		status = disk->ops->size(r->reader.file, &r->reader.size, err);
	if (status == WEIR_OK)
		status = read_entries(r, last, &end, err);
	if (status == WEIR_OK && last)
		status = check_end(r, s->start + end, err);
	if (status == WEIR_OK && last)
		status = check_channels(r, err);
	if (status == WEIR_OK && last)
		status = settle(r, end, err);
	message_release(r->reader.window);
	disk->ops->close(r->reader.file);
	return status == WEIR_OK ? journal_close_segment(s, s->start + end, &r->j->last, err) : status;
}

static weir_status replay_all(struct replay *r, weir_error *err)
{
	struct journal *j = r->j;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < r->count && status == WEIR_OK; i++) {
		assert(r->channels[i].first > 0);
		r->channels[i].restarted = false;
		r->by_slot[journal_slot(r->channels[i].channel)] = &r->channels[i];
	}
	for (uint32_t i = 0; i < j->count && status == WEIR_OK; i++)
		status = read_segment(r, &j->segments[i], i + 1 == j->count, err);
	if (j->count == 0)
		status = check_end(r, 0, err);
	if (j->count == 0 && status == WEIR_OK)
		status = check_channels(r, err);
	return status;
}

weir_status journal_replay(struct journal *j, struct journal_channel *channels, uint32_t count,
                           const struct journal_reader *reader, weir_error *err)
{
	assert(!j->replayed);
	struct replay *r = calloc(1, sizeof *r);
	if (!r)
		return weir_fail(err, WEIR_E_MEMORY, "journal %s: out of memory", j->options.directory);
	r->j = j;
	r->channels = channels;
	r->count = count;
	r->to = reader;
	weir_status status = replay_all(r, err);
	if (status == WEIR_OK)
		take_over(r);
	free(r);
	return status == WEIR_OK ? journal_start_thread(j, err) : status;
}
