/* The audit finds every kind of disagreement, and the JSON report matches docs/REPORT.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/observe/report.h"
#include "common/web/json.h"

enum { PARTITIONS = 3 };

/* Three partitions that agree with the ledger; their sums wrap around. */
static struct overview agreeing(struct overview_partition p[PARTITIONS])
{
	for (unsigned i = 0; i < PARTITIONS; i++)
		p[i] = (struct overview_partition){.reported = true, .expected = {10, 4}, .applied = {9, 5}, .dropped = {1, UINT64_MAX}};
	return (struct overview){.partitions = p, .partitions_count = PARTITIONS};
}

static void audit_of_agreeing_partitions(void **state)
{
	(void)state;
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	struct audit a = audit_run(&s);
	assert_true(a.ok);
	assert_int_equal(a.parts_expected, 30);
	assert_int_equal(a.applied, 27);
	assert_int_equal(a.dropped, 3);
	assert_int_equal(a.missing, 0);
	assert_int_equal(a.doubled, 0);
}

static void audit_counts_skipped_units_apart(void **state)
{
	(void)state;
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	p[1].skipped = (struct part_sum){3, 7};
	assert_false(audit_run(&s).ok);
	assert_int_equal(audit_run(&s).missing, 3);
	p[1].applied.count += 3;
	p[1].applied.fingerprint += 7;
	struct audit a = audit_run(&s);
	assert_true(a.ok);
	assert_int_equal(a.parts_expected, 30);
	assert_int_equal(a.skipped, 3);
	assert_int_equal(a.missing + a.doubled, 0);
}

static void audit_finds_a_missing_part(void **state)
{
	(void)state;
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	p[1].applied.count = 7;
	struct audit a = audit_run(&s);
	assert_false(a.ok);
	assert_int_equal(a.missing, 2);
	assert_int_equal(a.doubled, 0);
	assert_non_null(strstr(a.text, "partition 1"));
}

static void audit_finds_a_part_too_many(void **state)
{
	(void)state;
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	p[2].applied.count = 10;
	struct audit a = audit_run(&s);
	assert_false(a.ok);
	assert_int_equal(a.missing, 0);
	assert_int_equal(a.doubled, 1);
	assert_non_null(strstr(a.text, "partition 2"));
}

static void audit_finds_another_part_in_place_of_one(void **state)
{
	(void)state;
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	p[0].applied.fingerprint++;
	struct audit a = audit_run(&s);
	assert_false(a.ok);
	assert_int_equal(a.missing, 1);
	assert_int_equal(a.doubled, 1);
}

static void audit_finds_double_application_and_silence(void **state)
{
	(void)state;
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	p[0].twice = 1;
	struct audit a = audit_run(&s);
	assert_false(a.ok);
	assert_int_equal(a.doubled, 1);
	s = agreeing(p);
	p[2] = (struct overview_partition){.reported = false};
	assert_false(audit_run(&s).ok);
	s.partitions_count = 0;
	assert_false(audit_run(&s).ok);
}

static void audit_fails_where_replicas_differ(void **state)
{
	(void)state;
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	struct audit a = audit_run(&s);
	audit_add_replicas(&a, &(struct overview_replicas){.compared = 3});
	assert_true(a.ok);
	audit_add_replicas(&a, &(struct overview_replicas){.compared = 3, .differ = 1, .text = "partition 2 at log entry 9"});
	assert_false(a.ok);
	assert_int_equal(a.replicas_compared, 3);
	assert_int_equal(a.replicas_differ, 1);
	assert_non_null(strstr(a.text, "partition 2"));
}

struct number {
	const char *path;
	double value;
};

static void expect_numbers(const struct json *j, const struct number *expected, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double value = NAN;
		if (!json_get_real(j, expected[i].path, &value) || fabs(value - expected[i].value) > 1e-12)
			fail_msg("%s is %g, not %g", expected[i].path, value, expected[i].value);
	}
}

static void report_as_json(void **state)
{
	(void)state;
	char dir[] = "/tmp/weir-report-XXXXXX", evaluation[64], path[64];
	assert_non_null(mkdtemp(dir));
	snprintf(evaluation, sizeof evaluation, "%s/evaluation.json", dir);
	snprintf(path, sizeof path, "%s/report.json", dir);
	FILE *out = fopen(evaluation, "w");
	fputs("{\"best_pass\": 2, \"chosen_by\": \"auc\", \"valid\": {\"auc\": 0.9, \"logloss\": 0.3, \"calibration\": 1.01, "
	      "\"rows\": 100},"
	      "\"test\": {\"auc\": 0.95, \"logloss\": 0.25, \"calibration\": 0.99, \"rows\": 200, \"pr_auc\": 0.6, \"gauc\": 0.8,"
	      "\"groups\": 9, \"at\": [{\"k\": 10, \"ndcg\": 0.4}]},"
	      "\"passes\": [{\"pass\": 1, \"auc\": 0.8, \"logloss\": 0.4}, {\"pass\": 2, \"auc\": 0.9, \"logloss\": 0.3}]}",
	      out);
	fclose(out);

	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	s.rows = 4000;
	s.bytes_pushed = 11;
	s.bytes_pulled = 12;
	s.keys = 8;
	s.keys_cached = 6;
	s.scale_skipped = 3;
	s.loss_scale = 8192;
	s.device_bytes = 77;
	s.staleness[histogram_bucket_of(3)] = 5;
	s.duplicates_refused = 6;
	struct report r = {
	    .job = "j", .model = "fm", .finished = true, .end = &s, .train_s = 2, .train_rows = 3000, .wall_s = 4, .workers_lost = 1};
	r.audit = audit_run(&s);
	audit_add_replicas(&r.audit, &(struct overview_replicas){.compared = 4});
	struct curve_point ends[] = {{.pass = 2, .seconds = 1.5, .rows = 3500, .bytes_pushed = 9, .bytes_pulled = 10}};
	const struct curve curve = {.points = ends, .count = 1};
	r.curve = &curve;
	r.generated = true;
	r.bayes_auc = 0.97;
	r.data_rows = 500;
	r.ids_planted = 90;
	r.ids_seen = 80;
	weir_error e = {0};
	assert_int_equal(report_read_evaluation(&r, evaluation, &e), WEIR_OK);
	assert_int_equal(report_write(&r, path, &e), WEIR_OK);

	struct json *j = NULL;
	assert_int_equal(json_read_file(path, &j, &e), WEIR_OK);
	static const struct number expected[] = {{"test.auc", 0.95},
	                                         {"test.logloss", 0.25},
	                                         {"test.calibration", 0.99},
	                                         {"test.rows", 200},
	                                         {"test.pr_auc", 0.6},
	                                         {"test.gauc", 0.8},
	                                         {"test.groups", 9},
	                                         {"valid.auc", 0.9},
	                                         {"best_pass", 2},
	                                         {"weights_pass", 2},
	                                         {"samples_per_s", 1500},
	                                         {"wall_s", 4},
	                                         {"train_s", 2},
	                                         {"rows", 4000},
	                                         {"bytes.pushed", 11},
	                                         {"bytes.pulled", 12},
	                                         {"loss_scale.skipped", 3},
	                                         {"loss_scale.last", 8192},
	                                         {"device.bytes_most", 77},
	                                         {"row_cache.keys", 8},
	                                         {"row_cache.hits", 6},
	                                         {"row_cache.hit_ratio", 0.75},
	                                         {"staleness.p50", 3},
	                                         {"staleness.p99", 3},
	                                         {"staleness.mean", 3},
	                                         {"audit.parts_expected", 30},
	                                         {"audit.applied", 27},
	                                         {"audit.missing", 0},
	                                         {"audit.double", 0},
	                                         {"audit.dropped", 3},
	                                         {"audit.replicas_compared", 4},
	                                         {"audit.replicas_differ", 0},
	                                         {"audit.skipped", 0},
	                                         {"units_skipped", 0},
	                                         {"duplicates_refused", 6},
	                                         {"stale_refused", 0},
	                                         {"workers_lost", 1},
	                                         {"servers_lost", 0},
	                                         {"leases_expired", 0},
	                                         {"batches_dropped", 0},
	                                         {"bad_lines", 0},
	                                         {"data.bayes_auc", 0.97},
	                                         {"data.rows", 500},
	                                         {"data.ids_planted", 90},
	                                         {"data.ids_seen", 80}};
	expect_numbers(j, expected, sizeof expected / sizeof *expected);
	assert_int_equal(json_list_length(j, "passes"), 2);
	struct json *first = json_list_get(j, "passes", 0), *second = json_list_get(j, "passes", 1);
	double seconds = 0;
	uint64_t rows = 0, pushed = 0, pulled = 0;
	assert_false(json_get_real(first, "seconds", &seconds) || json_get_count(first, "bytes_pushed", &pushed));
	assert_true(json_get_real(second, "seconds", &seconds) && seconds == 1.5);
	assert_true(json_get_count(second, "rows", &rows) && rows == 3500);
	assert_true(json_get_count(second, "bytes_pushed", &pushed) && pushed == 9);
	assert_true(json_get_count(second, "bytes_pulled", &pulled) && pulled == 10);
	json_destroy(first);
	json_destroy(second);
	json_destroy(j);
	report_destroy(&r);
	unlink(evaluation);
	unlink(path);
	assert_int_equal(rmdir(dir), 0);
}

/* A language model has its loss, in nats and in bits, and none of the click metrics. */
static void report_of_a_text(void **state)
{
	(void)state;
	char dir[] = "/tmp/weir-report-XXXXXX", evaluation[64], path[64], text[4096] = {0};
	assert_non_null(mkdtemp(dir));
	snprintf(evaluation, sizeof evaluation, "%s/evaluation.json", dir);
	snprintf(path, sizeof path, "%s/report.json", dir);
	FILE *out = fopen(evaluation, "w");
	fputs("{\"best_pass\": 1, \"chosen_by\": \"logloss\", \"valid\": {\"auc\": null, \"logloss\": 1.75, \"calibration\": null, "
	      "\"rows\": 100}, \"test\": null,"
	      "\"passes\": [{\"pass\": 1, \"auc\": null, \"logloss\": 1.75}]}",
	      out);
	fclose(out);
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	const struct job job = {.model.kind = MODEL_NGRAM,
	                        .train = {.early_stop.metric = METRIC_LOGLOSS, .best_by = METRIC_OF_EARLY_STOP}};
	struct report r = {.job = "j",
	                   .model = "ngram",
	                   .of = REPORT_TEXT,
	                   .finished = true,
	                   .end = &s,
	                   .of_job = &job,
	                   .weights = "best.safetensors"};
	weir_error e = {0};
	assert_int_equal(report_read_evaluation(&r, evaluation, &e), WEIR_OK);
	assert_int_equal(report_write(&r, path, &e), WEIR_OK);
	struct json *j = NULL, *pass = NULL;
	double loss = 0, bits = 0, none;
	assert_int_equal(json_read_file(path, &j, &e), WEIR_OK);
	assert_true(json_get_real(j, "valid.loss", &loss) && loss == 1.75);
	assert_true(json_get_real(j, "valid.bits_per_byte", &bits) && fabs(bits - 1.75 / log(2)) < 1e-12);
	assert_false(json_get_real(j, "valid.auc", &none) || json_get_real(j, "valid.logloss", &none) ||
	             json_get_real(j, "valid.calibration", &none) || json_get_real(j, "test.loss", &none));
	pass = json_list_get(j, "passes", 0);
	assert_true(json_get_real(pass, "loss", &loss) && loss == 1.75);
	assert_true(json_get_real(pass, "bits_per_byte", &bits) && fabs(bits - 1.75 / log(2)) < 1e-12);
	out = fmemopen(text, sizeof text, "w");
	report_print(&r, out);
	fclose(out);
	static const char *const said[] = {"valid       loss 1.7500 nats a byte   2.5247 bits a byte   (100 bytes)",
	                                   "pass 1: loss 1.7500   best"};
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (strstr(text, said[i]) == NULL)
			fail_msg("'%s' is not in: %s", said[i], text);
	assert_null(strstr(text, "AUC"));
	json_destroy(pass);
	json_destroy(j);
	report_destroy(&r);
	unlink(evaluation);
	unlink(path);
	assert_int_equal(rmdir(dir), 0);
}

/* A job on tokens has its speed, its share of the devices' peak, and the last steps' statistics. */
static void report_of_tokens(void **state)
{
	(void)state;
	char path[] = "/tmp/weir-report-XXXXXX", text[4096] = {0};
	close(mkstemp(path));
	struct overview_partition p[PARTITIONS];
	struct overview_table dense = {
	    .name = "dense", .push_codec = "fp32", .pull_codec = "fp32", .steps = 40, .learning_rate = 0.125};
	struct overview s = agreeing(p);
	s.tables = &dense;
	s.tables_count = 1;
	s.row_tokens = 32;
	s.row_least_s = 0.001;
	s.gradient_norm = 0.5;
	struct report r = {.job = "j",
	                   .model = "gpt2",
	                   .of = REPORT_TOKENS,
	                   .workers = 2,
	                   .end = &s,
	                   .train_s = 2,
	                   .train_rows = 1000,
	                   .run_rows = 1000};
	r.valid = (struct report_scores){.known = true, .quality = {.logloss = 2, .rows = 100}};
	weir_error e = {0};
	assert_int_equal(report_write(&r, path, &e), WEIR_OK);
	struct json *j = NULL;
	assert_int_equal(json_read_file(path, &j, &e), WEIR_OK);
	static const struct number expected[] = {
	    {"samples_per_s", 500}, {"tokens_per_s", 16000},  {"mfu", 0.25},
	    {"gradient_norm", 0.5}, {"learning_rate", 0.125}, {"valid.perplexity", 7.38905609893065}};
	expect_numbers(j, expected, sizeof expected / sizeof *expected);
	struct json *table = json_list_get(j, "tables", 0);
	uint64_t steps = 0;
	assert_true(json_get_count(table, "steps", &steps) && steps == 40);
	json_destroy(table);
	json_destroy(j);
	FILE *out = fmemopen(text, sizeof text, "w");
	report_print(&r, out);
	fclose(out);
	static const char *const said[] = {"perplexity 7.3891", "500 samples/s of 32 tokens, 16.0 k tokens/s, MFU 25 %, 1000 rows",
	                                   "norm 0.5, learning rate 0.125, at last"};
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (strstr(text, said[i]) == NULL)
			fail_msg("'%s' is not in: %s", said[i], text);
	unlink(path);
}

/* The report names undefined metrics with the number of scores behind them. No pass is best by
 * them. */
static void figures_that_are_undefined_are_told(void **state)
{
	(void)state;
	char path[] = "/tmp/weir-report-XXXXXX", text[4096] = {0};
	const int fd = mkstemp(path);
	FILE *out = fdopen(fd, "w");
	fputs("{\"best_pass\": 2, \"chosen_by\": \"last\", \"valid\": {\"auc\": null, \"logloss\": null, \"calibration\": null, "
	      "\"rows\": 100,"
	      "\"not_numbers\": 7}, \"test\": null, \"passes\": [{\"pass\": 1, \"auc\": null, \"logloss\": null, \"not_numbers\": 9},"
	      "{\"pass\": 2, \"auc\": null, \"logloss\": null, \"not_numbers\": 7}]}",
	      out);
	fclose(out);
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	const struct job job = {.data.valid_count = 1, .train.keep_best = true};
	struct report r = {.job = "j", .model = "fm", .finished = true, .end = &s, .of_job = &job, .weights = "best.safetensors"};
	weir_error e = {0};
	assert_int_equal(report_read_evaluation(&r, path, &e), WEIR_OK);
	out = fmemopen(text, sizeof text, "w");
	report_print(&r, out);
	fclose(out);
	static const char *const said[] = {"valid       AUC nan   logloss nan", "(100 rows, the scores of 7 are no numbers)",
	                                   "pass 1: AUC nan   logloss nan, the scores of 9 are no numbers\n",
	                                   "of pass 2, the last, as no pass had figures that are numbers: best.safetensors"};
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (strstr(text, said[i]) == NULL)
			fail_msg("'%s' is not in: %s", said[i], text);
	assert_int_equal(report_write(&r, path, &e), WEIR_OK);
	struct json *j = NULL;
	assert_int_equal(json_read_file(path, &j, &e), WEIR_OK);
	uint64_t count = 0;
	assert_true(json_get_count(j, "valid.not_numbers", &count) && count == 7);
	assert_true(json_get_count(j, "weights_pass", &count) && count == 2);
	assert_false(json_get_count(j, "best_pass", &count));
	json_destroy(j);
	report_destroy(&r);
	unlink(path);
}

/* The report of a job that had finished before has the training's metrics. Its speed is not this
 * run's. */
static void a_run_that_trained_nothing_has_no_speed(void **state)
{
	(void)state;
	char text[4096] = {0};
	struct overview_partition p[PARTITIONS];
	struct overview s = agreeing(p);
	s.rows = 4000;
	struct report r = {.job = "j", .model = "fm", .finished = true, .was_finished = true, .end = &s, .wall_s = 4};
	r.audit = audit_run(&s);
	r.test = (struct report_scores){.known = true, .quality = {.auc = 0.75, .rows = 200}};
	assert_true(report_samples_per_s(&r) == 0);
	FILE *out = fmemopen(text, sizeof text, "w");
	report_print(&r, out);
	fclose(out);
	static const char *const said[] = {"already finished", "AUC 0.7500", "this run trained no rows", "exactly once"};
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (strstr(text, said[i]) == NULL)
			fail_msg("'%s' is not in: %s", said[i], text);
	assert_null(strstr(text, "samples/s"));
}

static void a_broken_evaluation_is_located(void **state)
{
	(void)state;
	char path[] = "/tmp/weir-evaluation-XXXXXX";
	int fd = mkstemp(path);
	assert_int_equal(write(fd, "{\n\"test\": }", 11), 11);
	close(fd);
	struct report r = {0};
	weir_error e = {0};
	assert_int_equal(report_read_evaluation(&r, path, &e), WEIR_E_PARSE);
	assert_non_null(strstr(e.text, path));
	assert_non_null(strstr(e.text, ":2:"));
	unlink(path);
	assert_int_not_equal(report_read_evaluation(&r, path, &e), WEIR_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(audit_of_agreeing_partitions),
	    cmocka_unit_test(audit_counts_skipped_units_apart),
	    cmocka_unit_test(audit_finds_a_missing_part),
	    cmocka_unit_test(audit_finds_a_part_too_many),
	    cmocka_unit_test(audit_finds_another_part_in_place_of_one),
	    cmocka_unit_test(audit_finds_double_application_and_silence),
	    cmocka_unit_test(audit_fails_where_replicas_differ),
	    cmocka_unit_test(report_as_json),
	    cmocka_unit_test(report_of_a_text),
	    cmocka_unit_test(report_of_tokens),
	    cmocka_unit_test(a_run_that_trained_nothing_has_no_speed),
	    cmocka_unit_test(figures_that_are_undefined_are_told),
	    cmocka_unit_test(a_broken_evaluation_is_located),
	};
	return cmocka_run_group_tests_name("cli_report", tests, NULL, NULL);
}
