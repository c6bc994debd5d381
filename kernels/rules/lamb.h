/* LAMB (You et al. 2020, algorithm 2) with phi(z) = min(z, 10) as in its authors' code. The trust
 * ratio is taken over the row: for a dense table that is a chunk of 65,536 elements, not a layer (a
 * departure from the paper). Whole rows only. */
#ifndef WEIR_LAMB_H
#define WEIR_LAMB_H

#include "kernels/rules/adam.h"

#define LAMB_NORM_MAX 10.0f

/* r = mhat / (sqrt(vhat) + eps) + wd p, from updated moments. */
ALWAYS_INLINE float lamb_direction(const struct optimizer_step *s, float m, float v, float p)
{
	return adam_direction(s, m, v) + s->k.weight_decay * p;
}

/* The factor of a row's directions, given the sums of squares of p and r. */
ALWAYS_INLINE float lamb_rate(const struct optimizer_step *s, float p_squares, float r_squares)
{
	const float p_norm = __builtin_sqrtf(p_squares), r_norm = __builtin_sqrtf(r_squares);
	const float trust = p_norm > 0 && r_norm > 0 ? (p_norm < LAMB_NORM_MAX ? p_norm : LAMB_NORM_MAX) / r_norm : 1.0f;
	return s->lr * trust;
}

#endif
