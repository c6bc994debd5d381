/* A checkpoint's damaged row file: refused, or rows within its bytes.
 *
 * Input: u8 (bit 0: repair the checksums), the file. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/hash.h"
#include "server/checkpoint/checkpoint_columns.h"
#include "tests/unit/server/store/row_file_fixture.h"

/* Follows the blocks by the diagram in checkpoint_file.h. */
static void mend(uint8_t *file, size_t size)
{
	if (size < CHECKPOINT_FILE_HEADER_BYTES)
		return;
	put_le(file + 44, crc32c(0, file, 44), 4);
	size_t at = CHECKPOINT_FILE_HEADER_BYTES;
	while (size - at >= CHECKPOINT_BLOCK_HEADER_BYTES && memcmp(file + at, CHECKPOINT_BLOCK_MAGIC, 4) == 0) {
		size_t bytes = CHECKPOINT_BLOCK_HEADER_BYTES + (size_t)get_le(file + at + 8, 4);
		if (bytes > size - at)
			return;
		put_le(file + at + 4, crc32c(0, file + at + 8, bytes - 8), 4);
		at += bytes;
	}
	if (size - at != CHECKPOINT_FILE_FOOTER_BYTES)
		return;
	hash128_bytes(file, at, file + at + 24);
	put_le(file + at + 44, crc32c(0, file + at, 44), 4);
}

static void read_all(const struct row_file *f)
{
	struct checkpoint_file_reader *r;
	struct checkpoint_rows rows;
	weir_error err = {0};
	volatile double sum = 0;
	weir_status status = checkpoint_file_open(&r, "rows", row_file_read, (void *)(uintptr_t)f, NULL, &err);
	if (status) {
		assert(err.text[0]);
		return;
	}
	do {
		status = checkpoint_file_next(r, &rows, &err);
		assert(status == WEIR_OK || (err.text[0] && rows.count == 0));
		for (uint32_t i = 0; i < rows.count; i++) {
			sum = sum + (double)(rows.keys[i] ^ rows.metas[i].version);
			for (size_t e = 0; e < (size_t)rows.elements * (1 + rows.slots); e++)
				sum = sum + (rows.rows[(size_t)i * rows.elements * (1 + rows.slots) + e] > 0);
		}
	} while (rows.count);
	checkpoint_file_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	struct row_file f = {.data = malloc(size), .bytes = size - 1};
	assert(f.data);
	memcpy(f.data, data + 1, f.bytes);
	if (data[0] & 1)
		mend(f.data, f.bytes);
	read_all(&f);
	free(f.data);
	return 0;
}

/* The golden file, and random ones at every precision. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	struct row_file_folder folder;
	struct row_file f;
	struct checkpoint_file_info info;
	struct prng random;
	if (i > 3)
		return NULL;
	int made = row_file_folder_make(&folder);
	assert(made == 0);
	if (i == 0) {
		row_file_golden(&folder, &f, &info);
	} else {
		struct row_set sets[2];
		struct checkpoint_file_header header = {
		    .index = 9, .values = (enum row_precision)(i - 1), .slots = i > 1 ? ROWS_BF16 : ROWS_FP32};
		prng_seed(&random, i);
		row_set_make(&sets[0], &random, 1, 4, 1, 9);
		row_set_make(&sets[1], &random, 2, 300, 2, 2);
		row_file_write(&folder, &header, sets, 2, &f, &info);
		row_set_free(&sets[0]);
		row_set_free(&sets[1]);
	}
	row_file_folder_remove(&folder);
	uint8_t *out = malloc(f.bytes + 1);
	assert(out);
	out[0] = 1;
	memcpy(out + 1, f.data, f.bytes);
	*size = f.bytes + 1;
	free(f.data);
	return out;
}
