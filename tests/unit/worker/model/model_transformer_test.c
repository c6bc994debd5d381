/* Transformers from a job: shape by its keys or by a model folder, facts for the fingerprint, and
 * refused combinations. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/model/adapter_folder.h"
#include "worker/model/model.h"

static struct job small_job(enum model_kind kind)
{
	struct job job = {0};
	job.model.kind = kind;
	job.model.layers = 2;
	job.model.heads = 4;
	job.model.width = 24;
	job.model.norm_eps = 1e-5f;
	job.model.rope_theta = 10000;
	job.model.lora.alpha = 16;
	job.data.format = DATA_TOKENS;
	job.data.sequence = 8;
	return job;
}

static struct model *create(struct backend *b, const struct job *job, uint32_t vocabulary)
{
	weir_error err = {0};
	struct model *m = NULL;
	const struct model_data data = {.vocabulary = vocabulary};
	if (model_create(&m, b, job, &data, &err) != WEIR_OK)
		fail_msg("%s", err.text);
	return m;
}

static const char *fact(const struct model *m, const char *key)
{
	static struct model_fact facts[MODEL_FACTS_MAX];
	const uint32_t count = model_facts(m, facts);
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(facts[i].key, key) == 0)
			return facts[i].value;
	return "";
}

static void keys_give_the_shape(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *b = backend_cpu_create(1, &err);
	struct job job = small_job(MODEL_LLAMA);
	job.model.kv_heads = 2;
	struct model *m = create(b, &job, 256);
	assert_false(model_has(m, MODEL_EMBEDDING) || model_has(m, MODEL_LINEAR) || model_has(m, MODEL_STATISTICS));
	assert_true(model_is_whole_transformer(m));
	assert_int_equal(model_row_scores(m), 8);
	assert_string_equal(fact(m, "model.kind"), "llama");
	assert_string_equal(fact(m, "model.vocabulary"), "256");
	/* 8/3 of 24, rounded up to a multiple of 32 */
	assert_string_equal(fact(m, "model.feed_forward"), "64");
	assert_string_equal(fact(m, "model.kv_heads"), "2");
	const struct tensor *k = layout_find(model_layout(m, MODEL_DENSE), "model.layers.1.self_attn.k_proj.weight");
	assert_true(k != NULL && k->rows == 12 && k->cols == 24);
	/* an untied head */
	assert_non_null(layout_find(model_layout(m, MODEL_DENSE), "lm_head.weight"));
	assert_true(model_row_flops(m) == 8 * (6.0 * (double)model_table_elements(m, MODEL_DENSE) + 12 * 2 * 24 * 8));
	model_destroy(m);
	job = small_job(MODEL_GPT2);
	job.model.tied_head = true;
	job.model.vocabulary = 300;
	job.model.positions = 20;
	m = create(b, &job, 256);
	const struct tensor *t = layout_find(model_layout(m, MODEL_DENSE), "transformer.wte.weight"),
	                    *p = layout_find(model_layout(m, MODEL_DENSE), "transformer.wpe.weight"),
	                    *c = layout_find(model_layout(m, MODEL_DENSE), "transformer.h.0.attn.c_attn.weight");
	assert_true(t != NULL && t->rows == 300 && p != NULL && p->rows == 20 && c != NULL && c->rows == 24 && c->cols == 72);
	assert_null(layout_find(model_layout(m, MODEL_DENSE), "lm_head.weight"));
	model_destroy(m);
	b->ops->destroy(b);
}

/* The loss is a mean over the counted targets. A batch without any has no gradient. */
static void gradients_are_of_the_targets_that_count(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *b = backend_cpu_create(1, &err);
	const struct job job = small_job(MODEL_GPT2);
	struct model *m = create(b, &job, 16);
	const size_t n = model_table_elements(m, MODEL_DENSE);
	float *weights = malloc(n * sizeof *weights), *gradients[3];
	for (size_t i = 0; i < n; i++)
		weights[i] = 0.1f * sinf((float)i);
	uint32_t tokens[16], targets[16];
	for (uint32_t i = 0; i < 16; i++)
		tokens[i] = targets[i] = i % 8 * 2; /* two equal rows */
	double losses[3];
	assert_int_equal(model_reserve(m, 2, true, &err), WEIR_OK);
	for (uint32_t run = 0; run < 3; run++) { /* both rows count, one, none */
		const uint64_t seed = 1;
		for (uint32_t i = 0; i < 16; i++)
			targets[i] = i / 8 < run ? TARGET_NONE : tokens[i];
		const struct model_input in = {.rows = 2,
		                               .sequence = 8,
		                               .counted = 16 - 8 * run,
		                               .tokens = tokens,
		                               .targets = targets,
		                               .parameters = {[MODEL_DENSE] = weights}};
		gradients[run] = malloc(n * sizeof **gradients);
		losses[run] = 77;
		const struct model_output out = {.gradients = {[MODEL_DENSE] = gradients[run]}, .loss_sum = &losses[run]};
		model_train(m, &in, &seed, &out);
	}
	assert_true(losses[0] > 1 && fabs(losses[0] - 2 * losses[1]) < 1e-6 * losses[0] && losses[2] == 0);
	for (size_t i = 0; i < n; i++) {
		assert_true(fabsf(gradients[0][i] - gradients[1][i]) <= 1e-6f);
		assert_true(gradients[2][i] == 0);
	}
	for (int run = 0; run < 3; run++)
		free(gradients[run]);
	free(weights);
	model_destroy(m);
	b->ops->destroy(b);
}

/* --- Parts of a batch */

enum { ROWS = 5, LENGTH = 8, VOCABULARY = 16 };

struct parted {
	size_t elements, bytes; /* bytes: of the largest reserved buffer */
	float *gradients;
	double loss, norm;
};

static const struct backend_ops *plain_ops;
static size_t bytes_most;

static void *note_buffer(struct backend *b, size_t bytes)
{
	bytes_most = bytes > bytes_most ? bytes : bytes_most;
	return plain_ops->buffer_alloc(b, bytes);
}

static double norm_of(const float *x, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sqrt(sum);
}

/* A batch in `parts` parts, then clipped. Its third row has no counted target; the others have
 * some. */
static struct parted train_in_parts(struct backend *b, uint32_t parts, float clip_norm)
{
	weir_error err = {0};
	struct job job = small_job(MODEL_GPT2);
	job.model.dropout = 0.1f;
	job.data.batch = ROWS;
	job.train.accumulate = parts;
	struct model *m = create(b, &job, VOCABULARY);
	struct parted p = {.elements = model_table_elements(m, MODEL_DENSE)};
	float *weights = malloc(p.elements * sizeof *weights);
	p.gradients = malloc(p.elements * sizeof *p.gradients);
	for (size_t i = 0; i < p.elements; i++) {
		weights[i] = 0.1f * sinf((float)i);
		p.gradients[i] = NAN;
	}
	uint32_t tokens[ROWS * LENGTH], targets[ROWS * LENGTH];
	struct model_input in = {
	    .rows = ROWS, .sequence = LENGTH, .tokens = tokens, .targets = targets, .parameters = {[MODEL_DENSE] = weights}};
	for (uint32_t i = 0; i < ROWS * LENGTH; i++) {
		tokens[i] = i * i % VOCABULARY;
		targets[i] = i / LENGTH == 2 || i % 3 == 0 ? TARGET_NONE : (i + 1) * (i + 1) % VOCABULARY;
		in.counted += targets[i] != TARGET_NONE;
	}
	const uint64_t seed = 9;
	double squares;
	const struct model_output out = {.gradients = {[MODEL_DENSE] = p.gradients}, .loss_sum = &p.loss, .squares = &squares};
	bytes_most = 0;
	assert_int_equal(model_reserve(m, ROWS, true, &err), WEIR_OK);
	p.bytes = bytes_most;
	model_train(m, &in, &seed, &out);
	assert_int_equal(model_measure(m, &in, &out), 1);
	model_clip(m, &in, &out, clip_norm);
	p.norm = norm_of(p.gradients, p.elements);
	free(weights);
	model_destroy(m);
	return p;
}

static void check_parts(const struct parted *got, const struct parted *want, uint32_t parts)
{
	assert_true(fabs(got->loss - want->loss) < 1e-6 * want->loss && fabs(got->norm - want->norm) < 1e-5 * want->norm);
	for (size_t i = 0; i < want->elements; i++)
		if (!(fabs((double)got->gradients[i] - (double)want->gradients[i]) < 1e-6 * want->norm))
			fail_msg("in %u parts gradient[%zu] is %g, whole %g", parts, i, (double)got->gradients[i],
			         (double)want->gradients[i]);
}

/* For any number of parts, also if it does not divide the rows, the gradient and its clipped form
 * are the whole batch's. */
static void parts_add_up_to_the_batch(void **state)
{
	static const float limits[] = {1e30f, 0.125f};
	(void)state;
	weir_error err = {0};
	struct backend *b = backend_cpu_create(1, &err);
	struct backend_ops noting = *b->ops;
	plain_ops = b->ops;
	noting.buffer_alloc = note_buffer;
	b->ops = &noting;
	for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
		struct parted whole = train_in_parts(b, 1, limits[l]);
		assert_true(l == 0 ? whole.norm > 0.2 : fabs(whole.norm - (double)limits[l]) < 1e-6);
		for (uint32_t parts = 2; parts <= ROWS; parts++) {
			struct parted p = train_in_parts(b, parts, limits[l]);
			check_parts(&p, &whole, parts);
			/* the largest part has 3 rows; 2 or 1 */
			assert_true(p.bytes * 10 < whole.bytes * (parts == 2 ? 7 : 5));
			free(p.gradients);
		}
		free(whole.gradients);
	}
	b->ops->destroy(b);
}

/* Writes adapters of two projections per layer, a valid start for the other tests. */
static void write_adapters(struct backend *b, struct job job, const char *folder)
{
	static char *targets[] = {"k_proj", "down_proj"};
	job.model.lora.rank = 3;
	job.model.lora.alpha = 6;
	job.model.lora.targets = targets;
	job.model.lora.targets_count = 2;
	struct model *m = create(b, &job, 61);
	float *zeros = calloc(model_table_elements(m, MODEL_DENSE), sizeof *zeros);
	const struct model_folder f = {.path = folder, .base = job.model.from, .replace = true};
	weir_error err = {0};
	if (adapter_folder_write(&f, TRANSFORMER_LLAMA, transformer_lora_of(model_transformer(m)), model_layout(m, MODEL_DENSE),
	                         zeros, &err) != WEIR_OK)
		fail_msg("%s", err.text);
	free(zeros);
	model_destroy(m);
}

static void folders_give_the_shape_of_adapters(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *b = backend_cpu_create(1, &err);
	struct job job = small_job(MODEL_LLAMA);
	char folder[] = "/tmp/weir-model-adapters-XXXXXX";
	assert_non_null(mkdtemp(folder));
	snprintf(job.model.from, sizeof job.model.from, "%s/llama", GOLDEN_DIR);
	write_adapters(b, job, folder);
	snprintf(job.model.lora.from, sizeof job.model.lora.from, "%s", folder);
	job.model.lora.dropout = 0.5f;
	struct model *m = create(b, &job, 61);
	const struct lora_options *lora = transformer_lora_of(model_transformer(m));
	assert_true(lora->rank == 3 && lora->alpha > 5.9f && lora->alpha < 6.1f && lora->dropout > 0.4f);
	assert_true(lora->targets[LORA_k_proj] && lora->targets[LORA_down_proj] && !lora->targets[LORA_q_proj]);
	assert_int_equal(model_layout(m, MODEL_DENSE)->count, 8);
	assert_string_equal(fact(m, "model.lora.alpha"), "6");
	model_destroy(m);
	static const char *const files[] = {"adapter_config.json", "adapter_model.safetensors"};
	for (int i = 0; i < 2; i++) {
		char path[96];
		snprintf(path, sizeof path, "%s/%s", folder, files[i]);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(folder), 0);
	b->ops->destroy(b);
}

static void expect_refused(struct backend *b, const struct job *job, uint32_t vocabulary, weir_status status, const char *says)
{
	weir_error err = {0};
	struct model *m = NULL;
	const struct model_data data = {.vocabulary = vocabulary};
	const weir_status got = model_create(&m, b, job, &data, &err);
	if (got != status || strstr(err.text, says) == NULL || m != NULL)
		fail_msg("%s (%s), expected %s (%s)", weir_status_name(got), err.text, weir_status_name(status), says);
}

static void folders_give_the_shape_and_what_is_frozen(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *b = backend_cpu_create(1, &err);
	struct job job = small_job(MODEL_LLAMA);
	snprintf(job.model.from, sizeof job.model.from, "%s/llama", GOLDEN_DIR);
	struct model *m = create(b, &job, 61);
	assert_true(model_is_whole_transformer(m));
	assert_string_equal(fact(m, "model.width"), "20");
	model_destroy(m);
	job.model.lora.rank = 4;
	m = create(b, &job, 61);
	assert_false(model_is_whole_transformer(m));
	/* q_proj and v_proj of two layers, A and B */
	assert_int_equal(model_layout(m, MODEL_DENSE)->count, 8);
	assert_string_equal(fact(m, "model.lora.rank"), "4");
	assert_string_equal(fact(m, "model.lora.alpha"), "16");
	const struct transformer_config *c = transformer_config_of(model_transformer(m));
	/* without gradients */
	const double frozen = (double)transformer_weights(model_transformer(m))->elements,
	             of_a_token = 6.0 * (double)model_table_elements(m, MODEL_DENSE) + 4 * frozen +
	                          12.0 * c->layers * c->heads * c->head_dim * 8;
	assert_true(model_row_flops(m) == 8 * of_a_token);
	model_destroy(m);
	char *targets[] = {"down_proj"};
	job.model.lora.targets = targets;
	job.model.lora.targets_count = 1;
	m = create(b, &job, 61);
	assert_non_null(layout_find(model_layout(m, MODEL_DENSE), "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight"));
	model_destroy(m);
	targets[0] = "c_fc";
	expect_refused(b, &job, 61, WEIR_E_UNSUPPORTED, "c_fc: this model has q_proj");
	job.model.lora.rank = 0;
	expect_refused(b, &job, 62, WEIR_E_INVALID, "data.tokenizer has 62 tokens, and the model embeds 61 (vocab_size");
	job.data.sequence = 65;
	expect_refused(b, &job, 61, WEIR_E_INVALID, "data.sequence is 65, and the model has positions for 64");
	job.data.sequence = 8;
	job.model.kind = MODEL_GPT2;
	expect_refused(b, &job, 61, WEIR_E_INVALID, "is of a llama, and model.kind is gpt2");
	snprintf(job.model.from, sizeof job.model.from, "%s/none", GOLDEN_DIR);
	expect_refused(b, &job, 61, WEIR_E_NOT_FOUND, "none/config.json");
	b->ops->destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys_give_the_shape),
	    cmocka_unit_test(gradients_are_of_the_targets_that_count),
	    cmocka_unit_test(parts_add_up_to_the_batch),
	    cmocka_unit_test(folders_give_the_shape_and_what_is_frozen),
	    cmocka_unit_test(folders_give_the_shape_of_adapters),
	};
	return cmocka_run_group_tests_name("model_transformer", tests, NULL, NULL);
}
