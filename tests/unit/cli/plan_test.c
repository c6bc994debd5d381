/* The planner: its search and its recurrence against exhaustive enumeration, its formulas against
 * cases that can be worked out by hand, its answers against the parser of job files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/figures_json.h"
#include "cli/plan/layers.h"
#include "cli/plan/plan.h"
#include "cli/plan/steps.h"
#include "common/base/limits.h"
#include "common/base/prng.h"
#include "tests/cmocka_check.h"

static const char *const codecs[] = {"fp32", "bf16", "int8", "int4"};

static double between(struct prng *rng, double low, double high)
{
	return low + (high - low) * prng_unit(rng);
}

static struct plan_figures random_figures(struct prng *rng)
{
	struct plan_figures f = {.cores = 1 + (double)(prng_u64(rng) % 4),
	                         .rows = 512,
	                         .keys = 1000,
	                         .dense_elements = between(rng, 1e3, 1e6),
	                         .compute_one_s = between(rng, 1e-3, 1e-2),
	                         .crowd = between(rng, 1, 1.8),
	                         .jitter = between(rng, 0, 0.2),
	                         .load_s = between(rng, 0, 1e-3),
	                         .read_s = between(rng, 0, 1e-3),
	                         .inner_s = between(rng, 0, 1e-3),
	                         .outer_s = between(rng, 0, 1e-4),
	                         .score_s = between(rng, 0, 1e-3),
	                         .round_trip_s = between(rng, 1e-5, 1e-4),
	                         .batches = 100,
	                         .valid_batches = 10,
	                         .cache_hits = between(rng, 0, 0.6),
	                         .cache_bytes = between(rng, 1e5, 1e8)};
	f.compute_all_s = f.compute_one_s * between(rng, 1 / f.cores, 1);
	f.layers_count = 2;
	f.layers[0] = between(rng, 0, f.dense_elements);
	f.layers[1] = f.dense_elements - f.layers[0];
	for (enum plan_leg leg = 0; leg < PLAN_LEGS; leg++)
		for (f.codes[leg] = 0; f.codes[leg] < 4; f.codes[leg]++) {
			struct plan_code *c = &f.legs[leg][f.codes[leg]];
			snprintf(c->codec, sizeof c->codec, "%s", codecs[f.codes[leg]]);
			c->bytes = between(rng, 1e3, 1e6);
			c->asked_bytes = between(rng, 0, 1e5);
			c->caller_s = between(rng, 0, 1e-3);
			c->client_s = between(rng, 0, 1e-3);
			c->server_s = between(rng, 0, 2e-3);
		}
	return f;
}

static struct plan_site random_site(struct prng *rng)
{
	struct plan_site site = {.shared = prng_u64(rng) % 2 == 0,
	                         .rehearsed = between(rng, 0.5, 1.5),
	                         .rate_bits_per_s = prng_u64(rng) % 3 ? between(rng, 1e8, 1e10) : 0,
	                         .latency_s = between(rng, 0, 2e-3),
	                         .worker_cores = 2,
	                         .server_cores = 2,
	                         .workers_max = 4,
	                         .servers_max = 2,
	                         .replicas = 1,
	                         .unit_batches = 16,
	                         .passes = 1 + (uint32_t)(prng_u64(rng) % 3),
	                         .pulls_by_layer = prng_u64(rng) % 2 == 0,
	                         .pushes_by_layer = prng_u64(rng) % 2 == 0,
	                         .rows_cached = prng_u64(rng) % 2 == 0,
	                         .rounds_wait = true};
	for (uint32_t i = 0; i < PLAN_MACHINES_MAX; i++) {
		site.worker_speed[i] = between(rng, 0.5, 2);
		site.server_speed[i] = between(rng, 0.5, 2);
		site.least_batch_s[i] = prng_u64(rng) % 4 ? 0 : between(rng, 0, 3e-2);
	}
	return site;
}

static const struct plan_space space = {
    .values = {[PLAN_KEY_MODE] = {PLAN_ASYNC, PLAN_SSP, PLAN_SYNC, PLAN_LOCAL + 4, PLAN_LOCAL + 64},
               [PLAN_KEY_WORKERS] = {1, 2, 4},
               [PLAN_KEY_SERVERS] = {1, 2},
               [PLAN_KEY_EXECUTORS] = {1, 2},
               [PLAN_KEY_CACHE] = {0, 1},
               [PLAN_KEY_LEGS] = {0, 1, 2, 3},
               [PLAN_KEY_LEGS + 1] = {0, 1, 2},
               [PLAN_KEY_LEGS + 2] = {0, 1, 2, 3},
               [PLAN_KEY_LEGS + 3] = {0, 1}},
    .counts = {5, 3, 2, 2, 2, 4, 3, 4, 2}};

/* The least cost of all settings, one after the other. */
static double least_cost(const struct plan_figures *f, const struct plan_site *site, uint32_t *allowed)
{
	double least = INFINITY;
	uint32_t at[PLAN_KEYS] = {0};
	for (bool more = true; more;) {
		struct plan_setting s;
		struct plan_bill bill;
		for (uint32_t k = 0; k < PLAN_KEYS; k++)
			s.of[k] = space.values[k][at[k]];
		if (plan_is_allowed(site, &s)) {
			const struct plan_traffic traffic = plan_traffic_of(f, &s);
			plan_bill_of(f, site, &s, &traffic, true, &bill);
			least = bill.cost_s < least ? bill.cost_s : least;
			++*allowed;
		}
		more = false;
		for (uint32_t k = 0; k < PLAN_KEYS && !more; k++) {
			at[k] = (at[k] + 1) % space.counts[k];
			more = at[k] > 0;
		}
	}
	return least;
}

static void branch_and_bound_finds_what_enumeration_finds(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 7);
	uint64_t bills = 0, all = 0;
	for (int i = 0; i < 60; i++) {
		const struct plan_figures f = random_figures(&rng);
		const struct plan_site site = random_site(&rng);
		struct plan_result found;
		uint32_t allowed = 0;
		plan_search(&f, &site, &space, 1, &found);
		const double least = least_cost(&f, &site, &allowed);
		assert_int_equal(found.count, 1);
		assert_true(found.best[0].bill.cost_s == least);
		bills += found.bills;
		all += allowed;
	}
	/* else it would be enumeration */
	assert_true(bills * 4 < all);
}

static void the_best_come_in_order(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 8);
	const struct plan_figures f = random_figures(&rng);
	const struct plan_site site = random_site(&rng);
	struct plan_result found;
	plan_search(&f, &site, &space, PLAN_BEST_MAX, &found);
	assert_int_equal(found.count, PLAN_BEST_MAX);
	for (uint32_t i = 1; i < found.count; i++)
		assert_true(found.best[i - 1].bill.cost_s <= found.best[i].bill.cost_s);
}

/* --- Layers */

static double least_exposed(const struct plan_layers *l)
{
	double least = INFINITY;
	for (uint32_t cuts = 0; cuts < 1u << (l->count - 1); cuts++) {
		uint32_t end[PLAN_LAYERS_MAX], count = 0;
		for (uint32_t i = 0; i + 1 < l->count; i++)
			if (cuts >> i & 1)
				end[count++] = i + 1;
		end[count++] = l->count;
		const double exposed = plan_layers_exposed_s(l, end, count);
		least = exposed < least ? exposed : least;
	}
	return least;
}

static void buckets_expose_the_least(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 9);
	for (int i = 0; i < 200; i++) {
		struct plan_layers l = {.count = 1 + (uint32_t)(prng_u64(&rng) % 10),
		                        .message_s = between(&rng, 0, 2e-3),
		                        .bytes_per_s = between(&rng, 1e7, 1e9)};
		struct plan_buckets joined;
		for (uint32_t k = 0; k < l.count; k++) {
			l.compute_s[k] = between(&rng, 0, 2e-3);
			l.bytes[k] = between(&rng, 0, 1e6);
		}
		plan_layers_join(&l, &joined);
		assert_true(fabs(joined.exposed_s - least_exposed(&l)) < 1e-12);
		assert_true(fabs(joined.exposed_s - plan_layers_exposed_s(&l, joined.end, joined.count)) < 1e-12);
		assert_int_equal(joined.end[joined.count - 1], l.count);
	}
}

/* --- Formulas */

/* A batch of 10 ms, 1 MB both ways, everything else free. */
static struct plan_figures plain_figures(void)
{
	struct plan_figures f = {
	    .cores = 16, .rows = 100, .dense_elements = 1e6, .compute_one_s = 0.01, .compute_all_s = 0.01, .crowd = 1, .batches = 10};
	f.legs[PLAN_DENSE_PUSH][0] = (struct plan_code){.codec = "fp32", .bytes = 1e6};
	f.legs[PLAN_DENSE_PULL][0] = (struct plan_code){.codec = "fp32", .bytes = 1e6};
	f.codes[PLAN_DENSE_PUSH] = f.codes[PLAN_DENSE_PULL] = 1;
	return f;
}

static struct plan_site plain_site(double rate)
{
	struct plan_site site = {.shared = true,
	                         .rehearsed = 1,
	                         .rate_bits_per_s = rate,
	                         .workers_max = 8,
	                         .servers_max = 8,
	                         .threads = 1,
	                         .replicas = 1,
	                         .unit_batches = 16,
	                         .passes = 1,
	                         .rounds_wait = true};
	for (uint32_t i = 0; i < PLAN_MACHINES_MAX; i++)
		site.worker_speed[i] = site.server_speed[i] = 1;
	return site;
}

static struct plan_bill bill_of(const struct plan_figures *f, const struct plan_site *site, uint32_t mode, uint32_t workers)
{
	const struct plan_setting s = {.of = {mode, workers, 1, 1}};
	const struct plan_traffic traffic = plan_traffic_of(f, &s);
	struct plan_bill bill;
	plan_bill_of(f, site, &s, &traffic, true, &bill);
	return bill;
}

#define assert_near(a, b) assert_true(fabs((a) / (b)-1) < 0.01)

static void a_free_network_leaves_computing(void **state)
{
	(void)state;
	const struct plan_figures f = plain_figures();
	const struct plan_site site = plain_site(0);
	assert_near(bill_of(&f, &site, PLAN_ASYNC, 1).samples_per_s, 10000);
	assert_near(bill_of(&f, &site, PLAN_ASYNC, 4).samples_per_s, 40000);
	assert_near(bill_of(&f, &site, PLAN_SYNC, 4).samples_per_s, 40000);
	assert_int_equal(bill_of(&f, &site, PLAN_ASYNC, 1).limit, PLAN_TERM_COMPUTE);
}

static void a_rehearsal_corrects_every_bill(void **state)
{
	(void)state;
	const struct plan_figures f = plain_figures();
	struct plan_site site = plain_site(0);
	site.rehearsed = 0.5;
	assert_near(bill_of(&f, &site, PLAN_ASYNC, 1).samples_per_s, 5000);
	assert_near(bill_of(&f, &site, PLAN_SYNC, 4).samples_per_s, 20000);
}

/* 1 MB at 100 Mb/s takes 80 ms, with headers 85: each way, at the same time while nobody waits. */
static void a_slow_card_is_the_limit(void **state)
{
	(void)state;
	const struct plan_figures f = plain_figures();
	const struct plan_site site = plain_site(1e8);
	assert_near(bill_of(&f, &site, PLAN_ASYNC, 1).period_s, 0.08504);
	assert_near(bill_of(&f, &site, PLAN_ASYNC, 4).period_s, 0.08504); /* the server has one card, too */
	assert_near(bill_of(&f, &site, PLAN_SYNC, 1).period_s, 0.01 + 2 * 0.08504);
	assert_near(bill_of(&f, &site, PLAN_LOCAL + 16, 1).period_s, 0.01 + 2 * 0.08504 / 16);
}

static void a_step_waits_for_the_slowest(void **state)
{
	(void)state;
	const struct plan_figures f = plain_figures();
	struct plan_site site = plain_site(0);
	site.least_batch_s[0] = 0.04;
	assert_near(bill_of(&f, &site, PLAN_SYNC, 2).period_s, 0.02);
	assert_near(1 / bill_of(&f, &site, PLAN_ASYNC, 2).period_s, 1 / 0.04 + 1 / 0.01);
}

static void processes_share_the_cores(void **state)
{
	(void)state;
	struct plan_figures f = plain_figures();
	const struct plan_site site = plain_site(0);
	f.cores = 2;
	f.crowd = 1.5;
	assert_near(bill_of(&f, &site, PLAN_ASYNC, 4).period_s, 0.0075);
}

/* --- Jobs */

static const char job_text[] = "job: t\n"
                               "cluster: {servers: auto, workers: 2}\n"
                               "data: {train: x}\n"
                               "tables:\n"
                               "  dense:\n"
                               "    optimizer: {kind: adam, lr: 0.003, weight_decay: 0, schedule: {kind: cosine, warmup: 10}}\n"
                               "    mode: {kind: auto}\n"
                               "    push: {codec: auto}\n";

static struct job *parse(const char *const *sets, uint32_t count)
{
	struct job *job = NULL;
	weir_error err = {0};
	CHECK_OK(job_parse(job_text, "t", sets, count, &job, &err), err);
	return job;
}

static void only_keys_that_ask_are_chosen(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 10);
	struct job *job = parse(NULL, 0);
	struct plan_figures f = random_figures(&rng);
	f.cores = 4;
	const struct plan_site site = plan_site_of(job, &f);
	struct plan_space asked, all;
	plan_space_of(job, &f, &site, PLAN_ASKED, &asked);
	plan_space_of(job, &f, &site, PLAN_ALL, &all);
	assert_int_equal(job->asks.count, 3);
	assert_int_equal(asked.counts[PLAN_KEY_WORKERS], 1);
	assert_int_equal(asked.values[PLAN_KEY_WORKERS][0], 2);
	assert_true(asked.counts[PLAN_KEY_SERVERS] > 1 && asked.counts[PLAN_KEY_MODE] > 1);
	assert_int_equal(asked.counts[PLAN_KEY_LEGS + PLAN_DENSE_PUSH], 4);
	assert_int_equal(asked.counts[PLAN_KEY_LEGS + PLAN_DENSE_PULL], 1);
	assert_int_equal(all.counts[PLAN_KEY_LEGS + PLAN_DENSE_PULL], 4);
	job_destroy(job);
}

/* Whatever is chosen, the job file takes the answers, and the job is then what was planned. */
static void answers_make_the_job_that_was_planned(void **state)
{
	(void)state;
	static const uint32_t modes[] = {PLAN_ASYNC, PLAN_SSP, PLAN_SYNC, PLAN_LOCAL + 16};
	struct prng rng;
	prng_seed(&rng, 11);
	const struct plan_figures f = random_figures(&rng);
	struct job *asking = parse(NULL, 0);
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		struct plan_found p = {.setting = plan_as_written(asking, &f)};
		struct answers answers;
		struct option_list sets = {.count = 0};
		weir_error err = {0};
		p.setting.of[PLAN_KEY_MODE] = modes[i];
		p.setting.of[PLAN_KEY_SERVERS] = 2;
		p.setting.of[PLAN_KEY_LEGS + PLAN_DENSE_PUSH] = 2;
		plan_answers(asking, &f, &p, &answers);
		CHECK_OK(answers_give(&answers, asking, &sets, &err), err);
		struct job *planned = parse(sets.items, sets.count);
		const struct plan_setting is = plan_as_written(planned, &f);
		assert_int_equal(planned->asks.count, 0);
		assert_memory_equal(&is, &p.setting, sizeof is);
		if (plan_mode_steps(modes[i]) > 0) {
			assert_int_equal(planned->tables.dense.local.inner.kind, WEIR_OPT_ADAM);
			assert_true(planned->tables.dense.local.inner.lr == 0.003f);
			assert_int_equal(planned->tables.dense.local.inner.schedule.warmup, 10);
			assert_int_equal(planned->tables.dense.optimizer.kind, WEIR_OPT_SGD);
			assert_int_equal(planned->tables.dense.optimizer.schedule.kind, WEIR_SCHEDULE_CONSTANT);
		}
		job_destroy(planned);
	}
	job_destroy(asking);
}

/* Rounds of the file's own keep their optimizers, and only change their length. */
static void rounds_of_the_file_keep_their_optimizers(void **state)
{
	(void)state;
	static const char *const own[] = {"cluster.servers=1",
	                                  "tables.dense.mode={kind: local, steps: 1, rounds: async, inner: {kind: lion}}",
	                                  "tables.dense.optimizer={kind: sgd, lr: 1}", "tables.dense.push.codec=int8"};
	struct prng rng;
	prng_seed(&rng, 14);
	const struct plan_figures f = random_figures(&rng);
	struct job *job = parse(own, 4);
	const struct plan_site site = plan_site_of(job, &f);
	struct plan_space all;
	plan_space_of(job, &f, &site, PLAN_ALL, &all);
	for (uint32_t i = 0; i < all.counts[PLAN_KEY_MODE]; i++)
		assert_true(plan_mode_steps(all.values[PLAN_KEY_MODE][i]) > 0);
	struct plan_found p = {.setting = plan_as_written(job, &f)};
	struct answers answers;
	p.setting.of[PLAN_KEY_MODE] = PLAN_LOCAL + 16;
	plan_answers(job, &f, &p, &answers);
	assert_int_equal(answers.count, 1);
	assert_string_equal(answers.items[0].set, "tables.dense.mode.steps=16");
	job_destroy(job);
}

/* A codec of the file goes with all of its settings. */
static void another_codec_resets_what_belongs_to_the_first(void **state)
{
	(void)state;
	static const char *const own[] = {"cluster.servers=1", "tables.dense.mode.kind=async",
	                                  "tables.dense.push={codec: topk, density: 0.02, warmup: 100, momentum: 0.9}",
	                                  "tables.dense.pull={codec: int4, book: log, every: 2}"};
	struct prng rng;
	prng_seed(&rng, 13);
	const struct plan_figures f = random_figures(&rng);
	struct job *job = parse(own, 4);
	struct plan_found p = {.setting = plan_as_written(job, &f)};
	struct answers answers;
	struct option_list sets = {.count = 4, .items = {own[0], own[1], own[2], own[3]}};
	p.setting.of[PLAN_KEY_LEGS + PLAN_DENSE_PUSH] = 2;
	p.setting.of[PLAN_KEY_LEGS + PLAN_DENSE_PULL] = 1;
	plan_answers(job, &f, &p, &answers);
	assert_int_equal(answers.count, 2);
	for (uint32_t i = 0; i < answers.count; i++)
		sets.items[sets.count++] = answers.items[i].set;
	struct job *planned = parse(sets.items, sets.count);
	assert_int_equal(planned->tables.dense.push.codec, WEIR_CODEC_INT8);
	assert_int_equal(planned->tables.dense.pull.codec, WEIR_CODEC_BF16);
	job_destroy(planned);
	job_destroy(job);
}

/* Between two batches of one synchronous worker, on a slow card. */
static double step_s(const struct plan_figures *f, bool pulls_by_layer, bool pushes_by_layer)
{
	struct plan_site site = plain_site(1e6);
	site.shared = false;
	site.pulls_by_layer = pulls_by_layer;
	site.pushes_by_layer = pushes_by_layer;
	const struct plan_setting setting = {
	    .of = {[PLAN_KEY_MODE] = PLAN_SYNC, [PLAN_KEY_WORKERS] = 1, [PLAN_KEY_SERVERS] = 1, [PLAN_KEY_EXECUTORS] = 1}};
	const struct plan_traffic traffic = plan_traffic_of(f, &setting);
	struct plan_bill bill;
	plan_bill_of(f, &site, &setting, &traffic, false, &bill);
	return bill.period_s;
}

/* Half of the forward pass, a third of compute, is behind what arrives; half of the backward pass
 * is behind what leaves. */
static void half_of_the_table_travels_while_the_other_half_computes(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 13);
	struct plan_figures f = random_figures(&rng);
	f.dense_elements = 2 * WEIR_MESSAGE_BYTES_TARGET / sizeof(float);
	for (uint32_t layers = 1; layers <= 2; layers++) { /* one of two parts, or two */
		f.layers_count = layers;
		f.layers[0] = f.layers[1] = f.dense_elements / layers;
		const double whole_s = step_s(&f, false, false);
		assert_true(fabs(whole_s - step_s(&f, true, false) - f.compute_one_s / 6) < 1e-9);
		assert_true(fabs(whole_s - step_s(&f, true, true) - f.compute_one_s / 2) < 1e-9);
	}
	f.dense_elements /= 2; /* one part: it waits for all of it */
	f.layers_count = 1;
	f.layers[0] = f.dense_elements;
	assert_true(fabs(step_s(&f, false, false) - step_s(&f, true, true)) < 1e-9);
}

static void figures_survive_json(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 12);
	struct plan_figures f = random_figures(&rng), again;
	f.layers_count = 2;
	f.layers[0] = 10;
	f.layers[1] = 20;
	struct json *j = figures_to_json(&f);
	weir_error err = {0};
	CHECK_OK(figures_from_json(j, &again, &err), err);
	json_destroy(j);
	assert_memory_equal(&f, &again, sizeof f);
}

static void figures_that_lack_a_number_are_refused(void **state)
{
	(void)state;
	struct json *j = NULL;
	struct plan_figures f;
	weir_error err = {0};
	static const char text[] = "{\"cores\": 2, \"rows\": -1}";
	CHECK_OK(json_parse(text, strlen(text), "t", &j, &err), err);
	assert_int_equal(figures_from_json(j, &f, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "rows"));
	json_destroy(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(branch_and_bound_finds_what_enumeration_finds),
	    cmocka_unit_test(the_best_come_in_order),
	    cmocka_unit_test(buckets_expose_the_least),
	    cmocka_unit_test(a_free_network_leaves_computing),
	    cmocka_unit_test(a_rehearsal_corrects_every_bill),
	    cmocka_unit_test(a_slow_card_is_the_limit),
	    cmocka_unit_test(a_step_waits_for_the_slowest),
	    cmocka_unit_test(processes_share_the_cores),
	    cmocka_unit_test(only_keys_that_ask_are_chosen),
	    cmocka_unit_test(answers_make_the_job_that_was_planned),
	    cmocka_unit_test(rounds_of_the_file_keep_their_optimizers),
	    cmocka_unit_test(another_codec_resets_what_belongs_to_the_first),
	    cmocka_unit_test(half_of_the_table_travels_while_the_other_half_computes),
	    cmocka_unit_test(figures_survive_json),
	    cmocka_unit_test(figures_that_lack_a_number_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
