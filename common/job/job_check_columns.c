/* Checks data.columns: the columns against each other, and against the format of the data. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_column_schema.h"

/* Records a mistake at a key of a column, or at the column if the key is not given. */
#define FAIL_AT(r, i, row, status, ...)                                               \
	do {                                                                              \
		char path_[JOB_KEY_BYTES_MAX];                                                \
		(void)job_column_key((i), (row), path_);                                      \
		(void)job_fail((r), place_of((r), (i), (row)), path_, (status), __VA_ARGS__); \
	} while (0)

static const struct place *place_of(const struct reading *r, uint32_t column, uint32_t row)
{
	const struct raw_column *raw = &job_raw(r, "data.columns")->columns[column];
	return raw->raws[row].given ? &raw->raws[row].place : &raw->place;
}

static bool is_given(const struct reading *r, uint32_t column, uint32_t row)
{
	return job_raw(r, "data.columns")->columns[column].raws[row].given;
}

static bool is_wrong(const struct reading *r, uint32_t column)
{
	return job_raw(r, "data.columns")->columns[column].wrong;
}

bool job_columns_any_wrong(const struct reading *r)
{
	const struct raw *raw = job_raw(r, "data.columns");
	bool wrong = raw->wrong;
	for (uint32_t i = 0; raw->columns && i < raw->count; i++)
		wrong |= raw->columns[i].wrong;
	return wrong;
}

/* Writes the kinds of a set, joined: "multi or sequence". */
static void kinds_text(uint32_t kinds, char out[JOB_EXPECTED_BYTES])
{
	out[0] = 0;
	for (enum column_kind k = COLUMN_CATEGORICAL; k <= COLUMN_IGNORE; k++)
		if (kinds & 1u << k) {
			const size_t used = strlen(out);
			snprintf(out + used, JOB_EXPECTED_BYTES - used, "%s%s", used > 0 ? " or " : "", column_kind_name(k));
		}
}

/* Refuses keys that the column's kind does not take. */
static void check_keys(struct reading *r, const struct job *job, uint32_t i)
{
	const struct column_key *schema = job_column_schema();
	char takes[JOB_EXPECTED_BYTES];
	for (uint32_t row = 0; row < COLUMN_KEYS; row++) {
		if (!is_given(r, i, row) || schema[row].kinds == 0 || schema[row].kinds & 1u << job->data.columns[i].kind)
			continue;
		kinds_text(schema[row].kinds, takes);
		FAIL_AT(r, i, row, WEIR_E_INVALID, "is given, and the column is of kind %s; expected nothing, or kind: %s",
		        column_kind_name(job->data.columns[i].kind), takes);
	}
}

static void check_name(struct reading *r, const struct job *job, uint32_t i)
{
	const char *name = job->data.columns[i].name;
	if (*name == 0 && is_wrong(r, i))
		return;
	if (*name == 0)
		FAIL_AT(r, i, COLUMN_KEY_NAME, WEIR_E_INVALID, "is empty; expected the name of a column of the data");
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f) {
			FAIL_AT(r, i, COLUMN_KEY_NAME, WEIR_E_INVALID, "has the control character %d; expected none", *c);
			break;
		}
	for (uint32_t k = 0; k < i; k++)
		if (strcmp(job->data.columns[k].name, name) == 0) {
			FAIL_AT(r, i, COLUMN_KEY_NAME, WEIR_E_INVALID, "is '%.60s', as data.columns[%u] is; expected each column once", name,
			        k);
			break;
		}
}

/* Checks that `share` names a column that has embeddings of its own. */
static void check_share(struct reading *r, const struct job *job, uint32_t i)
{
	const struct job_column *c = &job->data.columns[i], *other = job_column_find(job, c->share);
	const uint32_t row = job_column_key_row("share");
	if (c->share[0] == 0)
		return;
	if (other && is_wrong(r, (uint32_t)(other - job->data.columns)))
		return;
	if (other == c)
		FAIL_AT(r, i, row, WEIR_E_INVALID, "is '%.60s', the column itself; expected another column, or nothing", c->share);
	else if (other && !job_column_is_field(other))
		FAIL_AT(r, i, row, WEIR_E_INVALID, "is '%.60s', a column of kind %s; expected one with ids", c->share,
		        column_kind_name(other->kind));
	else if (other && other->share[0])
		FAIL_AT(r, i, row, WEIR_E_INVALID, "is '%.60s', which shares those of '%.60s'; expected '%.60s'", c->share, other->share,
		        other->share);
	if (other)
		return;
	const char **names = calloc(job->data.columns_count, sizeof *names);
	uint32_t count = 0;
	for (uint32_t k = 0; names && k < job->data.columns_count; k++)
		if (job_column_is_field(&job->data.columns[k]) && k != i)
			names[count++] = job->data.columns[k].name;
	const char *nearest = names ? job_nearest(c->share, names, count) : NULL;
	FAIL_AT(r, i, row, WEIR_E_INVALID, "is '%.60s', and data.columns has no such column%s%.60s%s", c->share,
	        nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
	free(names);
}

/* Writes the models that take embeddings of different widths: "wide_deep, dcn_v2". */
static void joining_models(char out[JOB_EXPECTED_BYTES])
{
	out[0] = 0;
	for (enum model_kind k = 0; k < MODEL_KINDS; k++)
		if (model_kind_has(k, PART_EMBEDDING) && model_kind_joins_dims(k)) {
			const size_t used = strlen(out);
			snprintf(out + used, JOB_EXPECTED_BYTES - used, "%s%s", used > 0 ? ", " : "", model_kind_name(k));
		}
}

/* Refuses one width more than a model has tables for. */
static void check_dims_limit(struct reading *r, const struct job *job, uint32_t i)
{
	uint32_t dims[WEIR_DIMS_MAX];
	char known[JOB_EXPECTED_BYTES] = "";
	const uint32_t dim = job->data.columns[i].dim, count = job_dims(job, dims);
	for (uint32_t k = 0; k < count && k < WEIR_DIMS_MAX; k++) {
		const size_t used = strlen(known);
		snprintf(known + used, sizeof known - used, "%s%u", used > 0 ? ", " : "", dims[k]);
		if (dims[k] == dim)
			return;
	}
	FAIL_AT(r, i, job_column_key_row("dim"), WEIR_E_LIMIT,
	        "is %u, and other columns have embeddings of the widths %s; expected one of these, as a model has at most %u", dim,
	        known, WEIR_DIMS_MAX);
}

/* The reason why a model takes embeddings of one width. */
static const char *reads_one_width(enum model_kind kind)
{
	return model_kind_has(kind, PART_RETRIEVAL) ? "whose towers read embeddings of one width"
	                                            : "which multiplies embeddings element by element, so that they have one width";
}

static void check_dim(struct reading *r, const struct job *job, uint32_t i)
{
	const struct job_column *c = &job->data.columns[i];
	const enum model_kind kind = job->model.kind;
	const uint32_t row = job_column_key_row("dim"), dim = job_column_dim(job, c);
	char joining[JOB_EXPECTED_BYTES];
	if (c->dim == 0 || (c->share[0] && !job_column_find(job, c->share)))
		return;
	joining_models(joining);
	if (c->kind == COLUMN_NUMERIC && c->transform != TRANSFORM_BUCKETIZE)
		FAIL_AT(r, i, row, WEIR_E_INVALID,
		        "is given, and transform is not bucketize: a number has no embedding; expected nothing");
	else if (c->dim != dim)
		FAIL_AT(r, i, row, WEIR_E_INVALID,
		        "is %u, and the column shares the embeddings of '%.60s', of width %u; expected nothing", c->dim, c->share, dim);
	else if (dim != job->model.dim && !model_kind_joins_dims(kind))
		FAIL_AT(r, i, row, WEIR_E_INVALID,
		        "is %u, and model.kind is %s, %s; expected model.dim (%u), or a model that joins embeddings: %s", dim,
		        model_kind_name(kind), reads_one_width(kind), job->model.dim, joining);
	else
		check_dims_limit(r, job, i);
}

/* Whether a character may part cells or ids: one byte of ASCII, and no quote or line end. */
static bool parts(const struct job *job, const char text[2])
{
	return *text && !(*text & 0x80) && !strchr("\r\n", *text) && *text != job_csv_quote(job);
}

static bool is_number(const char *text)
{
	char *end;
	const float x = strtof(text, &end);
	return *end == 0 && isfinite(x) && text[strspn(text, "0123456789+-.eE")] == 0;
}

static void check_format(struct reading *r, const struct job_column *c, uint32_t i)
{
	enum column_time form;
	int64_t ms;
	if (c->kind != COLUMN_TIME)
		return;
	if (!job_time_format(c->format, &form))
		FAIL_AT(r, i, job_column_key_row("format"), WEIR_E_INVALID,
		        "is '%s'; expected unix, unix_ms, iso8601, or a pattern with a year, of %%Y %%y %%m %%b %%d %%H %%I %%p %%M %%S "
		        "%%f %%z %%F %%T",
		        c->format);
	else if (c->empty[0] && !job_column_time_read(c, c->empty, strlen(c->empty), &ms))
		FAIL_AT(r, i, job_column_key_row("default"), WEIR_E_INVALID,
		        "is '%.60s', and the column's format is %s; expected a time in it", c->empty, c->format);
}

/* Checks two keys of a scale, which belong together and to one transform. */
static void check_scale(struct reading *r, const struct job_column *c, uint32_t i, enum column_transform of,
                        const char *const keys[2], const float values[2])
{
	const char *const transform = of == TRANSFORM_STANDARD ? "standard" : "minmax";
	for (int k = 0; k < 2; k++)
		if (!isnan(values[k]) && c->transform != of)
			FAIL_AT(r, i, job_column_key_row(keys[k]), WEIR_E_INVALID, "is given, and transform is not %s; expected nothing",
			        transform);
		else if (!isnan(values[k]) && isnan(values[!k]))
			FAIL_AT(r, i, job_column_key_row(keys[k]), WEIR_E_INVALID, "is given without %s; expected both, or neither",
			        keys[!k]);
}

static void check_boundaries(struct reading *r, const struct job_column *c, uint32_t i)
{
	const uint32_t row = job_column_key_row("boundaries");
	const bool wanted = c->transform == TRANSFORM_BUCKETIZE;
	if (wanted && c->boundaries_count == 0)
		FAIL_AT(r, i, row, WEIR_E_INVALID,
		        "missing, and transform is bucketize; expected a list of numbers, such as [18, 25, 40]");
	else if (!wanted && c->boundaries_count > 0)
		FAIL_AT(r, i, row, WEIR_E_INVALID, "is given, and transform is not bucketize; expected nothing");
	for (uint32_t k = 1; wanted && k < c->boundaries_count; k++)
		if (!(c->boundaries[k] > c->boundaries[k - 1])) {
			FAIL_AT(r, i, row, WEIR_E_INVALID, "has %g after %g; expected rising numbers", (double)c->boundaries[k],
			        (double)c->boundaries[k - 1]);
			return;
		}
}

static void check_transform(struct reading *r, const struct job_column *c, uint32_t i)
{
	if (c->kind != COLUMN_NUMERIC)
		return;
	check_scale(r, c, i, TRANSFORM_STANDARD, (const char *const[]){"mean", "std"}, (const float[]){c->mean, c->std});
	check_scale(r, c, i, TRANSFORM_MINMAX, (const char *const[]){"min", "max"}, (const float[]){c->min, c->max});
	if (c->std <= 0)
		FAIL_AT(r, i, job_column_key_row("std"), WEIR_E_INVALID, "is %g; expected a number above 0", (double)c->std);
	if (c->max <= c->min)
		FAIL_AT(r, i, job_column_key_row("max"), WEIR_E_INVALID, "is %g, and min is %g; expected more", (double)c->max,
		        (double)c->min);
	check_boundaries(r, c, i);
}

static void check_values(struct reading *r, const struct job *job, uint32_t i)
{
	const struct job_column *c = &job->data.columns[i];
	const uint32_t empty = job_column_key_row("default"), separator = job_column_key_row("separator");
	if (c->empty[0] && c->kind == COLUMN_NUMERIC && !is_number(c->empty))
		FAIL_AT(r, i, empty, WEIR_E_INVALID, "is '%.60s', and the column is numeric; expected a number", c->empty);
	if (c->empty[0] && c->kind == COLUMN_LABEL && !is_number(c->empty))
		FAIL_AT(r, i, empty, WEIR_E_INVALID, "is '%.60s', and the column is a label; expected a number", c->empty);
	if (c->empty[0] && c->missing == MISSING_MASKED)
		FAIL_AT(r, i, empty, WEIR_E_INVALID, "is given, and missing is masked; expected one of the two");
	if (c->empty[0] && c->kind == COLUMN_WEIGHT && (!is_number(c->empty) || strtof(c->empty, NULL) < 0))
		FAIL_AT(r, i, empty, WEIR_E_INVALID, "is '%.60s', and the column is a weight; expected a number from 0", c->empty);
	check_format(r, c, i);
	check_transform(r, c, i);
	if (c->vocabulary[0] && c->share[0])
		FAIL_AT(r, i, job_column_key_row("vocabulary"), WEIR_E_INVALID,
		        "is given, and share is '%.60s'; expected nothing: the ids are those of that column", c->share);
	if (c->positive[0] && !isnan(c->positive_above))
		FAIL_AT(r, i, job_column_key_row("positive"), WEIR_E_INVALID,
		        "is '%.60s', and positive_above is given, too: labels are texts or numbers; expected one of the two",
		        c->positive);
	if (!parts(job, c->separator))
		FAIL_AT(r, i, separator, WEIR_E_INVALID, "is '%s'; expected one character of ASCII, no quote and no line end",
		        c->separator);
	else if (c->separator[0] == job->data.csv.delimiter[0] && is_given(r, i, separator))
		FAIL_AT(r, i, separator, WEIR_E_INVALID, "is '%s', as data.csv.delimiter is; expected another character", c->separator);
}

/* Labels are tasks. A row without its only label has nothing to learn. */
static void check_labels(struct reading *r, const struct job *job)
{
	const uint32_t labels = job_columns_labels(job);
	if (labels == 0 && !job_columns_any_wrong(r))
		FAIL(r, "data.columns", WEIR_E_INVALID, "have no label; expected a column of kind: label");
	if (labels > WEIR_TASKS_MAX)
		FAIL(r, "data.columns", WEIR_E_LIMIT, "have %u labels; expected at most %u", labels, WEIR_TASKS_MAX);
	for (uint32_t i = 0; i < job->data.columns_count && labels == 1 && !job_columns_any_wrong(r); i++)
		if (job->data.columns[i].missing == MISSING_MASKED)
			FAIL_AT(r, i, job_column_key_row("missing"), WEIR_E_INVALID,
			        "is masked, and this is the only label; expected bad, or several columns of kind: label");
}

/* Refuses a second column of a kind that a row has once. */
static void check_once(struct reading *r, const struct job *job, enum column_kind kind, const char *why)
{
	const struct job_column *first = NULL;
	for (uint32_t i = 0; i < job->data.columns_count; i++) {
		if (job->data.columns[i].kind != kind)
			continue;
		if (first)
			FAIL_AT(r, i, COLUMN_KEY_KIND, WEIR_E_UNSUPPORTED, "is %s, as that of '%.60s' is: %s; expected kind: ignore",
			        column_kind_name(kind), first->name, why);
		else
			first = &job->data.columns[i];
	}
}

static void check_shape(struct reading *r, const struct job *job)
{
	const uint32_t fields = job_columns_fields(job), dense = job_columns_dense(job);
	check_labels(r, job);
	check_once(r, job, COLUMN_WEIGHT, "a row has one weight");
	check_once(r, job, COLUMN_GROUP, "a row has one group");
	if (fields == 0 && !job_columns_any_wrong(r))
		FAIL(r, "data.columns", WEIR_E_INVALID, "have no ids; expected a column of kind: categorical, multi or sequence");
	if (fields > WEIR_FIELDS_MAX || dense > WEIR_DENSE_FEATURES_MAX)
		FAIL(r, "data.columns", WEIR_E_LIMIT, "have %u fields and %u numeric features; expected at most %u and %u", fields, dense,
		     WEIR_FIELDS_MAX, WEIR_DENSE_FEATURES_MAX);
	if (job->data.fields > 0)
		FAIL(r, "data.fields", WEIR_E_INVALID, "is %u, and data.columns names the fields; expected auto", job->data.fields);
	if (job->data.dense > 0)
		FAIL(r, "data.dense", WEIR_E_INVALID, "is %u, and data.columns names the numeric features; expected auto",
		     job->data.dense);
	if (!parts(job, job->data.csv.delimiter))
		FAIL(r, "data.csv.delimiter", WEIR_E_INVALID, "is '%s'; expected one character of ASCII, no quote and no line end",
		     job->data.csv.delimiter);
	const char *quote = job->data.csv.quote;
	if (strcmp(quote, "none") != 0 && (strlen(quote) != 1 || *quote & 0x80 || strchr("\r\n", *quote)))
		FAIL(r, "data.csv.quote", WEIR_E_INVALID, "is '%s'; expected one character of ASCII, no line end, or none", quote);
}

/* --- The split by a column */

/* Checks that a split by time has its column and its times, in order. */
static void check_times(struct reading *r, const struct job *job, const struct job_column *column)
{
	static const char *const forms[] = {"seconds since 1970", "milliseconds since 1970", "2026-01-31 or 2026-01-31T12:00:00Z"};
	const char *const texts[] = {job->data.split.valid_from, job->data.split.test_from};
	static const char *const keys[] = {"data.split.valid_from", "data.split.test_from"};
	int64_t ms[2];
	if (!*texts[0] && !*texts[1])
		FAIL(r, "data.split.by", WEIR_E_INVALID, "is time; expected data.split.valid_from, data.split.test_from or both");
	for (int i = 0; i < 2; i++)
		if (!job_split_time(job, texts[i], &ms[i]))
			FAIL(r, keys[i], WEIR_E_INVALID, "is '%s', and '%.60s' is in the format %s; expected %s", texts[i], column->name,
			     column->format, column->time == TIME_PATTERN ? "a time in it" : forms[column->time]);
		else if (i == 1 && ms[0] != INT64_MAX && ms[1] <= ms[0])
			FAIL(r, keys[1], WEIR_E_INVALID, "is '%s'; expected a time after data.split.valid_from: '%s'", texts[1], texts[0]);
}

static void check_split(struct reading *r, const struct job *job)
{
	const enum split_by by = job->data.split.by;
	const struct job_column *column = job_split_column(job);
	const bool by_column = by == SPLIT_TIME || by == SPLIT_GROUP;
	if (by_column && job_columns_any_wrong(r)) /* perhaps the one that decides */
		return;
	const char *const name = by == SPLIT_TIME ? "time" : "group";
	if (by_column && !data_format_has_columns(job->data.format))
		FAIL(r, "data.split.by", WEIR_E_INVALID, "is %s, and data.format has no columns; expected crc32, or data.format: csv",
		     name);
	else if (by_column && !column && job->data.split.column[0])
		FAIL(r, "data.split.column", WEIR_E_INVALID, "is '%.60s', which data.columns does not name", job->data.split.column);
	else if (by_column && !column)
		FAIL(r, "data.split.by", WEIR_E_INVALID, "is %s; expected a column of kind: %s in data.columns%s", name, name,
		     by == SPLIT_GROUP ? ", or data.split.column" : "");
	else if (by_column && (by == SPLIT_TIME) != (column->kind == COLUMN_TIME))
		FAIL(r, "data.split.column", WEIR_E_INVALID, "is '%.60s', of kind %s, and data.split.by is %s; expected %s", column->name,
		     column_kind_name(column->kind), name, by == SPLIT_TIME ? "a column of kind: time" : "by: time, or another column");
	else if (by == SPLIT_TIME)
		check_times(r, job, column);
	if (!by_column && job->data.split.column[0])
		FAIL(r, "data.split.column", WEIR_E_INVALID, "is given, and data.split.by is not group or time; expected nothing");
	if (by != SPLIT_TIME && (job->data.split.valid_from[0] || job->data.split.test_from[0]))
		FAIL(r, job->data.split.valid_from[0] ? "data.split.valid_from" : "data.split.test_from", WEIR_E_INVALID,
		     "is given, and data.split.by is not time; expected nothing");
}

static const char *name_of_format(enum data_format format)
{
	return format == DATA_CSV ? "csv" : format == DATA_JSONL ? "jsonl" : format == DATA_PARQUET ? "parquet" : "arrow";
}

/* Refuses the keys of CSV for other formats. */
static void check_csv_keys(struct reading *r, const struct job *job)
{
	const struct {
		const char *path;
		bool used;
	} of_csv[] = {{"data.csv.delimiter", strcmp(job->data.csv.delimiter, ",") != 0},
	              {"data.csv.quote", strcmp(job->data.csv.quote, "\"") != 0},
	              {"data.csv.header", !job->data.csv.header},
	              {"data.csv.names", job->data.csv.names_count > 0}};
	for (size_t k = 0; k < sizeof of_csv / sizeof *of_csv; k++)
		if (of_csv[k].used)
			FAIL(r, of_csv[k].path, WEIR_E_INVALID,
			     "is given, and data.format is not csv; expected nothing, or data.format: csv");
}

weir_status job_check_columns(struct reading *r, const struct job *job)
{
	const struct raw *raw = job_raw(r, "data.columns");
	if (raw->wrong)
		return WEIR_E_INVALID;
	check_split(r, job);
	if (job->data.format != DATA_CSV)
		check_csv_keys(r, job);
	if (!data_format_has_columns(job->data.format))
		return job->data.columns_count == 0
		           ? WEIR_OK
		           : FAIL(r, "data.columns", WEIR_E_INVALID,
		                  "is given, and data.format has none; expected nothing, or data.format: csv, jsonl, parquet or arrow");
	if (job->data.columns_count == 0)
		return FAIL(r, "data.columns", WEIR_E_INVALID,
		            "missing, and data.format is %s; expected a list of the columns, such as [{name: user, kind: categorical}, "
		            "{name: clicked, kind: label}]",
		            name_of_format(job->data.format));
	for (uint32_t i = 0; i < job->data.columns_count; i++) {
		check_name(r, job, i);
		if (is_wrong(r, i))
			continue;
		check_keys(r, job, i);
		check_share(r, job, i);
		check_dim(r, job, i);
		check_values(r, job, i);
	}
	check_shape(r, job);
	return WEIR_OK;
}
