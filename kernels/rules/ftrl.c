/* FTRL-proximal (McMahan et al. 2013, algorithm 1): its own per-coordinate rate alpha / (beta + sqrt(sum g^2)) with alpha = lr,
 * and its own l1 and l2. slot0: z, slot1: n (the sum of g^2).
 *     sigma = (sqrt(n + g^2) - sqrt(n)) / alpha;  z += g - sigma w;  n += g^2
 *     w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)
 * The value is a function of z and n: an initial value other than 0 fades with the first pushes. A push at rate 0 changes
 * nothing. */
#include "rule.h"

RULE(ftrl)
{
	const float l1 = a->k->l1, l2 = a->k->l2, beta = a->k->ftrl_beta, scale = a->grad_scale;
	if (!(a->lr > 0))
		return;
	const float inverse_alpha = 1.0f / a->lr;
	for (size_t i = 0; i < n; i++) {
		float g = grad[i] * scale;
		float before = __builtin_sqrtf(slot1[i]);
		slot1[i] += g * g;
		float root = __builtin_sqrtf(slot1[i]);
		float z = slot0[i] + (g - (root - before) * inverse_alpha * value[i]);
		slot0[i] = z;
		float shrunk = z - __builtin_copysignf(l1, z);
		float w = -shrunk / ((beta + root) * inverse_alpha + l2);
		value[i] = __builtin_fabsf(z) <= l1 ? 0.0f : w;
	}
}
