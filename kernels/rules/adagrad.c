/* Adagrad (Duchi, Hazan, Singer 2011, fig. 1, diagonal form), and row-wise Adagrad (Naumov et al. 2019, sec. 4: one accumulator
 * per embedding row, holding the sum of the row means of g^2). */
#include "rule.h"

/* slot0: sum of g^2, from `initial` on. h += g^2; p -= lr g / (sqrt(h) + eps) */
RULE(adagrad)
{
	(void)slot1;
	const float lr = a->lr, eps = a->k->eps;
	for (size_t i = 0; i < n; i++) {
		float g = rule_gradient(a, grad[i], value[i]);
		slot0[i] += g * g;
		value[i] -= lr * g / (__builtin_sqrtf(slot0[i]) + eps);
	}
}

/* Whole rows only. The accumulator is in the row's state. */
RULE(row_adagrad)
{
	(void)slot0, (void)slot1;
	struct lanes squares = {0};
	size_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (size_t l = 0; l < LANES; l++) {
			float g = rule_gradient(a, grad[i + l], value[i + l]);
			squares.lane[l] += g * g;
		}
	for (size_t l = 0; i < n; i++, l++) {
		float g = rule_gradient(a, grad[i], value[i]);
		squares.lane[l] += g * g;
	}
	a->state->accumulator += lanes_sum(&squares) / (float)n;
	const float rate = a->lr / (__builtin_sqrtf(a->state->accumulator) + a->k->eps);
	for (i = 0; i < n; i++)
		value[i] -= rate * rule_gradient(a, grad[i], value[i]);
}
