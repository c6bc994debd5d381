/* Scans while servers die and return. Not run under ThreadSanitizer, which does not see RocksDB's
 * locks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/client/integer_trainer.h"

/* Few rows per page and several pages per partition. Partition 0 is server 0's, 1 is server 1's. */
enum { ROWS = 24, ELEMENTS = WEIR_ROW_WIDTH_MAX, PARTITIONS = 2 };

struct fixture {
	char folder[64];
	struct cluster cluster;
	weir_client *client;
	uint32_t table;
	uint32_t server;     /* the server to kill, or to start again */
	uint32_t seen[ROWS]; /* times seen */
	uint32_t rows;
	bool waits;
};

static void setup(struct fixture *f)
{
	weir_error err = {0};
	*f = (struct fixture){.folder = "/tmp/weir-scan-XXXXXX"};
	assert_non_null(mkdtemp(f->folder));
	cluster_start(&f->cluster, &(struct cluster_options){.partitions = PARTITIONS, .folder = f->folder});
	f->client = cluster_trainer(&f->cluster, "worker", UNITS);
	f->table = cluster_table(f->client, "wide", WEIR_EMBEDDING, ELEMENTS, (weir_mode){WEIR_ASYNC});
	float *values = malloc(ELEMENTS * sizeof *values);
	assert_non_null(values);
	for (uint64_t key = 0; key < ROWS; key++) {
		for (size_t i = 0; i < ELEMENTS; i++)
			values[i] = (float)key;
		assert_ok(weir_assign(f->client, f->table, &key, 1, values, &err), &err);
	}
	free(values);
}

static void teardown(struct fixture *f)
{
	char command[96];
	weir_abandon(f->client);
	cluster_stop(&f->cluster);
	snprintf(command, sizeof command, "rm -r %s", f->folder);
	assert_int_equal(system(command), 0);
}

static void take_row(struct fixture *f, uint64_t key, const float *values, size_t elements)
{
	assert_int_equal(elements, ELEMENTS);
	assert_in_range(key, 0, ROWS - 1);
	assert_true(values[0] == (float)key && values[ELEMENTS - 1] == (float)key);
	f->seen[key]++;
	f->rows++;
}

static int count_row(void *arg, uint64_t key, const float *values, size_t elements)
{
	take_row(arg, key, values, elements);
	return 0;
}

static void assert_scanned(struct fixture *f)
{
	assert_int_equal(f->rows, ROWS);
	for (uint32_t key = 0; key < ROWS; key++)
		assert_int_equal(f->seen[key], 1);
}

static void expect_scan(struct fixture *f)
{
	weir_error err = {0};
	memset(f->seen, 0, sizeof f->seen);
	f->rows = 0;
	assert_ok(weir_scan(f->client, f->table, 0, count_row, f, &err), &err);
	assert_scanned(f);
}

/* --- A server restarts between two pages */

static int restart_at_first_row(void *arg, uint64_t key, const float *values, size_t elements)
{
	struct fixture *f = arg;
	if (f->rows == 0)
		cluster_restart(&f->cluster, f->server);
	take_row(f, key, values, elements);
	return 0;
}

static void a_place_in_the_rows_of_a_former_start_means_nothing(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	setup(&f);
	f.server = 0; /* it has the first scanned partition */
	assert_int_equal(weir_scan(f.client, f.table, 0, restart_at_first_row, &f, &err), WEIR_E_MOVED);
	assert_non_null(strstr(err.text, "table wide"));
	assert_non_null(strstr(err.text, "scan it again"));
	assert_in_range(f.rows, 1, ROWS / 2);
	expect_scan(&f);
	teardown(&f);
}

/* --- A server is down for a while */

/* Starts the server again when the client logs that it waits. */
static void on_log(void *arg, weir_log_level level, const char *line)
{
	struct fixture *f = arg;
	if (level != WEIR_LOG_WARN || f->waits || !strstr(line, "waiting"))
		return;
	f->waits = true;
	cluster_start_server(&f->cluster, f->server);
}

static void go_away(struct fixture *f, uint32_t server)
{
	f->server = server;
	f->client->options.log = on_log;
	f->client->options.log_arg = f;
	server_destroy(f->cluster.servers[server]);
}

static void a_server_that_is_away_is_waited_for(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	setup(&f);
	go_away(&f, 1);
	assert_ok(weir_scan(f.client, f.table, 0, count_row, &f, &err), &err);
	assert_true(f.waits);
	assert_scanned(&f);
	teardown(&f);
}

static void tables_are_found_once_the_ledger_is_back(void **state)
{
	(void)state;
	struct fixture f;
	weir_table_spec spec = {0};
	weir_error err = {0};
	uint32_t id = 99;
	setup(&f);
	go_away(&f, 0);
	assert_ok(weir_table_find(f.client, "wide", &spec, &id, &err), &err);
	assert_true(f.waits);
	assert_int_equal(id, f.table);
	assert_int_equal(spec.width, ELEMENTS);
	expect_scan(&f);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_place_in_the_rows_of_a_former_start_means_nothing),
	    cmocka_unit_test(a_server_that_is_away_is_waited_for),
	    cmocka_unit_test(tables_are_found_once_the_ledger_is_back),
	};
	return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
