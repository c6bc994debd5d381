/* The dense table of a synchronous job on its way by layers (worker/model/layer_flow.h): pulls in
 * the order of the forward pass, pushes in that of the backward pass, both while the batch
 * computes. The same values arrive and the same parts leave as when it travels whole, so results
 * are the same to the bit.
 *
 * What a server or the wire has queued is sent in the order in which it was asked for, and that is
 * the order in which it is needed: rows of embeddings first, then the layers. Nothing that waits is
 * larger than a message, so a small urgent one is not behind a large one. Priorities among what
 * waits (Jayarajan et al. 2019, P3; Peng et al. 2019, ByteScheduler) would change nothing: a step's
 * pulls begin after its predecessor's pushes have ended.
 *
 * Pushes wait for the whole gradient where something needs all of it: layers_begin without a push.
 * A thread of its own plans a push, codes and sends, so that the trainer's computes on. One batch
 * at a time. */
#ifndef WEIR_TRAIN_LAYERS_H
#define WEIR_TRAIN_LAYERS_H

#include <stdbool.h>

#include "weir/weir.h"
#include "worker/model/model.h"

struct layers;

/* E_MEMORY. elements: of the dense table. */
weir_status layers_create(struct layers **out, uint64_t elements, weir_error *err);
/* layers_drop first, if a batch is under way. */
void layers_destroy(struct layers *l);

/* --- Pulls. `first` chunks of the table are the first layer's; the caller pulls them, together
 * with what else the batch needs. */
const uint64_t *layers_first(const struct layers *l, size_t *count);
/* Starts the pulls of the others into values (elements). */
weir_status layers_pull(struct layers *l, weir_client *client, const weir_batch *batch, uint32_t table, float *values,
                        weir_error *err);

/* --- Computing */

/* The push of the batch. Its memory stays until layers_finish, that of the items' keys and values
 * until the ticket is waited for. */
struct layers_push {
	weir_batch batch;
	weir_push_item items[MODEL_TABLES]; /* (count) */
	size_t count, layered;              /* layered: the dense table's */
	weir_push_options options;
	const double *loss; /* known when the backward pass begins; not finite: the push waits */
};
/* What the model follows until layers_finish. push NULL: the caller pushes the whole gradient. */
const struct layer_flow *layers_begin(struct layers *l, const struct layers_push *push);
/* After the batch has computed: returns failures of pulls. */
weir_status layers_computed(struct layers *l, weir_error *err);
/* Sends the rest of the push. *begun: whether there is one, else the caller pushes. The ticket is
 * to be waited for if it is not 0. E_NOT_FINITE: see push_stream_close. */
weir_status layers_finish(struct layers *l, bool *begun, weir_ticket *ticket, weir_error *err);
/* The batch under way is given up. Waits for everything of it, or only until nothing more is
 * sent. */
void layers_drop(struct layers *l, bool wait);

#endif
