/* The error of a codec's definition in plain float64, with its blocks, the exact scale and the
 * nearest value; and the error of the codec itself. */
#ifndef WEIR_CODEC_REFERENCE_H
#define WEIR_CODEC_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/prng.h"
#include "kernels/codec.h"

enum distribution { DIST_NORMAL, DIST_LAPLACE, DIST_SCALED, DISTRIBUTIONS };
extern const char *const distribution_names[DISTRIBUTIONS];
#define SCALED_RUN 4096 /* elements that share a factor */

/* Draws x (n): standard normal; Laplace, by its inverse distribution; normal times exp(m), with m
 * standard normal per run. */
void distribution_draw(enum distribution kind, struct prng *r, float *x, size_t n);
void distribution_fill(enum distribution kind, uint64_t seed, float *x, size_t n);

/* Sum of (x - y)^2 over sum of x^2. */
double relative_error(const float *x, const float *y, size_t n);
/* The least squared error that two magnitudes leave of x (n). */
double two_magnitudes_error(const float *x, size_t n);
double reference_error(const struct coding *c, const float *x, size_t n);
/* The error after encoding and decoding x as rows of WEIR_CHUNK elements. */
double coded_error(const struct coding *c, const float *x, size_t n);

#endif
