/* The compressor on device memory against the one on host memory: equal bytes and residuals, push
 * after push, for every codec. Runs on the emulated device, or on WEIR_TEST_DEVICE. */
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
#include "kernels/book.h"
#include "kernels/compress.h"
#include "tests/cmocka_check.h"
#include "tests/unit/kernels/check.h"
#if defined(WEIR_CUDA_HOST)
#include "tests/cuda_host/cuda_host.h"
#endif

#define SKIPPED 77
#define GUARD   0xa5
enum { CHUNKS = 3, ELEMENTS = (CHUNKS - 1) * WEIR_CHUNK + 3001, ROOM = WEIR_CHUNK * 5, GUARDS = 16 };

/* A compressor, and its gradients in its own memory. */
struct side {
	struct backend *backend;
	struct compressor *compressor;
	weir_encoder encoder;
	float *gradient;
	uint8_t *bytes; /* (ROOM + GUARDS) of a chunk */
};

struct pair {
	struct side host, device;
	struct prng random;
	float *gradient; /* (ELEMENTS) */
	bool wanted[CHUNKS];
};

static struct backend *open_device(void)
{
	weir_error err = {0};
	const char *name = getenv("WEIR_TEST_DEVICE");
	struct backend *b = NULL;
	if (name) {
		b = backend_open(&(struct backend_options){.device = name, .threads = 1}, &err);
	} else {
#if defined(WEIR_CUDA_HOST)
		cuda_host_reset();
		b = weir_backend_cuda_create(&(struct backend_options){.device = "cuda"}, &err);
#endif
	}
	if (!b) {
		fprintf(stderr, "skipped: %s\n", err.text);
		exit(name && err.status != WEIR_E_UNSUPPORTED ? 1 : SKIPPED);
	}
	return b;
}

static weir_table_spec table_of(const weir_compression *push)
{
	return (weir_table_spec){.name = "t", .kind = WEIR_DENSE, .elements = ELEMENTS, .push = *push};
}

static void open_side(struct side *s, struct backend *b, const weir_compression *push)
{
	const weir_table_spec spec = table_of(push);
	weir_error err = {0};
	*s = (struct side){.backend = b,
	                   .compressor = compressor_create(b, &spec, &err),
	                   .gradient = b->ops->buffer_alloc(b, ELEMENTS * sizeof(float)),
	                   .bytes = malloc(ROOM + GUARDS)};
	CHECK_OK(err.status, err);
	assert_true(s->compressor && s->gradient && s->bytes);
	s->encoder = compressor_encoder(s->compressor);
}

static void close_side(struct side *s)
{
	compressor_destroy(s->compressor);
	s->backend->ops->buffer_free(s->backend, s->gradient);
	s->backend->ops->destroy(s->backend);
	free(s->bytes);
}

static void open_pair(struct pair *p, const weir_compression *push, uint64_t seed)
{
	open_side(&p->host, backend_plain(), push);
	open_side(&p->device, open_device(), push);
	prng_seed(&p->random, seed);
	assert_non_null(p->gradient = malloc(ELEMENTS * sizeof(float)));
	memset(p->wanted, true, sizeof p->wanted);
}

static void close_pair(struct pair *p)
{
	close_side(&p->host);
	close_side(&p->device);
	free(p->gradient);
}

/* Normal numbers; each run has its own scale. Unselected chunks have no gradient. */
static void draw(struct pair *p)
{
	float size = 0;
	for (size_t i = 0; i < ELEMENTS; i++) {
		const bool wanted = p->wanted[i / WEIR_CHUNK];
		if (i % 1000 == 0 && wanted)
			size = (float)exp(2 * prng_unit(&p->random) - 1);
		p->gradient[i] = wanted ? prng_normal(&p->random) * size : NAN;
	}
	const struct side *sides[] = {&p->host, &p->device};
	for (size_t i = 0; i < 2; i++)
		sides[i]->backend->ops->to_device(sides[i]->backend, sides[i]->gradient, p->gradient, ELEMENTS * sizeof(float));
}

static size_t code(struct side *s, uint64_t chunk)
{
	memset(s->bytes, GUARD, ROOM + GUARDS);
	const size_t bytes = s->encoder.chunk(s->encoder.arg, chunk, s->bytes, ROOM);
	assert_in_range(bytes, 1, ROOM);
	for (size_t i = 0; i < GUARDS; i++)
		assert_int_equal(s->bytes[bytes + i], GUARD);
	return bytes;
}

static void check_residuals(struct pair *p, unsigned push)
{
	const float *host, *device;
	weir_error err = {0};
	CHECK_OK(p->host.encoder.residual(p->host.encoder.arg, &host, &err), err);
	CHECK_OK(p->device.encoder.residual(p->device.encoder.arg, &device, &err), err);
	assert_int_equal(host != NULL, device != NULL);
	for (size_t i = 0; host && i < ELEMENTS; i++)
		if (memcmp(&host[i], &device[i], sizeof *host) != 0)
			fail_msg("push %u: residual %zu is %a, expected %a", push, i, (double)device[i], (double)host[i]);
}

static void check_stats(struct pair *p)
{
	weir_encoder_stats host, device;
	p->host.encoder.stats(p->host.encoder.arg, &host);
	p->device.encoder.stats(p->device.encoder.arg, &device);
	assert_int_equal(device.pushes, host.pushes);
	assert_int_equal(device.measured, host.measured);
	assert_true(fabs(device.residual_norm - host.residual_norm) <= 1e-12 * host.residual_norm);
	assert_true(fabs(device.error_sum - host.error_sum) <= 1e-12 * fabs(host.error_sum));
}

/* Pushes the drawn gradients. The chunks come in the order of parts. */
static void push(struct pair *p, unsigned number)
{
	weir_error err = {0};
	struct side *h = &p->host, *d = &p->device;
	CHECK_OK(h->encoder.begin(h->encoder.arg, h->gradient, p->wanted, &err), err);
	CHECK_OK(d->encoder.begin(d->encoder.arg, d->gradient, p->wanted, &err), err);
	assert_memory_equal(h->encoder.book(h->encoder.arg), d->encoder.book(d->encoder.arg), CODEC_BOOK * sizeof(float));
	for (uint64_t i = 0; i < CHUNKS; i++) {
		const uint64_t chunk = (i * 2 + number) % CHUNKS;
		if (!p->wanted[chunk])
			continue;
		const size_t bytes = code(h, chunk), got = code(d, chunk);
		if (got != bytes || memcmp(d->bytes, h->bytes, bytes) != 0)
			fail_msg("push %u, chunk %u: %zu bytes, expected %zu, or not the same", number, (unsigned)chunk, got, bytes);
	}
	h->encoder.end(h->encoder.arg);
	d->encoder.end(d->encoder.arg);
}

/* One push of every `all_in` has all chunks; the servers have some chunks of the others already. */
static void choose_chunks(struct pair *p, unsigned number, unsigned all_in)
{
	for (size_t i = 0; i < CHUNKS; i++)
		p->wanted[i] = number % all_in == 0 || (i + 1 < CHUNKS ? prng_below(&p->random, all_in) == 0 : number % 7 != 5);
}

static void every_codec_makes_the_same_bytes(void **state)
{
	(void)state;
	static const weir_compression pushes[] = {
	    {.codec = WEIR_CODEC_FP16, .feedback = true},
	    {.codec = WEIR_CODEC_INT8, .feedback = true},
	    {.codec = WEIR_CODEC_INT8},
	    {.codec = WEIR_CODEC_FP8_E4M3, .feedback = true},
	    {.codec = WEIR_CODEC_FP8_E5M2, .feedback = true},
	    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4, .feedback = true},
	    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_LOG, .feedback = true},
	    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED, .feedback = true},
	    {.codec = WEIR_CODEC_INT2, .feedback = true},
	    {.codec = WEIR_CODEC_INT2},
	    {.codec = WEIR_CODEC_SIGN, .feedback = true},
	    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT2, .density = 0.05f, .feedback = true},
	    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32, .density = 0.01f, .clip = 20, .feedback = true},
	    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .density = 0.05f, .momentum = 0.9f, .feedback = true},
	    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT8, .density = 0.01f, .warmup = 2, .feedback = true},
	    {.codec = WEIR_CODEC_TOPK,
	     .values = WEIR_VALUES_LOG4,
	     .density = 0.25f,
	     .momentum = 0.5f,
	     .clip = 1e9f,
	     .feedback = true},
	};
	for (size_t i = 0; i < sizeof pushes / sizeof *pushes; i++) {
		struct pair p;
		open_pair(&p, &pushes[i], 41 + i);
		for (unsigned number = 0; number < 4; number++) {
			choose_chunks(&p, number, 2);
			draw(&p);
			push(&p, number);
			check_residuals(&p, number);
		}
		check_stats(&p);
		close_pair(&p);
	}
}

/* Passes through due exact thresholds, due measurements and the corrected thresholds between. Then
 * some of the kept residual is flushed, then all. */
static void many_pushes_later_it_is_still_the_same(void **state)
{
	(void)state;
	static const weir_compression spec = {
	    .codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT8, .density = 0.02f, .momentum = 0.8f, .warmup = 3, .feedback = true};
	static const uint64_t sent[] = {0, 2};
	struct pair p;
	open_pair(&p, &spec, 60);
	for (unsigned number = 0; number < TOPK_EXACT_EVERY + 4; number++) {
		choose_chunks(&p, number, 8);
		draw(&p);
		push(&p, number);
	}
	check_residuals(&p, TOPK_EXACT_EVERY);
	check_stats(&p);
	for (size_t i = 0; i < 2; i++) {
		const weir_encoder e = i ? p.host.encoder : p.device.encoder;
		e.take(e.arg, sent, sizeof sent / sizeof *sent);
	}
	const float *left;
	weir_error err = {0};
	CHECK_OK(p.device.encoder.residual(p.device.encoder.arg, &left, &err), err);
	double squares = 0;
	for (size_t i = 0; i < ELEMENTS; i++) {
		assert_true(left[i] == 0 || i / WEIR_CHUNK == 1);
		squares += (double)left[i] * (double)left[i];
	}
	assert_true(squares > 0);
	check_residuals(&p, TOPK_EXACT_EVERY + 1);
	check_stats(&p);
	p.host.encoder.forget(p.host.encoder.arg);
	p.device.encoder.forget(p.device.encoder.arg);
	memset(p.wanted, true, sizeof p.wanted);
	draw(&p);
	push(&p, 0);
	check_residuals(&p, 0);
	close_pair(&p);
}

/* More blocks than the sample: every other block, with and without elements behind the last. */
static void a_book_is_fitted_to_the_same_sample(void **state)
{
	(void)state;
	const weir_compression push = {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED};
	weir_table_spec spec = table_of(&push);
	bool wanted[BOOK_SAMPLE_MAX / WEIR_CHUNK + 1];
	struct backend *device = open_device(), *sides[] = {backend_plain(), device};
	struct prng random;
	prng_seed(&random, 80);
	memset(wanted, true, sizeof wanted);
	for (uint64_t blocks = 2; blocks < 4; blocks++) {
		float books[2][CODEC_BOOK];
		spec.elements = BOOK_SAMPLE_MAX + blocks * CODEC_INT4_BLOCK + 17;
		float *gradient = random_floats(&random, spec.elements, -1, 1);
		for (size_t i = 0; i < 2; i++) {
			struct backend *b = sides[i];
			weir_error err = {0};
			struct compressor *c = compressor_create(b, &spec, &err);
			assert_non_null(c);
			float *there = b->ops->buffer_alloc(b, spec.elements * sizeof *there);
			b->ops->to_device(b, there, gradient, spec.elements * sizeof *there);
			const weir_encoder e = compressor_encoder(c);
			CHECK_OK(e.begin(e.arg, there, wanted, &err), err);
			memcpy(books[i], e.book(e.arg), sizeof books[i]);
			b->ops->buffer_free(b, there);
			compressor_destroy(c);
		}
		assert_memory_equal(books[1], books[0], sizeof books[0]);
		assert_true(books[0][1] > -1 && books[0][1] < books[0][2]);
		free(gradient);
	}
	device->ops->destroy(device);
}

static void numbers_that_are_not_finite_are_found_in_the_named_chunks(void **state)
{
	(void)state;
	static const weir_compression spec = {.codec = WEIR_CODEC_INT8, .feedback = true};
	static const uint64_t without[] = {0, 2}, with[] = {1, 2};
	const float bad[] = {NAN, INFINITY, -INFINITY};
	struct pair p;
	open_pair(&p, &spec, 70);
	for (size_t i = 0; i < 2 * sizeof bad / sizeof *bad; i++) {
		const struct side *s = i % 2 ? &p.host : &p.device;
		weir_error err = {0};
		draw(&p);
		CHECK_OK(s->encoder.check(s->encoder.arg, s->gradient, NULL, 0, &err), err);
		const size_t at = WEIR_CHUNK + prng_below(&p.random, WEIR_CHUNK);
		s->backend->ops->to_device(s->backend, s->gradient + at, &bad[i / 2], sizeof *bad);
		assert_int_equal(s->encoder.check(s->encoder.arg, s->gradient, NULL, 0, &err), WEIR_E_NOT_FINITE);
		assert_int_equal(s->encoder.check(s->encoder.arg, s->gradient, with, 2, &err), WEIR_E_NOT_FINITE);
		CHECK_OK(s->encoder.check(s->encoder.arg, s->gradient, without, 2, &err), err);
	}
	close_pair(&p);
}

#if defined(WEIR_CUDA_HOST)
/* cudaErrorIllegalAddress */
enum { ILLEGAL_ADDRESS = 700 };

static void a_device_that_fails_says_so(void **state)
{
	(void)state;
	static const weir_compression spec = {.codec = WEIR_CODEC_TOPK, .density = 0.01f, .feedback = true};
	struct pair p;
	weir_error err = {0};
	if (getenv("WEIR_TEST_DEVICE"))
		skip();
	open_pair(&p, &spec, 71);
	draw(&p);
	push(&p, 0);
	cuda_host.fail_call = "cudaStreamSynchronize";
	cuda_host.fail_code = ILLEGAL_ADDRESS;
	const weir_encoder e = p.device.encoder;
	assert_int_not_equal(e.begin(e.arg, p.device.gradient, p.wanted, &err), WEIR_OK);
	assert_non_null(strstr(err.text, "illegal memory access"));
	assert_int_not_equal(e.check(e.arg, p.device.gradient, NULL, 0, &err), WEIR_E_NOT_FINITE);
	cuda_host_reset();
	close_pair(&p);
}

static void memory_that_a_device_has_not_got_is_told(void **state)
{
	(void)state;
	const weir_compression push = {.codec = WEIR_CODEC_INT8, .feedback = true};
	weir_table_spec spec = table_of(&push);
	weir_error err = {0};
	if (getenv("WEIR_TEST_DEVICE"))
		skip();
	struct backend *b = open_device();
	spec.elements = (uint64_t)1 << 30;
	assert_null(compressor_create(b, &spec, &err));
	assert_int_equal(err.status, WEIR_E_MEMORY);
	assert_non_null(strstr(err.text, "table t: out of memory for what its compression leaves out: cuda:0"));
	CHECK_OK(b->ops->sync(b, &err), err);
	b->ops->destroy(b);
	assert_int_equal(cuda_host_allocated(), 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_codec_makes_the_same_bytes),
		cmocka_unit_test(many_pushes_later_it_is_still_the_same),
		cmocka_unit_test(a_book_is_fitted_to_the_same_sample),
		cmocka_unit_test(numbers_that_are_not_finite_are_found_in_the_named_chunks),
#if defined(WEIR_CUDA_HOST)
		cmocka_unit_test(a_device_that_fails_says_so),
		cmocka_unit_test(memory_that_a_device_has_not_got_is_told),
#endif
	};
	return cmocka_run_group_tests_name("compress", tests, NULL, NULL);
}
