/* Runs a transformer's layers forward and backward. */
#include <assert.h>

#include "worker/model/transformer_parts.h"

/* The places of dropout. */
enum site { SITE_EMBEDDING, SITE_ATTENTION, SITE_MLP, SITES };

/* Drops elements of x (rows, width). The salts that tell masks of one seed apart count from 2^32,
 * beyond the adapters' salts. */
static void drop(const struct pass *pass, float *x, uint32_t layer, enum site site)
{
	const struct transformer *t = pass->t;
	const size_t width = t->config.width;
	t->backend->ops->dropout(t->backend, x, pass->p.first * width, pass->rows * width, pass->dropout, pass->p.seed,
	                         1ull << 32 | ((uint64_t)layer * SITES + site));
}

static uint64_t norm_elements(const struct transformer *t)
{
	return (uint64_t)t->config.width * (is_gpt2(t) ? 2 : 1);
}

void norm_forward(const struct pass *pass, const struct norm *n, const float *x, float *y, float *mean, float *inv)
{
	const struct transformer *t = pass->t;
	struct backend *b = t->backend;
	const float *w = pass->p.weights;
	layer_flow_await(pass->p.flow, n->weight, norm_elements(t));
	if (is_gpt2(t))
		b->ops->layer_norm(b, y, mean, inv, x, w + n->weight, w + n->bias, pass->rows, t->config.width, t->config.norm_eps);
	else
		b->ops->rms_norm(b, y, inv, x, w + n->weight, pass->rows, t->config.width, t->config.norm_eps);
}

void norm_backward(const struct pass *pass, const struct norm *n, float *dx, const float *dy, const float *x, const float *mean,
                   const float *inv)
{
	const struct transformer *t = pass->t;
	struct backend *b = t->backend;
	const float *gamma = pass->p.weights + n->weight;
	float *dw = pass->p.dweights, *dgamma = dw ? dw + n->weight : NULL, *dbeta = dw ? dw + n->bias : NULL;
	if (is_gpt2(t))
		b->ops->layer_norm_backward(b, dx, dgamma, dbeta, dy, x, gamma, mean, inv, pass->rows, t->config.width);
	else
		b->ops->rms_norm_backward(b, dx, dgamma, dy, x, gamma, inv, pass->rows, t->config.width);
	layer_flow_done(pass->p.back, n->weight, norm_elements(t));
}

static struct attention_shape shape_of(const struct pass *pass)
{
	const struct transformer_config *c = &pass->t->config;
	return (struct attention_shape){.batch = pass->in->sequences,
	                                .length = pass->before + pass->in->length,
	                                .heads = c->heads,
	                                .kv_heads = c->kv_heads,
	                                .dim = c->head_dim,
	                                .scale = (float)(1 / __builtin_sqrt((double)c->head_dim)),
	                                .first = pass->before};
}

/* Rotates queries and keys, which are the first columns of qkv. */
static void turn(const struct pass *pass, float *qkv, bool back)
{
	const struct transformer *t = pass->t;
	const struct transformer_config *c = &t->config;
	const size_t angles = pass->before * (c->head_dim / 2);
	if (!is_gpt2(t))
		t->backend->ops->rope(t->backend, qkv, qkv_width(c), t->cosines + angles, t->sines + angles, pass->rows, pass->in->length,
		                      c->heads + c->kv_heads, c->head_dim, back);
}

/* out = x + (y + the projection's bias), with dropout on the sum in parentheses. out may be y. */
static void add_part(const struct pass *pass, const struct projection *j, float *out, const float *x, float *y, uint32_t layer,
                     enum site site)
{
	struct backend *b = pass->t->backend;
	const size_t width = pass->t->config.width;
	const float *bias = projection_bias(j, &pass->p);
	if (pass->dropout > 0) {
		b->ops->bias_act(b, y, bias, pass->rows, width, ACT_NONE);
		drop(pass, y, layer, site);
		bias = NULL;
	}
	b->ops->add(b, out, x, y, bias, pass->rows, width);
}

/* Returns the gradient of the branch's output. */
static const float *part_gradient(const struct pass *pass, uint32_t layer, enum site site)
{
	const struct transformer *t = pass->t;
	struct backend *b = t->backend;
	const size_t n = pass->rows * t->config.width;
	if (pass->dropout == 0)
		return t->dx;
	b->ops->copy(b, t->dbranch, t->dx, n);
	drop(pass, t->dbranch, layer, site);
	return t->dbranch;
}

static void attention_forward(const struct pass *pass, uint32_t layer)
{
	struct transformer *t = pass->t;
	struct backend *b = t->backend;
	const struct transformer_layer *l = &t->layers[layer];
	const struct layer_state *s = &t->states[layer];
	const struct attention_shape shape = shape_of(pass);
	float *qkv = s->qkv + pass->before * l->qkv.out;
	norm_forward(pass, &l->attention_norm, s->x, s->normed, s->mean, s->inv);
	projection_forward(&l->qkv, &pass->p, s->normed, qkv, pass->rows);
	b->ops->bias_act(b, qkv, projection_bias(&l->qkv, &pass->p), pass->rows, l->qkv.out, ACT_NONE);
	turn(pass, qkv, false);
	b->ops->attention(b, s->attended, s->log_sums, s->qkv, &shape);
	projection_forward(&l->o, &pass->p, s->attended, s->middle, pass->rows);
	add_part(pass, &l->o, s->middle, s->x, s->middle, layer, SITE_ATTENTION);
}

/* Computes the input of the last projection. */
static void mlp_forward(const struct pass *pass, uint32_t layer)
{
	struct transformer *t = pass->t;
	struct backend *b = t->backend;
	const struct transformer_layer *l = &t->layers[layer];
	const struct layer_state *s = &t->states[layer];
	const float *bias = projection_bias(&l->up, &pass->p);
	norm_forward(pass, &l->mlp_norm, s->middle, s->mlp_normed, s->mlp_mean, s->mlp_inv);
	projection_forward(&l->up, &pass->p, s->mlp_normed, s->raised, pass->rows);
	if (is_gpt2(t)) {
		b->ops->gelu(b, s->active, s->raised, bias, pass->rows, t->config.hidden);
		return;
	}
	b->ops->bias_act(b, s->raised, bias, pass->rows, l->up.out, ACT_NONE);
	b->ops->swiglu(b, s->active, s->raised, pass->rows, t->config.hidden);
}

void transformer_forward(const struct pass *pass)
{
	struct transformer *t = pass->t;
	const struct transformer_config *c = &t->config;
	struct backend *b = t->backend;
	const float *w = pass->p.weights;
	layer_flow_await(pass->p.flow, 0, t->layers[0].attention_norm.weight);
	b->ops->embed(b, t->states[0].x, w + t->tokens, is_gpt2(t) ? w + t->positions + pass->before * c->width : NULL,
	              pass->in->tokens, c->vocabulary, pass->rows, pass->in->length, c->width);
	if (pass->dropout > 0)
		drop(pass, t->states[0].x, 0, SITE_EMBEDDING);
	for (uint32_t i = 0; i < c->layers; i++) {
		const struct projection *down = &t->layers[i].down;
		float *next = i + 1 < c->layers ? t->states[i + 1].x : t->out;
		attention_forward(pass, i);
		mlp_forward(pass, i);
		projection_forward(down, &pass->p, t->states[i].active, next, pass->rows);
		add_part(pass, down, next, t->states[i].middle, next, i, SITE_MLP);
	}
	norm_forward(pass, &t->last_norm, t->out, t->last_normed, t->last_mean, t->last_inv);
}

static void mlp_backward(const struct pass *pass, uint32_t layer)
{
	struct transformer *t = pass->t;
	struct backend *b = t->backend;
	const struct transformer_layer *l = &t->layers[layer];
	const struct layer_state *s = &t->states[layer];
	float *draised = t->dactive;
	projection_backward(&l->down, &pass->p, t->dactive, part_gradient(pass, layer, SITE_MLP), s->active, pass->rows);
	if (is_gpt2(t)) {
		b->ops->bias_act_backward(b, draised, t->dactive, s->raised, NULL, pass->rows, t->config.hidden, ACT_GELU);
	} else { /* overwrites s->raised, which is no longer needed */
		draised = s->raised;
		b->ops->swiglu_backward(b, draised, t->dactive, s->raised, pass->rows, t->config.hidden);
	}
	projection_backward(&l->up, &pass->p, t->dnormed, draised, s->mlp_normed, pass->rows);
	norm_backward(pass, &l->mlp_norm, t->dx, t->dnormed, s->middle, s->mlp_mean, s->mlp_inv);
}

static void attention_backward(const struct pass *pass, uint32_t layer)
{
	struct transformer *t = pass->t;
	struct backend *b = t->backend;
	const struct transformer_layer *l = &t->layers[layer];
	const struct layer_state *s = &t->states[layer];
	const struct attention_shape shape = shape_of(pass);
	projection_backward(&l->o, &pass->p, t->dattended, part_gradient(pass, layer, SITE_ATTENTION), s->attended, pass->rows);
	b->ops->attention_backward(b, t->dqkv, t->dattended, s->attended, s->log_sums, s->qkv, &shape);
	turn(pass, t->dqkv, true);
	projection_backward(&l->qkv, &pass->p, t->dnormed, t->dqkv, s->normed, pass->rows);
	norm_backward(pass, &l->attention_norm, t->dx, t->dnormed, s->x, s->mean, s->inv);
}

void transformer_backward(const struct pass *pass)
{
	struct transformer *t = pass->t;
	const struct transformer_config *c = &t->config;
	struct backend *b = t->backend;
	for (uint32_t i = c->layers; i-- > 0;) {
		if (t->options.recompute) {
			attention_forward(pass, i);
			mlp_forward(pass, i);
		}
		mlp_backward(pass, i);
		attention_backward(pass, i);
	}
	float *dw = pass->p.dweights;
	if (!dw)
		return;
	if (pass->dropout > 0)
		drop(pass, t->dx, 0, SITE_EMBEDDING);
	b->ops->embed_backward(b, dw + t->tokens, is_gpt2(t) ? dw + t->positions : NULL, t->dx, pass->in->tokens, c->vocabulary,
	                       pass->rows, pass->in->length, c->width);
}
