/* Tables whose pushes the trainer codes: by an encoder, whose gradients libweir never reads (on the
 * emulated device a read would end the test), and coded rows of embeddings. */
#include <math.h>
#include <stdlib.h>

#include "common/base/prng.h"
#include "kernels/book.h"
#include "kernels/compress.h"
#include "tests/cmocka_check.h"
#include "tests/unit/worker/client/cluster.h"
#if defined(WEIR_CUDA_HOST)
#include "tests/cuda_host/cuda_host.h"
#endif

enum { ELEMENTS = 2 * WEIR_CHUNK + 1234, GRADIENTS = 5, BATCHES = GRADIENTS + 2, ROWS = 300, WIDTH = 33 };

struct fixture {
	struct cluster cluster;
	weir_client *client;
	uint32_t table;
	weir_unit unit;
	uint32_t batch; /* the next one */
	struct prng random;
	float *gradient, *weights; /* (ELEMENTS) */
	struct backend *backend;   /* the encoder's */
	struct compressor *compressor;
	float *there; /* (ELEMENTS), the backend's memory */
};

static struct backend *open_backend(void)
{
#if defined(WEIR_CUDA_HOST)
	weir_error err = {0};
	cuda_host_reset();
	struct backend *b = weir_backend_cuda_create(&(struct backend_options){.device = "cuda"}, &err);
	assert_non_null(b);
	return b;
#else
	return backend_plain();
#endif
}

static weir_table_spec table_of(weir_table_kind kind, const weir_compression *push)
{
	static const weir_init_segment zeros[] = {{.elements = WIDTH}, {.elements = ELEMENTS}};
	return (weir_table_spec){.name = "table",
	                         .kind = kind,
	                         .width = kind == WEIR_DENSE ? 0 : WIDTH,
	                         .elements = kind == WEIR_DENSE ? ELEMENTS : 0,
	                         .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                         .push = *push,
	                         .segments_count = 1,
	                         .segments = &zeros[kind == WEIR_DENSE]};
}

static void setup(struct fixture *f, weir_table_kind kind, const weir_compression *push)
{
	const weir_table_spec spec = table_of(kind, push);
	weir_error err = {0};
	*f = (struct fixture){.gradient = malloc(ELEMENTS * sizeof *f->gradient), .weights = malloc(ELEMENTS * sizeof *f->weights)};
	assert_true(f->gradient && f->weights);
	prng_seed(&f->random, 19);
	cluster_start(&f->cluster, &(struct cluster_options){0});
	f->client = cluster_trainer(&f->cluster, "worker", 1);
	CHECK_OK(weir_table_register(f->client, &spec, &f->table, &err), err);
	CHECK_OK(weir_unit_lease(f->client, &f->unit, -1, &err), err);
	CHECK_OK(weir_unit_begin(f->client, &f->unit, BATCHES, &err), err);
	f->backend = open_backend();
	f->there = f->backend->ops->buffer_alloc(f->backend, ELEMENTS * sizeof *f->there);
	f->compressor = compressor_create(f->backend, &spec, &err);
	assert_true(f->there && f->compressor);
}

static void teardown(struct fixture *f)
{
	weir_abandon(f->client);
	cluster_stop(&f->cluster);
	compressor_destroy(f->compressor);
	f->backend->ops->buffer_free(f->backend, f->there);
	f->backend->ops->destroy(f->backend);
	free(f->gradient);
	free(f->weights);
}

static void draw(struct fixture *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		f->gradient[i] = prng_normal(&f->random);
	f->backend->ops->to_device(f->backend, f->there, f->gradient, n * sizeof *f->gradient);
}

/* Pushes the next batch; a refused batch is not pushed. */
static weir_status push(struct fixture *f, const weir_push_item *item, weir_error *err)
{
	const weir_batch b = {.pass = f->unit.pass, .unit = f->unit.unit, .batch = f->batch, .attempt = f->unit.attempt};
	weir_ticket ticket;
	const weir_status status = weir_push(f->client, &b, item, 1, NULL, NULL, NULL, &ticket, err);
	if (status)
		return status;
	f->batch++;
	return weir_wait(f->client, ticket, -1, err);
}

static void pull(struct fixture *f, const uint64_t *keys, size_t rows)
{
	const weir_pull_item item = {.table = f->table, .keys = keys, .rows = rows, .values = f->weights};
	weir_ticket ticket;
	weir_error err = {0};
	CHECK_OK(weir_pull(f->client, NULL, &item, 1, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(f->client, ticket, -1, &err), err);
}

/* Several pushes and a flush: weights (ELEMENTS) after each of both, and the stats. */
static void train(const weir_compression *spec, bool own, float *weights, float *all, weir_stats *stats)
{
	struct fixture f;
	weir_error err = {0};
	setup(&f, WEIR_DENSE, spec);
	const weir_encoder encoder = compressor_encoder(f.compressor);
	if (own)
		CHECK_OK(weir_table_encoder(f.client, f.table, &encoder, &err), err);
	for (uint32_t i = 0; i < GRADIENTS; i++) {
		draw(&f, ELEMENTS);
		CHECK_OK(push(&f, &(weir_push_item){.table = f.table, .values = own ? f.there : f.gradient}, &err), err);
	}
	pull(&f, NULL, 0);
	memcpy(weights, f.weights, ELEMENTS * sizeof *weights);
	weir_get_stats(f.client, stats);
	const weir_batch last = {.pass = f.unit.pass, .unit = f.unit.unit, .batch = f.batch, .attempt = f.unit.attempt};
	CHECK_OK(weir_push_residuals(f.client, &last, &err), err);
	pull(&f, NULL, 0);
	memcpy(all, f.weights, ELEMENTS * sizeof *all);
	weir_stats after = {0};
	weir_get_stats(f.client, &after);
	assert_true(after.residual_norm == 0 || !spec->feedback);
	teardown(&f);
}

static void an_encoder_of_the_trainer_does_what_libweir_does(void **state)
{
	(void)state;
	static const weir_compression specs[] = {
	    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT8, .density = 0.02f, .momentum = 0.9f, .warmup = 2, .feedback = true},
	    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED, .feedback = true},
	    {.codec = WEIR_CODEC_INT8, .lz4 = WEIR_LZ4_AUTO},
	};
	float *weights[2], *all[2];
	weir_stats stats[2] = {0};
	for (size_t i = 0; i < 2; i++)
		assert_true((weights[i] = malloc(ELEMENTS * sizeof(float))) && (all[i] = malloc(ELEMENTS * sizeof(float))));
	for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
		for (size_t own = 0; own < 2; own++)
			train(&specs[s], own, weights[own], all[own], &stats[own]);
		assert_memory_equal(weights[1], weights[0], ELEMENTS * sizeof(float));
		assert_memory_equal(all[1], all[0], ELEMENTS * sizeof(float));
		assert_int_equal(memcmp(weights[0], all[0], ELEMENTS * sizeof(float)) != 0, specs[s].feedback);
		assert_int_equal(stats[1].bytes_pushed, stats[0].bytes_pushed);
		assert_true(fabs(stats[1].residual_norm - stats[0].residual_norm) <= 1e-12 * stats[0].residual_norm);
	}
	for (size_t i = 0; i < 2; i++) {
		free(weights[i]);
		free(all[i]);
	}
}

/* --- Failures */

/* An encoder whose `begin` fails; counts libweir's calls. */
struct failing {
	weir_encoder real;
	bool fails;
	uint32_t begun, forgotten;
};

static weir_status begin(void *arg, const float *values, const bool *wanted, weir_error *err)
{
	struct failing *e = arg;
	e->begun++;
	return e->fails ? weir_fail(err, WEIR_E_IO, "the device is gone") : e->real.begin(e->real.arg, values, wanted, err);
}

static void forget(void *arg)
{
	struct failing *e = arg;
	e->forgotten++;
	e->real.forget(e->real.arg);
}

static weir_status check(void *arg, const float *values, const uint64_t *chunks, size_t count, weir_error *err)
{
	struct failing *e = arg;
	return e->real.check(e->real.arg, values, chunks, count, err);
}

static size_t chunk(void *arg, uint64_t number, uint8_t *out, size_t room)
{
	struct failing *e = arg;
	return e->real.chunk(e->real.arg, number, out, room);
}

static void end(void *arg)
{
	struct failing *e = arg;
	e->real.end(e->real.arg);
}

static void stats(void *arg, weir_encoder_stats *out)
{
	struct failing *e = arg;
	e->real.stats(e->real.arg, out);
}

static void a_gradient_that_an_encoder_refuses_is_not_sent(void **state)
{
	(void)state;
	static const weir_compression spec = {.codec = WEIR_CODEC_INT8, .feedback = true};
	struct fixture f;
	struct failing e = {0};
	weir_stats before = {0}, after = {0};
	weir_error err = {0};
	setup(&f, WEIR_DENSE, &spec);
	e.real = compressor_encoder(f.compressor);
	weir_encoder encoder = e.real;
	encoder.arg = &e;
	encoder.begin = begin;
	encoder.forget = forget;
	encoder.check = check;
	encoder.chunk = chunk;
	encoder.end = end;
	encoder.stats = stats;
	CHECK_OK(weir_table_encoder(f.client, f.table, &encoder, &err), err);
	const weir_push_item item = {.table = f.table, .values = f.there};
	weir_get_stats(f.client, &before);

	draw(&f, ELEMENTS);
	f.gradient[WEIR_CHUNK] = INFINITY;
	f.backend->ops->to_device(f.backend, f.there, f.gradient, ELEMENTS * sizeof *f.gradient);
	assert_int_equal(push(&f, &item, &err), WEIR_E_NOT_FINITE);
	CHECK_CONTAINS(err.text, "push to table table: the gradient has a NaN or an infinity");
	assert_int_equal(e.begun, 0);
	f.batch++; /* the batch has its outcome */

	e.fails = true;
	draw(&f, ELEMENTS);
	assert_int_equal(push(&f, &item, &err), WEIR_E_IO);
	assert_int_equal(e.begun, 1);
	assert_int_equal(e.forgotten, 1);
	weir_get_stats(f.client, &after);
	assert_int_equal(after.bytes_pushed, before.bytes_pushed);

	e.fails = false;
	CHECK_OK(push(&f, &item, &err), err);
	pull(&f, NULL, 0);
	assert_true(fabsf(f.weights[7] + f.gradient[7]) < 0.05f && f.weights[7] != 0);
	teardown(&f);
}

static void an_encoder_comes_first_and_once_and_is_whole(void **state)
{
	(void)state;
	static const weir_compression coded = {.codec = WEIR_CODEC_INT8, .feedback = true}, plain = {.codec = WEIR_CODEC_BF16};
	struct fixture f;
	weir_error err = {0};
	setup(&f, WEIR_DENSE, &coded);
	const weir_encoder encoder = compressor_encoder(f.compressor);
	weir_encoder part = encoder;
	part.residual = NULL;
	assert_int_equal(weir_table_encoder(f.client, f.table, &part, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "a call of its encoder is missing");
	assert_int_equal(weir_table_encoder(f.client, f.table + 1, &encoder, &err), WEIR_E_NOT_FOUND);
	CHECK_OK(weir_table_encoder(f.client, f.table, &encoder, &err), err);
	assert_int_equal(weir_table_encoder(f.client, f.table, &encoder, &err), WEIR_E_STATE);
	CHECK_CONTAINS(err.text, "before the first push");
	teardown(&f);

	setup(&f, WEIR_DENSE, &coded);
	draw(&f, ELEMENTS);
	CHECK_OK(push(&f, &(weir_push_item){.table = f.table, .values = f.gradient}, &err), err);
	assert_int_equal(weir_table_encoder(f.client, f.table, &encoder, &err), WEIR_E_STATE);
	teardown(&f);

	for (int kind = WEIR_EMBEDDING; kind <= WEIR_DENSE; kind++) {
		setup(&f, (weir_table_kind)kind, kind == WEIR_DENSE ? &plain : &(weir_compression){.codec = WEIR_CODEC_INT8});
		assert_int_equal(weir_table_encoder(f.client, f.table, &encoder, &err), WEIR_E_INVALID);
		CHECK_CONTAINS(err.text, "table table: an encoder is for dense tables");
		teardown(&f);
	}
}

/* --- Coded rows */

static void rows_may_come_coded(void **state)
{
	(void)state;
	static const weir_compression specs[] = {{.codec = WEIR_CODEC_FP32},
	                                         {.codec = WEIR_CODEC_BF16},
	                                         {.codec = WEIR_CODEC_FP16},
	                                         {.codec = WEIR_CODEC_INT8},
	                                         {.codec = WEIR_CODEC_FP8_E4M3},
	                                         {.codec = WEIR_CODEC_FP8_E5M2},
	                                         {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4},
	                                         {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_LOG}};
	uint64_t keys[ROWS];
	float *want = malloc(ROWS * WIDTH * sizeof *want);
	assert_non_null(want);
	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = (ROWS - i) * i * 977;
	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] += i << 40; /* makes keys distinct */
	for (size_t s = 0; s < sizeof specs / sizeof *specs; s++)
		for (int coded = 0; coded < 2; coded++) {
			const struct coding coding = {.codec = specs[s].codec, .book = book_known(specs[s].book)};
			const size_t bytes = ROWS * codec_bytes(coding.codec, WIDTH);
			struct fixture f;
			weir_error err = {0};
			setup(&f, WEIR_EMBEDDING, &specs[s]);
			uint8_t *made = malloc(bytes), *there = f.backend->ops->buffer_alloc(f.backend, bytes);
			draw(&f, ROWS * WIDTH);
			f.backend->ops->encode_rows(f.backend, &coding, f.there, ROWS, WIDTH, there);
			f.backend->ops->to_host(f.backend, made, there, bytes);
			f.backend->ops->buffer_free(f.backend, there);
			weir_push_item item = {.table = f.table, .keys = keys, .rows = ROWS, .values = coded ? NULL : f.gradient};
			if (coded) {
				item.encoded = made;
				item.encoded_bytes = bytes - 1;
				assert_int_equal(push(&f, &item, &err), WEIR_E_INVALID);
				item.encoded_bytes = bytes;
			}
			CHECK_OK(push(&f, &item, &err), err);
			pull(&f, keys, ROWS);
			if (coded)
				assert_memory_equal(f.weights, want, ROWS * WIDTH * sizeof *want);
			else
				memcpy(want, f.weights, ROWS * WIDTH * sizeof *want);
			free(made);
			teardown(&f);
		}
	free(want);
}

static void coded_rows_that_are_not_finite_are_refused(void **state)
{
	(void)state;
	static const weir_codec codecs[] = {WEIR_CODEC_BF16, WEIR_CODEC_INT8, WEIR_CODEC_FP8_E5M2, WEIR_CODEC_INT4};
	const uint64_t keys[2] = {7, 3};
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
		const size_t bytes = 2 * codec_bytes(codecs[i], WIDTH);
		struct fixture f;
		weir_error err = {0};
		setup(&f, WEIR_EMBEDDING, &(weir_compression){.codec = codecs[i]});
		uint8_t *rows = calloc(1, bytes);
		assert_non_null(rows);
		const weir_push_item item = {.table = f.table, .keys = keys, .rows = 2, .encoded = rows, .encoded_bytes = bytes};
		/* the second row's first 16-bit number, a scale in all codecs but bf16: infinity */
		rows[bytes / 2] = 0x80;
		rows[bytes / 2 + 1] = 0x7f;
		assert_int_equal(push(&f, &item, &err), WEIR_E_NOT_FINITE);
		f.batch++;
		memset(rows, 0, bytes);
		CHECK_OK(push(&f, &item, &err), err);
		free(rows);
		teardown(&f);
	}
}

/* The client selects rows by value, so it needs values. */
static void rows_that_wait_for_their_turn_come_as_values(void **state)
{
	(void)state;
	const uint64_t key = 1;
	uint8_t row[4 * WIDTH] = {0};
	struct fixture f;
	weir_error err = {0};
	setup(&f, WEIR_EMBEDDING, &(weir_compression){.codec = WEIR_CODEC_INT8, .rows = 0.5f});
	const weir_push_item item = {
	    .table = f.table, .keys = &key, .rows = 1, .encoded = row, .encoded_bytes = codec_bytes(WEIR_CODEC_INT8, WIDTH)};
	assert_int_equal(push(&f, &item, &err), WEIR_E_UNSUPPORTED);
	CHECK_CONTAINS(err.text, "with some of the rows only values");
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_encoder_of_the_trainer_does_what_libweir_does),
	    cmocka_unit_test(a_gradient_that_an_encoder_refuses_is_not_sent),
	    cmocka_unit_test(an_encoder_comes_first_and_once_and_is_whole),
	    cmocka_unit_test(rows_may_come_coded),
	    cmocka_unit_test(coded_rows_that_are_not_finite_are_refused),
	    cmocka_unit_test(rows_that_wait_for_their_turn_come_as_values),
	};
	return cmocka_run_group_tests_name("encoder", tests, NULL, NULL);
}
