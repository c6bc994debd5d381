#include "overview/overview_metrics.h"
#include "overview/overview_read.h"
#include "tests/cmocka_check.h"
#include "tests/written.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct overview_worker workers[] = {{.name = "a\"b\\", .live = true, .rows = 7}, {.name = "evaluator", .evaluator = true}};
static struct overview_server servers[] = {{.answered = true, .uptime_ms = 1500}, {.answered = false}};
static struct overview_table tables[] = {
    {.name = "dense", .push_codec = "topk", .pull_codec = "fp32", .push_bytes = 10, .steps = 9, .learning_rate = 0.75}};
static struct overview_partition partitions[] = {{.reported = true, .epoch = 3, .in_sync_count = 2},
                                                 {.reported = true, .in_sync_count = 1}};

static struct overview make(void)
{
	memset(tables[0].staleness, 0, sizeof tables[0].staleness);
	tables[0].staleness[0] = 2;
	tables[0].staleness[3] = 1;
	return (struct overview){.has_ledger = true,
	                         .pass = 1,
	                         .passes = 3,
	                         .units = 10,
	                         .committed = 4,
	                         .replicas = 2,
	                         .loss_sum = 0.5,
	                         .workers = workers,
	                         .workers_count = 2,
	                         .servers = servers,
	                         .servers_count = 2,
	                         .tables = tables,
	                         .tables_count = 1,
	                         .partitions = partitions,
	                         .partitions_count = 2};
}

static char *text_of(const struct overview *s)
{
	struct written w;
	overview_series(written_begin(&w), s);
	return written_end(&w);
}

static void has(const char *text, const char *line)
{
	char whole[256];
	snprintf(whole, sizeof whole, "\n%s\n", line);
	if (!strstr(text, whole))
		fail_msg("'%s' is not a line of:\n%s", line, text);
}

static void numbers(void **state)
{
	(void)state;
	struct overview s = make();
	char *text = text_of(&s);
	has(text, "weir_units_remaining 16");
	has(text, "weir_units_committed_total 14");
	has(text, "weir_loss_total 0.5");
	has(text, "weir_partitions_whole 1");
	has(text, "weir_server_up{server=\"1\"} 0");
	has(text, "weir_server_uptime_seconds{server=\"0\"} 1.5");
	has(text, "weir_worker_rows_total{worker=\"a\\\"b\\\\\"} 7");
	has(text, "weir_table_push_bytes_total{table=\"dense\",push_codec=\"topk\",pull_codec=\"fp32\"} 10");
	has(text, "weir_partition_epoch{partition=\"0\"} 3");
	has(text, "weir_staleness_pushes_bucket{table=\"dense\",le=\"1\"} 2");
	has(text, "weir_staleness_pushes_bucket{table=\"dense\",le=\"3\"} 3");
	has(text, "weir_staleness_pushes_count{table=\"dense\"} 3");
	assert_null(strstr(text, "weir_worker_rows_total{worker=\"evaluator\""));
	free(text);
	s.state = JOB_FINISHED;
	text = text_of(&s);
	has(text, "weir_units_remaining 0");
	free(text);
}

/* The evaluator is among the stuck workers. */
static void a_worker_that_stands_still_is_named(void **state)
{
	struct overview_worker some[] = {
	    {.name = "w0", .host = "node\"1", .pid = 12, .live = true, .idle_ms = 2500, .idle_limit_ms = 60000},
	    {.name = "w1",
	     .host = "n2",
	     .pid = 34,
	     .stall = {.count = 2, .now = true, .since_unix_ms = 1500, .pass = 3, .unit = 7, .units = 1}},
	    {.name = "evaluator", .host = "n3", .pid = 56, .evaluator = true, .stall = {.count = 1, .since_unix_ms = 9, .pass = 1}}};
	struct overview s = make();
	(void)state;
	s.workers = some;
	s.workers_count = 3;
	s.workers_stalled = 3;
	char *text = text_of(&s);
	has(text, "weir_workers_stalled_total 3");
	has(text, "weir_worker_idle_seconds{worker=\"w0\",host=\"node\\\"1\",pid=\"12\"} 2.5");
	has(text, "weir_worker_idle_limit_seconds{worker=\"w0\",host=\"node\\\"1\",pid=\"12\"} 60");
	has(text, "weir_worker_stalls_total{worker=\"w1\",host=\"n2\",pid=\"34\"} 2");
	has(text, "weir_worker_stalled_timestamp_seconds{worker=\"w1\",host=\"n2\",pid=\"34\",pass=\"4\",unit=\"7\"} 1.5");
	has(text, "weir_worker_stalled_timestamp_seconds{worker=\"evaluator\",host=\"n3\",pid=\"56\",pass=\"2\",unit=\"\"} 0");
	has(text, "weir_worker_stalled_timestamp_seconds{worker=\"w0\",host=\"node\\\"1\",pid=\"12\",pass=\"\",unit=\"\"} 0");
	free(text);
	char said[OVERVIEW_STALL_BYTES];
	overview_stall_text(
	    &(struct overview_stall){
	        .count = 1, .since_unix_ms = 86400000, .idle_ms = 61200, .unit = 23, .units = 2, .waits_for_data = true},
	    said);
	assert_string_equal(
	    said, "did not move for 61.2 s, since 1970-01-02 00:00:00 UTC, with unit 23 of pass 1 and 1 more; it waited for data");
	overview_stall_text(&(struct overview_stall){.count = 1, .idle_ms = 5000, .pass = 1}, said);
	assert_string_equal(said, "did not move for 5.0 s, since 1970-01-01 00:00:00 UTC, with the evaluation of pass 2");
}

static void numbers_of_a_language_model(void **state)
{
	(void)state;
	struct overview s = make();
	s.workers_live = 2;
	s.rows = 400;
	s.rows_per_s = 32;
	s.row_tokens = 16;
	s.row_least_s = 0.01;
	s.gradient_norm = 0.5;
	s.inner_rate = 0.125;
	s.evaluated_batches = 10;
	s.logloss = 2;
	s.figures = (struct figures){.count = 1, .items = {{"ndcg@10", 0.25}}};
	char *text = text_of(&s);
	has(text, "weir_validation_figure{figure=\"ndcg@10\"} 0.25");
	has(text, "weir_samples_per_second 32");
	has(text, "weir_tokens_per_second 512");
	has(text, "weir_tokens_total 6400");
	has(text, "weir_mfu_ratio 0.16");
	has(text, "weir_gradient_norm 0.5");
	has(text, "weir_learning_rate 0.125");
	has(text, "weir_validation_perplexity 7.3890560989306504");
	has(text, "weir_table_steps_total{table=\"dense\",push_codec=\"topk\",pull_codec=\"fp32\"} 9");
	has(text, "weir_table_learning_rate{table=\"dense\",push_codec=\"topk\",pull_codec=\"fp32\"} 0.75");
	free(text);
}

/* A worker may report NaN or infinity. Prometheus does not accept printf's "-nan". */
static void undefined_numbers(void **state)
{
	(void)state;
	struct overview s = make();
	s.loss_sum = -(double)NAN;
	workers[0].residual_norm = -(double)NAN;
	s.logloss = (double)INFINITY;
	char *text = text_of(&s);
	has(text, "weir_loss_total NaN");
	has(text, "weir_worker_residual_norm{worker=\"a\\\"b\\\\\"} NaN");
	has(text, "weir_validation_logloss inf");
	free(text);
	workers[0].residual_norm = 0;
}

/* Each name has one header, before its samples, and the ending of its type. */
static void headers(void **state)
{
	(void)state;
	struct overview s = make();
	char *text = text_of(&s), *rest = NULL, type[16] = "", name[128] = "";
	unsigned names = 0;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "# HELP ", 7) == 0) {
			char help[128], next[128];
			assert_int_equal(sscanf(line, "# HELP %127s %127[^\n]", next, help), 2);
			assert_string_not_equal(next, name);
			snprintf(name, sizeof name, "%s", next);
			names++;
		} else if (strncmp(line, "# TYPE ", 7) == 0) {
			char again[128];
			assert_int_equal(sscanf(line, "# TYPE %127s %15s", again, type), 2);
			assert_string_equal(again, name);
			const bool total = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
			assert_int_equal(total, strcmp(type, "counter") == 0);
		} else {
			assert_int_equal(strncmp(line, name, strlen(name)), 0);
		}
	}
	assert_true(names >= 40);
	free(text);
}

static void workers_are_bounded(void **state)
{
	(void)state;
	struct overview s = make();
	s.workers_count = WEIR_METRICS_WORKERS_MAX + 5;
	s.workers = calloc(s.workers_count, sizeof *s.workers);
	for (uint32_t i = 0; i < s.workers_count; i++)
		snprintf(s.workers[i].name, sizeof s.workers[i].name, "worker-%u", i);
	char *text = text_of(&s);
	unsigned count = 0;
	for (const char *at = text; (at = strstr(at, "weir_worker_live{")); at++)
		count++;
	assert_int_equal(count, WEIR_METRICS_WORKERS_MAX);
	free(text);
	free(s.workers);
}

static void alone(void **state)
{
	(void)state;
	struct overview s = {0};
	weir_error err = {0};
	Weir__V1__ServerStatus in = WEIR__V1__SERVER_STATUS__INIT;
	Weir__V1__PartitionStatus p = WEIR__V1__PARTITION_STATUS__INIT, *partition_list[] = {&p};
	Weir__V1__TableStatus t = WEIR__V1__TABLE_STATUS__INIT, *table_list[] = {&t};
	p.id = 3;
	p.applied = 10;
	p.log_last = 14;
	t.name = "dense";
	t.push_codec = WEIR_CODEC_TOPK;
	t.push_bytes = 77;
	in.requests = 5;
	in.duplicates_refused = 6;
	in.n_partitions = in.n_tables = 1;
	in.partitions = partition_list;
	in.tables = table_list;
	assert_int_equal(overview_read_alone(&s, 2, &in, &err), WEIR_OK);
	char *text = text_of(&s);
	has(text, "weir_server_requests{server=\"2\"} 5");
	has(text, "weir_partition_replication_lag_entries{partition=\"3\"} 4");
	has(text, "weir_table_push_bytes_total{table=\"dense\",push_codec=\"topk\",pull_codec=\"fp32\"} 77");
	has(text, "weir_duplicates_refused_total 6");
	has(text, "weir_servers_answering 1");
	assert_null(strstr(text, "server=\"0\""));
	assert_null(strstr(text, "partition=\"0\""));
	assert_null(strstr(text, "weir_rows_total"));
	free(text);
	overview_destroy(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(numbers),
	                                   cmocka_unit_test(a_worker_that_stands_still_is_named),
	                                   cmocka_unit_test(numbers_of_a_language_model),
	                                   cmocka_unit_test(undefined_numbers),
	                                   cmocka_unit_test(headers),
	                                   cmocka_unit_test(workers_are_bounded),
	                                   cmocka_unit_test(alone)};
	return cmocka_run_group_tests_name("overview_metrics", tests, NULL, NULL);
}
