#include "worker/client/push_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/hash.h"
#include "kernels/codec.h"

void push_destroy(struct push *p)
{
	for (size_t i = 0; p->items && i < p->items_count; i++) {
		partition_keys_destroy(&p->items[i].groups);
		free(p->items[i].crcs);
		free(p->items[i].wanted);
	}
	free(p->items);
	free(p->sections);
	free(p->parts);
	free(p->coded);
	free(p);
}

size_t section_plan_bytes(const struct push_item *item, uint32_t begin, uint32_t end)
{
	const weir_table_spec *spec = &item->table->spec;
	if (spec->kind == WEIR_EMBEDDING)
		return (end - begin) * (sizeof(uint64_t) + item->row_bytes);
	size_t bytes = item->encoder ? CODER_HEAD_MAX : 0;
	for (uint32_t i = begin; i < end; i++) {
		const size_t n = weir_chunk_elements(spec->elements, item->groups.keys[i]);
		bytes += sizeof(uint64_t) + (item->encoder ? compressor_chunk_max(&spec->push, n) : n * item->element_bytes);
	}
	return bytes;
}

uint32_t section_plan_crc(const struct push_item *item, const struct section_plan *section)
{
	uint32_t crc = 0;
	for (uint32_t i = section->begin; i < section->end; i++) {
		uint64_t chunk = item->groups.keys[i];
		crc = crc32c_append(crc, item->crcs[chunk], weir_chunk_elements(item->table->spec.elements, chunk) * sizeof(float));
	}
	return crc;
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
	*part = (struct part){
	    .partition = (uint16_t)partition, .part = (uint16_t)number, .synchronous = synchronous, .first = p->sections_count};
	return part;
}

static void part_add(struct push *p, struct part *part, uint32_t item, uint32_t begin, uint32_t end)
{
	if (begin == end || !part)
		return;
	if (p->sections_count == p->sections_capacity) {
		uint32_t capacity = p->sections_capacity ? 2 * p->sections_capacity : 16;
		struct section_plan *grown = realloc(p->sections, capacity * sizeof *grown);
		if (!grown) {
			p->failed = true;
			return;
		}
		p->sections = grown;
		p->sections_capacity = capacity;
	}
	p->sections[p->sections_count++] = (struct section_plan){.item = item, .begin = begin, .end = end};
	part->count++;
	part->bytes += section_plan_bytes(&p->items[item], begin, end);
}

/* Dense rows: a piece per run of chunks that lie together in the caller's memory, so that they can
 * be sent from there. */
static void part_add_chunks(struct push *p, struct part *part, uint32_t item, uint32_t begin, uint32_t end)
{
	const uint64_t *chunk = p->items[item].groups.keys;
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
			bytes += section_plan_bytes(&p->items[i], p->items[i].groups.offsets[partition],
			                            p->items[i].groups.offsets[partition + 1]);
	return bytes;
}

static uint32_t subset_of(uint64_t key, uint32_t subsets)
{
	return (uint32_t)(hash_u64(key ^ 0x5bd1e9955bd1e995ull) >> 32) & (subsets - 1);
}

/* Groups a partition's rows of one item by subset, in place; starts (subsets + 1) receives the
 * bounds of the groups. */
static bool group_by_subset(struct partition_keys *s, uint32_t begin, uint32_t end, uint32_t subsets, uint32_t *starts)
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

/* Divides embedding rows of a partition into `subsets` parts. */
static uint32_t plan_subsets(struct push *p, uint32_t partition, uint32_t number, bool synchronous, uint32_t subsets)
{
	size_t n = p->items_count;
	uint32_t *starts = calloc(n * (subsets + 1u), sizeof *starts);
	p->failed |= !starts;
	for (uint32_t i = 0; starts && i < n; i++) {
		struct partition_keys *s = &p->items[i].groups;
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
			p->parts_count--; /* without rows */
	}
	free(starts);
	return number;
}

/* Chunks of the class's tables in partitions [first, end). */
static uint64_t class_chunks(const struct push *p, uint32_t first, uint32_t end, bool synchronous)
{
	uint64_t chunks = 0;
	for (uint32_t i = 0; i < p->items_count; i++)
		if (item_in_class(&p->items[i], synchronous, WEIR_DENSE))
			chunks += p->items[i].groups.offsets[end] - p->items[i].groups.offsets[first];
	return chunks;
}

/* Most chunks of a part; 0: no limit. It grows with the target, so that the parts have numbers. */
static uint64_t chunks_of_part(const struct push *p, uint32_t partition, bool synchronous, size_t target)
{
	const uint64_t chunks = synchronous ? class_chunks(p, partition, partition + 1, true) : 0;
	return (chunks + LAYERED_PARTS - 1) / LAYERED_PARTS * (target / WEIR_MESSAGE_BYTES_TARGET);
}

static uint32_t plan_chunks(struct push *p, uint32_t partition, uint32_t number, bool synchronous, size_t target)
{
	struct part *part = NULL;
	const uint64_t most = chunks_of_part(p, partition, synchronous, target);
	uint64_t held = 0; /* by the part */
	for (uint32_t i = 0; i < p->items_count; i++) {
		const struct push_item *item = &p->items[i];
		if (!item_in_class(item, synchronous, WEIR_DENSE))
			continue;
		uint32_t end = item->groups.offsets[partition + 1];
		for (uint32_t at = item->groups.offsets[partition]; at < end && !p->failed;) {
			uint32_t to = at;
			size_t bytes = part ? part->bytes : 0;
			while (to < end && (!most || held + (to - at) < most) && (bytes += section_plan_bytes(item, to, to + 1)) <= target)
				to++;
			if (to == at && !(part && part->count)) /* one chunk alone is never too large */
				to++;
			if (!part || to == at) {
				part = part_open(p, partition, number++, synchronous);
				held = 0;
			}
			held += to - at;
			if (part && to > at)
				part_add_chunks(p, part, i, at, to);
			at = to;
		}
	}
	return number;
}

/* Plans the parts of one class of tables in one partition; returns the next part's number. */
static uint32_t plan_class(struct push *p, uint32_t partition, uint32_t number, bool synchronous, size_t target)
{
	const bool layered = synchronous && class_chunks(p, 0, p->partitions, true) > WEIR_LAYERED_CHUNKS;
	size_t rows = class_bytes(p, partition, synchronous, WEIR_EMBEDDING),
	       chunks = class_bytes(p, partition, synchronous, WEIR_DENSE);
	if (rows + chunks == 0)
		return number;
	if (rows + chunks <= WEIR_MESSAGE_BYTES_TARGET && !layered) {
		struct part *part = part_open(p, partition, number, synchronous);
		for (uint32_t i = 0; part && i < p->items_count; i++) {
			const struct partition_keys *s = &p->items[i].groups;
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
		if (p->parts[i].bytes > WEIR_MESSAGE_BYTES_MAX - WEIR_MESSAGE_BYTES_TARGET / 8 ||
		    p->parts[i].count > WEIR_RECORD_SECTIONS_MAX)
			return false;
	return numbers <= WEIR_BATCH_PARTS_MAX;
}

static weir_status plan(struct push *p, uint32_t partitions, weir_error *err)
{
	p->partitions = partitions;
	for (uint32_t partition = 0; partition < partitions; partition++) {
		uint32_t parts = p->parts_count, sections = p->sections_count, numbers = 0;
		for (size_t target = WEIR_MESSAGE_BYTES_TARGET; target <= 3 * WEIR_MESSAGE_BYTES_TARGET;
		     target += WEIR_MESSAGE_BYTES_TARGET) {
			p->parts_count = parts;
			p->sections_count = sections;
			numbers = plan_class(p, partition, 0, false, target);
			numbers = plan_class(p, partition, numbers, true, target);
			if (p->failed)
				return weir_fail(err, WEIR_E_MEMORY, "push: out of memory");
			if (plan_fits(p, numbers))
				break;
		}
		if (!plan_fits(p, numbers))
			return weir_fail(
			    err, WEIR_E_LIMIT,
			    "push: partition %u would take %u parts of one batch, the most is %u of %u bytes: use more partitions", partition,
			    numbers, WEIR_BATCH_PARTS_MAX, WEIR_MESSAGE_BYTES_MAX);
	}
	return WEIR_OK;
}

/* --- Items */

bool push_read_chunk(struct push_item *item, uint64_t chunk)
{
	const uint64_t n = weir_chunk_elements(item->table->spec.elements, chunk);
	const float *values = item->values + chunk * WEIR_CHUNK;
	return item->crcs ? codec_all_finite_crc32c(values, n, &item->crcs[chunk]) : codec_all_finite(values, n);
}

/* Reads values that are sent unchanged once, for this check and for their checksums. Without memory
 * for checksums the writer reads the values again. */
static bool chunks_finite(struct push_item *item, const weir_push_item *in)
{
	const uint64_t count = in->keys ? in->rows : weir_chunks(item->table->spec.elements);
	bool finite = true;
	for (uint64_t i = 0; i < count && finite; i++)
		finite = push_read_chunk(item, in->keys ? in->keys[i] : i);
	return finite;
}

static weir_status scores_check(const weir_table_spec *spec, const weir_push_item *in, weir_error *err)
{
	if (in->scores && spec->kind != WEIR_EMBEDDING)
		return weir_fail(err, WEIR_E_INVALID, "push to table %s: scores are of rows, and a dense table has none", spec->name);
	for (size_t i = 0; in->scores && i < in->rows; i++)
		if (!(in->scores[i] >= 0 && isfinite(in->scores[i])))
			return weir_fail(err, WEIR_E_INVALID,
			                 "push to table %s: the score of row %zu is %g; it must be finite and at least 0", spec->name, i,
			                 (double)in->scores[i]);
	return WEIR_OK;
}

/* Checks rows that the caller has encoded. */
static bool rows_finite(const struct push_item *item, const weir_push_item *in)
{
	const struct coding coding = {.codec = item->codec};
	const uint8_t *rows = in->encoded;
	bool finite = true;
	for (size_t i = 0; i < in->rows && finite; i++)
		finite = codec_is_finite(&coding, rows + i * item->row_bytes, item->table->spec.width);
	return finite;
}

/* The servers, not this function, check encoded bytes of a dense table. */
static bool item_finite(struct push_item *item, const weir_push_item *in)
{
	const weir_table_spec *spec = &item->table->spec;
	if (spec->kind == WEIR_EMBEDDING)
		return in->encoded ? rows_finite(item, in) : codec_all_finite(in->values, in->rows * spec->width);
	return in->encoded || chunks_finite(item, in);
}

static weir_status finite_check(struct push_item *item, const weir_push_item *in, weir_error *err)
{
	const weir_table_spec *spec = &item->table->spec;
	weir_status status = WEIR_OK;
	if (item->encoder)
		status = item->encoder->check(item->encoder->arg, in->values, in->keys, in->keys ? in->rows : 0, err);
	else if (!item_finite(item, in))
		status = WEIR_E_NOT_FINITE;
	if (status != WEIR_E_NOT_FINITE)
		return status;
	return weir_fail(err, WEIR_E_NOT_FINITE, "push to table %s: the gradient has a NaN or an infinity; nothing was sent",
	                 spec->name);
}

static weir_status item_check(struct push_item *item, const weir_push_item *in, weir_error *err)
{
	const weir_table_spec *spec = &item->table->spec;
	const bool embedding = spec->kind == WEIR_EMBEDDING;
	if (embedding ? !in->keys && in->rows : !chunks_are_listed(spec, in->keys, in->rows))
		return weir_fail(err, WEIR_E_INVALID, "push to table %s: %s", spec->name,
		                 embedding ? "keys are missing" : CHUNKS_EXPECTED);
	const uint64_t elements = embedding ? in->rows * (uint64_t)spec->width : spec->elements;
	if (elements && (in->values) == (in->encoded))
		return weir_fail(err, WEIR_E_INVALID, "push to table %s: either values or encoded bytes", spec->name);
	if (in->encoded && (embedding ? item->kept != NULL : !item->element_bytes || item->encoder))
		return weir_fail(err, WEIR_E_UNSUPPORTED, "push to table %s: of codec %s%s only values can be pushed", spec->name,
		                 codec_name(item->codec), item->kept ? " with some of the rows" : "");
	const uint64_t bytes = embedding ? in->rows * (uint64_t)item->row_bytes : elements * item->element_bytes;
	if (in->encoded && in->encoded_bytes != bytes)
		return weir_fail(err, WEIR_E_INVALID, "push to table %s: %zu encoded bytes, %llu elements of %s need %llu", spec->name,
		                 in->encoded_bytes, (unsigned long long)elements, codec_name(item->codec), (unsigned long long)bytes);
	return WEIR_OK;
}

weir_status push_read_item(struct push_item *item, const weir_push_item *in, weir_error *err)
{
	const weir_status status = finite_check(item, in, err);
	return status ? status : scores_check(&item->table->spec, in, err);
}

/* Keys are in order within a partition, so equal keys are adjacent. */
static weir_status distinct_check(const struct push_item *item, uint32_t partitions, weir_error *err)
{
	const struct partition_keys *s = &item->groups;
	for (uint32_t p = 0; p < partitions; p++)
		for (uint32_t i = s->offsets[p] + 1; i < s->offsets[p + 1]; i++)
			if (s->keys[i] == s->keys[i - 1])
				return weir_fail(err, WEIR_E_INVALID,
				                 "push to table %s: key %llu is there twice, as rows %u and %u: add them up, and push it once",
				                 item->table->spec.name, (unsigned long long)s->keys[i], s->order[i - 1], s->order[i]);
	return WEIR_OK;
}

static weir_status item_open(weir_client *c, struct push_item *out, const weir_push_item *in, const struct push_reading *reading,
                             weir_error *err)
{
	const bool assign = reading->assign;
	pthread_mutex_lock(&c->lock);
	out->table = client_table(c, in->table, err);
	pthread_mutex_unlock(&c->lock);
	if (!out->table)
		return WEIR_E_NOT_FOUND;
	const weir_table_spec *spec = &out->table->spec;
	bool embedding = spec->kind == WEIR_EMBEDDING;
	out->values = in->values;
	out->scores = in->scores;
	out->encoded = in->encoded;
	out->codec = assign ? WEIR_CODEC_FP32 : spec->push.codec;
	out->element_bytes = codec_element_bytes(out->codec);
	out->row_bytes = embedding ? codec_bytes(out->codec, spec->width) : 0;
	if (!assign && spec->push.rows > 0 && !(out->kept = tables_kept(c, out->table->id, err)))
		return err->status;
	if (out->codec == WEIR_CODEC_FP32 && in->values && !in->encoded && !out->kept)
		out->encoded = (const uint8_t *)in->values; /* the same bytes */
	out->borrow = !reading->copy && out->encoded;
	if (out->borrow && !embedding && in->values)
		out->crcs = calloc(weir_chunks(spec->elements), sizeof *out->crcs);
	out->pack = !assign && spec->push.lz4 == WEIR_LZ4_AUTO;
	if (!assign && compressor_is_needed(spec)) {
		const struct coder *coder = tables_coder(c, out->table->id, err);
		if (!coder)
			return err->status;
		out->encoder = &coder->encoder;
	}
	weir_status status = item_check(out, in, err);
	if (status == WEIR_OK && !reading->later)
		status = push_read_item(out, in, err);
	if (status != WEIR_OK)
		return status;
	status = embedding ? partition_keys_split(&out->groups, out->table->id, in->keys, in->rows, c->partitions)
	                   : partition_chunks_split(&out->groups, out->table->id, in->keys,
	                                            in->keys ? in->rows : weir_chunks(spec->elements), c->partitions);
	if (status != WEIR_OK)
		return weir_fail(err, status, "push to table %s: %zu rows: %s", spec->name, in->rows, weir_status_text(status));
	return embedding ? distinct_check(out, c->partitions, err) : WEIR_OK;
}

struct push *push_open(weir_client *c, const weir_push_item *items, size_t count, const struct push_reading *reading,
                       weir_error *err)
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
		status = item_open(c, &p->items[i], &items[i], reading, err);
	if (status == WEIR_OK)
		status = plan(p, c->partitions, err);
	if (status == WEIR_OK)
		return p;
	push_destroy(p);
	return NULL;
}
