/* Names of the update rules in this variant. */
#ifndef WEIR_RULE_H
#define WEIR_RULE_H

#include "kernels/vector.h"

#define RULE(name)                                                                                                             \
	void ISA(rule_##name)(const struct optimizer_step *s, float *restrict value, float *restrict slot0, float *restrict slot1, \
	                      const wire_float *restrict grad, size_t n)

/* One for each optimizer: ISA(rule_sgd) and so on. */
#define RULE_DECLARE(name, number, rule, slots, traits) RULE(rule);
WEIR_OPTIMIZER_MAP(RULE_DECLARE)
#undef RULE_DECLARE

void ISA(topk_accumulate)(const float *restrict grad, float *restrict residual, float *restrict velocity, float factor, size_t n);
size_t ISA(topk_select)(const float *grad, float *residual, float *velocity, float factor, size_t n, float threshold,
                        uint16_t *offsets);
size_t ISA(topk_candidates)(const float *x, size_t n, uint32_t least, uint32_t *out);

void ISA(mix)(uint64_t seed, uint64_t first, uint64_t kind, uint64_t *bits, size_t n);
void ISA(normals)(const uint64_t *bits, float a, float *out, size_t n);

#endif
