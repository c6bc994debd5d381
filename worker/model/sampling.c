#include "worker/model/sampling.h"

#include <math.h>
#include <stdlib.h>

struct sampler {
	struct sampling how;
	uint32_t vocabulary;
	struct sampled *tokens; /* (vocabulary) */
};

weir_status sampler_create(struct sampler **out, uint32_t vocabulary, const struct sampling *how, weir_error *err)
{
	struct sampler *s = malloc(sizeof *s);
	struct sampled *tokens = malloc((size_t)vocabulary * sizeof *tokens);
	if (!s || !tokens) {
		free(s);
		free(tokens);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the probabilities of %u tokens", vocabulary);
	}
	*s = (struct sampler){.how = *how, .vocabulary = vocabulary, .tokens = tokens};
	*out = s;
	return WEIR_OK;
}

void sampler_destroy(struct sampler *s)
{
	if (!s)
		return;
	free(s->tokens);
	free(s);
}

static int by_likelihood(const void *a, const void *b)
{
	const struct sampled *x = a, *y = b;
	if (x->probability != y->probability)
		return x->probability > y->probability ? -1 : 1;
	return x->token < y->token ? -1 : 1;
}

/* Turns the weights of the first `count` tokens into probabilities; the others are dropped. */
static void normalize(struct sampled *tokens, uint32_t count)
{
	double sum = 0;
	for (uint32_t i = 0; i < count; i++)
		sum += tokens[i].probability;
	for (uint32_t i = 0; i < count; i++)
		tokens[i].probability /= sum;
}

static const struct sampled *likeliest(struct sampler *s, const float *logits, uint32_t *count)
{
	uint32_t best = 0;
	for (uint32_t i = 0; i < s->vocabulary; i++) {
		if (isnan(logits[i]))
			return NULL;
		best = logits[i] > logits[best] ? i : best;
	}
	if (isinf(logits[best])) /* subtracting an infinity gives NaN */
		return NULL;
	s->tokens[0] = (struct sampled){best, 1};
	*count = 1;
	return s->tokens;
}

const struct sampled *sampler_candidates(struct sampler *s, const float *logits, uint32_t *count)
{
	const struct sampled *first = likeliest(s, logits, count);
	if (!first || s->how.temperature == 0)
		return first;
	const double most = (double)logits[first->token];
	uint32_t n = s->vocabulary;
	for (uint32_t i = 0; i < n; i++)
		s->tokens[i] = (struct sampled){i, exp(((double)logits[i] - most) / s->how.temperature)};
	qsort(s->tokens, n, sizeof *s->tokens, by_likelihood);
	n = s->how.top_k > 0 && s->how.top_k < n ? s->how.top_k : n;
	normalize(s->tokens, n);
	double sum = 0;
	uint32_t kept = 0;
	while (kept < n && (kept == 0 || sum < s->how.top_p))
		sum += s->tokens[kept++].probability;
	if (s->how.top_p < 1 && kept < n) {
		n = kept;
		normalize(s->tokens, n);
	}
	*count = n;
	return s->tokens;
}

weir_status sampler_draw(struct sampler *s, const float *logits, struct prng *rng, uint32_t *token, weir_error *err)
{
	uint32_t count, i = 0;
	const struct sampled *all = sampler_candidates(s, logits, &count);
	if (!all)
		return weir_fail(err, WEIR_E_CORRUPT, "the model's logits are not numbers: its weights have NaN or infinities in them");
	double left = count > 1 ? prng_unit(rng) : 0;
	for (; i + 1 < count && left >= all[i].probability; i++)
		left -= all[i].probability;
	*token = all[i].token;
	return WEIR_OK;
}
