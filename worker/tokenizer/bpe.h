/* Byte pair encoding (Sennrich, Haddow and Birch 2016) as Hugging Face's BPE model does it: of all neighbours in a word that may be merged, those of the least rank are,
 * leftmost first, until none are left.
 *
 * A word begins as the tokens of its characters. Byte-level models have a token for each byte: their characters are the 256 that stand for bytes
 * (GPT-2's table), and words come here as the bytes themselves. Others take a character's own token, or else those of its bytes (<0x0A>: byte_fallback), or else
 * the unknown one, which neighbours may share (fuse_unk); where there is none, the character is left out.
 *
 * Words of at most BPE_KEPT_BYTES bytes and BPE_KEPT_TOKENS tokens are remembered in a table of one cache line each, where newer ones replace older ones. */
#ifndef WEIR_BPE_H
#define WEIR_BPE_H

#include <stdbool.h>

#include "common/web/json.h"
#include "weir/status.h"
#include "worker/tokenizer/string_table.h"
#include "worker/tokenizer/utf8.h"

#define BPE_MERGES_MAX     (1u << 23)
#define BPE_WORD_BYTES_MAX (1u << 25)
#define BPE_KEPT_BYTES     27u
#define BPE_KEPT_TOKENS    8u
#define BPE_KEPT_WORDS     (1u << 16) /* a power of two */

struct token_list {
	uint32_t *ids; /* (count); owner frees */
	size_t count, capacity;
};
bool token_list_reserve(struct token_list *l, size_t more); /* false when out of memory */

/* The tokens that a character begins as. */
struct bpe_start {
	enum { START_NOTHING, START_TOKENS, START_BYTES, START_UNKNOWN } kind;
	uint32_t count;
	uint32_t ids[UTF8_CHARACTER_MAX];
};

struct bpe_merge {
	uint64_t pair; /* left << 32 | right; BPE_FREE: a free slot */
	uint32_t rank, id;
};
#define BPE_FREE UINT64_MAX

struct bpe {
	struct bpe_merge *merges; /* (merges_slots), by hash of the pair */
	uint32_t merges_slots;    /* a power of two, at least twice the merges */
	uint32_t *by_rank;        /* what the merge of a rank gives */
	uint32_t merges_count;
	const struct string_table *vocabulary; /* borrowed */
	struct string_table words;             /* ignore_merges of byte-level models: tokens as bytes */
	struct bpe_start starts[256];          /* of a byte; else of an ASCII character */
	bool byte_level, byte_fallback, fuse_unk, ignore_merges;
	bool cuts_at_spaces; /* no token has a "▁" behind another character: words end before each */
	char *unk;           /* its content, for errors; NULL: none */
	uint32_t unk_id;     /* STRING_NONE: it is not in the vocabulary */
};

/* model: the object; the vocabulary holds its tokens already, and outlives the bpe. */
weir_status bpe_read(struct bpe *b, const struct json_value *model, const struct string_table *vocabulary, bool byte_level,
                     weir_error *err);
void bpe_free(struct bpe *b);

/* A byte-level token's bytes, for which its characters stand. False: some character stands for none. *n: at most `bytes`. */
bool bpe_bytes_of(const char *content, size_t bytes, char *out, size_t *n);

/* A thread's memory of words, and room to work. */
struct bpe_scratch;
struct bpe_scratch *bpe_scratch_create(void); /* NULL when out of memory */
void bpe_scratch_free(struct bpe_scratch *s); /* NULL is allowed */

/* Appends a word's tokens. The word is bytes of any kind where the model is byte-level, and else valid UTF-8. */
weir_status bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t bytes, struct token_list *out,
                       weir_error *err);

#endif
