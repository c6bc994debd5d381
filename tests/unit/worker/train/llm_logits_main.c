/* llm_logits JOB.yaml WEIGHTS TOKENS OUT: the logits of a job's gpt2 or llama with these weights
 * (any --weights of `weir eval`), with adapters on their base. TOKENS is a safetensors file with
 * "tokens", U64 (sequences, length). OUT gets "logits", F32 (sequences, length, vocabulary). Line
 * 6 of tests/claims/llm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/model/safetensors/safetensors.h"
#include "worker/model/transformer.h"
#include "worker/train/score/snapshot.h"

struct run {
	struct job *job;
	struct backend *backend;
	struct snapshot *snapshot;
	struct model *model;
	struct safetensors *file;
	uint32_t sequences, length, vocabulary;
	uint32_t *tokens; /* (sequences, length) */
	float *weights;   /* (elements), the trained parameters */
	float *logits;    /* (sequences, length, vocabulary) */
};

static weir_status open_model(struct run *r, const char *job, const char *weights, weir_error *err)
{
	weir_status s = job_load(job, NULL, 0, &r->job, err);
	if (s == WEIR_OK)
		s = snapshot_open(&r->snapshot, weights, err);
	if (s == WEIR_OK && (r->backend = backend_cpu_create(1, err)) == NULL)
		s = err->status;
	if (s != WEIR_OK)
		return s;
	const struct model_data data = {.vocabulary = snapshot_data(r->snapshot).vocabulary};
	s = model_create(&r->model, r->backend, r->job, &data, err);
	if (s == WEIR_OK)
		s = snapshot_bind(r->snapshot, r->model, err);
	if (s == WEIR_OK && (r->weights = malloc(model_table_elements(r->model, MODEL_DENSE) * sizeof *r->weights)) == NULL)
		s = weir_fail(err, WEIR_E_MEMORY, "out of memory for the weights");
	if (s == WEIR_OK)
		snapshot_read_flat(r->snapshot, MODEL_DENSE, r->weights);
	return s;
}

static weir_status read_tokens(struct run *r, const char *path, weir_error *err)
{
	weir_status s = safetensors_open(&r->file, path, err);
	const struct safetensor *t = s == WEIR_OK ? safetensors_find(r->file, "tokens") : NULL;
	if (s == WEIR_OK && (t == NULL || t->type != SAFETENSOR_U64 || t->dims != 2))
		s = weir_fail(err, WEIR_E_INVALID, "%s has no tokens, U64 (sequences, length)", path);
	if (s != WEIR_OK)
		return s;
	r->sequences = (uint32_t)t->shape[0];
	r->length = (uint32_t)t->shape[1];
	r->vocabulary = transformer_config_of(model_transformer(r->model))->vocabulary;
	const size_t n = (size_t)r->sequences * r->length;
	r->tokens = malloc((n + 1) * sizeof *r->tokens);
	r->logits = malloc((n * r->vocabulary + 1) * sizeof *r->logits);
	if (r->tokens == NULL || r->logits == NULL)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %zu logits", n * r->vocabulary);
	for (size_t i = 0; i < n; i++) {
		const uint64_t id = ((const uint64_t *)t->data)[i];
		if (id >= r->vocabulary)
			return weir_fail(err, WEIR_E_INVALID, "%s: token %zu is not below %u", path, i, r->vocabulary);
		r->tokens[i] = (uint32_t)id;
	}
	return transformer_reserve(model_transformer(r->model), r->sequences, r->length, false, err);
}

static void compute(struct run *r)
{
	const struct token_batch in = {.sequences = r->sequences, .length = r->length, .tokens = r->tokens};
	const size_t n = (size_t)r->sequences * r->length;
	for (size_t first = 0, count; first < n; first += count) {
		count = n - first < TRANSFORMER_LOGITS_ROWS ? n - first : TRANSFORMER_LOGITS_ROWS;
		const float *rows = transformer_logits(model_transformer(r->model), &in, r->weights, first, count);
		memcpy(r->logits + first * r->vocabulary, rows, count * r->vocabulary * sizeof *rows);
	}
}

static weir_status run(struct run *r, char **args, weir_error *err)
{
	weir_status s = open_model(r, args[0], args[1], err);
	if (s == WEIR_OK)
		s = read_tokens(r, args[2], err);
	if (s != WEIR_OK)
		return s;
	compute(r);
	const struct safetensor logits = {
	    .name = "logits", .dims = 3, .shape = {r->sequences, r->length, r->vocabulary}, .data = r->logits};
	return safetensors_write(disk_system(), args[3], &logits, 1, NULL, err);
}

int main(int argc, char **argv)
{
	struct run r = {.job = NULL};
	weir_error err = {0};
	if (argc != 5) {
		fprintf(stderr, "usage: llm_logits JOB.yaml WEIGHTS TOKENS.safetensors OUT.safetensors\n");
		return 2;
	}
	const weir_status s = run(&r, argv + 1, &err);
	if (s != WEIR_OK)
		fprintf(stderr, "llm_logits: %s\n", err.text);
	free(r.logits);
	free(r.weights);
	free(r.tokens);
	safetensors_close(r.file);
	model_destroy(r.model);
	if (r.backend != NULL)
		r.backend->ops->destroy(r.backend);
	snapshot_close(r.snapshot);
	job_destroy(r.job);
	return s == WEIR_OK ? 0 : 1;
}
