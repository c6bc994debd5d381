#include "worker/train/score/table_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/model/safetensors/safetensors.h"
#include "worker/train/score/spool.h"

struct saved_table {
	struct spool keys, values;
	float *flat;
};

struct save {
	const char *path;
	weir_client *client;
	weir_table_spec specs[WEIR_TABLES_MAX];
	uint32_t ids[WEIR_TABLES_MAX];
	struct saved_table tables[WEIR_TABLES_MAX];
	struct safetensor tensors[2 * WEIR_TABLES_MAX];
	uint32_t tables_count, tensors_count;
};

static void add(struct save *s, const char *table, const char *suffix, struct safetensor tensor)
{
	snprintf(tensor.name, sizeof tensor.name, "%s%s", table, suffix);
	s->tensors[s->tensors_count++] = tensor;
}

static weir_status spool_rows(struct saved_table *t, weir_scanner *scanner, uint64_t *count, weir_error *err)
{
	weir_scan_rows rows = {0};
	weir_status status;
	while ((status = weir_scan_next(scanner, &rows, err)) == WEIR_OK && rows.rows) {
		status = spool_add(&t->keys, rows.keys, rows.rows * sizeof *rows.keys, err);
		if (status == WEIR_OK)
			status = spool_add(&t->values, rows.values, rows.rows * rows.elements * sizeof *rows.values, err);
		if (status != WEIR_OK)
			return status;
		*count += rows.rows;
	}
	if (status == WEIR_OK)
		status = spool_end(&t->keys, err);
	return status == WEIR_OK ? spool_end(&t->values, err) : status;
}

static weir_status save_rows(struct save *s, uint32_t i, weir_error *err)
{
	struct saved_table *t = &s->tables[i];
	const weir_table_spec *spec = &s->specs[i];
	weir_scanner *scanner = NULL;
	uint64_t count = 0;
	weir_status status = spool_open(&t->keys, disk_system(), s->path, err);
	if (status == WEIR_OK)
		status = spool_open(&t->values, disk_system(), s->path, err);
	if (status == WEIR_OK)
		status = weir_scan_open(&scanner, s->client, s->ids[i], 0, err);
	if (status == WEIR_OK)
		status = spool_rows(t, scanner, &count, err);
	weir_scan_close(scanner);
	if (status != WEIR_OK)
		return status;
	add(s, spec->name, ".keys", (struct safetensor){.type = SAFETENSOR_U64, .dims = 1, .shape = {count}, .file = t->keys.file});
	add(s, spec->name, ".values",
	    (struct safetensor){.type = SAFETENSOR_F32, .dims = 2, .shape = {count, spec->width}, .file = t->values.file});
	return WEIR_OK;
}

static weir_status save_dense(struct save *s, uint32_t i, weir_error *err)
{
	struct saved_table *t = &s->tables[i];
	const weir_table_spec *spec = &s->specs[i];
	weir_ticket ticket;
	t->flat = malloc(spec->elements * sizeof *t->flat);
	if (!t->flat)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the %llu elements of table %s", (unsigned long long)spec->elements,
		                 spec->name);
	const weir_pull_item item = {.table = s->ids[i], .values = t->flat};
	weir_status status = weir_pull(s->client, NULL, &item, 1, NULL, NULL, &ticket, err);
	if (status == WEIR_OK)
		status = weir_wait(s->client, ticket, -1, err);
	if (status == WEIR_OK)
		add(s, spec->name, "",
		    (struct safetensor){.type = SAFETENSOR_F32, .dims = 1, .shape = {spec->elements}, .data = t->flat});
	return status;
}

static bool is_named(const char *table, const char *const *names, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(names[i], table) == 0)
			return true;
	return count == 0;
}

static weir_status check_names(const struct save *s, const char *const *names, uint32_t count, weir_error *err)
{
	for (uint32_t n = 0; n < count; n++) {
		bool found = false;
		for (uint32_t i = 0; i < s->tables_count; i++)
			found |= strcmp(s->specs[i].name, names[n]) == 0;
		if (!found)
			return weir_fail(err, WEIR_E_NOT_FOUND, "the job has no table %s", names[n]);
	}
	return WEIR_OK;
}

static weir_status save_tables(struct save *s, const char *const *names, uint32_t count, uint32_t *saved, weir_error *err)
{
	static const char *const metadata[] = {"format", "weir", NULL};
	size_t found;
	weir_status status = weir_tables(s->client, s->specs, s->ids, WEIR_TABLES_MAX, &found, err);
	s->tables_count = status == WEIR_OK ? (uint32_t)found : 0;
	if (status == WEIR_OK)
		status = check_names(s, names, count, err);
	for (uint32_t i = 0; i < s->tables_count && status == WEIR_OK; i++) {
		if (!is_named(s->specs[i].name, names, count))
			continue;
		status = s->specs[i].kind == WEIR_DENSE ? save_dense(s, i, err) : save_rows(s, i, err);
		++*saved;
	}
	return status == WEIR_OK ? safetensors_write(disk_system(), s->path, s->tensors, s->tensors_count, metadata, err) : status;
}

weir_status table_file_save(const char *path, weir_client *client, const char *const *names, uint32_t count, uint32_t *saved,
                            weir_error *err)
{
	struct save *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "no memory to save tables");
	s->path = path;
	s->client = client;
	*saved = 0;
	const weir_status status = save_tables(s, names, count, saved, err);
	for (uint32_t i = 0; i < s->tables_count; i++) {
		spool_close(&s->tables[i].keys);
		spool_close(&s->tables[i].values);
		free(s->tables[i].flat);
	}
	free(s);
	return status;
}
