/* Reads text as tokens and makes examples: every token that has `context` tokens before it,
 * together with these.
 *
 * Each byte is a token. A split cuts a file into blocks of CORPUS_BLOCK_BYTES, of which the last
 * one may be shorter. The CRC-32 of a block's bytes decides its part, as that of a line does
 * (line_split.h). A span is a run of consecutive blocks of one part, or a whole file without a
 * split. An example lies inside a span, so that no part reads what another predicts. The first
 * `context` tokens of a span are not predicted.
 *
 * Models that predict after every token use sequences.h. */
#ifndef WEIR_CORPUS_H
#define WEIR_CORPUS_H

#include <stdint.h>

#include "weir/status.h"
#include "worker/data/format/line_split.h"
#include "worker/data/format/sources.h"

#define CORPUS_BLOCK_BYTES 4096u

struct corpus;
/* Reads the part into memory. Errors name the file. E_LIMIT: beyond WEIR_TEXT_BYTES_MAX. */
weir_status corpus_open(struct corpus **out, const struct sources *sources, uint32_t context, const struct split *split,
                        enum split_part part, weir_error *err);
uint64_t corpus_examples(const struct corpus *c);
/* Maps i to another order (shuffle_order.h), in which any stretch samples the whole text. */
uint64_t corpus_spread(const struct corpus *c, uint64_t i);
/* Reads example i in the order of the files: its context (context) and the next token.
 * Thread-safe. */
void corpus_read(const struct corpus *c, uint64_t i, uint32_t *context, uint32_t *target);
void corpus_close(struct corpus *c); /* NULL is allowed */

#endif
