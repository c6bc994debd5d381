/* Is a record right? Everything that applying takes for granted is checked here, before the record becomes an entry. */
#include <assert.h>
#include <string.h>

#include "codec.h"
#include "partition_internal.h"
#include "placement.h"

#define KEYS_BLOCK   512u
#define FINITE_BLOCK 4096u

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

static weir_status check_index(const struct partition *p, const struct partition_table *t, const struct section *s,
                               weir_error *err)
{
	bool dense = t->spec->kind == WEIR_DENSE;
	if (s->flags)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "table %s: LZ4 sections are not supported by this build", t->spec->name);
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

/* Elements of all rows together; checks that the keys can be read, and that every one lives here. */
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
	if (status) /* what came out of it are no keys */
		return weir_fail(err, status, "table %s: %s", t->spec->name, why.text);
	return strays ? weir_fail(err, WEIR_E_NOT_FOUND, "table %s: row %llu does not live in partition %u of %u", t->spec->name,
	                          (unsigned long long)stray, p->options.id, p->options.partitions)
	              : WEIR_OK;
}

static weir_status check_data(const struct partition_table *t, const struct record *r, const struct section *s, uint64_t elements,
                              weir_error *err)
{
	weir_codec codec = (weir_codec)s->codec;
	if (codec_element_bytes(codec) == 0)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "table %s: codec %s is not supported by this build", t->spec->name,
		                 codec_name(codec));
	if (r->kind == RECORD_ASSIGN && r->flags & RECORD_ASSIGN_SLOTS)
		elements *= 1 + optimizer_slots(t->spec->optimizer.kind);
	if (s->data_bytes != elements * codec_element_bytes(codec))
		return weir_fail(err, WEIR_E_INVALID, "table %s: %u data bytes for %u rows, expected %llu (%s)", t->spec->name,
		                 s->data_bytes, s->rows, (unsigned long long)(elements * codec_element_bytes(codec)), codec_name(codec));
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
		if (!status && r->kind != RECORD_PULL && r->kind != RECORD_EVICT)
			status = check_data(t, r, &s, elements, err);
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

static bool stream_finite(struct cursor data, weir_codec codec, float *scratch)
{
	size_t element = codec_element_bytes(codec), n;
	uint8_t straddle[sizeof(float)];
	const uint8_t *run;
	while ((n = cursor_run(&data, element, codec == WEIR_CODEC_FP32 ? SIZE_MAX : FINITE_BLOCK, straddle, &run)) > 0) {
		const float *values = (const float *)(const void *)run;
		if (codec != WEIR_CODEC_FP32) {
			codec_decode(&(struct coding){.codec = codec}, run, n, scratch);
			values = scratch;
		}
		if (!codec_all_finite(values, n))
			return false;
	}
	return true;
}

bool sections_finite(const struct record *r, struct cursor body, float *scratch, uint32_t *table)
{
	for (uint32_t i = 0; i < r->sections; i++) {
		struct section s;
		weir_status status = frame_next_section(&body, &s, NULL);
		assert(status == WEIR_OK);
		*table = s.table;
		if (!stream_finite(s.data, (weir_codec)s.codec, scratch))
			return false;
	}
	return true;
}
