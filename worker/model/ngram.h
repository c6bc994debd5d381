/* A language model of the n-gram kind (Bengio et al. 2003, eq. 1, without its direct connections, and with ReLU): what follows depends on the last
 * `context` tokens alone.
 *
 *     logits = head . MLP(the embeddings of the context's tokens, side by side) + bias          loss = -ln softmax(logits)[what follows]
 *
 * All its parameters, the embeddings too, are in the dense table: a batch uses nearly all of the few tokens there are. */
#ifndef WEIR_NGRAM_H
#define WEIR_NGRAM_H

#include "common/job/job.h"
#include "worker/model/tower.h"

struct ngram {
	struct backend *backend;
	uint32_t context, tokens, dim;
	uint64_t embedding, head, bias; /* offsets: (tokens, dim), (tokens, width of the tower), (tokens) */
	struct tower tower;

	uint32_t rows;
	float *x, *dx;  /* (rows, context, dim) */
	float *logits;  /* (rows, tokens), then their gradient */
	float *scores;  /* (rows) */
	uint32_t *bags; /* (rows * context + 1) every token of a context is a bag of its own */
};

void ngram_init(struct ngram *n, struct backend *b, const struct job *job, struct layout *params, struct layout *stats);
void ngram_free(struct ngram *n);
weir_status ngram_reserve(struct ngram *n, uint32_t rows);

/* tokens (rows, context), targets (rows). */
struct ngram_batch {
	uint32_t rows;
	const uint32_t *tokens, *targets;
};
/* (rows) the logarithm of the probability of each target; valid until the next call. */
const float *ngram_score(struct ngram *n, const struct ngram_batch *in, const float *params, const struct forward_mode *mode);
/* Writes the gradient of the mean loss into dparams, and the sum of the losses into loss (1). */
void ngram_train(struct ngram *n, const struct ngram_batch *in, const float *params, const struct forward_mode *mode,
                 float *dparams, double *loss);

#endif
