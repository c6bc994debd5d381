/* Delayed Nesterov (Liu et al. 2024, arXiv 2401.09135, algorithm 3): the outer rule of asynchronous local SGD. Pushes are
 * pseudo-gradients (start - end of a worker's round). Between two windows of N pushes a push moves the value without momentum;
 * the momentum is updated once per window, with the window's mean. slot0: m, slot1: the window's sum.
 *     buf += g; t += 1
 *     t mod N != 0:  p -= lr g / N
 *     else:          m = mu m + buf / N;  p -= lr (g / N + mu m);  buf = 0 */
#include "rule.h"

RULE(delayed_nesterov)
{
	const float lr = a->lr, mu = a->k->momentum, share = 1.0f / (float)a->k->window;
	if (a->state->steps % a->k->window != 0) {
		for (size_t i = 0; i < n; i++) {
			float g = rule_gradient(a, grad[i], value[i]);
			slot1[i] += g;
			value[i] -= lr * (g * share);
		}
		return;
	}
	for (size_t i = 0; i < n; i++) {
		float g = rule_gradient(a, grad[i], value[i]);
		float m = mu * slot0[i] + (slot1[i] + g) * share;
		slot0[i] = m;
		slot1[i] = 0;
		value[i] -= lr * (g * share + mu * m);
	}
}
