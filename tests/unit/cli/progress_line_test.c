/* The progress line: its contents, its width, and its plain form when the output is no terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include "cli/core/progress_line.h"

static struct overview half_way(void)
{
	struct overview s = {.state = JOB_RUNNING,
	                     .pass = 1,
	                     .passes = 3,
	                     .units = 80,
	                     .committed = 40,
	                     .rows = 100000,
	                     .loss_rows = 100000,
	                     .loss_sum = 45000};
	s.evaluated_batches = 1000;
	s.auc = 0.9512;
	s.bytes_pushed = 1500000;
	s.bytes_pulled = 2000000000;
	s.workers_live = 2;
	s.staleness[histogram_bucket_of(1)] = 60;
	s.staleness[histogram_bucket_of(7)] = 40;
	return s;
}

static void the_line_says_everything(void **state)
{
	(void)state;
	char line[512];
	struct overview s = half_way();
	struct progress_line l = {.samples_per_s = 12345, .loss = 0.45};
	progress_line_format(line, sizeof line, &l, &s, 300);
	assert_string_equal(line, "[############............] pass 2/3, 40/80 units, loss 0.4500, auc 0.9512, 12.3 k samples/s, "
	                          "pushed 1.5 MB, pulled 2.0 GB, staleness p50 1 p99 7, 2 workers");
	s.evaluated_batches = 0; /* nothing is evaluated yet */
	progress_line_format(line, sizeof line, &l, &s, 300);
	assert_null(strstr(line, "auc"));
	s.evaluated_batches = 1000;
	s.auc = 0; /* the worst possible AUC is still one */
	progress_line_format(line, sizeof line, &l, &s, 300);
	assert_non_null(strstr(line, "auc 0.0000"));
	s.auc = NAN; /* undefined: all rows have one label */
	s.logloss = 1.875;
	progress_line_format(line, sizeof line, &l, &s, 0);
	assert_non_null(strstr(line, "loss 0.4500, valid 1.8750, "));
	s.language = true;
	progress_line_format(line, sizeof line, &l, &s, 0);
	assert_non_null(strstr(line, "loss 0.4500, valid 1.8750, "));
	s.row_tokens = 100; /* a language model */
	s.row_least_s = 1e-5;
	s.gradient_norm = 0.75;
	s.tables = (struct overview_table[]){{.name = "dense", .learning_rate = 3e-4}};
	s.tables_count = 1;
	progress_line_format(line, sizeof line, &l, &s, 0);
	assert_non_null(
	    strstr(line, "valid 1.8750, perplexity 6.521, 1.2 M tokens/s, MFU 6.17 %, gradient norm 0.75, lr 0.0003, pushed"));
	s.inner_rate = 1e-3; /* local SGD */
	progress_line_format(line, sizeof line, &l, &s, 0);
	assert_non_null(strstr(line, "gradient norm 0.75, lr 0.001, pushed"));
	s.gradient_norm = 0;
	s.evaluated_batches = 0;
	s.row_tokens = 0;
	s.state = JOB_FINISHED;
	s.workers_live = 0;
	progress_line_format(line, sizeof line, &l, &s, 300);
	assert_string_equal(line, "[########################] pass 2/3, 40/80 units, loss 0.4500, finished, "
	                          "pushed 1.5 MB, pulled 2.0 GB, staleness p50 1 p99 7");
	progress_line_format(line, sizeof line, &l, &(struct overview){0}, 300);
	assert_string_equal(line, "waiting for workers");
}

static void the_bar_and_the_rest_are_of_the_whole_run(void **state)
{
	(void)state;
	const struct {
		uint32_t pass, committed;
		double left_s;
		const char *line;
	} cases[] = {{0, 0, 0, "[........................] pass 1/3, 0/80 units, 0"},
	             {0, 40, 41.6, "[####....................] pass 1/3, 40/80 units, 42 s left, 0"},
	             {2, 40, 60, "[####################....] pass 3/3, 40/80 units, 1 min left, 0"},
	             {2, 80, 0.2, "[########################] pass 3/3, 80/80 units, 1 s left, 0"},
	             {3, 0, 12000, "[########################] pass 3/3, 0/80 units, 3 h 20 min left, 0"}};
	char line[512];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct overview s = {
		    .state = JOB_RUNNING, .pass = cases[i].pass, .passes = 3, .units = 80, .committed = cases[i].committed};
		struct progress_line l = {.left_s = cases[i].left_s};
		progress_line_format(line, sizeof line, &l, &s, 300);
		line[strlen(cases[i].line)] = '\0';
		assert_string_equal(line, cases[i].line);
		progress_line_format(line, sizeof line, &l, &s, 0); /* a plain line omits it too */
		assert_null(strstr(line, " left"));
	}
}

static void the_remaining_time_follows_from_this_run(void **state)
{
	(void)state;
	FILE *out = tmpfile();
	struct progress_line l;
	struct overview s = half_way(); /* the first poll of a resumed run */
	progress_line_init(&l, out, "xterm");
	progress_line_show(&l, &s, 1000, true);
	assert_true(l.left_s == 0);
	s.committed = 70; /* an eighth of the job in 10 s; three eighths are left */
	progress_line_show(&l, &s, 11000, true);
	assert_float_equal(l.left_s, 30, 1e-9);
	s.pass = 0; /* a rewind */
	s.committed = 0;
	progress_line_show(&l, &s, 12000, true);
	assert_true(l.left_s == 0);
	s.committed = 24; /* a tenth of the job in 2 s */
	progress_line_show(&l, &s, 14000, true);
	assert_float_equal(l.left_s, 18, 1e-9);
	fclose(out);
}

static void parts_that_do_not_fit_are_left_out_whole(void **state)
{
	(void)state;
	static const struct {
		unsigned columns;
		const char *line;
	} cases[] = {
	    {80, "[######......] pass 2/3, 40/80 units, loss 0.4500, auc 0.9512, 12.3 k samples/s"},
	    {40, "[########.......] pass 2/3, 40/80 units"},
	    {39, "pass 2/3, 40/80 units, loss 0.4500"},
	    {12, "pass 2/3"},
	    {8, ""},
	    {0, "pass 2/3, 40/80 units, loss 0.4500, auc 0.9512, 12.3 k samples/s, pushed 1.5 MB, pulled 2.0 GB, "
	        "staleness p50 1 p99 7, 2 workers"},
	};
	char line[512];
	struct overview s = half_way();
	struct progress_line l = {.samples_per_s = 12345, .loss = 0.45};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		progress_line_format(line, sizeof line, &l, &s, cases[i].columns);
		assert_string_equal(line, cases[i].line);
	}
	for (unsigned columns = 1; columns < 200; columns++) {
		progress_line_format(line, sizeof line, &l, &s, columns);
		assert_in_range(strlen(line), 0, columns - 1);
	}
}

static void off_a_terminal_lines_are_plain_and_rare(void **state)
{
	(void)state;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = tmpfile();
	struct progress_line l;
	struct overview s = half_way();
	progress_line_init(&l, out, "xterm");
	assert_false(l.terminal);
	progress_line_show(&l, &s, 1000, false);
	s.rows += 5000;
	s.loss_rows += 5000;
	s.loss_sum += 1000;
	/* before the plain line's interval has passed */
	progress_line_show(&l, &s, 1000 + LIVE_PLAIN_MS - 1, false);
	progress_line_show(&l, &s, 1000 + LIVE_PLAIN_MS, false);
	progress_line_note(&l, "worker-%d is gone", 1);
	progress_line_end(&l);
	assert_true(l.samples_per_s == 1000);
	assert_true(l.loss == 0.2);
	rewind(out);
	assert_true(getdelim(&text, &bytes, '\0', out) > 0);
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\r'));
	unsigned lines = 0;
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	assert_int_equal(lines, 3);
	assert_non_null(strstr(text, "\nworker-1 is gone\n"));
	free(text);
	fclose(out);
}

static void numbers_are_short(void **state)
{
	(void)state;
	static const struct {
		double value;
		const char *bytes, *count;
	} cases[] = {{0, "0 B", "0"},
	             {999, "999 B", "999"},
	             {1000, "1.0 kB", "1.0 k"},
	             {99940, "99.9 kB", "99.9 k"},
	             {999600, "1.0 MB", "1.0 M"},
	             {5.04e9, "5.0 GB", "5.0 G"}};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		char out[16];
		format_bytes(out, sizeof out, cases[i].value);
		assert_string_equal(out, cases[i].bytes);
		format_count(out, sizeof out, cases[i].value);
		assert_string_equal(out, cases[i].count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_line_says_everything),
	    cmocka_unit_test(the_bar_and_the_rest_are_of_the_whole_run),
	    cmocka_unit_test(the_remaining_time_follows_from_this_run),
	    cmocka_unit_test(parts_that_do_not_fit_are_left_out_whole),
	    cmocka_unit_test(off_a_terminal_lines_are_plain_and_rare),
	    cmocka_unit_test(numbers_are_short),
	};
	return cmocka_run_group_tests_name("cli_progress_line", tests, NULL, NULL);
}
