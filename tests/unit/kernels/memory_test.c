/* A backend's memory: zeroed, copied whole, ordered with ops, and refused with a sentence when it
 * is exhausted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

#define MIB ((size_t)1 << 20)

static void fill_random(struct prng *rng, unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (unsigned char)prng_u64(rng);
}

static void try_copies(struct backend *b, struct prng *rng)
{
	static const size_t sizes[] = {1, 63, 256, 1000, 4 * MIB - 1, 4 * MIB, 13 * MIB + 5};
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int again = 0; again < 2; again++) { /* the second time, the memory is a reused one */
			const size_t n = sizes[s];
			unsigned char *from = malloc(n), *to = malloc(n), *there = b->ops->buffer_alloc(b, n);
			assert_true(from != NULL && to != NULL && there != NULL);
			b->ops->to_host(b, to, there, n);
			for (size_t i = 0; i < n; i++)
				if (to[i] != 0)
					fail_msg("byte %zu of %zu is %u", i, n, to[i]);
			fill_random(rng, from, n);
			b->ops->to_device(b, there, from, n);
			memset(to, 0, n);
			b->ops->to_host(b, to, there, n);
			assert_memory_equal(to, from, n);
			b->ops->buffer_free(b, there);
			free(from);
			free(to);
		}
	b->ops->to_device(b, NULL, NULL, 0);
	b->ops->to_host(b, NULL, NULL, 0);
	void *empty = b->ops->buffer_alloc(b, 0);
	assert_non_null(empty);
	b->ops->buffer_free(b, empty);
	check_sync(b);
}

static void buffers_are_zeroed_and_copies_are_whole(void **state)
{
	(void)state;
	on_every_backend(711, try_copies);
}

/* Memory of host_alloc, from its middle to a buffer's middle and back. */
static void try_pinned(struct backend *b, struct prng *rng)
{
	const size_t n = 5 * MIB + 12, from = 4096 + 8;
	unsigned char *host = b->ops->host_alloc(b, n), *back = b->ops->host_alloc(b, n), *there = b->ops->buffer_alloc(b, n);
	assert_true(host != NULL && back != NULL && there != NULL);
	for (size_t i = 0; i < n; i++)
		assert_true(host[i] == 0);
	fill_random(rng, host, n);
	b->ops->to_device(b, there + from, host + from, n - from);
	check_sync(b); /* from here on the memory may be reused */
	b->ops->to_host(b, back + from, there + from, n - from);
	assert_memory_equal(back + from, host + from, n - from);
	b->ops->to_host(b, back, there, from);
	for (size_t i = 0; i < from; i++)
		assert_true(back[i] == 0);
	b->ops->host_free(b, host);
	b->ops->host_free(b, back);
	b->ops->buffer_free(b, there);
	check_sync(b);
}

static void copies_of_host_memory_are_whole(void **state)
{
	(void)state;
	on_every_backend(712, try_pinned);
}

/* Writes, uses and rewrites a buffer without waiting. Each op sees earlier copies; no copy back
 * sees later ones. */
static void try_order(struct backend *given, struct prng *rng)
{
	enum { N = 3000, TIMES = 20 };
	struct backend *b = unmirrored(given);
	float *x = b->ops->buffer_alloc(b, N * sizeof *x), *sums = b->ops->buffer_alloc(b, N * sizeof *sums);
	float host[N], got[N];
	double want[N] = {0};
	assert_true(x != NULL && sums != NULL);
	for (int t = 0; t < TIMES; t++) {
		for (size_t i = 0; i < N; i++) {
			host[i] = (float)prng_below(rng, 1000);
			want[i] += (double)host[i];
		}
		b->ops->to_device(b, x, host, sizeof host);
		b->ops->axpy(b, sums, 1, x, N);
	}
	b->ops->to_host(b, got, sums, sizeof got);
	check_close("sums of what was copied", got, want, N, 0, 0);
	b->ops->buffer_free(b, x);
	b->ops->buffer_free(b, sums);
	check_sync(b);
}

static void copies_and_ops_run_in_the_order_of_their_calls(void **state)
{
	(void)state;
	on_every_backend(713, try_order);
}

#if defined(__SANITIZE_ADDRESS__)
/* By default AddressSanitizer ends the process on an allocation that malloc refuses. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}
#endif

/* More than any device has. */
static void try_too_much(struct backend *b, struct prng *rng)
{
	(void)rng;
	weir_error err = {0};
	assert_null(b->ops->buffer_alloc(b, SIZE_MAX / 2));
	if (!b->ops->host_memory) {
		assert_int_equal(b->ops->sync(b, &err), WEIR_E_MEMORY);
		assert_non_null(strstr(err.text, "out of memory"));
		assert_non_null(strstr(err.text, "use device: cpu"));
	}
	check_sync(b); /* reported once; smaller allocations still work */
	void *some = b->ops->buffer_alloc(b, MIB);
	assert_non_null(some);
	b->ops->buffer_free(b, some);
	check_sync(b);
}

static void a_request_beyond_the_memory_is_refused_and_reported_once(void **state)
{
	(void)state;
	on_every_backend(714, try_too_much);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(buffers_are_zeroed_and_copies_are_whole),
	    cmocka_unit_test(copies_of_host_memory_are_whole),
	    cmocka_unit_test(copies_and_ops_run_in_the_order_of_their_calls),
	    cmocka_unit_test(a_request_beyond_the_memory_is_refused_and_reported_once),
	};
	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
