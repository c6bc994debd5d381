/* Inside of a transformer: shared by transformer*.c only. */
#ifndef WEIR_TRANSFORMER_PARTS_H
#define WEIR_TRANSFORMER_PARTS_H

#include "worker/model/projection.h"
#include "worker/model/transformer.h"

/* Offsets in the weights' space. */
struct norm {
	uint64_t weight, bias; /* bias: layer norm */
};

struct transformer_layer {
	struct norm attention_norm, mlp_norm;
	struct projection qkv, o;   /* q, k and v as one */
	struct projection up, down; /* Llama: gate and up as one */
};

/* What forward keeps of a layer for backward. rows = sequences * length. */
struct layer_state {
	float *x;          /* (rows, width) what enters it */
	float *normed;     /* (rows, width) */
	float *mean, *inv; /* (rows) of the norm */
	float
	    *qkv; /* (rows, attention_width) turned by their positions; decoding: (decodes, attention_width), of all tokens so far */
	float *attended;           /* (rows, heads * head_dim) */
	float *log_sums;           /* (rows * heads) */
	float *middle;             /* (rows, width) x between the two parts */
	float *mlp_normed;         /* (rows, width) */
	float *mlp_mean, *mlp_inv; /* (rows) */
	float *raised;             /* (rows, up.out) what enters gelu or swiglu */
	float *active;             /* (rows, hidden) what leaves it */
};

struct transformer {
	struct backend *backend;
	struct transformer_config config;
	struct transformer_options options;
	struct layout *trained;       /* borrowed */
	struct layout *frozen_layout; /* NULL: nothing is */
	float *frozen;
	uint64_t tokens, positions, head; /* offsets of (vocabulary, width), (context, width), (vocabulary, width) */
	struct norm last_norm;
	struct transformer_layer *layers; /* (layers) */

	uint32_t sequences, length; /* reserved */
	uint32_t decodes;           /* tokens that a sequence may grow to; 0: not reserved */
	bool trains;
	float *memory;                                   /* all that follows */
	struct layer_state *states;                      /* (layers); with recompute they share all but x, as in scoring all */
	float *out, *last_mean, *last_inv, *last_normed; /* (rows, width), (rows), (rows), (rows, width) of the last norm */
	float *dx, *dbranch;                             /* (rows, width) of the residual stream, of what a part added to it */
	float *dnormed;                                  /* (rows, width) */
	float *dattended, *dqkv, *dactive;               /* (rows, heads * head_dim), (rows, attention_width), (rows, hidden) */
	float *logits;                                   /* (head_rows, head_stride) */
	float *losses;                                   /* (rows) */
	float *cosines, *sines;                          /* (length, head_dim / 2) */
	float *dropped, *low, *dlow;                     /* projection_pass */
	size_t head_rows, head_stride;
	double *loss; /* what scoring adds to, and nobody reads */
};

struct pass {
	struct transformer *t;
	const struct token_batch *in;
	size_t rows;
	size_t before; /* decoding: tokens of the sequence that were given before */
	struct projection_pass p;
	float dropout;
};

/* The projections and tensors of both families. (transformer_layout.c) */
weir_status transformer_place(struct transformer *t, weir_error *err);

/* --- transformer_pass.c */
struct pass pass_of(struct transformer *t, const struct token_batch *in, const float *trained);
/* x of the first layer becomes t->last_normed. */
void transformer_forward(const struct pass *pass);
/* t->dx, the gradient of what the last layer has made, goes back to the embeddings'. */
void transformer_backward(const struct pass *pass);
void norm_forward(const struct pass *pass, const struct norm *n, const float *x, float *y, float *mean, float *inv);
/* dx += */
void norm_backward(const struct pass *pass, const struct norm *n, float *dx, const float *dy, const float *x, const float *mean,
                   const float *inv);

static inline bool is_gpt2(const struct transformer *t)
{
	return t->config.family == TRANSFORMER_GPT2;
}
static inline size_t qkv_width(const struct transformer_config *c)
{
	return (size_t)(c->heads + 2 * c->kv_heads) * c->head_dim;
}

#endif
