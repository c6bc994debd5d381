/* Chunks of a push that a device has coded, on their way to the host. One launch codes a run of
 * chunks; only the used bytes of its output come to the host. */
#ifndef WEIR_CODED_H
#define WEIR_CODED_H

#include "kernels/backend.h"
#include "weir/table.h"

#define CODED_RUN_CHUNKS 1024u /* of one launch, at most: 64 Mi elements */

struct coded;

/* chunks: those of the table. NULL: E_MEMORY. */
struct coded *coded_create(struct backend *b, uint64_t chunks, weir_error *err);
void coded_destroy(struct coded *k); /* NULL is allowed */

/* Begins another push and discards the coded chunks of the last one. */
void coded_begin(struct coded *k);
/* Codes the run of chunks that begins with `first`, row->n or n elements, as the ops do. The bytes
 * are on the host after the backend's next sync. *selected grows by the number of elements that
 * reach the threshold. */
weir_status coded_topk(struct coded *k, uint64_t first, const struct topk_row *row, float threshold, weir_values values,
                       uint64_t *selected, weir_error *err);
weir_status coded_fixed(struct coded *k, uint64_t first, const struct coding *coding, const float *in, float *residual, size_t n,
                        weir_error *err);
/* The bytes of a coded chunk. */
const uint8_t *coded_chunk(const struct coded *k, uint64_t chunk, size_t *bytes);

#endif
