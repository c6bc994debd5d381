#include "tests/unit/worker/model/llm_parity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/optimizer.h"
#include "worker/model/model_folder.h"
#include "worker/model/safetensors/safetensors.h"

struct run {
	struct backend *b;
	struct transformer *t;
	struct layout *layout;
	struct safetensors *vectors;
	const struct safetensor *tokens, *targets; /* (steps, sequences, length) */
	size_t elements;
	float *weights, *gradients, *slots; /* backend memory */
	uint32_t *batch;                    /* backend memory: tokens, then targets */
	double *loss;                       /* backend memory */
	float *host;                        /* (maximum of the elements and a batch's logits) */
	FILE *details;
};

const struct llm_tolerance *llm_tolerance_of(enum compute_precision precision)
{
	static const struct llm_tolerance all[] = {
	    [COMPUTE_FP32] = {.logits = 1e-4, .loss = 1e-5, .gradient = 1e-3, .losses = 1e-4, .weights = 1e-4},
	    [COMPUTE_TF32] = {.logits = 5e-3, .loss = 1e-3, .gradient = 2e-2, .losses = 2e-3, .weights = INFINITY},
	    [COMPUTE_BF16] = {.logits = 3e-2, .loss = 5e-3, .gradient = 1e-1, .losses = 1e-2, .weights = INFINITY},
	    [COMPUTE_FP16] = {.logits = 5e-3, .loss = 1e-3, .gradient = 2e-2, .losses = 2e-3, .weights = INFINITY},
	};
	return &all[precision];
}

bool llm_parity_is_within(const struct llm_parity *p, const struct llm_tolerance *t)
{
	return p->logits <= t->logits && p->loss <= t->loss && p->gradient <= t->gradient && p->losses <= t->losses &&
	       p->weights <= t->weights;
}

static size_t rows_of(const struct run *r)
{
	return (size_t)(r->tokens->shape[1] * r->tokens->shape[2]);
}

/* The i-th element of `t` in the file, which has all elements, or the last one of each n-th
 * part. */
static size_t entry_at(const struct safetensor *t, size_t i, size_t n)
{
	const size_t entries = safetensor_elements(t);
	return entries == n ? i : (i + 1) * n / entries - 1;
}

/* Adam's steps do not depend on the gradient's size. Some elements have gradients of 0 plus
 * rounding: GPT-2's key biases add the same to all scores of a query, and sums cancel in an
 * element's first batch. There both sides step by rounding. `least`: the vectors' tensor of that
 * name. */
#define NOISE 1e-5f /* of a tensor's largest gradient; fp32 rounds each term by 6e-8 */

static bool is_noise(const struct safetensor *least, size_t i)
{
	float root;
	safetensor_floats(least, i, 1, &root);
	return root < NOISE;
}

static double largest_of(const struct safetensor *t)
{
	double most = 0;
	for (size_t i = 0; i < safetensor_elements(t); i++) {
		float x;
		safetensor_floats(t, i, 1, &x);
		most = fmax(most, fabs((double)x));
	}
	return most;
}

static const struct safetensor *vector_of(const struct run *r, const char *kind, const char *tensor)
{
	char name[SAFETENSORS_NAME_BYTES];
	snprintf(name, sizeof name, "%s%s", kind, tensor);
	return safetensors_find(r->vectors, name);
}

/* The error of got (n) against the file's tensor `kind``tensor`, and of its norm if the file has
 * it. NaN without the tensor. */
static double error_of(const struct run *r, const char *kind, const char *tensor, const float *got, size_t n)
{
	char name[SAFETENSORS_NAME_BYTES];
	const struct safetensor *t = vector_of(r, kind, tensor);
	if (t == NULL)
		return NAN;
	const bool stepped = strcmp(kind, "after.") == 0;
	const struct safetensor *least = stepped ? vector_of(r, "least.", tensor) : NULL;
	if (stepped && least == NULL)
		return NAN;
	const size_t entries = safetensor_elements(t);
	const double most = largest_of(t);
	double worst = 0;
	size_t noise = 0;
	for (size_t i = 0; i < entries; i++) {
		float want;
		safetensor_floats(t, i, 1, &want);
		if (least != NULL && is_noise(least, i)) {
			noise++;
			continue;
		}
		const double off = fabs((double)got[entry_at(t, i, n)] - (double)want);
		worst = !(off <= worst) ? off : worst; /* also true for NaN */
	}
	double error = worst / most;
	snprintf(name, sizeof name, "norm.%s%s", kind, tensor);
	t = safetensors_find(r->vectors, name);
	if (t != NULL) {
		float want;
		double squares = 0;
		safetensor_floats(t, 0, 1, &want);
		for (size_t i = 0; i < n; i++)
			squares += (double)got[i] * (double)got[i];
		const double off = fabs(sqrt(squares) - (double)want) / (double)want;
		error = off > error ? off : error;
	}
	if (r->details != NULL)
		fprintf(r->details, "%-9s %.3g  %s%s, %zu of %zu left to rounding\n", entries == n ? "all" : "entries", error, kind,
		        tensor, noise, entries);
	return error;
}

/* The largest error over all tensors of a flat space in backend memory. */
static double worst_of(const struct run *r, const char *kind, const float *flat, char *name)
{
	double worst = 0;
	r->b->ops->to_host(r->b, r->host, flat, r->elements * sizeof(float));
	for (uint32_t i = 0; i < r->layout->count; i++) {
		const struct tensor *t = &r->layout->tensors[i];
		const double error = error_of(r, kind, t->name, r->host + t->offset, t->elements);
		if (!(error <= worst)) {
			worst = error;
			snprintf(name, LLM_PARITY_NAME_BYTES, "%s", t->name);
		}
	}
	return worst;
}

/* Loads batch `step`; returns the number of targets with a loss. */
static size_t load_batch(const struct run *r, size_t step, struct token_batch *out)
{
	const size_t rows = rows_of(r);
	uint32_t *both = malloc(2 * rows * sizeof *both);
	size_t counted = 0;
	for (size_t i = 0; both != NULL && i < rows; i++) {
		uint64_t token, target;
		memcpy(&token, (const char *)r->tokens->data + 8 * (step * rows + i), 8);
		memcpy(&target, (const char *)r->targets->data + 8 * (step * rows + i), 8);
		both[i] = (uint32_t)token;
		both[rows + i] = (uint32_t)target;
		counted += both[rows + i] != TARGET_NONE;
	}
	if (both != NULL)
		r->b->ops->to_device(r->b, r->batch, both, 2 * rows * sizeof *both);
	free(both);
	*out = (struct token_batch){.sequences = (uint32_t)r->tokens->shape[1],
	                            .length = (uint32_t)r->tokens->shape[2],
	                            .tokens = r->batch,
	                            .targets = r->batch + rows};
	return counted;
}

static double logits_error(const struct run *r, const struct token_batch *batch)
{
	const size_t rows = rows_of(r), classes = transformer_config_of(r->t)->vocabulary;
	for (size_t at = 0; at < rows; at += TRANSFORMER_LOGITS_ROWS) {
		const size_t count = rows - at < TRANSFORMER_LOGITS_ROWS ? rows - at : TRANSFORMER_LOGITS_ROWS;
		const float *logits = transformer_logits(r->t, batch, r->weights, at, count);
		r->b->ops->to_host(r->b, r->host + at * classes, logits, count * classes * sizeof(float));
	}
	return error_of(r, "", "logits", r->host, rows * classes);
}

static void measure_steps(struct run *r, struct llm_parity *out, struct optimizer *optimizer)
{
	const size_t steps = (size_t)r->tokens->shape[0];
	float want = 0;
	for (size_t i = 0; i < steps; i++) {
		struct token_batch batch;
		const size_t counted = load_batch(r, i, &batch);
		const struct transformer_step step = {.scale = 1 / (float)counted};
		const struct optimizer_scalars scalars = {.lr = 1e-3f, .grad_scale = 1};
		const struct optimizer_step update = optimizer_step_of(optimizer, &scalars, (uint32_t)i + 1);
		double loss = 0;
		if (i == 0)
			out->logits = logits_error(r, &batch);
		r->b->ops->to_device(r->b, r->loss, &loss, sizeof loss);
		transformer_train(r->t, &batch, r->weights, r->gradients, &step, r->loss);
		r->b->ops->to_host(r->b, &loss, r->loss, sizeof loss);
		safetensor_floats(safetensors_find(r->vectors, "losses"), i, 1, &want);
		const double error = fabs(loss / (double)counted - (double)want) / (double)want;
		out->losses = !(error <= out->losses) ? error : out->losses;
		if (i == 0) {
			out->loss = error;
			out->gradient = worst_of(r, "grad.", r->gradients, out->gradient_name);
		}
		r->b->ops->update(r->b, &update, r->weights, r->slots, r->gradients, r->elements);
	}
	out->weights = worst_of(r, "after.", r->weights, out->weights_name);
}

static weir_status open_vectors(struct run *r, const char *path, weir_error *err)
{
	const weir_status s = safetensors_open(&r->vectors, path, err);
	if (s != WEIR_OK)
		return s;
	r->tokens = safetensors_find(r->vectors, "tokens");
	r->targets = safetensors_find(r->vectors, "targets");
	if (r->tokens == NULL || r->targets == NULL || r->tokens->dims != 3 || safetensors_find(r->vectors, "losses") == NULL)
		return weir_fail(err, WEIR_E_INVALID, "%s: no file of vectors: tokens, targets or losses are not there", path);
	return WEIR_OK;
}

static weir_status load_weights(struct run *r, const char *folder, weir_error *err)
{
	struct model_weights *w;
	const weir_status s = model_folder_open(&w, folder, r->layout, err);
	if (s != WEIR_OK)
		return s;
	model_folder_read(w, 0, r->elements, r->host);
	r->b->ops->to_device(r->b, r->weights, r->host, r->elements * sizeof(float));
	model_folder_close(w);
	return WEIR_OK;
}

static weir_status open_model(struct run *r, const char *folder, bool recompute, weir_error *err)
{
	struct transformer_config config;
	const struct transformer_options options = {.recompute = recompute};
	weir_status s = model_folder_config(folder, &config, err);
	if (s == WEIR_OK)
		s = transformer_create(&r->t, r->b, &config, &options, r->layout, err);
	if (s == WEIR_OK)
		s = transformer_reserve(r->t, (uint32_t)r->tokens->shape[1], (uint32_t)r->tokens->shape[2], true, err);
	if (s != WEIR_OK)
		return s;
	const size_t rows = rows_of(r), logits = rows * config.vocabulary;
	r->elements = r->layout->elements;
	r->weights = r->b->ops->buffer_alloc(r->b, r->elements * sizeof(float));
	r->gradients = r->b->ops->buffer_alloc(r->b, r->elements * sizeof(float));
	r->slots = r->b->ops->buffer_alloc(r->b, 2 * r->elements * sizeof(float));
	r->batch = r->b->ops->buffer_alloc(r->b, 2 * rows * sizeof(uint32_t));
	r->loss = r->b->ops->buffer_alloc(r->b, sizeof(double));
	r->host = malloc((r->elements > logits ? r->elements : logits) * sizeof(float));
	if (r->weights == NULL || r->gradients == NULL || r->slots == NULL || r->batch == NULL || r->loss == NULL || r->host == NULL)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", folder);
	return load_weights(r, folder, err);
}

static void close_run(struct run *r)
{
	void *buffers[] = {r->weights, r->gradients, r->slots, r->batch, r->loss};
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
		if (buffers[i] != NULL)
			r->b->ops->buffer_free(r->b, buffers[i]);
	transformer_destroy(r->t);
	safetensors_close(r->vectors);
	free(r->layout);
	free(r->host);
}

weir_status llm_parity_measure(struct backend *b, const char *folder, const char *vectors, bool recompute, struct llm_parity *out,
                               FILE *details, weir_error *err)
{
	const weir_optimizer adamw = {
	    .kind = WEIR_OPT_ADAMW, .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f};
	struct run r = {.b = b, .details = details, .layout = calloc(1, sizeof *r.layout)};
	*out = (struct llm_parity){0};
	struct optimizer *optimizer = optimizer_create(&adamw, err);
	weir_status s = optimizer != NULL && r.layout != NULL ? open_vectors(&r, vectors, err) : WEIR_E_MEMORY;
	if (s == WEIR_OK)
		s = open_model(&r, folder, recompute, err);
	if (s == WEIR_OK)
		measure_steps(&r, out, optimizer);
	if (s == WEIR_OK)
		s = b->ops->sync(b, err);
	close_run(&r);
	optimizer_destroy(optimizer);
	return s;
}
