#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/book.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_codec.h"

#define GUARD 0xee

static bool has_book(weir_codec codec)
{
	return codec_has_use(codec, WEIR_CODES_BY_BOOK);
}

/* Codecs of fixed size in the order of the map, then those with a book again, with another. */
bool coding_at(unsigned i, struct coding *out, const char **name)
{
	static const weir_book books[] = {WEIR_BOOK_NF4, WEIR_BOOK_LOG};
	static const char *const logs[WEIR_CODECS] = {[WEIR_CODEC_INT4] = "int4 log"};
	for (unsigned b = 0; b < sizeof books / sizeof *books; b++)
		for (unsigned c = 0; c < WEIR_CODECS; c++) {
			const weir_codec codec = (weir_codec)c;
			if (!codec_is_fixed(codec) || (b > 0 && !has_book(codec)) || i-- > 0)
				continue;
			*out = (struct coding){.codec = codec, .book = has_book(codec) ? book_known(books[b]) : NULL};
			*name = b > 0 ? logs[codec] : codec_name(codec);
			return true;
		}
	return false;
}

const char *inputs_name(enum inputs kind)
{
	static const char *const names[INPUTS] = {"normal", "scaled", "zeros", "equal", "denormal", "tiny", "huge", "sparse"};
	return names[kind];
}

float float_from(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

uint32_t bits_from(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static float one_input(enum inputs kind, struct prng *rng, size_t i)
{
	float sign = prng_u64(rng) & 1 ? -1.0f : 1.0f;
	switch (kind) {
	case NORMAL:
		return prng_normal(rng);
	case SCALED:
		return prng_normal(rng) * expf(3 * prng_normal(rng));
	case EQUAL:
		return -0.3f;
	case DENORMAL:
		return sign * float_from((uint32_t)prng_below(rng, 1u << 23));
	case TINY: /* near the magnitude where a scale becomes subnormal */
		return sign * (float)prng_unit(rng) * float_from((uint32_t)(1 + i / 64 % 24) << 23);
	case HUGE_ONES:
		return sign * (i % 5 ? 0x1.fffffep127f * (float)prng_unit(rng) : 0x1.fffffep127f);
	case SPARSE:
		return i % 37 ? sign * 0.0f : sign * 5;
	case ZEROS:
	case INPUTS:
		break;
	}
	return 0;
}

float *inputs_make(enum inputs kind, struct prng *rng, size_t n)
{
	float *x = malloc((n + 1) * sizeof *x);
	assert_non_null(x);
	for (size_t i = 0; i < n; i++)
		x[i] = one_input(kind, rng, i);
	return x;
}

uint8_t *encode_guarded(const struct vector_ops *ops, const struct coding *c, const float *x, float *residual, size_t n)
{
	size_t bytes = codec_bytes(c->codec, n);
	uint8_t *wire = malloc(bytes + 2);
	assert_non_null(wire);
	memset(wire, GUARD, bytes + 2);
	codec_encode_with(ops, c, x, residual, n, wire + 1);
	assert_int_equal(wire[0], GUARD);
	assert_int_equal(wire[bytes + 1], GUARD);
	memmove(wire, wire + 1, bytes);
	return wire;
}

float *decode_guarded(const struct vector_ops *ops, const struct coding *c, const uint8_t *bytes, size_t n)
{
	const uint32_t guard = 0x7fc0beef;
	size_t size = codec_bytes(c->codec, n);
	uint8_t *wire = malloc(size + 3);
	float *out = malloc((n + 2) * sizeof *out);
	assert_non_null(wire);
	assert_non_null(out);
	memcpy(wire + 3, bytes, size);
	out[0] = out[n + 1] = float_from(guard);
	codec_decode_with(ops, c, wire + 3, n, out + 1);
	assert_int_equal(bits_from(out[0]), guard);
	assert_int_equal(bits_from(out[n + 1]), guard);
	memmove(out, out + 1, n * sizeof *out);
	free(wire);
	return out;
}

double minifloat_value(uint32_t code, int mantissa, int low)
{
	uint32_t exponent = code >> mantissa;
	double fraction = (double)(code & ((1u << mantissa) - 1)) / (double)(1u << mantissa);
	return exponent ? ldexp(1 + fraction, (int)exponent - 1 + low) : ldexp(fraction, low);
}

float golden_input(size_t i)
{
	return (float)((int)(i * 37 % 101) - 50) / 64 * (i < CODEC_INT4_BLOCK ? 1 : 16);
}

size_t golden_read(const char *name, uint8_t *out, size_t most)
{
	FILE *f = fopen(GOLDEN_DIR "/codecs.hex", "r");
	assert_non_null(f);
	char line[256];
	size_t n = 0;
	bool mine = false;
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		const bool bytes = strlen(line) == 2 || line[2] == ' ';
		if (!bytes)
			mine = strcmp(line, name) == 0;
		for (char *at = line; bytes && mine && *at; at += strspn(at, " ")) {
			assert_true(n < most);
			out[n++] = (uint8_t)strtoul(at, &at, 16);
		}
	}
	fclose(f);
	return n;
}
