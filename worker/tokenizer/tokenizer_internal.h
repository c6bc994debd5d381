/* Inside of a tokenizer, shared by tokenizer.c (open, close), tokenizer_read.c (a tokenizer.json), encoder.c and decoder.c. */
#ifndef WEIR_TOKENIZER_INTERNAL_H
#define WEIR_TOKENIZER_INTERNAL_H

#include "worker/tokenizer/added.h"
#include "worker/tokenizer/bpe.h"
#include "worker/tokenizer/normalizer.h"
#include "worker/tokenizer/pre_tokenizer.h"
#include "worker/tokenizer/string_table.h"
#include "worker/tokenizer/tokenizer.h"

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
	struct string_table added;  /* all added tokens, as they are written */
	bool moved;                 /* ids or properties are not those that tokenizer.json alone gives, or says */
	struct added_set raw, normalized;
	struct normalizer normalizer;
	struct pre_tokenizer pre;
	struct bpe bpe;
	struct affix before, behind;
	struct decoding decoding;
};

/* What a folder says of tokens beside tokenizer.json; each NULL where there is no such file. */
struct tokenizer_beside {
	struct json *config; /* tokenizer_config.json */
	struct json *map;    /* special_tokens_map.json, which counts where the config has no added_tokens_decoder; likewise: */
	struct json *added;  /* added_tokens.json */
};
/* The text of one of them; *text NULL where there is none. */
weir_status tokenizer_beside_text(const char *folder, const char *name, size_t bytes_max, char path[WEIR_PATH_BYTES_MAX],
                                  char **text, size_t *bytes, weir_error *err);
weir_status tokenizer_beside_read(struct tokenizer_beside *b, const char *folder, weir_error *err);
void tokenizer_beside_free(struct tokenizer_beside *b);
/* "bos_token" or the like; NULL: there is none. */
const char *tokenizer_beside_token(const struct tokenizer_beside *b, const char *key);
/* E_UNSUPPORTED names a key of tokenizer_config.json by which transformers makes other ids than
 * tokenizer.json says. t has its normalizer and its pre-tokenizer. */
weir_status tokenizer_beside_check(const struct tokenizer *t, const struct tokenizer_beside *b, weir_error *err);
/* Adds the tokens that tokenizer.json, root, does not have, in the order in which transformers
 * does. */
weir_status tokenizer_beside_add(struct tokenizer *t, const struct tokenizer_beside *b, const struct json_value *root,
                                 weir_error *err);

/* Fills a zeroed tokenizer from a tokenizer.json; after a failure it is to be closed. beside:
 * may be NULL. */
weir_status tokenizer_read(struct tokenizer *t, const struct json_value *root, const struct tokenizer_beside *beside,
                           const char *name, weir_error *err);
/* Adds a token where there is none of this content. how: an object with its properties; NULL:
 * there are none. special: where the object does not say. */
weir_status tokenizer_add(struct tokenizer *t, const char *content, size_t bytes, const struct json_value *how, bool special,
                          weir_error *err);
/* The same; where there is one it has these properties from now on. special: it is so in any
 * case. */
weir_status tokenizer_change(struct tokenizer *t, const char *content, size_t bytes, const struct json_value *how, bool special,
                             weir_error *err);
/* v: the decoder, or null. After the vocabulary and the added tokens. */
weir_status decoding_read(struct tokenizer *t, const struct json_value *v, weir_error *err);
void decoding_free(struct decoding *d);

/* The content of a token, the model's or an added one; NULL: the id has none. */
const char *tokenizer_content(const struct tokenizer *t, uint32_t id, size_t *bytes);

#endif
