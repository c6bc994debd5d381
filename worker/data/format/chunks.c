#include "worker/data/format/chunks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/json_array.h"

struct chunk_reader {
	const struct sources *sources;
	struct chunk_plan (*plan_of)(const char *path, void *context);
	void *context;
	size_t bytes_max;
	uint32_t file;
	struct text *text; /* the current file, while it is being read */
	bool begun;        /* some of the file was read */
	bool is_array;     /* the file is a JSON array in place of JSONL */
	struct json_array array;
	bool ended;        /* the file is at its end */
	uint64_t at, line; /* position of the next chunk */
	char *carry;       /* (carry_bytes) an incomplete line */
	size_t carry_bytes, carry_capacity;
};

void chunk_destroy(struct chunk *c)
{
	free(c->data);
	*c = (struct chunk){0};
}

weir_status chunk_reader_create(struct chunk_reader **out, const struct sources *sources,
                                struct chunk_plan (*plan_of)(const char *path, void *context), void *context, size_t bytes_max,
                                weir_error *err)
{
	struct chunk_reader *r = calloc(1, sizeof *r);
	if (!r)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading texts");
	*r = (struct chunk_reader){.sources = sources, .plan_of = plan_of, .context = context, .bytes_max = bytes_max};
	*out = r;
	return WEIR_OK;
}

void chunk_reader_destroy(struct chunk_reader *r)
{
	if (!r)
		return;
	text_close(r->text);
	free(r->carry);
	free(r);
}

static bool reserve(char **data, size_t *capacity, size_t bytes)
{
	if (bytes <= *capacity)
		return true;
	char *larger = realloc(*data, bytes + bytes / 4);
	if (!larger)
		return false;
	*data = larger;
	*capacity = bytes + bytes / 4;
	return true;
}

/* Reads until the chunk has `bytes` bytes or the file ends. */
static weir_status fill(struct chunk_reader *r, struct chunk *c, size_t bytes, bool records, weir_error *err)
{
	size_t got;
	if (!reserve(&c->data, &c->capacity, bytes))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", r->sources->items[r->file].path);
	const weir_status status = text_next_bytes(r->text, c->data + c->size, bytes - c->size, &got, err);
	if (status != WEIR_OK)
		return status;
	r->ended = got < bytes - c->size;
	if (!r->begun) {
		r->begun = true;
		r->at = text_mark_bytes(r->text);
		r->is_array = records && json_array_begins(c->data, got, false);
		r->array = (struct json_array){0};
	}
	if (r->is_array)
		json_array_to_lines(&r->array, c->data + c->size, got);
	c->size += got;
	return WEIR_OK;
}

/* Returns the bytes of the chunk's whole lines; at the end of the file, all bytes. */
static size_t whole_lines(const struct chunk_reader *r, const struct chunk *c)
{
	const char *newline = r->ended || c->size == 0 ? NULL : memrchr(c->data, '\n', c->size);
	return r->ended ? c->size : !newline ? 0 : (size_t)(newline + 1 - c->data);
}

static weir_status read_lines(struct chunk_reader *r, struct chunk *c, weir_error *err)
{
	const char *path = r->sources->items[r->file].path;
	const struct chunk_plan plan = r->plan_of(path, r->context);
	size_t bytes = plan.bytes, lines = 0;
	weir_status status = WEIR_OK;
	c->size = 0;
	if (!reserve(&c->data, &c->capacity, r->carry_bytes + 1))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", path);
	if (r->carry_bytes > 0)
		memcpy(c->data, r->carry, r->carry_bytes);
	c->size = r->carry_bytes;
	do {
		if (c->size >= r->bytes_max)
			return weir_fail(err, WEIR_E_LIMIT, "%s:%llu: a line of more than %zu bytes", path, (unsigned long long)r->line,
			                 r->bytes_max);
		bytes = bytes <= c->size ? c->size * 2 : bytes;
		status = fill(r, c, bytes < r->bytes_max ? bytes : r->bytes_max, plan.records, err);
		lines = whole_lines(r, c);
	} while (status == WEIR_OK && lines == 0 && !r->ended);
	if (status != WEIR_OK)
		return status;
	r->carry_bytes = c->size - lines;
	if (!reserve(&r->carry, &r->carry_capacity, r->carry_bytes + 1))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", path);
	memcpy(r->carry, c->data + lines, r->carry_bytes);
	c->size = lines;
	return WEIR_OK;
}

static uint64_t count_newlines(const struct chunk *c)
{
	uint64_t n = 0;
	for (const char *at = c->data, *end = at + c->size; at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
		n++;
	return n;
}

weir_status chunk_reader_next(struct chunk_reader *r, struct chunk *c, weir_error *err)
{
	weir_status status = WEIR_OK;
	c->size = 0;
	while (status == WEIR_OK && c->size == 0 && r->file < r->sources->count) {
		if (!r->text) {
			r->at = 0;
			r->line = 1;
			r->ended = r->begun = false;
			status = text_open(&r->text, r->sources->items[r->file].path, 0, UINT64_MAX, err);
		}
		if (status == WEIR_OK && !r->ended)
			status = read_lines(r, c, err);
		c->file = r->file;
		if (status == WEIR_OK && c->size == 0) {
			text_close(r->text);
			r->text = NULL;
			r->file++;
		}
	}
	c->at = r->at;
	c->line = r->line;
	r->at += c->size;
	r->line += status == WEIR_OK && c->size > 0 ? count_newlines(c) : 0;
	return status;
}
