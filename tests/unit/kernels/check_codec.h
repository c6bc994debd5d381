/* Shared by the codec tests: all codings, hard inputs, and rows coded between guards. Include after
 * cmocka. */
#ifndef WEIR_TESTS_CHECK_CODEC_H
#define WEIR_TESTS_CHECK_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/prng.h"
#include "kernels/codec.h"
#include "kernels/vector.h"

/* The i-th coding (int4 with several books) and its name; false after the last one. */
bool coding_at(unsigned i, struct coding *out, const char **name);

enum inputs { NORMAL, SCALED, ZEROS, EQUAL, DENORMAL, TINY, HUGE_ONES, SPARSE, INPUTS };
const char *inputs_name(enum inputs kind);
/* n finite numbers of a kind, malloc'ed. */
float *inputs_make(enum inputs kind, struct prng *rng, size_t n);

float float_from(uint32_t bits);
uint32_t bits_from(float x);

/* Codes x (n) with a variant, at an odd address. Fails if a byte around the output changes. Returns
 * malloc'ed bytes. */
uint8_t *encode_guarded(const struct vector_ops *ops, const struct coding *c, const float *x, float *residual, size_t n);
/* Decodes in the same way; malloc'ed. */
float *decode_guarded(const struct vector_ops *ops, const struct coding *c, const uint8_t *bytes, size_t n);

/* The float64 value of a code of few bits: sign bit, exponent, mantissa (FP16 5 and 10, E4M3 4 and
 * 3, E5M2 5 and 2). */
double minifloat_value(uint32_t code, int mantissa, int low);

/* Reads tests/golden/codecs.hex: the elements, multiples of 1/64, and a codec's bytes for them, up
 * to a capacity. */
enum { GOLDEN_ELEMENTS = 75 };
float golden_input(size_t i);
size_t golden_read(const char *name, uint8_t *out, size_t most);

#endif
