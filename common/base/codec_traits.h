/* The map of codecs (weir/table.h) as a table: names, feedback, uses. The bytes of each codec are in
 * kernels/codecs/form.h. */
#ifndef WEIR_CODEC_TRAITS_H
#define WEIR_CODEC_TRAITS_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/table.h"

const char *codec_name(weir_codec codec); /* "bf16"; NULL for an unknown id */
bool codec_from_name(const char *name, weir_codec *out);
/* NEVER for an unknown id. */
weir_feedback codec_feedback(weir_codec codec);
/* False for an unknown id. */
bool codec_has_use(weir_codec codec, enum weir_codec_use use);
/* The names of the codecs that have a use, with commas between them. */
#define CODEC_NAMES_BYTES 128
void codec_names(enum weir_codec_use use, char out[CODEC_NAMES_BYTES]);

/* Whether top-k's differences in this format come to an end; false for an unknown one. */
bool values_are_for_pulls(weir_values values);

#endif
