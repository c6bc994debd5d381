#include "worker/client/push_stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/compress.h"
#include "worker/client/api_struct.h"
#include "worker/client/push_plan.h"

struct push_stream {
	weir_client *client;
	struct push_run run; /* of one that has begun */
	bool begun;
	struct push *push;     /* its own until it has begun, then the operation's; NULL: it could not begin */
	weir_push_item *items; /* (items_count) as opened */
	size_t items_count, layered;
	uint32_t *waits;   /* (parts) sections of other items, and chunks, that are not there yet */
	uint32_t *part_of; /* (chunks) */
	bool *came;        /* (chunks) */
	bool *now, *sent;  /* (parts) */
	bool not_finite;
};

bool push_streams(const weir_table_spec *spec)
{
	return !compressor_is_needed(spec) && spec->push.rows == 0;
}

static void release(struct push_stream *s)
{
	free(s->items);
	free(s->waits);
	free(s->part_of);
	free(s->came);
	free(s->now);
	free(s->sent);
	free(s);
}

/* Notes what each part waits for. */
static void note_parts(struct push_stream *s)
{
	const struct push *p = s->push;
	for (uint32_t i = 0; i < p->parts_count; i++)
		for (uint32_t j = p->parts[i].first; j < p->parts[i].first + p->parts[i].count; j++) {
			const struct section_plan *section = &p->sections[j];
			if (section->item != s->layered) {
				s->waits[i]++;
				continue;
			}
			s->waits[i] += section->end - section->begin;
			for (uint32_t at = section->begin; at < section->end; at++)
				s->part_of[p->items[s->layered].groups.keys[at]] = i;
		}
}

static struct push_stream *create(weir_client *c, const weir_push_item *items, size_t count, size_t layered, struct push *p)
{
	struct push_stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	const uint64_t chunks = weir_chunks(p->items[layered].table->spec.elements);
	s->client = c;
	s->push = p;
	s->layered = layered;
	s->items_count = count;
	s->items = malloc(count * sizeof *s->items);
	s->waits = calloc(p->parts_count + 1u, sizeof *s->waits);
	s->part_of = calloc(chunks, sizeof *s->part_of);
	s->came = calloc(chunks, sizeof *s->came);
	s->now = calloc(p->parts_count + 1u, sizeof *s->now);
	s->sent = calloc(p->parts_count + 1u, sizeof *s->sent);
	if (s->items && s->waits && s->part_of && s->came && s->now && s->sent) {
		memcpy(s->items, items, count * sizeof *items);
		return s;
	}
	release(s);
	return NULL;
}

weir_status push_stream_open(struct push_stream **out, weir_client *c, const weir_push_item *items, size_t count, size_t layered,
                             const weir_push_options *options, weir_error *err)
{
	weir_push_options o;
	if (api_struct_read(API_weir_push_options, &o, options, err) != WEIR_OK)
		return err->status;
	struct push *p = push_open(c, items, count, &(struct push_reading){.copy = c->ack_sent, .later = true}, err);
	if (!p)
		return err->status;
	for (size_t i = 0; i < count; i++)
		assert(push_streams(&p->items[i].table->spec));
	p->place = o.place;
	p->weight = o.weight;
	struct push_stream *s = create(c, items, count, layered, p);
	if (!s) {
		push_destroy(p);
		return weir_fail(err, WEIR_E_MEMORY, "push: out of memory");
	}
	note_parts(s);
	*out = s;
	return WEIR_OK;
}

weir_status push_stream_begin(struct push_stream *s, const weir_batch *batch, weir_ticket *ticket, weir_error *err)
{
	struct push *p = s->push;
	s->push = NULL; /* push_begin frees it if it fails; else the operation does */
	const weir_status status = push_begin(&s->run, s->client, batch, p, err);
	if (status != WEIR_OK)
		return status;
	s->push = p;
	s->begun = true;
	*ticket = s->run.told->ticket;
	return WEIR_OK;
}

/* One of the things that the part waits for is there. */
static void note_came(struct push_stream *s, uint32_t part)
{
	assert(s->waits[part] > 0);
	s->now[part] = --s->waits[part] == 0 && s->run.wanted[part];
}

static void take_chunk(struct push_stream *s, uint64_t chunk)
{
	assert(!s->came[chunk]);
	s->came[chunk] = true;
	s->not_finite |= !push_read_chunk(&s->push->items[s->layered], chunk);
	note_came(s, s->part_of[chunk]);
}

/* Sends the parts that have become complete. */
static weir_status send_complete(struct push_stream *s, weir_error *err)
{
	const weir_table_spec *spec = &s->push->items[s->layered].table->spec;
	if (s->not_finite)
		return weir_fail(err, WEIR_E_NOT_FINITE, "push to table %s: the gradient has a NaN or an infinity; the batch is left out",
		                 spec->name);
	const weir_status status = push_send(s->run.op, &s->run.send, s->now);
	for (uint32_t i = 0; i < s->push->parts_count; i++) {
		s->sent[i] |= s->now[i];
		s->now[i] = false;
	}
	return status == WEIR_OK ? status : weir_fail(err, status, "push: out of memory");
}

weir_status push_stream_chunks(struct push_stream *s, const uint64_t *chunks, size_t count, weir_error *err)
{
	for (size_t i = 0; i < count && !s->not_finite; i++)
		take_chunk(s, chunks[i]);
	return send_complete(s, err);
}

/* The values of all other items are there. */
static weir_status take_others(struct push_stream *s, weir_error *err)
{
	const struct push *p = s->push;
	for (size_t i = 0; i < s->items_count; i++)
		if (i != s->layered && push_read_item(&s->push->items[i], &s->items[i], err) != WEIR_OK)
			return err->status;
	for (uint32_t i = 0; i < p->parts_count; i++)
		for (uint32_t j = p->parts[i].first; j < p->parts[i].first + p->parts[i].count; j++)
			if (p->sections[j].item != s->layered)
				note_came(s, i);
	return WEIR_OK;
}

weir_status push_stream_close(struct push_stream *s, weir_error *err)
{
	const uint64_t chunks = weir_chunks(s->push->items[s->layered].table->spec.elements);
	for (uint64_t i = 0; i < chunks && !s->not_finite; i++)
		if (!s->came[i])
			take_chunk(s, i);
	weir_status status = s->not_finite ? WEIR_OK : take_others(s, err);
	if (status == WEIR_OK)
		status = send_complete(s, err);
	if (status == WEIR_E_NOT_FINITE)
		push_withdraw(&s->run, s->sent, err->text);
	push_end(&s->run, status == WEIR_E_NOT_FINITE ? WEIR_OK : status);
	release(s);
	return status;
}

void push_stream_abort(struct push_stream *s)
{
	if (!s)
		return;
	if (s->begun)
		push_end(&s->run, WEIR_E_CANCELLED);
	else if (s->push)
		push_destroy(s->push);
	release(s);
}
