/* The optimizers of the kernel tests. */
#ifndef WEIR_TESTS_CHECK_OPTIMIZER_H
#define WEIR_TESTS_CHECK_OPTIMIZER_H

#include "kernels/optimizer.h"

/* An optimizer of this kind, with every setting that the kind knows. */
static inline weir_optimizer check_optimizer(weir_optimizer_kind kind)
{
	return (weir_optimizer){.kind = kind,
	                        .lr = 0.05f,
	                        .momentum = 0.9f,
	                        .beta1 = 0.9f,
	                        .beta2 = 0.999f,
	                        .eps = 1e-6f,
	                        .initial = 0.1f,
	                        .weight_decay = 0.01f,
	                        .l1 = kind == WEIR_OPT_FTRL ? 0.3f : 0,
	                        .l2 = 0.02f,
	                        .ftrl_beta = 1,
	                        .window = 4};
}

#endif
