/* Compressed pushes in a whole job: the result, and that residuals arrive later. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "kernels/compress.h"
#include "tests/cmocka_check.h"
#include "tests/unit/worker/client/cluster.h"
#include "worker/client/pack.h"

enum {
	ELEMENTS = 3 * WEIR_CHUNK + 1234,
	GRADIENTS = 12,
	DRAINS = 150,
	LOOK_EVERY = 10,
	BATCHES = GRADIENTS + DRAINS,
	ROWS = 500,
	WIDTH = 33
};

struct fixture {
	struct cluster cluster;
	weir_client *client;
	uint32_t table;
	weir_unit unit;
	float *gradient, *weights; /* (ELEMENTS) */
	double *sum;               /* (ELEMENTS), sum of all gradients */
	struct prng random;
};

static void setup(struct fixture *f)
{
	weir_error err = {0};
	*f = (struct fixture){.gradient = malloc(ELEMENTS * sizeof *f->gradient),
	                      .weights = malloc(ELEMENTS * sizeof *f->weights),
	                      .sum = calloc(ELEMENTS, sizeof *f->sum)};
	assert_true(f->gradient && f->weights && f->sum);
	prng_seed(&f->random, 5);
	cluster_start(&f->cluster, &(struct cluster_options){0});
	f->client = cluster_trainer(&f->cluster, "worker", 1);
	CHECK_OK(weir_unit_lease(f->client, &f->unit, -1, &err), err);
	CHECK_OK(weir_unit_begin(f->client, &f->unit, BATCHES, &err), err);
}

static void teardown(struct fixture *f)
{
	weir_abandon(f->client);
	cluster_stop(&f->cluster);
	free(f->gradient);
	free(f->weights);
	free(f->sum);
}

/* SGD at rate 1 from zero: weights are the negative sum of the pushes. */
static void add_table(struct fixture *f, weir_table_kind kind, const weir_compression *push)
{
	const weir_init_segment zero = {.elements = kind == WEIR_DENSE ? ELEMENTS : WIDTH, .kind = WEIR_INIT_ZERO};
	const weir_table_spec spec = {.name = "table",
	                              .kind = kind,
	                              .width = kind == WEIR_DENSE ? 0 : WIDTH,
	                              .elements = kind == WEIR_DENSE ? ELEMENTS : 0,
	                              .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                              .push = *push,
	                              .segments_count = 1,
	                              .segments = &zero};
	weir_error err = {0};
	CHECK_OK(weir_table_register(f->client, &spec, &f->table, &err), err);
}

static weir_status push_item(struct fixture *f, uint32_t batch, const weir_push_item *item, weir_error *err)
{
	const weir_batch b = {.pass = f->unit.pass, .unit = f->unit.unit, .batch = batch, .attempt = f->unit.attempt};
	weir_ticket ticket;
	const weir_status status = weir_push(f->client, &b, item, 1, NULL, NULL, NULL, &ticket, err);
	return status ? status : weir_wait(f->client, ticket, -1, err);
}

static void push(struct fixture *f, uint32_t batch, const uint64_t *keys, size_t rows)
{
	weir_error err = {0};
	CHECK_OK(push_item(f, batch, &(weir_push_item){.table = f->table, .keys = keys, .rows = rows, .values = f->gradient}, &err),
	         err);
}

static void pull(struct fixture *f, const uint64_t *keys, size_t rows)
{
	const weir_pull_item item = {.table = f->table, .keys = keys, .rows = rows, .values = f->weights};
	weir_ticket ticket;
	weir_error err = {0};
	CHECK_OK(weir_pull(f->client, NULL, &item, 1, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(f->client, ticket, -1, &err), err);
}

/* Normal numbers; each run of a thousand has its own scale. */
static void draw_gradient(struct fixture *f, size_t n)
{
	double size = 0;
	for (size_t i = 0; i < n; i++) {
		if (i % 1000 == 0)
			size = exp(sin((double)(i / 1000)));
		f->gradient[i] = (float)(prng_normal(&f->random) * size);
	}
	for (size_t i = 0; i < n; i++)
		f->sum[i] += (double)f->gradient[i];
}

static double rms(const double *x, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	return sqrt(sum / (double)n);
}

/* The distance of the weights from the sum of all gradients, relative to its size. */
static double missing(struct fixture *f, size_t n)
{
	double *error = malloc(n * sizeof *error);
	assert_non_null(error);
	for (size_t i = 0; i < n; i++)
		error[i] = (double)f->weights[i] + f->sum[i];
	const double part = rms(error, n) / rms(f->sum, n);
	free(error);
	return part;
}

struct expected {
	weir_compression push;
	/* missing share of the sum, at most: after the gradients, and before DRAINS pushes of zeros
	 * end */
	double first, last;
	double bits; /* per element, over all pushes, at most */
};

static void arrives(const struct expected *x)
{
	struct fixture f;
	weir_stats before = {0}, after = {0};
	setup(&f);
	add_table(&f, WEIR_DENSE, &x->push);
	weir_get_stats(f.client, &before);
	for (uint32_t batch = 0; batch < GRADIENTS; batch++) {
		draw_gradient(&f, ELEMENTS);
		push(&f, batch, NULL, 0);
	}
	weir_get_stats(f.client, &after);
	pull(&f, NULL, 0);
	const double first = missing(&f, ELEMENTS);
	memset(f.gradient, 0, ELEMENTS * sizeof *f.gradient);
	double last = first;
	for (uint32_t batch = GRADIENTS; batch < BATCHES && last > x->last; batch++) {
		push(&f, batch, NULL, 0);
		if ((batch - GRADIENTS) % LOOK_EVERY != LOOK_EVERY - 1)
			continue;
		pull(&f, NULL, 0);
		last = missing(&f, ELEMENTS);
	}
	const double bits = 8.0 * (double)(after.bytes_pushed - before.bytes_pushed) / ((double)GRADIENTS * ELEMENTS);
	if (!(first <= x->first && last <= x->last && bits <= x->bits))
		fail_msg("codec %d: %g of the sum is missing, %g in the end, %g bits an element; expected at most %g, %g, %g",
		         x->push.codec, first, last, bits, x->first, x->last, x->bits);
	teardown(&f);
}

static void residuals_of_a_dense_push_come_later(void **state)
{
	(void)state;
	static const struct expected codecs[] = {
	    {{.codec = WEIR_CODEC_FP32}, 1e-7, 1e-7, 32.2},
	    {{.codec = WEIR_CODEC_BF16}, 2e-3, 2e-3, 16.2},
	    {{.codec = WEIR_CODEC_FP16, .feedback = true}, 2e-4, 1e-6, 16.2},
	    {{.codec = WEIR_CODEC_INT8, .feedback = true}, 3e-3, 1e-6, 8.3},
	    {{.codec = WEIR_CODEC_FP8_E4M3, .feedback = true}, 1e-2, 1e-6, 8.3},
	    {{.codec = WEIR_CODEC_FP8_E5M2, .feedback = true}, 3e-2, 1e-6, 8.3},
	    {{.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4, .feedback = true}, 4e-2, 1e-6, 4.5},
	    {{.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_LOG, .feedback = true}, 6e-2, 1e-6, 4.5},
	    {{.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED, .feedback = true}, 4e-2, 1e-6, 4.5},
	    {{.codec = WEIR_CODEC_INT2, .feedback = true}, 0.4, 1e-6, 2.4},
	    {{.codec = WEIR_CODEC_SIGN, .feedback = true}, 0.9, 0.2, 1.2},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32, .density = 0.05f, .feedback = true}, 0.9, 1e-6, 3.0},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .density = 0.05f, .feedback = true}, 0.9, 1e-6, 1.9},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT8, .density = 0.05f, .feedback = true}, 0.9, 1e-6, 1.3},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.05f, .feedback = true}, 0.9, 1e-6, 1.0},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT2, .density = 0.05f, .feedback = true}, 0.9, 1e-6, 0.8},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.05f, .warmup = 6, .feedback = true}, 0.8, 1e-6, 1.9},
	};
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
		arrives(&codecs[i]);
}

static void rows_of_embeddings_arrive(void **state)
{
	(void)state;
	static const struct expected codecs[] = {
	    {{.codec = WEIR_CODEC_FP16}, 5e-4, 0, 0},
	    {{.codec = WEIR_CODEC_INT8}, 1e-2, 0, 0},
	    {{.codec = WEIR_CODEC_FP8_E4M3}, 5e-2, 0, 0},
	    {{.codec = WEIR_CODEC_FP8_E5M2}, 1e-1, 0, 0},
	    {{.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4}, 1.5e-1, 0, 0},
	    {{.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_LOG}, 2e-1, 0, 0},
	    {{.codec = WEIR_CODEC_INT2}, 4e-1, 0, 0},
	};
	uint64_t keys[ROWS];
	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = i * i * 977 + 3;
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
		struct fixture f;
		setup(&f);
		add_table(&f, WEIR_EMBEDDING, &codecs[i].push);
		draw_gradient(&f, ROWS * WIDTH);
		push(&f, 0, keys, ROWS);
		pull(&f, keys, ROWS);
		const double part = missing(&f, ROWS * WIDTH);
		if (!(part <= codecs[i].first))
			fail_msg("codec %d: %g of the rows is missing, expected at most %g", codecs[i].push.codec, part, codecs[i].first);
		teardown(&f);
	}
}

/* Mostly zeros, as behind a ReLU: runs of dead units and single ones. */
static void draw_mostly_zeros(struct fixture *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const bool is_zero = (i / 64 + i / 4096) % 3 || prng_below(&f->random, 4);
		f->gradient[i] = is_zero ? 0 : (float)prng_normal(&f->random);
	}
}

/* The weights after four pushes, and their bytes. */
static uint64_t packed_push(const weir_compression *push_as, weir_table_kind kind, bool zeros, float *weights)
{
	const size_t n = kind == WEIR_DENSE ? ELEMENTS : ROWS * WIDTH;
	struct fixture f;
	weir_stats before = {0}, after = {0};
	uint64_t keys[ROWS];
	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = i * 3;
	const uint64_t *rows = kind == WEIR_DENSE ? NULL : keys;
	setup(&f);
	add_table(&f, kind, push_as);
	weir_get_stats(f.client, &before);
	for (uint32_t batch = 0; batch < 4; batch++) {
		if (zeros)
			draw_mostly_zeros(&f, n);
		else
			draw_gradient(&f, n);
		push(&f, batch, rows, rows ? ROWS : 0);
	}
	weir_get_stats(f.client, &after);
	pull(&f, rows, rows ? ROWS : 0);
	memcpy(weights, f.weights, n * sizeof *weights);
	teardown(&f);
	return after.bytes_pushed - before.bytes_pushed;
}

static void zeros_are_packed_and_noise_is_not(void **state)
{
	(void)state;
	static const struct {
		weir_table_kind kind;
		weir_compression push;
		double share; /* of the bytes without packing, at most */
	} cases[] = {
	    {WEIR_DENSE, {.codec = WEIR_CODEC_FP32}, 0.2},     {WEIR_DENSE, {.codec = WEIR_CODEC_BF16}, 0.25},
	    {WEIR_DENSE, {.codec = WEIR_CODEC_INT8}, 0.35},    {WEIR_EMBEDDING, {.codec = WEIR_CODEC_FP32}, 0.4},
	    {WEIR_EMBEDDING, {.codec = WEIR_CODEC_INT8}, 0.7},
	};
	float *without = malloc(ELEMENTS * sizeof *without), *with = malloc(ELEMENTS * sizeof *with);
	assert_true(without && with);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int zeros = 0; zeros < 2; zeros++) {
			weir_compression push_as = cases[i].push;
			const size_t n = cases[i].kind == WEIR_DENSE ? ELEMENTS : ROWS * WIDTH;
			const uint64_t plain = packed_push(&push_as, cases[i].kind, zeros, without);
			push_as.lz4 = WEIR_LZ4_AUTO;
			const uint64_t packed = packed_push(&push_as, cases[i].kind, zeros, with);
			assert_memory_equal(with, without, n * sizeof *with);
			const double share = (double)packed / (double)plain;
			if (zeros ? share > cases[i].share : packed != plain)
				fail_msg("case %zu, zeros %d: %g of %llu bytes", i, zeros, share, (unsigned long long)plain);
		}
	free(without);
	free(with);
}

static void a_trial_decides(void **state)
{
	(void)state;
	enum { BYTES = 4 * PACK_SAMPLE_BYTES };
	static uint8_t noise[BYTES], zeros[BYTES], out[BYTES];
	struct pack_trial t = {0};
	struct prng random;
	uint32_t due = 0;
	prng_seed(&random, 9);
	for (size_t i = 0; i < BYTES; i++)
		noise[i] = (uint8_t)prng_below(&random, 256);
	for (uint32_t i = 0; i < 3 * PACK_TRIAL_EVERY; i++)
		if (pack_is_due(&t, BYTES)) {
			assert_int_equal(pack_stream(&t, noise, BYTES, out), 0);
			due++;
		}
	assert_int_equal(due, 4); /* pushes 1, 2, 65 and 129 */
	assert_true(pack_is_due(&t, BYTES));
	assert_in_range(pack_stream(&t, zeros, BYTES, out), 1, BYTES / 100);
	assert_true(pack_is_due(&t, BYTES)); /* packing saved bytes */
	assert_int_equal(pack_stream(&t, noise, BYTES, out), 0);
	assert_false(pack_is_due(&t, BYTES));
	assert_false(pack_is_due(&(struct pack_trial){0}, PACK_BYTES_MIN - 1));
}

/* Sign and top-k tables that an embedding cannot have, and a plausible mistake. */
static void tables_that_cannot_be_are_refused(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	setup(&f);
	const weir_init_segment zero = {.elements = WIDTH, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.name = "table",
	                        .width = WIDTH,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .push = {.codec = WEIR_CODEC_TOPK, .density = 0.01f, .feedback = true},
	                        .segments_count = 1,
	                        .segments = &zero};
	assert_int_equal(weir_table_register(f.client, &spec, &f.table, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "is for dense tables"));
	teardown(&f);
}

/* --- The compressor alone */

enum { SMALL = WEIR_CHUNK + 100 };

static struct compressor *open_compressor(const weir_compression *push)
{
	weir_table_spec spec = {.name = "t", .kind = WEIR_DENSE, .elements = SMALL, .push = *push};
	weir_error err = {0};
	struct compressor *c = compressor_create(backend_plain(), &spec, &err);
	assert_non_null(c);
	return c;
}

/* Codes the wanted chunks; returns the bytes. */
static size_t code(struct compressor *c, const float *gradient, const bool wanted[2], uint8_t *out)
{
	const weir_encoder e = compressor_encoder(c);
	weir_error err = {0};
	size_t bytes = 0;
	CHECK_OK(e.begin(e.arg, gradient, wanted, &err), err);
	for (uint64_t chunk = 0; chunk < 2; chunk++)
		if (wanted[chunk])
			bytes += e.chunk(e.arg, chunk, out + bytes, SMALL * 5 - bytes);
	e.end(e.arg);
	return bytes;
}

static weir_encoder_stats stats_of(struct compressor *c)
{
	const weir_encoder e = compressor_encoder(c);
	weir_encoder_stats s;
	e.stats(e.arg, &s);
	return s;
}

static void refused_gradients_leave_no_residual(void **state)
{
	(void)state;
	static const weir_compression push = {
	    .codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32, .density = 0.01f, .feedback = true};
	static float gradient[SMALL];
	static uint8_t out[SMALL * 5];
	const bool second[2] = {false, true}, none[2] = {false, false};
	weir_encoder_stats s;
	struct compressor *c = open_compressor(&push);
	for (size_t i = 0; i < WEIR_CHUNK; i++)
		gradient[i] = 1;
	assert_true(code(c, gradient, second, out) > 0); /* all zeros */
	s = stats_of(c);
	assert_true(s.residual_norm == 0);
	assert_int_equal(code(c, gradient, none, out), 0);
	s = stats_of(c);
	assert_true(s.residual_norm == 0 && s.pushes == 2);
	compressor_destroy(c);
}

static void a_worker_taken_for_dead_forgets_its_residuals(void **state)
{
	(void)state;
	static const weir_compression push = {
	    .codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.01f, .momentum = 0.9f, .feedback = true};
	static float gradient[SMALL];
	static uint8_t first[SMALL * 5], again[SMALL * 5];
	const bool both[2] = {true, true};
	weir_encoder_stats s;
	struct prng random;
	prng_seed(&random, 7);
	for (size_t i = 0; i < SMALL; i++)
		gradient[i] = (float)prng_normal(&random);
	struct compressor *c = open_compressor(&push);
	const size_t bytes = code(c, gradient, both, first);
	s = stats_of(c);
	assert_true(s.residual_norm > 0 && s.error > 0 && s.error < 0.5);
	assert_true(code(c, gradient, both, again) != bytes || memcmp(first, again, bytes) != 0);
	compressor_encoder(c).forget(c);
	s = stats_of(c);
	assert_true(s.residual_norm == 0);
	assert_int_equal(code(c, gradient, both, again), bytes);
	assert_memory_equal(first, again, bytes);
	compressor_destroy(c);
}

/* A leaving worker flushes its residuals: nothing is missing, and nothing is kept. */
static void residuals_go_out_in_full(void **state)
{
	(void)state;
	static const weir_compression pushes[] = {
	    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.01f, .feedback = true},
	    {.codec = WEIR_CODEC_SIGN, .feedback = true},
	    {.codec = WEIR_CODEC_INT8, .feedback = true},
	};
	for (size_t i = 0; i < sizeof pushes / sizeof *pushes; i++) {
		struct fixture f;
		weir_error err = {0};
		weir_stats before = {0}, after = {0};
		setup(&f);
		add_table(&f, WEIR_DENSE, &pushes[i]);
		for (uint32_t batch = 0; batch < GRADIENTS; batch++) {
			draw_gradient(&f, ELEMENTS);
			push(&f, batch, NULL, 0);
		}
		pull(&f, NULL, 0);
		assert_true(missing(&f, ELEMENTS) > 1e-4);
		for (uint32_t batch = GRADIENTS; batch < GRADIENTS + 2; batch++) {
			const weir_batch b = {.pass = f.unit.pass, .unit = f.unit.unit, .batch = batch, .attempt = f.unit.attempt};
			weir_get_stats(f.client, &before);
			CHECK_OK(weir_push_residuals(f.client, &b, &err), err);
			weir_get_stats(f.client, &after);
			/* a part only while a residual is left */
			assert_int_equal(after.parts_pushed > before.parts_pushed, batch == GRADIENTS);
		}
		pull(&f, NULL, 0);
		assert_true(missing(&f, ELEMENTS) < 1e-6);
		teardown(&f);
	}
}

/* A quarter of the rows takes a quarter of the bytes; with the residuals nothing is missing. */
static void rows_that_weigh_less_come_later(void **state)
{
	(void)state;
	uint64_t keys[ROWS];
	uint64_t bytes[2];
	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = i * i * 977 + 3;
	for (int some = 0; some < 2; some++) {
		const weir_compression as = {.codec = WEIR_CODEC_FP32, .rows = some ? 0.25f : 0};
		struct fixture f;
		weir_error err = {0};
		weir_stats before = {0}, after = {0};
		setup(&f);
		add_table(&f, WEIR_EMBEDDING, &as);
		weir_get_stats(f.client, &before);
		for (uint32_t batch = 0; batch < GRADIENTS; batch++) {
			draw_gradient(&f, ROWS * WIDTH);
			push(&f, batch, keys, ROWS);
		}
		weir_get_stats(f.client, &after);
		bytes[some] = after.bytes_pushed - before.bytes_pushed;
		pull(&f, keys, ROWS);
		assert_int_equal(missing(&f, ROWS * WIDTH) > 0.1, some);
		const weir_batch b = {.pass = f.unit.pass, .unit = f.unit.unit, .batch = GRADIENTS, .attempt = f.unit.attempt};
		CHECK_OK(weir_push_residuals(f.client, &b, &err), err);
		pull(&f, keys, ROWS);
		assert_true(missing(&f, ROWS * WIDTH) < 1e-6);
		teardown(&f);
	}
	if (!(bytes[1] < bytes[0] / 3))
		fail_msg("%llu bytes, of all rows %llu", (unsigned long long)bytes[1], (unsigned long long)bytes[0]);
}

/* Every fourth token has a score, whatever its gradient. Only these arrive at first, across parts
 * and partitions; the others come with the residuals. */
static void tokens_with_the_greatest_scores_come_first(void **state)
{
	(void)state;
	uint64_t keys[ROWS];
	float scores[ROWS];
	struct fixture f;
	weir_error err = {0};
	setup(&f);
	add_table(&f, WEIR_EMBEDDING, &(weir_compression){.codec = WEIR_CODEC_FP32, .rows = 0.5f});
	draw_gradient(&f, ROWS * WIDTH);
	for (uint32_t i = 0; i < ROWS; i++) {
		keys[i] = (uint64_t)(ROWS - i) * 977;
		scores[i] = i % 4 == 0 ? 2 : (float)i / ROWS;
	}
	const weir_push_item item = {.table = f.table, .keys = keys, .rows = ROWS, .values = f.gradient, .scores = scores};
	CHECK_OK(push_item(&f, 0, &item, &err), err);
	pull(&f, keys, ROWS);
	uint32_t arrived = 0;
	for (uint32_t i = 0; i < ROWS; i++) {
		const bool sent = f.weights[i * WIDTH] != 0;
		arrived += sent;
		if (i % 4 == 0)
			assert_true(sent && f.weights[i * WIDTH] == -f.gradient[i * WIDTH]);
	}
	/* each part sends its share, rounded up */
	assert_in_range(arrived, ROWS / 2, ROWS / 2 + f.cluster.partitions);
	const weir_batch b = {.pass = f.unit.pass, .unit = f.unit.unit, .batch = 1, .attempt = f.unit.attempt};
	CHECK_OK(weir_push_residuals(f.client, &b, &err), err);
	pull(&f, keys, ROWS);
	assert_true(missing(&f, ROWS * WIDTH) < 1e-6);
	teardown(&f);
}

static void scores_that_cannot_be_are_refused(void **state)
{
	(void)state;
	const float bad[] = {-1, NAN, INFINITY};
	const uint64_t keys[2] = {4, 9};
	for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
		const bool dense = i == sizeof bad / sizeof *bad;
		const float scores[2] = {1, dense ? 1 : bad[i]};
		struct fixture f;
		weir_error err = {0};
		setup(&f);
		add_table(&f, dense ? WEIR_DENSE : WEIR_EMBEDDING,
		          &(weir_compression){.codec = WEIR_CODEC_FP32, .rows = dense ? 0 : 0.5f});
		draw_gradient(&f, dense ? ELEMENTS : 2 * WIDTH);
		const weir_push_item item = {
		    .table = f.table, .keys = dense ? NULL : keys, .rows = dense ? 0 : 2, .values = f.gradient, .scores = scores};
		assert_int_equal(push_item(&f, 0, &item, &err), WEIR_E_INVALID);
		assert_non_null(strstr(err.text, dense ? "a dense table has none" : "the score of row 1"));
		push(&f, 0, item.keys, item.rows); /* nothing was sent: the batch can still be pushed */
		teardown(&f);
	}
}

/* A gradient beyond the norm is coded as one that the caller has scaled, with and without momentum,
 * in pushes with an exact threshold and with a corrected one. */
static void a_gradient_is_clipped_before_it_is_summed_up(void **state)
{
	(void)state;
	static float gradient[SMALL], scaled[SMALL];
	static uint8_t out[SMALL * 5], expected[SMALL * 5];
	const bool both[2] = {true, true};
	for (int momentum = 0; momentum < 2; momentum++) {
		weir_compression push = {.codec = WEIR_CODEC_TOPK,
		                         .values = WEIR_VALUES_FP32,
		                         .density = 0.01f,
		                         .momentum = momentum ? 0.9f : 0,
		                         .feedback = true};
		struct compressor *plain = open_compressor(&push);
		push.clip = 3;
		struct compressor *clipping = open_compressor(&push);
		struct prng random;
		prng_seed(&random, 8);
		for (int step = 0; step < 4; step++) {
			double norm = 0;
			const float size = step == 2 ? 1e-3f : 1; /* below the norm: unchanged */
			for (size_t i = 0; i < SMALL; i++) {
				gradient[i] = size * (float)prng_normal(&random);
				norm += (double)gradient[i] * (double)gradient[i];
			}
			norm = sqrt(norm);
			for (size_t i = 0; i < SMALL; i++)
				scaled[i] = norm > 3 ? gradient[i] * (float)(3 / norm) : gradient[i];
			assert_int_equal(norm > 3, step != 2);
			const size_t bytes = code(plain, scaled, both, expected);
			assert_int_equal(code(clipping, gradient, both, out), bytes);
			assert_memory_equal(out, expected, bytes);
		}
		weir_encoder_stats a, b;
		a = stats_of(plain);
		b = stats_of(clipping);
		assert_true(a.residual_norm == b.residual_norm && a.residual_norm > 0 && a.error_sum == b.error_sum);
		compressor_destroy(plain);
		compressor_destroy(clipping);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(residuals_of_a_dense_push_come_later),
	    cmocka_unit_test(rows_of_embeddings_arrive),
	    cmocka_unit_test(tables_that_cannot_be_are_refused),
	    cmocka_unit_test(refused_gradients_leave_no_residual),
	    cmocka_unit_test(a_worker_taken_for_dead_forgets_its_residuals),
	    cmocka_unit_test(zeros_are_packed_and_noise_is_not),
	    cmocka_unit_test(a_trial_decides),
	    cmocka_unit_test(residuals_go_out_in_full),
	    cmocka_unit_test(rows_that_weigh_less_come_later),
	    cmocka_unit_test(tokens_with_the_greatest_scores_come_first),
	    cmocka_unit_test(scores_that_cannot_be_are_refused),
	    cmocka_unit_test(a_gradient_is_clipped_before_it_is_summed_up),
	};
	return cmocka_run_group_tests_name("compressed_push", tests, NULL, NULL);
}
