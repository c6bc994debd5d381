#include "worker/data/format/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "common/base/text_index.h"
#include "worker/data/format/parse.h"
#include "worker/data/format/text.h"

struct vocabulary {
	struct text_index *ids; /* id i is in line i + 1 */
	uint64_t keys;          /* of a field */
	uint64_t content;
};

_Static_assert(WEIR_FIELDS_MAX <= 1u << 31, "the keys of all fields must have 64 bits");

static weir_status add_id(struct vocabulary *v, const char *path, const char *id, size_t n, weir_error *err)
{
	const uint32_t before = text_index_count(v->ids);
	uint32_t number;
	if (n == 0)
		return weir_fail(err, WEIR_E_INVALID, "%s:%u: the line is blank; expected an id, whose key is the number of its line",
		                 path, before + 1);
	if ((uint64_t)before + 2 > v->keys)
		return weir_fail(err, WEIR_E_LIMIT, "%s has more ids than the %llu keys of a field, of which one is for others%s", path,
		                 (unsigned long long)v->keys, v->keys < 1ull << 32 ? "; raise data.hash_buckets" : "");
	if (!text_index_add(v->ids, id, n, &number))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the ids of %s", path);
	if (number < before)
		return weir_fail(err, WEIR_E_INVALID, "%s:%u: '%.*s' is in line %u, too; expected each id once", path, before + 1,
		                 n < 60 ? (int)n : 60, id, number + 1);
	v->content = hash_bytes(id, n, v->content + n);
	return WEIR_OK;
}

static weir_status read_lines(struct vocabulary *v, const char *path, weir_error *err)
{
	struct text *text;
	struct text_chunk chunk = {0};
	weir_status status = text_open(&text, path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	do {
		status = text_next(text, &chunk, err);
		for (const char *at = chunk.data, *end = at + chunk.size; status == WEIR_OK && at < end;) {
			const char *newline = memchr(at, '\n', (size_t)(end - at));
			const size_t n = (size_t)((newline ? newline : end) - at);
			status = add_id(v, path, at, parse_line_bytes(at, n), err);
			at += n + 1;
		}
	} while (status == WEIR_OK && chunk.size > 0);
	text_chunk_destroy(&chunk);
	text_close(text);
	return status;
}

weir_status vocabulary_open(struct vocabulary **out, const char *path, uint64_t hash_buckets, weir_error *err)
{
	struct vocabulary *v = calloc(1, sizeof *v);
	if (!v || !(v->ids = text_index_create())) {
		free(v);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the ids of %s", path);
	}
	v->keys = hash_buckets > 0 ? hash_buckets : 1ull << 32;
	const weir_status status = read_lines(v, path, err);
	if (status != WEIR_OK) {
		vocabulary_close(v);
		return status;
	}
	*out = v;
	return WEIR_OK;
}

void vocabulary_close(struct vocabulary *v)
{
	if (!v)
		return;
	text_index_destroy(v->ids);
	free(v);
}

uint64_t vocabulary_content(const struct vocabulary *v)
{
	return v->content ? v->content : 1;
}

uint64_t vocabulary_key(const struct vocabulary *v, uint32_t field, const char *id, size_t n)
{
	uint32_t number;
	const bool known = text_index_find(v->ids, id, n, &number);
	return field * v->keys + (known ? (uint64_t)number + 1 : 0);
}
