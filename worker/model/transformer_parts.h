/* The internals of a transformer, shared by transformer*.c only. */
#ifndef WEIR_TRANSFORMER_PARTS_H
#define WEIR_TRANSFORMER_PARTS_H

#include "worker/model/projection.h"
#include "worker/model/transformer.h"

/* Offsets in the space of the weights. */
struct norm {
	uint64_t weight, bias; /* bias: layer norm only */
};

struct transformer_layer {
	struct norm attention_norm, mlp_norm;
	struct projection qkv, o;   /* qkv: query, key and value as one product */
	struct projection up, down; /* Llama: up holds gate and up as one product */
};

/* The activations of a layer that forward keeps for backward. rows = sequences * length. */
struct layer_state {
	float *x;          /* (rows, width) the layer's input */
	float *normed;     /* (rows, width) */
	float *mean, *inv; /* (rows) statistics of the norm */
	/* (rows, qkv_width) after rotation; decoding: (decodes, qkv_width) for all tokens so far. */
	float *qkv;
	float *attended;           /* (rows, heads * head_dim) */
	float *log_sums;           /* (rows * heads) */
	float *middle;             /* (rows, width) x between attention and MLP */
	float *mlp_normed;         /* (rows, width) */
	float *mlp_mean, *mlp_inv; /* (rows) */
	float *raised;             /* (rows, up.out) input of gelu or swiglu */
	float *active;             /* (rows, hidden) output of gelu or swiglu */
};

struct transformer {
	struct backend *backend;
	struct transformer_config config;
	struct transformer_options options;
	struct layout *trained;       /* borrowed */
	struct layout *frozen_layout; /* NULL: nothing is frozen */
	float *frozen;
	/* Offsets of (vocabulary, width), (context, width), (vocabulary, width). */
	uint64_t tokens, positions, head;
	struct norm last_norm;
	struct transformer_layer *layers; /* (layers) */

	uint32_t sequences, length; /* reserved capacity */
	uint32_t decodes;           /* capacity in tokens of a decoded sequence; 0: not reserved */
	bool trains;
	/* One buffer for all members below, except `loss`. */
	float *memory;
	/* (layers); scoring shares one state, `recompute` shares all but x */
	struct layer_state *states;
	/* (rows, width), (rows), (rows), (rows, width); the last three of the last norm */
	float *out, *last_mean, *last_inv, *last_normed;
	/* (rows, width) gradients of the residual stream and of one branch */
	float *dx, *dbranch;
	float *dnormed; /* (rows, width) */
	/* (rows, heads * head_dim), (rows, qkv_width), (rows, hidden) */
	float *dattended, *dqkv, *dactive;
	float *logits;               /* (head_rows, head_stride) */
	float *losses;               /* (rows) */
	float *cosines, *sines;      /* (length, head_dim / 2) */
	float *dropped, *low, *dlow; /* see projection_pass */
	size_t head_rows, head_stride;
	double *loss; /* (1) receives the sum when scoring; unused */
};

struct pass {
	struct transformer *t;
	const struct token_batch *in;
	size_t rows;
	size_t before; /* decoding: tokens of the sequence in earlier calls */
	struct projection_pass p;
	float dropout;
};

/* Lays out the projections and tensors of both families (transformer_layout.c). */
weir_status transformer_place(struct transformer *t, weir_error *err);

/* --- transformer_head.c (pass_of) and transformer_pass.c (the others) */
struct pass pass_of(struct transformer *t, const struct token_batch *in, const float *trained);
/* Embeds the batch and runs all layers. The result is t->last_normed. */
void transformer_forward(const struct pass *pass);
/* Propagates t->dx, the gradient of the last layer's output, back to the embeddings. */
void transformer_backward(const struct pass *pass);
void norm_forward(const struct pass *pass, const struct norm *n, const float *x, float *y, float *mean, float *inv);
/* Adds to dx. */
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
