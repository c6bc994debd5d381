#include "cli/verbs/row_ids.h"

#include <stdlib.h>
#include <string.h>

#include "cli/core/csv_write.h"

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "no memory for the ids of rows");
}

static weir_status add_name(struct row_ids *ids, const char *name, size_t n, weir_error *err)
{
	char **names = realloc(ids->names, (ids->count + 1) * sizeof *names);
	ids->names = names ? names : ids->names;
	char *copy = names ? strndup(name, n) : NULL;
	if (!copy)
		return out_of_memory(err);
	ids->names[ids->count++] = copy;
	return WEIR_OK;
}

/* Takes the names of a list between commas. A column whose name has a comma is one name. */
static weir_status add_names(struct row_ids *ids, const struct job *job, const char *list, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (job_column_find(job, list))
		return add_name(ids, list, strlen(list), err);
	for (const char *at = list; at && status == WEIR_OK;) {
		const size_t n = strcspn(at, ",");
		status =
		    n > 0 ? add_name(ids, at, n, err) : weir_fail(err, WEIR_E_INVALID, "--ids is '%s'; expected names of columns", list);
		at = at[n] == ',' ? at + n + 1 : NULL;
	}
	return status;
}

static weir_status find_names(struct row_ids *ids, const struct job *job, const struct option_list *given, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < given->count && status == WEIR_OK; i++)
		status = add_names(ids, job, given->items[i], err);
	for (uint32_t i = 0; i < job->data.columns_count && given->count == 0 && status == WEIR_OK; i++)
		if (job->data.columns[i].kind == COLUMN_ID)
			status = add_name(ids, job->data.columns[i].name, strlen(job->data.columns[i].name), err);
	return status;
}

weir_status row_ids_open(struct row_ids *out, const struct job *job, const struct option_list *given, const struct dataset *data,
                         weir_error *err)
{
	*out = (struct row_ids){0};
	weir_status status = find_names(out, job, given, err);
	if (status != WEIR_OK || out->count == 0)
		return status;
	out->columns = calloc(out->count, sizeof *out->columns);
	status = out->columns ? dataset_lines_open(&out->lines, data, err) : out_of_memory(err);
	for (uint32_t i = 0; i < out->count && status == WEIR_OK; i++)
		status = dataset_lines_find(out->lines, out->names[i], &out->columns[i], err);
	return status;
}

void row_ids_close(struct row_ids *ids)
{
	dataset_lines_close(ids->lines);
	for (uint32_t i = 0; i < ids->count; i++)
		free(ids->names[i]);
	free(ids->names);
	free(ids->columns);
	*ids = (struct row_ids){0};
}

void row_ids_write_header(const struct row_ids *ids, const struct job *job, FILE *out)
{
	const uint32_t tasks = job_columns_labels(job);
	for (uint32_t i = 0; i < ids->count; i++) {
		csv_write_cell(out, ids->names[i], strlen(ids->names[i]));
		fputc(',', out);
	}
	for (uint32_t t = 0; t < tasks && tasks > 1; t++) {
		const char *name = job_column_label(job, t)->name;
		fputs(t > 0 ? "," : "", out);
		csv_write_cell(out, name, strlen(name));
	}
	fputs(tasks > 1 ? "\n" : "score\n", out);
}

weir_status row_ids_write_next(struct row_ids *ids, bool blank, FILE *out, weir_error *err)
{
	const char *file;
	uint64_t line;
	const weir_status status = dataset_lines_next(ids->lines, &file, &line, err);
	if (status == WEIR_E_NOT_FOUND)
		return weir_fail(err, WEIR_E_CORRUPT, "the data have fewer lines than a moment ago");
	for (uint32_t i = 0; i < ids->count && status == WEIR_OK && !blank; i++) {
		const struct dataset_cell cell = dataset_lines_cell(ids->lines, ids->columns[i]);
		csv_write_cell(out, cell.text, cell.n);
		fputc(',', out);
	}
	return status;
}
