/* Inside of a tokenizer, shared by tokenizer.c (open, close), tokenizer_read.c (a tokenizer.json), encoder.c and decoder.c. */
#ifndef WEIR_TOKENIZER_INTERNAL_H
#define WEIR_TOKENIZER_INTERNAL_H

#include "added.h"
#include "bpe.h"
#include "normalizer.h"
#include "pre_tokenizer.h"
#include "string_table.h"
#include "tokenizer.h"

/* What the post-processor puts on one side. */
struct affix {
	uint32_t ids[TOKENIZER_AFFIX_MAX];
	uint32_t count;
};

/* How tokens become text. Nearly all of it is done when the file is read: a table has each token's bytes. */
struct decoding {
	struct buffer block;         /* what the tokens add, one behind the other */
	struct string_place *tokens; /* (ids), by id; at STRING_NONE: no token */
	uint32_t ids;
	uint32_t longest;                     /* of what a token adds, or of its content: bytes */
	bool *special;                        /* (ids) */
	bool spaces_between;                  /* no decoder: tokens are words */
	char first_drops[UTF8_CHARACTER_MAX]; /* Metaspace: the first token loses this character, (first_drops_bytes) */
	uint32_t first_drops_bytes;
	char strips[UTF8_CHARACTER_MAX]; /* (strips_bytes): the text loses up to strips_count of it at its beginning */
	uint32_t strips_bytes;
	uint64_t strips_count;
};

struct tokenizer {
	struct tokenizer_info info; /* where `bytes` is set nothing of what follows is used */
	struct string_table model;  /* the model's vocabulary */
	struct string_table others; /* added tokens that are not in it */
	struct added_set raw, normalized;
	struct normalizer normalizer;
	struct pre_tokenizer pre;
	struct bpe bpe;
	struct affix before, behind;
	struct decoding decoding;
};

/* Fills a zeroed tokenizer from a tokenizer.json; after a failure it is to be closed. */
weir_status tokenizer_read(struct tokenizer *t, const struct json_value *root, const char *name, weir_error *err);
/* v: the decoder, or null. After the vocabulary and the added tokens. */
weir_status decoding_read(struct tokenizer *t, const struct json_value *v, weir_error *err);
void decoding_free(struct decoding *d);

/* The content of a token, the model's or an added one; NULL: the id has none. */
const char *tokenizer_content(const struct tokenizer *t, uint32_t id, size_t *bytes);

#endif
