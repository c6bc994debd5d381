/* Token files as what a transformer trains on: sequences of `length` tokens and, for each of those, the token that follows it.
 *
 * Where the data are split, a document is cut into blocks of SEQUENCE_BLOCK_TOKENS, the last one shorter, and the CRC-32 of a block's tokens (as 32-bit words)
 * decides its part as that of a line does (split.h); a short document is one block. What one part has, no other one reads.
 *
 * Packed, all that is of the part lies one behind the other, and sequence i is its tokens i * length to (i + 1) * length. Apart, documents (or of a document that is
 * split, its blocks that follow one another) are cut alone: no sequence has tokens of two. What is behind the last token of either is filled with token 0.
 *
 * A token that does not count in the loss, and all that is filling, is no target: there TARGET_NONE stands (backend.h). Every other token is the target of the one
 * before it, but the first of all that lies one behind the other. */
#ifndef WEIR_SEQUENCES_H
#define WEIR_SEQUENCES_H

#include <stdbool.h>

#include "worker/data/format/line_split.h"
#include "worker/data/tokens/token_file.h"

#define SEQUENCE_BLOCK_TOKENS 4096u

struct sequences_options {
	struct token_file *const *files; /* (files_count), which outlive the sequences */
	uint32_t files_count;
	uint32_t length;
	bool apart;
	struct split split;
	enum split_part part;
};

struct sequences;
/* E_CORRUPT names the file; E_LIMIT: more sequences than SPREAD_MAX. */
weir_status sequences_open(struct sequences **out, const struct sequences_options *o, weir_error *err);
uint64_t sequences_count(const struct sequences *s);
/* Another order (spread.h), any stretch of which is from all of the part. */
uint64_t sequences_spread(const struct sequences *s, uint64_t i);
/* Sequence i: its tokens (length), their targets (length). *counted += targets that are not TARGET_NONE. Thread-safe. */
weir_status sequences_read(const struct sequences *s, uint64_t i, uint32_t *tokens, uint32_t *targets, uint64_t *counted,
                           weir_error *err);
void sequences_close(struct sequences *s); /* NULL is allowed */

#endif
