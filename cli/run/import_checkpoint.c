/* The importer reads row files one after the other, older ones first. It gathers rows of keyed
 * tables into assignments of several megabytes, and dense tables whole. */
#include "cli/run/import_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/run/checkpoint_find.h"
#include "kernels/init.h"
#include "worker/model/adapter_folder.h"
#include "worker/model/model_folder.h"

#define ASSIGN_ROWS_BYTES (8u << 20) /* bytes of values in one assignment */

struct importer {
	struct blob_store *store;
	struct checkpoint_manifest manifest;
	const struct tables *tables;
	/* NULL: read dense tables only, and set nothing */
	weir_client *client;
	const struct checkpoint_table *from[MODEL_TABLES]; /* NULL: the model has no such table */
	float *flat[MODEL_TABLES];                         /* (elements) of dense tables */
	/* a newer file may contain a row of this partition again */
	bool again;
	/* Rows gathered for one assignment. */
	enum model_table table;
	uint64_t *keys;
	float *values;
	size_t count, keys_capacity, values_capacity;
	uint64_t rows; /* assigned */
};

/* --- Finding the checkpoint */

bool import_is_checkpoint(const char *from)
{
	struct stat st;
	if (stat(from, &st) != 0) /* in S3, or a name without a local file */
		return strncmp(from, "s3://", 5) == 0 || checkpoint_is_name(from);
	if (S_ISDIR(st.st_mode))
		return !model_folder_is(from) && !adapter_folder_is(from);
	return checkpoint_names_manifest(from);
}

weir_status import_checkpoint_fingerprint(const struct job *job, const char *from, char **out, weir_error *err)
{
	struct blob_store *store = NULL;
	struct checkpoint_manifest m = {0};
	weir_status status = checkpoint_find_at(job, from, &store, &m, err);
	if (status == WEIR_OK && m.fingerprint && !(*out = strdup(m.fingerprint)))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory for a checkpoint's fingerprint");
	checkpoint_manifest_destroy(&m);
	blob_close(store);
	return status;
}

/* --- Matching the model */

static bool same_shape(const weir_table_spec *a, const weir_table_spec *b)
{
	if (a->kind != b->kind || a->width != b->width || a->elements != b->elements || a->segments_count != b->segments_count)
		return false;
	for (uint32_t i = 0; i < a->segments_count; i++)
		if (a->segments[i].elements != b->segments[i].elements)
			return false;
	return true;
}

static weir_status find_table(struct importer *c, enum model_table k, weir_error *err)
{
	const struct checkpoint_manifest *m = &c->manifest;
	const weir_table_spec spec = model_table_spec(c->tables->model, k);
	for (uint32_t i = 0; i < m->tables_count && !c->from[k]; i++)
		if (strcmp(m->tables[i].spec.name, spec.name) == 0)
			c->from[k] = &m->tables[i];
	if (!c->from[k] || !same_shape(&spec, &c->from[k]->spec))
		return weir_fail(err, WEIR_E_INVALID, "checkpoint %s has no table %s of this shape: it is of another model", m->name,
		                 spec.name);
	if (spec.kind != WEIR_DENSE)
		return WEIR_OK;
	if (!(c->flat[k] = malloc(spec.elements * sizeof(float))))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for table %s", spec.name);
	const weir_table_spec *begun = &c->from[k]->spec; /* initializes rows that were never pushed */
	init_dense(begun->seed, c->from[k]->id, begun->segments, begun->segments_count, 0, c->flat[k], spec.elements);
	return WEIR_OK;
}

static weir_status importer_open(struct importer *c, const struct job *job, const char *from, weir_error *err)
{
	weir_status status = checkpoint_find_at(job, from, &c->store, &c->manifest, err);
	for (enum model_table k = 0; k < MODEL_TABLES && status == WEIR_OK; k++)
		if (model_has(c->tables->model, k))
			status = find_table(c, k, err);
	return status;
}

/* --- Its rows */

static weir_status assign_gathered(struct importer *c, weir_error *err)
{
	if (c->count == 0)
		return WEIR_OK;
	weir_status status = weir_assign(c->client, c->tables->ids[c->table], c->keys, c->count, c->values, err);
	c->rows += c->count;
	c->count = 0;
	return status;
}

static weir_status reserve(struct importer *c, size_t rows, size_t width)
{
	if (rows > c->keys_capacity) {
		uint64_t *keys = realloc(c->keys, rows * sizeof *keys);
		if (!keys)
			return WEIR_E_MEMORY;
		c->keys = keys;
		c->keys_capacity = rows;
	}
	if (rows * width > c->values_capacity) {
		float *values = realloc(c->values, rows * width * sizeof *values);
		if (!values)
			return WEIR_E_MEMORY;
		c->values = values;
		c->values_capacity = rows * width;
	}
	return WEIR_OK;
}

static weir_status gather(struct importer *c, enum model_table k, const struct checkpoint_rows *rows, weir_error *err)
{
	const size_t width = rows->elements, stride = width * (1 + rows->slots);
	weir_status status = k == c->table ? WEIR_OK : assign_gathered(c, err);
	if (status != WEIR_OK)
		return status;
	c->table = k;
	if (reserve(c, c->count + rows->count, width))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the rows of a checkpoint");
	memcpy(c->keys + c->count, rows->keys, rows->count * sizeof *rows->keys);
	for (uint32_t i = 0; i < rows->count; i++)
		memcpy(c->values + (c->count + i) * width, rows->rows + i * stride, width * sizeof(float));
	c->count += rows->count;
	/* An assignment must not contain a key twice. */
	return c->again || c->count * width * sizeof(float) >= ASSIGN_ROWS_BYTES ? assign_gathered(c, err) : WEIR_OK;
}

static weir_status take_rows(void *arg, const struct checkpoint_rows *rows, weir_error *err)
{
	struct importer *c = arg;
	enum model_table k = 0;
	while (k < MODEL_TABLES && (!c->from[k] || c->from[k]->id != rows->table))
		k++;
	/* not a table of the model; rows that were not admitted have no values */
	if (k == MODEL_TABLES || rows->elements == 0)
		return WEIR_OK;
	if (!c->flat[k])
		return c->client ? gather(c, k, rows, err) : WEIR_OK;
	for (uint32_t i = 0; i < rows->count; i++)
		memcpy(c->flat[k] + rows->keys[i] * WEIR_CHUNK, rows->rows + (size_t)i * rows->elements * (1 + rows->slots),
		       rows->elements * sizeof(float));
	return WEIR_OK;
}

static weir_status read_all(struct importer *c, weir_error *err)
{
	const struct checkpoint_manifest *m = &c->manifest;
	weir_status status = WEIR_OK;
	for (uint32_t p = 0; p < m->partitions_count && status == WEIR_OK; p++) {
		c->again = m->partitions[p].rows_count > 1;
		status = checkpoint_read_rows(c->store, m, p, CHECKPOINT_OLDEST_FIRST, take_rows, c, err);
		if (status == WEIR_OK)
			status = assign_gathered(c, err);
	}
	return status;
}

static weir_status assign_flat(struct importer *c, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (enum model_table k = 0; k < MODEL_TABLES && status == WEIR_OK; k++)
		if (c->flat[k])
			status = weir_assign(c->client, c->tables->ids[k], NULL, 0, c->flat[k], err);
	return status;
}

static void importer_close(struct importer *c)
{
	for (enum model_table k = 0; k < MODEL_TABLES; k++)
		free(c->flat[k]);
	free(c->keys);
	free(c->values);
	checkpoint_manifest_destroy(&c->manifest);
	blob_close(c->store);
}

weir_status import_checkpoint_check(const struct job *job, const char *from, const struct model *model, weir_error *err)
{
	const struct tables t = {.model = model};
	struct importer c = {.tables = &t};
	const weir_status status = importer_open(&c, job, from, err);
	importer_close(&c);
	return status;
}

weir_status import_checkpoint(const struct job *job, const char *from, const struct tables *t, weir_client *client,
                              uint64_t *rows, weir_error *err)
{
	struct importer c = {.tables = t, .client = client};
	weir_status status = importer_open(&c, job, from, err);
	if (status == WEIR_OK)
		status = read_all(&c, err);
	if (status == WEIR_OK)
		status = assign_flat(&c, err);
	*rows = c.rows;
	importer_close(&c);
	return status;
}

weir_status import_checkpoint_read(const struct job *job, const char *from, const struct model *model, enum model_table k,
                                   float *out, weir_error *err)
{
	const struct tables t = {.model = model};
	struct importer c = {.tables = &t};
	weir_status status = importer_open(&c, job, from, err);
	if (status == WEIR_OK)
		status = read_all(&c, err);
	if (status == WEIR_OK)
		memcpy(out, c.flat[k], model_table_elements(model, k) * sizeof *out);
	importer_close(&c);
	return status;
}
