/* The dense table on its way through a batch. If its values arrive layer by layer, the forward pass
 * waits for each layer's own values; if its gradients leave layer by layer, the backward pass says
 * which are final. So both travel while the model computes. Offsets and lengths are elements of the
 * dense table.
 *
 * Only for backends in host memory, where an op is complete when it returns. */
#ifndef WEIR_LAYER_FLOW_H
#define WEIR_LAYER_FLOW_H

#include <stdint.h>

struct layer_flow {
	/* Returns when the values are there. Call it before their first use; further calls are
	 * cheap. */
	void (*await)(void *arg, uint64_t offset, uint64_t elements);
	/* The gradients will not change any more. Each element is named at most once; those that are
	 * not named are final when the batch has been trained. */
	void (*done)(void *arg, uint64_t offset, uint64_t elements);
	void *arg;
};

/* f may be NULL: everything is there, and leaves as a whole. */
static inline void layer_flow_await(const struct layer_flow *f, uint64_t offset, uint64_t elements)
{
	if (f && elements > 0)
		f->await(f->arg, offset, elements);
}

static inline void layer_flow_done(const struct layer_flow *f, uint64_t offset, uint64_t elements)
{
	if (f && elements > 0)
		f->done(f->arg, offset, elements);
}

#endif
