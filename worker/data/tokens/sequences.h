/* Reads token files as training data for transformers: sequences of `length` tokens, with the next
 * token of each.
 *
 * A split cuts a document into blocks of SEQUENCE_BLOCK_TOKENS, of which the last one may be
 * shorter. The CRC-32 of a block's tokens, as 32-bit words, decides its part, as that of a line
 * does (line_split.h). A short document is one block. No part reads the tokens of another.
 *
 * Packed, the tokens of the part form one stretch, and sequence i is its tokens i * length to (i +
 * 1) * length. Apart, each document is its own stretch, or each run of consecutive blocks of a
 * split document; no sequence has tokens of two stretches. Token 0 fills the rest after the last
 * token of a stretch.
 *
 * Fill, and tokens that do not count in the loss, are not targets: their place has TARGET_NONE
 * (backend.h). Every other token is the target of the token before it, except the first of a
 * stretch. */
#ifndef WEIR_SEQUENCES_H
#define WEIR_SEQUENCES_H

#include <stdbool.h>

#include "worker/data/format/line_split.h"
#include "worker/data/tokens/token_file.h"

#define SEQUENCE_BLOCK_TOKENS 4096u

struct sequences_options {
	struct token_file *const *files; /* (files_count); must outlive the sequences */
	uint32_t files_count;
	uint32_t length;
	bool apart;
	struct split split;
	enum split_part part;
};

struct sequences;
/* E_CORRUPT names the file. E_LIMIT: more sequences than SPREAD_MAX. */
weir_status sequences_open(struct sequences **out, const struct sequences_options *o, weir_error *err);
uint64_t sequences_count(const struct sequences *s);
/* Maps i to another order (shuffle_order.h), in which any stretch samples the whole part. */
uint64_t sequences_spread(const struct sequences *s, uint64_t i);
/* Reads sequence i: its tokens (length) and their targets (length). Adds to *counted the targets
 * that are not TARGET_NONE. Thread-safe. */
weir_status sequences_read(const struct sequences *s, uint64_t i, uint32_t *tokens, uint32_t *targets, uint64_t *counted,
                           weir_error *err);
void sequences_close(struct sequences *s); /* NULL is allowed */

#endif
