/* FTRL-proximal (McMahan et al. 2013, algorithm 1): its own per-coordinate rate
 * alpha / (beta + sqrt(sum g^2)) with alpha = lr, and its own l1 and l2. squares: n, the sum of
 * g^2.
 *     sigma = (sqrt(n + g^2) - sqrt(n)) / alpha;  z += g - sigma w;  n += g^2
 *     w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)
 * The value is a function of z and n: an initial value other than 0 fades with the first pushes. A
 * push at rate 0 changes nothing. */
#ifndef WEIR_FTRL_H
#define WEIR_FTRL_H

#include "kernels/rules/arithmetic.h"

ALWAYS_INLINE bool ftrl_does_nothing(const struct optimizer_step *s)
{
	return !(s->lr > 0);
}

/* inverse_alpha: 1 / lr */
ALWAYS_INLINE void ftrl_element(const struct optimizer_step *s, float inverse_alpha, float *value, float *z, float *squares,
                                float grad)
{
	const float g = grad * s->grad_scale, before = __builtin_sqrtf(*squares);
	*squares += g * g;
	const float root = __builtin_sqrtf(*squares), sum = *z + (g - (root - before) * inverse_alpha * *value);
	*z = sum;
	const float shrunk = sum - __builtin_copysignf(s->k.l1, sum);
	const float w = -shrunk / ((s->k.ftrl_beta + root) * inverse_alpha + s->k.l2);
	*value = __builtin_fabsf(sum) <= s->k.l1 ? 0.0f : w;
}

#endif
