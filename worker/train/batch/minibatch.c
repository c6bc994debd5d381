#include "worker/train/batch/minibatch.h"

#include <math.h>
#include <string.h>

#include "worker/data/negatives.h"
#include "worker/model/bags/history.h"

static weir_status out_of_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch: make data.batch smaller");
}

/* The size needed and a quarter more, so that slowly growing batches seldom reallocate. */
static size_t with_slack(size_t wanted)
{
	return wanted + wanted / 4;
}

static void release(struct backend *b, void *p)
{
	if (p)
		b->ops->host_free(b, p);
}

/* A fresh buffer in place of `old`; NULL when out of memory. */
static void *replace(struct backend *b, void *old, size_t bytes)
{
	release(b, old);
	return b->ops->host_alloc(b, bytes > 0 ? bytes : 1);
}

/* Room for `rows` rows of table t (flat tables: 1). */
static bool grow_table(struct minibatch *m, enum model_table t, size_t rows)
{
	if (rows <= m->unique_capacity[t])
		return true;
	if (model_table_is_keyed(t))
		rows = with_slack(rows);
	size_t bytes = rows * model_table_elements(m->model, t) * sizeof(float);
	m->unique_capacity[t] = 0;
	m->parameters[t] = replace(m->backend, m->parameters[t], bytes);
	if (m->gradients[t])
		m->output.gradients[t] = replace(m->backend, m->output.gradients[t], bytes);
	if (!m->parameters[t] || (m->gradients[t] && !m->output.gradients[t]))
		return false;
	m->unique_capacity[t] = rows;
	m->input.parameters[t] = m->parameters[t];
	return true;
}

weir_status minibatch_init(struct minibatch *m, struct backend *b, struct model *model, const bool *gradients, weir_error *err)
{
	*m = (struct minibatch){.backend = b, .model = model};
	if (gradients) {
		memcpy(m->gradients, gradients, sizeof m->gradients);
		m->output.loss_sum = replace(b, NULL, sizeof *m->output.loss_sum);
		m->output.not_finite = replace(b, NULL, sizeof *m->output.not_finite);
		if (!m->output.loss_sum || !m->output.not_finite) {
			minibatch_destroy(m);
			return out_of_memory(err);
		}
	}
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (!model_table_is_keyed(t) && model_has(model, t) && !grow_table(m, t, 1)) {
			minibatch_destroy(m);
			return out_of_memory(err);
		}
	return WEIR_OK;
}

void minibatch_destroy(struct minibatch *m)
{
	if (!m->backend)
		return;
	release(m->backend, m->keys);
	release(m->backend, m->index);
	release(m->backend, m->row_offsets);
	release(m->backend, m->grouped.offsets);
	release(m->backend, m->grouped.keys);
	release(m->backend, m->grouped.values);
	release(m->backend, m->group_index);
	release(m->backend, m->histories);
	release(m->backend, m->items);
	release(m->backend, m->log_q);
	release(m->backend, m->output.loss_sum);
	release(m->backend, m->output.not_finite);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		release(m->backend, m->parameters[t]);
		release(m->backend, m->output.gradients[t]);
	}
	*m = (struct minibatch){0};
}

static bool has_groups(const struct minibatch *m)
{
	return model_field_groups(m->model)->count > 1;
}

static bool reserve_grouped(struct minibatch *m, size_t nnz)
{
	struct backend *b = m->backend;
	m->grouped.keys = replace(b, m->grouped.keys, nnz * sizeof *m->grouped.keys);
	m->grouped.values = replace(b, m->grouped.values, nnz * sizeof *m->grouped.values);
	m->group_index = replace(b, m->group_index, nnz * sizeof *m->group_index);
	return m->grouped.keys && m->grouped.values && m->group_index;
}

static weir_status reserve(struct minibatch *m, size_t rows, size_t nnz, weir_error *err)
{
	struct backend *b = m->backend;
	if (nnz > m->nnz_capacity) {
		nnz = with_slack(nnz);
		m->nnz_capacity = 0;
		m->keys = replace(b, m->keys, nnz * sizeof *m->keys);
		m->index = replace(b, m->index, nnz * sizeof *m->index);
		if (!m->keys || !m->index || (has_groups(m) && !reserve_grouped(m, nnz)))
			return out_of_memory(err);
		m->nnz_capacity = nnz;
	}
	if (rows > m->rows_capacity) {
		m->rows_capacity = 0;
		m->row_offsets = replace(b, m->row_offsets, (rows + 1) * sizeof *m->row_offsets);
		m->items = replace(b, m->items, rows * sizeof *m->items);
		m->log_q = replace(b, m->log_q, rows * sizeof *m->log_q);
		if (!m->row_offsets || !m->items || !m->log_q)
			return out_of_memory(err);
		m->rows_capacity = rows;
	}
	return model_reserve(m->model, (uint32_t)rows, m->output.loss_sum != NULL, err);
}

/* ln of an item's expected share of the batch's rows. */
static float log_share(const struct minibatch *m, uint64_t key, uint32_t rows)
{
	const float of_data = item_counts_log_share(m->counts, key);
	if (!m->negatives)
		return of_data;
	const double drawn = m->negatives->count;
	return (float)log(((rows - drawn) * exp((double)of_data) + drawn * negatives_chance(m->negatives, key)) / rows);
}

/* Finds the items of a model that retrieves them. */
static void load_items(struct minibatch *m, const struct batch *batch)
{
	uint32_t field;
	if (!model_item_field(m->model, &field))
		return;
	for (uint32_t r = 0; r < batch->rows; r++) {
		const uint32_t use = batch->offsets[(size_t)r * batch->fields + field];
		m->items[r] = m->index[use];
		m->log_q[r] = m->counts ? log_share(m, batch->keys[use], batch->rows) : 0;
	}
	m->input.items = m->items;
	m->input.negatives = m->negatives ? m->negatives->count : 0;
	m->input.log_q = m->counts ? m->log_q : NULL;
}

/* Finds the histories that the model attends to. */
static weir_status load_histories(struct minibatch *m, const struct batch *batch, weir_error *err)
{
	struct job_history of[WEIR_HISTORIES_MAX];
	const uint32_t count = model_histories(m->model, of);
	const struct history_bags bags = {.rows = batch->rows, .fields = batch->fields, .offsets = batch->offsets, .index = m->index};
	const size_t words = histories_measure(&bags, of, count, m->input.history_uses);
	if (count == 0)
		return WEIR_OK;
	if (words > m->histories_capacity) {
		m->histories_capacity = 0;
		m->histories = replace(m->backend, m->histories, with_slack(words) * sizeof *m->histories);
		if (!m->histories)
			return out_of_memory(err);
		m->histories_capacity = with_slack(words);
	}
	histories_write(&bags, of, count, m->input.history_uses, m->histories);
	m->input.histories = m->histories;
	return model_reserve_histories(m->model, &m->input, err);
}

/* Finds the distinct keys of each group of fields: the rows of its table. */
static weir_status load_groups(struct minibatch *m, const struct batch *batch, weir_error *err)
{
	const struct field_groups *g = model_field_groups(m->model);
	const struct field_bags bags = {
	    .rows = batch->rows, .fields = batch->fields, .offsets = batch->offsets, .keys = batch->keys, .values = batch->values};
	const size_t offsets = (size_t)batch->rows * batch->fields + g->count;
	struct model_input *in = &m->input;
	if (offsets > m->bags_capacity) {
		m->grouped.offsets = replace(m->backend, m->grouped.offsets, offsets * sizeof *m->grouped.offsets);
		m->bags_capacity = m->grouped.offsets ? offsets : 0;
		if (!m->grouped.offsets)
			return out_of_memory(err);
	}
	field_groups_sort(g, &bags, &m->grouped);
	for (size_t i = 0, at = 0; i < g->count; at += m->grouped.uses[i++]) {
		const size_t begin = in->group_begin[i];
		in->group_uses[i] = m->grouped.uses[i];
		in->group_begin[i + 1] = begin + m->backend->ops->unique(m->backend, m->grouped.keys + at, m->grouped.uses[i],
		                                                         m->keys + begin, m->group_index + at);
	}
	field_groups_index(g, &bags, &m->grouped, m->group_index, in->group_begin, m->index);
	in->group_offsets = m->grouped.offsets;
	in->group_index = m->group_index;
	in->group_values = batch->values ? m->grouped.values : NULL;
	return WEIR_OK;
}

/* Finds the distinct keys, and makes room for their rows. */
static weir_status load_keys(struct minibatch *m, const struct batch *batch, size_t nnz, weir_error *err)
{
	size_t *begin = m->input.group_begin;
	const uint32_t groups = model_field_groups(m->model)->count;
	weir_status status = WEIR_OK;
	if (has_groups(m))
		status = load_groups(m, batch, err);
	else
		begin[1] = m->backend->ops->unique(m->backend, batch->keys, nnz, m->keys, m->index);
	if (status != WEIR_OK)
		return status;
	m->input.unique = begin[groups];
	m->input.uses = nnz;
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (model_table_is_keyed(t) && model_has(m->model, t) &&
		    !grow_table(m, t, model_table_rows(m->model, &m->input, t).count))
			return out_of_memory(err);
	minibatch_want(m, m->keys, begin);
	return WEIR_OK;
}

weir_status minibatch_load(struct minibatch *m, const struct batch *batch, weir_error *err)
{
	if (batch->context > 0 || batch->sequence > 0) { /* text and tokens have no keys */
		m->input.rows = batch->rows;
		m->input.sequence = batch->sequence;
		m->input.counted = batch->counted;
		m->input.tokens = batch->tokens;
		m->input.targets = batch->targets;
		return model_reserve(m->model, batch->rows, m->output.loss_sum != NULL, err);
	}
	size_t bags = (size_t)batch->rows * batch->fields, nnz = batch->offsets[bags];
	weir_status status = reserve(m, batch->rows, nnz, err);
	if (status == WEIR_OK)
		status = load_keys(m, batch, nnz, err);
	if (status != WEIR_OK)
		return status;
	for (uint32_t i = 0; i <= batch->rows; i++)
		m->row_offsets[i] = batch->offsets[(size_t)i * batch->fields];
	m->input.rows = batch->rows;
	m->input.labels = batch->labels;
	m->input.weights = batch->weights;
	m->input.dense = batch->dense;
	m->input.offsets = batch->offsets;
	m->input.row_offsets = m->row_offsets;
	m->input.index = m->index;
	m->input.values = batch->values;
	load_items(m, batch);
	return load_histories(m, batch, err);
}

void minibatch_want(struct minibatch *m, const uint64_t *keys, const size_t *begin)
{
	m->wanted = keys;
	memcpy(m->wanted_begin, begin, (model_field_groups(m->model)->count + 1) * sizeof *begin);
}

struct used_rows minibatch_wanted(const struct minibatch *m, enum model_table t)
{
	const size_t *begin = m->wanted_begin;
	if (t == MODEL_LINEAR)
		return (struct used_rows){.count = begin[model_field_groups(m->model)->count]};
	begin += model_table_group(t);
	return (struct used_rows){.first = begin[0], .count = begin[1] - begin[0]};
}
