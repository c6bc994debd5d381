/* Samplers, policies and importance on functions whose answers are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/search/importance.h"
#include "cli/search/search.h"

#define ALWAYS .when = SPACE_ALWAYS
static const struct space_dim branin_x = {.key = "x", .min = -5, .max = 10, ALWAYS};
static const struct space_dim branin_y = {.key = "y", .min = 0, .max = 15, ALWAYS};

/* Least value 0.397887 at three points. */
static double branin(const struct space_point *p)
{
	const double x = p->x[0], y = p->x[1];
	const double a = y - 5.1 / (4 * M_PI * M_PI) * x * x + 5 / M_PI * x - 6;
	return a * a + 10 * (1 - 1 / (8 * M_PI)) * cos(x) + 10;
}

static struct search_options branin_options(enum search_sampler sampler, uint64_t seed)
{
	return (struct search_options){.space = {.dims = {branin_x, branin_y}, .count = 2},
	                               .sampler = sampler,
	                               .trials = 60,
	                               .steps = 1,
	                               .first = 1,
	                               .seed = seed,
	                               .costs = 1,
	                               .startup = 10};
}

static double least_of(const struct search_options *o, double (*f)(const struct space_point *))
{
	struct search *s = search_create(o);
	struct search_segment g;
	double least = INFINITY;
	assert_null(search_check(o));
	while (search_ask(s, &g) == SEARCH_RUN) {
		const double value = f(&g.point);
		least = fmin(least, value);
		assert_true(search_tell(s, g.trial, &value, 0));
	}
	assert_int_equal(search_trials(s), o->trials);
	search_destroy(s);
	return least;
}

static double mean_regret(enum search_sampler sampler)
{
	double sum = 0;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		const struct search_options o = branin_options(sampler, seed);
		sum += least_of(&o, branin) - 0.397887;
	}
	return sum / 20;
}

static void tpe_and_evolution_beat_random(void **state)
{
	(void)state;
	const double random = mean_regret(SAMPLER_RANDOM), tpe = mean_regret(SAMPLER_TPE);
	const double evolution = mean_regret(SAMPLER_EVOLUTION);
	print_message("mean regret on Branin after 60 trials: random %.4f, tpe %.4f, evolution %.4f\n", random, tpe, evolution);
	assert_true(tpe < random / 2);
	assert_true(evolution < random);
}

/* A choice decides which number counts. */
static double conditional(const struct space_point *p)
{
	return p->x[0] == 0 ? 1 + fabs(p->x[1] - 0.3) : fabs(log10(p->x[2]) + 2);
}

static void conditions_hold_and_tpe_finds_the_branch(void **state)
{
	(void)state;
	struct search_options o = branin_options(SAMPLER_TPE, 3);
	o.space = (struct space){.dims = {{.choices = {"a", "b"}, .choices_count = 2, ALWAYS},
	                                  {.min = 0, .max = 1, .when = 0, .when_choices = 1},
	                                  {.min = 1e-4, .max = 1, .log = true, .when = 0, .when_choices = 2}},
	                         .count = 3};
	struct search *s = search_create(&o);
	struct search_segment g;
	uint32_t late_b = 0;
	double least = INFINITY;
	while (search_ask(s, &g) == SEARCH_RUN) {
		const bool is_b = g.point.x[0] == 1;
		assert_int_equal(isnan(g.point.x[1]), is_b);
		assert_int_equal(isnan(g.point.x[2]), !is_b);
		late_b += g.trial >= 30 && is_b;
		const double value = conditional(&g.point);
		least = fmin(least, value);
		assert_true(search_tell(s, g.trial, &value, 0));
	}
	assert_true(late_b >= 20);
	assert_true(least < 0.05);
	search_destroy(s);
}

static void a_grid_has_every_point_once(void **state)
{
	(void)state;
	struct search_options o = branin_options(SAMPLER_GRID, 1);
	o.trials = SEARCH_TRIALS_MAX;
	o.space = (struct space){.dims = {{.choices = {"a", "b"}, .choices_count = 2, ALWAYS},
	                                  {.min = 0.1, .max = 0.3, .step = 0.1, .when = 0, .when_choices = 2},
	                                  {.min = 1, .max = 2, .integer = true, ALWAYS}},
	                         .count = 3};
	struct search *s = search_create(&o);
	struct search_segment g, before = {.point.x = {NAN}};
	char text[32];
	assert_int_equal(space_points(&o.space), 2 + 6);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(search_ask(s, &g), SEARCH_RUN);
		assert_false(space_equal(&o.space, &g.point, &before.point));
		before = g;
	}
	space_text(&o.space.dims[1], g.point.x[1], text, sizeof text);
	assert_string_equal(text, "0.3");
	assert_int_equal(search_ask(s, &g), SEARCH_WAIT);
	search_destroy(s);
}

/* --- Policies */

static double curve(const struct search_segment *g)
{
	return fabs(g->point.x[0] - 3) + 5.0 / g->until;
}

/* Of n trials told in any order, ASHA promotes from each rung the best 1/eta, once each, and never
 * trains a step twice. */
static void check_halving(enum search_policy policy, uint64_t seed)
{
	struct search_options o = branin_options(SAMPLER_RANDOM, seed);
	o.policy = policy;
	o.trials = 81;
	o.steps = 27;
	o.eta = 3;
	struct search *s = search_create(&o);
	struct search_segment running[4], g;
	uint32_t count = 0, trained = 0, segments[28] = {0};
	struct prng r;
	prng_seed(&r, seed);
	assert_null(search_check(&o));
	for (;;) {
		const enum search_answer answer = count < 4 ? search_ask(s, &g) : SEARCH_WAIT;
		if (answer == SEARCH_DONE)
			break;
		if (answer == SEARCH_RUN) {
			assert_int_equal(g.source, g.from ? g.trial : SEARCH_NOBODY);
			for (uint32_t i = 0; i < count; i++)
				assert_int_not_equal(running[i].trial, g.trial);
			running[count++] = g;
			segments[g.until]++;
			trained += g.until - g.from;
			continue;
		}
		const uint32_t i = (uint32_t)prng_below(&r, count);
		const double value = curve(&running[i]);
		assert_true(search_tell(s, running[i].trial, &value, 0));
		running[i] = running[--count];
	}
	struct ranked order[81];
	const uint32_t told = search_order(s, order);
	uint32_t steps = 0;
	for (uint32_t i = 0; i < told; i++)
		steps += search_last(search_trial(s, order[i].trial))->step;
	assert_int_equal(told, 81);
	assert_int_equal(steps, trained);
	if (policy == POLICY_ASHA) {
		assert_int_equal(segments[1], 81);
		/* promoting at once promotes some that the full rung would not: the paper's price */
		assert_in_range(segments[3], 27, 54);
		assert_in_range(segments[9], 9, 36);
		assert_true(segments[27] >= 3);
	}
	/* the best of all was promoted to the end */
	double best = INFINITY;
	uint32_t winner = 0;
	for (uint32_t i = 0; i < 81; i++)
		if (fabs(search_trial(s, i)->point.x[0] - 3) < best) {
			best = fabs(search_trial(s, i)->point.x[0] - 3);
			winner = i;
		}
	assert_int_equal(order[0].trial, policy == POLICY_ASHA ? winner : order[0].trial);
	search_destroy(s);
}

static void halving_promotes_the_best(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		check_halving(POLICY_ASHA, seed);
		check_halving(POLICY_HYPERBAND, seed);
	}
}

static void the_median_rule_ends_bad_trials(void **state)
{
	(void)state;
	struct search_options o = branin_options(SAMPLER_RANDOM, 5);
	o.policy = POLICY_MEDIAN;
	o.steps = 4;
	o.trials = 40;
	struct search *s = search_create(&o);
	struct search_segment g;
	uint32_t stopped = 0;
	while (search_ask(s, &g) == SEARCH_RUN) {
		const double value = curve(&g);
		assert_int_equal(g.until, g.from + 1);
		assert_true(search_tell(s, g.trial, &value, 0));
		const struct search_trial *t = search_trial(s, g.trial);
		stopped += t->state == SEARCH_STOPPED;
		assert_true(g.trial >= 10 || t->state != SEARCH_STOPPED);
	}
	assert_in_range(stopped, 8, 30);
	search_destroy(s);
}

static struct search_options population(void)
{
	struct search_options o = branin_options(SAMPLER_RANDOM, 9);
	o.policy = POLICY_PBT;
	o.trials = 10;
	o.steps = 8;
	o.first = 2;
	o.quantile = 0.2;
	return o;
}

static void a_population_forks_its_worst_from_its_best(void **state)
{
	(void)state;
	const struct search_options o = population();
	struct search *s = search_create(&o);
	struct search_segment g;
	uint32_t forks = 0, segments = 0;
	while (search_ask(s, &g) == SEARCH_RUN) {
		const double value = curve(&g);
		if (g.from > 0 && g.source != g.trial) {
			const struct search_result *source = &search_trial(s, g.source)->results[g.from / 2 - 1];
			const struct search_result *own = search_last(search_trial(s, g.trial));
			assert_int_equal(source->step, g.from);
			assert_true(source->costs[0] <= own->costs[0]);
			assert_false(space_equal(&o.space, &source->point, &g.point));
			forks++;
		}
		segments++;
		assert_true(search_tell(s, g.trial, &value, 0));
	}
	assert_int_equal(segments, 40);
	assert_int_equal(forks, 3 * 2);
	search_destroy(s);
}

/* Even a few trials cover the ranges: each begins in another tenth of them. */
static void a_population_is_spread(void **state)
{
	(void)state;
	struct search_options o = population();
	for (o.seed = 1; o.seed < 20; o.seed++) {
		struct search *s = search_create(&o);
		struct search_segment g;
		uint32_t seen[2] = {0};
		for (uint32_t i = 0; i < o.trials; i++) {
			assert_int_equal(search_ask(s, &g), SEARCH_RUN);
			for (uint32_t d = 0; d < 2; d++)
				seen[d] |= 1u << (uint32_t)(space_place(&o.space.dims[d], g.point.x[d]) * o.trials);
		}
		for (uint32_t d = 0; d < 2; d++)
			assert_int_equal(seen[d], (1u << o.trials) - 1);
		search_destroy(s);
	}
}

static void a_failed_trial_leaves_the_population(void **state)
{
	(void)state;
	const struct search_options o = population();
	struct search *s = search_create(&o);
	struct search_segment g;
	const double value = 1;
	while (search_ask(s, &g) == SEARCH_RUN) {
		if (g.trial == 4)
			search_fail(s, g.trial);
		else
			assert_true(search_tell(s, g.trial, &value, 0));
	}
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(search_trial(s, i)->state, i == 4 ? SEARCH_FAILED : SEARCH_WHOLE);
	search_destroy(s);
}

/* The same calls give the same answers: what a journal relies on. */
static void the_calls_determine_the_answers(void **state)
{
	(void)state;
	struct search_options o = branin_options(SAMPLER_TPE, 11);
	o.policy = POLICY_ASHA;
	o.steps = 9;
	o.eta = 3;
	struct search *a = search_create(&o), *b = search_create(&o);
	struct search_segment x, y;
	while (search_ask(a, &x) == SEARCH_RUN) {
		assert_int_equal(search_ask(b, &y), SEARCH_RUN);
		assert_int_equal(x.trial, y.trial);
		assert_int_equal(x.until, y.until);
		assert_memory_equal(x.point.x, y.point.x, 2 * sizeof(double));
		const double value = curve(&x);
		assert_true(search_tell(a, x.trial, &value, 0) && search_tell(b, y.trial, &value, 0));
	}
	search_destroy(a);
	search_destroy(b);
}

/* --- Ranking and importance */

static void constraints_and_fronts_rank(void **state)
{
	(void)state;
	struct ranked items[] = {{.trial = 0, .costs = {3, 3}},
	                         {.trial = 1, .costs = {1, 4}},
	                         {.trial = 2, .costs = {2, 2}},
	                         {.trial = 3, .costs = {4, 1}},
	                         {.trial = 4, .costs = {0, 0}, .violation = 2},
	                         {.trial = 5, .costs = {NAN, 9}}};
	ranking_sort(items, 6, 2);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(items[i].front, 0);
		assert_true(items[i].trial >= 1 && items[i].trial <= 3);
	}
	assert_int_equal(items[3].trial, 0);
	assert_int_equal(items[4].trial, 5);
	assert_int_equal(items[5].trial, 4);
	ranking_sort(items, 6, 1);
	assert_int_equal(items[0].trial, 1);
	assert_int_equal(items[5].trial, 4);
}

static void importance_finds_what_matters(void **state)
{
	(void)state;
	const struct space space = {.dims = {branin_x, branin_y, {.choices = {"a", "b", "c"}, .choices_count = 3, ALWAYS}},
	                            .count = 3};
	struct space_point points[200];
	double values[200], shares[3];
	struct prng r;
	prng_seed(&r, 4);
	for (uint32_t i = 0; i < 200; i++) {
		for (uint32_t d = 0; d < 3; d++)
			points[i].x[d] = space_draw(&space.dims[d], &r);
		values[i] = 3 * points[i].x[0] + 5 * points[i].x[2];
	}
	assert_true(importance(&space, points, values, 200, 1, shares));
	/* variances: 9 * 15^2 / 12 = 168.75 of x, 25 * 2/3 = 16.7 of the choice */
	print_message("shares %.3f %.3f %.3f\n", shares[0], shares[1], shares[2]);
	assert_true(shares[0] > 0.75 && shares[1] < 0.05 && shares[2] > 0.02 && shares[2] < 0.2);
	assert_true(importance(&space, points, values, 3, 1, shares));
	assert_true(shares[0] == 0 && shares[1] == 0);
}

/* As of a population whose settings were multiplied and clamped in different orders. */
static void importance_of_neighbouring_numbers(void **state)
{
	(void)state;
	enum { POINTS = 64 };
	const struct space space = {.dims = {{.min = 0, .max = 1, ALWAYS}}, .count = 1};
	struct space_point points[POINTS];
	double values[POINTS], x = 0.3, share;
	for (uint32_t i = 0; i < POINTS; i++) {
		points[i].x[0] = x;
		values[i] = i % 7;
		x = nextafter(x, 1);
	}
	assert_true(importance(&space, points, values, POINTS, 1, &share));
	assert_true(share >= 0 && share <= 1);
}

static void texts_read_back(void **state)
{
	(void)state;
	char text[32];
	const struct space_dim rate = {.min = 1e-5, .max = 1, .log = true, ALWAYS},
	                       odd = {.min = 1, .max = 8, .integer = true, ALWAYS};
	for (double place = 0; place <= 1; place += 0.01) {
		const double x = space_at(&rate, place);
		space_text(&rate, x, text, sizeof text);
		assert_true(fabs(atof(text) / x - 1) <= 2e-6);
		assert_true(fabs(space_place(&rate, x) - place) < 1e-9);
		space_text(&odd, space_at(&odd, place), text, sizeof text);
		assert_true(atof(text) == floor(atof(text)) && atof(text) >= 1 && atof(text) <= 8);
	}
}

/* --- From outside */

static void given_trials_train_as_they_are_given(void **state)
{
	(void)state;
	struct search_options o = branin_options(SAMPLER_EXTERNAL, 1);
	o.policy = POLICY_EXTERNAL;
	o.steps = 4;
	o.trials = 2;
	struct search *s = search_create(&o);
	const struct space_point first = {.x = {1, 2}}, second = {.x = {3, 4}};
	struct search_segment g;
	double value = 0.5;
	assert_int_equal(search_ask(s, &g), SEARCH_DONE); /* nothing is given */
	assert_non_null(search_give(s, 1, &first, 1));    /* it is not the next one */
	assert_non_null(search_give(s, 0, &first, 5));
	assert_null(search_give(s, 0, &first, 1));
	assert_null(search_give(s, 1, &second, 4));
	assert_non_null(search_give(s, 2, &second, 4)); /* one too many */
	assert_int_equal(search_ask(s, &g), SEARCH_RUN);
	assert_true(g.trial == 0 && g.from == 0 && g.until == 1 && g.source == SEARCH_NOBODY && g.point.x[1] == 2);
	assert_non_null(search_give(s, 0, &first, 2)); /* it trains */
	assert_true(search_tell(s, 0, &value, 0));
	assert_non_null(search_give(s, 0, &first, 1)); /* it is behind that */
	assert_null(search_give(s, 0, &second, 3));    /* its point stays */
	assert_int_equal(search_ask(s, &g), SEARCH_RUN);
	assert_true(g.trial == 0 && g.from == 1 && g.until == 3 && g.source == 0 && g.point.x[1] == 2);
	assert_int_equal(search_ask(s, &g), SEARCH_RUN);
	assert_true(g.trial == 1 && g.until == 4);
	assert_int_equal(search_ask(s, &g), SEARCH_WAIT);
	search_fail(s, 0);
	assert_true(search_tell(s, 1, &value, 0));
	assert_non_null(search_give(s, 0, &first, 4));  /* it failed */
	assert_non_null(search_give(s, 1, &second, 4)); /* it is whole */
	assert_int_equal(search_ask(s, &g), SEARCH_DONE);
	search_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tpe_and_evolution_beat_random),
	    cmocka_unit_test(conditions_hold_and_tpe_finds_the_branch),
	    cmocka_unit_test(a_grid_has_every_point_once),
	    cmocka_unit_test(halving_promotes_the_best),
	    cmocka_unit_test(the_median_rule_ends_bad_trials),
	    cmocka_unit_test(a_population_forks_its_worst_from_its_best),
	    cmocka_unit_test(a_population_is_spread),
	    cmocka_unit_test(a_failed_trial_leaves_the_population),
	    cmocka_unit_test(the_calls_determine_the_answers),
	    cmocka_unit_test(constraints_and_fronts_rank),
	    cmocka_unit_test(importance_finds_what_matters),
	    cmocka_unit_test(importance_of_neighbouring_numbers),
	    cmocka_unit_test(texts_read_back),
	    cmocka_unit_test(given_trials_train_as_they_are_given),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
