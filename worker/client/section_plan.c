/* Turns a piece of a push into a section. Dense fp32 values are sent from the caller's memory, rows
 * of embeddings are gathered, and compressed values are coded by the table's encoder, once. */
#include <stdlib.h>
#include <string.h>

#include "kernels/book.h"
#include "kernels/codec.h"
#include "proto/frame/section_keys.h"
#include "worker/client/pack.h"
#include "worker/client/push_plan.h"
#include "worker/client/row_sparsifier.h"

/* --- Coding */

/* For the parts that will be written: notes the chunks of each item, the most rows of a piece, and
 * the memory for the largest coded piece. */
static weir_status note_wanted(struct push *p, const bool *wanted, weir_error *err)
{
	size_t most = 0;
	for (size_t i = 0; i < p->items_count; i++) {
		struct push_item *item = &p->items[i];
		if (item->encoder && !(item->wanted = calloc(item->table->spec.elements / WEIR_CHUNK + 1, sizeof *item->wanted)))
			return weir_fail(err, WEIR_E_MEMORY, "push: out of memory");
	}
	for (uint32_t i = 0; i < p->parts_count; i++)
		for (uint32_t j = 0; wanted[i] && j < p->parts[i].count; j++) {
			const struct section_plan *section = &p->sections[p->parts[i].first + j];
			struct push_item *item = &p->items[section->item];
			const uint32_t rows = section->end - section->begin;
			item->rows_max = rows > item->rows_max ? rows : item->rows_max;
			if (!item->encoder)
				continue;
			const size_t bytes = section_plan_bytes(item, section->begin, section->end);
			most = bytes > most ? bytes : most;
			for (uint32_t at = section->begin; at < section->end; at++)
				item->wanted[item->groups.keys[at]] = true;
		}
	p->coded_room = most;
	return most && !(p->coded = malloc(most)) ? weir_fail(err, WEIR_E_MEMORY, "push: out of memory") : WEIR_OK;
}

/* Nothing of the push will be sent, and its batch is executed again. Makes encoders forget, so that
 * they do not take in the values twice. */
static void coding_abort(struct push *p)
{
	for (size_t i = 0; i < p->items_count; i++) {
		struct push_item *item = &p->items[i];
		if (item->encoder)
			item->encoder->forget(item->encoder->arg);
		item->coding = false;
	}
}

weir_status coding_begin(weir_client *c, struct push *p, const bool *wanted, weir_error *err)
{
	bool any = false;
	for (size_t i = 0; i < p->items_count; i++)
		any |= p->items[i].encoder || p->items[i].kept;
	if (!any)
		return WEIR_OK;
	if (!rpc_loop_is_current(c->loop))
		pthread_mutex_lock(&c->coding);
	else if (pthread_mutex_trylock(&c->coding))
		return weir_fail(err, WEIR_E_BUSY, "another push is being compressed: a callback cannot wait for it");
	p->coding = true;
	weir_status status = note_wanted(p, wanted, err);
	for (size_t i = 0; i < p->items_count && !status; i++) {
		struct push_item *item = &p->items[i];
		if (item->encoder)
			status = item->encoder->begin(item->encoder->arg, item->values, item->wanted, err);
		else if (item->kept)
			status = row_sparsifier_begin(item->kept, item->rows_max, err);
		item->coding = status == WEIR_OK;
	}
	if (status)
		coding_abort(p);
	return status;
}

void coding_end(weir_client *c, struct push *p)
{
	if (!p->coding)
		return;
	for (size_t i = 0; i < p->items_count; i++) {
		const struct push_item *item = &p->items[i];
		if (item->coding && item->encoder)
			item->encoder->end(item->encoder->arg);
		else if (item->coding && item->kept)
			row_sparsifier_end(item->kept);
	}
	tables_note_compression(c);
	p->coding = false;
	pthread_mutex_unlock(&c->coding);
}

/* --- LZ4 */

struct packing {
	bool index, data; /* streams to try */
};

static struct packing packing_due(const struct push_item *item, const struct section *s)
{
	struct packing due = {false, false};
	if (item->pack) {
		due.index = pack_is_due(&item->table->pack_index, s->index_bytes);
		due.data = pack_is_due(&item->table->pack_data, s->data_bytes);
	}
	return due;
}

/* Adds the section with the streams packed that get smaller. Returns false, with nothing written,
 * if neither does. */
static bool add_packed(struct record_writer *w, const struct push_item *item, struct packing due, struct section s,
                       const void *index, const void *data)
{
	struct table *t = item->table;
	const size_t index_bytes = s.index_bytes;
	uint8_t *packed = due.index || due.data ? malloc(index_bytes + s.data_bytes) : NULL;
	if (!packed)
		return false;
	size_t bytes = due.index ? pack_stream(&t->pack_index, index, index_bytes, packed) : 0;
	if (bytes) {
		s.flags |= SECTION_LZ4_INDEX;
		s.index_bytes = (uint32_t)bytes;
		index = packed;
	}
	bytes = due.data ? pack_stream(&t->pack_data, data, s.data_bytes, packed + index_bytes) : 0;
	if (bytes) {
		s.flags |= SECTION_LZ4_DATA;
		s.data_bytes = (uint32_t)bytes;
		data = packed + index_bytes;
	}
	if (s.flags)
		/* record_writer_end repeats a refusal */
		(void)record_writer_add(w, &s, index, data, false);
	free(packed);
	return s.flags != 0;
}

static void write_coded(struct record_writer *w, const struct push *p, const struct push_item *item,
                        const struct section_plan *section, struct section *s)
{
	const uint64_t *keys = item->groups.keys + section->begin;
	const weir_encoder *e = item->encoder;
	size_t bytes = coder_head(e, &item->table->spec.push, p->coded);
	for (uint32_t i = 0; i < s->rows; i++)
		bytes += e->chunk(e->arg, keys[i], p->coded + bytes, p->coded_room - bytes);
	s->aux = coder_aux(&item->table->spec.push);
	s->data_bytes = (uint32_t)bytes;
	if (!add_packed(w, item, packing_due(item, s), *s, keys, p->coded))
		/* record_writer_end repeats a refusal */
		(void)record_writer_add(w, s, keys, p->coded, false);
}

/* --- Sections */

/* The rows of a piece that are sent. */
static struct rows rows_of(const struct push_item *item, const struct section_plan *section)
{
	const struct rows all = {.keys = item->groups.keys + section->begin,
	                         .order = item->groups.order + section->begin,
	                         .values = item->values,
	                         .scores = item->scores,
	                         .count = section->end - section->begin};
	return item->kept ? row_sparsifier_select(item->kept, &all) : all;
}

static void write_rows(const struct push_item *item, const struct rows *rows, uint8_t *data)
{
	const weir_table_spec *spec = &item->table->spec;
	const struct coding coding = {.codec = item->codec, .book = book_known(spec->push.book)};
	for (uint32_t i = 0; i < rows->count; i++, data += item->row_bytes) {
		const size_t at = rows->order ? rows->order[i] : i;
		if (item->encoded)
			memcpy(data, item->encoded + at * item->row_bytes, item->row_bytes);
		else
			codec_encode(&coding, rows->values + at * spec->width, NULL, spec->width, data);
	}
}

/* Writes both streams of a section whose values are gathered or coded here, without a residual. */
static void fill(const struct push_item *item, const struct rows *rows, const struct section *s, uint8_t *index, uint8_t *data)
{
	section_keys_write(s, rows->keys, index);
	if (item->table->spec.kind == WEIR_EMBEDDING)
		write_rows(item, rows, data);
	else
		codec_encode(&(struct coding){.codec = item->codec}, item->values + rows->keys[0] * WEIR_CHUNK, NULL,
		             s->data_bytes / item->element_bytes, data);
}

static void write_filled(struct record_writer *w, const struct push_item *item, const struct rows *rows, const struct section *s)
{
	const struct packing due = packing_due(item, s);
	uint8_t *own = due.index || due.data ? malloc((size_t)s->index_bytes + s->data_bytes) : NULL, *index, *data;
	if (own) {
		index = own;
		data = own + s->index_bytes;
		fill(item, rows, s, index, data);
		if (!add_packed(w, item, due, *s, index, data))
			/* record_writer_end repeats a refusal */
			(void)record_writer_add(w, s, index, data, false);
		free(own);
	} else if (record_writer_reserve(w, s, &index, &data) == WEIR_OK) { /* as it does here */
		fill(item, rows, s, index, data);
	}
}

static bool write_dense(struct record_writer *w, const struct push_item *item, const struct section_plan *section,
                        struct section *s)
{
	const struct rows chunks = {.keys = item->groups.keys + section->begin};
	s->data_bytes = (uint32_t)section_plan_bytes(item, section->begin, section->end) - s->index_bytes;
	if (!item->encoded) {
		write_filled(w, item, &chunks, s);
		return false;
	}
	const uint8_t *data = item->encoded + chunks.keys[0] * WEIR_CHUNK * item->element_bytes;
	if (add_packed(w, item, packing_due(item, s), *s, chunks.keys, data))
		return false;
	if (item->crcs)
		(void)record_writer_lend(w, s, chunks.keys, data, section_plan_crc(item, section));
	else
		(void)record_writer_add(w, s, chunks.keys, data, item->borrow);
	return item->borrow;
}
static void write_embedding(struct record_writer *w, const struct push_item *item, const struct section_plan *section,
                            struct section *s)
{
	const weir_table_spec *spec = &item->table->spec;
	const struct rows rows = rows_of(item, section);
	s->rows = rows.count;
	s->width = spec->width;
	s->data_bytes = (uint32_t)(rows.count * item->row_bytes);
	s->aux = codec_has_use(item->codec, WEIR_CODES_BY_BOOK) ? (uint64_t)spec->push.book : 0;
	section_keys_plan(s, rows.keys);
	write_filled(w, item, &rows, s);
}

bool section_plan_write(struct record_writer *w, const struct push *p, const struct section_plan *section)
{
	const struct push_item *item = &p->items[section->item];
	struct section s = {.table = (uint16_t)item->table->id, .codec = (uint8_t)item->codec, .index_codec = INDEX_RAW};
	if (item->table->spec.kind == WEIR_EMBEDDING) {
		write_embedding(w, item, section, &s);
		return false;
	}
	s.rows = section->end - section->begin;
	s.width = WEIR_CHUNK;
	s.index_bytes = s.rows * (uint32_t)sizeof(uint64_t);
	if (!item->encoder)
		return write_dense(w, item, section, &s);
	write_coded(w, p, item, section, &s);
	return false;
}
