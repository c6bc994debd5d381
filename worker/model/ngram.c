#include "worker/model/ngram.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "worker/model/scratch.h"

void ngram_init(struct ngram *n, struct backend *b, const struct job *job, struct layout *params, struct layout *stats)
{
	*n = (struct ngram){.backend = b, .context = job->data.context, .tokens = WEIR_BYTE_TOKENS, .dim = job->model.dim};
	n->embedding = layout_add(params, n->tokens, n->dim, WEIR_INIT_NORMAL, job->model.init_std, "embedding.weight");
	tower_init(&n->tower, b, "tower", n->context * n->dim, job->model.hidden, job->model.hidden_count, job->model.batch_norm,
	           job->model.dropout, params, stats);
	const uint32_t width = tower_width(&n->tower);
	n->head = layout_add(params, n->tokens, width, WEIR_INIT_UNIFORM, 1.0f / sqrtf((float)width), "head.weight");
	n->bias = layout_add(params, n->tokens, 0, WEIR_INIT_ZERO, 0.0f, "head.bias");
}

void ngram_destroy(struct ngram *n)
{
	if (!n->backend)
		return;
	float **buffers[] = {&n->x, &n->dx, &n->logits, &n->scores};
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
		scratch_free(n->backend, buffers[i]);
	if (n->bags)
		n->backend->ops->buffer_free(n->backend, n->bags);
	tower_destroy(&n->tower);
	*n = (struct ngram){0};
}

static weir_status make_bags(struct ngram *n, uint32_t rows)
{
	struct backend *b = n->backend;
	const size_t count = (size_t)rows * n->context + 1, bytes = count * sizeof(uint32_t);
	uint32_t *host = malloc(bytes);
	if (n->bags)
		b->ops->buffer_free(b, n->bags);
	n->bags = b->ops->buffer_alloc(b, bytes);
	for (size_t i = 0; host && i < count; i++)
		host[i] = (uint32_t)i;
	const bool made = host && n->bags != NULL;
	if (made)
		b->ops->to_device(b, n->bags, host, bytes);
	free(host);
	return made ? WEIR_OK : WEIR_E_MEMORY;
}

weir_status ngram_reserve(struct ngram *n, uint32_t rows)
{
	if (rows <= n->rows)
		return WEIR_OK;
	struct {
		float **buffer;
		size_t width;
	} wanted[] = {
	    {&n->x, (size_t)n->context * n->dim}, {&n->dx, (size_t)n->context * n->dim}, {&n->logits, n->tokens}, {&n->scores, 1}};
	weir_status status = make_bags(n, rows);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == WEIR_OK; i++)
		status = scratch_grow(n->backend, wanted[i].buffer, rows * wanted[i].width);
	if (status == WEIR_OK)
		status = tower_reserve(&n->tower, rows);
	n->rows = status == WEIR_OK ? rows : 0;
	return status;
}

static struct linear head_of(const struct ngram *n, const float *y, uint32_t rows, const float *params)
{
	return (struct linear){.x = y, .W = params + n->head, .rows = rows, .in = tower_width(&n->tower), .out = n->tokens};
}

/* Returns the tower's output (rows, width). */
static const float *forward(struct ngram *n, const struct ngram_batch *in, const float *params, const struct forward_mode *mode)
{
	struct backend *b = n->backend;
	assert(in->rows <= n->rows);
	b->ops->gather_pool(b, n->x, params + n->embedding, n->tokens, n->dim, n->bags, in->tokens, NULL,
	                    (size_t)in->rows * n->context);
	const float *y = tower_forward(&n->tower, n->x, in->rows, params, mode);
	const struct linear head = head_of(n, y, in->rows, params);
	b->ops->linear(b, n->logits, &head, params + n->bias, ACT_NONE);
	return y;
}

const float *ngram_score(struct ngram *n, const struct ngram_batch *in, const float *params, const struct forward_mode *mode)
{
	struct backend *b = n->backend;
	(void)forward(n, in, params, mode);
	b->ops->cross_entropy(b, NULL, NULL, n->scores, n->logits, in->targets, in->rows, n->tokens, 1.0f);
	b->ops->scale(b, n->scores, -1.0f, in->rows);
	return n->scores;
}

void ngram_train(struct ngram *n, const struct ngram_batch *in, const float *params, const struct forward_mode *mode,
                 float *dparams, double *loss)
{
	struct backend *b = n->backend;
	const struct backend_ops *ops = b->ops;
	const size_t rows = in->rows;
	const struct linear head = head_of(n, forward(n, in, params, mode), in->rows, params);
	float *dlogits = n->logits, *dy = tower_output_gradient(&n->tower);
	ops->cross_entropy(b, loss, dlogits, NULL, n->logits, in->targets, rows, n->tokens, 1.0f / (float)rows);
	if (mode->loss_scale)
		ops->scale_by(b, dlogits, rows * n->tokens, mode->loss_scale);
	ops->bias_act_backward(b, dlogits, dlogits, dlogits, dparams + n->bias, rows, n->tokens, ACT_NONE);
	ops->linear_backward(b, dparams + n->head, dy, head.in, 0.0f, dlogits, &head);
	tower_backward(&n->tower, n->x, in->rows, params, dparams, n->dx, n->context * n->dim, false);
	ops->scatter_sum(b, dparams + n->embedding, n->tokens, n->dim, n->dx, n->bags, in->tokens, NULL, rows * n->context,
	                 rows * n->context);
}
