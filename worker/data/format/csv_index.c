#include "worker/data/format/csv_index.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "common/system/disk.h"
#include "worker/data/format/content.h"
#include "worker/data/format/csv_reader.h"
#include "worker/data/remote/cache_lock.h"

#define MAGIC      "WEIRROWS"
#define HEAD_WORDS 4u

static weir_status out_of_memory(const struct csv_index_options *o, weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory finding the rows of %s", o->source->path);
}

/* --- Making it */

/* Returns whether a file has a quote. */
static weir_status has_quotes(const struct csv_index_options *o, bool *out, weir_error *err)
{
	struct text *text;
	char *block = malloc(TEXT_CHUNK_BYTES);
	size_t got = TEXT_CHUNK_BYTES;
	*out = false;
	weir_status status = block ? text_open(&text, o->source->path, 0, UINT64_MAX, err) : out_of_memory(o, err);
	if (status != WEIR_OK) {
		free(block);
		return status;
	}
	while (status == WEIR_OK && got == TEXT_CHUNK_BYTES && !*out) {
		status = text_next_bytes(text, block, TEXT_CHUNK_BYTES, &got, err);
		*out = status == WEIR_OK && memchr(block, o->marks.quote, got);
	}
	text_close(text);
	free(block);
	return status;
}

static bool add_start(struct csv_index *x, uint64_t start)
{
	if ((x->count & (x->count - 1)) == 0) { /* the capacity is the next power of two */
		uint64_t *larger = realloc(x->starts, (2 * x->count + 1) * sizeof *larger);
		if (!larger)
			return false;
		x->starts = larger;
	}
	x->starts[x->count++] = start;
	return true;
}

/* Adds the units that begin in a chunk, which begins at byte `at` of the file. */
static bool add_starts(struct csv_index *x, const struct csv_index_options *o, struct csv_reader *r, const char *data,
                       uint64_t at)
{
	struct cell row;
	uint64_t line;
	while (csv_reader_next(r, &row, &line)) {
		const uint64_t start = at + (uint64_t)(row.text - data);
		if (start >= x->count * o->unit_bytes && !add_start(x, x->count == 0 ? 0 : start))
			return false;
	}
	return true;
}

static weir_status find_starts(struct csv_index *x, const struct csv_index_options *o, weir_error *err)
{
	struct text *text;
	struct text_chunk chunk = {0};
	struct csv_reader reader = {0};
	weir_status status = text_open(&text, o->source->path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	text_set_csv(text, o->marks);
	uint64_t at = text_mark_bytes(text);
	do {
		status = text_next(text, &chunk, err);
		const bool good = status == WEIR_OK && csv_reader_begin(&reader, o->marks, chunk.data, chunk.size) &&
		                  add_starts(x, o, &reader, chunk.data, at);
		if (status == WEIR_OK && !good)
			status = out_of_memory(o, err);
		at += chunk.size;
	} while (status == WEIR_OK && chunk.size > 0);
	csv_reader_destroy(&reader);
	text_chunk_destroy(&chunk);
	text_close(text);
	return status;
}

/* --- The file */

struct place {
	char path[WEIR_PATH_BYTES_MAX], lock[WEIR_PATH_BYTES_MAX];
	uint64_t identity;
};

static weir_status find_place(const struct csv_index_options *o, struct place *out, weir_error *err)
{
	struct source source = *o->source;
	char content[WEIR_FINGERPRINT_VALUE_BYTES];
	const weir_status status = content_of_sources(&(struct sources){&source, 1}, content, err);
	const uint64_t name[] = {o->unit_bytes,
	                         (uint64_t)o->marks.delimiter | (o->marks.quote == '"' ? 0 : (uint64_t)o->marks.quote << 8)},
	               state[] = {source.size, (uint64_t)source.mtime_ns};
	if (status != WEIR_OK)
		return status;
	const uint64_t hash = hash_bytes(name, sizeof name, hash_bytes(source.path, strlen(source.path), 0));
	out->identity = hash_bytes(state, sizeof state, hash_bytes(content, strlen(content), hash));
	const int n = snprintf(out->path, sizeof out->path, "%s/%016llx.rows", o->dir, (unsigned long long)hash);
	if (n < 0 || n >= (int)sizeof out->path - 16)
		return weir_fail(err, WEIR_E_LIMIT, "the cache folder's path is too long: %.200s", o->dir);
	snprintf(out->lock, sizeof out->lock, "%.*s.lock", n, out->path);
	return WEIR_OK;
}

static uint64_t hash_of(const struct csv_index *x)
{
	return hash_bytes(x->starts, x->count * sizeof *x->starts, x->count);
}

/* Reads the file; false unless it is whole and current. */
static bool read_file(const struct place *p, struct csv_index *out)
{
	const size_t bytes_max = (HEAD_WORDS + (size_t)WEIR_UNITS_PER_PASS_MAX) * sizeof(uint64_t);
	char *data;
	size_t bytes;
	uint64_t head[HEAD_WORDS];
	if (disk_read_file(disk_system(), p->path, bytes_max, &data, &bytes, NULL) != WEIR_OK)
		return false;
	bool good = bytes >= sizeof head;
	if (good) {
		memcpy(head, data, sizeof head);
		*out = (struct csv_index){.count = head[3]};
		good = memcmp(data, MAGIC, 8) == 0 && head[1] == p->identity && head[3] <= WEIR_UNITS_PER_PASS_MAX &&
		       bytes == sizeof head + head[3] * sizeof *out->starts && (out->starts = malloc(bytes)) != NULL;
	}
	if (good) {
		memcpy(out->starts, data + sizeof head, head[3] * sizeof *out->starts);
		good = hash_of(out) == head[2];
		if (!good)
			free(out->starts);
	}
	free(data);
	return good;
}

static weir_status write_file(const struct place *p, const struct csv_index *x, weir_error *err)
{
	const size_t bytes = (HEAD_WORDS + x->count) * sizeof(uint64_t);
	uint64_t *words = malloc(bytes);
	if (!words)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", p->path);
	memcpy(words, MAGIC, 8);
	words[1] = p->identity;
	words[2] = hash_of(x);
	words[3] = x->count;
	if (x->count > 0)
		memcpy(words + HEAD_WORDS, x->starts, x->count * sizeof *x->starts);
	const weir_status status = disk_write_file(disk_system(), p->path, words, bytes, err);
	free(words);
	return status;
}

static weir_status make(const struct csv_index_options *o, const struct place *p, struct csv_index *out, weir_error *err)
{
	bool quotes;
	*out = (struct csv_index){0};
	weir_status status = has_quotes(o, &quotes, err);
	if (status == WEIR_OK && quotes)
		status = find_starts(out, o, err);
	if (status == WEIR_OK)
		status = write_file(p, out, err);
	if (status != WEIR_OK)
		free(out->starts);
	return status;
}

weir_status csv_index_open(struct csv_index *out, const struct csv_index_options *o, weir_error *err)
{
	struct place place;
	int lock;
	weir_status status = find_place(o, &place, err);
	if (status != WEIR_OK || read_file(&place, out))
		return status;
	status = cache_lock(o->dir, place.lock, &lock, err);
	if (status != WEIR_OK)
		return status;
	/* Another process may have made it while this one waited. */
	if (!read_file(&place, out))
		status = make(o, &place, out, err);
	close(lock);
	return status;
}
