/* Reads a checkpoint without trusting it: checks every byte, and that every row belongs in its
 * file. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/key_partition.h"
#include "kernels/optimizer.h"
#include "server/checkpoint/checkpoint_manifest.h"

struct source {
	struct blob_store *store;
	const char *name;
};

static weir_status read_source(void *arg, uint64_t offset, void *out, size_t bytes, size_t *got, weir_error *err)
{
	struct source *s = arg;
	return blob_read_at(s->store, s->name, offset, out, bytes, got, err);
}

static const struct checkpoint_table *table_of(const struct checkpoint_manifest *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->tables_count; i++)
		if (m->tables[i].id == id)
			return &m->tables[i];
	return NULL;
}

/* Returns the elements of a row with this key; 0: there is no such row. */
static uint64_t elements_of(const weir_table_spec *spec, uint64_t key)
{
	if (spec->kind == WEIR_EMBEDDING)
		return spec->width;
	if (key >= weir_chunks(spec->elements))
		return 0;
	uint64_t left = spec->elements - key * WEIR_CHUNK;
	return left < WEIR_CHUNK ? left : WEIR_CHUNK;
}

static uint32_t home_of(const struct checkpoint_table *t, uint64_t key, uint32_t partitions)
{
	return t->spec.kind == WEIR_EMBEDDING ? placement_embedding(t->id, key, partitions) : placement_dense(t->id, key, partitions);
}

static weir_status check_rows(const struct checkpoint_manifest *m, const struct checkpoint_file_header *h,
                              const struct checkpoint_rows *rows, const char *name, weir_error *err)
{
	const struct checkpoint_table *t = table_of(m, rows->table);
	if (!t)
		return weir_fail(err, WEIR_E_CORRUPT, "%s has rows of table %u, which the manifest does not have", name, rows->table);
	bool stubs = rows->elements == 0;
	if (!stubs && rows->slots != optimizer_slots(t->spec.optimizer.kind))
		return weir_fail(err, WEIR_E_CORRUPT, "%s: rows of %s with %u optimizer slots, the table has %u", name, t->spec.name,
		                 rows->slots, optimizer_slots(t->spec.optimizer.kind));
	for (uint32_t i = 0; i < rows->count; i++) {
		uint64_t key = rows->keys[i], elements = elements_of(&t->spec, key);
		if (!elements || (!stubs && rows->elements != elements) || rows->metas[i].version > h->index ||
		    home_of(t, key, m->partitions_count) != h->partition)
			return weir_fail(err, WEIR_E_CORRUPT,
			                 "%s: row %" PRIu64 " of %s (%u elements, version %" PRIu64
			                 ") does not belong to partition %u at index %" PRIu64,
			                 name, key, t->spec.name, rows->elements, rows->metas[i].version, h->partition, h->index);
	}
	return WEIR_OK;
}

/* Reads file i of a partition's chain. */
static weir_status read_file(struct blob_store *s, const struct checkpoint_manifest *m, uint32_t partition, uint32_t i,
                             checkpoint_rows_fn visit, void *arg, weir_error *err)
{
	const struct checkpoint_object *file = &m->partitions[partition].rows[i];
	struct source source = {.store = s, .name = file->name};
	char name[WEIR_PATH_BYTES_MAX + WEIR_BLOB_NAME_BYTES_MAX];
	struct checkpoint_file_reader *r;
	struct checkpoint_rows rows = {0};
	snprintf(name, sizeof name, "%s/%s", s->place, file->name);
	weir_status status = checkpoint_file_open(&r, name, read_source, &source, &file->info, err);
	if (status)
		return status;
	const struct checkpoint_file_header *h = checkpoint_file_get_header(r);
	if (h->partition != partition || h->index != file->index || h->base != (i ? file[-1].index : 0))
		status =
		    weir_fail(err, WEIR_E_CORRUPT,
		              "%s holds partition %u from index %" PRIu64 " to %" PRIu64 ", which is not what the manifest of %s says",
		              name, h->partition, h->base, h->index, m->name);
	do {
		if (!status)
			status = checkpoint_file_next(r, &rows, err);
		if (!status && rows.count)
			status = check_rows(m, h, &rows, name, err);
		if (!status && rows.count && visit)
			status = visit(arg, &rows, err);
	} while (!status && rows.count);
	checkpoint_file_close(r);
	return status;
}

weir_status checkpoint_read_rows(struct blob_store *s, const struct checkpoint_manifest *m, uint32_t partition,
                                 enum checkpoint_order order, checkpoint_rows_fn visit, void *arg, weir_error *err)
{
	assert(partition < m->partitions_count);
	const struct checkpoint_partition *p = &m->partitions[partition];
	weir_status status = WEIR_OK;
	if (p->rows_count == 0 || p->rows[p->rows_count - 1].index != p->index)
		status = weir_fail(err, WEIR_E_CORRUPT, "%s: the rows of partition %u do not end at its index %" PRIu64, m->name,
		                   partition, p->index);
	for (uint32_t i = 0; i < p->rows_count && !status; i++)
		status = read_file(s, m, partition, order == CHECKPOINT_NEWEST_FIRST ? p->rows_count - 1 - i : i, visit, arg, err);
	return status;
}

/* Checks the bytes of a small file. */
static weir_status verify_object(struct blob_store *s, const struct checkpoint_object *o, weir_error *err)
{
	uint8_t *data = NULL;
	size_t bytes;
	weir_status status = checkpoint_object_read(s, o, WEIR_CHECKPOINT_STATE_BYTES_MAX, &data, &bytes, err);
	free(data);
	return status;
}

weir_status checkpoint_verify(struct blob_store *s, const struct checkpoint_manifest *m, uint64_t *bytes, weir_error *err)
{
	*bytes = m->ledger.info.bytes;
	weir_status status = verify_object(s, &m->ledger, err);
	for (uint32_t i = 0; i < m->partitions_count && !status; i++) {
		const struct checkpoint_partition *p = &m->partitions[i];
		status = verify_object(s, &p->header, err);
		if (!status)
			status = checkpoint_read_rows(s, m, i, CHECKPOINT_OLDEST_FIRST, NULL, NULL, err);
		*bytes += p->header.info.bytes;
		for (uint32_t f = 0; f < p->rows_count; f++)
			*bytes += p->rows[f].info.bytes;
	}
	return status;
}
