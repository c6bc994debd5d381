/* What a worker keeps of a dense table from push to push, so that what a lossy codec leaves out is not lost: the residual (error feedback), top-k's threshold and
 * velocity, the code book that is fitted to the gradients.
 *
 * A push is begun, its chunks are coded in any order, each at most once, and it is ended. A chunk that is not coded, since the servers have its part already,
 * takes no part: its gradient does not enter the residual. What was coded is not coded again: a push that is repeated is the same bytes. */
#ifndef WEIR_COMPRESS_H
#define WEIR_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "weir/table.h"

struct compressor;

/* Whether pushes to the table need one: all but fp32, bf16, and rows of embeddings, which are coded on their own. */
bool compressor_is_needed(const weir_table_spec *spec);
/* NULL: E_MEMORY. Takes 4 bytes for each element where there is feedback, with momentum 8. */
struct compressor *compressor_create(const weir_table_spec *spec, weir_error *err);
void compressor_destroy(struct compressor *c);
/* As it was created: this worker was taken for dead, and what it holds does not count. */
void compressor_forget(struct compressor *c);

/* grad (elements), finite, borrowed until the end; wanted (chunks): those that will be coded. E_MEMORY. */
weir_status compressor_begin(struct compressor *c, const float *grad, const bool *wanted, weir_error *err);
void compressor_end(struct compressor *c);
/* What stands in front of a section's first chunk, and is written there: a code book. */
size_t compressor_head(const struct compressor *c, uint8_t *out);
uint64_t compressor_aux(const struct compressor *c); /* of a section's header */
/* Codes a chunk: at most compressor_chunk_max bytes of its n elements; returns how many. */
size_t compressor_chunk(struct compressor *c, uint64_t chunk, uint8_t *out);
size_t compressor_chunk_max(const weir_table_spec *spec, size_t n);
#define COMPRESSOR_HEAD_MAX 64u

/* What is kept back (elements), NULL: there is no feedback; and that chunks of it were sent some other way. */
const float *compressor_residual(const struct compressor *c);
void compressor_take(struct compressor *c, const uint64_t *chunks, size_t count);

struct compression_stats {
	uint64_t pushes, measured; /* the residual is looked at with some of them */
	double residual_norm;      /* as the last of these has left it: what would be lost with this worker */
	double error;     /* 1 - |residual|^2 / |acc|^2 of the last of these: what share of the energy went out; 1: there is none */
	double error_sum; /* of all of these */
};
double compression_energy(const float *x, uint64_t n); /* |x|^2 */
void compressor_get_stats(const struct compressor *c, struct compression_stats *out);

#endif
