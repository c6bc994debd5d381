/* How a batch's gradients leave the worker: the form in which weir_push gets each table's. From
 * ordinary memory they are passed as they are. A device codes whatever it can, and the host gets
 * only the bytes to send. Rows of embeddings, and bf16, come as coded bytes. fp32, and rows that
 * wait for their turn (push.rows), come as values. For dense tables with a lossy codec nothing
 * comes: an encoder codes them on the device when they are pushed (kernels/compress.h). */
#ifndef WEIR_GRADIENTS_H
#define WEIR_GRADIENTS_H

#include "worker/train/batch/batch_pipeline.h"
#include "worker/train/batch/minibatch.h"

struct gradients;

/* Borrows both. E_MEMORY. */
weir_status gradients_create(struct gradients **out, struct backend *b, const struct model *model, weir_error *err);
void gradients_destroy(struct gradients *g); /* NULL: no effect */
/* (MODEL_TABLES) the tables whose gradients need room in a minibatch. */
const bool *gradients_come_back(const struct gradients *g);
/* Call when a client has just registered the tables, under these ids. It gives the client the
 * encoders, which forget what they held for an earlier client. */
weir_status gradients_register(struct gradients *g, weir_client *client, const uint32_t ids[MODEL_TABLES], weir_error *err);

/* items (count): those of the batch that the batch pipeline has just trained, as tables_push_items
 * fills them in. Points them at weir_push's input, in the minibatch's memory or, for an encoder, in
 * the pipeline's. A gradient that is not finite comes as values, for weir_push to refuse. Returns a
 * failure of the device. */
weir_status gradients_bring_back(struct gradients *g, const struct batch_pipeline *s, const struct minibatch *m,
                                 weir_push_item *items, size_t count, weir_error *err);

#endif
