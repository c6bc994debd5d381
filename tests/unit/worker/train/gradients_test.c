/* How gradients leave a device: coded there, so that only the sent bytes are copied to the host.
 * Runs on the emulated device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/prng.h"
#include "kernels/codec.h"
#include "tests/cmocka_check.h"
#include "tests/cuda_host/cuda_host.h"
#include "tests/unit/worker/train/cluster.h"
#include "worker/data/dataset.h"
#include "worker/train/batch/gradients.h"
#include "worker/train/batch/tables.h"

enum { BATCHES = 8 };

static const char settings[] = "  batch: 32\n"
                               "  unit_batches: 2\n"
                               "model: {kind: deepfm, dim: 8, hidden: [512, 300], batch_norm: true, init_std: 0.1}\n"
                               "tables:\n"
                               "  embedding: {optimizer: {kind: sgd, lr: 1}, push: %s}\n"
                               "  dense: {optimizer: {kind: sgd, lr: 1}, push: %s}\n"
                               "train: {passes: 1, threads: 1, keep_best: false}\n";

/* A trainer's parts without its loop. */
struct fixture {
	struct cluster cluster;
	struct dataset *data;
	struct batch batch;
	weir_client *client;
	weir_unit unit;
	uint32_t pushed;
	struct tables tables;
	struct backend *backend;
	struct model *model;
	struct batch_pipeline *staging;
	struct gradients *gradients;
	struct minibatch m;
	weir_push_item items[MODEL_TABLES]; /* (count) of the last batch */
	size_t count;
};

static void read_batch(struct fixture *f)
{
	weir_error err = {0};
	struct unit_reader *reader;
	CHECK_OK(unit_open(&reader, f->data, 0, 0, &err), err);
	CHECK_OK(unit_read(reader, 0, &f->batch, &err), err);
	unit_close(reader);
	CHECK_OK(minibatch_load(&f->m, &f->batch, &err), err);
}

static void open_client(struct fixture *f)
{
	const struct dataset_info *info = dataset_get_info(f->data);
	const weir_options options = {
	    .ledger = f->cluster.ledger, .name = "worker", .dataset_fingerprint = info->fingerprint, .dataset_units = info->units};
	const struct training_length length = {.batches = 100, .workers = 1};
	weir_error err = {0};
	CHECK_OK(weir_open(&f->client, &options, &err), err);
	CHECK_OK(tables_register(&f->tables, f->model, &length, f->client, &err), err);
	CHECK_OK(gradients_register(f->gradients, f->client, f->tables.ids, &err), err);
	CHECK_OK(weir_unit_lease(f->client, &f->unit, -1, &err), err);
	CHECK_OK(weir_unit_begin(f->client, &f->unit, BATCHES, &err), err);
}

static void setup(struct fixture *f, const char *embedding, const char *dense)
{
	char text[1024];
	struct prng random;
	weir_error err = {0};
	*f = (struct fixture){.pushed = 0};
	snprintf(text, sizeof text, settings, embedding, dense);
	cluster_start(&f->cluster, 200, text);
	CHECK_OK(dataset_open(&f->data, f->cluster.job, SPLIT_TRAIN, NULL, &err), err);
	const struct dataset_info *info = dataset_get_info(f->data);
	const struct batch_pipeline_shape shape = {.fields = info->fields};
	cuda_host_reset();
	assert_non_null(f->backend = weir_backend_cuda_create(&(struct backend_options){.device = "cuda"}, &err));
	CHECK_OK(model_create(&f->model, f->backend, f->cluster.job, &(struct model_data){.fields = info->fields}, &err), err);
	CHECK_OK(batch_pipeline_create(&f->staging, f->backend, f->model, &shape, &err), err);
	CHECK_OK(gradients_create(&f->gradients, f->backend, f->model, &err), err);
	CHECK_OK(minibatch_init(&f->m, f->backend, f->model, gradients_come_back(f->gradients), &err), err);
	open_client(f);
	read_batch(f);
	prng_seed(&random, 5);
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		for (uint64_t i = 0; i < model_table_elements(f->model, t) * (model_table_is_keyed(t) ? f->m.input.unique : 1); i++)
			f->m.parameters[t][i] = 0.1f * prng_normal(&random);
}

static void teardown(struct fixture *f)
{
	weir_abandon(f->client);
	minibatch_destroy(&f->m);
	gradients_destroy(f->gradients);
	batch_pipeline_destroy(f->staging);
	model_destroy(f->model);
	f->backend->ops->destroy(f->backend);
	batch_destroy(&f->batch);
	dataset_close(f->data);
	cluster_stop(&f->cluster);
}

static void train(struct fixture *f)
{
	weir_error err = {0};
	CHECK_OK(batch_pipeline_train(f->staging, &f->m.input, NULL, &(struct batch_pipeline_step){.seed = f->pushed, .clip_norm = 1},
	                              &f->m.output, &err),
	         err);
}

/* chunks (count): NULL for all. */
static void bring_back(struct fixture *f)
{
	weir_error err = {0};
	f->count = tables_push_items(&f->tables, &f->m, NULL, 0, f->items);
	CHECK_OK(gradients_bring_back(f->gradients, f->staging, &f->m, f->items, f->count, &err), err);
}

static weir_status push(struct fixture *f, weir_error *err)
{
	const weir_batch b = {.pass = f->unit.pass, .unit = f->unit.unit, .batch = f->pushed++, .attempt = f->unit.attempt};
	weir_ticket ticket;
	const weir_status s = weir_push(f->client, &b, f->items, f->count, NULL, NULL, NULL, &ticket, err);
	return s == WEIR_OK ? weir_wait(f->client, ticket, -1, err) : s;
}

static size_t elements(const struct fixture *f, enum model_table t)
{
	return model_table_elements(f->model, t) * (model_table_is_keyed(t) ? f->m.input.unique : 1);
}

static const weir_push_item *item_of(const struct fixture *f, enum model_table t)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->items[i].table == f->tables.ids[t])
			return &f->items[i];
	fail_msg("no item of table %d", t);
	return NULL;
}

/* The device's gradient, malloc'ed. */
static float *gradient(const struct fixture *f, enum model_table t)
{
	float *g = malloc(elements(f, t) * sizeof *g);
	assert_non_null(g);
	f->backend->ops->to_host(f->backend, g, batch_pipeline_gradient(f->staging, t), elements(f, t) * sizeof *g);
	return g;
}

/* Top-k of the dense table and int8 rows: the host receives less than a tenth of the dense
 * gradient, including the loss and other results. */
static void gradients_coded_on_the_device_do_not_come(void **state)
{
	(void)state;
	struct fixture f;
	weir_stats stats = {0};
	setup(&f, "{codec: int8}", "{codec: topk, density: 0.01, values: int8, momentum: 0.9, clip: 10}");
	const size_t dense = elements(&f, MODEL_DENSE) * sizeof(float);
	assert_null(f.m.output.gradients[MODEL_DENSE]);
	for (uint32_t i = 0; i < BATCHES - 1; i++) {
		weir_error err = {0};
		const size_t before = cuda_host_brought();
		train(&f);
		bring_back(&f);
		CHECK_OK(push(&f, &err), err);
		const size_t brought = cuda_host_brought() - before;
		if (!(brought < dense / 10))
			fail_msg("batch %u: %zu bytes came to the host, the dense gradient has %zu", i, brought, dense);
	}
	weir_get_stats(f.client, &stats);
	assert_true(stats.residual_norm > 0);
	const weir_batch last = {.pass = f.unit.pass, .unit = f.unit.unit, .batch = f.pushed, .attempt = f.unit.attempt};
	weir_error err = {0};
	CHECK_OK(weir_push_residuals(f.client, &last, &err), err);
	weir_get_stats(f.client, &stats);
	assert_true(stats.residual_norm == 0);
	teardown(&f);
}

/* --- The items of tables */

static void expect_values(const struct fixture *f, enum model_table t)
{
	const weir_push_item *item = item_of(f, t);
	float *g = gradient(f, t);
	assert_null(item->encoded);
	assert_ptr_equal(item->values, f->m.output.gradients[t]);
	assert_memory_equal(item->values, g, elements(f, t) * sizeof *g);
	free(g);
}

static void expect_bytes(const struct fixture *f, enum model_table t)
{
	const weir_push_item *item = item_of(f, t);
	const weir_codec codec = model_table_spec(f->model, t).push.codec;
	const size_t width = model_table_is_keyed(t) ? model_table_elements(f->model, t) : elements(f, t),
	             bytes = codec_bytes(codec, width);
	float *g = gradient(f, t);
	uint8_t *row = malloc(bytes);
	assert_non_null(row);
	assert_null(item->values);
	assert_int_equal(item->encoded_bytes, elements(f, t) / width * bytes);
	for (size_t r = 0; r < elements(f, t) / width; r++) {
		codec_encode(&(struct coding){.codec = codec}, g + r * width, NULL, width, row);
		assert_memory_equal((const uint8_t *)item->encoded + r * bytes, row, bytes);
	}
	free(row);
	free(g);
}

static void expect_nothing(const struct fixture *f, enum model_table t)
{
	assert_null(item_of(f, t)->encoded);
	assert_ptr_equal(item_of(f, t)->values, batch_pipeline_gradient(f->staging, t));
}

static void every_codec_comes_as_it_must(void **state)
{
	(void)state;
	typedef void (*expect_fn)(const struct fixture *f, enum model_table t);
	static const struct {
		const char *embedding, *dense;
		expect_fn rows, linear, flat;
	} cases[] = {
	    {"{codec: fp32}", "{codec: fp32}", expect_values, expect_values, expect_values},
	    {"{codec: int8}", "{codec: bf16}", expect_bytes, expect_bytes, expect_bytes},
	    {"{codec: fp16}", "{codec: sign}", expect_bytes, expect_bytes, expect_nothing},
	    {"{codec: int8, rows: 0.5}", "{codec: int8, feedback: false}", expect_values, expect_values, expect_nothing},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fixture f;
		weir_error err = {0};
		setup(&f, cases[i].embedding, cases[i].dense);
		train(&f);
		bring_back(&f);
		cases[i].rows(&f, MODEL_EMBEDDING);
		cases[i].linear(&f, MODEL_LINEAR);
		cases[i].flat(&f, MODEL_DENSE);
		expect_values(&f, MODEL_STATISTICS);
		CHECK_OK(push(&f, &err), err);
		teardown(&f);
	}
}

/* As a worker that pushes parts of a dense table: only these chunks are copied. */
static void of_some_chunks_these_alone_come(void **state)
{
	(void)state;
	static const char *const codecs[] = {"{codec: fp32}", "{codec: bf16}"};
	static const uint64_t chunks[] = {0, 2};
	for (size_t c = 0; c < 2; c++) {
		struct fixture f;
		weir_error err = {0};
		setup(&f, "{codec: fp32}", codecs[c]);
		const size_t n = elements(&f, MODEL_DENSE), size = c ? 2 : 4;
		uint8_t *host = (uint8_t *)f.m.output.gradients[MODEL_DENSE], *want = malloc(n * size);
		assert_true(want && n > 2 * WEIR_CHUNK && n < 3 * WEIR_CHUNK);
		memset(host, 0xa5, n * size);
		train(&f);
		f.items[0] = (weir_push_item){.table = f.tables.ids[MODEL_DENSE], .keys = chunks, .rows = 2};
		f.count = 1;
		const size_t before = cuda_host_brought();
		CHECK_OK(gradients_bring_back(f.gradients, f.staging, &f.m, f.items, 1, &err), err);
		assert_true(cuda_host_brought() - before < (n - WEIR_CHUNK) * size + 100);
		float *g = gradient(&f, MODEL_DENSE);
		codec_encode(&(struct coding){.codec = c ? WEIR_CODEC_BF16 : WEIR_CODEC_FP32}, g, NULL, n, want);
		memset(want + WEIR_CHUNK * size, 0xa5, WEIR_CHUNK * size);
		assert_memory_equal(host, want, n * size);
		assert_ptr_equal(c ? f.items[0].encoded : f.items[0].values, host);
		CHECK_OK(push(&f, &err), err);
		free(g);
		free(want);
		teardown(&f);
	}
}

/* A coded NaN might decode to a number. */
static void gradients_that_are_not_finite_are_refused(void **state)
{
	(void)state;
	static const enum model_table tables[] = {MODEL_EMBEDDING, MODEL_LINEAR, MODEL_DENSE, MODEL_STATISTICS};
	struct fixture f;
	setup(&f, "{codec: int8}", "{codec: topk, density: 0.01}");
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		const float bad = i % 2 ? NAN : INFINITY;
		weir_error err = {0};
		train(&f);
		float *at = batch_pipeline_gradient(f.staging, tables[i]) + elements(&f, tables[i]) - 1;
		f.backend->ops->to_device(f.backend, at, &bad, sizeof bad);
		bring_back(&f);
		assert_int_equal(push(&f, &err), WEIR_E_NOT_FINITE);
		CHECK_CONTAINS(err.text, model_table_spec(f.model, tables[i]).name);
	}
	weir_error err = {0};
	train(&f);
	bring_back(&f);
	CHECK_OK(push(&f, &err), err);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(gradients_coded_on_the_device_do_not_come),
	    cmocka_unit_test(every_codec_comes_as_it_must),
	    cmocka_unit_test(of_some_chunks_these_alone_come),
	    cmocka_unit_test(gradients_that_are_not_finite_are_refused),
	};
	return cmocka_run_group_tests_name("gradients", tests, NULL, NULL);
}
