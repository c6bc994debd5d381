/* Codecs on one thread, 64 Mi elements in memory. The bytes moved are those of fp32 and of codes.
 * Encoding with feedback reads the gradient, reads and writes the residual (12 bytes per element),
 * and writes the codes. Decoding reads the codes and writes 4 bytes. Compared with a copy's reads
 * and writes. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/book.h"
#include "kernels/codec.h"
#include "kernels/vector.h"
#include "tests/bench/kernels/bench.h"

#define ELEMENTS       ((size_t)64 << 20)
#define FEEDBACK_BYTES 12.0 /* in addition to the codes */

struct coded {
	const struct vector_ops *ops;
	struct coding coding;
	float *x, *residual;
	uint8_t *bytes;
	bool cold;
};

static void encode_once(void *arg)
{
	struct coded *c = arg;
	const size_t row = codec_bytes(c->coding.codec, WEIR_CHUNK);
	for (size_t i = 0; i < ELEMENTS / WEIR_CHUNK; i++)
		codec_encode_with(c->ops, &c->coding, c->x + i * WEIR_CHUNK, c->residual + i * WEIR_CHUNK, WEIR_CHUNK,
		                  c->bytes + i * row);
}

static void decode_once(void *arg)
{
	struct coded *c = arg;
	const size_t row = codec_bytes(c->coding.codec, WEIR_CHUNK);
	for (size_t i = 0; i < ELEMENTS / WEIR_CHUNK; i++)
		if (c->cold)
			codec_decode_cold(&c->coding, c->bytes + i * row, WEIR_CHUNK, c->residual + i * WEIR_CHUNK);
		else
			codec_decode_with(c->ops, &c->coding, c->bytes + i * row, WEIR_CHUNK, c->residual + i * WEIR_CHUNK);
}

static void tell(const char *codec, const char *what, const char *variant, double bytes, double seconds, double traffic)
{
	char line[64];
	snprintf(line, sizeof line, "%s %s, %s", codec, what, variant);
	const double speed = (double)ELEMENTS * bytes / seconds;
	bench_print(line, speed / 1e9, "GB/s", speed / traffic, "a copy's traffic");
}

static void bench_codec(struct coded *c, double traffic)
{
	const char *name = codec_name(c->coding.codec);
	const double codes = (double)codec_bytes(c->coding.codec, WEIR_CHUNK) / WEIR_CHUNK;
	c->cold = false;
	for (unsigned v = 0; (c->ops = vector_ops_variant(v)) != NULL; v++) {
		tell(name, "encode with feedback", c->ops->name, FEEDBACK_BYTES + codes, bench_seconds(encode_once, c), traffic);
		tell(name, "decode", c->ops->name, 4 + codes, bench_seconds(decode_once, c), traffic);
	}
	c->cold = true;
	tell(name, "decode past the caches", vector_ops_best()->name, 4 + codes, bench_seconds(decode_once, c), traffic);
}

void bench_codecs(const struct limits_measured *limits)
{
	static const weir_codec codecs[] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16,     WEIR_CODEC_FP16,
	                                    WEIR_CODEC_INT8, WEIR_CODEC_FP8_E4M3, WEIR_CODEC_FP8_E5M2,
	                                    WEIR_CODEC_INT4, WEIR_CODEC_INT2,     WEIR_CODEC_SIGN};
	struct coded c = {.x = bench_floats(ELEMENTS, 9), .residual = bench_alloc(ELEMENTS * 4), .bytes = bench_alloc(ELEMENTS * 4)};
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
		c.coding = (struct coding){.codec = codecs[i], .book = codecs[i] == WEIR_CODEC_INT4 ? book_known(WEIR_BOOK_NF4) : NULL};
		bench_codec(&c, 2 * limits->copy_bytes_per_s);
	}
	free(c.x);
	free(c.residual);
	free(c.bytes);
}
