#include "common/base/codec_traits.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct codec_traits {
	const char *name;
	weir_feedback feedback;
	unsigned uses; /* of enum weir_codec_use */
};

static const struct codec_traits traits[WEIR_CODECS] = {
#define TRAITS(id, number, text, kept, codes) \
	[WEIR_CODEC_##id] = {.name = #text, .feedback = WEIR_FEEDBACK_##kept, .uses = (codes)},
    WEIR_CODEC_MAP(TRAITS)
#undef TRAITS
};

static bool is_known(weir_codec codec)
{
	return (unsigned)codec < WEIR_CODECS;
}

const char *codec_name(weir_codec codec)
{
	return is_known(codec) ? traits[codec].name : NULL;
}

bool codec_from_name(const char *name, weir_codec *out)
{
	for (unsigned i = 0; i < WEIR_CODECS; i++)
		if (strcmp(name, traits[i].name) == 0) {
			*out = (weir_codec)i;
			return true;
		}
	return false;
}

weir_feedback codec_feedback(weir_codec codec)
{
	return is_known(codec) ? traits[codec].feedback : WEIR_FEEDBACK_NEVER;
}

bool codec_has_use(weir_codec codec, enum weir_codec_use use)
{
	return is_known(codec) && (traits[codec].uses & (unsigned)use);
}

bool values_are_for_pulls(weir_values values)
{
	static const bool pulled[WEIR_VALUES] = {
#define PULLED(id, number, text, pulls) [WEIR_VALUES_##id] = (pulls),
	    WEIR_VALUES_MAP(PULLED)
#undef PULLED
	};
	return (unsigned)values < WEIR_VALUES && pulled[values];
}

void codec_names(enum weir_codec_use use, char out[CODEC_NAMES_BYTES])
{
	size_t at = 0;
	out[0] = 0;
	for (unsigned i = 0; i < WEIR_CODECS; i++) {
		if (!codec_has_use((weir_codec)i, use))
			continue;
		at += (size_t)snprintf(out + at, CODEC_NAMES_BYTES - at, "%s%s", at ? ", " : "", traits[i].name);
		assert(at < CODEC_NAMES_BYTES);
	}
}
