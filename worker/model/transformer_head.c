/* Computes a transformer's results after the last layer: losses and their gradients, scores,
 * logits. */
#include <assert.h>

#include "worker/model/transformer_parts.h"

struct pass pass_of(struct transformer *t, const struct token_batch *in, const float *trained)
{
	assert(in->sequences <= t->sequences && in->length <= t->length);
	const struct lora_options *lora = &t->options.lora;
	const bool frozen = t->frozen != NULL;
	return (struct pass){.t = t,
	                     .in = in,
	                     .rows = (size_t)in->sequences * in->length,
	                     .p = {.backend = t->backend,
	                           .weights = frozen ? t->frozen : trained,
	                           .adapters = frozen ? trained : NULL,
	                           .rank = lora->rank,
	                           .scale = frozen ? lora->alpha / (float)lora->rank : 0,
	                           .dropped = t->dropped,
	                           .low = t->low,
	                           .dlow = t->dlow}};
}

static uint64_t head_elements(const struct transformer *t)
{
	return (uint64_t)t->config.vocabulary * t->config.width;
}

/* Computes logits (count, stride) of rows [first, first + count) of the last norm's output. */
static void head_forward(const struct pass *pass, size_t first, size_t count, size_t stride)
{
	const struct transformer *t = pass->t;
	const size_t width = t->config.width;
	layer_flow_await(pass->p.flow, t->head, head_elements(t));
	t->backend->ops->gemm(t->backend, false, true, count, t->config.vocabulary, width, 1, t->last_normed + first * width, width,
	                      pass->p.weights + t->head, width, 0, t->logits, stride);
}

/* Computes the losses of all rows and, with a step, dnormed (rows, width) and the head's
 * gradient. */
static void classify(const struct pass *pass, const struct transformer_step *step, float *losses, double *loss)
{
	const bool gradient = step != NULL;
	struct transformer *t = pass->t;
	struct backend *b = t->backend;
	const size_t width = t->config.width, classes = t->config.vocabulary, stride = t->head_stride;
	float beta = pass->p.beta;
	for (size_t first = 0; first < pass->rows; first += t->head_rows) {
		const size_t count = pass->rows - first < t->head_rows ? pass->rows - first : t->head_rows;
		const float *normed = t->last_normed + first * width;
		head_forward(pass, first, count, stride);
		b->ops->classifier(b, loss, losses ? losses + first : NULL, t->logits, stride, pass->in->targets + first, count, classes,
		                   gradient ? step->scale : 1, gradient);
		if (!gradient)
			continue;
		if (step->loss_scale)
			b->ops->scale_by(b, t->logits, count * stride, step->loss_scale);
		b->ops->gemm(b, false, false, count, width, classes, 1, t->logits, stride, pass->p.weights + t->head, width, 0,
		             t->dnormed + first * width, width);
		if (pass->p.dweights)
			b->ops->gemm(b, true, false, classes, width, count, 1, t->logits, stride, normed, width, beta,
			             pass->p.dweights + t->head, width);
		beta = 1;
	}
}

/* Zeroes the gradients that ops add to. Matrix products overwrite theirs. */
static void begin_gradients(const struct pass *pass)
{
	const struct transformer *t = pass->t;
	const struct layout *layout = transformer_weights(t);
	struct backend *b = t->backend;
	if (!pass->p.dweights || pass->p.beta != 0)
		return;
	for (uint32_t i = 0; i < layout->count; i++) {
		const struct tensor *tensor = &layout->tensors[i];
		const bool looked_up =
		    (tensor->offset == t->tokens && !t->config.tied_head) || (is_gpt2(t) && tensor->offset == t->positions);
		if (tensor->cols == 0 || looked_up)
			b->ops->fill(b, pass->p.dweights + tensor->offset, 0, tensor->elements);
	}
}

void transformer_train(struct transformer *t, const struct token_batch *in, const float *trained, float *gradients,
                       const struct transformer_step *step, double *loss)
{
	struct pass pass = pass_of(t, in, trained);
	assert(t->trains);
	pass.dropout = t->options.dropout;
	pass.p.training = true;
	pass.p.seed = step->seed;
	pass.p.dropout = t->options.lora.dropout;
	pass.p.first = step->first;
	pass.p.beta = step->first > 0 ? 1 : 0;
	pass.p.dweights = t->frozen ? NULL : gradients;
	pass.p.dadapters = t->frozen ? gradients : NULL;
	pass.p.flow = step->flow;
	pass.p.back = step->last ? step->flow : NULL;
	begin_gradients(&pass);
	transformer_forward(&pass);
	classify(&pass, step, NULL, loss);
	if (!t->config.tied_head)
		layer_flow_done(pass.p.back, t->head, head_elements(t));
	t->backend->ops->fill(t->backend, t->dx, 0, pass.rows * t->config.width);
	norm_backward(&pass, &t->last_norm, t->dx, t->dnormed, t->out, t->last_mean, t->last_inv);
	transformer_backward(&pass);
}

const float *transformer_score(struct transformer *t, const struct token_batch *in, const float *trained)
{
	const struct pass pass = pass_of(t, in, trained);
	transformer_forward(&pass);
	classify(&pass, NULL, t->losses, t->loss);
	t->backend->ops->scale(t->backend, t->losses, -1, pass.rows);
	return t->losses;
}

const float *transformer_logits(struct transformer *t, const struct token_batch *in, const float *trained, size_t first,
                                size_t count)
{
	const struct pass pass = pass_of(t, in, trained);
	assert(count <= TRANSFORMER_LOGITS_ROWS && first + count <= pass.rows);
	transformer_forward(&pass);
	head_forward(&pass, first, count, t->config.vocabulary);
	return t->logits;
}

const float *transformer_decode(struct transformer *t, const uint32_t *tokens, uint32_t before, uint32_t count,
                                const float *trained)
{
	const struct token_batch in = {.sequences = 1, .length = count, .tokens = tokens};
	struct pass pass = pass_of(t, &in, trained);
	assert(count > 0 && before + count <= t->decodes);
	pass.before = before;
	transformer_forward(&pass);
	head_forward(&pass, count - 1, 1, t->config.vocabulary);
	return t->logits;
}

/* W += scale B A */
static void merge_projection(const struct pass *pass, const struct projection *p, float *merged)
{
	struct backend *b = pass->t->backend;
	const struct projection_pass *j = &pass->p;
	for (uint32_t i = 0; i < p->adapters_count; i++) {
		const struct adapter *a = &p->adapters[i];
		float *w = merged + p->weight;
		if (p->input_major)
			b->ops->gemm(b, true, true, p->in, a->out, j->rank, j->scale, j->adapters + a->a, p->in, j->adapters + a->b, j->rank,
			             1, w + a->column, p->out);
		else
			b->ops->gemm(b, false, false, a->out, p->in, j->rank, j->scale, j->adapters + a->b, j->rank, j->adapters + a->a,
			             p->in, 1, w + (size_t)a->column * p->in, p->in);
	}
}

void transformer_merge(struct transformer *t, const float *trained, float *merged)
{
	const struct token_batch none = {0};
	const struct pass pass = pass_of(t, &none, trained);
	if (merged != pass.p.weights)
		t->backend->ops->copy(t->backend, merged, pass.p.weights, transformer_weights(t)->elements);
	for (uint32_t i = 0; i < t->config.layers; i++) {
		const struct transformer_layer *l = &t->layers[i];
		const struct projection *all[] = {&l->qkv, &l->o, &l->up, &l->down};
		for (size_t k = 0; k < sizeof all / sizeof *all; k++)
			merge_projection(&pass, all[k], merged);
	}
}
