/* Which token follows, from logits: the likeliest one, or one drawn from softmax(logits / temperature) of those that are left: the `top_k` likeliest, and of these
 * the fewest whose probabilities add up to `top_p` at least (Holtzman et al. 2020, sec. 3.1), in this order, as transformers has it. Host memory, any thread. */
#ifndef WEIR_SAMPLING_H
#define WEIR_SAMPLING_H

#include <stdint.h>

#include "common/base/prng.h"
#include "weir/status.h"

struct sampling {
	double temperature; /* 0: the likeliest, without a draw */
	double top_p;       /* above 0, at most 1; 1: all */
	uint32_t top_k;     /* 0: all */
};

struct sampled {
	uint32_t token;
	double probability; /* of being drawn */
};

struct sampler;
weir_status sampler_create(struct sampler **out, uint32_t vocabulary, const struct sampling *how,
                           weir_error *err) WEIR_MUST_CHECK;
void sampler_free(struct sampler *s); /* NULL is allowed */
/* What may be drawn, likeliest first, of equal ones the lower token; probabilities add up to 1. *count: how many. Valid until the next call. NULL: a logit is NaN, or the
 * greatest is infinite. */
const struct sampled *sampler_candidates(struct sampler *s, const float *logits, uint32_t *count);
/* One of them. E_CORRUPT: there are none. */
weir_status sampler_draw(struct sampler *s, const float *logits, struct prng *rng, uint32_t *token,
                         weir_error *err) WEIR_MUST_CHECK;

#endif
