/* Stochastic gradient descent: plain, with momentum (Polyak 1964), and Nesterov's in the form of Sutskever et al. 2013, eq. 3-4,
 * rewritten so that the stored value is the look-ahead point, as deep learning libraries do. */
#include "rule.h"

RULE(sgd)
{
	(void)slot0, (void)slot1;
	const float lr = a->lr;
	for (size_t i = 0; i < n; i++)
		value[i] -= lr * rule_gradient(a, grad[i], value[i]);
}

/* slot0: velocity. v = mu v + g; p -= lr v */
RULE(momentum)
{
	(void)slot1;
	const float lr = a->lr, mu = a->k->momentum;
	for (size_t i = 0; i < n; i++) {
		slot0[i] = mu * slot0[i] + rule_gradient(a, grad[i], value[i]);
		value[i] -= lr * slot0[i];
	}
}

/* slot0: velocity. v = mu v + g; p -= lr (g + mu v) */
RULE(nesterov)
{
	(void)slot1;
	const float lr = a->lr, mu = a->k->momentum;
	for (size_t i = 0; i < n; i++) {
		float g = rule_gradient(a, grad[i], value[i]);
		slot0[i] = mu * slot0[i] + g;
		value[i] -= lr * (g + mu * slot0[i]);
	}
}
