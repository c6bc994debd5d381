/* Adam (Kingma, Ba 2015, algorithm 1) and AdamW (Loshchilov, Hutter 2019, algorithm 2, decay scaled
 * by the rate). The step count is the row's own: a rarely pushed embedding row is corrected for its
 * few pushes. */
#ifndef WEIR_ADAM_H
#define WEIR_ADAM_H

#include "kernels/rules/arithmetic.h"

/* m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2 */
ALWAYS_INLINE void adam_moments(const struct optimizer_step *s, float *m, float *v, float g)
{
	*m = s->k.beta1 * *m + s->k.one_minus_beta1 * g;
	*v = s->k.beta2 * *v + s->k.one_minus_beta2 * (g * g);
}

/* mhat / (sqrt(vhat) + eps) */
ALWAYS_INLINE float adam_direction(const struct optimizer_step *s, float m, float v)
{
	return m * s->correction1 / (__builtin_sqrtf(v * s->correction2) + s->k.eps);
}

ALWAYS_INLINE void adam_element(const struct optimizer_step *s, float *value, float *m, float *v, float grad)
{
	adam_moments(s, m, v, rule_gradient(s, grad, *value));
	*value -= s->lr * adam_direction(s, *m, *v);
}

ALWAYS_INLINE void adamw_element(const struct optimizer_step *s, float *value, float *m, float *v, float grad)
{
	adam_moments(s, m, v, rule_gradient(s, grad, *value));
	*value -= s->lr * (adam_direction(s, *m, *v) + s->k.weight_decay * *value);
}

#endif
