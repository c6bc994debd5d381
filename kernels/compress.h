/* A worker's state for a dense table between pushes, so that the loss of a lossy codec is not lost
 * for good: the residual (error feedback), top-k's threshold and velocity, and the code book fitted
 * to the gradients. Used as a weir_encoder.
 *
 * It works through a backend's ops, in the backend's memory, beside the gradients. In ordinary
 * memory, a chunk is coded on request, directly into the send buffer. On a device, the chunks of a
 * push are coded when the push begins, one launch for each run of chunks, and only the coded bytes
 * come to the host. Every backend gives the same bytes, as its ops give the same results, except
 * with `clip`: its norm may round differently. */
#ifndef WEIR_COMPRESS_H
#define WEIR_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/backend.h"
#include "weir/encoder.h"
#include "weir/table.h"

struct compressor;

/* Whether pushes to the table need a compressor: dense tables, unless the codec never has feedback.
 * Rows of embeddings are coded on their own. */
bool compressor_is_needed(const weir_table_spec *spec);
/* Borrows the backend; use it on the backend's thread. NULL: E_MEMORY. Takes 4 bytes per element
 * with feedback, 8 with momentum; on a device about 2 more, and pinned memory for the coded
 * push. */
struct compressor *compressor_create(struct backend *b, const weir_table_spec *spec, weir_error *err);
void compressor_destroy(struct compressor *c); /* NULL is allowed */
/* The compressor's calls; valid while the compressor lives. */
weir_encoder compressor_encoder(struct compressor *c);

/* The most bytes that a chunk of n elements can take. */
size_t compressor_chunk_max(const weir_compression *spec, size_t n);

#endif
