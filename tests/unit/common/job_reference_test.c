/* config/: reference.yaml has exactly the schema's keys, each with its default; every job file
 * there is valid. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/job/job.h"
#include "common/job/job_read.h"
#include "common/job/job_reference.h"
#include "common/system/disk.h"
#include "tests/cmocka_check.h"

static void every_file_is_a_good_job(void **state)
{
	(void)state;
	setenv("WEIR_DATA", "/data", 1);
	glob_t files;
	assert_int_equal(glob(CONFIG_DIR "/*.yaml", 0, NULL, &files), 0);
	assert_true(files.gl_pathc >= 7);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		weir_error err = {0};
		struct job *job = NULL;
		CHECK_OK(job_load(files.gl_pathv[i], NULL, 0, &job, &err), err);
		job_destroy(job);
	}
	globfree(&files);
}

/* Clears the pointers, which differ between two parsed jobs. */
static void forget_lists(struct job *job)
{
	char ***lists[] = {&job->cluster.servers_at, &job->data.train, &job->data.valid, &job->data.test};
	uint32_t *counts[] = {&job->cluster.servers_at_count, &job->data.train_count, &job->data.valid_count, &job->data.test_count};
	for (int i = 0; i < 4; i++) {
		for (uint32_t k = 0; k < *counts[i]; k++)
			free((*lists[i])[k]);
		free(*lists[i]);
		*lists[i] = NULL;
		*counts[i] = 0;
	}
}

static void the_reference_gives_the_defaults(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job *reference = NULL, *defaults = NULL;
	CHECK_OK(job_load(CONFIG_DIR "/reference.yaml", NULL, 0, &reference, &err), err);
	CHECK_OK(job_parse("job: reference\ndata: {train: x}\n", "defaults", NULL, 0, &defaults, &err), err);
	assert_int_equal(reference->data.train_count, 1);
	forget_lists(reference);
	forget_lists(defaults);
	/* Both structs start as zeros, so padding is equal too. */
	assert_memory_equal(reference, defaults, sizeof *reference);
	job_destroy(reference);
	job_destroy(defaults);
}

/* The reverse holds because the file parses: a key outside the schema is an error. */
static void the_reference_has_every_key(void **state)
{
	(void)state;
	weir_error err = {0};
	char *text;
	size_t bytes;
	CHECK_OK(disk_read_file(disk_system(), CONFIG_DIR "/reference.yaml", WEIR_CONFIG_BYTES_MAX, &text, &bytes, &err), err);
	struct reading *r = calloc(1, sizeof *r);
	*r = (struct reading){.name = "reference.yaml", .arena = arena_create(WEIR_CONFIG_BYTES_MAX), .err = &err};
	CHECK_OK(job_read_yaml(r, text), err);
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++) {
		if (keys[i].type == KEY_LATER)
			/* some keys are only in a comment */
			CHECK_CONTAINS(text, strrchr(keys[i].path, '.') + 1);
		else if (!r->raws[i].given)
			fail_msg("config/reference.yaml lacks %s", keys[i].path);
	}
	arena_destroy(r->arena);
	free(r);
	free(text);
}

/* Editors show the comments (weir schema). */
static void every_key_is_explained(void **state)
{
	char what[4096];
	uint32_t count;
	const struct key *keys = job_schema(&count);
	(void)state;
	for (uint32_t i = 0; i < count; i++)
		if (keys[i].type != KEY_LATER && !job_reference_comment(keys[i].path, what, sizeof what))
			fail_msg("config/reference.yaml has no comment for %s", keys[i].path);
	assert_true(job_reference_comment("data.split", what, sizeof what));
	assert_string_equal(what, "cuts data.train by line, for jobs without files of the parts");
	assert_true(job_reference_comment("model.batch_norm", what, sizeof what));
	assert_string_equal(what, "after each hidden layer. data.batch must then be at least 2, and a last batch of one row is left "
	                          "out: one row has no spread to normalise by");
	assert_false(job_reference_comment("model.bach_norm", what, sizeof what));
	assert_false(job_reference_comment("", what, sizeof what));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_file_is_a_good_job),
	    cmocka_unit_test(the_reference_gives_the_defaults),
	    cmocka_unit_test(the_reference_has_every_key),
	    cmocka_unit_test(every_key_is_explained),
	};
	return cmocka_run_group_tests_name("job_reference", tests, NULL, NULL);
}
