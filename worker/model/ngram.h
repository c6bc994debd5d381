/* An n-gram language model: the next token depends only on the last `context` tokens (Bengio et al.
 * 2003, eq. 1, without direct connections and with ReLU).
 *
 *     logits = head . MLP(embeddings of the context's tokens, side by side) + bias
 *     loss   = -ln softmax(logits)[next token]
 *
 * The dense table holds all parameters, including the embeddings: a batch uses nearly all of the
 * few tokens that exist. */
#ifndef WEIR_NGRAM_H
#define WEIR_NGRAM_H

#include "common/job/job.h"
#include "worker/model/tower.h"

struct ngram {
	struct backend *backend;
	uint32_t context, tokens, dim;
	/* offsets: (tokens, dim), (tokens, width of the tower), (tokens) */
	uint64_t embedding, head, bias;
	struct tower tower;

	uint32_t rows;
	float *x, *dx;  /* (rows, context, dim) */
	float *logits;  /* (rows, tokens), then their gradient */
	float *scores;  /* (rows) */
	uint32_t *bags; /* (rows * context + 1) each token of a context is its own bag */
};

void ngram_init(struct ngram *n, struct backend *b, const struct job *job, struct layout *params, struct layout *stats);
void ngram_destroy(struct ngram *n);
weir_status ngram_reserve(struct ngram *n, uint32_t rows);

/* tokens (rows, context), targets (rows). */
struct ngram_batch {
	uint32_t rows;
	const uint32_t *tokens, *targets;
};
/* Returns (rows) the log probability of each target, valid until the next call. */
const float *ngram_score(struct ngram *n, const struct ngram_batch *in, const float *params, const struct forward_mode *mode);
/* Writes the gradient of the mean loss into dparams and the sum of the losses into loss (1). */
void ngram_train(struct ngram *n, const struct ngram_batch *in, const float *params, const struct forward_mode *mode,
                 float *dparams, double *loss);

#endif
