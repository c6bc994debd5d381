#include "worker/data/inspect/csv_sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/parse_table.h"
#include "worker/data/format/row_reader.h"

/* Rows that begin in bytes [begin, end) of a file; of the first slice of a file, at least `bytes`
 * of text, wherever the last row ends. */
struct slice {
	uint32_t file;
	uint64_t begin, end, bytes;
};

struct csv_sample {
	struct column_source source;
	const struct sources *files;
	struct csv_found found;
	struct slice *slices; /* (slices_count) */
	size_t slices_count, slice;
	struct text *text; /* of the current slice */
	uint64_t taken;    /* bytes of text of it */
	struct text_chunk chunk;
	struct row_reader rows; /* of CSV */
	uint64_t lines;         /* lines of the slice before the chunk */
	uint64_t line;          /* of the current row in the chunk, from 0 */
};

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a sample of the data");
}

/* --- Slices */

static bool add_slice(struct csv_sample *s, const struct slice *slice)
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

/* Whether the first chunk of a plain file has a quote. */
static weir_status has_quotes(const char *path, struct text_chunk *chunk, bool *out, weir_error *err)
{
	struct text *text;
	weir_status status = text_open(&text, path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	status = text_next(text, chunk, err);
	*out = status == WEIR_OK && memchr(chunk->data, '"', chunk->size);
	text_close(text);
	return status;
}

/* Cuts `bytes` of a file into slices. */
static weir_status cut_file(struct csv_sample *s, uint32_t file, uint64_t bytes, weir_error *err)
{
	const struct source *f = &s->files->items[file];
	const struct slice whole = {.file = file, .end = UINT64_MAX, .bytes = bytes};
	bool quotes = f->kind != TEXT_PLAIN;
	weir_status status = WEIR_OK;
	if (!quotes && f->size > bytes)
		status = has_quotes(f->path, &s->chunk, &quotes, err);
	if (status != WEIR_OK)
		return status;
	if (quotes || f->size <= bytes)
		return add_slice(s, &whole) ? WEIR_OK : out_of_memory(err);
	const uint64_t count = bytes / CSV_SAMPLE_SLICE_BYTES + 1, step = f->size / count, each = bytes / count;
	for (uint64_t i = 0; i < count && status == WEIR_OK; i++) {
		const struct slice slice = {.file = file, .begin = i * step, .end = i * step + each, .bytes = UINT64_MAX};
		status = add_slice(s, &slice) ? WEIR_OK : out_of_memory(err);
	}
	return status;
}

static weir_status cut(struct csv_sample *s, uint64_t bytes, weir_error *err)
{
	weir_status status = WEIR_OK;
	uint64_t all = 0;
	for (uint32_t i = 0; i < s->files->count; i++)
		all += s->files->items[i].size;
	s->source.sample.bytes_all = all;
	s->source.sample.files = s->files->count;
	for (uint32_t i = 0; i < s->files->count && status == WEIR_OK; i++) {
		const uint64_t size = s->files->items[i].size;
		const double share = all > bytes ? (double)bytes / (double)all : 1;
		if (size > 0)
			status = cut_file(s, i, share < 1 ? (uint64_t)((double)size * share) + 1 : size, err);
	}
	return status;
}

/* --- Columns */

static weir_status add_name(struct csv_sample *s, const char *text, size_t n, weir_error *err)
{
	char **name = &s->source.names[s->source.columns];
	if (n >= WEIR_COLUMN_NAME_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s: the name of column %u has %zu bytes; at most %u: is it a header?",
		                 s->files->items[s->slices[0].file].path, s->source.columns + 1, n, WEIR_COLUMN_NAME_BYTES_MAX - 1);
	*name = strndup(text, n);
	s->source.columns += *name != NULL;
	return *name ? WEIR_OK : out_of_memory(err);
}

/* Takes the names of the columns from the reader's current row, the first one. */
static weir_status take_names(struct csv_sample *s, const struct csv_sample_options *o, weir_error *err)
{
	const uint32_t cells = csv_reader_cells(&s->rows.csv);
	weir_status status = WEIR_OK;
	if (cells > WEIR_COLUMNS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s has %u columns; at most %u", s->files->items[s->slices[0].file].path, cells,
		                 WEIR_COLUMNS_MAX);
	s->source.names = calloc(cells, sizeof *s->source.names);
	if (!s->source.names)
		return out_of_memory(err);
	for (uint32_t i = 0; i < cells && status == WEIR_OK; i++) {
		struct cell cell = {0};
		char number[16];
		const char *bad = NULL;
		if (i < o->names_count)
			cell = (struct cell){o->names[i], strlen(o->names[i])};
		else if (s->found.dialect.header)
			bad = csv_reader_cell(&s->rows.csv, i, &cell);
		if (!bad && cell.n == 0) {
			s->found.renamed |= s->found.dialect.header;
			cell = (struct cell){number, (size_t)snprintf(number, sizeof number, "c%u", i + 1)};
		}
		status = bad ? weir_fail(err, WEIR_E_PARSE, "%s:1: the name of column %u %s", s->files->items[s->slices[0].file].path,
		                         i + 1, bad)
		             : add_name(s, cell.text, cell.n, err);
	}
	return status;
}

/* --- Rows */

static weir_status begin_slice(struct csv_sample *s, weir_error *err)
{
	const struct slice *slice = &s->slices[s->slice];
	const weir_status status = text_open(&s->text, s->files->items[slice->file].path, slice->begin, slice->end, err);
	s->taken = s->lines = s->rows.csv.lines = 0;
	if (status == WEIR_OK && slice->begin == 0)
		text_set_csv(s->text, s->found.dialect.marks);
	return status;
}

static void end_slice(struct csv_sample *s)
{
	text_close(s->text);
	s->text = NULL;
	s->slice++;
}

/* Begins the rows of the chunk. */
static weir_status begin_chunk(struct csv_sample *s, weir_error *err)
{
	const bool first = s->taken == 0 && s->slices[s->slice].begin == 0;
	struct cell row;
	s->lines += s->rows.csv.lines;
	s->taken += s->chunk.size;
	s->source.sample.bytes += s->chunk.size;
	if (!csv_reader_begin(&s->rows.csv, s->found.dialect.marks, s->chunk.data, s->chunk.size))
		return out_of_memory(err);
	if (first && s->found.dialect.header)
		(void)csv_reader_next(&s->rows.csv, &row, &s->line);
	return WEIR_OK;
}

/* Reads the next chunk, of this slice or of the next ones. E_NOT_FOUND: all are read. */
static weir_status read_on(struct csv_sample *s, weir_error *err)
{
	while (s->slice < s->slices_count) {
		const struct slice *slice = &s->slices[s->slice];
		weir_status status = s->text ? WEIR_OK : begin_slice(s, err);
		if (status == WEIR_OK)
			status = text_next(s->text, &s->chunk, err);
		if (status != WEIR_OK)
			return status;
		const bool lost = slice->begin > 0 && memchr(s->chunk.data, '"', s->chunk.size);
		s->source.sample.skipped += lost;
		if (s->chunk.size > 0 && s->taken < slice->bytes && !lost)
			return begin_chunk(s, err);
		end_slice(s);
	}
	return WEIR_E_NOT_FOUND;
}

static weir_status next(struct column_source *source, weir_error *err)
{
	struct csv_sample *s = (struct csv_sample *)source;
	for (;;) {
		struct cell row = {0};
		if (s->chunk.size == 0 || !csv_reader_next(&s->rows.csv, &row, &s->line)) {
			const weir_status status = read_on(s, err);
			if (status != WEIR_OK) {
				s->chunk.size = 0;
				return status;
			}
			continue;
		}
		if (csv_reader_cells(&s->rows.csv) == s->source.columns && (row.n > 0 || s->source.columns > 1))
			return WEIR_OK;
		s->source.sample.ragged += row.n > 0; /* others are blank */
	}
}

static const char *cell(struct column_source *source, uint32_t column, struct column_cell *out)
{
	struct cell cell;
	const char *bad = csv_reader_cell(&((struct csv_sample *)source)->rows.csv, column, &cell);
	*out = (struct column_cell){cell.text, cell.n};
	return bad;
}

static enum parsed parse(struct column_source *source, const struct parser *p, struct rows *out, char why[PARSE_WHY_BYTES])
{
	struct row_reader *rows = &((struct csv_sample *)source)->rows;
	rows->layout = p->layout;
	return parse_table(p, rows, out, why);
}

static void place(const struct column_source *source, char out[COLUMN_PLACE_BYTES])
{
	const struct csv_sample *s = (const struct csv_sample *)source;
	const struct slice *slice = &s->slices[s->slice];
	const char *path = s->files->items[slice->file].path;
	if (slice->begin == 0)
		snprintf(out, COLUMN_PLACE_BYTES, "%.400s:%" PRIu64, path, s->lines + s->line + 1);
	else
		snprintf(out, COLUMN_PLACE_BYTES, "%.400s, line %" PRIu64 " after byte %" PRIu64, path, s->lines + s->line + 1,
		         slice->begin);
}

static void close_sample(struct column_source *source)
{
	struct csv_sample *s = (struct csv_sample *)source;
	text_close(s->text);
	text_chunk_destroy(&s->chunk);
	row_reader_destroy(&s->rows);
	for (uint32_t i = 0; i < s->source.columns; i++)
		free(s->source.names[i]);
	free(s->source.names);
	free(s->slices);
	free(s);
}

/* --- Opening */

/* Reads the first chunk of the first file that is not empty, as lines: a row with newlines inside
 * quotes may be cut at its end. */
static weir_status read_first(struct csv_sample *s, weir_error *err)
{
	struct text *text;
	weir_status status = text_open(&text, s->files->items[s->slices[0].file].path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	status = text_next(text, &s->chunk, err);
	text_close(text);
	return status;
}

/* Names the format of files that are no CSV. */
static weir_status refuse_other_formats(const struct csv_sample *s, weir_error *err)
{
	static const struct {
		const char *begins, *is;
	} others[] = {{"{", "JSON lines: data.format: jsonl"},
	              {"PAR1", "a Parquet file: data.format: parquet"},
	              {"ARROW1", "an Arrow file: data.format: arrow"}};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strncmp(s->chunk.data, others[i].begins, strlen(others[i].begins)) == 0)
			return weir_fail(err, WEIR_E_UNSUPPORTED, "%s is %s takes it, with data.columns; weir inspect looks at CSV",
			                 s->files->items[s->slices[0].file].path, others[i].is);
	return WEIR_OK;
}

static weir_status find_columns(struct csv_sample *s, const struct csv_sample_options *o, weir_error *err)
{
	struct cell row;
	weir_status status = read_first(s, err);
	if (status == WEIR_OK)
		status = refuse_other_formats(s, err);
	if (status == WEIR_OK)
		status = csv_dialect_find(&s->found.dialect, s->chunk.data, s->chunk.size, o->marks, err);
	if (status != WEIR_OK)
		return status;
	if (o->header != HEADER_RECOGNISED)
		s->found.dialect.header = o->header == HEADER_THERE;
	if (!csv_reader_begin(&s->rows.csv, s->found.dialect.marks, s->chunk.data, s->chunk.size))
		return out_of_memory(err);
	if (!csv_reader_next(&s->rows.csv, &row, &s->line))
		return weir_fail(err, WEIR_E_INVALID, "%s has no row", s->files->items[s->slices[0].file].path);
	status = take_names(s, o, err);
	s->chunk.size = 0; /* the slices begin anew */
	return status;
}

weir_status csv_sample_open(struct column_source **out, struct csv_found *found, const struct sources *sources,
                            const struct csv_sample_options *o, weir_error *err)
{
	static const struct column_source_ops ops = {next, cell, parse, place, close_sample};
	struct csv_sample *s = calloc(1, sizeof *s);
	if (!s)
		return out_of_memory(err);
	s->source.ops = &ops;
	s->files = sources;
	weir_status status = cut(s, o->bytes, err);
	if (status == WEIR_OK && s->slices_count == 0)
		status = weir_fail(err, WEIR_E_INVALID, "%s is empty: there is no row to look at", sources->items[0].path);
	if (status == WEIR_OK)
		status = find_columns(s, o, err);
	if (status != WEIR_OK) {
		close_sample(&s->source);
		return status;
	}
	*found = s->found;
	*out = &s->source;
	return WEIR_OK;
}
