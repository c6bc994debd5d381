/* Dynamic loss scaling: fp16 has nothing below 6e-8, where many gradients are, and room above. The loss, and so every gradient, is multiplied by a power of two while
 * products are made of it, and gradients are divided by it again before they go anywhere. Where one has become infinite, or NaN, the batch is left out and the scale is
 * halved; it is doubled after so many batches without (Micikevicius et al. 2018, arXiv 1710.03740, sec. 3.2; numbers as in NVIDIA's Apex and PyTorch's GradScaler). */
#ifndef WEIR_LOSS_SCALE_H
#define WEIR_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#define LOSS_SCALE_FIRST      65536.0f    /* 2^16 */
#define LOSS_SCALE_MOST       16777216.0f /* 2^24: fp32, in which gradients are summed up, keeps its range */
#define LOSS_SCALE_LEAST      1.0f
#define LOSS_SCALE_GROWS_WITH 2000u /* batches one after the other */

struct loss_scale {
	float value;    /* of the batches that are computed from now on; 0: none is needed */
	uint32_t clean; /* batches since it changed, or since one was left out */
};

static inline struct loss_scale loss_scale_first(bool needed)
{
	return (struct loss_scale){.value = needed ? LOSS_SCALE_FIRST : 0};
}

/* Takes note of a batch that was computed with the scale `used`. Whether it is to be left out on account of the scale: one that is not finite with the least scale has no
 * smaller one to wait for, and is what any batch is that is not finite. */
bool loss_scale_note(struct loss_scale *s, float used, bool finite);

#endif
