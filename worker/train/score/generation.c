#include "worker/train/score/generation.h"

#include <stdlib.h>

struct run {
	const struct generation *g;
	struct sampler *sampler;
	struct prng rng;
	uint32_t *tokens; /* (TRANSFORMER_DECODE_ROWS) the backend's */
	float *logits;    /* (vocabulary) the host's */
	uint32_t vocabulary;
	uint32_t at; /* tokens of the sequence so far */
};

static weir_status check_prompt(const struct generation *g, const uint32_t *prompt, size_t count, weir_error *err)
{
	const struct transformer_config *c = transformer_config_of(g->transformer);
	if (count == 0)
		return weir_fail(err, WEIR_E_INVALID, "the prompt has no tokens, and there is nothing to begin with");
	if (count >= c->context)
		return weir_fail(err, WEIR_E_LIMIT,
		                 "the prompt has %zu tokens, and the model has positions for %u, of which one at least is to be free",
		                 count, c->context);
	for (size_t i = 0; i < count; i++)
		if (prompt[i] >= c->vocabulary)
			return weir_fail(err, WEIR_E_INVALID, "token %u of the prompt: the model embeds those below %u", prompt[i],
			                 c->vocabulary);
	return WEIR_OK;
}

/* Appends tokens; leaves the logits of the next one. */
static weir_status take(struct run *r, const uint32_t *tokens, size_t count, weir_error *err)
{
	struct backend *b = r->g->backend;
	const float *logits = NULL;
	while (count > 0) {
		const uint32_t n = count < TRANSFORMER_DECODE_ROWS ? (uint32_t)count : TRANSFORMER_DECODE_ROWS;
		b->ops->to_device(b, r->tokens, tokens, n * sizeof *tokens);
		logits = transformer_decode(r->g->transformer, r->tokens, r->at, n, r->g->trained);
		r->at += n;
		tokens += n;
		count -= n;
	}
	b->ops->to_host(b, r->logits, logits, r->vocabulary * sizeof *r->logits);
	return b->ops->sync(b, err);
}

static bool stops(const struct generation *g, uint32_t token)
{
	for (uint32_t i = 0; i < g->stops_count; i++)
		if (g->stops[i] == token)
			return true;
	return false;
}

static weir_status go_on(struct run *r, uint32_t length, generation_fn fn, void *arg, enum generation_end *end, weir_error *err)
{
	for (;;) {
		uint32_t token;
		weir_status status = sampler_draw(r->sampler, r->logits, &r->rng, &token, err);
		if (status == WEIR_OK && stops(r->g, token)) {
			*end = GENERATION_STOPPED;
			return WEIR_OK;
		}
		if (status == WEIR_OK)
			status = fn(arg, token, err);
		if (status != WEIR_OK || r->at + 1 >= length)
			return status;
		status = take(r, &token, 1, err);
		if (status != WEIR_OK)
			return status;
	}
}

weir_status generation_run(const struct generation *g, const uint32_t *prompt, size_t count, generation_fn fn, void *arg,
                           enum generation_end *end, weir_error *err)
{
	const struct transformer_config *c = transformer_config_of(g->transformer);
	struct backend *b = g->backend;
	struct run r = {.g = g, .vocabulary = c->vocabulary};
	weir_status status = check_prompt(g, prompt, count, err);
	if (status != WEIR_OK)
		return status;
	const uint32_t room = c->context - (uint32_t)count;
	const uint32_t length = (uint32_t)count + (g->tokens_max < room ? g->tokens_max : room);
	*end = g->tokens_max <= room ? GENERATION_TOKENS_MAX : GENERATION_POSITIONS;
	prng_seed(&r.rng, g->seed);
	status = sampler_create(&r.sampler, c->vocabulary, &g->sampling, err);
	if (status == WEIR_OK)
		status = transformer_reserve_decoding(g->transformer, length, err);
	r.logits = malloc(c->vocabulary * sizeof *r.logits);
	r.tokens = b->ops->buffer_alloc(b, TRANSFORMER_DECODE_ROWS * sizeof *r.tokens);
	if (status == WEIR_OK && (!r.logits || !r.tokens))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory for %u logits", c->vocabulary);
	if (status == WEIR_OK && g->tokens_max > 0)
		status = take(&r, prompt, count, err);
	if (status == WEIR_OK && g->tokens_max > 0)
		status = go_on(&r, length, fn, arg, end, err);
	if (r.tokens)
		b->ops->buffer_free(b, r.tokens);
	free(r.logits);
	sampler_destroy(r.sampler);
	return status;
}
