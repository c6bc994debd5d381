/* The arithmetic of the update rules: fp32 operations on one element that IEEE 754 defines exactly,
 * without contraction. Each rule has a header here, for C and for CUDA C: every instruction set and
 * a GPU give the same bits. */
#ifndef WEIR_ARITHMETIC_H
#define WEIR_ARITHMETIC_H

#include "kernels/bits.h"
#include "kernels/optimizer.h"

/* The rules' gradient: scaled, plus L2 of the value. */
ALWAYS_INLINE float rule_gradient(const struct optimizer_step *s, float grad, float value)
{
	return grad * s->grad_scale + s->k.l2 * value;
}

#endif
