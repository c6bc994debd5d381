/* Registration, histogram buckets and quantiles, the text exposition. */
#include "common/metrics/metrics.h"
#include "tests/written.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

static char *text_of(struct metrics *m)
{
	struct written w;
	metrics_series(written_begin(&w), m);
	return written_end(&w);
}

static void the_same_name_and_labels_give_the_same_metric(void **state)
{
	(void)state;
	struct metrics *m = metrics_create();
	struct counter *a = metrics_counter(m, "weir_pushes_total", "table=\"dense\"", "Pushes.");
	struct counter *b = metrics_counter(m, "weir_pushes_total", "table=\"embedding\"", "Pushes.");
	assert_ptr_equal(metrics_counter(m, "weir_pushes_total", "table=\"dense\"", "Pushes."), a);
	assert_ptr_not_equal(a, b);
	counter_add(a, 3);
	assert_int_equal(counter_get(a), 3);
	assert_int_equal(counter_get(b), 0);
	metrics_destroy(m);
}

static void buckets_hold_what_their_bounds_say(void **state)
{
	(void)state;
	for (uint64_t v = 0; v < 16; v++)
		assert_int_equal(histogram_bucket_bound(histogram_bucket_of(v)), v);
	uint64_t v = 1;
	for (int i = 0; i < 2000; i++) {
		unsigned b = histogram_bucket_of(v);
		assert_true(b < HISTOGRAM_BUCKETS);
		assert_true(histogram_bucket_bound(b) >= v);
		assert_true(b == 0 || histogram_bucket_bound(b - 1) < v);
		assert_true((double)(histogram_bucket_bound(b) - v) <= 0.125 * (double)v);
		v = v * 21 / 20 + 1;
	}
	assert_true(histogram_bucket_bound(histogram_bucket_of(UINT64_MAX)) == UINT64_MAX);
}

static void quantiles_come_from_the_buckets(void **state)
{
	(void)state;
	struct metrics *m = metrics_create();
	struct histogram *h = metrics_histogram(m, "weir_staleness", "", "Pushes between a pull and its push.");
	assert_int_equal(histogram_quantile(h, 0.5), 0);
	for (uint64_t v = 1; v <= 1000; v++)
		histogram_record(h, v);
	assert_int_equal(histogram_quantile(h, 0), 1);
	uint64_t half = histogram_quantile(h, 0.5);
	assert_true(half >= 500 && half <= 563);
	uint64_t all = histogram_quantile(h, 1);
	assert_true(all >= 1000 && all <= 1125);
	assert_int_equal(h->max, 1000);
	metrics_destroy(m);
}

static void the_exposition_groups_and_escapes(void **state)
{
	(void)state;
	struct metrics *m = metrics_create();
	counter_add(metrics_counter(m, "weir_pushes_total", "table=\"a\"", "Back\\slash and\nline."), 2);
	gauge_set(metrics_gauge(m, "weir_workers", "", "Live workers."), -4);
	counter_add(metrics_counter(m, "weir_pushes_total", "table=\"b\"", ""), 5);
	char *text = text_of(m);
	assert_string_equal(text, "# HELP weir_pushes_total Back\\\\slash and\\nline.\n"
	                          "# TYPE weir_pushes_total counter\n"
	                          "weir_pushes_total{table=\"a\"} 2\n"
	                          "weir_pushes_total{table=\"b\"} 5\n"
	                          "# HELP weir_workers Live workers.\n"
	                          "# TYPE weir_workers gauge\n"
	                          "weir_workers -4\n");
	free(text);
	metrics_destroy(m);
}

static void the_exposition_of_a_histogram_is_cumulative(void **state)
{
	(void)state;
	struct metrics *m = metrics_create();
	struct histogram *h = metrics_histogram(m, "weir_push_seconds", "server=\"0\"", "Time of a push.");
	histogram_record(h, 1000);
	histogram_record(h, 2000000000);
	histogram_record(h, UINT64_C(1) << 50);
	char *text = text_of(m);
	CHECK_CONTAINS(text, "# TYPE weir_push_seconds histogram\n");
	CHECK_CONTAINS(text, "weir_push_seconds_bucket{server=\"0\",le=\"5.11e-07\"} 0\n");
	CHECK_CONTAINS(text, "weir_push_seconds_bucket{server=\"0\",le=\"1.023e-06\"} 1\n");
	CHECK_CONTAINS(text, "weir_push_seconds_bucket{server=\"0\",le=\"2.147483647\"} 2\n");
	CHECK_CONTAINS(text, "weir_push_seconds_bucket{server=\"0\",le=\"+Inf\"} 3\n");
	CHECK_CONTAINS(text, "weir_push_seconds_count{server=\"0\"} 3\n");
	CHECK_CONTAINS(text, "weir_push_seconds_sum{server=\"0\"} 1125901.9068");
	/* Cumulative counts never fall from one bucket to the next. */
	unsigned long long before = 0;
	int buckets = 0;
	for (char *at = text; (at = strstr(at, "_bucket{")); buckets++) {
		at = strstr(at, "} ") + 2;
		unsigned long long count = strtoull(at, NULL, 10);
		assert_true(count >= before);
		before = count;
	}
	assert_int_equal(buckets, 42);
	free(text);
	metrics_destroy(m);
}

struct load {
	struct metrics *m;
	struct histogram *h;
};

static void *record(void *arg)
{
	struct load *load = arg;
	for (uint64_t i = 0; i < 10000; i++) {
		histogram_record(load->h, i);
		counter_add(metrics_counter(load->m, "weir_shared_total", "", "Shared."), 1);
	}
	return NULL;
}

static void updates_from_many_threads_all_count(void **state)
{
	(void)state;
	struct load load = {.m = metrics_create()};
	load.h = metrics_histogram(load.m, "weir_values", "", "Values.");
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, record, &load), 0);
	char *text = text_of(load.m); /* while the threads record */
	assert_non_null(text);
	free(text);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(load.h->count, 40000);
	assert_int_equal(load.h->max, 9999);
	assert_int_equal(counter_get(metrics_counter(load.m, "weir_shared_total", "", "Shared.")), 40000);
	metrics_destroy(load.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_same_name_and_labels_give_the_same_metric),
	    cmocka_unit_test(buckets_hold_what_their_bounds_say),
	    cmocka_unit_test(quantiles_come_from_the_buckets),
	    cmocka_unit_test(the_exposition_groups_and_escapes),
	    cmocka_unit_test(the_exposition_of_a_histogram_is_cumulative),
	    cmocka_unit_test(updates_from_many_threads_all_count),
	};
	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
