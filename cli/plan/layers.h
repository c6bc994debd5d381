/* Which layers' gradients travel together. Backward computes the last layer first. A bucket is a
 * run of layers in that order; it is sent once its last layer is computed and the card is free.
 * Small buckets begin early, and pay for a message each.
 *
 * The recurrence over the boundaries is PipeDream's (Narayanan et al. 2019, arXiv 1806.03377) with
 * the card as the only stage: to be done earlier with a prefix is never worse, so
 *
 *     done(j) = min over i < j of max(ready(j), done(i)) + message + bytes(i..j) / rate
 *
 * in O(K^2). With train.overlap: off, the dense table moves whole (done with one bucket). Otherwise
 * parts of a chunk leave as soon as they are final, whatever the layers' bounds: a message packs
 * those that are ready together, so a message's price is small, and the plan sets no bounds. It
 * reports what the best ones leave exposed. */
#ifndef WEIR_PLAN_LAYERS_H
#define WEIR_PLAN_LAYERS_H

#include "cli/plan/figures.h"

/* In the order of backward. */
struct plan_layers {
	uint32_t count;
	double compute_s[PLAN_LAYERS_MAX], bytes[PLAN_LAYERS_MAX];
	double message_s, bytes_per_s;
};

struct plan_buckets {
	uint32_t count;
	uint32_t end[PLAN_LAYERS_MAX]; /* of each bucket: the layer behind its last one */
	double exposed_s;              /* from the end of backward until the last byte has left */
};

void plan_layers_join(const struct plan_layers *l, struct plan_buckets *out);
/* With the given boundaries. */
double plan_layers_exposed_s(const struct plan_layers *l, const uint32_t *end, uint32_t count);

#endif
