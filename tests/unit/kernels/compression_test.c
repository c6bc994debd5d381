/* Compression ops on every backend, GPUs included: the bytes, residuals and numbers of codec.h and
 * topk.h, bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/topk.h"
#include "tests/unit/kernels/check_backend.h"
#include "tests/unit/kernels/check_codec.h"
#include "tests/unit/kernels/topk_inputs.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define GUARD    0xa5
#define GUARDS   64u /* bytes behind an output */

static const size_t sizes[] = {1, 7, 9, 65, 257, 1000, 1025, 2049, 16384, 2 * 16384 + 77};
#define KINDS 2 /* kinds of inputs per size: normal, and a different one each time */

static enum inputs kind_at(size_t size, size_t i)
{
	return i == 0 ? NORMAL : (enum inputs)(1 + size % (INPUTS - 1));
}

static uint8_t *guarded(size_t bytes)
{
	uint8_t *out = malloc(bytes + GUARDS);
	assert_non_null(out);
	return memset(out, GUARD, bytes + GUARDS);
}

static void check_bytes(const char *what, size_t n, const uint8_t *got, const uint8_t *want, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (got[i] != want[i])
			fail_msg("%s of %zu elements: byte %zu of %zu is %02x, expected %02x", what, n, i, bytes, got[i], want[i]);
	for (size_t i = bytes; i < bytes + GUARDS; i++)
		if (got[i] != GUARD)
			fail_msg("%s of %zu elements: byte %zu behind %zu was written", what, n, i - bytes, bytes);
}

static void check_codec(struct backend *b, const struct coding *c, const char *name, const float *x, const float *residual,
                        size_t n)
{
	const size_t bytes = codec_bytes(c->codec, n);
	uint8_t *got = guarded(bytes), *want = guarded(bytes);
	float *left = residual ? copy_floats(residual, n) : NULL, *want_left = residual ? copy_floats(residual, n) : NULL;
	float *back = poisoned_floats(n + 1), *want_back = poisoned_floats(n);
	codec_encode(c, x, want_left, n, want);
	codec_decode(c, want, n, want_back);
	b->ops->encode(b, c, x, left, n, got);
	check_bytes(name, n, got, want, bytes);
	if (residual)
		check_same_bits(name, left, want_left, n);
	b->ops->decode(b, c, want, n, back);
	check_same_bits(name, back, want_back, n);
	assert_true(isnan(back[n]));
	free(got);
	free(want);
	free(left);
	free(want_left);
	free(back);
	free(want_back);
}

static void try_codecs(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < COUNT(sizes); s++)
		for (size_t k = 0; k < KINDS; k++) {
			const enum inputs kind = kind_at(s, k);
			const size_t n = sizes[s];
			float *x = inputs_make(kind, rng, n), *residual = inputs_make(kind, rng, n);
			struct coding c;
			const char *name;
			for (size_t i = 0; i < n; i++) { /* keeps their sums finite */
				x[i] *= 0.5f;
				residual[i] *= 0.25f;
			}
			for (unsigned i = 0; coding_at(i, &c, &name); i++) {
				check_codec(b, &c, name, x, NULL, n);
				check_codec(b, &c, name, x, residual, n);
				check_codec(b, &c, name, NULL, residual, n);
			}
			free(x);
			free(residual);
		}
}

static void codecs_make_the_same_bytes(void **state)
{
	(void)state;
	on_every_backend(501, try_codecs);
}

/* Coding without an input codes the residual, as an input of zeros does. */
static void nothing_added_is_zeros_added(void **state)
{
	(void)state;
	enum { N = CODEC_TILE + 1000 };
	static float zeros[N];
	struct prng rng;
	struct coding c;
	const char *name;
	prng_seed(&rng, 507);
	float *residual = inputs_make(NORMAL, &rng, N);
	for (unsigned i = 0; coding_at(i, &c, &name); i++) {
		const size_t bytes = codec_bytes(c.codec, N);
		uint8_t *got = guarded(bytes), *want = guarded(bytes);
		float *left = copy_floats(residual, N), *want_left = copy_floats(residual, N);
		codec_encode(&c, zeros, want_left, N, want);
		codec_encode(&c, NULL, left, N, got);
		check_bytes(name, N, got, want, bytes);
		check_same_bits(name, left, want_left, N);
		free(got);
		free(want);
		free(left);
		free(want_left);
	}
	free(residual);
}

/* --- Rows of embeddings */

static void check_rows(struct backend *b, const struct coding *c, const char *name, const float *x, size_t rows, size_t width)
{
	const size_t row_bytes = codec_bytes(c->codec, width), bytes = rows * row_bytes;
	uint8_t *got = guarded(bytes), *want = guarded(bytes);
	for (size_t r = 0; r < rows; r++)
		codec_encode(c, x + r * width, NULL, width, want + r * row_bytes);
	b->ops->encode_rows(b, c, x, rows, width, got);
	check_bytes(name, rows * width, got, want, bytes);
	free(got);
	free(want);
}

static void try_rows(struct backend *b, struct prng *rng)
{
	static const size_t widths[] = {1, 3, 4, 9, 16, 33, 64, 70, 128, 255, 257, 1100, CODEC_TILE + 300};
	for (size_t w = 0; w < COUNT(widths); w++) {
		const size_t width = widths[w], rows = width > CODEC_TILE ? 2 : 1 + prng_below(rng, 40);
		struct coding c;
		const char *name;
		float *x = inputs_make(kind_at(w, w % KINDS), rng, rows * width);
		for (unsigned i = 0; coding_at(i, &c, &name); i++)
			if (c.codec != WEIR_CODEC_SIGN) {
				check_rows(b, &c, name, x, rows, width);
				check_rows(b, &c, name, x, 0, width);
			}
		free(x);
	}
}

static void rows_are_coded_each_on_its_own(void **state)
{
	(void)state;
	on_every_backend(508, try_rows);
}

/* Casts keep NaN and infinity. */
static void try_specials(struct backend *b, struct prng *rng)
{
	(void)rng;
	static const uint32_t bits[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff, 0x7f7fffff, 0x477ff000,
	                                0x80000000, 0,          1,          0x80000001, 0x33000000, 0x38800000};
	static const weir_codec casts[] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16, WEIR_CODEC_FP16};
	float x[COUNT(bits)];
	memcpy(x, bits, sizeof x);
	for (size_t i = 0; i < COUNT(casts); i++)
		check_codec(b, &(struct coding){.codec = casts[i]}, codec_name(casts[i]), x, NULL, COUNT(bits));
}

static void casts_keep_what_is_no_number(void **state)
{
	(void)state;
	on_every_backend(502, try_specials);
}

/* Every backend decodes any codes and scales to the same numbers. */
static void try_any_bytes(struct backend *b, struct prng *rng)
{
	enum { N = 16384 + 1111 };
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++) {
		const size_t bytes = codec_bytes(c.codec, N);
		uint8_t *in = malloc(bytes);
		float *got = poisoned_floats(N), *want = poisoned_floats(N);
		assert_non_null(in);
		for (size_t j = 0; j < bytes; j++)
			in[j] = (uint8_t)prng_u64(rng);
		codec_decode(&c, in, N, want);
		b->ops->decode(b, &c, in, N, got);
		for (size_t j = 0; j < N; j++)
			if (isnan(want[j]) ? !isnan(got[j]) : bits_from(got[j]) != bits_from(want[j]))
				fail_msg("%s: element %zu is %a, expected %a", name, j, (double)got[j], (double)want[j]);
		free(in);
		free(got);
		free(want);
	}
}

static void any_bytes_decode_alike(void **state)
{
	(void)state;
	on_every_backend(503, try_any_bytes);
}

/* --- Top-k */

static size_t records_max(size_t n, weir_values values)
{
	size_t bytes = 0;
	for (size_t at = 0; at < n; at += CODEC_TILE)
		bytes += topk_record_max(codec_tile_elements(n, at), values);
	return bytes;
}

struct row {
	size_t n;
	float *grad, *residual, *velocity; /* velocity: NULL without momentum */
	float scale;
};

static struct row row_copy(const struct row *r)
{
	return (struct row){.n = r->n,
	                    .grad = r->grad,
	                    .residual = copy_floats(r->residual, r->n),
	                    .velocity = r->velocity ? copy_floats(r->velocity, r->n) : NULL,
	                    .scale = r->scale};
}

static void row_free(struct row *r)
{
	free(r->residual);
	free(r->velocity);
}

static struct topk_row row_of(const struct row *r)
{
	return (struct topk_row){.grad = r->grad,
	                         .residual = r->residual,
	                         .momentum = {.velocity = r->velocity, .factor = 0.9f},
	                         .scale = r->scale,
	                         .n = r->n};
}

/* Encodes record after record with topk.h. Returns their bytes. */
static size_t encode_expected(struct row *r, float threshold, weir_values values, uint8_t *out, uint32_t *ends,
                              uint32_t *selected)
{
	size_t bytes = 0;
	for (size_t at = 0; at < r->n; at += CODEC_TILE) {
		const size_t m = codec_tile_elements(r->n, at);
		const struct topk_momentum momentum = {.velocity = r->velocity ? r->velocity + at : NULL, .factor = 0.9f};
		float *scaled = r->grad ? copy_floats(r->grad + at, m) : NULL;
		for (size_t i = 0; i < m && scaled; i++)
			scaled[i] *= r->scale;
		bytes += topk_encode(scaled, r->residual + at, &momentum, m, threshold, values, out + bytes, &selected[at / CODEC_TILE]);
		ends[at / CODEC_TILE] = (uint32_t)bytes;
		free(scaled);
	}
	return bytes;
}

static void check_row(const char *what, const struct row *got, const struct row *want)
{
	check_same_bits(what, got->residual, want->residual, want->n);
	if (want->velocity)
		check_same_bits("velocity", got->velocity, want->velocity, want->n);
}

static void check_topk(struct backend *b, const struct row *given, float threshold, weir_values values)
{
	const size_t n = given->n, tiles = codec_tiles(n), room = records_max(n, values);
	struct row got = row_copy(given), want = row_copy(given);
	uint8_t *out = guarded(room), *want_out = guarded(room);
	uint32_t ends[4], selected[4], want_ends[4], want_selected[4];
	float *back = poisoned_floats(n + 1), *want_back = poisoned_floats(n);
	assert_true(tiles <= COUNT(ends));
	const size_t bytes = encode_expected(&want, threshold, values, want_out, want_ends, want_selected);
	const struct topk_row row = row_of(&got);
	b->ops->topk_encode(b, &row, threshold, values, out, ends, selected);
	for (size_t t = 0; t < tiles; t++) {
		assert_int_equal(ends[t], want_ends[t]);
		assert_int_equal(selected[t], want_selected[t]);
	}
	check_bytes("top-k", n, out, want_out, bytes);
	check_row("residual", &got, &want);
	for (size_t t = 0; t < tiles; t++) {
		const size_t at = t * CODEC_TILE;
		topk_decode_dense(want_out + (t > 0 ? want_ends[t - 1] : 0), codec_tile_elements(n, at), values, want_back + at);
	}
	b->ops->topk_decode(b, want_out, want_ends, n, values, back);
	check_same_bits("decoded", back, want_back, n);
	assert_true(isnan(back[n]));
	row_free(&got);
	row_free(&want);
	free(out);
	free(want_out);
	free(back);
	free(want_back);
}

/* Selected shares of the elements: one, few, enough to fill a record, all. */
static void check_densities(struct backend *b, const struct row *given, size_t combination)
{
	static const double shares[] = {0, 0.01, 0.3, 1};
	float *acc = malloc(given->n * sizeof *acc);
	assert_non_null(acc);
	for (size_t i = 0; i < given->n; i++)
		acc[i] = (given->grad ? given->grad[i] * given->scale : 0) + given->residual[i];
	for (size_t s = 0; s < COUNT(shares); s++) {
		const size_t k = 1 + (size_t)(shares[s] * (double)(given->n - 1));
		const float exact = kth_magnitude(acc, given->n, k);
		check_topk(b, given, exact > TOPK_THRESHOLD_MIN ? exact : TOPK_THRESHOLD_MIN,
		           (weir_values)((s + combination) % WEIR_VALUES));
	}
	check_topk(b, given, FLT_MAX, (weir_values)(combination % WEIR_VALUES)); /* usually none */
	free(acc);
}

static void try_topk(struct backend *b, struct prng *rng)
{
	size_t combination = 0;
	for (size_t s = 0; s < COUNT(sizes); s++)
		for (size_t k = 0; k < KINDS; k++, combination++) {
			const enum inputs kind = kind_at(s, k);
			const size_t n = sizes[s];
			float *grad = inputs_make(kind, rng, n), *residual = inputs_make(kind, rng, n), *velocity = inputs_make(kind, rng, n);
			for (size_t i = 0; i < n; i++) {
				grad[i] *= 0.25f;
				residual[i] *= 0.25f;
				velocity[i] *= 0.25f;
			}
			struct row row = {.n = n, .grad = grad, .residual = residual, .scale = 1};
			check_densities(b, &row, combination);
			row.scale = 0.3f;
			row.velocity = velocity;
			if (kind == NORMAL)
				check_densities(b, &row, combination + 1);
			row.grad = NULL;
			if (kind == NORMAL)
				check_densities(b, &row, combination + 2);
			free(grad);
			free(residual);
			free(velocity);
		}
}

static void top_k_makes_the_same_records(void **state)
{
	(void)state;
	on_every_backend(504, try_topk);
}

static void try_accumulate(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < COUNT(sizes); s++)
		for (int momentum = 0; momentum < 2; momentum++) {
			const size_t n = sizes[s];
			struct row given = {
			    .n = n, .grad = random_floats(rng, n, -1, 1), .residual = random_floats(rng, n, -1, 1), .scale = 0.7f};
			given.velocity = momentum ? random_floats(rng, n, -1, 1) : NULL;
			struct row got = row_copy(&given), want = row_copy(&given);
			float *scaled = copy_floats(given.grad, n);
			for (size_t i = 0; i < n; i++)
				scaled[i] *= given.scale;
			topk_accumulate(scaled, want.residual, &(struct topk_momentum){.velocity = want.velocity, .factor = 0.9f}, n);
			const struct topk_row row = row_of(&got);
			b->ops->topk_accumulate(b, &row);
			check_row("residual", &got, &want);
			row_free(&got);
			row_free(&want);
			row_free(&given);
			free(given.grad);
			free(scaled);
		}
}

static void accumulating_is_the_same(void **state)
{
	(void)state;
	on_every_backend(505, try_accumulate);
}

static void try_threshold(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < COUNT(sizes); s++)
		for (size_t k = 0; k < KINDS; k++) {
			const enum inputs kind = kind_at(s, k);
			const size_t n = sizes[s], ranks[] = {1, 1 + n / 100, 1 + n / 2, n};
			float *x = inputs_make(kind, rng, n);
			for (size_t i = 0; i < COUNT(ranks); i++) {
				weir_error err = {0};
				float got = 0, want = 0;
				assert_int_equal(topk_threshold(x, n, ranks[i], &want, &err), WEIR_OK);
				assert_int_equal(b->ops->topk_threshold(b, x, n, ranks[i], &got, &err), WEIR_OK);
				if (bits_from(got) != bits_from(want))
					fail_msg("%s, number %zu of %zu: %a, expected %a", inputs_name(kind), ranks[i], n, (double)got, (double)want);
			}
			free(x);
		}
}

static void thresholds_are_exact(void **state)
{
	(void)state;
	on_every_backend(506, try_threshold);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(codecs_make_the_same_bytes),     cmocka_unit_test(nothing_added_is_zeros_added),
	    cmocka_unit_test(rows_are_coded_each_on_its_own), cmocka_unit_test(casts_keep_what_is_no_number),
	    cmocka_unit_test(any_bytes_decode_alike),         cmocka_unit_test(top_k_makes_the_same_records),
	    cmocka_unit_test(accumulating_is_the_same),       cmocka_unit_test(thresholds_are_exact),
	};
	return cmocka_run_group_tests_name("compression", tests, NULL, NULL);
}
