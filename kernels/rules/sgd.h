/* Stochastic gradient descent: plain, with momentum (Polyak 1964), and Nesterov's in the form of
 * Sutskever et al. 2013, eq. 3-4, rewritten so that the stored value is the look-ahead point, as in
 * deep learning libraries. */
#ifndef WEIR_SGD_H
#define WEIR_SGD_H

#include "kernels/rules/arithmetic.h"

ALWAYS_INLINE void sgd_element(const struct optimizer_step *s, float *value, float grad)
{
	*value -= s->lr * rule_gradient(s, grad, *value);
}

/* v = mu v + g; p -= lr v */
ALWAYS_INLINE void momentum_element(const struct optimizer_step *s, float *value, float *velocity, float grad)
{
	*velocity = s->k.momentum * *velocity + rule_gradient(s, grad, *value);
	*value -= s->lr * *velocity;
}

/* v = mu v + g; p -= lr (g + mu v) */
ALWAYS_INLINE void nesterov_element(const struct optimizer_step *s, float *value, float *velocity, float grad)
{
	float g = rule_gradient(s, grad, *value);
	*velocity = s->k.momentum * *velocity + g;
	*value -= s->lr * (g + s->k.momentum * *velocity);
}

#endif
