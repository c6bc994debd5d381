/* Local SGD: a worker's own copy of a dense table, on which it takes steps of its own, and pushes what came of them as a gradient every so often: DiLoCo
 * (arXiv 2311.08105), its asynchronous form (arXiv 2401.09135), and, with fragments, overlap and merge, its streaming one (arXiv 2501.18512).
 *
 * A round is H batches of a work unit, the last one shorter where the unit ends; H comes with the lease (weir_unit.local_steps). The table is cut into fragments,
 * runs of its chunks. Fragment f of P is pushed by the round's batch number (f + 1) H / P, and all are by the unit's last: delta = global - own, where global is what the
 * fragment was at the servers when it was last pulled. It is pulled again once that push is acknowledged, and taken in `overlap` batches after it:
 * own = merge * pulled + (1 - merge) * own. A unit begins with everything pulled: nothing of one reaches into the next but the inner optimizer's moments.
 *
 * All of it is where the worker computes: a device gets what was pulled, and gives what is pushed.
 *
 * Pulls and pushes of a round name the batch that pushes next: synchronous rounds are steps whose members are such batches. */
#ifndef WEIR_TRAIN_LOCAL_H
#define WEIR_TRAIN_LOCAL_H

#include "kernels/backend.h"
#include "weir/weir.h"

struct local;

struct local_options {
	uint64_t elements;
	const weir_optimizer *inner;
	const weir_init_segment *segments; /* (segments_count) which elements its weight decay leaves out */
	uint32_t segments_count;
	uint32_t fragments, overlap;
	float merge;
};

/* Takes 8 bytes of the backend's memory for each element, and the inner optimizer's slots; and 4 of the host's. E_INVALID: there are fewer chunks than fragments;
 * E_MEMORY. */
weir_status local_create(struct local **out, struct backend *b, const struct local_options *options, weir_error *err);
void local_destroy(struct local *l);
/* As it was created: what is under way has been dropped with all else. Waits for pulls. */
void local_forget(struct local *l, weir_client *client);

/* A batch in hand. `sequence` counts the worker's pushes from 1, this one's will be it. */
struct local_batch {
	weir_client *client;
	uint32_t table;
	const weir_unit *unit;
	uint32_t batch, batches;
	uint64_t sequence;
};

/* The push that must be acknowledged before local_begin; 0: none. */
uint64_t local_waits_for(const struct local *l, const struct local_batch *b);
/* Pushes up to this one are acknowledged: what they brought is pulled. */
weir_status local_acknowledged(struct local *l, const struct local_batch *b, uint64_t sequence, weir_error *err);
/* Before the batch is computed: takes in what is due. */
weir_status local_begin(struct local *l, const struct local_batch *b, weir_error *err);
/* What the model reads: (elements), the backend's memory, the same throughout. */
const float *local_parameters(const struct local *l);
/* A step of its own. rate_step: where the inner optimizer's schedule is. grad (elements), the backend's memory, becomes the deltas of the chunks that this batch
 * pushes: (*count) of them, rising, by number, borrowed; 0: nothing of this table. */
void local_step(struct local *l, const struct local_batch *b, uint64_t rate_step, float *grad, const uint64_t **chunks,
                size_t *count);

#endif
