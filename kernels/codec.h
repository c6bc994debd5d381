/* Value codecs. Every codec of ALGORITHMS.md has an id (weir/table.h) and room in the frame; this build encodes and decodes those for
 * which codec_supported is true. Encoders and decoders are stateless here; error feedback wraps them in the client. */
#ifndef WEIR_CODEC_H
#define WEIR_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "weir/table.h"

const char *codec_name(weir_codec codec); /* "bf16"; NULL for an unknown id */
bool codec_from_name(const char *name, weir_codec *out);
bool codec_supported(weir_codec codec);
/* Exact size of n encoded elements, for codecs of fixed size (fp32, bf16). */
size_t codec_bytes(weir_codec codec, size_t n);
/* Bytes per element for codecs whose stream may be cut at any element (fp32 4, bf16 2); 0 otherwise. */
size_t codec_element_bytes(weir_codec codec);
void codec_encode(weir_codec codec, const float *in, size_t n, uint8_t *out); /* out (codec_bytes), any alignment */
void codec_decode(weir_codec codec, const uint8_t *in, size_t n, float *out);
/* The same into memory that is larger than the caches: written past them where the processor can, which spares reading it first. */
void codec_decode_cold(weir_codec codec, const uint8_t *in, size_t n, float *out);
/* Whether all are finite, one pass. */
bool codec_all_finite(const float *in, size_t n);
/* The same, and the crc32c of their bytes appended to *crc, in one pass over memory. */
bool codec_all_finite_crc32c(const float *in, size_t n, uint32_t *crc);

#endif
