#include "tests/unit/worker/train/local_loop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/prng.h"
#include "kernels/init.h"
#include "kernels/optimizer.h"
#include "worker/train/batch/minibatch.h"
#include "worker/train/loop/trainer.h"

enum { ROWS_MAX = 1 << 20 }; /* twice the number of keys in any test's data */

/* A table: embedding rows with open addressing, or the chunks of a flat table. */
struct local_table {
	weir_table_spec spec;
	uint32_t id;
	struct optimizer *rule;
	uint64_t steps;
	/* rows by key */
	uint64_t *keys;
	float **rows; /* (ROWS_MAX) value, slots; NULL: free */
	struct row_state *states;
	size_t count;
	/* flat */
	float *values, *slots; /* (elements), (chunks, slots, chunk) */
};

struct local_loop {
	const struct job *job;
	struct dataset *data;
	struct backend *backend;
	struct model *model;
	struct minibatch batch;
	struct local_table tables[MODEL_TABLES];
};

static size_t find_row(const struct local_table *t, uint64_t key)
{
	size_t slot = hash_u64(key) % ROWS_MAX;
	while (t->rows[slot] != NULL && t->keys[slot] != key)
		slot = (slot + 1) % ROWS_MAX;
	return slot;
}

static void read_keyed(const struct local_table *t, const uint64_t *keys, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++) {
		const float *row = t->rows[find_row(t, keys[i])];
		if (row != NULL)
			memcpy(out + i * t->spec.width, row, t->spec.width * sizeof *out);
		else
			init_embedding_row(t->spec.seed, t->id, keys[i], t->spec.segments, out + i * t->spec.width, t->spec.width);
	}
}

static void apply_keyed(struct local_table *t, const uint64_t *keys, size_t n, const float *grads,
                        const struct optimizer_scalars *scalars)
{
	uint32_t width = t->spec.width, slots = optimizer_slots(t->spec.optimizer.kind);
	for (size_t i = 0; i < n; i++) {
		size_t at = find_row(t, keys[i]);
		if (t->rows[at] == NULL) {
			assert(++t->count < ROWS_MAX / 2);
			t->keys[at] = keys[i];
			t->rows[at] = calloc((size_t)width * (1 + slots), sizeof(float));
			init_embedding_row(t->spec.seed, t->id, keys[i], t->spec.segments, t->rows[at], width);
			optimizer_init_slots(&t->spec.optimizer, t->rows[at] + width, width);
		}
		optimizer_begin_row(t->rule, &t->states[at]);
		optimizer_apply(t->rule, scalars, &t->states[at], t->rows[at], t->rows[at] + width, width, 0, grads + i * width, width);
	}
}

static void apply_flat(struct local_table *t, const float *grads, const struct optimizer_scalars *scalars)
{
	uint32_t slots = optimizer_slots(t->spec.optimizer.kind);
	for (uint64_t first = 0, chunk = 0; first < t->spec.elements; first += WEIR_CHUNK, chunk++) {
		size_t n = t->spec.elements - first < WEIR_CHUNK ? t->spec.elements - first : WEIR_CHUNK;
		optimizer_begin_row(t->rule, &t->states[chunk]);
		optimizer_apply(t->rule, scalars, &t->states[chunk], t->values + first, t->slots + first * slots, n, 0, grads + first, n);
	}
}

static weir_status open_table(struct local_table *t, const struct model *model, enum model_table k, weir_error *err)
{
	t->spec = model_table_spec(model, k);
	t->rule = optimizer_create(&t->spec.optimizer, err);
	if (t->rule == NULL)
		return WEIR_E_INVALID;
	if (model_table_is_keyed(k)) {
		t->keys = calloc(ROWS_MAX, sizeof *t->keys);
		t->rows = calloc(ROWS_MAX, sizeof *t->rows);
		t->states = calloc(ROWS_MAX, sizeof *t->states);
		return WEIR_OK;
	}
	uint64_t n = t->spec.elements, slots = optimizer_slots(t->spec.optimizer.kind);
	t->values = calloc(n, sizeof(float));
	t->slots = calloc(n * slots + 1, sizeof(float));
	t->states = calloc(n / WEIR_CHUNK + 1, sizeof *t->states);
	for (uint64_t first = 0; first < n; first += WEIR_CHUNK)
		optimizer_init_slots(&t->spec.optimizer, t->slots + first * slots, n - first < WEIR_CHUNK ? n - first : WEIR_CHUNK);
	return WEIR_OK;
}

weir_status local_loop_open(struct local_loop **out, const struct job *job, struct dataset *data, weir_error *err)
{
	struct local_loop *l = calloc(1, sizeof *l);
	const struct dataset_info *info = dataset_get_info(data);
	l->job = job;
	l->data = data;
	l->backend = backend_cpu_create(1, err);
	const struct model_data shape = {.fields = info->fields, .dense_dim = info->dense_dim, .vocabulary = info->vocabulary};
	weir_status s = model_create(&l->model, l->backend, job, &shape, err);
	for (enum model_table k = 0; k < MODEL_TABLES && s == WEIR_OK; k++)
		if (model_has(l->model, k))
			s = open_table(&l->tables[k], l->model, k, err);
	if (s == WEIR_OK)
		s = minibatch_init(&l->batch, l->backend, l->model, MINIBATCH_ALL, err);
	*out = l;
	return s;
}

void local_loop_close(struct local_loop *l)
{
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		struct local_table *t = &l->tables[k];
		for (size_t i = 0; t->rows != NULL && i < ROWS_MAX; i++)
			free(t->rows[i]);
		free(t->keys);
		free(t->rows);
		free(t->states);
		free(t->values);
		free(t->slots);
		optimizer_destroy(t->rule);
	}
	minibatch_destroy(&l->batch);
	model_destroy(l->model);
	l->backend->ops->destroy(l->backend);
	free(l);
}

void local_loop_set_table_id(struct local_loop *l, enum model_table t, uint32_t id)
{
	struct local_table *table = &l->tables[t];
	table->id = id;
	if (!model_table_is_keyed(t))
		init_dense(table->spec.seed, id, table->spec.segments, table->spec.segments_count, 0, table->values,
		           table->spec.elements);
}

static void pull(struct local_loop *l)
{
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		if (!model_has(l->model, k))
			continue;
		if (model_table_is_keyed(k))
			read_keyed(&l->tables[k], l->batch.keys, l->batch.input.unique, l->batch.parameters[k]);
		else
			memcpy(l->batch.parameters[k], l->tables[k].values, l->tables[k].spec.elements * sizeof(float));
	}
}

static void push(struct local_loop *l)
{
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		struct local_table *t = &l->tables[k];
		if (!model_has(l->model, k))
			continue;
		const struct optimizer_scalars scalars = {.lr = (float)schedule_lr(&t->spec.optimizer, t->steps++), .grad_scale = 1.0f};
		if (model_table_is_keyed(k))
			apply_keyed(t, l->batch.keys, l->batch.input.unique, l->batch.output.gradients[k], &scalars);
		else
			apply_flat(t, l->batch.output.gradients[k], &scalars);
	}
}

static weir_status run_unit(struct local_loop *l, uint32_t pass, uint32_t unit, uint32_t data_unit, weir_error *err)
{
	struct unit_reader *reader = NULL;
	struct batch b = {0};
	weir_status s = unit_open(&reader, l->data, data_unit, trainer_order_seed(l->job, pass, unit), err);
	for (uint32_t i = 0; s == WEIR_OK && i < unit_batches(reader); i++) {
		s = unit_read(reader, i, &b, err);
		if (s == WEIR_OK)
			s = minibatch_load(&l->batch, &b, err);
		if (s != WEIR_OK)
			break;
		pull(l);
		const uint64_t seed = trainer_dropout_seed(l->job, pass, unit, i);
		model_train(l->model, &l->batch.input, &seed, &l->batch.output);
		double squares[MODEL_TABLES];
		l->batch.output.squares = squares;
		(void)model_measure(l->model, &l->batch.input, &l->batch.output);
		if (l->job->train.clip_norm > 0.0f)
			model_clip(l->model, &l->batch.input, &l->batch.output, l->job->train.clip_norm);
		push(l);
	}
	batch_destroy(&b);
	if (reader != NULL)
		unit_close(reader);
	return s;
}

weir_status local_loop_pass(struct local_loop *l, uint32_t pass, weir_error *err)
{
	uint32_t units = dataset_get_info(l->data)->units;
	weir_status s = WEIR_OK;
	for (uint32_t u = 0; u < units && s == WEIR_OK; u++) {
		uint32_t data_unit = l->job->data.shuffle ? (uint32_t)prng_permute(prng_mix(l->job->data.seed, pass, 0), units, u) : u;
		s = run_unit(l, pass, u, data_unit, err);
	}
	return s;
}

const struct model *local_loop_model(const struct local_loop *l)
{
	return l->model;
}

const float *local_loop_row(const struct local_loop *l, enum model_table t, uint64_t key)
{
	return l->tables[t].rows[find_row(&l->tables[t], key)];
}

size_t local_loop_rows(const struct local_loop *l, enum model_table t)
{
	return l->tables[t].count;
}

const float *local_loop_flat(const struct local_loop *l, enum model_table t)
{
	return l->tables[t].values;
}
