/* Trainers and the evaluator: quality on a synthetic model, saved weights that score as the live
 * ones did, early stop, a stop by signal. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/worker/train/role.h"
#include "worker/train/loop/trainer.h"
#include "worker/train/score/evaluator.h"
#include "worker/train/score/scorer.h"

static const char settings[] = "  split: {by: crc32, train: 80, valid: 10, test: 10}\n"
                               "  batch: 64\n"
                               "  unit_batches: 4\n"
                               "  shuffle: true\n"
                               "model: {kind: deepfm, dim: 4, hidden: [16], batch_norm: true}\n"
                               "tables:\n"
                               "  embedding: {optimizer: {kind: adam, lr: 1.0e-2, %s}}\n"
                               "  dense: {optimizer: {kind: adam, lr: 1.0e-2}}\n"
                               "train: {passes: %u, threads: 1, keep_best: true, early_stop: {metric: %s, patience: %u}}\n";

static json_t *read_evaluation(const struct cluster *c)
{
	char path[96];
	snprintf(path, sizeof path, "%s/evaluation.json", c->folder);
	json_error_t why;
	json_t *root = json_load_file(path, 0, &why);
	if (root == NULL)
		fail_msg("%s: %s", path, why.text);
	return root;
}

static double number_of(json_t *root, const char *part, const char *key)
{
	return json_number_value(json_object_get(json_object_get(root, part), key));
}

/* best.safetensors scores the test part exactly as evaluation.json says the servers did. */
static void expect_snapshot_scores(const struct cluster *c, json_t *evaluation)
{
	char path[96];
	weir_error err = {0};
	struct scorer *scorer;
	struct dataset *test;
	struct quality q;
	snprintf(path, sizeof path, "%s/best.safetensors", c->folder);
	CHECK_OK(scorer_open(&scorer, &(struct scorer_options){.job = c->job, .threads = 1, .path = path}, &err), err);
	CHECK_OK(dataset_open(&test, c->job, SPLIT_TEST, NULL, &err), err);
	CHECK_OK(scorer_evaluate(scorer, test, &q, &err), err);
	assert_true(fabs(q.auc - number_of(evaluation, "test", "auc")) < 1e-12);
	assert_true(fabs(q.logloss - number_of(evaluation, "test", "logloss")) < 1e-12);
	assert_int_equal(q.rows, (uint64_t)number_of(evaluation, "test", "rows"));
	scorer_close(scorer);
	dataset_close(test);
}

/* Six passes of two workers over `rows` rows; returns the evaluator's output. */
static json_t *learn(struct cluster *c, uint32_t rows, const char *decay)
{
	char text[1024];
	snprintf(text, sizeof text, settings, decay, 6u, "auc", 0u);
	cluster_start(c, rows, text);
	struct role roles[] = {{.cluster = c, .name = "worker-0"},
	                       {.cluster = c, .name = "worker-1"},
	                       {.cluster = c, .name = "evaluator", .evaluator = true}};
	for (size_t i = 0; i < 3; i++)
		cluster_role_start(&roles[i]);
	for (size_t i = 0; i < 3; i++)
		cluster_role_join(&roles[i], WEIR_OK);
	json_t *evaluation = read_evaluation(c);
	assert_int_equal(json_array_size(json_object_get(evaluation, "passes")), 6);
	return evaluation;
}

/* All tensors of logistic regression, a single layer, are in the file too; but it is another
 * model. */
static void expect_refused(const struct cluster *c, const struct job *other, const char *says)
{
	char path[96];
	weir_error err = {0};
	struct scorer *scorer;
	snprintf(path, sizeof path, "%s/best.safetensors", c->folder);
	assert_int_equal(scorer_open(&scorer, &(struct scorer_options){.job = other, .threads = 1, .path = path}, &err),
	                 WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, path);
	CHECK_CONTAINS(err.text, says);
}

static void expect_other_models_refused(const struct cluster *c)
{
	struct job other = *c->job;
	other.model.kind = MODEL_LR;
	expect_refused(c, &other, "its model.kind is deepfm, the job's is lr");
	other = *c->job;
	other.model.hidden[other.model.hidden_count++] = 16;
	expect_refused(c, &other, "its model.hidden is [16], the job's is [16, 16]");
	other = *c->job;
	other.model.batch_norm = false;
	expect_refused(c, &other, "its model.batch_norm is true, the job's is false");
}

static void two_workers_learn_and_the_best_is_saved(void **state)
{
	(void)state;
	struct cluster c;
	json_t *evaluation = learn(&c, 6000, "decay: lazy");
	/* The ground truth's logit has a standard deviation of 2: its Bayes AUC is about 0.88. */
	double auc = number_of(evaluation, "test", "auc");
	if (!(auc > 0.80 && auc < 0.95))
		fail_msg("test AUC %f", auc);
	expect_snapshot_scores(&c, evaluation);
	expect_other_models_refused(&c);
	json_decref(evaluation);
	cluster_stop(&c);
}

/* Few rows: the test part has keys that were never pushed. Full decay moves them, and the file
 * records by how much. */
static void the_file_tells_how_far_rows_have_moved_that_were_never_pushed(void **state)
{
	(void)state;
	struct cluster c;
	json_t *evaluation = learn(&c, 100, "decay: full, l2: 1.0e-3");
	expect_snapshot_scores(&c, evaluation);
	json_decref(evaluation);
	cluster_stop(&c);
}

static void patience_stops_early(void **state)
{
	(void)state;
	struct cluster c;
	char text[1024];
	snprintf(text, sizeof text, settings, "decay: lazy", 200u, "auc", 1u);
	cluster_start(&c, 2000, text);
	struct role roles[] = {{.cluster = &c, .name = "worker-0"}, {.cluster = &c, .name = "evaluator", .evaluator = true}};
	for (size_t i = 0; i < 2; i++)
		cluster_role_start(&roles[i]);
	for (size_t i = 0; i < 2; i++)
		cluster_role_join(&roles[i], WEIR_OK);
	json_t *evaluation = read_evaluation(&c);
	size_t passes = json_array_size(json_object_get(evaluation, "passes"));
	assert_true(passes >= 2 && passes < 200);
	json_int_t first = json_integer_value(json_object_get(json_array_get(json_object_get(evaluation, "passes"), 0), "pass"));
	assert_int_equal(first, 1);
	assert_int_equal(json_integer_value(json_object_get(evaluation, "best_pass")), passes - 1);
	json_decref(evaluation);
	cluster_stop(&c);
}

/* The number of passes in evaluation.json. */
static size_t passes_so_far(const struct cluster *c)
{
	char path[96];
	snprintf(path, sizeof path, "%s/evaluation.json", c->folder);
	json_t *root = json_load_file(path, 0, NULL);
	const size_t passes = json_array_size(json_object_get(root, "passes"));
	json_decref(root);
	return passes;
}

static void wait_for_passes(const struct cluster *c, size_t passes)
{
	AWAIT(passes_so_far(c) >= passes, "evaluation.json has %zu passes, %zu are waited for", passes_so_far(c), passes);
}

/* An evaluator was killed before it told the ledger of a pass: the next one evaluates that pass
 * again. */
static void add_a_pass_not_told(const struct cluster *c)
{
	char path[96];
	snprintf(path, sizeof path, "%s/evaluation.json", c->folder);
	json_t *root = read_evaluation(c), *passes = json_object_get(root, "passes");
	const json_int_t pass = (json_int_t)json_array_size(passes) + 1;
	assert_int_equal(json_array_append_new(passes, json_pack("{s:I, s:f, s:f}", "pass", pass, "auc", 0.5, "logloss", 9.0)), 0);
	assert_int_equal(json_dump_file(root, path, 0), 0);
	json_decref(root);
}

/* 600 rows are overfitted: the best pass is an early one, before the second evaluator's start. */
static void an_evaluator_goes_on_from_the_one_before(void **state)
{
	(void)state;
	struct cluster c;
	char text[1024];
	enum { PASSES = 30, SEEN = 20 };
	snprintf(text, sizeof text, settings, "decay: lazy", (unsigned)PASSES, "logloss", 0u);
	cluster_start(&c, 600, text);
	struct role roles[] = {{.cluster = &c, .name = "worker-0"}, {.cluster = &c, .name = "evaluator", .evaluator = true}};
	for (size_t i = 0; i < 2; i++)
		cluster_role_start(&roles[i]);
	wait_for_passes(&c, SEEN);
	atomic_store(&roles[1].stop, true);
	cluster_role_join(&roles[1], WEIR_E_CANCELLED);
	add_a_pass_not_told(&c);
	struct role next = {.cluster = &c, .name = "evaluator", .evaluator = true};
	cluster_role_start(&next);
	cluster_role_join(&next, WEIR_OK);
	cluster_role_join(&roles[0], WEIR_OK);
	json_t *evaluation = read_evaluation(&c), *passes = json_object_get(evaluation, "passes");
	double least = INFINITY;
	json_int_t best = 0;
	assert_int_equal(json_array_size(passes), PASSES);
	for (size_t i = 0; i < PASSES; i++) {
		const double logloss = json_number_value(json_object_get(json_array_get(passes, i), "logloss"));
		assert_int_equal(json_integer_value(json_object_get(json_array_get(passes, i), "pass")), i + 1);
		best = logloss < least ? (json_int_t)i + 1 : best;
		least = logloss < least ? logloss : least;
	}
	assert_in_range(best, 1, SEEN);
	assert_int_equal(json_integer_value(json_object_get(evaluation, "best_pass")), best);
	expect_snapshot_scores(&c, evaluation);
	json_decref(evaluation);
	cluster_stop(&c);
}

static void a_stopped_worker_leaves_its_work_to_others(void **state)
{
	(void)state;
	struct cluster c;
	char text[1024];
	snprintf(text, sizeof text, settings, "decay: lazy", 3u, "auc", 0u);
	cluster_start(&c, 6000, text);
	struct role roles[] = {{.cluster = &c, .name = "worker-0"}, {.cluster = &c, .name = "evaluator", .evaluator = true}};
	for (size_t i = 0; i < 2; i++)
		cluster_role_start(&roles[i]);
	atomic_store(&roles[0].stop, true);
	cluster_role_join(&roles[0], WEIR_E_CANCELLED);
	struct role next = {.cluster = &c, .name = "worker-1"};
	cluster_role_start(&next);
	cluster_role_join(&next, WEIR_OK);
	cluster_role_join(&roles[1], WEIR_OK);
	cluster_stop(&c);
}

/* The rate makes the weights diverge within a few batches: gradients become infinite or NaN, and
 * the job still ends normally. */
static void batches_that_are_not_finite_are_left_out(void **state)
{
	(void)state;
	struct cluster c;
	weir_error err = {0};
	atomic_bool stop = false;
	cluster_start(&c, 2000,
	              "  batch: 64\n"
	              "  unit_batches: 4\n"
	              "model: {kind: fm, dim: 4, init_std: 1.0}\n"
	              "tables:\n"
	              "  embedding: {optimizer: {kind: sgd, lr: 1.0e+30}}\n"
	              "  dense: {optimizer: {kind: sgd, lr: 1.0e+30}}\n"
	              "train: {passes: 1, threads: 1}\n");
	CHECK_OK(trainer_run(&(struct trainer_options){.job = c.job, .ledger = c.ledger, .name = "worker-0", .stop = &stop}, &err),
	         err);
	weir_client *client;
	CHECK_OK(weir_open(&client, &(weir_options){.ledger = c.ledger, .name = "check", .role = WEIR_OBSERVER}, &err), err);
	weir_table_spec spec = {0};
	uint32_t id;
	CHECK_OK(weir_table_find(client, "dense", &spec, &id, &err), err);
	float values[4];
	weir_ticket ticket;
	assert_true(spec.elements <= 4);
	CHECK_OK(weir_pull(client, NULL, &(weir_pull_item){.table = id, .values = values}, 1, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(client, ticket, 10000, &err), err);
	assert_false(isnan(values[0]));
	CHECK_OK(weir_close(client, &err), err);
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_workers_learn_and_the_best_is_saved),
	    cmocka_unit_test(the_file_tells_how_far_rows_have_moved_that_were_never_pushed),
	    cmocka_unit_test(patience_stops_early),
	    cmocka_unit_test(an_evaluator_goes_on_from_the_one_before),
	    cmocka_unit_test(a_stopped_worker_leaves_its_work_to_others),
	    cmocka_unit_test(batches_that_are_not_finite_are_left_out),
	};
	return cmocka_run_group_tests_name("train_evaluator", tests, NULL, NULL);
}
