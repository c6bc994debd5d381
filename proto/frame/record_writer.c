/* Builds frames. Headers, copied streams and reserved streams live in blocks that never move. A
 * frame is a list of spans into blocks and borrowed memory, which becomes the message. Adjacent
 * bytes in a block are one span, so a frame of many small records has few spans.
 *
 * Invariants: the first span begins with the frame header; a record that fails leaves the frame
 * unchanged. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "proto/frame/frame.h"

#define BLOCK_BYTES_FIRST 2048u
#define BLOCK_BYTES_CAP   (256u << 10)
#define BORROW_BYTES_MIN  512u /* below this, a copy is cheaper than another span */

struct block {
	struct block *next;
	size_t size, used;
	uint8_t bytes[];
};

struct record_writer {
	struct block *blocks; /* newest first */
	uint8_t *header;      /* place of the frame header; NULL while the frame is empty */
	struct span *spans;
	uint32_t spans_count, spans_capacity;
	size_t bytes; /* of the frame so far, with its header */
	uint32_t records;
	/* The record under construction. */
	bool open;
	weir_status status; /* its first failure */
	struct record record;
	uint8_t *record_header;
	uint32_t first_span;      /* the record begins in this span */
	size_t first_span_offset; /* at this offset */
	size_t bytes_before;
	struct known_crc { /* ranges of the frame, in order, that are not read for the record's crc */
		size_t begin, end;
		uint32_t crc;
	} known[WEIR_RECORD_SECTIONS_MAX];
	uint32_t known_count;
};

struct record_writer *record_writer_create(void)
{
	return calloc(1, sizeof(struct record_writer));
}

static void blocks_destroy(struct block *b)
{
	while (b) {
		struct block *next = b->next;
		free(b);
		b = next;
	}
}

static void writer_clear(struct record_writer *w)
{
	w->blocks = NULL;
	w->header = NULL;
	w->spans_count = 0;
	w->bytes = 0;
	w->records = 0;
	w->open = false;
	w->status = WEIR_OK;
}

void record_writer_destroy(struct record_writer *w)
{
	if (!w)
		return;
	blocks_destroy(w->blocks);
	free(w->spans);
	free(w);
}

static bool span_add(struct record_writer *w, const void *data, size_t size)
{
	if (w->spans_count) {
		struct span *last = &w->spans[w->spans_count - 1];
		if (last->data + last->size == (const uint8_t *)data && w->blocks && w->blocks->bytes <= last->data &&
		    last->data < w->blocks->bytes + w->blocks->size) {
			last->size += size;
			w->bytes += size;
			return true;
		}
	}
	if (w->spans_count == w->spans_capacity) {
		uint32_t capacity = w->spans_capacity ? w->spans_capacity * 2 : 16;
		struct span *spans = realloc(w->spans, capacity * sizeof *spans);
		if (!spans)
			return false;
		w->spans = spans;
		w->spans_capacity = capacity;
	}
	w->spans[w->spans_count++] = (struct span){data, size};
	w->bytes += size;
	return true;
}

/* Allocates `size` bytes of block memory as part of the frame. NULL when out of memory. */
static uint8_t *place(struct record_writer *w, size_t size)
{
	struct block *b = w->blocks;
	if (!b || b->size - b->used < size) {
		size_t want = !b ? BLOCK_BYTES_FIRST : b->size * 2 < BLOCK_BYTES_CAP ? b->size * 2 : BLOCK_BYTES_CAP;
		if (want < size)
			want = size;
		b = malloc(sizeof *b + want);
		if (!b)
			return NULL;
		*b = (struct block){.next = w->blocks, .size = want};
		w->blocks = b;
	}
	uint8_t *p = b->bytes + b->used;
	if (!span_add(w, p, size))
		return NULL;
	b->used += size;
	return p;
}

void record_writer_begin(struct record_writer *w, const struct record *r)
{
	assert(!w->open);
	w->open = true;
	w->status = WEIR_OK;
	w->known_count = 0;
	w->record = *r;
	w->record.sections = 0;
	if (!w->header && !(w->header = place(w, FRAME_HEADER_BYTES)))
		w->status = WEIR_E_MEMORY;
	w->bytes_before = w->bytes;
	w->first_span = w->spans_count ? w->spans_count - 1 : 0;
	w->first_span_offset = w->spans_count ? w->spans[w->first_span].size : 0;
	if (w->status == WEIR_OK && w->records >= WEIR_FRAME_RECORDS_MAX)
		w->status = WEIR_E_LIMIT;
	if (w->status == WEIR_OK && !(w->record_header = place(w, RECORD_HEADER_BYTES)))
		w->status = WEIR_E_MEMORY;
}

/* Checks that a section's header and streams fit the limits of the record and the message. */
static weir_status section_fits(struct record_writer *w, const struct section *s)
{
	assert(w->open);
	if (w->status)
		return w->status;
	size_t bytes = SECTION_HEADER_BYTES + (size_t)s->index_bytes + s->data_bytes + 16;
	if (w->record.sections >= WEIR_RECORD_SECTIONS_MAX || s->rows > WEIR_SECTION_ROWS_MAX || s->width > WEIR_ROW_WIDTH_MAX ||
	    bytes > FRAME_BYTES_MAX || w->bytes + bytes > FRAME_BYTES_MAX)
		return w->status = WEIR_E_LIMIT;
	return WEIR_OK;
}

/* Allocates a stream and its zero padding. */
static uint8_t *place_stream(struct record_writer *w, size_t size)
{
	size_t padded = (size + 7) / 8 * 8;
	uint8_t *p = place(w, padded);
	if (p)
		memset(p + size, 0, padded - size);
	return p;
}

static bool copy_stream(struct record_writer *w, const void *data, size_t size)
{
	if (!size)
		return true;
	uint8_t *p = place_stream(w, size);
	if (p)
		memcpy(p, data, size);
	return p != NULL;
}

static bool borrow_stream(struct record_writer *w, const void *data, size_t size)
{
	static const uint8_t zeros[8];
	size_t pad = (8 - size % 8) % 8;
	if (size < BORROW_BYTES_MIN)
		return copy_stream(w, data, size);
	return span_add(w, data, size) && (!pad || span_add(w, zeros, pad));
}

weir_status record_writer_add(struct record_writer *w, const struct section *s, const void *index, const void *data, bool borrow)
{
	weir_status status = section_fits(w, s);
	if (status)
		return status;
	assert((index || !s->index_bytes) && (data || !s->data_bytes));
	uint8_t *header = place(w, SECTION_HEADER_BYTES);
	if (!header || !copy_stream(w, index, s->index_bytes) ||
	    !(borrow ? borrow_stream(w, data, s->data_bytes) : copy_stream(w, data, s->data_bytes)))
		return w->status = WEIR_E_MEMORY;
	frame_put_section(header, s);
	w->record.sections++;
	return WEIR_OK;
}

weir_status record_writer_lend(struct record_writer *w, const struct section *s, const void *index, const void *data,
                               uint32_t data_crc)
{
	weir_status status = record_writer_add(w, s, index, data, true);
	if (status)
		return status;
	size_t end = w->bytes - (8 - s->data_bytes % 8) % 8; /* zeros follow data of odd length */
	if (s->data_bytes)
		w->known[w->known_count++] = (struct known_crc){end - s->data_bytes, end, data_crc};
	return WEIR_OK;
}

static bool copy_bytes(struct record_writer *w, const void *data, size_t size)
{
	uint8_t *p = size ? place(w, size) : NULL;
	if (p)
		memcpy(p, data, size);
	return p || !size;
}

weir_status record_writer_lend_pieces(struct record_writer *w, const struct section *s, const void *head, size_t head_bytes,
                                      struct cursor tail, size_t crc_from, uint32_t data_crc)
{
	static const uint8_t zeros[8];
	weir_status status = section_fits(w, s);
	if (status)
		return status;
	size_t filled = head_bytes + tail.left, padded = (s->data_bytes + 7ull) / 8 * 8;
	assert(!s->index_bytes && filled <= s->data_bytes && padded - filled <= sizeof zeros && crc_from <= s->data_bytes);
	uint8_t *header = place(w, SECTION_HEADER_BYTES);
	size_t begin = w->bytes;
	bool fits = header && copy_bytes(w, head, head_bytes);
	while (fits && tail.left) {
		const uint8_t *run;
		size_t n = cursor_run(&tail, 1, tail.left, NULL, &run);
		fits = n < BORROW_BYTES_MIN ? copy_bytes(w, run, n) : span_add(w, run, n);
	}
	if (!fits || !copy_bytes(w, zeros, padded - filled))
		return w->status = WEIR_E_MEMORY;
	frame_put_section(header, s);
	w->record.sections++;
	w->known[w->known_count++] = (struct known_crc){begin + crc_from, begin + s->data_bytes, data_crc};
	return WEIR_OK;
}

weir_status record_writer_reserve(struct record_writer *w, const struct section *s, uint8_t **index, uint8_t **data)
{
	weir_status status = section_fits(w, s);
	if (status)
		return status;
	size_t index_padded = (s->index_bytes + 7ull) / 8 * 8, data_padded = (s->data_bytes + 7ull) / 8 * 8;
	uint8_t *header = place(w, SECTION_HEADER_BYTES + index_padded + data_padded);
	if (!header)
		return w->status = WEIR_E_MEMORY;
	frame_put_section(header, s);
	*index = header + SECTION_HEADER_BYTES;
	*data = *index + index_padded;
	memset(*index + s->index_bytes, 0, index_padded - s->index_bytes);
	memset(*data + s->data_bytes, 0, data_padded - s->data_bytes);
	w->record.sections++;
	return WEIR_OK;
}

/* crc32c over a run of the record that begins `at` bytes into the frame, without reading known
 * ranges. */
static uint32_t run_crc(uint32_t crc, const struct known_crc **known, const struct known_crc *end, size_t at, struct span run)
{
	while (run.size) {
		const struct known_crc *k = *known;
		size_t n = run.size;
		if (k < end && at >= k->begin) {
			n = k->end - at < n ? k->end - at : n;
			if (at + n == k->end) {
				crc = crc32c_append(crc, k->crc, k->end - k->begin);
				++*known;
			}
		} else {
			n = k < end && k->begin - at < n ? k->begin - at : n;
			crc = crc32c(crc, run.data, n);
		}
		at += n;
		run.data += n;
		run.size -= n;
	}
	return crc;
}

/* crc32c over the spans from the record's beginning on. */
static uint32_t record_crc(const struct record_writer *w)
{
	uint32_t crc = 0;
	const struct known_crc *known = w->known, *end = w->known + w->known_count;
	size_t at = w->bytes_before;
	for (uint32_t i = w->first_span; i < w->spans_count; i++) {
		size_t skip = i == w->first_span ? w->first_span_offset : 0;
		const struct span run = {w->spans[i].data + skip, w->spans[i].size - skip};
		crc = run_crc(crc, &known, end, at, run);
		at += run.size;
	}
	return crc;
}

weir_status record_writer_end(struct record_writer *w)
{
	assert(w->open);
	w->open = false;
	/* Rolls back to the record's beginning; its block memory is freed with the frame. */
	if (w->status) {
		if (w->spans_count) {
			w->spans_count = w->first_span + 1;
			w->spans[w->first_span].size = w->first_span_offset;
		}
		w->bytes = w->bytes_before;
		return w->status;
	}
	w->record.bytes = (uint32_t)(w->bytes - w->bytes_before);
	w->record.crc = 0;
	frame_put_record(w->record_header, &w->record);
	w->record.crc = record_crc(w);
	frame_put_record(w->record_header, &w->record);
	w->records++;
	return WEIR_OK;
}

size_t record_writer_bytes(const struct record_writer *w)
{
	return w->bytes;
}
uint32_t record_writer_records(const struct record_writer *w)
{
	return w->records;
}

/* What a finished frame owns: its blocks, and the memory lent by the caller. */
struct frame_owner {
	struct block *blocks;
	void (*release)(struct message *);
	void *owner;
};

static void frame_release(struct message *m)
{
	struct frame_owner *o = m->owner;
	if (o->release) {
		m->owner = o->owner;
		o->release(m);
	}
	blocks_destroy(o->blocks);
	free(o);
}

struct message *record_writer_finish(struct record_writer *w, const uint8_t uuid[16], uint64_t generation,
                                     void (*release)(struct message *), void *owner)
{
	assert(!w->open);
	struct message *m = NULL;
	struct frame_owner *o = malloc(sizeof *o);
	if (o && (w->header || (w->header = place(w, FRAME_HEADER_BYTES)))) {
		struct frame_header h = {.records = w->records, .body_bytes = w->bytes - FRAME_HEADER_BYTES, .generation = generation};
		memcpy(h.uuid, uuid, 16);
		frame_put_header(w->header, &h);
		*o = (struct frame_owner){w->blocks, release, owner};
		m = message_create(w->spans, w->spans_count, frame_release, o);
	}
	if (!m) {
		blocks_destroy(w->blocks);
		free(o);
	}
	writer_clear(w);
	return m;
}
