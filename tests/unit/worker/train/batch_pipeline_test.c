/* Batches on a device, two in flight: each has the same bits as alone, and issuing never waits.
 * Runs on the emulated device. */
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/cuda_host/cuda_host.h"
#include "tests/rounds.h"
#include "tests/unit/worker/model/grouped_input.h"
#include "worker/model/bags/history.h"
#include "worker/train/batch/batch_pipeline.h"

enum { ROWS = 12, FIELDS = 3, NUMBERS = 4, IDS = 40, BATCHES = 10, CONTEXT = 2, SEQUENCE = 4, ORDERS = 4, PARTS_MAX = 24 };

/* A trainer's batch in memory of a backend's host_alloc, and its results. */
struct example {
	struct model_input in;
	struct model_output out;
	void *parts[PARTS_MAX]; /* from host_alloc */
	size_t parts_count;
	struct grouped_input grouped;
	double norm;
	float *gradients[MODEL_TABLES];
};

struct fixture {
	struct job job;
	struct batch_pipeline_shape shape;
	struct backend *b;
	struct model *model;
	struct batch_pipeline *staging;
	struct example batches[BATCHES];
};

static void *part(struct fixture *f, struct example *e, size_t bytes)
{
	assert_true(e->parts_count < PARTS_MAX);
	void *p = f->b->ops->host_alloc(f->b, bytes);
	assert_non_null(p);
	return e->parts[e->parts_count++] = p;
}

static float *numbers(struct fixture *f, struct example *e, struct prng *rng, size_t n)
{
	float *x = part(f, e, n * sizeof *x);
	for (size_t i = 0; i < n; i++)
		x[i] = 0.3f * prng_normal(rng);
	return x;
}

static void make_clicks(struct fixture *f, struct example *e, struct prng *rng)
{
	struct model_input *in = &e->in;
	float *labels = part(f, e, in->rows * sizeof *labels);
	uint32_t *offsets = part(f, e, (in->rows * FIELDS + 1) * sizeof *offsets),
	         *row_offsets = part(f, e, (in->rows + 1) * sizeof *row_offsets),
	         *index = part(f, e, 2 * ROWS * FIELDS * sizeof *index);
	uint32_t uses = 0;
	in->unique = 10 + prng_below(rng, IDS - 10);
	for (uint32_t bag = 0; bag < in->rows * FIELDS; bag++) {
		for (uint64_t k = prng_below(rng, 3); k > 0; k--)
			index[uses++] = (uint32_t)prng_below(rng, in->unique);
		offsets[bag + 1] = uses;
	}
	for (uint32_t r = 0; r <= in->rows; r++)
		row_offsets[r] = offsets[r * FIELDS];
	for (uint32_t r = 0; r < in->rows; r++)
		labels[r] = (float)prng_below(rng, 2);
	in->labels = labels;
	in->offsets = offsets;
	in->row_offsets = row_offsets;
	in->index = index;
	in->uses = uses;
	in->dense = numbers(f, e, rng, in->rows * NUMBERS);
	in->values = numbers(f, e, rng, uses + 1);
}

/* The first field is a history of ids of the second. */
static struct job_column columns[FIELDS] = {{.name = "seen", .kind = COLUMN_SEQUENCE, .share = "item"},
                                            {.name = "item", .kind = COLUMN_CATEGORICAL},
                                            {.name = "other", .kind = COLUMN_MULTI}};

/* Wide & Deep: two groups of fields. */
static struct job_column wide[FIELDS] = {{.name = "a", .kind = COLUMN_CATEGORICAL},
                                         {.name = "b", .kind = COLUMN_MULTI, .pooling = POOLING_MAX, .dim = 6},
                                         {.name = "c", .kind = COLUMN_SEQUENCE}};

static char *user[] = {"seen", "other"}, *item[] = {"item"};

static void make_items(struct fixture *f, struct example *e)
{
	uint32_t *items = part(f, e, e->in.rows * sizeof *items);
	for (uint32_t r = 0; r < e->in.rows; r++)
		items[r] = r % 5;
	e->in.items = items;
}

static void make_histories(struct fixture *f, struct example *e)
{
	struct model_input *in = &e->in;
	struct job_history of[WEIR_HISTORIES_MAX];
	weir_error err = {0};
	const uint32_t count = model_histories(f->model, of);
	const struct history_bags bags = {.rows = in->rows, .fields = FIELDS, .offsets = in->offsets, .index = in->index};
	uint32_t *words = part(f, e, histories_measure(&bags, of, count, in->history_uses) * sizeof *words);
	histories_write(&bags, of, count, in->history_uses, words);
	in->histories = words;
	CHECK_OK(model_reserve_histories(f->model, in, &err), err);
}

static uint32_t *tokens_of(struct fixture *f, struct example *e, struct prng *rng, uint32_t n)
{
	uint32_t *tokens = part(f, e, n * sizeof *tokens);
	for (uint32_t i = 0; i < n; i++)
		tokens[i] = (uint32_t)prng_below(rng, 256);
	return tokens;
}

static void make_text(struct fixture *f, struct example *e, struct prng *rng)
{
	const uint32_t sequence = f->shape.sequence, targets = e->in.rows * (sequence > 0 ? sequence : 1);
	e->in.tokens = tokens_of(f, e, rng, e->in.rows * (f->shape.context + sequence));
	e->in.targets = tokens_of(f, e, rng, targets);
	e->in.sequence = sequence;
	e->in.counted = sequence > 0 ? targets : 0;
}

static size_t elements(const struct fixture *f, const struct example *e, enum model_table t)
{
	return model_table_elements(f->model, t) * model_table_rows(f->model, &e->in, t).count;
}

static void fixture_open(struct fixture *f, enum model_kind kind, uint64_t order)
{
	weir_error err = {0};
	struct prng rng;
	prng_seed(&rng, 77);
	const bool transformer = model_kind_has(kind, PART_TRANSFORMER), text = model_kind_has(kind, PART_NGRAM);
	*f = (struct fixture){.shape = {.fields = FIELDS, .dense_dim = NUMBERS}};
	if (text)
		f->shape = (struct batch_pipeline_shape){.context = CONTEXT};
	else if (transformer)
		f->shape = (struct batch_pipeline_shape){.sequence = SEQUENCE};
	f->job.data.context = f->shape.context;
	f->job.data.sequence = f->shape.sequence;
	f->job.data.batch = ROWS;
	f->job.train.accumulate = transformer ? 2 : 1;
	f->job.train.loss.pos_weight = 1;
	const bool named = kind == MODEL_DIN || kind == MODEL_TWO_TOWER;
	f->job.data.columns = named ? columns : kind == MODEL_WIDE_DEEP ? wide : NULL;
	f->job.data.columns_count = f->job.data.columns ? FIELDS : 0;
	f->job.model = (typeof(f->job.model)){.kind = kind,
	                                      .dim = 4,
	                                      .hidden = {9, 6},
	                                      .hidden_count = 2,
	                                      .bottom = {5, 4},
	                                      .bottom_count = 2,
	                                      .cross_layers = 2,
	                                      .experts = 3,
	                                      .rank = 2,
	                                      .user = user,
	                                      .user_count = 2,
	                                      .item = item,
	                                      .item_count = 1,
	                                      .vector = 5,
	                                      .temperature = 0.5f,
	                                      .normalize = true,
	                                      .attention = {4},
	                                      .attention_count = 1,
	                                      .task_hidden = {3},
	                                      .task_hidden_count = 1,
	                                      .cin = {5, 3},
	                                      .cin_count = 2,
	                                      .batch_norm = true,
	                                      .layers = 1,
	                                      .heads = 2,
	                                      .width = 8,
	                                      .norm_eps = 1e-5f,
	                                      .dropout = 0.2f,
	                                      .init_std = 0.1f};
	cuda_host_reset();
	cuda_host.seed = order;
	f->b = weir_backend_cuda_create(&(struct backend_options){.device = "cuda"}, &err);
	if (f->b == NULL)
		fail_msg("%s", err.text);
	const struct model_data data = {
	    .fields = f->shape.fields, .dense_dim = f->shape.dense_dim, .vocabulary = transformer ? 256 : 0};
	CHECK_OK(model_create(&f->model, f->b, &f->job, &data, &err), err);
	CHECK_OK(batch_pipeline_create(&f->staging, f->b, f->model, &f->shape, &err), err);
	for (unsigned i = 0; i < BATCHES; i++) {
		struct example *e = &f->batches[i];
		e->in.rows = i == 6 ? ROWS - 5 : ROWS; /* a unit's last batch is smaller */
		if (transformer || text)
			make_text(f, e, &rng);
		else
			make_clicks(f, e, &rng);
		if (kind == MODEL_DIN)
			make_histories(f, e);
		if (kind == MODEL_TWO_TOWER)
			make_items(f, e);
		if (kind == MODEL_WIDE_DEEP)
			grouped_input_make(&e->grouped, f->b, f->model, &e->in);
		for (enum model_table t = 0; t < MODEL_TABLES; t++)
			if (model_has(f->model, t))
				e->in.parameters[t] = numbers(f, e, &rng, elements(f, e, t));
		e->out.loss_sum = part(f, e, sizeof *e->out.loss_sum);
		e->out.not_finite = part(f, e, sizeof *e->out.not_finite);
	}
	CHECK_OK(model_reserve(f->model, ROWS, true, &err), err);
	CHECK_OK(f->b->ops->sync(f->b, &err), err);
}

static void fixture_close(struct fixture *f)
{
	for (unsigned i = 0; i < BATCHES; i++) {
		for (size_t p = 0; p < f->batches[i].parts_count; p++)
			f->b->ops->host_free(f->b, f->batches[i].parts[p]);
		grouped_input_destroy(&f->batches[i].grouped, f->b);
	}
	batch_pipeline_destroy(f->staging);
	model_destroy(f->model);
	f->b->ops->destroy(f->b);
}

static void launch(struct fixture *f, unsigned i)
{
	weir_error err = {0};
	const struct batch_pipeline_step step = {.seed = 100 + i, .clip_norm = 0.5f, .loss_scale = i % 2 ? 4.0f : 0.0f};
	CHECK_OK(batch_pipeline_launch(f->staging, &f->batches[i].in, NULL, &step, &f->batches[i].out, &err), err);
}

/* Collects the loss and starts the gradients' copies, which may still run when a later batch is
 * launched. */
static void collect(struct fixture *f, unsigned i)
{
	weir_error err = {0};
	struct example *e = &f->batches[i];
	CHECK_OK(batch_pipeline_collect(f->staging, &err), err);
	e->norm = batch_pipeline_gradient_norm(f->staging);
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		if (!model_has(f->model, t))
			continue;
		const size_t bytes = elements(f, e, t) * sizeof(float);
		if (e->gradients[t] == NULL)
			e->gradients[t] = part(f, e, bytes);
		f->b->ops->to_host_later(f->b, e->gradients[t], batch_pipeline_gradient(f->staging, t), bytes);
	}
}

static void run_alone(struct fixture *f)
{
	weir_error err = {0};
	for (unsigned i = 0; i < BATCHES; i++) {
		launch(f, i);
		collect(f, i);
		CHECK_OK(f->b->ops->sync(f->b, &err), err);
	}
}

static void check_same(const struct fixture *f, const struct fixture *alone, unsigned i)
{
	weir_error err = {0};
	CHECK_OK(f->b->ops->sync_stream(f->b, &err), err);
	const struct example *got = &f->batches[i], *want = &alone->batches[i];
	assert_int_equal(*got->out.not_finite, 0);
	assert_true(got->norm > 0 && got->norm == want->norm);
	if (*got->out.loss_sum != *want->out.loss_sum)
		fail_msg("batch %u: the loss is %.17g, alone %.17g", i, *got->out.loss_sum, *want->out.loss_sum);
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (model_has(f->model, t) && memcmp(got->gradients[t], want->gradients[t], elements(f, got, t) * sizeof(float)) != 0)
			fail_msg("batch %u: the gradient of table %d is not what it is alone", i, (int)t);
}

/* Launches each batch while the previous one computes. */
static void run_two_at_once(struct fixture *f, const struct fixture *alone)
{
	for (unsigned i = 0; i <= BATCHES + 1; i++) {
		if (i < BATCHES)
			launch(f, i);
		if (i >= 2)
			check_same(f, alone, i - 2);
		if (i >= 1 && i <= BATCHES)
			collect(f, i - 1);
	}
}

static uint64_t replays_of(const struct fixture *f)
{
	struct backend_info info;
	f->b->ops->info(f->b, &info);
	if (info.not_replayed != NULL)
		fail_msg("%s", info.not_replayed);
	return info.replays;
}

static const enum model_kind kinds[] = {MODEL_FM,        MODEL_DEEPFM, MODEL_DCN_V2, MODEL_DCN_MIX,   MODEL_XDEEPFM, MODEL_DLRM,
                                        MODEL_WIDE_DEEP, MODEL_DIN,    MODEL_MMOE,   MODEL_TWO_TOWER, MODEL_NGRAM,   MODEL_GPT2};

static void two_batches_at_once_have_the_bits_they_have_alone(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		struct fixture alone;
		fixture_open(&alone, kinds[k], 1);
		run_alone(&alone);
		for (uint64_t order = 1; order <= rounds(ORDERS); order++) {
			struct fixture f;
			fixture_open(&f, kinds[k], order);
			f.b->ops->choose_stream(f.b, STREAM_OUT);
			run_two_at_once(&f, &alone);
			const uint64_t first = replays_of(&f);
			assert_true(first > 0);
			run_two_at_once(&f, &alone);
			/* all memory is reserved and each shape was recorded */
			assert_int_equal(replays_of(&f) - first, BATCHES);
			f.b->ops->choose_stream(f.b, STREAM_COMPUTE);
			fixture_close(&f);
		}
		fixture_close(&alone);
		assert_int_equal(cuda_host_allocated(), 0);
	}
}

static void nothing_waits_while_a_batch_is_issued(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		struct fixture f;
		fixture_open(&f, kinds[k], 3);
		f.b->ops->choose_stream(f.b, STREAM_OUT);
		for (unsigned n = 0; n < 2 * BATCHES; n++) {
			const size_t before = cuda_host_waits();
			launch(&f, n % BATCHES);
			if (n >= BATCHES) /* all memory is reserved */
				assert_int_equal(cuda_host_waits() - before, 0);
			if (n > 0)
				collect(&f, (n - 1) % BATCHES);
		}
		f.b->ops->choose_stream(f.b, STREAM_COMPUTE);
		fixture_close(&f);
	}
}

static void a_dropped_batch_does_not_disturb_later_ones(void **state)
{
	(void)state;
	struct fixture alone, f;
	fixture_open(&alone, MODEL_DEEPFM, 1);
	run_alone(&alone);
	fixture_open(&f, MODEL_DEEPFM, 5);
	launch(&f, 7);
	launch(&f, 8);
	batch_pipeline_drop(f.staging);
	launch(&f, 3);
	batch_pipeline_drop(f.staging);
	run_two_at_once(&f, &alone);
	fixture_close(&f);
	fixture_close(&alone);
}

static void a_batch_that_does_not_fit_is_refused_with_a_remedy(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	fixture_open(&f, MODEL_DEEPFM, 1);
	launch(&f, 0);
	cuda_host.fail_call = "cudaMalloc";
	cuda_host.fail_code = 2; /* cudaErrorMemoryAllocation */
	assert_int_equal(
	    batch_pipeline_launch(f.staging, &f.batches[1].in, NULL, &(struct batch_pipeline_step){0}, &f.batches[1].out, &err),
	    WEIR_E_MEMORY);
	assert_non_null(strstr(err.text, "make data.batch smaller"));
	cuda_host.fail_call = NULL;
	launch(&f, 1); /* the memory is free now */
	collect(&f, 0);
	collect(&f, 1);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_batches_at_once_have_the_bits_they_have_alone),
	    cmocka_unit_test(nothing_waits_while_a_batch_is_issued),
	    cmocka_unit_test(a_dropped_batch_does_not_disturb_later_ones),
	    cmocka_unit_test(a_batch_that_does_not_fit_is_refused_with_a_remedy),
	};
	return cmocka_run_group_tests_name("train_batch_pipeline", tests, NULL, NULL);
}
