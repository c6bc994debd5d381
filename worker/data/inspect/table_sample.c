#include "worker/data/inspect/table_sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/arrow_column.h"
#include "worker/data/format/parse_table.h"
#include "worker/data/format/row_reader.h"
#include "worker/data/format/table_file.h"

struct table_sample {
	struct column_source source;
	const struct sources *files;
	struct table_layout *own;  /* NULL: the layout is a job's */
	struct column_type *types; /* (layout->columns) with `own`: as all files so far have them */
	double share;              /* of the rows of each file */
	uint32_t file;             /* the current one */
	struct table_file *table;  /* of it; NULL: it is not open yet */
	uint32_t ranges, range;    /* of the file; the current one */
	uint64_t row;              /* of the file, where the current batch begins */
	struct ArrowSchema schema; /* of the batch */
	struct ArrowArray batch;   /* release is NULL before the first */
	struct row_reader rows;
	uint64_t line; /* of the current row in the batch, from 0 */
};

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a sample of the data");
}

/* --- Types */

void table_sample_type(struct column_type *out, const struct ArrowSchema *schema)
{
	struct arrow_column c[ARROW_DEPTH_MAX];
	const char *other = arrow_column_of_schema(c, schema);
	*out = (struct column_type){.is = TYPE_REFUSED};
	if (other)
		snprintf(out->why, sizeof out->why, "of type %.40s, which columns do not have", other);
	else if (c->type >= ARROW_DATE32 && c->type <= ARROW_TIMESTAMP)
		out->is = TYPE_TIME;
	else if (arrow_column_is_list(c) && !arrow_reader_expects(COLUMN_MULTI, c))
		out->is = TYPE_LIST;
	else if (!arrow_reader_expects(COLUMN_CATEGORICAL, c) && !arrow_reader_expects(COLUMN_LABEL, c))
		out->is = TYPE_TEXT;
	else if (!arrow_reader_expects(COLUMN_NUMERIC, c))
		out->is = TYPE_REAL;
	else
		snprintf(out->why, sizeof out->why, "%s, which columns do not have",
		         arrow_column_is_list(c) ? "lists of floats" : "a dictionary of times");
}

/* The kind that reads all cells: labels take booleans as numbers. */
static enum column_kind kind_of(const struct column_type *type)
{
	static const enum column_kind kinds[] = {[TYPE_TEXT] = COLUMN_LABEL,
	                                         [TYPE_REAL] = COLUMN_NUMERIC,
	                                         [TYPE_TIME] = COLUMN_TIME,
	                                         [TYPE_LIST] = COLUMN_MULTI,
	                                         [TYPE_REFUSED] = COLUMN_IGNORE};
	return kinds[type->is];
}

/* Adds the type that a further file has: kind numeric takes floats, integers and texts. */
static void join(struct column_type *all, const struct column_type *other)
{
	if (all->is == TYPE_REFUSED || all->is == other->is)
		return;
	if (other->is == TYPE_REFUSED) {
		*all = *other;
	} else if (all->is <= TYPE_REAL && other->is <= TYPE_REAL) {
		all->is = TYPE_REAL;
	} else {
		all->is = TYPE_REFUSED;
		snprintf(all->why, sizeof all->why, "the files have different types of it");
	}
}

static const struct ArrowSchema *find(const struct ArrowSchema *schema, const char *name)
{
	for (int64_t i = 0; i < schema->n_children; i++)
		if (schema->children[i]->name && strcmp(schema->children[i]->name, name) == 0)
			return schema->children[i];
	return NULL;
}

/* Takes the types of the open file, and the kinds that read them. */
static weir_status take_types(struct table_sample *s, weir_error *err)
{
	struct ArrowSchema schema = {0};
	uint32_t own;
	const weir_status status = table_file_schema(s->table, &schema, &own, err);
	for (uint32_t i = 0; i < s->own->columns && status == WEIR_OK; i++) {
		struct column_type type = {.is = TYPE_REFUSED};
		const struct ArrowSchema *column = find(&schema, s->own->names[i]);
		if (column)
			table_sample_type(&type, column);
		if (s->file == 0)
			s->types[i] = type;
		else
			join(&s->types[i], &type);
		s->own->kinds[i] = kind_of(&type);
	}
	if (schema.release)
		schema.release(&schema);
	return status;
}

/* --- Ranges of rows */

/* Begins the current range of the file. */
static weir_status begin_range(struct table_sample *s, weir_error *err)
{
	const uint64_t rows = table_file_rows(s->table), step = rows / s->ranges;
	const uint64_t each = (uint64_t)ceil((double)rows * s->share / s->ranges);
	const uint64_t begin = s->range * step, end = begin + each < rows ? begin + each : rows;
	s->row = begin;
	if (rows > 0)
		s->source.sample.bytes += (uint64_t)((double)s->files->items[s->file].size * (double)(end - begin) / (double)rows);
	return table_file_begin(s->table, begin, end, err);
}

static weir_status begin_file(struct table_sample *s, weir_error *err)
{
	const struct source *file = &s->files->items[s->file];
	weir_status status = table_file_open(&s->table, file->path, s->source.layout, err);
	if (status == WEIR_OK && s->own)
		status = take_types(s, err);
	if (status != WEIR_OK)
		return status;
	const double ranges = s->share < 1 ? (double)file->size * s->share / TABLE_SAMPLE_RANGE_BYTES + 1 : 1;
	s->ranges = ranges < TABLE_SAMPLE_RANGES ? (uint32_t)ranges : TABLE_SAMPLE_RANGES;
	s->range = 0;
	return begin_range(s, err);
}

/* Ends the current range: goes on with the next one, or with the next file. */
static weir_status end_range(struct table_sample *s, weir_error *err)
{
	if (++s->range < s->ranges)
		return begin_range(s, err);
	table_file_close(s->table);
	s->table = NULL;
	s->file++;
	return WEIR_OK;
}

static void release_batch(struct table_sample *s)
{
	if (s->batch.release)
		s->batch.release(&s->batch);
	if (s->schema.release)
		s->schema.release(&s->schema);
	s->batch.release = NULL;
	s->schema.release = NULL;
}

static weir_status begin_rows(struct table_sample *s, weir_error *err)
{
	weir_error why;
	const weir_status status = row_reader_begin_batch(&s->rows, s->source.layout, &s->schema, &s->batch, &why);
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "%.200s: %s", s->files->items[s->file].path, why.text);
}

/* Reads the next batch that has rows, and begins them. E_NOT_FOUND: all are read. */
static weir_status read_on(struct table_sample *s, weir_error *err)
{
	if (s->batch.release)
		s->row += row_reader_lines(&s->rows);
	release_batch(s);
	while (s->file < s->files->count) {
		weir_status status = s->table ? WEIR_OK : begin_file(s, err);
		if (status == WEIR_OK)
			status = table_file_next(s->table, &s->schema, &s->batch, err);
		if (status == WEIR_OK && s->batch.release)
			return begin_rows(s, err);
		if (status == WEIR_OK)
			status = end_range(s, err);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_E_NOT_FOUND;
}

/* --- Rows */

static weir_status next(struct column_source *source, weir_error *err)
{
	struct table_sample *s = (struct table_sample *)source;
	struct cell row;
	while (!s->batch.release || !row_reader_next(&s->rows, &row, &s->line)) {
		const weir_status status = read_on(s, err);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

static const char *cell(struct column_source *source, uint32_t column, struct cell *out)
{
	return row_reader_cell(&((struct table_sample *)source)->rows, column, out);
}

static enum parsed parse(struct column_source *source, const struct parser *p, struct rows *out, char why[PARSE_WHY_BYTES])
{
	return parse_table(p, &((struct table_sample *)source)->rows, out, why);
}

static void place(const struct column_source *source, char out[COLUMN_PLACE_BYTES])
{
	const struct table_sample *s = (const struct table_sample *)source;
	snprintf(out, COLUMN_PLACE_BYTES, "%.400s:%" PRIu64, s->files->items[s->file].path, s->row + s->line + 1);
}

static void close_sample(struct column_source *source)
{
	struct table_sample *s = (struct table_sample *)source;
	row_reader_destroy(&s->rows);
	release_batch(s);
	table_file_close(s->table);
	table_layout_close(s->own);
	free(s->types);
	free(s);
}

/* --- Opening */

static weir_status find_columns(struct table_sample *s, enum table_rows rows, weir_error *err)
{
	const weir_status status = table_layout_of_files(&s->own, rows, s->files, err);
	if (status != WEIR_OK)
		return status;
	for (uint32_t i = 0; i < s->own->columns; i++)
		if (!s->own->names[i][0])
			return weir_fail(err, WEIR_E_INVALID, "%s: column %u has no name, by which a job could use it: give it one",
			                 s->files->items[0].path, i + 1);
	s->types = calloc(s->own->columns, sizeof *s->types);
	s->source.layout = s->own;
	s->source.types = s->types;
	return s->types ? WEIR_OK : out_of_memory(err);
}

weir_status table_sample_open(struct column_source **out, const struct sources *sources, enum table_rows rows,
                              const struct column_source_options *o, weir_error *err)
{
	static const struct column_source_ops ops = {next, cell, parse, place, close_sample};
	struct table_sample *s = calloc(1, sizeof *s);
	if (!s)
		return out_of_memory(err);
	s->source.ops = &ops;
	s->source.layout = o->layout;
	s->files = sources;
	s->source.sample.files = sources->count;
	for (uint32_t i = 0; i < sources->count; i++)
		s->source.sample.bytes_all += sources->items[i].size;
	const uint64_t all = s->source.sample.bytes_all;
	s->share = all > o->bytes ? (double)o->bytes / (double)all : 1;
	const weir_status status = o->layout ? WEIR_OK : find_columns(s, rows, err);
	if (status != WEIR_OK) {
		close_sample(&s->source);
		return status;
	}
	*out = &s->source;
	return WEIR_OK;
}
