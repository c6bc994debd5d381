/* The Frappe log, if the test data are installed: its size, split and shape. */
#include "tests/unit/worker/data/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FRAPPE_ROWS 57722u

static void frappe_has_its_rows_and_split(void **state)
{
	const char *root = getenv("WEIR_DATA");
	char path[512];
	snprintf(path, sizeof path, "%s/frappe/frappe.libfm", root != NULL ? root : SOURCE_DIR "/../shared/data");
	if (access(path, R_OK) != 0) {
		print_message("skipped: no %s (set WEIR_DATA)\n", path);
		skip();
	}
	struct job *job = job_of(*state, DATA_LIBSVM, path);
	job->data.batch = 512;
	job->data.unit_batches = 16;
	job->data.split.by = SPLIT_CRC32;
	job->data.split.train = 80;
	job->data.split.valid = job->data.split.test = 10;
	uint64_t rows[3], clicks[3] = {0};
	weir_error err = {0};
	for (uint32_t part = 0; part < 3; part++) {
		struct dataset *d;
		CHECK_OK(dataset_open(&d, job, (enum split_part)part, NULL, &err), err);
		const struct dataset_info *info = dataset_get_info(d);
		rows[part] = info->rows;
		assert_int_equal(info->fields, 10);
		assert_int_equal(info->dense_dim, 0);
		assert_int_equal(info->bad_lines, 0);
		assert_true(info->one_hot);
		struct batch b = {0};
		for (uint32_t u = 0; u < info->units; u++) {
			struct unit_reader *reader;
			CHECK_OK(unit_open(&reader, d, u, 1, &err), err);
			for (uint32_t i = 0; i < unit_batches(reader); i++) {
				CHECK_OK(unit_read(reader, i, &b, &err), err);
				for (uint32_t r = 0; r < b.rows; r++)
					clicks[part] += b.labels[r] > 0.5f;
			}
			unit_close(reader);
		}
		batch_destroy(&b);
		dataset_close(d);
	}
	print_message("train %llu rows %llu clicks, valid %llu %llu, test %llu %llu\n", (unsigned long long)rows[0],
	              (unsigned long long)clicks[0], (unsigned long long)rows[1], (unsigned long long)clicks[1],
	              (unsigned long long)rows[2], (unsigned long long)clicks[2]);
	assert_int_equal(rows[0] + rows[1] + rows[2], FRAPPE_ROWS);
	for (uint32_t part = 1; part < 3; part++)
		assert_in_range(rows[part], FRAPPE_ROWS / 11, FRAPPE_ROWS / 9);
	job_of_free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(frappe_has_its_rows_and_split)};
	return cmocka_run_group_tests_name("data_frappe", tests, folder_setup, folder_teardown);
}
