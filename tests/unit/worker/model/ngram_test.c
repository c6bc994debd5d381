/* The n-gram model against its formula in float64: probabilities, loss, and each gradient element
 * by central differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "tests/unit/worker/model/near.h"
#include "worker/model/model.h"

enum { ROWS = 7, CONTEXT = 3, DIM = 4, HIDDEN = 6, LAST = 5, TOKENS = 256 };

struct fixture {
	struct job job;
	struct backend *backend;
	struct model *model;
	struct model_input in;
	struct model_output out;
	uint32_t tokens[ROWS * CONTEXT], targets[ROWS];
	float *parameters[MODEL_TABLES];
	size_t elements[MODEL_TABLES];
	double loss_sum;
	double *exact; /* (elements of the dense table), float64 copies to be perturbed */
};

static struct fixture *fixture_open(bool batch_norm, float dropout, uint32_t threads)
{
	struct fixture *f = calloc(1, sizeof *f);
	weir_error err = {0};
	struct prng r;
	prng_seed(&r, 31);
	f->job.data.context = CONTEXT;
	f->job.model.kind = MODEL_NGRAM;
	f->job.model.dim = DIM;
	f->job.model.hidden[0] = HIDDEN;
	f->job.model.hidden[1] = LAST;
	f->job.model.hidden_count = 2;
	f->job.model.batch_norm = batch_norm;
	f->job.model.dropout = dropout;
	f->job.model.init_std = 0.5f;
	f->backend = backend_cpu_create(threads, &err);
	assert_non_null(f->backend);
	assert_int_equal(model_create(&f->model, f->backend, &f->job, &(struct model_data){0}, &err), WEIR_OK);
	assert_int_equal(model_reserve(f->model, ROWS, true, &err), WEIR_OK);
	/* some keys occur twice in a context, some never; also the first and the last key */
	for (uint32_t i = 0; i < ROWS * CONTEXT; i++)
		f->tokens[i] = i % 4 == 0 ? 255 * (i % 8 / 4) : (uint32_t)prng_below(&r, 5) * 40;
	for (uint32_t i = 0; i < ROWS; i++)
		f->targets[i] = i == 0 ? 0 : i == 1 ? 255 : (uint32_t)prng_below(&r, TOKENS);
	f->in = (struct model_input){.rows = ROWS, .tokens = f->tokens, .targets = f->targets};
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		f->elements[t] = model_table_elements(f->model, t);
		f->parameters[t] = f->backend->ops->buffer_alloc(f->backend, f->elements[t] * sizeof(float) + 64);
		f->out.gradients[t] = f->backend->ops->buffer_alloc(f->backend, f->elements[t] * sizeof(float) + 64);
		for (size_t i = 0; i < f->elements[t]; i++) /* variances must be positive */
			f->parameters[t][i] = t == MODEL_STATISTICS ? 0.5f + (float)prng_unit(&r) : 0.5f * prng_normal(&r);
		f->in.parameters[t] = f->parameters[t];
	}
	f->out.loss_sum = &f->loss_sum;
	f->exact = malloc(f->elements[MODEL_DENSE] * sizeof *f->exact);
	for (size_t i = 0; i < f->elements[MODEL_DENSE]; i++)
		f->exact[i] = (double)f->parameters[MODEL_DENSE][i];
	return f;
}

static void fixture_close(struct fixture *f)
{
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		f->backend->ops->buffer_free(f->backend, f->parameters[t]);
		f->backend->ops->buffer_free(f->backend, f->out.gradients[t]);
	}
	model_destroy(f->model);
	f->backend->ops->destroy(f->backend);
	free(f->exact);
	free(f);
}

static const double *tensor(const struct fixture *f, const char *format, unsigned layer)
{
	char name[64];
	snprintf(name, sizeof name, format, layer);
	const struct tensor *t = layout_find(model_layout(f->model, MODEL_DENSE), name);
	return t == NULL ? NULL : f->exact + t->offset;
}

static const float *statistic(const struct fixture *f, const char *format, unsigned layer)
{
	char name[64];
	snprintf(name, sizeof name, format, layer);
	return f->parameters[MODEL_STATISTICS] + layout_find(model_layout(f->model, MODEL_STATISTICS), name)->offset;
}

typedef double matrix[ROWS][CONTEXT * DIM];

static void normalise(const struct fixture *f, unsigned layer, bool training, matrix z, uint32_t n)
{
	const double *gamma = tensor(f, "tower.%u.norm.weight", layer), *beta = tensor(f, "tower.%u.norm.bias", layer);
	for (uint32_t j = 0; j < n; j++) {
		double mean = 0, var = 0;
		for (uint32_t i = 0; i < ROWS; i++)
			mean += z[i][j] / ROWS;
		for (uint32_t i = 0; i < ROWS; i++)
			var += (z[i][j] - mean) * (z[i][j] - mean) / ROWS;
		if (!training) {
			mean = (double)statistic(f, "tower.%u.norm.running_mean", layer)[j];
			var = (double)statistic(f, "tower.%u.norm.running_var", layer)[j];
		}
		for (uint32_t i = 0; i < ROWS; i++)
			z[i][j] = gamma[j] * (z[i][j] - mean) / sqrt(var + 1e-5) + beta[j];
	}
}

/* One layer of the tower: x (ROWS, in) to (ROWS, out). */
static void layer_of(const struct fixture *f, unsigned layer, bool training, matrix x, uint32_t in, uint32_t out)
{
	matrix z;
	const double *w = tensor(f, "tower.%u.weight", layer), *bias = tensor(f, "tower.%u.bias", layer);
	for (uint32_t i = 0; i < ROWS; i++)
		for (uint32_t o = 0; o < out; o++) {
			z[i][o] = f->job.model.batch_norm ? 0 : bias[o];
			for (uint32_t k = 0; k < in; k++)
				z[i][o] += w[o * in + k] * x[i][k];
		}
	if (f->job.model.batch_norm)
		normalise(f, layer, training, z, out);
	for (uint32_t i = 0; i < ROWS; i++)
		for (uint32_t o = 0; o < out; o++)
			x[i][o] = fmax(z[i][o], 0);
}

/* Computes scores (ROWS) and returns the mean loss. */
static double reference(const struct fixture *f, bool training, double *scores)
{
	matrix x;
	const double *embedding = tensor(f, "embedding.weight", 0), *head = tensor(f, "head.weight", 0),
	             *bias = tensor(f, "head.bias", 0);
	for (uint32_t i = 0; i < ROWS; i++)
		for (uint32_t k = 0; k < CONTEXT * DIM; k++)
			x[i][k] = embedding[f->tokens[i * CONTEXT + k / DIM] * DIM + k % DIM];
	layer_of(f, 0, training, x, CONTEXT * DIM, HIDDEN);
	layer_of(f, 1, training, x, HIDDEN, LAST);
	double loss = 0;
	for (uint32_t i = 0; i < ROWS; i++) {
		double z[TOKENS], sum = 0;
		for (uint32_t t = 0; t < TOKENS; t++) {
			z[t] = bias[t];
			for (uint32_t k = 0; k < LAST; k++)
				z[t] += head[t * LAST + k] * x[i][k];
			sum += exp(z[t]);
		}
		scores[i] = z[f->targets[i]] - log(sum);
		loss -= scores[i] / ROWS;
	}
	return loss;
}

static void train(struct fixture *f, uint64_t seed)
{
	model_train(f->model, &f->in, &seed, &f->out);
}

static void check(bool batch_norm)
{
	struct fixture *f = fixture_open(batch_norm, 0, 1);
	double scores[ROWS];
	const double step = 1e-6;
	(void)reference(f, false, scores);
	const float *got = model_score(f->model, &f->in);
	for (uint32_t i = 0; i < ROWS; i++)
		expect_near((double)got[i], scores[i], 2e-6, "score", i);
	train(f, 1);
	expect_near(f->loss_sum / ROWS, reference(f, true, scores), 1e-6, "loss", 0);
	for (size_t i = 0; i < f->elements[MODEL_DENSE]; i++) {
		const double value = f->exact[i];
		f->exact[i] = value + step;
		const double up = reference(f, true, scores);
		f->exact[i] = value - step;
		const double down = reference(f, true, scores);
		f->exact[i] = value;
		expect_near((double)f->out.gradients[MODEL_DENSE][i], (up - down) / (2 * step), 2e-5, "gradient", i);
	}
	fixture_close(f);
}

static void scores_and_gradients_are_those_of_the_formula(void **state)
{
	(void)state;
	check(false);
	check(true);
}

static void all_of_it_is_in_dense_tables(void **state)
{
	(void)state;
	struct fixture *f = fixture_open(true, 0, 1);
	assert_false(model_has(f->model, MODEL_EMBEDDING) || model_has(f->model, MODEL_LINEAR));
	assert_true(model_has(f->model, MODEL_STATISTICS));
	const size_t norms = 2 * (HIDDEN + LAST);
	assert_int_equal(f->elements[MODEL_DENSE],
	                 TOKENS * DIM + CONTEXT * DIM * HIDDEN + HIDDEN * LAST + norms + TOKENS * LAST + TOKENS);
	struct model_fact facts[MODEL_FACTS_MAX];
	assert_int_equal(model_facts(f->model, facts), 5);
	assert_string_equal(facts[0].value, "ngram");
	assert_string_equal(facts[1].key, "data.context");
	assert_string_equal(facts[1].value, "3");
	assert_string_equal(facts[3].value, "[6, 5]");
	fixture_close(f);
}

/* Equal batch, seed and threads give equal bits, also in another model object. With dropout another
 * seed gives other bits. */
static void gradients_repeat_bit_for_bit(void **state)
{
	(void)state;
	for (uint32_t threads = 1; threads <= 2; threads++) {
		struct fixture *f = fixture_open(true, 0.5f, threads), *g = fixture_open(true, 0.5f, threads);
		const size_t bytes = f->elements[MODEL_DENSE] * sizeof(float);
		train(f, 5);
		train(g, 6);
		assert_memory_not_equal(f->out.gradients[MODEL_DENSE], g->out.gradients[MODEL_DENSE], bytes);
		train(g, 5);
		assert_memory_equal(f->out.gradients[MODEL_DENSE], g->out.gradients[MODEL_DENSE], bytes);
		assert_true(f->loss_sum == g->loss_sum);
		fixture_close(f);
		fixture_close(g);
	}
}

static void misfits_name_the_key(void **state)
{
	(void)state;
	struct fixture *f = fixture_open(false, 0, 1);
	struct job job = f->job;
	struct model *m = NULL;
	weir_error err = {0};
	job.model.hidden_count = 0;
	assert_int_equal(model_create(&m, NULL, &job, &(struct model_data){0}, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "model.hidden"));
	job = f->job;
	job.data.context = 0;
	assert_int_equal(model_create(&m, NULL, &job, &(struct model_data){0}, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "data.context"));
	fixture_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(scores_and_gradients_are_those_of_the_formula),
	    cmocka_unit_test(all_of_it_is_in_dense_tables),
	    cmocka_unit_test(gradients_repeat_bit_for_bit),
	    cmocka_unit_test(misfits_name_the_key),
	};
	return cmocka_run_group_tests_name("ngram", tests, NULL, NULL);
}
