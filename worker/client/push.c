/* Push: how a batch is cut into parts, and how parts become frames.
 *
 * The cut is a function of the schema and the batch's keys, never of the values. Per partition, first the asynchronous tables, then the synchronous
 * ones (an entry is applied at once or with its step): everything in one part when that fits WEIR_MESSAGE_BYTES_TARGET; else embedding rows in a power of two
 * of parts by a hash of the key, then dense chunks in order, grouped to the target. Parts are numbered in that order, also those without rows,
 * which are not sent. So a batch that is executed again has the same parts, and those that the servers hold already are left out. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "codec.h"
#include "hash.h"
#include "split.h"

struct push_item {
	const struct table *table;
	const float *values;
	const uint8_t *encoded;
	weir_codec codec;
	size_t element_bytes, row_bytes;
	bool borrow; /* the bytes to send lie in the caller's memory as they are, until done */
	struct split split;
};

struct piece {
	uint32_t item, begin, end;
};

struct part {
	uint16_t partition, part;
	bool synchronous;
	uint32_t first, count; /* pieces */
	size_t bytes;
};

struct push {
	struct push_item *items;
	size_t items_count;
	struct piece *pieces;
	uint32_t pieces_count, pieces_capacity;
	struct part *parts;
	uint32_t parts_count, parts_capacity;
	bool failed; /* out of memory while planning */
};

static void push_free(struct push *p)
{
	for (size_t i = 0; p->items && i < p->items_count; i++)
		split_free(&p->items[i].split);
	free(p->items);
	free(p->pieces);
	free(p->parts);
	free(p);
}

static void destroy(struct operation *op)
{
	push_free(op->payload);
}

static uint64_t chunk_elements(const weir_table_spec *spec, uint64_t chunk)
{
	uint64_t left = spec->elements - chunk * WEIR_CHUNK;
	return left < WEIR_CHUNK ? left : WEIR_CHUNK;
}

static size_t piece_bytes(const struct push_item *item, uint32_t begin, uint32_t end)
{
	const weir_table_spec *spec = &item->table->spec;
	if (spec->kind == WEIR_EMBEDDING)
		return (end - begin) * (sizeof(uint64_t) + item->row_bytes);
	size_t bytes = 0;
	for (uint32_t i = begin; i < end; i++)
		bytes += sizeof(uint64_t) + chunk_elements(spec, item->split.keys[i]) * item->element_bytes;
	return bytes;
}

/* --- Planning */

static struct part *part_open(struct push *p, uint32_t partition, uint32_t number, bool synchronous)
{
	if (p->parts_count == p->parts_capacity) {
		uint32_t capacity = p->parts_capacity ? 2 * p->parts_capacity : 16;
		struct part *grown = realloc(p->parts, capacity * sizeof *grown);
		if (!grown) {
			p->failed = true;
			return NULL;
		}
		p->parts = grown;
		p->parts_capacity = capacity;
	}
	struct part *part = &p->parts[p->parts_count++];
	*part = (struct part){.partition = (uint16_t)partition, .part = (uint16_t)number, .synchronous = synchronous, .first = p->pieces_count};
	return part;
}

static void part_add(struct push *p, struct part *part, uint32_t item, uint32_t begin, uint32_t end)
{
	if (begin == end || !part)
		return;
	if (p->pieces_count == p->pieces_capacity) {
		uint32_t capacity = p->pieces_capacity ? 2 * p->pieces_capacity : 16;
		struct piece *grown = realloc(p->pieces, capacity * sizeof *grown);
		if (!grown) {
			p->failed = true;
			return;
		}
		p->pieces = grown;
		p->pieces_capacity = capacity;
	}
	p->pieces[p->pieces_count++] = (struct piece){.item = item, .begin = begin, .end = end};
	part->count++;
	part->bytes += piece_bytes(&p->items[item], begin, end);
}

/* Dense rows: a piece per run of chunks that lie together in the caller's memory, so that they can be sent from there. */
static void part_add_chunks(struct push *p, struct part *part, uint32_t item, uint32_t begin, uint32_t end)
{
	const uint64_t *chunk = p->items[item].split.keys;
	for (uint32_t at = begin; at < end;) {
		uint32_t run = at + 1;
		while (run < end && chunk[run] == chunk[run - 1] + 1)
			run++;
		part_add(p, part, item, at, run);
		at = run;
	}
}

static bool item_in_class(const struct push_item *item, bool synchronous, weir_table_kind kind)
{
	return (item->table->spec.mode.kind == WEIR_SYNC) == synchronous && item->table->spec.kind == kind;
}

static size_t class_bytes(const struct push *p, uint32_t partition, bool synchronous, weir_table_kind kind)
{
	size_t bytes = 0;
	for (uint32_t i = 0; i < p->items_count; i++)
		if (item_in_class(&p->items[i], synchronous, kind))
			bytes += piece_bytes(&p->items[i], p->items[i].split.offsets[partition], p->items[i].split.offsets[partition + 1]);
	return bytes;
}

static uint32_t subset_of(uint64_t key, uint32_t subsets)
{
	return (uint32_t)(hash_u64(key ^ 0x5bd1e9955bd1e995ull) >> 32) & (subsets - 1);
}

/* Groups a partition's rows of one item by subset, in place; starts (subsets + 1) get the groups' bounds. */
static bool group_by_subset(struct split *s, uint32_t begin, uint32_t end, uint32_t subsets, uint32_t *starts)
{
	uint32_t rows = end - begin, next[WEIR_BATCH_PARTS_MAX];
	uint64_t *keys = malloc(rows * sizeof *keys + 1);
	uint32_t *order = malloc(rows * sizeof *order + 1);
	if (keys && order) {
		memset(starts, 0, (subsets + 1) * sizeof *starts);
		for (uint32_t i = begin; i < end; i++)
			starts[subset_of(s->keys[i], subsets) + 1]++;
		starts[0] = begin;
		for (uint32_t j = 0; j < subsets; j++) {
			next[j] = starts[j] - begin;
			starts[j + 1] += starts[j];
		}
		for (uint32_t i = begin; i < end; i++) {
			uint32_t at = next[subset_of(s->keys[i], subsets)]++;
			keys[at] = s->keys[i];
			order[at] = s->order[i];
		}
		memcpy(s->keys + begin, keys, rows * sizeof *keys);
		memcpy(s->order + begin, order, rows * sizeof *order);
	}
	bool ok = keys && order;
	free(keys);
	free(order);
	return ok;
}

/* Embedding rows of a partition in `subsets` parts. */
static uint32_t plan_subsets(struct push *p, uint32_t partition, uint32_t number, bool synchronous, uint32_t subsets)
{
	size_t n = p->items_count;
	uint32_t *starts = calloc(n * (subsets + 1u), sizeof *starts);
	p->failed |= !starts;
	for (uint32_t i = 0; starts && i < n; i++) {
		struct split *s = &p->items[i].split;
		if (item_in_class(&p->items[i], synchronous, WEIR_EMBEDDING) &&
		    !group_by_subset(s, s->offsets[partition], s->offsets[partition + 1], subsets, starts + i * (subsets + 1u)))
			p->failed = true;
	}
	for (uint32_t j = 0; j < subsets && !p->failed; j++, number++) {
		struct part *part = part_open(p, partition, number, synchronous);
		for (uint32_t i = 0; part && i < n; i++)
			if (item_in_class(&p->items[i], synchronous, WEIR_EMBEDDING))
				part_add(p, part, i, starts[i * (subsets + 1u) + j], starts[i * (subsets + 1u) + j + 1]);
		if (part && !part->count)
			p->parts_count--; /* no rows in it */
	}
	free(starts);
	return number;
}

static uint32_t plan_chunks(struct push *p, uint32_t partition, uint32_t number, bool synchronous, size_t target)
{
	struct part *part = NULL;
	for (uint32_t i = 0; i < p->items_count; i++) {
		const struct push_item *item = &p->items[i];
		if (!item_in_class(item, synchronous, WEIR_DENSE))
			continue;
		uint32_t end = item->split.offsets[partition + 1];
		for (uint32_t at = item->split.offsets[partition]; at < end && !p->failed;) {
			uint32_t to = at;
			size_t bytes = part ? part->bytes : 0;
			while (to < end && (bytes += piece_bytes(item, to, to + 1)) <= target)
				to++;
			if (to == at && !(part && part->count)) /* one chunk alone is never too much */
				to++;
			if (!part || to == at)
				part = part_open(p, partition, number++, synchronous);
			if (part && to > at)
				part_add_chunks(p, part, i, at, to);
			at = to;
		}
	}
	return number;
}

/* The parts of one class of tables in one partition; returns the next part's number. */
static uint32_t plan_class(struct push *p, uint32_t partition, uint32_t number, bool synchronous, size_t target)
{
	size_t rows = class_bytes(p, partition, synchronous, WEIR_EMBEDDING), chunks = class_bytes(p, partition, synchronous, WEIR_DENSE);
	if (rows + chunks == 0)
		return number;
	if (rows + chunks <= WEIR_MESSAGE_BYTES_TARGET) {
		struct part *part = part_open(p, partition, number, synchronous);
		for (uint32_t i = 0; part && i < p->items_count; i++) {
			const struct split *s = &p->items[i].split;
			if (item_in_class(&p->items[i], synchronous, WEIR_EMBEDDING))
				part_add(p, part, i, s->offsets[partition], s->offsets[partition + 1]);
			else if (item_in_class(&p->items[i], synchronous, WEIR_DENSE))
				part_add_chunks(p, part, i, s->offsets[partition], s->offsets[partition + 1]);
		}
		return number + 1;
	}
	if (rows) {
		uint32_t subsets = 1;
		while (subsets < WEIR_BATCH_PARTS_MAX && rows > subsets * (target - target / 4))
			subsets *= 2;
		number = plan_subsets(p, partition, number, synchronous, subsets);
	}
	return plan_chunks(p, partition, number, synchronous, target);
}

static bool plan_fits(const struct push *p, uint32_t numbers)
{
	for (uint32_t i = 0; i < p->parts_count; i++)
		if (p->parts[i].bytes > WEIR_MESSAGE_BYTES_MAX - WEIR_MESSAGE_BYTES_TARGET / 8 || p->parts[i].count > WEIR_RECORD_SECTIONS_MAX)
			return false;
	return numbers <= WEIR_BATCH_PARTS_MAX;
}

static weir_status plan(struct push *p, uint32_t partitions, weir_error *err)
{
	for (uint32_t partition = 0; partition < partitions; partition++) {
		uint32_t parts = p->parts_count, pieces = p->pieces_count, numbers = 0;
		for (size_t target = WEIR_MESSAGE_BYTES_TARGET; target <= 3 * WEIR_MESSAGE_BYTES_TARGET; target += WEIR_MESSAGE_BYTES_TARGET) {
			p->parts_count = parts;
			p->pieces_count = pieces;
			numbers = plan_class(p, partition, 0, false, target);
			numbers = plan_class(p, partition, numbers, true, target);
			if (p->failed)
				return weir_fail(err, WEIR_E_MEMORY, "push: out of memory");
			if (plan_fits(p, numbers))
				break;
		}
		if (!plan_fits(p, numbers))
			return weir_fail(err, WEIR_E_LIMIT, "push: partition %u would take %u parts of one batch, the most is %u of %u bytes: use more partitions", partition,
			                 numbers, WEIR_BATCH_PARTS_MAX, WEIR_MESSAGE_BYTES_MAX);
	}
	return WEIR_OK;
}

/* --- Items */

static weir_status item_check(const struct push_item *item, const weir_push_item *in, weir_error *err)
{
	const weir_table_spec *spec = &item->table->spec;
	bool embedding = spec->kind == WEIR_EMBEDDING;
	if (embedding ? !in->keys && in->rows : in->keys != NULL)
		return weir_fail(err, WEIR_E_INVALID, "push to table %s: %s", spec->name, embedding ? "keys are missing" : "a dense table is pushed whole, without keys");
	uint64_t elements = embedding ? in->rows * (uint64_t)spec->width : spec->elements;
	if (elements && (in->values != NULL) == (in->encoded != NULL))
		return weir_fail(err, WEIR_E_INVALID, "push to table %s: either values or encoded bytes", spec->name);
	if (!item->element_bytes)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "push to table %s: codec %s is not supported by this build", spec->name,
		                 codec_name(item->codec) ? codec_name(item->codec) : "?");
	if (in->encoded && in->encoded_bytes != elements * item->element_bytes)
		return weir_fail(err, WEIR_E_INVALID, "push to table %s: %zu encoded bytes, %llu elements of %s need %llu", spec->name, in->encoded_bytes,
		                 (unsigned long long)elements, codec_name(item->codec), (unsigned long long)(elements * item->element_bytes));
	if (in->values && !codec_all_finite(in->values, elements))
		return weir_fail(err, WEIR_E_NOT_FINITE, "push to table %s: the gradient has a NaN or an infinity; nothing was sent", spec->name);
	return WEIR_OK;
}

static weir_status item_open(weir_client *c, struct push_item *out, const weir_push_item *in, bool copy, bool assign, weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	out->table = client_table(c, in->table, err);
	pthread_mutex_unlock(&c->lock);
	if (!out->table)
		return WEIR_E_NOT_FOUND;
	const weir_table_spec *spec = &out->table->spec;
	bool embedding = spec->kind == WEIR_EMBEDDING;
	out->values = in->values;
	out->encoded = in->encoded;
	out->codec = assign ? WEIR_CODEC_FP32 : spec->push_codec;
	out->element_bytes = codec_element_bytes(out->codec);
	out->row_bytes = embedding ? spec->width * out->element_bytes : WEIR_CHUNK * out->element_bytes;
	if (out->codec == WEIR_CODEC_FP32 && in->values && !in->encoded)
		out->encoded = (const uint8_t *)in->values; /* the same bytes */
	out->borrow = !copy && out->encoded;
	weir_status status = item_check(out, in, err);
	if (status != WEIR_OK)
		return status;
	status = embedding ? split_keys(&out->split, out->table->id, in->keys, in->rows, c->partitions)
	                   : split_chunks(&out->split, out->table->id, (spec->elements + WEIR_CHUNK - 1) / WEIR_CHUNK, c->partitions);
	return status == WEIR_OK ? status : weir_fail(err, status, "push to table %s: %zu rows: %s", spec->name, in->rows, weir_status_text(status));
}

static struct push *push_open(weir_client *c, const weir_push_item *items, size_t count, bool copy, bool assign, weir_error *err)
{
	struct push *p = calloc(1, sizeof *p);
	if (p)
		p->items = calloc(count + 1, sizeof *p->items);
	if (!p || !p->items) {
		free(p);
		(void)weir_fail(err, WEIR_E_MEMORY, "push: out of memory");
		return NULL;
	}
	p->items_count = count;
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < count && status == WEIR_OK; i++)
		status = item_open(c, &p->items[i], &items[i], copy, assign, err);
	if (status == WEIR_OK)
		status = plan(p, c->partitions, err);
	if (status == WEIR_OK)
		return p;
	push_free(p);
	return NULL;
}

/* --- Encoding */

/* One section. Dense runs lie in the caller's memory as they are sent; embedding rows are gathered. True when memory was borrowed. */
static bool write_piece(struct record_writer *w, const struct push_item *item, const struct piece *piece)
{
	const weir_table_spec *spec = &item->table->spec;
	bool embedding = spec->kind == WEIR_EMBEDDING;
	uint32_t rows = piece->end - piece->begin;
	size_t bytes = piece_bytes(item, piece->begin, piece->end) - rows * sizeof(uint64_t);
	const uint64_t *keys = item->split.keys + piece->begin;
	struct section s = {.table = (uint16_t)item->table->id,
	                    .codec = (uint8_t)item->codec,
	                    .index_codec = INDEX_RAW,
	                    .rows = rows,
	                    .width = embedding ? spec->width : WEIR_CHUNK,
	                    .index_bytes = rows * (uint32_t)sizeof(uint64_t),
	                    .data_bytes = (uint32_t)bytes};
	if (!embedding && item->encoded) {
		(void)record_writer_add(w, &s, keys, item->encoded + keys[0] * WEIR_CHUNK * item->element_bytes, item->borrow);
		return item->borrow;
	}
	uint8_t *index, *data;
	if (record_writer_reserve(w, &s, &index, &data) != WEIR_OK)
		return false; /* repeated by record_writer_end */
	memcpy(index, keys, s.index_bytes);
	if (!embedding) {
		codec_encode(item->codec, item->values + keys[0] * WEIR_CHUNK, bytes / item->element_bytes, data);
		return false;
	}
	for (uint32_t i = piece->begin; i < piece->end; i++, data += item->row_bytes) {
		size_t at = item->split.order[i];
		if (item->encoded)
			memcpy(data, item->encoded + at * item->row_bytes, item->row_bytes);
		else
			codec_encode(item->codec, item->values + at * spec->width, spec->width, data);
	}
	return false;
}

/* The caller's memory is no longer pointed to. Any thread. */
static void on_release(struct message *m)
{
	operation_unhold(m->owner);
}

/* A frame on its way to one server. */
struct frame_builder {
	struct operation *op;
	struct link *link;
	struct record_writer *writer;
	bool borrowed;
	uint32_t count;
	uint64_t ids[WEIR_FRAME_RECORDS_MAX];
};

static weir_status wait_for_credit(struct frame_builder *b, size_t bytes)
{
	weir_client *c = b->op->client;
	const struct lane *lane = &b->link->push;
	/* What is left is for seals, closes and retirements, which do not wait. */
	size_t bytes_max = WEIR_STREAM_CREDIT_BYTES - WEIR_MESSAGE_BYTES_MAX;
	uint32_t requests_max = WEIR_STREAM_CREDIT_REQUESTS - WEIR_STREAM_CREDIT_REQUESTS / 8;
	while (b->op->status == WEIR_OK && !c->stale && !c->closing && lane->requests &&
	       (lane->bytes + bytes > bytes_max || lane->requests + b->count > requests_max)) {
		if (rpc_loop_is_current(c->loop)) {
			operation_fail(b->op, WEIR_E_BUSY, "the send credit is used up: a callback cannot wait for it");
			break;
		}
		(void)client_wait(c, -1);
	}
	if (c->stale)
		operation_fail(b->op, WEIR_E_STALE, "this worker was taken for dead");
	else if (c->closing)
		operation_fail(b->op, WEIR_E_CANCELLED, "the client is being closed");
	return b->op->status;
}

/* Sends what was built so far; a request that cannot be sent is answered with a failure of its operation. */
static void flush(struct frame_builder *b)
{
	weir_client *c = b->op->client;
	if (!b->count)
		return;
	if (b->borrowed)
		atomic_fetch_add_explicit(&b->op->holds, 1, memory_order_relaxed);
	struct message *m = record_writer_finish(b->writer, c->uuid, c->generation, b->borrowed ? on_release : NULL, b->op);
	pthread_mutex_lock(&c->lock);
	if (!m) {
		if (b->borrowed)
			operation_unhold(b->op);
		operation_fail(b->op, WEIR_E_MEMORY, "push: out of memory");
	} else if (wait_for_credit(b, m->bytes) != WEIR_OK) {
		message_release(m);
		m = NULL;
	}
	if (!m || link_send_frame(b->link, m, b->ids, b->count) != WEIR_OK) {
		operation_fail(b->op, WEIR_E_MEMORY, "push: out of memory");
		for (uint32_t i = 0; i < b->count; i++)
			request_answer(operation_find(c, b->ids[i]));
	}
	pthread_mutex_unlock(&c->lock);
	b->count = 0;
	b->borrowed = false;
}

static void write_part(struct frame_builder *b, const struct push *p, const struct part *part, struct request *q, const struct record *r)
{
	if (b->count == WEIR_FRAME_RECORDS_MAX || (b->count && record_writer_bytes(b->writer) + part->bytes > WEIR_MESSAGE_BYTES_TARGET))
		flush(b);
	record_writer_begin(b->writer, r);
	bool borrowed = false;
	for (uint32_t i = part->first; i < part->first + part->count; i++)
		borrowed |= write_piece(b->writer, &p->items[p->pieces[i].item], &p->pieces[i]);
	if (record_writer_end(b->writer) != WEIR_OK) {
		pthread_mutex_lock(&b->op->client->lock);
		operation_fail(b->op, WEIR_E_MEMORY, "push: out of memory");
		request_answer(q);
		pthread_mutex_unlock(&b->op->client->lock);
		return;
	}
	b->borrowed |= borrowed;
	b->ids[b->count++] = r->request_id;
}

/* Writes and sends one record per request, server by server. template: what all records have in common. */
static weir_status send_parts(struct operation *op, const struct record *template, const uint64_t *applied, uint64_t step)
{
	weir_client *c = op->client;
	const struct push *p = op->payload;
	struct frame_builder *b = calloc(1, sizeof *b);
	struct record_writer *writer = record_writer_create();
	if (!b || !writer) {
		free(b);
		record_writer_destroy(writer);
		return WEIR_E_MEMORY;
	}
	b->op = op;
	b->writer = writer;
	for (uint32_t server = 0; server < c->links_count; server++) {
		b->link = &c->links[server];
		for (uint32_t i = 0; i < op->requests_count; i++) {
			struct request *q = &op->requests[i];
			if (q->server != server)
				continue;
			const struct part *part = &p->parts[q->first];
			struct record r = *template;
			r.partition = q->partition;
			r.part = q->part;
			r.request_id = operation_request_id(op, q);
			r.a = applied ? applied[q->partition] : 0;
			r.b = part->synchronous ? step : 0;
			write_part(b, p, part, q, &r);
		}
		flush(b);
	}
	free(b);
	record_writer_destroy(writer);
	return WEIR_OK;
}

static void fill_request(weir_client *c, struct request *q, const struct part *part, uint32_t index)
{
	q->partition = part->partition;
	q->server = c->partition_server[part->partition];
	q->part = part->part;
	q->first = index;
}

/* The builder's hold goes; everything that could not be sent is answered. */
static void seal_operation(struct operation *op, weir_status status)
{
	if (status != WEIR_OK) {
		pthread_mutex_lock(&op->client->lock);
		operation_fail(op, status, weir_status_text(status));
		for (uint32_t i = 0; i < op->requests_count; i++)
			request_answer(&op->requests[i]);
		pthread_mutex_unlock(&op->client->lock);
	}
	operation_unhold(op);
}

/* --- weir_push */

static weir_status on_push_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body, weir_error *err)
{
	weir_client *c = op->client;
	(void)body;
	if (r->status == WEIR_E_DUPLICATE)
		atomic_fetch_add_explicit(&c->duplicates, 1, memory_order_relaxed);
	else if (r->status != WEIR_OK && r->status != WEIR_E_DROPPED)
		return weir_fail(err, (weir_status)r->status, "server %s refused batch %u of unit %u of pass %u in partition %u: %s", c->links[q->server].address,
		                 op->batch.batch, op->batch.unit, op->batch.pass, q->partition, weir_status_text((weir_status)r->status));
	if (r->a > c->applied_seen[q->partition])
		c->applied_seen[q->partition] = r->a;
	if (r->b > c->stable_seen[q->partition])
		c->stable_seen[q->partition] = r->b;
	struct held_batch *b = batch_find(c, &op->batch, NULL, NULL);
	if (b)
		b->parts[q->first].applied = r->a;
	return WEIR_OK;
}

static void on_push_finish(struct operation *op)
{
	weir_client *c = op->client;
	struct held_unit *u = NULL;
	struct held_batch *b = batch_find(c, &op->batch, &u, NULL);
	atomic_fetch_sub_explicit(&c->pushes_in_flight, 1, memory_order_relaxed);
	if (b) {
		u->outstanding--;
		if (op->status == WEIR_OK) {
			b->complete = true;
			unit_advance(c, u);
		} else if (u->failure == WEIR_OK) {
			u->failure = op->status;
			strncpy(u->failure_text, op->text ? op->text : "", sizeof u->failure_text - 1);
		}
	}
	steps_poll(c);
}

/* Notes in the unit's books what the batch is made of, and which parts must be sent: wanted (parts_count), returned how many. */
static weir_status note_batch(weir_client *c, const weir_batch *batch, const struct push *p, bool *wanted, uint32_t *wanted_count, weir_error *err)
{
	struct held_unit *u;
	struct held_batch *b = batch_find(c, batch, &u, err);
	if (!b)
		return err->status;
	if (b->pushed)
		return weir_fail(err, WEIR_E_STATE, "batch %u of unit %u of pass %u was pushed already: all tables go in one push", batch->batch, batch->unit, batch->pass);
	bool synchronous = false;
	for (uint32_t i = 0; i < p->parts_count; i++)
		synchronous |= p->parts[i].synchronous;
	if (synchronous && !b->step)
		return weir_fail(err, WEIR_E_STATE, "batch %u of unit %u of pass %u has no step: pull its synchronous tables before pushing them", batch->batch, batch->unit,
		                 batch->pass);
	b->parts = calloc(p->parts_count + 1u, sizeof *b->parts);
	if (!b->parts)
		return weir_fail(err, WEIR_E_MEMORY, "push: out of memory");
	b->parts_count = p->parts_count;
	for (uint32_t i = 0; i < p->parts_count; i++) {
		const struct part *part = &p->parts[i];
		b->parts[i] = (struct part_sent){.partition = part->partition, .part = part->part};
		wanted[i] = !unit_has_part(u, batch->batch, part->partition, part->part);
		*wanted_count += wanted[i];
	}
	b->pushed = true;
	u->outstanding++;
	return WEIR_OK;
}

static void refuse_batch(weir_client *c, const weir_batch *batch)
{
	pthread_mutex_lock(&c->lock);
	struct held_batch *b = batch_find(c, batch, NULL, NULL);
	if (b)
		b->refused = true;
	steps_poll(c);
	pthread_mutex_unlock(&c->lock);
}

/* The applied index that each partition had when this batch was pulled, else the last one seen. applied (partitions). */
static uint64_t read_batch(weir_client *c, const weir_batch *batch, uint64_t *applied)
{
	const struct held_batch *b = batch_find(c, batch, NULL, NULL);
	for (uint32_t p = 0; p < c->partitions; p++)
		applied[p] = b && b->applied && b->applied[p] ? b->applied[p] : c->applied_seen[p];
	return b ? b->step : 0;
}

static struct operation *push_operation(weir_client *c, const weir_batch *batch, struct push *p, const bool *wanted, uint32_t count, weir_error *err)
{
	struct operation *op = operation_create(c, "pushing", count, err);
	if (!op)
		return NULL;
	op->has_batch = true;
	op->batch = *batch;
	op->payload = p;
	op->destroy = destroy;
	op->on_reply = on_push_reply;
	op->on_finish = on_push_finish;
	struct request *q = op->requests;
	for (uint32_t i = 0; i < p->parts_count; i++)
		if (wanted[i])
			fill_request(c, q++, &p->parts[i], i);
	return op;
}

static weir_status push_start(weir_client *c, const weir_batch *batch, struct push *p, weir_done_fn done, void *arg, weir_ticket *ticket, weir_error *err)
{
	uint64_t *applied = calloc(c->partitions, sizeof *applied);
	bool *wanted = calloc(p->parts_count + 1u, sizeof *wanted);
	uint32_t count = 0;
	struct operation *op = NULL;
	uint64_t step = 0;
	pthread_mutex_lock(&c->lock);
	weir_status status = !applied || !wanted ? weir_fail(err, WEIR_E_MEMORY, "push: out of memory") : client_usable(c, err);
	if (status == WEIR_OK)
		status = note_batch(c, batch, p, wanted, &count, err);
	if (status == WEIR_OK)
		step = read_batch(c, batch, applied);
	pthread_mutex_unlock(&c->lock);
	if (status == WEIR_OK && !(op = push_operation(c, batch, p, wanted, count, err))) {
		status = err->status;
		pthread_mutex_lock(&c->lock);
		struct held_unit *u = NULL;
		struct held_batch *b = batch_find(c, batch, &u, NULL);
		if (b) {
			b->pushed = false;
			u->outstanding--;
		}
		pthread_mutex_unlock(&c->lock);
	}
	free(wanted);
	if (!op) {
		free(applied);
		push_free(p);
		return status;
	}
	op->done = done;
	op->arg = arg;
	if (ticket)
		*ticket = op->ticket;
	atomic_fetch_add_explicit(&c->pushes_in_flight, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->parts_pushed, count, memory_order_relaxed);
	struct record template = {.kind = RECORD_PUSH, .pass = batch->pass, .unit = batch->unit, .attempt = batch->attempt, .batch = batch->batch};
	seal_operation(op, send_parts(op, &template, applied, step));
	free(applied);
	return WEIR_OK;
}

weir_status weir_push(weir_client *c, const weir_batch *batch, const weir_push_item *items, size_t count, const weir_push_options *options, weir_done_fn done,
                      void *arg, weir_ticket *ticket, weir_error *err)
{
	weir_error own = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	if (!batch || c->options.role != WEIR_TRAINER)
		return weir_fail(err, WEIR_E_STATE, "only a trainer pushes, and only batches of units it has leased");
	struct push *p = push_open(c, items, count, options && options->copy, false, err);
	if (!p) {
		if (err->status == WEIR_E_NOT_FINITE)
			refuse_batch(c, batch);
		return err->status;
	}
	return push_start(c, batch, p, done, arg, ticket, err);
}

/* --- weir_assign */

static weir_status on_plain_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body, weir_error *err)
{
	(void)body;
	if (r->status == WEIR_OK || r->status == WEIR_E_DUPLICATE)
		return WEIR_OK;
	return weir_fail(err, (weir_status)r->status, "server %s: %s failed: %s", op->client->links[q->server].address, op->what,
	                 weir_status_text((weir_status)r->status));
}

weir_status weir_assign(weir_client *c, uint32_t table, const uint64_t *keys, size_t rows, const float *values, weir_error *err)
{
	weir_error own = {0};
	if (!err)
		err = &own;
	err->status = WEIR_OK;
	weir_push_item item = {.table = table, .keys = keys, .rows = rows, .values = values};
	struct push *p = push_open(c, &item, 1, false, true, err);
	if (!p)
		return err->status;
	struct operation *op = operation_create(c, "assigning rows", p->parts_count, err);
	if (!op) {
		push_free(p);
		return err->status;
	}
	op->payload = p;
	op->destroy = destroy;
	op->on_reply = on_plain_reply;
	for (uint32_t i = 0; i < p->parts_count; i++)
		fill_request(c, &op->requests[i], &p->parts[i], i);
	struct record template = {.kind = RECORD_ASSIGN};
	seal_operation(op, send_parts(op, &template, NULL, 0));
	return operation_wait(op, -1, err);
}

/* --- Small records to everybody */

weir_status broadcast(weir_client *c, const char *what, const struct record *r, const struct section *s, const void *data,
                      void (*on_finish)(struct operation *op))
{
	weir_error err = {0};
	struct operation *op = operation_create_locked(c, what, c->links_count, &err);
	struct record_writer *w = record_writer_create();
	if (!op || !w) {
		record_writer_destroy(w);
		if (op) {
			op->forgotten = true;
			for (uint32_t i = 0; i < op->requests_count; i++)
				request_answer(&op->requests[i]);
			operation_unhold(op);
		}
		return op ? WEIR_E_MEMORY : err.status;
	}
	op->forgotten = true;
	op->on_reply = on_plain_reply;
	op->on_finish = on_finish;
	for (uint32_t i = 0; i < c->links_count; i++) {
		struct request *q = &op->requests[i];
		struct record own = *r;
		q->partition = own.partition = FRAME_PARTITION_ALL;
		q->server = i;
		own.request_id = operation_request_id(op, q);
		record_writer_begin(w, &own);
		if (s)
			(void)record_writer_add(w, s, NULL, data, false);
		struct message *m = record_writer_end(w) == WEIR_OK ? record_writer_finish(w, c->uuid, c->generation, NULL, NULL) : NULL;
		if (!m || link_send_frame(&c->links[i], m, &own.request_id, 1) != WEIR_OK) {
			operation_fail(op, WEIR_E_MEMORY, "out of memory");
			request_answer(q);
		}
	}
	record_writer_destroy(w);
	operation_unhold(op);
	return WEIR_OK;
}
