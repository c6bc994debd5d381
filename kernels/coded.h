/* The chunks of a push that a device has coded, on their way to the host: a launch codes a run of chunks, and of its output come the bytes that are used. */
#ifndef WEIR_CODED_H
#define WEIR_CODED_H

#include "kernels/backend.h"
#include "weir/table.h"

#define CODED_RUN_CHUNKS 1024u /* of one launch, at most: 64 Mi elements */

struct coded;

/* chunks: of the table. NULL: E_MEMORY. */
struct coded *coded_create(struct backend *b, uint64_t chunks, weir_error *err);
void coded_destroy(struct coded *k); /* NULL: nothing */

/* Another push: what the last one has coded is no longer there. */
void coded_begin(struct coded *k);
/* Codes the run of chunks that begins with `first`: row->n elements, or n; as the ops do. Its bytes are on the host after the backend's next sync. *selected grows by how
 * many reach the threshold. */
weir_status coded_topk(struct coded *k, uint64_t first, const struct topk_row *row, float threshold, weir_values values,
                       uint64_t *selected, weir_error *err);
weir_status coded_fixed(struct coded *k, uint64_t first, const struct coding *coding, const float *in, float *residual, size_t n,
                        weir_error *err);
/* The bytes of a chunk that was coded. */
const uint8_t *coded_chunk(const struct coded *k, uint64_t chunk, size_t *bytes);

#endif
