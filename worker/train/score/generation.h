/* Text generation by a transformer: extends a sequence of tokens, one at a time, until a token ends
 * it or it reaches its maximum length. */
#ifndef WEIR_GENERATION_H
#define WEIR_GENERATION_H

#include "worker/model/generation_config.h"
#include "worker/model/sampling.h"
#include "worker/model/transformer.h"

/* Plus the tokenizer's, and the end of an answer. */
#define GENERATION_STOPS_MAX (GENERATION_ENDS_MAX + 2)

struct generation {
	struct backend *backend;
	struct transformer *transformer;
	const float *trained; /* the trained weights, as for transformer_decode */
	struct sampling sampling;
	/* The same prompt, weights and seed give the same tokens on the same backend. */
	uint64_t seed;
	uint32_t tokens_max; /* beyond the prompt */
	uint32_t stops[GENERATION_STOPS_MAX], stops_count;
};

enum generation_end { GENERATION_STOPPED, GENERATION_TOKENS_MAX, GENERATION_POSITIONS };

/* Called for each token except the one that ends the sequence. A status other than WEIR_OK ends it,
 * too. */
typedef weir_status (*generation_fn)(void *arg, uint32_t token, weir_error *err);
/* E_LIMIT: the prompt leaves no position free. E_INVALID: it has no token, or one that the model
 * does not embed. */
weir_status generation_run(const struct generation *g, const uint32_t *prompt, size_t count, generation_fn fn, void *arg,
                           enum generation_end *end, weir_error *err) WEIR_MUST_CHECK;

#endif
