/* What a client learns of the job: its tables, its state and audit, and its rows without a
 * callback. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"

#include "tests/unit/worker/client/integer_trainer.h"

static void tables_are_listed_with_ids_and_specs(void **state)
{
	(void)state;
	struct cluster cluster;
	weir_error err = {0};
	weir_table_spec specs[2] = {0};
	uint32_t ids[3] = {9, 9, 9};
	size_t count = 7;
	cluster_start(&cluster, &(struct cluster_options){0});
	weir_client *c = cluster_trainer(&cluster, "worker", UNITS);
	CHECK_OK(weir_tables(c, NULL, NULL, 0, &count, &err), err);
	assert_int_equal(count, 0);
	(void)cluster_table(c, "rows", WEIR_EMBEDDING, WIDTH, (weir_mode){WEIR_ASYNC});
	const uint32_t dense = cluster_table(c, "dense", WEIR_DENSE, DENSE, (weir_mode){WEIR_ASYNC});
	(void)cluster_table(c, "more", WEIR_EMBEDDING, 1, (weir_mode){WEIR_ASYNC});
	CHECK_OK(weir_tables(c, specs, ids, 2, &count, &err), err);
	assert_int_equal(count, 3);
	assert_string_equal(specs[0].name, "rows");
	assert_int_equal(specs[0].width, WIDTH);
	assert_string_equal(specs[1].name, "dense");
	assert_int_equal(specs[1].elements, DENSE);
	assert_int_equal(ids[1], dense);
	assert_int_equal(ids[2], 9);
	weir_abandon(c);
	cluster_stop(&cluster);
}

static void a_table_without_segments_begins_at_0(void **state)
{
	(void)state;
	struct cluster cluster;
	weir_error err = {0};
	weir_table_spec spec;
	uint32_t table;
	const uint64_t key = 5;
	float values[3] = {7, 7, 7};
	weir_ticket ticket;
	weir_table_spec_init(&spec, sizeof spec);
	strcpy(spec.name, "plain");
	spec.width = 3;
	cluster_start(&cluster, &(struct cluster_options){0});
	weir_client *c = cluster_trainer(&cluster, "worker", UNITS);
	CHECK_OK(weir_table_register(c, &spec, &table, &err), err);
	const weir_pull_item item = {.table = table, .keys = &key, .rows = 1, .values = values};
	CHECK_OK(weir_pull(c, NULL, &item, 1, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(c, ticket, PATIENCE_MS, &err), err);
	assert_true(values[0] == 0 && values[1] == 0 && values[2] == 0);
	weir_abandon(c);
	cluster_stop(&cluster);
}

static void the_state_of_a_job_comes_with_its_audit(void **state)
{
	(void)state;
	struct cluster cluster;
	struct trainer t;
	weir_error err = {0};
	weir_job job = {0};
	cluster_start(&cluster, &(struct cluster_options){.passes = 2});
	trainer_open(&t, &cluster, "worker", (weir_mode){WEIR_ASYNC});
	CHECK_OK(weir_job_read(t.client, &job, &err), err);
	assert_int_equal(job.state, WEIR_JOB_RUNNING);
	assert_int_equal(job.audit, WEIR_AUDIT_OPEN);
	assert_int_equal(job.passes, 2);
	assert_int_equal(job.units, UNITS);
	assert_int_equal(job.trainers, 1);
	assert_int_equal(job.servers, 2);
	assert_int_equal(job.servers_answered, 2);
	assert_int_equal(job.tables, 2);
	assert_int_equal(job.generation, 1);
	assert_true(isnan(job.loss));
	CHECK_OK(train(&t, UINT32_MAX, &err), err);
	CHECK_OK(weir_job_read(t.client, &job, &err), err);
	const struct audit audit = cluster_audit(&cluster);
	assert_int_equal(job.state, WEIR_JOB_FINISHED);
	assert_int_equal(job.audit, WEIR_AUDIT_EXACT);
	assert_int_equal(job.parts_expected, audit.expected);
	assert_int_equal(job.parts_applied, audit.applied);
	assert_true(job.parts_applied > 0);
	assert_int_equal(job.parts_missing, 0);
	assert_int_equal(job.parts_double, 0);
	assert_string_equal(job.failure, "");
	trainer_close(&t);
	cluster_stop(&cluster);
}

static int count_rows(void *arg, uint64_t key, const float *values, size_t elements)
{
	double *sum = arg;
	sum[0]++;
	sum[1] += (double)key;
	for (size_t i = 0; i < elements; i++)
		sum[2] += values[i];
	return 0;
}

static void scan_both_ways(weir_client *c, uint32_t table, size_t elements, size_t rows_max)
{
	weir_error err = {0};
	weir_scanner *s;
	weir_scan_rows rows;
	double expected[3] = {0}, sum[3] = {0};
	weir_scan_rows_init(&rows, sizeof rows);
	CHECK_OK(weir_scan(c, table, 0, count_rows, expected, &err), err);
	assert_true(expected[0] > 0);
	CHECK_OK(weir_scan_open(&s, c, table, 0, &err), err);
	for (;;) {
		CHECK_OK(weir_scan_next(s, &rows, &err), err);
		if (!rows.rows)
			break;
		assert_true(rows.rows <= rows_max && rows.elements <= elements);
		for (size_t i = 0; i < rows.rows; i++)
			count_rows(sum, rows.keys[i], rows.values + i * rows.elements, rows.elements);
	}
	CHECK_OK(weir_scan_next(s, &rows, &err), err); /* it stays complete */
	assert_int_equal(rows.rows, 0);
	weir_scan_close(s);
	assert_memory_equal(sum, expected, sizeof sum);
}

static void rows_come_in_batches_without_a_callback(void **state)
{
	(void)state;
	struct cluster cluster;
	struct trainer t;
	weir_error err = {0};
	weir_scanner *s;
	cluster_start(&cluster, &(struct cluster_options){0});
	trainer_open(&t, &cluster, "worker", (weir_mode){WEIR_ASYNC});
	CHECK_OK(train(&t, UINT32_MAX, &err), err);
	scan_both_ways(t.client, t.embedding, WIDTH, KEY_SPACE);
	scan_both_ways(t.client, t.dense, WEIR_CHUNK, 1);
	assert_int_equal(weir_scan_open(&s, t.client, 99, 0, &err), WEIR_E_NOT_FOUND);
	trainer_close(&t);
	cluster_stop(&cluster);
}

static void a_failed_scan_stays_failed(void **state)
{
	(void)state;
	struct cluster cluster;
	struct trainer t;
	weir_error err = {0}, again = {0};
	weir_scanner *s;
	weir_scan_rows rows = {0};
	cluster_start(&cluster, &(struct cluster_options){0});
	trainer_open(&t, &cluster, "worker", (weir_mode){WEIR_ASYNC});
	CHECK_OK(train(&t, UINT32_MAX, &err), err);
	CHECK_OK(weir_scan_open(&s, t.client, t.embedding, 0, &err), err);
	cluster_kill_server(&cluster, 0);
	t.client->patience_ms = 100;
	const weir_status status = weir_scan_next(s, &rows, &err);
	assert_int_not_equal(status, WEIR_OK);
	assert_int_equal(weir_scan_next(s, &rows, &again), status);
	assert_string_equal(again.text, err.text);
	weir_scan_close(s);
	trainer_abandon(&t);
	cluster_stop(&cluster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tables_are_listed_with_ids_and_specs),
	    cmocka_unit_test(a_table_without_segments_begins_at_0),
	    cmocka_unit_test(the_state_of_a_job_comes_with_its_audit),
	    cmocka_unit_test(rows_come_in_batches_without_a_callback),
	    cmocka_unit_test(a_failed_scan_stays_failed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
