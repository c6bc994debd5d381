/* A text model with real servers: it learns more than byte frequencies, its evaluations match the
 * saved weights, and other files are refused. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"
#include "tests/unit/worker/train/role.h"
#include "worker/train/loop/trainer.h"
#include "worker/train/score/evaluator.h"
#include "worker/train/score/scorer.h"

/* 100,000 bytes are 13 blocks of the split's 25, too few for a tenth, so valid and test have a
 * fifth each. */
static const char settings[] = "  context: 6\n"
                               "  split: {by: crc32, train: 6, valid: 2, test: 2}\n"
                               "  batch: 64\n"
                               "  unit_batches: 8\n"
                               "model: {kind: ngram, dim: 8, hidden: [64], init_std: 0.3}\n"
                               "tables: {dense: {optimizer: {kind: adam, lr: 5.0e-3}}}\n"
                               "train: {passes: 3, threads: 1}\n";
enum { BYTES = 100000 };

static void train(struct cluster *c)
{
	struct role roles[] = {{.cluster = c, .name = "worker-0"},
	                       {.cluster = c, .name = "worker-1"},
	                       {.cluster = c, .name = "evaluator", .evaluator = true}};
	for (size_t i = 0; i < 3; i++)
		cluster_role_start(&roles[i]);
	for (size_t i = 0; i < 3; i++)
		cluster_role_join(&roles[i], WEIR_OK);
}

/* The least loss from byte frequencies alone. */
static double entropy_of_bytes(const struct cluster *c)
{
	char path[96];
	uint32_t counts[256] = {0};
	snprintf(path, sizeof path, "%s/data", c->folder);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	for (int byte; (byte = fgetc(f)) != EOF;)
		counts[byte]++;
	fclose(f);
	double entropy = 0;
	for (int i = 0; i < 256; i++)
		if (counts[i] > 0)
			entropy -= counts[i] / (double)BYTES * log(counts[i] / (double)BYTES);
	return entropy;
}

static double loss_of(json_t *evaluation, const char *part)
{
	json_t *scores = json_object_get(evaluation, part);
	assert_true(json_is_null(json_object_get(scores, "auc")) && json_is_null(json_object_get(scores, "calibration")));
	assert_true(json_integer_value(json_object_get(scores, "rows")) > 4096);
	return json_number_value(json_object_get(scores, "logloss"));
}

struct sum {
	double losses;
	uint64_t rows;
};

static weir_status add_scores(void *arg, const struct batch *batch, const float *scores, weir_error *err)
{
	struct sum *s = arg;
	(void)err;
	for (uint32_t r = 0; r < batch->rows; r++) {
		assert_true(scores[r] < 0 && isfinite(scores[r]));
		s->losses -= (double)scores[r];
	}
	s->rows += batch->rows;
	return WEIR_OK;
}

/* best.safetensors has the servers' values: the test part's loss and the bytes' probabilities. */
static void expect_saved(const struct cluster *c, double loss)
{
	char path[96];
	weir_error err = {0};
	struct scorer *scorer;
	struct dataset *test;
	struct quality q;
	struct sum sum = {0};
	snprintf(path, sizeof path, "%s/best.safetensors", c->folder);
	CHECK_OK(scorer_open(&scorer, &(struct scorer_options){.job = c->job, .threads = 1, .path = path}, &err), err);
	CHECK_OK(dataset_open(&test, c->job, SPLIT_TEST, NULL, &err), err);
	CHECK_OK(scorer_evaluate(scorer, test, &q, &err), err);
	assert_true(isnan(q.auc) && isnan(q.calibration));
	if (!(fabs(q.logloss - loss) < 1e-12))
		fail_msg("saved weights have loss %.15g, evaluated was %.15g", q.logloss, loss);
	CHECK_OK(scorer_run(scorer, test, add_scores, &sum, &err), err);
	assert_int_equal(sum.rows, q.rows);
	assert_true(fabs(sum.losses / (double)sum.rows - loss) < 1e-12);
	scorer_close(scorer);
	dataset_close(test);
}

static void expect_refused(const struct cluster *c, const struct job *other, const char *says)
{
	char path[96];
	weir_error err = {0};
	struct scorer *scorer;
	snprintf(path, sizeof path, "%s/best.safetensors", c->folder);
	assert_int_equal(scorer_open(&scorer, &(struct scorer_options){.job = other, .threads = 1, .path = path}, &err),
	                 WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, says);
}

static void the_model_learns_the_next_byte(void **state)
{
	(void)state;
	struct cluster c;
	cluster_start_text(&c, BYTES, settings);
	train(&c);
	char path[96];
	json_error_t why;
	snprintf(path, sizeof path, "%s/evaluation.json", c.folder);
	json_t *evaluation = json_load_file(path, 0, &why);
	if (evaluation == NULL)
		fail_msg("%s: %s", path, why.text);
	const double bytes_alone = entropy_of_bytes(&c), test = loss_of(evaluation, "test"), valid = loss_of(evaluation, "valid");
	/* The text's entropy is 0.7 nats a byte. */
	if (!(bytes_alone > 2.5 && test < 1.2 && test > 0.6 && fabs(valid - test) < 0.2))
		fail_msg("test loss %f, validation loss %f; of the bytes alone %f", test, valid, bytes_alone);
	assert_int_equal(json_array_size(json_object_get(evaluation, "passes")), 3);
	expect_saved(&c, test);
	json_decref(evaluation);
	struct job other = *c.job;
	other.data.context = 5;
	expect_refused(&c, &other, "its data.context is 6, the job's is 5");
	other = *c.job;
	other.model.kind = MODEL_LR;
	expect_refused(&c, &other, "is not of a click model");
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_model_learns_the_next_byte)};
	return cmocka_run_group_tests_name("train_text", tests, NULL, NULL);
}
