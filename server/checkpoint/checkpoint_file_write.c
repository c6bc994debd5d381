/* Writes a row file: header, blocks as they come, footer. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/hash.h"
#include "common/base/limits.h"
#include "server/checkpoint/checkpoint_columns.h"

struct checkpoint_file_writer {
	struct checkpoint_file_header header;
	struct blob_writer *blob;
	struct hash128_stream *hash;
	uint64_t bytes, rows, blocks;
	uint8_t *block; /* (block_bytes) of the largest block so far */
	size_t block_bytes;
};

static weir_status put(struct checkpoint_file_writer *w, const void *data, size_t bytes, weir_error *err)
{
	hash128_update(w->hash, data, bytes);
	w->bytes += bytes;
	return blob_write(w->blob, data, bytes, err);
}

static weir_status put_header(struct checkpoint_file_writer *w, weir_error *err)
{
	const struct checkpoint_file_header *h = &w->header;
	uint8_t out[CHECKPOINT_FILE_HEADER_BYTES] = {0};
	memcpy(out, CHECKPOINT_FILE_MAGIC, 8);
	put_le(out + 8, CHECKPOINT_FILE_VERSION, 2);
	put_le(out + 10, h->partition, 2);
	out[12] = (uint8_t)h->values;
	out[13] = (uint8_t)h->slots;
	put_le(out + 16, h->generation, 8);
	put_le(out + 24, h->index, 8);
	put_le(out + 32, h->base, 8);
	put_le(out + 44, crc32c(0, out, 44), 4);
	return put(w, out, sizeof out, err);
}

static void writer_destroy(struct checkpoint_file_writer *w)
{
	hash128_destroy(w->hash);
	free(w->block);
	free(w);
}

weir_status checkpoint_file_create(struct checkpoint_file_writer **out, struct blob_store *store, const char *name,
                                   const struct checkpoint_file_header *header, weir_error *err)
{
	assert(header->slots != ROWS_INT8 && header->partition < WEIR_PARTITIONS_MAX);
	struct checkpoint_file_writer *w = calloc(1, sizeof *w);
	struct hash128_stream *hash = hash128_create();
	if (!w || !hash) {
		free(w);
		hash128_destroy(hash);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", name);
	}
	w->header = *header;
	w->hash = hash;
	weir_status status = blob_create(store, name, &w->blob, err);
	if (!status)
		status = put_header(w, err);
	if (status) {
		checkpoint_file_abandon(w);
		return status;
	}
	*out = w;
	return WEIR_OK;
}

static weir_status reserve(struct checkpoint_file_writer *w, size_t bytes, weir_error *err)
{
	if (bytes <= w->block_bytes)
		return WEIR_OK;
	free(w->block);
	w->block = malloc(bytes);
	w->block_bytes = w->block ? bytes : 0;
	return w->block ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", w->blob->name);
}

static weir_status put_block(struct checkpoint_file_writer *w, const struct checkpoint_rows *rows, weir_error *err)
{
	struct checkpoint_block b = {.rows = rows->count, .table = rows->table, .elements = rows->elements, .slots = rows->slots};
	weir_status status = reserve(w, CHECKPOINT_BLOCK_HEADER_BYTES + checkpoint_payload_bytes_max(&w->header, &b), err);
	if (status)
		return status;
	b.payload = (uint32_t)checkpoint_payload_encode(&w->header, &b, rows, w->block + CHECKPOINT_BLOCK_HEADER_BYTES);
	memset(w->block, 0, CHECKPOINT_BLOCK_HEADER_BYTES);
	memcpy(w->block, CHECKPOINT_BLOCK_MAGIC, 4);
	put_le(w->block + 8, b.payload, 4);
	put_le(w->block + 12, b.rows, 4);
	put_le(w->block + 16, b.table, 4);
	put_le(w->block + 20, b.elements, 4);
	put_le(w->block + 24, b.slots, 4);
	size_t bytes = CHECKPOINT_BLOCK_HEADER_BYTES + b.payload;
	put_le(w->block + 4, crc32c(0, w->block + 8, bytes - 8), 4);
	w->rows += b.rows;
	w->blocks++;
	return put(w, w->block, bytes, err);
}

weir_status checkpoint_file_add(struct checkpoint_file_writer *w, const struct checkpoint_rows *rows, weir_error *err)
{
	assert(rows->elements <= WEIR_ROW_WIDTH_MAX && rows->slots <= WEIR_OPTIMIZER_SLOTS_MAX);
	uint32_t most = checkpoint_block_rows(rows->elements, rows->slots);
	size_t stride = (size_t)rows->elements * (1 + rows->slots);
	weir_status status = WEIR_OK;
	for (uint32_t first = 0; first < rows->count && !status; first += most) {
		struct checkpoint_rows part = *rows;
		part.count = rows->count - first < most ? rows->count - first : most;
		part.keys += first;
		part.metas += first;
		part.rows += first * stride;
		status = put_block(w, &part, err);
	}
	return status;
}

weir_status checkpoint_file_commit(struct checkpoint_file_writer *w, struct checkpoint_file_info *info, weir_error *err)
{
	uint8_t out[CHECKPOINT_FILE_FOOTER_BYTES] = {0};
	memcpy(out, CHECKPOINT_FILE_END_MAGIC, 8);
	put_le(out + 8, w->rows, 8);
	put_le(out + 16, w->blocks, 8);
	hash128_digest(w->hash, out + 24);
	put_le(out + 44, crc32c(0, out, 44), 4);
	weir_status status = put(w, out, sizeof out, err);
	if (status) {
		checkpoint_file_abandon(w);
		return status;
	}
	*info = (struct checkpoint_file_info){.bytes = w->bytes, .rows = w->rows};
	hash128_digest(w->hash, info->hash);
	status = blob_commit(w->blob, err);
	writer_destroy(w);
	return status;
}

void checkpoint_file_abandon(struct checkpoint_file_writer *w)
{
	if (!w)
		return;
	blob_abandon(w->blob);
	writer_destroy(w);
}
