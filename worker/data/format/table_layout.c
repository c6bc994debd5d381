#include "worker/data/format/table_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "worker/data/format/csv_reader.h"
#include "worker/data/format/parse.h"
#include "worker/data/format/table_file.h"

static weir_status out_of_memory(const char *path, weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory reading the columns of %s", path);
}

/* --- Names of columns */

struct names {
	char **items; /* (count) */
	uint32_t count;
};

static void free_names(struct names *n)
{
	for (uint32_t i = 0; i < n->count; i++)
		free(n->items[i]);
	free(n->items);
	*n = (struct names){0};
}

static weir_status add_name(struct names *n, const char *path, const char *text, size_t bytes, weir_error *err)
{
	if (bytes >= WEIR_COLUMN_NAME_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s: the name of column %u has %zu bytes; at most %u", path, n->count + 1, bytes,
		                 WEIR_COLUMN_NAME_BYTES_MAX - 1);
	n->items[n->count] = strndup(text, bytes);
	return n->items[n->count++] ? WEIR_OK : out_of_memory(path, err);
}

/* Takes the cells of the reader's current row as names. */
static weir_status take_header(struct csv_reader *r, const char *path, struct names *out, weir_error *err)
{
	const uint32_t cells = csv_reader_cells(r);
	if (cells > WEIR_COLUMNS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s: the header has %u columns; at most %u", path, cells, WEIR_COLUMNS_MAX);
	*out = (struct names){.items = calloc(cells, sizeof *out->items)};
	weir_status status = out->items ? WEIR_OK : out_of_memory(path, err);
	for (uint32_t i = 0; i < cells && status == WEIR_OK; i++) {
		struct cell cell;
		const char *bad = csv_reader_cell(r, i, &cell);
		if (!bad && memchr(cell.text, '\r', cell.n))
			return weir_fail(err, WEIR_E_PARSE, "%s ends its lines with CR alone; expected LF or CRLF: use tr '\\r' '\\n' first",
			                 path);
		status = bad ? weir_fail(err, WEIR_E_PARSE, "%s:1: the name of column %u %s", path, i + 1, bad)
		             : add_name(out, path, cell.text, cell.n, err);
	}
	return status;
}

/* Takes the file's own columns, and those of its folders that the job names; without a job all. */
static weir_status take_schema(const struct ArrowSchema *schema, uint32_t own, const struct job *job, const char *path,
                               struct names *out, weir_error *err)
{
	const int64_t columns = schema->n_children;
	if (columns < 1 || columns > WEIR_COLUMNS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s has %lld columns; expected 1 to %u", path, (long long)columns, WEIR_COLUMNS_MAX);
	*out = (struct names){.items = calloc((size_t)columns, sizeof *out->items)};
	weir_status status = out->items ? WEIR_OK : out_of_memory(path, err);
	for (int64_t i = 0; i < columns && status == WEIR_OK; i++) {
		const char *name = schema->children[i]->name ? schema->children[i]->name : "";
		if (i < own || !job || job_column_find(job, name))
			status = add_name(out, path, name, strlen(name), err);
	}
	return status;
}

/* Takes the names of a Parquet or Arrow file's columns. */
static weir_status read_schema(const struct table_layout *l, const struct job *job, const char *path, struct names *out,
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
		status = take_schema(&schema, own, job, path, out, err);
	if (schema.release)
		schema.release(&schema);
	table_file_close(t);
	return status;
}

/* Reads the header of a file; an empty file gives no names. */
static weir_status read_header(const struct table_layout *l, const char *path, struct names *out, weir_error *err)
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
		status = out_of_memory(path, err);
	if (status == WEIR_OK && chunk.size > 0 && csv_reader_next(&reader, &row, &line))
		status = take_header(&reader, path, out, err);
	csv_reader_destroy(&reader);
	text_chunk_destroy(&chunk);
	text_close(text);
	return status;
}

static weir_status copy_names(const struct job *job, const char *path, struct names *out, weir_error *err)
{
	const uint32_t given = job->data.csv.names_count, count = given > 0 ? given : job->data.columns_count;
	*out = (struct names){.items = calloc(count, sizeof *out->items)};
	weir_status status = out->items ? WEIR_OK : out_of_memory(path, err);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		const char *name = given > 0 ? job->data.csv.names[i] : job->data.columns[i].name;
		status = add_name(out, path, name, strlen(name), err);
	}
	return status;
}

/* Compares the header of a further file with the first one's. */
static weir_status check_same(const struct names *first, const struct names *other, const char *first_path,
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
                              struct names *out, const char **path, weir_error *err)
{
	weir_status status = WEIR_OK;
	*path = sources->items[0].path;
	for (uint32_t i = 0; i < sources->count && status == WEIR_OK; i++) {
		struct names own = {0};
		const char *file = sources->items[i].path;
		status = l->rows == ROWS_CSV ? read_header(l, file, &own, err) : read_schema(l, job, file, &own, err);
		if (status == WEIR_OK && out->count > 0 && own.count > 0)
			status = check_same(out, &own, *path, sources->items[i].path, err);
		if (status == WEIR_OK && out->count == 0 && own.count > 0) {
			*path = sources->items[i].path;
			*out = own;
		} else {
			free_names(&own);
		}
	}
	if (status == WEIR_OK && out->count == 0)
		status = weir_fail(err, WEIR_E_INVALID, "%s is empty; expected a header with the names of the columns", *path);
	return status;
}

/* Finds the names of the files' columns: in the files, or in the job. */
static weir_status find_names(const struct table_layout *l, const struct job *job, const struct sources *sources,
                              struct names *out, const char **path, weir_error *err)
{
	if (l->rows != ROWS_JSON && (l->rows != ROWS_CSV || l->header) && job->data.csv.names_count == 0)
		return read_names(l, job, sources, out, path, err);
	*path = sources->items[0].path;
	return copy_names(job, *path, out, err);
}

/* --- Matching them with data.columns */

static uint32_t place_of(const struct table_layout *l, const char *name)
{
	uint32_t i = 0;
	while (i < l->columns && strcmp(l->names[i], name) != 0)
		i++;
	return i < l->columns ? i : TABLE_NO_COLUMN;
}

static weir_status check_once(const struct table_layout *l, const char *path, weir_error *err)
{
	for (uint32_t i = 0; i < l->columns; i++)
		if (place_of(l, l->names[i]) < i)
			return weir_fail(err, WEIR_E_INVALID,
			                 "%s: columns %u and %u are both '%.60s'; expected each name once: data.csv.names can give others",
			                 path, place_of(l, l->names[i]) + 1, i + 1, l->names[i]);
	return WEIR_OK;
}

static weir_status fail_missing(const struct table_layout *l, const char *name, const char *path, weir_error *err)
{
	const char *nearest = job_nearest(name, (const char *const *)l->names, l->columns);
	return weir_fail(err, WEIR_E_INVALID, "%s has no column '%.60s', which data.columns names%s%.60s%s", path, name,
	                 nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
}

static weir_status fail_unknown(const struct job *job, const char *name, const char *path, weir_error *err)
{
	const char **names = calloc(job->data.columns_count, sizeof *names);
	for (uint32_t i = 0; names && i < job->data.columns_count; i++)
		names[i] = job->data.columns[i].name;
	const char *nearest = names ? job_nearest(name, names, job->data.columns_count) : NULL;
	free(names);
	return weir_fail(
	    err, WEIR_E_INVALID,
	    "%s has the column '%.60s', which data.columns does not name%s%.60s%s; expected {name: '%.60s', kind: ignore} "
	    "if it is not to be used",
	    path, name, nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "", name);
}

/* Whether rows to score may lack a column. */
static bool is_optional(const struct job *job, const struct job_column *c)
{
	const enum column_kind kind = c->kind;
	return c != job_split_column(job) && (kind == COLUMN_LABEL || kind == COLUMN_WEIGHT || kind == COLUMN_GROUP ||
	                                      kind == COLUMN_TIME || kind == COLUMN_IGNORE);
}

static weir_status match(const struct table_layout *l, const struct job *job, const char *path, bool scored, weir_error *err)
{
	for (uint32_t i = 0; i < job->data.columns_count; i++) {
		const struct job_column *c = &job->data.columns[i];
		if (place_of(l, c->name) == TABLE_NO_COLUMN && !(scored && is_optional(job, c)))
			return fail_missing(l, c->name, path, err);
	}
	for (uint32_t i = 0; i < l->columns; i++)
		if (!job_column_find(job, l->names[i]))
			return fail_unknown(job, l->names[i], path, err);
	return WEIR_OK;
}

/* --- The layout */

/* A number that is cut into buckets has one key. */
static void place_number(struct table_layout *l, const struct job *job, const struct job_column *c)
{
	const struct table_feature f = {.cell = place_of(l, c->name),
	                                .key_field = job_column_key_field(job, c),
	                                .missing = c->empty[0]               ? strtof(c->empty, NULL)
	                                           : job_column_is_scaled(c) ? NAN
	                                                                     : 0.0f,
	                                .column = c};
	if (job_column_is_field(c))
		l->fields[l->fields_count++] = f;
	else
		l->dense[l->dense_count++] = f;
}

static void place_column(struct table_layout *l, const struct job *job, const struct job_column *c)
{
	const uint32_t cell = place_of(l, c->name);
	switch (c->kind) {
	case COLUMN_CATEGORICAL:
	case COLUMN_MULTI:
	case COLUMN_SEQUENCE:
		l->fields[l->fields_count++] =
		    (struct table_feature){.cell = cell, .key_field = job_column_key_field(job, c), .column = c};
		l->bags |= c->kind != COLUMN_CATEGORICAL;
		break;
	case COLUMN_NUMERIC:
		place_number(l, job, c);
		break;
	case COLUMN_LABEL:
		l->labels[l->labels_count++] =
		    (struct table_label){.cell = cell,
		                         .masked = c->missing == MISSING_MASKED,
		                         .positive_above = isnan(c->positive_above) ? job->data.positive_above : c->positive_above,
		                         .positive = c->positive,
		                         .empty = c->empty};
		l->unlabelled &= cell == TABLE_NO_COLUMN;
		break;
	case COLUMN_WEIGHT:
		l->weight = cell;
		l->weight_missing = c->empty[0] ? strtof(c->empty, NULL) : NAN;
		l->bags = true;
		break;
	case COLUMN_GROUP:
		l->group = cell;
		l->group_empty = c->empty;
		l->bags = true;
		break;
	case COLUMN_TIME:
	case COLUMN_ID:
	case COLUMN_IGNORE:
		break;
	}
}

/* Opens the vocabularies. A column that shares embeddings has that of the other one. */
static weir_status open_vocabularies(struct table_layout *l, const struct job *job, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t f = 0; f < l->fields_count && status == WEIR_OK; f++) {
		struct vocabulary *v = NULL;
		if (l->fields[f].column->vocabulary[0])
			status = vocabulary_open(&v, l->fields[f].column->vocabulary, job->data.hash_buckets, err);
		l->fields[f].vocabulary = v;
	}
	for (uint32_t f = 0; f < l->fields_count; f++)
		if (l->fields[f].column->share[0])
			l->fields[f].vocabulary = l->fields[l->fields[f].key_field].vocabulary;
	return status;
}

static enum table_rows rows_of(enum data_format format)
{
	return format == DATA_JSONL     ? ROWS_JSON
	       : format == DATA_PARQUET ? ROWS_PARQUET
	       : format == DATA_ARROW   ? ROWS_ARROW
	                                : ROWS_CSV;
}

static uint64_t settings_of(const struct table_layout *l, const struct job *job)
{
	const bool csv = l->rows == ROWS_CSV;
	const uint32_t how[] = {csv ? (uint32_t)l->marks.delimiter : 0, csv ? (uint32_t)l->marks.quote : 0, l->header, l->split};
	uint64_t hash = hash_bytes(how, sizeof how, job_columns_hash(job));
	for (uint32_t i = 0; i < l->columns; i++)
		hash = hash_bytes(l->names[i], strlen(l->names[i]) + 1, hash);
	for (uint32_t f = 0; f < l->fields_count; f++)
		if (l->fields[f].vocabulary)
			hash = hash_u64(hash + vocabulary_content(l->fields[f].vocabulary));
	return hash;
}

weir_status table_layout_open(struct table_layout **out, const struct job *job, const struct sources *sources, bool scored,
                              weir_error *err)
{
	const char *path;
	struct names names = {0};
	struct table_layout *l = calloc(1, sizeof *l);
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading the columns of the data");
	*l = (struct table_layout){.rows = rows_of(job->data.format),
	                           .marks = {job->data.csv.delimiter[0], job_csv_quote(job)},
	                           .header = job->data.csv.header,
	                           .unlabelled = true,
	                           .weight = TABLE_NO_COLUMN,
	                           .group = TABLE_NO_COLUMN,
	                           .split = TABLE_NO_COLUMN,
	                           .fields = calloc(job_columns_fields(job) + 1, sizeof *l->fields),
	                           .dense = calloc(job_columns_dense(job) + 1, sizeof *l->dense),
	                           .labels = calloc(job_columns_labels(job) + 1, sizeof *l->labels)};
	weir_status status = find_names(l, job, sources, &names, &path, err);
	l->names = names.items;
	l->columns = names.count;
	l->kinds = calloc(l->columns + 1, sizeof *l->kinds);
	if (status == WEIR_OK && (!l->fields || !l->dense || !l->labels || !l->kinds))
		status = out_of_memory(path, err);
	if (status == WEIR_OK)
		status = check_once(l, path, err);
	if (status == WEIR_OK)
		status = match(l, job, path, scored, err);
	if (status != WEIR_OK) {
		table_layout_close(l);
		return status;
	}
	for (uint32_t i = 0; i < l->columns; i++)
		l->kinds[i] = job_column_find(job, l->names[i])->kind;
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		place_column(l, job, &job->data.columns[i]);
	const struct job_column *split = job_split_column(job);
	if (split)
		l->split = place_of(l, split->name);
	l->split_is_time = split && split->kind == COLUMN_TIME;
	l->split_column = split;
	status = open_vocabularies(l, job, err);
	if (status != WEIR_OK) {
		table_layout_close(l);
		return status;
	}
	l->settings = settings_of(l, job);
	*out = l;
	return WEIR_OK;
}

weir_status table_layout_of_files(struct table_layout **out, enum table_rows rows, const struct sources *sources, weir_error *err)
{
	const char *path;
	struct names names = {0};
	struct table_layout *l = calloc(1, sizeof *l);
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading the columns of the data");
	l->rows = rows;
	weir_status status = read_names(l, NULL, sources, &names, &path, err);
	l->names = names.items;
	l->columns = names.count;
	if (status == WEIR_OK && !(l->kinds = calloc(l->columns, sizeof *l->kinds)))
		status = out_of_memory(path, err);
	if (status == WEIR_OK)
		status = check_once(l, path, err);
	if (status != WEIR_OK) {
		table_layout_close(l);
		return status;
	}
	for (uint32_t i = 0; i < l->columns; i++)
		l->kinds[i] = COLUMN_IGNORE;
	*out = l;
	return WEIR_OK;
}

void table_layout_close(struct table_layout *l)
{
	if (!l)
		return;
	free_names(&(struct names){l->names, l->columns});
	for (uint32_t f = 0; f < l->fields_count; f++)
		if (l->fields[f].column->vocabulary[0])
			vocabulary_close((struct vocabulary *)(uintptr_t)l->fields[f].vocabulary);
	free(l->kinds);
	free(l->fields);
	free(l->dense);
	free(l->labels);
	free(l);
}
