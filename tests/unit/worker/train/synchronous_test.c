/* Claim 3: a synchronous worker with real servers equals a plain loop in one process, bit for
 * bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"
#include "tests/unit/worker/train/cluster.h"
#include "tests/unit/worker/train/local_loop.h"
#include "weir/weir.h"
#include "worker/data/dataset.h"
#include "worker/train/loop/trainer.h"

static const char settings[] =
    "  batch: 64\n"
    "  unit_batches: 4\n"
    "  shuffle: true\n"
    "  seed: 3\n"
    "model: {kind: %s, dim: 8, hidden: [16, 8], cross_layers: 2, batch_norm: true, dropout: 0.25, init_std: 0.1,"
    " l2: {embedding: 1.0e-3}}\n"
    "tables:\n"
    "  embedding: {optimizer: {kind: adam, lr: 1.0e-2}, mode: {kind: sync}}\n"
    "  dense: {optimizer: {kind: %s, lr: 1.0e-2}, mode: {kind: sync}}\n"
    "train: {passes: 2, seed: 9, clip_norm: 0.5, threads: 1}\n";

/* Layers enough to travel apart, while the others compute. */
static const char deep_settings[] = "  batch: 64\n"
                                    "  unit_batches: 4\n"
                                    "model: {kind: deepfm, dim: 8, hidden: [512, 512, 128], dropout: 0.25, init_std: 0.1}\n"
                                    "tables:\n"
                                    "  embedding: {optimizer: {kind: adam, lr: 1.0e-2}, mode: {kind: sync}}\n"
                                    "  dense: {optimizer: {kind: adam, lr: 1.0e-3}, push: {codec: %s}, mode: {kind: sync}}\n"
                                    "train: {passes: 1, seed: 9, threads: 1, overlap: layers%s}\n";

static const char text_settings[] =
    "  context: 8\n"
    "  split: {by: crc32}\n"
    "  batch: 64\n"
    "  unit_batches: 4\n"
    "  shuffle: true\n"
    "model: {kind: ngram, dim: 8, hidden: [16, 8], batch_norm: true, dropout: 0.25, init_std: 0.1}\n"
    "tables: {dense: {optimizer: {kind: adam, lr: 1.0e-2}, mode: {kind: sync}}}\n"
    "train: {passes: 2, seed: 9, clip_norm: 0.5, threads: 1, keep_best: false}\n";

struct compare {
	const struct local_loop *local;
	enum model_table table;
	size_t rows, different;
};

static int compare_row(void *arg, uint64_t key, const float *values, size_t elements)
{
	struct compare *c = arg;
	const float *expected = local_loop_row(c->local, c->table, key);
	c->rows++;
	c->different += expected == NULL || memcmp(expected, values, elements * sizeof *values) != 0;
	return 0;
}

static void expect_keyed(weir_client *client, const struct local_loop *local, enum model_table t, uint32_t id)
{
	weir_error err = {0};
	struct compare c = {.local = local, .table = t};
	CHECK_OK(weir_scan(client, id, 0, compare_row, &c, &err), err);
	assert_int_equal(c.rows, local_loop_rows(local, t));
	assert_true(c.rows > 200);
	assert_int_equal(c.different, 0);
}

static void expect_flat(weir_client *client, const struct local_loop *local, enum model_table t, uint32_t id)
{
	weir_error err = {0};
	uint64_t n = model_table_elements(local_loop_model(local), t);
	float *values = malloc(n * sizeof *values);
	weir_ticket ticket;
	const weir_pull_item item = {.table = id, .values = values};
	CHECK_OK(weir_pull(client, NULL, &item, 1, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(client, ticket, 10000, &err), err);
	assert_memory_equal(values, local_loop_flat(local, t), n * sizeof *values);
	free(values);
}

static void expect_equal(struct cluster *c)
{
	weir_error err = {0};
	struct dataset *data;
	struct local_loop *local;
	weir_client *client;
	uint32_t ids[MODEL_TABLES];
	const weir_options options = {.ledger = c->ledger, .name = "check", .role = WEIR_OBSERVER};
	CHECK_OK(dataset_open(&data, c->job, SPLIT_TRAIN, NULL, &err), err);
	CHECK_OK(local_loop_open(&local, c->job, data, &err), err);
	CHECK_OK(weir_open(&client, &options, &err), err);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		weir_table_spec found = {0};
		if (!model_has(local_loop_model(local), t))
			continue;
		CHECK_OK(weir_table_find(client, model_table_spec(local_loop_model(local), t).name, &found, &ids[t], &err), err);
		local_loop_set_table_id(local, t, ids[t]);
	}
	for (uint32_t pass = 0; pass < c->job->train.passes; pass++)
		CHECK_OK(local_loop_pass(local, pass, &err), err);
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (model_has(local_loop_model(local), t))
			(model_table_is_keyed(t) ? expect_keyed : expect_flat)(client, local, t, ids[t]);
	CHECK_OK(weir_close(client, &err), err);
	local_loop_close(local);
	dataset_close(data);
}

static void check_cluster(struct cluster *c)
{
	weir_error err = {0};
	atomic_bool stop = false;
	CHECK_OK(trainer_run(&(struct trainer_options){.job = c->job, .ledger = c->ledger, .name = "worker-0", .stop = &stop}, &err),
	         err);
	expect_equal(c);
	cluster_stop(c);
}

static void check_kind(const char *kind, const char *rule)
{
	struct cluster c;
	char text[1024];
	snprintf(text, sizeof text, settings, kind, rule);
	cluster_start(&c, 2000, text);
	check_cluster(&c);
}

static void deepfm_with_adam(void **state)
{
	(void)state;
	check_kind("deepfm", "adam");
}

static void dcn_v2_with_lamb(void **state)
{
	(void)state;
	check_kind("dcn_v2", "lamb");
}

static void check_layers(const char *codec, const char *more)
{
	struct cluster c;
	char text[1024];
	snprintf(text, sizeof text, deep_settings, codec, more);
	cluster_start(&c, 2000, text);
	check_cluster(&c);
}

static void layers_on_their_way(void **state)
{
	(void)state;
	check_layers("fp32", "");
	check_layers("fp32", ", clip_norm: 0.5"); /* pulls by layer alone */
}

static void text_with_context(void **state)
{
	(void)state;
	struct cluster c;
	cluster_start_text(&c, 10000, text_settings);
	check_cluster(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(deepfm_with_adam),
	    cmocka_unit_test(dcn_v2_with_lamb),
	    cmocka_unit_test(layers_on_their_way),
	    cmocka_unit_test(text_with_context),
	};
	return cmocka_run_group_tests_name("train_synchronous", tests, NULL, NULL);
}
