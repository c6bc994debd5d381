/* Value codecs: fp32 and bf16 so far; the other ids are reserved and answer "not supported". */
#include "codec.h"

#include <assert.h>
#include <string.h>

#include "vector.h"

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

bool codec_all_finite(const float *in, size_t n)
{
	return vector_ops_best()->all_finite(in, n);
}
