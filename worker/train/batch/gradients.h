/* How a batch's gradients leave the worker: what weir_push is given of each table. In ordinary memory they are given as they are. On a device what can be coded is coded
 * there, and the host gets no more than is sent: rows of embeddings, and bf16, as coded bytes; fp32, and rows that wait for their turn (push.rows), as values; and of dense
 * tables whose codec leaves something out nothing: an encoder codes them on the device when they are pushed (kernels/compress.h). */
#ifndef WEIR_TRAIN_GRADIENTS_H
#define WEIR_TRAIN_GRADIENTS_H

#include "worker/train/batch/batch_pipeline.h"
#include "worker/train/batch/minibatch.h"

struct gradients;

/* Borrows both. E_MEMORY. */
weir_status gradients_create(struct gradients **out, struct backend *b, const struct model *model, weir_error *err);
void gradients_destroy(struct gradients *g); /* NULL: nothing */
/* (MODEL_TABLES) whose gradients a minibatch needs room for. */
const bool *gradients_come_back(const struct gradients *g);
/* A client has just registered the tables, under these ids: it gets the encoders, which forget what they held for another one. */
weir_status gradients_register(struct gradients *g, weir_client *client, const uint32_t ids[MODEL_TABLES], weir_error *err);

/* items (count): a batch's, as tables_push_items fills them in, and staging has just trained it. They get what weir_push is to read, in the minibatch's memory or, for an
 * encoder, in staging's. A gradient that is not finite comes as values, for weir_push to refuse. What has failed on the device. */
weir_status gradients_bring_back(struct gradients *g, const struct staging *s, const struct minibatch *m, weir_push_item *items,
                                 size_t count, weir_error *err);

#endif
