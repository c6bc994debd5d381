/* bench_llm DEVICE THREADS SEQUENCES LENGTH STEPS [PRECISION [small]]
 *
 * Training steps (forward, backward, AdamW of all weights) of a model with the shape of GPT-2's
 * 124M, random weights and tokens. `small`: a model small enough for a rehearsal. Prints one line
 * of JSON: tokens/s of the median step, and of each part that can be timed separately. Prints a
 * line per step to standard error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/prng.h"
#include "kernels/init.h"
#include "kernels/optimizer.h"
#include "tests/bench/median.h"
#include "worker/model/transformer.h"

#define STEPS_MAX 1000
#define WARM_UP   1

struct run {
	struct backend *b;
	struct transformer *t;
	struct layout layout;
	struct token_batch batch;
	float *weights, *gradients, *slots;
	double *loss;
};

static void die(const char *what)
{
	fprintf(stderr, "bench_llm: %s\n", what);
	exit(1);
}

static void *memory(struct run *r, size_t bytes)
{
	void *p = r->b->ops->buffer_alloc(r->b, bytes);
	if (p == NULL)
		die("out of memory");
	return p;
}

static void open_model(struct run *r, uint32_t sequences, uint32_t length, bool small)
{
	struct transformer_config config = {.family = TRANSFORMER_GPT2,
	                                    .vocabulary = 50257,
	                                    .context = 1024,
	                                    .layers = 12,
	                                    .heads = 12,
	                                    .width = 768,
	                                    .tied_head = true};
	if (small) {
		config.vocabulary = 512;
		config.layers = config.heads = 2;
		config.width = 32;
	}
	const struct transformer_options options = {0};
	weir_error err = {0};
	transformer_config_default(&config);
	if (transformer_create(&r->t, r->b, &config, &options, &r->layout, &err) != WEIR_OK ||
	    transformer_reserve(r->t, sequences, length, true, &err) != WEIR_OK)
		die(err.text);
	const size_t n = r->layout.elements, rows = (size_t)sequences * length;
	float *host = malloc(n * sizeof *host);
	uint32_t *tokens = malloc(2 * rows * sizeof *tokens);
	if (host == NULL || tokens == NULL)
		die("out of memory");
	init_dense(1, 1, r->layout.segments, r->layout.count, 0, host, n);
	struct prng rng;
	prng_seed(&rng, 2);
	for (size_t i = 0; i < 2 * rows; i++)
		tokens[i] = (uint32_t)prng_below(&rng, config.vocabulary);
	r->weights = memory(r, n * sizeof(float));
	r->gradients = memory(r, n * sizeof(float));
	r->slots = memory(r, 2 * n * sizeof(float));
	r->loss = memory(r, sizeof *r->loss);
	uint32_t *there = memory(r, 2 * rows * sizeof *there);
	r->b->ops->to_device(r->b, r->weights, host, n * sizeof *host);
	r->b->ops->to_device(r->b, there, tokens, 2 * rows * sizeof *tokens);
	r->batch = (struct token_batch){sequences, length, there, there + rows};
	free(host);
	free(tokens);
}

static double now(struct run *r)
{
	weir_error err = {0};
	if (r->b->ops->sync(r->b, &err) != WEIR_OK)
		die(err.text);
	return (double)clock_ns(clock_system()) / 1e9;
}

/* CPU time of all threads, which a busy machine does not change. */
static double processor_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void measure(struct run *r, unsigned steps, uint32_t threads)
{
	static double passes[STEPS_MAX], updates[STEPS_MAX], wholes[STEPS_MAX], processor[STEPS_MAX];
	const weir_optimizer adamw = {
	    .kind = WEIR_OPT_ADAMW, .lr = 1e-4f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.01f};
	const struct optimizer_scalars scalars = {.lr = adamw.lr, .grad_scale = 1};
	weir_error err = {0};
	struct optimizer *optimizer = optimizer_create(&adamw, &err);
	const double rows = (double)r->batch.sequences * r->batch.length;
	double loss = 0;
	if (optimizer == NULL)
		die(err.text);
	for (unsigned i = 0; i < WARM_UP + steps; i++) {
		const struct transformer_step step = {.scale = (float)(1 / rows)};
		const struct optimizer_step update = optimizer_step_of(optimizer, &scalars, i + 1);
		const double zero = 0;
		r->b->ops->to_device(r->b, r->loss, &zero, sizeof zero);
		const double began = now(r), processor_began = processor_seconds();
		transformer_train(r->t, &r->batch, r->weights, r->gradients, &step, r->loss);
		const double passed = now(r);
		r->b->ops->update(r->b, &update, r->weights, r->slots, r->gradients, r->layout.elements);
		r->b->ops->to_host(r->b, &loss, r->loss, sizeof loss);
		const double ended = now(r);
		if (i < WARM_UP)
			continue;
		passes[i - WARM_UP] = passed - began;
		updates[i - WARM_UP] = ended - passed;
		wholes[i - WARM_UP] = ended - began;
		processor[i - WARM_UP] = processor_seconds() - processor_began;
		fprintf(stderr, "step %u: %.1f tokens/s; %.2f ms forward and backward, %.2f ms AdamW\n", i + 1 - WARM_UP,
		        rows / (ended - began), (passed - began) * 1e3, (ended - passed) * 1e3);
	}
	const double whole = median(wholes, steps);
	struct backend_info info;
	r->b->ops->info(r->b, &info);
	printf("{\"device\": \"%s\", \"precision\": \"%s\", \"weights\": %llu, \"threads\": %u, \"sequences\": %u, \"length\": %u, "
	       "\"steps\": %u, \"tokens_per_s\": %.1f, "
	       "\"step_ms\": %.1f, \"fastest_ms\": %.1f, \"pass_ms\": %.1f, \"update_ms\": %.1f, \"processor_ms\": %.1f, \"loss\": "
	       "%.5f}\n",
	       info.device, compute_precision_name(info.precision), (unsigned long long)r->layout.elements, threads,
	       r->batch.sequences, r->batch.length, steps, rows / whole, whole * 1e3, wholes[0] * 1e3, median(passes, steps) * 1e3,
	       median(updates, steps) * 1e3, median(processor, steps) * 1e3, loss / rows);
	optimizer_destroy(optimizer);
}

static enum compute_precision precision_of(const char *name)
{
	for (enum compute_precision p = COMPUTE_FP32; p <= COMPUTE_FP16; p++)
		if (strcmp(name, compute_precision_name(p)) == 0)
			return p;
	die("PRECISION is fp32, tf32, bf16 or fp16");
	return COMPUTE_FP32;
}

int main(int argc, char **argv)
{
	static struct run r;
	weir_error err = {0};
	const bool small = argc == 8 && strcmp(argv[7], "small") == 0;
	if (argc < 6 || argc > 8 || (argc == 8 && !small))
		die("usage: bench_llm DEVICE THREADS SEQUENCES LENGTH STEPS [PRECISION [small]]");
	const uint32_t threads = (uint32_t)atoi(argv[2]), steps = (uint32_t)atoi(argv[5]);
	if (steps == 0 || steps > STEPS_MAX)
		die("from 1 to 1000 steps");
	const struct backend_options options = {
	    .device = argv[1], .threads = threads, .precision = precision_of(argc > 6 ? argv[6] : "fp32")};
	r.b = backend_open(&options, &err);
	if (r.b == NULL)
		die(err.text);
	open_model(&r, (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), small);
	measure(&r, steps, threads);
	transformer_destroy(r.t);
	r.b->ops->destroy(r.b);
	return 0;
}
