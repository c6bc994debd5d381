/* The first-order weights of the numeric features. Those of the keys are a table of their own,
 * which model_clicks.c looks up. */
#include <stdlib.h>

#include "worker/model/click_part.h"

struct linear_part {
	struct backend *backend;
	uint32_t dense_dim;
	uint64_t weight; /* offset: (dense_dim) */
};

static void *create(const struct click_place *p)
{
	struct linear_part *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	*l = (struct linear_part){.backend = p->backend, .dense_dim = p->dense_dim};
	if (p->dense_dim > 0)
		l->weight = layout_add(p->params, 1, p->dense_dim, WEIR_INIT_ZERO, 0.0f, "linear.numeric.weight");
	return l;
}

/* logit += numeric features (rows, dense_dim) . w (dense_dim) */
static const float *forward(void *part, const struct click_pass *p)
{
	const struct linear_part *l = part;
	struct backend *b = l->backend;
	if (l->dense_dim > 0)
		b->ops->gemm(b, false, false, p->in->rows, 1, l->dense_dim, 1.0f, p->in->dense, l->dense_dim, p->params + l->weight, 1,
		             1.0f, p->logit, 1);
	return NULL;
}

static void backward(void *part, const struct click_pass *p)
{
	const struct linear_part *l = part;
	struct backend *b = l->backend;
	if (l->dense_dim > 0)
		b->ops->gemm(b, true, false, l->dense_dim, 1, p->in->rows, 1.0f, p->in->dense, l->dense_dim, p->dlogit, 1, 0.0f,
		             p->dparams + l->weight, 1);
}

const struct click_part linear_part = {
    .reads = CLICK_READS_NUMBERS, .create = create, .destroy = free, .forward = forward, .backward = backward};
