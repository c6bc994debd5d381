/* An evaluator's memory: saved in its file; patience counts across it; rewinds remove passes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cmocka_check.h"
#include "worker/train/score/evaluation.h"

static const struct job job = {
    .train = {.early_stop = {.metric = METRIC_LOGLOSS, .patience = 3}, .keep_best = true, .best_by = METRIC_OF_EARLY_STOP}};

/* As the evaluator does: an improving pass becomes the best. */
static void add(struct evaluation *e, uint32_t pass, double logloss)
{
	weir_error err = {0};
	struct quality q = quality_none();
	q.auc = 1 - logloss / 3;
	q.logloss = logloss;
	q.calibration = 1 + logloss / 7;
	q.rows = 100;
	CHECK_OK(evaluation_add(
	             e, &job, &(struct evaluated_pass){.pass = pass, .figures = {[FIGURE_AUC] = q.auc, [FIGURE_LOGLOSS] = q.logloss}},
	             &err),
	         err);
	if (!evaluation_improves(e, &job, &q))
		return;
	e->has_best = e->has_valid = e->has_test = true;
	e->best_pass = pass;
	e->chosen_by = evaluation_chooser(&job, &q);
	e->valid = e->test = q;
}

static void add_all(struct evaluation *e, const double *losses, uint32_t count)
{
	*e = (struct evaluation){0};
	for (uint32_t i = 0; i < count; i++)
		add(e, i, losses[i]);
}

static void temporary(char path[64])
{
	snprintf(path, 64, "/tmp/weir-evaluation-XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
}

static void expect_equal(const struct evaluation *a, const struct evaluation *b)
{
	assert_int_equal(a->passes_count, b->passes_count);
	assert_int_equal(a->leader, b->leader);
	for (uint32_t i = 0; i < a->passes_count; i++) {
		assert_int_equal(a->passes[i].pass, b->passes[i].pass);
		for (enum quality_figure f = 0; f < QUALITY_FIGURES; f++) {
			const double x = a->passes[i].figures[f], y = b->passes[i].figures[f];
			assert_true(x == y || (isnan(x) && isnan(y)));
		}
		assert_int_equal(a->passes[i].not_numbers, b->passes[i].not_numbers);
	}
	assert_true(a->has_best == b->has_best && a->has_valid == b->has_valid && a->has_test == b->has_test);
	assert_int_equal(a->best_pass, b->best_pass);
	assert_int_equal(a->chosen_by, b->chosen_by);
	assert_memory_equal(&a->valid, &b->valid, sizeof a->valid);
	assert_memory_equal(&a->test, &b->test, sizeof a->test);
}

static void the_file_gives_back_what_was_written(void **state)
{
	(void)state;
	struct evaluation written, read;
	char path[64];
	weir_error err = {0};
	temporary(path);
	add_all(&written, (double[]){0.4, 0.1 + 0.2, 0.35}, 3);
	CHECK_OK(evaluation_write(&written, path, &err), err);
	CHECK_OK(evaluation_read(&read, &job, path, &err), err);
	expect_equal(&read, &written);
	evaluation_destroy(&read);
	evaluation_destroy(&written);
	unlink(path);
}

static void patience_goes_on_where_it_was(void **state)
{
	(void)state;
	struct evaluation written, e;
	char path[64];
	weir_error err = {0};
	temporary(path);
	add_all(&written, (double[]){0.4, 0.3, 0.35, 0.36}, 4);
	assert_false(evaluation_is_over(&written, &job));
	CHECK_OK(evaluation_write(&written, path, &err), err);
	CHECK_OK(evaluation_read(&e, &job, path, &err), err);
	add(&e, 4, 0.31);
	assert_true(evaluation_is_over(&e, &job));
	assert_int_equal(e.best_pass, 1);
	evaluation_destroy(&e);
	evaluation_destroy(&written);
	unlink(path);
}

static void a_pass_that_is_done_again_is_forgotten_with_all_after_it(void **state)
{
	(void)state;
	struct evaluation e;
	add_all(&e, (double[]){0.4, 0.3, 0.35, 0.2}, 4);
	evaluation_forget(&e, &job, 4);
	assert_int_equal(e.passes_count, 4);
	evaluation_forget(&e, &job, 2);
	assert_int_equal(e.passes_count, 2);
	assert_int_equal(e.passes[1].pass, 1);
	assert_int_equal(e.leader, 1);
	/* The best pass was later. The weights of pass 1 are gone, so the next pass is kept. */
	assert_false(e.has_best || e.has_valid || e.has_test);
	add(&e, 2, 0.34);
	assert_true(e.has_best);
	assert_int_equal(e.best_pass, 2);
	evaluation_forget(&e, &job, 3);
	assert_true(e.has_best);
	evaluation_destroy(&e);
}

static void a_missing_file_is_no_passes_and_a_broken_one_is_named(void **state)
{
	(void)state;
	static const char *const broken[] = {"{", "[]", "{\"passes\": []}", "{\"best_pass\": null, \"passes\": [{\"pass\": 0}]}",
	                                     "{\"best_pass\": null, \"passes\": [{\"pass\": -9223372036854775808}]}"};
	struct evaluation e;
	char path[64];
	weir_error err = {0};
	temporary(path);
	unlink(path);
	CHECK_OK(evaluation_read(&e, &job, path, &err), err);
	assert_int_equal(e.passes_count, 0);
	assert_false(e.has_best || evaluation_is_over(&e, &job));
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
		FILE *f = fopen(path, "w");
		fputs(broken[i], f);
		fclose(f);
		assert_int_not_equal(evaluation_read(&e, &job, path, &err), WEIR_OK);
		CHECK_CONTAINS(err.text, path);
		evaluation_destroy(&e);
	}
	unlink(path);
}

/* A NaN pass is never the best, at any place. The other passes compare with each other. */
static void an_undefined_score_is_never_the_best(void **state)
{
	(void)state;
	struct evaluation e;
	add_all(&e, (double[]){NAN, 0.4, INFINITY, 0.3, NAN}, 5);
	assert_true(e.has_best);
	assert_int_equal(e.best_pass, 3);
	assert_int_equal(e.leader, 3);
	assert_false(evaluation_is_over(&e, &job));
	evaluation_destroy(&e);
	add_all(&e, (double[]){NAN, NAN, NAN, NAN}, 4);
	assert_false(e.has_best);
	assert_true(evaluation_is_over(&e, &job)); /* patience ends all the same */
	evaluation_destroy(&e);
}

/* With one class the AUC is undefined, and the first pass would stay the best. */
static void the_logloss_chooses_where_the_auc_is_undefined(void **state)
{
	(void)state;
	const struct job by_auc = {
	    .train = {.early_stop = {.metric = METRIC_AUC, .patience = 2}, .keep_best = true, .best_by = METRIC_OF_EARLY_STOP}};
	const struct quality worse = {.auc = NAN, .logloss = 0.5}, good = {.auc = NAN, .logloss = 0.4},
	                     both = {.auc = 0.7, .logloss = 0.6};
	struct evaluation e = {.has_best = true, .valid = worse};
	assert_true(evaluation_improves(&e, &by_auc, &good));
	assert_int_equal(evaluation_chooser(&by_auc, &good), CHOSEN_BY_LOGLOSS);
	assert_int_equal(evaluation_chooser(&by_auc, &both), CHOSEN_BY_AUC);
	e.valid = good;
	assert_false(evaluation_improves(&e, &by_auc, &worse));
	weir_error err = {0};
	for (uint32_t i = 0; i < 3; i++)
		CHECK_OK(
		    evaluation_add(&e, &by_auc,
		                   &(struct evaluated_pass){.pass = i, .figures = {[FIGURE_AUC] = NAN, [FIGURE_LOGLOSS] = 0.6 - i * 0.1}},
		                   &err),
		    err);
	assert_int_equal(e.leader, 2);
	assert_false(evaluation_is_over(&e, &by_auc));
	evaluation_destroy(&e);
}

static struct quality ranked(double gauc, double ndcg, double logloss)
{
	struct quality q = quality_none();
	q.auc = 0.7;
	q.logloss = logloss;
	q.grouped = true;
	q.ranking = (struct ranking){.gauc = gauc, .at = {{.k = 5, .ndcg = ndcg}}, .at_count = 1};
	return q;
}

/* best_by chooses the weights, and early_stop's metric counts patience. */
static void best_by_chooses_the_weights(void **state)
{
	(void)state;
	struct job by = {.train = {.early_stop = {.metric = METRIC_AUC, .patience = 2}, .keep_best = true, .best_by = METRIC_GAUC}};
	const struct quality gauc = ranked(0.6, 0.3, 0.5), ndcg = ranked(0.5, 0.4, 0.4), none = ranked(NAN, NAN, 0.3);
	struct evaluation e = {.has_best = true, .valid = gauc};
	assert_false(evaluation_improves(&e, &by, &ndcg));
	assert_int_equal(evaluation_chooser(&by, &ndcg), CHOSEN_BY_GAUC);
	by.train.best_by = METRIC_NDCG;
	assert_true(evaluation_improves(&e, &by, &ndcg));
	assert_int_equal(evaluation_chooser(&by, &ndcg), CHOSEN_BY_NDCG);
	assert_true(evaluation_improves(&e, &by, &none));
	assert_int_equal(evaluation_chooser(&by, &none), CHOSEN_BY_LOGLOSS);
	weir_error err = {0};
	const double aucs[] = {0.7, 0.69, 0.68};
	for (uint32_t i = 0; i < 3; i++)
		CHECK_OK(evaluation_add(&e, &by,
		                        &(struct evaluated_pass){.pass = i, .figures = {[FIGURE_AUC] = aucs[i], [FIGURE_LOGLOSS] = 0.5}},
		                        &err),
		         err);
	assert_int_equal(e.leader, 0);
	assert_true(evaluation_is_over(&e, &by));
	evaluation_destroy(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_file_gives_back_what_was_written),
	    cmocka_unit_test(patience_goes_on_where_it_was),
	    cmocka_unit_test(a_pass_that_is_done_again_is_forgotten_with_all_after_it),
	    cmocka_unit_test(an_undefined_score_is_never_the_best),
	    cmocka_unit_test(the_logloss_chooses_where_the_auc_is_undefined),
	    cmocka_unit_test(best_by_chooses_the_weights),
	    cmocka_unit_test(a_missing_file_is_no_passes_and_a_broken_one_is_named),
	};
	return cmocka_run_group_tests_name("train_evaluation", tests, NULL, NULL);
}
