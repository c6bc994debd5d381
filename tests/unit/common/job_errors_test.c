/* Every mistake in a job file gives a sentence with the place, the key, the value and the expected
 * value. */
#include "common/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"
#include "tests/unit/common/job_mistakes.h"

static struct job_mistakes told;

/* One of the mistakes has the status and all parts of the sentence. */
static bool is_told(const struct mistake *m)
{
	for (uint32_t i = 0; i < told.count; i++) {
		bool all = told.kept[i].error.status == m->status;
		for (int p = 0; p < 4 && m->parts[p]; p++)
			all = all && strstr(told.kept[i].error.text, m->parts[p]);
		if (all)
			return true;
	}
	return false;
}

static void expect_told(const struct mistakes *mistakes)
{
	for (size_t i = 0; i < mistakes->count; i++) {
		const struct mistake *m = &mistakes->of[i];
		weir_error err = {0};
		struct job *job = NULL;
		assert_int_not_equal(job_parse_all(m->text, "bad.yaml", &m->set, m->set ? 1 : 0, &job, &told, &err), WEIR_OK);
		assert_null(job);
		if (!is_told(m))
			fail_msg("%s\n--set %s\ngives %u mistakes, the first %s: %s", m->text, m->set ? m->set : "", told.count,
			         weir_status_name(err.status), err.text);
	}
}

static void every_mistake_is_reported(void **state)
{
	(void)state;
	unsetenv("WEIR_TEST_UNSET");
	expect_told(&mistakes_of_file);
	expect_told(&mistakes_of_tables);
	expect_told(&mistakes_of_model);
	expect_told(&mistakes_of_cluster);
}

/* Asserts that the sentences are exactly these parts, in order. */
static void assert_tells(const char *text, const char *const *sets, uint32_t sets_count, const char *const *parts, uint32_t count)
{
	weir_error err = {0};
	struct job *job = NULL;
	assert_int_not_equal(job_parse_all(text, "bad.yaml", sets, sets_count, &job, &told, &err), WEIR_OK);
	for (uint32_t i = 0; i < count && i < told.count; i++)
		CHECK_CONTAINS(told.kept[i].error.text, parts[i]);
	if (told.count > count)
		fail_msg("%u mistakes are told, not %u; one is %s", told.count, count, told.kept[count].error.text);
	assert_int_equal(told.count, count);
}

static void all_mistakes_are_reported_in_the_order_of_lines(void **state)
{
	(void)state;
	const char *const set[] = {"model.dim=none", "train.passes='2'"};
	const char *const parts[] = {"bad.yaml:3:3: data.trian: unknown key (value 'a.tsv'); the nearest valid key is 'data.train'",
	                             "bad.yaml:4:10: data.batch: is 'many'; expected a whole number",
	                             "bad.yaml:6:8: model.kind: is 'deepfn', unknown; the nearest is 'deepfm'",
	                             "bad.yaml:7:11: cluster: is a list; expected a map",
	                             "bad.yaml:8:1: modle: unknown key",
	                             "bad.yaml:10:26: train.early_stop.patience: is 3, but there is no validation part",
	                             "--set model.dim=none: model.dim: is 'none'"};
	assert_tells("job: x\ndata:\n  trian: a.tsv\n  batch: many\nmodel:\n kind: deepfn\n"
	             "cluster:  [2]\nmodle: {}\ntrain:\n  early_stop: {patience: 3}\n",
	             set, 2, parts, 7);
}

static void consequences_of_a_mistake_are_not_reported(void **state)
{
	(void)state;
	const char *const servers[] = {"cluster.servers: is 'two'"};
	assert_tells(BASE "cluster: {servers: two, replicas: 2}\n", NULL, 0, servers, 1);
	const char *const name[] = {"bad.yaml:1:1: jbo: unknown key"};
	assert_tells("jbo: x\ndata: {train: a}\n", NULL, 0, name, 1);
	const char *const data[] = {"bad.yaml:2:7: data: is 'a'; expected a map"};
	assert_tells("job: x\ndata: a\n", NULL, 0, data, 1);
	const char *const list[] = {"data.train: is ''"};
	assert_tells("job: x\ndata: {train: [a, '']}\n", NULL, 0, list, 1);
	const char *const two[] = {"bad.yaml: job: missing", "bad.yaml: data.train: missing"};
	assert_tells("model: {kind: lr}\n", NULL, 0, two, 2);
}

static void more_mistakes_than_are_kept_are_counted(void **state)
{
	(void)state;
	enum { LINES = 100 };
	char text[4096] = BASE;
	weir_error err = {0};
	struct job *job = NULL;
	for (int i = 0; i < LINES; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "unknown%d: 1\n", i);
	assert_int_equal(job_parse_all(text, "bad.yaml", NULL, 0, &job, &told, &err), WEIR_E_INVALID);
	assert_int_equal(told.count, LINES);
	CHECK_CONTAINS(told.kept[WEIR_JOB_MISTAKES_MAX - 1].error.text, "bad.yaml:66:1: unknown63");
	CHECK_CONTAINS(err.text, "bad.yaml:3:1: unknown0");
	CHECK_CONTAINS(err.text, "(and more mistakes)");
}

static void an_alias_that_contains_itself_ends(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job *job = NULL;
	assert_int_equal(job_parse(BASE "model: &m {l2: *m}\n", "bad.yaml", NULL, 0, &job, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "model.l2.l2: unknown key");
}

static void errors_may_go_unread(void **state)
{
	(void)state;
	struct job *job = NULL;
	assert_int_equal(job_parse("job: [", "bad.yaml", NULL, 0, &job, NULL), WEIR_E_PARSE);
	assert_int_equal(job_parse("job: x\ndata: {train: ['${WEIR_TEST_UNSET}']}\n", "bad.yaml", NULL, 0, &job, NULL),
	                 WEIR_E_INVALID);
}

static void a_missing_file_is_named(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job *job = NULL;
	assert_int_equal(job_load("/nowhere/job.yaml", NULL, 0, &job, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "cannot open /nowhere/job.yaml: No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_mistake_is_reported),
	    cmocka_unit_test(all_mistakes_are_reported_in_the_order_of_lines),
	    cmocka_unit_test(consequences_of_a_mistake_are_not_reported),
	    cmocka_unit_test(more_mistakes_than_are_kept_are_counted),
	    cmocka_unit_test(an_alias_that_contains_itself_ends),
	    cmocka_unit_test(errors_may_go_unread),
	    cmocka_unit_test(a_missing_file_is_named),
	};
	return cmocka_run_group_tests_name("job_errors", tests, NULL, NULL);
}
