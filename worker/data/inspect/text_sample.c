#include "worker/data/inspect/text_sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/parse_table.h"
#include "worker/data/format/row_reader.h"
#include "worker/data/inspect/csv_columns.h"
#include "worker/data/inspect/json_columns.h"

/* Rows that begin in bytes [begin, end) of a file; of the first slice of a file, at least `bytes`
 * of text, wherever the last row ends. */
struct slice {
	uint32_t file;
	uint64_t begin, end, bytes;
};

struct text_sample {
	struct column_source source;
	const struct sources *files;
	struct table_layout *own; /* NULL: the layout is a job's */
	struct column_type *types;
	struct slice *slices; /* (slices_count) */
	size_t slices_count, slice;
	struct text *text; /* of the current slice */
	uint64_t taken;    /* bytes of text of it, with the chunk */
	struct text_chunk chunk;
	struct row_reader rows;
	uint64_t lines; /* lines of the slice before the chunk */
	uint64_t line;  /* of the current row in the chunk, from 0 */
	bool whole;     /* the current row has a cell for each column */
};

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a sample of the data");
}

/* --- Slices */

static bool add_slice(struct text_sample *s, const struct slice *slice)
{
	if ((s->slices_count & (s->slices_count - 1)) == 0) { /* the capacity is the next power of 2 */
		struct slice *more = realloc(s->slices, (s->slices_count ? 2 * s->slices_count : 1) * sizeof *more);
		if (!more)
			return false;
		s->slices = more;
	}
	s->slices[s->slices_count++] = *slice;
	return true;
}

/* Reads the first lines of a file: a row with newlines inside quotes may be cut at their end. */
static weir_status read_first(struct text_sample *s, uint32_t file, weir_error *err)
{
	struct text *text;
	weir_status status = text_open(&text, s->files->items[file].path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	status = text_next(text, &s->chunk, err);
	text_close(text);
	return status;
}

/* Whether the chunk has quotes, inside which a newline ends no row. */
static bool has_quotes(const struct text_sample *s)
{
	const struct table_layout *l = s->source.layout;
	return l->rows == ROWS_CSV && l->marks.quote && memchr(s->chunk.data, l->marks.quote, s->chunk.size);
}

/* Cuts `bytes` of a file into slices. */
static weir_status cut_file(struct text_sample *s, uint32_t file, uint64_t bytes, weir_error *err)
{
	const struct source *f = &s->files->items[file];
	const struct slice whole = {.file = file, .end = UINT64_MAX, .bytes = bytes};
	const bool at_once = f->kind != TEXT_PLAIN || f->size <= bytes;
	weir_status status = at_once ? WEIR_OK : read_first(s, file, err);
	if (status != WEIR_OK)
		return status;
	if (at_once || has_quotes(s))
		return add_slice(s, &whole) ? WEIR_OK : out_of_memory(err);
	const uint64_t count = bytes / TEXT_SAMPLE_SLICE_BYTES + 1, step = f->size / count, each = bytes / count;
	for (uint64_t i = 0; i < count && status == WEIR_OK; i++) {
		const struct slice slice = {.file = file, .begin = i * step, .end = i * step + each, .bytes = UINT64_MAX};
		status = add_slice(s, &slice) ? WEIR_OK : out_of_memory(err);
	}
	return status;
}

static weir_status cut(struct text_sample *s, uint64_t bytes, weir_error *err)
{
	struct column_sample *sample = &s->source.sample;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < s->files->count && status == WEIR_OK; i++) {
		const uint64_t size = s->files->items[i].size;
		const double share = sample->bytes_all > bytes ? (double)bytes / (double)sample->bytes_all : 1;
		if (size > 0)
			status = cut_file(s, i, share < 1 ? (uint64_t)((double)size * share) + 1 : size, err);
	}
	s->chunk.size = 0; /* the slices begin anew */
	return status;
}

/* --- Chunks */

static weir_status begin_slice(struct text_sample *s, weir_error *err)
{
	const struct slice *slice = &s->slices[s->slice];
	const weir_status status = text_open(&s->text, s->files->items[slice->file].path, slice->begin, slice->end, err);
	s->taken = s->lines = 0;
	if (status == WEIR_OK && slice->begin == 0 && s->source.layout->rows == ROWS_CSV)
		text_set_csv(s->text, s->source.layout->marks);
	return status;
}

static void end_slice(struct text_sample *s)
{
	text_close(s->text);
	s->text = NULL;
	s->slice++;
}

/* Reads the next chunk, of this slice or of the next ones. E_NOT_FOUND: all are read. */
static weir_status read_chunk(struct text_sample *s, weir_error *err)
{
	while (s->slice < s->slices_count) {
		const struct slice *slice = &s->slices[s->slice];
		weir_status status = s->text ? WEIR_OK : begin_slice(s, err);
		if (status == WEIR_OK)
			status = text_next(s->text, &s->chunk, err);
		if (status != WEIR_OK)
			return status;
		const bool lost = slice->begin > 0 && has_quotes(s);
		s->source.sample.skipped += lost;
		if (s->chunk.size > 0 && s->taken < slice->bytes && !lost) {
			s->taken += s->chunk.size;
			s->source.sample.bytes += s->chunk.size;
			return WEIR_OK;
		}
		end_slice(s);
	}
	s->chunk.size = 0;
	return WEIR_E_NOT_FOUND;
}

/* The place of line s->line of the chunk, from 0. */
static void place(const struct column_source *source, char out[COLUMN_PLACE_BYTES])
{
	const struct text_sample *s = (const struct text_sample *)source;
	const struct slice *slice = &s->slices[s->slice];
	const char *path = s->files->items[slice->file].path;
	if (slice->begin == 0)
		snprintf(out, COLUMN_PLACE_BYTES, "%.400s:%" PRIu64, path, s->lines + s->line + 1);
	else
		snprintf(out, COLUMN_PLACE_BYTES, "%.400s, line %" PRIu64 " after byte %" PRIu64, path, s->lines + s->line + 1,
		         slice->begin);
}

/* --- Columns without a job */

/* Learns the keys of the chunk's lines. */
static weir_status learn_chunk(struct text_sample *s, struct json_columns *c, weir_error *err)
{
	char why[PARSE_WHY_BYTES], where[COLUMN_PLACE_BYTES];
	const char *at = s->chunk.data, *end = at + s->chunk.size;
	for (s->line = 0; at < end; s->line++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const size_t n = (size_t)((newline ? newline : end) - at);
		if (!json_columns_learn(c, at, n, why)) {
			place(&s->source, where);
			return weir_fail(err, WEIR_E_INVALID, "%s: %s", where, why);
		}
		at += n + 1;
	}
	s->lines += s->line;
	return WEIR_OK;
}

/* Reads all slices for their keys. */
static weir_status learn(struct text_sample *s, struct json_columns *c, weir_error *err)
{
	weir_status status;
	while ((status = read_chunk(s, err)) == WEIR_OK)
		if ((status = learn_chunk(s, c, err)) != WEIR_OK)
			return status;
	s->slice = 0;
	s->source.sample.bytes = 0;
	if (status == WEIR_E_NOT_FOUND && c->count == 0)
		return weir_fail(err, WEIR_E_INVALID, "%s: no line is an object with a key; expected one a line, as {\"user\": 7}",
		                 s->files->items[s->slices[0].file].path);
	return status == WEIR_E_NOT_FOUND ? WEIR_OK : status;
}

static weir_status find_json_columns(struct text_sample *s, weir_error *err)
{
	struct json_columns c = {0};
	const weir_status status = learn(s, &c, err);
	if (status == WEIR_OK) {
		s->own->names = c.names;
		s->own->columns = c.count;
		s->types = c.types;
		c.names = NULL;
		c.types = NULL;
		c.count = 0;
	}
	json_columns_destroy(&c);
	return status;
}

static weir_status find_csv_columns(struct text_sample *s, const struct column_source_options *o, weir_error *err)
{
	uint32_t first = 0;
	while (s->files->items[first].size == 0)
		first++;
	const weir_status status = read_first(s, first, err);
	return status == WEIR_OK ? csv_columns_find(s->own, &s->source.renamed, s->files->items[first].path, &s->chunk, o, err)
	                         : status;
}

/* The kinds that read all cells: labels take booleans as numbers. */
static weir_status set_kinds(struct text_sample *s, weir_error *err)
{
	struct table_layout *l = s->own;
	if (!s->types)
		s->types = calloc(l->columns, sizeof *s->types);
	l->kinds = calloc(l->columns, sizeof *l->kinds);
	if (!s->types || !l->kinds)
		return out_of_memory(err);
	for (uint32_t i = 0; i < l->columns; i++)
		l->kinds[i] = s->types[i].is == TYPE_REFUSED ? COLUMN_IGNORE : s->types[i].is == TYPE_LIST ? COLUMN_MULTI : COLUMN_LABEL;
	s->source.types = s->types;
	return WEIR_OK;
}

/* --- Rows */

/* Reads the next chunk and begins its rows. */
static weir_status read_on(struct text_sample *s, weir_error *err)
{
	const uint64_t lines = row_reader_lines(&s->rows);
	const bool goes_on = s->text != NULL;
	const size_t slice = s->slice;
	const weir_status status = read_chunk(s, err);
	if (status != WEIR_OK)
		return status;
	s->lines += goes_on && s->slice == slice ? lines : 0;
	const bool first = s->taken == s->chunk.size && s->slices[s->slice].begin == 0;
	return row_reader_begin(&s->rows, s->source.layout, s->chunk.data, s->chunk.size, first) ? WEIR_OK : out_of_memory(err);
}

static weir_status next(struct column_source *source, weir_error *err)
{
	struct text_sample *s = (struct text_sample *)source;
	char why[PARSE_WHY_BYTES];
	for (;;) {
		struct cell row = {0};
		if (s->chunk.size == 0 || !row_reader_next(&s->rows, &row, &s->line)) {
			const weir_status status = read_on(s, err);
			if (status != WEIR_OK)
				return status;
			continue;
		}
		if (row_reader_is_blank(&s->rows))
			continue;
		s->whole = row_reader_is_whole(&s->rows, why);
		if (s->whole || !s->own)
			return WEIR_OK;
		s->source.sample.unread++;
	}
}

static const char *cell(struct column_source *source, uint32_t column, struct cell *out)
{
	struct text_sample *s = (struct text_sample *)source;
	return s->whole ? row_reader_cell(&s->rows, column, out) : "is in a row that cannot be read";
}

static enum parsed parse(struct column_source *source, const struct parser *p, struct rows *out, char why[PARSE_WHY_BYTES])
{
	return parse_table(p, &((struct text_sample *)source)->rows, out, why);
}

static void close_sample(struct column_source *source)
{
	struct text_sample *s = (struct text_sample *)source;
	text_close(s->text);
	text_chunk_destroy(&s->chunk);
	row_reader_destroy(&s->rows);
	table_layout_close(s->own);
	free(s->types);
	free(s->slices);
	free(s);
}

/* --- Opening */

/* Finds the columns, and cuts the files into slices: the columns of CSV tell how, and those of JSON
 * lines are in the slices. */
static weir_status begin(struct text_sample *s, enum table_rows rows, const struct column_source_options *o, weir_error *err)
{
	if (o->layout) {
		s->source.layout = o->layout;
		return cut(s, o->bytes, err);
	}
	s->source.layout = s->own = calloc(1, sizeof *s->own);
	if (!s->own)
		return out_of_memory(err);
	s->own->rows = rows;
	weir_status status = rows == ROWS_CSV ? find_csv_columns(s, o, err) : WEIR_OK;
	if (status == WEIR_OK)
		status = cut(s, o->bytes, err);
	if (status == WEIR_OK && rows == ROWS_JSON)
		status = find_json_columns(s, err);
	return status == WEIR_OK ? set_kinds(s, err) : status;
}

weir_status text_sample_open(struct column_source **out, const struct sources *sources, enum table_rows rows,
                             const struct column_source_options *o, weir_error *err)
{
	static const struct column_source_ops ops = {next, cell, parse, place, close_sample};
	struct text_sample *s = calloc(1, sizeof *s);
	if (!s)
		return out_of_memory(err);
	s->source.ops = &ops;
	s->files = sources;
	s->source.sample.files = sources->count;
	for (uint32_t i = 0; i < sources->count; i++)
		s->source.sample.bytes_all += sources->items[i].size;
	const weir_status status = begin(s, rows, o, err);
	if (status != WEIR_OK) {
		close_sample(&s->source);
		return status;
	}
	*out = &s->source;
	return WEIR_OK;
}
