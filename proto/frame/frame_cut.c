/* Makes a frame of some records of another: the part that still goes to another server, as it was
 * written. */
#include <assert.h>
#include <stdlib.h>

#include "proto/frame/frame.h"

struct cut {
	struct message *of;
	uint8_t header[FRAME_HEADER_BYTES];
	struct span spans[]; /* (count) */
};

static void cut_release(struct message *m)
{
	struct cut *cut = m->owner;
	message_release(cut->of);
	free(cut);
}

/* Returns the next n bytes as spans. */
static uint32_t take_spans(struct cursor *c, size_t n, struct span *out)
{
	struct cursor part = cursor_take(c, n);
	uint32_t count = 0;
	uint8_t straddle;
	for (const uint8_t *run; (n = cursor_run(&part, 1, SIZE_MAX, &straddle, &run)) > 0;)
		out[count++] = (struct span){run, n};
	return count;
}

struct message *frame_cut(struct message *frame, const bool *keep)
{
	struct cursor c = cursor_at(frame);
	struct frame_header h;
	weir_status status = frame_open(&c, &h, NULL);
	assert(status == WEIR_OK);
	struct cut *cut = malloc(sizeof *cut + (1 + frame->count + (size_t)h.records) * sizeof *cut->spans);
	if (!cut)
		return NULL;
	const uint32_t records = h.records;
	uint32_t count = 1;
	h.records = 0;
	h.body_bytes = 0;
	for (uint32_t i = 0; i < records; i++) {
		struct cursor at = c, body;
		struct record r;
		status = frame_next_record(&c, false, &r, &body, NULL);
		assert(status == WEIR_OK);
		if (!keep[i])
			continue;
		count += take_spans(&at, r.bytes, cut->spans + count);
		h.records++;
		h.body_bytes += r.bytes;
	}
	frame_put_header(cut->header, &h);
	cut->spans[0] = (struct span){cut->header, sizeof cut->header};
	struct message *m = message_create(cut->spans, count, cut_release, cut);
	if (!m) {
		free(cut);
		return NULL;
	}
	cut->of = message_retain(frame);
	return m;
}
