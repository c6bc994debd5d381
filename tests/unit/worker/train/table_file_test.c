/* The tables of a job of other programs' trainers in a safetensors file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cmocka_check.h"

#include "tests/unit/worker/client/integer_trainer.h"
#include "worker/model/safetensors/safetensors.h"
#include "worker/train/score/table_file.h"

static void tables_of_a_job_are_in_the_file(void **state)
{
	(void)state;
	struct cluster cluster;
	struct trainer t;
	weir_error err = {0};
	uint32_t saved;
	struct safetensors *file;
	char path[] = "/tmp/weir-tables-XXXXXX";
	const int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	cluster_start(&cluster, &(struct cluster_options){0});
	trainer_open(&t, &cluster, "worker", (weir_mode){WEIR_ASYNC});
	CHECK_OK(train(&t, UINT32_MAX, &err), err);
	CHECK_OK(table_file_save(path, t.client, NULL, 0, &saved, &err), err);
	assert_int_equal(saved, 2);
	CHECK_OK(safetensors_open(&file, path, &err), err);
	assert_int_equal(safetensors_count(file), 3);
	weir_table_spec specs[2] = {0};
	uint32_t ids[2];
	size_t count;
	CHECK_OK(weir_tables(t.client, specs, ids, 2, &count, &err), err);
	for (size_t i = 0; i < count; i++) {
		char name[SAFETENSORS_NAME_BYTES];
		const bool dense = specs[i].kind == WEIR_DENSE;
		snprintf(name, sizeof name, "%s%s", specs[i].name, dense ? "" : ".values");
		const struct safetensor *values = safetensors_find(file, name);
		assert_non_null(values);
		snprintf(name, sizeof name, "%s.keys", specs[i].name);
		const struct safetensor *keys = safetensors_find(file, name);
		const size_t floats = (size_t)safetensor_elements(values);
		float *now = malloc(floats * sizeof *now);
		weir_ticket ticket;
		const weir_pull_item item = {
		    .table = ids[i], .keys = dense ? NULL : keys->data, .rows = dense ? 0 : (size_t)keys->shape[0], .values = now};
		assert_true(floats > 0);
		CHECK_OK(weir_pull(t.client, NULL, &item, 1, NULL, NULL, &ticket, &err), err);
		CHECK_OK(weir_wait(t.client, ticket, PATIENCE_MS, &err), err);
		assert_memory_equal(values->data, now, floats * sizeof *now);
		free(now);
	}
	safetensors_close(file);
	const char *const names[] = {specs[0].name, "nope"};
	CHECK_OK(table_file_save(path, t.client, names, 1, &saved, &err), err);
	assert_int_equal(saved, 1);
	assert_int_equal(table_file_save(path, t.client, names, 2, &saved, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "no table nope");
	unlink(path);
	trainer_close(&t);
	cluster_stop(&cluster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(tables_of_a_job_are_in_the_file)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
