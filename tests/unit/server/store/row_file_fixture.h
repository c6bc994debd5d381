/* Row files for tests. They are written to a folder and read from memory. */
#ifndef WEIR_TESTS_ROW_FILE_FIXTURE_H
#define WEIR_TESTS_ROW_FILE_FIXTURE_H

#include "common/base/prng.h"
#include "server/checkpoint/checkpoint_file.h"

struct row_file_folder {
	char path[64];
	struct blob_store *store;
};
int row_file_folder_make(struct row_file_folder *f); /* 0: success */
void row_file_folder_remove(struct row_file_folder *f);

struct row_file {
	uint8_t *data; /* freed with free */
	size_t bytes;
};
weir_status row_file_read(void *arg, uint64_t offset, void *out, size_t bytes, size_t *got,
                          weir_error *err); /* arg: a row_file */

/* Rows of one table, in allocated memory. */
struct row_set {
	struct checkpoint_rows rows;
};
void row_set_make(struct row_set *s, struct prng *random, uint32_t table, uint32_t elements, uint32_t slots, uint32_t count);
/* With a random shape, at times stubs. */
void row_set_random(struct row_set *s, struct prng *random);
void row_set_free(struct row_set *s);
/* Asserts that `got` is rows [first, first + got->count) of s. off 0: bit for bit. Otherwise values
 * may differ by this share of the row's largest value. */
void row_set_check(const struct row_set *s, uint32_t first, const struct checkpoint_rows *got, double off);

void row_file_write(struct row_file_folder *folder, const struct checkpoint_file_header *h, const struct row_set *sets,
                    uint32_t count, struct row_file *out, struct checkpoint_file_info *info);
/* The file in tests/golden/checkpoint_rows.hex. */
void row_file_golden(struct row_file_folder *folder, struct row_file *out, struct checkpoint_file_info *info);

#endif
