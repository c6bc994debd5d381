/* Rows of random bytes in each codec of fixed size. Every instruction set decodes them alike, with
 * and without streaming stores, and rows reported finite are finite.
 *
 * Input: u8 coding (bit 7: a long row), u16 elements, for a fitted book 16 fp32, the row (padded
 * with zeros). */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/book.h"
#include "kernels/vector.h"

#define HEADER       3u
#define CODINGS      11u
#define LONG         0x80u /* the row may exceed a tile */
#define SHORT_MAX    2100u
#define ELEMENTS_MAX (2u * CODEC_TILE + 1)

/* The last coding takes its book from the input. Returns false for a book that servers refuse. */
static bool coding_of(uint8_t which, const uint8_t **data, size_t *left, float book[CODEC_BOOK], struct coding *out)
{
	static const weir_codec codecs[CODINGS] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16,     WEIR_CODEC_FP16,     WEIR_CODEC_INT8,
	                                           WEIR_CODEC_SIGN, WEIR_CODEC_FP8_E4M3, WEIR_CODEC_FP8_E5M2, WEIR_CODEC_INT2,
	                                           WEIR_CODEC_INT4, WEIR_CODEC_INT4,     WEIR_CODEC_INT4};
	const unsigned i = (which & (LONG - 1)) % CODINGS;
	*out = (struct coding){.codec = codecs[i],
	                       .book = i < 8    ? NULL
	                               : i == 8 ? book_known(WEIR_BOOK_NF4)
	                                        : book_known(WEIR_BOOK_LOG)};
	if (i < CODINGS - 1)
		return true;
	if (*left < CODEC_BOOK * sizeof *book)
		return false;
	memcpy(book, *data, CODEC_BOOK * sizeof *book);
	*data += CODEC_BOOK * sizeof *book;
	*left -= CODEC_BOOK * sizeof *book;
	out->book = book;
	for (size_t k = 0; k < CODEC_BOOK; k++)
		if (!(fabsf(book[k]) <= 1))
			return false;
	return true;
}

/* The same bits, or both NaN: the payload of a NaN is unspecified. */
static void expect_alike(const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert(memcmp(&a[i], &b[i], sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i])));
}

/* Finite rows can be coded, and are finite again. Only bf16 rounds values near its limit to
 * infinity. */
static void code_again(const struct coding *c, const float *x, size_t n, bool finite)
{
	uint8_t *again = malloc(codec_bytes(c->codec, n));
	assert(again);
	if (finite) {
		codec_encode(c, x, NULL, n, again);
		assert(c->codec == WEIR_CODEC_BF16 || codec_is_finite(c, again, n));
	}
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	float book[CODEC_BOOK];
	struct coding c;
	if (size < HEADER)
		return 0;
	const size_t n = 1 + ((size_t)data[1] | (size_t)data[2] << 8) % (data[0] & LONG ? ELEMENTS_MAX : SHORT_MAX);
	const uint8_t *row = data + HEADER;
	size_t left = size - HEADER;
	if (!coding_of(data[0], &row, &left, book, &c))
		return 0;
	const size_t bytes = codec_bytes(c.codec, n);
	uint8_t *in = calloc(1, bytes);
	float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
	assert(in && want && got);
	memcpy(in, row, left < bytes ? left : bytes);
	codec_decode_with(vector_ops_variant(0), &c, in, n, want);
	const bool finite = codec_all_finite(want, n), known = codec_is_finite_with(vector_ops_variant(0), &c, in, n);
	/* With a scale too large for any writer. */
	assert(known == finite || (finite && codec_element_bytes(c.codec) == 0));
	for (unsigned v = 1; vector_ops_variant(v); v++) {
		codec_decode_with(vector_ops_variant(v), &c, in, n, got);
		expect_alike(got, want, n);
		assert(codec_is_finite_with(vector_ops_variant(v), &c, in, n) == known);
	}
	codec_decode_cold(&c, in, n, got);
	expect_alike(got, want, n);
	code_again(&c, want, n, finite);
	free(in);
	free(want);
	free(got);
	return 0;
}

/* A row of each codec: short ones, and one slightly longer than a tile. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	float x[ELEMENTS_MAX], book[CODEC_BOOK];
	struct coding c;
	if (i >= 2 * CODINGS)
		return NULL;
	const size_t n = i < CODINGS ? 77 : CODEC_TILE + 300;
	const bool has_book = i % CODINGS == CODINGS - 1;
	const uint8_t *from = (const uint8_t *)book_known(WEIR_BOOK_NF4);
	size_t left = sizeof book;
	const bool known = coding_of((uint8_t)i, &from, &left, book, &c);
	assert(known);
	(void)known;
	for (size_t k = 0; k < n; k++)
		x[k] = sinf((float)k) * (k % 50 == 0 ? 1e6f : 1);
	const size_t head = HEADER + (has_book ? sizeof book : 0);
	uint8_t *seed = malloc(head + codec_bytes(c.codec, n));
	assert(seed);
	*size = head + codec_bytes(c.codec, n);
	seed[0] = (uint8_t)(i % CODINGS + (i < CODINGS ? 0 : LONG));
	seed[1] = (uint8_t)(n - 1);
	seed[2] = (uint8_t)((n - 1) >> 8);
	memcpy(seed + HEADER, book, has_book ? sizeof book : 0);
	codec_encode(&c, x, NULL, n, seed + head);
	return seed;
}
