/* Shared by bpe_read.c, which builds the tables, and bpe.c, which encodes with them. */
#ifndef WEIR_BPE_INTERNAL_H
#define WEIR_BPE_INTERNAL_H

#include "common/base/hash.h"
#include "worker/tokenizer/bpe.h"

void bpe_start_of(const struct bpe *b, const char *character, size_t bytes, struct bpe_start *start);

/* The merge of two neighbours; NULL: they do not merge. */
static inline const struct bpe_merge *bpe_find_merge(const struct bpe *b, uint32_t left, uint32_t right)
{
	const uint64_t pair = (uint64_t)left << 32 | right;
	for (uint32_t slot = (uint32_t)hash_u64(pair) & (b->merges_slots - 1);; slot = (slot + 1) & (b->merges_slots - 1)) {
		if (b->merges[slot].pair == pair)
			return &b->merges[slot];
		if (b->merges[slot].pair == BPE_FREE)
			return NULL;
	}
}

#endif
