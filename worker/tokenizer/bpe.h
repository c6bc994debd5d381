/* Byte pair encoding (Sennrich, Haddow and Birch 2016), with the results of Hugging Face's BPE
 * model: it repeatedly merges the neighbours in a word that have the lowest rank, leftmost first,
 * until no pair can merge.
 *
 * A word starts as the tokens of its characters. A byte-level model has a token for each byte: its
 * characters are the 256 that stand for bytes (GPT-2's table), and words are passed here as the
 * bytes themselves. Other models use the token of a character, or else the tokens of its bytes
 * (<0x0A>: byte_fallback), or else the unknown token, which neighbours may share (fuse_unk).
 * Without an unknown token, the character is dropped.
 *
 * A cache keeps words of at most BPE_KEPT_BYTES bytes and BPE_KEPT_TOKENS tokens, one cache line
 * each; newer words replace older ones. */
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
	uint32_t *ids; /* (count); the owner frees it */
	size_t count, capacity;
};
bool token_list_reserve(struct token_list *l, size_t more); /* false when out of memory */

/* The initial tokens of a character. */
struct bpe_start {
	enum { START_NOTHING, START_TOKENS, START_BYTES, START_UNKNOWN } kind;
	uint32_t count;
	uint32_t ids[UTF8_CHARACTER_MAX];
};

struct bpe_merge {
	uint64_t pair; /* left << 32 | right; BPE_FREE: an unused slot */
	uint32_t rank, id;
};
#define BPE_FREE UINT64_MAX

struct bpe {
	struct bpe_merge *merges; /* (merges_slots), by hash of the pair */
	uint32_t merges_slots;    /* a power of two, at least twice the merges */
	uint32_t *by_rank;        /* [rank]: the token that the merge of this rank yields */
	uint32_t merges_count;
	const struct string_table *vocabulary; /* borrowed */
	/* byte-level models with ignore_merges: tokens as bytes */
	struct string_table words;
	struct bpe_start starts[256]; /* byte-level: by byte; otherwise: by ASCII character */
	bool byte_level, byte_fallback, fuse_unk, ignore_merges;
	/* no token has a "▁" after another character: a word ends before each "▁" */
	bool cuts_at_spaces;
	char *unk;       /* content of the unknown token, for errors; NULL: none */
	uint32_t unk_id; /* STRING_NONE: not in the vocabulary */
};

/* model: the JSON object. The vocabulary already contains its tokens, and must outlive the bpe. */
weir_status bpe_read(struct bpe *b, const struct json_value *model, const struct string_table *vocabulary, bool byte_level,
                     weir_error *err);
void bpe_destroy(struct bpe *b);

/* Converts the characters of a byte-level token to the bytes that they stand for. False: a
 * character stands for no byte. *n is at most `bytes`. */
bool bpe_bytes_of(const char *content, size_t bytes, char *out, size_t *n);

/* A thread's cache of words, and working memory. */
struct bpe_scratch;
struct bpe_scratch *bpe_scratch_create(void);    /* NULL when out of memory */
void bpe_scratch_destroy(struct bpe_scratch *s); /* NULL is allowed */

/* Appends a word's tokens. The word is any bytes for a byte-level model, and valid UTF-8
 * otherwise. */
weir_status bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t bytes, struct token_list *out,
                       weir_error *err);

#endif
