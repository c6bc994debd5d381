/* Arrays beyond 4 GiB, on a device with enough memory: offsets need 64 bits. WEIR_TEST_DEVICE names
 * the device; skipped without it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/backend.h"
#include "kernels/codec.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_backend.h"

#define SKIPPED  77
#define ELEMENTS (((size_t)1 << 30) + 2 * CODEC_TILE + 77) /* a little over 4 GiB */
#define POOL     ((size_t)64 * CODEC_TILE)
#define WIDTH    ((size_t)128)
#define UNIQUE   ((size_t)1000)
#define BAGS     (ELEMENTS / WIDTH + 1)

static struct backend *b;
static float *pool, *there; /* (POOL), host; (POOL), device */

/* Each tile of a large array is a piece of the pool. */
static const float *tile_of(const float *base, size_t tile)
{
	return base + tile * 7919 % (POOL - CODEC_TILE) / 4 * 4;
}

/* NULL without a failure if the device lacks memory; prints it. */
static void *room(size_t bytes)
{
	void *p = b->ops->buffer_alloc(b, bytes);
	weir_error err = {0};
	if (p == NULL) {
		(void)b->ops->sync(b, &err);
		print_message("           left out: %s\n", err.text);
	}
	return p;
}

static void give(void *p)
{
	if (p != NULL)
		b->ops->buffer_free(b, p);
}

static void fill_tiles(float *x, size_t n)
{
	for (size_t at = 0; at < n; at += CODEC_TILE)
		b->ops->copy(b, x + at, tile_of(there, at / CODEC_TILE), codec_tile_elements(n, at));
}

/* The first tile, the last one, and those on both sides of 4 GiB. */
static const size_t tiles_seen[] = {0, ((size_t)1 << 30) / CODEC_TILE - 1, ((size_t)1 << 30) / CODEC_TILE, ELEMENTS / CODEC_TILE};
#define SEEN (sizeof tiles_seen / sizeof *tiles_seen)

static void check_bytes(const char *what, size_t tile, const void *got_there, const void *want, size_t bytes)
{
	uint8_t *got = malloc(bytes + 1);
	assert_non_null(got);
	b->ops->to_host(b, got, got_there, bytes);
	for (size_t i = 0; i < bytes; i++)
		if (got[i] != ((const uint8_t *)want)[i])
			fail_msg("%s, tile %zu: byte %zu of %zu is %02x, expected %02x", what, tile, i, bytes, got[i],
			         ((const uint8_t *)want)[i]);
	free(got);
}

static void codecs_reach_beyond_four_gigabytes(void **state)
{
	(void)state;
	static uint8_t codes[CODEC_TILE * 4];
	static float back[CODEC_TILE];
	const struct coding int8 = {.codec = WEIR_CODEC_INT8};
	float *x = room(ELEMENTS * sizeof *x);
	uint8_t *out = x != NULL ? room(codec_bytes(int8.codec, ELEMENTS)) : NULL;
	if (out != NULL) {
		fill_tiles(x, ELEMENTS);
		b->ops->encode(b, &int8, x, NULL, ELEMENTS, out);
		b->ops->fill(b, x, NAN, ELEMENTS);
		b->ops->decode(b, &int8, out, ELEMENTS, x);
		check_sync(b);
		for (size_t i = 0; i < SEEN; i++) {
			const size_t tile = tiles_seen[i], n = codec_tile_elements(ELEMENTS, tile * CODEC_TILE);
			codec_encode(&int8, tile_of(pool, tile), NULL, n, codes);
			codec_decode(&int8, codes, n, back);
			check_bytes("int8", tile, out + tile * codec_bytes(int8.codec, CODEC_TILE), codes, codec_bytes(int8.codec, n));
			check_bytes("int8 decoded", tile, x + tile * CODEC_TILE, back, n * sizeof *back);
		}
	}
	give(x);
	give(out);
}

static void top_k_reaches_beyond_four_gigabytes(void **state)
{
	(void)state;
	const size_t tiles = codec_tiles(ELEMENTS), record = topk_record_max(CODEC_TILE, WEIR_VALUES_LOG4);
	static float residual[CODEC_TILE];
	uint8_t *want = malloc(record);
	uint32_t *host_ends = malloc(tiles * sizeof *host_ends);
	assert_true(want != NULL && host_ends != NULL);
	float *x = room(ELEMENTS * sizeof *x), *left = x != NULL ? room(ELEMENTS * sizeof *left) : NULL;
	uint8_t *out = left != NULL ? room(tiles * record) : NULL;
	uint32_t *ends = out != NULL ? room(2 * tiles * sizeof *ends) : NULL;
	if (ends != NULL) {
		const struct topk_row row = {.grad = x, .residual = left, .scale = 1, .n = ELEMENTS};
		fill_tiles(x, ELEMENTS);
		fill_tiles(left, ELEMENTS);
		b->ops->topk_encode(b, &row, 4.5f, WEIR_VALUES_LOG4, out, ends, ends + tiles);
		b->ops->to_host(b, host_ends, ends, tiles * sizeof *ends);
		check_sync(b);
		for (size_t i = 0; i < SEEN; i++) {
			const size_t tile = tiles_seen[i], n = codec_tile_elements(ELEMENTS, tile * CODEC_TILE);
			const uint32_t begin = tile > 0 ? host_ends[tile - 1] : 0;
			uint32_t selected;
			memcpy(residual, tile_of(pool, tile), n * sizeof *residual);
			const size_t bytes = topk_encode(tile_of(pool, tile), residual, NULL, n, 4.5f, WEIR_VALUES_LOG4, want, &selected);
			assert_int_equal(host_ends[tile] - begin, bytes);
			check_bytes("top-k", tile, out + begin, want, bytes);
			check_bytes("residual", tile, left + tile * CODEC_TILE, residual, n * sizeof *residual);
		}
	}
	give(x);
	give(left);
	give(out);
	give(ends);
	free(want);
	free(host_ends);
}

/* Each bag looks up one row: bag i has row i mod UNIQUE. Sums of ones are exact. */
static void look_ups_reach_beyond_four_gigabytes(void **state)
{
	(void)state;
	uint32_t *host = malloc((BAGS + 1) * sizeof *host);
	float *sums = malloc(UNIQUE * WIDTH * sizeof *sums);
	assert_true(host != NULL && sums != NULL);
	float *out = room(BAGS * WIDTH * sizeof *out);
	uint32_t *offsets = out != NULL ? room((BAGS + 1) * sizeof *offsets) : NULL,
	         *index = offsets != NULL ? room(BAGS * sizeof *index) : NULL;
	float *rows = index != NULL ? room(UNIQUE * WIDTH * sizeof *rows) : NULL;
	if (rows != NULL) {
		for (size_t i = 0; i <= BAGS; i++)
			host[i] = (uint32_t)i;
		b->ops->to_device(b, offsets, host, (BAGS + 1) * sizeof *host);
		for (size_t i = 0; i < BAGS; i++)
			host[i] = (uint32_t)(i % UNIQUE);
		b->ops->to_device(b, index, host, BAGS * sizeof *host);
		b->ops->copy(b, rows, there, UNIQUE * WIDTH);
		b->ops->gather_pool(b, out, rows, UNIQUE, WIDTH, offsets, index, NULL, BAGS);
		check_sync(b);
		const size_t seen[] = {0, ((size_t)1 << 30) / WIDTH - 1, ((size_t)1 << 30) / WIDTH, BAGS - 1};
		for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
			check_bytes("a row looked up", seen[i], out + seen[i] * WIDTH, pool + seen[i] % UNIQUE * WIDTH, WIDTH * sizeof *out);
		b->ops->fill(b, out, 1, BAGS * WIDTH);
		b->ops->scatter_sum(b, rows, UNIQUE, WIDTH, out, offsets, index, NULL, BAGS, BAGS);
		b->ops->to_host(b, sums, rows, UNIQUE * WIDTH * sizeof *sums);
		check_sync(b);
		for (size_t r = 0; r < UNIQUE; r++)
			for (size_t j = 0; j < WIDTH; j++)
				if (sums[r * WIDTH + j] != (float)((BAGS - r + UNIQUE - 1) / UNIQUE))
					fail_msg("row %zu, column %zu: %g uses", r, j, (double)sums[r * WIDTH + j]);
	}
	give(out);
	give(offsets);
	give(index);
	give(rows);
	free(host);
	free(sums);
}

static int open_device(void **state)
{
	(void)state;
	const char *device = getenv("WEIR_TEST_DEVICE");
	weir_error err = {0};
	struct prng rng;
	b = backend_open(&(struct backend_options){.device = device != NULL ? device : "cuda", .threads = 1}, &err);
	if (b == NULL) {
		fprintf(stderr, "skipped: %s\n", err.text);
		exit(err.status == WEIR_E_UNSUPPORTED ? SKIPPED : 1);
	}
	prng_seed(&rng, 801);
	pool = malloc(POOL * sizeof *pool);
	there = b->ops->buffer_alloc(b, POOL * sizeof *there);
	if (pool == NULL || there == NULL)
		return 1;
	for (size_t i = 0; i < POOL; i++)
		pool[i] = prng_normal(&rng);
	b->ops->to_device(b, there, pool, POOL * sizeof *pool);
	return 0;
}

static int close_device(void **state)
{
	(void)state;
	free(pool);
	give(there);
	b->ops->destroy(b);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(codecs_reach_beyond_four_gigabytes),
	    cmocka_unit_test(top_k_reaches_beyond_four_gigabytes),
	    cmocka_unit_test(look_ups_reach_beyond_four_gigabytes),
	};
	return cmocka_run_group_tests_name("large", tests, open_device, close_device);
}
