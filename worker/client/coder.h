/* Codes the pushes of a dense table: with an encoder that the trainer brings, or with libweir's
 * own, in ordinary memory. */
#ifndef WEIR_CODER_H
#define WEIR_CODER_H

#include "kernels/compress.h"
#include "weir/encoder.h"
#include "weir/status.h"
#include "weir/table.h"

struct coder {
	weir_encoder encoder;
	struct compressor *own; /* NULL: the encoder is the trainer's */
};

/* libweir's own. NULL: E_MEMORY. */
struct coder *coder_create(const weir_table_spec *spec, weir_error *err);
/* The trainer's. NULL: E_INVALID, where a call is missing, or E_MEMORY. */
struct coder *coder_of(const weir_encoder *encoder, const weir_table_spec *spec, weir_error *err);
void coder_destroy(struct coder *c); /* NULL: no effect */

/* The bytes before a section's first chunk, and their size: a code book. */
#define CODER_HEAD_MAX (CODEC_BOOK * sizeof(float))
size_t coder_head(const weir_encoder *encoder, const weir_compression *spec, uint8_t *out);
uint64_t coder_aux(const weir_compression *spec); /* for a section's header */

#endif
