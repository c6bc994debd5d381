/* Adam (Kingma, Ba 2015, algorithm 1) and AdamW (Loshchilov, Hutter 2019, algorithm 2, decay scaled by the rate).
 * slot0: m, slot1: v. The step count is the row's own, so that a rarely pushed embedding row is corrected for its few pushes. */
#include "rule.h"

/* Updates the moments with g and returns mhat / (sqrt(vhat) + eps). */
static inline float adam_direction(const struct rule_args *a, float *m, float *v, float g)
{
	*m = a->k->beta1 * *m + a->k->one_minus_beta1 * g;
	*v = a->k->beta2 * *v + a->k->one_minus_beta2 * (g * g);
	return *m * a->correction1 / (__builtin_sqrtf(*v * a->correction2) + a->k->eps);
}

RULE(adam)
{
	const struct rule_constants k = *a->k; /* copies: the stores below cannot change them */
	const struct rule_args local = {&k, a->lr, a->grad_scale, a->correction1, a->correction2, NULL};
	for (size_t i = 0; i < n; i++)
		value[i] -= local.lr * adam_direction(&local, &slot0[i], &slot1[i], rule_gradient(&local, grad[i], value[i]));
}

RULE(adamw)
{
	const struct rule_constants k = *a->k;
	const struct rule_args local = {&k, a->lr, a->grad_scale, a->correction1, a->correction2, NULL};
	for (size_t i = 0; i < n; i++) {
		float r = adam_direction(&local, &slot0[i], &slot1[i], rule_gradient(&local, grad[i], value[i]));
		value[i] -= local.lr * (r + k.weight_decay * value[i]);
	}
}
