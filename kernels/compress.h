/* What a worker keeps of a dense table from push to push, so that what a lossy codec leaves out is not lost: the residual (error feedback), top-k's threshold and
 * velocity, the code book that is fitted to the gradients. It is used as a weir_encoder.
 *
 * All of it is over a backend's ops, in the backend's memory, where the gradients are too. In ordinary memory a chunk is coded when it is asked for, straight to where it
 * is sent from. On a device the chunks of a push are coded when it begins, a run of them by one launch, and the coded bytes alone come to the host. The bytes are the same on
 * every backend, as ops' results are; but for `clip`, whose norm may round differently. */
#ifndef WEIR_COMPRESS_H
#define WEIR_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/backend.h"
#include "weir/encoder.h"
#include "weir/table.h"

struct compressor;

/* Whether pushes to the table need one: all but fp32, bf16, and rows of embeddings, which are coded on their own. */
bool compressor_is_needed(const weir_table_spec *spec);
/* Borrows the backend, and is used on its thread. NULL: E_MEMORY. Takes 4 bytes for each element where there is feedback, with momentum 8; on a device about 2 more, and
 * pinned memory for what a push comes to. */
struct compressor *compressor_create(struct backend *b, const weir_table_spec *spec, weir_error *err);
void compressor_destroy(struct compressor *c); /* NULL: nothing */
/* Its calls; valid while it lives. */
weir_encoder compressor_encoder(struct compressor *c);

/* The most bytes that a chunk of n elements can take. */
size_t compressor_chunk_max(const weir_compression *spec, size_t n);

#endif
