#include "worker/data/column_ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/parse_table.h"

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for the ids of a column");
}

/* --- The texts */

/* Columns that have keys of one field. */
struct same_field {
	const struct job_column **columns; /* (count) */
	uint32_t *cells;                   /* (count) in the files */
	uint32_t count;
};

static bool add_id(struct column_ids *ids, const char *text, size_t n)
{
	uint32_t number;
	return text_index_add(ids->texts, text, n, &number);
}

/* Adds the ids of a cell, as the parser takes them. */
static bool add_cell(struct column_ids *ids, const struct job_column *c, struct dataset_cell cell)
{
	if (cell.n == 0 && c->empty[0])
		cell = (struct dataset_cell){.text = c->empty, .n = strlen(c->empty)};
	if (c->kind == COLUMN_CATEGORICAL || c->kind == COLUMN_NUMERIC)
		return add_id(ids, cell.text, cell.n);
	const char separator = cell.list ? 0 : c->separator[0];
	bool ok = true;
	for (const char *at = cell.text, *end = at + cell.n; at < end && ok;) {
		const char *stop = memchr(at, separator, (size_t)(end - at));
		stop = stop ? stop : end;
		ok = stop == at || add_id(ids, at, (size_t)(stop - at));
		at = stop + 1;
	}
	return ok;
}

static weir_status read_lines(struct column_ids *ids, struct dataset_lines *lines, const struct same_field *f, weir_error *err)
{
	const char *file;
	uint64_t line;
	weir_status status;
	while ((status = dataset_lines_next(lines, &file, &line, err)) == WEIR_OK)
		for (uint32_t i = 0; i < f->count; i++)
			if (!add_cell(ids, f->columns[i], dataset_lines_cell(lines, f->cells[i])))
				return out_of_memory(err);
	return status == WEIR_E_NOT_FOUND ? WEIR_OK : status;
}

/* Reads the files of one part. */
static weir_status read_part(struct column_ids *ids, const struct job *job, enum split_part part, struct same_field *f,
                             struct logger *logger, weir_error *err)
{
	struct dataset *data = NULL;
	struct dataset_lines *lines = NULL;
	weir_status status = dataset_open_scored(&data, job, part, &(struct dataset_scored){0}, logger, err);
	if (status == WEIR_OK)
		status = dataset_lines_open(&lines, data, err);
	for (uint32_t i = 0; i < f->count && status == WEIR_OK; i++)
		status = dataset_lines_find(lines, f->columns[i]->name, &f->cells[i], err);
	if (status == WEIR_OK)
		status = read_lines(ids, lines, f, err);
	dataset_lines_close(lines);
	dataset_close(data);
	return status;
}

static weir_status read_parts(struct column_ids *ids, const struct job *job, struct same_field *f, struct logger *logger,
                              weir_error *err)
{
	const uint32_t files[] = {job->data.train_count, job->data.valid_count, job->data.test_count};
	struct job *whole = malloc(sizeof *whole); /* without a split: each file once */
	if (!whole)
		return out_of_memory(err);
	memcpy(whole, job, sizeof *whole);
	whole->data.split.by = SPLIT_NONE;
	snprintf(whole->data.cache, sizeof whole->data.cache, "off");
	weir_status status = WEIR_OK;
	for (enum split_part part = SPLIT_TRAIN; part <= SPLIT_TEST && status == WEIR_OK; part++)
		if (files[part] > 0)
			status = read_part(ids, whole, part, f, logger, err);
	free(whole);
	return status;
}

static bool find_columns(struct same_field *f, const struct job *job, uint32_t field)
{
	f->columns = calloc(job->data.columns_count, sizeof *f->columns);
	f->cells = calloc(job->data.columns_count, sizeof *f->cells);
	for (uint32_t i = 0; i < job->data.columns_count && f->columns; i++) {
		const struct job_column *c = &job->data.columns[i];
		if (job_column_is_field(c) && job_column_key_field(job, c) == field)
			f->columns[f->count++] = c;
	}
	return f->columns && f->cells;
}

/* --- The keys */

static weir_status make_keys(struct column_ids *ids, const struct job *job, const struct job_column *column, weir_error *err)
{
	const uint32_t count = text_index_count(ids->texts);
	struct column_keys *keys = NULL;
	size_t n;
	ids->keys = malloc((count + 1) * sizeof *ids->keys);
	weir_status status = ids->keys ? column_keys_open(&keys, job, column, err) : out_of_memory(err);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
		status = column_keys_get(keys, text_index_text(ids->texts, i, &n), &ids->keys[i], err);
	column_keys_close(keys);
	return status;
}

weir_status column_ids_read(struct column_ids *out, const struct job *job, const struct job_column *column, struct logger *logger,
                            weir_error *err)
{
	struct same_field f = {0};
	const uint32_t field = job_column_key_field(job, column);
	*out = (struct column_ids){.texts = text_index_create()};
	weir_status status = out->texts && find_columns(&f, job, field) ? WEIR_OK : out_of_memory(err);
	if (status == WEIR_OK)
		status = read_parts(out, job, &f, logger, err);
	if (status == WEIR_OK)
		status = make_keys(out, job, column, err);
	free(f.columns);
	free(f.cells);
	return status;
}

void column_ids_destroy(struct column_ids *ids)
{
	text_index_destroy(ids->texts);
	free(ids->keys);
	*ids = (struct column_ids){0};
}
