/* The settings of a job, and the file that gives the same job again. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_resolved.h"
#include "tests/cmocka_check.h"

#define JOB "job: a\ndata: {train: a.tsv}\n"

static void same_again(const struct job_resolved *a)
{
	weir_error err = {0};
	struct job_resolved b;
	char *yaml = job_resolved_yaml(a);
	assert_non_null(yaml);
	CHECK_OK(job_resolve(yaml, "again", NULL, 0, &b, &err), err);
	assert_int_equal(a->count, b.count);
	for (uint32_t i = 0; i < a->count; i++) {
		assert_string_equal(a->items[i].text, b.items[i].text);
		assert_string_equal(a->items[i].yaml, b.items[i].yaml);
		assert_int_equal(a->items[i].given, b.items[i].given);
	}
	free(yaml);
	job_resolved_destroy(&b);
}

static void every_job_comes_back_as_it_is(void **state)
{
	(void)state;
	setenv("WEIR_DATA", "/data", 1);
	glob_t files;
	assert_int_equal(glob(CONFIG_DIR "/*.yaml", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		weir_error err = {0};
		struct job_resolved r;
		CHECK_OK(job_resolve_file(files.gl_pathv[i], &r, &err), err);
		same_again(&r);
		job_resolved_destroy(&r);
	}
	globfree(&files);
}

static void texts_keep_their_characters(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job_resolved r;
	const char *const sets[] = {"data.csv.delimiter=\t",
	                            "run_dir=it's # a \"place\" with $$ and \\",
	                            "data.train=[a*.tsv, 'b: c.tsv']",
	                            "cluster.network.rate=100Mb/s",
	                            "cluster.memory_budget=1GiB",
	                            "train.loss.kind=focal",
	                            "train.loss.alpha=off",
	                            "model.hidden=[32, 16]",
	                            "data.format=csv",
	                            "data.columns=[{name: 'a b', kind: label}, {name: c, kind: categorical, separator: ','}]"};
	const weir_status status = job_resolve(JOB, "job", sets, 9, &r, &err);
	assert_int_not_equal(status, WEIR_OK); /* csv needs columns */
	const char *const good[] = {sets[1], sets[2], sets[3], sets[4], sets[5], sets[6], sets[7]};
	CHECK_OK(job_resolve(JOB, "job", good, sizeof good / sizeof *good, &r, &err), err);
	assert_string_equal(job_resolved_find(&r, "run_dir")->text, "it's # a \"place\" with $ and \\");
	assert_string_equal(job_resolved_find(&r, "cluster.network.rate")->yaml, "100000000b/s");
	assert_string_equal(job_resolved_find(&r, "train.loss.alpha")->text, "off");
	assert_string_equal(job_resolved_find(&r, "data.train")->yaml, "['a*.tsv', 'b: c.tsv']");
	assert_true(job_resolved_find(&r, "train.loss.alpha")->given && !job_resolved_find(&r, "train.seed")->given);
	same_again(&r);
	job_resolved_destroy(&r);
	const char *const columns[] = {
	    sets[0], sets[8],
	    "data.columns=[{name: 'a b', kind: label}, {name: c, kind: multi, separator: ','}, {name: d, kind: numeric, "
	    "transform: bucketize, boundaries: [1, 2.5]}]"};
	CHECK_OK(job_resolve(JOB, "job", columns, 3, &r, &err), err);
	same_again(&r);
	job_resolved_destroy(&r);
}

static void the_environment_stays_where_it_is(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job_resolved r;
	setenv("WEIR_TEST_SECRET", "hidden-word", 1);
	const char *const sets[] = {"data.train=https://me:${WEIR_TEST_SECRET}@host/a.tsv", "train.passes=${WEIR_TEST_PASSES:-3}"};
	CHECK_OK(job_resolve("job: a\ndata: {}\n", "job", sets, 2, &r, &err), err);
	for (uint32_t i = 0; i < r.count; i++) {
		assert_null(strstr(r.items[i].text, "hidden-word"));
		assert_null(strstr(r.items[i].yaml, "hidden-word"));
	}
	assert_string_equal(job_resolved_find(&r, "train.passes")->text, "${WEIR_TEST_PASSES:-3}");
	same_again(&r);
	job_resolved_destroy(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_job_comes_back_as_it_is),
	    cmocka_unit_test(texts_keep_their_characters),
	    cmocka_unit_test(the_environment_stays_where_it_is),
	};
	return cmocka_run_group_tests_name("job_resolved", tests, NULL, NULL);
}
