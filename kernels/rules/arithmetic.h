/* What the update rules are written in: fp32 operations that IEEE 754 defines exactly, without contraction, on one element. Each rule has a header here, for C
 * and for CUDA C: every instruction set and a GPU give the same bits. */
#ifndef WEIR_RULE_ARITHMETIC_H
#define WEIR_RULE_ARITHMETIC_H

#include "kernels/bits.h"
#include "kernels/optimizer.h"

/* The gradient that rules see: scaled, with L2 of the value added. */
ALWAYS_INLINE float rule_gradient(const struct optimizer_step *s, float grad, float value)
{
	return grad * s->grad_scale + s->k.l2 * value;
}

#endif
