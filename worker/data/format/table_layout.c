#include "worker/data/format/table_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "worker/data/format/table_names.h"

/* --- Names of columns */

weir_status table_names_no_memory(const char *path, weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory reading the columns of %s", path);
}

void table_names_destroy(struct table_names *n)
{
	for (uint32_t i = 0; i < n->count; i++)
		free(n->items[i]);
	free(n->items);
	*n = (struct table_names){0};
}

weir_status table_names_add(struct table_names *n, const char *path, const char *text, size_t bytes, weir_error *err)
{
	if (bytes >= WEIR_COLUMN_NAME_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s: the name of column %u has %zu bytes; at most %u", path, n->count + 1, bytes,
		                 WEIR_COLUMN_NAME_BYTES_MAX - 1);
	n->items[n->count] = strndup(text, bytes);
	return n->items[n->count++] ? WEIR_OK : table_names_no_memory(path, err);
}

weir_status table_names_take(const struct ArrowSchema *schema, uint32_t own, const struct job *job, const char *path,
                             struct table_names *out, weir_error *err)
{
	const int64_t columns = schema->n_children;
	if (columns < 1 || columns > WEIR_COLUMNS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s has %lld columns; expected 1 to %u", path, (long long)columns, WEIR_COLUMNS_MAX);
	*out = (struct table_names){.items = calloc((size_t)columns, sizeof *out->items)};
	weir_status status = out->items ? WEIR_OK : table_names_no_memory(path, err);
	for (int64_t i = 0; i < columns && status == WEIR_OK; i++) {
		const char *name = schema->children[i]->name ? schema->children[i]->name : "";
		if (i < own || !job || job_column_find(job, name))
			status = table_names_add(out, path, name, strlen(name), err);
	}
	return status;
}

weir_status table_names_check(const struct table_names *names, const char *path, weir_error *err)
{
	for (uint32_t i = 0; i < names->count; i++)
		for (uint32_t k = 0; k < i; k++)
			if (strcmp(names->items[k], names->items[i]) == 0)
				return weir_fail(
				    err, WEIR_E_INVALID,
				    "%s: columns %u and %u are both '%.60s'; expected each name once: data.csv.names can give others", path,
				    k + 1, i + 1, names->items[i]);
	return WEIR_OK;
}

/* --- Matching them with data.columns */

static uint32_t place_of(const struct table_layout *l, const char *name)
{
	uint32_t i = 0;
	while (i < l->columns && strcmp(l->names[i], name) != 0)
		i++;
	return i < l->columns ? i : TABLE_NO_COLUMN;
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

/* Gives the columns their meaning. */
static weir_status place_columns(struct table_layout *l, const struct job *job, weir_error *err)
{
	for (uint32_t i = 0; i < l->columns; i++)
		l->kinds[i] = job_column_find(job, l->names[i])->kind;
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		place_column(l, job, &job->data.columns[i]);
	const struct job_column *split = job_split_column(job);
	if (split)
		l->split = place_of(l, split->name);
	l->split_is_time = split && split->kind == COLUMN_TIME;
	l->split_column = split;
	const weir_status status = open_vocabularies(l, job, err);
	if (status == WEIR_OK)
		l->settings = settings_of(l, job);
	return status;
}

weir_status table_layout_make(struct table_layout **out, const struct job *job, const struct table_source_names *of, bool scored,
                              weir_error *err)
{
	struct table_layout *l = calloc(1, sizeof *l);
	if (!l) {
		table_names_destroy(of->names);
		return table_names_no_memory(of->path, err);
	}
	*l = (struct table_layout){.rows = of->rows,
	                           .marks = {job->data.csv.delimiter[0], job_csv_quote(job)},
	                           .header = job->data.csv.header,
	                           .columns = of->names->count,
	                           .names = of->names->items,
	                           .kinds = calloc(of->names->count + 1, sizeof *l->kinds),
	                           .unlabelled = true,
	                           .weight = TABLE_NO_COLUMN,
	                           .group = TABLE_NO_COLUMN,
	                           .split = TABLE_NO_COLUMN,
	                           .fields = calloc(job_columns_fields(job) + 1, sizeof *l->fields),
	                           .dense = calloc(job_columns_dense(job) + 1, sizeof *l->dense),
	                           .labels = calloc(job_columns_labels(job) + 1, sizeof *l->labels)};
	weir_status status = l->fields && l->dense && l->labels && l->kinds ? WEIR_OK : table_names_no_memory(of->path, err);
	if (status == WEIR_OK)
		status = table_names_check(of->names, of->path, err);
	if (status == WEIR_OK)
		status = match(l, job, of->path, scored, err);
	if (status == WEIR_OK)
		status = place_columns(l, job, err);
	if (status != WEIR_OK) {
		table_layout_close(l);
		return status;
	}
	*out = l;
	return WEIR_OK;
}

weir_status table_layout_of_schema(struct table_layout **out, const struct job *job, const struct ArrowSchema *schema,
                                   const char *what, weir_error *err)
{
	struct table_names names = {0};
	if (!schema->format || strcmp(schema->format, "+s") != 0 || (schema->n_children > 0 && !schema->children))
		return weir_fail(err, WEIR_E_INVALID, "%s is no table: expected a struct of columns", what);
	const weir_status status = table_names_take(schema, WEIR_COLUMNS_MAX, job, what, &names, err);
	if (status == WEIR_OK)
		return table_layout_make(out, job, &(struct table_source_names){ROWS_ARROW, what, &names}, false, err);
	table_names_destroy(&names);
	return status;
}

void table_layout_close(struct table_layout *l)
{
	if (!l)
		return;
	table_names_destroy(&(struct table_names){l->names, l->columns});
	for (uint32_t f = 0; f < l->fields_count; f++)
		if (l->fields[f].column->vocabulary[0])
			vocabulary_close((struct vocabulary *)(uintptr_t)l->fields[f].vocabulary);
	free(l->kinds);
	free(l->fields);
	free(l->dense);
	free(l->labels);
	free(l);
}
