/* The columns of files, as their headers and schemas name them. */
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/csv_reader.h"
#include "worker/data/format/table_file.h"
#include "worker/data/format/table_layout.h"
#include "worker/data/format/table_names.h"
#include "worker/data/format/text.h"

/* Takes the cells of the reader's current row as names. */
static weir_status take_header(struct csv_reader *r, const char *path, struct table_names *out, weir_error *err)
{
	const uint32_t cells = csv_reader_cells(r);
	if (cells > WEIR_COLUMNS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s: the header has %u columns; at most %u", path, cells, WEIR_COLUMNS_MAX);
	*out = (struct table_names){.items = calloc(cells, sizeof *out->items)};
	weir_status status = out->items ? WEIR_OK : table_names_no_memory(path, err);
	for (uint32_t i = 0; i < cells && status == WEIR_OK; i++) {
		struct cell cell;
		const char *bad = csv_reader_cell(r, i, &cell);
		if (!bad && memchr(cell.text, '\r', cell.n))
			return weir_fail(err, WEIR_E_PARSE, "%s ends its lines with CR alone; expected LF or CRLF: use tr '\\r' '\\n' first",
			                 path);
		status = bad ? weir_fail(err, WEIR_E_PARSE, "%s:1: the name of column %u %s", path, i + 1, bad)
		             : table_names_add(out, path, cell.text, cell.n, err);
	}
	return status;
}

/* Takes the names of a Parquet or Arrow file's columns. */
static weir_status read_schema(const struct table_layout *l, const struct job *job, const char *path, struct table_names *out,
                               weir_error *err)
{
	struct table_file *t;
	uint32_t own = 0;
	struct ArrowSchema schema = {0};
	weir_status status = table_file_open(&t, path, l, err);
	if (status != WEIR_OK)
		return status;
	status = table_file_schema(t, &schema, &own, err);
	if (status == WEIR_OK)
		status = table_names_take(&schema, own, job, path, out, err);
	if (schema.release)
		schema.release(&schema);
	table_file_close(t);
	return status;
}

/* Reads the header of a file; an empty file gives no names. */
static weir_status read_header(const struct table_layout *l, const char *path, struct table_names *out, weir_error *err)
{
	struct text *text;
	struct text_chunk chunk = {0};
	struct csv_reader reader = {0};
	struct cell row;
	uint64_t line;
	weir_status status = text_open(&text, path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	text_set_csv(text, l->marks);
	status = text_next(text, &chunk, err);
	if (status == WEIR_OK && chunk.size > 0 && !csv_reader_begin(&reader, l->marks, chunk.data, chunk.size))
		status = table_names_no_memory(path, err);
	if (status == WEIR_OK && chunk.size > 0 && csv_reader_next(&reader, &row, &line))
		status = take_header(&reader, path, out, err);
	csv_reader_destroy(&reader);
	text_chunk_destroy(&chunk);
	text_close(text);
	return status;
}

static weir_status copy_names(const struct job *job, const char *path, struct table_names *out, weir_error *err)
{
	const uint32_t given = job->data.csv.names_count, count = given > 0 ? given : job->data.columns_count;
	*out = (struct table_names){.items = calloc(count, sizeof *out->items)};
	weir_status status = out->items ? WEIR_OK : table_names_no_memory(path, err);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		const char *name = given > 0 ? job->data.csv.names[i] : job->data.columns[i].name;
		status = table_names_add(out, path, name, strlen(name), err);
	}
	return status;
}

/* Compares the header of a further file with the first one's. */
static weir_status check_same(const struct table_names *first, const struct table_names *other, const char *first_path,
                              const char *other_path, weir_error *err)
{
	for (uint32_t i = 0; i < first->count && i < other->count; i++)
		if (strcmp(first->items[i], other->items[i]) != 0)
			return weir_fail(err, WEIR_E_INVALID,
			                 "%s: column %u is '%.60s', and that of %s is '%.60s'; expected the same columns in the same order "
			                 "in all files",
			                 other_path, i + 1, other->items[i], first_path, first->items[i]);
	if (first->count != other->count)
		return weir_fail(err, WEIR_E_INVALID, "%s has %u columns, and %s has %u; expected the same columns in all files",
		                 other_path, other->count, first_path, first->count);
	return WEIR_OK;
}

/* Reads the names of the files' columns, and checks that all files have the same. *path: of the
 * first file that is not empty. */
static weir_status read_names(const struct table_layout *l, const struct job *job, const struct sources *sources,
                              struct table_names *out, const char **path, weir_error *err)
{
	weir_status status = WEIR_OK;
	*path = sources->items[0].path;
	for (uint32_t i = 0; i < sources->count && status == WEIR_OK; i++) {
		struct table_names own = {0};
		const char *file = sources->items[i].path;
		status = l->rows == ROWS_CSV ? read_header(l, file, &own, err) : read_schema(l, job, file, &own, err);
		if (status == WEIR_OK && out->count > 0 && own.count > 0)
			status = check_same(out, &own, *path, sources->items[i].path, err);
		if (status == WEIR_OK && out->count == 0 && own.count > 0) {
			*path = sources->items[i].path;
			*out = own;
		} else {
			table_names_destroy(&own);
		}
	}
	if (status == WEIR_OK && out->count == 0)
		status = weir_fail(err, WEIR_E_INVALID, "%s is empty; expected a header with the names of the columns", *path);
	return status;
}

/* Finds the names of the files' columns: in the files, or in the job. */
static weir_status find_names(const struct table_layout *l, const struct job *job, const struct sources *sources,
                              struct table_names *out, const char **path, weir_error *err)
{
	if (l->rows != ROWS_JSON && (l->rows != ROWS_CSV || l->header) && job->data.csv.names_count == 0)
		return read_names(l, job, sources, out, path, err);
	*path = sources->items[0].path;
	return copy_names(job, *path, out, err);
}

/* --- The layout */

static enum table_rows rows_of(enum data_format format)
{
	return format == DATA_JSONL     ? ROWS_JSON
	       : format == DATA_PARQUET ? ROWS_PARQUET
	       : format == DATA_ARROW   ? ROWS_ARROW
	                                : ROWS_CSV;
}

weir_status table_layout_open(struct table_layout **out, const struct job *job, const struct sources *sources, bool scored,
                              weir_error *err)
{
	const struct table_layout how = {.rows = rows_of(job->data.format),
	                                 .marks = {job->data.csv.delimiter[0], job_csv_quote(job)},
	                                 .header = job->data.csv.header};
	const char *path;
	struct table_names names = {0};
	const weir_status status = find_names(&how, job, sources, &names, &path, err);
	if (status == WEIR_OK)
		return table_layout_make(out, job, &(struct table_source_names){how.rows, path, &names}, scored, err);
	table_names_destroy(&names);
	return status;
}

weir_status table_layout_of_files(struct table_layout **out, enum table_rows rows, const struct sources *sources, weir_error *err)
{
	const char *path;
	struct table_names names = {0};
	struct table_layout *l = calloc(1, sizeof *l);
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading the columns of the data");
	l->rows = rows;
	weir_status status = read_names(l, NULL, sources, &names, &path, err);
	l->names = names.items;
	l->columns = names.count;
	if (status == WEIR_OK && !(l->kinds = calloc(l->columns, sizeof *l->kinds)))
		status = table_names_no_memory(path, err);
	if (status == WEIR_OK)
		status = table_names_check(&names, path, err);
	if (status != WEIR_OK) {
		table_layout_close(l);
		return status;
	}
	for (uint32_t i = 0; i < l->columns; i++)
		l->kinds[i] = COLUMN_IGNORE;
	*out = l;
	return WEIR_OK;
}
