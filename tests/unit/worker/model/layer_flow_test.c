/* Models follow their dense table layer by layer. Parameters are NaN until they are awaited, so a
 * layer that does not wait shows in the gradients; gradients are copied when they are called final,
 * so one that changes later shows, too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "worker/model/model.h"

enum { ROWS = 6, FIELDS = 3, NUMBERS = 4, UNIQUE = 9, SEQUENCE = 8, VOCABULARY = 20 };

struct fixture {
	struct job job;
	struct backend *backend;
	struct model *model;
	struct model_input in;
	struct model_output out;
	float labels[ROWS], numbers[ROWS * NUMBERS];
	uint32_t offsets[ROWS * FIELDS + 1], row_offsets[ROWS + 1], index[ROWS * FIELDS];
	uint32_t tokens[ROWS * SEQUENCE], targets[ROWS * SEQUENCE];
	uint64_t seed, elements;
	double loss_sum;
	/* --- of the dense table (elements) */
	float *values;     /* as they would arrive */
	float *parameters; /* as they have arrived */
	float *expected, *left;
	bool *named;
	/* of the last call; calls */
	uint64_t awaited, done, awaits, dones;
	bool falls; /* gradients are called final from the last element to the first */
};

static void await(void *arg, uint64_t offset, uint64_t elements)
{
	struct fixture *f = arg;
	assert_true(offset + elements <= f->elements);
	memcpy(f->parameters + offset, f->values + offset, elements * sizeof *f->values);
	f->awaited = offset;
	f->awaits++;
}

static void done(void *arg, uint64_t offset, uint64_t elements)
{
	struct fixture *f = arg;
	assert_true(offset + elements <= f->elements);
	for (uint64_t i = offset; i < offset + elements; i++) {
		assert_false(f->named[i]);
		f->named[i] = true;
		f->left[i] = f->out.gradients[MODEL_DENSE][i];
	}
	f->falls &= f->dones == 0 || offset + elements <= f->done;
	f->done = offset;
	f->dones++;
}

static void fill_clicks(struct fixture *f, struct prng *r)
{
	for (uint32_t i = 0; i < ROWS; i++)
		f->labels[i] = (float)prng_below(r, 2);
	for (uint32_t i = 0; i < ROWS * NUMBERS; i++)
		f->numbers[i] = prng_normal(r);
	for (uint32_t i = 0; i < ROWS * FIELDS; i++) {
		f->offsets[i + 1] = i + 1;
		f->index[i] = i % UNIQUE;
	}
	for (uint32_t i = 0; i <= ROWS; i++)
		f->row_offsets[i] = f->offsets[i * FIELDS];
	f->in = (struct model_input){.rows = ROWS,
	                             .labels = f->labels,
	                             .dense = f->numbers,
	                             .offsets = f->offsets,
	                             .row_offsets = f->row_offsets,
	                             .index = f->index,
	                             .unique = UNIQUE,
	                             .uses = ROWS * FIELDS};
}

static void fill_tokens(struct fixture *f, struct prng *r)
{
	for (uint32_t i = 0; i < ROWS * SEQUENCE; i++) {
		f->tokens[i] = (uint32_t)prng_below(r, VOCABULARY);
		f->targets[i] = (uint32_t)prng_below(r, VOCABULARY);
	}
	f->in = (struct model_input){
	    .rows = ROWS, .sequence = SEQUENCE, .counted = ROWS * SEQUENCE, .tokens = f->tokens, .targets = f->targets};
}

static struct fixture *open(const struct job *job)
{
	struct fixture *f = calloc(1, sizeof *f);
	weir_error err = {0};
	struct prng r;
	const bool tokens = job->data.sequence > 0;
	const struct model_data data = {.tasks = 1, .fields = FIELDS, .dense_dim = NUMBERS, .vocabulary = VOCABULARY};
	f->job = *job;
	f->seed = 5;
	prng_seed(&r, 23);
	f->backend = backend_cpu_create(1, &err);
	assert_non_null(f->backend);
	CHECK_OK(model_create(&f->model, f->backend, &f->job, &data, &err), err);
	CHECK_OK(model_reserve(f->model, ROWS, true, &err), err);
	(tokens ? fill_tokens : fill_clicks)(f, &r);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		const size_t n = model_table_elements(f->model, t) * (model_table_is_keyed(t) ? UNIQUE : 1);
		float *values = malloc((n + 1) * sizeof *values);
		for (size_t i = 0; i < n; i++)
			values[i] = 0.3f * prng_normal(&r);
		f->in.parameters[t] = values;
		f->out.gradients[t] = malloc((n + 1) * sizeof *values);
	}
	f->elements = model_table_elements(f->model, MODEL_DENSE);
	f->values = (float *)f->in.parameters[MODEL_DENSE];
	f->parameters = malloc(f->elements * sizeof *f->parameters);
	f->expected = malloc(f->elements * sizeof *f->expected);
	f->left = malloc(f->elements * sizeof *f->left);
	f->named = calloc(f->elements, sizeof *f->named);
	f->out.loss_sum = &f->loss_sum;
	return f;
}

static void close(struct fixture *f)
{
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		free((float *)f->in.parameters[t]);
		free(f->out.gradients[t]);
	}
	model_destroy(f->model);
	f->backend->ops->destroy(f->backend);
	free(f->parameters);
	free(f->expected);
	free(f->left);
	free(f->named);
	free(f);
}

/* Trains a batch whole and by layers, and compares. parts: parameters that are awaited, and
 * gradients that are called final, apart; at least. */
static void check(const struct job *job, uint64_t parts)
{
	struct fixture *f = open(job);
	const struct layer_flow flow = {.await = await, .done = done, .arg = f};
	const size_t bytes = f->elements * sizeof(float);
	model_train(f->model, &f->in, &f->seed, &f->out);
	memcpy(f->expected, f->out.gradients[MODEL_DENSE], bytes);
	for (uint64_t i = 0; i < f->elements; i++)
		f->parameters[i] = f->out.gradients[MODEL_DENSE][i] = NAN;
	f->in.parameters[MODEL_DENSE] = f->parameters;
	f->in.flow = &flow;
	f->falls = true;
	model_train(f->model, &f->in, &f->seed, &f->out);
	assert_memory_equal(f->out.gradients[MODEL_DENSE], f->expected, bytes);
	for (uint64_t i = 0; i < f->elements; i++)
		if (f->named[i])
			assert_memory_equal(&f->left[i], &f->expected[i], sizeof(float));
	assert_true(f->awaits > 0 && f->awaits >= parts);
	assert_true(f->dones >= parts);
	assert_true(f->falls || job->data.sequence == 0); /* terms of a click model have no order */
	f->in.parameters[MODEL_DENSE] = f->values;
	close(f);
}

static struct job click_job(enum model_kind kind)
{
	struct job job = {.model = {.kind = kind,
	                            .dim = 4,
	                            .hidden = {6, 5, 4},
	                            .hidden_count = 3,
	                            .bottom = {5, 4},
	                            .bottom_count = 2,
	                            .cross_layers = 2,
	                            .experts = 2,
	                            .rank = 2,
	                            .task_hidden = {4},
	                            .task_hidden_count = 1,
	                            .cin = {5, 3},
	                            .cin_count = 2,
	                            .init_std = 0.5f}};
	job.train.loss.pos_weight = 1;
	return job;
}

static void click_models(void **state)
{
	(void)state;
	static const enum model_kind kinds[] = {MODEL_LR,      MODEL_FM,      MODEL_WIDE_DEEP, MODEL_DEEPFM,        MODEL_DCN_V2,
	                                        MODEL_DCN_MIX, MODEL_XDEEPFM, MODEL_DLRM,      MODEL_SHARED_BOTTOM, MODEL_MMOE};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct job job = click_job(kinds[i]);
		check(&job, 0);
	}
}

static void a_tower_goes_layer_by_layer(void **state)
{
	(void)state;
	struct job job = click_job(MODEL_DEEPFM);
	check(&job, 4); /* the head, three layers */
	job.model.batch_norm = true;
	job.model.dropout = 0.3f;
	check(&job, 4);
}

static void a_large_layer_goes_in_blocks(void **state)
{
	(void)state;
	struct job job = click_job(MODEL_DEEPFM);
	job.model.hidden[0] = 1100;
	job.model.hidden[1] = 300;
	check(&job, 6); /* the head; the last layer; the second one's bias and two blocks; the first layer */
	job.model.hidden_count = 2;
	check(&job, 6); /* the head; the last layer's bias and three blocks; the first layer */
	job.model.batch_norm = true;
	check(&job, 6);
}

static struct job token_job(enum model_kind kind)
{
	struct job job = {
	    .model = {.kind = kind, .layers = 3, .heads = 2, .width = 12, .norm_eps = 1e-5f, .rope_theta = 10000, .init_std = 0.2f}};
	job.model.kv_heads = kind == MODEL_LLAMA ? 1 : 0;
	job.data = (typeof(job.data)){.format = DATA_TOKENS, .sequence = SEQUENCE, .batch = ROWS};
	job.train.accumulate = 1;
	return job;
}

static void transformers_go_tensor_by_tensor(void **state)
{
	(void)state;
	static const enum model_kind kinds[] = {MODEL_GPT2, MODEL_LLAMA};
	for (size_t i = 0; i < 2; i++) {
		struct job job = token_job(kinds[i]);
		check(&job, 20); /* the head, the last norm, and of three layers four projections and two norms */
		job.model.tied_head = true;
		check(&job, 19);
		job.model.recompute = RECOMPUTE_LAYERS;
		job.model.dropout = 0.2f;
		check(&job, 19);
		job.train.accumulate = 3; /* the last part alone has final gradients */
		check(&job, 19);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(click_models),
	    cmocka_unit_test(a_tower_goes_layer_by_layer),
	    cmocka_unit_test(a_large_layer_goes_in_blocks),
	    cmocka_unit_test(transformers_go_tensor_by_tensor),
	};
	return cmocka_run_group_tests_name("layer_flow", tests, NULL, NULL);
}
