/* A damaged packed file: refused, or columns within its bytes.
 *
 * Input: u8 (bit 0: repair the checksums), the file. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/file_fields.h"
#include "worker/data/format/packed.h"
#include "worker/data/format/parse.h"

#define HEADER_BYTES 64u
#define ENTRY_BYTES  32u

/* Finds header and index by the diagram in packed.h. */
static void mend(uint8_t *file, size_t size)
{
	if (size < HEADER_BYTES)
		return;
	uint64_t index = field_get(file + 32, 8), blocks = field_get(file + 40, 4);
	if (index <= size && blocks <= (size - index) / ENTRY_BYTES) {
		for (uint64_t b = 0; b < blocks; b++) {
			uint8_t *entry = file + index + b * ENTRY_BYTES;
			uint64_t offset = field_get(entry, 8), bytes = field_get(entry + 8, 8);
			if (offset <= size && bytes <= size - offset)
				field_put_crc(entry + 28, file + offset, bytes);
		}
		field_put_crc(file + 52, file + index, blocks * ENTRY_BYTES);
	}
	field_put_crc(file + 12, file + 16, HEADER_BYTES - 16);
}

static uint64_t sum_of(const struct rows_view *v)
{
	uint64_t sum = v->count;
	size_t bags = (size_t)v->count * v->fields;
	for (uint32_t i = 0; i < v->count; i++)
		sum += (v->labels[i] > 0) + (v->weights && v->weights[i] > 0);
	for (size_t i = 0; i < (size_t)v->count * v->dense_dim; i++)
		sum += v->dense[i] > 0;
	for (size_t bag = 0; bag < bags; bag++)
		for (size_t k = v->offsets ? v->offsets[bag] : bag; k < (v->offsets ? v->offsets[bag + 1] : bag + 1); k++)
			sum += v->keys[k] + (v->values && v->values[k] > 0);
	return sum;
}

static void read_all(const char *path)
{
	struct packed *p;
	struct packed_block v;
	weir_error err = {0};
	volatile uint64_t sum = 0;
	if (packed_open(&p, path, &err)) {
		assert(err.text[0]);
		return;
	}
	const struct packed_info *info = packed_get_info(p);
	uint64_t rows = 0, first;
	for (uint32_t b = 0; b < info->blocks; b++) {
		const weir_status status = packed_block_open(&v, p, b, &err);
		if (status == WEIR_OK)
			sum = sum + sum_of(&v.rows);
		else
			assert(err.text[0]);
		if (v.rows.count)
			assert(packed_block_of(p, rows + v.rows.count - 1, &first) == b && first == rows);
		rows += v.rows.count;
		if (status == WEIR_OK)
			packed_block_close(&v);
	}
	assert(rows == info->rows);
	packed_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	size_t n = size - 1;
	uint8_t *file = malloc(n ? n : 1);
	char path[64];
	int fd = memfd_create("packed", MFD_CLOEXEC);
	assert(file && fd >= 0);
	memcpy(file, data + 1, n);
	if (data[0] & 1)
		mend(file, n);
	assert(write(fd, file, n) == (ssize_t)n);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	read_all(path);
	close(fd);
	free(file);
	return 0;
}

/* The writer's files: one key per bag, and bags with values and weights. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const char *const lines[] = {"1 0:1:1 1:2:1", "0 0:3:1 1:4:1", "1:2 0:1:0.5 0:7:1", "0 1:2:1"};
	char path[] = "/tmp/weir-fuzz-XXXXXX";
	struct packed_writer *w;
	struct rows rows;
	weir_error err = {0};
	if (i >= 4)
		return NULL;
	int fd = mkstemp(path);
	struct parser *p = malloc(sizeof *p);
	uint8_t *out = malloc(65536);
	assert(fd >= 0 && p && out && packed_writer_open(&w, path, 7, (struct row_shape){1, 2, 0}, &err) == WEIR_OK);
	parser_init(p, DATA_LIBFFM, 2, 0, 0);
	rows_init(&rows, (struct row_shape){1, 2, 0}, true);
	for (uint32_t k = 0; k < 2 + (i & 2); k++) {
		char line[64 + PARSE_SLACK] = {0};
		memcpy(line, lines[k], strlen(lines[k]));
		char why[PARSE_WHY_BYTES];
		assert(parse_line(p, &rows, line, strlen(line), why) == PARSED_ROW);
	}
	struct rows_view view = rows_as_view(&rows);
	for (uint32_t b = 0; b <= i; b++)
		assert(packed_writer_add(w, &view, &err) == WEIR_OK);
	assert(packed_writer_commit(w, 0, &err) == WEIR_OK);
	close(fd);
	FILE *f = fopen(path, "r");
	assert(f);
	out[0] = 1;
	*size = 1 + fread(out + 1, 1, 65535, f);
	fclose(f);
	unlink(path);
	rows_destroy(&rows);
	free(p);
	return out;
}
