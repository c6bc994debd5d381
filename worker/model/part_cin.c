/* The compressed interaction network of xDeepFM (Lian et al. 2018, eq. 6 and 8).
 *
 * Layer k makes each of its feature maps from all products of a map of layer k - 1 and a field:
 *
 *     X^k_n = sum over i, j of W^k_ijn (X^{k-1}_i * X^0_j)      elementwise over the embedding
 *
 * X^0 is the pooled embeddings. The output is every map of every layer, summed over the embedding.
 * Maps have neither bias nor activation: the paper finds the identity best (section 4.4).
 * All maps of a layer enter the next one, as in the paper's equations. The authors' program can
 * also pass on only half of them; that variant needs even widths and is not in the equations.
 *
 * Here a matrix X has a row for each example and element of the embedding: (rows * dim, maps). The
 * sum takes two ops that exist for other purposes. U = X^{k-1} W is a matrix product, with W as
 * (maps before, fields * maps). A map is then the sum over the fields of X^0_j U_j, which is
 * gather_pool of U's rows with X^0 as the weights. U has fields times as many elements as X. It is
 * computed for some examples at a time and not kept: the gradients need X alone. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "worker/model/click_part.h"
#include "worker/model/index_array.h"
#include "worker/model/scratch.h"

/* Elements of U, or of its gradient, at a time; at least those of one example. */
#define PRODUCTS_MAX ((size_t)1 << 20)

struct cin_layer {
	uint32_t before, maps; /* feature maps of the layer before it, and its own */
	uint64_t weight;       /* offset: (before * fields, maps) */
	float *x;              /* (rows * dim, maps) */
	uint32_t *bags;        /* (at_once * dim + 1) multiples of `before` */
};

struct cin {
	struct backend *backend;
	struct cin_layer layers[WEIR_HIDDEN_LAYERS_MAX];
	uint32_t count, fields, dim;
	uint32_t width, widest; /* maps of all layers; of the widest */
	uint32_t rows, at_once; /* examples; those whose products are held at a time */

	float *x0, *dx0;      /* (rows * dim, fields) */
	float *dx, *dbefore;  /* (rows * dim, widest) */
	float *products;      /* (at_once * dim, the most of any layer) */
	float *dfields;       /* (at_once * dim, fields) */
	float *pooled;        /* (rows, widest) a layer's maps, summed over the embedding */
	float *out, *spare;   /* (rows, width) */
	float *dout, *dspare; /* (rows, width) */
	float *dpooled;       /* (rows, fields, dim) the embeddings' gradient */

	uint32_t *numbers;        /* 0, 1, 2, .. */
	uint32_t *field_bags;     /* (at_once * dim + 1) multiples of fields */
	uint32_t *embedding_bags; /* (rows + 1) multiples of dim */
	uint32_t *row_of_product; /* (at_once * dim * fields) p / fields */
	uint32_t *example_of_row; /* (rows * dim) r / dim */
	/* (rows * dim * fields) the place in the pooled embeddings of each element of x0 */
	uint32_t *place;
};

static weir_status check(const struct job *job, const struct model_data *data, weir_error *err)
{
	(void)data;
	if (job->model.cin_count == 0)
		return weir_fail(err, WEIR_E_INVALID, "model.cin is empty: model %s needs at least one layer",
		                 model_kind_name(job->model.kind));
	return WEIR_OK;
}

static void *create(const struct click_place *p)
{
	struct cin *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	*c = (struct cin){.backend = p->backend, .count = p->job->model.cin_count, .fields = p->fields, .dim = p->dim};
	uint32_t before = p->fields;
	for (uint32_t k = 0; k < c->count; k++) {
		struct cin_layer *l = &c->layers[k];
		const uint32_t products = before * p->fields;
		l->before = before;
		l->maps = before = p->job->model.cin[k];
		l->weight =
		    layout_add(p->params, products, l->maps, WEIR_INIT_UNIFORM, 1.0f / sqrtf((float)products), "cin.%u.weight", k);
		c->width += l->maps;
		c->widest = l->maps > c->widest ? l->maps : c->widest;
	}
	return c;
}

/* Returns the elements of U, or of its gradient, in a row of a matrix. */
static size_t most_products(const struct cin *c)
{
	size_t most = 0;
	for (uint32_t k = 0; k < c->count; k++) {
		const struct cin_layer *l = &c->layers[k];
		const size_t n = (size_t)c->fields * (l->maps > l->before ? l->maps : l->before);
		most = n > most ? n : most;
	}
	return most;
}

/* --- Memory */

struct wanted {
	float **buffer;
	size_t elements;
};
enum { WANTED_MAX = 12 + WEIR_HIDDEN_LAYERS_MAX };

static uint32_t wanted_floats(struct cin *c, size_t rows, struct wanted w[WANTED_MAX])
{
	const size_t n = rows * c->dim, some = (size_t)c->at_once * c->dim;
	const struct wanted always[] = {{&c->x0, n * c->fields},
	                                {&c->dx0, n * c->fields},
	                                {&c->dx, n * c->widest},
	                                {&c->dbefore, n * c->widest},
	                                {&c->products, some * most_products(c)},
	                                {&c->dfields, some * c->fields},
	                                {&c->pooled, rows * c->widest},
	                                {&c->out, rows * c->width},
	                                {&c->spare, rows * c->width},
	                                {&c->dout, rows * c->width},
	                                {&c->dspare, rows * c->width},
	                                {&c->dpooled, n * c->fields}};
	uint32_t count = 0;
	for (; count < sizeof always / sizeof *always; count++)
		w[count] = always[count];
	for (uint32_t k = 0; k < c->count; k++)
		w[count++] = (struct wanted){&c->layers[k].x, n * c->layers[k].maps};
	return count;
}

/* Element i of an index array is i / by * times. */
struct wanted_index {
	uint32_t **buffer;
	size_t elements;
	uint32_t by, times;
};
enum { WANTED_INDICES_MAX = 5 + WEIR_HIDDEN_LAYERS_MAX };

static uint32_t wanted_indices(struct cin *c, size_t rows, struct wanted_index w[WANTED_INDICES_MAX])
{
	const size_t n = rows * c->dim, some = (size_t)c->at_once * c->dim;
	const uint32_t most = c->widest > c->fields ? c->widest : c->fields;
	const size_t numbers = n > some * most ? n : some * most;
	const struct wanted_index always[] = {{&c->numbers, numbers + 1, 1, 1},
	                                      {&c->field_bags, some + 1, 1, c->fields},
	                                      {&c->embedding_bags, rows + 1, 1, c->dim},
	                                      {&c->row_of_product, some * c->fields, c->fields, 1},
	                                      {&c->example_of_row, n, c->dim, 1}};
	uint32_t count = 0;
	for (; count < sizeof always / sizeof *always; count++)
		w[count] = always[count];
	for (uint32_t k = 0; k < c->count; k++)
		w[count++] = (struct wanted_index){&c->layers[k].bags, some + 1, 1, c->layers[k].before};
	return count;
}

static void destroy(void *part)
{
	struct cin *c = part;
	struct wanted floats[WANTED_MAX];
	struct wanted_index indices[WANTED_INDICES_MAX];
	for (uint32_t i = wanted_floats(c, 0, floats); i-- > 0;)
		scratch_free(c->backend, floats[i].buffer);
	for (uint32_t i = wanted_indices(c, 0, indices); i-- > 0;)
		scratch_free_words(c->backend, indices[i].buffer);
	scratch_free_words(c->backend, &c->place);
	free(c);
}

static void fill_place(const struct cin *c, size_t rows, uint32_t *place)
{
	for (size_t r = 0; r < rows; r++)
		for (uint32_t d = 0; d < c->dim; d++)
			for (uint32_t f = 0; f < c->fields; f++)
				*place++ = (uint32_t)((r * c->fields + f) * c->dim + d);
}

static weir_status make_indices(struct cin *c, size_t rows)
{
	struct wanted_index w[WANTED_INDICES_MAX];
	const uint32_t count = wanted_indices(c, rows, w);
	const size_t places = rows * c->dim * c->fields;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
		status = index_array_steps(c->backend, w[i].buffer, w[i].elements, w[i].by, w[i].times);
	uint32_t *host = status == WEIR_OK && places <= UINT32_MAX ? malloc(places * sizeof *host) : NULL;
	if (!host)
		return WEIR_E_MEMORY;
	fill_place(c, rows, host);
	status = index_array_put(c->backend, &c->place, host, places);
	free(host);
	return status;
}

static weir_status reserve(void *part, uint32_t rows)
{
	struct cin *c = part;
	struct wanted wanted[WANTED_MAX];
	const size_t examples = PRODUCTS_MAX / (most_products(c) * c->dim);
	c->at_once = examples == 0 ? 1 : examples < rows ? (uint32_t)examples : rows;
	c->rows = 0;
	weir_status status = make_indices(c, rows);
	const uint32_t count = wanted_floats(c, rows, wanted);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
		status = scratch_grow(c->backend, wanted[i].buffer, wanted[i].elements);
	if (status == WEIR_OK)
		c->rows = rows;
	return status;
}

/* --- Forward */

static uint32_t width(const void *part)
{
	const struct cin *c = part;
	return c->width;
}

/* The maps that enter layer k. */
static const float *input_of(const struct cin *c, uint32_t k)
{
	return k > 0 ? c->layers[k - 1].x : c->x0;
}

/* Examples [first, first + count) of a layer. */
struct span {
	size_t first, count; /* in rows of matrices: examples * dim */
};

static struct span span_at(const struct cin *c, uint32_t first, uint32_t rows)
{
	const uint32_t count = rows - first < c->at_once ? rows - first : c->at_once;
	return (struct span){(size_t)first * c->dim, (size_t)count * c->dim};
}

static void layer_forward(struct cin *c, uint32_t k, struct span s, const float *params)
{
	struct backend *b = c->backend;
	const struct cin_layer *l = &c->layers[k];
	const size_t columns = (size_t)c->fields * l->maps;
	b->ops->gemm(b, false, false, s.count, columns, l->before, 1.0f, input_of(c, k) + s.first * l->before, l->before,
	             params + l->weight, columns, 0.0f, c->products, columns);
	b->ops->gather_pool(b, l->x + s.first * l->maps, c->products, s.count * c->fields, l->maps, c->field_bags, c->numbers,
	                    c->x0 + s.first * c->fields, s.count);
}

/* Appends the layer's maps, summed over the embedding, to the first `before` columns of out.
 * Returns the longer out. */
static float *pool(struct cin *c, const struct cin_layer *l, float *out, uint32_t before, uint32_t rows)
{
	struct backend *b = c->backend;
	float *sums = before > 0 ? c->pooled : out, *longer = out == c->out ? c->spare : c->out;
	b->ops->gather_pool(b, sums, l->x, (size_t)rows * c->dim, l->maps, c->embedding_bags, c->numbers, NULL, rows);
	if (before == 0)
		return out;
	b->ops->concat(b, longer, out, before, sums, l->maps, rows);
	return longer;
}

static const float *forward(void *part, const struct click_pass *p)
{
	struct cin *c = part;
	struct backend *b = c->backend;
	const uint32_t rows = p->in->rows;
	assert(rows <= c->rows);
	b->ops->copy_rows(b, c->x0, NULL, p->x, c->place, 1, (size_t)rows * c->dim * c->fields);
	float *out = c->out;
	uint32_t before = 0;
	for (uint32_t k = 0; k < c->count; k++) {
		for (uint32_t first = 0; first < rows; first += c->at_once)
			layer_forward(c, k, span_at(c, first, rows), p->params);
		out = pool(c, &c->layers[k], out, before, rows);
		before += c->layers[k].maps;
	}
	return out;
}

/* --- Backward */

static float *output_gradient(void *part)
{
	struct cin *c = part;
	return c->dout;
}

/* The gradients on their way back. */
struct way {
	float *dout;         /* (rows, maps of this layer and those before) */
	float *dx, *dbefore; /* (rows * dim, maps) of a layer; of the layer before */
	const float *params;
	float *dparams;
};

/* Takes the last columns of dout, the gradient of the layer's sums, to dx. The layer behind has
 * written its share of dx, if there is one. */
static void pool_backward(struct cin *c, uint32_t k, struct way *w, uint32_t before, uint32_t rows)
{
	struct backend *b = c->backend;
	const uint32_t maps = c->layers[k].maps;
	const size_t n = (size_t)rows * c->dim;
	const bool last = k + 1 == c->count;
	const float *sums = w->dout;
	if (before > 0) {
		float *shorter = w->dout == c->dout ? c->dspare : c->dout;
		b->ops->split(b, w->dout, shorter, before, c->pooled, maps, rows);
		w->dout = shorter;
		sums = c->pooled;
	}
	float *spread = last ? w->dx : w->dbefore; /* which is free here */
	b->ops->copy_rows(b, spread, NULL, sums, c->example_of_row, maps, n);
	if (!last)
		b->ops->axpy(b, w->dx, 1.0f, spread, n * maps);
}

/* From dx to dbefore, for the first layer to c->dx0; the fields' share always goes to c->dx0. */
static void layer_backward(struct cin *c, uint32_t k, const struct way *w, struct span s)
{
	struct backend *b = c->backend;
	const struct backend_ops *ops = b->ops;
	const struct cin_layer *l = &c->layers[k];
	const size_t columns = (size_t)c->fields * l->maps, products = (size_t)l->before * c->fields;
	const float *before = input_of(c, k) + s.first * l->before, *x0 = c->x0 + s.first * c->fields;
	const float *dx = w->dx + s.first * l->maps, *W = w->params + l->weight;
	float *dx0 = c->dx0 + s.first * c->fields, *dbefore = k > 0 ? w->dbefore + s.first * l->before : dx0;
	/* dU_j = dX X^0_j; dW = transposed X^{k-1} dU; dX^{k-1} = dU transposed W */
	ops->gather_pool(b, c->products, dx, s.count, l->maps, c->numbers, c->row_of_product, x0, s.count * c->fields);
	ops->gemm(b, true, false, l->before, columns, s.count, 1.0f, before, l->before, c->products, columns,
	          s.first > 0 ? 1.0f : 0.0f, w->dparams + l->weight, columns);
	ops->gemm(b, false, true, s.count, l->before, columns, 1.0f, c->products, columns, W, columns, k > 0 ? 0.0f : 1.0f, dbefore,
	          l->before);
	/* dX^0 = the sum over the maps before of X^{k-1}_i V_i, with V = dX transposed W */
	ops->gemm(b, false, true, s.count, products, l->maps, 1.0f, dx, l->maps, W, l->maps, 0.0f, c->products, products);
	ops->gather_pool(b, c->dfields, c->products, s.count * l->before, c->fields, l->bags, c->numbers, before, s.count);
	ops->axpy(b, dx0, 1.0f, c->dfields, s.count * c->fields);
}

static void backward(void *part, const struct click_pass *p)
{
	struct cin *c = part;
	struct backend *b = c->backend;
	const uint32_t rows = p->in->rows;
	const size_t elements = (size_t)rows * c->dim * c->fields;
	struct way w = {.dout = c->dout, .dx = c->dx, .dbefore = c->dbefore, .params = p->params, .dparams = p->dparams};
	uint32_t before = c->width;
	b->ops->fill(b, c->dx0, 0.0f, elements);
	for (uint32_t k = c->count; k-- > 0;) {
		before -= c->layers[k].maps;
		pool_backward(c, k, &w, before, rows);
		for (uint32_t first = 0; first < rows; first += c->at_once)
			layer_backward(c, k, &w, span_at(c, first, rows));
		float *t = w.dx;
		w.dx = w.dbefore;
		w.dbefore = t;
	}
	b->ops->copy_rows(b, p->adds ? c->dpooled : p->dx, c->place, c->dx0, NULL, 1, elements);
	if (p->adds)
		b->ops->axpy(b, p->dx, 1.0f, c->dpooled, elements);
}

const struct click_part cin_part = {.reads = CLICK_READS_EMBEDDINGS,
                                    .check = check,
                                    .create = create,
                                    .destroy = destroy,
                                    .reserve = reserve,
                                    .width = width,
                                    .forward = forward,
                                    .output_gradient = output_gradient,
                                    .backward = backward};
