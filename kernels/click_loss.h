/* The loss of clicks of logits, one label each. With p = sigmoid(z) and the smoothed label
 * y = label (1 - s) + s / 2:
 *
 *     ce    = -(w y log p + (1 - y) log(1 - p))        w = pos_weight
 *     focal = alpha_y (1 - p_y)^gamma ce               Lin et al. 2017, eq. 5
 *
 * with 1 - p_y = y (1 - p) + (1 - y) p and alpha_y = y alpha + (1 - y) (1 - alpha). The names and
 * the order of smoothing are those of PyTorch's BCEWithLogitsLoss and Keras's
 * BinaryFocalCrossentropy. click_loss_at.h computes it. */
#ifndef WEIR_CLICK_LOSS_H
#define WEIR_CLICK_LOSS_H

#include <stdbool.h>
#include <stddef.h>

struct click_loss {
	bool focal;
	float gamma, alpha; /* focal; alpha NaN: both classes count alike */
	float label_smoothing, pos_weight;
};

/* Binary cross-entropy. */
#define CLICK_LOSS_PLAIN ((struct click_loss){.pos_weight = 1})

/* The rows that a loss is of. */
struct click_rows {
	const float *logits, *labels; /* (rows, tasks); a label that is NaN has no loss */
	const float *weights;         /* (rows), or NULL: all 1 */
	const float *task_weights;    /* (tasks), or NULL: all 1 */
	size_t rows, tasks;
};

#endif
