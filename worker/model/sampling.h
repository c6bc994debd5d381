/* Chooses the next token from logits: the likeliest one, or one drawn from softmax(logits /
 * temperature).
 *
 * A draw is from the `top_k` likeliest tokens, reduced to the fewest whose probabilities add up to
 * at least `top_p` (Holtzman et al. 2020, sec. 3.1). The order of these steps is that of
 * transformers. Works in host memory, on any thread. */
#ifndef WEIR_SAMPLING_H
#define WEIR_SAMPLING_H

#include <stdint.h>

#include "common/base/prng.h"
#include "weir/status.h"

struct sampling {
	double temperature; /* 0: takes the likeliest token, without a draw */
	double top_p;       /* above 0, at most 1; 1: all */
	uint32_t top_k;     /* 0: all */
};

struct sampled {
	uint32_t token;
	double probability; /* of a draw */
};

struct sampler;
weir_status sampler_create(struct sampler **out, uint32_t vocabulary, const struct sampling *how,
                           weir_error *err) WEIR_MUST_CHECK;
void sampler_destroy(struct sampler *s); /* NULL is allowed */
/* Returns the tokens that may be drawn, likeliest first; among equals the lower token comes first.
 * Their probabilities add up to 1. *count gets their number. Valid until the next call. Returns
 * NULL if a logit is NaN or the greatest is infinite. */
const struct sampled *sampler_candidates(struct sampler *s, const float *logits, uint32_t *count);
/* Draws one of the candidates. E_CORRUPT: no candidates. */
weir_status sampler_draw(struct sampler *s, const float *logits, struct prng *rng, uint32_t *token,
                         weir_error *err) WEIR_MUST_CHECK;

#endif
