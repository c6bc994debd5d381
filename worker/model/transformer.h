/* Decoder-only transformers, forward and backward by hand: GPT-2 and Llama (transformer_config.h), whole or by low-rank adapters.
 *
 *     x = token embedding (+ position embedding)
 *     of each layer:  x += o(attention(q(n), k(n), v(n)))  with n = norm(x); Llama's q and k are turned by their position
 *                     x += down(gelu(up(n)))  or  down(silu(gate(n)) * up(n))  with n = norm(x)
 *     logits = head(norm(x))                    loss = -ln softmax(logits)[what follows], over the tokens that have a target
 *
 * Norms are layer norm with biases (GPT-2) or RMS norm. Weights have Hugging Face's names, and its shapes: GPT-2's projections are (in, out) there, as its Conv1D
 * stores them, and stay so; nothing is transposed but in the matrix products. Projections of the same input (q, k and v; gate and up) lie beside each other,
 * and are one product.
 *
 * Trained are all weights, or adapters alone (Hu et al. 2021): of a chosen projection y = W x + alpha / rank * B A x with W frozen, for which no gradient is
 * computed. Adapters have the names of Hugging Face's PEFT. Frozen weights are a buffer of the transformer's own, which whoever made it fills.
 *
 * Activations are allocated once for a number of sequences and their length (transformer_reserve). With `recompute` only what enters each layer is kept, and a
 * layer is computed again on its way back. Logits are made and used for some rows at a time. */
#ifndef WEIR_TRANSFORMER_H
#define WEIR_TRANSFORMER_H

#include "common/base/limits.h"
#include "common/base/lora_target.h"
#include "kernels/backend.h"
#include "worker/model/layout.h"
#include "worker/model/transformer_config.h"

struct lora_options {
	uint32_t rank; /* 0: none, all weights are trained */
	float alpha;
	float dropout; /* of what enters the adapters */
	bool targets[LORA_TARGETS_COUNT];
	bool some;                         /* adapters are of some of the targets' modules alone: */
	uint16_t modules[WEIR_LAYERS_MAX]; /* of each layer, a bit for each enum lora_module */
};
bool lora_has(const struct lora_options *o, uint32_t layer, enum lora_module m);

struct transformer_options {
	struct lora_options lora;
	float dropout;  /* of the embeddings, and of what each part adds to the residual stream */
	bool recompute; /* layers are computed again in backward */
	bool bare;      /* only to see what it is made of: without memory for what is frozen, and without a backend */
};

struct transformer;

/* Adds what is trained to `trained`, which is borrowed. E_UNSUPPORTED: a target that the family does not have. */
weir_status transformer_create(struct transformer **out, struct backend *b, const struct transformer_config *config,
                               const struct transformer_options *options, struct layout *trained,
                               weir_error *err) WEIR_MUST_CHECK;
void transformer_destroy(struct transformer *t);
const struct transformer_config *transformer_config_of(const struct transformer *t);
const struct lora_options *transformer_lora_of(const struct transformer *t);
/* The model's weights: `trained`, or those frozen. */
const struct layout *transformer_weights(const struct transformer *t);
/* (elements of transformer_weights) of the backend, zeros at first; NULL where nothing is frozen. */
float *transformer_frozen(struct transformer *t);

/* Floating-point operations that training takes for a token of sequences of `length`, forward and backward: six for each weight, two of them for its gradient, which frozen
 * ones do not have; and those of attention (Chowdhery et al. 2022, appendix B). What `recompute` adds is not counted. */
double transformer_flops(const struct transformer *t, uint32_t length);

/* Memory for up to `sequences` of `length` tokens, for training too or for scoring alone. E_LIMIT: longer than its positions. */
weir_status transformer_reserve(struct transformer *t, uint32_t sequences, uint32_t length, bool training,
                                weir_error *err) WEIR_MUST_CHECK;

/* In the backend's memory. */
struct token_batch {
	uint32_t sequences, length;
	const uint32_t *tokens;  /* (sequences, length), each of the vocabulary */
	const uint32_t *targets; /* (sequences, length) what follows each, or TARGET_NONE */
};

/* `trained`, `gradients`: (elements of `trained`), the backend's memory. */
struct transformer_step {
	float scale;  /* of each token's loss in the gradient: 1 / the number of targets of all parts that are added up */
	size_t first; /* tokens of the batch's parts before this one, whose gradients these are added to; 0: it is the first */
	const uint64_t *seed; /* (1) of dropout, whose masks are the whole batch's; the backend's memory; NULL where there is none */
	const float *loss_scale; /* (1) that all gradients are multiplied by, the backend's memory; NULL: 1 */
};
/* Forward and backward. *loss, in the backend's memory, += the sum of the losses (not scaled). */
void transformer_train(struct transformer *t, const struct token_batch *in, const float *trained, float *gradients,
                       const struct transformer_step *step, double *loss);
/* (sequences * length) the logarithm of the probability of each target, 0 where there is none; valid until the next call. */
const float *transformer_score(struct transformer *t, const struct token_batch *in, const float *trained);
/* (count, vocabulary) of tokens [first, first + count) of (sequences * length), at most TRANSFORMER_LOGITS_ROWS; likewise. Targets are not looked at. */
#define TRANSFORMER_LOGITS_ROWS 16u
const float *transformer_logits(struct transformer *t, const struct token_batch *in, const float *trained, size_t first,
                                size_t count);

/* --- One sequence, token after token. What attention needs of earlier tokens is kept, so that each of them is computed once. */
#define TRANSFORMER_DECODE_ROWS 64u /* tokens at once, at most */
/* Memory for a sequence that grows to `length` tokens. What was reserved before is not any more. E_LIMIT: longer than its positions. */
weir_status transformer_reserve_decoding(struct transformer *t, uint32_t length, weir_error *err) WEIR_MUST_CHECK;
/* (vocabulary) the logits of what follows `count` tokens, the backend's, of a sequence whose first `before` tokens were given by earlier calls; valid until the next. */
const float *transformer_decode(struct transformer *t, const uint32_t *tokens, uint32_t before, uint32_t count,
                                const float *trained);

/* merged (elements of transformer_weights) = the frozen weights with the adapters in them; merged may be the frozen weights themselves. */
void transformer_merge(struct transformer *t, const float *trained, float *merged);

#endif
