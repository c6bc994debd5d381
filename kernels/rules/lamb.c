/* LAMB (You et al. 2020, algorithm 2) with phi(z) = min(z, 10) as its authors' code has it. The trust ratio is taken over the
 * row: for a dense table that is a chunk of 65,536 elements, not a layer (a departure from the paper). Whole rows only. slot0:
 * m, slot1: v. */
#include "rule.h"

#define NORM_MAX 10.0f

/* r = mhat / (sqrt(vhat) + eps) + wd p, from moments already updated. */
static inline float lamb_direction(const struct rule_args *a, float m, float v, float p)
{
	return m * a->correction1 / (__builtin_sqrtf(v * a->correction2) + a->k->eps) + a->k->weight_decay * p;
}

static inline void lamb_observe(const struct rule_args *a, float p, float *m, float *v, float grad, float *p_squares,
                                float *r_squares)
{
	float g = rule_gradient(a, grad, p);
	*m = a->k->beta1 * *m + a->k->one_minus_beta1 * g;
	*v = a->k->beta2 * *v + a->k->one_minus_beta2 * (g * g);
	float r = lamb_direction(a, *m, *v, p);
	*p_squares += p * p;
	*r_squares += r * r;
}

RULE(lamb)
{
	const struct rule_constants k = *a->k;
	const struct rule_args local = {&k, a->lr, a->grad_scale, a->correction1, a->correction2, NULL};
	struct lanes p_squares = {0}, r_squares = {0};
	size_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (size_t l = 0; l < LANES; l++)
			lamb_observe(&local, value[i + l], &slot0[i + l], &slot1[i + l], grad[i + l], &p_squares.lane[l], &r_squares.lane[l]);
	for (size_t l = 0; i < n; i++, l++)
		lamb_observe(&local, value[i], &slot0[i], &slot1[i], grad[i], &p_squares.lane[l], &r_squares.lane[l]);

	float p_norm = __builtin_sqrtf(lanes_sum(&p_squares)), r_norm = __builtin_sqrtf(lanes_sum(&r_squares));
	float trust = p_norm > 0 && r_norm > 0 ? (p_norm < NORM_MAX ? p_norm : NORM_MAX) / r_norm : 1.0f;
	const float rate = local.lr * trust;
	for (i = 0; i < n; i++)
		value[i] -= rate * lamb_direction(&local, slot0[i], slot1[i], value[i]);
}
