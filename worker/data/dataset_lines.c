/* Finds the lines behind rows (dataset.h). Reads the files again, independently of the reader of
 * the rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/dataset_internal.h"
#include "worker/data/format/parse_table.h"
#include "worker/data/format/table_file.h"

struct dataset_lines {
	const struct dataset *dataset;
	/* the current file, while it is being read */
	struct text *text;
	struct table_file *table; /* Parquet, Arrow */
	struct text_chunk chunk;
	size_t at; /* offset of the next line in the chunk */
	struct ArrowSchema schema;
	struct ArrowArray batch;
	struct row_reader reader; /* of the chunk or batch, with columns */
	uint32_t file;
	uint64_t line;   /* lines of the file before the chunk; without columns: before `at` */
	char number[32]; /* text of a cell that has none */
};

static bool has_batches(const struct dataset *d)
{
	return d->layout && row_reader_has_batches(d->layout);
}

weir_status dataset_lines_open(struct dataset_lines **out, const struct dataset *d, weir_error *err)
{
	if (!d->parser)
		return weir_fail(err, WEIR_E_INVALID, "%s: its rows are no lines of text, which alone have numbers",
		                 d->sources.items[0].path);
	struct dataset_lines *l = calloc(1, sizeof *l);
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for lines");
	l->dataset = d;
	*out = l;
	return WEIR_OK;
}

static void release_batch(struct dataset_lines *l)
{
	if (l->batch.release)
		l->batch.release(&l->batch);
	if (l->schema.release)
		l->schema.release(&l->schema);
}

static weir_status begin_table(struct dataset_lines *l, weir_error *err)
{
	const struct dataset *d = l->dataset;
	const weir_status status = table_file_open(&l->table, d->sources.items[l->file].path, d->layout, err);
	l->line = 0;
	return status == WEIR_OK ? table_file_begin(l->table, 0, table_file_rows(l->table), err) : status;
}

static weir_status begin_file(struct dataset_lines *l, weir_error *err)
{
	const struct dataset *d = l->dataset;
	if (has_batches(d))
		return begin_table(l, err);
	const weir_status status = text_open(&l->text, d->sources.items[l->file].path, 0, UINT64_MAX, err);
	l->line = 0;
	if (status == WEIR_OK && d->layout && d->layout->rows == ROWS_CSV)
		text_set_csv(l->text, d->layout->marks);
	return status;
}

static void end_file(struct dataset_lines *l)
{
	text_close(l->text);
	table_file_close(l->table);
	l->text = NULL;
	l->table = NULL;
	l->file++;
}

/* Begins the rows of a chunk with columns. first: it begins its file. */
static weir_status begin_rows(struct dataset_lines *l, bool first, weir_error *err)
{
	l->line += first ? 0 : row_reader_lines(&l->reader);
	if (!row_reader_begin(&l->reader, l->dataset->layout, l->chunk.data, l->chunk.size, first))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for lines");
	return WEIR_OK;
}

/* Reads the file's next chunk or batch, and begins its rows. *any: false at the end of the file. */
static weir_status read_next(struct dataset_lines *l, bool first, bool *any, weir_error *err)
{
	const struct table_layout *layout = l->dataset->layout;
	if (!has_batches(l->dataset)) {
		const weir_status status = text_next(l->text, &l->chunk, err);
		*any = status == WEIR_OK && l->chunk.size > 0;
		return *any && layout ? begin_rows(l, first, err) : status;
	}
	l->line += first ? 0 : row_reader_lines(&l->reader);
	release_batch(l);
	const weir_status status = table_file_next(l->table, &l->schema, &l->batch, err);
	*any = status == WEIR_OK && l->batch.release;
	return *any ? row_reader_begin_batch(&l->reader, layout, &l->schema, &l->batch, err) : status;
}

/* Reads the next chunk, of this file or of the next ones. E_NOT_FOUND: all chunks are read. */
static weir_status read_on(struct dataset_lines *l, weir_error *err)
{
	for (l->at = 0;;) {
		const bool first = !l->text && !l->table;
		bool any = false;
		if (l->file == l->dataset->sources.count)
			return WEIR_E_NOT_FOUND;
		weir_status status = first ? begin_file(l, err) : WEIR_OK;
		if (status == WEIR_OK)
			status = read_next(l, first, &any, err);
		if (status != WEIR_OK || any)
			return status;
		end_file(l);
	}
}

/* Takes the chunk's next line; false: it has no more. */
static bool take(struct dataset_lines *l, struct cell *text, uint64_t *line)
{
	if (l->dataset->layout) {
		const bool taken = (l->chunk.size > 0 || l->batch.release) && row_reader_next(&l->reader, text, line);
		*line += l->line + 1;
		return taken;
	}
	if (l->at >= l->chunk.size)
		return false;
	const char *at = l->chunk.data + l->at, *newline = memchr(at, '\n', l->chunk.size - l->at);
	const size_t n = !newline ? l->chunk.size - l->at : (size_t)(newline - at);
	l->at += n + 1;
	*text = (struct cell){.text = at, .n = parse_line_bytes(at, n)};
	*line = ++l->line;
	return true;
}

static enum split_part part_of(struct dataset_lines *l, const struct cell *text)
{
	const struct dataset *d = l->dataset;
	return d->layout ? parse_table_part(d->parser, &d->load.split, &l->reader, text)
	                 : split_line(&d->load.split, text->text, text->n);
}

weir_status dataset_lines_next(struct dataset_lines *l, const char **file, uint64_t *line, weir_error *err)
{
	const struct dataset *d = l->dataset;
	for (;;) {
		struct cell text;
		uint64_t number = 0;
		if (!take(l, &text, &number)) {
			const weir_status status = read_on(l, err);
			if (status != WEIR_OK)
				return status;
			continue;
		}
		if (d->load.split.on && part_of(l, &text) != d->part)
			continue;
		*file = d->sources.items[l->file].path;
		*line = number;
		return WEIR_OK;
	}
}

weir_status dataset_lines_find(const struct dataset_lines *l, const char *name, uint32_t *column, weir_error *err)
{
	const struct table_layout *layout = l->dataset->layout;
	if (!layout)
		return weir_fail(err, WEIR_E_INVALID, "%s has no columns with names, which data.columns describes",
		                 l->dataset->sources.items[0].path);
	for (*column = 0; *column < layout->columns; ++*column)
		if (strcmp(layout->names[*column], name) == 0)
			return layout->rows == ROWS_CSV || layout->kinds[*column] != COLUMN_IGNORE
			           ? WEIR_OK
			           : weir_fail(err, WEIR_E_INVALID, "the column '%.60s' is of kind ignore and is not read; make it kind: id",
			                       name);
	const char *nearest = job_nearest(name, (const char *const *)layout->names, layout->columns);
	return weir_fail(err, WEIR_E_NOT_FOUND, "%s has no column '%.60s'%s%.60s%s", l->dataset->sources.items[0].path, name,
	                 nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
}

struct dataset_cell dataset_lines_cell(struct dataset_lines *l, uint32_t column)
{
	struct cell cell = {.text = ""};
	char why[PARSE_WHY_BYTES];
	if (!row_reader_is_whole(&l->reader, why) || row_reader_cell(&l->reader, column, &cell))
		return (struct dataset_cell){.text = ""};
	if (cell.form == CELL_NUMBER || cell.form == CELL_TIME) {
		const int n = cell.form == CELL_TIME ? snprintf(l->number, sizeof l->number, "%" PRId64, cell.time_ms)
		                                     : snprintf(l->number, sizeof l->number, "%.9g", (double)cell.number);
		return (struct dataset_cell){.text = l->number, .n = (size_t)n};
	}
	const bool list = cell.form == CELL_LIST;
	cell.n -= list && cell.n > 0 && cell.text[cell.n - 1] == 0; /* a byte behind the last text */
	return (struct dataset_cell){.text = cell.text, .n = cell.n, .list = list};
}

void dataset_lines_close(struct dataset_lines *l)
{
	if (!l)
		return;
	text_close(l->text);
	table_file_close(l->table);
	row_reader_destroy(&l->reader);
	release_batch(l);
	text_chunk_destroy(&l->chunk);
	free(l);
}
