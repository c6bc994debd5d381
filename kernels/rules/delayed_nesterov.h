/* Delayed Nesterov (Liu et al. 2024, arXiv 2401.09135, algorithm 3): the outer rule of asynchronous
 * local SGD. Pushes are pseudo-gradients (start - end of a worker's round). Within a window of N
 * pushes a push moves the value without momentum. The momentum is updated once per window, with the
 * window's mean. sum: the window's.
 *     buf += g; t += 1
 *     t mod N != 0:  p -= lr g / N
 *     else:          m = mu m + buf / N;  p -= lr (g / N + mu m);  buf = 0 */
#ifndef WEIR_DELAYED_NESTEROV_H
#define WEIR_DELAYED_NESTEROV_H

#include "kernels/rules/arithmetic.h"

ALWAYS_INLINE bool delayed_nesterov_ends_window(const struct optimizer_step *s)
{
	return s->steps % s->k.window == 0;
}

/* share: 1 / N */
ALWAYS_INLINE void delayed_nesterov_element(const struct optimizer_step *s, bool ends_window, float share, float *value,
                                            float *momentum, float *sum, float grad)
{
	const float g = rule_gradient(s, grad, *value);
	if (!ends_window) {
		*sum += g;
		*value -= s->lr * (g * share);
		return;
	}
	const float m = s->k.momentum * *momentum + (*sum + g) * share;
	*momentum = m;
	*sum = 0;
	*value -= s->lr * (g * share + s->k.momentum * m);
}

#endif
