/* The loss of one logit (click_loss.h), in double and in forms that overflow for no logit, for C
 * and for CUDA C. */
#ifndef WEIR_CLICK_LOSS_AT_H
#define WEIR_CLICK_LOSS_AT_H

#include <math.h>

#include "kernels/bits.h"
#include "kernels/click_loss.h"

struct loss_at {
	double loss, slope; /* slope: d(loss)/dz */
};

ALWAYS_INLINE struct loss_at click_loss_at(const struct click_loss *l, double z, double label)
{
	const double smoothing = (double)l->label_smoothing, more = (double)l->pos_weight - 1;
	const double y = label * (1 - smoothing) + smoothing / 2;
	const double e = exp(-fabs(z)), rest = log1p(e); /* e in (0, 1] */
	const double p = (z >= 0 ? 1 : e) / (1 + e), q = (z >= 0 ? e : 1) / (1 + e);
	const double ce = fmax(z, 0.0) - z * y + rest + more * y * (fmax(-z, 0.0) + rest);
	const double slope = p - y - more * y * q;
	struct loss_at at = {ce, slope};
	if (l->focal) {
		const double miss = y * q + (1 - y) * p, gamma = (double)l->gamma, alpha = (double)l->alpha;
		const double factor = (isnan(alpha) ? 1 : y * alpha + (1 - y) * (1 - alpha)) * pow(miss, gamma);
		/* d(miss)/dz / miss; miss is 0 where the logit is far out on the right side */
		const double turn = miss > 0 ? p * q * (1 - 2 * y) / miss : 0;
		at.loss = factor * ce;
		at.slope = factor * (slope + gamma * turn * ce);
	}
	return at;
}

/* Element i of the rows, times its weights; 0 without a label. */
ALWAYS_INLINE struct loss_at click_loss_of(const struct click_loss *l, const struct click_rows *x, size_t i)
{
	const size_t row = x->tasks == 1 ? i : i / x->tasks, task = i - row * x->tasks;
	const struct loss_at none = {0, 0};
	if (isnan(x->labels[i]))
		return none;
	struct loss_at at = click_loss_at(l, (double)x->logits[i], (double)x->labels[i]);
	const double weight = (x->weights ? (double)x->weights[row] : 1) * (x->task_weights ? (double)x->task_weights[task] : 1);
	at.loss *= weight;
	at.slope *= weight;
	return at;
}

#endif
