/* Transformers against PyTorch on small models of random weights (tests/golden/llm), and on the
 * small Llama of the test data if it is installed. Accumulation, recomputation, dropout and
 * low-rank adapters against the whole model. */
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

#include "common/base/prng.h"
#include "tests/rounds.h"
#include "tests/unit/worker/model/llm_parity.h"
#include "worker/model/model_folder.h"
#if defined(WEIR_CUDA_HOST)
#include "tests/cuda_host/cuda_host.h"
#endif

#define COUNT(a)  (sizeof(a) / sizeof *(a))
#define SEQUENCES 3
#define LENGTH    9
#define ROWS      (SEQUENCES * LENGTH)

static const char *const models[] = {"gpt2", "llama", "llama_biased"};

/* --- On the CPU and on an emulated device */

static void on_the_emulated_device(enum compute_precision precision, void (*fn)(struct backend *b))
{
#if defined(WEIR_CUDA_HOST)
	weir_error err = {0};
	cuda_host_reset();
	struct backend *b = weir_backend_cuda_create(&(struct backend_options){.device = "cuda", .precision = precision}, &err);
	if (b == NULL)
		fail_msg("%s", err.text);
	fn(b);
	b->ops->destroy(b);
	assert_int_equal(cuda_host_allocated(), 0);
#else
	(void)precision, (void)fn;
#endif
}

static void on_backends(void (*fn)(struct backend *b))
{
	weir_error err = {0};
	for (uint32_t threads = 1; threads <= 2; threads++) {
		struct backend *b = backend_cpu_create(threads, &err);
		assert_non_null(b);
		fn(b);
		b->ops->destroy(b);
	}
	on_the_emulated_device(COMPUTE_FP32, fn);
}

/* --- Parity */

static void expect_within(double error, double most, const char *what, const char *of, const char *model)
{
	if (!(error <= most))
		fail_msg("%s: %s%s%s is off by %.3g, relative; at most %g", model, what, of[0] != '\0' ? " of " : "", of, error, most);
}

static void check_parity(struct backend *b, const char *folder, const char *vectors, bool recompute)
{
	weir_error err = {0};
	struct llm_parity p;
	if (llm_parity_measure(b, folder, vectors, recompute, &p, NULL, &err) != WEIR_OK)
		fail_msg("%s", err.text);
	struct backend_info info;
	b->ops->info(b, &info);
	const struct llm_tolerance *t = llm_tolerance_of(info.precision);
	expect_within(p.logits, t->logits, "logits", "", folder);
	expect_within(p.loss, t->loss, "loss", "", folder);
	expect_within(p.gradient, t->gradient, "gradient", p.gradient_name, folder);
	expect_within(p.losses, t->losses, "losses of ten steps", "", folder);
	expect_within(p.weights, t->weights, "after ten steps", p.weights_name, folder);
	/* 16-bit factors and tf32: within tolerance, and not better than fp32, which shows that
	 * products are rounded */
	assert_true(info.precision == COMPUTE_FP32 || p.logits > llm_tolerance_of(COMPUTE_FP32)->logits);
}

static void try_parity(struct backend *b)
{
	for (size_t i = 0; i < COUNT(models); i++)
		for (int recompute = 0; recompute < (b->ops->host_memory ? 2 : 1); recompute++) {
			char folder[256], vectors[288];
			snprintf(folder, sizeof folder, "%s/%s", GOLDEN_DIR, models[i]);
			snprintf(vectors, sizeof vectors, "%s/vectors.safetensors", folder);
			check_parity(b, folder, vectors, recompute);
		}
}

static void logits_gradients_and_steps_are_pytorch_s(void **state)
{
	(void)state;
	on_backends(try_parity);
}

static void other_precisions_are_as_near_as_their_digits(void **state)
{
	static const enum compute_precision tried[] = {COMPUTE_BF16, COMPUTE_FP16, COMPUTE_TF32};
	(void)state;
	for (uint32_t i = 0; i < rounds(COUNT(tried)); i++)
		on_the_emulated_device(tried[i], try_parity);
}

static void the_small_llama_of_the_test_data_is_pytorch_s(void **state)
{
	(void)state;
	const char *data = getenv("WEIR_DATA") != NULL ? getenv("WEIR_DATA") : DATA_DIR;
	char folder[512], config[544];
	weir_error err = {0};
	snprintf(folder, sizeof folder, "%s/llama-2m-fresh", data);
	snprintf(config, sizeof config, "%s/config.json", folder);
	if (access(config, R_OK) != 0) {
		print_message("skipped: there is no %s\n", config);
		skip();
	}
	struct backend *b = backend_cpu_create(2, &err);
	check_parity(b, folder, GOLDEN_DIR "/llama-2m-fresh.safetensors", false);
	b->ops->destroy(b);
}

/* --- A model and its buffers */

struct fixture {
	struct backend *b;
	struct transformer *t;
	struct layout layout; /* the trained parameters */
	struct token_batch batch;
	size_t counted; /* targets with a loss */
	float *trained; /* host memory */
	float *on_device, *gradients;
	uint32_t *tokens; /* backend memory */
	double *loss;     /* backend memory */
	uint64_t *seed;   /* backend memory */
};

static struct fixture *fixture_open(struct backend *b, const char *model, const struct transformer_options *options)
{
	struct fixture *f = calloc(1, sizeof *f);
	char folder[256];
	struct transformer_config config;
	weir_error err = {0};
	struct prng rng;
	prng_seed(&rng, 5);
	snprintf(folder, sizeof folder, "%s/%s", GOLDEN_DIR, model);
	f->b = b;
	assert_int_equal(model_folder_config(folder, &config, &err), WEIR_OK);
	if (transformer_create(&f->t, b, &config, options, &f->layout, &err) != WEIR_OK ||
	    transformer_reserve(f->t, SEQUENCES, LENGTH, true, &err) != WEIR_OK)
		fail_msg("%s", err.text);
	const struct layout *weights = transformer_weights(f->t);
	struct model_weights *file;
	float *read = malloc(weights->elements * sizeof *read);
	if (model_folder_open(&file, folder, weights, &err) != WEIR_OK)
		fail_msg("%s", err.text);
	model_folder_read(file, 0, weights->elements, read);
	model_folder_close(file);
	const bool frozen = transformer_frozen(f->t) != NULL;
	if (frozen)
		b->ops->to_device(b, transformer_frozen(f->t), read, weights->elements * sizeof *read);
	const size_t n = f->layout.elements;
	f->trained = frozen ? calloc(n, sizeof *f->trained) : read;
	for (size_t i = 0; frozen && i < n; i++)
		f->trained[i] = 0.3f * prng_normal(&rng);
	if (frozen)
		free(read);
	f->on_device = b->ops->buffer_alloc(b, n * sizeof(float));
	f->gradients = b->ops->buffer_alloc(b, n * sizeof(float));
	f->loss = b->ops->buffer_alloc(b, sizeof *f->loss);
	f->seed = b->ops->buffer_alloc(b, sizeof *f->seed);
	f->tokens = b->ops->buffer_alloc(b, 2 * ROWS * sizeof(uint32_t));
	uint32_t tokens[2 * ROWS];
	prng_seed(&rng, 6); /* equal inputs for every kind */
	for (size_t i = 0; i < 2 * ROWS; i++)
		tokens[i] = i >= ROWS && i % 4 == 1 ? TARGET_NONE : (uint32_t)prng_below(&rng, config.vocabulary);
	for (size_t i = ROWS; i < 2 * ROWS; i++)
		f->counted += tokens[i] != TARGET_NONE;
	b->ops->to_device(b, f->tokens, tokens, sizeof tokens);
	f->batch = (struct token_batch){SEQUENCES, LENGTH, f->tokens, f->tokens + ROWS};
	return f;
}

static void fixture_close(struct fixture *f)
{
	void *buffers[] = {f->on_device, f->gradients, f->loss, f->seed, f->tokens};
	for (size_t i = 0; i < COUNT(buffers); i++)
		f->b->ops->buffer_free(f->b, buffers[i]);
	transformer_destroy(f->t);
	free(f->trained);
	free(f);
}

/* The batch's mean loss; gradients (elements) on the host, or NULL. */
static double train(struct fixture *f, uint64_t seed, float *gradients)
{
	struct backend *b = f->b;
	const size_t bytes = f->layout.elements * sizeof(float);
	const struct transformer_step step = {.scale = 1 / (float)f->counted, .seed = f->seed};
	double loss = 0;
	b->ops->to_device(b, f->on_device, f->trained, bytes);
	b->ops->to_device(b, f->loss, &loss, sizeof loss);
	b->ops->to_device(b, f->seed, &seed, sizeof seed);
	/* NaN reveals elements without a write */
	b->ops->fill(b, f->gradients, NAN, f->layout.elements);
	transformer_train(f->t, &f->batch, f->on_device, f->gradients, &step, f->loss);
	b->ops->to_host(b, &loss, f->loss, sizeof loss);
	if (gradients != NULL)
		b->ops->to_host(b, gradients, f->gradients, bytes);
	return loss / (double)f->counted;
}

static void expect_near(const char *what, const float *got, const float *want, size_t n, double relative)
{
	double most = 0;
	for (size_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)want[i]));
	for (size_t i = 0; i < n; i++)
		if (!(fabs((double)got[i] - (double)want[i]) <= relative * most))
			fail_msg("%s: element %zu of %zu is %.9g, expected %.9g; the largest is %.3g", what, i, n, (double)got[i],
			         (double)want[i], most);
}

static float *new_floats(size_t n)
{
	float *x = malloc((n + 1) * sizeof *x);
	assert_non_null(x);
	return x;
}

/* --- Properties of the whole model */

static struct transformer_options adapters_of(const char *model, float dropout)
{
	struct transformer_options o = {.lora = {.rank = 3, .alpha = 6, .dropout = dropout}};
	const bool gpt2 = strcmp(model, "gpt2") == 0;
	for (unsigned t = gpt2 ? LORA_c_attn : LORA_q_proj; t <= (gpt2 ? LORA_c_proj : LORA_down_proj); t++)
		o.lora.targets[t] = true;
	return o;
}

/* A batch's gradient is the sum of its sequences' gradients, in decreasing order of length; the
 * dropout masks are the batch's. */
static void check_accumulation(struct backend *b, const char *model, const struct transformer_options *options)
{
	struct fixture *f = fixture_open(b, model, options);
	const size_t n = f->layout.elements;
	float *whole = new_floats(n), *parts = new_floats(n);
	double loss = train(f, 1, whole), sum = 0;
	b->ops->to_device(b, f->loss, &sum, sizeof sum);
	b->ops->fill(b, f->gradients, NAN, n);
	for (uint32_t s = 0; s < SEQUENCES; s++) {
		const size_t first = (size_t)s * LENGTH;
		const struct token_batch one = {1, LENGTH, f->batch.tokens + first, f->batch.targets + first};
		const struct transformer_step step = {.scale = 1 / (float)f->counted, .first = first, .seed = f->seed};
		transformer_train(f->t, &one, f->on_device, f->gradients, &step, f->loss);
	}
	b->ops->to_host(b, parts, f->gradients, n * sizeof *parts);
	b->ops->to_host(b, &sum, f->loss, sizeof sum);
	for (uint32_t k = 0; k < f->layout.count; k++) {
		const struct tensor *t = &f->layout.tensors[k];
		expect_near(t->name, parts + t->offset, whole + t->offset, t->elements, strstr(t->name, "c_attn.bias") ? 1e-4 : 1e-5);
	}
	assert_true(fabs(sum / (double)f->counted - loss) < 1e-9 + 1e-6 * loss);
	free(whole);
	free(parts);
	fixture_close(f);
}

static void try_accumulation(struct backend *b)
{
	for (size_t i = 0; i < COUNT(models); i++) {
		const struct transformer_options all[] = {{.dropout = 0}, {.dropout = 0.2f}, adapters_of(models[i], 0.3f)};
		for (size_t k = 0; k < COUNT(all); k++)
			check_accumulation(b, models[i], &all[k]);
	}
}

static void gradients_add_up_over_batches(void **state)
{
	(void)state;
	on_backends(try_accumulation);
}

static void try_recomputation(struct backend *b)
{
	for (size_t i = 0; i < COUNT(models); i++) {
		const struct transformer_options kept = {.dropout = 0.2f}, again = {.dropout = 0.2f, .recompute = true};
		struct fixture *f = fixture_open(b, models[i], &kept), *g = fixture_open(b, models[i], &again);
		const size_t n = f->layout.elements;
		float *first = new_floats(n), *second = new_floats(n);
		assert_true(train(f, 3, first) == train(g, 3, second));
		assert_memory_equal(first, second, n * sizeof *first);
		assert_true(train(g, 4, second) != train(g, 3, NULL)); /* different masks */
		free(first);
		free(second);
		fixture_close(f);
		fixture_close(g);
	}
}

static void layers_computed_again_give_the_same_bits(void **state)
{
	(void)state;
	on_backends(try_recomputation);
}

static void try_scores(struct backend *b)
{
	for (size_t i = 0; i < COUNT(models); i++) {
		const struct transformer_options plain = {.dropout = 0.5f}; /* scoring has no dropout */
		const struct transformer_options none = {0};
		struct fixture *f = fixture_open(b, models[i], &plain), *g = fixture_open(b, models[i], &none);
		const double loss = train(g, 1, NULL);
		uint32_t targets[ROWS];
		float scores[ROWS];
		double sum = 0;
		b->ops->to_device(b, f->on_device, f->trained, f->layout.elements * sizeof(float));
		b->ops->to_host(b, targets, f->batch.targets, sizeof targets);
		b->ops->to_host(b, scores, transformer_score(f->t, &f->batch, f->on_device), sizeof scores);
		for (size_t r = 0; r < ROWS; r++) {
			assert_true(targets[r] != TARGET_NONE || scores[r] == 0);
			sum += (double)scores[r];
		}
		assert_true(fabs(sum / (double)f->counted + loss) < 2e-6 * loss);
		fixture_close(f);
		fixture_close(g);
	}
}

static void scores_are_the_loss_of_each_token(void **state)
{
	(void)state;
	on_backends(try_scores);
}

/* Logits after each piece of a growing sequence equal those of the whole sequence, for any cut,
 * also for a second sequence in the same memory. */
static void check_decoding(struct backend *b, const char *model, const struct transformer_options *options)
{
	static const uint32_t cuts[][LENGTH] = {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 1, 3}, {9}, {2, 7}};
	struct fixture *f = fixture_open(b, model, options);
	const uint32_t classes = transformer_config_of(f->t)->vocabulary;
	float *whole = new_floats((size_t)LENGTH * classes), *got = new_floats(classes);
	weir_error err = {0};
	b->ops->to_device(b, f->on_device, f->trained, f->layout.elements * sizeof(float));
	b->ops->to_host(b, whole, transformer_logits(f->t, &f->batch, f->on_device, LENGTH, LENGTH),
	                (size_t)LENGTH * classes * sizeof *whole);
	assert_int_equal(transformer_reserve_decoding(f->t, LENGTH, &err), WEIR_OK);
	(void)transformer_decode(f->t, f->tokens, 0, LENGTH, f->on_device);
	for (size_t i = 0; i < COUNT(cuts); i++)
		for (uint32_t k = 0, at = 0; at < LENGTH; at += cuts[i][k++]) {
			const uint32_t count = cuts[i][k];
			const float *logits = transformer_decode(f->t, f->tokens + LENGTH + at, at, count, f->on_device);
			b->ops->to_host(b, got, logits, classes * sizeof *got);
			expect_near(model, got, whole + (size_t)(at + count - 1) * classes, classes,
			            1e-5); /* products of fewer rows have another order of sums */
		}
	assert_int_equal(transformer_reserve_decoding(f->t, transformer_config_of(f->t)->context + 1, &err), WEIR_E_LIMIT);
	free(whole);
	free(got);
	fixture_close(f);
}

static void try_decoding(struct backend *b)
{
	for (size_t i = 0; i < COUNT(models); i++) {
		const struct transformer_options plain = {0}, adapters = adapters_of(models[i], 0.3f);
		check_decoding(b, models[i], &plain);
		check_decoding(b, models[i], &adapters);
	}
}

static void a_sequence_that_grows_has_the_logits_of_the_whole(void **state)
{
	(void)state;
	on_backends(try_decoding);
}

/* The loss's slope along a direction equals its product with the gradient, for the seed's masks. */
static void check_slope(struct backend *b, const char *model, const struct transformer_options *options)
{
	struct fixture *f = fixture_open(b, model, options);
	const size_t n = f->layout.elements;
	float *gradients = new_floats(n), *kept = new_floats(n);
	double product = 0, norm = 0;
	struct prng rng;
	prng_seed(&rng, 9);
	(void)train(f, 7, gradients);
	memcpy(kept, f->trained, n * sizeof *kept);
	for (size_t i = 0; i < n; i++)
		norm += (double)gradients[i] * (double)gradients[i];
	norm = sqrt(norm);
	/* the gradient's direction plus a random one */
	float *along = new_floats(n);
	for (size_t i = 0; i < n; i++) {
		along[i] = (float)((double)gradients[i] / norm + (double)prng_normal(&rng) / sqrt((double)n));
		product += (double)along[i] * (double)gradients[i];
	}
	const double step = 5e-4;
	double losses[2];
	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < n; i++)
			f->trained[i] = (float)((double)kept[i] + (side == 0 ? step : -step) * (double)along[i]);
		losses[side] = train(f, 7, NULL);
	}
	const double slope = (losses[0] - losses[1]) / (2 * step);
	if (!(fabs(slope - product) <= 2e-3 * fabs(product)))
		fail_msg("%s: the loss rises by %.6g, its gradient says %.6g", model, slope, product);
	free(gradients);
	free(kept);
	free(along);
	fixture_close(f);
}

static void try_dropout(struct backend *b)
{
	for (size_t i = 0; i < COUNT(models); i++) {
		const struct transformer_options plain = {0}, dropped = {.dropout = 0.3f}, adapters = adapters_of(models[i], 0.4f);
		check_slope(b, models[i], &plain);
		check_slope(b, models[i], &dropped);
		check_slope(b, models[i], &adapters);
	}
}

static void dropout_s_gradient_is_that_of_its_masks(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *b = backend_cpu_create(2, &err);
	try_dropout(b);
	b->ops->destroy(b);
}

/* --- Low-rank adapters */

/* The tensor that the adapter "base_model.model.NAME.lora_A.weight" adapts. */
static const struct tensor *adapted(const struct layout *weights, const char *adapter)
{
	char name[LAYOUT_NAME_BYTES];
	const char *base = adapter + strlen("base_model.model.");
	const char *end = strstr(base, ".lora_");
	assert_non_null(end);
	snprintf(name, sizeof name, "%.*s.weight", (int)(end - base), base);
	return layout_find(weights, name);
}

/* With W = frozen + scale B A: dB = scale dW A^T, dA = scale B^T dW. */
static void check_adapter(const struct fixture *f, const struct tensor *a, const struct tensor *b, const struct tensor *w,
                          bool input_major, const float *dw, const float *gradients)
{
	const float *A = f->trained + a->offset, *B = f->trained + b->offset;
	const double scale = 6.0 / 3;
	const size_t rank = a->rows, in = a->cols, out = b->rows;
	float *da = new_floats(a->elements), *db = new_floats(b->elements);
	assert_int_equal(w->elements, in * out);
#define DW(o, i) (double)dw[w->offset + (input_major ? (i)*out + (o) : (o)*in + (i))]
	for (size_t o = 0; o < out; o++)
		for (size_t r = 0; r < rank; r++) {
			double sum = 0;
			for (size_t i = 0; i < in; i++)
				sum += DW(o, i) * (double)A[r * in + i];
			db[o * rank + r] = (float)(scale * sum);
		}
	for (size_t r = 0; r < rank; r++)
		for (size_t i = 0; i < in; i++) {
			double sum = 0;
			for (size_t o = 0; o < out; o++)
				sum += DW(o, i) * (double)B[o * rank + r];
			da[r * in + i] = (float)(scale * sum);
		}
#undef DW
	expect_near(a->name, gradients + a->offset, da, a->elements, 2e-5);
	expect_near(b->name, gradients + b->offset, db, b->elements, 2e-5);
	free(da);
	free(db);
}

static void try_adapters(struct backend *b)
{
	for (size_t i = 0; i < COUNT(models); i++) {
		const struct transformer_options adapters = adapters_of(models[i], 0), whole = {0};
		struct fixture *f = fixture_open(b, models[i], &adapters), *g = fixture_open(b, models[i], &whole);
		const struct layout *weights = transformer_weights(f->t);
		assert_int_equal(weights->elements, g->layout.elements);
		float *gradients = new_floats(f->layout.elements), *dw = new_floats(weights->elements),
		      *merged = b->ops->buffer_alloc(b, weights->elements * sizeof(float));
		const double loss = train(f, 1, gradients);
		transformer_merge(f->t, f->on_device, merged);
		b->ops->to_host(b, g->trained, merged, weights->elements * sizeof(float));
		const double merged_loss = train(g, 1, dw);
		if (!(fabs(loss - merged_loss) < 1e-5 * loss))
			fail_msg("%s: loss is %.9g, of the merged model %.9g", models[i], loss, merged_loss);
		for (uint32_t k = 0; k < f->layout.count; k += 2) {
			const struct tensor *a = &f->layout.tensors[k];
			check_adapter(f, a, a + 1, adapted(weights, a->name), strcmp(models[i], "gpt2") == 0, dw, gradients);
		}
		/* merged and separate adapters give logits within 1e-5 */
		const size_t classes = transformer_config_of(f->t)->vocabulary, logits = TRANSFORMER_LOGITS_ROWS * classes;
		float *apart = new_floats(logits), *together = new_floats(logits);
		b->ops->to_host(b, apart, transformer_logits(f->t, &f->batch, f->on_device, 3, TRANSFORMER_LOGITS_ROWS),
		                logits * sizeof(float));
		b->ops->to_host(b, together, transformer_logits(g->t, &g->batch, g->on_device, 3, TRANSFORMER_LOGITS_ROWS),
		                logits * sizeof(float));
		expect_near("logits", together, apart, logits, 1e-5);
		b->ops->buffer_free(b, merged);
		float *all[] = {gradients, dw, apart, together};
		for (size_t k = 0; k < COUNT(all); k++)
			free(all[k]);
		fixture_close(f);
		fixture_close(g);
	}
}

static void adapters_are_the_merged_model(void **state)
{
	(void)state;
	on_backends(try_adapters);
}

static void adapters_are_tables_of_their_own(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *b = backend_cpu_create(1, &err);
	struct transformer_options o = {.lora = {.rank = 4, .alpha = 8}};
	o.lora.targets[LORA_q_proj] = o.lora.targets[LORA_v_proj] = true;
	struct fixture *f = fixture_open(b, "llama", &o);
	assert_int_equal(f->layout.count, 8); /* two layers, two projections, A and B */
	const struct tensor *a = layout_find(&f->layout, "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight"),
	                    *bb = layout_find(&f->layout, "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight");
	assert_non_null(a);
	assert_non_null(bb);
	assert_true(a->rows == 4 && a->cols == 20 && bb->rows == 16 && bb->cols == 4);
	/* the initial model equals the base */
	assert_int_equal(f->layout.segments[bb - f->layout.tensors].kind, WEIR_INIT_ZERO);
	assert_null(layout_find(&f->layout, "model.norm.weight"));
	fixture_close(f);
	struct transformer_config config;
	struct transformer *t = NULL;
	struct layout layout = {0};
	assert_int_equal(model_folder_config(GOLDEN_DIR "/gpt2", &config, &err), WEIR_OK);
	assert_int_equal(transformer_create(&t, b, &config, &o, &layout, &err), WEIR_E_UNSUPPORTED);
	assert_non_null(strstr(err.text, "q_proj: this model has c_attn, c_fc, c_proj"));
	o.lora.targets[LORA_q_proj] = o.lora.targets[LORA_v_proj] = false;
	assert_int_equal(transformer_create(&t, b, &config, &o, &layout, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "no projection"));
	o = (struct transformer_options){.dropout = 1};
	assert_int_equal(transformer_create(&t, b, &config, &o, &layout, &err), WEIR_E_INVALID);
	b->ops->destroy(b);
}

/* Reserves for more, uses less, and refuses more than the positions. */
static void lengths_are_what_there_are_positions_for(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *b = backend_cpu_create(2, &err);
	const struct transformer_options plain = {0};
	struct fixture *f = fixture_open(b, "gpt2", &plain);
	const double loss = train(f, 1, NULL);
	assert_int_equal(transformer_reserve(f->t, 1, 17, true, &err), WEIR_E_LIMIT);
	assert_non_null(strstr(err.text, "17 tokens: this model has positions for 1 to 16"));
	assert_int_equal(transformer_reserve(f->t, 7, 16, true, &err), WEIR_OK);
	assert_true(fabs(train(f, 1, NULL) - loss) < 1e-6 * loss);
	fixture_close(f);
	b->ops->destroy(b);
}

static void try_too_many(struct backend *b)
{
	weir_error err = {0};
	const struct transformer_options plain = {0};
	struct fixture *f = fixture_open(b, "gpt2", &plain);
	assert_int_equal(transformer_reserve(f->t, 1u << 20, LENGTH, true, &err), WEIR_E_MEMORY);
	assert_non_null(strstr(err.text, "1048576 sequences of 9 tokens at once, of which train.accumulate makes fewer"));
	fixture_close(f);
}

static void a_model_that_does_not_fit_is_refused_with_a_remedy(void **state)
{
	(void)state;
	on_the_emulated_device(COMPUTE_FP32, try_too_many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(logits_gradients_and_steps_are_pytorch_s),
	    cmocka_unit_test(other_precisions_are_as_near_as_their_digits),
	    cmocka_unit_test(the_small_llama_of_the_test_data_is_pytorch_s),
	    cmocka_unit_test(gradients_add_up_over_batches),
	    cmocka_unit_test(layers_computed_again_give_the_same_bits),
	    cmocka_unit_test(scores_are_the_loss_of_each_token),
	    cmocka_unit_test(a_sequence_that_grows_has_the_logits_of_the_whole),
	    cmocka_unit_test(dropout_s_gradient_is_that_of_its_masks),
	    cmocka_unit_test(adapters_are_the_merged_model),
	    cmocka_unit_test(adapters_are_tables_of_their_own),
	    cmocka_unit_test(lengths_are_what_there_are_positions_for),
	    cmocka_unit_test(a_model_that_does_not_fit_is_refused_with_a_remedy),
	};
	return cmocka_run_group_tests_name("transformer", tests, NULL, NULL);
}
