/* Checks of records. Everything that applying assumes is checked here, before a record becomes an
 * entry. */
#include <assert.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "server/partition/partition_internal.h"
#include "server/partition/section_values.h"

#define KEYS_BLOCK 512u

struct row_keys row_keys_of(const struct partition *p, const struct partition_table *t, const struct section *s)
{
	struct row_keys k = {.left = s->rows, .all = s->index_codec == INDEX_ALL};
	if (k.all) {
		k.chunk = store_first_chunk(t->rows);
		k.stride = p->options.partitions;
	} else {
		section_keys_begin(&k.listed, s);
	}
	return k;
}

static size_t next_listed(struct row_keys *k, uint64_t *keys, size_t max)
{
	if (k->at == k->end && max >= ROW_KEYS_AHEAD)
		return section_keys_next(&k->listed, keys, max);
	if (k->at == k->end) {
		k->at = 0;
		k->end = (uint32_t)section_keys_next(&k->listed, k->ahead, ROW_KEYS_AHEAD);
	}
	const size_t n = k->end - k->at < max ? k->end - k->at : max;
	memcpy(keys, k->ahead + k->at, n * sizeof *keys);
	k->at += (uint32_t)n;
	return n;
}

size_t row_keys_next(struct row_keys *k, uint64_t *keys, size_t max)
{
	if (!k->all)
		return next_listed(k, keys, max);
	size_t n = k->left < max ? k->left : max;
	k->left -= (uint32_t)n;
	for (size_t i = 0; i < n; i++, k->chunk += k->stride)
		keys[i] = k->chunk;
	return n;
}

uint64_t section_elements(const struct partition *p, const struct partition_table *t, const struct section *s)
{
	if (t->spec->kind == WEIR_EMBEDDING)
		return (uint64_t)s->rows * t->spec->width;
	struct row_keys k = row_keys_of(p, t, s);
	uint64_t chunk, elements = 0;
	while (row_keys_next(&k, &chunk, 1))
		elements += store_row_elements(t->rows, chunk);
	return elements;
}

static weir_status check_index(const struct partition *p, const struct partition_table *t, const struct section *s,
                               weir_error *err)
{
	bool dense = t->spec->kind == WEIR_DENSE;
	if (s->flags)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "table %s: LZ4 is for pushes", t->spec->name);
	if (s->index_codec == INDEX_ALL && !dense)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "table %s: an embedding has no such thing as all rows", t->spec->name);
	if (s->index_codec == INDEX_ALL && s->rows != store_chunks(t->rows))
		return weir_fail(err, WEIR_E_INVALID, "table %s: %u chunks sent as all of them; partition %u has %llu", t->spec->name,
		                 s->rows, p->options.id, (unsigned long long)store_chunks(t->rows));
	uint32_t width = dense ? WEIR_CHUNK : t->spec->width;
	if (s->width != width)
		return weir_fail(err, WEIR_E_INVALID, "table %s: rows of width %u, sent %u", t->spec->name, width, s->width);
	return WEIR_OK;
}

static bool lives_here(const struct partition *p, const struct partition_table *t, const struct section *s, uint64_t key)
{
	return t->spec->kind != WEIR_EMBEDDING || placement_embedding(s->table, key, p->options.partitions) == p->options.id;
}

/* Sets *elements to the elements of all rows; checks that the keys are readable and live here. */
static weir_status check_keys(const struct partition *p, const struct partition_table *t, const struct section *s,
                              uint64_t *elements, weir_error *err)
{
	struct row_keys k = row_keys_of(p, t, s);
	uint64_t keys[KEYS_BLOCK], stray = 0;
	bool strays = false;
	*elements = 0;
	for (size_t n; (n = row_keys_next(&k, keys, KEYS_BLOCK)) > 0;)
		for (size_t i = 0; i < n; i++) {
			const size_t row = store_row_elements(t->rows, keys[i]);
			*elements += row;
			if (row > 0 && lives_here(p, t, s, keys[i]))
				continue;
			stray = keys[i];
			strays = true;
		}
	weir_error why = {0};
	weir_status status = k.all ? WEIR_OK : section_keys_end(&k.listed, s, &why);
	if (status) /* the section's keys are invalid */
		return weir_fail(err, status, "table %s: %s", t->spec->name, why.text);
	return strays ? weir_fail(err, WEIR_E_NOT_FOUND, "table %s: row %llu does not live in partition %u of %u", t->spec->name,
	                          (unsigned long long)stray, p->options.id, p->options.partitions)
	              : WEIR_OK;
}

/* For codecs whose rows are more than their elements: every row is there, and nothing else. */
static weir_status check_coded(const struct partition *p, const struct partition_table *t, const struct section *s,
                               weir_error *err)
{
	struct section_values v;
	float book[CODEC_BOOK];
	struct row_keys k = row_keys_of(p, t, s);
	uint64_t key;
	weir_error why = {0};
	weir_status status = section_values_open(&v, s, book, &why);
	while (!status && row_keys_next(&k, &key, 1))
		status = section_row_check(&v, store_row_elements(t->rows, key), p->scratch->tile, &why);
	if (status)
		return weir_fail(err, status, "table %s: %s", t->spec->name, why.text);
	if (v.data.left)
		return weir_fail(err, WEIR_E_INVALID, "table %s: %u data bytes for %u rows, %zu too many (%s)", t->spec->name,
		                 s->data_bytes, s->rows, v.data.left, codec_name(v.coding.codec));
	return WEIR_OK;
}

static weir_status check_data(const struct partition *p, const struct partition_table *t, const struct record *r,
                              const struct section *s, uint64_t elements, weir_error *err)
{
	const weir_codec codec = (weir_codec)s->codec;
	const size_t element = codec_name(codec) ? codec_element_bytes(codec) : 0;
	if (!element && (r->kind == RECORD_ASSIGN || !codec_name(codec)))
		return weir_fail(err, WEIR_E_UNSUPPORTED, "table %s: codec %u (%s) is not for this kind of record", t->spec->name,
		                 s->codec, codec_name(codec) ? codec_name(codec) : "unknown");
	if (!element)
		return check_coded(p, t, s, err);
	struct section_values v;
	float book[CODEC_BOOK];
	weir_error why = {0};
	if (section_values_open(&v, s, book, &why))
		return weir_fail(err, why.status, "table %s: %s", t->spec->name, why.text);
	if (r->kind == RECORD_ASSIGN && r->flags & RECORD_ASSIGN_SLOTS)
		elements *= 1 + optimizer_slots(t->spec->optimizer.kind);
	if (s->data_bytes != elements * element)
		return weir_fail(err, WEIR_E_INVALID, "table %s: %u data bytes for %u rows, expected %llu (%s)", t->spec->name,
		                 s->data_bytes, s->rows, (unsigned long long)(elements * element), codec_name(codec));
	return WEIR_OK;
}

/* Checks the codec asked for, and the size of the held versions. */
static weir_status check_asked(const struct partition_table *t, const struct section *s, weir_error *err)
{
	const weir_codec codec = (weir_codec)s->codec;
	const bool differences = codec != WEIR_CODEC_FP32 && t->spec->kind == WEIR_DENSE;
	const uint64_t held = differences ? (uint64_t)s->rows * PULL_HELD_BYTES : 0;
	if (codec != WEIR_CODEC_FP32 && codec != t->spec->pull.codec)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "table %s: its pulls are coded as %s or fp32, asked was codec %u",
		                 t->spec->name, codec_name(t->spec->pull.codec), s->codec);
	if (s->data_bytes != held)
		return weir_fail(err, WEIR_E_INVALID, "table %s: %u bytes say what is held of %u rows, expected %llu", t->spec->name,
		                 s->data_bytes, s->rows, (unsigned long long)held);
	return WEIR_OK;
}

weir_status check_sections(const struct partition *p, const struct record *r, struct cursor body, bool *sync, weir_error *err)
{
	*sync = false;
	for (uint32_t i = 0; i < r->sections; i++) {
		struct section s;
		uint64_t elements;
		weir_status status = frame_next_section(&body, &s, err);
		if (status)
			return status;
		const struct partition_table *t = partition_table(p, s.table);
		if (!t)
			return weir_fail(err, WEIR_E_NOT_FOUND, "table %u is not registered with partition %u", s.table, p->options.id);
		status = check_index(p, t, &s, err);
		if (!status)
			status = check_keys(p, t, &s, &elements, err);
		if (!status && r->kind == RECORD_PULL)
			status = check_asked(t, &s, err);
		if (!status && r->kind != RECORD_PULL && r->kind != RECORD_EVICT)
			status = check_data(p, t, r, &s, elements, err);
		if (status)
			return status;
		const bool synchronous = t->spec->mode.kind == WEIR_SYNC;
		if (r->kind == RECORD_PUSH && i > 0 && synchronous != *sync)
			return weir_fail(err, WEIR_E_INVALID,
			                 "push: table %s is %s and the table before it is not: each kind needs a part of its own",
			                 t->spec->name, synchronous ? "synchronous" : "asynchronous");
		*sync |= synchronous;
	}
	return WEIR_OK;
}

/* For a codec that can be cut at any element. */
static bool stream_finite(const struct section *s, size_t element)
{
	const struct coding coding = {.codec = (weir_codec)s->codec};
	struct cursor data = s->data;
	uint8_t straddle[sizeof(float)];
	const uint8_t *run;
	for (size_t n; (n = cursor_run(&data, element, SIZE_MAX, straddle, &run)) > 0;)
		if (!codec_is_finite(&coding, run, n))
			return false;
	return true;
}

static bool section_finite(const struct partition *p, const struct section *s)
{
	const struct partition_table *t = partition_table(p, s->table);
	struct section_values v;
	float book[CODEC_BOOK];
	struct row_keys k = row_keys_of(p, t, s);
	uint64_t key;
	bool finite = true;
	const size_t element = codec_element_bytes((weir_codec)s->codec);
	if (element)
		return stream_finite(s, element);
	const weir_status status = section_values_open(&v, s, book, NULL);
	assert(status == WEIR_OK);
	(void)status;
	while (finite && row_keys_next(&k, &key, 1))
		finite = section_row_is_finite(&v, store_row_elements(t->rows, key), p->scratch->tile);
	return finite;
}

bool sections_finite(const struct partition *p, const struct record *r, struct cursor body, uint32_t *table)
{
	for (uint32_t i = 0; i < r->sections; i++) {
		struct section s;
		weir_status status = frame_next_section(&body, &s, NULL);
		assert(status == WEIR_OK);
		*table = s.table;
		if (!section_finite(p, &s))
			return false;
	}
	return true;
}
