/* Decoder-only transformers with handwritten forward and backward passes: GPT-2 and Llama
 * (transformer_config.h), trained in full or by low-rank adapters.
 *
 *     x = token embedding (+ position embedding)
 *     each layer:  x += o(attention(q(n), k(n), v(n)))  with n = norm(x); Llama rotates q and k
 *                  by their positions
 *                  x += down(gelu(up(n)))  or  down(silu(gate(n)) * up(n))  with n = norm(x)
 *     logits = head(norm(x))
 *     loss   = -ln softmax(logits)[next token], over the tokens that have a target
 *
 * Norms are layer norm with biases (GPT-2) or RMS norm. Weights have Hugging Face's names and
 * shapes. GPT-2's projections are (in, out), as its Conv1D stores them; only the matrix products
 * transpose. Projections of one input (q, k and v; gate and up) lie side by side and are one
 * product.
 *
 * Training covers all weights, or adapters alone (Hu et al. 2021). With adapters, a chosen
 * projection is y = W x + alpha / rank * B A x; W is frozen and gets no gradient. Adapters have the
 * names of Hugging Face's PEFT. The transformer owns the buffer of frozen weights; its creator
 * fills it.
 *
 * transformer_reserve allocates activations once, for a number of sequences and their length. With
 * `recompute`, only the input of each layer is kept, and backward computes the layer again. Logits
 * are computed and used for some rows at a time. */
#ifndef WEIR_TRANSFORMER_H
#define WEIR_TRANSFORMER_H

#include "common/base/limits.h"
#include "common/base/lora_target.h"
#include "kernels/backend.h"
#include "worker/model/layer_flow.h"
#include "worker/model/layout.h"
#include "worker/model/transformer_config.h"

struct lora_options {
	uint32_t rank; /* 0: no adapters, all weights are trained */
	float alpha;
	float dropout; /* of the adapters' inputs */
	bool targets[LORA_TARGETS_COUNT];
	/* Adapters exist only in some modules of the targets, listed in `modules`. */
	bool some;
	uint16_t modules[WEIR_LAYERS_MAX]; /* per layer, one bit for each enum lora_module */
};
bool lora_has(const struct lora_options *o, uint32_t layer, enum lora_module m);

struct transformer_options {
	struct lora_options lora;
	float dropout;  /* of the embeddings and of each branch of the residual stream */
	bool recompute; /* backward computes each layer again */
	bool bare;      /* layout only: no memory for frozen weights, no backend */
};

struct transformer;

/* Adds the trained tensors to `trained`, which is borrowed. E_UNSUPPORTED: the family does not have
 * a target. */
weir_status transformer_create(struct transformer **out, struct backend *b, const struct transformer_config *config,
                               const struct transformer_options *options, struct layout *trained,
                               weir_error *err) WEIR_MUST_CHECK;
void transformer_destroy(struct transformer *t);
const struct transformer_config *transformer_config_of(const struct transformer *t);
const struct lora_options *transformer_lora_of(const struct transformer *t);
/* Returns the layout of the model's weights: `trained`, or the frozen ones. */
const struct layout *transformer_weights(const struct transformer *t);
/* Returns (elements of transformer_weights) backend memory, initially zeros; NULL if nothing is
 * frozen. */
float *transformer_frozen(struct transformer *t);

/* Returns the floating-point operations of training, forward and backward, for one token in
 * sequences of `length` tokens. Each weight costs six, two of them for its gradient; frozen weights
 * have no gradient and cost four. Attention is added (Chowdhery et al. 2022, appendix B). The extra
 * work of `recompute` is not counted. */
double transformer_flops(const struct transformer *t, uint32_t length);

/* Reserves memory for up to `sequences` of `length` tokens, for training and scoring or for scoring
 * alone. E_LIMIT: `length` exceeds the model's positions. */
weir_status transformer_reserve(struct transformer *t, uint32_t sequences, uint32_t length, bool training,
                                weir_error *err) WEIR_MUST_CHECK;

/* A batch in backend memory. */
struct token_batch {
	uint32_t sequences, length;
	const uint32_t *tokens;  /* (sequences, length), each below the vocabulary size */
	const uint32_t *targets; /* (sequences, length) the next token of each, or TARGET_NONE */
};

/* `trained` and `gradients` are (elements of `trained`) in backend memory. */
struct transformer_step {
	/* Weight of each token's loss in the gradient: 1 / the number of targets in all accumulated
	 * parts. */
	float scale;
	/* Tokens in the earlier parts of the batch, to whose gradients this part adds. 0: the first
	 * part. */
	size_t first;
	/* (1) backend memory; dropout masks cover the whole batch; NULL without dropout */
	const uint64_t *seed;
	const float *loss_scale; /* (1) backend memory; multiplies all gradients; NULL: 1 */
	/* of `trained`, if that is the weights; NULL: it is there */
	const struct layer_flow *flow;
	bool last; /* of the parts: the gradients are final */
};
/* Runs forward and backward. Adds the sum of the losses, not scaled, to *loss in backend memory. */
void transformer_train(struct transformer *t, const struct token_batch *in, const float *trained, float *gradients,
                       const struct transformer_step *step, double *loss);
/* Returns (sequences * length) the log probability of each target, 0 for TARGET_NONE, valid until
 * the next call. */
const float *transformer_score(struct transformer *t, const struct token_batch *in, const float *trained);
/* Returns (count, vocabulary) the logits of tokens [first, first + count) of (sequences * length),
 * valid until the next call. count is at most TRANSFORMER_LOGITS_ROWS. Ignores targets. */
#define TRANSFORMER_LOGITS_ROWS 16u
const float *transformer_logits(struct transformer *t, const struct token_batch *in, const float *trained, size_t first,
                                size_t count);

/* --- Decoding: one sequence, token by token. Keys and values of earlier tokens are kept, so that
 * each token is computed once. */
#define TRANSFORMER_DECODE_ROWS 64u /* tokens per call, at most */
/* Reserves memory for a sequence of up to `length` tokens, in place of any earlier reservation.
 * E_LIMIT: `length` exceeds the model's positions. */
weir_status transformer_reserve_decoding(struct transformer *t, uint32_t length, weir_error *err) WEIR_MUST_CHECK;
/* Returns (vocabulary) the logits of the token after `count` tokens, in backend memory, valid until
 * the next call. Earlier calls passed the sequence's first `before` tokens. */
const float *transformer_decode(struct transformer *t, const uint32_t *tokens, uint32_t before, uint32_t count,
                                const float *trained);

/* merged (elements of transformer_weights) = the frozen weights plus the adapters. `merged` may be
 * the frozen weights themselves. */
void transformer_merge(struct transformer *t, const float *trained, float *merged);

#endif
