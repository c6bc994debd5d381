/* Shared by the update rules: their names in this variant, and sums in a fixed order. */
#ifndef WEIR_RULE_H
#define WEIR_RULE_H

#include <string.h>

#include "vector.h"

#define RULE(name)                                                                                                        \
	void ISA(rule_##name)(const struct rule_args *a, float *restrict value, float *restrict slot0, float *restrict slot1, \
	                      const wire_float *restrict grad, size_t n)

RULE(sgd);
RULE(momentum);
RULE(nesterov);
RULE(adagrad);
RULE(row_adagrad);
RULE(adam);
RULE(adamw);
RULE(lamb);
RULE(ftrl);
RULE(delayed_nesterov);
RULE(average);

void ISA(topk_accumulate)(const float *restrict grad, float *restrict residual, float *restrict velocity, float factor, size_t n);
size_t ISA(topk_select)(const float *grad, float *residual, float *velocity, float factor, size_t n, float threshold,
                        uint16_t *offsets);
size_t ISA(topk_candidates)(const float *x, size_t n, uint32_t least, uint32_t *out);

/* The gradient that rules see: scaled, with L2 of the value added. */
static inline float rule_gradient(const struct rule_args *a, float grad, float value)
{
	return grad * a->grad_scale + a->k->l2 * value;
}

/* Sixteen lanes: element i adds to lane i mod 16; lanes are then added pairwise. On every instruction set the same additions. */
#define LANES 16
struct lanes {
	float lane[LANES];
};

static inline float lanes_sum(const struct lanes *l)
{
	float s[LANES];
	memcpy(s, l->lane, sizeof s);
	for (int half = LANES / 2; half > 0; half /= 2)
		for (int i = 0; i < half; i++)
			s[i] += s[i + half];
	return s[0];
}

#endif
