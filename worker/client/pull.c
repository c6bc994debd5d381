/* Pull: the rows of all items, grouped by partition. A request is one PULL record to one partition,
 * with about a message's worth of answer. Answers are decoded straight from the received slices
 * into the caller's memory. For dense tables with coded pulls, a batch's pull asks for the
 * differences from the version held (held.h), whose values are then copied. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "kernels/codec.h"
#include "proto/frame/section_keys.h"
#include "worker/client/client.h"
#include "worker/client/partition_keys.h"
#include "worker/client/pulled_base.h"

#define REPLY_HEADERS_BYTES 256u /* approximate */

struct pull_item {
	const struct table *table;
	float *values;
	weir_codec codec;         /* requested */
	struct pulled_base *held; /* NULL: no differences */
	size_t row_bytes;         /* encoded, of a whole row; at most */
	struct partition_keys groups;
};

struct section_plan { /* becomes one section: rows [begin, end) of an item's split */
	uint32_t item, begin, end;
};

struct plan_request {
	uint32_t partition, first, count;
	size_t reply_bytes;
};

struct pull_modes { /* whether some of its tables are */
	bool synchronous, clocked;
};

struct pull {
	struct pull_item *items;
	size_t items_count;
	struct section_plan *sections;
	uint32_t sections_count, sections_capacity;
	struct plan_request *plan;
	uint32_t plan_count, plan_capacity;
};

static void pull_destroy(struct pull *p)
{
	for (size_t i = 0; p->items && i < p->items_count; i++)
		partition_keys_destroy(&p->items[i].groups);
	free(p->items);
	free(p->sections);
	free(p->plan);
	free(p);
}

static void destroy(struct operation *op)
{
	pull_destroy(op->payload);
}

/* coded: with the table's pull codec; else fp32. */
static weir_status item_open(weir_client *c, struct pull_item *out, const weir_pull_item *in, bool coded,
                             struct pull_modes *modes, weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	const struct table *t = client_table(c, in->table, err);
	pthread_mutex_unlock(&c->lock);
	if (!t)
		return WEIR_E_NOT_FOUND;
	const weir_table_spec *spec = &t->spec;
	bool embedding = spec->kind == WEIR_EMBEDDING;
	if (embedding ? !in->keys && in->rows : !chunks_are_listed(spec, in->keys, in->rows))
		return weir_fail(err, WEIR_E_INVALID, "pull of table %s: %s", spec->name,
		                 embedding ? "keys are missing" : CHUNKS_EXPECTED);
	if (!in->values && (!embedding || in->rows))
		return weir_fail(err, WEIR_E_INVALID, "pull of table %s: no memory for the values", spec->name);
	out->table = t;
	out->values = in->values;
	out->codec = coded ? spec->pull.codec : WEIR_CODEC_FP32;
	const bool differences = coded && pulled_base_is_needed(spec);
	if (differences && !(out->held = tables_held(c, t->id, err)))
		return WEIR_E_MEMORY;
	out->row_bytes = embedding     ? codec_bytes(out->codec, spec->width)
	                 : differences ? WEIR_CHUNK * sizeof(float) + DIFFERENCES_HEADER_BYTES
	                               : WEIR_CHUNK * sizeof(float);
	modes->synchronous |= spec->mode.kind == WEIR_SYNC;
	modes->clocked |= spec->mode.kind == WEIR_SSP;
	weir_status status = embedding ? partition_keys_split(&out->groups, t->id, in->keys, in->rows, c->partitions)
	                               : partition_chunks_split(&out->groups, t->id, in->keys,
	                                                        in->keys ? in->rows : weir_chunks(spec->elements), c->partitions);
	return status == WEIR_OK
	           ? status
	           : weir_fail(err, status, "pull of table %s: %zu rows: %s", spec->name, in->rows, weir_status_text(status));
}

/* Makes room for one more element in a growing array. */
static bool grow(void **array, uint32_t count, uint32_t *capacity, size_t bytes)
{
	if (count < *capacity)
		return true;
	uint32_t wanted = *capacity ? 2 * *capacity : 8;
	void *grown = realloc(*array, wanted * bytes);
	if (!grown)
		return false;
	*array = grown;
	*capacity = wanted;
	return true;
}

/* Divides the rows of one partition into requests. */
static bool plan_partition(struct pull *p, uint32_t partition)
{
	struct plan_request *open = NULL;
	size_t key_bytes = 0;
	for (uint32_t i = 0; i < p->items_count; i++) {
		const struct pull_item *item = &p->items[i];
		uint32_t at = item->groups.offsets[partition], end = item->groups.offsets[partition + 1];
		while (at < end) {
			size_t row_cost = item->row_bytes > sizeof(uint64_t) ? item->row_bytes : sizeof(uint64_t);
			size_t used = open ? (open->reply_bytes > key_bytes ? open->reply_bytes : key_bytes) : 0;
			size_t room = used < WEIR_MESSAGE_BYTES_TARGET ? (WEIR_MESSAGE_BYTES_TARGET - used) / row_cost : 0;
			if (open && (room == 0 || open->count == WEIR_RECORD_SECTIONS_MAX)) {
				open = NULL;
				continue;
			}
			if (!open) {
				if (!grow((void **)&p->plan, p->plan_count, &p->plan_capacity, sizeof *p->plan))
					return false;
				open = &p->plan[p->plan_count++];
				*open = (struct plan_request){.partition = partition, .first = p->sections_count};
				key_bytes = 0;
				room = room ? room : 1;
			}
			uint32_t rows = room < end - at ? (uint32_t)room : end - at;
			if (!grow((void **)&p->sections, p->sections_count, &p->sections_capacity, sizeof *p->sections))
				return false;
			p->sections[p->sections_count++] = (struct section_plan){.item = i, .begin = at, .end = at + rows};
			open->count++;
			open->reply_bytes += rows * item->row_bytes;
			key_bytes += rows * sizeof(uint64_t);
			at += rows;
		}
	}
	return true;
}

static void write_held(const struct pull_item *item, const uint64_t *chunks, uint32_t count, uint8_t *out)
{
	for (uint32_t i = 0; i < count; i++, out += PULL_HELD_BYTES) {
		const struct pulled_base_version v = pulled_base_version(item->held, chunks[i]);
		put64(out, v.origin);
		put64(out + 8, v.version);
	}
}

/* Approximate size of the answer to one piece. */
static size_t expected_bytes(const struct pull_item *item, const struct section_plan *section, bool differences)
{
	size_t bytes = 0;
	if (!differences)
		return (section->end - section->begin) * item->row_bytes;
	for (uint32_t i = section->begin; i < section->end; i++)
		bytes += pulled_base_expected(item->held, item->groups.keys[i]);
	return bytes;
}

weir_status pull_pack(struct record_writer *w, struct request *q)
{
	const struct operation *op = q->op;
	const struct pull *p = op->payload;
	const bool traced = op->has_batch && trace_is_on(op->client->trace);
	const weir_batch of = traced ? op->batch : (weir_batch){0};
	const struct record r = {.kind = RECORD_PULL,
	                         .pass = of.pass,
	                         .unit = of.unit,
	                         .attempt = of.attempt,
	                         .batch = of.batch,
	                         .partition = q->partition,
	                         .request_id = operation_request_id(op, q),
	                         .pull = {.applied_least = read_floor(op->client, q->partition),
	                                  .step_least = op->floor,
	                                  .place = atomic_load_explicit(&op->client->pushed_place, memory_order_relaxed),
	                                  .age_ms_max = q->elsewhere ? op->client->read.staleness_ms : 0}};
	record_writer_begin(w, &r);
	q->reply_bytes = REPLY_HEADERS_BYTES;
	for (uint32_t i = q->first; i < q->first + q->count; i++) {
		const struct section_plan *section = &p->sections[i];
		const struct pull_item *item = &p->items[section->item];
		const weir_table_spec *spec = &item->table->spec;
		const uint32_t rows = section->end - section->begin;
		const uint64_t *keys = item->groups.keys + section->begin;
		const bool differences = item->held && !q->elsewhere; /* only primaries have them */
		uint8_t *index, *held;
		struct section s = {.table = (uint16_t)item->table->id,
		                    .codec = (uint8_t)(item->held && !differences ? WEIR_CODEC_FP32 : item->codec),
		                    .index_codec = INDEX_RAW,
		                    .rows = rows,
		                    .width = spec->kind == WEIR_EMBEDDING ? spec->width : WEIR_CHUNK,
		                    .index_bytes = rows * (uint32_t)sizeof(uint64_t),
		                    .data_bytes = differences ? rows * PULL_HELD_BYTES : 0};
		if (spec->kind == WEIR_EMBEDDING)
			section_keys_plan(&s, keys);
		if (differences)
			pulled_base_begin(item->held, op->client->incarnation);
		q->reply_bytes += expected_bytes(item, section, differences);
		/* record_writer_end reports it again */
		if (record_writer_reserve(w, &s, &index, &held) != WEIR_OK)
			continue;
		section_keys_write(&s, keys, index);
		if (differences)
			write_held(item, keys, rows, held);
	}
	return record_writer_end(w);
}

/* Writes row values of an embedding, each to its place in the caller's array. */
static weir_status scatter_rows(weir_client *c, const struct pull_item *item, const struct section_plan *section,
                                struct cursor data)
{
	const weir_table_spec *spec = &item->table->spec;
	size_t width = spec->width;
	for (uint32_t i = section->begin; i < section->end;) {
		const uint8_t *run;
		size_t rows = cursor_run(&data, item->row_bytes, section->end - i, c->scratch, &run);
		if (!rows)
			return WEIR_E_CORRUPT;
		for (size_t r = 0; r < rows; r++, i++, run += item->row_bytes)
			codec_decode(&(struct coding){.codec = item->codec}, run, width, item->values + item->groups.order[i] * width);
	}
	return WEIR_OK;
}

/* Copies chunks of a dense table in fp32, as element runs from the slices. */
static weir_status scatter_chunks(const struct pull_item *item, const struct section_plan *section, struct cursor data)
{
	const weir_table_spec *spec = &item->table->spec;
	uint8_t straddle[sizeof(float)];
	for (uint32_t i = section->begin; i < section->end; i++) {
		uint64_t left = weir_chunk_elements(spec->elements, item->groups.keys[i]);
		for (float *out = item->values + item->groups.keys[i] * WEIR_CHUNK; left;) {
			const uint8_t *run;
			size_t n = cursor_run(&data, sizeof(float), left, straddle, &run);
			if (!n)
				return WEIR_E_CORRUPT;
			codec_decode_cold(&(struct coding){.codec = WEIR_CODEC_FP32}, run, n, out);
			out += n;
			left -= n;
		}
	}
	return WEIR_OK;
}

/* Applies differences to the held values, and copies the result. E_NOT_CURRENT: some chunks must be
 * asked for again; the others are applied. */
static weir_status take_differences(weir_client *c, const struct pull_item *item, const struct section_plan *section,
                                    const struct section *s, weir_error *err)
{
	const weir_table_spec *spec = &item->table->spec;
	struct cursor data = s->data;
	weir_status lacks = WEIR_OK;
	assert(c->scratch_bytes >= HELD_SCRATCH_BYTES);
	for (uint32_t i = section->begin; i < section->end; i++) {
		const uint64_t chunk = item->groups.keys[i];
		const weir_status status = pulled_base_take(item->held, chunk, s->aux, &data, c->scratch, err);
		if (status && status != WEIR_E_NOT_CURRENT)
			return status;
		lacks = status ? status : lacks;
		if (!status)
			memcpy(item->values + chunk * WEIR_CHUNK, pulled_base_values(item->held, chunk),
			       weir_chunk_elements(spec->elements, chunk) * sizeof(float));
	}
	return lacks;
}

static weir_status take_section(weir_client *c, const struct pull_item *item, const struct section_plan *section,
                                const struct section *s, weir_error *err)
{
	const weir_table_spec *spec = &item->table->spec;
	if (item->held && s->codec != WEIR_CODEC_FP32)
		return take_differences(c, item, section, s, err);
	const weir_status status =
	    spec->kind == WEIR_EMBEDDING ? scatter_rows(c, item, section, s->data) : scatter_chunks(item, section, s->data);
	return status ? weir_fail(err, status, "the answer has %u bytes, too few for %u rows", s->data_bytes, s->rows) : WEIR_OK;
}

/* A server that cannot send differences answers in fp32. */
static bool is_answer(const struct pull_item *item, const struct section_plan *section, const struct section *s)
{
	return s->table == item->table->id && s->rows == section->end - section->begin &&
	       (s->codec == item->codec || (item->held && s->codec == WEIR_CODEC_FP32));
}

/* E_NOT_CURRENT: ask again. */
static weir_status take_sections(struct operation *op, const struct request *q, struct cursor *body, weir_error *err)
{
	weir_client *c = op->client;
	const struct pull *p = op->payload;
	weir_status lacks = WEIR_OK;
	for (uint32_t i = q->first; i < q->first + q->count; i++) {
		const struct section_plan *section = &p->sections[i];
		const struct pull_item *item = &p->items[section->item];
		const weir_table_spec *spec = &item->table->spec;
		struct section s;
		weir_status status = frame_next_section(body, &s, err);
		if (status != WEIR_OK)
			return status;
		if (!is_answer(item, section, &s))
			return weir_fail(err, WEIR_E_CORRUPT,
			                 "pull of table %s: the answer has %u rows of table %u in codec %u, asked were %u in codec %u",
			                 spec->name, s.rows, s.table, s.codec, section->end - section->begin, item->codec);
		weir_error why = {0};
		status = take_section(c, item, section, &s, &why);
		if (status && status != WEIR_E_NOT_CURRENT)
			return weir_fail(err, status, "pull of table %s: %s", spec->name, why.text);
		lacks = status ? status : lacks;
	}
	return lacks ? weir_fail(err, lacks, "what came are differences from what is not held") : WEIR_OK;
}

/* Notes the index that was applied when these values were read: this batch's push reports it. */
static void remember_applied(struct operation *op, uint16_t partition, uint64_t applied)
{
	weir_client *c = op->client;
	pthread_mutex_lock(&c->lock);
	if (applied > c->applied_seen[partition])
		c->applied_seen[partition] = applied;
	struct held_batch *b = op->has_batch ? batch_find(c, &op->batch, NULL, NULL) : NULL;
	if (b && !b->applied)
		b->applied = calloc(c->partitions, sizeof *b->applied);
	/* Of several pulls: the oldest. */
	if (b && b->applied && (!b->applied[partition] || applied < b->applied[partition]))
		b->applied[partition] = applied;
	pthread_mutex_unlock(&c->lock);
}

static weir_status ask_again(struct request *q)
{
	weir_client *c = q->op->client;
	pthread_mutex_lock(&c->lock);
	link_queue_pull(c->links[q->server], q);
	pthread_mutex_unlock(&c->lock);
	q->asked_again = true;
	return WEIR_OK;
}

static weir_status on_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body, weir_error *err)
{
	weir_client *c = op->client;
	/* Waits for a primary that has yet to commit this client's pushes, as the pushes themselves
	 * do. */
	const bool behind = r->status == WEIR_E_NOT_CURRENT && !op->floor;
	if (behind || ((r->status == WEIR_E_NOT_CURRENT || r->status == WEIR_E_BUSY) && q->retries++ < WEIR_RETRY_MAX))
		return ask_again(q);
	char text[256];
	if (r->status != WEIR_OK)
		return weir_fail(err, (weir_status)r->status, "server %s refused a pull from partition %u: %s",
		                 c->links[q->server]->address, q->partition, reply_text(r, *body, text, sizeof text));
	weir_status status = take_sections(op, q, body, err);
	if (status == WEIR_E_NOT_CURRENT && q->retries++ < WEIR_RETRY_MAX)
		return ask_again(q);
	if (status == WEIR_OK)
		remember_applied(op, q->partition, r->pull_reply.applied);
	return status;
}

static void on_finish(struct operation *op)
{
	atomic_fetch_sub_explicit(&op->client->pulls_in_flight, 1, memory_order_relaxed);
}

void pull_start(struct operation *op)
{
	for (uint32_t i = 0; i < op->requests_count; i++) {
		struct request *q = &op->requests[i];
		link_queue_pull(read_choose(q), q);
	}
}

void pull_go_on(struct operation *op)
{
	if (op->synchronous) {
		steps_submit(op->client, op);
		return;
	}
	pull_start(op);
	operation_unhold(op);
}

static struct pull *pull_open(weir_client *c, const weir_pull_item *items, size_t count, bool coded, struct pull_modes *modes,
                              weir_error *err)
{
	struct pull *p = calloc(1, sizeof *p);
	if (p)
		p->items = calloc(count + 1, sizeof *p->items);
	if (!p || !p->items) {
		free(p);
		(void)weir_fail(err, WEIR_E_MEMORY, "pull: out of memory");
		return NULL;
	}
	p->items_count = count;
	for (size_t i = 0; i < count; i++)
		if (item_open(c, &p->items[i], &items[i], coded, modes, err) != WEIR_OK) {
			pull_destroy(p);
			return NULL;
		}
	for (uint32_t partition = 0; partition < c->partitions; partition++)
		if (!plan_partition(p, partition)) {
			pull_destroy(p);
			(void)weir_fail(err, WEIR_E_MEMORY, "pull: out of memory");
			return NULL;
		}
	return p;
}

static void note_begin(weir_client *c, const weir_batch *batch)
{
	struct held_batch *b = batch ? batch_find(c, batch, NULL, NULL) : NULL;
	if (b)
		activity_batch_begins(c, b);
	activity_reads(c);
}

weir_status weir_pull(weir_client *c, const weir_batch *batch, const weir_pull_item *items, size_t count, weir_done_fn done,
                      void *arg, weir_ticket *ticket, weir_error *err)
{
	weir_error own = {0};
	struct pull_modes modes = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	struct pull *p = pull_open(c, items, count, batch != NULL, &modes, err);
	if (!p)
		return err->status;
	struct operation *op = operation_create(c, "pulling", p->plan_count, err);
	if (!op) {
		pull_destroy(p);
		return err->status;
	}
	op->stream = RPC_PULL_STREAM;
	op->payload = p;
	op->destroy = destroy;
	op->done = done;
	op->arg = arg;
	op->on_reply = on_reply;
	op->on_finish = on_finish;
	op->has_batch = batch != NULL;
	if (batch)
		op->batch = *batch;
	const bool waits = batch && c->options.role == WEIR_TRAINER;
	op->synchronous = modes.synchronous && waits;
	op->clocked = modes.clocked && waits;
	op->anywhere = !modes.synchronous && !op->clocked;
	for (uint32_t i = 0; i < p->plan_count; i++) {
		struct request *q = &op->requests[i];
		q->partition = (uint16_t)p->plan[i].partition;
		q->first = p->plan[i].first;
		q->count = p->plan[i].count;
		q->reply_bytes = p->plan[i].reply_bytes + REPLY_HEADERS_BYTES;
	}
	if (ticket)
		*ticket = op->ticket;
	atomic_fetch_add_explicit(&c->pulls_in_flight, 1, memory_order_relaxed);
	pthread_mutex_lock(&c->lock);
	note_begin(c, batch);
	op->next = NULL;
	*c->submitted_tail = op;
	c->submitted_tail = &op->next;
	links_wake(c);
	pthread_mutex_unlock(&c->lock);
	return WEIR_OK;
}
