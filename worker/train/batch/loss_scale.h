/* Dynamic loss scaling. fp16 cannot represent values below 6e-8, which many gradients are, but has
 * room above. So the loss, and with it every gradient, is multiplied by a power of two while
 * products are formed, and gradients are divided by it before any other use. If a gradient becomes
 * infinite or NaN, the batch is left out and the scale is halved. After LOSS_SCALE_GROWS_WITH clean
 * batches it is doubled (Micikevicius et al. 2018, arXiv 1710.03740, sec. 3.2; numbers as in
 * NVIDIA's Apex and PyTorch's GradScaler). */
#ifndef WEIR_LOSS_SCALE_H
#define WEIR_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#define LOSS_SCALE_FIRST 65536.0f /* 2^16 */
/* 2^24: fp32, in which gradients are summed, keeps its range */
#define LOSS_SCALE_MOST       16777216.0f
#define LOSS_SCALE_LEAST      1.0f
#define LOSS_SCALE_GROWS_WITH 2000u /* consecutive batches */

struct loss_scale {
	float value;    /* for batches computed from now on; 0: not needed */
	uint32_t clean; /* batches since the scale changed, or since one was left out */
};

static inline struct loss_scale loss_scale_first(bool needed)
{
	return (struct loss_scale){.value = needed ? LOSS_SCALE_FIRST : 0};
}

/* Notes a batch that was computed with the scale `used`. Returns whether to leave it out because of
 * the scale. A batch that is not finite at the least scale is treated as any batch that is not
 * finite, because no smaller scale is left. */
bool loss_scale_note(struct loss_scale *s, float used, bool finite);

#endif
