/* The second-order term of factorization machines (Rendle 2010, eq. 3) over the fields' pooled
 * embeddings. */
#include <stdlib.h>

#include "worker/model/click_part.h"
#include "worker/model/scratch.h"

struct fm {
	struct backend *backend;
	uint32_t fields, dim, rows;
	float *pair; /* (rows) the term */
	float *sum;  /* (rows, dim) */
};

static void *create(const struct click_place *p)
{
	struct fm *f = calloc(1, sizeof *f);
	if (f)
		*f = (struct fm){.backend = p->backend, .fields = p->fields, .dim = p->dim};
	return f;
}

static void destroy(void *part)
{
	struct fm *f = part;
	scratch_free(f->backend, &f->pair);
	scratch_free(f->backend, &f->sum);
	free(f);
}

static weir_status reserve(void *part, uint32_t rows)
{
	struct fm *f = part;
	const weir_status status = scratch_grow(f->backend, &f->pair, rows);
	return status == WEIR_OK ? scratch_grow(f->backend, &f->sum, (size_t)rows * f->dim) : status;
}

static const float *forward(void *part, const struct click_pass *p)
{
	struct fm *f = part;
	struct backend *b = f->backend;
	b->ops->fm(b, f->pair, f->sum, p->x, p->in->rows, f->fields, f->dim);
	b->ops->axpy(b, p->logit, 1.0f, f->pair, p->in->rows);
	return NULL;
}

static void backward(void *part, const struct click_pass *p)
{
	struct fm *f = part;
	struct backend *b = f->backend;
	const size_t rows = p->in->rows;
	if (!p->adds)
		b->ops->fill(b, p->dx, 0.0f, rows * p->columns);
	b->ops->fm_backward(b, p->dx, p->dlogit, f->sum, p->x, rows, f->fields, f->dim);
}

const struct click_part fm_part = {.reads = CLICK_READS_EMBEDDINGS,
                                   .create = create,
                                   .destroy = destroy,
                                   .reserve = reserve,
                                   .forward = forward,
                                   .backward = backward};
