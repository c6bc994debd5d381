/* Reads a row file. It reads large pieces, because each read may be a request to a remote server.
 * It checks every block before decoding it. Only the footer counts as the end of the file. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/hash.h"
#include "common/base/limits.h"
#include "server/checkpoint/checkpoint_columns.h"

#define AHEAD_BYTES (8u << 20) /* read at once */

struct checkpoint_file_reader {
	char name[WEIR_PATH_BYTES_MAX];
	checkpoint_read_fn read;
	void *arg;
	struct checkpoint_file_header header;
	bool has_expected, ended;
	struct checkpoint_file_info expected;
	struct hash128_stream *hash; /* of all bytes before `offset` */
	uint64_t offset;             /* of ahead[at] in the file */
	uint8_t *ahead;              /* (AHEAD_BYTES) */
	size_t at, end;              /* in ahead: first unused byte, end of the filled part */
	uint64_t rows, blocks;
	uint64_t *keys;         /* (CHECKPOINT_BLOCK_ROWS_MAX) */
	struct row_meta *metas; /* (CHECKPOINT_BLOCK_ROWS_MAX) */
	float *values;          /* (values_floats) of the largest block so far */
	size_t values_floats;
};

static weir_status damaged(const struct checkpoint_file_reader *r, weir_error *err, const char *what)
{
	return weir_fail(err, WEIR_E_CORRUPT, "%s is damaged at byte %" PRIu64 ": %s; restore from another checkpoint", r->name,
	                 r->offset, what);
}

/* Makes the next `bytes` available at *out. *out NULL: the file ends exactly here. */
static weir_status peek(struct checkpoint_file_reader *r, size_t bytes, const uint8_t **out, weir_error *err)
{
	assert(bytes <= AHEAD_BYTES);
	size_t have = r->end - r->at;
	if (have < bytes) {
		size_t got = 0;
		memmove(r->ahead, r->ahead + r->at, have);
		r->at = 0;
		r->end = have;
		weir_status status = r->read(r->arg, r->offset + have, r->ahead + have, AHEAD_BYTES - have, &got, err);
		if (status)
			return status;
		r->end += got;
		have = r->end;
	}
	if (have > 0 && have < bytes)
		return damaged(r, err, "it is cut short");
	*out = have ? r->ahead + r->at : NULL;
	return WEIR_OK;
}

static void take(struct checkpoint_file_reader *r, size_t bytes)
{
	hash128_update(r->hash, r->ahead + r->at, bytes);
	r->at += bytes;
	r->offset += bytes;
}

static weir_status read_header(struct checkpoint_file_reader *r, weir_error *err)
{
	const uint8_t *in;
	weir_status status = peek(r, CHECKPOINT_FILE_HEADER_BYTES, &in, err);
	if (status)
		return status;
	if (!in || memcmp(in, CHECKPOINT_FILE_MAGIC, 8) != 0)
		return damaged(r, err, "it does not begin as a row file");
	uint32_t version = (uint32_t)get_le(in + 8, 2);
	if (version > CHECKPOINT_FILE_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "%s has format version %u and this program reads up to %u; use a newer Weir",
		                 r->name, version, CHECKPOINT_FILE_VERSION);
	if (get_le(in + 44, 4) != crc32c(0, in, 44))
		return damaged(r, err, "its header fails its checksum");
	r->header = (struct checkpoint_file_header){.partition = (uint32_t)get_le(in + 10, 2),
	                                            .values = (enum row_precision)in[12],
	                                            .slots = (enum row_precision)in[13],
	                                            .generation = get_le(in + 16, 8),
	                                            .index = get_le(in + 24, 8),
	                                            .base = get_le(in + 32, 8)};
	if (version == 0 || in[12] > ROWS_INT8 || in[13] > ROWS_BF16)
		return damaged(r, err, "its header says what no row file has");
	take(r, CHECKPOINT_FILE_HEADER_BYTES);
	return WEIR_OK;
}

weir_status checkpoint_file_open(struct checkpoint_file_reader **out, const char *name, checkpoint_read_fn read, void *arg,
                                 const struct checkpoint_file_info *expected, weir_error *err)
{
	struct checkpoint_file_reader *r = calloc(1, sizeof *r);
	if (!r)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", name);
	strncpy(r->name, name, sizeof r->name - 1);
	r->read = read;
	r->arg = arg;
	r->has_expected = expected != NULL;
	if (expected)
		r->expected = *expected;
	r->hash = hash128_create();
	r->ahead = malloc(AHEAD_BYTES);
	r->keys = malloc(CHECKPOINT_BLOCK_ROWS_MAX * sizeof *r->keys);
	r->metas = calloc(CHECKPOINT_BLOCK_ROWS_MAX, sizeof *r->metas);
	weir_status status = r->hash && r->ahead && r->keys && r->metas
	                         ? read_header(r, err)
	                         : weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", name);
	if (status) {
		checkpoint_file_close(r);
		return status;
	}
	*out = r;
	return WEIR_OK;
}

const struct checkpoint_file_header *checkpoint_file_get_header(const struct checkpoint_file_reader *r)
{
	return &r->header;
}

/* Checks the counts and the checksum of the whole file, and that nothing follows. */
static weir_status read_footer(struct checkpoint_file_reader *r, weir_error *err)
{
	const uint8_t *in;
	uint8_t hash[CHECKPOINT_HASH_BYTES];
	weir_status status = peek(r, CHECKPOINT_FILE_FOOTER_BYTES, &in, err);
	if (status)
		return status;
	hash128_digest(r->hash, hash);
	if (get_le(in + 44, 4) != crc32c(0, in, 44) || get_le(in + 8, 8) != r->rows || get_le(in + 16, 8) != r->blocks ||
	    memcmp(in + 24, hash, sizeof hash) != 0)
		return damaged(r, err, "its end does not fit what comes before");
	take(r, CHECKPOINT_FILE_FOOTER_BYTES);
	status = peek(r, 1, &in, err);
	if (status)
		return status;
	if (in)
		return damaged(r, err, "there are bytes behind its end");
	hash128_digest(r->hash, hash);
	if (r->has_expected &&
	    (r->expected.bytes != r->offset || r->expected.rows != r->rows || memcmp(r->expected.hash, hash, sizeof hash) != 0))
		return weir_fail(err, WEIR_E_CORRUPT, "%s is not the file that the manifest names: another checksum or size", r->name);
	r->ended = true;
	return WEIR_OK;
}

/* Whether the fields of a block's header are within the limits. */
static bool block_is_possible(const struct checkpoint_file_reader *r, const struct checkpoint_block *b)
{
	return b->rows > 0 && b->elements <= WEIR_ROW_WIDTH_MAX && b->slots <= WEIR_OPTIMIZER_SLOTS_MAX &&
	       b->table <= WEIR_TABLES_MAX && b->rows <= checkpoint_block_rows(b->elements, b->slots) &&
	       b->payload <= checkpoint_payload_bytes_max(&r->header, b);
}

static weir_status read_block(struct checkpoint_file_reader *r, struct checkpoint_block *b, weir_error *err)
{
	const uint8_t *in;
	weir_status status = peek(r, CHECKPOINT_BLOCK_HEADER_BYTES, &in, err);
	if (status)
		return status;
	*b = (struct checkpoint_block){.crc = (uint32_t)get_le(in + 4, 4),
	                               .payload = (uint32_t)get_le(in + 8, 4),
	                               .rows = (uint32_t)get_le(in + 12, 4),
	                               .table = (uint32_t)get_le(in + 16, 4),
	                               .elements = (uint32_t)get_le(in + 20, 4),
	                               .slots = (uint32_t)get_le(in + 24, 4)};
	if (memcmp(in, CHECKPOINT_BLOCK_MAGIC, 4) != 0 || !block_is_possible(r, b))
		return damaged(r, err, "no block of rows is there");
	size_t bytes = CHECKPOINT_BLOCK_HEADER_BYTES + b->payload, floats = (size_t)b->rows * b->elements * (1 + b->slots);
	status = peek(r, bytes, &in, err);
	if (status)
		return status;
	if (crc32c(0, in + 8, bytes - 8) != b->crc)
		return damaged(r, err, "a block of rows fails its checksum");
	if (floats > r->values_floats) {
		free(r->values);
		r->values = malloc(floats * sizeof(float));
		r->values_floats = r->values ? floats : 0;
		if (!r->values)
			return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", r->name);
	}
	if (!checkpoint_payload_decode(&r->header, b, in + CHECKPOINT_BLOCK_HEADER_BYTES, r->keys, r->metas, r->values))
		return damaged(r, err, "a block's columns do not fit its size");
	r->rows += b->rows;
	r->blocks++;
	take(r, bytes);
	return WEIR_OK;
}

weir_status checkpoint_file_next(struct checkpoint_file_reader *r, struct checkpoint_rows *rows, weir_error *err)
{
	const uint8_t *in;
	struct checkpoint_block b;
	*rows = (struct checkpoint_rows){0};
	if (r->ended)
		return WEIR_OK;
	weir_status status = peek(r, sizeof CHECKPOINT_FILE_END_MAGIC - 1, &in, err);
	if (status)
		return status;
	if (!in)
		return damaged(r, err, "it is cut short");
	if (memcmp(in, CHECKPOINT_FILE_END_MAGIC, sizeof CHECKPOINT_FILE_END_MAGIC - 1) == 0)
		return read_footer(r, err);
	status = read_block(r, &b, err);
	if (!status)
		*rows = (struct checkpoint_rows){.table = b.table,
		                                 .elements = b.elements,
		                                 .slots = b.slots,
		                                 .count = b.rows,
		                                 .keys = r->keys,
		                                 .metas = r->metas,
		                                 .rows = r->values};
	return status;
}

void checkpoint_file_close(struct checkpoint_file_reader *r)
{
	if (!r)
		return;
	hash128_destroy(r->hash);
	free(r->ahead);
	free(r->keys);
	free(r->metas);
	free(r->values);
	free(r);
}
