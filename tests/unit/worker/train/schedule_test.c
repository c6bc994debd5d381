/* A schedule without a total lasts for the whole training, in steps of its table. */
#include <stdio.h>
#include <string.h>

#include "tests/cmocka_check.h"
#include "tests/unit/worker/train/cluster.h"
#include "weir/weir.h"
#include "worker/train/loop/trainer.h"

enum { ROWS = 2000, BATCHES = 2 * 32 }; /* two passes of 31 full batches and one of 16 rows */

static const char settings[] = "  batch: 64\n"
                               "model: {kind: deepfm, dim: 4, hidden: [8]}\n"
                               "tables:\n"
                               "  embedding: {optimizer: {kind: adam, schedule: {kind: cosine}}}\n"
                               "  dense: {optimizer: {kind: adam, schedule: {kind: %s}}, mode: {kind: %s}}\n"
                               "train: {passes: 2, threads: 1}\n";

static weir_schedule schedule_of(weir_client *client, const char *table)
{
	weir_error err = {0};
	weir_table_spec spec = {0};
	uint32_t id;
	CHECK_OK(weir_table_find(client, table, &spec, &id, &err), err);
	return spec.optimizer.schedule;
}

static void start(struct cluster *c, const char *kind, const char *mode, const char *cache, uint32_t workers)
{
	char text[512];
	snprintf(text, sizeof text, settings, kind, mode);
	cluster_start(c, ROWS, text);
	snprintf(c->job->data.cache, sizeof c->job->data.cache, "%s", cache);
	c->job->cluster.workers = workers;
}

static weir_status train(struct cluster *c, weir_error *err)
{
	atomic_bool stop = false;
	return trainer_run(&(struct trainer_options){.job = c->job, .ledger = c->ledger, .name = "worker-0", .stop = &stop}, err);
}

/* Trains; returns the schedules that the servers got. */
static void run(const char *kind, const char *mode, uint32_t workers, weir_schedule *embedding, weir_schedule *dense)
{
	struct cluster c;
	weir_error err = {0};
	weir_client *client;
	start(&c, kind, mode, "auto", workers);
	CHECK_OK(train(&c, &err), err);
	const weir_options options = {.ledger = c.ledger, .name = "check", .role = WEIR_OBSERVER};
	CHECK_OK(weir_open(&client, &options, &err), err);
	*embedding = schedule_of(client, "embedding");
	*dense = schedule_of(client, "dense");
	CHECK_OK(weir_close(client, &err), err);
	cluster_stop(&c);
}

static void an_asynchronous_table_steps_with_every_batch(void **state)
{
	(void)state;
	weir_schedule embedding, dense;
	run("linear", "async", 2, &embedding, &dense);
	assert_int_equal(embedding.kind, WEIR_SCHEDULE_COSINE);
	assert_int_equal(embedding.total, BATCHES);
	assert_int_equal(dense.kind, WEIR_SCHEDULE_LINEAR);
	assert_int_equal(dense.total, BATCHES);
}

static void a_synchronous_table_steps_with_a_batch_of_every_worker(void **state)
{
	(void)state;
	weir_schedule embedding, dense;
	run("linear", "sync", 2, &embedding, &dense);
	assert_int_equal(embedding.total, BATCHES);
	assert_int_equal(dense.total, BATCHES / 2);
}

static void a_total_of_its_own_stays(void **state)
{
	(void)state;
	weir_schedule embedding, dense;
	run("linear, total: 7", "async", 1, &embedding, &dense);
	assert_int_equal(dense.total, 7);
	run("constant", "async", 1, &embedding, &dense);
	assert_int_equal(dense.total, 0);
}

static void text_that_is_read_as_it_comes_has_no_known_end(void **state)
{
	(void)state;
	struct cluster c;
	weir_error err = {0};
	start(&c, "constant", "async", "off", 1);
	assert_int_equal(train(&c, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "data.cache"));
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_asynchronous_table_steps_with_every_batch),
	    cmocka_unit_test(a_synchronous_table_steps_with_a_batch_of_every_worker),
	    cmocka_unit_test(a_total_of_its_own_stays),
	    cmocka_unit_test(text_that_is_read_as_it_comes_has_no_known_end),
	};
	return cmocka_run_group_tests_name("train_schedule", tests, NULL, NULL);
}
