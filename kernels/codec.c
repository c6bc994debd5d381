/* Value codecs: fp32 and bf16 so far; the other ids are reserved and answer "not supported". */
#include "codec.h"

#include <assert.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "crc32c.h"
#include "vector.h"

#define COLD_BYTES_MIN 16384u /* below this a cached copy is as fast */
#define SCAN_BLOCK     4096u  /* numbers looked at twice while they are in the first-level cache */

const char *codec_name(weir_codec codec)
{
	switch (codec) {
#define CODEC_NAME(name, number, text) \
	case WEIR_CODEC_##name:            \
		return text;
		WEIR_CODEC_MAP(CODEC_NAME)
#undef CODEC_NAME
	}
	return NULL;
}

bool codec_from_name(const char *name, weir_codec *out)
{
	static const struct {
		const char *name;
		weir_codec codec;
	} known[] = {
#define CODEC_ENTRY(id, number, text) {text, WEIR_CODEC_##id},
	    WEIR_CODEC_MAP(CODEC_ENTRY)
#undef CODEC_ENTRY
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(name, known[i].name) == 0) {
			*out = known[i].codec;
			return true;
		}
	return false;
}

bool codec_supported(weir_codec codec)
{
	return codec_element_bytes(codec) != 0;
}

size_t codec_element_bytes(weir_codec codec)
{
	return codec == WEIR_CODEC_FP32 ? sizeof(float) : codec == WEIR_CODEC_BF16 ? sizeof(uint16_t) : 0;
}

size_t codec_bytes(weir_codec codec, size_t n)
{
	assert(codec_supported(codec));
	return n * codec_element_bytes(codec);
}

void codec_encode(weir_codec codec, const float *in, size_t n, uint8_t *out)
{
	assert(codec_supported(codec));
	if (codec == WEIR_CODEC_BF16)
		vector_ops_best()->bf16_encode(in, n, out);
	else if (n > 0)
		memcpy(out, in, n * sizeof *in);
}

void codec_decode(weir_codec codec, const uint8_t *in, size_t n, float *out)
{
	assert(codec_supported(codec));
	if (codec == WEIR_CODEC_BF16)
		vector_ops_best()->bf16_decode(in, n, out);
	else if (n > 0)
		memcpy(out, in, n * sizeof *out);
}

#if defined(__x86_64__)
/* Copies with stores that do not read the line they overwrite. */
static void stream_bytes(uint8_t *out, const uint8_t *in, size_t bytes)
{
	size_t head = -(uintptr_t)out % sizeof(__m128i), i = head;
	memcpy(out, in, head);
	for (; i + 4 * sizeof(__m128i) <= bytes; i += 4 * sizeof(__m128i)) {
		const __m128i *from = (const __m128i *)(const void *)(in + i);
		__m128i *to = (__m128i *)(void *)(out + i);
		__m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
		        d = _mm_loadu_si128(from + 3);
		_mm_stream_si128(to, a);
		_mm_stream_si128(to + 1, b);
		_mm_stream_si128(to + 2, c);
		_mm_stream_si128(to + 3, d);
	}
	_mm_sfence();
	memcpy(out + i, in + i, bytes - i);
}
#else
static void stream_bytes(uint8_t *out, const uint8_t *in, size_t bytes)
{
	memcpy(out, in, bytes);
}
#endif

void codec_decode_cold(weir_codec codec, const uint8_t *in, size_t n, float *out)
{
	if (codec == WEIR_CODEC_FP32 && n * sizeof *out >= COLD_BYTES_MIN)
		stream_bytes((uint8_t *)out, in, n * sizeof *out);
	else
		codec_decode(codec, in, n, out);
}

bool codec_all_finite(const float *in, size_t n)
{
	return vector_ops_best()->all_finite(in, n);
}

bool codec_all_finite_crc32c(const float *in, size_t n, uint32_t *crc)
{
	bool finite = true;
	for (size_t at = 0, m; at < n; at += m) {
		m = n - at < SCAN_BLOCK ? n - at : SCAN_BLOCK;
		finite &= codec_all_finite(in + at, m);
		*crc = crc32c(*crc, in + at, m * sizeof *in);
	}
	return finite;
}
