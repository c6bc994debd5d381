/* Index arrays in backend memory: which rows an op takes. They grow with the largest batch, as
 * scratch.h's buffers do. */
#ifndef WEIR_INDEX_ARRAY_H
#define WEIR_INDEX_ARRAY_H

#include "kernels/backend.h"

/* Replaces *buffer by a copy of host (n). E_MEMORY leaves it NULL. */
weir_status index_array_put(struct backend *b, uint32_t **buffer, const uint32_t *host, size_t n);
/* The same with element i = i / by * times. */
weir_status index_array_steps(struct backend *b, uint32_t **buffer, size_t n, uint32_t by, uint32_t times);

#endif
