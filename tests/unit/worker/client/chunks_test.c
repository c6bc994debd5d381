/* Pushes and pulls of single chunks of a dense table: other chunks keep their values, optimizer
 * slots and residuals, and the caller's memory stays. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "kernels/codec.h"
#include "tests/cmocka_check.h"
#include "tests/unit/worker/client/cluster.h"

enum { ELEMENTS = 3 * WEIR_CHUNK + 1234, CHUNKS = 4, BATCHES = 400, TOPK_PUSHES = 90, TOPK_COUNTED = 60 };

struct fixture {
	struct cluster cluster;
	weir_client *client;
	weir_unit unit;
	uint32_t table, batch;
	float *gradient, *weights; /* (ELEMENTS) */
};

static void setup(struct fixture *f, weir_optimizer optimizer, weir_compression push)
{
	const weir_init_segment zero = {.elements = ELEMENTS, .kind = WEIR_INIT_ZERO};
	const weir_table_spec spec = {.name = "table",
	                              .kind = WEIR_DENSE,
	                              .elements = ELEMENTS,
	                              .optimizer = optimizer,
	                              .push = push,
	                              .segments_count = 1,
	                              .segments = &zero};
	weir_error err = {0};
	*f = (struct fixture){.gradient = calloc(ELEMENTS, sizeof *f->gradient), .weights = calloc(ELEMENTS, sizeof *f->weights)};
	assert_true(f->gradient && f->weights);
	cluster_start(&f->cluster, &(struct cluster_options){0});
	f->client = cluster_trainer(&f->cluster, "worker", 1);
	CHECK_OK(weir_table_register(f->client, &spec, &f->table, &err), err);
	CHECK_OK(weir_unit_lease(f->client, &f->unit, -1, &err), err);
	CHECK_OK(weir_unit_begin(f->client, &f->unit, BATCHES, &err), err);
}

static const weir_optimizer sgd = {.kind = WEIR_OPT_SGD, .lr = 1};

static void teardown(struct fixture *f)
{
	weir_abandon(f->client);
	cluster_stop(&f->cluster);
	free(f->gradient);
	free(f->weights);
}

static void fill(float *x, uint64_t chunk, float value)
{
	for (uint64_t i = 0; i < weir_chunk_elements(ELEMENTS, chunk); i++)
		x[chunk * WEIR_CHUNK + i] = value;
}

static void expect(const struct fixture *f, uint64_t chunk, float value)
{
	for (uint64_t i = 0; i < weir_chunk_elements(ELEMENTS, chunk); i++)
		if (f->weights[chunk * WEIR_CHUNK + i] != value)
			fail_msg("chunk %u: element %u is %g, expected %g", (unsigned)chunk, (unsigned)i,
			         (double)f->weights[chunk * WEIR_CHUNK + i], (double)value);
}

static weir_status push_item(struct fixture *f, const weir_push_item *item, weir_error *err)
{
	const weir_batch b = {.pass = f->unit.pass, .unit = f->unit.unit, .batch = f->batch, .attempt = f->unit.attempt};
	weir_ticket ticket;
	weir_status status = weir_push(f->client, &b, item, 1, NULL, NULL, NULL, &ticket, err);
	if (status == WEIR_OK)
		status = weir_wait(f->client, ticket, -1, err);
	f->batch += status == WEIR_OK;
	return status;
}

static weir_status push(struct fixture *f, const uint64_t *chunks, size_t count, weir_error *err)
{
	const weir_push_item item = {.table = f->table, .keys = chunks, .rows = count, .values = f->gradient};
	return push_item(f, &item, err);
}

static weir_status pull(struct fixture *f, const uint64_t *chunks, size_t count, weir_error *err)
{
	const weir_pull_item item = {.table = f->table, .keys = chunks, .rows = count, .values = f->weights};
	weir_ticket ticket;
	const weir_status status = weir_pull(f->client, NULL, &item, 1, NULL, NULL, &ticket, err);
	return status ? status : weir_wait(f->client, ticket, -1, err);
}

static void those_that_are_named_and_no_others(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	setup(&f, sgd, (weir_compression){0});
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		fill(f.gradient, chunk, -(float)(chunk + 1));
	CHECK_OK(push(&f, (const uint64_t[]){1, 3}, 2, &err), err);
	CHECK_OK(pull(&f, NULL, 0, &err), err);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		expect(&f, chunk, chunk % 2 ? (float)(chunk + 1) : 0);
	CHECK_OK(push(&f, (const uint64_t[]){0}, 1, &err), err);
	CHECK_OK(push(&f, (const uint64_t[]){0, 1, 2, 3}, CHUNKS, &err), err);
	CHECK_OK(push(&f, (const uint64_t[]){0}, 0, &err), err); /* no chunks */
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		fill(f.weights, chunk, 77);
	CHECK_OK(pull(&f, (const uint64_t[]){0, 3}, 2, &err), err);
	expect(&f, 0, 2);
	expect(&f, 1, 77);
	expect(&f, 2, 77);
	expect(&f, 3, 8);
	CHECK_OK(pull(&f, (const uint64_t[]){1}, 1, &err), err);
	expect(&f, 1, 4);
	expect(&f, 2, 77);
	CHECK_OK(pull(&f, (const uint64_t[]){1}, 0, &err), err);
	expect(&f, 2, 77);
	teardown(&f);
}

static void numbers_that_do_not_rise_or_do_not_exist(void **state)
{
	(void)state;
	static const struct {
		size_t count;
		uint64_t chunks[3];
	} wrong[] = {{2, {1, 0}}, {2, {1, 1}}, {3, {0, 2, 1}}, {1, {CHUNKS}}, {3, {0, 1, UINT64_MAX}}};
	struct fixture f;
	weir_error err = {0};
	setup(&f, sgd, (weir_compression){0});
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		fill(f.gradient, chunk, -1);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(push(&f, wrong[i].chunks, wrong[i].count, &err), WEIR_E_INVALID);
		CHECK_CONTAINS(err.text, "rising");
		assert_int_equal(pull(&f, wrong[i].chunks, wrong[i].count, &err), WEIR_E_INVALID);
		CHECK_CONTAINS(err.text, "rising");
	}
	CHECK_OK(push(&f, NULL, 0, &err), err); /* the batch can be pushed again: nothing was sent */
	CHECK_OK(pull(&f, NULL, 0, &err), err);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		expect(&f, chunk, 1);
	teardown(&f);
}

/* The client never reads the memory of unnamed chunks, with any codec. */
static void only_named_chunks_must_be_finite(void **state)
{
	(void)state;
	static const weir_compression codecs[] = {
	    {.codec = WEIR_CODEC_FP32},
	    {.codec = WEIR_CODEC_BF16},
	    {.codec = WEIR_CODEC_INT8, .feedback = true},
	    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED, .feedback = true},
	    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32, .density = 0.25f, .feedback = true},
	};
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
		struct fixture f;
		weir_error err = {0};
		setup(&f, sgd, codecs[i]);
		fill(f.gradient, 0, NAN);
		fill(f.gradient, 1, -1);
		fill(f.gradient, 2, INFINITY);
		assert_int_equal(push(&f, NULL, 0, &err), WEIR_E_NOT_FINITE);
		assert_int_equal(push(&f, (const uint64_t[]){1, 2}, 2, &err), WEIR_E_NOT_FINITE);
		CHECK_OK(push(&f, (const uint64_t[]){1}, 1, &err), err);
		CHECK_OK(pull(&f, NULL, 0, &err), err);
		expect(&f, 0, 0);
		expect(&f, 2, 0);
		if (codecs[i].codec != WEIR_CODEC_TOPK)
			for (uint64_t k = WEIR_CHUNK; k < 2 * WEIR_CHUNK; k++)
				assert_float_equal(f.weights[k], 1, 1e-3);
		teardown(&f);
	}
}

static void encoded_bytes_are_of_the_whole_table(void **state)
{
	(void)state;
	static const weir_codec codecs[] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16};
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
		struct fixture f;
		weir_error err = {0};
		const struct coding coding = {.codec = codecs[i]};
		const size_t bytes = codec_bytes(codecs[i], ELEMENTS);
		uint8_t *encoded = malloc(bytes);
		setup(&f, sgd, (weir_compression){.codec = codecs[i]});
		assert_non_null(encoded);
		for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
			fill(f.gradient, chunk, -(float)(chunk + 1));
		codec_encode(&coding, f.gradient, NULL, ELEMENTS, encoded);
		const uint64_t chunks[] = {2, 3};
		weir_push_item item = {.table = f.table, .keys = chunks, .rows = 2, .encoded = encoded, .encoded_bytes = bytes};
		CHECK_OK(push_item(&f, &item, &err), err);
		CHECK_OK(pull(&f, NULL, 0, &err), err);
		expect(&f, 1, 0);
		expect(&f, 2, 3);
		expect(&f, 3, 4);
		item.encoded_bytes = bytes / 2; /* wrong: the bytes of the two chunks only */
		assert_int_equal(push_item(&f, &item, &err), WEIR_E_INVALID);
		CHECK_CONTAINS(err.text, "encoded bytes");
		teardown(&f);
		free(encoded);
	}
}

/* Residuals need the values, so the client refuses encoded bytes. */
static void codecs_with_residuals_take_values_only(void **state)
{
	(void)state;
	static const weir_codec codecs[] = {WEIR_CODEC_FP16, WEIR_CODEC_INT8, WEIR_CODEC_SIGN};
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
		struct fixture f;
		weir_error err = {0};
		setup(&f, sgd, (weir_compression){.codec = codecs[i], .feedback = true});
		const weir_push_item item = {.table = f.table, .encoded = f.gradient, .encoded_bytes = codec_bytes(codecs[i], ELEMENTS)};
		assert_int_equal(push_item(&f, &item, &err), WEIR_E_UNSUPPORTED);
		CHECK_CONTAINS(err.text, "only values");
		teardown(&f);
	}
}

static void slots_of_the_others_stand_still(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	setup(&f, (weir_optimizer){.kind = WEIR_OPT_MOMENTUM, .lr = 1, .momentum = 0.5f}, (weir_compression){0});
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		fill(f.gradient, chunk, -1);
	CHECK_OK(push(&f, NULL, 0, &err), err);
	for (int i = 0; i < 3; i++)
		CHECK_OK(push(&f, (const uint64_t[]){0}, 1, &err), err);
	CHECK_OK(push(&f, (const uint64_t[]){1}, 1, &err), err);
	CHECK_OK(pull(&f, NULL, 0, &err), err);
	expect(&f, 0, 1 + 1.5f + 1.75f + 1.875f);
	expect(&f, 1, 1 + 1.5f); /* the refused pushes had no effect */
	expect(&f, 2, 1);
	teardown(&f);
}

/* --- Residuals */

struct feedback {
	weir_compression push;
	uint32_t drains;
};

static double missing(const struct fixture *f, uint64_t chunk, const float *pushed)
{
	double error = 0, all = 0;
	for (uint64_t i = chunk * WEIR_CHUNK; i < chunk * WEIR_CHUNK + weir_chunk_elements(ELEMENTS, chunk); i++) {
		const double e = (double)f->weights[i] + (double)pushed[i];
		error += e * e;
		all += (double)pushed[i] * (double)pushed[i];
	}
	return sqrt(error / all);
}

/* Chunk 1 is pushed once. After pushes of chunk 0 alone, its residual arrives. */
static void residual_waits(const struct feedback *x)
{
	struct fixture f;
	struct prng random;
	weir_error err = {0};
	float *first = malloc(ELEMENTS * sizeof *first), *then = malloc(ELEMENTS * sizeof *then);
	assert_true(first && then);
	prng_seed(&random, 3);
	setup(&f, sgd, x->push);
	for (uint64_t i = 0; i < ELEMENTS; i++)
		first[i] = f.gradient[i] = prng_normal(&random);
	CHECK_OK(push(&f, (const uint64_t[]){1}, 1, &err), err);
	CHECK_OK(pull(&f, NULL, 0, &err), err);
	const double left = missing(&f, 1, first);
	memcpy(then, f.weights, ELEMENTS * sizeof *then);
	memset(f.gradient, 0, ELEMENTS * sizeof *f.gradient);
	for (uint32_t i = 0; i < x->drains; i++)
		CHECK_OK(push(&f, (const uint64_t[]){0}, 1, &err), err);
	CHECK_OK(pull(&f, NULL, 0, &err), err);
	assert_memory_equal(f.weights, then, ELEMENTS * sizeof *then);
	for (uint32_t i = 0; i < x->drains; i++)
		CHECK_OK(push(&f, (const uint64_t[]){1}, 1, &err), err);
	CHECK_OK(pull(&f, NULL, 0, &err), err);
	const double last = missing(&f, 1, first);
	expect(&f, 0, 0);
	if (!(left > 1e-3 && last < 1e-6))
		fail_msg("codec %d: %g is missing after the push, %g in the end", x->push.codec, left, last);
	teardown(&f);
	free(first);
	free(then);
}

static void residuals_of_the_others_wait(void **state)
{
	(void)state;
	static const struct feedback cases[] = {
	    {{.codec = WEIR_CODEC_INT8, .feedback = true}, 20},
	    {{.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4, .feedback = true}, 60},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32, .density = 0.1f, .feedback = true}, 150},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT8, .density = 0.1f, .feedback = true}, 150},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		residual_waits(&cases[i]);
}

/* Bytes of the pushes, of all chunks or of each of three in turn, per byte of their elements.
 * Counting starts just before an exact threshold, when every chunk has a residual. */
static double topk_share(bool in_turn)
{
	struct fixture f;
	struct prng random;
	weir_stats before = {0}, after = {0};
	weir_error err = {0};
	double elements = 0;
	prng_seed(&random, 4);
	setup(&f, sgd, (weir_compression){.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32, .density = 0.01f, .feedback = true});
	for (uint64_t batch = 0; batch < TOPK_PUSHES; batch++) {
		if (batch == TOPK_COUNTED)
			weir_get_stats(f.client, &before);
		for (uint64_t i = 0; i < ELEMENTS; i++)
			f.gradient[i] = prng_normal(&random);
		const uint64_t chunk = batch % 3;
		CHECK_OK(push(&f, in_turn ? &chunk : NULL, in_turn, &err), err);
		elements += batch < TOPK_COUNTED ? 0 : in_turn ? WEIR_CHUNK : ELEMENTS;
	}
	weir_get_stats(f.client, &after);
	teardown(&f);
	return (double)(after.bytes_pushed - before.bytes_pushed) / (elements * sizeof(float));
}

/* Density is a share of the pushed chunks: chunks in turn send as much as all at once. */
static void top_k_of_a_chunk_is_of_that_chunk(void **state)
{
	(void)state;
	const double whole = topk_share(false), in_turn = topk_share(true);
	print_message("top-k of 0.01: %.4f of the bytes of all chunks, %.4f of chunks in turn\n", whole, in_turn);
	assert_true(whole > 0.01 && whole < 0.02);
	assert_true(in_turn > 0.8 * whole && in_turn < 1.3 * whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(those_that_are_named_and_no_others),     cmocka_unit_test(numbers_that_do_not_rise_or_do_not_exist),
	    cmocka_unit_test(only_named_chunks_must_be_finite),       cmocka_unit_test(encoded_bytes_are_of_the_whole_table),
	    cmocka_unit_test(codecs_with_residuals_take_values_only), cmocka_unit_test(slots_of_the_others_stand_still),
	    cmocka_unit_test(residuals_of_the_others_wait),           cmocka_unit_test(top_k_of_a_chunk_is_of_that_chunk),
	};
	return cmocka_run_group_tests_name("chunks", tests, NULL, NULL);
}
