/* Text as tokens, and its examples: every token that has `context` others before it, with those.
 *
 * A byte is a token. Where the data are split, a file is cut into blocks of CORPUS_BLOCK_BYTES, the last one shorter, and the CRC-32 of a block's bytes decides its
 * part as that of a line does (split.h). Blocks of one part that follow one another are a span; without a split a file is one. An example lies inside
 * a span: what one part predicts, no other one reads. The first `context` tokens of a span are not predicted.
 *
 * Models that predict after every token have sequences.h. */
#ifndef WEIR_CORPUS_H
#define WEIR_CORPUS_H

#include <stdint.h>

#include "weir/status.h"
#include "worker/data/format/line_split.h"
#include "worker/data/format/sources.h"

#define CORPUS_BLOCK_BYTES 4096u

struct corpus;
/* Reads the part into memory. Errors name the file; E_LIMIT beyond WEIR_TEXT_BYTES_MAX. */
weir_status corpus_open(struct corpus **out, const struct sources *sources, uint32_t context, const struct split *split,
                        enum split_part part, weir_error *err);
uint64_t corpus_examples(const struct corpus *c);
/* Another order (spread.h), any stretch of which is from the whole text. */
uint64_t corpus_spread(const struct corpus *c, uint64_t i);
/* Example i in the order of the files: its context (context), and what follows. Thread-safe. */
void corpus_read(const struct corpus *c, uint64_t i, uint32_t *context, uint32_t *target);
void corpus_close(struct corpus *c); /* NULL is allowed */

#endif
