#include "cli/verbs/export_ids.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/csv_write.h"
#include "common/system/disk.h"
#include "common/system/output.h"
#include "worker/data/column_ids.h"
#include "worker/data/format/table_file.h"
#include "worker/model/safetensors/safetensors.h"

#define SUFFIX     ".safetensors"
#define IDS_SUFFIX ".ids.csv"
#define NO_ROW     UINT64_MAX

/* The ids, and where their rows are in the file of weights. */
struct joined {
	struct column_ids ids;
	struct safetensors *file;
	const struct safetensor *keys, *values;
	uint32_t width;
	uint64_t *rows; /* (ids) or NO_ROW */
	uint32_t count; /* ids with a row */
};

weir_status export_ids_check(const struct job *job, const char *name, weir_error *err)
{
	const struct job_column *c = job_column_find(job, name);
	const char **names = calloc(job->data.columns_count + 1, sizeof *names);
	uint32_t count = 0;
	for (uint32_t i = 0; names && i < job->data.columns_count; i++)
		if (job_column_is_field(&job->data.columns[i]))
			names[count++] = job->data.columns[i].name;
	const char *nearest = names ? job_nearest(name, names, count) : NULL;
	free(names);
	if (!c)
		return weir_fail(err, WEIR_E_NOT_FOUND, "data.columns has no column '%s'%s%s%s", name,
		                 nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
	if (!job_column_is_field(c))
		return weir_fail(err, WEIR_E_INVALID, "the column '%s' is of kind %s, which has no embeddings", name,
		                 column_kind_name(c->kind));
	return c->share[0]
	           ? weir_fail(err, WEIR_E_INVALID, "the column '%s' shares the embeddings of '%s': export those", name, c->share)
	           : WEIR_OK;
}

/* --- Joining */

static weir_status find_table(struct joined *j, const struct export_ids *o, weir_error *err)
{
	static const char *const tables[] = {"embedding", "linear"};
	char name[SAFETENSORS_NAME_BYTES], embedding[WEIR_TABLE_NAME_BYTES_MAX];
	const char *const stored[] = {embedding, "linear"};
	job_embedding_table(o->job, job_column_dim(o->job, job_column_find(o->job, o->column)), embedding);
	weir_status status = safetensors_open(&j->file, o->weights, err);
	for (size_t i = 0; i < sizeof tables / sizeof *tables && status == WEIR_OK && !j->values; i++) {
		if (o->table && strcmp(o->table, tables[i]) != 0)
			continue;
		snprintf(name, sizeof name, "%s.keys", stored[i]);
		j->keys = safetensors_find(j->file, name);
		snprintf(name, sizeof name, "%s.values", stored[i]);
		j->values = j->keys ? safetensors_find(j->file, name) : NULL;
	}
	if (status == WEIR_OK && (!j->values || j->keys->type != SAFETENSOR_U64 || j->values->dims != 2 || j->keys->dims != 1 ||
	                          j->values->shape[0] != j->keys->shape[0] || !safetensor_is_real(j->values->type)))
		return weir_fail(err, WEIR_E_NOT_FOUND, "%s has no %s table with rows by key", o->weights,
		                 o->table ? o->table : "embedding or linear");
	j->width = status == WEIR_OK ? (uint32_t)j->values->shape[1] : 0;
	return status;
}

struct key_of {
	uint64_t key;
	uint32_t id;
};

static int by_key(const void *a, const void *b)
{
	const struct key_of *x = a, *y = b;
	return (x->key > y->key) - (x->key < y->key);
}

/* Finds the row of each id. Ids that fall into one bucket (data.hash_buckets) share a row. */
static void find_rows(struct joined *j, struct key_of *sorted, uint32_t ids)
{
	for (uint64_t row = 0; row < j->keys->shape[0]; row++) {
		uint64_t key;
		memcpy(&key, (const char *)j->keys->data + row * sizeof key, sizeof key);
		uint32_t low = 0, high = ids;
		while (low < high) {
			const uint32_t middle = low + (high - low) / 2;
			low = sorted[middle].key < key ? middle + 1 : low;
			high = sorted[middle].key < key ? high : middle;
		}
		for (; low < ids && sorted[low].key == key; low++) {
			j->rows[sorted[low].id] = row;
			j->count++;
		}
	}
}

static weir_status join(struct joined *j, weir_error *err)
{
	const uint32_t ids = text_index_count(j->ids.texts);
	struct key_of *sorted = malloc((ids + 1) * sizeof *sorted);
	j->rows = malloc((ids + 1) * sizeof *j->rows);
	if (!sorted || !j->rows) {
		free(sorted);
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %u ids", ids);
	}
	for (uint32_t i = 0; i < ids; i++) {
		sorted[i] = (struct key_of){j->ids.keys[i], i};
		j->rows[i] = NO_ROW;
	}
	qsort(sorted, ids, sizeof *sorted, by_key);
	find_rows(j, sorted, ids);
	free(sorted);
	return WEIR_OK;
}

/* --- Writing */

/* Writes the ids in the order of the data; with values, their rows behind them. */
static weir_status write_csv(const struct joined *j, const char *column, const char *path, bool values, weir_error *err)
{
	float *row = malloc((j->width + 1) * sizeof *row);
	FILE *out = row ? fopen(path, "w") : NULL;
	if (!out) {
		free(row);
		return weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
	}
	csv_write_cell(out, column, strlen(column));
	for (uint32_t k = 0; k < j->width && values; k++)
		fprintf(out, ",v%u", k);
	fputc('\n', out);
	for (uint32_t i = 0; i < text_index_count(j->ids.texts); i++) {
		size_t n;
		const char *text = text_index_text(j->ids.texts, i, &n);
		if (j->rows[i] == NO_ROW)
			continue;
		csv_write_cell(out, text, n);
		if (values)
			safetensor_floats(j->values, j->rows[i] * j->width, j->width, row);
		for (uint32_t k = 0; k < j->width && values; k++)
			fprintf(out, ",%.9g", (double)row[k]);
		fputc('\n', out);
	}
	free(row);
	const bool failed = ferror(out);
	return fclose(out) == 0 && !failed ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
}

static weir_status write_tensor(const struct joined *j, const char *path, weir_error *err)
{
	static const char *const metadata[] = {"format", "weir", NULL};
	float *values = malloc(((uint64_t)j->count * j->width + 1) * sizeof *values);
	if (!values)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %u rows of %u", j->count, j->width);
	uint64_t at = 0;
	for (uint32_t i = 0; i < text_index_count(j->ids.texts); i++)
		if (j->rows[i] != NO_ROW)
			safetensor_floats(j->values, j->rows[i] * j->width, j->width, values + j->width * at++);
	const struct safetensor tensor = {
	    .name = "values", .type = SAFETENSOR_F32, .dims = 2, .shape = {j->count, j->width}, .data = values};
	const weir_status status = safetensors_write(disk_system(), path, &tensor, 1, metadata, err);
	free(values);
	return status;
}

/* Writes one of the files through the name that the person gave. */
static weir_status write_one(const struct joined *j, const struct export_ids *o, const char *name, bool tensor, bool values,
                             weir_error *err)
{
	struct output output;
	weir_status status = output_begin(&output, name, err);
	if (status != WEIR_OK)
		return status;
	status = tensor ? write_tensor(j, output.path, err) : write_csv(j, o->column, output.path, values, err);
	if (status == WEIR_OK && table_file_is_parquet(name))
		status = table_file_from_csv(output.path, 1, TABLE_FLOAT32, err);
	return output_end(&output, status, err);
}

static weir_status write_files(const struct joined *j, const struct export_ids *o, weir_error *err)
{
	char beside[WEIR_PATH_BYTES_MAX];
	const size_t n = strlen(o->out), suffix = strlen(SUFFIX);
	if (n <= suffix || strcmp(o->out + n - suffix, SUFFIX) != 0)
		return write_one(j, o, o->out, false, true, err);
	snprintf(beside, sizeof beside, "%.*s%s", (int)(n - suffix), o->out, IDS_SUFFIX);
	const weir_status status = write_one(j, o, beside, false, false, err);
	return status == WEIR_OK ? write_one(j, o, o->out, true, true, err) : status;
}

weir_status export_ids(const struct export_ids *o, struct export_ids_result *result, weir_error *err)
{
	struct joined j = {0};
	weir_status status = find_table(&j, o, err);
	if (status == WEIR_OK)
		status = column_ids_read(&j.ids, o->job, job_column_find(o->job, o->column), o->logger, err);
	if (status == WEIR_OK)
		status = join(&j, err);
	if (status == WEIR_OK && j.count == 0)
		status =
		    weir_fail(err, WEIR_E_NOT_FOUND, "none of the %u ids of '%s' has a row in %s: are the data those of the training?",
		              text_index_count(j.ids.texts), o->column, o->weights);
	if (status == WEIR_OK)
		status = write_files(&j, o, err);
	if (status == WEIR_OK)
		*result = (struct export_ids_result){.ids = text_index_count(j.ids.texts), .rows = j.count, .width = j.width};
	column_ids_destroy(&j.ids);
	free(j.rows);
	safetensors_close(j.file);
	return status;
}
