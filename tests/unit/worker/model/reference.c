#include "tests/unit/worker/model/reference.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH_MAX = 256, ROWS_MAX = 16, EXPERTS_MAX = 4 };

typedef double matrix[ROWS_MAX][WIDTH_MAX];

static const double *dense_tensor(const struct reference *r, const char *format, unsigned layer)
{
	char name[64];
	snprintf(name, sizeof name, format, layer);
	const struct tensor *t = layout_find(r->params, name);
	return t == NULL ? NULL : r->parameters[MODEL_DENSE] + t->offset;
}

static void batch_norm(const struct reference *r, const char *tower, unsigned layer, bool training, matrix z, uint32_t n)
{
	uint32_t rows = r->in->rows;
	char name[64];
	snprintf(name, sizeof name, "%s.%%u.norm.weight", tower);
	const double *gamma = dense_tensor(r, name, layer);
	snprintf(name, sizeof name, "%s.%%u.norm.bias", tower);
	const double *beta = dense_tensor(r, name, layer);
	snprintf(name, sizeof name, "%s.%u.norm.running_mean", tower, layer);
	const double *mean = r->parameters[MODEL_STATISTICS] + layout_find(r->stats, name)->offset;
	snprintf(name, sizeof name, "%s.%u.norm.running_var", tower, layer);
	const double *var = r->parameters[MODEL_STATISTICS] + layout_find(r->stats, name)->offset;
	for (uint32_t j = 0; j < n; j++) {
		double m = mean[j], v = var[j];
		if (training) {
			m = v = 0.0;
			for (uint32_t i = 0; i < rows; i++)
				m += z[i][j] / rows;
			for (uint32_t i = 0; i < rows; i++)
				v += (z[i][j] - m) * (z[i][j] - m) / rows;
		}
		for (uint32_t i = 0; i < rows; i++)
			z[i][j] = gamma[j] * (z[i][j] - m) / sqrt(v + 1e-5) + beta[j];
	}
}

static uint32_t mlp(const struct reference *r, const char *name, const uint32_t *widths, uint32_t count, bool norm, bool training,
                    matrix x, uint32_t n)
{
	static matrix z;
	for (unsigned l = 0; l < count; l++) {
		char format[32];
		snprintf(format, sizeof format, "%s.%%u.weight", name);
		const double *w = dense_tensor(r, format, l);
		snprintf(format, sizeof format, "%s.%%u.bias", name);
		const double *bias = dense_tensor(r, format, l);
		for (uint32_t i = 0; i < r->in->rows; i++)
			for (uint32_t o = 0; o < widths[l]; o++) {
				z[i][o] = norm ? 0.0 : bias[o];
				for (uint32_t k = 0; k < n; k++)
					z[i][o] += w[o * n + k] * x[i][k];
			}
		n = widths[l];
		if (norm)
			batch_norm(r, name, l, training, z, n);
		for (uint32_t i = 0; i < r->in->rows; i++)
			for (uint32_t o = 0; o < n; o++)
				x[i][o] = z[i][o] > 0.0 ? z[i][o] : 0.0;
	}
	return n;
}

static uint32_t cross_net(const struct reference *r, const matrix x0, matrix x, uint32_t n)
{
	static matrix next;
	memcpy(x, x0, sizeof(matrix));
	for (unsigned l = 0; l < r->job->model.cross_layers; l++) {
		const double *w = dense_tensor(r, "cross.%u.weight", l), *bias = dense_tensor(r, "cross.%u.bias", l);
		for (uint32_t i = 0; i < r->in->rows; i++)
			for (uint32_t o = 0; o < n; o++) {
				double u = bias[o];
				for (uint32_t k = 0; k < n; k++)
					u += w[o * n + k] * x[i][k];
				next[i][o] = x0[i][o] * u + x[i][o];
			}
		memcpy(x, next, sizeof next);
	}
	return n;
}

/* out (rows of W) = W x (n), or its tanh. */
static void multiply(const double *W, const double *x, double *out, uint32_t rows, uint32_t n, bool squashed)
{
	for (uint32_t o = 0; o < rows; o++) {
		double sum = 0.0;
		for (uint32_t k = 0; k < n; k++)
			sum += W[o * n + k] * x[k];
		out[o] = squashed ? tanh(sum) : sum;
	}
}

static void softmax(double *x, uint32_t n)
{
	double sum = 0.0;
	for (uint32_t k = 0; k < n; k++)
		sum += x[k] = exp(x[k]);
	for (uint32_t k = 0; k < n; k++)
		x[k] /= sum;
}

/* Each expert's output times its gate, as the paper writes it. */
static uint32_t cross_mix(const struct reference *r, const matrix x0, matrix x, uint32_t n)
{
	const uint32_t experts = r->job->model.experts, rank = r->job->model.rank, wide = experts * rank;
	double low[WIDTH_MAX], mid[WIDTH_MAX], gates[WIDTH_MAX], next[WIDTH_MAX];
	memcpy(x, x0, sizeof(matrix));
	for (unsigned l = 0; l < r->job->model.cross_layers; l++) {
		const double *v = dense_tensor(r, "cross_mix.%u.v.weight", l), *c = dense_tensor(r, "cross_mix.%u.c.weight", l);
		const double *u = dense_tensor(r, "cross_mix.%u.u.weight", l), *bias = dense_tensor(r, "cross_mix.%u.bias", l);
		for (uint32_t i = 0; i < r->in->rows; i++) {
			multiply(dense_tensor(r, "cross_mix.%u.gate.weight", l), x[i], gates, experts, n, false);
			softmax(gates, experts);
			memcpy(next, x[i], sizeof next);
			for (uint32_t e = 0; e < experts; e++) {
				multiply(v + e * rank * n, x[i], low, rank, n, true);
				multiply(c + e * rank * rank, low, mid, rank, rank, true);
				for (uint32_t o = 0; o < n; o++) {
					double out = bias[o];
					for (uint32_t k = 0; k < rank; k++)
						out += u[o * wide + e * rank + k] * mid[k];
					next[o] += gates[e] * x0[i][o] * out;
				}
			}
			memcpy(x[i], next, sizeof next);
		}
	}
	return n;
}

/* Replaces x by [bottom, dots]; returns its width. */
static uint32_t dots(const struct reference *r, matrix x)
{
	uint32_t dim = r->job->model.dim, bottom = r->dense_dim > 0, vectors = r->fields + bottom;
	static matrix b;
	if (bottom) {
		for (uint32_t i = 0; i < r->in->rows; i++)
			for (uint32_t k = 0; k < r->dense_dim; k++)
				b[i][k] = (double)r->in->dense[i * r->dense_dim + k];
		mlp(r, "bottom", r->job->model.bottom, r->job->model.bottom_count, false, false, b, r->dense_dim);
	}
	uint32_t width = 0;
	for (uint32_t i = 0; i < r->in->rows; i++) {
		double v[ROWS_MAX][WIDTH_MAX], out[WIDTH_MAX];
		for (uint32_t f = 0; f < vectors; f++)
			for (uint32_t d = 0; d < dim; d++)
				v[f][d] = bottom && f == 0 ? b[i][d] : x[i][(f - bottom) * dim + d];
		width = 0;
		for (uint32_t d = 0; bottom && d < dim; d++)
			out[width++] = b[i][d];
		for (uint32_t p = 1; p < vectors; p++)
			for (uint32_t q = 0; q < p; q++, width++) {
				out[width] = 0.0;
				for (uint32_t d = 0; d < dim; d++)
					out[width] += v[p][d] * v[q][d];
			}
		memcpy(x[i], out, width * sizeof *out);
	}
	return width;
}

/* Sets out[i] to the maps of all layers, each summed over the embedding: the paper's eq. 6 and 8 by
 * definition. Returns their number. */
static uint32_t cin(const struct reference *r, const matrix x, matrix out)
{
	static double before[WIDTH_MAX], maps[WIDTH_MAX];
	uint32_t dim = r->job->model.dim, m = r->fields, width = 0;
	for (uint32_t i = 0; i < r->in->rows; i++) {
		uint32_t h = m;
		width = 0;
		memcpy(before, x[i], m * dim * sizeof *before);
		for (unsigned l = 0; l < r->job->model.cin_count; l++) {
			const uint32_t count = r->job->model.cin[l];
			const double *w = dense_tensor(r, "cin.%u.weight", l);
			for (uint32_t n = 0; n < count; n++, width++) {
				out[i][width] = 0.0;
				for (uint32_t d = 0; d < dim; d++) {
					double sum = 0.0;
					for (uint32_t p = 0; p < h; p++)
						for (uint32_t q = 0; q < m; q++)
							sum += w[(p * m + q) * count + n] * before[p * dim + d] * x[i][q * dim + d];
					maps[n * dim + d] = sum;
					out[i][width] += sum;
				}
			}
			h = count;
			memcpy(before, maps, sizeof maps);
		}
	}
	return width;
}

static void head(const struct reference *r, matrix y, uint32_t n, uint32_t skip, double *logits)
{
	const double *w = dense_tensor(r, "head.weight", 0) + skip;
	for (uint32_t i = 0; i < r->in->rows; i++)
		for (uint32_t k = 0; k < n; k++)
			logits[i] += w[k] * y[i][k];
}

/* Pooled embedding of field f in example i, dimension d. Width 1 with table MODEL_LINEAR gives the
 * first-order weight. */
static double pooled(const struct reference *r, enum model_table table, uint32_t width, uint32_t i, uint32_t f, uint32_t d)
{
	double sum = 0.0;
	const struct model_input *in = r->in;
	const struct job_column *column = job_column_of_field(r->job, f);
	/* index counts the rows of all tables of embeddings */
	const size_t before = table == MODEL_LINEAR ? 0 : in->group_begin[model_table_group(table)];
	const double *rows = r->parameters[table];
	const uint32_t first = in->offsets[i * r->fields + f], end = in->offsets[i * r->fields + f + 1];
	if (table != MODEL_LINEAR && column && column->pooling == POOLING_MAX) {
		double largest = first < end ? -INFINITY : 0;
		for (uint32_t k = first; k < end; k++)
			largest = fmax(largest, rows[(in->index[k] - before) * width + d]);
		return largest;
	}
	for (uint32_t k = first; k < end; k++)
		sum += (in->values != NULL ? (double)in->values[k] : 1.0) * rows[(in->index[k] - before) * width + d];
	return sum;
}

/* The table of a field's embeddings, and their width. */
static enum model_table embedding_of(const struct reference *r, uint32_t field, uint32_t *dim)
{
	const struct job_column *column = job_column_of_field(r->job, field);
	uint32_t dims[WEIR_DIMS_MAX], group = 0;
	(void)job_dims(r->job, dims);
	*dim = column ? job_column_dim(r->job, column) : r->job->model.dim;
	while (dims[group] != *dim)
		group++;
	return model_group_table(group);
}

/* The pooled embeddings of all fields, side by side. Returns their number of columns. */
static uint32_t embeddings(const struct reference *r, matrix x)
{
	uint32_t n = 0, dim;
	for (uint32_t f = 0; f < r->fields; f++) {
		const enum model_table table = embedding_of(r, f, &dim);
		for (uint32_t d = 0; d < dim; d++, n++)
			for (uint32_t i = 0; i < r->in->rows; i++)
				x[i][n] = pooled(r, table, dim, i, f, d);
	}
	return n;
}

/* The logits of all tasks from the features x (rows, n): a mixture of experts for each task, or of
 * one expert. */
static void add_tasks(const struct reference *r, const matrix x, uint32_t n, bool training, double *logits)
{
	static matrix experts[EXPERTS_MAX], mix;
	const struct job *job = r->job;
	const bool gated = model_kind_has(job->model.kind, PART_EXPERTS);
	const uint32_t count = gated ? job->model.experts : 1;
	uint32_t width = 0;
	char name[64];
	for (uint32_t e = 0; e < count; e++) {
		snprintf(name, sizeof name, "expert.%u", e);
		memcpy(experts[e], x, sizeof(matrix));
		width = mlp(r, name, job->model.hidden, job->model.hidden_count, job->model.batch_norm, training, experts[e], n);
	}
	for (uint32_t t = 0; t < r->tasks; t++) {
		for (uint32_t i = 0; i < r->in->rows; i++) {
			double gates[WIDTH_MAX] = {1.0};
			if (gated) {
				multiply(dense_tensor(r, "task.%u.gate.weight", t), x[i], gates, count, n, false);
				softmax(gates, count);
			}
			for (uint32_t k = 0; k < width; k++) {
				mix[i][k] = 0.0;
				for (uint32_t e = 0; e < count; e++)
					mix[i][k] += gates[e] * experts[e][i][k];
			}
		}
		snprintf(name, sizeof name, "task.%u", t);
		const uint32_t out =
		    mlp(r, name, job->model.task_hidden, job->model.task_hidden_count, job->model.batch_norm, training, mix, width);
		const double *w = dense_tensor(r, "task.%u.head.weight", t);
		for (uint32_t i = 0; i < r->in->rows; i++)
			for (uint32_t k = 0; k < out; k++)
				logits[i * r->tasks + t] += w[k] * mix[i][k];
	}
}

/* The weight of an id with a target: the attention unit's output. */
static double unit(const struct reference *r, unsigned number, const double *id, const double *target)
{
	const uint32_t dim = r->job->model.dim;
	double x[WIDTH_MAX], y[WIDTH_MAX], logit;
	char name[64];
	uint32_t n = 4 * dim;
	for (uint32_t d = 0; d < dim; d++) {
		x[d] = id[d];
		x[dim + d] = target[d];
		x[2 * dim + d] = id[d] - target[d];
		x[3 * dim + d] = id[d] * target[d];
	}
	for (uint32_t l = 0; l < r->job->model.attention_count; l++) {
		snprintf(name, sizeof name, "attention.%u.%u.weight", number, l);
		multiply(dense_tensor(r, name, 0), x, y, r->job->model.attention[l], n, false);
		snprintf(name, sizeof name, "attention.%u.%u.bias", number, l);
		n = r->job->model.attention[l];
		for (uint32_t k = 0; k < n; k++)
			x[k] = fmax(0.0, y[k] + dense_tensor(r, name, 0)[k]);
	}
	multiply(dense_tensor(r, "attention.%u.head.weight", number), x, &logit, 1, n, false);
	return logit + dense_tensor(r, "attention.%u.head.bias", number)[0];
}

/* Replaces the histories' fields of x by attention to the target's (Zhou et al. 2018, eq. 3). */
static void attend(const struct reference *r, matrix x)
{
	const uint32_t dim = r->job->model.dim;
	struct job_history histories[WEIR_HISTORIES_MAX];
	const uint32_t count = job_histories(r->job, histories);
	for (uint32_t h = 0; h < count; h++)
		for (uint32_t i = 0; i < r->in->rows; i++) {
			const uint32_t bag = i * r->fields + histories[h].field;
			double *pooled = &x[i][histories[h].field * dim];
			const double *target = &x[i][histories[h].target * dim];
			memset(pooled, 0, dim * sizeof *pooled);
			for (uint32_t k = r->in->offsets[bag]; k < r->in->offsets[bag + 1]; k++) {
				const double *id = r->parameters[MODEL_EMBEDDING] + (size_t)r->in->index[k] * dim;
				const double weight = unit(r, h, id, target);
				for (uint32_t d = 0; d < dim; d++)
					pooled[d] += weight * id[d];
			}
		}
}

static void linear(const struct reference *r, double *logits)
{
	const double *numeric = dense_tensor(r, "linear.numeric.weight", 0);
	for (uint32_t i = 0; i < r->in->rows; i++) {
		for (uint32_t f = 0; f < r->fields; f++)
			logits[i] += pooled(r, MODEL_LINEAR, 1, i, f, 0);
		for (uint32_t k = 0; k < r->dense_dim; k++)
			logits[i] += numeric[k] * (double)r->in->dense[i * r->dense_dim + k];
	}
}

/* The sum over pairs of fields of their dot product, by definition instead of Rendle's
 * rearrangement. */
static void second_order(const struct reference *r, matrix x, double *logits)
{
	uint32_t dim = r->job->model.dim;
	for (uint32_t i = 0; i < r->in->rows; i++)
		for (uint32_t f = 0; f < r->fields; f++)
			for (uint32_t g = f + 1; g < r->fields; g++)
				for (uint32_t d = 0; d < dim; d++)
					logits[i] += x[i][f * dim + d] * x[i][g * dim + d];
}

/* The loss of a logit with its label, by definition (kernels/click_loss.h). */
static double click_loss(const struct job *job, double z, double label)
{
	const double smoothing = (double)job->train.loss.label_smoothing, alpha = (double)job->train.loss.alpha;
	const double y = label * (1 - smoothing) + smoothing / 2, p = 1 / (1 + exp(-z)), right = y * p + (1 - y) * (1 - p);
	const double ce = -((double)job->train.loss.pos_weight * y * log(p) + (1 - y) * log(1 - p));
	if (job->train.loss.kind == LOSS_BCE)
		return ce;
	return (isnan(alpha) ? 1 : y * alpha + (1 - y) * (1 - alpha)) * pow(1 - right, (double)job->train.loss.gamma) * ce;
}

/* Labels that are missing have no loss. */
static double mean_loss(const struct reference *r, const double *logits)
{
	double loss = 0.0;
	for (uint32_t i = 0; i < r->in->rows * r->tasks; i++) {
		const double weight = r->in->weights != NULL ? (double)r->in->weights[i / r->tasks] : 1.0;
		const double of_task =
		    r->job->train.loss.task_weights_count > 0 ? (double)r->job->train.loss.task_weights[i % r->tasks] : 1.0;
		if (!isnan(r->in->labels[i]))
			loss += weight * of_task * click_loss(r->job, logits[i], (double)r->in->labels[i]) / r->in->rows;
	}
	return loss;
}

/* Writes the vector of one side of a row, to out (vector). */
static void side(const struct reference *r, const char *name, char *const *columns, uint32_t count, uint32_t row, double *out)
{
	const struct job *job = r->job;
	static matrix x;
	char format[64];
	uint32_t n = 0, number = 0, field = 0;
	double length = 0;
	for (int numbers = 0; numbers < 2; numbers++)
		for (uint32_t c = field = number = 0; c < job->data.columns_count; c++) {
			const bool is_number = job->data.columns[c].kind == COLUMN_NUMERIC;
			bool named = false;
			for (uint32_t k = 0; k < count; k++)
				named |= strcmp(columns[k], job->data.columns[c].name) == 0;
			for (uint32_t d = 0; named && !numbers && !is_number && d < job->model.dim; d++, n++)
				for (uint32_t i = 0; i < r->in->rows; i++)
					x[i][n] = pooled(r, MODEL_EMBEDDING, job->model.dim, i, field, d);
			if (named && numbers && is_number) {
				for (uint32_t i = 0; i < r->in->rows; i++)
					x[i][n] = (double)r->in->dense[i * r->dense_dim + number];
				n++;
			}
			field += !is_number;
			number += is_number;
		}
	n = mlp(r, name, job->model.hidden, job->model.hidden_count, false, false, x, n);
	snprintf(format, sizeof format, "%s.out.weight", name);
	multiply(dense_tensor(r, format, 0), x[row], out, job->model.vector, n, false);
	snprintf(format, sizeof format, "%s.out.bias", name);
	for (uint32_t d = 0; d < job->model.vector; d++) {
		out[d] += dense_tensor(r, format, 0)[d];
		length += out[d] * out[d];
	}
	for (uint32_t d = 0; d < job->model.vector && job->model.normalize; d++)
		out[d] /= sqrt(length);
}

/* The loss of a row over the items of the batch. */
static double retrieval_loss(const struct reference *r, const double *vectors, uint32_t row)
{
	const uint32_t width = r->job->model.vector;
	double sum = 0, own = 0;
	for (uint32_t j = 0; j < r->in->rows; j++) {
		double z = r->in->log_q ? -(double)r->in->log_q[j] : 0;
		for (uint32_t d = 0; d < width; d++)
			z += vectors[2 * row * width + d] * vectors[(2 * j + 1) * width + d] / (double)r->job->model.temperature;
		if (j == row)
			own = z;
		if (j == row || r->in->items[j] != r->in->items[row])
			sum += exp(z);
	}
	return log(sum) - own;
}

double reference_retrieval(const struct reference *r, double *vectors)
{
	const uint32_t rows = r->in->rows, width = r->job->model.vector;
	double loss = 0;
	for (uint32_t i = 0; i < rows; i++) {
		side(r, "user", r->job->model.user, r->job->model.user_count, i, vectors + 2 * i * width);
		side(r, "item", r->job->model.item, r->job->model.item_count, i, vectors + (2 * i + 1) * width);
	}
	for (uint32_t i = 0; i < rows; i++)
		if (r->in->labels[i] > 0.5f)
			loss += (r->in->weights ? (double)r->in->weights[i] : 1.0) * retrieval_loss(r, vectors, i) / rows;
	return loss;
}

double reference_loss(const struct reference *r, bool training, double *logits)
{
	static matrix x, y;
	enum model_kind kind = r->job->model.kind;
	if (model_kind_has(kind, PART_RETRIEVAL))
		return reference_retrieval(r, logits);
	uint32_t rows = r->in->rows, n = 0;
	assert(rows <= ROWS_MAX);
	for (uint32_t i = 0; i < rows * r->tasks; i++)
		logits[i] = dense_tensor(r, "bias", 0)[i % r->tasks];
	if (model_kind_has(kind, PART_LINEAR))
		linear(r, logits);
	if (model_kind_has(kind, PART_EMBEDDING))
		n = embeddings(r, x);
	assert(n + r->dense_dim <= WIDTH_MAX);
	if (model_kind_has(kind, PART_ATTENTION))
		attend(r, x);
	if (model_kind_has(kind, PART_FM))
		second_order(r, x, logits);
	if (model_kind_has(kind, PART_INTERACTION)) {
		n = dots(r, x);
	} else {
		for (uint32_t i = 0; i < rows; i++)
			for (uint32_t k = 0; k < r->dense_dim; k++)
				x[i][n + k] = (double)r->in->dense[i * r->dense_dim + k];
		n += r->dense_dim;
	}
	uint32_t width = 0;
	if (model_kind_has(kind, PART_TOWER)) {
		memcpy(y, x, sizeof y);
		width = mlp(r, "tower", r->job->model.hidden, r->job->model.hidden_count, r->job->model.batch_norm, training, y, n);
		head(r, y, width, 0, logits);
	}
	if (model_kind_has(kind, PART_CROSS))
		head(r, y, cross_net(r, x, y, n), width, logits);
	if (model_kind_has(kind, PART_CROSS_MIX))
		head(r, y, cross_mix(r, x, y, n), width, logits);
	if (model_kind_has(kind, PART_CIN))
		head(r, y, cin(r, x, y), width, logits);
	if (model_kind_has(kind, PART_TASKS))
		add_tasks(r, x, n, training, logits);
	return mean_loss(r, logits);
}
