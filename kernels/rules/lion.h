/* Lion (Chen et al. 2023, algorithm 2), weight decay scaled by the rate as in AdamW. slot0: the
 * momentum m. The step is the sign of a mix of m and the gradient, so each element moves by the
 * rate or, if the mix is 0, by the decay alone. A NaN gradient makes a NaN. */
#ifndef WEIR_LION_H
#define WEIR_LION_H

#include "kernels/rules/arithmetic.h"

/* c = beta1 m + (1 - beta1) g; p -= lr (sign(c) + decay p); m = beta2 m + (1 - beta2) g */
ALWAYS_INLINE void lion_element(const struct optimizer_step *s, float *value, float *m, float grad)
{
	const float g = rule_gradient(s, grad, *value);
	const float c = s->k.beta1 * *m + s->k.one_minus_beta1 * g;
	const float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : c;
	*value -= s->lr * (sign + s->k.weight_decay * *value);
	*m = s->k.beta2 * *m + s->k.one_minus_beta2 * g;
}

#endif
