/* A damaged token file: refused, or documents and tokens of its vocabulary within its bytes.
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
#include "worker/data/tokens/token_file.h"

#define HEADER_BYTES 128u

/* Follows the diagram in token_file.h, for files of one block. */
static void mend(uint8_t *file, size_t size)
{
	if (size < HEADER_BYTES)
		return;
	const uint64_t checksums = field_get(file + 80, 8);
	if (checksums >= HEADER_BYTES && checksums <= size - 4 && checksums - HEADER_BYTES <= TOKEN_FILE_BLOCK) {
		field_put_crc(file + checksums, file + HEADER_BYTES, checksums - HEADER_BYTES);
		field_put_crc(file + 92, file + checksums, 4);
	}
	field_put_crc(file + 12, file + 16, HEADER_BYTES - 16);
}

static void read_all(const char *path)
{
	struct token_file *f;
	weir_error err = {0};
	if (token_file_open(&f, path, &err) != WEIR_OK) {
		assert(err.text[0]);
		return;
	}
	const struct token_file_info *info = token_file_get_info(f);
	uint64_t first = 0;
	uint32_t *ids = malloc((info->tokens + 1) * sizeof *ids);
	uint8_t *counts = malloc(info->tokens + 1);
	assert(ids && counts);
	for (uint64_t d = 0; d < info->documents; d++) {
		const uint64_t end = token_file_end(f, d), n = end - first;
		assert(end > first && end <= info->tokens);
		if (token_file_read(f, first, n, ids, counts, &err) == WEIR_OK)
			for (uint64_t i = 0; i < n; i++)
				assert(ids[i] < info->vocabulary && counts[i] <= 1);
		else
			assert(err.text[0]);
		first = end;
	}
	assert(first == info->tokens);
	free(ids);
	free(counts);
	token_file_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	if (size == 0)
		return 0;
	uint8_t *file = malloc(size);
	assert(file);
	memcpy(file, data + 1, size - 1);
	if (data[0] & 1)
		mend(file, size - 1);
	const int fd = memfd_create("tokens", MFD_CLOEXEC);
	assert(fd >= 0);
	const ssize_t wrote = write(fd, file, size - 1);
	assert(wrote == (ssize_t)size - 1);
	(void)wrote;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	read_all(path);
	close(fd);
	free(file);
	return 0;
}

/* The writer's files: tokens of 16 and of 32 bits, with and without bits per token. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const uint32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	static const uint8_t counts[] = {0, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0, 1};
	char folder[] = "/tmp/weir-fuzz-XXXXXX", path[64];
	struct token_writer *w;
	struct token_file_info info = {.vocabulary = i % 2 == 0 ? 300 : 70000, .eos = 0};
	weir_error err = {0};
	if (i >= 8)
		return NULL;
	const bool made = mkdtemp(folder) != NULL;
	snprintf(path, sizeof path, "%s/file", folder);
	weir_status status = token_writer_open(&w, path, &info, &err);
	assert(made && status == WEIR_OK);
	for (uint64_t at = 0; at < 12 && i % 4 < 3; at += 4) {
		status = token_writer_add(w, ids + at, i < 4 ? NULL : counts + at, 4, &err);
		assert(status == WEIR_OK);
	}
	status = token_writer_commit(w, 0, 0, &info, &err);
	FILE *f = fopen(path, "r");
	uint8_t *out = malloc(4096);
	assert(status == WEIR_OK && f && out);
	(void)made, (void)status;
	out[0] = i % 3 != 0;
	*size = 1 + fread(out + 1, 1, 4095, f);
	fclose(f);
	unlink(path);
	rmdir(folder);
	return out;
}
