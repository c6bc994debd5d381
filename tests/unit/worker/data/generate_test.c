/* Generated data: reproducible, with the requested shape and a correct ground truth. */
#include "tests/unit/worker/data/fixture.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/system/disk.h"
#include "worker/data/columns/generate_clicks.h"
#include "worker/data/columns/synthetic_model.h"
#include "worker/data/format/line_split.h"
#include "worker/data/quality/score.h"

static struct generate_options options_of(void **state, const char *name, char path[256])
{
	snprintf(path, 256, "%s/%s", ((struct folder *)*state)->path, name);
	return (struct generate_options){.path = path,
	                                 .rows = 20000,
	                                 .ids = 200000,
	                                 .seed = 3,
	                                 .threads = 1,
	                                 .split_train = 80,
	                                 .split_valid = 10,
	                                 .split_test = 10};
}

static char *read_text(const char *path, size_t *n)
{
	char *text;
	weir_error err = {0};
	CHECK_OK(disk_read_file(disk_system(), path, 1u << 30, &text, n, &err), err);
	return text;
}

static void bytes_depend_on_the_options_alone(void **state)
{
	char a[256], b[256], c[256];
	struct ground_truth truth, again;
	weir_error err = {0};
	struct generate_options o = options_of(state, "a.tsv", a);
	CHECK_OK(generate_criteo(&o, &truth, &err), err);
	assert_true(generate_is_current(&o, &again));
	assert_memory_equal(&truth, &again, sizeof truth);
	struct generate_options threads = options_of(state, "b.tsv", b), seed = options_of(state, "c.tsv", c);
	threads.threads = 3;
	seed.seed = 4;
	assert_false(generate_is_current(&threads, &again));
	CHECK_OK(generate_criteo(&threads, &again, &err), err);
	assert_memory_equal(&truth, &again, sizeof truth);
	CHECK_OK(generate_criteo(&seed, &again, &err), err);
	size_t na, nb, nc;
	char *ta = read_text(a, &na), *tb = read_text(b, &nb), *tc = read_text(c, &nc);
	assert_int_equal(na, truth.bytes);
	assert_true(na == nb && memcmp(ta, tb, na) == 0);
	assert_true(na != nc || memcmp(ta, tc, na) != 0);
	free(ta);
	free(tb);
	free(tc);
	o.rows++;
	assert_false(generate_is_current(&o, &again));
}

static void truth_agrees_with_the_file_and_the_model(void **state)
{
	char path[256];
	struct ground_truth truth;
	weir_error err = {0};
	struct generate_options o = options_of(state, "truth.tsv", path);
	CHECK_OK(generate_criteo(&o, &truth, &err), err);
	size_t n, rows = 0, test = 0;
	char *text = read_text(path, &n);
	struct split split = split_of(80, 10, 10);
	struct synthetic_model *planted = synthetic_model_create(o.ids, o.seed);
	float *labels = malloc(o.rows * sizeof *labels), *scores = malloc(o.rows * sizeof *scores), *p = malloc(o.rows * sizeof *p);
	for (char *line = text; line < text + n; rows++) {
		char *newline = strchr(line, '\n');
		struct synthetic_row row;
		synthetic_model_draw(planted, rows, &row);
		assert_int_equal(*line == '1', row.click);
		if (split_line(&split, line, (size_t)(newline - line)) == SPLIT_TEST) {
			labels[test] = row.click ? 1.0f : 0.0f;
			p[test] = (float)(1 / (1 + exp(-(double)row.logit)));
			scores[test++] = row.logit;
		}
		line = newline + 1;
	}
	assert_int_equal(rows, o.rows);
	assert_int_equal(truth.test.rows, test);
	assert_int_equal(truth.train.rows + truth.valid.rows + truth.test.rows, o.rows);
	double auc;
	assert_int_equal(score_auc(&(struct scored){labels, scores, NULL, test}, &auc), WEIR_OK);
	assert_true(fabs(auc - truth.test.auc) < 1e-12);
	struct score_sums sums = {0};
	score_sum(&sums, &(struct scored){labels, p, NULL, test});
	assert_true(fabs(score_logloss(&sums) - truth.test.logloss) < 1e-5);
	assert_true(fabs(truth.all.auc - truth.all.auc_expected) < 0.015);
	assert_true(fabs(truth.all.logloss - truth.all.logloss_expected) < 0.015);
	assert_true(truth.all.auc > 0.75 && truth.all.auc < 0.9);
	double rate = (double)truth.all.clicks / (double)o.rows;
	assert_true(rate > 0.22 && rate < 0.28);
	free(labels);
	free(scores);
	free(p);
	synthetic_model_destroy(planted);
	free(text);
}

static void leftovers_of_a_killed_program_are_overwritten_and_files_in_progress_are_not(void **state)
{
	char path[256], temporary[264];
	struct ground_truth truth;
	struct stat st;
	weir_error err = {0};
	const struct generate_options o = options_of(state, "left.tsv", path);
	snprintf(temporary, sizeof temporary, "%s.tmp", path);
	const int fd = open(temporary, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0 && pwrite(fd, "left", 4, 1 << 30) == 4);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(generate_criteo(&o, &truth, &err), WEIR_E_BUSY);
	CHECK_CONTAINS(err.text, "left.tsv.tmp");
	assert_int_equal(stat(path, &st), -1);
	close(fd);
	CHECK_OK(generate_criteo(&o, &truth, &err), err);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, truth.bytes);
	assert_int_equal(stat(temporary, &st), -1);
}

static void rows_parse_and_ids_follow_a_power_law(void **state)
{
	char path[256];
	struct ground_truth truth;
	weir_error err = {0};
	struct generate_options o = options_of(state, "law.tsv", path);
	CHECK_OK(generate_criteo(&o, &truth, &err), err);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	job->data.batch = 1000;
	struct dataset *d;
	CHECK_OK(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), err);
	assert_int_equal(dataset_get_info(d)->rows, o.rows);
	assert_int_equal(dataset_get_info(d)->bad_lines, 0);
	assert_int_equal(truth.ids, o.ids);
	assert_in_range(truth.ids_seen, 5000, truth.ids);
	dataset_close(d);
	job_of_free(job);
	struct synthetic_model *planted = synthetic_model_create(o.ids, o.seed);
	uint32_t top = 0, tenth = 0;
	for (uint64_t i = 0; i < 20000; i++) {
		struct synthetic_row row;
		synthetic_model_draw(planted, i, &row);
		for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++)
			assert_true(row.ranks[f] < synthetic_model_vocabulary(planted, f));
		top += row.ranks[0] == 0;
		tenth += row.ranks[0] == 9;
	}
	assert_true(top > 11 * tenth && top < 23 * tenth); /* 10^1.2 is 15.8 */
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++)
		for (uint32_t r = 1; r < 3; r++)
			assert_true(synthetic_model_token(planted, f, r) != synthetic_model_token(planted, f, 0));
	synthetic_model_destroy(planted);
}

static void errors_are_clear(void **state)
{
	char path[256];
	struct ground_truth truth;
	weir_error err = {0};
	struct generate_options o = options_of(state, "none.tsv", path);
	o.rows = 0;
	assert_int_equal(generate_criteo(&o, &truth, &err), WEIR_E_LIMIT);
	o.rows = 10;
	o.ids = 5;
	assert_int_equal(generate_criteo(&o, &truth, &err), WEIR_E_LIMIT);
	o.ids = WEIR_GENERATE_IDS_MIN;
	o.path = "/nonexistent/folder/x.tsv";
	assert_int_equal(generate_criteo(&o, &truth, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, o.path);
	assert_int_equal(generate_read_ground_truth(path, &truth, &err), WEIR_E_NOT_FOUND);
	o.path = path;
	CHECK_OK(generate_criteo(&o, &truth, &err), err); /* the smallest possible data */
	assert_int_equal(truth.all.rows, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_depend_on_the_options_alone),
	    cmocka_unit_test(truth_agrees_with_the_file_and_the_model),
	    cmocka_unit_test(rows_parse_and_ids_follow_a_power_law),
	    cmocka_unit_test(leftovers_of_a_killed_program_are_overwritten_and_files_in_progress_are_not),
	    cmocka_unit_test(errors_are_clear),
	};
	return cmocka_run_group_tests_name("data_generate", tests, folder_setup, folder_teardown);
}
