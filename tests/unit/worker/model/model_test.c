/* Every model against its float64 reference: logits, and each gradient element by central
 * differences of the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "tests/unit/worker/model/grouped_input.h"
#include "tests/unit/worker/model/near.h"
#include "tests/unit/worker/model/reference.h"
#include "worker/model/bags/history.h"

enum { ROWS = 7, FIELDS = 3, DENSE = 4, UNIQUE = 9, BAG_MAX = 2, TASKS_MAX = 3, OUTPUTS_MAX = 6 };

/* The model that a test is about, for messages. */
static const char *about = "";

struct fixture {
	struct job job;
	struct backend *backend;
	struct model *model;
	struct model_input in;
	struct model_output out;
	uint32_t dense_dim, tasks;
	float labels[ROWS * TASKS_MAX], weights[ROWS], dense[ROWS * DENSE], values[ROWS * FIELDS * BAG_MAX];
	uint32_t offsets[ROWS * FIELDS + 1], row_offsets[ROWS + 1], index[ROWS * FIELDS * BAG_MAX];
	uint32_t *histories;
	struct grouped_input grouped;
	float *parameters[MODEL_TABLES];
	size_t elements[MODEL_TABLES];
	double loss_sum, squares[MODEL_TABLES];
};

static struct job small_job(enum model_kind kind, bool batch_norm)
{
	struct job job = {0};
	job.model.kind = kind;
	job.model.dim = 4;
	job.model.hidden[0] = 6;
	job.model.hidden[1] = 5;
	job.model.hidden_count = 2;
	job.model.bottom[0] = 5;
	job.model.bottom[1] = 4;
	job.model.bottom_count = 2;
	job.model.cross_layers = 2;
	job.model.experts = 3;
	job.model.rank = 2;
	job.model.attention[0] = 5;
	job.model.attention[1] = 3;
	job.model.attention_count = 2;
	job.model.task_hidden[0] = 4;
	job.model.task_hidden_count = 1;
	job.model.cin[0] = 5;
	job.model.cin[1] = 3;
	job.model.cin[2] = 4;
	job.model.cin_count = 3;
	job.model.batch_norm = batch_norm;
	job.model.init_std = 0.5f;
	job.train.seed = 3;
	job.train.loss.pos_weight = 1;
	job.tables.embedding.optimizer = job.tables.dense.optimizer = (weir_optimizer){.kind = WEIR_OPT_SGD, .lr = 0.1f};
	return job;
}

/* Bags of 0 to BAG_MAX keys with values, example weights, and numeric features if the model has
 * any. */
static void make_batch(struct fixture *f, struct prng *r)
{
	uint32_t nnz = 0;
	for (uint32_t bag = 0; bag < ROWS * FIELDS; bag++) {
		f->offsets[bag] = nnz;
		for (uint64_t k = prng_below(r, BAG_MAX + 1); k > 0; k--, nnz++) {
			f->index[nnz] = nnz < UNIQUE ? nnz : (uint32_t)prng_below(r, UNIQUE);
			f->values[nnz] = 0.5f + (float)prng_unit(r);
		}
	}
	f->offsets[ROWS * FIELDS] = nnz;
	assert_true(nnz >= UNIQUE);
	for (uint32_t i = 0; i <= ROWS; i++)
		f->row_offsets[i] = f->offsets[i * FIELDS];
	for (uint32_t i = 0; i < ROWS; i++) {
		for (uint32_t t = 0; t < f->tasks; t++)
			f->labels[i * f->tasks + t] = f->tasks > 1 && prng_below(r, 4) == 0 ? NAN : (float)prng_below(r, 2);
		f->weights[i] = 0.5f + (float)prng_unit(r);
	}
	for (uint32_t i = 0; i < ROWS * DENSE; i++)
		f->dense[i] = prng_normal(r);
	f->in = (struct model_input){
	    .rows = ROWS,
	    .labels = f->labels,
	    .weights = f->weights,
	    .dense = f->dense_dim > 0 ? f->dense : NULL,
	    .offsets = f->offsets,
	    .row_offsets = f->row_offsets,
	    .index = f->index,
	    .values = f->values,
	    .unique = UNIQUE,
	    .uses = nnz,
	};
}

static void make_histories(struct fixture *f)
{
	struct job_history of[WEIR_HISTORIES_MAX];
	weir_error err = {0};
	const uint32_t count = model_histories(f->model, of);
	const struct history_bags bags = {.rows = ROWS, .fields = FIELDS, .offsets = f->offsets, .index = f->index};
	f->histories = malloc((1 + histories_measure(&bags, of, count, f->in.history_uses)) * sizeof *f->histories);
	histories_write(&bags, of, count, f->in.history_uses, f->histories);
	f->in.histories = f->histories;
	assert_int_equal(model_reserve_histories(f->model, &f->in, &err), WEIR_OK);
}

static struct fixture *fixture_open_tasks(struct job job, uint32_t dense_dim, uint32_t tasks)
{
	struct fixture *f = calloc(1, sizeof *f);
	weir_error err = {0};
	struct prng r;
	prng_seed(&r, 17);
	f->job = job;
	f->dense_dim = dense_dim;
	f->tasks = tasks;
	f->backend = backend_cpu_create(1, &err);
	assert_non_null(f->backend);
	const struct model_data data = {.tasks = tasks, .fields = FIELDS, .dense_dim = dense_dim};
	assert_int_equal(model_create(&f->model, f->backend, &f->job, &data, &err), WEIR_OK);
	assert_int_equal(model_reserve(f->model, ROWS, true, &err), WEIR_OK);
	make_batch(f, &r);
	make_histories(f);
	grouped_input_make(&f->grouped, f->backend, f->model, &f->in);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		f->elements[t] = model_table_elements(f->model, t) * model_table_rows(f->model, &f->in, t).count;
		f->parameters[t] = f->backend->ops->buffer_alloc(f->backend, f->elements[t] * sizeof(float) + 64);
		f->out.gradients[t] = f->backend->ops->buffer_alloc(f->backend, f->elements[t] * sizeof(float) + 64);
		for (size_t i = 0; i < f->elements[t]; i++) /* variances must be positive */
			f->parameters[t][i] = t == MODEL_STATISTICS ? 0.5f + (float)prng_unit(&r) : 0.5f * prng_normal(&r);
		f->in.parameters[t] = f->parameters[t];
	}
	f->out.loss_sum = &f->loss_sum;
	return f;
}

static struct fixture *fixture_open_job(struct job job, uint32_t dense_dim)
{
	return fixture_open_tasks(job, dense_dim, 1);
}

static struct fixture *fixture_open(enum model_kind kind, bool batch_norm, uint32_t dense_dim)
{
	return fixture_open_job(small_job(kind, batch_norm), dense_dim);
}

static void fixture_close(struct fixture *f)
{
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		f->backend->ops->buffer_free(f->backend, f->parameters[t]);
		f->backend->ops->buffer_free(f->backend, f->out.gradients[t]);
	}
	grouped_input_destroy(&f->grouped, f->backend);
	model_destroy(f->model);
	f->backend->ops->destroy(f->backend);
	free(f->histories);
	free(f);
}

static void reference_open(struct reference *r, const struct fixture *f)
{
	*r = (struct reference){.job = &f->job, .fields = FIELDS, .dense_dim = f->dense_dim, .tasks = f->tasks, .in = &f->in};
	r->params = model_layout(f->model, MODEL_DENSE);
	r->stats = model_layout(f->model, MODEL_STATISTICS);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		r->parameters[t] = malloc((f->elements[t] + 1) * sizeof(double));
		for (size_t i = 0; i < f->elements[t]; i++)
			r->parameters[t][i] = (double)f->parameters[t][i];
	}
}

static void reference_close(struct reference *r)
{
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		free(r->parameters[t]);
}

static void expect_logits(const struct reference *r, const float *logits, bool training)
{
	double expected[ROWS * TASKS_MAX];
	(void)reference_loss(r, training, expected);
	for (uint32_t i = 0; i < ROWS * r->tasks; i++)
		expect_near((double)logits[i], expected[i], 2e-6, "logit", i);
}

static void expect_gradients(const struct fixture *f, struct reference *r)
{
	static const char *const names[MODEL_TABLES] = {
	    "embedding gradient",        "linear gradient",          "dense gradient",           NULL,
	    "second embedding gradient", "third embedding gradient", "fourth embedding gradient"};
	double logits[ROWS * OUTPUTS_MAX], step = 1e-6;
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		for (size_t i = 0; t != MODEL_STATISTICS && i < f->elements[t]; i++) {
			double value = r->parameters[t][i];
			r->parameters[t][i] = value + step;
			double up = reference_loss(r, true, logits);
			r->parameters[t][i] = value - step;
			double down = reference_loss(r, true, logits);
			r->parameters[t][i] = value;
			expect_near((double)f->out.gradients[t][i], (up - down) / (2 * step), 2e-5, names[t], i);
		}
}

static void train(struct fixture *f, uint64_t seed)
{
	model_train(f->model, &f->in, &seed, &f->out);
}

static void check_tasks(struct job job, uint32_t dense_dim, uint32_t tasks)
{
	struct fixture *f = fixture_open_tasks(job, dense_dim, tasks);
	struct reference r;
	double logits[ROWS * TASKS_MAX];
	reference_open(&r, f);
	expect_logits(&r, model_score(f->model, &f->in), false);
	train(f, 1);
	expect_near(f->loss_sum / ROWS, reference_loss(&r, true, logits), 1e-6, "loss", 0);
	expect_gradients(f, &r);
	reference_close(&r);
	fixture_close(f);
}

static void check_model(struct job job, uint32_t dense_dim)
{
	check_tasks(job, dense_dim, 1);
}

static void every_click_model_follows_its_reference(void **state)
{
	(void)state;
	unsigned models = 0;
	for (enum model_kind kind = 0; kind < MODEL_KINDS; kind++) {
		if (model_kind_row(kind)->reads != READS_CLICKS || model_kind_has(kind, PART_RETRIEVAL))
			continue;
		about = model_kind_name(kind);
		for (int norm = 0; norm < 2; norm++) {
			check_model(small_job(kind, norm), 0);
			check_model(small_job(kind, norm), DENSE);
		}
		models++;
	}
	about = "";
	assert_true(models >= 11);
}

/* Fields 0 and 2 are histories of ids of field 1, of 0 to BAG_MAX uses. */
static void din_follows_its_reference(void **state)
{
	(void)state;
	struct job_column columns[FIELDS] = {{.name = "seen", .kind = COLUMN_SEQUENCE, .share = "item"},
	                                     {.name = "item", .kind = COLUMN_CATEGORICAL},
	                                     {.name = "bought", .kind = COLUMN_SEQUENCE, .share = "item"}};
	about = "din";
	for (uint32_t histories = 1; histories <= 2; histories++) {
		struct job job = small_job(MODEL_DIN, false);
		job.data.columns = columns;
		job.data.columns_count = FIELDS;
		columns[2].kind = histories == 2 ? COLUMN_SEQUENCE : COLUMN_MULTI;
		check_model(job, DENSE);
		check_model(job, 0);
	}
	about = "";
}

/* A batch without any history: the attention learns nothing from it. */
static void a_batch_without_histories_has_no_gradient_of_attention(void **state)
{
	(void)state;
	struct job_column columns[FIELDS] = {{.name = "seen", .kind = COLUMN_SEQUENCE, .share = "item"},
	                                     {.name = "item", .kind = COLUMN_CATEGORICAL},
	                                     {.name = "other", .kind = COLUMN_MULTI}};
	struct job job = small_job(MODEL_DIN, false);
	job.data.columns = columns;
	job.data.columns_count = FIELDS;
	struct fixture *f = fixture_open_job(job, 0);
	uint32_t words[2 * ROWS] = {0}, uses = 0;
	for (uint32_t bag = 0; bag < ROWS * FIELDS; bag++) { /* the ids of field 1 alone */
		f->offsets[bag] = uses;
		uses += bag % FIELDS == 1;
	}
	f->offsets[ROWS * FIELDS] = uses;
	f->in.histories = words;
	f->in.history_uses[0] = 0;
	f->in.uses = uses;
	train(f, 1);
	const struct layout *params = model_layout(f->model, MODEL_DENSE);
	const struct tensor *first = layout_find(params, "attention.0.0.weight"),
	                    *last = layout_find(params, "attention.0.head.bias");
	for (uint64_t i = first->offset; i < last->offset + last->elements; i++)
		assert_true(f->out.gradients[MODEL_DENSE][i] == 0.0f);
	assert_true(f->loss_sum > 0);
	fixture_close(f);
}

/* The uses of a row's history are in the order of the data, whatever lies between them. */
static void a_history_keeps_its_order(void **state)
{
	(void)state;
	enum { OTHER, SEEN, ITEM };
	const uint32_t offsets[] = {0, 1, 4, 5, 5, 5, 6, 7, 9, 10}, index[] = {9, 5, 3, 5, 7, 8, 9, 2, 1, 6};
	const struct history_bags bags = {.rows = 3, .fields = 3, .offsets = offsets, .index = index};
	const struct job_history of = {.field = SEEN, .target = ITEM};
	uint32_t uses, words[32];
	assert_int_equal(histories_measure(&bags, &of, 1, &uses), history_words(3, 5));
	histories_write(&bags, &of, 1, &uses, words);
	const struct history h = history_at(words, 3, uses);
	assert_int_equal(h.uses, 5);
	assert_memory_equal(h.offsets, ((const uint32_t[]){0, 3, 3, 5}), 4 * sizeof *words);
	assert_memory_equal(h.index, ((const uint32_t[]){5, 3, 5, 2, 1}), 5 * sizeof *words);
	assert_memory_equal(h.row, ((const uint32_t[]){0, 0, 0, 2, 2}), 5 * sizeof *words);
	assert_memory_equal(h.target, ((const uint32_t[]){2, 2, 2, 8, 8}), 5 * sizeof *words);
}

/* The vectors of a row, and the loss over the batch, by definition. Item 0 is in several rows. */
static void two_towers_follow_their_reference(void **state)
{
	(void)state;
	struct job_column columns[] = {{.name = "user", .kind = COLUMN_CATEGORICAL},
	                               {.name = "item", .kind = COLUMN_CATEGORICAL},
	                               {.name = "seen", .kind = COLUMN_SEQUENCE, .share = "item"},
	                               {.name = "age", .kind = COLUMN_NUMERIC},
	                               {.name = "price", .kind = COLUMN_NUMERIC}};
	char *user[] = {"user", "seen", "age"}, *item[] = {"item", "price"};
	about = "two_tower";
	for (int plain = 0; plain < 2; plain++) {
		struct job job = small_job(MODEL_TWO_TOWER, false);
		job.data.columns = columns;
		job.data.columns_count = sizeof columns / sizeof *columns;
		job.model.user = user;
		job.model.item = item;
		job.model.user_count = 3;
		job.model.item_count = 2;
		job.model.vector = 3;
		job.model.temperature = 0.5f;
		job.model.normalize = !plain;
		struct fixture *f = fixture_open_job(job, 2);
		uint32_t items[ROWS];
		float log_q[ROWS];
		struct reference r;
		for (uint32_t i = 0; i < ROWS; i++) {
			items[i] = i % 3;
			log_q[i] = -0.5f * (float)items[i] - 1;
		}
		f->in.items = items;
		f->in.log_q = plain ? NULL : log_q;
		reference_open(&r, f);
		double vectors[2 * 3 * ROWS];
		(void)reference_retrieval(&r, vectors);
		const float *scores = model_score(f->model, &f->in);
		for (uint32_t i = 0; i < 2 * 3 * ROWS; i++)
			expect_near((double)scores[i], vectors[i], 2e-6, "vector", i);
		train(f, 1);
		expect_near(f->loss_sum / ROWS, reference_loss(&r, true, vectors), 2e-6, "loss", 0);
		expect_gradients(f, &r);
		reference_close(&r);
		fixture_close(f);
	}
	about = "";
}

/* Some labels are missing, and tasks have weights. */
static void models_of_several_tasks_follow_their_reference(void **state)
{
	(void)state;
	static const enum model_kind kinds[] = {MODEL_SHARED_BOTTOM, MODEL_MMOE};
	float weights[TASKS_MAX] = {1, 0.5f, 3};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (int norm = 0; norm < 2; norm++) {
			struct job job = small_job(kinds[k], norm);
			about = model_kind_name(kinds[k]);
			check_tasks(job, DENSE, TASKS_MAX);
			job.train.loss.task_weights = weights;
			job.train.loss.task_weights_count = TASKS_MAX;
			check_tasks(job, 0, TASKS_MAX);
		}
	about = "";
}

static void losses_follow_their_reference(void **state)
{
	(void)state;
	struct job job = small_job(MODEL_DEEPFM, false);
	job.train.loss.label_smoothing = 0.1f;
	job.train.loss.pos_weight = 3;
	check_model(job, DENSE);
	job.train.loss.pos_weight = 1;
	job.train.loss.kind = LOSS_FOCAL;
	job.train.loss.gamma = 2;
	job.train.loss.alpha = 0.25f;
	check_model(job, DENSE);
	job.train.loss.alpha = NAN;
	check_model(job, DENSE);
}

/* The second field takes the largest element of its bag in each column. */
static void a_field_with_max_pooling_follows_its_reference(void **state)
{
	(void)state;
	struct job_column columns[FIELDS] = {
	    {.kind = COLUMN_CATEGORICAL}, {.kind = COLUMN_MULTI, .pooling = POOLING_MAX}, {.kind = COLUMN_SEQUENCE}};
	const enum model_kind kinds[] = {MODEL_FM, MODEL_DEEPFM, MODEL_DLRM};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct job job = small_job(kinds[i], false);
		about = model_kind_name(kinds[i]);
		job.data.columns = columns;
		job.data.columns_count = FIELDS;
		check_model(job, DENSE);
	}
	about = "";
}

/* Fields of three widths, of which the second has max pooling, and those of the first and the third
 * share rows. */
static void fields_of_different_widths_follow_their_reference(void **state)
{
	(void)state;
	struct job_column columns[] = {{.name = "a", .kind = COLUMN_CATEGORICAL, .dim = 6},
	                               {.name = "b", .kind = COLUMN_MULTI, .pooling = POOLING_MAX, .dim = 2},
	                               {.name = "c", .kind = COLUMN_SEQUENCE, .share = "a"}};
	unsigned models = 0;
	for (enum model_kind kind = 0; kind < MODEL_KINDS; kind++) {
		if (!model_kind_has(kind, PART_EMBEDDING) || !model_kind_joins_dims(kind))
			continue;
		about = model_kind_name(kind);
		for (int third = 0; third < 2; third++) {
			struct job job = small_job(kind, !third);
			columns[2].share[0] = third ? 0 : 'a';
			job.data.columns = columns;
			job.data.columns_count = FIELDS;
			check_model(job, third ? DENSE : 0);
		}
		models++;
	}
	about = "";
	assert_int_equal(models, 5);
}

static void batch_statistics_are_the_batch_s(void **state)
{
	(void)state;
	struct fixture *f = fixture_open(MODEL_DEEPFM, true, 0);
	train(f, 1);
	/* Layer 0's input is linear in x: its mean over the batch is W mean(x). */
	const struct layout *params = model_layout(f->model, MODEL_DENSE), *stats = model_layout(f->model, MODEL_STATISTICS);
	const float *w = f->parameters[MODEL_DENSE] + layout_find(params, "tower.0.weight")->offset;
	const float *mean = f->out.gradients[MODEL_STATISTICS] + layout_find(stats, "tower.0.norm.running_mean")->offset;
	uint32_t dim = f->job.model.dim, n = FIELDS * dim;
	for (uint32_t o = 0; o < f->job.model.hidden[0]; o++) {
		double expected = 0.0;
		for (uint32_t bag = 0; bag < ROWS * FIELDS; bag++)
			for (uint32_t k = f->offsets[bag]; k < f->offsets[bag + 1]; k++)
				for (uint32_t d = 0; d < dim; d++)
					expected += (double)w[o * n + bag % FIELDS * dim + d] * (double)f->values[k] *
					            (double)f->parameters[MODEL_EMBEDDING][f->index[k] * dim + d] / ROWS;
		expect_near((double)mean[o], expected, 1e-5, "batch mean", o);
	}
	fixture_close(f);
}

static void dropout_follows_its_seed(void **state)
{
	(void)state;
	struct fixture *f = fixture_open(MODEL_DEEPFM, false, DENSE);
	model_destroy(f->model);
	f->job.model.dropout = 0.5f;
	weir_error err = {0};
	assert_int_equal(
	    model_create(&f->model, f->backend, &f->job, &(struct model_data){.fields = FIELDS, .dense_dim = DENSE}, &err), WEIR_OK);
	assert_int_equal(model_reserve(f->model, ROWS, true, &err), WEIR_OK);
	size_t bytes = f->elements[MODEL_DENSE] * sizeof(float);
	float *first = malloc(bytes);
	train(f, 5);
	memcpy(first, f->out.gradients[MODEL_DENSE], bytes);
	train(f, 6);
	assert_memory_not_equal(first, f->out.gradients[MODEL_DENSE], bytes);
	train(f, 5);
	assert_memory_equal(first, f->out.gradients[MODEL_DENSE], bytes);
	free(first);
	fixture_close(f);
}

/* Row r of the fixture's batch as a batch of its own. */
struct one_row {
	uint32_t offsets[FIELDS + 1], row_offsets[2];
};

static struct model_input one_row(const struct fixture *f, uint32_t r, struct one_row *o)
{
	const uint32_t *offsets = &f->offsets[r * FIELDS];
	struct model_input in = f->in;
	for (uint32_t i = 0; i <= FIELDS; i++)
		o->offsets[i] = offsets[i] - offsets[0];
	o->row_offsets[0] = 0;
	o->row_offsets[1] = o->offsets[FIELDS];
	in.rows = 1;
	in.labels += r;
	in.weights += r;
	in.offsets = o->offsets;
	in.row_offsets = o->row_offsets;
	in.index += offsets[0];
	in.values += offsets[0];
	in.uses = o->offsets[FIELDS];
	return in;
}

/* So many products that they are computed for some rows at a time: the gradient is the mean of the
 * rows' gradients. */
static void a_cin_computes_a_batch_in_parts(void **state)
{
	(void)state;
	struct job job = small_job(MODEL_XDEEPFM, false);
	job.model.dim = 256;
	job.model.cin[0] = 600;
	job.model.cin_count = 2;
	about = "xdeepfm";
	struct fixture *f = fixture_open_job(job, 0);
	double *sums[MODEL_TABLES] = {NULL};
	for (enum model_table t = 0; t <= MODEL_DENSE; t++) {
		sums[t] = calloc(f->elements[t], sizeof *sums[t]);
		for (size_t i = 0; i < f->elements[t]; i++) /* or the logits would be in the thousands */
			f->parameters[t][i] *= 0.1f;
	}
	for (uint32_t r = 0; r < ROWS; r++) {
		struct one_row row;
		const struct model_input in = one_row(f, r, &row);
		const uint64_t seed = 1;
		model_train(f->model, &in, &seed, &f->out);
		for (enum model_table t = 0; t <= MODEL_DENSE; t++)
			for (size_t i = 0; i < f->elements[t]; i++)
				sums[t][i] += (double)f->out.gradients[t][i] / ROWS;
	}
	train(f, 1);
	for (enum model_table t = 0; t <= MODEL_DENSE; t++) {
		for (size_t i = 0; i < f->elements[t]; i++)
			expect_near((double)f->out.gradients[t][i], sums[t][i], 1e-4, "gradient", i);
		free(sums[t]);
	}
	fixture_close(f);
}

/* The norm of all gradients together. */
static double norm(const struct fixture *f)
{
	double squares = 0;
	for (enum model_table t = 0; t <= MODEL_DENSE; t++)
		for (size_t i = 0; i < f->elements[t]; i++)
			squares += (double)f->out.gradients[t][i] * (double)f->out.gradients[t][i];
	return sqrt(squares);
}

static void clip(struct fixture *f, float limit)
{
	f->out.squares = f->squares;
	(void)model_measure(f->model, &f->in, &f->out);
	model_clip(f->model, &f->in, &f->out, limit);
}

static void clip_bounds_the_joint_norm(void **state)
{
	(void)state;
	struct fixture *f = fixture_open(MODEL_DCN_V2, false, DENSE);
	train(f, 1);
	const double before = norm(f);
	assert_true(before > 0.01);
	clip(f, 1e30f);
	expect_near(sqrt(f->squares[0] + f->squares[1] + f->squares[2]), before, 1e-6, "measured norm", 0);
	assert_true(norm(f) == before);
	clip(f, 0.01f);
	expect_near(norm(f), 0.01, 1e-5, "clipped norm", 0);
	f->out.gradients[MODEL_DENSE][1] = NAN;
	const float kept = f->out.gradients[MODEL_EMBEDDING][0];
	clip(f, 0.001f); /* a zero norm has no scale */
	assert_true(f->out.gradients[MODEL_EMBEDDING][0] == kept);
	fixture_close(f);
}

static void expect_facts(enum model_kind kind, uint32_t dense_dim, const char *const *expected, uint32_t count)
{
	struct fixture *f = fixture_open(kind, true, dense_dim);
	struct model_fact facts[MODEL_FACTS_MAX];
	assert_int_equal(model_facts(f->model, facts), count);
	for (uint32_t i = 0; i < count; i++) {
		assert_string_equal(facts[i].key, expected[2 * i]);
		assert_string_equal(facts[i].value, expected[2 * i + 1]);
	}
	fixture_close(f);
}

static void the_facts_are_the_keys_of_a_model_s_parts(void **state)
{
	(void)state;
	static const char *const lr[] = {"model.kind", "lr"}, *const fm[] = {"model.kind", "fm", "model.dim", "4"},
	                         *const dlrm[] = {"model.kind",   "dlrm",   "model.dim",        "4",   "model.hidden", "[6, 5]",
	                                          "model.bottom", "[5, 4]", "model.batch_norm", "true"},
	                         *const xdeepfm[] = {"model.kind", "xdeepfm",   "model.dim",        "4",   "model.hidden", "[6, 5]",
	                                             "model.cin",  "[5, 3, 4]", "model.batch_norm", "true"},
	                         *const dcn[] = {"model.kind",         "dcn_v2", "model.dim",        "4",   "model.hidden", "[6, 5]",
	                                         "model.cross_layers", "2",      "model.batch_norm", "true"};
	expect_facts(MODEL_LR, 0, lr, 1);
	expect_facts(MODEL_FM, 0, fm, 2);
	expect_facts(MODEL_DLRM, DENSE, dlrm, 5);
	expect_facts(MODEL_DCN_V2, DENSE, dcn, 5);
	expect_facts(MODEL_XDEEPFM, DENSE, xdeepfm, 5);
}

static void misfits_name_the_key(void **state)
{
	(void)state;
	struct job job = small_job(MODEL_DLRM, false);
	job.model.bottom[1] = 5;
	struct model *m = NULL;
	weir_error err = {0};
	assert_int_equal(model_create(&m, NULL, &job, &(struct model_data){.fields = FIELDS, .dense_dim = DENSE}, &err),
	                 WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "model.bottom"));
	job = small_job(MODEL_DEEPFM, false);
	job.model.hidden_count = 0;
	assert_int_equal(model_create(&m, NULL, &job, &(struct model_data){.fields = FIELDS, .dense_dim = DENSE}, &err),
	                 WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "model.hidden"));
	job = small_job(MODEL_XDEEPFM, false);
	job.model.cin_count = 0;
	assert_int_equal(model_create(&m, NULL, &job, &(struct model_data){.fields = FIELDS, .dense_dim = DENSE}, &err),
	                 WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "model.cin is empty"));
}

static void tables_carry_their_own_l2(void **state)
{
	(void)state;
	struct fixture *f = fixture_open(MODEL_DEEPFM, true, DENSE);
	f->job.model.l2.embedding = 0.25f;
	f->job.model.l2.linear = 0.125f;
	weir_table_spec e = model_table_spec(f->model, MODEL_EMBEDDING), l = model_table_spec(f->model, MODEL_LINEAR);
	weir_table_spec d = model_table_spec(f->model, MODEL_DENSE), s = model_table_spec(f->model, MODEL_STATISTICS);
	assert_true(e.optimizer.l2 == 0.25f && l.optimizer.l2 == 0.125f && d.optimizer.l2 == 0.0f);
	assert_int_equal(e.width, 4);
	assert_int_equal(l.width, 1);
	assert_int_equal(s.optimizer.kind, WEIR_OPT_AVERAGE);
	uint64_t elements = 0;
	for (uint32_t i = 0; i < d.segments_count; i++)
		elements += d.segments[i].elements;
	assert_int_equal(elements, d.elements);
	fixture_close(f);
}

/* Rows of one element use bf16, because a scale per row would cost more. Statistics are never
 * compressed. */
static void tables_carry_the_codec_that_suits_them(void **state)
{
	(void)state;
	struct fixture *f = fixture_open(MODEL_DEEPFM, true, DENSE);
	f->job.tables.embedding.push = (weir_compression){.codec = WEIR_CODEC_INT8};
	f->job.tables.dense.push = (weir_compression){.codec = WEIR_CODEC_TOPK, .density = 0.01f, .feedback = true};
	assert_int_equal(model_table_spec(f->model, MODEL_EMBEDDING).push.codec, WEIR_CODEC_INT8);
	assert_int_equal(model_table_spec(f->model, MODEL_LINEAR).push.codec, WEIR_CODEC_BF16);
	assert_int_equal(model_table_spec(f->model, MODEL_DENSE).push.codec, WEIR_CODEC_TOPK);
	assert_int_equal(model_table_spec(f->model, MODEL_STATISTICS).push.codec, WEIR_CODEC_FP32);
	f->job.tables.embedding.push = (weir_compression){.codec = WEIR_CODEC_FP32};
	assert_int_equal(model_table_spec(f->model, MODEL_LINEAR).push.codec, WEIR_CODEC_FP32);
	fixture_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_click_model_follows_its_reference),
	    cmocka_unit_test(din_follows_its_reference),
	    cmocka_unit_test(two_towers_follow_their_reference),
	    cmocka_unit_test(a_history_keeps_its_order),
	    cmocka_unit_test(a_batch_without_histories_has_no_gradient_of_attention),
	    cmocka_unit_test(models_of_several_tasks_follow_their_reference),
	    cmocka_unit_test(losses_follow_their_reference),
	    cmocka_unit_test(a_cin_computes_a_batch_in_parts),
	    cmocka_unit_test(the_facts_are_the_keys_of_a_model_s_parts),
	    cmocka_unit_test(a_field_with_max_pooling_follows_its_reference),
	    cmocka_unit_test(fields_of_different_widths_follow_their_reference),
	    cmocka_unit_test(batch_statistics_are_the_batch_s),
	    cmocka_unit_test(dropout_follows_its_seed),
	    cmocka_unit_test(clip_bounds_the_joint_norm),
	    cmocka_unit_test(tables_carry_the_codec_that_suits_them),
	    cmocka_unit_test(misfits_name_the_key),
	    cmocka_unit_test(tables_carry_their_own_l2),
	};
	return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
