/* Adagrad (Duchi, Hazan, Singer 2011, fig. 1, diagonal form), and row-wise Adagrad (Naumov et al.
 * 2019, sec. 4: one accumulator per embedding row, holding the sum of the row means of g^2). */
#ifndef WEIR_ADAGRAD_H
#define WEIR_ADAGRAD_H

#include "kernels/rules/arithmetic.h"

/* squares: sum of g^2, from `initial` on. h += g^2; p -= lr g / (sqrt(h) + eps) */
ALWAYS_INLINE void adagrad_element(const struct optimizer_step *s, float *value, float *squares, float grad)
{
	float g = rule_gradient(s, grad, *value);
	*squares += g * g;
	*value -= s->lr * g / (__builtin_sqrtf(*squares) + s->k.eps);
}

/* Adds the sum of a row's g^2. Returns the factor of its elements' gradients. */
ALWAYS_INLINE float row_adagrad_rate(const struct optimizer_step *s, float *accumulator, float squares, size_t n)
{
	*accumulator += squares / (float)n;
	return s->lr / (__builtin_sqrtf(*accumulator) + s->k.eps);
}

#endif
