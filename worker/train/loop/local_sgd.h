/* Local SGD: a worker takes steps on its own copy of a dense table, and from time to time pushes
 * their result as a gradient. This is DiLoCo (arXiv 2311.08105), its asynchronous form (arXiv
 * 2401.09135), and, with fragments, overlap and merge, its streaming one (arXiv 2501.18512).
 *
 * A round is H batches of a work unit, or fewer at the unit's end; H comes with the lease
 * (weir_unit.local_steps). The table is divided into fragments, which are runs of its chunks. The
 * round's batch number (f + 1) H / P pushes fragment f of P, and the unit's last batch pushes all:
 *
 *     delta = global - own
 *
 * where global is the fragment as last pulled from the servers. It is pulled again once that push
 * is acknowledged, and taken in `overlap` batches after the push:
 *
 *     own = merge * pulled + (1 - merge) * own
 *
 * A unit begins with everything pulled. Nothing carries over from one unit to the next except the
 * inner optimizer's moments.
 *
 * All values are in the backend's memory: a device gets the pulled values and gives the pushed
 * ones.
 *
 * Pulls and pushes of a round name the batch that pushes next: synchronous rounds are steps whose
 * members are such batches. */
#ifndef WEIR_LOCAL_SGD_H
#define WEIR_LOCAL_SGD_H

#include "kernels/backend.h"
#include "weir/weir.h"

struct local_sgd;

struct local_sgd_options {
	uint64_t elements;
	const weir_optimizer *inner;
	/* (segments_count) elements that its weight decay leaves out */
	const weir_init_segment *segments;
	uint32_t segments_count;
	uint32_t fragments, overlap;
	float merge;
};

/* Takes 8 bytes of the backend's memory per element, plus the inner optimizer's slots, and 4 of the
 * host's. E_INVALID: there are fewer chunks than fragments; E_MEMORY. */
weir_status local_sgd_create(struct local_sgd **out, struct backend *b, const struct local_sgd_options *options, weir_error *err);
void local_sgd_destroy(struct local_sgd *l);
/* Resets to the initial state: everything under way has been dropped. Waits for pulls. */
void local_sgd_forget(struct local_sgd *l, weir_client *client);

/* A batch at work. `sequence` counts the worker's pushes from 1, and is the number of this
 * batch's. */
struct local_sgd_batch {
	weir_client *client;
	uint32_t table;
	const weir_unit *unit;
	uint32_t batch, batches;
	uint64_t sequence;
};

/* The push that must be acknowledged before local_sgd_begin; 0: none. */
uint64_t local_sgd_waits_for(const struct local_sgd *l, const struct local_sgd_batch *b);
/* Pushes up to this one are acknowledged: pulls the fragments that they pushed. */
weir_status local_sgd_acknowledged(struct local_sgd *l, const struct local_sgd_batch *b, uint64_t sequence, weir_error *err);
/* Before the batch is computed: takes in the fragments that are due. */
weir_status local_sgd_begin(struct local_sgd *l, const struct local_sgd_batch *b, weir_error *err);
/* The model's input: (elements), the backend's memory, the same address throughout. */
const float *local_sgd_parameters(const struct local_sgd *l);
/* One step of its own. rate_step: position in the inner optimizer's schedule. grad (elements), in
 * the backend's memory, becomes the deltas of the chunks that this batch pushes. *chunks: their
 * numbers (*count), rising, borrowed; 0: nothing of this table. */
void local_sgd_step(struct local_sgd *l, const struct local_sgd_batch *b, uint64_t rate_step, float *grad,
                    const uint64_t **chunks, size_t *count);

#endif
