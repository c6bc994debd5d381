/* A sweep's file is checked key by key, and its results are aggregated over seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/sweep/job_settings.h"
#include "cli/sweep/search_run.h"
#include "cli/sweep/sweep.h"
#include "common/system/disk.h"
#include "common/web/json.h"
#include "tests/occurrences.h"

#define HEAD "base: b.yaml\nout: o\n"

/* --- The file */

static void a_file_gives_what_is_to_be_run(void **state)
{
	(void)state;
	struct sweep *s = NULL;
	weir_error err = {0};
	assert_int_equal(sweep_file_parse(&s,
	                                  "base: config/b.yaml\nseeds: [7, 18446744073709551615]\nmetric: logloss\nout: /tmp/o\n"
	                                  "runs:\n- {name: fp32}\n- name: other\n  set: [model.dim=4, 'model.hidden=[8, 4]']\n",
	                                  "s.yaml", &err),
	                 WEIR_OK);
	assert_string_equal(s->base, "config/b.yaml");
	assert_string_equal(s->out, "/tmp/o");
	assert_int_equal(s->metric, FIGURE_LOGLOSS);
	assert_int_equal(s->seeds_count, 2);
	assert_int_equal(s->seeds[0], 7);
	assert_true(s->seeds[1] == UINT64_MAX);
	assert_int_equal(s->runs_count, 2);
	assert_string_equal(s->runs[0].name, "fp32");
	assert_int_equal(s->runs[0].sets_count, 0);
	assert_int_equal(s->runs[1].sets_count, 2);
	assert_string_equal(s->runs[1].sets[1], "model.hidden=[8, 4]");

	struct sweep_sets sets;
	sweep_sets(s, &s->runs[1], 9, &sets);
	assert_int_equal(sets.count, 4);
	assert_string_equal(sets.items[0], "model.dim=4");
	assert_string_equal(sets.items[2], "run_dir=/tmp/o/run");
	assert_string_equal(sets.items[3], "train.seed=9");
	sweep_destroy(s);

	assert_int_equal(sweep_file_parse(&s, HEAD "set: [train.passes=3]\nruns: [{name: a, set: [model.dim=4]}]", "s.yaml", &err),
	                 WEIR_OK);
	sweep_sets(s, &s->runs[0], 1, &sets);
	assert_int_equal(sets.count, 4);
	/* the run's own setting comes later and wins */
	assert_string_equal(sets.items[0], "train.passes=3");
	assert_string_equal(sets.items[1], "model.dim=4");
	sweep_destroy(s);
}

static void there_are_three_seeds_and_auc_unless_said(void **state)
{
	(void)state;
	struct sweep *s = NULL;
	weir_error err = {0};
	assert_int_equal(sweep_file_parse(&s, HEAD "runs: [{name: a}]", "s.yaml", &err), WEIR_OK);
	assert_int_equal(s->metric, FIGURE_AUC);
	assert_int_equal(s->seeds_count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(s->seeds[i], i + 1);
	sweep_destroy(s);
}

static void mistakes_are_reported_with_their_place(void **state)
{
	(void)state;
	static const struct {
		const char *text, *said[3];
	} cases[] = {
	    {"", {"s.yaml: empty"}},
	    {"base: [", {"s.yaml:", "not valid YAML"}},
	    {"- a\n", {"s.yaml:1:1", "is a list; expected a map"}},
	    {HEAD, {"s.yaml:1:1", "runs is missing"}},
	    {"out: o\nruns: [{name: a}]\n", {"base is missing; expected a job file"}},
	    {"base: b\nruns: [{name: a}]\n", {"out is missing; expected a folder"}},
	    {HEAD "runs: [{name: a}]\nsead: [1]\n", {"s.yaml:4:1", "unknown key 'sead'", "the nearest valid key is 'seeds'"}},
	    {HEAD "out: p\nruns: [{name: a}]\n", {"s.yaml:3:1: out: duplicate key"}},
	    {HEAD "runs: [{name: a}]\n---\na: b\n", {"s.yaml:5:1", "a second YAML document"}},
	    {HEAD "metric: f1\n", {"s.yaml:3:9: metric: is 'f1'; expected auc, logloss, pr_auc, normalized_entropy"}},
	    {HEAD "metric: [auc]\n", {"metric: is a list"}},
	    {HEAD "seeds: 3\n", {"seeds: is '3'; expected a list of whole numbers"}},
	    {HEAD "seeds: []\n", {"seeds: has 0 items"}},
	    {HEAD "seeds: [1, -2]\n", {"s.yaml:3:12: seeds: is '-2'"}},
	    {HEAD "seeds: [1, 18446744073709551616]\n", {"seeds: is '18446744073709551616'"}},
	    {HEAD "seeds: [1, 2, 1]\n", {"s.yaml:3:15: seeds: is '1'; expected a seed once"}},
	    {HEAD "runs: []\n", {"runs: has 0 items", "from 1 to 64"}},
	    {HEAD "runs: {name: a}\n", {"runs: is a map; expected a list"}},
	    {HEAD "runs: [{set: [a=b]}]\n", {"s.yaml:3:8: runs[0]: name is missing"}},
	    {HEAD "runs: [{name: a b}]\n", {"runs[0].name: is 'a b'", "at most 40 letters"}},
	    {HEAD "runs: [{name: .a}]\n", {"runs[0].name: is '.a'"}},
	    {HEAD "runs: [{name: ''}]\n", {"runs[0].name: is ''"}},
	    {HEAD "runs: [{name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}]\n", {"runs[0].name: is 'aaaaa"}},
	    {HEAD "runs:\n- name: a\n- name: a\n", {"s.yaml:5:9: runs[1].name: 'a' is the name of the run on line 4, too"}},
	    {HEAD "runs: [{name: a, set: b=c}]\n", {"runs[0].set: is 'b=c'; expected a list of 'KEY=VALUE'"}},
	    {HEAD "runs: [{name: a, set: [b]}]\n", {"runs[0].set: is 'b'; expected KEY=VALUE"}},
	    {HEAD "runs: [{name: a, set: [=b]}]\n", {"runs[0].set: is '=b'"}},
	    {HEAD "runs: [{name: a, set: [b: c]}]\n", {"runs[0].set: is a map"}},
	    {HEAD "runs: [{name: a, set: [run_dir=x]}]\n", {"'run_dir=x'", "the sweep's own to set"}},
	    {HEAD "runs: [{name: a, set: [train.seed=x]}]\n", {"'train.seed=x'"}},
	    {HEAD "runs: [{name: a, sets: [b=c]}]\n", {"runs[0]: unknown key 'sets'; the nearest valid key is 'set'"}},
	};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sweep *s = NULL;
		weir_error err = {0};
		if (sweep_file_parse(&s, cases[i].text, "s.yaml", &err) == WEIR_OK)
			fail_msg("taken: %s", cases[i].text);
		for (unsigned k = 0; k < 3 && cases[i].said[k]; k++)
			if (!strstr(err.text, cases[i].said[k]))
				fail_msg("'%s' is not in: %s", cases[i].said[k], err.text);
	}
}

/* --- Its jobs */

static void write_file(const char *path, const char *text)
{
	weir_error err = {0};
	assert_int_equal(disk_write_file(disk_system(), path, text, strlen(text), &err), WEIR_OK);
}

static void jobs_are_checked_before_the_first_begins(void **state)
{
	(void)state;
	static const struct {
		const char *job, *rest, *said[2]; /* no sentence: the file is valid */
	} cases[] = {
	    {"job: j\ndata: {generate: {rows: 100}}\n", "runs: [{name: a}, {name: b, set: [model.dim=4]}]\n", {NULL}},
	    {"job: j\ndata: {generate: {rows: 100}}\n",
	     "runs:\n- {name: a}\n- {name: b, set: [model.dmi=4]}\n",
	     {":5: run b:", "'model.dim'"}},
	    {"job: j\ndata: {generate: {rows: 100}, split: {valid: 0}}\n",
	     "runs: [{name: a}]\n",
	     {"run a: it has no validation part"}},
	    {"job: j\ndata: {format: text, train: t, valid: v}\nmodel: {kind: ngram}\n",
	     "runs: [{name: a}]\n",
	     {"expected metric: logloss"}},
	    {"job: j\ndata: {format: text, train: t, valid: v}\nmodel: {kind: ngram}\n",
	     "metric: logloss\nruns: [{name: a}]\n",
	     {NULL}},
	};
	char dir[] = "/tmp/weir-sweep-XXXXXX", job[64], text[512], value[32];
	assert_non_null(mkdtemp(dir));
	snprintf(job, sizeof job, "%s/job.yaml", dir);
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sweep *s = NULL;
		weir_error err = {0};
		write_file(job, cases[i].job);
		snprintf(text, sizeof text, "base: %s\nout: o\n%s", job, cases[i].rest);
		assert_int_equal(sweep_file_parse(&s, text, "s.yaml", &err), WEIR_OK);
		const weir_status status = sweep_check_jobs(s, &err);
		if ((status == WEIR_OK) != (cases[i].said[0] == NULL))
			fail_msg("case %u: %s", i, err.text);
		for (unsigned k = 0; k < 2 && cases[i].said[k]; k++)
			if (!strstr(err.text, cases[i].said[k]))
				fail_msg("'%s' is not in: %s", cases[i].said[k], err.text);
		if (status == WEIR_OK) {
			sweep_value_name(s, value);
			assert_string_equal(value, i == 0 ? "test auc" : "valid loss");
		}
		sweep_destroy(s);
	}
	unlink(job);
	assert_int_equal(rmdir(dir), 0);
}

static void the_sweeps_that_come_along_are_good(void **state)
{
	(void)state;
	glob_t found;
	assert_int_equal(chdir(SOURCE_DIR), 0);
	setenv("WEIR_DATA", "/data", 1);
	assert_int_equal(glob("config/sweeps/*.yaml", 0, NULL, &found), 0);
	assert_true(found.gl_pathc >= 2);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct sweep *s = NULL;
		weir_error err = {0};
		weir_status status = sweep_file_read(&s, found.gl_pathv[i], &err);
		if (status == WEIR_OK)
			status = s->search ? search_check_job(s, &err) : sweep_check_jobs(s, &err);
		if (status != WEIR_OK)
			fail_msg("%s", err.text);
		assert_true(s->search || s->has_test);
		sweep_destroy(s);
	}
	globfree(&found);
}

/* --- Searches */

#define SEARCH HEAD "search: {kind: tpe, metric: valid.auc}\n"

static void a_file_gives_a_search(void **state)
{
	(void)state;
	struct sweep *s = NULL;
	weir_error err = {0};
	if (sweep_file_parse(&s,
	                     HEAD
	                     "seeds: [4]\nsearch:\n  kind: evolution\n  metric: [valid.auc, bytes]\n  trials: 12\n  seed: 8\n"
	                     "  stop: {kind: asha, first: 2, eta: 4}\n  passes: 8\n  parallel: 2\n  budget: {seconds: 60}\n"
	                     "  constraints: ['test.logloss <= 0.5']\n"
	                     "space:\n  a.kind: [adam, sgd]\n  a.lr: {min: 1e-3, max: 1e-1, log: true}\n"
	                     "  a.momentum: {min: 0.5, max: 0.9, step: 0.1, when: {a.kind: sgd}}\n  b: {min: 1, max: 9, int: true}\n",
	                     "s.yaml", &err) != WEIR_OK)
		fail_msg("%s", err.text);
	const struct search_options *o = &s->search->options;
	assert_int_equal(o->sampler, SAMPLER_EVOLUTION);
	assert_int_equal(o->policy, POLICY_ASHA);
	assert_true(o->trials == 12 && o->steps == 8 && o->first == 2 && o->eta == 4 && o->seed == 8 && o->costs == 2);
	assert_true(s->search->objectives[0].maximize && !s->search->objectives[1].maximize);
	assert_int_equal(s->search->objectives[0].kind, MEASURE_VALID);
	assert_int_equal(s->search->objectives[1].kind, MEASURE_BYTES);
	assert_int_equal(s->search->constraints[0].measure.kind, MEASURE_REPORT);
	assert_false(s->search->constraints[0].at_least);
	assert_true(s->search->seconds_most == 60 && s->search->parallel == 2);
	assert_int_equal(o->space.count, 4);
	assert_int_equal(o->space.dims[2].when, 0);
	assert_true(o->space.dims[2].when_choices == 2 && o->space.dims[1].log && o->space.dims[3].integer);
	sweep_destroy(s);
}

static void a_wrong_search_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *words[2];
	} wrong[] = {
	    {HEAD "runs: [{name: a}]\nsearch: {kind: tpe, metric: bytes}\nspace: {a: [1, 2]}\n", {"runs and search", "one of them"}},
	    {SEARCH, {"space is missing", "a map of keys"}},
	    {HEAD "space: {a: [1, 2]}\n", {"search is missing", "kind: tpe"}},
	    {HEAD "search: {kind: bayes, metric: bytes}\n", {"s.yaml:3:16: search.kind: is 'bayes'", "random, tpe"}},
	    {HEAD "search: {kind: tpe, metric: valid.acu}\n", {"search.metric: is 'valid.acu'", "valid.auc"}},
	    {HEAD "search: {kind: tpe, metric: bytes, trails: 3}\n", {"unknown key 'trails'", "'trials'"}},
	    {HEAD "search: {kind: pbt, metric: bytes, stop: {kind: asha}}\n", {"search.stop.kind", "rule of its own"}},
	    {HEAD "search: {kind: tpe, metric: bytes, constraints: ['bytes < 3']}\n", {"search.constraints", "MEASURE <= NUMBER"}},
	    {SEARCH "space: {a: {min: 3, max: 1}}\n", {"s.yaml:4:12: a: ", "min and max"}},
	    {SEARCH "space: {a: {min: 0, max: 1, log: true}}\n", {"a: log", "above 0"}},
	    {SEARCH "space: {a: [1, 2], a: [3]}\n", {"duplicate key a", "s.yaml:4:20"}},
	    {SEARCH "space: {train.passes: [1, 2]}\n", {"train.passes", "the sweep's own"}},
	    {SEARCH "space: {a: [1, 2], b: {min: 1, max: 2, when: {a: 3}}}\n", {"b.when: is '3'", "other key's values"}},
	    {SEARCH "space: {b: {min: 1, max: 2, when: {a: 1}}, a: [1, 2]}\n", {"b.when: is 'a'", "of a key above"}}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct sweep *s = NULL;
		weir_error err = {0};
		assert_int_not_equal(sweep_file_parse(&s, wrong[i].text, "s.yaml", &err), WEIR_OK);
		for (size_t k = 0; k < 2; k++)
			if (!strstr(err.text, wrong[i].words[k]))
				fail_msg("'%s' is not in: %s", wrong[i].words[k], err.text);
	}
}

static void settings_go_into_a_job_file(void **state)
{
	(void)state;
	static const char *const sets[] = {"b.c=2", "d.e.f=[1, {x: y}]", "a='q r'", "b.new=x"};
	char *text = NULL;
	weir_error err = {0};
	assert_int_equal(job_settings_write("# note\na: 1\nb: {c: 1, k: '${HOME}/x'}\n", "j.yaml", sets, 4, &text, &err), WEIR_OK);
	assert_string_equal(text, "a: 'q r'\nb: {c: 2, k: '${HOME}/x', new: x}\nd:\n  e:\n    f: [1, {x: y}]\n");
	free(text);
	assert_int_equal(job_settings_write("a: [", "j.yaml", sets, 1, &text, &err), WEIR_E_PARSE);
}

/* --- Results */

static void a_result_is_read_from_a_report(void **state)
{
	(void)state;
	const struct sweep s = {.metric = FIGURE_AUC, .has_test = true};
	char path[] = "/tmp/weir-report-XXXXXX";
	struct sweep_result r;
	weir_error err = {0};
	close(mkstemp(path));
	write_file(path,
	           "{\"finished\": true, \"test\": {\"auc\": 0.75}, \"train_s\": 2.5, \"bytes\": {\"pushed\": 100, \"pulled\": 200},"
	           "\"passes\": [{\"pass\": 1, \"auc\": 0.5},"
	           "{\"pass\": 2, \"auc\": 0.625, \"seconds\": 1.5, \"rows\": 10, \"bytes_pushed\": 60, \"bytes_pulled\": 70}]}");
	assert_int_equal(sweep_result_read(&s, path, &r, &err), WEIR_OK);
	assert_true(r.known && r.value == 0.75 && r.train_s == 2.5);
	assert_int_equal(r.bytes_pushed, 100);
	assert_int_equal(r.bytes_pulled, 200);
	assert_int_equal(r.points_count, 1); /* no poll saw the end of the first pass */
	assert_int_equal(r.points[0].pass, 2);
	assert_int_equal(r.points[0].rows, 10);
	assert_int_equal(r.points[0].bytes_pushed, 60);
	assert_int_equal(r.points[0].bytes_pulled, 70);
	assert_true(r.points[0].seconds == 1.5 && r.points[0].value == 0.625);
	sweep_result_destroy(&r);
	static const char *const bad[] = {"{\"finished\": false}", "{\"finished\": true, \"train_s\": 1}", "{"};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		write_file(path, bad[i]);
		assert_int_not_equal(sweep_result_read(&s, path, &r, &err), WEIR_OK);
		assert_non_null(strstr(err.text, path));
		assert_false(r.known);
	}
	unlink(path);
}

/* Three runs of two seeds. The last run has only its first seed; the second has equal metrics. */
static struct sweep compared(struct sweep_result results[6])
{
	static struct sweep_point points[6] = {{1, 2, 100, 500, 500, 0.5},   {2, 4, 200, 1000, 1000, 0.75},
	                                       {1, 3, 100, 500, 500, 0.625}, {1, 1, 100, 50, 150, 0.5},
	                                       {1, 1, 100, 50, 150, 0.5},    {1, 1, 100, 5, 15, 0.5}};
	results[0] = (struct sweep_result){true, 0.75, 1000, 1000, 4, points, 2};
	results[1] = (struct sweep_result){true, 0.25, 3000, 3000, 6, points + 2, 1};
	results[2] = (struct sweep_result){true, 0.5, 500, 1500, 1, points + 3, 1};
	results[3] = (struct sweep_result){true, 0.5, 500, 1500, 1, points + 4, 1};
	results[4] = (struct sweep_result){true, 0.5, 100, 100, 1, points + 5, 1};
	results[5] = (struct sweep_result){0};
	return (struct sweep){.path = "s.yaml",
	                      .base = "b.yaml",
	                      .has_test = true,
	                      .seeds = {1, 2},
	                      .seeds_count = 2,
	                      .runs = {{.name = "fp32"}, {.name = "int8", .sets = {"a.b=c"}, .sets_count = 1}, {.name = "topk"}},
	                      .runs_count = 3};
}

static void the_table_has_means_spreads_and_factors(void **state)
{
	(void)state;
	struct sweep_result results[6];
	const struct sweep s = compared(results);
	char *table = sweep_table(&s, results);
	assert_string_equal(table, "`weir sweep s.yaml`: b.yaml, seeds 1, 2; means over them (least to most).\n\n"
	                           "| run | test auc | pushed | pulled | in all | times fewer bytes than fp32 | training, s |\n"
	                           "|---|---|---|---|---|---|---|\n"
	                           "| fp32 | 0.5000 (0.2500 to 0.7500) | 2.0 kB (1.0 kB to 3.0 kB) | 2.0 kB (1.0 kB to 3.0 kB) | "
	                           "4.0 kB (2.0 kB to 6.0 kB) | 1.00 | 5.0 (4.0 to 6.0) |\n"
	                           "| int8 | 0.5000 | 500 B | 1.5 kB | 2.0 kB | 2.00 | 1.0 |\n"
	                           "| topk (1 of 2 seeds) | 0.5000 | 100 B | 100 B | 200 B | 20.00 | 1.0 |\n");
	free(table);
	results[4].known = false;
	table = sweep_table(&s, results);
	assert_non_null(strstr(table, "\n| topk (0 of 2 seeds) | - | - | - | - | - | - |\n"));
	free(table);
}

static void read_text(const char *dir, const char *name, char **out)
{
	char path[64];
	size_t bytes;
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/%s", dir, name);
	assert_int_equal(disk_read_file(disk_system(), path, 1 << 20, out, &bytes, &err), WEIR_OK);
	unlink(path);
}

static void results_are_written(void **state)
{
	(void)state;
	struct sweep_result results[6];
	struct sweep s = compared(results);
	char dir[] = "/tmp/weir-sweep-XXXXXX", *text = NULL, *table = NULL;
	weir_error err = {0};
	struct json *j = NULL;
	double x = 0;
	s.out = mkdtemp(dir);
	assert_int_equal(sweep_results_write(&s, results, &err), WEIR_OK);

	read_text(dir, "results.json", &text);
	assert_int_equal(json_parse(text, strlen(text), "results", &j, &err), WEIR_OK);
	assert_int_equal(json_list_length(j, "runs"), 3);
	struct json *run = json_list_get(j, "runs", 0);
	assert_string_equal(json_get_text(run, "name"), "fp32");
	assert_true(json_get_real(run, "auc.mean", &x) && x == 0.5);
	assert_true(json_get_real(run, "auc.max", &x) && x == 0.75);
	assert_true(json_get_real(run, "bytes.min", &x) && x == 2000);
	assert_int_equal(json_list_length(run, "seeds"), 2);
	struct json *seed = json_list_get(run, "seeds", 0);
	assert_int_equal(json_list_length(seed, "passes"), 2);
	json_destroy(seed);
	json_destroy(run);
	run = json_list_get(j, "runs", 1);
	assert_int_equal(json_list_length(run, "set"), 1);
	assert_true(json_get_real(run, "times_fewer_bytes", &x) && x == 2);
	json_destroy(run);
	json_destroy(j);
	free(text);

	read_text(dir, "table.md", &text);
	table = sweep_table(&s, results);
	assert_string_equal(text, table);
	free(table);
	free(text);
	static const char *const plots[] = {"metric-bytes.svg", "metric-seconds.svg"};
	for (unsigned i = 0; i < 2; i++) {
		read_text(dir, plots[i], &text);
		/* one line per seed, and one per run */
		assert_int_equal(occurrences(text, "<polyline "), 5 + 3);
		/* the last pass that all seeds have */
		assert_int_equal(occurrences(text, "<circle "), 1 + 1 + 1);
		assert_int_equal(occurrences(text, ">topk</text>"), 1);
		free(text);
	}
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_gives_what_is_to_be_run),
	    cmocka_unit_test(there_are_three_seeds_and_auc_unless_said),
	    cmocka_unit_test(mistakes_are_reported_with_their_place),
	    cmocka_unit_test(jobs_are_checked_before_the_first_begins),
	    cmocka_unit_test(the_sweeps_that_come_along_are_good),
	    cmocka_unit_test(a_result_is_read_from_a_report),
	    cmocka_unit_test(the_table_has_means_spreads_and_factors),
	    cmocka_unit_test(results_are_written),
	    cmocka_unit_test(a_file_gives_a_search),
	    cmocka_unit_test(a_wrong_search_is_refused),
	    cmocka_unit_test(settings_go_into_a_job_file),
	};
	return cmocka_run_group_tests_name("cli_sweep", tests, NULL, NULL);
}
