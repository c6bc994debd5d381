/* codec_error [elements]: the relative squared error of every codec on three distributions. Beside
 * it, the error of the codec's definition in float64 with exact scales, and published figures.
 * Exits 0 only if no error exceeds TOLERANCE times its limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/book.h"
#include "tests/bench/codec/reference.h"
#include "tests/bench/codec/topk_error.h"

#define ELEMENTS  ((size_t)16 << 20)
#define SEED      7
#define TOLERANCE 1.1

/* A coding. figures: relative squared errors measured elsewhere with scales of 16 or 32 bits. 0:
 * none; the limit is then the error of the definition in float64. A codec whose size does not
 * follow from its number of elements needs an error function of its own. */
struct entry {
	const char *name;
	weir_codec codec;
	weir_book book;
	double figures[DISTRIBUTIONS];
	weir_values values; /* top-k */
};
static const struct entry entries[] = {
    {.name = "fp32", .codec = WEIR_CODEC_FP32},
    {.name = "bf16", .codec = WEIR_CODEC_BF16},
    {.name = "fp16", .codec = WEIR_CODEC_FP16},
    {.name = "int8", .codec = WEIR_CODEC_INT8, .figures = {5e-5, 1e-4}},
    {.name = "fp8_e4m3", .codec = WEIR_CODEC_FP8_E4M3},
    {.name = "fp8_e5m2", .codec = WEIR_CODEC_FP8_E5M2},
    {.name = "int4 nf4", .codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4, .figures = {.0085, .011}},
    {.name = "int4 log", .codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_LOG},
    {.name = "int4 segmented", .codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED},
    {.name = "int2", .codec = WEIR_CODEC_INT2},
    {.name = "sign", .codec = WEIR_CODEC_SIGN},
    {.name = "topk fp32", .codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32},
    {.name = "topk bf16", .codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16},
    {.name = "topk int8", .codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT8, .figures = {1.4e-5, 3e-5}},
    {.name = "topk log4", .codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .figures = {.0005, .0017}},
    /* both magnitudes have seven bits together, whose rounding adds a fifth */
    {.name = "topk int2", .codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT2, .figures = {.0038}},
};

static bool tell(const struct entry *e, enum distribution kind, double ours, double reference, double limit)
{
	const bool holds = ours <= limit;
	char told[32] = "-";
	if (e->figures[kind] > 0)
		snprintf(told, sizeof told, "%.3g", e->figures[kind]);
	printf("%-16s %-18s %12.4g %12.4g %10s %12.4g  %s\n", e->name, distribution_names[kind], ours, reference, told, limit,
	       holds ? "holds" : "DOES NOT HOLD");
	return holds;
}

/* The error over the elements sent: a hundredth, in whole tiles. */
static bool measure_topk(const struct entry *e, enum distribution kind, const float *x, size_t n)
{
	const size_t whole = n / CODEC_TILE * CODEC_TILE;
	float *copy = malloc(whole * sizeof *copy + 1);
	if (copy == NULL || whole == 0)
		return false;
	memcpy(copy, x, whole * sizeof *copy);
	const struct topk_error got = topk_error_of(e->values, copy, whole);
	free(copy);
	return tell(e, kind, got.coded, got.reference, TOLERANCE * (e->figures[kind] > 0 ? e->figures[kind] : got.reference));
}

/* Returns whether the error is within its limit. */
static bool measure(const struct entry *e, enum distribution kind, const float *x, size_t n)
{
	if (e->codec == WEIR_CODEC_TOPK)
		return measure_topk(e, kind, x, n);
	float fitted[CODEC_BOOK];
	const bool segmented = e->codec == WEIR_CODEC_INT4 && e->book == WEIR_BOOK_SEGMENTED;
	struct coding c = {.codec = e->codec, .book = e->codec != WEIR_CODEC_INT4 ? NULL : segmented ? fitted : book_known(e->book)};
	if (segmented)
		book_fit(x, n, fitted);
	/* A fitted book must not be worse than its starting point. */
	const struct coding plain = {.codec = e->codec, .book = segmented ? book_known(WEIR_BOOK_NF4) : c.book};
	const double reference = reference_error(&plain, x, n), figure = e->figures[kind], ours = coded_error(&c, x, n);
	const double limit = (figure > 0 ? figure : reference) * (segmented ? 1 : TOLERANCE);
	return tell(e, kind, ours, reference, limit);
}

int main(int argc, char **argv)
{
	const size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : ELEMENTS;
	float *x = n ? malloc(n * sizeof *x) : NULL;
	if (x == NULL) {
		fprintf(stderr, "codec_error [elements]: elements from 1 up, as many as there is memory for\n");
		return 2;
	}
	unsigned failed = 0;
	printf("%-16s %-18s %12s %12s %10s %12s\n", "codec", "distribution", "error", "float64", "figure", "limit");
	for (int kind = 0; kind < DISTRIBUTIONS; kind++) {
		distribution_fill((enum distribution)kind, SEED + (uint64_t)kind, x, n);
		for (size_t e = 0; e < sizeof entries / sizeof *entries; e++)
			failed += !measure(&entries[e], (enum distribution)kind, x, n);
	}
	free(x);
	printf("%zu elements of each distribution, %u of %zu errors beyond their limits\n", n, failed,
	       DISTRIBUTIONS * (sizeof entries / sizeof *entries));
	return failed > 0;
}
